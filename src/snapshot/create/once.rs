//! Each inode of the source is brought in once, whatever number of names it has: the further ones become hard links.

use super::context::Target;
use super::record::Brought;
use super::seen::Seen;
use super::stats::Stats;
use crate::error::Result;
use rustix::fs::AtFlags;

impl Target<'_> {
    /// Brings an entry in with `make`, unless it is a further name of an inode that has been brought in already.
    pub(super) fn once(
        &self,
        seen: &Seen<'_>,
        mut make: impl FnMut() -> Result<Option<Brought>>,
    ) -> Result<Option<Brought>> {
        if seen.status.nlink < 2 {
            return make();
        }
        let links = &self.staged.links;
        let inode = (seen.status.dev, seen.status.ino);
        let failed = |errno| self.cannot_make(seen.name, errno);
        let join = || links.join(inode, self.above, seen.name).map_err(failed);
        let joined = |entry| Brought { entry, cost: Stats::default() };
        if let Some(entry) = join()? {
            return Ok(Some(joined(entry)));
        }
        let Some(brought) = make()? else { return Ok(None) };
        if links.offer(inode, self.above, &self.directory.path, &brought.entry).map_err(failed)? {
            return Ok(Some(brought));
        }
        // Another thread brought it in at the same time and was first.
        rustix::fs::unlinkat(self.above, seen.name, AtFlags::empty()).map_err(failed)?;
        match join()? {
            Some(entry) => Ok(Some(joined(entry))),
            None => make(),
        }
    }
}
