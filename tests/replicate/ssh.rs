//! Replication to another host through ssh and a real sshd.

use super::{assert_replica, repository, stream, sums, take};
use crate::harness::sshd::{OTHER_PORT, Sshd, url};
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

/// Replicates to an address as a user would write it.
#[track_caller]
fn replicate(sshd: &Sshd, repo: &Path, to: impl AsRef<OsStr>) -> Run {
    finish(&mut sshd.pleach([OsStr::new("replicate"), "--json".as_ref(), repo.as_ref(), to.as_ref()]))
}

fn address(place: &str, path: &Path) -> OsString {
    let mut address = OsString::from(format!("ssh://{place}"));
    address.push(path);
    address
}

on_filesystems! {
    [xfs, btrfs] fn a_replica_on_another_host_has_the_same_snapshots(fs: &Filesystem) {
        let (repo, to, sshd) = (repository(fs), fs.join("replica"), Sshd::start(fs.join("host")));
        assert_eq!(sums(&sshd.replicate(&repo, &to).expect(0)).snapshots, 3);
        assert_replica(&repo, &to);
        let again = sums(&sshd.replicate(&repo, &to).expect(0));
        assert_eq!((again.snapshots, again.sent_bytes), (0, 0));
        assert!(again.wire_bytes < 3 << 10, "{again:?}");
    }

    [xfs] fn user_port_ipv6_and_any_path_are_understood(fs: &Filesystem) {
        let (repo, sshd) = (repository(fs), Sshd::start(fs.join("host")));
        for (number, place) in ["ann@nas", &format!("127.0.0.1:{OTHER_PORT}"), "ann@[::1]:22"].into_iter().enumerate() {
            let to = fs.join(format!("a b'c\"d$HOME;&*\\{number}"));
            assert_eq!(sums(&replicate(&sshd, &repo, address(place, &to)).expect(0)).snapshots, 3);
            assert_replica(&repo, &to);
        }
        sshd.await_log("Accepted publickey for ann from ::1 port");
        assert!(sshd.log().contains("Accepted publickey for ann from 127.0.0.1 port"), "{}", sshd.log());
    }

    [xfs] fn a_host_that_pulls_reads_from_a_stream(fs: &Filesystem) {
        let (repo, to, sshd) = (repository(fs), fs.join("to"), Sshd::start(fs.join("host")));
        for (name, base) in [("one", None), ("two", Some("one")), ("three", Some("two"))] {
            let base: String = base.iter().map(|base| format!(" --base {base}")).collect();
            let line = format!("pleach send {} {name}{base}", repo.display());
            let mut send = sshd.tool("ssh", "config", &["nas", &line]).stdout(Stdio::piped()).spawn().unwrap();
            let mut receive = command(["receive", "--json"]);
            receive.arg(&to).stdin(send.stdout.take().unwrap());
            assert_eq!(sums(&finish(&mut receive).expect(0)).snapshots, 1);
            assert!(send.wait().unwrap().success());
        }
        assert_replica(&repo, &to);
        let line = format!("pleach list --json {}", repo.display());
        let list = finish(&mut sshd.tool("ssh", "config", &["nas", &line])).expect(0);
        assert_eq!(list.lines::<json_lines::Snapshot>().len(), 3);
    }

    [xfs] fn a_key_that_may_only_add_can_do_nothing_else(fs: &Filesystem) {
        let (repo, to, sshd) = (repository(fs), fs.join("it's"), Sshd::start(fs.join("host")));
        write(fs.dir("own").join("file"), &bytes(9, 100_000));
        take("own", &fs.join("own"), &to);
        let shown = to.display().to_string();
        let line = quoted(&shown);
        sshd.accept_other_key(&format!(
            "command=\"pleach receive --stdio --restrict --append-only {line}\",restrict"
        ));
        let adds = |repo: &Path, to: &Path| {
            let mut run = command([OsStr::new("replicate"), "--json".as_ref(), repo.as_ref(), &url(to)]);
            finish(run.env("PLEACH_SSH", sshd.program_with("config-other")))
        };
        assert_eq!(sums(&adds(&repo, &to).expect(0)).snapshots, 3);
        assert_eq!(listed(&to), ["one", "two", "three", "own"]);
        let before = contents(&to);
        // It may not name another path, whether or not anything is there.
        for other in ["elsewhere", "own"] {
            let run = adds(&repo, &fs.join(other)).expect(1);
            run.saying("this key may only receive snapshots into one repository");
        }
        // Neither another command, nor a shell, nor files, nor the network of the host.
        for command in [
            format!("pleach list '{shown}'"), format!("rm -rf '{shown}'"), "sh".to_string(),
            format!("pleach receive --stdio -- '{shown}'; touch {shown}x"), format!("cat {shown}/own"),
        ] {
            let run = finish(&mut sshd.tool("ssh", "config-other", &["nas", &command])).expect(1);
            assert!(run.stdout.is_empty(), "{run:?}");
            run.saying("this key may only receive");
        }
        let shell = finish(&mut sshd.tool("ssh", "config-other", &["-tt", "nas"]));
        assert!(shell.status != 0 && shell.stderr.contains("PTY allocation request failed"), "{shell:?}");
        for args in [&["-W", "127.0.0.1:22", "nas"][..],
            &["-o", "ExitOnForwardFailure=yes", "-N", "-R", "42099:127.0.0.1:22", "nas"]] {
            let run = finish(&mut sshd.tool("ssh", "config-other", args));
            assert_eq!(run.status, 255, "{run:?}");
        }
        fs::write(fs.join("batch"), "ls /\n").unwrap();
        let batch = fs.join("batch");
        let there = format!("nas:{shown}x");
        for (tool, args) in [
            ("sftp", &["-b", batch.to_str().unwrap(), "nas"][..]),
            ("scp", &[batch.to_str().unwrap(), &there]),
            ("scp", &["-O", batch.to_str().unwrap(), &there]),
        ] {
            let run = finish(&mut sshd.tool(tool, "config-other", args));
            assert!(run.status != 0 && run.stdout.is_empty(), "{run:?}");
        }
        // It replaces no snapshot, with or without a conversation.
        let other = fs.join("other repo");
        take("own", &fs.dir("source"), &other);
        adds(&other, &to).expect(1).saying("another snapshot of this name");
        let line = format!("pleach receive --stdio -- {}", quoted(&shown));
        let mut receive = sshd.tool("ssh", "config-other", &["nas", &line]);
        let mut receive = receive.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let _ = receive.stdin.take().unwrap().write_all(&stream(&other, "own", None));
        assert!(!receive.wait().unwrap().success());
        assert_eq!(contents(&to), before);
        assert!(names(fs.path()).iter().all(|name| !name.starts_with("it'sx") && name != "elsewhere"));
        assert_replica_of_named(&repo, &to, &["one", "two", "three"]);
    }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// All files of the snapshots of a repository, with their sizes.
fn contents(repo: &Path) -> Vec<String> {
    let mut find = std::process::Command::new("find");
    find.arg(repo).args(["-not", "-path", "*/.pleach/*", "-printf", "%P %s %T@ %C@\\n"]);
    let list = finish(&mut find).expect(0);
    list.stdout.lines().map(String::from).collect()
}

/// These snapshots have equal trees in both.
#[track_caller]
fn assert_replica_of_named(from: &Path, to: &Path, names: &[&str]) {
    for name in names {
        for top in crate::harness::names(&from.join(name)) {
            tools::assert_equal_trees(&from.join(name).join(&top), &to.join(name).join(&top));
        }
    }
}
