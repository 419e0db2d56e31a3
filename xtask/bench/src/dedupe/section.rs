//! The section of `docs/benchmarks.md` about one tree on one filesystem.

use super::census::Census;
use super::contenders::{Contender, Told};
use super::trees::Tree;
use super::{Row, Run};
use crate::measure::{Cache, median};
use crate::report::{self, mebibytes};
use xtask::image::Kind;

const HEADING: [&str; 10] = [
    "",
    "first s",
    "pleach / it",
    "second s",
    "freed MiB",
    "told MiB",
    "read MiB",
    "device MiB",
    "second read MiB",
    "memory MiB",
];

/// Of what a section tells.
pub(super) struct Conditions {
    pub(super) kind: Kind,
    pub(super) tree: Tree,
    pub(super) cache: Cache,
    pub(super) runs: u32,
}

/// The section, from its heading on.
pub(super) fn section(of: &Conditions, about: &str, census: &Census, rows: &[Row]) -> String {
    let (tree, kind, cache) = (of.tree.title(), of.kind.title(), of.cache.name());
    let mut text = format!("## Dedupe of {tree} on {kind}, {cache} cache\n\n{about}\n{}.\n", report::machine());
    text.push_str(&match of.runs {
        1 => "One run of each, ".into(),
        runs => format!("Medians of {runs} runs in turns, "),
    });
    text.push_str(
        "each on a fresh copy of the same image. \"Freed\" is the difference of df, freshly mounted before and after;\n\
         \"told\" is what the program says itself. \"Read\" is what the program had devices read, and what the device gave out.\n\n",
    );
    let ours = rows.iter().find(|row| row.who == Contender::Pleach).map_or(f64::NAN, |row| seconds(&row.first));
    text.push_str(&report::table(&HEADING, &rows.iter().map(|row| cells(row, ours)).collect::<Vec<_>>()));
    if of.cache == Cache::Cold {
        text.push_str(&reading(census, rows));
    }
    text.push_str("\nVersions and threads:\n\n");
    for row in rows {
        text.push_str(&format!("- {}: {}\n", row.who.name(), row.who.version()));
    }
    text
}

fn cells(row: &Row, ours: f64) -> Vec<String> {
    let size = |runs: &[Run], what: &dyn Fn(&Run) -> u64| mebibytes(figure(runs, &|run| what(run) as f64));
    let ratio = ours / seconds(&row.first);
    vec![
        row.who.name(),
        format!("{:.2}", seconds(&row.first)),
        if ratio.is_nan() { "–".into() } else { format!("{ratio:.2}") },
        format!("{:.2}", seconds(&row.second)),
        mebibytes(figure(&row.first, &|run| run.freed as f64)),
        told(row, |told| told.freed).map_or("–".into(), mebibytes),
        size(&row.first, &|run| run.sample.read),
        size(&row.first, &|run| run.device),
        size(&row.second, &|run| run.sample.read),
        size(&row.first, &|run| run.sample.memory),
    ]
}

/// What may be read, and what pleach has read: by the device, which knows no other reader, and by its own account.
fn reading(census: &Census, rows: &[Row]) -> String {
    let mut text = format!(
        "\nTo be found: {} files that have their size in common with another, {} MiB; {} MiB of that are equal to another.\n\
         For whole files at most 1.1 × (the equal bytes + 64 KiB × the files) = {} MiB may be read; ranges need all that is left:\n\n",
        report::thousands(census.candidates),
        mebibytes(census.candidate_bytes as f64),
        mebibytes(census.duplicate_bytes as f64),
        mebibytes(census.limit() as f64),
    );
    for row in rows.iter().filter(|row| row.who.is_ours()) {
        let read = figure(&row.first, &|run| run.device as f64);
        text.push_str(&format!(
            "- {}: {} MiB given out by the device, {:.2} of it; {} MiB of data read by its own account, {} in the second run\n",
            row.who.name(),
            mebibytes(read),
            read / census.limit() as f64,
            told(row, |told| told.read).map_or("–".into(), mebibytes),
            figure_told(&row.second, |told| told.read).map_or("–".into(), mebibytes),
        ));
    }
    text
}

fn seconds(runs: &[Run]) -> f64 {
    figure(runs, &|run| run.sample.wall.as_secs_f64())
}

fn figure(runs: &[Run], what: &dyn Fn(&Run) -> f64) -> f64 {
    median(runs.iter().map(what).collect())
}

fn told(row: &Row, what: impl Fn(Told) -> u64) -> Option<f64> {
    figure_told(&row.first, what)
}

fn figure_told(runs: &[Run], what: impl Fn(Told) -> u64) -> Option<f64> {
    let told: Option<Vec<_>> = runs.iter().map(|run| run.told.map(|told| what(told) as f64)).collect();
    told.map(median)
}
