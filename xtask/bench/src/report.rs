//! `cargo xtask bench report`: builds `docs/benchmarks.md` from the questions and their recorded answers; also tables.

use crate::contender::Role;
use crate::machine::Machine;
use crate::questions::{Column, QUESTIONS, Question, Unit};
use crate::results::{self, Answer, Case, Row};
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::collections::BTreeSet;
use std::fs;

/// The options of `cargo xtask bench report`.
#[derive(Args)]
pub(crate) struct Options {
    /// Fail if the page is not what the results give; change nothing
    #[arg(long)]
    check: bool,
    /// Print what maintainers need to know about each question instead
    #[arg(long, conflicts_with = "check")]
    notes: bool,
}

const PREFACE: &str = "# Benchmarks

`cargo xtask bench report` writes this page from `xtask/bench/results`; do not edit it. A bench records its medians
there with `--save`; run it as root, on a quiet machine. `cargo xtask bench versus --old BINARY` compares two builds.

Compare figures within a row, not between rows or machines. \"Peer\" is the best other tool in the same run, \"floor\"
the work that no tool can avoid. Ratios are pleach's figure divided by the other one: below 1, pleach needs less.
";

/// Writes the page, or compares it.
pub(crate) fn report(options: &Options) -> Result<()> {
    if options.notes {
        for question in QUESTIONS.iter().filter(|question| !question.note.is_empty()) {
            println!("{}\n  {}\n", question.title, question.note);
        }
        return Ok(());
    }
    let answers = QUESTIONS.iter().map(|question| results::load(question.id)).collect::<Result<Vec<_>>>()?;
    let page = page(QUESTIONS, &answers);
    let path = xtask::command::root().join("docs/benchmarks.md");
    if options.check {
        let known = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(known == page, "{} differs from the results: run `cargo xtask bench report`", path.display());
        return Ok(());
    }
    fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    println!("written: {}", path.display());
    Ok(())
}

fn page(questions: &[Question], answers: &[Answer]) -> String {
    let mut text = String::from(PREFACE);
    let cases: Vec<_> = answers.iter().flat_map(|answer| &answer.cases).collect();
    let machines: BTreeSet<&Machine> = cases.iter().map(|case| &case.machine).collect();
    for machine in machines {
        let days: BTreeSet<_> = cases.iter().filter(|case| &case.machine == machine).map(|case| &*case.date).collect();
        let days = days.into_iter().collect::<Vec<_>>().join(", ");
        let line = format!("Measured {days}: {}; loop devices with direct I/O.", machine.line());
        text.push_str(&format!("\n{}\n", wrapped(&line)));
    }
    for (question, answer) in questions.iter().zip(answers) {
        text.push_str(&section(question, answer));
    }
    text
}

fn section(question: &Question, answer: &Answer) -> String {
    let mut text = format!("\n## {}\n\n{}\n", question.title, wrapped(&format!("Asked: {}", question.asked)));
    if !question.floor.is_empty() {
        text.push_str(&wrapped(&format!("Floor: {}\n", question.floor)));
        text.push('\n');
    }
    text.push_str(&format!("Run: {}.\n\n", question.run));
    if answer.cases.is_empty() {
        text.push_str("No figures are recorded.\n");
        return text;
    }
    let mut heading = vec![String::new(), format!("pleach {}", question.measure.heading)];
    heading.extend(question.more.iter().map(|column| column.heading.to_string()));
    heading.extend(["peer", "ratio", "floor", "ratio"].map(String::from));
    let rows: Vec<_> = answer.cases.iter().flat_map(|case| case_rows(question, case)).collect();
    text.push_str(&without_empty_columns(heading, rows));
    text
}

