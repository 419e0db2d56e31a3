//! The page: its frame, its style, and its sections in their order.

use super::html::{counted, moment, path, text};
use super::{calendar, changes, files, growth, overview, problems, pruning, snapshots};
use crate::error::Result;
use crate::monitor::Monitor;
use crate::program::output::svg;
use crate::snapshot::report::{Group, Stats};
use crate::util::text as words;
use std::fmt::Write as _;

/// The first line.
pub(super) const DOCTYPE: &str = "<!DOCTYPE html>";

/// The second line of each page. The next report may replace a file that has it.
pub(super) const MARK: &str = "<!-- Written by pleach report, which replaces this file when it writes it again. -->";

/// Nothing may be loaded, and nothing may run.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Up to this many groups are open at once.
const OPEN: usize = 3;

pub(super) fn page(stats: &Stats, monitor: &dyn Monitor) -> Result<String> {
    let (style, patterns) = svg::style(".sharing");
    let repository = words::path(&stats.path);
    let mut out = format!(
        "{DOCTYPE}\n{MARK}\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>Snapshots in {title}</title>\n<style>\n{PAGE}{style}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the content</a>\n<header>\n\
         <p class=\"kind\">pleach report</p>\n<h1>Snapshots in {path}</h1>\n\
         <p class=\"made\">Made {made}. Times are those of {zone}.</p>\n",
        PAGE = include_str!("page.css"),
        title = text(&repository),
        path = path(&stats.path),
        made = moment(stats.local),
        zone = text(&stats.time_zone),
    );
    navigation(&mut out);
    out.push_str("</header>\n<main id=\"main\" tabindex=\"-1\">\n");
    overview::write(stats, &mut out);
    nights(stats, &mut out);
    pruning::write(stats, &mut out);
    changes::write(stats, &mut out);
    files::write(stats, monitor, &mut out)?;
    snapshots::write(stats, &mut out);
    problems::write(stats, &mut out);
    let _ = write!(
        out,
        "</main>\n<footer>\n<p>Made by pleach {} in {}. This page is one file: it runs no script and loads \
         nothing.</p>\n\
         </footer>\n<div class=\"sharing patterns\" aria-hidden=\"true\"><svg width=\"0\" height=\"0\"><defs>\n\
         {patterns}</defs></svg></div>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        text(&words::duration(stats.seconds)),
    );
    Ok(out)
}

fn navigation(out: &mut String) {
    out.push_str("<nav aria-label=\"Sections\">\n<ul>\n");
    for (id, name) in [
        ("nights", "Calendar and growth"),
        ("pruning", "Pruning"),
        ("changes", "Changes"),
        ("files", "Largest files"),
        ("snapshots", "Snapshots"),
        ("problems", "Problems"),
    ] {
        let _ = writeln!(out, "<li><a href=\"#{id}\">{name}</a></li>");
    }
    out.push_str("</ul>\n</nav>\n");
}

/// The calendar and the growth of each group.
fn nights(stats: &Stats, out: &mut String) {
    *out += &super::html::section("nights", "Calendar and growth");
    if stats.groups.is_empty() {
        out.push_str("<p>There are no snapshots yet.</p>\n");
    }
    for (number, group) in stats.groups.iter().enumerate() {
        let sources: Vec<_> = group.sources.iter().map(|source| path(source)).collect();
        let title = format!("{} on <b>{}</b>", sources.join(" "), text(&group.host));
        let all = counted(group.snapshots.len() as u64, "snapshot");
        if stats.groups.len() <= OPEN {
            let _ = writeln!(out, "<div class=\"group\">\n<h3>{title}</h3>");
            body(stats, group, &all, out);
            out.push_str("</div>\n");
        } else {
            let open = if number == 0 { " open" } else { "" };
            let _ = writeln!(out, "<details class=\"group\"{open}><summary><h3>{title}: {all}</h3></summary>");
            body(stats, group, &all, out);
            out.push_str("</details>\n");
        }
    }
    out.push_str("</section>\n");
}

fn body(stats: &Stats, group: &Group, all: &str, out: &mut String) {
    let _ = writeln!(
        out,
        "<p>{all}. Each day shows what its snapshots added on the disk, {} in all; it leads to the table of \
         snapshots.</p>",
        calendar::sum(stats, group)
    );
    calendar::write(stats, group, out);
    growth::write(stats, group, out);
}
