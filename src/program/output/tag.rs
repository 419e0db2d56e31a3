//! The tags and the pin of a snapshot: lines for people, an object for scripts.

use super::Output;
use super::terminal::harmless;
use crate::snapshot::tag::Stats;
use crate::util::text;
use serde::Serialize;

#[derive(Serialize)]
struct SnapshotLine<'a> {
    r#type: &'static str,
    name: &'a str,
    tags: &'a [String],
    pinned: bool,
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    command: &'static str,
    changed: bool,
    errors: u64,
    seconds: f64,
}

/// Shows the result of this command.
pub(crate) fn show(output: &Output, command: &'static str, stats: &Stats) {
    let Stats { name, tags, pinned, missing, changed, errors, seconds } = stats;
    for tag in missing {
        let sentence = format!("{} does not have the tag {}", text::path(name.as_ref()), harmless(tag));
        output.notice("no-such-tag", None, &sentence);
    }
    if output.is_json() {
        output.json(&SnapshotLine { r#type: "snapshot", name, tags, pinned: *pinned });
        output.json(&Summary { r#type: "summary", command, changed: *changed, errors: *errors, seconds: *seconds });
        return;
    }
    if command == "tag" && !*changed {
        // Only the list was wanted.
        tags.iter().for_each(|tag| output.line(&harmless(tag)));
        return;
    }
    let name = text::path(name.as_ref());
    let state = match (command, changed) {
        ("tag", _) if tags.is_empty() => "has no tags now".to_string(),
        ("tag", _) => format!("has the tags {}", tags.iter().map(|tag| harmless(tag)).collect::<Vec<_>>().join(", ")),
        (_, true) if *pinned => "is pinned".into(),
        (_, true) => "is no longer pinned".into(),
        (_, false) if *pinned => "was already pinned".into(),
        (_, false) => "was not pinned".into(),
    };
    output.info(&format!("{name} {state}"));
}
