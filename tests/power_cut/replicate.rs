//! `pleach replicate` to a repository that lacks two of three snapshots: those that are listed are complete.

use super::trees::{self, Versions};
use super::*;

cut_between_requests!(of_two_snapshots, of_a_large_file);

/// The snapshots, oldest first. The first one is there before.
const NAMES: [&str; 3] = ["s1", "s2", "s3"];

fn of_two_snapshots(fs: &Filesystem, way: Way) {
    replicated(fs, way, &|dir| Versions::make(dir));
}

/// Long enough that the receiver notes how far it is.
fn of_a_large_file(fs: &Filesystem, way: Way) {
    replicated(fs, way, &|dir| {
        let versions = Versions { old: dir.join("old"), new: dir.join("new") };
        for (version, name, length) in [(&versions.old, "first", 10), (&versions.new, "large", 30 << 20)] {
            fs::create_dir_all(version).expect("a directory can be made");
            write(version.join(name), &bytes(1, length));
            write(version.join("last"), &bytes(2, 5000));
        }
        shapes::settle(dir);
        versions
    });
}

fn replicated(fs: &Filesystem, way: Way, make: &dyn Fn(&Path) -> Versions) {
    let other = fs.elsewhere();
    let Some(shelf) = shelf(fs) else { return };
    let job = Replicate {
        versions: make(&other.dir("versions")),
        source: other.join("source"),
        from: other.join("from"),
        to: shelf.mount_point().join("to"),
    };
    for name in NAMES {
        let _ = fs::remove_dir_all(&job.source);
        trees::put_in_place(job.version(name), &job.source);
        settle();
        let mut snapshot = pleach_command(["snapshot", "--quiet", "--name", name]);
        finish(snapshot.args([&job.source, &job.from])).expect(0);
    }
    cut(&shelf, way, &job);
}

struct Replicate {
    versions: Versions,
    source: PathBuf,
    from: PathBuf,
    to: PathBuf,
}

impl Replicate {
    /// The state of the source in a snapshot.
    fn version(&self, name: &str) -> &Path {
        if name == "s2" { &self.versions.new } else { &self.versions.old }
    }

    /// Checks every listed snapshot, and returns their names.
    fn check_listed(&self, faults: &mut Faults) -> Vec<String> {
        let listed = listed::check(&self.to, &self.source, |name| self.version(name), faults);
        if !NAMES.iter().take(listed.len().max(1)).eq(&listed) {
            faults.push(format!("an older one is missing: {listed:?}"));
        }
        listed
    }
}

impl Job for Replicate {
    fn prepare(&self) {
        finish(pleach_command(["replicate", "--quiet"]).args([&self.from, &self.to]).arg(NAMES[0])).expect(0);
    }

    fn command(&self) -> Command {
        pleach_command([OsStr::new("replicate"), self.from.as_ref(), self.to.as_ref()])
    }

    fn check_recovered(&self, cut: &Cut<'_>, faults: &mut Faults) {
        let listed = self.check_listed(faults);
        if cut.is_done && listed != NAMES {
            faults.push(format!("all were reported as sent, and these are listed: {listed:?}"));
        }
    }

    fn check_completed(&self, faults: &mut Faults) {
        let listed = self.check_listed(faults);
        if listed != NAMES {
            faults.push(format!("these are listed: {listed:?}"));
        }
        if fs::read_link(self.to.join("latest")).ok().as_deref() != Some(NAMES[2].as_ref()) {
            faults.push("`latest` is not the newest snapshot".into());
        }
        trees::find_leftovers(&self.to, faults);
    }
}
