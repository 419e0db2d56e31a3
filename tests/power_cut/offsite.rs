//! `pleach offsite restore` over an older version of the tree, and `pleach offsite push` to a store on the disk.

use super::done::Done;
use super::replaced::Manner;
use super::restore::Restore;
use super::trees::Versions;
use super::*;
use crate::offsite::stores::{PASSWORD, take_quick_key};

cut_between_requests!(pushed, restored);

/// `pleach offsite VERB` for a store.
fn offsite(verb: &str, store: &Path, home: &Path) -> Command {
    let mut command = pleach_command(["offsite", verb, "--to"]);
    reach(command.arg(store), home);
    command
}

/// Gives a command the password, and a home for its cache.
fn reach(command: &mut Command, home: &Path) {
    command.env("RESTIC_PASSWORD", PASSWORD).env("HOME", home).env_remove("XDG_CACHE_HOME");
}

fn restored(fs: &Filesystem, way: Way) {
    let other = fs.elsewhere();
    let Some(shelf) = shelf(fs) else { return };
    let versions = Versions::make(&other.dir("source"));
    let (repo, store, home) = (other.join("repo"), other.join("store"), other.join("home"));
    settle();
    finish(pleach_command(["snapshot", "--quiet"]).args([&versions.new, &repo])).expect(0);
    finish(&mut offsite("init", &store, &home)).expect(0);
    take_quick_key(&store);
    finish(offsite("push", &store, &home).arg(&repo)).expect(0);
    let target = shelf.mount_point().join("target");
    let command = || {
        let mut command = offsite("restore", &store, &home);
        command.arg("--target").arg(&target);
        command
    };
    cut(&shelf, way, &Restore::new(versions, &target, Manner::InPlace, &command));
}

/// The names of the snapshots that are sent.
const NAMES: [&str; 3] = ["one", "two", "three"];

fn pushed(fs: &Filesystem, way: Way) {
    let other = fs.elsewhere();
    let Some(shelf) = shelf(fs) else { return };
    let (source, repo) = (other.dir("source"), other.join("repo"));
    for (number, name) in NAMES.into_iter().enumerate() {
        write(source.join(name), &bytes(number as u64, 200_000));
        settle();
        finish(pleach_command(["snapshot", "--quiet", "--name", name]).args([&source, &repo])).expect(0);
    }
    let done = Done::at(other.join("done"));
    cut(&shelf, way, &Push { repo, home: other.join("home"), store: shelf.mount_point().join("store"), done });
}

/// One snapshot after the other is sent.
struct Push {
    repo: PathBuf,
    home: PathBuf,
    store: PathBuf,
    done: Done,
}

impl Push {
    /// The store is sound, and has the snapshots that were reported as sent.
    fn check(&self, at_least: usize, faults: &mut Faults) {
        let check = finish(offsite("check", &self.store, &self.home).arg("--read-data"));
        if check.status != 0 {
            faults.push(format!("the store is damaged: {check:?}"));
        }
        let list = finish(offsite("list", &self.store, &self.home).arg("--json"));
        let lines = list.lines_of_type("snapshot");
        let names: Vec<_> = lines.iter().filter_map(|line| line["name"].as_str()).collect();
        if list.status != 0 || NAMES[..at_least].iter().any(|name| !names.contains(name)) {
            faults.push(format!("{at_least} were reported as sent, and there are {names:?}: {}", list.stderr));
        }
    }
}

impl Job for Push {
    fn prepare(&self) {
        finish(&mut offsite("init", &self.store, &self.home)).expect(0);
        take_quick_key(&self.store);
    }

    fn command(&self) -> Command {
        let command = r#""$pleach" offsite push --to "$store" "$repo" "$word""#;
        let mut shell = self.done.shell(&NAMES, command, &[("store", &self.store), ("repo", &self.repo)]);
        reach(&mut shell, &self.home);
        shell
    }

    fn begin(&self) {
        self.done.begin();
    }

    fn reported(&self) -> usize {
        self.done.count()
    }

    fn check_recovered(&self, cut: &Cut<'_>, faults: &mut Faults) {
        self.check(if cut.is_done { NAMES.len() } else { cut.reported }, faults);
    }

    fn check_completed(&self, faults: &mut Faults) {
        self.check(NAMES.len(), faults);
    }
}
