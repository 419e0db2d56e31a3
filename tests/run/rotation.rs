//! The steps that verify and prune: they follow a new snapshot, and a run that failed removes nothing.

use super::*;

/// The steps of a run, each with its status, or with the reason why it was skipped.
fn steps(run: &Run) -> Vec<(String, Value)> {
    let summary = run.summary();
    let steps = summary["steps"].as_array().expect("steps");
    let result = |step: &Value| {
        let result = if step["status"].is_null() { &step["skipped"] } else { &step["status"] };
        (step["step"].as_str().expect("a name").to_string(), result.clone())
    };
    steps.iter().map(result).collect()
}

/// Names in the order of names. Names of one second differ by a number, so this is not always the order of time.
fn sorted(names: &[String]) -> Vec<String> {
    let mut names = names.to_vec();
    names.sort();
    names
}

#[track_caller]
fn assert_steps(run: &Run, expected: &[(&str, Value)]) {
    let expected: Vec<_> = expected.iter().map(|(step, result)| (step.to_string(), result.clone())).collect();
    assert_eq!(steps(run), expected);
}

/// Takes this many snapshots with the profile of [`usual`] and no other step; returns their names, oldest first.
fn taken(fs: &Filesystem, count: u64) -> Vec<String> {
    let profile = usual(fs, "");
    for number in 0..count {
        write(fs.join("source/changes"), &bytes(number, 100_000));
        settle();
        run(&profile, &[]).expect(0);
    }
    published(&fs.join("repo"))
}

/// Changes a byte of a file in a snapshot, but not the file's time.
fn damage(repo: &Path, name: &str, source: &Path, file: &str) {
    let (tree, path) = (repo.join(name), inside(repo, name, source).join(file));
    let is_subvolume = tools::is_subvolume(&tree);
    if is_subvolume {
        tools::set_read_only(&tree, false);
    }
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    overwrite(&path, 5000, b"rotten");
    File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    if is_subvolume {
        tools::set_read_only(&tree, true);
    }
}

/// Hooks that append their name, status and error to the log, and `failed` also its report.
fn logging(fs: &Filesystem) -> String {
    let log = fs.join("log");
    let hook = |more| format!("['sh', '-c', 'echo $PLEACH_HOOK $PLEACH_STATUS $PLEACH_ERROR >> $0{more}', {log:?}]");
    format!("[hooks]\nafter = {}\nfailed = {}\n", hook(""), hook("; cat >> $0"))
}

