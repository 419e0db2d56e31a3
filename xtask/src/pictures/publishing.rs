//! The picture of a snapshot's steps, with the system calls of a run in their order.

use super::root::Root;
use super::style::{self, area, path, text};
use anyhow::{Context, Result};
use std::fs;
use svg::Document;
use svg::node::element::Circle;

/// The name of the traced snapshot.
const NAME: &str = "friday";

/// A step, and the state that a power cut during it leaves.
struct Step {
    title: &'static str,
    text: &'static str,
    calls: &'static [Call],
    state: State,
}

/// The new snapshot after a power cut.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Absent,
    AbsentOrComplete,
    Complete,
}

/// A system call: words that are in its line of the trace, and how the picture shows it.
struct Call {
    name: &'static str,
    argument: &'static str,
    shown: &'static str,
    /// Whether there are more of them, and the picture shows their number.
    repeats: bool,
}

const STEPS: &[Step] = &[
    Step {
        title: "Stage",
        text: "The tree is made below .pleach/partial",
        calls: &[
            call("mkdirat(", "partial/friday/tree", "mkdirat", true),
            call("FICLONE", "partial/friday/tree", "ioctl FICLONE", true),
        ],
        state: State::Absent,
    },
    Step {
        title: "Sync",
        text: "Everything reaches the disk",
        calls: &[
            call("fsync(", "partial/friday/manifest>", "fsync manifest", false),
            call("syncfs(", "</backup>", "syncfs /backup", false),
        ],
        state: State::Absent,
    },
    Step {
        title: "Record",
        text: "The manifest gets its place",
        calls: &[
            call("renameat(", "\"manifest\"", "renameat → .pleach/manifests/friday", false),
            call("fsync(", "/.pleach/manifests>", "fsync .pleach/manifests", false),
        ],
        state: State::Absent,
    },
    Step {
        title: "Publish",
        text: "One rename shows the snapshot",
        calls: &[
            call("renameat2(", "\"tree\"", "renameat2 → /backup/friday", false),
            call("fsync(", "</backup>", "fsync /backup", false),
        ],
        state: State::AbsentOrComplete,
    },
    Step {
        title: "Link",
        text: "The link to the newest snapshot moves",
        calls: &[
            call("renameat(", "\"latest.new\"", "renameat → /backup/latest", false),
            call("fsync(", "</backup>", "fsync /backup", false),
        ],
        state: State::Complete,
    },
];

const fn call(name: &'static str, argument: &'static str, shown: &'static str, repeats: bool) -> Call {
    Call { name, argument, shown, repeats }
}

/// Takes a snapshot after a few changes, and returns the calls of each step as the picture shows them.
pub(crate) fn trace(root: &Root) -> Result<Vec<Vec<String>>> {
    root.shell("echo 'water the plants' >> /data/notes.txt; rm /data/photos/img_0001.raw; sync")?;
    let calls = "trace=mkdirat,ioctl,fsync,syncfs,renameat,renameat2";
    root.shell(&format!("strace -f -y -e {calls} -o /tmp/trace pleach snapshot --name {NAME} /data /backup"))?;
    found(&fs::read_to_string(root.path("/tmp/trace"))?)
}

/// Finds the calls in the order of the steps.
fn found(trace: &str) -> Result<Vec<Vec<String>>> {
    // The second half of a call that another thread interrupts has no arguments.
    let lines: Vec<_> = trace.lines().filter(|line| !line.contains("resumed>")).collect();
    let mut next = 0;
    let mut steps = Vec::new();
    for step in STEPS {
        let mut shown = Vec::new();
        for call in step.calls {
            let is_call = |line: &&&str| line.contains(call.name) && line.contains(call.argument);
            let at = lines[next..].iter().position(|line| is_call(&line)).with_context(|| {
                format!("no {}{} where the step \"{}\" has it", call.name, call.argument, step.title)
            })?;
            let count = lines[next..].iter().filter(is_call).count();
            next += at + 1;
            shown.push(if call.repeats { format!("{count} × {}", call.shown) } else { call.shown.to_owned() });
        }
        steps.push(shown);
    }
    Ok(steps)
}

const WIDTH: f64 = 800.0;
const TOP: f64 = 92.0;
const ROW: f64 = 66.0;
/// The columns: calls, and the state after a power cut.
const CALLS: f64 = 352.0;
const STATES: f64 = 660.0;
const HEIGHT: f64 = TOP + ROW * 5.0 + 12.0;

