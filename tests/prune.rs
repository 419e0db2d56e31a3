//! `pleach prune` and `pleach remove`: which snapshots survive, and why. `deletion` looks at how trees are deleted,
//! `killed` interrupts them, `marks` has tags and pins, `space` counts the freed bytes and fills filesystems. In
//! `held`, files stay open. `exact` and `trees` compare forecasts with the freed space, on XFS and on Btrfs.

mod deletion;
mod exact;
mod held;
mod killed;
mod marks;
mod space;
mod trees;

use crate::harness::json_lines::{Line, Problem, Warning};
use crate::harness::manifests::{self, edit};
use crate::harness::*;
use crate::on_filesystems;
use jiff::Timestamp;
use pleach::Repository;
use rustix::fs::{FlockOperation, flock};
use serde::Deserialize;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// What became of a snapshot.
#[derive(Debug, Deserialize)]
struct Fate {
    name: String,
    kept: bool,
    reasons: Vec<String>,
}

impl Line for Fate {
    const TYPE: &'static str = "snapshot";
}

/// The sums of a run.
#[derive(Debug, Deserialize)]
struct Sums {
    kept: u64,
    removed: u64,
    freed_bytes: u64,
    freed_is: String,
    freed_from: String,
    freed_metadata_bytes: Option<u64>,
    errors: u64,
}

impl Line for Sums {
    const TYPE: &'static str = "summary";
}

/// The arguments of a run of prune on this repository.
fn prune_args<'a>(options: &[&'a str], repo: &'a Path) -> Vec<&'a OsStr> {
    let options = options.iter().map(|option| OsStr::new(*option));
    [OsStr::new("prune"), "--json".as_ref()].into_iter().chain(options).chain([repo.as_os_str()]).collect()
}

fn prune(options: &[&str], repo: &Path) -> Run {
    finish(command(prune_args(options, repo)).env("TZ", "UTC"))
}

#[track_caller]
fn sums(run: &Run) -> Sums {
    run.lines().pop().expect("a summary")
}

/// The argument of `--keep-free` for this much more free space than there is.
fn more_space(path: &Path, bytes: u64) -> String {
    let stat = rustix::fs::statvfs(path).unwrap();
    (stat.f_bavail * stat.f_frsize + bytes).to_string()
}

/// The names of those that were kept, with their reasons.
#[track_caller]
fn kept(run: &Run) -> Vec<(String, Vec<String>)> {
    run.lines::<Fate>().into_iter().filter(|fate| fate.kept).map(|fate| (fate.name, fate.reasons)).collect()
}

/// Gives a snapshot another time, as if it had been taken then.
fn date(repo: &Path, name: &str, time: &str) {
    manifests::date(repo, name, time.parse::<Timestamp>().unwrap().as_second());
}

/// Makes a snapshot one that skipped an entry.
fn incomplete(repo: &Path, name: &str) {
    edit(repo, name, |_, _, totals| totals.errors = 1);
}

/// A repository with a snapshot for each of these times, named by its number, and a plain copy of each.
struct Dated {
    repo: PathBuf,
    source: PathBuf,
    copies: PathBuf,
}

impl Dated {
    fn new(dir: &Path, times: &[&str]) -> Dated {
        let [source, repo, copies] = ["source", "repo", "copies"].map(|name| dir.join(name));
        fs::create_dir_all(&source).unwrap();
        fs::create_dir_all(&copies).unwrap();
        tree::plain(&source);
        let dated = Dated { repo, source, copies };
        for number in 0..times.len() {
            dated.take(number);
        }
        for (number, time) in times.iter().enumerate() {
            date(&dated.repo, &number.to_string(), time);
        }
        dated
    }

    fn take(&self, number: usize) {
        write(self.source.join("changes"), &bytes(number as u64, 200_000));
        write(self.source.join(format!("new-{number}")), &bytes(number as u64 + 1000, 20_000));
        settle();
        let name = number.to_string();
        pleach(snapshot_named(&name, &self.source, &self.repo)).expect(0);
        finish(std::process::Command::new("cp").arg("-a").arg(&self.source).arg(self.copies.join(&name))).expect(0);
    }

