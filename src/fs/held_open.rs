//! Deleted files that are still held open, by processes or by loop devices. Their space is free only afterwards.
//!
//! A process holds a file as a descriptor, as a mapping, or as its program. Only processes that this user may look at
//! are searched. Files that only the kernel holds otherwise are not found, such as those of an NFS server.

use crate::sys::loop_device::backing_file;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The end of the names that the kernel shows for deleted files.
const DELETED: &[u8] = b" (deleted)";
/// The unit of `st_blocks`, and of the size of a block device.
const SECTOR: u64 = 512;

/// Deleted files of a filesystem that are held open, with their bytes on the disk.
#[derive(Debug, Default)]
pub(crate) struct HeldOpen {
    /// By inode.
    files: HashMap<u64, u64>,
    /// The files of loop devices, by the device's name.
    loops: HashMap<OsString, u64>,
}

impl HeldOpen {
    /// Looks for the deleted files with this device number that other processes hold, and for loop devices with a
    /// deleted file there that `is_wanted` by its path.
    pub(crate) fn find(device: u64, is_wanted: impl Fn(&[u8]) -> bool) -> HeldOpen {
        let mut held = HeldOpen::default();
        // The process id as this proc filesystem has it.
        let own = fs::read_link("/proc/self").unwrap_or_default();
        for name in names(Path::new("/proc")) {
            let is_process = name.as_bytes().iter().all(u8::is_ascii_digit);
            if is_process && name != own.as_os_str() {
                held.add_files_of(&Path::new("/proc").join(name), device);
            }
        }
        for name in names(Path::new("/sys/block")) {
            let dir = Path::new("/sys/block").join(&name);
            let Ok(path) = fs::read(dir.join("loop/backing_file")) else { continue };
            let Some(path) = path.trim_ascii_end().strip_suffix(DELETED) else { continue };
            let sectors = fs::read_to_string(dir.join("size")).ok().and_then(|size| size.trim().parse::<u64>().ok());
            // Only root can open it. For others the path decides.
            let file = || backing_file(fs::File::open(Path::new("/dev").join(&name)).ok()?).ok();
            if is_wanted(path) && file().is_none_or(|(on, _)| on == device) {
                held.loops.insert(name, sectors.unwrap_or(0).saturating_mul(SECTOR));
            }
        }
        held
    }

    /// The bytes of files that were not held `before`.
    pub(crate) fn bytes_since(&self, before: &HeldOpen) -> u64 {
        let files = self.files.iter().filter(|(inode, _)| !before.files.contains_key(inode)).map(|(_, bytes)| bytes);
        let loops = self.loops.iter().filter(|(name, _)| !before.loops.contains_key(*name)).map(|(_, bytes)| bytes);
        files.chain(loops).fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    fn add_files_of(&mut self, process: &Path, device: u64) {
        let open = process.join("fd");
        for name in names(&open) {
            self.add(&open.join(name), device);
        }
        self.add(&process.join("exe"), device);
        // One line for each mapping. Far fewer calls than looking at each file in `map_files`.
        let maps = fs::read(process.join("maps")).unwrap_or_default();
        for line in maps.split(|byte| *byte == b'\n').filter(|line| line.ends_with(DELETED)) {
            if let Some(name) = mapping(line) {
                self.add(&process.join("map_files").join(name), device);
            }
        }
    }

    /// Adds the file behind a link of the proc filesystem, if it is deleted.
    fn add(&mut self, link: &Path, device: u64) {
        // The name first: asking a remote filesystem for the status of a file may take forever.
        match fs::read_link(link) {
            Ok(path) if path.as_os_str().as_bytes().ends_with(DELETED) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidFilename => {}
            _ => return,
        }
        if let Ok(status) = fs::metadata(link)
            && status.dev() == device
            && status.nlink() == 0
            && status.is_file()
        {
            self.files.insert(status.ino(), status.blocks().saturating_mul(SECTOR));
        }
    }
}

/// The name in `map_files` of the mapping in a line of `maps`. It has no leading zeros.
fn mapping(line: &[u8]) -> Option<String> {
    let range = std::str::from_utf8(line.split(|byte| *byte == b' ').next()?).ok()?;
    let (from, to) = range.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(format!("{:x}-{:x}", number(from)?, number(to)?))
}

/// The names in a directory; none if it cannot be read.
fn names(dir: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_deleted_file_counts_while_another_process_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, vec![1; 100_000]).unwrap();
        let file = fs::File::open(&path).unwrap();
        file.sync_all().unwrap();
        let status = file.metadata().unwrap();
        let find = || HeldOpen::find(status.dev(), |_| false);
        let mut holder = Command::new("sleep").arg("60").stdin(Stdio::from(file)).spawn().unwrap();
        assert!(!find().files.contains_key(&status.ino()), "it still has a name");
        fs::remove_file(&path).unwrap();
        let held = find();
        assert_eq!(held.files.get(&status.ino()), Some(&(status.blocks() * SECTOR)));
        assert_eq!(find().bytes_since(&held), 0);
        assert!(held.bytes_since(&HeldOpen::default()) >= 100_000);
        holder.kill().unwrap();
        holder.wait().unwrap();
        // A program that another test just starts has all open files for a moment.
        let is_held = || find().files.contains_key(&status.ino());
        assert!((0..100).any(|_| !is_held()));
    }

    #[test]
    fn mappings_are_named_without_leading_zeros() {
        let line = b"00400000-0040b000 r-xp 00000000 fd:00 99 /a b (deleted)";
        assert_eq!(mapping(line).as_deref(), Some("400000-40b000"));
        assert_eq!(mapping(b"none"), None);
    }
}
