//! Questions that the filesystem answers itself: its type, its units, its free space.

use super::answer::{Answer, Reply, Value};
use super::place::Place;
use crate::fs::filesystem::Kind;
use crate::util::text;
use std::ffi::OsStr;

pub(super) fn filesystem(place: &Place) -> Reply {
    let means = match place.kind {
        Kind::Xfs => "files share data if it was made with reflink=1 (see below)",
        Kind::Btrfs => "files share data; subvolumes can be snapshot as a whole",
        Kind::Ext4 => "files share no data",
        Kind::Tmpfs => "it lies in memory: nothing in it outlives a reboot",
        Kind::Overlay => "it passes on what the filesystems below it can do, but not everything",
        Kind::Nfs => "the disk is the server's: run pleach there, if you can",
        _ => "what it can do is below",
    };
    let name = match (&place.kind, &place.mount) {
        (Kind::Other(_), Some(mount)) => text::escape(OsStr::new(&mount.kind)),
        (kind, _) => kind.to_string(),
    };
    Ok(Some(Answer::text(&name, means)))
}

pub(super) fn block_size(place: &Place) -> Reply {
    Ok(Some(Answer::new(
        Value::Bytes(place.space.f_bsize),
        "space is given out, and shared, in whole blocks of this size",
    )))
}

pub(super) fn space_free(place: &Place) -> Reply {
    let space = &place.space;
    let total = text::size(space.f_blocks.saturating_mul(space.f_frsize));
    let free = Value::Bytes(space.f_bavail.saturating_mul(space.f_frsize));
    Ok(Some(Answer::new(free, format!("of {total}: what this user may still write"))))
}

pub(super) fn inodes_free(place: &Place) -> Reply {
    let space = &place.space;
    Ok(Some(match space.f_files {
        0 => Answer::text("unlimited", "files can be made as long as there is space"),
        files => {
            let means = format!("of {}: each file of each snapshot takes one", text::count(files));
            Answer::new(Value::Number(space.f_favail), means)
        }
    }))
}

pub(super) fn name_length(place: &Place) -> Reply {
    Ok(Some(Answer::new(Value::Number(place.space.f_namemax), "bytes that the name of a file may have")))
}
