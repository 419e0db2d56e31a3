//! The speed of each way of copying: a table with a row for each engine, an object for each measurement.

use crate::probe::bench::{Figures, Impossible, Row, Source, Stats, Target};
use crate::program::output::Output;
use crate::program::output::table::{Align, Cell, Table};
use crate::program::output::terminal::stdout_columns;
use crate::program::output::wrap::wrap;
use crate::util::text::{self, count};
use serde::Serialize;

/// The widest that prose is set.
const PROSE: usize = 100;

#[derive(Serialize)]
struct BenchLine {
    r#type: &'static str,
    engine: &'static str,
    source: &'static str,
    target: &'static str,
    files: u64,
    bytes: u64,
    possible: bool,
    seconds: Option<f64>,
    mib_per_second: Option<f64>,
    calls: Option<u64>,
    /// Why it is not possible.
    why: Option<String>,
}

/// Writes the measurements as JSON.
pub(super) fn lines(output: &Output, stats: &Stats) {
    for row in &stats.rows {
        let figures = row.outcome.as_ref().ok();
        output.json(&BenchLine {
            r#type: "bench",
            engine: row.engine.name(),
            source: match row.source {
                Source::Large => "large_file",
                Source::Small => "small_files",
            },
            target: match row.target {
                Target::File => "file",
                Target::Memory => "memfd",
            },
            files: row.files,
            bytes: row.bytes,
            possible: figures.is_some(),
            seconds: figures.map(|figures| figures.seconds),
            mib_per_second: row.mebibytes_per_second(),
            calls: figures.and_then(|figures| figures.calls),
            why: row.outcome.as_ref().err().map(reason),
        });
    }
}

/// Shows the measurements, and explains them.
pub(super) fn show(output: &Output, stats: &Stats) {
    let sample = |source| stats.rows.iter().find(|row| row.source == source);
    let (Some(large), Some(small)) = (sample(Source::Large), sample(Source::Small)) else { return };
    for (target, head) in [(Target::File, "Into files:"), (Target::Memory, "Into memory:")] {
        output.line("");
        output.line(head);
        table(output, stats, target);
    }
    let text = format!(
        "A file of {}, and {} files of {}; medians of {}. The sources are in the page cache. Copies into files are on \
         the disk when the time ends (fsync; one syncfs for the small ones), those in memory (memfd) are not. Each \
         engine begins with one thread, which has one file at a time; uring has 64 small files under way, but into \
         memory. Calls are of all threads of an engine; for small files with opening and closing.",
        text::size(large.bytes),
        count(small.files),
        text::size(small.bytes / small.files.max(1)),
        stats.rounds,
    );
    let prose = |text: &str| output.line(&wrap(text, 0, 0, stdout_columns().unwrap_or(80).min(PROSE)));
    output.line("");
    prose(&text);
    let mut report = Vec::new();
    for row in &stats.rows {
        if let Err(why) = &row.outcome {
            let into = match row.target {
                Target::File => "files",
                Target::Memory => "memory",
            };
            let line = format!("{} into {into} is not possible: {}", row.engine.name(), reason(why));
            if !report.contains(&line) {
                prose(&line);
                report.push(line);
            }
        }
    }
}

/// A row for each engine that can copy to this target.
fn table(output: &Output, stats: &Stats, target: Target) {
    let columns = [
        ("copied by", Align::Left),
        ("MiB/s", Align::Right),
        ("calls", Align::Right),
        ("µs a small file", Align::Right),
        ("calls", Align::Right),
    ];
    let mut table = Table::new(output, &columns);
    let mut engines: Vec<_> = stats.rows.iter().map(|row| row.engine).collect();
    engines.dedup();
    for engine in engines {
        let of = |source| {
            let is_it = |row: &&Row| (row.engine, row.source, row.target) == (engine, source, target);
            stats.rows.iter().find(is_it)
        };
        let (large, small) = (of(Source::Large), of(Source::Small));
        if large.is_some() || small.is_some() {
            let mut cells: Vec<Cell> = vec![engine.name().into()];
            cells.extend([large, small].into_iter().flat_map(|row| row.map_or_else(none, figures)));
            table.row(cells);
        }
    }
    table.finish();
}

/// Why an engine cannot copy here.
fn reason(why: &Impossible) -> String {
    match why {
        Impossible::NotCloned(reason) => reason.to_string(),
        Impossible::Refused(error) => text::cause(error),
        Impossible::Replaced(engine) => format!("{engine} took its place"),
    }
}

fn none() -> [Cell; 2] {
    ["–".into(), "–".into()]
}

fn figures(row: &Row) -> [Cell; 2] {
    let Ok(Figures { seconds, calls }) = row.outcome else { return none() };
    match row.source {
        Source::Large => [
            format!("{:.0}", row.mebibytes_per_second().unwrap_or_default()).into(),
            calls.map_or_else(|| "–".into(), count).into(),
        ],
        Source::Small => {
            let each = |all: f64| format!("{:.1}", all / row.files.max(1) as f64);
            [each(seconds * 1e6).into(), calls.map_or_else(|| "–".into(), |calls| each(calls as f64)).into()]
        }
    }
}
