//! Transfers that end early, and streams that are damaged.

use super::mutated::mutations;
use super::{assert_replica, receive, repository, stream, take};
use crate::harness::random::{Random, seed};
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

/// The length of the last frame, which has the operation *bye*.
const BYE: usize = 4 + 4 + 5 + 32;

/// The entries outside the staging area.
fn visible(repo: &Path) -> Vec<String> {
    names(repo).into_iter().filter(|name| name != ".pleach").collect()
}

on_filesystems! {
    [xfs, btrfs] fn a_stream_that_is_cut_anywhere_leaves_nothing(fs: &Filesystem) {
        let (repo, to) = (repository(fs), fs.join("to"));
        let stream = stream(&repo, "one", None);
        for part in 0..12 {
            receive(&to, &stream[..stream.len() * part / 12], &[]).expect(1).saying("ends too early");
            assert_eq!(visible(&to), Vec::<String>::new());
        }
        receive(&to, &stream, &[]).expect(0);
    }

    [xfs] fn a_damaged_stream_brings_nothing(fs: &Filesystem) {
        let (repo, to) = (repository(fs), fs.join("to"));
        let stream = stream(&repo, "one", None);
        let mut random = Random(seed());
        for _ in 0..mutations() {
            let mut bad = stream.clone();
            let at = (random.fraction() * (bad.len() - BYE) as f64) as usize;
            bad[at] ^= 1 << (random.fraction() * 8.0) as u32;
            let run = receive(&to, &bad, &[]);
            assert!([1, 4].contains(&run.status), "byte {at}: {run:?}");
            assert_eq!(visible(&to), Vec::<String>::new(), "byte {at}");
        }
        receive(&to, &stream, &[]).expect(0);
    }

    [xfs] fn an_error_behind_whole_snapshots_names_them(fs: &Filesystem) {
        let repo = repository(fs);
        let (one, two) = (stream(&repo, "one", None), stream(&repo, "two", Some("one")));
        let altered = |at: usize| {
            let mut bad = one.clone();
            bad[at] ^= 1;
            bad
        };
        let stays = "the snapshot that arrived whole stays: one)";
        for (number, (bad, status, reason)) in [
            (altered(one.len() - BYE), 4, "checksum"),
            (altered(one.len() - 40), 4, "checksum"),
            (altered(one.len() - 1), 4, "checksum"),
            (one[..one.len() - 1].to_vec(), 1, "ends too early"),
            (one[..one.len() - BYE].to_vec(), 1, "ends too early"),
            ([&one[..], b"junk"].concat(), 1, "ends too early"),
            ([&one[..], b"no stream at all"].concat(), 1, "something else follows the end of the last one"),
            ([&one[..], &two[..two.len() / 2]].concat(), 1, "ends too early"),
        ].into_iter().enumerate() {
            let to = fs.join(format!("to-{number}"));
            receive(&to, &bad, &[]).expect(status).saying(reason).saying(stays);
            assert_eq!(listed(&to), ["one"]);
            pleach([OsStr::new("verify"), "-q".as_ref(), to.as_os_str()]).expect(0);
        }
        let to = fs.join("to");
        let run = receive(&to, &[&one[..], &two, b"junk"].concat(), &["--json"]).expect(1);
        run.saying("the snapshots that arrived whole stay: one, two)");
        // Nothing arrived this time.
        let run = receive(&to, &[&one[..], b"junk"].concat(), &[]).expect(1);
        assert!(!run.stderr.contains("arrived whole"), "{run:?}");
    }

    [xfs, btrfs] fn a_killed_transfer_goes_on_where_it_was(fs: &Filesystem) {
        let (source, repo, to) = (fs.dir("source"), fs.join("repo"), fs.join("to"));
        (0..40).for_each(|number| write(source.join(format!("file-{number}")), &bytes(number, 30_000)));
        write(source.join("image"), &bytes(1, 160 << 20));
        // Its owner may not write it: nor may a receiver that is not root.
        fs::set_permissions(source.join("image"), fs::Permissions::from_mode(0o444)).unwrap();
        write(source.join("zz"), &bytes(2, 30_000));
        take("one", &source, &repo);
        let mut kills = 0;
        let position = to.join(".pleach/incoming/one/position");
        while !position.exists() {
            let args = [OsStr::new("replicate"), "-q".as_ref(), repo.as_ref(), to.as_ref()];
            let mut child = command_bound_by_permissions(args)
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            for _ in 0..2000 {
                thread::sleep(Duration::from_millis(2));
                if position.exists() || child.try_wait().unwrap().is_some() {
                    break;
                }
            }
            child.kill().unwrap();
            child.wait().unwrap();
            kills += 1;
            assert!(kills < 20 && listed(&to).is_empty());
        }
        // Other commands leave it alone.
        pleach([OsStr::new("prune"), "--keep-last".as_ref(), "1".as_ref(), to.as_os_str()]);
        let args = [OsStr::new("replicate"), "--json".as_ref(), repo.as_ref(), to.as_ref()];
        let summary = finish(&mut command_bound_by_permissions(args)).expect(0).summary();
        assert!(number(&summary, "sent_bytes") < 150 << 20, "{summary}");
        assert_replica(&repo, &to);
        assert_eq!(names(&to.join(".pleach/incoming")), Vec::<String>::new());
    }
}

#[test]
fn what_is_no_stream_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("to");
    receive(&to, b"hello, this is no stream", &[]).expect(1).saying("find a stream of snapshots");
    receive(&to, b"pleachST\x09\0\0\0", &[]).expect(1).saying("version 9");
    receive(&to, b"", &[]).expect(1).saying("ends too early");
    assert!(!fs::read_dir(&to).unwrap().any(|entry| entry.unwrap().file_name() != ".pleach"));
}
