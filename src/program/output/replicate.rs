//! The snapshots that were sent, would be sent, or were received.

use super::Output;
use super::json::PathField;
use super::messages;
use super::summary;
use super::table::{Align, Cell, Table};
use super::terminal::harmless;
use crate::error::Error;
use crate::snapshot::replicate::{Destination, Snapshot};
use crate::snapshot::{receive, replicate};
use crate::util::text::{self, counted, size};
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct SnapshotLine<'a> {
    r#type: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<Option<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sent_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_bytes: Option<u64>,
}

#[derive(Serialize)]
struct Summary<'a> {
    r#type: &'static str,
    command: &'static str,
    /// The repository that received.
    #[serde(flatten)]
    path: PathField<'a>,
    snapshots: u64,
    sent_bytes: u64,
    shared_bytes: u64,
    stream_bytes: u64,
    wire_bytes: u64,
    errors: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<bool>,
    /// Whether the run did not end early.
    complete: bool,
    seconds: f64,
}

/// Shows the result of `replicate`, also if it ended early with an error.
pub(crate) fn replicated(
    output: &Output,
    stats: &replicate::Stats,
    to: &Destination,
    is_dry_run: bool,
    error: Option<&Error>,
) {
    if output.is_json() {
        let line = |snapshot: &Snapshot| {
            let Snapshot { name, base, sent_bytes, shared_bytes, .. } = snapshot;
            let amount = |bytes: &u64| (!is_dry_run).then_some(*bytes);
            output.json(&SnapshotLine {
                r#type: "snapshot",
                name,
                base: Some(base.as_deref()),
                sent_bytes: amount(sent_bytes),
                shared_bytes: amount(shared_bytes),
            });
        };
        stats.snapshots.iter().for_each(line);
        let to = to.shown();
        return output.json(&Summary {
            r#type: "summary",
            command: "replicate",
            path: PathField::new(Path::new(&to)),
            snapshots: stats.snapshots.len() as u64,
            sent_bytes: stats.sent_bytes,
            shared_bytes: stats.shared_bytes,
            stream_bytes: stats.stream_bytes,
            wire_bytes: stats.wire_bytes,
            errors: stats.errors + stats.problems,
            dry_run: Some(is_dry_run),
            complete: error.is_none(),
            seconds: stats.seconds,
        });
    }
    if output.is_quiet() {
        return;
    }
    if is_dry_run {
        plan(output, &stats.snapshots);
    }
    let verb = if is_dry_run { "would send" } else { "sent" };
    let place = format!(" to {}", text::path(Path::new(&to.shown())));
    let mut rows = Vec::new();
    if !is_dry_run && !stats.snapshots.is_empty() {
        let wire = match to {
            Destination::Path(_) => String::new(),
            _ => format!(", {} on the wire", size(stats.wire_bytes)),
        };
        rows.push(("sent", format!("{}{wire}", size(stats.sent_bytes))));
        if stats.shared_bytes > 0 {
            rows.push(("reused", format!("{} more, from other files there", size(stats.shared_bytes))));
        }
    }
    summary::end(&mut rows, stats.errors + stats.problems, stats.seconds);
    let names: Vec<&str> = stats.snapshots.iter().map(|snapshot| snapshot.name.as_str()).collect();
    let none = match (stats.errors, stats.offered) {
        (0, 0) => format!("nothing to send{place}: there are no snapshots yet"),
        (0, _) => format!("nothing to send{place}: it has all of them"),
        _ if is_dry_run => format!("dry run: nothing would be sent{place}"),
        _ => format!("nothing sent{place}"),
    };
    summary::print(output, &heading(verb, &names, &place, none), &rows);
}

/// Shows the result of `receive`.
pub(crate) fn received(output: &Output, stats: &receive::Stats, repo: &Path) {
    let receive::Stats { received_bytes, shared_bytes, stream_bytes, wire_bytes, errors, seconds, .. } = *stats;
    if output.is_json() {
        let line = |name: &String| {
            let (base, sent_bytes, shared_bytes) = (None, None, None);
            output.json(&SnapshotLine { r#type: "snapshot", name, base, sent_bytes, shared_bytes });
        };
        stats.snapshots.iter().for_each(line);
        return output.json(&Summary {
            r#type: "summary",
            command: "receive",
            path: PathField::new(repo),
            snapshots: stats.snapshots.len() as u64,
            sent_bytes: received_bytes,
            shared_bytes,
            stream_bytes,
            wire_bytes,
            errors,
            dry_run: None,
            complete: true,
            seconds,
        });
    }
    if output.is_quiet() {
        return;
    }
    let mut rows = vec![("arrived", format!("{}, {} as a stream", size(received_bytes), size(wire_bytes)))];
    if shared_bytes > 0 {
        rows.push(("reused", format!("{} more, from other files here", size(shared_bytes))));
    }
    summary::end(&mut rows, errors, seconds);
    let names: Vec<&str> = stats.snapshots.iter().map(String::as_str).collect();
    let place = format!(" in {}", text::path(repo));
    summary::print(output, &heading("received", &names, &place, format!("received nothing{place}")), &rows);
}

/// A destination that is missing was skipped.
pub(crate) fn skipped(output: &Output, error: &Error) {
    output.notice("destination-skipped", error.path(), &format!("skipped a destination: {}", messages::error(error)));
}

/// Shows the repository that was made.
pub(crate) fn made(output: &Output, repo: &Path) {
    if output.is_json() {
        output.json(&Summary {
            r#type: "summary",
            command: "receive",
            path: PathField::new(repo),
            snapshots: 0,
            sent_bytes: 0,
            shared_bytes: 0,
            stream_bytes: 0,
            wire_bytes: 0,
            errors: 0,
            dry_run: None,
            complete: true,
            seconds: 0.0,
        });
    } else if !output.is_quiet() {
        summary::print(output, &format!("{} is ready to receive snapshots", text::path(repo)), &[]);
    }
}

fn heading(verb: &str, names: &[&str], place: &str, none: String) -> String {
    let name = |name: &str| harmless(name).into_owned();
    match names {
        [] => none,
        [only] => format!("{verb} the snapshot {}{place}", name(only)),
        [first, .., last] => {
            let number = counted(names.len() as u64, "snapshot");
            format!("{verb} {number}{place}: {} to {}", name(first), name(last))
        }
    }
}

/// The snapshots that would be sent.
fn plan(output: &Output, snapshots: &[Snapshot]) {
    if snapshots.is_empty() {
        return;
    }
    let mut table = Table::new(output, &[("snapshot", Align::Left), ("sent as", Align::Left)]);
    for Snapshot { name, base, .. } in snapshots {
        let how = match base {
            Some(base) => format!("a difference from {}", harmless(base)),
            None => "full".to_string(),
        };
        table.row(vec![Cell::from(&*harmless(name)), Cell::from(how.as_str())]);
    }
    table.finish();
}
