//! The commands, in an order in which each finds what it needs.

use super::scene::Scene;
use crate::harness::*;
use std::ffi::OsString;
use std::fs;

/// A command that changes something in a scene.
pub(super) struct Job {
    /// Its name, for messages.
    pub(super) name: &'static str,
    /// Its arguments.
    pub(super) words: fn(&Scene) -> Vec<OsString>,
    /// A file of the other directory for its stdin.
    pub(super) input: Option<&'static str>,
    /// The repository that it changes.
    pub(super) repo: Option<&'static str>,
    /// What its result lacks, in words; empty if it is complete.
    pub(super) problem: fn(&Scene) -> String,
    /// It cannot succeed without reflinks.
    pub(super) needs_reflinks: bool,
    /// Its repository is damaged at first.
    pub(super) repairs: bool,
    /// It may have done its work if it exits with 3 or runs out of memory, and cannot be repeated then.
    pub(super) once: bool,
}

/// A job with the usual properties.
const PLAIN: Job = Job {
    name: "",
    words: |_| Vec::new(),
    input: None,
    repo: None,
    problem: |_| String::new(),
    needs_reflinks: false,
    repairs: false,
    once: false,
};

impl Job {
    /// Makes what the command needs beside the scene.
    pub(super) fn prepare(&self, scene: &Scene) {
        if self.name.starts_with("offsite") {
            let init = line(scene, "offsite init --no-cache --to {at}/store");
            finish(command(init).env("RESTIC_PASSWORD", "secret")).expect(0);
        }
    }
}

/// The words of a command line. The directories of the scene replace `{at}` and `{other}`.
fn line(scene: &Scene, words: &str) -> Vec<OsString> {
    let (at, other) = (scene.at.to_str().unwrap(), scene.other.to_str().unwrap());
    words.split(' ').map(|word| word.replace("{at}", at).replace("{other}", other).into()).collect()
}

/// How a snapshot differs from its source.
fn snapshot_problem(scene: &Scene, repo: &str, name: &str, source: &std::path::Path) -> String {
    let repo = scene.at.join(repo);
    if !repo.exists() || !published(&repo).iter().any(|published| published == name) {
        return format!("no {name} in {}", repo.display());
    }
    scene.difference(source, &inside(&repo, name, source))
}

/// How restored files differ from the snapshot "one" of their source.
fn restored_problem(scene: &Scene, repo: &std::path::Path, source: &std::path::Path) -> String {
    let to = scene.at.join("restored").join(source.strip_prefix("/").unwrap());
    scene.difference(&inside(repo, "one", source), &to)
}

