//! `pleach restore` over an older version of the tree, with each setting that decides which files are replaced.

use super::replaced::{self, Manner};
use super::trees::{self, Versions};
use super::*;

cut_on_filesystems!(by_default, if_changed);

fn by_default(fs: &Filesystem, way: Way) {
    restored(fs, way, &[]);
}

fn if_changed(fs: &Filesystem, way: Way) {
    restored(fs, way, &["--overwrite", "if-changed"]);
}

fn restored(fs: &Filesystem, way: Way, flags: &'static [&'static str]) {
    let other = fs.elsewhere();
    let Some(shelf) = shelf(fs) else { return };
    let versions = Versions::make(&other.dir("source"));
    let repo = other.join("repo");
    settle();
    finish(pleach_command(["snapshot", "--quiet"]).args([&versions.new, &repo])).expect(0);
    let target = shelf.mount_point().join("target");
    let place = target.join(versions.new.strip_prefix("/").expect("sources are absolute"));
    cut(&shelf, way, &Restore { versions, repo, target, place, flags });
}

struct Restore {
    versions: Versions,
    repo: PathBuf,
    target: PathBuf,
    /// The path of the tree in the target.
    place: PathBuf,
    flags: &'static [&'static str],
}

impl Job for Restore {
    fn prepare(&self) {
        trees::put_in_place(&self.versions.old, &self.place);
    }

    fn command(&self) -> Command {
        let mut command = pleach_command(["restore"]);
        command.args(self.flags).arg(&self.repo).args(["latest", "--target"]).arg(&self.target);
        command
    }

    fn check_recovered(&self, cut: &Cut<'_>, faults: &mut Faults) {
        if cut.is_done {
            return self.check_completed(faults);
        }
        replaced::check(Manner::Whole, &self.versions, &self.place, faults);
    }

    fn check_completed(&self, faults: &mut Faults) {
        trees::compare(&self.versions.new, &self.place, faults);
    }
}
