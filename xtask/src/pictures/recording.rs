//! The recording in the README: the main job as a few screens of a terminal.
//!
//! The commands run one after the other; `film` draws them.

use super::root::Root;
use super::screen::{self, COLUMNS, ROWS, Span};
use anyhow::{Result, ensure};

/// The size of a photo in the tree.
const PHOTO: usize = 12 << 20;

/// A screen that will be recorded.
struct Plan {
    caption: &'static str,
    commands: &'static [&'static str],
    /// The beginning of the row that matters most.
    marked: &'static str,
    /// How many seconds it stays after its last output, before the next screen.
    rest: f64,
}

const PLANS: &[Plan] = &[
    Plan {
        caption: "A snapshot is a plain directory tree, and shares all data with its source",
        commands: &["du -sh /data", "pleach snapshot --name monday /data /backup", "ls /backup/monday/data"],
        marked: "  shared",
        rest: 1.0,
    },
    Plan {
        caption: "A day later some files have changed. The second snapshot adds no data",
        commands: &[
            "rm /data/photos/img_0003.raw",
            "echo 'buy milk' >> /data/notes.txt",
            "dd if=/dev/zero of=/data/vm.img bs=8M seek=5 count=1 conv=notrunc status=none",
            "pleach snapshot --name tuesday /data /backup",
        ],
        marked: "  added",
        rest: 2.0,
    },
    Plan {
        caption: "Both days can be browsed, listed and compared",
        commands: &["ls /backup", "pleach list /backup", "pleach diff /backup monday tuesday"],
        marked: "",
        rest: 1.5,
    },
    Plan {
        caption: "A deleted file is restored, and shares its blocks with the snapshot",
        commands: &["pleach restore /backup monday /data/photos/img_0003.raw --target /", "ls /data/photos"],
        marked: "",
        rest: 1.0,
    },
    Plan {
        caption: "Equal colours are the same blocks: three trees take little more than one",
        commands: &[
            "pleach fiemap --map /data/vm.img /backup/*day/data/vm.img",
            "pleach du /data /backup/monday /backup/tuesday",
        ],
        marked: "deleting frees",
        rest: 3.0,
    },
];

/// A screen of the recording.
pub(crate) struct Scene {
    pub(crate) caption: &'static str,
    pub(crate) runs: Vec<Run>,
    pub(crate) rest: f64,
}

/// A command, and the rows that it printed.
pub(crate) struct Run {
    pub(crate) command: &'static str,
    pub(crate) output: Vec<Vec<Span>>,
    /// The row that matters most.
    pub(crate) marked: Option<usize>,
}

/// Makes a tree, and runs all commands.
pub(crate) fn record(root: &Root) -> Result<Vec<Scene>> {
    for photo in 1..=6 {
        root.write(&format!("/data/photos/img_{photo:04}.raw"), 0, PHOTO, photo)?;
    }
    root.write("/data/vm.img", 0, 8 * PHOTO, 7)?;
    root.shell("echo 'call the dentist' > /data/notes.txt; sync")?;
    PLANS.iter().map(|plan| record_scene(root, plan)).collect()
}

fn record_scene(root: &Root, plan: &Plan) -> Result<Scene> {
    let mut runs = Vec::new();
    for command in plan.commands {
        let prompt_and_command = command.len() + 2;
        ensure!(prompt_and_command <= usize::from(COLUMNS), "`{command}` is longer than a row");
        let output = screen::rows(&root.terminal(command, COLUMNS, ROWS)?);
        let text = |row: &Vec<Span>| row.iter().map(|span| span.text.as_str()).collect::<String>();
        let is_marked = |row: &Vec<Span>| !plan.marked.is_empty() && text(row).starts_with(plan.marked);
        let marked = output.iter().position(is_marked);
        runs.push(Run { command, output, marked });
    }
    let is_found = plan.marked.is_empty() || runs.iter().any(|run| run.marked.is_some());
    ensure!(is_found, "no output begins with \"{}\"", plan.marked);
    Ok(Scene { caption: plan.caption, runs, rest: plan.rest })
}
