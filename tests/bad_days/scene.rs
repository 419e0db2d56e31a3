//! A place with everything that the commands need, and a source elsewhere that can share nothing with it.

use super::jobs::{JOBS, Job};
use crate::harness::tree_state::TreeState;
use crate::harness::*;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Directories of a scene, and the states that nothing may change.
pub(super) struct Scene {
    /// The place where the commands write.
    pub(super) at: PathBuf,
    /// The directory on another filesystem, which is only read.
    pub(super) other: PathBuf,
    sources: Vec<(PathBuf, TreeState)>,
}

impl Scene {
    /// Makes the scene in two directories. `other` has enough space.
    #[track_caller]
    pub(super) fn new(at: &Path, other: &Path) -> Scene {
        let (here, there) = (at.join("source"), other.join("source"));
        [&here, &there].into_iter().for_each(|source| first(source));
        let take = |name: &str, source: &Path, repo: PathBuf| {
            settle();
            pleach(snapshot_named(name, source, &repo)).expect(0);
        };
        let takes = |name: &str| {
            take(name, &here, at.join("repo"));
            take(name, &there, other.join("repo"));
        };
        takes("one");
        [&here, &there].into_iter().for_each(|source| second(source));
        takes("two");
        let copy = |from: PathBuf, to: PathBuf| {
            finish(Command::new("cp").args(["-a", "--reflink=never"]).args([from, to])).expect(0);
        };
        for name in ["equal", "old/2020-01-01"] {
            fs::create_dir_all(at.join(name)).unwrap();
            copy(here.join("."), at.join(name).join("backup"));
        }
        copy(here.join("."), at.join("equal/again"));
        fs::copy(there.join("a"), at.join("dump")).unwrap();
        for number in 0..3 {
            write(there.join(format!("third {number}")), &bytes(number + 70, 400_000));
            write(here.join(format!("third {number}")), &bytes(number + 80, 400_000));
        }
        write(other.join("new dump"), &[bytes(0, 100_000), bytes(99, 900_000)].concat());
        let damaged = take_damaged(at, &there);
        settle();
        let sources =
            [here, there, at.join("equal"), at.join("old")].map(|source| (source.clone(), TreeState::of(&source)));
        assert!(damaged.exists());
        Scene { at: at.to_path_buf(), other: other.to_path_buf(), sources: sources.into() }
    }

    /// The command of a job.
    pub(super) fn command(&self, job: &Job, program: &[&str]) -> Command {
        let mut words: Vec<_> = program.iter().map(std::ffi::OsString::from).collect();
        words.push(env!("CARGO_BIN_EXE_pleach").into());
        words.extend((job.words)(self));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env_remove("PLEACH_REPO").env("RESTIC_PASSWORD", "secret");
        match job.input {
            Some(input) => command.stdin(File::open(self.other.join(input)).unwrap()),
            None => command.stdin(Stdio::null()),
        };
        command
    }

    /// Runs a job to its end, behind this program.
    pub(super) fn run(&self, job: &Job, program: &[&str]) -> Run {
        finish(&mut self.command(job, program))
    }

    /// Checks a run that may have failed: it says so, or did everything. Returns whether it did.
    #[track_caller]
    pub(super) fn is_done(&self, job: &Job, run: &Run, when: &str) -> bool {
        let Run { status, stderr, .. } = run;
        assert!([0, 1, 3].contains(status), "{} {when}: {run:?}", job.name);
        assert!(!stderr.contains("panicked"), "{} {when}: {run:?}", job.name);
        assert!(*status == 0 || !stderr.is_empty(), "{} {when}: {run:?}", job.name);
        if *status == 0 {
            self.assert_done(job, when);
        }
        self.assert_unharmed(job, when);
        let may_be_done = *status == 3 || stderr.contains("out of memory or stack");
        *status == 0 || (job.once && may_be_done && (job.problem)(self).is_empty())
    }

    /// Asserts that the result of a job is complete, and that nothing unfinished remains.
    #[track_caller]
    pub(super) fn assert_done(&self, job: &Job, when: &str) {
        let problem = (job.problem)(self);
        assert_eq!(problem, "", "{} {when}", job.name);
        if let Some(repo) = job.repo.filter(|repo| self.at.join(repo).exists()) {
            assert_no_leftovers(&self.at.join(repo));
        }
    }

    /// Asserts that the sources are as before, and that each published snapshot is whole.
    #[track_caller]
    fn assert_unharmed(&self, job: &Job, when: &str) {
        for (path, before) in &self.sources {
            let differences = before.differences(&TreeState::of(path));
            assert_eq!(differences, "", "{} {when} changed {}", job.name, path.display());
        }
        if let Some(repo) = job.repo.map(|repo| self.at.join(repo)).filter(|repo| repo.join(".pleach/format").exists())
        {
            let mut listed = listed(&repo);
            listed.sort();
            let mut published = published(&repo);
            published.retain(|name| !name.starts_with(".pleach-"));
            assert_eq!(listed, published, "{} {when}", job.name);
            let verified = pleach(["verify".as_ref(), repo.as_os_str()]);
            let expected = if job.repairs { [0, 4] } else { [0, 0] };
            assert!(expected.contains(&verified.status), "{} {when}: {verified:?}", job.name);
        }
    }

    /// Asserts that no temporary file remains anywhere.
    #[track_caller]
    pub(super) fn assert_tidy(&self) {
        let paths = tools::paths(&self.at);
        let stray = |path: &&PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(".pleach-") || name == "latest.new"
        };
        assert_eq!(paths.iter().filter(stray).collect::<Vec<_>>(), Vec::<&PathBuf>::new());
    }

    /// The jobs that can succeed here.
    pub(super) fn jobs(&self, reflinks: bool) -> impl Iterator<Item = &'static Job> + use<> {
        JOBS.iter().filter(move |job| reflinks || !job.needs_reflinks)
    }

    /// How a directory differs from its original, in words.
    pub(super) fn difference(&self, original: &Path, copy: &Path) -> String {
        if copy.is_dir() { tools::differences(original, copy) } else { format!("no {}", copy.display()) }
    }
}

fn first(source: &Path) {
    fs::create_dir(source).unwrap();
    tree::plain(source);
    fs::create_dir(source.join("many")).unwrap();
    tree::crowded(&source.join("many"), 60);
    fs::hard_link(source.join("b"), source.join("many/linked")).unwrap();
    std::os::unix::fs::symlink("nowhere", source.join("link")).unwrap();
    let _ = rustix::fs::setxattr(source.join("a"), "user.name", &bytes(5, 200), rustix::fs::XattrFlags::empty());
}

/// The changes between the two snapshots.
fn second(source: &Path) {
    overwrite(&source.join("c/two"), 20_000, &bytes(30, 10_000));
    fs::rename(source.join("c/one"), source.join("many/moved")).unwrap();
    write(source.join("fresh"), &bytes(31, 300_000));
}

/// A repository with a damaged file.
fn take_damaged(at: &Path, source: &Path) -> PathBuf {
    let repo = at.join("damaged");
    pleach(snapshot_named("one", source, &repo)).expect(0);
    let tree = repo.join("one");
    if tools::is_subvolume(&tree) {
        tools::set_read_only(&tree, false);
    }
    let file = inside(&repo, "one", source).join("fresh");
    let time = file.metadata().unwrap().modified().unwrap();
    overwrite(&file, 9000, b"damage");
    File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
    if tools::is_subvolume(&tree) {
        tools::set_read_only(&tree, true);
    }
    repo
}
