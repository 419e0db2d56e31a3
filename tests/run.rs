//! `pleach run` and `pleach init-profile`: steps, exit status, metrics. Hooks are in `hooks`, the files of profiles in
//! `profiles`, verify and prune in `rotation`, `replicate`, the units for systemd in `units`.

mod hooks;
mod profiles;
mod replicate;
mod rotation;
mod units;

use crate::harness::*;
use crate::on_filesystems;
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Writes a profile.
fn profile(fs: &Filesystem, text: &str) -> PathBuf {
    let path = fs.join("test.toml");
    fs::write(&path, text).expect("a profile can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode can be set");
    path
}

/// A profile with a repository and a source in the scratch directory, and more text.
fn usual(fs: &Filesystem, more: &str) -> PathBuf {
    let (source, repo) = (fs.dir("source"), fs.join("repo"));
    if names(&source).is_empty() {
        tree::plain(&source);
    }
    settle();
    profile(fs, &format!("repository = {repo:?}\n[snapshot]\nsources = [{source:?}]\n{more}"))
}

fn run(profile: &Path, options: &[&str]) -> Run {
    let options = options.iter().map(OsStr::new);
    pleach([OsStr::new("run")].into_iter().chain(options).chain([profile.as_os_str()]))
}

/// The summaries, by command.
fn summaries(run: &Run) -> Vec<(String, Value)> {
    let named = |line: Value| (line["command"].as_str().expect("a command").to_string(), line);
    run.lines_of_type("summary").into_iter().map(named).collect()
}

/// The names of the steps that were done.
fn names_of_steps(run: &Run) -> Vec<String> {
    let summary = run.summary();
    let done = summary["steps"].as_array().expect("steps").iter().filter(|step| step["status"].is_number());
    done.map(|step| step["step"].as_str().expect("a name").to_string()).collect()
}

/// The samples of a metrics file.
fn samples(path: &Path) -> Vec<(String, f64)> {
    let text = fs::read_to_string(path).expect("the metrics were written");
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        (name.to_string(), value.parse().unwrap_or_else(|_| panic!("{line}")))
    };
    text.lines().filter(|line| !line.starts_with('#')).map(sample).collect()
}

#[track_caller]
fn sample(path: &Path, name: &str) -> f64 {
    let samples = samples(path);
    samples.iter().find(|(key, _)| key == name).unwrap_or_else(|| panic!("{name} in {samples:?}")).1
}

