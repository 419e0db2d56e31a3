//! Whether two snapshots have the same tree. Then the later one needs no walk.

use crate::error::Result;
use crate::snapshot::compare_records::meta;
use crate::snapshot::manifest::{Item, Meta, Reader};
use crate::snapshot::send::is_same;

/// Whether every record of one manifest is in the other.
///
/// # Errors
/// If one is damaged.
pub(super) fn have_same_tree(old: &Reader, new: &Reader) -> Result<bool> {
    let (totals, others) = (old.totals(), new.totals());
    if (totals.entries(), totals.bytes) != (others.entries(), others.bytes) {
        return Ok(false);
    }
    let (mut old, mut new) = (old.items(), new.items());
    loop {
        match (old.next().transpose()?, new.next().transpose()?) {
            (None, None) => return Ok(true),
            (Some(a), Some(b)) if old.directory() == new.directory() && is_unchanged(&a, &b) => {}
            _ => return Ok(false),
        }
    }
}

fn is_unchanged(old: &Item, new: &Item) -> bool {
    let is_named_alike = match (old, new) {
        (Item::Entry(old), Item::Entry(new)) => old.name == new.name,
        (Item::Directory(old), Item::Directory(new)) => old.path == new.path,
        _ => false,
    };
    is_named_alike && (is_way(old, new) || is_same(old, new) && is_certain(old, new))
}

/// Whether both are a directory on the way to a source, with the same owner and mode. Its times are those of entries
/// that are in no snapshot.
fn is_way(old: &Item, new: &Item) -> bool {
    let access = |meta: &Meta| (meta.mode, meta.uid, meta.gid, meta.ino);
    match (old, new) {
        (Item::Directory(old), Item::Directory(new)) => {
            old.scaffold && new.scaffold && access(&old.meta) == access(&new.meta)
        }
        _ => false,
    }
}

/// Whether equal times prove equal content and attributes.
fn is_certain(old: &Item, new: &Item) -> bool {
    let (old_meta, new_meta) = (meta(old), meta(new));
    if !old_meta.recheck && !new_meta.recheck {
        // The device number distinguishes hard links.
        return old_meta.dev == new_meta.dev || old_meta.nlink < 2 || matches!(new, Item::Directory(_));
    }
    false
}
