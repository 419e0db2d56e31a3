//! Files and directories with more names of extended attributes than the kernel lists: everything else is restored, and
//! nothing is lost without a report.

use super::Scene;
use crate::harness::*;
use crate::on_filesystems;
use pleach::monitor::Change;
use pleach::snapshot::restore::{Options, Overwrite};
use rustix::fs::{XattrFlags, getxattr, setxattr};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// This many names of 250 bytes exceed 64 KiB.
const MANY: usize = 300;

fn name(number: usize) -> String {
    format!("user.{number:05}{}", "n".repeat(240))
}

fn give_many(path: &Path) {
    for number in 0..MANY {
        setxattr(path, name(number), b"value", XattrFlags::empty()).unwrap();
    }
}

/// The number of these attributes that exist.
fn count(path: &Path) -> usize {
    (0..MANY).filter(|number| getxattr(path, name(*number), &mut [0_u8; 16]).is_ok()).count()
}

/// A snapshot of one file with attributes that cannot be listed, and one with attributes that can.
fn scene(fs: &Filesystem) -> Scene {
    let scene = Scene { source: fs.dir("source"), repo: fs.join("repo"), target: fs.dir("target") };
    write(scene.source.join("many"), &bytes(1, 50_000));
    write(scene.source.join("few"), &bytes(2, 50_000));
    give_many(&scene.source.join("many"));
    setxattr(scene.source.join("few"), "user.note", b"value", XattrFlags::empty()).unwrap();
    settle();
    pleach(["snapshot".as_ref(), scene.source.as_os_str(), scene.repo.as_ref()]).expect(3).saying("64 KiB");
    scene
}

/// Restores after a dry run, which must report the same. Returns the lines of the plan, except that of the top, and the
/// one problem.
#[track_caller]
fn restored(scene: &Scene, options: &Options) -> (Vec<(Change, String)>, String) {
    let (planned, plan, mut foreseen) = scene.recorded(&Options { dry_run: true, ..options.clone() });
    let (stats, _, mut problems) = scene.recorded(options);
    foreseen.sort();
    problems.sort();
    assert_eq!((&problems, stats.errors), (&foreseen, planned.errors));
    assert_eq!((stats.errors, problems.len()), (1, 1), "{problems:?}");
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let plan = plan.iter().filter(|(_, path)| *path != scene.source);
    (plan.map(|(change, path)| (*change, name(path))).collect(), problems[0].clone())
}

