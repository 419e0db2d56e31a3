//! Questions on the mount and its options. If an option shows on a new file, that file is examined.

use super::answer::{AccessTimes, Answer, Discard, Quota, Reply};
use super::place::Place;
use crate::fs::filesystem::Kind;
use crate::fs::mounts::Mount;
use crate::sys::btrfs;
use rustix::fs::{IFlags, StatVfsMountFlags};
use rustix::io::Errno;
use std::fmt::Write as _;
use std::path::Path;

fn mount(place: &Place) -> Result<&Mount, Errno> {
    place.mount.as_ref().ok_or(Errno::NOSYS)
}

pub(super) fn mount_point(place: &Place) -> Reply {
    let mount = mount(place)?;
    Ok(Some(Answer::MountPoint { point: mount.point.clone(), root: mount.root.clone() }))
}

pub(super) fn read_only(place: &Place) -> Reply {
    Ok(Some(Answer::ReadOnly(place.space.f_flag.contains(StatVfsMountFlags::RDONLY))))
}

pub(super) fn quota(place: &Place) -> Reply {
    let mount = mount(place)?;
    let mut kinds = Vec::new();
    if place.kind == Kind::Btrfs {
        let uuid = hyphenated(&btrfs::filesystem_uuid(place)?);
        if Path::new("/sys/fs/btrfs").join(uuid).join("qgroups").is_dir() {
            kinds.push(Quota::Qgroups);
        }
    }
    for (kind, options) in [
        (Quota::User, &["usrquota", "uquota", "quota"][..]),
        (Quota::Group, &["grpquota", "gquota"]),
        (Quota::Project, &["prjquota", "pquota"]),
    ] {
        kinds.extend(options.iter().any(|option| mount.has(option)).then_some(kind));
    }
    Ok(Some(Answer::Quota(kinds)))
}

fn hyphenated(uuid: &[u8; 16]) -> String {
    let mut text = String::new();
    for (i, byte) in uuid.iter().enumerate() {
        let _ = write!(text, "{}{byte:02x}", if [4, 6, 8, 10].contains(&i) { "-" } else { "" });
    }
    text
}

pub(super) fn copy_on_write(place: &Place) -> Reply {
    if place.kind != Kind::Btrfs {
        return Ok(None);
    }
    let nocow = match place.file().and_then(|file| rustix::fs::ioctl_getflags(&file)) {
        Ok(flags) => flags.contains(IFlags::NOCOW),
        // The option of the mount applies to all new files.
        Err(errno) if !mount(place)?.has("nodatacow") => return Err(errno),
        Err(_) => true,
    };
    Ok(Some(Answer::CopyOnWrite(!nocow)))
}

pub(super) fn checksums(place: &Place) -> Reply {
    if place.kind != Kind::Btrfs {
        return Ok(None);
    }
    let mount = mount(place)?;
    Ok(Some(Answer::Checksums(!mount.has("nodatasum") && !mount.has("nodatacow"))))
}

pub(super) fn compression(place: &Place) -> Reply {
    if place.kind != Kind::Btrfs {
        return Ok(None);
    }
    let mount = mount(place)?;
    let how = mount.value("compress-force").or_else(|| mount.value("compress"));
    Ok(Some(Answer::Compression(how.map(str::to_string))))
}

pub(super) fn access_times(place: &Place) -> Reply {
    let mount = mount(place)?;
    Ok(Some(Answer::AccessTimes(if mount.has("noatime") {
        AccessTimes::Never
    } else if mount.has("relatime") {
        AccessTimes::Daily
    } else {
        AccessTimes::Always
    })))
}

pub(super) fn discard(place: &Place) -> Reply {
    Ok(Some(Answer::Discard(match mount(place)?.value("discard") {
        Some("async") => Discard::Later,
        Some(_) => Discard::AtOnce,
        None => Discard::Never,
    })))
}
