//! `pleach prune` and `pleach remove`: each snapshot is whole or gone, and those that stay are whole.

use super::trees::{self, Versions};
use super::*;

cut_on_filesystems!(of_four_snapshots);
cut_between_requests!(of_two_by_their_names);

/// The snapshots, oldest first. The last two stay.
const NAMES: [&str; 4] = ["s1", "s2", "s3", "s4"];

fn of_four_snapshots(fs: &Filesystem, way: Way) {
    pruned(fs, way, &PRUNE);
}

fn of_two_by_their_names(fs: &Filesystem, way: Way) {
    pruned(fs, way, &["remove", "s1", "s2"]);
}

/// The command and its arguments after the repository.
const PRUNE: [&str; 2] = ["prune", "--keep-last=2"];

fn pruned(fs: &Filesystem, way: Way, args: &'static [&'static str]) {
    let other = fs.elsewhere();
    let Some(shelf) = shelf(fs) else { return };
    let versions = Versions::make(&other.dir("versions"));
    let (source, repo) = (shelf.mount_point().join("source"), shelf.mount_point().join("repo"));
    cut(&shelf, way, &Prune { args, versions, source, repo });
}

struct Prune {
    args: &'static [&'static str],
    versions: Versions,
    source: PathBuf,
    repo: PathBuf,
}

impl Prune {
    /// The state of the source in each snapshot.
    fn version(&self, number: usize) -> &Path {
        if number.is_multiple_of(2) { &self.versions.old } else { &self.versions.new }
    }

    fn with(&self, args: &[&str]) -> Command {
        let mut command = pleach_command(&args[..1]);
        command.arg(&self.repo).args(&args[1..]);
        command
    }

    /// Checks every listed snapshot, and returns their names.
    fn check_listed(&self, faults: &mut Faults) -> Vec<String> {
        let number = |name: &str| NAMES.iter().position(|one| *one == name).expect("it is one of the four");
        let listed = listed::check(&self.repo, &self.source, |name| self.version(number(name)), faults);
        if !listed.ends_with(&NAMES[2..].iter().map(ToString::to_string).collect::<Vec<_>>()) {
            faults.push(format!("snapshots that stay are missing: {listed:?}"));
        }
        listed
    }
}

impl Job for Prune {
    fn prepare(&self) {
        for (number, name) in NAMES.iter().enumerate() {
            let _ = fs::remove_dir_all(&self.source);
            trees::put_in_place(self.version(number), &self.source);
            settle();
            let mut snapshot = pleach_command(["snapshot", "--quiet", "--name", name]);
            finish(snapshot.args([&self.source, &self.repo])).expect(0);
        }
        fs::remove_dir_all(&self.source).unwrap();
    }

    fn command(&self) -> Command {
        self.with(self.args)
    }

    /// By number, because a snapshot that is gone cannot be removed by its name.
    fn again(&self) -> Command {
        self.with(&PRUNE)
    }

    fn check_recovered(&self, cut: &Cut<'_>, faults: &mut Faults) {
        let listed = self.check_listed(faults);
        if cut.is_done && listed.len() != 2 {
            faults.push(format!("the prune was reported as done, and these are listed: {listed:?}"));
        }
    }

    fn check_completed(&self, faults: &mut Faults) {
        let listed = self.check_listed(faults);
        if listed != NAMES[2..] {
            faults.push(format!("these are listed: {listed:?}"));
        }
        trees::find_leftovers(&self.repo, faults);
    }
}
