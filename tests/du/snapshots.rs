//! `pleach du --snapshots`: the same figures as a dry run of `remove`, and as `df` afterwards.

use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

const MIB: u64 = 1 << 20;

/// What each of these snapshots frees alone, and the summary.
#[track_caller]
fn measured(repo: &Path, ids: &[&str]) -> (Vec<(String, u64)>, Value) {
    let args = ["du".as_ref(), repo.as_os_str(), "--snapshots".as_ref(), "--json".as_ref()];
    let run = pleach(args.into_iter().chain(ids.iter().map(OsStr::new))).expect(0);
    let rows = run.lines_of_type("snapshot");
    let rows = rows.iter().map(|row| (row["name"].as_str().expect("a name").to_string(), number(row, "freed_bytes")));
    (rows.collect(), run.summary())
}

/// What a dry run of `remove` says, and how exact that is.
#[track_caller]
fn foretold(repo: &Path, ids: &[&str]) -> (u64, String) {
    let args = ["remove".as_ref(), "--json".as_ref(), "--dry-run".as_ref(), repo.as_os_str()];
    let summary = pleach(args.into_iter().chain(ids.iter().map(OsStr::new))).expect(0).summary();
    (number(&summary, "freed_bytes"), summary["freed_is"].as_str().expect("a bound").to_string())
}

/// Measures all snapshots, and expects these names and what `remove --dry-run` says of each and of all.
#[track_caller]
fn expect_agreement(repo: &Path, names: &[&str]) {
    let (rows, summary) = measured(repo, &[]);
    assert_eq!(rows.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names);
    for (name, freed) in &rows {
        assert_eq!(*freed, foretold(repo, &[name]).0, "{name}");
    }
    let (bytes, bound) = foretold(repo, names);
    // Figures from maps are the same, but a bound.
    assert_eq!(number(&summary, "set_freed_bytes"), bytes);
    assert_eq!(number(&summary, "snapshots"), names.len() as u64);
    let (again, summary) = measured(repo, &["--measure-again"]);
    assert_eq!(again, rows);
    assert_eq!((number(&summary, "set_freed_bytes"), &summary["set_freed_is"]), (bytes, &Value::from(bound)));
}

#[track_caller]
fn take(name: &str, source: &Path, repo: &Path) {
    settle();
    pleach(snapshot_named(name, source, repo)).expect(0);
}

/// Four snapshots. `b` and `c` alone share 9 MiB, and each has 5 MiB of its own.
fn four_snapshots(own: &Own, files: usize) -> (std::path::PathBuf, std::path::PathBuf) {
    let (source, repo) = (own.join("source"), own.join("repo"));
    fs::create_dir(&source).unwrap();
    tree::crowded(&source, files);
    for (number, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        write(source.join("new"), &bytes(number as u64, 5 * MIB as usize));
        match name {
            "b" => write(source.join("both"), &bytes(90, 9 * MIB as usize)),
            "d" => fs::remove_file(source.join("both")).unwrap(),
            _ => {}
        }
        take(name, &source, &repo);
    }
    (source, repo)
}

