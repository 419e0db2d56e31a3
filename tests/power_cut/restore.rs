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
    let command = || {
        let mut command = pleach_command(["restore"]);
        command.args(flags).arg(&repo).args(["latest", "--target"]).arg(&target);
        command
    };
    cut(&shelf, way, &Restore::new(versions, &target, Manner::Whole, &command));
}

/// A command that restores the newer version of a tree over the older one.
pub(super) struct Restore<'c> {
    versions: Versions,
    /// The path of the tree in the target.
    place: PathBuf,
    manner: Manner,
    command: &'c dyn Fn() -> Command,
}

impl<'c> Restore<'c> {
    pub(super) fn new(
        versions: Versions,
        target: &Path,
        manner: Manner,
        command: &'c dyn Fn() -> Command,
    ) -> Restore<'c> {
        let place = target.join(versions.new.strip_prefix("/").expect("sources are absolute"));
        Restore { versions, place, manner, command }
    }
}

impl Job for Restore<'_> {
    fn prepare(&self) {
        trees::put_in_place(&self.versions.old, &self.place);
    }

    fn command(&self) -> Command {
        (self.command)()
    }

    fn check_recovered(&self, cut: &Cut<'_>, faults: &mut Faults) {
        if cut.is_done {
            return self.check_completed(faults);
        }
        replaced::check(self.manner, &self.versions, &self.place, faults);
    }

    fn check_completed(&self, faults: &mut Faults) {
        trees::compare(&self.versions.new, &self.place, faults);
    }
}
