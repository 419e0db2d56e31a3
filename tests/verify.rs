//! `pleach verify`: sound snapshots have no damage, damage is found wherever it is, and shared data is read once.

mod flipped;
mod meanwhile;
mod parts;
mod repair;
mod repaired;
mod reported;
mod shared;
mod sound;

use crate::diff::take;
use crate::harness::manifests::edit;
use crate::harness::*;
use crate::on_filesystems;
use pleach::monitor::{Fault, Recording};
use pleach::snapshot::verify::{Options, Stats, verify};
use pleach::testing::manifest::{Body, Entry, Item};
use serde::Deserialize;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A line of `--json`.
#[derive(Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct DamageLine {
    snapshot: String,
    path: Option<String>,
    why: String,
    offset: Option<u64>,
}

impl json_lines::Line for DamageLine {
    const TYPE: &'static str = "damage";
}

/// Runs the command.
fn run(repo: &Path, args: &[&str]) -> Run {
    let args = ["verify", "--json"].iter().chain(args).map(OsStr::new);
    pleach(args.chain([repo.as_os_str()]))
}

/// The damage that the library finds: the snapshot, the path in the source, and the fault.
#[track_caller]
fn damage(repo: &Path, source: &Path, options: &Options) -> (Stats, Vec<(String, String, Fault)>) {
    let monitor = Recording::default();
    let stats = verify(repo, &[], options, &monitor).unwrap();
    assert_eq!(stats.errors, 0, "{:?}", monitor.problems);
    let short = |path: PathBuf| path.strip_prefix(source).unwrap_or(&path).to_string_lossy().into_owned();
    let found = monitor.damage.into_inner().unwrap();
    let mut found: Vec<_> = found.into_iter().map(|(snapshot, path, why)| (snapshot, short(path), why)).collect();
    found.sort();
    assert_eq!(stats.damaged, found.len() as u64);
    (stats, found)
}

/// Asserts that there is no damage, quickly and by content.
#[track_caller]
fn assert_sound(repo: &Path, source: &Path) -> Stats {
    for options in [Options { quick: true, ..Options::default() }, Options { sharing: true, ..Options::default() }] {
        let (stats, found) = damage(repo, source, &options);
        assert_eq!(found, []);
        assert_eq!((stats.read_bytes, stats.checked_files) == (0, 0), options.quick);
        if !options.quick {
            return stats;
        }
    }
    unreachable!("the last run is not quick")
}

/// Changes the tree of a snapshot, which on Btrfs is read-only.
fn change(repo: &Path, name: &str, change: impl FnOnce()) {
    let tree = repo.join(name);
    let is_subvolume = tools::is_subvolume(&tree);
    if is_subvolume {
        tools::set_read_only(&tree, false);
    }
    change();
    if is_subvolume {
        tools::set_read_only(&tree, true);
    }
}

/// Overwrites bytes of a file and restores its times, like a program that hides its traces.
fn overwrite_quietly(path: &Path, at: u64, content: &[u8]) {
    let meta = fs::metadata(path).unwrap();
    overwrite(path, at, content);
    File::options().write(true).open(path).unwrap().set_modified(meta.modified().unwrap()).unwrap();
}

/// Repeats a change of a directory's entries and restores the directory's times.
fn in_directory(dir: &Path, change: impl FnOnce()) {
    let modified = fs::metadata(dir).unwrap().modified().unwrap();
    change();
    File::open(dir).unwrap().set_modified(modified).unwrap();
}