/// All jobs.
pub(super) const JOBS: &[Job] = &[
    Job {
        name: "snapshot",
        words: |scene| line(scene, "snapshot --name three {at}/source {at}/repo"),
        repo: Some("repo"),
        problem: |scene| snapshot_problem(scene, "repo", "three", &scene.at.join("source")),
        once: true,
        ..PLAIN
    },
    Job {
        name: "snapshot from elsewhere",
        words: |scene| line(scene, "snapshot --name first {other}/source {at}/new"),
        repo: Some("new"),
        problem: |scene| snapshot_problem(scene, "new", "first", &scene.other.join("source")),
        once: true,
        ..PLAIN
    },
    Job {
        name: "restore",
        words: |scene| line(scene, "restore --delete --overwrite always {at}/repo one --target {at}/restored"),
        problem: |scene| restored_problem(scene, &scene.at.join("repo"), &scene.at.join("source")),
        ..PLAIN
    },
    Job {
        name: "restore from elsewhere",
        words: |scene| line(scene, "restore --verify {other}/repo one --target {at}/restored"),
        problem: |scene| restored_problem(scene, &scene.other.join("repo"), &scene.other.join("source")),
        ..PLAIN
    },
    Job {
        name: "copy",
        words: |scene| line(scene, "copy -T {other}/source {at}/copied"),
        problem: |scene| scene.difference(&scene.other.join("source"), &scene.at.join("copied")),
        ..PLAIN
    },
    Job {
        name: "copy with a ring",
        words: |scene| line(scene, "copy --engine uring -T {other}/source {at}/ring"),
        problem: |scene| scene.difference(&scene.other.join("source"), &scene.at.join("ring")),
        ..PLAIN
    },
    Job {
        name: "put",
        words: |scene| line(scene, "put {at}/dump"),
        input: Some("new dump"),
        problem: |scene| {
            let is_new = fs::read(scene.at.join("dump")).unwrap() == fs::read(scene.other.join("new dump")).unwrap();
            if is_new { String::new() } else { "it is not the new one".into() }
        },
        ..PLAIN
    },
    Job {
        name: "dedupe",
        words: |scene| line(scene, "dedupe --cache {at}/cache {at}/equal"),
        problem: |scene| {
            let [one, other] = ["backup", "again"].map(|name| scene.at.join("equal").join(name).join("fresh"));
            tools::assert_same_blocks(&one, &other);
            String::new()
        },
        needs_reflinks: true,
        ..PLAIN
    },
    Job {
        name: "replicate",
        words: |scene| line(scene, "replicate {other}/repo {at}/replica"),
        repo: Some("replica"),
        problem: |scene| match published(&scene.at.join("replica")) == ["one", "two"] {
            true => scene.difference(&scene.other.join("repo/two"), &scene.at.join("replica/two")),
            false => "a snapshot is missing".into(),
        },
        ..PLAIN
    },
    Job {
        name: "adopt",
        words: |scene| line(scene, "adopt {at}/old {at}/adopted"),
        repo: Some("adopted"),
        problem: |scene| match published(&scene.at.join("adopted")).len() {
            1 => String::new(),
            _ => "the backup is missing".into(),
        },
        ..PLAIN
    },
    Job {
        name: "verify with repair",
        words: |scene| line(scene, "verify --repair-from / {at}/damaged"),
        repo: Some("damaged"),
        problem: |scene| {
            let repo = scene.at.join("damaged");
            let run = pleach(["verify".as_ref(), repo.as_os_str()]);
            if run.status == 0 { String::new() } else { format!("{run:?}") }
        },
        repairs: true,
        ..PLAIN
    },
    Job {
        name: "report",
        words: |scene| line(scene, "report --no-measure --html {at}/page.html {at}/repo"),
        problem: |scene| {
            let page = fs::read_to_string(scene.at.join("page.html")).unwrap();
            if page.trim_end().ends_with("</html>") { String::new() } else { "it has no end".into() }
        },
        ..PLAIN
    },
    Job {
        name: "tag",
        words: |scene| line(scene, "tag {at}/repo two +kept"),
        repo: Some("repo"),
        problem: |scene| {
            let list = pleach(["list".as_ref(), "--json".as_ref(), scene.at.join("repo").as_os_str()]).expect(0);
            if list.stdout.contains("[\"kept\"]") { String::new() } else { list.stdout }
        },
        ..PLAIN
    },
    #[cfg(feature = "offsite")]
    Job {
        name: "offsite push",
        words: |scene| line(scene, "offsite push --no-cache --to {at}/store {other}/repo two"),
        problem: |scene| {
            let mut list = command(line(scene, "offsite list --no-cache --json --to {at}/store"));
            let list = finish(list.env("RESTIC_PASSWORD", "secret")).expect(0);
            if list.stdout.contains("\"two\"") { String::new() } else { list.stdout }
        },
        ..PLAIN
    },
    Job {
        name: "remove",
        words: |scene| line(scene, "remove {at}/repo one"),
        repo: Some("repo"),
        problem: |scene| published(&scene.at.join("repo")).into_iter().filter(|name| name == "one").collect(),
        once: true,
        ..PLAIN
    },
    Job {
        name: "prune",
        words: |scene| line(scene, "prune --keep-last 1 {at}/repo"),
        repo: Some("repo"),
        problem: |scene| published(&scene.at.join("repo")).into_iter().filter(|name| name != "three").collect(),
        ..PLAIN
    },
];
