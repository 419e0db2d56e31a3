//! Each inode of the source is brought in once, whatever number of names it has: the further ones become hard links.

use super::context::{Target, is_fatal};
use super::record::Brought;
use super::seen::Seen;
use super::stats::Stats;
use crate::error::Result;
use crate::snapshot::manifest::Entry;
use crate::tree::inode_map::Identity;
use rustix::fs::AtFlags;

impl Target<'_> {
    /// Brings an entry in with `make`, unless it is a further name of an inode that has been brought in already. Where it
    /// cannot be linked it is an inode of its own.
    pub(super) fn once(
        &self,
        seen: &Seen<'_>,
        part: &mut Stats,
        mut make: impl FnMut(&mut Stats) -> Result<Option<Brought>>,
    ) -> Result<Option<Brought>> {
        if seen.status.nlink < 2 {
            return make(part);
        }
        let inode = Identity::of(&seen.status);
        if let Some(entry) = self.join(&inode, seen)? {
            return Ok(Some(Brought { entry, cost: Stats::default() }));
        }
        let Some(brought) = make(part)? else { return Ok(None) };
        match self.staged.links.offer(&inode, self.above, &self.directory.path, &brought.entry) {
            Ok(true) => return Ok(Some(brought)),
            Ok(false) => {}
            Err(errno) if is_fatal(errno) => return Err(self.cannot_make(seen.name, errno)),
            Err(_) => return Ok(Some(brought)),
        }
        // Another thread brought it in at the same time and was first.
        rustix::fs::unlinkat(self.above, seen.name, AtFlags::empty())
            .map_err(|errno| self.cannot_make(seen.name, errno))?;
        match self.join(&inode, seen)? {
            Some(entry) => Ok(Some(Brought { entry, cost: Stats::default() })),
            None => make(part),
        }
    }

    /// Makes the entry a further name of an inode. `None`: there is none, or it cannot have that name, which whoever makes
    /// it by itself meets too and reports.
    fn join(&self, inode: &Identity, seen: &Seen<'_>) -> Result<Option<Entry>> {
        match self.staged.links.join(inode, self.above, seen.name) {
            Err(errno) if is_fatal(errno) => Err(self.cannot_make(seen.name, errno)),
            joined => Ok(joined.unwrap_or(None)),
        }
    }
}
