//! `pleach verify --repair-from`: sound files stay, and a damaged one is as before or repaired.

use super::trees::{self, Versions};
use super::*;
use std::fs::File;

cut_between_requests!(of_two_snapshots);

/// The snapshots.
const NAMES: [&str; 2] = ["s1", "s2"];

/// The files that are damaged in both, the one that is missing in both, and the further names of damaged ones.
const DAMAGED: [&str; 4] = ["large", "medium-1", "small/001", "small/003"];
const GONE: &str = "small/006";
const LINKS: [&str; 3] = ["links/medium-1", "links/small-001", "links/small-003"];

fn of_two_snapshots(fs: &Filesystem, way: Way) {
    let other = fs.elsewhere();
    let Some(shelf) = shelf(fs) else { return };
    let versions = Versions::make(&other.dir("versions"));
    cut(&shelf, way, &Repair { source: versions.new, repo: shelf.mount_point().join("repo") });
}

struct Repair {
    source: PathBuf,
    repo: PathBuf,
}

impl Repair {
    fn damage(&self, name: &str) {
        let tree = inside(&self.repo, name, &self.source);
        for file in DAMAGED {
            let path = tree.join(file);
            let modified = fs::metadata(&path).and_then(|meta| meta.modified()).expect("a file has a time");
            overwrite(&path, 100, b"damaged");
            let file = File::options().write(true).open(&path).expect("a file can be opened");
            file.set_modified(modified).expect("a time can be set");
        }
        fs::remove_file(tree.join(GONE)).expect("a file can be removed");
    }

    /// Whether this file had no damage before the run.
    fn was_sound(name: &Path) -> bool {
        !DAMAGED.iter().chain(&LINKS).chain([&GONE]).any(|damaged| name == Path::new(damaged))
    }
}

impl Job for Repair {
    fn prepare(&self) {
        for name in NAMES {
            let mut snapshot = pleach_command(["snapshot", "--quiet", "--name", name]);
            finish(snapshot.args([&self.source, &self.repo])).expect(0);
            let root = self.repo.join(name);
            let is_subvolume = tools::is_subvolume(&root);
            if is_subvolume {
                tools::set_read_only(&root, false);
            }
            self.damage(name);
            if is_subvolume {
                tools::set_read_only(&root, true);
            }
        }
        shapes::settle(&self.repo);
    }

    fn command(&self) -> Command {
        let mut command = pleach_command(["verify", "--repair-from", "/"]);
        command.arg(&self.repo);
        command
    }

    fn check_recovered(&self, cut: &Cut<'_>, faults: &mut Faults) {
        if cut.is_done {
            return self.check_completed(faults);
        }
        for (name, path) in
            NAMES.iter().flat_map(|name| tools::files(&self.source).into_iter().map(move |path| (name, path)))
        {
            let below = path.strip_prefix(&self.source).expect("it is below");
            let sound = fs::read(&path).expect("a source can be read");
            let there = fs::read(inside(&self.repo, name, &self.source).join(below));
            let mut damaged = sound.clone();
            if damaged.len() >= 107 {
                damaged[100..107].copy_from_slice(b"damaged");
            }
            match there {
                Ok(content) if content == sound => {}
                Ok(content) if !Repair::was_sound(below) && content == damaged => {}
                Err(_) if below == Path::new(GONE) => {}
                Ok(content) => faults.push(format!("{name}: {}: {}", below.display(), trees::looks(&content))),
                Err(error) => faults.push(format!("{name}: {}: {error}", below.display())),
            }
        }
    }

    fn check_completed(&self, faults: &mut Faults) {
        for name in NAMES {
            trees::compare(&self.source, &inside(&self.repo, name, &self.source), faults);
            let root = self.repo.join(name);
            if tools::is_subvolume(&root) && !tools::is_read_only(&root) {
                faults.push(format!("{name} stays writable"));
            }
        }
        trees::find_leftovers(&self.repo, faults);
    }
}
