//! The link `latest` of the receiver: a snapshot that has appeared is received, whatever becomes of the link, and the
//! next transfer corrects it.

use super::{assert_replica, receive, repository, stream, take};
use crate::harness::json_lines::Problem;
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

/// The words of a program that lets no link be moved to `latest`.
const NO_LINK: [&str; 10] =
    ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=renameat:error=EIO", "-P", "latest.new", "--"];

/// Replicates to this address, behind these words.
fn replicate(behind: &[&str], repo: &Path, to: &OsStr) -> Command {
    let mut words: Vec<OsString> = behind.iter().map(OsString::from).collect();
    words.push(env!("CARGO_BIN_EXE_pleach").into());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(["replicate", "--json"]).arg(repo).arg(to);
    command.env_remove("PLEACH_REPO").env_remove("PLEACH_SSH").env_remove("PLEACH_REMOTE");
    command
}

/// All snapshots arrived, the problem with the link counts once, and a run with nothing to send corrects it.
#[track_caller]
fn assert_only_the_link_is_missing(run: Run, again: Run, repo: &Path, to: &Path) {
    let run = run.expect(3);
    assert!(run.stderr.contains("latest") || run.stdout.contains("latest"), "{run:?}");
    assert_eq!(number(&run.summary(), "snapshots"), 3, "{run:?}");
    assert_eq!(number(&run.summary(), "errors"), 1, "{run:?}");
    let again = again.expect(0).summary();
    assert_eq!((number(&again, "snapshots"), number(&again, "errors")), (0, 0), "{again}");
    assert_replica(repo, to);
}

on_filesystems! {
    fn a_link_that_cannot_be_moved_costs_no_snapshot(fs: &Filesystem) {
        let (repo, to) = (repository(fs), fs.join("to"));
        let run = finish(&mut replicate(&NO_LINK, &repo, to.as_ref()));
        assert!(run.stderr.contains("all snapshots are complete; the next run corrects the link"), "{run:?}");
        let codes: Vec<_> = run.lines::<Problem>().into_iter().map(|problem| problem.code).collect();
        assert_eq!(codes, ["io-error"], "{run:?}");
        assert_eq!(listed(&to), ["one", "two", "three"]);
        assert!(!to.join("latest").exists());
        let again = finish(&mut replicate(&[], &repo, to.as_ref()));
        assert_only_the_link_is_missing(run, again, &repo, &to);
    }

    [xfs] fn a_host_that_cannot_move_the_link_has_all_snapshots(fs: &Filesystem) {
        let (repo, to, ssh) = (repository(fs), fs.join("to"), fs.join("ssh"));
        // A program in the place of ssh runs the receiver here. It knows no configuration.
        let script = "#!/bin/bash\n[ \"$1\" = -G ] && exit 1\nfor command; do :; done\nexec sh -c \"$command\"\n";
        write(&ssh, script.as_bytes());
        fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
        let run = |behind: &[&str]| {
            let remote = [behind, &[env!("CARGO_BIN_EXE_pleach")]].concat().join(" ");
            let mut url = OsString::from("ssh://nas");
            url.push(&to);
            finish(replicate(&[], &repo, &url).env("PLEACH_SSH", &ssh).env("PLEACH_REMOTE", remote))
        };
        let (first, again) = (run(&NO_LINK), run(&[]));
        assert_only_the_link_is_missing(first, again, &repo, &to);
    }

    [xfs] fn a_stale_link_is_corrected_although_there_is_nothing_to_send(fs: &Filesystem) {
        let (repo, to) = (repository(fs), fs.join("to"));
        finish(&mut replicate(&[], &repo, to.as_ref())).expect(0);
        for stale in ["one", "nowhere"] {
            fs::remove_file(to.join("latest")).unwrap();
            symlink(stale, to.join("latest")).unwrap();
            pleach(["replicate".as_ref(), "--dry-run".as_ref(), repo.as_os_str(), to.as_os_str()]).expect(0);
            assert_eq!(fs::read_link(to.join("latest")).unwrap(), Path::new(stale), "a plan changes nothing");
            let run = finish(&mut replicate(&[], &repo, to.as_ref())).expect(0);
            assert_eq!(number(&run.summary(), "snapshots"), 0, "{run:?}");
            assert_replica(&repo, &to);
        }
        // A stream in a file that brings nothing new does the same.
        fs::remove_file(to.join("latest")).unwrap();
        receive(&to, &stream(&repo, "one", None), &[]).expect(0);
        assert_replica(&repo, &to);
    }

    [btrfs] fn a_snapshot_that_cannot_be_made_read_only_is_received_and_sealed_by_the_next_run(fs: &Filesystem) {
        let (repo, to) = (repository(fs), fs.join("to"));
        receive(&to, &stream(&repo, "one", None), &[]).expect(0);
        let receive_without = |calls: &str, at: &[&Path], name: &str| {
            let file = fs.join("stream");
            write(&file, &stream(&repo, name, None));
            let mut strace = Command::new("strace");
            strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("inject={calls}:error=EIO")]);
            strace.args(at.iter().flat_map(|at| [OsStr::new("-P"), at.as_os_str()]));
            strace.arg(env!("CARGO_BIN_EXE_pleach")).args(["receive", "--json"]).arg(&to);
            finish(strace.stdin(fs::File::open(&file).unwrap()).env_remove("PLEACH_REPO"))
        };
        let is_read_only = |name: &str| tools::is_read_only(&to.join(name));
        let run = receive_without("ioctl", &[&to.join("two")], "two").expect(3);
        let run = run.saying("the snapshot two is complete; the next run makes it read-only");
        assert_eq!(number(&run.summary(), "errors"), 1);
        assert!(!is_read_only("two"));
        // Nothing that failed is hidden by another failure.
        let run = receive_without("ioctl,fsync", &[&to.join("three"), &to], "three").expect(1);
        run.saying("makes it read-only").saying("the snapshot three is complete, but may not survive a power cut");
        finish(&mut replicate(&[], &repo, to.as_ref())).expect(0);
        assert!(is_read_only("two") && is_read_only("three"));
        assert_replica(&repo, &to);
    }

    [xfs] fn a_directory_in_the_place_of_the_link_is_refused_before_anything_is_received(fs: &Filesystem) {
        let (source, repo, to) = (fs.dir("source"), fs.join("repo"), fs.join("to"));
        write(source.join("file"), &bytes(1, 5000));
        take("one", &source, &repo);
        finish(&mut replicate(&[], &repo, to.as_ref())).expect(0);
        take("two", &source, &repo);
        fs::remove_file(to.join("latest")).unwrap();
        fs::create_dir(to.join("latest")).unwrap();
        finish(&mut replicate(&[], &repo, to.as_ref())).expect(1).saying("nothing was received; move that directory");
        receive(&to, &stream(&repo, "two", None), &[]).expect(1).saying("nothing was received; move that directory");
        assert_eq!(listed(&to), ["one"]);
        fs::remove_dir(to.join("latest")).unwrap();
        finish(&mut replicate(&[], &repo, to.as_ref())).expect(0);
        assert_replica(&repo, &to);
    }
}
