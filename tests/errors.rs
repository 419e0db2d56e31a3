//! `docs/errors.md`: each message in it is printed word for word by a failing command, with the documented status.
//!
//! A scenario makes one of these failures. The top of its scratch directory replaces `/` in the paths of the document.
//! Each chapter has a table of scenarios, in the order of the document.

mod command_line;
mod others;
mod repository;
mod restoring;
mod taking;

use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const DOCUMENT: &str = include_str!("../docs/errors.md");

/// Makes a failure: the beginning of its message without the program's name, and the function that runs the command.
/// The function returns `None` if a filesystem is missing, which is recorded as skipped.
type Scenario = (&'static str, fn(&Scene) -> Option<Run>);

/// The scenarios of each chapter.
const CHAPTERS: [(&str, &[Scenario]); 7] = [
    ("The command line", &command_line::SCENARIOS),
    ("The repository", &repository::SCENARIOS),
    ("Taking a snapshot", &taking::SCENARIOS),
    ("Restoring", &restoring::SCENARIOS),
    ("Removing and pruning", &others::REMOVING),
    ("Dedupe and extents", &others::DEDUPE),
    ("Profiles and other hosts", &others::PROFILES),
];

/// A message in the document.
#[derive(Debug, PartialEq, Eq)]
struct Message<'a> {
    lines: Vec<&'a str>,
    status: i32,
}

/// The text below the heading of a chapter.
fn chapter(heading: &str) -> &'static str {
    let (_, text) = DOCUMENT.split_once(&format!("\n## {heading}\n")).expect("the document has this chapter");
    text.split_once("\n## ").map_or(text, |(chapter, _)| chapter)
}

/// The messages in a text.
fn messages(text: &str) -> Vec<Message<'_>> {
    let mut messages = Vec::new();
    // Odd parts are inside a fenced block.
    let parts: Vec<_> = text.split("```\n").collect();
    for pair in parts[1..].chunks(2) {
        let lines: Vec<_> = pair[0].lines().collect();
        if !lines[0].starts_with("pleach: ") && !lines[0].starts_with("error: ") {
            continue;
        }
        let after = pair.get(1).map_or("", |text| text.trim_start());
        let status = after.strip_prefix("Status ").and_then(|text| text.split(['.', ',']).next()?.parse().ok());
        let status = status.unwrap_or_else(|| panic!("{lines:?} is followed by its status"));
        messages.push(Message { lines, status });
    }
    messages
}

