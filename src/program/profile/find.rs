//! Finds and opens the file of a profile.
//!
//! A profile names commands that run with all rights of the user. As root, a file that somebody else owns or can write
//! is therefore refused.

use crate::error::{Error, ErrorKind, Result};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, Stat, flock};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The directory of the profiles for the whole machine.
const SYSTEM: &str = "/etc/pleach";
/// The longest profile that is read.
const LONGEST: u64 = 1 << 20;

/// The text of a profile.
#[derive(Debug)]
pub(crate) struct File {
    /// Its name, without the directory and the ending.
    pub(crate) name: String,
    /// Its absolute path.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    /// Why root must not run it.
    pub(crate) distrust: Option<String>,
    /// The open file.
    file: std::fs::File,
}

impl File {
    /// Locks the profile for a run, until this is dropped. The repository cannot be locked until the hooks before have
    /// run, because they may mount it.
    ///
    /// # Errors
    /// If another run of the profile is in progress. A filesystem without locks is not an error.
    pub(crate) fn lock(&self) -> Result<()> {
        match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Err(Error::new(ErrorKind::Locked, "lock the profile").at(&self.path)),
            _ => Ok(()),
        }
    }
}

/// Opens the profile of this name, or the file at this path, and reads it.
///
/// # Errors
/// If there is no such profile, or it cannot be read.
pub(crate) fn open(profile: &Path) -> Result<File> {
    let is_path = profile.as_os_str().as_bytes().contains(&b'/') || has_ending(profile);
    if is_path {
        let path = std::path::absolute(profile).map_err(|cause| Error::io("find the profile", profile, cause))?;
        return read(&path)?.ok_or_else(|| missing(profile, "`pleach init-profile FILE` writes one".to_string()));
    }
    let candidates: Vec<_> = directories().iter().map(|dir| dir.join(with_ending(profile))).collect();
    for path in &candidates {
        if let Some(file) = read(path)? {
            return Ok(file);
        }
    }
    let looked: Vec<_> = candidates.iter().map(|path| crate::util::text::path(path)).collect();
    Err(missing(profile, format!("there is no {}; `pleach init-profile FILE` writes one", looked.join(" and no "))))
}

fn missing(profile: &Path, hint: String) -> Error {
    Error::failed("find the profile").at(profile).hint(hint).with_code("not-found")
}

/// The names of the profiles that can be found.
pub(crate) fn names() -> Vec<String> {
    let entries = directories().into_iter().filter_map(|dir| std::fs::read_dir(dir).ok()).flatten().flatten();
    let paths = entries.map(|entry| PathBuf::from(entry.file_name())).filter(|name| has_ending(name));
    let mut names: Vec<_> = paths.filter_map(|name| Some(name.file_stem()?.to_str()?.to_string())).collect();
    names.sort();
    names.dedup();
    names
}

/// The directories of profiles, the first one first.
fn directories() -> Vec<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let own = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")));
    own.map(|own| own.join("pleach")).into_iter().chain([PathBuf::from(SYSTEM)]).collect()
}

fn has_ending(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("toml"))
}

fn with_ending(name: &Path) -> PathBuf {
    let mut name = name.as_os_str().to_os_string();
    name.push(".toml");
    name.into()
}

/// Reads a profile. `None` if there is no such file.
fn read(path: &Path) -> Result<Option<File>> {
    let failed = |cause: std::io::Error| Error::io("read the profile", path, cause);
    let refused = |why: &str| failed(std::io::Error::other(why.to_string()));
    // A pipe in its place must not block.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        file => std::fs::File::from(file.map_err(|errno| failed(errno.into()))?),
    };
    let status = rustix::fs::fstat(&file).map_err(|errno| failed(errno.into()))?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(refused("it is not a regular file"));
    }
    let mut text = Vec::new();
    (&file).take(LONGEST + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > LONGEST {
        return Err(refused("it is longer than 1 MiB"));
    }
    let text = String::from_utf8(text).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        mistake(path, format!("line {line}: it is not UTF-8"))
    })?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let root = rustix::process::geteuid().is_root();
    // With an access control list, the permissions of the group are its mask.
    let has_list = rustix::fs::fgetxattr(&file, "system.posix_acl_access", &mut [0; 0][..]).is_ok();
    let distrust = if root { distrust(&status, has_list) } else { None };
    Ok(Some(File { name, path: path.to_path_buf(), text, distrust, file }))
}

/// The error for a mistake in a profile.
pub(super) fn mistake(path: &Path, cause: String) -> Error {
    Error::usage("use the profile").at(path).because(std::io::Error::other(cause)).with_code("profile")
}

/// Why root must not run the commands in a file with this status. `has_list`: it has an access control list.
fn distrust(status: &Stat, has_list: bool) -> Option<String> {
    match (status.st_uid, status.st_gid, status.st_mode & 0o7777) {
        (0, _, mode) if mode & 0o002 != 0 => Some("everybody can write it".to_string()),
        (0, _, mode) if has_list && mode & 0o020 != 0 => {
            Some("its access control list lets others write it".to_string())
        }
        (0, group, mode) if group != 0 && mode & 0o020 != 0 => Some(format!("the group {group} can write it")),
        (0, _, _) => None,
        (owner, _, _) => Some(format!("it belongs to the user {owner}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_trusts_only_files_that_nobody_else_can_write() {
        let dir = tempfile::tempdir().unwrap();
        let mut status = rustix::fs::stat(dir.path()).unwrap();
        let mut with = |owner, group, mode, has_list| {
            (status.st_uid, status.st_gid, status.st_mode) = (owner, group, mode);
            distrust(&status, has_list)
        };
        assert_eq!(with(0, 0, 0o100_664, true).unwrap(), "its access control list lets others write it");
        assert_eq!(with(0, 5, 0o100_644, true), None);
        let mut of = |owner, group, mode| with(owner, group, mode, false);
        assert_eq!(of(0, 0, 0o100_664), None);
        assert_eq!(of(0, 5, 0o100_644), None);
        assert_eq!(of(0, 5, 0o100_664).unwrap(), "the group 5 can write it");
        assert_eq!(of(0, 0, 0o100_602).unwrap(), "everybody can write it");
        assert_eq!(of(1000, 0, 0o100_600).unwrap(), "it belongs to the user 1000");
    }
}