/// A row for each way in which pleach was measured.
fn case_rows(question: &Question, case: &Case) -> Vec<Vec<String>> {
    let figure = |row: &Row| value(row, &question.measure);
    let mut ours: Vec<_> = case.contenders.iter().filter(|row| row.role == Role::Ours).collect();
    if question.is_limit {
        let most = ours.into_iter().max_by(|a, b| figure(a).unwrap_or(0.0).total_cmp(&figure(b).unwrap_or(0.0)));
        ours = most.into_iter().collect();
    }
    let counts = |row: &Row| {
        let amount =
            |row: &Row| question.at_least.and_then(|figure| row.figures.get(figure)).map(|spread| spread.median);
        match ours.iter().filter_map(|row| amount(row)).reduce(f64::max) {
            Some(most) if row.role == Role::Peer => amount(row).is_some_and(|amount| amount >= 0.95 * most),
            _ => true,
        }
    };
    let best = |role, is_better: fn(f64, f64) -> bool| {
        let rows = case.contenders.iter().filter(|row| row.role == role && counts(row));
        let known = rows.filter_map(|row| Some((row, figure(row)?)));
        known.reduce(|best, next| if is_better(next.1, best.1) { next } else { best })
    };
    // If there are several floors, the highest one is the bound.
    let others = [best(Role::Peer, |a, b| a < b), best(Role::Floor, |a, b| a > b)];
    let row = |row: &&Row| {
        let title = if ours.len() > 1 { format!("{}: {}", case.title, row.name) } else { case.title.clone() };
        let mut cells = vec![title, cell(row, &question.measure)];
        cells.extend(question.more.iter().map(|column| cell(row, column)));
        for (role, other) in [Role::Peer, Role::Floor].into_iter().zip(&others) {
            let Some((other, figure_of_other)) = other else {
                cells.extend([String::new(), String::new()]);
                continue;
            };
            let number = cell(other, &question.measure);
            cells.push(if role == Role::Peer { format!("{number} {}", other.name) } else { number });
            cells.push(ratio(figure(row), *figure_of_other));
        }
        cells
    };
    ours.iter().map(row).collect()
}

fn ratio(ours: Option<f64>, other: f64) -> String {
    match ours.map(|ours| ours / other) {
        Some(ratio) if ratio.is_finite() => format!("{ratio:.2}"),
        _ => String::new(),
    }
}

fn value(row: &Row, column: &Column) -> Option<f64> {
    row.figures.get(column.figure).map(|spread| spread.median)
}

fn cell(row: &Row, column: &Column) -> String {
    value(row, column).map(|value| written(value, column.unit)).unwrap_or_default()
}

fn written(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => format!("{value:.2}"),
        Unit::Mebibytes => format!("{:.1}", value / f64::from(1 << 20)),
        Unit::Ratio => format!("{value:.3}"),
    }
}

/// A table without its empty columns.
fn without_empty_columns(heading: Vec<String>, rows: Vec<Vec<String>>) -> String {
    let kept: Vec<_> = (0..heading.len()).filter(|&column| rows.iter().any(|row| !row[column].is_empty())).collect();
    let keep = |row: Vec<String>| kept.iter().map(|&column| row[column].clone()).collect::<Vec<_>>();
    table(&keep(heading), &rows.into_iter().map(keep).collect::<Vec<_>>())
}

/// All figures of a case, for the terminal: medians, the range of the seconds, and ratios to the first contender and to
/// the highest floor.
pub(crate) fn full_table(case: &Case) -> String {
    let seconds = |row: &Row| row.figures.get("seconds").copied();
    let first = case.contenders.first().and_then(seconds).map(|spread| spread.median);
    let floors = case.contenders.iter().filter(|row| row.role == Role::Floor).filter_map(seconds);
    let floor = floors.map(|spread| spread.median).reduce(f64::max);
    let names: BTreeSet<&str> = case
        .contenders
        .iter()
        .flat_map(|row| row.figures.keys())
        .map(String::as_str)
        .filter(|name| *name != "seconds")
        .collect();
    let heading = ["", "seconds", "least–most", "/ first", "/ floor"].into_iter().chain(names.iter().copied());
    let heading: Vec<_> = heading.map(|name| name.replace("_bytes", " MiB").replace('_', " ")).collect();
    let row = |row: &Row| {
        let spread = seconds(row);
        let against =
            |other: Option<f64>| other.map(|other| ratio(spread.map(|s| s.median), other)).unwrap_or_default();
        let range = spread.and_then(|s| Some(format!("{:.3}–{:.3}", s.min?, s.max?))).unwrap_or_default();
        let median = spread.map(|s| format!("{:.3}", s.median)).unwrap_or_default();
        let mut cells = vec![row.name.clone(), median, range, against(first), against(floor)];
        cells.extend(names.iter().map(|name| {
            let unit = match name.rsplit('_').next() {
                Some("bytes") => Unit::Mebibytes,
                Some("ratio") => Unit::Ratio,
                _ => Unit::Seconds,
            };
            row.figures.get(*name).map(|spread| written(spread.median, unit)).unwrap_or_default()
        }));
        cells
    };
    without_empty_columns(heading, case.contenders.iter().map(row).collect())
}

