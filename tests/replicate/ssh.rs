//! Replication to another host through ssh and a real sshd.

use super::{Sums, assert_replica, repository, sums};
use crate::harness::sshd::{OTHER_PORT, Sshd, url};
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::{OsStr, OsString};
use std::fs;
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
            let mut send = sshd.ssh(["nas", line.as_str()]).stdout(Stdio::piped()).spawn().unwrap();
            let mut receive = command(["receive", "--json"]);
            receive.arg(&to).stdin(send.stdout.take().unwrap());
            assert_eq!(sums(&finish(&mut receive).expect(0)).snapshots, 1);
            assert!(send.wait().unwrap().success());
        }
        assert_replica(&repo, &to);
        let line = format!("pleach list --json {}", repo.display());
        let list = finish(&mut sshd.ssh(["nas", line.as_str()])).expect(0);
        assert_eq!(list.lines::<json_lines::Snapshot>().len(), 3);
    }
}
