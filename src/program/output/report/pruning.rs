//! What pruning would free.

use super::html::{Table, bar, bounded, counted, reasons, section, text, when};
use crate::snapshot::report::{Row, Stats};
use crate::usage::Bound;
use std::fmt::Write as _;

/// How many snapshots are listed by what each alone frees.
const SHOWN: usize = 10;

pub(super) fn write(stats: &Stats, out: &mut String) {
    *out += &section("pruning", "What pruning would free");
    match &stats.pruning {
        None if stats.snapshots.is_empty() => out.push_str("<p>There is nothing to prune.</p>\n"),
        None => out.push_str("<p>It was not measured for this report.</p>\n"),
        Some(pruning) => {
            let kept = counted(pruning.kept, "snapshot");
            let bound = crate::program::output::bound::words(pruning.removed_bound);
            let removed = counted(pruning.removed, "snapshot");
            let freed = bounded(pruning.freed.bytes, pruning.freed.bound);
            let _ = match (pruning.is_given, pruning.removed) {
                (_, 0) => writeln!(out, "<p>Nothing would be removed: {kept} would stay.</p>"),
                (true, _) => writeln!(
                    out,
                    "<p class=\"lead\">By the given rules, pruning would remove {bound}{removed} and keep {kept}. \
                     This would free <strong>{freed}</strong>.</p>"
                ),
                (false, _) => writeln!(
                    out,
                    "<p class=\"lead\">Removing everything but the newest snapshot of each set of sources, and pinned \
                     ones, would remove {removed}. This would free <strong>{freed}</strong>.</p>\n\
                     <p class=\"hint\">No rules were given. <code>pleach report --keep-daily 7 …</code> \
                     shows what these would free.</p>"
                ),
            };
            if pruning.is_given && pruning.removed > 0 {
                going(stats, out);
            }
            alone(stats, out);
        }
    }
    out.push_str("</section>\n");
}

/// The snapshots that would be removed.
fn going(stats: &Stats, out: &mut String) {
    let is_going = |row: &&Row| row.kept.as_ref().is_some_and(Vec::is_empty);
    let names: Vec<String> = stats
        .snapshots
        .iter()
        .enumerate()
        .filter(|(_, row)| is_going(row))
        .map(|(number, row)| format!("<li><a href=\"#s{number}\">{}</a></li>", text(&row.name)))
        .collect();
    let summary = counted(names.len() as u64, "snapshot");
    let open = if names.len() <= 40 { " open" } else { "" };
    let _ = writeln!(
        out,
        "<details{open}><summary>{summary} would be removed</summary>\n<ul class=\"names\">{}</ul>\n</details>",
        names.join("")
    );
}

/// The snapshots that free most if only one is removed.
fn alone(stats: &Stats, out: &mut String) {
    let mut rows: Vec<(usize, &Row, u64)> = stats
        .snapshots
        .iter()
        .enumerate()
        .filter_map(|(number, row)| Some((number, row, row.freed?.bytes)))
        .filter(|(.., bytes)| *bytes > 0)
        .collect();
    if rows.is_empty() {
        if stats.snapshots.len() > 1 {
            out.push_str("<p>Removing any single snapshot frees nothing: all share their data with others.</p>\n");
        }
        return;
    }
    rows.sort_by_key(|(number, _, bytes)| (std::cmp::Reverse(*bytes), *number));
    let all = rows.len();
    let most = rows[0].2;
    let caption = match all {
        _ if all > SHOWN => format!("The {SHOWN} snapshots that free most if only one is removed"),
        _ => "What removing a single snapshot frees".into(),
    };
    let mut table = Table::new(&caption, &["Snapshot", "Taken", "#Frees alone", "Prune would keep it"]);
    for (number, row, bytes) in rows.into_iter().take(SHOWN) {
        let bound = row.freed.map_or(Bound::Exact, |freed| freed.bound);
        let kept = match &row.kept {
            None => String::new(),
            Some(kept) if kept.is_empty() => "no".into(),
            Some(kept) => text(&reasons(kept)),
        };
        table.row(
            "",
            &[
                format!("<a href=\"#s{number}\">{}</a>", text(&row.name)),
                when(row.local),
                format!("{}{}", bounded(bytes, bound), bar(bytes, most)),
                kept,
            ],
        );
    }
    *out += &table.finish();
    out.push_str(
        "<p class=\"hint\">Snapshots share data with each other, so removing several of them often frees more than the \
         sum of these figures.</p>\n",
    );
}