on_filesystems! {
    fn each_kind_of_damage_is_named_with_its_snapshot_and_path(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        fs::create_dir_all(source.join("dir/inner")).unwrap();
        for name in ["content", "dir/gone", "longer", "mode", "mtime", "owner", "type", "dir/inner/file", "last"] {
            write(source.join(name), &bytes(name.len() as u64, 9000));
        }
        symlink("there", source.join("link")).unwrap();
        fs::create_dir(source.join("unreached")).unwrap();
        write(source.join("unreached/file"), b"x");
        take("one", &source, &repo);
        take("two", &source, &repo);
        assert_sound(&repo, &source);
        let tree = inside(&repo, "two", &source);
        change(&repo, "two", || {
            overwrite_quietly(&tree.join("content"), 5000, b"rotten");
            in_directory(&tree.join("dir"), || fs::remove_file(tree.join("dir/gone")).unwrap());
            let times = fs::metadata(tree.join("longer")).unwrap().modified().unwrap();
            write(tree.join("longer"), &bytes(6, 9001));
            File::open(tree.join("longer")).unwrap().set_modified(times).unwrap();
            fs::set_permissions(tree.join("mode"), fs::Permissions::from_mode(0o600)).unwrap();
            File::open(tree.join("mtime")).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
            std::os::unix::fs::chown(tree.join("owner"), Some(12345), None).unwrap();
            in_directory(&tree, || {
                fs::remove_file(tree.join("type")).unwrap();
                fs::create_dir(tree.join("type")).unwrap();
                fs::remove_file(tree.join("link")).unwrap();
                symlink("elsewhere", tree.join("link")).unwrap();
                fs::remove_dir_all(tree.join("unreached")).unwrap();
                symlink("/etc", tree.join("unreached")).unwrap();
            });
            in_directory(&tree.join("dir/inner"), || write(tree.join("dir/inner/added"), b"x"));
            fs::set_permissions(tree.join("dir/inner"), fs::Permissions::from_mode(0o700)).unwrap();
        });
        let expected = |is_quick: bool| {
            let found = [
                ("content", Fault::Content),
                ("dir/gone", Fault::Missing),
                ("dir/inner", Fault::Mode),
                ("dir/inner/added", Fault::Unlisted),
                ("link", Fault::Target),
                ("longer", Fault::Size),
                ("mode", Fault::Mode),
                ("mtime", Fault::Mtime),
                ("owner", Fault::Owner),
                ("type", Fault::Type),
                ("unreached", Fault::Type),
            ];
            let found = found.into_iter().filter(|(_, why)| !(is_quick && *why == Fault::Content));
            found.map(|(path, why)| ("two".to_string(), path.to_string(), why)).collect::<Vec<_>>()
        };
        for quick in [true, false] {
            assert_eq!(damage(&repo, &source, &Options { quick, ..Options::default() }).1, expected(quick));
        }
        let run = run(&repo, &[]).expect(4);
        let mut lines = run.lines::<DamageLine>();
        lines.sort();
        let whys: Vec<_> = lines.iter().map(|line| (line.snapshot.as_str(), line.why.as_str(), line.offset)).collect();
        assert_eq!(whys, expected(false).iter().map(|(_, _, why)| ("two", why.name(), None)).collect::<Vec<_>>());
        assert_eq!(lines[0].path.as_deref(), source.join("content").to_str());
        assert_eq!((number(&run.summary(), "damaged"), number(&run.summary(), "snapshots")), (11, 2));
        self::run(&repo, &["--quick"]).expect(4);
        pleach([OsStr::new("verify"), repo.as_os_str(), "one".as_ref()]).expect(0);
        let shown = pleach([OsStr::new("verify"), repo.as_os_str(), "two".as_ref()]).expect(4);
        assert!(shown.stdout.contains(&format!("two: {}: its content differs", source.join("content").display())));
    }

    fn the_content_of_an_endless_hole_is_not_read(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        File::create(source.join("file")).and_then(|file| file.set_len(1 << 40)).unwrap();
        take("one", &source, &repo);
        // Whoever forges a manifest can give such a file a hash.
        edit(&repo, "one", |_, items, _| {
            for item in items {
                if let Item::Entry(Entry { body: Body::File(file), .. }) = item {
                    file.hash = Some([7; 32]);
                }
            }
        });
        // Nothing shows that it is damaged, and hashing it would take too long.
        let run = run(&repo, &[]).expect(3).saying("holes");
        let summary = run.summary();
        assert_eq!(["damaged", "errors", "read_bytes"].map(|field| number(&summary, field)), [0, 1, 0]);
    }

    fn a_missing_and_an_added_entry_of_one_directory_do_not_hide_each_other(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::crowded(&source, 300);
        take("one", &source, &repo);
        let tree = inside(&repo, "one", &source);
        let gone = names(&source)[17].clone();
        change(&repo, "one", || in_directory(&tree, || fs::rename(tree.join(&gone), tree.join("added")).unwrap()));
        let found = damage(&repo, &source, &Options { quick: true, ..Options::default() }).1;
        let one = |path: &str, why| ("one".to_string(), path.to_string(), why);
        let mut expected = [one("added", Fault::Unlisted), one(&gone, Fault::Missing)];
        expected.sort();
        assert_eq!(found, expected);
    }

    fn a_damaged_or_missing_manifest_is_damage_and_the_rest_is_verified(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        // More than one block of records.
        tree::crowded(&source.join("c"), 3000);
        for name in ["one", "two", "three", "four"] {
            take(name, &source, &repo);
        }
        let manifest = |name: &str| repo.join(".pleach/manifests").join(name);
        fs::remove_file(manifest("one")).unwrap();
        overwrite(&manifest("two"), 10, b"x");
        // The first block.
        overwrite(&manifest("three"), 2000, b"xxxxxxxx");
        let rotten = inside(&repo, "three", &source).join("c/two");
        change(&repo, "three", || overwrite_quietly(&rotten, 9, b"rotten"));
        let run = run(&repo, &[]).expect(4).saying("manifests/two").saying("manifests/three");
        let mut found: Vec<_> = run.lines::<DamageLine>().into_iter().map(|line| (line.snapshot, line.why)).collect();
        found.sort();
        let expected = [("one", "no-manifest"), ("three", "content"), ("three", "manifest"), ("two", "manifest")];
        assert_eq!(found, expected.map(|(name, why)| (name.to_string(), why.to_string())));
        for (id, status) in [("one", 4), ("two", 4), ("four", 0)] {
            pleach([OsStr::new("verify"), repo.as_os_str(), id.as_ref()]).expect(status);
        }
        pleach([OsStr::new("verify"), repo.as_os_str(), "five".as_ref()]).expect(1).saying("find a snapshot");
    }

    fn files_that_cannot_be_read_for_lack_of_permission_are_errors_and_no_damage(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        fs::set_permissions(source.join("a"), fs::Permissions::from_mode(0o000)).unwrap();
        take("one", &source, &repo);
        let args = [OsStr::new("verify"), "--json".as_ref(), repo.as_os_str()];
        let run = finish(&mut command_bound_by_permissions(args)).expect(3).saying("Permission denied");
        let summary = run.summary();
        assert_eq!((number(&summary, "errors"), number(&summary, "damaged")), (1, 0));
        assert_eq!(number(&summary, "checked_files"), 4);
    }
}

#[test]
fn the_options_are_checked() {
    for args in [&["--read", "0"][..], &["--read", "101%"], &["--read", "x"], &["--quick", "--read", "5%"]] {
        let args = ["verify", "/nowhere"].iter().chain(args);
        pleach(args).expect(2);
    }
    pleach(["verify"]).expect(2).saying("repository");
}
