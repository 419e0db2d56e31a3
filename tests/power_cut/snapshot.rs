//! `pleach snapshot` next to an earlier one: listed snapshots are complete, and the earlier one is intact.

use super::trees::{self, Versions};
use super::*;

cut_on_filesystems!(of_another_filesystem, of_the_same_filesystem);

fn of_another_filesystem(fs: &Filesystem, way: Way) {
    snapshots(fs, way, false);
}

fn of_the_same_filesystem(fs: &Filesystem, way: Way) {
    snapshots(fs, way, true);
}

fn snapshots(fs: &Filesystem, way: Way, is_same: bool) {
    let other = fs.elsewhere();
    let Some(shelf) = shelf(fs) else { return };
    let versions = Versions::make(&other.dir("versions"));
    let parent = if is_same { shelf.mount_point() } else { other.path().to_path_buf() };
    cut(&shelf, way, &Snapshot { versions, source: parent.join("source"), repo: shelf.mount_point().join("repo") });
}

struct Snapshot {
    versions: Versions,
    source: PathBuf,
    repo: PathBuf,
}

impl Snapshot {
    /// Checks every listed snapshot, and returns their number.
    fn check_listed(&self, faults: &mut Faults) -> usize {
        let state = |name: &str| if name == "earlier" { &*self.versions.old } else { &*self.versions.new };
        let names = listed::check(&self.repo, &self.source, state, faults);
        if !names.iter().any(|name| name == "earlier") {
            faults.push("the earlier snapshot is not listed".into());
        }
        names.len()
    }
}

impl Job for Snapshot {
    fn prepare(&self) {
        let _ = fs::remove_dir_all(&self.source);
        trees::put_in_place(&self.versions.old, &self.source);
        settle();
        let mut first = pleach_command(["snapshot", "--quiet", "--name", "earlier"]);
        finish(first.args([&self.source, &self.repo])).expect(0);
        // Equal files stay, others are replaced. The second run corrects the times of directories.
        for _ in 0..2 {
            let slash = |path: &Path| path.join("");
            let mut rsync = Command::new("rsync");
            finish(
                rsync
                    .args(["-aHAX", "--delete", "--modify-window=-1"])
                    .args([slash(&self.versions.new), slash(&self.source)]),
            )
            .expect(0);
        }
        shapes::settle(&self.source);
        settle();
    }

    fn command(&self) -> Command {
        pleach_command([OsStr::new("snapshot"), self.source.as_ref(), self.repo.as_ref()])
    }

    fn check_recovered(&self, cut: &Cut<'_>, faults: &mut Faults) {
        if self.check_listed(faults) < 2 && cut.is_done {
            faults.push("the snapshot was reported as done and is not listed".into());
        }
    }

    fn check_completed(&self, faults: &mut Faults) {
        if self.check_listed(faults) < 2 {
            faults.push("the snapshot is not listed".into());
        }
        trees::compare(&self.versions.new, &inside(&self.repo, "latest", &self.source), faults);
        trees::find_leftovers(&self.repo, faults);
    }
}
