//! Entries that a snapshot excludes by pattern, tag, filesystem, size and age. It never touches them.

use crate::harness::mounted::Mounted;
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55\n# made by a test\n";

/// A snapshot with these options.
#[track_caller]
fn excluding(options: &[&str], source: &Path, repo: &Path) -> Run {
    settle();
    let options = options.iter().map(OsStr::new);
    let args = [OsStr::new("snapshot"), "--json".as_ref()].into_iter().chain(options);
    pleach(args.chain([source.as_os_str(), repo.as_ref()]))
}

/// The entries of the newest snapshot below `source`, as relative paths.
fn kept(repo: &Path, source: &Path) -> Vec<String> {
    let top = inside(repo, "latest", source);
    let relative = |path: PathBuf| {
        let relative = path.strip_prefix(&top).expect("it lies in the snapshot");
        (relative != Path::new("")).then(|| relative.to_string_lossy().into_owned())
    };
    tools::paths(&top).into_iter().filter_map(relative).collect()
}

/// Creates files with these names, and their directories.
fn files(dir: &Path, names: &[&str]) {
    for (number, name) in names.iter().enumerate() {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("directories can be made");
        write(path, &bytes(number as u64, 5000));
    }
}

on_filesystems! {
    fn patterns_leave_out_and_take_back_as_in_a_gitignore(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        files(
            &source,
            &["a.log", "keep.log", "cache/x", "sub/cache/y", "sub/deep/er/a.o", "sub/tmp", "tmp/z", "wanted"],
        );
        let (top, deep) = (format!("{}/cache/", source.display()), format!("{}/sub/**/*.o", source.display()));
        let options =
            ["--exclude=*.log", "--exclude=!keep.log", "--exclude=tmp/", "--exclude", &top, "--exclude", &deep];
        let summary = excluding(&options, &source, &repo).expect(0).summary();
        let all = ["keep.log", "sub", "sub/cache", "sub/cache/y", "sub/deep", "sub/deep/er", "sub/tmp", "wanted"];
        assert_eq!(kept(&repo, &source), all);
        assert_eq!((number(&summary, "excluded"), number(&summary, "files"), number(&summary, "errors")), (4, 4, 0));
    }

    fn a_path_without_a_leading_slash_begins_at_the_top_of_each_source(fs: &Filesystem) {
        let (home, data, repo) = (fs.dir("home"), fs.dir("data"), fs.join("repo"));
        files(&home, &["ann/debian.iso", "bob/ann/debian.iso", "bob/tmp/x", "bob/kept"]);
        files(&data, &["ann/debian.iso", "data/ann/debian.iso"]);
        settle();
        let args =
            ["snapshot", "--json", "--exclude=ann/debian.iso", "--exclude=*/tmp/", "--exclude=no/such"].map(OsStr::new);
        let run = pleach(args.into_iter().chain([home.as_os_str(), data.as_os_str(), repo.as_os_str()])).expect(0);
        assert_eq!(kept(&repo, &home), ["ann", "bob", "bob/ann", "bob/ann/debian.iso", "bob/kept"]);
        assert_eq!(kept(&repo, &data), ["ann", "data", "data/ann", "data/ann/debian.iso"]);
        run.saying("this pattern matched nothing: 'no/such'").saying("relative to the top of each source");
    }

    [xfs] fn a_pattern_for_a_source_itself_excludes_nothing_and_the_warning_says_so(fs: &Filesystem) {
        let (photos, music, repo) = (fs.dir("data/photos"), fs.dir("data/music"), fs.join("repo"));
        files(&photos, &["a"]);
        files(&music, &["b"]);
        settle();
        let run = |pattern: &OsStr| {
            let options = ["snapshot".as_ref(), "--exclude".as_ref(), pattern];
            pleach(options.into_iter().chain([photos.as_os_str(), music.as_os_str(), repo.as_os_str()])).expect(0)
        };
        for pattern in [photos.as_os_str(), "photos/".as_ref()] {
            let run = run(pattern).saying("this pattern matched nothing").saying("(a source is never excluded; ");
            assert_eq!(run.stderr.matches("nothing:").count(), 1, "{}", run.stderr);
            assert_eq!(kept(&repo, &photos), ["a"]);
        }
        let other = run("videos".as_ref()).saying("this pattern matched nothing");
        assert!(!other.stderr.contains("a source"), "{}", other.stderr);
    }

    fn what_is_excluded_is_not_opened_and_not_listed(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        files(&source, &["secret/a", "secret/b/c", "tagged/large/x", "key.pem", "plain/file"]);
        write(source.join("tagged/CACHEDIR.TAG"), SIGNATURE);
        settle();
        let options = ["snapshot", "--exclude=secret", "--exclude=*.pem", "--exclude-caches"].map(OsStr::new);
        let args: Vec<_> = options.into_iter().chain([source.as_os_str(), repo.as_ref()]).collect();
        // All calls that take a path or a descriptor: the names occur only in the directory listings that the kernel
        // returns.
        let calls = tools::traced_calls("%file,%desc", &args, &fs.join("trace"));
        let inside = |call: &&String| !call.contains("execve(") && call.contains(&*source.to_string_lossy());
        let calls: Vec<_> = calls.iter().filter(inside).collect();
        assert!(calls.iter().any(|call| call.contains("plain")), "the trace shows kept files");
        let of_excluded = |call: &&String| ["secret", "key.pem", "large"].iter().any(|name| call.contains(name));
        assert_eq!(calls.iter().copied().filter(of_excluded).collect::<Vec<_>>(), [""; 0]);
        let tagged = format!("{}/tagged>", source.display());
        let listed = |call: &&String| call.contains("getdents64(") && call.contains(&tagged);
        assert_eq!(calls.iter().copied().filter(listed).collect::<Vec<_>>(), [""; 0]);
    }

    fn what_is_excluded_from_now_on_counts_as_removed_and_a_dry_run_says_so(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        files(&source, &["a", "b.tmp", "dir/c", "dir/d.tmp", "dir/e.tmp"]);
        snapshot(&source, &repo);
        let plan = excluding(&["--dry-run", "--exclude", "*.tmp"], &source, &repo).expect(0);
        let removed = plan.lines::<json_lines::Change>().into_iter().filter(|line| line.change == '-');
        let paths: Vec<_> = removed.filter_map(|line| line.path).collect();
        let gone = ["b.tmp", "dir/d.tmp", "dir/e.tmp"].map(|name| source.join(name).to_string_lossy().into_owned());
        assert_eq!(paths, gone, "{}", plan.stdout);
        let counts = |summary: &serde_json::Value| {
            ["files", "unchanged_files", "removed_files", "excluded"].map(|field| number(summary, field))
        };
        assert_eq!(counts(&plan.summary()), [2, 2, 3, 3]);
        let taken = excluding(&["--exclude", "*.tmp"], &source, &repo).expect(0).summary();
        assert_eq!(counts(&taken), [2, 2, 3, 3]);
        let back = snapshot(&source, &repo);
        assert_eq!((number(&back, "new_files"), number(&back, "unchanged_files")), (3, 2), "{back}");
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
    }

    fn patterns_that_matched_nothing_are_told_once(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        files(&source, &["a.log", "keep.log", "cache/x"]);
        let options = [
            "--exclude=*.log",
            "--exclude=!keep.log",
            "--exclude=*.nothing",
            "--exclude=cache",
            "--exclude=/nowhere/x",
        ];
        let run = excluding(&options, &source, &repo)
            .expect(0)
            .saying("these patterns matched nothing: '*.nothing', '/nowhere/x'");
        assert_eq!(run.stderr.matches("nothing:").count(), 1, "{}", run.stderr);
        let run = excluding(&["--exclude=*.log", "--exclude=cache"], &source, &repo).expect(0);
        assert!(!run.stderr.contains("nothing"), "{}", run.stderr);
    }

    fn nothing_is_said_of_patterns_where_a_directory_could_not_be_read(fs: &Filesystem) {
        use std::os::unix::fs::PermissionsExt;
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        files(&source, &["closed/a.log", "b"]);
        fs::set_permissions(source.join("closed"), PermissionsExt::from_mode(0o000)).expect("a mode can be set");
        let args = [OsStr::new("snapshot"), "--exclude=*.log".as_ref(), source.as_os_str(), repo.as_ref()];
        let run = finish(&mut command_bound_by_permissions(args)).expect(3).saying("closed");
        assert!(!run.stderr.contains("matched nothing"), "{}", run.stderr);
    }

    fn caches_are_known_by_their_signature_and_their_tags_are_kept(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        files(&source, &["cache/x", "cache/sub/y", "like/x", "linked/x", "piped/x", "short/x"]);
        write(source.join("cache/CACHEDIR.TAG"), SIGNATURE);
        write(source.join("like/CACHEDIR.TAG"), b"Signature: 8a477f597d28d172789f06886806bc56");
        write(source.join("short/CACHEDIR.TAG"), &SIGNATURE[..20]);
        std::os::unix::fs::symlink("../cache/CACHEDIR.TAG", source.join("linked/CACHEDIR.TAG"))
            .expect("a link can be made");
        finish(Command::new("mkfifo").arg(source.join("piped/CACHEDIR.TAG"))).expect(0);
        let summary = excluding(&["--exclude-caches"], &source, &repo).expect(0).summary();
        let all = [
            "cache", "cache/CACHEDIR.TAG", "like", "like/CACHEDIR.TAG", "like/x", "linked", "linked/CACHEDIR.TAG",
            "linked/x", "piped", "piped/CACHEDIR.TAG", "piped/x", "short", "short/CACHEDIR.TAG", "short/x",
        ];
        assert_eq!(kept(&repo, &source), all);
        assert_eq!(number(&summary, "excluded"), 1);
    }

    fn directories_with_a_marked_entry_keep_only_that(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        files(&source, &["a/.nobackup", "a/x", "a/sub/y", "b/x", "c/.nodump/in", "c/x"]);
        let options = ["--exclude-if-present=.nobackup", "--exclude-if-present=.nodump"];
        excluding(&options, &source, &repo).expect(0);
        assert_eq!(kept(&repo, &source), ["a", "a/.nobackup", "b", "b/x", "c"]);
    }

    fn large_and_old_files_are_left_out_at_their_limits(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock after 1970");
        for number in 0..200 {
            write(source.join(format!("large-{number}")), &bytes(number, 4097));
        }
        files(&source, &["old/file", "old/young"]);
        write(source.join("z-exact"), &bytes(1, 4096));
        write(source.join("old/young"), b"young");
        tree::set_mtime(&source.join("old/file"), now.as_secs() as i64 - 7200, 0);
        tree::set_mtime(&source.join("old/young"), now.as_secs() as i64 - 1800, 0);
        tree::set_mtime(&source.join("old"), 1, 0);
        std::os::unix::fs::symlink("nowhere", source.join("old/link")).expect("a link can be made");
        tree::set_mtime(&source.join("old/link"), 1, 0);
        let options = ["--exclude-larger-than=4K", "--exclude-older-than=1h"];
        let summary = excluding(&options, &source, &repo).expect(0).summary();
        assert_eq!(kept(&repo, &source), ["old", "old/link", "old/young", "z-exact"]);
        assert_eq!(number(&summary, "excluded"), 201);
    }

    fn a_named_source_is_never_excluded(fs: &Filesystem) {
        let (dir, repo) = (fs.dir("dir.tmp"), fs.join("repo"));
        files(&dir, &["a.tmp", "sub/b.tmp", "sub/c"]);
        write(dir.join("CACHEDIR.TAG"), SIGNATURE);
        let (file, sub) = (dir.join("sub/b.tmp"), dir.join("sub"));
        let options = ["snapshot", "--exclude=*.tmp", "--exclude-caches", "--exclude-larger-than=1K"].map(OsStr::new);
        let args = options.into_iter().chain([dir.as_os_str(), file.as_os_str(), sub.as_os_str(), repo.as_ref()]);
        pleach(args).expect(0);
        assert_eq!(kept(&repo, &dir), ["CACHEDIR.TAG", "sub", "sub/b.tmp"]);
    }

    fn other_filesystems_stay_out_and_their_mount_points_in(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        files(&source, &["a", "here/b"]);
        let other = fs.dir("beside");
        files(&other, &["in/c"]);
        let _foreign = Mounted::tmpfs(&source.join("mounts/foreign"));
        files(&source.join("mounts/foreign"), &["deep/d"]);
        let _bound = Mounted::bind(&other, &source.join("mounts/bound"));
        let summary = excluding(&["--one-file-system"], &source, &repo).expect(0).summary();
        let all =
            ["a", "here", "here/b", "mounts", "mounts/bound", "mounts/bound/in", "mounts/bound/in/c", "mounts/foreign"];
        assert_eq!(kept(&repo, &source), all);
        assert_eq!((number(&summary, "excluded"), number(&summary, "errors")), (1, 0));
        assert!(inside(&repo, "latest", &source).join("mounts/foreign").is_dir());
        let second = excluding(&["--one-file-system"], &source, &repo).expect(0).summary();
        assert_eq!(number(&second, "unchanged_files"), 3, "{second}");
        let deep = "mounts/foreign/deep/d".to_string();
        excluding(&[], &source, &repo).expect(0);
        assert!(kept(&repo, &source).contains(&deep));
        // An entry that is named explicitly is included.
        let named = source.join("mounts/foreign");
        let args =
            ["snapshot".as_ref(), "--one-file-system".as_ref(), source.as_os_str(), named.as_ref(), repo.as_ref()];
        pleach(args).expect(0);
        assert!(kept(&repo, &source).contains(&deep));
    }

    [btrfs] fn the_subvolumes_of_one_btrfs_are_one_filesystem(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let subvolumes = [source.join("inside"), fs.join("mounted")];
        for subvolume in &subvolumes {
            finish(Command::new("btrfs").args(["-q", "subvolume", "create"]).arg(subvolume)).expect(0);
            files(subvolume, &["x"]);
        }
        let _mounted = Mounted::bind(&subvolumes[1], &source.join("point"));
        excluding(&["--one-file-system"], &source, &repo).expect(0);
        assert_eq!(kept(&repo, &source), ["inside", "inside/x", "point", "point/x"]);
    }

    [btrfs] fn of_a_frozen_source_just_the_same_is_left_out(fs: &Filesystem) {
        let source = fs.join("source");
        finish(Command::new("btrfs").args(["-q", "subvolume", "create"]).arg(&source)).expect(0);
        files(
            &source,
            &["a.o", "keep.o", "cache/CACHEDIR.TAG", "cache/x", "tagged/.nobackup", "tagged/x", "sub/large", "sub/b"],
        );
        write(source.join("cache/CACHEDIR.TAG"), SIGNATURE);
        write(source.join("sub/large"), &bytes(1, 70_000));
        let nested = source.join("sub/nested");
        finish(Command::new("btrfs").args(["-q", "subvolume", "create"]).arg(&nested)).expect(0);
        files(&nested, &["c.o", "keep.o"]);
        let _foreign = Mounted::tmpfs(&source.join("mounts/foreign"));
        files(&source.join("mounts/foreign"), &["deep/d"]);
        let rules = [
            "--exclude=*.o",
            "--exclude=!keep.o",
            "--exclude-caches",
            "--exclude-if-present=.nobackup",
            "--exclude-larger-than=64K",
        ];
        for more in [&[][..], &["--one-file-system"]] {
            let name = format!("repo {}", more.len());
            let (living, frozen) = (fs.join(format!("living {name}")), fs.join(format!("frozen {name}")));
            let rules: Vec<_> = rules.iter().chain(more).copied().collect();
            let of_living = excluding(&rules, &source, &living).expect(0).summary();
            let frozen_rules: Vec<_> = rules.iter().copied().chain(["--freeze"]).collect();
            let of_frozen = excluding(&frozen_rules, &source, &frozen).expect(0).summary();
            assert_eq!(kept(&frozen, &source), kept(&living, &source));
            let counts = |summary| ["files", "dirs", "excluded", "errors"].map(|field| number(summary, field));
            assert_eq!(counts(&of_frozen), counts(&of_living), "{of_frozen}");
            assert_eq!(kept(&frozen, &source).contains(&"mounts/foreign/deep/d".to_string()), more.is_empty());
            // Run one after the other, they find the same tree.
            let again = excluding(&frozen_rules, &source, &living).expect(0).summary();
            // No time proves that a file in memory is unchanged, so it is copied again.
            let in_memory = u64::from(more.is_empty());
            assert_eq!(number(&again, "unchanged_files") + in_memory, number(&again, "files"), "{again}");
            tools::assert_equal_trees(
                &inside(&living, "latest", &source).join("sub"),
                &inside(&frozen, "latest", &source).join("sub"),
            );
        }
    }

    [xfs] fn patterns_come_from_files_and_from_stdin(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        files(&source, &["a.o", "b.o", "c.log", "keep.o", "#x", "y"]);
        let list = fs.join("list");
        write(&list, b"# objects\r\n*.o\r\n\r\n!keep.o\r\n\\#x\n");
        let from = format!("--exclude-from={}", list.display());
        excluding(&[&from, "--exclude=!b.o"], &source, &repo).expect(0);
        assert_eq!(kept(&repo, &source), ["b.o", "c.log", "keep.o", "y"]);
        let mut from_stdin =
            command([OsStr::new("snapshot"), "--exclude-from=-".as_ref(), source.as_ref(), repo.as_ref()]);
        finish(from_stdin.stdin(Stdio::from(fs::File::open(&list).expect("the list opens")))).expect(0);
        assert_eq!(kept(&repo, &source), ["c.log", "keep.o", "y"]);
    }

    [xfs] fn what_cannot_be_understood_is_refused_before_anything_is_done(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        files(&source, &["a"]);
        let list = fs.join("list");
        write(&list, b"*.o\n/a/[b\n");
        let from = format!("--exclude-from={}", list.display());
        let refused = |options: &[&str], status, why: &str| {
            excluding(options, &source, &repo).expect(status).saying(why);
            assert!(!repo.exists(), "{options:?} makes nothing");
        };
        refused(&[&from], 2, "line 2 of");
        refused(&["--exclude=a{"], 2, "pattern");
        refused(&["--exclude="], 2, "names nothing");
        refused(&["--exclude=../a"], 2, "has no '.' or '..'");
        refused(&["--exclude-if-present=a/b"], 2, "a name, and no path");
        refused(&["--exclude-if-present=."], 2, "a name, and no path");
        refused(&["--exclude-larger-than=big"], 2, "a number");
        refused(&["--exclude-from=/nowhere/list"], 1, "cannot read the patterns in /nowhere/list: No such file");
        refused(&["--exclude-from=/"], 1, "Is a directory");
        refused(&["--exclude-from=/dev/zero"], 1, "more than 64 MiB");
        write(&list, b"ok\n\xff\xfe\n");
        refused(&[&from], 2, "not UTF-8");
    }

    [xfs] fn ten_thousand_patterns_are_not_too_many(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        files(&source, &["x77-a/b", "name9999", "name10000", "sub/x8b"]);
        let list = fs.join("list");
        let top = source.display();
        let lines = (0..10_000).map(|n| format!("name{n}\n{top}/x{n}-*/\n{top}/*/x{n}?\n{top}/p/{n}\n"));
        write(&list, lines.collect::<String>().as_bytes());
        let from = format!("--exclude-from={}", list.display());
        excluding(&[&from], &source, &repo).expect(0).saying("and 39,992 more");
        assert_eq!(kept(&repo, &source), ["name10000", "sub"]);
    }
}
