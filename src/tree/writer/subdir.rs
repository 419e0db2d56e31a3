//! Enters a subdirectory of the target: finds or creates it, and opens an existing one. Its final metadata, which may
//! forbid working in it, comes when everything in it is done: `set_metadata`.

use super::{Attempt, Entering, Slot, Target};
use crate::fs::openat;
use crate::fs::status::Status;
use crate::tree::deletion::allow_all;
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::{AsFd as _, OwnedFd};

/// What happens if a directory is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Nothing, because this is a dry run.
    Stays,
    /// It is created.
    Made,
    /// It is created with a mark, by which a later run knows that it still lacks its metadata:
    /// [`is_unfinished`](super::is_unfinished).
    MadeWithMark,
}

impl Missing {
    /// A run creates it, unless it is a dry run.
    pub(crate) fn in_run(is_dry_run: bool) -> Missing {
        if is_dry_run { Missing::Stays } else { Missing::Made }
    }
}

/// What has the name of a wanted directory.
#[derive(Debug)]
pub(crate) enum Subdir {
    /// The directory, which was just created. Only its owner may use it, and it inherits nothing.
    Made(OwnedFd),
    /// Nothing, because this is a dry run.
    Missing,
    /// This entry, whatever its type.
    Exists(Status),
}

impl<T: Target> Slot<'_, '_, T> {
    /// Finds the entry, or creates a directory if there is none. Fails if the entry is wanted under another name.
    /// Without `may_exist`, nothing is there.
    pub(crate) fn find_or_make_dir(&self, may_exist: bool, missing: Missing) -> Attempt<Subdir> {
        let existing = if may_exist { self.look()? } else { None };
        if let Some(existing) = existing {
            return Ok(Subdir::Exists(existing));
        }
        let made = match missing {
            Missing::Stays => return Ok(Subdir::Missing),
            Missing::Made => self.dir().make_subdir(self.name, self.run.creator()),
            Missing::MadeWithMark => self.dir().make_marked_subdir(self.name, self.run.creator()),
        };
        match made {
            Ok(made) => Ok(Subdir::Made(made)),
            // Another run created it meanwhile, or it is the name of another entry.
            Err(Errno::EXIST) => {
                self.refuse_another()?;
                let existing = Status::at(self.above()?, self.name);
                existing.map(Subdir::Exists).map_err(|errno| self.failure("read the status of", errno))
            }
            Err(errno) => Err(self.failure("make the directory", errno)),
        }
    }

    /// Opens an existing directory. If it will get metadata, its entries are protected by the old permissions as well
    /// as by the new ones until then, and one's own directory without permissions for oneself gets them.
    pub(crate) fn open_dir(&self, status: &Status, entering: &Entering<'_>) -> Attempt<OwnedFd> {
        let opens_up = matches!(entering, Entering::ToGive(..));
        let (above, creator) = (self.above()?, self.run.creator());
        let open = || openat::open_subdir(above, self.name);
        let allow = || allow_all(above.as_fd(), &CString::new(self.name).map_err(|_| Errno::INVAL)?);
        let opened = match open() {
            Err(Errno::ACCESS) if opens_up && creator.is_owner(status) => allow().and_then(|()| open()),
            opened => opened,
        };
        let opened = opened.map_err(|errno| self.failure("open the directory", errno))?;
        if opens_up && !creator.is_root() && status.mode & 0o300 != 0o300 {
            // Now only its owner may enter it.
            let _ = allow();
            return Ok(opened);
        }
        // Its own status: another directory may have got the name.
        let narrowed = self.run.narrow(&opened, entering);
        narrowed.map_err(|errno| self.failure("set the metadata of", errno))?;
        Ok(opened)
    }
}
