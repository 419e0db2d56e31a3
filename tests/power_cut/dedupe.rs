//! `pleach dedupe`: contents and times stay unchanged, and the next run shares the rest.

use super::trees::{self, Versions};
use super::*;

cut_on_filesystems!(of_copies_and_versions);

fn of_copies_and_versions(fs: &Filesystem, way: Way) {
    let other = fs.elsewhere();
    let Some(shelf) = shelf(fs) else { return };
    let versions = Versions::make(&other.dir("versions"));
    cut(&shelf, way, &Dedupe { versions, mount_point: shelf.mount_point(), can_share: fs.reflinks() });
}

struct Dedupe {
    versions: Versions,
    mount_point: PathBuf,
    can_share: bool,
}

impl Dedupe {
    fn places(&self) -> [(&Path, PathBuf); 3] {
        let place = |name| self.mount_point.join("tree").join(name);
        [
            (&self.versions.old, place("older")),
            (&self.versions.new, place("newer")),
            (&self.versions.new, place("copy")),
        ]
    }

    fn check_contents(&self, faults: &mut Faults) {
        for (original, place) in self.places() {
            trees::compare(original, &place, faults);
        }
    }
}

impl Job for Dedupe {
    fn prepare(&self) {
        for (original, place) in self.places() {
            trees::put_in_place(original, &place);
        }
    }

    fn command(&self) -> Command {
        let mut command = pleach_command(["dedupe", "--cache"]);
        command.args([self.mount_point.join("cache"), self.mount_point.join("tree")]);
        command
    }

    fn check_recovered(&self, _cut: &Cut<'_>, faults: &mut Faults) {
        self.check_contents(faults);
    }

    fn check_completed(&self, faults: &mut Faults) {
        self.check_contents(faults);
        if self.can_share {
            let mut check = pleach_command(["dedupe", "--no-cache", "--json"]);
            let summary = finish(check.arg(self.mount_point.join("tree"))).expect(0).summary();
            if number(&summary, "freed_bytes") > 0 {
                faults.push(format!("the run with its cache left something to share: {summary}"));
            }
        }
    }
}
