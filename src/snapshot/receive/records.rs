//! The records of the snapshot on their way into its manifest: counted, and with the digest that the sender has, too.

use super::tree::cannot_keep;
use crate::error::Result;
use crate::monitor::Monitor;
use crate::snapshot::create::Removal;
use crate::snapshot::manifest::{self, Body, Item, Reader, Totals, Writer};
use crate::snapshot::repository::Staging;
use crate::snapshot::stream::{Digest, RecordDigest, damage};

/// The manifest in the making.
pub(super) struct Records {
    writer: Writer,
    digest: RecordDigest,
    totals: Totals,
}

impl Records {
    pub(super) fn new(writer: Writer) -> Records {
        Records { writer, digest: RecordDigest::default(), totals: Totals::default() }
    }

    /// Adds a record. An entry is in the directory `above`. `is_further`: it is a further name of its inode.
    pub(super) fn add(
        &mut self,
        item: &Item,
        (above, is_further): (&[u8], bool),
        removal: &mut Option<Removal<'_>>,
        monitor: &dyn Monitor,
    ) -> Result<()> {
        self.digest.add(item)?;
        self.count(item, is_further);
        if let (Item::Directory(directory), Some(removal)) = (item, removal) {
            removal.passed(directory);
        }
        let mut shorter = None;
        if has_kept(item) {
            let mut item = item.clone();
            if manifest::shorten(&mut item) {
                monitor.problem(&cannot_keep(above, &item));
            }
            shorter = Some(item);
        }
        self.writer.push(shorter.as_ref().unwrap_or(item))
    }

    /// Ends the manifest, if these are the records that were sent, and checks that it can be read.
    pub(super) fn finish(mut self, sent: &Totals, digest: &Digest, staging: &Staging) -> Result<()> {
        if self.digest.finish() != *digest {
            return Err(damage("the records of the snapshot are not those that were sent"));
        }
        // Only the sender knows these.
        (self.totals.errors, self.totals.written_bytes) = (sent.errors, sent.written_bytes);
        let file = self.writer.finish(&self.totals)?;
        Reader::from_file(file, &staging.manifest).map(|_| ())
    }

    fn count(&mut self, item: &Item, is_further: bool) {
        let totals = &mut self.totals;
        match item {
            Item::Directory(directory) => totals.dirs += u64::from(!directory.scaffold),
            Item::Entry(entry) => match &entry.body {
                Body::File(file) => {
                    totals.files += 1;
                    totals.bytes = totals.bytes.saturating_add(if is_further { 0 } else { file.size });
                }
                Body::Symlink(_) => totals.symlinks += 1,
                Body::Device(..) | Body::Fifo | Body::Socket => totals.others += 1,
            },
        }
    }
}

fn has_kept(item: &Item) -> bool {
    match item {
        Item::Directory(directory) => !directory.meta.kept_xattrs.is_empty(),
        Item::Entry(entry) => !entry.meta.kept_xattrs.is_empty(),
    }
}
