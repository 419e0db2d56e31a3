//! Stdout is full or closed. Work that was done stays done, and only its report is missing. A listing or a plan has
//! failed.

use crate::harness::*;
use crate::on_filesystems;
use std::fs::{self, File};
use std::process::{Command, Stdio};

/// Runs pleach with a full stdout.
fn unwritten(words: &[&str], input: Stdio) -> Run {
    let full = File::options().write(true).open("/dev/full").expect("/dev/full is there");
    finish(command(words).stdin(input).stdout(full)).saying("cannot write the output: No space left")
}

/// Runs pleach without one of the standard streams: `>&-`, `<&-`.
fn closed(stream: &str, words: &[&str]) -> Run {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec \"$0\" \"$@\" {stream}")]).arg(env!("CARGO_BIN_EXE_pleach")).args(words);
    finish(shell.env_remove("PLEACH_REPO").stdin(Stdio::null()))
}

on_filesystems! {
    [xfs] fn a_closed_stdout_is_one_that_cannot_be_written(fs: &Filesystem) {
        const MESSAGE: &str = "cannot write the output: Bad file descriptor";
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        pleach(snapshot_named("one", &source, &repo)).expect(0);
        let (repo, source) = (repo.to_str().unwrap(), source.to_str().unwrap());
        let listings: [&[&str]; 5] =
            [&["list", repo], &["send", repo, "one"], &["fiemap", source], &["--version"], &["list", "-h"]];
        for words in listings {
            closed(">&-", words).expect(1).saying(MESSAGE);
        }
        closed(">&-", &["snapshot", "--dry-run", "--json", source, repo]).expect(1).saying(MESSAGE);
        closed(">&-", &["snapshot", "--name=two", source, repo]).expect(3).saying(MESSAGE);
        assert_eq!(listed(repo.as_ref()), ["one", "two"]);
        // Nothing to write.
        assert_eq!(closed(">&-", &["snapshot", "-q", "--name=three", source, repo]).expect(0).stderr, "");
    }

    [xfs] fn patterns_from_a_closed_stdin_are_not_no_patterns(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        let words = ["snapshot", "--exclude-from=-", source.to_str().unwrap(), repo.to_str().unwrap()];
        closed("<&-", &words).expect(1).saying("cannot read the patterns in -: Bad file descriptor");
        assert!(!repo.exists());
    }

    [xfs] fn work_is_not_undone_by_a_report_that_cannot_be_written(fs: &Filesystem) {
        let (source, repo, to) = (fs.dir("source"), fs.join("repo"), fs.join("to"));
        tree::plain(&source);
        pleach(snapshot_named("one", &source, &repo)).expect(0);
        let (stream, profile) = (fs.join("stream"), fs.join("profile.toml"));
        let mut send = command(["send".as_ref(), repo.as_os_str(), "one".as_ref()]);
        finish(send.stdout(File::create(&stream).unwrap())).expect(0);
        let [repo_word, to_word, profile_word] = [&repo, &to, &profile].map(|path| path.to_str().unwrap());
        let done = |words: &[&str]| drop(unwritten(words, Stdio::null()).expect(3));
        let marks = || pleach(["list", "--json", repo_word]).expect(0).stdout;

        done(&["init-profile", "--json", profile_word]);
        assert!(fs::read_to_string(&profile).unwrap().contains("[snapshot]"));
        done(&["tag", "--json", repo_word, "one", "+kept"]);
        assert!(marks().contains(r#""tags":["kept"]"#), "{}", marks());
        done(&["pin", "--json", repo_word, "one"]);
        assert!(marks().contains(r#""pinned":true"#), "{}", marks());
        // It is so already, and this run has done its work too.
        done(&["tag", "--json", repo_word, "one", "+kept"]);
        done(&["pin", "--json", repo_word, "one"]);
        done(&["unpin", "--json", repo_word, "one"]);
        assert!(marks().contains(r#""pinned":false"#), "{}", marks());
        done(&["receive", "--init", to_word]);
        assert!(to.join(".pleach/format").exists());
        unwritten(&["receive", to_word], File::open(&stream).unwrap().into()).expect(3);
        assert_eq!(listed(&to), ["one"]);
    }

    [xfs] fn a_listing_that_cannot_be_written_has_failed(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        pleach(snapshot_named("one", &source, &repo)).expect(0);
        let (repo, source) = (repo.to_str().unwrap(), source.to_str().unwrap());
        pleach(["tag", repo, "one", "+kept"]).expect(0);
        let listings: [&[&str]; 4] = [
            &["tag", repo, "one"],
            &["list", repo],
            &["du", source],
            &["report", "--no-measure", repo],
        ];
        for words in listings {
            assert_eq!(unwritten(words, Stdio::null()).status, 1, "{words:?}");
        }
    }

    [xfs] fn a_plan_that_cannot_be_written_has_failed_whatever_its_size(fs: &Filesystem) {
        let (source, repo, backup) = (fs.dir("source"), fs.join("repo"), fs.dir("backup"));
        tree::plain(&source);
        tree::plain(&backup);
        pleach(snapshot_named("one", &source, &repo)).expect(0);
        pleach(snapshot_named("two", &source, &repo)).expect(0);
        // These names take more than the buffer of stdout has room for.
        let large = fs.dir("large");
        tree::crowded(&large, 3000);
        let (to, new) = (fs.join("to"), fs.join("new"));
        let profile = fs.join("profile.toml");
        write(&profile, format!("repository = {repo:?}\n[snapshot]\nsources = [{source:?}]\n").as_bytes());
        let before = tools::inventory(fs.path());
        let [repo, source, backup, large, to, new, profile] =
            [&repo, &source, &backup, &large, &to, &new, &profile].map(|path| path.to_str().unwrap());
        let plans: [&[&str]; 11] = [
            &["snapshot", source, repo],
            &["snapshot", large, new],
            &["adopt", "--layout=rsync", "--source=/home/ann", "--time=2025-01-30", backup, repo],
            &["copy", large, to],
            &["dedupe", "--no-cache", source],
            &["prune", "--keep-last=1", repo],
            &["remove", repo, "one"],
            &["replicate", repo, to],
            &["restore", repo, "one", "--target", to],
            &["restore", repo, "one", "--target", source],
            &["run", profile],
        ];
        for words in plans {
            let words = [words, &["--dry-run", "--json"]].concat();
            assert_eq!(unwritten(&words, Stdio::null()).status, 1, "{words:?}");
        }
        assert_same_lines(&tools::inventory(fs.path()), &before);
    }
}