on_filesystems! {
    fn a_run_verifies_and_prunes_after_its_snapshot(fs: &Filesystem) {
        let old = taken(fs, 2);
        let (repo, metrics) = (fs.join("repo"), fs.join("x.prom"));
        let more = format!("[verify]\nsharing = true\n[prune]\nkeep_last = 2\n[metrics]\nfile = {metrics:?}\n");
        let done = run(&usual(fs, &more), &["--json"]).expect(0);
        let summaries = summaries(&done);
        let commands: Vec<_> = summaries.iter().map(|(command, _)| command.as_str()).collect();
        assert_eq!(commands, ["snapshot", "verify", "prune", "run"]);
        assert_steps(&done, &[("snapshot", 0.into()), ("verify", 0.into()), ("prune", 0.into())]);
        let [snapshot, verify, prune] = [0, 1, 2].map(|number| &summaries[number].1);
        let name = snapshot["name"].as_str().expect("a name").to_string();
        assert_eq!(published(&repo), [old[1].clone(), name.clone()], "the oldest is gone");
        tools::assert_equal_trees(&fs.join("source"), &inside(&repo, &name, &fs.join("source")));
        assert_eq!((number(prune, "kept"), number(prune, "removed")), (2, 1));
        assert_eq!((number(verify, "snapshots"), number(verify, "damaged")), (3, 0));
        assert_eq!(number(verify, "checked_files"), number(verify, "files"));
        for (name, value) in [
            ("verify_snapshots", 3),
            ("verify_files", number(verify, "files")),
            ("verify_checked_bytes", number(verify, "checked_bytes")),
            ("verify_read_bytes", number(verify, "read_bytes")),
            ("verify_unshared_bytes", number(verify, "unshared_bytes")),
            ("verify_damaged", 0),
            ("prune_kept", 2),
            ("prune_removed", 1),
            ("prune_freed_bytes", number(prune, "freed_bytes")),
        ] {
            assert_eq!(sample(&metrics, &format!("pleach_{name}{{profile=\"test\"}}")), value as f64, "{name}");
        }
        for step in ["verify", "prune"] {
            let of_step = |name| sample(&metrics, &format!("pleach_step_{name}{{profile=\"test\",step=\"{step}\"}}"));
            assert_eq!((of_step("exit_status"), of_step("skipped"), of_step("errors")), (0.0, 0.0, 0.0));
        }
        settle();
        let shown = run(&usual(fs, &more), &[]).expect(0).stdout;
        let steps = ["  verify    done, ", "  prune     done, "];
        for part in ["found no damage in 3 snapshots", "removed 1 snapshot, kept 2"].into_iter().chain(steps) {
            assert!(shown.contains(part), "{part}:\n{shown}");
        }
    }

    fn a_snapshot_that_may_not_survive_a_power_cut_costs_no_other(fs: &Filesystem) {
        let old = taken(fs, 2);
        let (repo, profile) = (fs.join("repo"), usual(fs, "[prune]\nkeep_last = 1\n"));
        let words = ["run".as_ref(), "--json".as_ref(), profile.as_os_str()];
        let done = tools::without_sync(&repo, "", words).expect(1).saying("may not survive a power cut");
        let skipped = Value::from("the new snapshot may not survive a power cut");
        assert_steps(&done, &[("snapshot", 1.into()), ("prune", skipped)]);
        assert_eq!(published(&repo).len(), 3);
        assert_eq!(&published(&repo)[..2], old);
        settle();
        run(&profile, &[]).expect(0);
        assert_eq!(published(&repo).len(), 1);
    }

    fn runs_without_a_new_snapshot_remove_nothing(fs: &Filesystem) {
        let old = taken(fs, 3);
        let (repo, metrics) = (fs.join("repo"), fs.join("x.prom"));
        let hooks = logging(fs);
        let more = format!("[verify]\nquick = true\n[prune]\nkeep_last = 1\n[metrics]\nfile = {metrics:?}\n{hooks}");
        let profile = usual(fs, &more);
        fs::rename(fs.join("source"), fs.join("moved")).unwrap();
        let skipped = Value::from("there is no new snapshot");
        for _ in 0..3 {
            let done = run(&profile, &["--json"]).expect(1);
            assert_steps(&done, &[("snapshot", 1.into()), ("verify", 0.into()), ("prune", skipped.clone())]);
            assert_eq!(published(&repo), old);
        }
        let shown = run(&profile, &[]).expect(1).stdout;
        assert!(shown.contains("  prune     skipped: there is no new snapshot\n"), "{shown}");
        let log = fs::read_to_string(fs.join("log")).unwrap();
        assert!(log.starts_with("failed 1 cannot ") && !log.contains("\nafter "), "{log}");
        assert!(log.contains("  prune      skipped: there is no new snapshot\n"), "{log}");
        assert_eq!(sample(&metrics, "pleach_step_skipped{profile=\"test\",step=\"prune\"}"), 1.0);
        // An empty source is a filesystem that is not mounted.
        fs::create_dir(fs.join("source")).unwrap();
        run(&profile, &[]).expect(1);
        assert_eq!(published(&repo), old);
        // The next good run prunes.
        fs::remove_dir(fs.join("source")).unwrap();
        fs::rename(fs.join("moved"), fs.join("source")).unwrap();
        settle();
        let done = run(&profile, &["--json"]).expect(0);
        assert_eq!(published(&repo), [done.summary()["snapshot"].as_str().unwrap()]);
    }

    [xfs] fn an_interrupted_run_removes_nothing(fs: &Filesystem) {
        let old = taken(fs, 3);
        let profile = usual(fs, "[prune]\nkeep_last = 1\n");
        let args = [OsStr::new("run"), "--json".as_ref(), profile.as_os_str()];
        let done = tools::interrupted_at("syncfs", 1, args).expect(130);
        assert_steps(&done, &[("snapshot", 130.into()), ("prune", "interrupted".into())]);
        assert_eq!(published(&fs.join("repo")), old);
    }

    fn a_whole_snapshot_that_shares_too_little_is_good_enough_to_prune(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        let (source, repo) = (elsewhere.dir("source"), fs.join("repo"));
        let text = format!(
            "repository = {repo:?}\n[snapshot]\nsources = [{source:?}]\nrequire_sharing = 90\n[prune]\nkeep_last = 1\n"
        );
        for number in 0..2 {
            write(source.join("a"), &bytes(number, 100_000));
            settle();
            let done = run(&profile(fs, &text), &["--json"]).expect(3);
            assert_steps(&done, &[("snapshot", 3.into()), ("prune", 0.into())]);
            assert_eq!(published(&repo), [done.summary()["snapshot"].as_str().unwrap()]);
        }
    }

    fn incomplete_snapshots_are_pruned_and_push_out_no_complete_one(fs: &Filesystem) {
        let old = taken(fs, 3);
        let (repo, metrics) = (fs.join("repo"), fs.join("x.prom"));
        let profile = usual(fs, &format!("[prune]\nkeep_last = 2\n[metrics]\nfile = {metrics:?}\n"));
        let closed = fs.join("source/changes");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        let mut expected = old[1..].to_vec();
        for count in 1..=4 {
            write(fs.join("source/more"), &bytes(count, 5000));
            settle();
            let args = [OsStr::new("run"), "--json".as_ref(), profile.as_os_str()];
            let done = finish(&mut command_bound_by_permissions(args)).expect(3);
            assert_steps(&done, &[("snapshot", 3.into()), ("prune", 0.into())]);
            expected.push(done.summary()["snapshot"].as_str().unwrap().to_string());
            if expected.len() > 4 {
                expected.remove(2);
            }
            assert_eq!(published(&repo), sorted(&expected), "two complete ones, and the last two");
            assert_eq!(sample(&metrics, "pleach_run_exit_status{profile=\"test\"}"), 3.0);
            assert_eq!(sample(&metrics, "pleach_step_skipped{profile=\"test\",step=\"prune\"}"), 0.0);
        }
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o644)).unwrap();
        settle();
        let done = run(&profile, &["--json"]).expect(0);
        assert_steps(&done, &[("snapshot", 0.into()), ("prune", 0.into())]);
        let new = done.summary()["snapshot"].as_str().unwrap().to_string();
        assert_eq!(published(&repo), sorted(&[old[2].clone(), expected[3].clone(), new]));
    }

    fn damage_calls_failed_and_keeps_all_snapshots(fs: &Filesystem) {
        let old = taken(fs, 2);
        let (repo, source, metrics) = (fs.join("repo"), fs.join("source"), fs.join("x.prom"));
        damage(&repo, &old[1], &source, "changes");
        let more = |verify| {
            let rest = logging(fs);
            format!("[verify]\n{verify}\n[prune]\nkeep_last = 1\n[metrics]\nfile = {metrics:?}\n{rest}")
        };
        let done = run(&usual(fs, &more("")), &["--json"]).expect(4);
        let skipped = "verify found damage or failed";
        assert_steps(&done, &[("snapshot", 0.into()), ("verify", 4.into()), ("prune", skipped.into())]);
        assert_eq!(published(&repo).len(), 3);
        assert_eq!(&published(&repo)[..2], old);
        let lines = done.lines_of_type("damage");
        let found: Vec<_> = lines.iter().map(|line| (&line["snapshot"], &line["why"])).collect();
        assert_eq!(found, [(&old[1].as_str().into(), &"content".into())]);
        let log = fs::read_to_string(fs.join("log")).unwrap();
        assert!(log.starts_with("failed 4 verify: found damage\n") && !log.contains("\nafter "), "{log}");
        let named = format!("{}: {}: ", old[1], source.join("changes").display());
        assert!(log.contains("  verify     found damage, ") && log.contains(&named), "{named}\n{log}");
        assert_eq!(sample(&metrics, "pleach_verify_damaged{profile=\"test\"}"), 1.0);
        assert_eq!(sample(&metrics, "pleach_step_exit_status{profile=\"test\",step=\"verify\"}"), 4.0);
        assert_eq!(sample(&metrics, "pleach_run_errors{profile=\"test\"}"), 1.0);
        // Without the snapshot, nothing is wrong.
        pleach([OsStr::new("remove"), repo.as_os_str(), old[1].as_ref()]).expect(0);
        settle();
        run(&usual(fs, &more("")), &[]).expect(0);
        assert_eq!(published(&repo).len(), 1);
        // This one is found by its status alone.
        settle();
        let last = published(&repo).remove(0);
        let file = inside(&repo, &last, &source).join("changes");
        let tree = repo.join(&last);
        if tools::is_subvolume(&tree) {
            tools::set_read_only(&tree, false);
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        run(&usual(fs, &more("quick = true")), &[]).expect(4);
        assert_eq!(published(&repo).len(), 2);
    }

    [xfs] fn a_dry_run_neither_verifies_nor_prunes(fs: &Filesystem) {
        let more = "[verify]\nread = 50\n[prune]\nkeep_last = 1\n";
        let (repo, unverified) = (fs.join("repo"), ("verify", Value::from("a dry run verifies nothing")));
        let done = run(&usual(fs, more), &["--dry-run", "--json"]).expect(0);
        let missing = Value::from("there is no repository yet");
        assert_steps(&done, &[("snapshot", 0.into()), unverified.clone(), ("prune", missing)]);
        assert!(!repo.exists());
        let old = taken(fs, 3);
        let profile = usual(fs, more);
        let done = run(&profile, &["--dry-run", "--json"]).expect(0);
        assert_steps(&done, &[("snapshot", 0.into()), unverified, ("prune", 0.into())]);
        let prune = &summaries(&done)[1].1;
        assert_eq!((number(prune, "kept"), number(prune, "removed")), (1, 2));
        run(&profile, &["--dry-run"]).expect(0).saying("a run also counts the one that it takes");
        assert_eq!(published(&repo), old);
        assert!(!repo.join(".pleach/verified").exists());
        fs::rename(fs.join("source"), fs.join("moved")).unwrap();
        let done = run(&profile, &["--dry-run", "--json"]).expect(1);
        assert_eq!(steps(&done)[2].1, "there is no new snapshot");
    }

    [xfs] fn a_profile_that_only_verifies_reads_everything_in_parts(fs: &Filesystem) {
        (0..50).for_each(|number| write(fs.dir("source").join(format!("{number}")), &bytes(number, 5000)));
        taken(fs, 1);
        let text = |verify| format!("repository = {:?}\n[verify]\n{verify}\n", fs.join("repo"));
        let checked = |verify| {
            let done = run(&profile(fs, &text(verify)), &["--json"]).expect(0);
            number(&summaries(&done)[0].1, "checked_files")
        };
        let parts: Vec<_> = (0..4).map(|_| checked("read = '25%'")).collect();
        assert!(parts.iter().sum::<u64>() == 51 && parts.iter().all(|part| *part < 40), "{parts:?}");
        assert_eq!((checked("quick = true"), checked("")), (0, 51));
    }

    [xfs] fn the_rules_of_a_profile_are_those_of_prune(fs: &Filesystem) {
        let tagged = usual(fs, "tags = ['keep']\n");
        run(&tagged, &[]).expect(0);
        let old = taken(fs, 3);
        let reasons_and_status = |rules: &str, status| {
            let profile = usual(fs, &format!("[prune]\n{rules}\n"));
            let done = run(&profile, &["--json", "--dry-run"]).expect(status);
            let lines = done.lines_of_type("snapshot");
            lines.iter().map(|line| line["reasons"].clone()).collect::<Vec<_>>()
        };
        let reasons = |rules: &str| reasons_and_status(rules, 0);
        assert_eq!(old.len(), 4);
        let of = |reasons: [&[&str]; 4]| reasons.map(|reasons| serde_json::json!(reasons)).to_vec();
        assert_eq!(reasons("keep_last = 2"), of([&[], &[], &["last"], &["last"]]));
        assert_eq!(reasons("keep_tag = ['other', 'keep']"), of([&["tag"], &[], &[], &["newest"]]));
        assert_eq!(reasons("keep_within = '30d'"), of([&["within"]; 4]));
        assert_eq!(reasons("keep_yearly = 1"), of([&[], &[], &[], &["yearly"]]));
        assert_eq!(reasons("keep_free = '1%'"), of([&["free"], &["free"], &["free"], &["newest"]]));
        // That would not be enough.
        assert_eq!(reasons_and_status("keep_free = '99.9%'", 3), of([&[], &[], &[], &["newest"]]));
    }
}
