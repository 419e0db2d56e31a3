//! `docs/benchmarks.md`: sections between markers are written by benches, everything else in it by people.

use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;
use xtask::command::{self, output, program};

const PREFACE: &str = "# Benchmarks

Measured by `cargo xtask bench`, which writes the sections between the markers; what stands outside them is written by
hand. Figures of different runs, machines or sections are not to be compared; those within one table are: the commands
took turns in one run, on one filesystem.
";

fn path() -> PathBuf {
    command::root().join("docs/benchmarks.md")
}

/// Makes the file where there is none, with the rights of whoever began the bench.
pub(crate) fn begin() -> Result<()> {
    let path = path();
    if !path.exists() {
        fs::create_dir_all(path.parent().expect("it has a parent"))?;
        fs::write(&path, PREFACE).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Puts `text` in the place of the section `name`, or at the end.
pub(crate) fn write(name: &str, text: &str) -> Result<()> {
    let path = path();
    let page = fs::read_to_string(&path).unwrap_or_else(|_| PREFACE.into());
    fs::write(&path, with_section(&page, name, text)).with_context(|| format!("cannot write {}", path.display()))?;
    println!("written: section \"{name}\" of {}", path.display());
    Ok(())
}

fn with_section(page: &str, name: &str, text: &str) -> String {
    let (begin, end) = (format!("<!-- bench {name}: begin -->"), format!("<!-- bench {name}: end -->"));
    let section = format!("{begin}\n\n{}\n\n{end}", text.trim());
    match (page.find(&begin), page.find(&end)) {
        (Some(from), Some(to)) if from < to => format!("{}{section}{}", &page[..from], &page[to + end.len()..]),
        _ => format!("{}\n\n{section}\n", page.trim_end()),
    }
}

/// A table with a heading row, in Markdown, its columns padded so that it can be read as text too. The first column is
/// text, the others are figures.
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
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
    let mut table = line(&heading.iter().map(ToString::to_string).collect::<Vec<_>>());
    table.push_str(&format!("|{}|\n", rule.collect::<Vec<_>>().join("|")));
    rows.iter().for_each(|row| table.push_str(&line(row)));
    table
}

/// The machine, in one line.
pub(crate) fn machine() -> String {
    let kernel = output(program("uname").arg("-r")).unwrap_or_default();
    let field = |file: &str, key: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(key)).and_then(|line| line.split_once(':'));
        line.map(|(_, value)| value.trim().to_string()).unwrap_or_default()
    };
    let memory = field("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0);
    format!(
        "Linux {}, {} cores ({}), {:.0} GiB of memory; filesystems on a loop device with direct I/O over a sparse file",
        kernel.trim(),
        cores(),
        field("/proc/cpuinfo", "model name"),
        memory / f64::from(1 << 20),
    )
}

/// The processors that we may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// An amount of bytes in MiB.
pub(crate) fn mebibytes(bytes: f64) -> String {
    format!("{:.1}", bytes / f64::from(1 << 20))
}

/// A number with its thousands apart.
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

    #[test]
    fn a_section_is_replaced_and_the_prose_around_it_stays() {
        let page = with_section("# Title\n\nProse.\n", "one", "first");
        let page = with_section(&page, "two", "second");
        let page =
            with_section(&page.replace("<!-- bench two: begin", "More prose.\n\n<!-- bench two: begin"), "one", "new");
        assert!(page.contains("Prose.") && page.contains("More prose.") && page.contains("second"));
        assert!(page.contains("new") && !page.contains("first"));
        assert_eq!(page.matches("begin -->").count(), 2);
    }

    #[test]
    fn thousands_are_apart() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }
}
