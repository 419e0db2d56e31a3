//! The files that killed runs had finished, and the list of files that this run finishes. `resumed_file` takes files
//! over.

use super::finished_list::{Finished, Header, List, NewList};
use crate::fs::identity::Identity;
use crate::fs::mount_id::MountId;
use crate::fs::status::Status;
use crate::snapshot::manifest::Time;
use crate::snapshot::repository::{Dir, Leftover, Staging};
use std::os::fd::OwnedFd;

/// How many finished files of all killed runs are remembered at most: 64 MiB.
const MOST: usize = 4 << 20;

/// The finished files of earlier runs, and the list of this run.
#[derive(Debug, Default)]
pub(super) struct Resume {
    pub(super) past: Vec<Past>,
    pub(super) list: Option<NewList>,
}

/// The leftovers of a killed run.
#[derive(Debug)]
pub(super) struct Past {
    pub(super) tree: OwnedFd,
    list: List,
    /// Its lists of hashes of large files.
    pub(super) blocks: Option<Dir>,
    /// Whether this is the same session of the filesystem.
    pub(super) same_session: bool,
}

impl Resume {
    /// Begins the list of a run that began at `created`, after runs with `leftovers`. A run that cannot have a list
    /// cannot be resumed, and has no other disadvantage. After a failed sync the leftovers are not used.
    pub(super) fn begin(staging: &Staging, leftovers: Vec<Leftover>, created: Time) -> Resume {
        let session = MountId::of(&staging.tree);
        let each = MOST / leftovers.len().max(1);
        let past = leftovers.into_iter().filter_map(|leftover| {
            let list = List::open(leftover.finished, each)?;
            let same_session = session.is_some() && list.header.session == session;
            Some(Past { tree: leftover.tree, list, blocks: leftover.blocks, same_session })
        });
        let mut past: Vec<Past> = past.collect();
        // One call syncs all of them, because files are read back one by one.
        if !past.is_empty() && rustix::fs::syncfs(&staging.tree).is_err() {
            past.clear();
        }
        let list = staging.create_finished().ok().map(|file| NewList::begin(file, &Header { session, created }));
        Resume { past, list }
    }

    /// The finished files with a source at this path. A source at another path counts only in the same session of the
    /// filesystem, with the same device, and with a ctime that is not made up as in images.
    pub(super) fn find<'r>(
        &'r self,
        status: &'r Status,
        filesystem: Option<Identity>,
        path: &'r [u8],
    ) -> impl Iterator<Item = (&'r Past, Finished)> {
        let all = filesystem.into_iter().flat_map(|filesystem| self.past.iter().map(move |past| (past, filesystem)));
        all.flat_map(move |(past, filesystem)| {
            let is_meant = move |finished: &Finished| {
                finished.path == path || past.same_session && finished.dev == status.dev && status.ctime.nanos != 0
            };
            past.list.find(status, filesystem).filter(is_meant).map(move |finished| (past, finished))
        })
    }

    /// Keeps the next run from taking over files of this one: the disk has lost data.
    pub(super) fn withdraw(&self) {
        if let Some(list) = &self.list {
            list.withdraw();
        }
    }
}
