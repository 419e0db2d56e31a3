//! The local time zone. Its library reads the file that the environment variable `TZ` names, whatever it is: here a
//! file without an end is refused first. `clippy.toml` forbids the library's own functions elsewhere.

use jiff::tz::TimeZone;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The longest file of a time zone that is read. Those of the system have a few KiB.
const LONGEST: u64 = 1 << 20;

/// The local time zone; `None` if it cannot be found.
#[expect(clippy::disallowed_methods, reason = "the file was checked")]
pub(crate) fn local() -> Option<TimeZone> {
    if is_readable() { TimeZone::try_system().ok() } else { None }
}

/// The local time zone, or UTC if it cannot be found.
pub(crate) fn local_or_utc() -> TimeZone {
    local().unwrap_or(TimeZone::UTC)
}

/// Whether looking for the local time zone reads no file without an end: a device, a pipe, or one that is too long. A
/// library that looks for the zone itself must not be called otherwise.
pub(crate) fn is_readable() -> bool {
    let Some(value) = std::env::var_os("TZ") else { return is_short(Path::new("/etc/localtime")) };
    let named = value.as_bytes().strip_prefix(b":").unwrap_or(value.as_bytes());
    // The library takes a path below a directory of this name as a name of a zone.
    let start = named.windows(DATABASE.len()).rposition(|part| part == DATABASE).map_or(0, |at| at + DATABASE.len());
    let name = OsStr::from_bytes(&named[start..]);
    if let Some(database) = std::env::var_os("TZDIR").map(PathBuf::from)
        && !is_short(&database.join(name))
    {
        return false;
    }
    // Only if there is no zone of this name, the value is a path.
    is_short(Path::new(OsStr::from_bytes(named))) || name.to_str().is_some_and(|name| jiff::tz::db().get(name).is_ok())
}

const DATABASE: &[u8] = b"zoneinfo/";

/// Whether a file ends soon, or cannot be read at all.
fn is_short(path: &Path) -> bool {
    let Ok(status) = fs::metadata(path) else { return true };
    status.is_dir() || status.is_file() && status.len() <= LONGEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_not_short() {
        let dir = tempfile::tempdir().unwrap();
        let long = dir.path().join("long");
        fs::File::create(&long).unwrap().set_len(LONGEST + 1).unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        for path in [&long, &pipe, Path::new("/dev/zero")] {
            assert!(!is_short(path), "{path:?}");
        }
        fs::write(dir.path().join("short"), "TZif").unwrap();
        for path in ["short", "missing", "."] {
            assert!(is_short(&dir.path().join(path)), "{path}");
        }
    }
}