    /// Asserts that these snapshots exist, that each still is what it was, and that `latest` is the last of them.
    #[track_caller]
    fn expect(&self, names: &[&str]) {
        assert_eq!(listed(&self.repo), names);
        for name in names {
            tools::assert_equal_trees(&self.copies.join(name), &inside(&self.repo, name, &self.source));
        }
        let latest = fs::read_link(self.repo.join("latest")).ok();
        assert_eq!(latest.as_deref(), names.last().map(Path::new));
    }
}

const YEAR_END: [&str; 7] = [
    "2026-10-01T02:00:00Z",
    "2026-11-30T02:00:00Z",
    "2026-12-26T02:00:00Z",
    "2026-12-27T02:00:00Z",
    "2026-12-31T02:00:00Z",
    "2027-01-01T02:00:00Z",
    "2027-01-01T03:00:00Z",
];

/// Such times, but in the past whatever the clock says.
fn past(times: &[&'static str]) -> Vec<&'static str> {
    times
        .iter()
        .map(|time| &*Box::leak(time.replace("2026", "2015").replace("2027", "2016").into_boxed_str()))
        .collect()
}

on_filesystems! {
    fn rules_combine_and_each_survivor_is_what_it_was(fs: &Filesystem) {
        let dated = Dated::new(fs.path(), &past(&YEAR_END));
        let options = ["--keep-daily", "2", "--keep-weekly", "2", "--keep-monthly", "3"];
        let before = tools::inventory(&dated.repo);
        let foretold = prune(&[&options[..], &["--dry-run"]].concat(), &dated.repo).expect(0);
        assert_same_lines(&tools::inventory(&dated.repo), &before);
        let run = prune(&options, &dated.repo).expect(0);
        // 1 January 2016 is in ISO week 53 of 2015, like 31 December; 26 and 27 December are in week 52.
        let expected: [(&str, &[&str]); 4] = [
            ("1", &["monthly"]),
            ("3", &["weekly"]),
            ("4", &["daily", "monthly"]),
            ("6", &["daily", "weekly", "monthly"]),
        ];
        let owned = |reasons: &[&str]| reasons.iter().map(|reason| reason.to_string()).collect();
        let expected = expected.map(|(name, reasons)| (name.to_string(), owned(reasons)));
        assert_eq!(kept(&run), expected);
        assert_eq!(kept(&foretold), expected);
        let summary = sums(&run);
        assert_eq!((summary.kept, summary.removed, summary.errors), (4, 3, 0));
        assert_eq!((summary.freed_is.as_str(), summary.freed_from.as_str()), ("about", "free-space"));
        dated.expect(&["1", "3", "4", "6"]);
        assert_no_leftovers(&dated.repo);
        for part in ["manifests", "added", "blocks", "marks"] {
            let dir = dated.repo.join(".pleach").join(part);
            let gone = |name: &String| ["0", "2", "5"].contains(&name.as_str());
            assert!(!dir.exists() || !names(&dir).iter().any(gone), "{part}");
        }
        assert_eq!(sums(&prune(&options, &dated.repo).expect(0)).removed, 0, "nothing is left to do");
        // A snapshot after that finds its last version.
        dated.take(7);
        dated.expect(&["1", "3", "4", "6", "7"]);
    }

    [xfs] fn days_and_hours_are_those_of_the_time_zone(fs: &Filesystem) {
        // Clocks in Berlin were set back at 01:00 UTC on 25 October 2015; 22:30 UTC is the next day there.
        let times = ["2015-10-24T22:30:00Z", "2015-10-25T00:30:00Z", "2015-10-25T01:30:00Z", "2015-10-25T22:30:00Z"];
        let dated = Dated::new(fs.path(), &times);
        let kept_in = |zone: &str, options: &[&str]| {
            let options = [options, &["--dry-run"]].concat();
            let run = finish(command(prune_args(&options, &dated.repo)).env("TZ", zone)).expect(0);
            kept(&run).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(kept_in("UTC", &["--keep-daily", "9"]), ["0", "3"]);
        assert_eq!(kept_in("Europe/Berlin", &["--keep-daily", "9"]), ["3"]);
        assert_eq!(kept_in("America/New_York", &["--keep-daily", "9"]), ["2", "3"]);
        assert_eq!(kept_in("Europe/Berlin", &["--keep-hourly", "9"]), ["0", "1", "2", "3"]);
        let unknown = finish(command(prune_args(&["--keep-last", "1"], &dated.repo)).env("TZ", "No/Where")).expect(1);
        assert!(unknown.stderr.contains("TZ"), "{}", unknown.stderr);
        dated.expect(&["0", "1", "2", "3"]);
    }

    [xfs] fn sources_are_judged_apart_and_the_newest_of_each_stays(fs: &Filesystem) {
        let (one, two, repo) = (fs.dir("one"), fs.dir("two"), fs.join("repo"));
        tree::plain(&one);
        tree::plain(&two);
        for (name, source) in [("a1", &one), ("b1", &two), ("a2", &one), ("b2", &two)] {
            settle();
            pleach(snapshot_named(name, source, &repo)).expect(0);
        }
        let run = prune(&["--keep-tag", "none"], &repo).expect(0);
        let newest = |name: &str| (name.to_string(), vec!["newest".to_string()]);
        assert_eq!(kept(&run), [newest("a2"), newest("b2")]);
        assert_eq!(listed(&repo), ["a2", "b2"]);
    }

    [xfs] fn an_empty_policy_is_refused(fs: &Filesystem) {
        let dated = Dated::new(fs.path(), &past(&YEAR_END[..2]));
        for options in [&[][..], &["--keep-daily", "0", "--keep-within", "0s", "--keep-free", "0"]] {
            prune(options, &dated.repo).expect(2).saying("--keep-daily 7");
        }
        let removed = |options: &[&str]| sums(&prune(options, &dated.repo).expect(0)).removed;
        let last = ["--dry-run", "--keep-last", "1"];
        assert_eq!(removed(&[&last[..], &["--keep-free", "0"]].concat()), removed(&last));
        for options in [["--keep-daily", "x"], ["--keep-free", "100%"], ["--keep-tag", ""], ["--keep-within", "7"]] {
            prune(&options, &dated.repo).expect(2);
        }
        dated.expect(&["0", "1"]);
    }

    fn what_protects_a_snapshot(fs: &Filesystem) {
        let mut times = past(&YEAR_END);
        times[6] = "2999-01-01T00:00:00Z";
        let dated = Dated::new(fs.path(), &times);
        let repo = &dated.repo;
        pleach([OsStr::new("pin"), repo.as_ref(), "0".as_ref()]).expect(0);
        pleach([OsStr::new("tag"), repo.as_ref(), "1".as_ref(), "+yes".as_ref()]).expect(0);
        let manifest = repo.join(".pleach/manifests/2");
        let intact = fs::read(&manifest).unwrap();
        overwrite(&manifest, 30, &[0xff; 8]);
        // Deleted by hand.
        tools::delete_snapshot(&repo.join("3"));
        // Read by another process.
        let reader = Repository::open(repo).unwrap();
        let reading = File::open(repo.join(".pleach/manifests/4")).unwrap();
        flock(&reading, FlockOperation::LockShared).unwrap();
        let run = prune(&["--keep-tag", "yes"], repo).expect(3);
        let expected =
            [("2", "damaged"), ("0", "pinned"), ("1", "tag"), ("4", "in-use"), ("5", "newest"), ("6", "future")];
        let expected = expected.map(|(name, reason)| (name.to_string(), vec![reason.to_string()]));
        assert_eq!(kept(&run), expected);
        let codes: Vec<_> = run.lines::<Problem>().into_iter().map(|problem| problem.code).collect();
        assert_eq!(codes, ["damage", "in-use"]);
        let warnings: Vec<_> = run.lines::<Warning>().into_iter().map(|warning| warning.code).collect();
        assert_eq!(warnings, ["dated-ahead"]);
        assert_eq!(sums(&run).errors, 2);
        drop((reading, reader));
        fs::write(&manifest, intact).unwrap();
        dated.expect(&["0", "1", "2", "4", "5", "6"]);
        assert_eq!(sums(&prune(&["--keep-tag", "yes"], repo).expect(0)).removed, 2);
        dated.expect(&["0", "1", "5", "6"]);
    }

    fn what_cannot_be_restored_pushes_nothing_out(fs: &Filesystem) {
        let dated = Dated::new(fs.path(), &past(&YEAR_END[..5]));
        let repo = &dated.repo;
        // The last two nights skipped something.
        for name in ["3", "4"] {
            incomplete(repo, name);
        }
        let run = prune(&["--keep-last", "2"], repo).expect(0);
        let expected = ["1", "2", "3", "4"].map(|name| (name, "last"));
        assert_eq!(kept(&run), expected.map(|(name, reason)| (name.to_string(), vec![reason.to_string()])));
        // A block of the newest manifest is damaged, which listing does not notice.
        let manifest = repo.join(".pleach/manifests/4");
        let intact = fs::read(&manifest).unwrap();
        let middle = intact.len() / 2;
        overwrite(&manifest, middle as u64, &[!intact[middle]; 8]);
        let run = prune(&["--keep-last", "1"], repo).expect(3);
        let expected = [("4", "damaged"), ("2", "last"), ("3", "last")];
        assert_eq!(kept(&run), expected.map(|(name, reason)| (name.to_string(), vec![reason.to_string()])));
        assert_eq!(sums(&run).errors, 1);
        fs::write(&manifest, intact).unwrap();
        dated.expect(&["2", "3", "4"]);
    }

    [xfs] fn pins_that_cannot_be_read_keep_everything(fs: &Filesystem) {
        let dated = Dated::new(fs.path(), &past(&YEAR_END[..3]));
        pleach([OsStr::new("pin"), dated.repo.as_ref(), "0".as_ref()]).expect(0);
        let marks = dated.repo.join(".pleach/marks");
        fs::rename(&marks, fs.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(fs.join("elsewhere"), &marks).unwrap();
        let run = prune(&["--keep-last", "1"], &dated.repo).expect(3);
        assert_eq!((sums(&run).removed, sums(&run).errors), (0, 3));
        fs::remove_file(&marks).unwrap();
        dated.expect(&["0", "1", "2"]);
    }

    [xfs] fn more_free_space_than_there_can_be_is_refused(fs: &Filesystem) {
        let dated = Dated::new(fs.path(), &past(&YEAR_END[..3]));
        for space in ["500T", "1E"] {
            let run = pleach(prune_args(&["--keep-free", space], &dated.repo)).expect(2);
            run.saying("more space free than there is");
        }
        dated.expect(&["0", "1", "2"]);
    }

    fn a_restore_in_progress_keeps_its_snapshot(fs: &Filesystem) {
        let dated = Dated::new(fs.path(), &past(&YEAR_END[..2]));
        let target = fs.dir("target");
        let args = ["restore".as_ref(), dated.repo.as_os_str(), "0".as_ref(), "--target".as_ref(), target.as_os_str()];
        let restore = std::thread::spawn({
            let mut slow = tools::with_slow_opens(args);
            move || finish(&mut slow)
        });
        let manifest = File::open(dated.repo.join(".pleach/manifests/0")).unwrap();
        let is_locked = || {
            let taken = flock(&manifest, FlockOperation::NonBlockingLockExclusive);
            let _ = flock(&manifest, FlockOperation::Unlock);
            taken.is_err()
        };
        let mut was_locked = false;
        while !was_locked && !restore.is_finished() {
            was_locked = is_locked();
        }
        assert!(was_locked, "the restore holds a lock");
        let run = pleach(["remove".as_ref(), "--json".as_ref(), dated.repo.as_os_str(), "0".as_ref()]);
        restore.join().unwrap().expect(0);
        if run.status == 3 {
            assert_eq!(run.lines::<Fate>()[0].reasons, ["in-use"]);
            dated.expect(&["0", "1"]);
        }
        tools::assert_equal_trees(&dated.copies.join("0"), &inside(&target, "", &dated.source));
    }

    fn remove_takes_ids_and_moves_latest(fs: &Filesystem) {
        let dated = Dated::new(fs.path(), &past(&YEAR_END[..4]));
        let repo = &dated.repo;
        let remove = |ids: &[&str]| {
            let ids = ids.iter().map(OsStr::new);
            pleach(["remove".as_ref(), "--json".as_ref(), repo.as_os_str()].into_iter().chain(ids))
        };
        remove(&["0", "nothing"]).expect(1);
        dated.expect(&["0", "1", "2", "3"]);
        remove(&["latest", "3", "--dry-run"]).expect(0);
        dated.expect(&["0", "1", "2", "3"]);
        let run = remove(&["latest", "3"]).expect(0);
        assert_eq!((sums(&run).removed, run.lines::<Fate>().len()), (1, 1));
        dated.expect(&["0", "1", "2"]);
        // A damaged manifest does not protect a snapshot that is named.
        overwrite(&repo.join(".pleach/manifests/1"), 30, &[0xff; 8]);
        remove(&["1"]).expect(0);
        dated.expect(&["0", "2"]);
        pleach([OsStr::new("pin"), repo.as_ref(), "0".as_ref()]).expect(0);
        let run = remove(&["0", "2"]).expect(3).saying("unpin");
        assert_eq!(kept(&run), [("0".to_string(), vec!["pinned".to_string()])]);
        dated.expect(&["0"]);
        pleach([OsStr::new("unpin"), repo.as_ref(), "0".as_ref()]).expect(0);
        remove(&["0"]).expect(0);
        assert_eq!(published(repo), [""; 0]);
        assert!(repo.join("latest").symlink_metadata().is_err());
        assert_no_leftovers(repo);
    }

    [xfs] fn another_run_keeps_the_repository_locked(fs: &Filesystem) {
        let dated = Dated::new(fs.path(), &past(&YEAR_END[..2]));
        let lock = File::options().write(true).open(dated.repo.join(".pleach/lock")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        prune(&["--keep-last", "1"], &dated.repo).expect(11);
        prune(&["--keep-last", "1", "--dry-run"], &dated.repo).expect(0);
        pleach([OsStr::new("remove"), dated.repo.as_ref(), "0".as_ref()]).expect(11);
        pleach([OsStr::new("pin"), dated.repo.as_ref(), "0".as_ref()]).expect(11);
        pleach([OsStr::new("tag"), dated.repo.as_ref(), "0".as_ref()]).expect(0);
        dated.expect(&["0", "1"]);
    }

    [xfs] fn the_table_fits_eighty_columns(fs: &Filesystem) {
        let dated = Dated::new(fs.path(), &past(&YEAR_END));
        let args = ["prune", "--keep-last", "2", "--keep-hourly", "2", "--keep-daily", "2", "--keep-weekly", "2",
            "--keep-monthly", "2", "--keep-yearly", "9", "--keep-within", "1d", "--dry-run"];
        let mut prune = command(args.into_iter().map(OsStr::new).chain([dated.repo.as_os_str()]));
        let table = finish(prune.env("TZ", "UTC").env_remove("COLUMNS")).expect(0).stdout;
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
        for words in ["would be removed", "hourly", "yearly", "recent", "counted from extents"] {
            assert!(table.contains(words), "{words}:\n{table}");
        }
    }
}
