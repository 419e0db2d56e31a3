//! The sections of `docs/benchmarks.md` about copies: one a tree, pair of filesystems and cache, and one about all of them.

use super::Row;
use super::contenders::{ALL, Conditions, Contender, Role};
use crate::measure::{Sample, median};
use crate::report::{self, mebibytes, thousands};
use xtask::vendor::Census;

const HEADING: [&str; 9] =
    ["", "threads", "s", "least–most", "before sync", "/ best peer", "/ best engine", "processor s", "calls a file"];

/// What holds of all the sections, and who took part.
pub(super) fn about(of: &Conditions, present: &[Contender]) -> String {
    let mut text = format!("## Copies\n\n{}.\n\n", report::machine());
    text.push_str(
        "The sections below: a tree copied to an empty filesystem, or, within one, beside itself. \"s\" is the command and then a\n\
         sync of the destination, for everyone alike; \"before sync\" is the command alone, where pleach has synced already and the\n\
         others have not. Cold: all caches dropped, and the program itself read again. Warm: the data of the source, its names and\n\
         inodes read before. \"Threads\" are the most at once, of all processes of a command. System calls are counted by\n\
         `strace -c -f` in a run of its own, on a part of the tree.\n\n\
         \"The bare calls\" open, read, create, write and close, eight files at once with a cold cache and two with a warm one,\n\
         without metadata; within one filesystem they clone. \"The device alone\" moves as many bytes in large pieces past the page\n\
         cache, eight at once; with a warm cache it only writes them. `cp -r` and `cpz` keep no owners and no times, `xcp` no\n\
         owners. `-S` is given where the file is sparse. GNU `cp` clones by itself where it can.\n\nVersions:\n\n",
    );
    let mut told = Vec::new();
    for who in ALL.into_iter().filter(|who| present.contains(who) && who.role() != Role::Floor) {
        let version = who.version();
        if !told.contains(&version) {
            text.push_str(&format!("- {}: {version}\n", who.name(of)));
            told.push(version);
        }
    }
    text
}

/// The section of one tree, pair and cache, from its heading on.
pub(super) fn section(of: &Conditions, what: &str, census: &Census, data: u64, runs: u32, rows: &[Row]) -> String {
    let mut text = format!("## Copy of {what}, {}, {} cache\n\n", of.pair.title(), of.cache.name());
    text.push_str(&format!(
        "{} files, {} directories, {} MiB of data. {}\n\n",
        thousands(census.files),
        thousands(census.dirs),
        mebibytes(data as f64),
        match runs {
            1 => "One run of each.".into(),
            runs => format!("Medians of {runs} runs in turns."),
        }
    ));
    let bests = [Role::Peer, Role::Engine].map(|role| best(rows, role).map(seconds));
    text.push_str(&report::table(&HEADING, &rows.iter().map(|row| cells(row, of, bests)).collect::<Vec<_>>()));
    text.push_str(&verdict(of, rows));
    for row in rows {
        if let Some(failure) = &row.failure {
            text.push_str(&format!("\n{} failed: {failure}\n", row.who.name(of)));
        }
    }
    text
}

fn cells(row: &Row, of: &Conditions, bests: [Option<f64>; 2]) -> Vec<String> {
    let name = row.who.name(of);
    let calls = row.calls.map_or("–".into(), |calls| format!("{calls:.1}"));
    if row.runs.is_empty() {
        return std::iter::once(name)
            .chain(std::iter::repeat_n("–".into(), HEADING.len() - 2))
            .chain([calls])
            .collect();
    }
    let all = || row.runs.iter().map(|run| run.synced.as_secs_f64());
    let [peer, engine] = bests.map(|best| best.map_or("–".into(), |best| format!("{:.2}", seconds(row) / best)));
    vec![
        name,
        format!("{:.0}", figure(row, |run| run.threads as f64)),
        format!("{:.2}", seconds(row)),
        format!("{:.2}–{:.2}", all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max)),
        format!("{:.2}", figure(row, |run| run.wall.as_secs_f64())),
        peer,
        engine,
        format!("{:.2}", figure(row, |run| (run.user + run.system).as_secs_f64())),
        calls,
    ]
}

/// What was asked: `auto` against our own engines, the peers, `cp -r` and the floors.
fn verdict(of: &Conditions, rows: &[Row]) -> String {
    let Some(auto) = find(rows, Contender::Auto) else { return String::new() };
    let against = |row: &Row| format!("{:.2} × {}", seconds(auto) / seconds(row), row.who.name(of));
    let mut parts = Vec::new();
    parts.extend(best(rows, Role::Engine).map(|row| format!("the best engine named: {}", against(row))));
    parts.extend(best(rows, Role::Peer).map(|row| format!("the best peer: {}", against(row))));
    parts.extend(
        find(rows, Contender::CpR).map(|row| format!("`cp -r` takes {:.2} × as long", seconds(row) / seconds(auto))),
    );
    for floor in [Contender::BareCalls, Contender::FinishedCalls, Contender::Device] {
        parts.extend(find(rows, floor).map(|row| format!("the floor: {}", against(row))));
    }
    if parts.is_empty() { String::new() } else { format!("\n`pleach copy` against {}.\n", parts.join("; ")) }
}

fn find(rows: &[Row], who: Contender) -> Option<&Row> {
    rows.iter().find(|row| row.who == who && !row.runs.is_empty())
}

/// The fastest of a role.
fn best(rows: &[Row], role: Role) -> Option<&Row> {
    let rows = rows.iter().filter(|row| row.who.role() == role && !row.runs.is_empty());
    rows.min_by(|a, b| seconds(a).total_cmp(&seconds(b)))
}

fn seconds(row: &Row) -> f64 {
    figure(row, |run| run.synced.as_secs_f64())
}

fn figure(row: &Row, what: impl Fn(&Sample) -> f64) -> f64 {
    median(row.runs.iter().map(what).collect())
}

#[cfg(test)]
mod tests {
    use super::super::pairs::Pair;
    use super::super::trees::Tree;
    use super::*;
    use crate::measure::Cache;
    use std::time::Duration;

    fn row(who: Contender, seconds: u64) -> Row {
        let runs = if seconds == 0 {
            Vec::new()
        } else {
            vec![Sample { synced: Duration::from_secs(seconds), ..Sample::default() }]
        };
        Row { who, runs, calls: None, failure: None }
    }

    #[test]
    fn the_verdict_compares_with_the_best_of_each_kind() {
        let of = Conditions { pair: Pair::Ext4Xfs, tree: Tree::Small, cache: Cache::Cold };
        let rows = [
            row(Contender::Auto, 4),
            row(Contender::Mmap, 5),
            row(Contender::Uring, 4),
            row(Contender::CpA, 6),
            row(Contender::CpR, 12),
            row(Contender::Cpz, 0),
            row(Contender::BareCalls, 2),
        ];
        let verdict = verdict(&of, &rows);
        assert!(verdict.contains("engine named: 1.00 × `… --engine uring`"), "{verdict}");
        assert!(verdict.contains("best peer: 0.67 × `cp -a`"), "{verdict}");
        assert!(verdict.contains("`cp -r` takes 3.00 × as long"), "{verdict}");
        assert!(verdict.contains("floor: 2.00 × the bare calls"), "{verdict}");
    }
}
