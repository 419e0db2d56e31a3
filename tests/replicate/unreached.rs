//! Another host that cannot be reached, does not answer, or goes away: the error says why and what to do, nothing half
//! done is left, and the next run continues.

use super::{assert_replica, replicate as replicate_here, repository, sums, take};
use crate::harness::json_lines::Line;
use crate::harness::sshd::{Sshd, url};
use crate::harness::*;
use crate::on_filesystems;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::Duration;

#[derive(Debug, Deserialize)]
struct Failure {
    code: String,
    message: String,
}

impl Line for Failure {
    const TYPE: &'static str = "error";
}

/// The run failed with this code, and its message has all these parts.
#[track_caller]
fn assert_failed(run: Run, code: &str, parts: &[&str]) {
    let run = run.expect(1);
    let failures: Vec<Failure> = run.lines();
    assert_eq!(failures.len(), 1, "{run:?}");
    assert_eq!(failures[0].code, code, "{failures:?}");
    for part in parts {
        assert!(failures[0].message.contains(part), "{part}: {}", failures[0].message);
    }
}

fn begin(sshd: &Sshd, repo: &Path, to: &Path) -> Child {
    running::begin(&mut sshd.replicate_command(repo, to))
}

/// Lets a receiver continue that has lost its sender, and waits for its end: until then it locks the repository.
fn end_lost(sshd: &Sshd) {
    let id = fs::read_to_string(sshd.file("started")).unwrap();
    fs::write(sshd.file("go"), "").unwrap();
    // An ended process that nobody has waited for keeps its directory, but not this link.
    let program = Path::new("/proc").join(id.trim()).join("exe");
    running::await_that("the receiver ends", || program.read_link().is_err());
}

