//! Where other programs keep their backups, how they name them, and which of them are complete.

use crate::error::{Error, Result};
use crate::fs::status::Status;
use crate::snapshot::create::Past as Backup;
use crate::snapshot::manifest::Time;
use crate::util::time_zone;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rustix::fs::CWD;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The program that made the backups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// Recognised by the names in the directory; a directory that looks like none of the others is one backup.
    #[default]
    Auto,
    /// The directory is one backup.
    Rsync,
    /// The directory is a `snapshot_root`, with `daily.0`, `hourly.3` and others.
    Rsnapshot,
    /// The directory has `snapshots/2026-11-20_02-00-00/localhost`.
    Timeshift,
    /// The directory has `20261120-020000-123/backup`.
    BackInTime,
}

/// The backups of a directory, and what looks like one and is incomplete.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) backups: Vec<Backup>,
    pub(super) incomplete: Vec<Error>,
}

/// The largest `info.json` that is read, in bytes.
const LONGEST_INFO: u64 = 1 << 20;

/// Finds the backups of a directory, which is an absolute path.
///
/// # Errors
/// If the directory is a link or cannot be read, or has no backup of this layout.
pub(super) fn find(dir: &Path, layout: Layout) -> Result<Found> {
    let status = fs::symlink_metadata(dir).map_err(|cause| Error::io("find", dir, cause))?;
    if !status.is_dir() {
        return Err(Error::usage("adopt something other than a directory:")
            .at(dir)
            .hint("name the directory itself, not a link"));
    }
    let names = names(dir)?;
    let layout = if layout == Layout::Auto { recognised(dir, &names) } else { layout };
    let found = match layout {
        Layout::Auto | Layout::Rsync => {
            let dirs = || names.iter().filter(|name| *name != "lost+found" && is_real_dir(&dir.join(name)));
            if layout == Layout::Auto && dirs().count() > 0 && dirs().all(|name| time_in_name(name).is_some()) {
                return dirs().map(|name| one(&dir.join(name), dir)).collect::<Result<_>>().map(Found::of);
            }
            if layout == Layout::Auto {
                refuse_ambiguous(dir, &names, dirs())?;
            }
            if names.is_empty() {
                let error = Error::usage("adopt an empty directory").at(dir);
                return Err(error.hint("is the disk mounted? nothing was done"));
            }
            Found::of(vec![one(dir, dir)?])
        }
        Layout::Rsnapshot => rsnapshot(dir, &names)?,
        Layout::Timeshift if has_timeshift(dir) => timeshift(dir)?,
        Layout::Timeshift => timeshift(&dir.join("snapshots"))?,
        Layout::BackInTime => back_in_time(dir, &names)?,
    };
    if found.backups.is_empty() && found.incomplete.is_empty() {
        let error = Error::usage("adopt a directory without backups of this layout").at(dir);
        return Err(error.hint("--layout names another one; --layout rsync takes the directory as one backup"));
    }
    Ok(found)
}

impl Found {
    fn of(backups: Vec<Backup>) -> Found {
        Found { backups, incomplete: Vec::new() }
    }
}

/// A backup that is a plain tree.
fn one(tree: &Path, source: &Path) -> Result<Backup> {
    let name = tree.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let found = status(tree)?;
    let created = time_in_name(name).unwrap_or(found.mtime);
    Ok(Backup { backup: tree.into(), found, part: PathBuf::new(), source: source.into(), created })
}

fn names(dir: &Path) -> Result<Vec<String>> {
    let failed = |cause| Error::io("read", dir, cause);
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        // A name that is not text is not a backup's.
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

/// The layout by names. `Auto`: none of the special ones.
fn recognised(dir: &Path, names: &[String]) -> Layout {
    if names.iter().any(|name| is_rotated(name))
        && names.iter().all(|name| is_rotated(name) || name.starts_with(['.', '_']))
    {
        Layout::Rsnapshot
    } else if names.iter().any(|name| is_of_back_in_time(name) && dir.join(name).join("backup").is_dir()) {
        Layout::BackInTime
    } else if has_timeshift(dir) || has_timeshift(&dir.join("snapshots")) {
        Layout::Timeshift
    } else {
        Layout::Auto
    }
}

/// Whether a directory has backups of Timeshift.
fn has_timeshift(dir: &Path) -> bool {
    let is_one = |path: PathBuf| path.join("info.json").is_file() && path.join("localhost").is_dir();
    dir.read_dir().is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(|entry| is_one(entry.path()))))
}

/// How many directories are looked into.
const LOOKED_INTO: usize = 1000;

/// Refuses a directory that looks like a part of a layout, or like the parent of one: as a single backup it would be
/// recorded with a wrong path and a wrong time.
fn refuse_ambiguous<'n>(dir: &Path, names: &[String], dirs: impl Iterator<Item = &'n String>) -> Result<()> {
    let own = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let has = |name: &str| names.iter().any(|found| found == name);
    let refused = |hint: &str| {
        let error = Error::usage("recognise the backups in").at(dir);
        Err(error.hint(format!("{hint}; --layout rsync adopts the directory as one backup")))
    };
    if has("localhost") && has("info.json") || has("backup") && is_of_back_in_time(own) {
        return refused("it looks like one backup of a layout: name the directory that has all of them");
    }
    for name in dirs.take(LOOKED_INTO) {
        if time_in_name(name).is_some() {
            return refused(&format!("some of its directories have dates as names, as {name}, and others do not"));
        }
        let below = dir.join(name);
        if self::names(&below).is_ok_and(|names| recognised(&below, &names) != Layout::Auto) {
            return refused(&format!("its directory {name} has backups: name that"));
        }
    }
    Ok(())
}