/// Runs the scenarios of a chapter, and compares them with the document.
fn check(fs: &Filesystem, heading: &str) {
    let (_, scenarios) = CHAPTERS.iter().find(|(name, _)| *name == heading).expect("the chapter has scenarios");
    let mut wrong = Vec::new();
    for (number, (message, (start, scenario))) in messages(chapter(heading)).iter().zip(*scenarios).enumerate() {
        let scene = Scene::new(fs.dir(number.to_string()));
        let Some(run) = scenario(&scene) else { continue };
        let printed: Vec<_> = run.stderr.lines().collect();
        if run.status != message.status || !printed.windows(message.lines.len()).any(|lines| lines == message.lines) {
            wrong.push(format!("{start}: status {}\n{}documented: {message:#?}", run.status, run.stderr));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn each_message_in_the_document_has_a_scenario_and_each_scenario_a_message() {
    let headings: Vec<_> = DOCUMENT.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(CHAPTERS.map(|(heading, _)| heading).to_vec(), headings);
    let mut sum = 0;
    for (heading, scenarios) in CHAPTERS {
        let messages = messages(chapter(heading));
        let documented: Vec<_> = messages.iter().map(|message| message.lines[0]).collect();
        assert_eq!(documented.len(), scenarios.len(), "{heading}: {documented:#?}");
        for (line, (start, _)) in documented.iter().zip(scenarios) {
            let (_, words) = line.split_once(": ").expect("a message begins with a name");
            assert!(words.starts_with(start), "{heading}: {line:?} is in the place of {start:?}");
        }
        sum += scenarios.len();
    }
    assert_eq!(messages(DOCUMENT).len(), sum, "no message is outside the chapters");
}

on_filesystems! {
    [xfs] fn the_command_line(fs: &Filesystem) {
        check(fs, "The command line");
    }

    [xfs] fn the_repository(fs: &Filesystem) {
        check(fs, "The repository");
    }

    [xfs] fn taking_a_snapshot(fs: &Filesystem) {
        check(fs, "Taking a snapshot");
    }

    [xfs] fn restoring_files(fs: &Filesystem) {
        check(fs, "Restoring");
    }

    [xfs] fn removing_and_pruning(fs: &Filesystem) {
        check(fs, "Removing and pruning");
    }

    [xfs] fn dedupe_and_extents(fs: &Filesystem) {
        check(fs, "Dedupe and extents");
    }

    [xfs] fn profiles_and_other_hosts(fs: &Filesystem) {
        check(fs, "Profiles and other hosts");
    }
}

/// A directory that replaces `/`, with a source in `/home/ann`. Everybody may write to `/data`.
struct Scene {
    root: PathBuf,
    /// Removes the directory at the end, unless it is part of a larger one.
    _scratch: Option<Filesystem>,
}

impl Scene {
    fn new(root: PathBuf) -> Scene {
        let scene = Scene { root, _scratch: None };
        for dir in ["/data", "/mnt/disk", "/home/ann"] {
            fs::create_dir_all(scene.path(dir)).unwrap();
        }
        fs::set_permissions(scene.path("/data"), fs::Permissions::from_mode(0o777)).unwrap();
        write(scene.path("/home/ann/a"), b"hello\n");
        write(scene.path("/home/ann/b"), &bytes(1, 200_000));
        scene
    }

    /// A scene on another kind of filesystem.
    fn on(kind: Kind) -> Option<Scene> {
        let name = concat!(module_path!(), "::scene");
        match Filesystem::open(kind, name) {
            Ok(scratch) => {
                let root = scratch.path().to_path_buf();
                Some(Scene { _scratch: Some(scratch), ..Scene::new(root) })
            }
            Err(reason) => {
                skip(name, &reason);
                None
            }
        }
    }

    /// The place of a path in the document.
    fn path(&self, documented: &str) -> PathBuf {
        self.root.join(documented.strip_prefix('/').expect("it is absolute"))
    }

    /// The words of a command line. Those that begin with `/` are paths as in the document.
    fn words<'a>(&'a self, line: &'a str) -> impl Iterator<Item = OsString> + 'a {
        line.split_whitespace().map(|word| match word.starts_with('/') {
            true => self.path(word).into(),
            false => word.into(),
        })
    }

    fn command(&self, line: &str) -> Command {
        command(self.words(line))
    }

    /// Runs pleach. Paths in its messages are those of the document.
    fn pleach(&self, line: &str) -> Option<Run> {
        self.run(&mut self.command(line))
    }

    /// Runs pleach as an ordinary user.
    fn as_user(&self, line: &str) -> Option<Run> {
        let mut user = Command::new("setpriv");
        user.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_pleach")]);
        self.run(user.args(self.words(line)).env("XDG_CACHE_HOME", "/nonexistent"))
    }

    /// Runs pleach with a fault that strace injects into these calls for this path.
    fn with_fault(&self, fault: &str, path: &str, line: &str) -> Option<Run> {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("inject={fault}"), "-P"]).arg(self.path(path));
        self.run(strace.arg(env!("CARGO_BIN_EXE_pleach")).args(self.words(line)))
    }

    fn run(&self, command: &mut Command) -> Option<Run> {
        let run = finish(command.env_remove("PLEACH_SSH").stdin(Stdio::null()));
        Some(self.documented(run))
    }

    /// The run with the paths of the document in its messages.
    fn documented(&self, mut run: Run) -> Run {
        run.stderr = run.stderr.replace(self.root.to_str().expect("it is UTF-8"), "");
        run
    }

    /// Takes the snapshot `monday`.
    fn monday(&self) {
        self.pleach("snapshot -q --name monday /home/ann /backup").expect("it runs").expect(0);
    }

    /// A path in the tree of `monday`.
    fn in_monday(&self, documented: &str) -> PathBuf {
        inside(&self.path("/backup"), "monday", &self.path(documented))
    }
}
