//! A disk that cannot write: the next run does not trust files from the failed run.

use super::{assert_nothing_unfinished, run};
use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A filesystem on a device that cannot write everything: a sparse image on a filesystem that is nearly full.
struct Failing {
    path: PathBuf,
    image: PathBuf,
    filler: PathBuf,
    _outer: Own,
}

impl Failing {
    fn new(inner: &str, test: &str, room: u64) -> Option<Failing> {
        let outer = Own::new(Kind::Ext4, test, 256, &["-m", "0"], "")?;
        let (image, filler) = (outer.join("image"), outer.join("filler"));
        let path = outer.path().with_extension("inner");
        File::create(&image).and_then(|file| file.set_len(600 << 20)).unwrap();
        // Without a journal, because a failing journal would shut the filesystem down.
        let flags = ["-q", "-O", "^has_journal", "-E", "lazy_itable_init=0,nodiscard"];
        finish(Command::new(format!("mkfs.{inner}")).args(flags).arg(&image)).expect(0);
        fs::create_dir(&path).unwrap();
        let failing = Failing { path, image, filler, _outer: outer };
        failing.mount();
        rustix::fs::syncfs(File::open(&failing.path).unwrap()).unwrap();
        let space = rustix::fs::statvfs(failing._outer.path()).unwrap();
        let filled = (space.f_bavail * space.f_frsize).saturating_sub(room);
        finish(Command::new("fallocate").args(["-l", &filled.to_string()]).arg(&failing.filler)).expect(0);
        Some(failing)
    }

    fn mount(&self) {
        finish(Command::new("mount").args(["-o", "loop"]).arg(&self.image).arg(&self.path)).expect(0);
    }

    /// Remounts the filesystem, to show the state of the disk.
    fn remount(&self) {
        finish(Command::new("umount").arg(&self.path)).expect(0);
        self.mount();
    }

    fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// From now on the device accepts all writes.
    fn mend(&self) {
        disk_space::give_back(&self.filler);
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.path).status();
        let _ = fs::remove_dir(&self.path);
    }
}

fn source(dir: &Path) {
    for number in 0..60 {
        write(dir.join(format!("file-{number}")), &bytes(number, 1 << 20));
    }
}

on_filesystems! {
    [ext4] fn what_a_failing_disk_did_not_take_is_copied_again(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source_dir = other.dir("source");
        source(&source_dir);
        let Some(failing) = Failing::new("ext4", "copy::write_error", 24 << 20) else { return };
        let copied = failing.join("copied");
        let args = [OsStr::new("-T"), source_dir.as_ref(), copied.as_ref()];
        let failed = run(args).expect(1);
        assert!(failed.stderr.contains("check the disk"), "{}", failed.stderr);
        failing.mend();
        run([OsStr::new("--verify"), args[0], args[1], args[2]]).expect(0);
        failing.remount();
        tools::assert_equal_trees(&source_dir, &copied);
        assert_nothing_unfinished(&copied);
    }
}
