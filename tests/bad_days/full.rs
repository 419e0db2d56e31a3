//! A full disk, with more and more free space until the command succeeds.

use super::scene::Scene;
use crate::harness::disk_space;
use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File};
use std::path::PathBuf;

/// The free space of the tries, in KiB.
const FREE: [u64; 4] = [0, 48, 400, 1500];

/// Files that take all space. Removing files is possible on a full Btrfs too, truncating one is not always.
struct Filler {
    /// The space that is free after removing a file and those before it, in KiB, and the file.
    steps: Vec<(u64, PathBuf)>,
    rest: PathBuf,
}

impl Filler {
    /// Takes all space. Later this much of it can be left, in KiB.
    fn new(own: &Own, free: &[u64]) -> Filler {
        let mut before = 0;
        let mut step = |&free: &u64| {
            let path = own.join(format!("filler-{free}"));
            let file = File::create(&path).unwrap();
            if free > before {
                fallocate(file, FallocateFlags::empty(), 0, (free - before) << 10).unwrap();
            }
            before = free;
            (free, path)
        };
        let steps = free.iter().map(&mut step).collect();
        let rest = own.join("filler");
        let file = File::create(&rest).unwrap();
        let (mut length, mut step) = (0, 16 << 20);
        while step >= 4096 {
            match fallocate(&file, FallocateFlags::empty(), length, step) {
                Ok(()) => length += step,
                Err(_) => step /= 2,
            }
        }
        rustix::fs::syncfs(&file).unwrap();
        Filler { steps, rest }
    }

    /// Leaves this much space.
    fn leave(&mut self, kibibytes: u64) {
        for (_, path) in self.steps.extract_if(.., |(free, _)| *free <= kibibytes) {
            fs::remove_file(path).unwrap();
        }
        rustix::fs::syncfs(File::open(&self.rest).unwrap()).unwrap();
    }

    /// Removes the files, and waits until the space can be used: XFS frees it in the background.
    fn remove(mut self) {
        self.leave(u64::MAX);
        disk_space::give_back(&self.rest);
    }
}

/// Runs `pleach offsite init`.
#[cfg(feature = "offsite")]
fn make_store(at: &std::path::Path) -> Run {
    let words = ["offsite", "init", "--no-cache", "--to"].map(std::ffi::OsStr::new);
    finish(command(words.into_iter().chain([at.as_os_str()])).env("RESTIC_PASSWORD", "secret"))
}

on_filesystems! {
    fn on_a_full_disk_each_command_fails_cleanly_and_succeeds_once_there_is_space(fs: &Filesystem) {
        let test = concat!(module_path!(), "::on_a_full_disk");
        // Data and metadata of Btrfs compete for the same space, so calls that only need metadata fail too.
        let (size, options) = match fs.kind {
            Kind::Btrfs => (160, &["--mixed", "--nodesize", "4096"][..]),
            Kind::Ext4 => (64, &[][..]),
            _ => (320, &[][..]),
        };
        let Some(own) = Own::new(fs.kind, test, size, options, "") else { return };
        let other = fs.elsewhere();
        let scene = Scene::new(own.path(), other.path());
        let mut failed = 0;
        for job in scene.jobs(fs.reflinks()) {
            job.prepare(&scene);
            let mut filler = Filler::new(&own, &FREE);
            let is_done = FREE.into_iter().any(|free| {
                filler.leave(free);
                let run = scene.run(job, &[]);
                failed += usize::from(run.status != 0);
                scene.is_done(job, &run, &format!("with {free} KiB free"))
            });
            filler.remove();
            if !is_done {
                scene.run(job, &[]).expect(0);
                scene.assert_done(job, "with enough space");
            }
        }
        scene.assert_tidy();
        assert!(failed > 20, "only {failed} runs met a full disk");
        own.assert_clean();
    }
}

#[cfg(feature = "offsite")]
#[test]
fn a_store_that_could_not_be_made_on_a_full_disk_can_be_made_later() {
    let test = concat!(module_path!(), "::a_store_that_could_not_be_made_on_a_full_disk_can_be_made_later");
    let Some(own) = Own::new(Kind::Ext4, test, 32, &["-O", "^has_journal"], "") else { return };
    let store = own.join("store");
    let space = [0, 8, 32, 100, 200, 300];
    let mut filler = Filler::new(&own, &space);
    let mut failed = 0;
    // Directories take space first, then the files in them.
    for free in space {
        filler.leave(free);
        let run = make_store(&store);
        if run.status == 0 {
            break;
        }
        run.expect(1).saying("no space");
        failed += 1;
        assert!(!store.exists() || names(&store).is_empty(), "with {free} KiB free: {:?}", names(&store));
    }
    assert!(failed > 1, "only {failed} attempts met a full disk");
    filler.remove();
    if !store.join("config").exists() {
        make_store(&store).expect(0);
    }
}
