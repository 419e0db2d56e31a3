//! Files of a removed snapshot that are still held open: their space is not free, and no other snapshot goes for it.

use super::{kept, more_space, prune, sums};
use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use rustix::fs::{FallocateFlags, fallocate};
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const FILE: usize = 10 << 20;

/// Five snapshots of a file that is written anew for each. It is a program too.
struct Five {
    own: Own,
    source: PathBuf,
    repo: PathBuf,
}

impl Five {
    fn new(fs: &Filesystem) -> Option<Five> {
        let own = Own::new(fs.kind, "prune::held", 512, &[], "")?;
        let (source, repo) = (own.join("source"), own.join("repo"));
        fs::create_dir(&source).unwrap();
        let shell = fs::read("/bin/sh").unwrap();
        for number in 1..=5_u64 {
            let _ = fs::remove_file(source.join("v"));
            write(source.join("v"), &[&shell[..], &bytes(number, FILE)].concat());
            fs::set_permissions(source.join("v"), Permissions::from_mode(0o755)).unwrap();
            settle();
            // Without links to unchanged files, root's trees on Btrfs would be subvolumes. Those are noticed otherwise.
            let args = [OsStr::new("snapshot"), "--unchanged=hardlink".as_ref(), "--name".as_ref()];
            let rest = [source.as_os_str(), repo.as_os_str()];
            pleach(args.into_iter().chain([format!("k{number}").as_ref()]).chain(rest)).expect(0);
        }
        assert!(fs.kind != Kind::Btrfs || !tools::is_subvolume(&repo.join("k1")));
        Some(Five { own, source, repo })
    }

    /// The file in the oldest snapshot.
    fn oldest(&self) -> PathBuf {
        inside(&self.repo, "k1", &self.source).join("v")
    }

    /// The argument for this much more free space than there is.
    fn more(&self, bytes: usize) -> String {
        disk_space::await_still(self.own.path());
        more_space(self.own.path(), bytes as u64)
    }

    #[track_caller]
    fn assert_stops(&self, free: &str, left: &[&str]) {
        let run = prune(&["--keep-free", free], &self.repo).expect(3).saying("closes its files; run again then");
        assert_eq!(sums(&run).freed_is, "at_least");
        assert_eq!(listed(&self.repo), left);
        let expected: Vec<_> =
            left[..left.len() - 1].iter().map(|name| (name.to_string(), "free".to_string())).collect();
        let reasons = kept(&run).into_iter().map(|(name, mut reasons)| (name, reasons.remove(0)));
        assert_eq!(reasons.take(expected.len()).collect::<Vec<_>>(), expected);
    }
}

/// A process that runs until the test ends.
struct Holder(Child);

impl Holder {
    fn new(command: &mut Command) -> Holder {
        Holder(command.spawn().expect("a process to hold files open"))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A new file with so many extents that the kernel needs a moment to free them.
fn in_pieces(path: &Path) -> File {
    const BLOCK: u64 = 4096;
    let file = File::create(path).unwrap();
    let length = 8 * FILE as u64;
    fallocate(&file, FallocateFlags::empty(), 0, length).unwrap();
    for offset in (0..length).step_by(2 * BLOCK as usize) {
        fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, BLOCK).unwrap();
    }
    file
}

/// A loop device on a file.
struct Device(String);

impl Device {
    fn new(file: &Path) -> Device {
        let made = finish(Command::new("losetup").args(["--read-only", "--find", "--show"]).arg(file)).expect(0);
        Device(made.stdout.trim().to_string())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

on_filesystems! {
    fn the_space_of_an_open_file_costs_no_further_snapshot(fs: &Filesystem) {
        let Some(five) = Five::new(fs) else { return };
        let open = File::open(five.oldest()).unwrap();
        let holder = Holder::new(Command::new("sleep").arg("600").stdin(Stdio::from(open)));
        let free = five.more(FILE / 2);
        five.assert_stops(&free, &["k2", "k3", "k4", "k5"]);
        drop(holder);
        prune(&["--keep-free", &free], &five.repo).expect(0);
        assert_eq!(listed(&five.repo), ["k2", "k3", "k4", "k5"], "there is enough space now");
        prune(&["--keep-free", &five.more(FILE / 2)], &five.repo).expect(0);
        assert_eq!(listed(&five.repo), ["k3", "k4", "k5"]);
        five.own.assert_clean();
    }

    [xfs, ext4] fn more_snapshots_go_if_the_held_space_is_not_enough(fs: &Filesystem) {
        let Some(five) = Five::new(fs) else { return };
        // Its program is the file of the oldest snapshot.
        let mut command = Command::new(five.oldest());
        let holder = Holder::new(command.args(["-c", "read line"]).stdin(Stdio::piped()));
        let free = five.more(FILE * 3 / 2);
        five.assert_stops(&free, &["k3", "k4", "k5"]);
        drop(holder);
        prune(&["--keep-free", &free], &five.repo).expect(0);
        assert_eq!(listed(&five.repo), ["k3", "k4", "k5"]);
        five.own.assert_clean();
    }

    [xfs] fn a_file_that_was_just_closed_costs_no_snapshot(fs: &Filesystem) {
        let Some(five) = Five::new(fs) else { return };
        let path = five.own.join("pieces");
        let file = in_pieces(&path);
        fs::remove_file(&path).unwrap();
        let free = five.more(FILE / 2);
        drop(file);
        let args = [OsStr::new("prune"), "--keep-free".as_ref(), free.as_ref(), five.repo.as_os_str()];
        let calls = tools::traced_calls("ioctl", &args, &fs.join("log"));
        assert_eq!(listed(&five.repo), ["k1", "k2", "k3", "k4", "k5"]);
        // XFS_IOC_FREE_EOFBLOCKS waits for it. A pause would not be enough on every machine.
        assert!(calls.iter().any(|call| call.contains("_IOC_READ, 0x58, 0x3a")), "{calls:?}");
        five.own.assert_clean();
    }

    [xfs] fn the_file_of_a_loop_device_is_held_too(fs: &Filesystem) {
        let Some(five) = Five::new(fs) else { return };
        let device = Device::new(&five.oldest());
        let free = five.more(FILE / 2);
        five.assert_stops(&free, &["k2", "k3", "k4", "k5"]);
        drop(device);
        prune(&["--keep-free", &free], &five.repo).expect(0);
        assert_eq!(listed(&five.repo), ["k2", "k3", "k4", "k5"]);
        five.own.assert_clean();
    }
}
