//! The command line itself: help, wrong usage, global options, closed pipes, names that would harm a terminal.

use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

#[test]
fn help_and_version_are_answers() {
    let help = pleach(["--help"]).expect(0);
    for command in ["snapshot", "list", "diff", "log", "cat", "find", "restore", "verify", "fiemap", "completions"] {
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
fn help_fits_80_columns_and_the_short_help_40_lines() {
    let listed = finish(command(["-h"]).env("COLUMNS", "80")).expect(0).stdout;
    let listed = listed.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<_> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.len() > 15 && commands.contains(&"prune"), "{commands:?}");
    for command_name in commands.into_iter().filter(|name| *name != "help").chain([""]) {
        for help in ["--help", "-h"] {
            let args: Vec<_> = [command_name, help].into_iter().filter(|arg| !arg.is_empty()).collect();
            let run = finish(command(&args).env("COLUMNS", "80")).expect(0);
            let wide: Vec<_> = run.stdout.lines().filter(|line| line.chars().count() > 80).collect();
            assert!(wide.is_empty(), "{args:?}: {wide:#?}");
            let lines = run.stdout.lines().count();
            assert!(help == "--help" || lines <= 40, "{args:?} has {lines} lines, a terminal 40:\n{}", run.stdout);
        }
    }
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
        assert!(run.stdout.is_empty() || case.contains(&"--json"), "{case:?}");
    }
}

#[test]
fn wrong_numbers_zones_and_an_empty_environment_are_explained() {
    for (args, expected) in [
        (&["prune", "/x", "--keep-last", "abc"][..], "'--keep-last <N>': a whole number, 0 or more"),
        (&["prune", "/x", "--keep-yearly", "-1"], "'--keep-yearly <N>': a whole number, 0 or more"),
        (&["list", "/x", "-j", "0"], "'--threads <N>': a whole number from 1 to 4096"),
        (&["report", "/x", "--compare", "99999999999999999999"], "a whole number, 0 or more"),
        (&["report", "/x", "--largest", "21"], "a whole number from 0 to 20"),
    ] {
        let run = pleach(args).expect(2).saying(expected);
        assert!(!run.stderr.contains("digit") && !run.stderr.contains("type"), "{}", run.stderr);
    }
    for words in [&["list"][..], &["prune", "--keep-last=1"], &["report", "--html=x"], &["diff", "a", "b"], &["verify"]]
    {
        finish(command(words).env("PLEACH_REPO", "")).expect(2).saying("PLEACH_REPO").saying("empty");
    }
    for words in [&["prune", "/nowhere", "--keep-last=1"][..], &["report", "/nowhere"], &["adopt", "/nowhere", "/no"]] {
        let run = finish(command(words).env("TZ", "Bogus/Zone")).expect(1);
        let run = run.saying("the time zone 'Bogus/Zone' that TZ names").saying("as Europe/Berlin");
        assert!(!run.stderr.contains("TZif"), "{}", run.stderr);
    }
    let time = ["adopt", "--time", "2026-11-20", "/nowhere", "/no"];
    finish(command(time).env("TZ", "Bogus/Zone")).expect(2).saying("the local time zone is unknown");
}

#[test]
fn global_options_stand_before_or_after_the_command() {
    for args in [["--json", "-j2", "fiemap", "/nonexistent"], ["fiemap", "/nonexistent", "-j2", "--json"]] {
        let run = pleach(args).expect(1).saying("cannot open /nonexistent");
        assert_eq!(number(&run.summary(), "errors"), 1);
    }
}

