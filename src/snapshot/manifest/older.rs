//! The records of older versions of the format. They are only read.

use super::limits;
use super::record::{Meta, Time};
use serde::{Deserialize, Serialize};

/// [`Meta`] in version 1: without flags and project id.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Meta1 {
    mode: u32,
    uid: u32,
    gid: u32,
    mtime: Time,
    ctime: Time,
    btime: Option<Time>,
    dev: u64,
    ino: u64,
    nlink: u64,
    has_xattrs: bool,
    #[serde(deserialize_with = "limits::attributes")]
    kept_xattrs: Vec<(serde_bytes::ByteBuf, serde_bytes::ByteBuf)>,
    kept_here: bool,
}

impl From<Meta1> for Meta {
    fn from(old: Meta1) -> Meta {
        let Meta1 { mode, uid, gid, mtime, ctime, btime, dev, ino, nlink, has_xattrs, kept_xattrs, kept_here } = old;
        Meta {
            mode,
            uid,
            gid,
            mtime,
            ctime,
            btime,
            dev,
            ino,
            nlink,
            has_xattrs,
            kept_xattrs,
            kept_here,
            flags: None,
            project: None,
            recheck: false,
        }
    }
}

/// [`Meta`] in version 2: without the mark that makes the next run look at an inode again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Meta2 {
    meta: Meta1,
    flags: Option<u32>,
    project: Option<u32>,
}

impl From<Meta2> for Meta {
    fn from(old: Meta2) -> Meta {
        let Meta2 { meta, flags, project } = old;
        Meta { flags, project, ..meta.into() }
    }
}
