//! Whether two records describe the same entry, so that the receiver can take over what it has.

use crate::snapshot::manifest::{Body, FileBody, Item, Meta};

/// Whether the records differ at most in the device number, in `recheck`, and in how the content came into the tree.
pub(crate) fn is_same(old: &Item, new: &Item) -> bool {
    match (old, new) {
        (Item::Directory(old), Item::Directory(new)) => {
            old.scaffold == new.scaffold && has_same_meta(&old.meta, &new.meta)
        }
        (Item::Entry(old), Item::Entry(new)) => {
            has_same_meta(&old.meta, &new.meta) && has_same_body(&old.body, &new.body)
        }
        _ => false,
    }
}

fn has_same_meta(old: &Meta, new: &Meta) -> bool {
    let plain = |meta: &Meta| Meta { dev: 0, recheck: false, ..meta.clone() };
    // Most records that differ have another time.
    (old.ctime, old.ino) == (new.ctime, new.ino) && plain(old) == plain(new)
}

fn has_same_body(old: &Body, new: &Body) -> bool {
    match (old, new) {
        (Body::File(old), Body::File(new)) => {
            let plain = |file: &FileBody| (file.size, file.holes, file.hash, file.changed);
            // A file that changed while it was read is not trusted to be the same.
            plain(old) == plain(new) && !new.changed
        }
        _ => old == new,
    }
}
