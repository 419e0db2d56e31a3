//! `pleach adopt`: the backups of other programs become snapshots. The backups are made by `rsync --link-dest`.

mod rotated;

use crate::harness::json_lines::Line;
use crate::harness::*;
use crate::on_filesystems;
use serde::Deserialize;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, Deserialize)]
struct Backup {
    tree: PathBuf,
    source: PathBuf,
    created: String,
    name: Option<String>,
    known: bool,
    read_bytes: Option<u64>,
    copied_bytes: Option<u64>,
}

impl Line for Backup {
    const TYPE: &'static str = "backup";
}

#[derive(Debug, Deserialize)]
struct Sums {
    adopted: u64,
    known: u64,
    errors: u64,
}

impl Line for Sums {
    const TYPE: &'static str = "summary";
}

/// The summary of a snapshot.
#[derive(Debug, Deserialize)]
struct Taken {
    new_files: u64,
}

impl Line for Taken {
    const TYPE: &'static str = "summary";
}

fn sums(run: &Run) -> Sums {
    run.lines().pop().expect("a summary")
}

fn adopt(args: &[&OsStr]) -> Run {
    let args = [OsStr::new("adopt"), "--json".as_ref()].into_iter().chain(args.iter().copied());
    finish(command(args).env("TZ", "UTC"))
}

/// Three versions of a tree, as `rsync --link-dest` keeps them in these directories.
struct Kept {
    live: PathBuf,
    backups: Vec<PathBuf>,
}

impl Kept {
    fn new(fs: &Filesystem, backups: [&str; 3]) -> Kept {
        let live = fs.dir("live");
        tree::crowded(&live, 60);
        write(live.join("changes"), &bytes(0, 3 << 20));
        let mut kept = Kept { live, backups: Vec::new() };
        for (number, backup) in backups.into_iter().enumerate() {
            let backup = fs.join(backup);
            fs::create_dir_all(backup.parent().unwrap()).unwrap();
            overwrite(&kept.live.join("changes"), 1 << 20, &bytes(number as u64 + 1, 8192));
            write(kept.live.join(format!("new-{number}")), &bytes(number as u64 + 9, 20_000));
            let mut rsync = Command::new("rsync");
            rsync.args(["-aHAX", "--modify-window=-1"]);
            if let Some(last) = kept.backups.last() {
                let mut link = std::ffi::OsString::from("--link-dest=");
                link.push(last);
                rsync.arg(link);
            }
            finish(rsync.arg(kept.live.join("")).arg(backup.join(""))).expect(0);
            kept.backups.push(backup);
        }
        settle();
        kept
    }

    fn assert_adopted(&self, repo: &Path, source: &Path) {
        let names = listed(repo);
        assert_eq!(names.len(), self.backups.len());
        for (name, backup) in names.iter().zip(&self.backups) {
            tools::assert_equal_trees(backup, &inside(repo, name, source));
        }
        pleach([OsStr::new("verify"), repo.as_os_str()]).expect(0);
        assert_no_leftovers(repo);
    }
}