/// Whether a name is one as rsnapshot gives it: `daily.0`.
fn is_rotated(name: &str) -> bool {
    name.split_once('.').is_some_and(|(interval, number)| {
        !interval.is_empty()
            && interval.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && (1..=4).contains(&number.len())
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Whether a name is one as Back In Time gives it: `20261120-020000-123`.
fn is_of_back_in_time(name: &str) -> bool {
    let parts: Vec<_> = name.split('-').collect();
    let lengths: Vec<_> = parts.iter().map(|part| part.len()).collect();
    lengths == [8, 6, 3] && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
}

fn rsnapshot(dir: &Path, names: &[String]) -> Result<Found> {
    let mut found = Found::default();
    for name in names.iter().filter(|name| is_rotated(name)) {
        let tree = dir.join(name);
        if is_real_dir(&tree) {
            let status = status(&tree)?;
            let (part, source, created) = (PathBuf::new(), dir.into(), status.mtime);
            found.backups.push(Backup { backup: tree, found: status, part, source, created });
        }
    }
    Ok(found)
}

fn timeshift(dir: &Path) -> Result<Found> {
    let mut found = Found::default();
    for name in names(dir)? {
        let (backup, tree) = (dir.join(&name), dir.join(&name).join("localhost"));
        let Some(named) = time_in_name(&name).filter(|_| is_real_dir(&backup)) else { continue };
        match created_by_info(&backup.join("info.json")) {
            Some(created) if is_real_dir(&tree) => {
                let created = created.unwrap_or(named);
                found.backups.push(in_part(backup, "localhost", created)?);
            }
            _ => found
                .incomplete
                .push(incomplete(&backup, "its info.json is missing or malformed, or it has no directory localhost")),
        }
    }
    Ok(found)
}

fn back_in_time(dir: &Path, names: &[String]) -> Result<Found> {
    let mut found = Found::default();
    for name in names.iter().filter(|name| is_of_back_in_time(name)) {
        let (backup, tree) = (dir.join(name), dir.join(name).join("backup"));
        match time_in_name(name).filter(|_| is_real_dir(&backup)) {
            Some(created) if is_real_dir(&tree) && !backup.join("save_to_continue").exists() => {
                found.backups.push(in_part(backup, "backup", created)?);
            }
            Some(_) => found.incomplete.push(incomplete(&backup, "it has no directory 'backup', or is not finished")),
            None => {}
        }
    }
    Ok(found)
}

/// A backup of the whole machine, in a directory of the backup.
fn in_part(backup: PathBuf, part: &str, created: Time) -> Result<Backup> {
    Ok(Backup { found: status(&backup)?, backup, part: part.into(), source: "/".into(), created })
}

fn incomplete(backup: &Path, why: &str) -> Error {
    let error = Error::failed("adopt an incomplete backup").at(backup);
    error.hint(format!("{why}; --layout rsync adopts the directory with its files all the same"))
}

fn is_real_dir(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|status| status.is_dir())
}

/// The time that Timeshift recorded. `None` without a file; `Some(None)` if the file does not say.
fn created_by_info(path: &Path) -> Option<Option<Time>> {
    let mut text = Vec::new();
    let file = fs::symlink_metadata(path).is_ok_and(|status| status.is_file()).then(|| fs::File::open(path).ok())??;
    file.take(LONGEST_INFO).read_to_end(&mut text).ok()?;
    // `"created" : "1700000000",`
    let text = String::from_utf8_lossy(&text);
    let value = text.split("\"created\"").nth(1)?.trim_start_matches([' ', '\t', ':', '"']);
    let digits: String = value.chars().take_while(char::is_ascii_digit).collect();
    Some(digits.parse().ok().filter(|seconds| (1..1 << 40).contains(seconds)).map(|seconds| Time { seconds, nanos: 0 }))
}

/// The time in the name of a backup, in local time: all its digits, in this order.
fn time_in_name(name: &str) -> Option<Time> {
    let is_utc = name.ends_with('Z');
    let digits: String = name.chars().filter(char::is_ascii_digit).take(14).collect();
    if !name.starts_with("20") && !name.starts_with("19") || ![8, 12, 14].contains(&digits.len()) {
        return None;
    }
    let part = |range: std::ops::Range<usize>| digits.get(range).map_or(Some(0), |part| part.parse::<i8>().ok());
    let year = digits.get(0..4)?.parse().ok()?;
    let moment = DateTime::new(year, part(4..6)?, part(6..8)?, part(8..10)?, part(10..12)?, part(12..14)?, 0).ok()?;
    let zone = if is_utc { TimeZone::UTC } else { time_zone::local_or_utc() };
    let seconds = zone.to_zoned(moment).ok()?.timestamp().as_second();
    Some(Time { seconds, nanos: 0 })
}

fn status(dir: &Path) -> Result<Status> {
    Status::at(CWD, dir.as_os_str().as_bytes()).map_err(|errno| Error::io("find", dir, errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_names() {
        let at = |name: &str| time_in_name(name).map(|time| time.seconds);
        assert_eq!(at("2026-11-20T020000Z"), Some(1_795_140_000));
        assert_eq!(at("2026-13-20"), None);
        assert_eq!(at("daily.0"), None);
        assert!(at("2026-11-20_02-00-01").is_some() && at("20261120-020000-123").is_some() && at("20261120").is_some());
        assert!(at("2026-11-20_0200").is_some() && at("2026-1").is_none());
    }

    #[test]
    fn names_of_other_programs_are_recognised() {
        assert!(is_rotated("daily.0") && is_rotated("hourly.23") && !is_rotated("_delete.1") && !is_rotated("a.txt"));
        assert!(is_of_back_in_time("20261120-020000-123") && !is_of_back_in_time("new_snapshot"));
    }
}