#[test]
fn the_nearest_option_command_and_value_are_suggested() {
    let cases: [(&[&str], &str); 6] = [
        (&["snapshot", "--exlude", "x", "/a", "/b"], "'--exclude'"),
        (&["snapsot", "/a", "/b"], "'snapshot'"),
        (&["copy", "--engin", "auto", "a", "b"], "'--engine'"),
        (&["restore", "r", "latest", "--tarjet", "/t"], "'--target'"),
        (&["list", "--jsn", "/a"], "'--json'"),
        (&["snapshot", "--unchanged", "hardlnk", "/a", "/b"], "'hardlink'"),
    ];
    for (args, nearest) in cases {
        let run = pleach(args).expect(2);
        let tip = run.stderr.lines().find(|line| line.contains("similar"));
        assert!(tip.is_some_and(|tip| tip.contains(nearest)), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn a_failure_is_an_object_of_json_as_well() {
    let cases: [(&[&str], i32, &str); 5] = [
        (&["list", "/nonexistent", "--json"], 1, "no-repository"),
        (&["--json", "copy", "/nonexistent/a", "/nonexistent/b"], 1, "not-found"),
        (&["snapshot", "--json", "--nonsense", "/a", "/b"], 2, "usage"),
        (&["restore", "--json", "/repo", "latest"], 2, "usage"),
        (&["put", "/", "--json", "--", "true"], 2, "usage"),
    ];
    for (args, status, code) in cases {
        let run = pleach(args).expect(status);
        let lines = run.json();
        let last = lines.last().unwrap_or_else(|| panic!("{args:?}: a line of JSON"));
        assert_eq!((last["type"].as_str(), last["code"].as_str()), (Some("error"), Some(code)), "{args:?}: {last}");
        assert!(last["message"].as_str().is_some_and(|message| !message.is_empty()), "{last}");
        assert!(!run.stderr.is_empty(), "people read it on stderr");
    }
    // After '--' it is an option of another command.
    let run = pleach(["put", "/dev/null", "--", "true", "--json"]).expect(2);
    assert_eq!(run.stdout, "");
}

/// The last line of every command that got far enough to count anything.
#[test]
fn every_summary_counts_errors() {
    let here = std::env::temp_dir().join(format!("pleach-summaries-{}", std::process::id()));
    let (source, repo, target) = (here.join("source"), here.join("repo"), here.join("target"));
    std::fs::create_dir_all(&source).expect("a directory can be made");
    write(source.join("file"), b"content");
    let [source, repo, target, file] = [source, repo, target, here.join("put")].map(|path| path.display().to_string());
    let missing = format!("{source}/missing");
    let cases: [&[&str]; 10] = [
        &["snapshot", &source, &repo],
        &["snapshot", "--dry-run", &source, &repo],
        &["list", &repo],
        &["restore", &repo, "latest", "--target", &target],
        &["copy", &source, &target],
        &["put", &file, "--", "echo", "content"],
        &["dedupe", "--no-cache", &source],
        &["fiemap", &source, &missing],
        &["du", &source, &missing],
        &["probe", &source],
    ];
    for case in cases {
        let run = pleach(["--json"].iter().chain(case));
        let summary = run.summary();
        assert_eq!(summary["command"].as_str(), Some(case[0]));
        let errors = number(&summary, "errors");
        assert_eq!(errors, run.lines::<json_lines::Problem>().len() as u64, "{case:?}: {}", run.stdout);
        assert_eq!(run.status, if errors == 0 { 0 } else { 3 }, "{case:?}: {}", run.stdout);
        for warning in run.lines::<json_lines::Warning>() {
            assert!(!warning.code.is_empty() && run.stderr.contains(&warning.message), "{warning:?}: {}", run.stderr);
        }
    }
    std::fs::remove_dir_all(&here).expect("it can be removed");
}

#[test]
fn sizes_and_durations_take_the_usual_units() {
    for size in ["4G", "4GB", "4GiB", "4 G", "1.5T", "4096"] {
        pleach(["snapshot", "--exclude-larger-than", size, "/nonexistent", "/r"]).expect(1);
    }
    for age in ["10y", "2w", "1h30m", "14d", "90s"] {
        pleach(["snapshot", "--exclude-older-than", age, "/nonexistent", "/r"]).expect(1);
    }
    for (option, wrong) in [
        ("--exclude-larger-than", "99999999T"),
        ("--exclude-larger-than", "1.5"),
        ("--exclude-larger-than", "4Gx"),
        ("--exclude-older-than", "99999999999999999999y"),
        ("--exclude-older-than", "584942417356y"),
        ("--exclude-older-than", "10"),
        ("--exclude-older-than", "30m1h"),
    ] {
        pleach(["snapshot", option, wrong, "/nonexistent", "/r"]).expect(2).saying("give ");
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
    for args in [&["completions", "bash"][..], &["--help"], &["--version"], &["snapshot", "-h"]] {
        let full = File::options().write(true).open("/dev/full").expect("/dev/full is there");
        finish(command(args).stdout(full)).expect(1).saying("pleach: cannot write the output: No space left");
    }
}

#[test]
fn messages_are_wrapped_between_words_on_a_terminal() {
    let line = format!("stty cols 60; '{}' snapshot /nonexistent/a /r; true", env!("CARGO_BIN_EXE_pleach"));
    let run = finish(
        std::process::Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("NO_COLOR", "1")
            .stdin(Stdio::null()),
    )
    .expect(0);
    let lines: Vec<_> = run.stdout.lines().map(|line| line.trim_end_matches('\r')).collect();
    assert!(lines.len() > 1 && lines.iter().all(|line| line.chars().count() <= 60), "{lines:#?}");
    let words: Vec<_> = lines.iter().flat_map(|line| line.split_whitespace()).collect();
    assert!(words.join(" ").contains("(nothing was done)"), "{lines:#?}");
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
        with_repo(&["restore".as_ref(), "latest".as_ref(), path.as_ref(), "--target".as_ref(), target.as_ref()])
            .expect(0);
        assert_eq!(names(&target.join(source.strip_prefix("/").expect("absolute"))), ["a"]);
        // If it is named explicitly, it is not mistaken for a source.
        with_repo(&["snapshot".as_ref(), source.as_ref(), repo.as_ref()]).expect(0);
        let new = fs.join("new");
        with_repo(&["snapshot".as_ref(), source.as_ref(), new.as_ref()])
            .expect(2)
            .saying("does not exist")
            .saying("unset PLEACH_REPO");
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
        let run = finish(&mut args("--json")).expect(0);
        let changes = run.lines::<json_lines::Change>();
        let escape = changes.iter().find(|line| line.path.as_ref().is_some_and(|path| path.ends_with("\x1b[31mred")));
        assert!(escape.is_some(), "a name in UTF-8 is shown unchanged");
        let odd = data_encoding::BASE64
            .encode(source.join(OsStr::from_bytes(b"names/not utf-8 \xff\xfe")).as_os_str().as_bytes());
        assert!(changes.iter().any(|line| line.path_base64.as_ref() == Some(&odd)), "another in base64");
        assert_eq!(run.summary()["dry_run"], true);
        assert!(!repo.exists(), "a dry run makes no repository");
    }

    fn a_listing_stops_quietly_when_its_reader_goes(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::crowded(&source, 5000);
        let (reader, writer) = std::io::pipe().expect("a pipe can be made");
        drop(reader);
        let options = ["snapshot", "--dry-run", "-v"].map(OsStr::new);
        let mut dry_run = command(options.into_iter().chain([source.as_ref(), repo.as_ref()]));
        let run = finish(dry_run.stdout(writer)).expect(0);
        assert!(!run.stderr.contains("cannot") && !run.stderr.contains("panic"), "{}", run.stderr);
        let (reader, writer) = std::io::pipe().expect("a pipe can be made");
        drop(reader);
        finish(command([OsStr::new("snapshot"), source.as_ref(), repo.as_ref()]).stdout(writer)).expect(0);
        assert_eq!(published(&repo).len(), 1, "a snapshot is taken whether or not anyone reads of it");
    }

    fn many_problems_of_one_class_are_a_few_lines_and_their_number(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        for number in 0..300 {
            write(source.join(number.to_string()), b"x");
            std::fs::set_permissions(
                source.join(number.to_string()),
                std::os::unix::fs::PermissionsExt::from_mode(0o000),
            )
            .expect("a mode can be set");
        }
        write(source.join("readable"), b"x");
        let run = |options: &[&str], repo: &std::path::Path| {
            let options = options.iter().map(OsStr::new);
            let args =
                [OsStr::new("snapshot")].into_iter().chain(options).chain([source.as_os_str(), repo.as_os_str()]);
            finish(&mut command_bound_by_permissions(args)).expect(3)
        };
        let short = run(&[], &repo);
        let of_files = short.stderr.lines().filter(|line| line.contains("Permission denied")).count();
        assert_eq!(of_files, 6, "{}", short.stderr);
        short.saying("295 more like this: cannot open: Permission denied (show all with -v)");
        let all = run(&["-v"], &repo).stderr;
        assert_eq!(all.lines().filter(|line| line.contains("Permission denied")).count(), 300);
        let json = run(&["--json"], &repo);
        let errors = json.lines::<json_lines::Problem>();
        assert!(errors.iter().all(|error| error.code == "permission-denied" && error.path.is_some()), "{errors:?}");
        assert_eq!((errors.len() as u64, number(&json.summary(), "errors")), (300, 300));
        // Work continues even if nobody reads the messages.
        let before = published(&repo).len();
        let (reader, writer) = std::io::pipe().expect("a pipe can be made");
        drop(reader);
        let args = [OsStr::new("snapshot"), "--json".as_ref(), source.as_ref(), repo.as_ref()];
        finish(command_bound_by_permissions(args).stdout(writer)).expect(3);
        assert_eq!(published(&repo).len(), before + 1);
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
