//! What a clone holds is one moment of its source, whatever is written to that meanwhile: a source that changes need not be
//! read again for its clone to be right.

use super::changed::Changed;
use super::context::Target;
use super::fill::Source;
use super::record::Brought;
use super::seen::Seen;
use crate::content::hash;
use crate::error::Result;
use crate::fs::openat;
use crate::fs::sparse;
use crate::fs::status::Status;
use crate::snapshot::manifest::{Body, Stored};
use rustix::io::Errno;

impl Target<'_> {
    /// Hashes a file that was cloned a moment ago, if it is to be. The source is read, since it may lie in memory; if it
    /// changes meanwhile, the clone is. A clone that was not of one moment with the status that is recorded is withdrawn,
    /// but for the last try: then the status is the older one, so that the next run looks at the file again.
    ///
    /// # Errors
    /// Of reading.
    pub(super) fn settle(
        &self,
        seen: &Seen<'_>,
        source: &Source,
        mut brought: Brought,
        is_last_try: bool,
    ) -> Result<std::result::Result<Changed, Errno>> {
        let is_untouched = || Status::of(&source.fd).is_ok_and(|now| now.is_untouched_since(&source.status));
        let is_hashed = seen.change.is_some() && self.context.hashes();
        if is_untouched() {
            if is_hashed && let Err(errno) = self.hash(source, &mut brought) {
                return Ok(Err(errno));
            }
            if !is_hashed || is_untouched() {
                return Ok(Ok(Changed::Frozen(brought)));
            }
        } else if !is_last_try {
            self.withdraw(seen.name)?;
            return Ok(Ok(Changed::Meanwhile));
        }
        Ok(self.read_clone(seen, &mut brought).map(|()| Changed::Frozen(brought)))
    }

    /// Makes a record of what the clone is, since its source may be another by now.
    fn read_clone(&self, seen: &Seen<'_>, brought: &mut Brought) -> rustix::io::Result<()> {
        let clone = openat::open_file(self.above, seen.name)?;
        let size = Status::of(&clone)?.size;
        let Body::File(file) = &mut brought.entry.body else { return Ok(()) };
        if file.size != size {
            file.size = size;
            file.holes = sparse::holes(&clone, size)?;
            let data = size.saturating_sub(file.holes);
            let cost = &mut brought.cost;
            (cost.bytes, cost.hole_bytes) = (size, file.holes);
            match file.stored {
                Stored::Inline => cost.inline_bytes = data,
                _ => cost.cloned_bytes = data,
            }
        }
        file.hash = None;
        if self.context.hashes() {
            let hashed = hash::file(&clone, size, self.context.monitor)?;
            brought.cost.read_bytes += hashed.read;
            file.hash = hashed.hash;
        }
        Ok(())
    }
}