on_filesystems! {
    [xfs] fn a_host_that_cannot_be_reached_is_named_with_the_reason(fs: &Filesystem) {
        let (repo, to, sshd) = (repository(fs), fs.join("to"), Sshd::start(fs.join("host")));
        let run = |program: &str, to: &str| {
            let mut run = sshd.pleach([OsStr::new("replicate"), "--json".as_ref(), repo.as_ref(), to.as_ref()]);
            if !program.is_empty() {
                run.env("PLEACH_SSH", program);
            }
            finish(&mut run)
        };
        let parts = ["cannot run /no/ssh", "nas", "PLEACH_SSH"];
        assert_failed(run("/no/ssh", "ssh://nas/to"), "command-not-found", &parts);
        let try_it = "nothing was sent; try: ssh -p 1 nas";
        assert_failed(run("", "ssh://nas:1/to"), "no-connection", &["cannot connect to nas", "refused", try_it]);
        assert_failed(run("", "ssh://nowhere.invalid/to"), "no-connection", &["nowhere.invalid", "resolve"]);
        let keys = fs::read_to_string(sshd.file("authorized_keys")).unwrap();
        fs::write(sshd.file("authorized_keys"), "").unwrap();
        assert_failed(sshd.replicate(&repo, &to), "no-connection", &["Permission denied (publickey"]);
        fs::write(sshd.file("authorized_keys"), keys).unwrap();
        let hosts = fs::read_to_string(sshd.file("known_hosts")).unwrap();
        let wrong = fs::read_to_string(sshd.file("user.pub")).unwrap();
        fs::write(sshd.file("known_hosts"), format!("nas {wrong}")).unwrap();
        let run = sshd.replicate(&repo, &to).saying("nas: @    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!");
        assert_failed(run, "no-connection", &["Host key verification failed"]);
        fs::write(sshd.file("known_hosts"), hosts).unwrap();
        assert!(!to.exists());
        assert_eq!(sums(&sshd.replicate(&repo, &to).expect(0)).snapshots, 3);
    }

    [xfs] fn a_host_without_a_pleach_that_understands_is_named(fs: &Filesystem) {
        let (repo, to, sshd) = (repository(fs), fs.join("to"), Sshd::start(fs.join("host")));
        sshd.replace_pleach("echo \"error: unrecognized subcommand 'receive'\" >&2; echo >&2; echo usage >&2; exit 2");
        let parts = ["cannot run pleach on nas: error: unrecognized subcommand 'receive'", "update it"];
        assert_failed(sshd.replicate(&repo, &to), "no-receiver", &parts);
        for (version, parts) in [
            ("\\0", ["nas speaks version 0", "the pleach on nas is older"]),
            ("\\2", ["nas speaks version 2", "the pleach on this machine is older"]),
        ] {
            sshd.replace_pleach(&format!("printf 'pleachST{version}\\0\\0\\0'; cat > /dev/null"));
            assert_failed(sshd.replicate(&repo, &to), "other-version", &parts);
        }
        fs::write(sshd.home().join(".bashrc"), "echo hello\n").unwrap();
        sshd.replace_pleach("exec \"$REAL\" \"$@\"");
        assert_failed(sshd.replicate(&repo, &to), "no-receiver", &["nas sent 'hello'", "~/.bashrc"]);
        fs::write(sshd.home().join(".bashrc"), "printf hello\n").unwrap();
        assert_failed(sshd.replicate(&repo, &to), "no-receiver", &["nas sent 'hello"]);
        fs::remove_file(sshd.file("bin/pleach")).unwrap();
        fs::write(sshd.home().join(".bashrc"), "echo careful >&2\n").unwrap();
        let run = sshd.replicate(&repo, &to).saying("nas: careful");
        assert_failed(run, "no-receiver", &["cannot run pleach on nas", "command not found", "PLEACH_REMOTE"]);
        assert_eq!(names(&to), [".pleach"]);
        let mut run = sshd.pleach([OsStr::new("replicate"), "--json".as_ref(), repo.as_ref(), &url(&to)]);
        run.env("PLEACH_REMOTE", format!("nice {}", env!("CARGO_BIN_EXE_pleach")));
        assert_eq!(sums(&finish(&mut run).expect(0).saying("nas: careful")).snapshots, 3);
        assert_replica(&repo, &to);
    }

    [xfs] fn a_path_that_cannot_be_a_repository_is_named_with_its_host(fs: &Filesystem) {
        let (repo, sshd) = (repository(fs), Sshd::start(fs.join("host")));
        write(fs.join("file"), b"");
        let address = format!("ssh://nas{}", fs.join("file").display());
        assert_failed(sshd.replicate(&repo, &fs.join("file")), "receiver-failed", &[&address, "Not a directory"]);
        write(fs.dir("full").join("file"), b"");
        assert_failed(sshd.replicate(&repo, &fs.join("full")), "receiver-failed", &["make a repository of", "empty"]);
        assert_failed(sshd.replicate(&repo, &fs.join("no/where")), "receiver-failed", &["no/where", "No such file"]);
        let to = fs.join("to");
        replicate_here(&repo, &to);
        let lock = fs::File::open(to.join(".pleach/lock")).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let run = sshd.replicate(&repo, &to).expect(11);
        run.saying("lock").saying("ssh://nas").saying("ClientAliveInterval");
    }

    [xfs_small] fn a_full_disk_over_there_is_named_and_the_next_run_goes_on(fs: &Filesystem) {
        let (other, sshd) = (fs.elsewhere(), Sshd::start(fs.join("host")));
        let (source, repo, to) = (other.dir("source"), other.join("repo"), fs.join("to"));
        write(source.join("a"), &bytes(1, 20 << 20));
        take("one", &source, &repo);
        write(source.join("b"), &bytes(2, 120 << 20));
        take("two", &source, &repo);
        let filler = fs.join("filler");
        tools::tool("fallocate", &["-l", "140M"], &filler);
        assert_failed(sshd.replicate(&repo, &to), "no-space", &["ssh://nas", "No space left on device"]);
        assert_eq!(listed(&to), ["one"]);
        disk_space::give_back(&filler);
        assert_eq!(sums(&sshd.replicate(&repo, &to).expect(0)).snapshots, 1);
        assert_replica(&repo, &to);
    }

    [xfs] fn a_network_that_is_gone_is_noticed_as_the_configuration_says(fs: &Filesystem) {
        let (repo, to, sshd) = (repository(fs), fs.join("to"), Sshd::start(fs.join("host")));
        sshd.replace_pleach(&sshd.waiting());
        // Gone for a moment: nothing happens.
        let run = begin(&sshd, &repo, &to);
        running::await_that("the receiver starts", || sshd.file("started").exists());
        sshd.set_network("down");
        fs::write(sshd.file("go"), "").unwrap();
        thread::sleep(Duration::from_millis(500));
        sshd.set_network("up");
        assert_eq!(sums(&running::end(run).expect(0)).snapshots, 3);
        // Gone for longer than the user's configuration allows.
        sshd.configure("ServerAliveInterval 1\nServerAliveCountMax 2");
        fs::remove_file(sshd.file("go")).unwrap();
        fs::remove_file(sshd.file("started")).unwrap();
        let run = begin(&sshd, &repo, &to);
        running::await_that("the receiver starts", || sshd.file("started").exists());
        sshd.set_network("down");
        assert_failed(running::end(run), "no-connection", &["Timeout, server", "not responding"]);
        sshd.set_network("up");
        end_lost(&sshd);
        assert_eq!(sums(&sshd.replicate(&repo, &to).expect(0)).snapshots, 0);
        assert_replica(&repo, &to);
    }

    [xfs] fn a_receiver_that_is_killed_is_noticed_and_the_next_run_goes_on(fs: &Filesystem) {
        let (source, repo, to, sshd) =
            (fs.dir("source"), fs.join("repo"), fs.join("to"), Sshd::start(fs.join("host")));
        write(source.join("image"), &bytes(1, 200 << 20));
        take("one", &source, &repo);
        let pid = sshd.file("pid");
        sshd.replace_pleach(&format!("echo $$ > '{}'; exec \"$REAL\" \"$@\"", pid.display()));
        let run = begin(&sshd, &repo, &to);
        let position = to.join(".pleach/incoming/one/position");
        running::await_that("a part has arrived", || position.exists());
        let id: i32 = fs::read_to_string(pid).unwrap().trim().parse().unwrap();
        kill_process(Pid::from_raw(id).unwrap(), Signal::KILL).unwrap();
        assert_failed(running::end(run), "connection-lost", &["ssh://nas", "run the same command to continue"]);
        assert_eq!(listed(&to), [""; 0]);
        let sent = sums(&sshd.replicate(&repo, &to).expect(0));
        assert!(sent.sent_bytes < 190 << 20, "{sent:?}");
        assert_replica(&repo, &to);
    }

    [xfs] fn an_interruption_ends_ssh_and_the_next_run_goes_on(fs: &Filesystem) {
        let (repo, to, sshd) = (repository(fs), fs.join("to"), Sshd::start(fs.join("host")));
        sshd.replace_pleach(&sshd.waiting());
        let run = begin(&sshd, &repo, &to);
        running::await_that("the receiver starts", || sshd.file("started").exists());
        // Not even the network answers.
        sshd.set_network("down");
        running::signal(&run, Signal::INT);
        let run = running::end(run).expect(130);
        run.saying("interrupted").saying("run the same command to continue");
        sshd.set_network("up");
        end_lost(&sshd);
        assert_eq!(sums(&sshd.replicate(&repo, &to).expect(0)).snapshots, 3);
    }
}