on_filesystems! {
    fn backups_of_rsync_become_snapshots_and_each_inode_is_read_once(fs: &Filesystem) {
        let kept = Kept::new(fs, ["2025-01-30_0200", "2025-01-31_0200", "2025-02-01_0200"]);
        let (repo, source) = (fs.join("repo"), Path::new("/home/ann/letters"));
        let mut args: Vec<&OsStr> = kept.backups.iter().map(|backup| backup.as_os_str()).collect();
        args.extend(["--source".as_ref(), source.as_os_str(), repo.as_os_str()]);
        let before = tools::inventory(fs.path());
        let planned = adopt(&[&args[..], &["--dry-run".as_ref()]].concat()).expect(0);
        assert_eq!((sums(&planned).adopted, repo.exists()), (3, false));
        assert_same_lines(&tools::inventory(fs.path()), &before);
        let run = adopt(&args).expect(0);
        assert_eq!((sums(&run).adopted, sums(&run).errors), (3, 0));
        let rows: Vec<Backup> = run.lines();
        assert_eq!(rows[1].created, "2025-01-31T02:00:00Z");
        assert_eq!(rows[1].name.as_deref(), Some("2025-01-31T020000Z"));
        assert!(rows.iter().all(|row| row.source == source && !row.known), "{rows:?}");
        // rsync wrote the large file anew; the rest has the inodes of the backup before.
        assert!(rows[1].read_bytes.unwrap() <= (3 << 20) * 2 + 20_000, "{rows:?}");
        if fs.kind != Kind::Ext4 {
            // On Btrfs the changed blocks are written, so that the rest can share its extents.
            let allowed = if fs.kind == Kind::Btrfs { 2 * 8192 } else { 0 };
            assert!(rows.iter().map(|row| row.copied_bytes.unwrap()).sum::<u64>() <= allowed, "{rows:?}");
        }
        kept.assert_adopted(&repo, source);
        let again = sums(&adopt(&args).expect(0));
        assert_eq!((again.adopted, again.known), (0, 3));
    }

    [xfs] fn a_backup_that_fails_ends_the_run_and_those_before_it_are_shown(fs: &Filesystem) {
        let kept = Kept::new(fs, ["2025-01-30_0200", "2025-01-31_0200", "2025-02-01_0200"]);
        let (repo, source) = (fs.join("repo"), Path::new("/home/ann/letters"));
        let mut adopt = Command::new("strace");
        adopt.args(["-f", "-qq", "-o", "/dev/null", "-e", "inject=renameat2:error=EIO", "-P", "2025-01-31T020000Z"]);
        adopt.args([env!("CARGO_BIN_EXE_pleach"), "adopt", "--json", "--source"]).arg(source);
        let run = finish(adopt.args(&kept.backups).arg(&repo).env("TZ", "UTC").env_remove("PLEACH_REPO")).expect(1);
        let names: Vec<_> = run.lines::<Backup>().into_iter().filter_map(|row| row.name).collect();
        assert_eq!((names, listed(&repo).len()), (vec!["2025-01-30T020000Z".to_string()], 1));
        assert_eq!((sums(&run).adopted, sums(&run).errors, run.summary()["complete"].as_bool()), (1, 1, Some(false)));
        let mut args: Vec<&OsStr> = kept.backups.iter().map(|backup| backup.as_os_str()).collect();
        args.extend(["--source".as_ref(), source.as_os_str(), repo.as_os_str()]);
        let run = self::adopt(&args).expect(0);
        let again = sums(&run);
        assert_eq!((again.adopted, again.known, run.summary()["complete"].as_bool()), (2, 1, Some(true)));
        kept.assert_adopted(&repo, source);
    }

    [xfs, btrfs] fn backups_do_not_become_the_latest_snapshot(fs: &Filesystem) {
        let kept = Kept::new(fs, ["2025-01-30_0200", "2025-01-31_0200", "2025-02-01_0200"]);
        let (repo, source) = (fs.join("repo"), Path::new("/home/ann/letters"));
        let latest = || fs::read_link(repo.join("latest")).unwrap();
        pleach(snapshot_named("today", &kept.live, &repo)).expect(0);
        let mut args: Vec<&OsStr> = kept.backups.iter().map(|backup| backup.as_os_str()).collect();
        args.extend(["--source".as_ref(), source.as_os_str(), repo.as_os_str()]);
        // One that may not survive a power cut is the last one, and is not passed over before that is certain.
        let words = [&["adopt".as_ref(), "--json".as_ref()], &args[..]].concat();
        let run = tools::without_sync(&repo, "", words).expect(1).saying("may not survive a power cut");
        assert_eq!((sums(&run).adopted, run.summary()["complete"].as_bool()), (1, Some(false)));
        assert_eq!(latest(), Path::new("today"));
        let run = adopt(&args).expect(0);
        assert_eq!((sums(&run).adopted, sums(&run).known, sums(&run).errors), (2, 1, 0));
        assert_eq!(latest(), Path::new("today"));
        assert_no_leftovers(&repo);
        // Among themselves, the newest one is.
        pleach([OsStr::new("remove"), repo.as_os_str(), "today".as_ref(), "2025-02".as_ref()]).expect(0);
        assert_eq!(latest(), Path::new("2025-01-31T020000Z"));
        adopt(&args).expect(0);
        assert_eq!(latest(), Path::new("2025-02-01T020000Z"));
    }

    fn a_history_continues_with_the_live_source(fs: &Filesystem) {
        let kept = Kept::new(fs, ["snap/daily.2/localhost/docs", "snap/daily.1/localhost/docs",
            "snap/daily.0/localhost/docs"]);
        for (number, seconds) in [(2, 1_700_000_000), (1, 1_700_086_400), (0, 1_700_172_800)] {
            let backup = fs.join(format!("snap/daily.{number}"));
            finish(Command::new("touch").arg(format!("-d@{seconds}")).arg(backup)).expect(0);
        }
        fs::create_dir(fs.join("snap/.sync")).unwrap();
        let (root, repo) = (fs.join("snap"), fs.join("repo"));
        let part = ["--subdir", "localhost/docs", "--source"].map(OsStr::new);
        let args = [&part[..], &[kept.live.as_os_str(), root.as_os_str(), repo.as_os_str()]].concat();
        let run = adopt(&args).expect(0);
        let rows: Vec<Backup> = run.lines();
        assert_eq!(rows[0].created, "2023-11-14T22:13:20Z");
        assert_eq!(rows[0].tree, kept.backups[0]);
        kept.assert_adopted(&repo, &kept.live);
        let next = pleach(snapshot_named("next", &kept.live, &repo)).expect(0);
        let summary: Taken = next.lines().pop().unwrap();
        assert_eq!(summary.new_files, 0, "{}", next.stdout);
        tools::assert_equal_trees(&kept.live, &inside(&repo, "next", &kept.live));
        pleach([OsStr::new("prune"), "--keep-last=1".as_ref(), repo.as_os_str()]).expect(0);
        assert_eq!(listed(&repo), ["next"]);
        // The backups themselves were never touched.
        tools::assert_equal_trees(&kept.live, &kept.backups[2]);
    }

    [xfs] fn a_backup_without_the_wanted_part_is_left_alone(fs: &Filesystem) {
        let kept = Kept::new(fs, ["snap/daily.2/etc", "snap/daily.1/etc", "snap/daily.0/etc"]);
        fs::rename(fs.join("snap/daily.1/etc"), fs.join("snap/daily.1/other")).unwrap();
        let (root, repo) = (fs.join("snap"), fs.join("repo"));
        let args = ["--subdir=etc".as_ref(), "--source".as_ref(), kept.live.as_os_str(), root.as_ref(), repo.as_ref()];
        for _ in 0..2 {
            let run = adopt(&args).expect(3).saying("snap/daily.1/etc");
            assert_eq!((sums(&run).adopted + sums(&run).known, sums(&run).errors), (2, 1));
            assert_eq!(run.lines::<Backup>().len(), 2);
        }
        assert_eq!(listed(&repo).len(), 2);
        // Perhaps a typing error.
        adopt(&["--subdir=ect".as_ref(), root.as_ref(), repo.as_ref()]).expect(1).saying("ect");
    }

    [xfs, btrfs] fn timeshift_and_back_in_time_are_recognised_and_incomplete_backups_are_reported(fs: &Filesystem) {
        let kept = Kept::new(fs, ["ts/snapshots/2025-01-30_02-00-00/localhost",
            "ts/snapshots/2025-01-31_02-00-00/localhost", "ts/snapshots/2025-02-01_02-00-00/localhost"]);
        let seconds = [1_738_202_400, 1_738_288_800, 1_738_375_200];
        for (backup, seconds) in kept.backups.iter().zip(seconds) {
            write(backup.with_file_name("info.json"), format!("{{\n  \"created\" : \"{seconds}\"\n}}").as_bytes());
        }
        fs::create_dir_all(fs.join("ts/snapshots/2025-02-02_02-00-00/localhost")).unwrap();
        let (dir, repo) = (fs.join("ts"), fs.join("repo"));
        let run = adopt(&[dir.as_os_str(), repo.as_os_str()]).expect(3).saying("2025-02-02");
        assert_eq!((sums(&run).adopted, sums(&run).errors), (3, 1));
        assert!(run.lines::<Backup>().iter().all(|backup| backup.source == Path::new("/")));
        kept.assert_adopted(&repo, Path::new("/"));

        let (dir, repo) = (fs.dir("bit"), fs.join("repo2"));
        for (number, backup) in kept.backups.iter().enumerate() {
            let there = dir.join(format!("2025010{}-020000-123", number + 1));
            fs::create_dir(&there).unwrap();
            fs::rename(backup, there.join("backup")).unwrap();
        }
        fs::create_dir(dir.join("20250104-020000-123")).unwrap();
        symlink("20250103-020000-123", dir.join("last_snapshot")).unwrap();
        let run = adopt(&[dir.as_os_str(), repo.as_os_str()]).expect(3).saying("20250104");
        assert_eq!(run.lines::<Backup>()[0].created, "2025-01-01T02:00:00Z");
        assert_eq!(listed(&repo).len(), 3);
    }

    fn hard_links_between_backups_stay_or_become_clones(fs: &Filesystem) {
        let kept = Kept::new(fs, ["2025-01-30", "2025-01-31", "2025-02-01"]);
        for (repo, options) in [("linked", &[][..]), ("cloned", &["--clone-links"])] {
            let repo = fs.join(repo);
            let mut args: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
            args.extend(kept.backups.iter().map(|backup| backup.as_os_str()));
            args.extend(["--source", "/docs"].map(OsStr::new));
            args.push(repo.as_os_str());
            adopt(&args).expect(0);
            kept.assert_adopted(&repo, Path::new("/docs"));
            let inodes: Vec<_> = listed(&repo).iter()
                .map(|name| inside(&repo, name, Path::new("/docs")).join("new-0"))
                .map(|path| fs::metadata(path).map(|status| (status.dev(), status.ino())).unwrap())
                .collect();
            assert_eq!(inodes[0] == inodes[1], options.is_empty(), "{inodes:?}");
        }
    }

    fn killed_at_any_call_it_loses_nothing_and_the_next_run_continues(fs: &Filesystem) {
        let kept = Kept::new(fs, ["2025-01-30", "2025-01-31", "2025-02-01"]);
        let repo = fs.join("repo");
        let mut args: Vec<&OsStr> = vec!["adopt".as_ref(), "--source".as_ref(), "/docs".as_ref()];
        args.extend(kept.backups.iter().map(|backup| backup.as_os_str()));
        args.push(repo.as_os_str());
        let backups = tools::inventory(&kept.backups[1]);
        let mut killed = 0;
        let steps =
            [("mkdirat", 3), ("mkdirat", 9), ("renameat2", 1), ("fsync", 2), ("renameat2", 2), ("syncfs", 4)];
        for (call, nth) in steps {
            killed += u32::from(tools::killed_at(call, nth, &args).status == 128 + 9);
            if repo.join("latest").exists() {
                let names = listed(&repo);
                for (name, backup) in names.iter().zip(&kept.backups) {
                    tools::assert_equal_trees(backup, &inside(&repo, name, Path::new("/docs")));
                }
            }
        }
        assert!(killed >= 4, "{killed} runs were killed");
        pleach(&args).expect(0);
        kept.assert_adopted(&repo, Path::new("/docs"));
        assert_same_lines(&tools::inventory(&kept.backups[1]), &backups);
    }

    [xfs, btrfs] fn a_run_that_finds_all_backups_adopted_completes_the_one_that_was_killed(fs: &Filesystem) {
        let kept = Kept::new(fs, ["2025-01-30", "2025-01-31", "2025-02-01"]);
        let repo = fs.join("repo");
        let mut args: Vec<&OsStr> = vec!["--source".as_ref(), "/docs".as_ref()];
        args.extend(kept.backups.iter().map(|backup| backup.as_os_str()));
        args.push(repo.as_os_str());
        adopt(&args).expect(0);
        let newest = listed(&repo).pop().expect("a snapshot");
        // What a run leaves that is killed behind its last snapshot.
        fs::create_dir(repo.join(".pleach/partial").join(&newest)).unwrap();
        fs::remove_file(repo.join("latest")).unwrap();
        let again = sums(&adopt(&args).expect(0));
        assert_eq!((again.adopted, again.known), (0, 3));
        assert_eq!(fs::read_link(repo.join("latest")).unwrap(), Path::new(&newest));
        kept.assert_adopted(&repo, Path::new("/docs"));
    }

    [xfs, btrfs] fn two_backups_of_the_same_time_and_source_are_both_adopted(fs: &Filesystem) {
        let kept = Kept::new(fs, ["all/2025-01-30", "all/2025-01-30-0000", "all/20250130"]);
        let (all, repo) = (fs.join("all"), fs.join("repo"));
        symlink("20250130", all.join("latest")).unwrap();
        let args = ["--source".as_ref(), "/docs".as_ref(), all.as_os_str(), repo.as_os_str()];
        assert_eq!(sums(&adopt(&args).expect(0)).adopted, 3);
        let sizes = |dirs: Vec<PathBuf>| {
            let mut counts: Vec<_> = dirs.iter().map(|dir| names(dir).len()).collect();
            counts.sort_unstable();
            counts
        };
        let snapshots = listed(&repo).iter().map(|name| inside(&repo, name, Path::new("/docs"))).collect();
        assert_eq!(sizes(snapshots), sizes(kept.backups.clone()));
        let again = sums(&adopt(&args).expect(0));
        assert_eq!((again.adopted, again.known), (0, 3));
        let options = ["--time=2025-01-30", "--source=/docs"].map(OsStr::new);
        let other = [&options[..], &[kept.live.as_os_str(), repo.as_os_str()]].concat();
        assert_eq!(sums(&adopt(&other).expect(0)).adopted, 1, "another tree of that time");
    }

    [xfs] fn backups_that_no_snapshot_can_be_dated_like_are_reported_and_skipped(fs: &Filesystem) {
        let kept = Kept::new(fs, ["2025-01-30", "1969-12-31", "2099-01-01"]);
        let repo = fs.join("repo");
        let dirs: Vec<&OsStr> = kept.backups.iter().map(|backup| backup.as_os_str()).collect();
        for more in [&["--dry-run".as_ref()][..], &[]] {
            let run = adopt(&[more, &dirs, &[repo.as_os_str()]].concat()).expect(3).saying("1969-12-31").saying("2099");
            assert_eq!((sums(&run).adopted, sums(&run).errors), (1, 2), "{run:?}");
        }
        assert_eq!(listed(&repo).len(), 1);
        let time = ["--time=2024-01-01".as_ref(), kept.backups[1].as_os_str(), repo.as_os_str()];
        assert_eq!(sums(&adopt(&time).expect(0)).adopted, 1);
    }

    [xfs] fn a_part_or_the_parent_of_a_layout_is_not_taken_for_a_single_backup(fs: &Filesystem) {
        let repo = fs.join("repo");
        let made = |path: &str| {
            let dir = fs.join(path);
            fs::create_dir_all(&dir).unwrap();
            write(dir.join("letter"), b"Dear Ann");
        };
        made("shift/timeshift/snapshots/2025-01-30_02-00-00/localhost/etc");
        write(fs.join("shift/timeshift/snapshots/2025-01-30_02-00-00/info.json"), b"{\"created\" : \"1738202400\"}");
        made("times/20250130-020000-123/backup/etc");
        made("mixed/2025-01-30");
        made("mixed/papers");
        made("lost/2025-01-30");
        made("lost/lost+found");
        for (dir, words) in [
            ("shift", "timeshift has backups"),
            ("shift/timeshift/snapshots/2025-01-30_02-00-00", "one backup of a layout"),
            ("times/20250130-020000-123", "one backup of a layout"),
            ("mixed", "dates as names"),
        ] {
            adopt(&[fs.join(dir).as_os_str(), repo.as_os_str()]).expect(2).saying(words);
        }
        assert!(!repo.exists());
        let snapshots = adopt(&[fs.join("shift/timeshift/snapshots").as_os_str(), repo.as_os_str()]).expect(0);
        assert_eq!(snapshots.lines::<Backup>()[0].source, Path::new("/"));
        let dated = adopt(&[fs.join("lost").as_os_str(), repo.as_os_str()]).expect(0);
        assert_eq!((sums(&dated).adopted, &*dated.lines::<Backup>()[0].created), (1, "2025-01-30T00:00:00Z"));
        let mixed = fs.join("mixed");
        let args = ["--layout=rsync".as_ref(), mixed.as_os_str(), repo.as_os_str()];
        assert_eq!(sums(&adopt(&args).expect(0)).adopted, 1);
    }

    [xfs] fn what_cannot_be_adopted_is_refused_and_changes_nothing(fs: &Filesystem) {
        let kept = Kept::new(fs, ["2025-01-30", "2025-01-31", "2025-02-01"]);
        let (repo, backup) = (fs.join("repo"), kept.backups[0].as_os_str());
        symlink(backup, fs.join("link")).unwrap();
        fs::create_dir(fs.join("elsewhere")).unwrap();
        fs::create_dir(fs.join("elsewhere/inner")).unwrap();
        symlink(fs.join("elsewhere"), kept.backups[0].join("away")).unwrap();
        let (link, missing, empty) = (fs.join("link"), fs.join("missing"), fs.dir("empty"));
        let before = tools::inventory(fs.path());
        let repo = repo.as_os_str();
        let cases: [(&[&OsStr], i32, &str); 9] = [
            (&[link.as_os_str(), repo], 2, "not a link"),
            (&[missing.as_os_str(), repo], 1, "missing"),
            (&["--layout=timeshift".as_ref(), empty.as_os_str(), repo], 1, "snapshots"),
            (&["--layout=rsnapshot".as_ref(), empty.as_os_str(), repo], 2, "--layout"),
            (&["--time=2025-01-01".as_ref(), backup, kept.backups[1].as_os_str(), repo], 2, "one by one"),
            (&["--subdir=../x".as_ref(), backup, repo], 2, "'..'"),
            (&["--subdir=away/inner".as_ref(), backup, repo], 1, "symbolic link"),
            (&[empty.as_os_str(), repo], 2, "mounted"),
            (&["--source=docs".as_ref(), backup, repo], 2, "absolute"),
        ];
        for (args, status, words) in cases {
            adopt(args).expect(status).saying(words);
        }
        adopt(&["--time=yesterday".as_ref(), backup, repo]).expect(2).saying("not a time");
        assert_same_lines(&tools::inventory(fs.path()), &before);
        let inside_repo = {
            adopt(&[backup, repo]).expect(0);
            Path::new(repo).join(&listed(Path::new(repo))[0])
        };
        adopt(&[inside_repo.as_os_str(), repo]).expect(2).saying("inside the repository");
    }
}
