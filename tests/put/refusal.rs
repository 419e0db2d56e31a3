//! A failed put leaves the file unchanged, and says why.

use super::input::blake3;
use super::*;
use crate::on_filesystems;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::time::Duration;

on_filesystems! {
    fn a_stream_that_is_not_what_was_expected_leaves_the_file_as_it_was(fs: &Filesystem) {
        let dest = fs.join("file");
        let old = bytes(1, 3 * MIB);
        write_synced(&dest, &old);
        let was = fs::metadata(&dest).expect("the file is there");
        let new = with_blocks(&old, &[1, 500]);
        let (hash, wrong) = (blake3(&new), blake3(b""));
        let cases: [(&[&str], &[u8], &str); 5] = [
            (
                &["--expect-size", "3M"],
                &new[..2 * MIB],
                "the input ended after 2,097,152 bytes, and 3,145,728 were expected",
            ),
            (&["--expect-size", "2M"], &new, "the input continues after the 2,097,152 expected bytes"),
            (&["--expect-size", "1"], b"", "the input ended after 0 bytes"),
            (&["--expect-blake3", &wrong], &new, "the BLAKE3 of the input is not the expected one"),
            (&["--expect-blake3", &hash], &new[..new.len() - 1], "the file is unchanged"),
        ];
        for (args, content, why) in cases {
            put(&dest, args, content).expect(1).saying(why);
            assert_no_temporary(&dest);
        }
        let is = fs::metadata(&dest).expect("the file is there");
        assert_eq!((was.ino(), was.ctime(), was.ctime_nsec()), (is.ino(), is.ctime(), is.ctime_nsec()));
        assert_content(&dest, &old);
        let missing = fs.join("missing");
        put(&missing, &["--expect-size", "7"], b"x").expect(1).saying("no file was created");
        assert!(!missing.exists());
        put_well(&dest, &["--expect-size", "3M", "--expect-blake3", &hash], &new);
        put_well(&dest, &["--expect-size", "0", "--expect-blake3", &wrong], b"");
        put(&dest, &["--expect-blake3", "abc"], b"").expect(2).saying("64 hexadecimal digits");
    }

    fn a_file_as_input_is_held_to_what_was_expected_too(fs: &Filesystem) {
        let (source, dest) = (fs.join("source"), fs.join("dest"));
        write_synced(&source, &bytes(1, MIB));
        write_synced(&dest, b"old");
        for args in ["--expect-size 5", &format!("--expect-blake3 {}", blake3(b""))] {
            let script = format!("$PUT put {args} \"$1\" < {}", source.display());
            in_shell(&script, &dest).expect(1).saying("the file is unchanged");
            assert_content(&dest, b"old");
        }
        let args = format!("--expect-size 1M --expect-blake3 {}", blake3(&bytes(1, MIB)));
        in_shell(&format!("$PUT put {args} \"$1\" < {}", source.display()), &dest).expect(0);
        assert_content(&dest, &bytes(1, MIB));
        assert_no_temporary(&dest);
    }

    fn only_a_file_can_be_replaced(fs: &Filesystem) {
        let dir = fs.dir("dir");
        finish(Command::new("mkfifo").arg(fs.join("pipe"))).expect(0);
        symlink("nothing", fs.join("dangling")).expect("a link can be made");
        symlink("dir", fs.join("to dir")).expect("a link can be made");
        let cases = [
            (dir.clone(), "it is a directory"),
            (fs.join("to dir"), "it is a directory"),
            (fs.join("new/"), "it is a directory"),
            (dir.join(".."), "it is a directory"),
            ("/".into(), "it is a directory"),
            (fs.join("pipe"), "it is a named pipe"),
            ("/dev/null".into(), "it is a device"),
            (fs.join("dangling"), "a symbolic link that leads to nothing"),
        ];
        for (dest, why) in cases {
            put(&dest, &[], b"x").expect(2).saying(why);
        }
        put(&fs.join("missing/file"), &[], b"x").expect(1).saying("cannot open the directory of");
        assert_eq!(names(fs.path()), ["dangling", "dir", "pipe", "to dir"]);
        assert_eq!(names(&dir), [""; 0]);
    }

    fn a_file_that_may_not_be_written_is_not_replaced(fs: &Filesystem) {
        let dest = fs.join("file");
        write_synced(&dest, b"old");
        for flag in ["i", "a"] {
            tools::tool("chattr", &[&format!("+{flag}")], &dest);
            let run = put(&dest, &[], b"new");
            tools::tool("chattr", &[&format!("-{flag}")], &dest);
            run.expect(1).saying(&format!("it has the chattr flags {flag}"));
        }
        tools::tool("chmod", &["444"], &dest);
        let mut command = command_bound_by_permissions(["put".as_ref(), dest.as_os_str()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        feed(command.spawn().expect("it can be started"), b"new").expect(1).saying("Permission denied");
        assert_content(&dest, b"old");
        assert_no_temporary(&dest);
    }

    [xfs_small] fn a_full_disk_leaves_the_file_as_it_was(fs: &Filesystem) {
        let dest = fs.join("file");
        let old = bytes(1, 150 * MIB);
        write_synced(&dest, &old);
        for _ in 0..2 {
            let run = put(&dest, &[], &bytes(2, 200 * MIB)).expect(1);
            run.saying("cannot write the new content").saying("No space left on device");
            assert_content(&dest, &old);
            assert_no_temporary(&dest);
        }
        // Shared data fits.
        put_well(&dest, &[], &with_blocks(&old, &[5]));
    }

    fn killed_at_random_moments_it_leaves_one_file_or_the_other(fs: &Filesystem) {
        let dest = fs.join("file");
        let (a, b) = (bytes(1, 24 * MIB), with_blocks(&bytes(1, 24 * MIB), &(0..6000).step_by(2).collect::<Vec<_>>()));
        write_synced(&dest, &a);
        let begun = std::time::Instant::now();
        put_well(&dest, &[], &b);
        let whole = begun.elapsed();
        let mut is_b = true;
        for moment in 0..12_u32 {
            let (now, next) = if is_b { (&b, &a) } else { (&a, &b) };
            let child = begin(&dest, &[]);
            let id = Pid::from_child(&child);
            let killer = std::thread::spawn(move || {
                std::thread::sleep(whole * moment / 10);
                let _ = kill_process(id, Signal::KILL);
            });
            let run = feed(child, next);
            killer.join().expect("it only sleeps");
            let found = fs::read(&dest).expect("it is always there");
            assert!(found == *now || found == *next, "one or the other");
            assert!(run.status != 0 || found == *next, "what succeeded is there");
            is_b = found == b;
        }
        put_well(&dest, &[], &a);
    }

    fn what_a_killed_run_left_is_removed_and_what_another_is_making_is_not(fs: &Filesystem) {
        let (dest, other) = (fs.join("file"), fs.join("other"));
        write(&dest, b"old");
        let content = bytes(3, 2 * MIB);
        let mut killed = begin(&dest, &[]);
        wait_for_temporaries(fs.path(), 1);
        killed.kill().expect("a child can be killed");
        killed.wait().expect("a child can be waited for");
        write(fs.join(".pleach-put.zz.0"), b"not one of its names");
        assert_eq!(temporaries(fs.path()), 2);
        let running = begin(&other, &[]);
        wait_for_temporaries(fs.path(), 2);
        let run = put(&dest, &["-v"], b"new").expect(0);
        assert_content(&dest, b"new");
        feed(running, &content).expect(0);
        assert_content(&other, &content);
        assert_eq!(names(fs.path()), [".pleach-put.zz.0", "file", "other"], "{}", run.stderr);
    }

    fn interrupted_it_says_so_and_leaves_the_file_as_it_was(fs: &Filesystem) {
        let dest = fs.join("file");
        write_synced(&dest, b"old");
        for signal in [Signal::INT, Signal::TERM] {
            // Its input is silent, but open.
            let mut child = begin(&dest, &[]);
            let pipe = child.stdin.take();
            wait_for_temporaries(fs.path(), 1);
            running::signal(&child, signal);
            running::end(child).expect(130).saying("interrupted");
            drop(pipe);
            assert_content(&dest, b"old");
            assert_no_temporary(&dest);
        }
    }

    [xfs] fn a_file_made_meanwhile_by_somebody_else_stays(fs: &Filesystem) {
        let dest = fs.join("file");
        let child = begin(&dest, &[]);
        wait_for_temporaries(fs.path(), 1);
        write(&dest, b"theirs");
        feed(child, b"ours").expect(1).saying("somebody else created it meanwhile");
        assert_content(&dest, b"theirs");
        assert_no_temporary(&dest);
    }
}

pub(super) fn temporaries(dir: &Path) -> usize {
    names(dir).iter().filter(|name| name.starts_with(".pleach-put.")).count()
}

/// Waits until this many runs have begun.
#[track_caller]
pub(super) fn wait_for_temporaries(dir: &Path, number: usize) {
    let is_there = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        temporaries(dir) >= number
    });
    assert!(is_there, "a run begins");
}