/// A repository with a snapshot, on any filesystem.
fn any_repository(dir: &Path) -> PathBuf {
    let (source, repo) = (dir.join("source"), dir.join("repo"));
    fs::create_dir_all(&source).unwrap();
    write(source.join("file"), b"x");
    pleach([OsStr::new("snapshot"), "-q".as_ref(), source.as_ref(), repo.as_ref()]).expect(0);
    repo
}

#[test]
fn a_program_that_ends_without_a_message_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (repo, script) = (any_repository(dir.path()), dir.path().join("connect"));
    for (end, said) in [("exit 3", "exited with status 3"), ("kill -9 $$", "was killed by signal 9")] {
        fs::write(&script, format!("#!/bin/sh\ncase \"$1\" in -G) ;; *) {end};; esac\n")).unwrap();
        fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut run = command([OsStr::new("replicate"), repo.as_ref(), "ssh://nas/x".as_ref()]);
        let run = finish(run.env("PLEACH_SSH", &script)).expect(1);
        run.saying(&format!("cannot replicate to ssh://nas/x: {} {said}", script.display()));
    }
}

#[test]
fn an_open_quote_in_the_command_that_connects_is_wrong_usage() {
    let dir = tempfile::tempdir().unwrap();
    let repo = any_repository(dir.path());
    let run = |ssh: &str| {
        let mut run = command([OsStr::new("replicate"), repo.as_ref(), "ssh://nas/x".as_ref()]);
        finish(run.env("PLEACH_SSH", ssh))
    };
    run("ssh -F \"/path").expect(2).saying("PLEACH_SSH: the quote \" is open").saying("ssh -F \"/path");
    run("false -F \"/path\"").expect(1).saying("false exited with status 1");
}

#[test]
fn the_users_configuration_decides_when_a_connection_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let script = dir.path().join("ssh");
    let run = |answer: &str| {
        let text = format!(
            "#!/bin/sh\ncase \"$1\" in -G) echo '{answer}';; *) echo \"$@\" > '{}'; echo lost >&2; exit 255;; esac\n",
            log.display()
        );
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let repo = any_repository(dir.path());
        let mut run = command([OsStr::new("replicate"), repo.as_ref(), "ssh://ann@nas:23/a b".as_ref()]);
        finish(run.env("PLEACH_SSH", &script)).expect(1).saying("cannot connect to nas: lost");
        fs::read_to_string(&log).unwrap()
    };
    let rest = "-p 23 -l ann -- nas pleach receive --stdio -- '/a b'\n";
    let alive = "-o ServerAliveInterval=15 -o ServerAliveCountMax=20 ";
    assert_eq!(run("serveraliveinterval 0"), format!("{alive}{rest}"));
    assert_eq!(run("serveraliveinterval 60"), rest);
    // A program that is not OpenSSH gets no options that it may not know.
    assert_eq!(run(""), rest);
}
