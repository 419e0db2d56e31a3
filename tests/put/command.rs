//! A command with output that replaces the file: the exit status decides whether it does.

use super::refusal::{temporaries, wait_for_temporaries};
use super::*;
use crate::on_filesystems;
use rustix::process::{Pid, Signal, test_kill_process};
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

/// `pleach put [OPTIONS] DEST -- COMMAND`.
fn run(dest: &Path, options: &[&str], words: &[&str]) -> Run {
    finish(&mut put_command(dest, options, words))
}

fn put_command(dest: &Path, options: &[&str], words: &[&str]) -> Command {
    let before = ["put"].iter().chain(options).map(OsStr::new);
    let after = ["--"].iter().chain(words).map(OsStr::new);
    command(before.chain([dest.as_os_str()]).chain(after))
}

fn sh(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}

on_filesystems! {
    fn the_output_of_a_command_replaces_the_file_when_it_exits_with_0(fs: &Filesystem) {
        let (dest, source) = (fs.join("file"), fs.join("source"));
        let old = bytes(1, 3 * MIB);
        write_synced(&dest, &old);
        let new = with_blocks(&old, &[5, 300]);
        write(&source, &new);
        let cat = ["cat", source.to_str().expect("a plain path")];
        let summary = run(&dest, &["--json"], &cat).expect(0).summary();
        assert_content(&dest, &new);
        assert_eq!((number(&summary, "bytes"), number(&summary, "errors")), (3 * MIB as u64, 0));
        if fs.reflinks() {
            assert_eq!(number(&summary, "written_bytes"), 2 * BLOCK as u64, "{summary}");
        }
        let made = fs.join("new");
        run(&made, &[], &sh("printf \"$0 $1\"; exit 0")).expect(0);
        assert_content(&made, b"sh ");
        run(&made, &["--expect-size", "3"], &["printf", "%s", "abc"]).expect(0);
        assert_content(&made, b"abc");
        assert_no_temporary(&dest);
    }

    fn a_command_that_fails_leaves_the_file_unchanged(fs: &Filesystem) {
        let dest = fs.join("file");
        write_synced(&dest, b"old");
        let was = fs::metadata(&dest).expect("the file is there");
        let cases: [(&[&str], &str); 8] = [
            (&sh("echo half; exit 3"), "sh exited with status 3"),
            (&sh("exit 1"), "sh exited with status 1"),
            (&sh("echo half; kill -9 $$"), "sh was killed by signal 9 (SIGKILL)"),
            (&sh("echo all; exec >&-; sleep 0.3; exit 4"), "sh exited with status 4"),
            // A background process of the command holds the output open; the failure is noticed nevertheless.
            (&sh("echo half; sleep 900 2> /dev/null & exit 5"), "sh exited with status 5"),
            (&["nosuch-command"], "cannot run nosuch-command: command not found"),
            (&["./nosuch/command"], "cannot run ./nosuch/command: command not found"),
            (&["/dev/null"], "cannot run /dev/null: Permission denied"),
        ];
        let begun = Instant::now();
        for (words, why) in cases {
            run(&dest, &[], words).expect(1).saying(why).saying("the file is unchanged");
            assert_no_temporary(&dest);
        }
        assert!(begun.elapsed() < Duration::from_secs(600), "no failure waits for the process that was left behind");
        let is = fs::metadata(&dest).expect("the file is there");
        assert_eq!((was.ino(), was.ctime(), was.ctime_nsec()), (is.ino(), is.ctime(), is.ctime_nsec()));
        assert_content(&dest, b"old");
        let missing = fs.join("missing");
        run(&missing, &[], &sh("echo half; exit 3")).expect(1).saying("no file was created");
        assert!(!missing.exists());
        let line = run(&dest, &["--json"], &["false"]).expect(1).json().pop().expect("a line");
        assert_eq!((line["type"].as_str(), line["code"].as_str()), (Some("error"), Some("command-failed")), "{line}");
        assert_eq!(line["path"].as_str(), dest.to_str());
    }

    fn an_empty_stream_never_replaces_a_file_that_is_not_empty_unasked(fs: &Filesystem) {
        let (dest, missing, empty) = (fs.join("file"), fs.join("missing"), fs.join("empty"));
        write_synced(&dest, b"old");
        write_synced(&empty, b"");
        in_shell("false | $PUT put \"$1\"", &dest).expect(1).saying("the input is empty").saying("--allow-empty");
        in_shell(": | $PUT put --expect-size 3 \"$1\"", &dest).expect(1).saying("ended after 0 bytes");
        in_shell("$PUT put \"$1\" < /dev/null", &dest).expect(1).saying("the file has 3 B");
        in_shell(&format!("$PUT put \"$1\" < {}", empty.display()), &dest).expect(1).saying("the input is empty");
        run(&dest, &[], &["true"]).expect(1).saying("the input is empty");
        assert_content(&dest, b"old");
        assert_no_temporary(&dest);
        // If there was no file, nothing is lost.
        in_shell(": | $PUT put \"$1\"", &missing).expect(0);
        in_shell(": | $PUT put \"$1\"", &missing).expect(0);
        run(&empty, &[], &["true"]).expect(0);
        assert_content(&missing, b"");
        in_shell(": | $PUT put \"$1\" --allow-empty", &dest).expect(0);
        assert_content(&dest, b"");
        for (options, words) in [(["--allow-empty", "-q"], &["true"]), (["--expect-size", "0"], &["true"])] {
            write_synced(&dest, b"old");
            run(&dest, &options, words).expect(0);
            assert_content(&dest, b"");
        }
    }

    [xfs] fn a_command_has_our_standard_input_and_error_and_the_usual_sigpipe(fs: &Filesystem) {
        let dest = fs.join("file");
        let script = "printf abc | $PUT put \"$1\" -- sh -c 'cat; echo words >&2; grep SigIgn /proc/self/status >&2'";
        let run = in_shell(script, &dest).expect(0).saying("words");
        assert_content(&dest, b"abc");
        let mask = run.stderr.lines().find_map(|line| line.strip_prefix("SigIgn:")).map(str::trim);
        let mask = mask.and_then(|mask| u64::from_str_radix(mask, 16).ok()).expect("a mask");
        assert_eq!(mask & 1 << (Signal::PIPE.as_raw() - 1), 0, "SIGPIPE has its default action");
        // Refusals happen before the command runs.
        let mark = fs.join("mark");
        let touch = ["touch", mark.to_str().expect("a plain path")];
        command::run(fs.path(), &[], &touch).expect(2).saying("it is a directory");
        command::run(&dest, &["--base", "/nonexistent"], &touch).expect(1);
        assert!(!mark.exists());
        command::run(&dest, &["--expect-blake3", &input::blake3(b"x")], &["printf", "y"]).expect(1);
        assert_content(&dest, b"abc");
        // An empty variable behind '--' must not mean stdin.
        pleach(["put".as_ref(), dest.as_os_str(), "--".as_ref()]).expect(2).saying("name the command");
    }

    [xfs] fn output_that_another_process_holds_open_is_read_to_its_end(fs: &Filesystem) {
        let dest = fs.join("file");
        let run = run(&dest, &[], &sh("printf first; { sleep 9; printf second; } & exit 0")).expect(0);
        assert_content(&dest, b"firstsecond");
        assert!(run.stderr.contains("another process holds its output open"), "{}", run.stderr);
    }

    [xfs] fn interrupted_it_terminates_the_command_and_reaps_it(fs: &Filesystem) {
        let (dest, id) = (fs.join("file"), fs.join("id"));
        write_synced(&dest, b"old");
        // The last one has closed its output and continues; the one before reacts late to SIGTERM.
        for script in [
            "exec sleep 1000",
            "trap 'sleep 0.3; exit 0' TERM; while :; do sleep 0.1; done",
            "exec >&-; exec sleep 1000",
        ] {
            let script = format!("echo $$ > {}; echo half; {script}", id.display());
            let mut pleach = put_command(&dest, &[], &sh(&script));
            let child = pleach.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pleach can be started");
            wait_for_temporaries(fs.path(), 1);
            let command = (0..500).find_map(|_| {
                std::thread::sleep(Duration::from_millis(10));
                fs::read_to_string(&id).ok()?.trim().parse().ok().and_then(Pid::from_raw)
            });
            let command = command.expect("the command starts");
            std::thread::sleep(Duration::from_millis(100));
            running::signal(&child, Signal::INT);
            running::end(child).expect(130).saying("interrupted");
            assert!(test_kill_process(command).is_err(), "the command is gone");
            assert_eq!(temporaries(fs.path()), 0);
            assert_content(&dest, b"old");
            fs::remove_file(&id).expect("a file can be removed");
        }
    }

    [xfs] fn a_signal_to_pleach_alone_ends_everything_that_the_command_started(fs: &Filesystem) {
        let (dest, ids) = (fs.join("file"), fs.join("ids"));
        write_synced(&dest, b"old");
        let scripts = [
            // A pipeline with a first program that writes nothing, and one that continues to write.
            "sleep 1000 | cat & echo $! >> $IDS; while :; do echo x; sleep 0.01; done",
            // A process with a parent that has ended, and one that ignores SIGTERM.
            "(sh -c 'echo $$ >> $IDS; exec sleep 1000' &) ; sh -c 'trap \"\" TERM; echo $$ >> $IDS; \
             while :; do sleep 0.1; done'",
            // The command itself has succeeded, but its output stays open.
            "sh -c 'echo $$ >> $IDS; exec sleep 1000' & exit 0",
        ];
        for (script, ask_to_stop) in scripts.iter().cycle().zip([Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT])
        {
            let mut pleach = put_command(&dest, &[], &sh(script));
            pleach.env("IDS", &ids).stdout(Stdio::piped()).stderr(Stdio::piped());
            let child = pleach.spawn().expect("pleach can be started");
            wait_for_temporaries(fs.path(), 1);
            let started = || fs::read_to_string(&ids).is_ok_and(|ids| ids.ends_with('\n'));
            let has_started = (0..1000).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                started()
            });
            assert!(has_started, "{script}");
            std::thread::sleep(Duration::from_millis(300));
            running::signal(&child, ask_to_stop);
            running::end(child).expect(130).saying("interrupted").saying("the file is unchanged");
            for id in fs::read_to_string(&ids).expect("it was written").lines() {
                // The parent of an ended process may not know of its end yet.
                let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
                assert!(stat.is_empty() || stat.contains(") Z "), "{script}: {stat}");
            }
            assert_eq!(temporaries(fs.path()), 0);
            assert_content(&dest, b"old");
            fs::remove_file(&ids).expect("a file can be removed");
        }
    }

    [xfs] fn a_command_that_reads_from_the_terminal_gets_it_and_control_c_too(fs: &Filesystem) {
        let (dest, asks, has_read) = (fs.join("file"), fs.join("asks"), fs.join("has-read"));
        for (then, typed, status, content) in
            [("echo \"got $word\"", "", 0, &b"got secret\n"[..]), ("exec sleep 1000", "\x03", 130, b"old")]
        {
            write_synced(&dest, b"old");
            let script =
                format!("touch {}; read word < /dev/tty; touch {}; {then}", asks.display(), has_read.display());
            let line = format!("'{}' put '{}' -- sh -c '{script}'", env!("CARGO_BIN_EXE_pleach"), dest.display());
            let mut terminal = Command::new("script");
            terminal.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut terminal = terminal.spawn().expect("script can be started");
            let mut keyboard = terminal.stdin.take().expect("it is piped");
            for (wait_for, keys) in [(&asks, "secret\n"), (&has_read, typed)] {
                let is_there = (0..6000).any(|_| {
                    std::thread::sleep(Duration::from_millis(10));
                    wait_for.exists()
                });
                assert!(is_there, "{} appears", wait_for.display());
                keyboard.write_all(keys.as_bytes()).expect("keys can be typed");
                keyboard.flush().expect("keys can be typed");
            }
            let output = terminal.wait_with_output().expect("a child can be waited for");
            Run::new(output, line).expect(status);
            assert_content(&dest, content);
            assert_no_temporary(&dest);
            fs::remove_file(&asks).and_then(|()| fs::remove_file(&has_read)).expect("files can be removed");
        }
    }

    fn an_input_that_cannot_be_read_or_is_cut_meanwhile_leaves_the_file_unchanged(fs: &Filesystem) {
        let (dest, source) = (fs.join("file"), fs.join("source"));
        write_synced(&dest, b"old");
        in_shell("$PUT put \"$1\" < /proc/$PPID/mem", &dest).expect(1).saying("cannot read the input");
        // From an offset that is not a multiple of a block, the file is read as a stream; while the run waits there, it
        // is truncated.
        let size = 64 * MIB;
        let put_and_cut = |seconds: &str| {
            write(&source, &bytes(1, size));
            write_synced(&dest, b"old");
            let script = format!(
                "exec 3< {source}; head -c 1 <&3 > /dev/null; (sleep {seconds}; truncate -s 1M {source}) & \
                 $PUT put \"$1\" <&3; s=$?; wait; exit $s",
                source = source.display()
            );
            (in_shell(&script, &dest), fs::read(&dest).expect("it is always there"))
        };
        // On a busy machine, the input may be cut before the run looks at it.
        let mut tried = ["0.05", "0.2", "1", "5"].into_iter().map(put_and_cut);
        let (run, found) = tried.find(|(_, found)| found.len() != MIB - 1).expect("it is cut while it is read");
        assert!(
            (run.status == 1 && found == b"old") || (run.status == 0 && found.len() == size - 1),
            "all of it or nothing: {} bytes, status {}", found.len(), run.status
        );
        assert_no_temporary(&dest);
    }
}
