//! What a repaired file keeps, who may repair, and what stops a repair.

use super::repair::{assert_closed, repair};
use super::*;
use crate::harness::own::Own;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::process::Stdio;

/// A sound snapshot `one` of a file `file` with this content, and its path in the snapshot.
fn prepared(source: &Path, repo: &Path, content: &[u8]) -> PathBuf {
    write(source.join("file"), content);
    take("one", source, repo);
    inside(repo, "one", source).join("file")
}

/// A repair while calls on this path fail with an error.
fn failing(call: &str, error: &str, at: &Path, repo: &Path) -> Run {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("inject={call}:error={error}"), "-P"]).arg(at);
    strace.arg(env!("CARGO_BIN_EXE_pleach")).args(["verify", "--json", "--repair-from", "/"]).arg(repo);
    finish(strace.env_remove("PLEACH_REPO").stdin(Stdio::null()))
}

on_filesystems! {
    fn a_file_with_a_sound_copy_in_its_place_is_repaired_whatever_fails_later(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        for (call, error, errors, status) in
            [("fsync", "EIO", 2, 3), ("utimensat", "EIO:when=1..2", 2, 3), ("fsync", "EINVAL", 0, 0)]
        {
            let name = format!("{call} {error}");
            let (source, repo) = (elsewhere.dir(&name), fs.join(&name));
            write(source.join("file"), &bytes(1, 90_000));
            fs::hard_link(source.join("file"), source.join("linked")).unwrap();
            take("one", &source, &repo);
            let tree = inside(&repo, "one", &source);
            change(&repo, "one", || overwrite_quietly(&tree.join("file"), 5000, b"rotten"));
            let run = failing(call, error, &tree, &repo).expect(status);
            let summary = run.summary();
            assert_eq!((number(&summary, "damaged"), number(&summary, "repaired")), (2, 2), "{name}: {summary}");
            assert_eq!(number(&summary, "errors"), errors, "{name}: {summary}");
            assert_eq!(run.stderr.matches("the file is repaired").count() as u64, errors, "{name}: {}", run.stderr);
            let inode = |file: &str| fs::metadata(tree.join(file)).unwrap().ino();
            assert_eq!(inode("file"), inode("linked"), "{name}");
            assert_closed(&repo);
            assert_sound(&repo, &source);
            tools::assert_equal_trees(&source, &tree);
        }
    }

    fn each_tree_that_cannot_be_closed_is_reported(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        let (source, repo) = (elsewhere.dir("source"), fs.join("repo"));
        prepared(&source, &repo, &bytes(1, 90_000));
        take("two", &source, &repo);
        for name in ["one", "two"] {
            let file = inside(&repo, name, &source).join("file");
            change(&repo, name, || overwrite_quietly(&file, 5000, b"rotten"));
        }
        let lists = repo.join(".pleach/repairing");
        fs::create_dir(&lists).unwrap();
        let run = failing("unlinkat", "EIO", &lists, &repo).expect(3);
        let (summary, errors) = (run.summary(), run.lines::<json_lines::Problem>());
        assert_eq!((number(&summary, "repaired"), number(&summary, "errors")), (2, 2), "{summary}");
        assert_eq!(errors.len(), 2, "{errors:?}");
        for name in ["one", "two"] {
            let state = format!("the repaired files of the snapshot {name} are in place");
            assert!(errors.iter().any(|error| error.message.contains(&state)), "{errors:?}");
        }
        repair(&repo, "/").expect(0);
        assert_closed(&repo);
        assert_sound(&repo, &source);
    }

    fn a_repaired_file_keeps_its_attributes_and_its_acl(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        let (source, repo) = (elsewhere.dir("source"), fs.join("repo"));
        for name in ["file", "gone"] {
            write(source.join(name), &bytes(name.len() as u64, 90_000));
            tools::tool("setfattr", &["-n", "user.note", "-v", "a note"], &source.join(name));
            tools::tool("setfacl", &["-m", "u:4321:rw,g:8765:r"], &source.join(name));
        }
        let tree = inside(&repo, "one", &source);
        take("one", &source, &repo);
        let look = || ["file", "gone"].map(|name| (tools::xattrs(&tree.join(name)), tools::acl(&tree.join(name))));
        let before = look();
        assert!(before[0].0.contains("user.note") && before[0].1.contains("4321"), "{before:?}");
        change(&repo, "one", || {
            overwrite_quietly(&tree.join("file"), 5000, b"rotten");
            fs::remove_file(tree.join("gone")).unwrap();
        });
        // Two files, and the time of their directory.
        let summary = repair(&repo, "/").expect(0).summary();
        assert_eq!(number(&summary, "repaired"), 3);
        assert_eq!(look(), before);
        tools::assert_equal_trees(&source, &tree);
        assert_closed(&repo);
        assert_sound(&repo, &source);
    }

    fn the_next_snapshot_shares_with_a_repaired_file(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        let (source, repo) = (elsewhere.dir("source"), fs.join("repo"));
        let file = prepared(&source, &repo, &bytes(1, 90_000));
        change(&repo, "one", || overwrite_quietly(&file, 5000, b"rotten"));
        repair(&repo, "/").expect(0);
        take("two", &source, &repo);
        let later = inside(&repo, "two", &source).join("file");
        assert_eq!(fs::read(&later).unwrap(), bytes(1, 90_000));
        assert!(!fs.reflinks() || tools::assert_same_blocks(&file, &later));
        assert_sound(&repo, &source);
    }

    fn a_repaired_file_keeps_its_holes(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        let (source, repo) = (elsewhere.dir("source"), fs.join("repo"));
        File::create(source.join("file")).unwrap().set_len(64 << 20).unwrap();
        overwrite(&source.join("file"), 20 << 20, &bytes(1, 90_000));
        take("one", &source, &repo);
        let file = inside(&repo, "one", &source).join("file");
        change(&repo, "one", || overwrite_quietly(&file, (20 << 20) + 5000, b"rotten"));
        let summary = repair(&repo, "/").expect(0).summary();
        assert_eq!(number(&summary, "repaired"), 1);
        let allocated = fs::metadata(&file).unwrap().blocks() * 512;
        assert!(allocated < 1 << 20, "{allocated} bytes");
        assert_sound(&repo, &source);
        tools::assert_equal_trees(&source, &inside(&repo, "one", &source));
    }

    fn damage_outside_the_part_that_is_read_is_repaired_by_a_later_run(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        let (source, repo) = (elsewhere.dir("source"), fs.join("repo"));
        for number in 0..20 {
            write(source.join(format!("{number}")), &bytes(number, 20_000));
        }
        take("one", &source, &repo);
        let tree = inside(&repo, "one", &source);
        change(&repo, "one", || {
            (0..20).for_each(|number| overwrite_quietly(&tree.join(format!("{number}")), 5000, b"rotten"));
        });
        let repaired: Vec<_> = (0..2)
            .map(|_| {
                let args = ["verify", "--json", "--read", "50%", "--repair-from", "/"].map(OsStr::new);
                let summary = pleach(args.into_iter().chain([repo.as_os_str()])).expect(0).summary();
                assert_eq!(number(&summary, "damaged"), number(&summary, "repaired"));
                number(&summary, "repaired")
            })
            .collect();
        assert_eq!(repaired.iter().sum::<u64>(), 20);
        assert!(repaired.iter().all(|count| *count > 0), "{repaired:?}");
        assert_closed(&repo);
        assert_sound(&repo, &source);
    }

    fn the_owner_of_a_repository_repairs_it_without_other_rights(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        let (source, repo) = (elsewhere.dir("source"), fs.dir("dir").join("repo"));
        let as_nobody = |args: &[&OsStr]| {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_pleach")]);
            finish(command.args(args).env_remove("PLEACH_REPO"))
        };
        write(source.join("file"), &bytes(1, 90_000));
        for path in [&source, &source.join("file"), repo.parent().unwrap()] {
            std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
        }
        // Root may be needed on the way to the scratch directory, but not in it.
        settle();
        for name in ["one", "two"] {
            as_nobody(&snapshot_named(name, &source, &repo)).expect(0);
        }
        let file = |name: &str| inside(&repo, name, &source).join("file");
        for name in ["one", "two"] {
            change(&repo, name, || overwrite_quietly(&file(name), 5000, b"rotten"));
        }
        let args = ["verify", "--json", "--repair-from", "/"].map(OsStr::new);
        let args: Vec<_> = args.into_iter().chain([repo.as_os_str()]).collect();
        let summary = as_nobody(&args).expect(0).summary();
        assert_eq!((number(&summary, "damaged"), number(&summary, "repaired")), (2, 2));
        assert_eq!(fs::metadata(file("one")).unwrap().uid(), 65534);
        assert_closed(&repo);
        assert_sound(&repo, &source);
    }

    fn an_immutable_file_is_reported_and_stays(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        let (source, repo) = (elsewhere.dir("source"), fs.join("repo"));
        write(source.join("other"), &bytes(2, 90_000));
        let file = prepared(&source, &repo, &bytes(1, 90_000));
        let other = file.with_file_name("other");
        change(&repo, "one", || {
            overwrite_quietly(&file, 5000, b"rotten");
            overwrite_quietly(&other, 5000, b"rotten");
            tools::tool("chattr", &["+i"], &file);
        });
        let summary = repair(&repo, "/").expect(4).summary();
        change(&repo, "one", || drop(tools::tool("chattr", &["-i"], &file)));
        assert_eq!((number(&summary, "damaged"), number(&summary, "repaired")), (2, 1), "{summary}");
        assert_eq!(number(&summary, "errors"), 1);
        assert_eq!(names(file.parent().unwrap()), ["file", "other"], "nothing is left beside it");
        assert_closed(&repo);
        repair(&repo, "/").expect(0);
        assert_sound(&repo, &source);
    }

    fn a_damaged_origin_repairs_nothing(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        let (source, repo) = (elsewhere.dir("source"), fs.join("repo"));
        let file = prepared(&source, &repo, &bytes(1, 90_000));
        take("two", &source, &repo);
        for name in ["one", "two"] {
            let file = inside(&repo, name, &source).join("file");
            change(&repo, name, || overwrite_quietly(&file, 5000, b"rotten"));
        }
        let before = fs::metadata(&file).unwrap().ino();
        let summary = repair(&repo, "two").expect(4).summary();
        assert_eq!((number(&summary, "damaged"), number(&summary, "repaired")), (2, 0));
        assert_eq!(fs::metadata(&file).unwrap().ino(), before);
        assert_closed(&repo);
    }

    fn a_full_disk_loses_nothing_and_a_later_run_finishes(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        let Some(own) = Own::new(fs.kind, "repair", 400, &[], "") else { return };
        let (source, repo) = (elsewhere.dir("source"), own.join("repo"));
        let content = bytes(1, 20 << 20);
        let file = prepared(&source, &repo, &content);
        take("two", &source, &repo);
        for name in ["one", "two"] {
            let file = inside(&repo, name, &source).join("file");
            change(&repo, name, || overwrite_quietly(&file, 5000, b"rotten"));
        }
        let rotten = fs::read(&file).unwrap();
        let filler = own.join("filler");
        let mut filling = File::create(&filler).unwrap();
        for size in [1 << 20, 64 << 10, 4096] {
            while filling.write_all(&bytes(size as u64, size)).and_then(|()| filling.sync_data()).is_ok() {}
        }
        let run = repair(&repo, "/");
        assert!([1, 4].contains(&run.status), "{run:?}");
        assert_eq!(number(&run.summary(), "repaired"), 0);
        for name in ["one", "two"] {
            let dir = inside(&repo, name, &source);
            assert!(fs::read(dir.join("file")).unwrap() == rotten);
            assert_eq!(names(&dir), ["file"]);
        }
        drop(filling);
        disk_space::give_back(&filler);
        repair(&repo, "/").expect(0);
        assert!(fs::read(&file).unwrap() == content);
        assert_closed(&repo);
        assert_sound(&repo, &source);
        own.assert_clean();
    }

    [btrfs] fn plain_trees_are_repaired_too(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        let (source, repo) = (elsewhere.dir("source"), fs.join("repo"));
        let file = prepared(&source, &repo, &bytes(1, 90_000));
        // A copy of the repository, as `cp -a` makes it, has plain directories.
        let copy = fs.join("copy");
        finish(Command::new("cp").arg("-a").args([&repo, &copy])).expect(0);
        assert!(!tools::is_subvolume(&copy.join("one")));
        let file = copy.join(file.strip_prefix(&repo).unwrap());
        overwrite_quietly(&file, 5000, b"rotten");
        let summary = repair(&copy, "/").expect(0).summary();
        assert_eq!((number(&summary, "damaged"), number(&summary, "repaired")), (1, 1));
        assert_closed(&copy);
        assert_sound(&copy, &source);
    }
}
