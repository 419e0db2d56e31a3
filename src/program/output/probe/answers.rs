//! The answers of a probe: a value for scripts, and a sentence on its meaning for people.

use crate::fs::filesystem::Kind;
use crate::probe::{
    AccessTimes, Answer, CopyFileRange, Dedupe, DirectIo, Discard, Free, IoUring, Quota, Reflink, ReverseMap,
    TrustedXattrs,
};
use crate::util::text::{self, count, size};
use std::borrow::Cow;
use std::ffi::OsStr;
use std::io;
use std::path::Path;

/// The value of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Yes or no.
    Flag(bool),
    /// A count.
    Number(u64),
    /// Bytes.
    Bytes(u64),
    /// A word.
    Text(String),
    /// The question stayed open.
    Open,
}

/// A value and its meaning.
pub(super) type Worded = (Value, Cow<'static, str>);

/// An answer, or why there is none.
pub(super) fn worded(answer: &io::Result<Answer>) -> Worded {
    match answer {
        Ok(answer) => answered(answer),
        Err(error) => (Value::Open, format!("could not be tried: {}", text::cause(error)).into()),
    }
}

fn answered(answer: &Answer) -> Worded {
    match answer {
        Answer::Filesystem { kind, name } => filesystem(*kind, name.as_deref()),
        Answer::MountPoint { point, root } => mount_point(point, root),
        Answer::ReadOnly(is_so) => {
            flag(*is_so, "nothing can be written: good as a source, not as a repository", "it can be written to")
        }
        Answer::User { uid: 0 } => word("root", "may read, restore and dedupe the files of everybody"),
        Answer::User { uid } => word(
            format!("uid {uid}"),
            "may read what its permissions allow and dedupe its own files; cannot restore other owners",
        ),
        Answer::BlockSize(bytes) => {
            (Value::Bytes(*bytes), "space is given out, and shared, in whole blocks of this size".into())
        }
        Answer::SpaceFree(Free { free, total }) => {
            (Value::Bytes(*free), format!("of {}: what this user may still write", size(*total)).into())
        }
        Answer::InodesFree(None) => word("unlimited", "files can be made as long as there is space"),
        Answer::InodesFree(Some(Free { free, total })) => {
            (Value::Number(*free), format!("of {}: each file of each snapshot takes one", count(*total)).into())
        }
        Answer::Quota(quotas) => quota(quotas),
        Answer::Reflink(reflink) => match reflink {
            Reflink::Shared => {
                yes("files can share their data: snapshots and copies here take no space until they change")
            }
            Reflink::NotShared => no("a clone succeeds and shares nothing: every copy takes its full space"),
            Reflink::Refused => no("files cannot share data: every snapshot and every copy takes its full space"),
        },
        Answer::Dedupe(dedupe) => match dedupe {
            Dedupe::AllFiles => yes("equal data can be made to share its space afterwards, in all files"),
            Dedupe::OwnFiles => {
                yes("equal data can be made to share its space afterwards, in files you own or may write to")
            }
            Dedupe::Impossible => no("equal files cannot be made to share their data afterwards"),
        },
        Answer::Fiemap(is_so) => flag(
            *is_so,
            "where files lie, and what of them is shared, can be seen (pleach fiemap)",
            "where files lie cannot be seen: what is shared can be neither shown nor counted",
        ),
        Answer::ReverseMap(map) => match map {
            ReverseMap::Present => yes("who holds a block is known at once (fiemap --owners, root only)"),
            ReverseMap::Missing => no(
                "who holds a block is found by looking at every file (fiemap --owners); mkfs.xfs -m rmapbt=1 makes a \
                 map",
            ),
            ReverseMap::Unsupported => no("who holds a block cannot be asked here"),
        },
        Answer::CopyFileRange(how) => match how {
            CopyFileRange::Clones => {
                word("clones", "programs that let the kernel copy (cp) share the data without being asked")
            }
            CopyFileRange::Copies => word("copies", "the kernel can copy for a program, and nothing is shared by it"),
            CopyFileRange::Fails => word("fails", "the kernel does not copy here: data is read and written"),
        },
        Answer::CopyKeepsHoles(is_so) => flag(
            *is_so,
            "sparse files stay sparse where the kernel copies them",
            "the kernel's copy fills holes with zeros: a program has to go around them, as pleach does",
        ),
        Answer::Holes(is_so) => flag(
            *is_so,
            "holes take no space and are found without reading them",
            "holes look like zeros: sparse files are read as a whole",
        ),
        Answer::PunchHole(is_so) => flag(
            *is_so,
            "ranges of zeros in a file can be given back as holes",
            "space within a file cannot be given back",
        ),
        Answer::Unwritten(is_so) => flag(
            *is_so,
            "space can be reserved for a file before it is written",
            "space cannot be reserved for a file without writing it",
        ),
        Answer::UnnamedFiles(is_so) => flag(
            *is_so,
            "a file can be made without a name and appear complete (O_TMPFILE)",
            "new files have a temporary name until they are complete",
        ),
        Answer::DirectIo(how) => match how {
            DirectIo::Aligned(bytes) => (
                Value::Bytes((*bytes).into()),
                "past the page cache, in offsets and lengths that are multiples of this".into(),
            ),
            DirectIo::Unsupported => no("all reading and writing goes through the page cache"),
            DirectIo::Unknown => word("unknown", "the kernel does not say how direct I/O must be aligned here"),
        },
        Answer::IoUring(ring) => match ring {
            IoUring::Available => yes("a program can have many requests under way at once"),
            IoUring::Forbidden => no("forbidden here, by sysctl kernel.io_uring_disabled or a container's filter"),
            IoUring::Missing => no("this kernel has none"),
        },
        Answer::CopyOnWrite(is_so) => flag(
            *is_so,
            "new files are copied on write: they have checksums and can share with all others",
            "new files are written in place (nodatacow, chattr +C): no checksums, and they share only with such files",
        ),
        Answer::Checksums(is_so) => flag(
            *is_so,
            "damage to data is noticed when it is read",
            "damage to data is not noticed when it is read (nodatasum, nodatacow)",
        ),
        Answer::Compression(Some(how)) => {
            word(how, "new data is compressed: it takes less than its size, how much less only root sees")
        }
        Answer::Compression(None) => {
            word("none", "the mount compresses nothing; single files may be compressed all the same")
        }
        Answer::AccessTimes(times) => match times {
            AccessTimes::Never => word("noatime", "reading a file writes nothing"),
            AccessTimes::Daily => word("relatime", "reading a file stamps it once a day at most; pleach asks not to"),
            AccessTimes::Always => word("strictatime", "every reading of a file stamps it; pleach asks not to"),
        },
        Answer::Discard(discard) => match discard {
            Discard::Later => word("async", "freed space is reported to the device a little later"),
            Discard::AtOnce => word("sync", "freed space is reported to the device at once, so deleting takes longer"),
            Discard::Never => word("none", "freed space is not reported to the device; fstrim does that"),
        },
        Answer::NanosecondTimes(is_so) => {
            flag(*is_so, "times are kept exactly", "times are rounded: two changes within one tick look like one")
        }
        Answer::UserXattrs(is_so) => flag(
            *is_so,
            "extended attributes of users are kept",
            "extended attributes of users cannot be kept in files here",
        ),
        Answer::TrustedXattrs(xattrs) => match xattrs {
            TrustedXattrs::Kept => yes("trusted attributes are kept"),
            TrustedXattrs::OnlyRoot => no("only root may set or read trusted attributes"),
            TrustedXattrs::Refused => no("trusted attributes cannot be kept in files here"),
        },
        Answer::Acls(is_so) => {
            flag(*is_so, "access control lists are kept", "access control lists cannot be kept in files here")
        }
        Answer::NameLength(bytes) => (Value::Number(*bytes), "bytes that the name of a file may have".into()),
        Answer::Subvolume { id, name } => (Value::Number(*id), subvolume(name.as_deref())),
        Answer::SubvolumeReadOnly(is_so) => flag(
            *is_so,
            "nothing in this subvolume can be changed: it can be cloned from, but not into",
            "this subvolume can be changed",
        ),
        Answer::Snapshots(is_so) => flag(
            *is_so,
            "this user may make snapshots of this subvolume",
            "only root and the subvolume's owner may make snapshots of it",
        ),
        Answer::SnapshotDeletion(is_so) => flag(
            *is_so,
            "this user may delete subvolumes that are its own",
            "only root may delete subvolumes (unless mounted with user_subvol_rm_allowed); empty ones go by rmdir",
        ),
    }
}

fn flag(is_so: bool, means_yes: &'static str, means_no: &'static str) -> Worded {
    if is_so { yes(means_yes) } else { no(means_no) }
}

fn yes(means: &'static str) -> Worded {
    (Value::Flag(true), means.into())
}

fn no(means: &'static str) -> Worded {
    (Value::Flag(false), means.into())
}

fn word(word: impl Into<String>, means: &'static str) -> Worded {
    (Value::Text(word.into()), means.into())
}

/// The type of a filesystem. One that pleach does not know has the name that the table of mounts gives it.
fn filesystem(kind: Kind, name: Option<&OsStr>) -> Worded {
    let means = match kind {
        Kind::Xfs => "files share data if it was made with reflink=1 (see below)",
        Kind::Btrfs => "files share data; subvolumes can be snapshot as a whole",
        Kind::Ext4 => "files share no data",
        Kind::Tmpfs => "it lies in memory: nothing in it outlives a reboot",
        Kind::Overlay => "it passes on what the filesystems below it can do, but not everything",
        Kind::Nfs => "the disk is the server's: run pleach there, if you can",
        _ => "what it can do is below",
    };
    match (kind, name) {
        (Kind::Other(_), Some(name)) => word(text::escape(name), means),
        (kind, _) => word(kind.to_string(), means),
    }
}

fn mount_point(point: &Path, root: &Path) -> Worded {
    let means = match root == Path::new("/") {
        true => "the whole filesystem is mounted here".into(),
        false => format!("of the filesystem, {} is mounted here", text::path(root)).into(),
    };
    (Value::Text(text::escape(point.as_os_str())), means)
}

fn quota(quotas: &[Quota]) -> Worded {
    let names: Vec<_> = quotas
        .iter()
        .map(|quota| match quota {
            Quota::Qgroups => "qgroups",
            Quota::User => "user",
            Quota::Group => "group",
            Quota::Project => "project",
        })
        .collect();
    match names.is_empty() {
        true => word("none", "only the space itself limits what can be written"),
        false => word(names.join(","), "writing can end before the space does; shared data counts for every owner"),
    }
}

fn subvolume(name: Option<&OsStr>) -> Cow<'static, str> {
    match name {
        None => "the top level, in which all other subvolumes lie".into(),
        Some(name) => format!("it is called {}", text::escape(name)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn text(answer: Answer) -> (Value, String) {
        let (value, means) = worded(&Ok(answer));
        (value, means.into_owned())
    }

    #[test]
    fn an_answer_is_a_value_and_a_sentence() {
        let word = |word: &str| Value::Text(word.to_string());
        assert_eq!(
            text(Answer::Quota(vec![Quota::Qgroups, Quota::Project])),
            (
                word("qgroups,project"),
                "writing can end before the space does; shared data counts for every owner".to_string()
            )
        );
        assert_eq!(
            text(Answer::InodesFree(Some(Free { free: 1, total: 2000 }))),
            (Value::Number(1), "of 2,000: each file of each snapshot takes one".to_string())
        );
        assert_eq!(text(Answer::DirectIo(DirectIo::Aligned(512))).0, Value::Bytes(512));
        assert_eq!(text(Answer::DirectIo(DirectIo::Unknown)).0, Value::Text("unknown".into()));
        assert_eq!(text(Answer::Fiemap(true)).0, Value::Flag(true));
    }

    #[test]
    fn an_open_question_has_its_cause() {
        let refused = io::Error::from_raw_os_error(libc::EACCES);
        assert_eq!(worded(&Err(refused)), (Value::Open, "could not be tried: Permission denied".into()));
    }

    #[test]
    fn names_cannot_harm_a_terminal() {
        let name = |name: &str| Some(OsString::from(name));
        let (value, _) = text(Answer::Filesystem { kind: Kind::UNKNOWN, name: name("a\x1b") });
        assert_eq!(value, Value::Text("a\\x1b".to_string()));
        let (_, means) = text(Answer::Subvolume { id: 256, name: name("a\n") });
        assert_eq!(means, "it is called a\\n");
    }
}
