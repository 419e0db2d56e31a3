//! What a snapshot has and its disk does not give back as it was: data that cannot be read, and times that the
//! filesystem of the repository cannot store.

use super::behind;
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::{OsStr, OsString};

/// The words of a command line.
fn words(words: &[&dyn AsRef<OsStr>]) -> Vec<OsString> {
    words.iter().map(|word| word.as_ref().to_owned()).collect()
}

on_filesystems! {
    [xfs, btrfs] fn a_file_that_the_disk_cannot_read_is_damage_for_every_command(fs: &Filesystem) {
        let (source, repo, other) = (fs.dir("source"), fs.join("repo"), fs.elsewhere());
        let lost = source.join("lost");
        // A small file and a large one are read in different places.
        for (round, size) in [100_000, 3 << 20].into_iter().enumerate() {
            write(&lost, &bytes(round as u64, size));
            let name = format!("round {round}");
            settle();
            pleach(snapshot_named(&name, &source, &repo)).expect(0);
            let file = repo.join(&name).join(lost.strip_prefix("/").unwrap());
            let file = file.to_str().unwrap();
            let inject = "inject=read,pread64,preadv,copy_file_range:error=EIO";
            let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-P", file, "-e", inject];
            let at = |name: &str| other.join(format!("{name} {round}"));
            let mut lines = vec![
                words(&[&"replicate", &repo, &at("replica"), &name]),
                words(&[&"send", &repo, &name]),
                words(&[&"cat", &repo, &name, &lost]),
            ];
            // A restore reads large files through io_uring, where strace cannot fail a read.
            if round == 0 {
                lines.push(words(&[&"restore", &repo, &name, &"--target", &at("to")]));
                lines.push(words(&[&"restore", &"--verify", &repo, &name, &"--target", &at("verified")]));
            }
            for line in lines {
                let run = behind(&strace, &line);
                assert_eq!(run.status, 4, "{line:?}: {}", run.stderr);
            }
        }
    }

    [btrfs] fn a_time_that_the_repository_cannot_store_is_in_its_manifest(fs: &Filesystem) {
        let (source, other) = (fs.dir("source"), fs.elsewhere());
        // The first time of NTFS, and one after the last of XFS.
        for (name, seconds) in [("early", -11_644_473_600), ("late", 16_725_225_600)] {
            write(source.join(name), name.as_bytes());
            tree::set_mtime(&source.join(name), seconds, 5);
        }
        let (repo, replica, back) = (other.join("repo"), other.join("replica"), fs.join("back"));
        pleach(snapshot_named("one", &source, &repo)).expect(0);
        for line in [
            words(&[&"verify", &repo]),
            words(&[&"send", &repo, &"one"]),
            words(&[&"replicate", &repo, &replica]),
            words(&[&"replicate", &replica, &back]),
            words(&[&"verify", &replica]),
        ] {
            assert_eq!(behind(&["env"], &line).status, 0, "{line:?}");
        }
        let target = fs.dir("restored");
        pleach(words(&[&"restore", &back, &"one", &"--target", &target])).expect(0);
        tools::assert_equal_trees(&source, &target.join(source.strip_prefix("/").unwrap()));
    }
}
