//! The maps of snapshots that `pleach du --snapshots` keeps: the figures are those of a fresh measurement, whatever
//! happened meanwhile, and a map that does not fit is never trusted.

use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;

/// Runs `du --snapshots` on all snapshots. Returns the rows and the summary.
#[track_caller]
fn run(repo: &Path, options: &[&str]) -> (Vec<(String, u64)>, Value) {
    let args = [OsStr::new("du"), "--snapshots".as_ref(), "--json".as_ref(), repo.as_os_str()];
    let run = pleach(args.into_iter().chain(options.iter().map(OsStr::new))).expect(0);
    let rows = run.lines_of_type("snapshot");
    let rows = rows.iter().map(|row| (row["name"].as_str().expect("a name").to_string(), number(row, "freed_bytes")));
    (rows.collect(), run.summary())
}

/// Expects that figures from maps are those of a fresh measurement. Returns the rows and the summary from maps.
#[track_caller]
fn expect_fresh(repo: &Path) -> (Vec<(String, u64)>, Value) {
    let (rows, summary) = run(repo, &[]);
    assert_eq!(summary["from_maps"], true, "{summary}");
    // A second look without any change makes no map.
    let (again, kept) = run(repo, &[]);
    assert_eq!((&again, number(&kept, "new_maps")), (&rows, 0), "{kept}");
    assert_eq!(kept["set_freed_bytes"], summary["set_freed_bytes"]);
    let maps = maps_of(repo);
    let (fresh, anew) = run(repo, &["--measure-again"]);
    assert_eq!(anew["from_maps"], false);
    assert_eq!(maps_of(repo).len(), maps.len());
    assert_eq!((&rows, &summary["set_freed_bytes"]), (&fresh, &anew["set_freed_bytes"]));
    (rows, kept)
}

fn map(repo: &Path, name: &str) -> PathBuf {
    repo.join(".pleach/usage").join(name)
}