on_filesystems! {
    [xfs, btrfs] fn a_run_does_all_steps_and_reports_each_of_them(fs: &Filesystem) {
        let (more, metrics) = (fs.dir("more"), fs.dir("metrics").join("pleach.prom"));
        for name in ["a", "b"] {
            write(more.join(name), &bytes(7, 1 << 20));
        }
        let text = format!("[dedupe]\npaths = [{more:?}]\ncache = \"none\"\n[metrics]\nfile = {metrics:?}\n");
        let profile = usual(fs, &text);
        let done = run(&profile, &["--json"]).expect(0);
        let summaries = summaries(&done);
        let commands: Vec<_> = summaries.iter().map(|(command, _)| command.as_str()).collect();
        assert_eq!(commands, ["snapshot", "dedupe", "run"]);
        let [snapshot, dedupe, whole] = [0, 1, 2].map(|number| &summaries[number].1);
        let name = snapshot["name"].as_str().expect("a name");
        assert_eq!(published(&fs.join("repo")), [name]);
        tools::assert_equal_trees(&fs.join("source"), &inside(&fs.join("repo"), name, &fs.join("source")));
        assert_eq!(number(dedupe, "freed_bytes"), 1 << 20);
        assert_eq!((&whole["profile"], &whole["snapshot"]), (&"test".into(), &name.into()));
        assert_eq!((number(whole, "status"), number(whole, "errors")), (0, 0));
        let steps = whole["steps"].as_array().expect("steps");
        assert_eq!((&steps[0]["step"], &steps[1]["step"], steps.len()), (&"snapshot".into(), &"dedupe".into(), 2));
        for (name, value) in [
            ("pleach_run_exit_status{profile=\"test\"}", 0),
            ("pleach_snapshot_files{profile=\"test\"}", number(snapshot, "files")),
            ("pleach_snapshot_size_bytes{profile=\"test\"}", number(snapshot, "bytes")),
            ("pleach_dedupe_freed_bytes{profile=\"test\"}", number(dedupe, "freed_bytes")),
            ("pleach_step_exit_status{profile=\"test\",step=\"dedupe\"}", 0),
            ("pleach_step_skipped{profile=\"test\",step=\"dedupe\"}", 0),
        ] {
            assert_eq!(sample(&metrics, name), value as f64, "{name}");
        }
        // The collector runs as another user, and reads whatever else is in the directory.
        assert_eq!(fs::metadata(&metrics).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(names(metrics.parent().unwrap()), ["pleach.prom"]);
        // For people, each step has its own summary as well.
        settle();
        let shown = run(&profile, &[]).expect(0).stdout;
        let steps = ["  snapshot  done, ", "  dedupe    done, "];
        for part in ["snapshot 2", "  equal   0 files", "run of test: done"].into_iter().chain(steps) {
            assert!(shown.contains(part), "{part}:\n{shown}");
        }
        assert_eq!(published(&fs.join("repo")).len(), 2);
        assert_eq!(run(&profile, &["-q"]).expect(0).stdout, "");
    }

    [xfs] fn the_settings_of_a_profile_are_those_of_the_commands(fs: &Filesystem) {
        let source = fs.dir("source");
        let below = ["skip/x", "skip/.nobackup", "cache/CACHEDIR.TAG", "cache/x"];
        for name in ["kept", "a.iso", "large", "old", "b.tmp"].into_iter().chain(below) {
            fs::create_dir_all(source.join(name).parent().unwrap()).unwrap();
            write(source.join(name), &bytes(1, if name == "large" { 300_000 } else { 5000 }));
        }
        fs::write(source.join("cache/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55").unwrap();
        tree::set_mtime(&source.join("old"), 1_000_000_000, 0);
        fs::write(fs.join("patterns"), "*.tmp\n").unwrap();
        let more = format!(
            "exclude = ['*.iso']\nexclude_from = [{:?}]\nexclude_caches = true\nexclude_if_present = ['.nobackup']\n\
             exclude_larger_than = '200K'\nexclude_older_than = '10y'\ntags = ['t1', 't2']\nhash = 'none'\n\
             unchanged = 'hardlink'\nallow_empty = true\n",
            fs.join("patterns")
        );
        let profile = usual(fs, &more);
        let name = |run: Run| summaries(&run)[0].1["name"].as_str().expect("a name").to_string();
        let first = name(run(&profile, &["--json"]).expect(0));
        let tree = inside(&fs.join("repo"), &first, &source);
        assert_eq!(names(&tree), ["cache", "kept", "skip"]);
        assert_eq!(names(&tree.join("cache")), ["CACHEDIR.TAG"]);
        assert_eq!(names(&tree.join("skip")), [".nobackup"]);
        settle();
        let second = name(run(&profile, &["--json"]).expect(0));
        let inode = |name| fs::metadata(inside(&fs.join("repo"), name, &source).join("kept")).unwrap().ino();
        assert_eq!(inode(&first), inode(&second), "a hard link");
        let listed = pleach([OsStr::new("list"), "--json".as_ref(), fs.join("repo").as_os_str()]).expect(0);
        assert_eq!(listed.lines_of_type("snapshot")[0]["tags"], serde_json::json!(["t1", "t2"]));
        // An empty source is accepted because the profile says so.
        fs::remove_dir_all(&source).unwrap();
        fs::create_dir(&source).unwrap();
        run(&usual_without_files(fs, ""), &[]).expect(1).saying("--allow-empty");
        let empty = run(&usual_without_files(fs, &more), &["--json"]).expect(0);
        assert_eq!(number(&summaries(&empty)[0].1, "files"), 0);
    }

    fn less_sharing_than_required_ends_with_status_3(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        let source = elsewhere.dir("source");
        write(source.join("a"), &bytes(1, 100_000));
        settle();
        let repo = fs.join("repo");
        let text = format!("repository = {repo:?}\n[snapshot]\nsources = [{source:?}]\nrequire_sharing = 50\n");
        let done = run(&profile(fs, &text), &["--json"]).expect(3);
        assert_eq!(done.lines::<json_lines::Problem>()[0].code, "sharing-required");
        assert_eq!(published(&fs.join("repo")).len(), 1);
        let (command, whole) = summaries(&done).pop().expect("a summary");
        assert_eq!((command.as_str(), number(&whole, "status")), ("run", 3));
    }

    [xfs] fn a_dry_run_writes_nothing_and_runs_no_hook(fs: &Filesystem) {
        let (mark, metrics) = (fs.join("mark"), fs.join("x.prom"));
        let more = format!(
            "[dedupe]\npaths = [{:?}]\ncache = 'none'\n[hooks]\nbefore = ['touch', {mark:?}]\n\
             failed = [['touch', {mark:?}]]\n[metrics]\nfile = {metrics:?}\n",
            fs.join("source")
        );
        let profile = usual(fs, &more);
        let shown = run(&profile, &["--dry-run"]).expect(0);
        let shown = shown.saying("would run the hook 'before': touch /").saying("dry run");
        let shown = shown.saying("there is no repository in ").saying("(-v lists them)");
        assert!(!shown.stdout.contains("+ /") && shown.stdout.contains("dry run of test: done"), "{}", shown.stdout);
        let listed = run(&profile, &["--dry-run", "-v"]).expect(0);
        assert!(listed.stdout.contains("+ /") && !listed.stderr.contains("-v lists"), "{listed:?}");
        let lines = run(&profile, &["--dry-run", "--json"]).expect(0);
        let hooks = lines.lines_of_type("hook");
        assert_eq!(hooks.iter().map(|hook| hook["hook"].as_str().unwrap()).collect::<Vec<_>>(), ["before", "failed"]);
        assert!(lines.lines_of_type("change").len() > 2 && hooks[0]["dry_run"] == true);
        assert!(summaries(&lines).iter().all(|(_, summary)| summary["dry_run"] == true));
        assert!(!mark.exists() && !metrics.exists() && !fs.join("repo").exists());
    }

    [xfs] fn a_dry_run_names_hooks_that_cannot_run(fs: &Filesystem) {
        let profile = usual(fs, "[hooks]\nbefore = ['true']\nfailed = ['no such program', 'x']\n");
        let run = run(&profile, &["--dry-run"]).expect(0);
        assert_eq!(run.stderr.matches("there is no program").count(), 1, "{}", run.stderr);
        run.saying("the hook 'failed' cannot run: there is no program 'no such program'");
    }

    [xfs] fn patterns_that_match_nothing_are_shown_only_if_asked_for(fs: &Filesystem) {
        let profile = usual(fs, "");
        let text = fs::read_to_string(&profile).unwrap();
        fs::write(&profile, text.replacen("[snapshot]\n", "[snapshot]\nexclude = ['*.nothing']\n", 1)).unwrap();
        assert!(!run(&profile, &[]).expect(0).stderr.contains("matched nothing"));
        run(&profile, &["-v"]).expect(0).saying("matched nothing");
        let warnings = run(&profile, &["--json"]).expect(0).lines_of_type("warning");
        assert!(warnings.iter().any(|warning| warning["code"] == "unmatched-patterns"), "{warnings:?}");
    }

    [xfs] fn a_failed_step_does_not_stop_steps_that_do_not_need_it(fs: &Filesystem) {
        let metrics = fs.join("x.prom");
        let more = format!("[dedupe]\npaths = [{:?}]\ncache = 'none'\n[metrics]\nfile = {metrics:?}\n", fs.dir("more"));
        let profile = usual(fs, &more);
        run(&profile, &[]).expect(0);
        let success = sample(&metrics, "pleach_run_success_timestamp_seconds{profile=\"test\"}");
        fs::rename(fs.join("source"), fs.join("moved")).unwrap();
        let done = run(&profile, &["--json"]).expect(1);
        let commands: Vec<_> = summaries(&done).into_iter().map(|(command, _)| command).collect();
        assert_eq!(commands, ["dedupe", "run"]);
        let whole = done.summary();
        assert_eq!((number(&whole, "status"), number(&whole, "errors"), &whole["snapshot"]), (1, 1, &Value::Null));
        assert_eq!((&whole["steps"][0]["status"], &whole["steps"][1]["status"]), (&1.into(), &0.into()));
        assert_eq!(sample(&metrics, "pleach_run_success_timestamp_seconds{profile=\"test\"}"), success);
        assert_eq!(sample(&metrics, "pleach_step_exit_status{profile=\"test\",step=\"snapshot\"}"), 1.0);
    }

    [xfs] fn a_file_that_pleach_did_not_write_is_not_replaced_by_metrics(fs: &Filesystem) {
        let file = fs.join("x.prom");
        fs::write(&file, "up 1\n").unwrap();
        let profile = usual(fs, &format!("[metrics]\nfile = {file:?}\n"));
        run(&profile, &[]).expect(3).saying("did not write");
        assert_eq!(fs::read(&file).unwrap(), b"up 1\n");
        assert_eq!(published(&fs.join("repo")).len(), 1, "the snapshot is there");
    }

    [xfs] fn a_run_that_is_interrupted_starts_no_further_step(fs: &Filesystem) {
        let mark = fs.join("mark");
        let script = "echo $PLEACH_HOOK $PLEACH_STATUS >> $0";
        let more = format!(
            "[dedupe]\npaths = [{:?}]\ncache = 'none'\n[hooks]\nafter = ['sh', '-c', '{script}', {mark:?}]\n\
             failed = ['sh', '-c', '{script}', {mark:?}]\nfinally = ['sh', '-c', '{script}', {mark:?}]\n",
            fs.dir("more")
        );
        let profile = usual(fs, &more);
        let args = [OsStr::new("run"), "--json".as_ref(), profile.as_os_str()];
        let done = tools::interrupted_at("syncfs", 1, args).expect(130).saying("earlier snapshots are unchanged");
        assert_eq!(fs::read_to_string(&mark).unwrap(), "failed 130\nfinally 130\n");
        assert_eq!(done.summary()["steps"][1]["skipped"], "interrupted");
        assert_eq!(published(&fs.join("repo")), [""; 0]);
    }
}

/// Like [`usual`], with the source as it is.
fn usual_without_files(fs: &Filesystem, more: &str) -> PathBuf {
    settle();
    profile(fs, &format!("repository = {:?}\n[snapshot]\nsources = [{:?}]\n{more}", fs.join("repo"), fs.join("source")))
}

/// Holds the lock of a repository, as another run does.
fn locked(repo: &Path) -> File {
    let lock = File::options().read(true).write(true).open(repo.join(".pleach/lock")).expect("there is a lock");
    flock(&lock, FlockOperation::NonBlockingLockExclusive).expect("nobody holds it");
    lock
}