/// A Markdown table with a heading row. Columns are padded, so the source is readable too. The first column is text,
/// the others are figures.
pub(crate) fn table(heading: &[String], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<_> = heading.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
    };
    let rule = widths.iter().enumerate().map(|(column, &width)| match column {
        0 => "-".repeat(width + 2),
        _ => format!("{}:", "-".repeat(width + 1)),
    });
    let mut table = line(heading);
    table.push_str(&format!("|{}|\n", rule.collect::<Vec<_>>().join("|")));
    rows.iter().for_each(|row| table.push_str(&line(row)));
    table
}

/// A paragraph wrapped to lines of at most 118 columns.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is a line");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= 118 {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.into());
        }
    }
    lines.join("\n")
}

/// A number with separated thousands.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"{"cases": [{
        "title": "XFS", "date": "2026-01-02", "sizes": "10 files", "rounds": 3, "checked": "",
        "machine": {"kernel": "6.1", "cpus": 2, "processor": "some", "memory_gib": 4},
        "contenders": [
            {"name": "pleach", "role": "ours",
                "figures": {"seconds": {"median": 2.0}, "memory_bytes": {"median": 1048576.0}}},
            {"name": "slow", "role": "peer", "figures": {"seconds": {"median": 9.0, "min": 8.0, "max": 10.0}}},
            {"name": "quick", "role": "peer", "figures": {"seconds": {"median": 4.0}}},
            {"name": "engine", "role": "variant", "figures": {"seconds": {"median": 1.0}}},
            {"name": "calls", "role": "floor", "figures": {"seconds": {"median": 1.6}}}
        ]}]}"#;

    fn sample() -> Answer {
        serde_json::from_str(SAMPLE).unwrap()
    }

    #[test]
    fn a_row_compares_pleach_with_the_best_peer_and_the_highest_floor() {
        let rows = case_rows(&QUESTIONS[0], &sample().cases[0]);
        assert_eq!(rows, [["XFS", "2.00", "1.0", "4.00 quick", "0.50", "1.60", "1.25"]]);
    }

    #[test]
    fn a_peer_that_does_less_does_not_count() {
        let mut case = sample().cases.remove(0);
        let spread = |median| crate::statistics::Spread { median, min: None, max: None };
        for (row, freed) in case.contenders.iter_mut().zip([100.0, 99.0, 40.0]) {
            row.figures.insert("freed_bytes".into(), spread(freed));
        }
        let dedupe = QUESTIONS.iter().find(|question| question.at_least.is_some()).unwrap();
        assert!(case_rows(dedupe, &case)[0].contains(&"9.00 slow".to_string()));
    }

    #[test]
    fn the_page_names_machine_and_day_and_shows_each_question() {
        let page = page(&QUESTIONS[..2], &[sample(), Answer::default()]);
        assert!(page.contains("Measured 2026-01-02: Linux 6.1, 2 CPUs (some), 4 GiB of memory; "), "{page}");
        assert!(page.contains("| XFS |     2.00 |"), "{page}");
        assert_eq!(page.matches("No figures are recorded.").count(), 1);
        assert!(page.lines().all(|line| line.chars().count() <= 120 || line.starts_with('|')), "{page}");
    }

    #[test]
    fn of_a_limit_the_worst_run_is_shown() {
        let memory = QUESTIONS.iter().find(|question| question.is_limit).unwrap();
        let mut case = sample().cases.remove(0);
        let mut worse = case.contenders[0].clone();
        worse.figures.get_mut("memory_bytes").unwrap().median *= 3.0;
        case.contenders = vec![worse, case.contenders.remove(0)];
        assert_eq!(case_rows(memory, &case), [["XFS", "3.0", "", "", "", ""]]);
    }

    #[test]
    fn the_page_in_docs_is_what_the_results_give() {
        report(&Options { check: true, notes: false }).unwrap();
    }

    #[test]
    fn columns_without_a_figure_are_dropped() {
        let mut answer = sample();
        answer.cases[0].contenders.truncate(1);
        assert!(!section(&QUESTIONS[0], &answer).contains("peer"));
        assert!(full_table(&answer.cases[0]).contains("memory MiB"));
    }

    #[test]
    fn identifiers_are_unique() {
        let ids: BTreeSet<_> = QUESTIONS.iter().map(|question| question.id).collect();
        assert_eq!(ids.len(), QUESTIONS.len());
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([thousands(7), thousands(1234), thousands(1_000_000)], ["7", "1,234", "1,000,000"]);
    }
}