fn maps_of(repo: &Path) -> Vec<String> {
    let entries = fs::read_dir(repo.join(".pleach/usage")).into_iter().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[track_caller]
fn take(name: &str, source: &Path, repo: &Path) {
    settle();
    pleach(snapshot_named(name, source, repo)).expect(0);
}

/// Snapshots `s0`, `s1`, …: each has 1 MiB of its own, 2 MiB that only it and the next one have, and a file that holds
/// its content twice.
fn several(own: &Own, snapshots: u64) -> (PathBuf, PathBuf) {
    let (source, repo) = (own.join("source"), own.join("repo"));
    fs::create_dir(&source).unwrap();
    tree::crowded(&source, 60);
    for number in 0..snapshots {
        write(source.join("new"), &bytes(number, MIB as usize));
        write(source.join(format!("both {}", number % 2)), &bytes(100 + number, 2 * MIB as usize));
        write(source.join("twice"), &bytes(200 + number, MIB as usize / 2));
        let _ = fs::remove_file(source.join("twice again"));
        settle();
        clone(&source.join("twice"), &source.join("twice again"));
        take(&format!("s{number}"), &source, &repo);
    }
    (source, repo)
}

fn own(fs: &Filesystem, name: &str) -> Option<Own> {
    Own::new(fs.kind, name, 1024, &[], "")
}

on_filesystems! {
    [xfs, btrfs] fn figures_from_maps_are_fresh_after_each_prune_and_df_agrees(fs: &Filesystem) {
        let Some(mut own) = own(fs, "du::maps::prune") else { return };
        let (source, repo) = several(&own, 8);
        let (rows, summary) = expect_fresh(&repo);
        // The source still has the files of the last one.
        assert!(rows[..7].iter().all(|(_, freed)| *freed >= MIB), "{rows:?}");
        assert!(number(&summary, "set_freed_bytes") > 8 * MIB);
        for going in [&["s2", "s3"][..], &["s0"], &["s4", "s6"]] {
            let args = |dry: &'static [&'static str]| {
                let words = ["remove", "--json"].iter().chain(dry).map(|word| OsStr::new(*word).to_os_string());
                let repo = [repo.clone().into_os_string()];
                words.chain(repo).chain(going.iter().map(|word| OsStr::new(*word).to_os_string())).collect::<Vec<_>>()
            };
            let foretold = number(&pleach(args(&["--dry-run"])).expect(0).summary(), "freed_bytes");
            let before = own.used();
            pleach(args(&[])).expect(0);
            let freed = before - own.used();
            let allowed = if fs.kind == Kind::Xfs { 0 } else { freed / 5 };
            assert!(foretold.abs_diff(freed) <= allowed, "{going:?}: said {foretold}, freed {freed}");
            own.remount();
            assert!(going.iter().all(|name| !map(&repo, name).exists()), "a map goes with its snapshot");
            expect_fresh(&repo);
        }
        write(source.join("more"), &bytes(300, MIB as usize));
        take("later", &source, &repo);
        let (_, summary) = run(&repo, &[]);
        assert_eq!(number(&summary, "new_maps"), 1, "{summary}");
        expect_fresh(&repo);
        own.assert_clean();
    }

    [xfs] fn a_second_run_maps_only_files_that_count(fs: &Filesystem) {
        let Some(own) = own(fs, "du::maps::counters") else { return };
        let (source, repo) = several(&own, 4);
        let files = tools::files(&source).len() as u64;
        let first = number(&run(&repo, &[]).1, "mapped_files");
        assert!(first >= 4 * files, "{first} of {files} files in each snapshot");
        fs::remove_dir_all(&source).unwrap();
        let (_, summary) = run(&repo, &[]);
        // Each range counts for the set: once each of the files of the last one, and those that others have alone.
        let second = number(&summary, "mapped_files");
        assert!(second <= files + 4 * 10 && number(&summary, "new_maps") == 0, "{summary}, {files} files");
    }

    [xfs, btrfs] fn what_a_clone_outside_holds_is_not_freed(fs: &Filesystem) {
        let Some(mut own) = own(fs, "du::maps::outside") else { return };
        let (source, repo) = several(&own, 4);
        let (before, _) = expect_fresh(&repo);
        clone(&inside(&repo, "s1", &source).join("new"), &own.join("restored"));
        clone(&inside(&repo, "s2", &source).join("twice"), &own.join("restored too"));
        settle();
        let (held, summary) = expect_fresh(&repo);
        assert_eq!(number(&summary, "new_maps"), 0, "no snapshot changed");
        assert_eq!(before[1].1 - held[1].1, MIB);
        assert_eq!(before[2].1 - held[2].1, MIB / 2);
        fs::remove_file(own.join("restored")).unwrap();
        fs::remove_file(own.join("restored too")).unwrap();
        own.remount();
        assert_eq!(expect_fresh(&repo).0, before);
    }

    [xfs, btrfs] fn a_dedupe_into_a_snapshot_is_noticed_where_it_counts(fs: &Filesystem) {
        let Some(mut own) = own(fs, "du::maps::dedupe") else { return };
        let (source, repo) = several(&own, 4);
        let (before, _) = expect_fresh(&repo);
        let new = inside(&repo, "s1", &source).join("new");
        write(own.join("equal"), &bytes(1, MIB as usize));
        settle();
        // The file of the snapshot gets other extents, of the same number and size.
        tools::tool("xfs_io", &["-r", "-c", &format!("dedupe {} 0 0 1m", own.join("equal").display())], &new);
        own.remount();
        let (after, _) = expect_fresh(&repo);
        assert_eq!(before[1].1 - after[1].1, MIB);
        fs::remove_file(own.join("equal")).unwrap();
        own.remount();
        assert_eq!(expect_fresh(&repo).0, before);
    }

    [xfs] fn a_file_removed_or_changed_by_hand_is_noticed(fs: &Filesystem) {
        let Some(mut own) = own(fs, "du::maps::by_hand") else { return };
        let (source, repo) = several(&own, 4);
        let (before, _) = expect_fresh(&repo);
        // s0 and s1 have it, so s1 has it alone now.
        fs::remove_file(inside(&repo, "s0", &source).join("both 0")).unwrap();
        own.remount();
        let (after, _) = expect_fresh(&repo);
        assert!(after[1].1 >= before[1].1 + 2 * MIB, "{before:?} {after:?}");
        let before = after;
        write(inside(&repo, "s1", &source).join("new"), &bytes(77, 3 * MIB as usize));
        own.remount();
        let (after, _) = expect_fresh(&repo);
        assert_eq!(after[1].1 - before[1].1, 2 * MIB);
    }

    [btrfs] fn a_balance_moves_extents_and_is_noticed(fs: &Filesystem) {
        let Some(own) = own(fs, "du::maps::balance") else { return };
        let (_, repo) = several(&own, 4);
        let (before, _) = expect_fresh(&repo);
        tools::tool("btrfs", &["balance", "start", "-d"], own.path());
        let (rows, summary) = run(&repo, &[]);
        assert_eq!((&rows, number(&summary, "new_maps")), (&before, 4), "{summary}");
        expect_fresh(&repo);
    }

    [xfs, btrfs] fn a_map_that_is_not_right_is_made_again(fs: &Filesystem) {
        let Some(own) = own(fs, "du::maps::malformed") else { return };
        let (_, repo) = several(&own, 3);
        let (rows, summary) = run(&repo, &[]);
        let (sound, other) = (fs::read(map(&repo, "s1")).unwrap(), fs::read(map(&repo, "s0")).unwrap());
        let mut flipped = sound.clone();
        flipped[sound.len() / 2] ^= 4;
        let mut newer = sound.clone();
        (newer[8], newer[12]) = (2, 253);
        let half = &sound[..sound.len() / 2];
        for bad in [&flipped[..], &newer, half, &[], &other, &[0; 100_000], &[&sound[..], &[7]].concat()] {
            fs::write(map(&repo, "s1"), bad).unwrap();
            // It is ignored where nothing is written, and replaced otherwise.
            let one = pleach([OsStr::new("du"), "--snapshots".as_ref(), repo.as_ref(), "s1".as_ref()]).expect(0);
            assert!(one.stderr.is_empty(), "{}", one.stderr);
            assert_eq!(fs::read(map(&repo, "s1")).unwrap(), bad);
            let (again, after) = run(&repo, &[]);
            assert_eq!(&again, &rows);
            // XFS frees deleted inodes in the background, so the new map may have one of another chunk.
            let [after_it, before_it] = [&after, &summary].map(|summary| number(summary, "set_freed_bytes"));
            assert!(after_it.abs_diff(before_it) <= 64 * 512, "{after_it} {before_it}");
            assert_eq!((after["from_maps"].as_bool(), number(&after, "new_maps")), (Some(true), 1));
            pleach([OsStr::new("list"), repo.as_ref()]).expect(0);
        }
        // Something else in its place.
        fs::remove_file(map(&repo, "s1")).unwrap();
        fs::create_dir(map(&repo, "s1")).unwrap();
        let (_, after) = run(&repo, &[]);
        assert_eq!(after["from_maps"], false);
    }

    [xfs, btrfs] fn nothing_is_written_where_nothing_can_be(fs: &Filesystem) {
        let Some(mut own) = own(fs, "du::maps::read_only") else { return };
        let (_, repo) = several(&own, 3);
        own.remount_with("ro");
        let (rows, summary) = run(&repo, &[]);
        assert_eq!((summary["from_maps"].as_bool(), number(&summary, "new_maps")), (Some(false), 0));
        own.remount_with("rw");
        let (_, kept) = run(&repo, &[]);
        assert_eq!(number(&kept, "new_maps"), 3);
        own.remount_with("ro");
        let (mapped, summary) = run(&repo, &[]);
        assert_eq!(summary["from_maps"], true);
        assert!(rows.iter().zip(&mapped).all(|((_, a), (_, b))| b.abs_diff(*a) <= 64 << 10), "{rows:?} {mapped:?}");
        own.remount_with("rw");
    }

    fn runs_at_once_and_killed_runs_do_no_harm(fs: &Filesystem) {
        let Some(own) = own(fs, "du::maps::at_once") else { return };
        let (source, repo) = several_plain(&own);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| run(&repo, &[]));
            }
        });
        let kept = maps_of(&repo);
        assert!(kept.is_empty() || kept == ["s0", "s1", "s2"], "{kept:?}");
        if kept.is_empty() {
            return;
        }
        expect_fresh(&repo);
        // What a killed run left disappears with the next snapshot, and so does a map without a snapshot.
        for left in [".new-1-s0", "gone"] {
            fs::write(map(&repo, left), "left behind").unwrap();
        }
        expect_fresh_or_more(&repo);
        take("s3", &source, &repo);
        assert_eq!(maps_of(&repo), ["s0", "s1", "s2"]);
    }

    [xfs] fn files_with_names_in_several_snapshots_are_measured_each_time(fs: &Filesystem) {
        let Some(own) = own(fs, "du::maps::hard_links") else { return };
        let (source, repo) = (own.join("source"), own.join("repo"));
        fs::create_dir(&source).unwrap();
        write(source.join("file"), &bytes(1, MIB as usize));
        for name in ["a", "b"] {
            settle();
            let mut command = snapshot_named(name, &source, &repo).to_vec();
            command.extend(["--unchanged", "hardlink"].map(OsStr::new));
            pleach(command).expect(0);
        }
        fs::remove_dir_all(&source).unwrap();
        let (rows, summary) = run(&repo, &[]);
        assert_eq!((&summary["set_freed_is"], &summary["from_maps"]), (&"exact".into(), &false.into()));
        assert!(rows.iter().all(|(_, freed)| *freed < MIB), "{rows:?}");
        assert!(number(&summary, "set_freed_bytes") >= MIB);
    }

    [xfs, btrfs] fn the_list_shows_what_only_one_snapshot_holds(fs: &Filesystem) {
        let Some(own) = own(fs, "du::maps::list") else { return };
        let (source, repo) = several(&own, 3);
        let listed = || pleach([OsStr::new("list"), "--json".as_ref(), repo.as_ref()]).expect(0);
        let rows = || listed().lines_of_type("snapshot");
        assert!(rows().iter().all(|row| row.get("only_here_bytes").is_none()));
        run(&repo, &[]);
        for row in rows() {
            // The live source does not matter here.
            assert!(number(&row, "only_here_bytes") >= MIB + MIB / 2, "{row}");
            assert_eq!(row["only_here_is"], "about");
        }
        take("s3", &source, &repo);
        let after = rows();
        assert!(after.iter().take(3).all(|row| row["only_here_is"] == "at_most"), "{after:?}");
        assert!(after[3].get("only_here_bytes").is_none());
        let table = pleach([OsStr::new("list"), repo.as_ref()]).expect(0).stdout;
        assert!(table.contains("only here") && table.contains("≤"), "{table}");
        // A snapshot in another's place is not the one that was mapped.
        fs::rename(map(&repo, "s0"), map(&repo, "s3")).unwrap();
        assert!(rows()[3].get("only_here_bytes").is_none());
    }
}

/// Three snapshots without clones, for any filesystem.
fn several_plain(own: &Own) -> (PathBuf, PathBuf) {
    let (source, repo) = (own.join("source"), own.join("repo"));
    fs::create_dir(&source).unwrap();
    tree::crowded(&source, 60);
    for number in 0..3 {
        write(source.join("new"), &bytes(number, MIB as usize));
        take(&format!("s{number}"), &source, &repo);
    }
    (source, repo)
}

/// The same figures with leftovers in the directory of the maps.
#[track_caller]
fn expect_fresh_or_more(repo: &Path) {
    let (rows, _) = run(repo, &[]);
    assert_eq!(rows, run(repo, &["--measure-again"]).0);
}
