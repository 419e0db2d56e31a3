//! What counts as damage and what does not: nothing sound is called damaged, nothing is reported twice, and lost data
//! is damage wherever it was.

use super::repair::assert_closed;
use super::*;
use pleach::monitor::{Amount, Monitor};
use rustix::fs::{FallocateFlags, fallocate};
use std::process::Stdio;
use std::sync::Once;

/// Runs `verify --json` while calls on this path fail with an error.
fn failing(call: &str, error: &str, at: &Path, repo: &Path) -> Run {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("inject={call}:error={error}"), "-P"]).arg(at);
    strace.arg(env!("CARGO_BIN_EXE_pleach")).args(["verify", "--json", "-j", "1"]).arg(repo);
    finish(strace.env_remove("PLEACH_REPO").stdin(Stdio::null()))
}

/// The command pleach. Nobody reads its stdout.
fn unread(words: &[&str]) -> Command {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = command(words);
    command.stdout(writer);
    command
}

/// Takes a snapshot with more damaged files than lines fit into the buffer of stdout.
fn more_damage_than_is_buffered(source: &Path, repo: &Path) {
    let names: Vec<_> = (0..300).map(|number| format!("{number:0>240}")).collect();
    names.iter().for_each(|name| write(source.join(name), &bytes(1, 100)));
    take("one", source, repo);
    let tree = inside(repo, "one", source);
    change(repo, "one", || names.iter().for_each(|name| overwrite_quietly(&tree.join(name), 5, b"rotten")));
}

fn whys(run: &Run) -> Vec<String> {
    run.lines::<DamageLine>().into_iter().map(|line| line.why).collect()
}

/// Changes something as soon as data was read.
struct Meanwhile<F> {
    once: Once,
    change: F,
    recording: Recording,
}

impl<F: Fn() + Sync> Monitor for Meanwhile<F> {
    fn advance(&self, amount: Amount) {
        if amount.bytes > 0 {
            self.once.call_once(&self.change);
        }
    }

    fn damage(&self, damage: &pleach::monitor::Damage<'_>) {
        self.recording.damage(damage);
    }
}

