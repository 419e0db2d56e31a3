//! The kinds of damage.

use crate::harness::overwrite;
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timestamps, utimensat};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

/// A file, a directory or a link is damaged like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// It is gone.
    Deleted,
    /// The second half is gone: of the content, or of the target of a link.
    Cut,
    /// One bit in the middle differs. The times are those from before, as if the disk had done it.
    BitFlipped,
    /// A directory has its name, or an empty file the name of a directory.
    Replaced,
    /// A named pipe has its name: whoever opens it to read waits forever.
    Pipe,
    /// It has no permissions, and the command is bound by them.
    Unreadable,
    /// A hole follows its content, up to the greatest size that a file can have: to read it all takes years.
    Enormous,
}

impl Damage {
    pub(super) const ALL: [Damage; 7] = [
        Damage::Deleted,
        Damage::Cut,
        Damage::BitFlipped,
        Damage::Replaced,
        Damage::Pipe,
        Damage::Unreadable,
        Damage::Enormous,
    ];

    /// Damages the entry at `path`.
    #[track_caller]
    pub(super) fn inflict(self, path: &Path) {
        let status = fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        match self {
            Damage::Deleted => delete(path),
            Damage::Cut if status.is_symlink() => change_target(path, |target| target.truncate(target.len() / 2)),
            Damage::Cut => set_length(path, status.len() / 2),
            Damage::BitFlipped if status.is_symlink() => change_target(path, |target| {
                let middle = target.len() / 2;
                target[middle] ^= 1;
            }),
            Damage::BitFlipped => flip(path, &status),
            Damage::Replaced => {
                delete(path);
                if status.is_dir() { fs::write(path, "") } else { fs::create_dir(path) }.expect("the name is free");
            }
            Damage::Pipe => {
                delete(path);
                rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("the name is free");
            }
            Damage::Unreadable => {
                fs::set_permissions(path, fs::Permissions::from_mode(0o000)).expect("permissions can be set");
            }
            Damage::Enormous => {
                if status.is_symlink() {
                    delete(path);
                    File::create(path).expect("the name is free");
                }
                set_length(path, i64::MAX as u64);
            }
        }
    }
}

fn delete(path: &Path) {
    if fs::symlink_metadata(path).is_ok_and(|status| status.is_dir()) {
        fs::remove_dir_all(path).expect("a directory can be removed");
    } else {
        fs::remove_file(path).expect("a file can be removed");
    }
}

fn set_length(path: &Path, length: u64) {
    let file = File::options().write(true).open(path).expect("a file can be opened");
    file.set_len(length).expect("the filesystem has files of this size");
}

fn change_target(link: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut target = fs::read_link(link).expect("a link can be read").into_os_string().into_encoded_bytes();
    change(&mut target);
    fs::remove_file(link).expect("a link can be removed");
    symlink(String::from_utf8(target).expect("a name in ASCII"), link).expect("the name is free");
}

fn flip(path: &Path, status: &fs::Metadata) {
    let at = status.len() / 2;
    let mut byte = [0];
    // What a stopped run leaves may be empty: it gets a byte.
    File::open(path).and_then(|file| file.read_at(&mut byte, at)).expect("the file can be read");
    overwrite(path, at, &[byte[0] ^ 1]);
    let time = |seconds, nanos| rustix::fs::Timespec { tv_sec: seconds, tv_nsec: nanos };
    let times = Timestamps {
        last_access: time(status.atime(), status.atime_nsec()),
        last_modification: time(status.mtime(), status.mtime_nsec()),
    };
    utimensat(CWD, path, &times, AtFlags::empty()).expect("times can be set");
}
