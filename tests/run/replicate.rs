//! The step `replicate` of a run.

use super::{names_of_steps, run, sample, summaries, usual};
use crate::harness::sshd::{Sshd, url};
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// Makes the repository of a destination, as its user does it once.
fn prepare(repo: &Path, to: &Path) {
    pleach([OsStr::new("replicate"), "-q".as_ref(), repo.as_ref(), to.as_ref()]).expect(0);
}

on_filesystems! {
    [xfs] fn a_run_sends_its_new_snapshot_to_every_destination(fs: &Filesystem) {
        let (other, sshd, metrics) = (fs.elsewhere(), Sshd::start(fs.join("host")), fs.join("pleach.prom"));
        let (repo, disk, host) = (fs.join("repo"), other.join("to"), fs.join("on host"));
        let hook = fs.join("hook");
        fs::write(&hook, format!("#!/bin/sh\necho \"$PLEACH_STATUS $PLEACH_ERROR\" >> {}\n", fs.join("log").display()))
            .unwrap();
        fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let profile = usual(fs, &format!(
            "[prune]\nkeep_last = 2\n[replicate]\nto = [{disk:?}, {:?}]\n[hooks]\nfinally = [{hook:?}]\n\
             [metrics]\nfile = {metrics:?}\n",
            url(&host),
        ));
        let run = |options: &[&str]| {
            settle();
            let options = options.iter().map(OsStr::new);
            finish(&mut sshd.pleach([OsStr::new("run")].into_iter().chain(options).chain([profile.as_os_str()])))
        };
        // A destination that does not exist may be a disk that is not mounted: nothing is made there.
        let first = run(&["--json"]).expect(1);
        assert!(!disk.exists() && !host.exists());
        assert_eq!(published(&repo).len(), 1);
        first.saying("is its disk mounted?").saying("ssh://nas");
        prepare(&repo, &disk);
        assert_eq!(finish(&mut sshd.pleach([OsStr::new("replicate"), repo.as_ref(), &url(&host)])).expect(0).status, 0);
        let planned = run(&["--dry-run"]).expect(0);
        assert!(planned.stdout.contains("nothing to send"), "{planned:?}");
        let done = run(&["--json"]).expect(0);
        assert_eq!(names_of_steps(&done), ["snapshot", "prune", "replicate"]);
        let commands: Vec<_> = summaries(&done).into_iter().map(|(command, _)| command).collect();
        assert_eq!(commands, ["snapshot", "prune", "replicate", "replicate", "run"]);
        for to in [&disk, &host] {
            assert_eq!(listed(to), listed(&repo));
        }
        let metric = |name: &str| sample(&metrics, &format!("pleach_replicate_{name}{{profile=\"test\"}}"));
        assert_eq!((metric("snapshots"), metric("destinations")), (2.0, 2.0));
        // One that fails does not stop the other, nor hide the failure.
        sshd.replace_pleach("echo 'pleach: cannot do this' >&2; exit 1");
        let half = run(&["--json"]).expect(1);
        half.saying("cannot do this");
        assert_eq!(published(&disk).len(), 3, "a destination keeps the snapshots that were pruned here");
        assert_eq!((metric("snapshots"), metric("destinations")), (1.0, 1.0));
        let log = fs::read_to_string(fs.join("log")).unwrap();
        let lines: Vec<_> = log.lines().collect();
        assert_eq!(lines.len(), 3);
        let starts = ["1 cannot find a repository", "0 ", "1 "];
        assert!(lines.iter().zip(starts).all(|(line, start)| line.starts_with(start)), "{log}");
        assert!(lines[2].contains("cannot do this"), "{log}");
    }

    [xfs] fn disks_that_take_turns_may_be_missing_one_at_a_time(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (repo, one, two) = (fs.join("repo"), other.join("one"), other.join("two"));
        let profile = usual(fs, &format!("[replicate]\nto = [{one:?}, {two:?}]\nskip_missing = true\n"));
        run(&profile, &["-q"]).expect(1).saying("is its disk mounted?");
        prepare(&repo, &one);
        settle();
        let done = run(&profile, &["--json"]).expect(0);
        let warnings = done.lines_of_type("warning");
        assert_eq!(warnings.iter().map(|warning| &warning["code"]).collect::<Vec<_>>(), ["destination-skipped"]);
        assert_eq!(listed(&one).len(), 2);
        assert!(!two.exists());
        fs::rename(&one, &two).unwrap();
        settle();
        run(&profile, &["-q"]).expect(0);
        assert_eq!(listed(&two), listed(&repo));
    }

    [xfs] fn an_interruption_hides_no_destination_that_failed_before(fs: &Filesystem) {
        let (missing, ssh) = (fs.join("missing"), fs.join("ssh"));
        fs::write(&ssh, "#!/bin/sh\n[ \"$1\" = -G ] && exit\nkill -INT $PPID\nexec sleep 60\n").unwrap();
        fs::set_permissions(&ssh, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let host = "ssh://nas/backup";
        let profile = usual(fs, &format!("[replicate]\nto = [{missing:?}, {host:?}]\n"));
        let mut run = command([OsStr::new("run"), "--json".as_ref(), profile.as_os_str()]);
        let run = finish(run.env("PLEACH_SSH", &ssh)).expect(130);
        let codes: Vec<_> = run.lines_of_type("error").into_iter().map(|error| error["code"].clone()).collect();
        assert_eq!(codes, ["no-repository", "interrupted"]);
        let run = run.saying("is its disk mounted?").saying("interrupted (snapshots already sent are complete");
        assert_eq!(number(&run.summary(), "errors"), 2);
    }

    [xfs] fn snapshots_are_sent_although_others_could_not_be_taken_or_verified(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (repo, to) = (fs.join("repo"), other.join("to"));
        let profile = usual(fs, &format!("[verify]\n[replicate]\nto = [{to:?}]\n"));
        pleach([OsStr::new("snapshot"), "-q".as_ref(), fs.join("source").as_ref(), repo.as_ref()]).expect(0);
        pleach([OsStr::new("replicate"), "-q".as_ref(), "--last=1".as_ref(), repo.as_ref(), to.as_ref()]).expect(0);
        settle();
        pleach([OsStr::new("snapshot"), "-q".as_ref(), fs.join("source").as_ref(), repo.as_ref()]).expect(0);
        fs::rename(fs.join("source"), fs.join("gone")).unwrap();
        run(&profile, &["-q"]).expect(1);
        assert_eq!(listed(&to), listed(&repo));
    }
}
