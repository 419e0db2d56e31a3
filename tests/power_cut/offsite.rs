//! `pleach offsite restore` over an older version of the tree.

use super::replaced::{self, Manner};
use super::trees::{self, Versions};
use super::*;

cut_between_requests!(restored);

fn restored(fs: &Filesystem, way: Way) {
    let other = fs.elsewhere();
    let Some(shelf) = shelf(fs) else { return };
    let versions = Versions::make(&other.dir("source"));
    let repo = other.join("repo");
    settle();
    finish(pleach_command(["snapshot", "--quiet"]).args([&versions.new, &repo])).expect(0);
    let target = shelf.mount_point().join("target");
    let place = target.join(versions.new.strip_prefix("/").expect("sources are absolute"));
    let job = Restore { versions, home: other.dir("home"), store: other.join("store"), target, place };
    finish(&mut job.offsite("init")).expect(0);
    finish(job.offsite("push").arg(&repo)).expect(0);
    cut(&shelf, way, &job);
}

struct Restore {
    versions: Versions,
    /// For the cache.
    home: PathBuf,
    store: PathBuf,
    target: PathBuf,
    /// The path of the tree in the target.
    place: PathBuf,
}

impl Restore {
    fn offsite(&self, verb: &str) -> Command {
        let mut command = pleach_command(["offsite", verb, "--to"]);
        command.arg(&self.store).env("RESTIC_PASSWORD", "of the test");
        command.env("HOME", &self.home).env_remove("XDG_CACHE_HOME");
        command
    }
}

impl Job for Restore {
    fn prepare(&self) {
        trees::put_in_place(&self.versions.old, &self.place);
    }

    fn command(&self) -> Command {
        let mut command = self.offsite("restore");
        command.arg("--target").arg(&self.target);
        command
    }

    fn check_recovered(&self, cut: &Cut<'_>, faults: &mut Faults) {
        if cut.is_done {
            return self.check_completed(faults);
        }
        replaced::check(Manner::InPlace, &self.versions, &self.place, faults);
    }

    fn check_completed(&self, faults: &mut Faults) {
        trees::compare(&self.versions.new, &self.place, faults);
    }
}
