//! The command line itself: help, wrong usage, global options, pipes that close, names that would harm a terminal.

use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

#[test]
fn help_and_version_are_answers() {
    let help = pleach(["--help"]).expect(0);
    for command in ["snapshot", "list", "restore", "fiemap", "completions"] {
        assert!(help.stdout.contains(&format!("\n  {command} ")), "{command} is in\n{}", help.stdout);
        let help = pleach([command, "--help"]).expect(0);
        assert!(help.stdout.contains("Examples:"), "{command} --help has examples");
        assert!(help.stderr.is_empty());
    }
    assert!(help.stdout.contains("Exit status:") && help.stdout.contains("PLEACH_REPO"));
    let version = pleach(["--version"]).expect(0);
    assert_eq!(version.stdout, format!("pleach {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn without_arguments_the_help_is_shown_as_wrong_usage() {
    let run = pleach([""; 0]).expect(2).saying("Usage: pleach");
    assert!(run.stdout.is_empty());
}

#[test]
fn wrong_usage_exits_with_2_and_does_nothing() {
    let cases: &[&[&str]] = &[
        &["nonsense"],
        &["snapshot"],
        &["snapshot", "/only-one"],
        &["snapshot", "--hash", "sometimes", "/a", "/b"],
        &["snapshot", "--nonsense", "/a", "/b"],
        &["list"],
        &["list", "/a", "/b"],
        &["restore", "/repo"],
        &["restore", "/repo", "latest"],
        &["restore", "/repo", "latest", "--target", "/t", "--overwrite", "perhaps"],
        &["fiemap"],
        &["fiemap", "--format", "tea-leaves", "/a"],
        &["fiemap", "--json", "--format", "xfs_io", "/a"],
        &["completions", "nonsense"],
        &["-j", "0", "list", "/a"],
        &["-j", "x", "list", "/a"],
        &["list", "/a", "--progress", "maybe"],
        &["list", "/a", "--color", "pink"],
        &["list", "-q", "-v", "/a"],
        &["-q", "list", "-v", "/a"],
    ];
    for case in cases {
        let run = pleach(*case).expect(2).saying("error:");
        assert!(run.stdout.is_empty(), "{case:?}");
    }
}

#[test]
fn global_options_stand_before_or_after_the_command() {
    for args in [["--json", "-j2", "fiemap", "/nonexistent"], ["fiemap", "/nonexistent", "-j2", "--json"]] {
        let run = pleach(args).expect(1).saying("cannot open /nonexistent");
        assert_eq!(number(&run.summary(), "errors"), 1);
    }
}

#[test]
fn completions_are_made_for_the_usual_shells() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(pleach(["completions", shell]).expect(0).stdout.contains("fiemap"), "{shell}");
    }
}

