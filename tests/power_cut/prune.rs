//! `pleach prune`: each snapshot is whole or gone, and those that stay are whole.

use super::trees::{self, Versions};
use super::*;

cut_on_filesystems!(of_four_snapshots);

/// The snapshots, oldest first. The last two stay.
const NAMES: [&str; 4] = ["s1", "s2", "s3", "s4"];

fn of_four_snapshots(fs: &Filesystem, way: Way) {
    let other = fs.elsewhere();
    let Some(shelf) = shelf(fs) else { return };
    let versions = Versions::make(&other.dir("versions"));
    cut(
        &shelf,
        way,
        &Prune { versions, source: shelf.mount_point().join("source"), repo: shelf.mount_point().join("repo") },
    );
}

struct Prune {
    versions: Versions,
    source: PathBuf,
    repo: PathBuf,
}

impl Prune {
    /// The state of the source in each snapshot.
    fn version(&self, number: usize) -> &Path {
        if number.is_multiple_of(2) { &self.versions.old } else { &self.versions.new }
    }

    /// Checks every listed snapshot, and returns their names.
    fn check_listed(&self, faults: &mut Faults) -> Vec<String> {
        let run = finish(pleach_command(["list", "--json"]).arg(&self.repo));
        if run.status != 0 {
            faults.push(format!("the snapshots cannot be listed: {}", run.stderr));
            return Vec::new();
        }
        let listed: Vec<_> = run.lines::<json_lines::Snapshot>().into_iter().map(|snapshot| snapshot.name).collect();
        for (number, name) in NAMES.iter().enumerate() {
            if !listed.iter().any(|listed| listed == name) {
                continue;
            }
            let before = faults.len();
            trees::compare(self.version(number), &inside(&self.repo, name, &self.source), faults);
            if faults.len() > before {
                faults.push(format!("… in the snapshot {name}, which is listed"));
            }
        }
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
        pleach_command([OsStr::new("prune"), "--keep-last=2".as_ref(), self.repo.as_ref()])
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
