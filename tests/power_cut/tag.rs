//! `pleach tag`, several times: each reported tag is there, and no other one is lost.

use super::done::Done;
use super::*;

cut_between_requests!(one_after_another);

/// The tags, in the order in which a snapshot gets them.
const TAGS: [&str; 4] = ["one", "two", "three", "four"];

fn one_after_another(fs: &Filesystem, way: Way) {
    let other = fs.elsewhere();
    let Some(shelf) = shelf(fs) else { return };
    let job =
        Tag { source: other.dir("source"), done: Done::at(other.join("done")), repo: shelf.mount_point().join("repo") };
    write(job.source.join("file"), &bytes(1, 9000));
    settle();
    cut(&shelf, way, &job);
}

struct Tag {
    source: PathBuf,
    done: Done,
    repo: PathBuf,
}

impl Tag {
    /// The tags of the snapshot.
    fn tags(&self, faults: &mut Faults) -> Vec<String> {
        let run = finish(pleach_command(["list", "--json"]).arg(&self.repo));
        if run.status != 0 {
            faults.push(format!("the snapshot cannot be listed: {}", run.stderr));
            return Vec::new();
        }
        let lines = run.lines_of_type("snapshot");
        let tags = lines.iter().filter_map(|line| line["tags"].as_array()).flatten();
        tags.filter_map(|tag| tag.as_str()).map(String::from).collect()
    }

    fn check(&self, at_least: usize, faults: &mut Faults) {
        let tags = self.tags(faults);
        for tag in &TAGS[..at_least] {
            if !tags.iter().any(|there| there == tag) {
                faults.push(format!("{tag} was reported as added, and there are {tags:?}"));
            }
        }
    }
}

impl Job for Tag {
    fn prepare(&self) {
        let mut snapshot = pleach_command(["snapshot", "--quiet", "--name", "tagged"]);
        finish(snapshot.args([&self.source, &self.repo])).expect(0);
    }

    fn command(&self) -> Command {
        self.done.shell(&TAGS, r#""$pleach" tag "$repo" tagged "+$word""#, &[("repo", &self.repo)])
    }

    fn begin(&self) {
        self.done.begin();
    }

    fn reported(&self) -> usize {
        self.done.count()
    }

    fn check_recovered(&self, cut: &Cut<'_>, faults: &mut Faults) {
        self.check(if cut.is_done { TAGS.len() } else { cut.reported }, faults);
    }

    fn check_completed(&self, faults: &mut Faults) {
        self.check(TAGS.len(), faults);
    }
}
