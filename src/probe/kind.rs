//! Questions that the filesystem answers itself: its type, its units, its free space.

use super::answer::{Answer, Free, Reply};
use super::place::Place;

pub(super) fn filesystem(place: &Place) -> Reply {
    let name = place.mount.as_ref().map(|mount| mount.kind.clone().into());
    Ok(Some(Answer::Filesystem { kind: place.kind, name }))
}

pub(super) fn block_size(place: &Place) -> Reply {
    Ok(Some(Answer::BlockSize(place.space.f_bsize)))
}

pub(super) fn space_free(place: &Place) -> Reply {
    let space = &place.space;
    let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
    Ok(Some(Answer::SpaceFree(Free { free: bytes(space.f_bavail), total: bytes(space.f_blocks) })))
}

pub(super) fn inodes_free(place: &Place) -> Reply {
    let space = &place.space;
    let inodes = Free { free: space.f_favail, total: space.f_files };
    Ok(Some(Answer::InodesFree((inodes.total > 0).then_some(inodes))))
}

pub(super) fn name_length(place: &Place) -> Reply {
    Ok(Some(Answer::NameLength(place.space.f_namemax)))
}
