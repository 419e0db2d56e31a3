//! `pleach adopt` of two backups: they stay as they are, and snapshots that are listed are complete.

use super::trees::{self, Versions};
use super::*;

cut_between_requests!(of_two_backups);

fn of_two_backups(fs: &Filesystem, way: Way) {
    let other = fs.elsewhere();
    let Some(shelf) = shelf(fs) else { return };
    let versions = Versions::make(&other.dir("versions"));
    let root = shelf.mount_point();
    cut(&shelf, way, &Adopt { versions, backups: root.join("backups"), repo: root.join("repo") });
}

struct Adopt {
    versions: Versions,
    backups: PathBuf,
    repo: PathBuf,
}

/// The recorded path of the source.
const SOURCE: &str = "/adopted";

impl Adopt {
    /// The date of each backup, and what it has.
    fn dated(&self) -> [(&'static str, &Path); 2] {
        [("2026-11-20", &self.versions.old), ("2026-11-21", &self.versions.new)]
    }

    /// Checks the backups and every listed snapshot, and returns the number of these.
    fn check(&self, faults: &mut Faults) -> usize {
        for (date, version) in self.dated() {
            trees::compare(version, &self.backups.join(date), faults);
        }
        if !self.repo.join(".pleach/format").exists() {
            // The run had not completed a repository.
            if self.repo.exists() && !published(&self.repo).is_empty() {
                faults.push(format!("there are {:?}, and no repository", published(&self.repo)));
            }
            return 0;
        }
        let [(first, old), (_, new)] = self.dated();
        let state = |name: &str| if name.starts_with(first) { old } else { new };
        listed::check(&self.repo, SOURCE.as_ref(), state, faults).len()
    }
}

impl Job for Adopt {
    fn prepare(&self) {
        for (date, version) in self.dated() {
            trees::put_in_place(version, &self.backups.join(date));
        }
    }

    fn command(&self) -> Command {
        let mut command = pleach_command(["adopt", "--source", SOURCE]);
        command.env("TZ", "UTC").args([&self.backups, &self.repo]);
        command
    }

    fn check_recovered(&self, cut: &Cut<'_>, faults: &mut Faults) {
        if self.check(faults) < 2 && cut.is_done {
            faults.push("both were reported as adopted, and are not listed".into());
        }
    }

    fn check_completed(&self, faults: &mut Faults) {
        if self.check(faults) < 2 {
            faults.push("not all backups are listed".into());
        }
        trees::find_leftovers(&self.repo, faults);
    }
}
