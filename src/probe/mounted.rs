//! Questions on the mount and its options. If an option shows on a new file, that file is examined.

use super::answer::{Answer, Reply, Value};
use super::place::Place;
use crate::fs::filesystem::Kind;
use crate::fs::mounts::Mount;
use crate::sys::btrfs;
use crate::util::text;
use rustix::fs::{IFlags, StatVfsMountFlags};
use rustix::io::Errno;
use std::fmt::Write as _;
use std::path::Path;

fn mount(place: &Place) -> Result<&Mount, Errno> {
    place.mount.as_ref().ok_or(Errno::NOSYS)
}

pub(super) fn mount_point(place: &Place) -> Reply {
    let mount = mount(place)?;
    let means = match mount.root == Path::new("/") {
        true => "the whole filesystem is mounted here".to_string(),
        false => format!("of the filesystem, {} is mounted here", text::path(&mount.root)),
    };
    Ok(Some(Answer::new(Value::Text(text::escape(mount.point.as_os_str())), means)))
}

pub(super) fn read_only(place: &Place) -> Reply {
    Ok(Some(Answer::flag(
        place.space.f_flag.contains(StatVfsMountFlags::RDONLY),
        "nothing can be written: good as a source, not as a repository",
        "it can be written to",
    )))
}

pub(super) fn quota(place: &Place) -> Reply {
    let mount = mount(place)?;
    let mut kinds = Vec::new();
    if place.kind == Kind::Btrfs {
        let uuid = hyphenated(&btrfs::filesystem_uuid(place)?);
        if Path::new("/sys/fs/btrfs").join(uuid).join("qgroups").is_dir() {
            kinds.push("qgroups");
        }
    }
    for (kind, options) in [
        ("user", &["usrquota", "uquota", "quota"][..]),
        ("group", &["grpquota", "gquota"]),
        ("project", &["prjquota", "pquota"]),
    ] {
        kinds.extend(options.iter().any(|option| mount.has(option)).then_some(kind));
    }
    Ok(Some(match kinds.is_empty() {
        true => Answer::text("none", "only the space itself limits what can be written"),
        false => {
            Answer::text(&kinds.join(","), "writing can end before the space does; shared data counts for every owner")
        }
    }))
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
    Ok(Some(Answer::flag(
        !nocow,
        "new files are copied on write: they have checksums and can share with all others",
        "new files are written in place (nodatacow, chattr +C): no checksums, and they share only with such files",
    )))
}

pub(super) fn checksums(place: &Place) -> Reply {
    if place.kind != Kind::Btrfs {
        return Ok(None);
    }
    let mount = mount(place)?;
    Ok(Some(Answer::flag(
        !mount.has("nodatasum") && !mount.has("nodatacow"),
        "damage to data is noticed when it is read",
        "damage to data is not noticed when it is read (nodatasum, nodatacow)",
    )))
}

pub(super) fn compression(place: &Place) -> Reply {
    if place.kind != Kind::Btrfs {
        return Ok(None);
    }
    let mount = mount(place)?;
    Ok(Some(match mount.value("compress-force").or_else(|| mount.value("compress")) {
        Some(how) => {
            Answer::text(how, "new data is compressed: it takes less than its size, how much less only root sees")
        }
        None => Answer::text("none", "the mount compresses nothing; single files may be compressed all the same"),
    }))
}

pub(super) fn access_times(place: &Place) -> Reply {
    let mount = mount(place)?;
    Ok(Some(match ["noatime", "relatime"].into_iter().find(|option| mount.has(option)) {
        Some("noatime") => Answer::text("noatime", "reading a file writes nothing"),
        Some(_) => Answer::text("relatime", "reading a file stamps it once a day at most; pleach asks not to"),
        None => Answer::text("strictatime", "every reading of a file stamps it; pleach asks not to"),
    }))
}

pub(super) fn discard(place: &Place) -> Reply {
    Ok(Some(match mount(place)?.value("discard") {
        Some("async") => Answer::text("async", "freed space is reported to the device a little later"),
        Some(_) => Answer::text("sync", "freed space is reported to the device at once, so deleting takes longer"),
        None => Answer::text("none", "freed space is not reported to the device; fstrim does that"),
    }))
}
