//! The snapshots that were sent or received.

use super::Output;
use super::summary;
use crate::snapshot::{receive, replicate};
use crate::util::text::{counted, size};
use serde::Serialize;

#[derive(Serialize)]
struct Snapshot<'a> {
    r#type: &'static str,
    name: &'a str,
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    command: &'static str,
    snapshots: u64,
    sent_bytes: u64,
    shared_bytes: u64,
    stream_bytes: u64,
    wire_bytes: u64,
    errors: u64,
    seconds: f64,
}

/// Shows the result of `replicate`.
pub(crate) fn replicated(output: &Output, stats: &replicate::Stats) {
    let replicate::Stats { sent_bytes, shared_bytes, stream_bytes, wire_bytes, seconds, .. } = *stats;
    let sums = [("sent", sent_bytes), ("shared there", shared_bytes), ("transferred", wire_bytes)];
    show(output, "sent", &stats.snapshots, &sums, seconds, |snapshots| Summary {
        r#type: "summary",
        command: "replicate",
        snapshots,
        sent_bytes,
        shared_bytes,
        stream_bytes,
        wire_bytes,
        errors: 0,
        seconds,
    });
}

/// Shows the result of `receive`.
pub(crate) fn received(output: &Output, stats: &receive::Stats) {
    let receive::Stats { received_bytes, shared_bytes, stream_bytes, wire_bytes, seconds, .. } = *stats;
    let sums = [("received", received_bytes), ("shared", shared_bytes), ("transferred", wire_bytes)];
    show(output, "received", &stats.snapshots, &sums, seconds, |snapshots| Summary {
        r#type: "summary",
        command: "receive",
        snapshots,
        sent_bytes: received_bytes,
        shared_bytes,
        stream_bytes,
        wire_bytes,
        errors: 0,
        seconds,
    });
}

fn show(
    output: &Output,
    verb: &str,
    snapshots: &[String],
    sums: &[(&'static str, u64)],
    seconds: f64,
    summary: impl FnOnce(u64) -> Summary,
) {
    if output.is_json() {
        snapshots.iter().for_each(|name| output.json(&Snapshot { r#type: "snapshot", name }));
        output.json(&summary(snapshots.len() as u64));
        return;
    }
    let heading = match snapshots {
        [] => format!("nothing to {}: all snapshots are there", if verb == "sent" { "send" } else { "receive" }),
        [only] => format!("{verb} the snapshot {only}"),
        [first, .., last] => format!("{verb} {}, {first} to {last}", counted(snapshots.len() as u64, "snapshot")),
    };
    let mut rows: Vec<(&str, String)> = sums.iter().map(|(name, bytes)| (*name, size(*bytes))).collect();
    rows.push(("time", format!("{seconds:.2} s")));
    summary::print(output, &heading, if snapshots.is_empty() { &[] } else { &rows });
}