on_filesystems! {
    [xfs] fn damage_is_status_4_even_if_the_report_cannot_be_written(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("file"), &bytes(1, 50_000));
        take("one", &source, &repo);
        let verify = || {
            let full = File::options().write(true).open("/dev/full").unwrap();
            finish(command(["verify".as_ref(), repo.as_os_str()]).stdout(full)).saying("cannot write the output")
        };
        verify().expect(3);
        fs::remove_file(inside(&repo, "one", &source).join("file")).unwrap();
        verify().expect(4);
    }

    [xfs] fn damage_is_status_4_even_if_the_reader_of_the_report_goes(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        more_damage_than_is_buffered(&source, &repo);
        for format in [&["--json"][..], &[]] {
            let run = finish(unread(&["verify"]).args(format).arg(&repo)).expect(4);
            let run = run.saying("its output cannot be written");
            assert!(!run.stderr.contains("cannot write"), "{}", run.stderr);
            let full = File::options().write(true).open("/dev/full").unwrap();
            let run = finish(command(["verify"]).args(format).arg(&repo).stdout(full)).expect(4);
            run.saying("cannot write the output").saying("its output cannot be written; damage of");
        }
        // A run continues to its end.
        let profile = fs.join("profile.toml");
        write(&profile, format!("repository = {repo:?}\n[verify]\n").as_bytes());
        fs::set_permissions(&profile, fs::Permissions::from_mode(0o600)).unwrap();
        let run = finish(unread(&["run"]).arg(&profile)).expect(4);
        assert!(!run.stderr.contains("stopped"), "{}", run.stderr);
    }

    [xfs] fn a_repair_goes_on_if_the_reader_of_the_report_goes(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        let (source, repo) = (elsewhere.dir("source"), fs.join("repo"));
        more_damage_than_is_buffered(&source, &repo);
        finish(unread(&["verify", "--repair-from", "/"]).arg(&repo)).expect(0);
        assert_closed(&repo);
        assert_sound(&repo, &source);
    }

    fn a_file_whose_blocks_were_never_written_is_sound(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        let size = 32 << 20;
        let file = File::create(source.join("file")).unwrap();
        fallocate(&file, FallocateFlags::empty(), 0, size).unwrap();
        overwrite(&source.join("file"), 0, &bytes(1, 4096));
        write(source.join("small"), b"x");
        take("one", &source, &repo);
        let stats = assert_sound(&repo, &source);
        assert_eq!((stats.files, stats.unhashed_files), (2, 1), "its holes are out of proportion");
        // An older version gave it a hash.
        let hash = blake3::hash(&fs::read(source.join("file")).unwrap());
        edit(&repo, "one", |_, items, _| {
            for item in items {
                if let Item::Entry(Entry { body: Body::File(file), .. }) = item
                    && file.hash.is_none()
                {
                    file.hash = Some(hash.into());
                }
            }
        });
        assert_eq!(assert_sound(&repo, &source).checked_files, 2);
        let tree = inside(&repo, "one", &source);
        change(&repo, "one", || overwrite_quietly(&tree.join("file"), 1000, b"rotten"));
        assert_eq!(whys(&run(&repo, &[]).expect(4)), ["content"]);
    }

    fn a_directory_that_the_device_lost_is_damage(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        take("lost one", &source, &repo);
        take("two", &source, &repo);
        for error in ["EIO", "EUCLEAN"] {
            // The first such call opens the manifest, and the second the tree.
            for (nth, path) in [(1, repo.join(".pleach/manifests/lost one")), (2, repo.join("lost one"))] {
                let run = failing("openat", &format!("{error}:when={nth}"), Path::new("lost one"), &repo).expect(4);
                let lines = run.lines::<DamageLine>();
                assert_eq!((lines.len(), lines[0].snapshot.as_str()), (1, "lost one"), "{lines:?}");
                assert_eq!((lines[0].why.as_str(), lines[0].path.as_deref()), ("unreadable", path.to_str()));
                assert_eq!(number(&run.summary(), "errors"), 0);
            }
        }
        // It is read again, for the names that have no record.
        let tree = inside(&repo, "two", &source);
        change(&repo, "two", || in_directory(&tree, || write(tree.join("added"), b"x")));
        assert_eq!(whys(&run(&repo, &[]).expect(4)), ["unlisted"]);
        let run = failing("getdents64", "EIO:when=3+", &tree, &repo).expect(4);
        assert_eq!(whys(&run), ["unreadable"]);
    }

    [xfs, btrfs] fn a_file_that_cannot_be_read_is_reported_once(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        fs::set_permissions(source.join("a"), fs::Permissions::from_mode(0o000)).unwrap();
        for name in ["one", "two", "three"] {
            take(name, &source, &repo);
        }
        for mode in [&["--sharing"][..], &["--sharing", "--quick"]] {
            let args = ["verify", "--json"].iter().chain(mode).map(OsStr::new).chain([repo.as_os_str()]);
            let run = finish(&mut command_bound_by_permissions(args)).expect(3);
            assert_eq!(number(&run.summary(), "errors"), 3, "{mode:?}: {}", run.stderr);
        }
    }

    fn the_position_does_not_pass_a_snapshot_that_could_not_be_read(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        take("one", &source, &repo);
        let manifest = repo.join(".pleach/manifests/one");
        fs::set_permissions(&manifest, fs::Permissions::from_mode(0o000)).unwrap();
        let verify = || {
            let args = ["verify", "--read", "20%"].map(OsStr::new);
            finish(&mut command_bound_by_permissions(args.into_iter().chain([repo.as_os_str()])))
        };
        verify().expect(3).saying("Permission denied");
        assert!(!repo.join(".pleach/verified").exists());
        fs::set_permissions(&manifest, fs::Permissions::from_mode(0o600)).unwrap();
        verify().expect(0);
        assert!(repo.join(".pleach/verified").exists());
    }

    [xfs] fn data_that_moves_to_an_address_that_was_read_is_no_damage(fs: &Filesystem) {
        // Copied, so that the repository's blocks are overwritten in place.
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        write(source.join("a"), &bytes(1, 65536));
        write(source.join("z"), &bytes(2, 65536));
        take("one", &source, &repo);
        let tree = inside(&repo, "one", &source);
        let modified = |name: &str| fs::metadata(tree.join(name)).unwrap().modified().unwrap();
        let times = (modified("a"), modified("z"));
        tools::forget(&tree.join("a"));
        let change = || {
            // As if `a` had moved away, and `z` to the place where it was.
            overwrite(&tree.join("a"), 0, &bytes(2, 65536));
            File::open(tree.join("a")).unwrap().sync_all().unwrap();
            let z = File::options().write(true).open(tree.join("z")).unwrap();
            rustix::fs::ioctl_ficlone(&z, File::open(tree.join("a")).unwrap()).unwrap();
            z.set_modified(times.1).unwrap();
            z.sync_all().unwrap();
        };
        let monitor = Meanwhile { once: Once::new(), change, recording: Recording::default() };
        let stats = verify(&repo, &[], &Options { threads: Some(1), ..Options::default() }, &monitor).unwrap();
        assert!(monitor.once.is_completed());
        let found = monitor.recording.damage.into_inner().unwrap();
        assert_eq!((found, stats.read_bytes), (Vec::new(), 2 * 65536));
    }
}
