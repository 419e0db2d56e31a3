//! Elements of the page. Text from outside enters it only through these functions, which escape it.

use crate::program::output::svg::escape;
use crate::program::output::{bound, prune};
use crate::snapshot::prune::Reason;
use crate::snapshot::report::Local;
use crate::usage::Bound;
use crate::util::text::{self, count, size};
use std::path::Path;

/// Text.
pub(super) fn text(text: &str) -> String {
    escape(text)
}

/// A path as code. A long one may break at its slashes.
pub(super) fn path(path: &Path) -> String {
    format!("<code class=\"path\">{}</code>", breakable(&text::path(path)))
}

/// A name or a path, with places where a line may break.
pub(super) fn breakable(name: &str) -> String {
    text(name).replace('/', "/<wbr>")
}

/// A size, with the exact bytes as its title.
pub(super) fn bytes(bytes: u64) -> String {
    format!("<data value=\"{bytes}\" title=\"{} bytes\">{}</data>", count(bytes), size(bytes).replace(' ', "&#160;"))
}

/// A size that may be only a bound.
pub(super) fn bounded(figure: u64, bound: Bound) -> String {
    format!("{}{}", bound::words(bound), bytes(figure))
}

/// A number, and its noun.
pub(super) fn counted(number: u64, noun: &str) -> String {
    text(&text::counted(number, noun)).replacen(' ', "&#160;", 1)
}

/// A size in few characters, for narrow places: `0`, `12K`, `1.5G`.
pub(super) fn short(bytes: u64) -> String {
    let size = size(bytes);
    let (number, unit) = size.split_once(' ').unwrap_or((&size, ""));
    let whole = number.split('.').next().unwrap_or(number);
    // Three characters of a number are enough.
    let number = if whole.len() > 1 || number.ends_with(".0") { whole } else { number };
    if bytes == 0 { "0".into() } else { format!("{number}{}", &unit[..1]) }
}

/// A moment, as `2026-11-24 02:00`.
pub(super) fn moment(local: Local) -> String {
    format!("{} {:02}:{:02}", day(local), local.hour, local.minute)
}

/// A moment in a table, which stays on one line.
pub(super) fn when(local: Local) -> String {
    format!("<span class=\"when\">{}</span>", moment(local))
}

/// A day, as `2026-11-24`.
pub(super) fn day(local: Local) -> String {
    format!("{:04}-{:02}-{:02}", local.year, local.month, local.day)
}

/// A bar that is this part of its cell, behind a figure.
pub(super) fn bar(part: u64, whole: u64) -> String {
    let percent = if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 };
    format!("<span class=\"bar\" style=\"width:{percent:.1}%\"></span>")
}

/// The beginning of a section.
pub(super) fn section(id: &str, heading: &str) -> String {
    format!("<section id=\"{id}\" aria-labelledby=\"{id}-h\">\n<h2 id=\"{id}-h\">{}</h2>\n", text(heading))
}

/// Why a prune would keep a snapshot, in words.
pub(super) fn reasons(reasons: &[Reason]) -> String {
    reasons.iter().map(prune::words).collect::<Vec<_>>().join(", ")
}

/// A table. The titles of its columns are repeated in each cell for narrow screens. A title that begins with `#` is of
/// a column of figures.
pub(super) struct Table {
    titles: Vec<&'static str>,
    out: String,
}

impl Table {
    /// A table with this caption.
    pub(super) fn new(caption: &str, titles: &[&'static str]) -> Self {
        let mut out = format!(
            "<table class=\"list\" role=\"table\">\n<caption>{caption}</caption>\n<thead role=\"rowgroup\">\
             <tr role=\"row\">"
        );
        for title in titles {
            let (class, title) = kind(title);
            out += &format!("<th scope=\"col\" role=\"columnheader\"{class}>{title}</th>");
        }
        out += "</tr></thead>\n<tbody role=\"rowgroup\">\n";
        Table { titles: titles.to_vec(), out }
    }

    /// Adds a row: the attributes of its element, and its cells. The first one is its header.
    pub(super) fn row(&mut self, attributes: &str, cells: &[String]) {
        self.out += &format!("<tr role=\"row\"{attributes}>");
        for (number, (title, cell)) in self.titles.iter().zip(cells).enumerate() {
            let (class, title) = kind(title);
            self.out += &match number {
                0 => format!("<th scope=\"row\" role=\"rowheader\">{cell}</th>"),
                _ => format!("<td role=\"cell\"{class} data-label=\"{title}\">{cell}</td>"),
            };
        }
        self.out += "</tr>\n";
    }

    /// The table.
    pub(super) fn finish(self) -> String {
        self.out + "</tbody>\n</table>\n"
    }
}

fn kind(title: &'static str) -> (&'static str, &'static str) {
    title.strip_prefix('#').map_or(("", title), |title| (" class=\"n\"", title))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_sizes_have_at_most_four_characters() {
        let shown = [0, 5, 1023, 1024, 1536, 12 << 10, 1000 << 20, 3 << 30, u64::MAX].map(short);
        assert_eq!(shown, ["0", "5B", "1023B", "1K", "1.5K", "12K", "1000M", "3G", "16E"]);
    }

    #[test]
    fn names_are_only_text() {
        let hostile = Path::new("/a</script><img src=x onerror=alert(1)>\u{202e}\n\x1b");
        let shown = path(hostile);
        assert!(!shown.contains("<img") && !shown.contains("</script") && !shown.contains('\u{202e}'), "{shown}");
        assert!(!shown.contains(char::is_control), "{shown}");
    }
}