/// Draws the steps from top to bottom.
pub(crate) fn draw(steps: &[Vec<String>]) -> Document {
    let description =
        STEPS.iter().zip(steps).map(|(step, calls)| format!("{}: {} ({}).", step.title, step.text, calls.join(", ")));
    let description = description.collect::<Vec<_>>().join(" ");
    let description = format!("{description} Until the tree is renamed, a power cut leaves no new snapshot.");
    let title = "How a snapshot appears: complete or not at all";
    let mut picture = style::chart(WIDTH, HEIGHT, title, &description);
    for (x, words) in [(24.0, "step"), (CALLS, "system calls"), (STATES, "after a power cut")] {
        picture = picture.add(text(x, 72.0, "dim", words));
    }
    picture = picture.add(path(&format!("M44 {}V{}", TOP + 20.0, TOP + ROW * 4.0 + 20.0)).set("class", "line"));
    for (index, (step, calls)) in STEPS.iter().zip(steps).enumerate() {
        let at = TOP + ROW * index as f64;
        let class = class(step.state);
        let circle = Circle::new().set("cx", 44).set("cy", at + 24.0).set("r", 15).set("class", class);
        picture = picture.add(circle).add(text(44.0, at + 28.5, "number", &(index + 1).to_string()));
        picture = picture.add(text(74.0, at + 20.0, "strong", step.title)).add(text(74.0, at + 39.0, "", step.text));
        for (line, call) in calls.iter().enumerate() {
            picture = picture.add(text(CALLS, at + 20.0 + 19.0 * line as f64, "mono", call));
        }
    }
    let mut first = 0;
    while let Some(state) = STEPS.get(first).map(|step| step.state) {
        let count = STEPS[first..].iter().take_while(|step| step.state == state).count();
        let (top, height) = (TOP + ROW * first as f64 + 1.0, ROW * count as f64 - 6.0);
        picture = picture.add(area(STATES - 14.0, top, 4.0, height, class(state)));
        let lines = words(state);
        for (line, words) in lines.iter().enumerate() {
            let at = top + height / 2.0 + 5.0 + 18.0 * (line as f64 - (lines.len() - 1) as f64 / 2.0);
            picture = picture.add(text(STATES, at, if line == 0 { "strong" } else { "" }, words));
        }
        first += count;
    }
    picture
}

fn class(state: State) -> &'static str {
    match state {
        State::Absent => "before",
        State::AbsentOrComplete => "between",
        State::Complete => "after",
    }
}

fn words(state: State) -> &'static [&'static str] {
    match state {
        State::Absent => &["no new snapshot", "the earlier ones", "are unchanged"],
        State::AbsentOrComplete => &["none, or all of it"],
        State::Complete => &["the snapshot", "is complete"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "\
1 mkdirat(12</backup/.pleach/partial/friday>, \"tree\", 0700) = 0
1 mkdirat(23</backup/.pleach/partial/friday/tree>, \"data\", 0700 <unfinished ...>
2 ioctl(29</backup/.pleach/partial/friday/tree/a>, BTRFS_IOC_CLONE or FICLONE, 27) = 0
1 <... mkdirat resumed>)            = 0
1 fsync(11</backup/.pleach/partial/friday/manifest>) = 0
1 syncfs(4</backup>)                = 0
1 renameat(12</backup/.pleach/partial/friday>, \"manifest\", 6</backup/.pleach/manifests>, \"friday\") = 0
1 fsync(6</backup/.pleach/manifests>) = 0
1 renameat2(12</backup/.pleach/partial/friday>, \"tree\", 4</backup>, \"friday\", RENAME_NOREPLACE) = 0
1 fsync(4</backup>)                 = 0
1 renameat(5</backup/.pleach>, \"latest.new\", 4</backup>, \"latest\") = 0
1 fsync(4</backup>)                 = 0
";

    #[test]
    fn calls_are_found_in_the_order_of_the_steps() {
        let steps = found(TRACE).unwrap();
        assert_eq!(steps[0], ["1 × mkdirat", "1 × ioctl FICLONE"]);
        assert_eq!(steps[3], ["renameat2 → /backup/friday", "fsync /backup"]);
    }

    #[test]
    fn another_order_is_an_error() {
        let (head, sync) = TRACE.split_once("1 syncfs").unwrap();
        let (call, tail) = sync.split_once('\n').unwrap();
        let late = format!("{head}{tail}1 syncfs{call}\n");
        assert!(found(&late).unwrap_err().to_string().contains("the step \"Record\""));
    }
}
