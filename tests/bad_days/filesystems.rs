//! Sources and repositories on other filesystems and block sizes. What rsync sees there is kept.

use super::scene::Scene;
use crate::harness::mounted::Mounted;
use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use std::path::Path;

/// Runs all jobs.
#[track_caller]
fn everything_works(at: &Path, other: &Path, reflinks: bool, what: &str) {
    let scene = Scene::new(at, other);
    for job in scene.jobs(reflinks) {
        job.prepare(&scene);
        let run = scene.run(job, &[]);
        assert_eq!(run.status, 0, "{} on {what}: {run:?}", job.name);
        scene.assert_done(job, what);
    }
    scene.assert_tidy();
}

on_filesystems! {
    fn with_other_options_of_the_filesystem_every_command_works(fs: &Filesystem) {
        let test = concat!(module_path!(), "::with_other_options");
        // Arguments of mkfs, and mount options.
        let ways: &[(&[&str], &str)] = match fs.kind {
            Kind::Btrfs => &[(&["--nodesize", "4096"], "compress-force=zstd"), (&["--mixed"], "compress=lzo")],
            Kind::Ext4 => &[(&["-b", "1024", "-O", "inline_data", "-I", "512"], ""), (&["-O", "^extents,^64bit"], "")],
            _ => &[(&["-b", "size=1024"], ""), (&["-b", "size=2048", "-m", "rmapbt=1"], "inode32")],
        };
        for (mkfs, options) in ways {
            let Some(own) = Own::new(fs.kind, test, 400, mkfs, options) else { return };
            let other = fs.elsewhere();
            everything_works(own.path(), other.path(), fs.reflinks(), &format!("{mkfs:?} {options}"));
            own.assert_clean();
        }
    }

    [xfs] fn on_a_tmpfs_every_command_works(fs: &Filesystem) {
        let mounted = Mounted::tmpfs(&fs.join("tmpfs"));
        let other = fs.elsewhere();
        everything_works(&mounted.path().join(""), other.path(), false, "a tmpfs");
    }

    fn from_a_tmpfs_every_command_works(fs: &Filesystem) {
        let mounted = Mounted::tmpfs(&fs.join("tmpfs"));
        everything_works(&fs.dir("here"), mounted.path(), fs.reflinks(), "beside a tmpfs");
    }

    [xfs] fn on_an_overlay_every_command_works(fs: &Filesystem) {
        let mounted = Mounted::overlay(&fs.join("mounted"), &fs.join("upper"), &fs.join("work"));
        let other = fs.elsewhere();
        everything_works(mounted.path(), other.path(), false, "an overlay");
    }

    [xfs] fn to_and_from_bindfs_every_command_works(fs: &Filesystem) {
        let test = concat!(module_path!(), "::to_and_from_bindfs_every_command_works");
        let Some(mounted) = Mounted::bindfs(test, &fs.dir("below"), &fs.dir("mounted")) else { return };
        let other = fs.elsewhere();
        everything_works(mounted.path(), other.path(), false, "bindfs");
        let there = mounted.path().join("there");
        std::fs::create_dir(&there).unwrap();
        everything_works(&fs.dir("here"), &there, true, "beside bindfs");
    }
}