#[test]
fn a_pipe_that_closes_early_is_no_error() {
    for args in [&["--help"][..], &["--version"], &["completions", "bash"], &["snapshot", "--help"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe can be made");
        drop(reader);
        let run = finish(command(args).stdout(writer)).expect(0);
        assert_eq!(run.stderr, "", "{args:?}");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let full = File::options().write(true).open("/dev/full").expect("/dev/full is there");
    finish(command(["completions", "bash"]).stdout(full)).expect(1).saying("cannot write the output: No space left");
}

#[test]
fn control_characters_of_arguments_never_reach_the_terminal() {
    let hostile = OsStr::from_bytes(b"/nonexistent/\x1b]0;title\x07\n\xff\xe2\x80\xae");
    for args in [["fiemap".as_ref(), hostile], ["list".as_ref(), hostile], [hostile, "x".as_ref()]] {
        let run = pleach(args);
        assert_ne!(run.status, 0);
        let raw = |c: char| c.is_control() && c != '\n';
        assert!(!run.stderr.contains(raw) && !run.stderr.contains('\u{202e}'), "{:?}", run.stderr);
    }
    let run = pleach(["fiemap".as_ref(), hostile]).expect(1);
    assert_eq!(run.stderr.lines().count(), 1, "a line feed in a name begins no line: {}", run.stderr);
}

#[test]
fn colours_are_for_terminals_or_for_those_who_ask() {
    let plain = pleach(["fiemap", "/nonexistent"]).expect(1);
    assert!(!plain.stderr.contains('\x1b'));
    let forced = pleach(["fiemap", "/nonexistent", "--color", "always"]).expect(1);
    assert!(forced.stderr.contains("\x1b["));
    let by_environment = finish(command(["fiemap", "/nonexistent"]).env("CLICOLOR_FORCE", "1")).expect(1);
    assert!(by_environment.stderr.contains("\x1b["));
    let never = finish(command(["fiemap", "/nonexistent", "--color=never"]).env("CLICOLOR_FORCE", "1")).expect(1);
    assert!(!never.stderr.contains('\x1b'));
}

on_filesystems! {
    fn the_environment_stands_for_the_repository_that_is_left_out(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        let with_repo = |args: &[&OsStr]| finish(command(args).env("PLEACH_REPO", &repo));
        with_repo(&["snapshot".as_ref(), source.as_ref()]).expect(0);
        assert!(with_repo(&["list".as_ref(), "--json".as_ref()]).expect(0).stdout.contains("\"snapshot\""));
        let target = fs.join("target");
        let path = source.join("a");
        with_repo(&["restore".as_ref(), "latest".as_ref(), path.as_ref(), "--target".as_ref(), target.as_ref()]).expect(0);
        assert_eq!(names(&target.join(source.strip_prefix("/").expect("absolute"))), ["a"]);
        // Named explicitly it is not taken for a source.
        with_repo(&["snapshot".as_ref(), source.as_ref(), repo.as_ref()]).expect(0);
        let new = fs.join("new");
        with_repo(&["snapshot".as_ref(), source.as_ref(), new.as_ref()]).expect(2).saying("could be a source or");
        assert!(!new.exists());
    }

    fn hostile_names_are_escaped_for_people_and_exact_for_scripts(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::every_kind(&source);
        let args = |more: &'static str| {
            command([OsStr::new("snapshot"), "--dry-run".as_ref(), more.as_ref(), source.as_ref(), repo.as_ref()])
        };
        let run = finish(&mut args("-v")).expect(0);
        assert!(!run.stdout.contains(|c: char| c.is_control() && c != '\n'), "{:?}", run.stdout);
        assert!(run.stdout.contains("\\x1b[31mred"), "{}", run.stdout);
        let lines = finish(&mut args("--json")).expect(0).json();
        let changes = || lines.iter().filter(|line| line["type"] == "change");
        let escape = changes().find(|line| line["path"].as_str().is_some_and(|path| path.ends_with("\x1b[31mred")));
        assert!(escape.is_some(), "a name in UTF-8 is told as it is");
        let odd = data_encoding::BASE64.encode(source.join(OsStr::from_bytes(b"names/not utf-8 \xff\xfe")).as_os_str().as_bytes());
        assert!(changes().any(|line| line["path_base64"] == odd.as_str()), "another in base64");
        assert_eq!(lines.last().expect("there are lines")["type"], "summary");
        assert!(!repo.exists(), "a dry run makes no repository");
    }

    fn a_listing_stops_quietly_when_its_reader_goes(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::crowded(&source, 5000);
        let (reader, writer) = std::io::pipe().expect("a pipe can be made");
        drop(reader);
        let mut dry_run = command([OsStr::new("snapshot"), "--dry-run".as_ref(), source.as_ref(), repo.as_ref()]);
        let run = finish(dry_run.stdout(writer)).expect(0);
        assert!(!run.stderr.contains("cannot") && !run.stderr.contains("panic"), "{}", run.stderr);
        let (reader, writer) = std::io::pipe().expect("a pipe can be made");
        drop(reader);
        finish(command([OsStr::new("snapshot"), source.as_ref(), repo.as_ref()]).stdout(writer)).expect(0);
        assert_eq!(published(&repo).len(), 1, "a snapshot is taken whether or not anyone reads of it");
    }

    fn quiet_says_nothing_of_a_success(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        let run = pleach([OsStr::new("snapshot"), "-q".as_ref(), source.as_ref(), repo.as_ref()]).expect(0);
        assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("", ""));
    }

    [ext4] fn full_copies_are_warned_of(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        let mut command = command([OsStr::new("snapshot"), source.as_ref(), repo.as_ref()]);
        finish(command.stdin(Stdio::null())).expect(0).saying("warning: no data is shared").saying("no reflinks");
    }
}
