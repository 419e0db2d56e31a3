//! `pleach put`, several times: each file is the old or the new one, and every put that was reported is there.

use super::done::Done;
use super::*;

cut_on_filesystems!(one_after_another);

fn one_after_another(fs: &Filesystem, way: Way) {
    let other = fs.elsewhere();
    let Some(shelf) = shelf(fs) else { return };
    let job = Put {
        versions: other.dir("versions"),
        done: Done::at(other.join("done")),
        place: shelf.mount_point().join("place"),
    };
    job.make_versions();
    cut(&shelf, way, &job);
}

struct Put {
    /// The directory with the content of each file, as `0.old` and `0.new`.
    versions: PathBuf,
    done: Done,
    place: PathBuf,
}

/// The number of files.
const FILES: usize = 6;

impl Put {
    fn make_versions(&self) {
        for number in 0..FILES {
            let length = [4 << 20, 1000, 700_001, 12 << 20, 4096, 3 << 20][number];
            let old = bytes(number as u64, length);
            let (at, other) = (length / 3, bytes(100 + number as u64, length / 4 + 17));
            let new = [&old[..at], &other, &old[at + 300..]].concat();
            write(self.versions.join(format!("{number}.new")), &new);
            // The last two files are new.
            if number + 2 < FILES {
                write(self.versions.join(format!("{number}.old")), &old);
            }
        }
    }

    fn version(&self, number: usize, version: &str) -> Option<Vec<u8>> {
        fs::read(self.versions.join(format!("{number}.{version}"))).ok()
    }
}

impl Job for Put {
    fn prepare(&self) {
        fs::create_dir(&self.place).expect("a directory can be made");
        for number in 0..FILES {
            if let Some(old) = self.version(number, "old") {
                write(self.place.join(number.to_string()), &old);
            }
        }
        shapes::settle(&self.place);
    }

    fn command(&self) -> Command {
        let numbers: Vec<_> = (0..FILES).map(|number| number.to_string()).collect();
        let numbers: Vec<_> = numbers.iter().map(String::as_str).collect();
        let command = r#""$pleach" put "$place/$word" < "$versions/$word.new""#;
        self.done.shell(&numbers, command, &[("place", &self.place), ("versions", &self.versions)])
    }

    fn begin(&self) {
        self.done.begin();
    }

    fn reported(&self) -> usize {
        self.done.count()
    }

    fn check_recovered(&self, cut: &Cut<'_>, faults: &mut Faults) {
        for number in 0..FILES {
            let there = fs::read(self.place.join(number.to_string())).ok();
            let is_new = there == self.version(number, "new");
            if !is_new && (number < cut.reported || cut.is_done) {
                faults.push(format!("{number} was reported as put, and is not the new one"));
            } else if !is_new && there != self.version(number, "old") {
                let looks = there.map_or_else(|| "it is gone".into(), |content| trees::looks(&content));
                faults.push(format!("{number} is neither the old nor the new one: {looks}"));
            }
        }
    }

    fn check_completed(&self, faults: &mut Faults) {
        for number in 0..FILES {
            let there = fs::read(self.place.join(number.to_string())).ok();
            if there != self.version(number, "new") {
                faults.push(format!("{number} is not the new one"));
            }
        }
        let names = names(&self.place);
        if names.len() != FILES {
            faults.push(format!("more is left than was put: {names:?}"));
        }
    }
}