on_filesystems! {
    [xfs, btrfs] fn attributes_that_the_snapshot_lacks_are_reported_and_kept_in_place(fs: &Filesystem) {
        let scene = scene(fs);
        let before = fs::metadata(scene.source.join("many")).unwrap();
        let (_, problem) = restored(&scene, &scene.in_place());
        assert!(problem.contains("source/many") && problem.contains("snapshot does not have them"), "{problem}");
        assert!(problem.contains("kept"), "{problem}");
        assert_eq!(count(&scene.source.join("many")), MANY);
        assert_eq!(fs::metadata(scene.source.join("many")).unwrap().ino(), before.ino());
        let args = ["restore", "--target", "/"].map(std::ffi::OsStr::new);
        let args = args.into_iter().chain([scene.repo.as_os_str(), "latest".as_ref()]);
        pleach(args).expect(3).saying("restore all extended attributes of");
        let few = [scene.source.join("few")];
        let args = ["restore", "--target", "/"].map(std::ffi::OsStr::new);
        pleach(args.into_iter().chain([scene.repo.as_os_str(), "latest".as_ref(), few[0].as_ref()])).expect(0);
    }

    [xfs, btrfs] fn a_replaced_file_whose_attributes_are_lost_is_reported(fs: &Filesystem) {
        let scene = scene(fs);
        write(scene.source.join("many"), b"changed");
        let (plan, problem) = restored(&scene, &scene.in_place());
        assert_eq!(plan, [(Change::Content, "many".into())]);
        assert!(problem.contains("source/many") && problem.contains("are lost"), "{problem}");
        assert_eq!(fs::read(scene.source.join("many")).unwrap(), bytes(1, 50_000));
        // Nothing existed that could be lost, but the attributes missing from the snapshot are still reported.
        let (_, problem) = restored(&scene, &scene.options());
        assert!(problem.contains("many") && problem.contains("snapshot does not have them"), "{problem}");
        assert_eq!(fs::read(scene.inside("many")).unwrap(), bytes(1, 50_000));
    }

    [xfs, btrfs] fn attributes_that_cannot_be_listed_today_are_kept_or_reported(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::plain);
        for path in ["a", "b"] {
            give_many(&scene.source.join(path));
        }
        write(scene.source.join("b"), b"changed");
        fs::set_permissions(scene.source.join("a"), fs::Permissions::from_mode(0o600)).unwrap();
        let (planned, plan, mut foreseen) = scene.recorded(&Options { dry_run: true, ..scene.in_place() });
        let (stats, _, mut problems) = scene.recorded(&scene.in_place());
        foreseen.sort();
        problems.sort();
        assert_eq!(problems, foreseen);
        assert_eq!((planned.errors, stats.errors), (2, 2), "{problems:?}");
        let plan = plan.into_iter().filter(|(_, path)| *path != scene.source);
        assert_eq!(plan.map(|line| line.0).collect::<Vec<_>>(), [Change::Metadata, Change::Content]);
        assert!(problems[0].contains("source/a") && problems[0].contains("were kept"), "{problems:?}");
        assert!(problems[1].contains("source/b") && problems[1].contains("are lost"), "{problems:?}");
        assert_eq!((count(&scene.source.join("a")), count(&scene.source.join("b"))), (MANY, 0));
        assert_ne!(fs::metadata(scene.source.join("a")).unwrap().mode() & 0o777, 0o600, "all else is set right");
        let (_, problem) = restored(&scene, &scene.in_place());
        assert!(problem.contains("source/a"), "{problem}");
    }

    [xfs, btrfs] fn a_file_with_other_names_is_not_replaced_for_metadata_that_cannot_be_compared(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::plain);
        fs::hard_link(scene.source.join("a"), fs.join("elsewhere")).unwrap();
        give_many(&scene.source.join("a"));
        let (plan, problem) = restored(&scene, &scene.in_place());
        assert_eq!(plan, []);
        assert!(problem.contains("source/a") && problem.contains("64 KiB"), "{problem}");
        assert_eq!(count(&scene.source.join("a")), MANY);
        assert_eq!(scene.recorded(&Options { overwrite: Overwrite::Never, ..scene.in_place() }).2, [""; 0]);
    }

    [xfs, btrfs] fn a_directory_with_too_many_attributes_gets_the_rest_of_its_metadata(fs: &Filesystem) {
        let scene = Scene::new(fs, tree::plain);
        let dir = scene.source.join("c");
        give_many(&dir);
        let mode = fs::metadata(&dir).unwrap().permissions();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        let (plan, problem) = restored(&scene, &scene.in_place());
        assert_eq!(plan, [(Change::Metadata, "c".into())]);
        assert!(problem.contains("source/c:") && problem.contains("were kept"), "{problem}");
        assert_eq!((count(&dir), fs::metadata(&dir).unwrap().permissions()), (MANY, mode));
        // A snapshot of it lacks the attributes.
        settle();
        pleach(["snapshot".as_ref(), scene.source.as_os_str(), scene.repo.as_ref()]).expect(3);
        let (_, problem) = restored(&scene, &scene.options());
        assert!(problem.contains("source/c ") && problem.contains("snapshot does not have them"), "{problem}");
        let (_, problem) = restored(&scene, &scene.in_place());
        assert!(problem.contains("source/c ") && problem.contains("kept"), "{problem}");
        assert_eq!(count(&dir), MANY);
    }

    [xfs, btrfs] fn a_copy_over_a_file_with_too_many_attributes_sets_the_rest(fs: &Filesystem) {
        let (source, copied) = (fs.dir("source"), fs.join("copied"));
        tree::plain(&source);
        let args = ["copy".as_ref(), "-T".as_ref(), source.as_os_str(), copied.as_ref()];
        pleach(args).expect(0);
        for path in ["a", "c"] {
            give_many(&copied.join(path));
        }
        fs::set_permissions(source.join("a"), fs::Permissions::from_mode(0o604)).unwrap();
        pleach(args).expect(3).saying("64 KiB");
        assert_eq!(fs::metadata(copied.join("a")).unwrap().mode() & 0o777, 0o604);
        assert_eq!((count(&copied.join("a")), count(&copied.join("c"))), (MANY, MANY));
    }
}
