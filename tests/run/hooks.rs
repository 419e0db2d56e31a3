//! The hooks of a run: their order, their environment and input, and their end.

use super::*;
use rustix::process::Signal;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// A hook that runs a shell script. `$0` in it is a file in the scratch directory.
fn sh(fs: &Filesystem, script: &str) -> String {
    format!("['sh', '-c', '''{script}''', {:?}]", fs.join("log"))
}

fn log(fs: &Filesystem) -> Vec<String> {
    fs::read_to_string(fs.join("log")).unwrap_or_default().lines().map(String::from).collect()
}

/// Hooks of all kinds that append their name and status to the log.
fn logging(fs: &Filesystem) -> String {
    let hook = sh(fs, "echo $PLEACH_HOOK $PLEACH_STATUS >> $0");
    format!("[hooks]\nbefore = {hook}\nafter = {hook}\nfailed = {hook}\nfinally = {hook}\n")
}

/// Whether a process with the id in this file is still running.
fn is_running(id: &Path) -> bool {
    let id = fs::read_to_string(id).expect("the process has written its id");
    let stat = fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

on_filesystems! {
    [xfs] fn hooks_run_around_the_work_and_know_its_result(fs: &Filesystem) {
        let show = sh(fs, "{ env | grep ^PLEACH_ | grep -v ^PLEACH_TEST_ | sort; cat; echo; } >> $0");
        let more = format!("[hooks]\nbefore = {show}\nafter = [{show}]\nfailed = {show}\nfinally = {show}\n");
        let profile = usual(fs, &more);
        let mut command = command([OsStr::new("run"), "--json".as_ref(), profile.as_os_str()]);
        // Variables of a surrounding run are not inherited.
        let done = finish(command.env("PLEACH_ERROR", "other").env("PLEACH_SNAPSHOT", "other")).expect(0);
        let snapshot = done.summary()["snapshot"].as_str().expect("a name").to_string();
        let log = log(fs).join("\n");
        let (before, rest) = log.split_once("PLEACH_HOOK=after\n").expect("the hook after");
        let (after, finally) = rest.split_once("PLEACH_HOOK=finally\n").expect("the hook finally");
        let file = format!("PLEACH_PROFILE_FILE={}", profile.display());
        let repository = format!("PLEACH_REPOSITORY={}", fs.join("repo").display());
        let before: Vec<_> = before.trim_end().lines().collect();
        assert_eq!(before, ["PLEACH_HOOK=before", "PLEACH_PROFILE=test", &file, &repository]);
        for part in [after, finally] {
            let name = format!("PLEACH_SNAPSHOT={snapshot}");
            let expected = ["PLEACH_PROFILE=test", &file, &repository, &name, "PLEACH_STATUS=0"];
            assert_eq!(part.lines().take(5).collect::<Vec<_>>(), expected);
            assert!(part.contains("pleach: run of test: done\n") && part.contains("  snapshot   done, "), "{part}");
        }
        let hooks = done.lines_of_type("hook");
        let kinds: Vec<_> = hooks.iter().map(|hook| hook["hook"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["before", "after", "finally"]);
        assert!(hooks.iter().all(|hook| hook["status"] == 0 && hook["command"][0] == "sh"));
    }

    [xfs] fn zeros_that_a_hook_prints_are_counted_and_not_all_printed(fs: &Filesystem) {
        let zeros = sh(fs, "head -c 50000000 /dev/zero; echo end");
        let done = run(&usual(fs, &format!("[hooks]\nbefore = {zeros}\n")), &["--json"]).expect(0);
        assert!(done.stderr.len() < 1 << 20, "{} bytes", done.stderr.len());
        assert!(done.stderr.contains("before: \\x00 (") && done.stderr.contains("end\n"));
        let hooks = done.lines_of_type("hook");
        let output = hooks[0]["output"].as_str().unwrap();
        assert!(output.contains(" times)") && output.ends_with("end\n"), "{output:.200}");
    }

    [xfs] fn the_output_of_hooks_is_kept_and_reported(fs: &Filesystem) {
        let before = sh(fs, "echo to stdout; echo to stderr >&2; printf \"\\033[31mred\"");
        let failed = sh(fs, "cat > $0");
        let more = format!("[hooks]\nbefore = {before}\nafter = ['false']\nfailed = {failed}\n");
        let profile = usual(fs, &more);
        let done = run(&profile, &[]).expect(3);
        for line in ["pleach: before: to stdout\n", "pleach: before: to stderr\n", "pleach: before: \\x1b[31mred\n"] {
            assert!(done.stderr.contains(line), "{line}: {}", done.stderr);
        }
        let done = done.saying("cannot run the hook 'after', false: exited with status 1");
        for part in ["(exit status 3)", "  after     cannot run"] {
            assert!(done.stdout.contains(part), "{part}: {}", done.stdout);
        }
        let report = log(fs).join("\n");
        for part in [
            "pleach: run of test: done with problems (exit status 3)\n",
            "Output of the hook 'before', sh -c ",
            "\nto stdout\nto stderr\n\\x1b[31mred\n",
            "\nMessages:\n",
            "cannot run the hook 'after', false: exited with status 1",
        ] {
            assert!(report.contains(part), "{part}:\n{report}");
        }
        let lines = run(&profile, &["--json"]).expect(3);
        let hooks = lines.lines_of_type("hook");
        assert_eq!(hooks[0]["output"], "to stdout\nto stderr\n\\x1b[31mred\n");
        assert_eq!(hooks[1]["status"], 1);
        assert_eq!(lines.lines::<json_lines::Problem>()[0].code, "hook-failed");
    }

    [xfs] fn a_hook_before_that_fails_stops_the_run_before_the_snapshot(fs: &Filesystem) {
        let note = sh(fs, "echo $PLEACH_HOOK $PLEACH_STATUS $PLEACH_ERROR >> $0");
        for (before, error) in [
            ("[['true'], ['false'], ['sleep', '1000']]", "cannot run the hook 'before', false: exited with status 1"),
            ("['sh', '-c', 'kill -9 $$']", "cannot run the hook 'before', sh: was killed by signal 9 (SIGKILL)"),
            ("['no-such-program']", "cannot run no-such-program: command not found (the hook 'before')"),
        ] {
            let more = format!("[hooks]\nbefore = {before}\nafter = {note}\nfailed = {note}\nfinally = {note}\n");
            let done = run(&usual(fs, &more), &["--json"]).expect(1).saying(error);
            assert_eq!(done.summary()["steps"][0]["skipped"], "a hook before it failed");
            assert_eq!(log(fs), [format!("failed 1 {error}"), format!("finally 1 {error}")]);
            assert!(!fs.join("repo").exists());
            fs::remove_file(fs.join("log")).unwrap();
        }
    }

    [xfs] fn a_hook_that_hangs_is_ended_with_everything_it_started(fs: &Filesystem) {
        let id = fs.join("id");
        let script = "trap \"\" TERM; sh -c \"echo \\$\\$ > ID; exec sleep 1000\" & echo waiting; wait; wait";
        let hang = sh(fs, &script.replace("ID", id.to_str().expect("a plain path")));
        let more = format!("[hooks]\nbefore = {hang}\nfinally = ['true']\ntimeout = '1s'\n");
        let begun = Instant::now();
        let done = run(&usual(fs, &more), &["--json"]).expect(1).saying("took longer than 1.0 s and was ended");
        assert!(begun.elapsed() < Duration::from_secs(300));
        assert!(!is_running(&id));
        assert_eq!(done.lines::<json_lines::Problem>()[0].code, "hook-timeout");
        assert_eq!(done.lines_of_type("hook")[0]["output"], "waiting\n");
    }

    [xfs] fn a_process_that_a_hook_leaves_behind_goes_on_and_is_not_waited_for(fs: &Filesystem) {
        let id = fs.join("id");
        let leave = sh(fs, &format!("sleep 1000 & echo $! > {}", id.display()));
        // A process that has ended can still be signalled until somebody reaps it.
        let stop = "grep -q \"^State:.S\" /proc/$(cat ID)/status && kill $(cat ID) && rm ID";
        let stop = sh(fs, &stop.replace("ID", id.to_str().expect("a plain path")));
        run(&usual(fs, &format!("[hooks]\nbefore = {leave}\nfinally = {stop}\ntimeout = '5m'\n")), &[]).expect(0);
        assert!(!id.exists(), "it was still running");
    }

    [xfs] fn an_interruption_ends_a_hook_before_and_later_hooks_still_run(fs: &Filesystem) {
        let id = fs.join("id");
        let hang = sh(fs, &format!("echo $$ > {}; exec sleep 1000", id.display()));
        let note = sh(fs, "echo $PLEACH_HOOK $PLEACH_STATUS >> $0");
        let more = format!("[hooks]\nbefore = {hang}\nafter = {note}\nfailed = {note}\nfinally = {note}\n");
        let profile = usual(fs, &more);
        for ask in [Signal::INT, Signal::TERM] {
            let mut command = command([OsStr::new("run"), profile.as_os_str()]);
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pleach can be started");
            let started = (0..6000).any(|_| {
                thread::sleep(Duration::from_millis(10));
                fs::read_to_string(&id).is_ok_and(|id| id.ends_with('\n'))
            });
            assert!(started);
            running::signal(&child, ask);
            running::end(child).expect(130).saying("the hook 'before' was ended");
            assert!(!is_running(&id));
            assert_eq!(log(fs), ["failed 130", "finally 130"]);
            assert!(!fs.join("repo").exists());
            fs::remove_file(fs.join("log")).unwrap();
            fs::remove_file(&id).unwrap();
        }
    }

    [xfs] fn a_run_beside_another_does_nothing_but_report_it(fs: &Filesystem) {
        let profile = usual(fs, &logging(fs));
        run(&profile, &[]).expect(0);
        assert_eq!(log(fs), ["before", "after 0", "finally 0"]);
        fs::remove_file(fs.join("log")).unwrap();
        let lock = locked(&fs.join("repo"));
        let done = run(&profile, &["--json"]).expect(11).saying("works on it").saying("this run did nothing");
        assert_eq!(done.summary()["steps"][0]["skipped"], "the repository is locked");
        // The other run needs what the hooks before have prepared, so nothing undoes it.
        assert_eq!(log(fs), ["failed 11"]);
        drop(lock);
        // A run that begins meanwhile meets the lock at the snapshot.
        let holder = fs.join("holder");
        let script = format!(
            "flock {}/.pleach/lock sleep 1000 & echo $! > {}; while flock -n {0}/.pleach/lock true; do sleep 0.1; done",
            fs.join("repo").display(),
            holder.display()
        );
        let before = sh(fs, &script);
        let stop = sh(fs, &format!("pkill -P $(cat {}); echo $PLEACH_HOOK $PLEACH_STATUS >> $0", holder.display()));
        fs::remove_file(fs.join("log")).unwrap();
        let done = run(&usual(fs, &format!("[hooks]\nbefore = {before}\nfinally = {stop}\n")), &["--json"]).expect(11);
        assert_eq!(done.summary()["steps"][0]["status"], 11);
        assert_eq!(log(fs), ["finally 11"]);
    }

    [xfs] fn a_second_run_of_a_profile_disturbs_no_hook_of_the_first(fs: &Filesystem) {
        // There is no repository yet that could be locked.
        let (started, go) = (fs.join("started"), fs.join("go"));
        let wait = format!("touch {}; until [ -e {} ]; do sleep 0.01; done", started.display(), go.display());
        let note = sh(fs, "echo $PLEACH_HOOK $PLEACH_STATUS >> $0");
        let wait = sh(fs, &wait);
        let hooks = format!("[hooks]\nbefore = {wait}\nfailed = {note}\nfinally = {note}\n");
        let profile = usual(fs, &format!("{hooks}timeout = '2m'\n"));
        let mut first = command([OsStr::new("run"), profile.as_os_str()]);
        let first = first.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pleach can be started");
        assert!((0..6000).any(|_| {
            thread::sleep(Duration::from_millis(10));
            started.exists()
        }));
        let second = run(&profile, &["--json"]).expect(11).saying("another run of it is in progress");
        assert_eq!(second.summary()["steps"][0]["skipped"], "another run is in progress");
        assert_eq!(log(fs), ["failed 11"]);
        run(&profile, &["--dry-run"]).expect(0);
        write(&go, b"");
        let output = first.wait_with_output().expect("a child can be waited for");
        Run::new(output, "run".into()).expect(0);
        assert_eq!(log(fs), ["failed 11", "finally 0"]);
        assert_eq!(published(&fs.join("repo")).len(), 1);
    }

    [xfs] fn a_profile_with_a_mistake_reports_the_missed_run(fs: &Filesystem) {
        let metrics = fs.join("x.prom");
        let note = sh(fs, "echo $PLEACH_HOOK $PLEACH_STATUS $PLEACH_ERROR >> $0; cat > $0.mail");
        let text = |key| {
            let hooks = format!("[hooks]\nbefore = {note}\nfailed = {note}\nfinally = {note}\n");
            format!("{key}\n[metrics]\nfile = {metrics:?}\n{hooks}")
        };
        run(&usual(fs, &text("exclude = []")), &[]).expect(0);
        let success = sample(&metrics, "pleach_run_success_timestamp_seconds{profile=\"test\"}");
        fs::remove_file(fs.join("log")).unwrap();
        let wrong = usual(fs, &text("exlude = []"));
        run(&wrong, &["--dry-run"]).expect(2);
        run(&wrong, &["--show"]).expect(2);
        assert!(log(fs).is_empty());
        run(&wrong, &[]).expect(2).saying("line 4, column 1: unknown key 'exlude' in [snapshot]");
        let [line] = &log(fs)[..] else { panic!("{:?}", log(fs)) };
        assert!(line.starts_with("failed 2 cannot use the profile ") && line.contains("'exlude'"), "{line}");
        assert!(fs::read_to_string(fs.join("log.mail")).unwrap().contains("unknown key 'exlude'"));
        assert_eq!(sample(&metrics, "pleach_run_exit_status{profile=\"test\"}"), 2.0);
        assert_eq!(sample(&metrics, "pleach_run_success_timestamp_seconds{profile=\"test\"}"), success);
        assert_eq!(published(&fs.join("repo")).len(), 1);
        // A section with a mistake is not used at all.
        fs::remove_file(fs.join("log")).unwrap();
        run(&usual(fs, &text("").replace("finally", "finaly")), &[]).expect(2);
        assert!(log(fs).is_empty());
    }

    [xfs] fn the_priority_of_a_run_is_that_of_its_profile(fs: &Filesystem) {
        let show = sh(fs, "nice >> $0; ionice >> $0");
        let cases = [("nice = 7\nio = 'idle'", ["7", "idle"]), ("io = 'low'", ["0", "best-effort: prio 7"])];
        for (process, expected) in cases {
            let profile = usual(fs, &format!("[hooks]\nbefore = {show}\n[process]\n{process}\n"));
            run(&profile, &[]).expect(0);
            assert_eq!(log(fs), expected);
            fs::remove_file(fs.join("log")).unwrap();
        }
    }
}