on_filesystems! {
    [xfs, btrfs] fn a_set_of_snapshots_frees_what_df_shows_afterwards(fs: &Filesystem) {
        let Some(mut own) = Own::new(fs.kind, "du::snapshots::df", 1024, &[], "") else { return };
        let (_, repo) = four_snapshots(&own, if fs.kind == Kind::Xfs { 300 } else { 30 });
        let before = own.used();
        let (rows, summary) = measured(&repo, &["b", "c", "b"]);
        assert_eq!(own.used(), before, "measuring takes no space");
        let set = number(&summary, "set_freed_bytes");
        let bound = if fs.kind == Kind::Xfs { "exact" } else { "about" };
        assert_eq!(summary["set_freed_is"], bound);
        let [(b, alone_b), (c, alone_c)] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((b.as_str(), c.as_str()), ("b", "c"));
        for alone in [alone_b, alone_c] {
            assert!((5 * MIB..9 * MIB).contains(alone), "{rows:?}");
        }
        assert!(set >= alone_b + alone_c + 9 * MIB, "they share 9 MiB with each other: {set}, {rows:?}");
        pleach([OsStr::new("remove"), repo.as_ref(), "b".as_ref(), "c".as_ref()]).expect(0);
        let freed = before - own.used();
        let allowed = if fs.kind == Kind::Xfs { 0 } else { freed / 50 };
        assert!(freed.abs_diff(set) <= allowed, "said {set}, freed {freed}");
        own.assert_clean();
    }

    [xfs, btrfs] fn the_figures_are_right_after_every_change_of_the_repository(fs: &Filesystem) {
        let Some(mut own) = Own::new(fs.kind, "du::snapshots::changes", 1024, &[], "") else { return };
        let (source, repo) = four_snapshots(&own, 30);
        expect_agreement(&repo, &["a", "b", "c", "d"]);
        let alone = |name: &str| measured(&repo, &[name]).0[0].1;
        assert!(alone("c") < 9 * MIB);
        pleach([OsStr::new("remove"), repo.as_ref(), "b".as_ref()]).expect(0);
        // A filesystem frees deleted files in the background; a remount waits for that.
        own.remount();
        expect_agreement(&repo, &["a", "c", "d"]);
        assert!(alone("c") >= 14 * MIB, "{}: no other snapshot shares the file any more", alone("c"));
        // Outside the repository, a clone holds the data, and then no longer.
        let inside = inside(&repo, "c", &source).join("both");
        clone(&inside, &own.join("clone"));
        assert!(alone("c") < 9 * MIB);
        fs::remove_file(own.join("clone")).unwrap();
        own.remount();
        // An equal file takes part in the sharing.
        write(own.join("equal"), &bytes(90, 9 * MIB as usize));
        settle();
        assert!(alone("c") >= 14 * MIB);
        pleach([OsStr::new("dedupe"), "--no-cache".as_ref(), own.join("equal").as_ref(), inside.as_ref()]).expect(0);
        assert!(alone("c") < 9 * MIB, "dedupe made a file outside share it");
        if fs.kind == Kind::Xfs {
            // A user deletes a file of a snapshot by hand.
            let before = alone("c");
            fs::remove_file(inside.with_file_name("new")).unwrap();
            own.remount();
            assert!(alone("c") + 5 * MIB <= before);
        }
        take("e", &source, &repo);
        own.remount();
        expect_agreement(&repo, &["a", "c", "d", "e"]);
        let pruned = [OsStr::new("prune"), "--keep-last".as_ref(), "2".as_ref(), repo.as_ref()];
        pleach(pruned).expect(0);
        own.remount();
        expect_agreement(&repo, &["d", "e"]);
    }

    [xfs, btrfs] fn a_read_only_mount_and_a_user_without_privileges_will_do(fs: &Filesystem) {
        let Some(mut own) = Own::new(fs.kind, "du::snapshots::read_only", 1024, &[], "") else { return };
        let (_, repo) = four_snapshots(&own, 30);
        own.remount();
        let (rows, summary) = measured(&repo, &[]);
        let mut bound = Command::new("setpriv");
        bound.args(["--inh-caps=-all", "--bounding-set=-sys_admin,-dac_read_search"]);
        bound.arg(env!("CARGO_BIN_EXE_pleach")).args(["du", "--json", "--snapshots"]).arg(&repo).args(["b", "c"]);
        let bound = finish(&mut bound).expect(0).summary();
        assert_eq!(bound["set_freed_is"], "at_least");
        let sum = number(&bound, "set_freed_bytes") + number(&bound, "set_undecided_bytes");
        assert!(number(&bound, "set_freed_bytes") >= 10 * MIB && sum >= 19 * MIB, "{bound}");
        own.remount_with("ro");
        let (again, after) = measured(&repo, &[]);
        assert_eq!((again, &after["set_freed_bytes"]), (rows, &summary["set_freed_bytes"]));
        own.remount_with("rw");
    }

    fn without_a_repository_or_its_snapshots_it_refuses(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("file"), &bytes(1, 5000));
        snapshot(&source, &repo);
        pleach(["du", "--snapshots"]).expect(2);
        pleach(["du"]).expect(2);
        let run = |words: &[&OsStr]| pleach(["du".as_ref(), "--snapshots".as_ref()].iter().chain(words));
        run(&[source.as_ref()]).expect(1);
        run(&[repo.as_ref(), "absent".as_ref()]).expect(1);
        let table = run(&[repo.as_ref(), "latest".as_ref()]).expect(0).stdout;
        assert!(table.contains("frees alone") && table.contains("deleting frees"), "{table}");
        let named = finish(command(["du", "--snapshots", "latest"]).env("PLEACH_REPO", &repo)).expect(0).stdout;
        assert_eq!(named, table);
    }
}
