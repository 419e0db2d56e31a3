//! `pleach copy` over an older version of the tree.

use super::replaced::{self, Manner};
use super::trees::{self, Versions};
use super::*;

cut_on_filesystems!(from_another_filesystem);

fn from_another_filesystem(fs: &Filesystem, way: Way) {
    let other = fs.elsewhere();
    let Some(shelf) = shelf(fs) else { return };
    let versions = Versions::make(&other.dir("source"));
    cut(&shelf, way, &Copy { versions, copied: shelf.mount_point().join("copied") });
}

struct Copy {
    versions: Versions,
    copied: PathBuf,
}

impl Job for Copy {
    fn prepare(&self) {
        trees::put_in_place(&self.versions.old, &self.copied);
    }

    fn command(&self) -> Command {
        pleach_command([OsStr::new("copy"), "-T".as_ref(), self.versions.new.as_ref(), self.copied.as_ref()])
    }

    fn check_recovered(&self, cut: &Cut<'_>, faults: &mut Faults) {
        if cut.is_done {
            return self.check_completed(faults);
        }
        replaced::check(Manner::Whole, &self.versions, &self.copied, faults);
    }

    fn check_completed(&self, faults: &mut Faults) {
        trees::compare(&self.versions.new, &self.copied, faults);
    }
}
