//! `--map`: files drawn in the terminal, one line each, all to one scale.
//!
//! Each character represents a part of the file. Shared parts show the letter of their group. With colours they also
//! have the group's colour, and only the beginning of the group shows the letter, which keeps the map quiet to the eye.

use super::sharing::{SharingReport, letter};
use super::terminal::Style;
use crate::extents::picture::{Cell, Class, GROUPS, Layout, Row, label, shorten, ticks};
use crate::util::text::{counted, size};
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr as _;

/// The maximum number of files drawn.
pub(crate) const ROWS: usize = 500;

/// The capabilities of the terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// The width in columns.
    pub(crate) width: usize,
    pub(crate) colours: bool,
    /// Whether the terminal shows characters beyond ASCII.
    pub(crate) unicode: bool,
}

/// The columns of a line: name, bar, size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    name: usize,
    /// The width of the longest bar, in characters.
    pub(crate) bar: usize,
    size: usize,
}

impl Columns {
    /// The columns for names and sizes of the files in a terminal of this width.
    pub(crate) fn of<'a>(
        names: impl Iterator<Item = &'a str>,
        sizes: impl Iterator<Item = u64>,
        width: usize,
    ) -> Columns {
        let width = width.max(20);
        let size = sizes.map(|bytes| size(bytes).width() + 2).max().unwrap_or(0);
        // On a narrow terminal the bar matters more than the size.
        let size = if width < 50 { 0 } else { size };
        let name = names.map(|name| name.width()).max().unwrap_or(0).min(width / 3);
        let gap = if name > 0 { 2 } else { 0 };
        Columns { name, bar: width - name - gap - size, size }
    }

    fn margin(self) -> usize {
        if self.name > 0 { self.name + 2 } else { 0 }
    }
}

/// The colours of the groups among the 256 of a terminal: eight that colour-blind eyes can distinguish too, lighter
/// ones, and darker ones under white letters.
const COLOURS: [u8; GROUPS] =
    [75, 214, 36, 175, 69, 208, 227, 141, 153, 222, 115, 218, 147, 216, 229, 183, 25, 136, 29, 132, 61, 130, 142, 97];
const FIRST_DARK: usize = 16;
const OTHER_COLOUR: u8 = 180;

/// The lines of the map.
pub(crate) fn lines(report: &SharingReport<'_>, layout: &Layout, columns: Columns, look: Look) -> Vec<String> {
    let mut lines = Vec::new();
    if !report.common().is_empty() {
        lines.push(Style::Bold.paint(&look.fitting(report.common()), look.colours).into_owned());
    }
    let axis = axis(layout, columns);
    lines.push(Style::Dim.paint(axis.trim_end(), look.colours).into_owned());
    for (n, row) in layout.rows.iter().enumerate() {
        lines.push(line(report.name(n), row, columns, look));
    }
    if layout.omitted_rows > 0 {
        lines.push(format!("and {}, not drawn", counted(layout.omitted_rows as u64, "more file")));
    }
    lines.push(String::new());
    legend(report, layout, look, &mut lines);
    lines
}

impl Look {
    /// The text, no wider than the terminal, without characters that the terminal cannot show.
    fn fitting(&self, text: &str) -> String {
        self.plain(&shorten(text, self.width))
    }

    fn plain(&self, text: &str) -> String {
        if self.unicode { text.to_string() } else { text.replace('…', "~") }
    }

    /// The character for a cell of this class: either the whole cell has the class, or most of it.
    fn glyph(&self, class: Class, is_all: bool) -> char {
        let [all, most] = match class {
            Class::Group(group) => {
                let letter = letter(usize::from(group)).unwrap_or('*');
                [letter, letter.to_ascii_lowercase()]
            }
            Class::OtherGroup => ['*', '*'],
            Class::Data if self.unicode => ['█', '▓'],
            Class::Data => ['#', '%'],
            Class::Unwritten if self.unicode => ['░', '░'],
            Class::Unwritten => ['-', '-'],
            Class::Inline => ['=', '='],
            Class::Unplaced => ['?', '?'],
            Class::Hole if self.unicode => ['·', ':'],
            Class::Hole => ['.', ':'],
        };
        if is_all { all } else { most }
    }
}

/// The code for the colour of a class.
fn code(class: Class) -> String {
    match class {
        Class::Group(group) => {
            let letter = if usize::from(group) < FIRST_DARK { 16 } else { 231 };
            format!("38;5;{letter};48;5;{}", COLOURS[usize::from(group) % GROUPS])
        }
        Class::OtherGroup => format!("38;5;16;48;5;{OTHER_COLOUR}"),
        Class::Data => "38;5;245".into(),
        Class::Unwritten | Class::Inline => "38;5;110".into(),
        Class::Unplaced => "1;31".into(),
        Class::Hole => "2".into(),
    }
}

fn axis(layout: &Layout, columns: Columns) -> String {
    let mut axis = " ".repeat(columns.margin());
    let place = |at: u64| (at as u128 * columns.bar as u128 / u128::from(layout.longest)) as usize;
    for at in ticks(layout.longest, (columns.bar / 14).max(1)) {
        let (column, label) = (columns.margin() + place(at), format!("|{}", label(at)));
        let fits = column >= axis.width() && column + label.width() <= columns.margin() + columns.bar;
        if fits {
            let gap = column - axis.width();
            let _ = write!(axis, "{:gap$}{label}", "");
        }
    }
    axis
}

fn line(name: &str, row: &Row, columns: Columns, look: Look) -> String {
    let name = look.plain(&shorten(name, columns.name));
    let (padding, margin) = (columns.name - name.width().min(columns.name), columns.margin() - columns.name);
    let mut line = format!("{name}{:1$}", "", padding + margin);
    bar(&row.cells, look, &mut line);
    if columns.size > 0 {
        let padding = columns.bar - row.cells.len().min(columns.bar);
        let _ = write!(line, "{:padding$}{:>2$}", "", size(row.size), columns.size);
    }
    line
}

fn bar(cells: &[Cell], look: Look, line: &mut String) {
    let mains = cells.iter().filter_map(Cell::main).collect::<Vec<_>>();
    for run in mains.chunk_by(|a, b| a.0 == b.0) {
        let class = run[0].0;
        let is_group = matches!(class, Class::Group(_));
        let glyph = |(n, (class, is_all)): (usize, &(Class, bool))| {
            let is_plain = look.colours && is_group && n > 0 && *is_all;
            if is_plain { ' ' } else { look.glyph(*class, *is_all) }
        };
        let text: String = run.iter().enumerate().map(glyph).collect();
        paint(&text, class, look, line);
    }
}

fn paint(text: &str, class: Class, look: Look, line: &mut String) {
    let _ = match look.colours {
        true => write!(line, "\x1b[{}m{text}\x1b[0m", code(class)),
        false => write!(line, "{text}"),
    };
}

fn legend(report: &SharingReport<'_>, layout: &Layout, look: Look, lines: &mut Vec<String>) {
    let entry = |class: Class, text: &str| {
        let mut line = String::new();
        paint(&look.glyph(class, true).to_string(), class, look, &mut line);
        let text = look.plain(&shorten(text, look.width.max(20) - 3));
        line + "  " + &text
    };
    for (n, group) in report.sharing().groups.iter().enumerate().take(GROUPS) {
        if layout.shows(Class::of_group(n)) {
            let size = report.size_of(group);
            let members = report.members(group, look.width.saturating_sub(size.width() + 5).max(10));
            lines.push(entry(Class::of_group(n), &format!("{size}: {members}")));
        }
    }
    if let Some(others) = report.others().filter(|_| layout.shows(Class::OtherGroup)) {
        lines.push(entry(Class::OtherGroup, &others));
    }
    for (class, words) in [
        (Class::Data, "data that no other of these files holds"),
        (Class::Unwritten, "allocated, never written"),
        (Class::Inline, "inline, beside the metadata"),
        (Class::Unplaced, "not yet on the disk, or at a place unknown"),
        (Class::Hole, "hole"),
    ] {
        if layout.shows(class) {
            lines.push(entry(class, words));
        }
    }
    let cells = || layout.rows.iter().flat_map(|row| &row.cells);
    if let Some(cell) = layout.rows.iter().max_by_key(|row| row.cells.len()).and_then(|row| row.cells.first()) {
        lines.push(look.fitting(&format!("one character: {}", size(cell.end - cell.start))));
    }
    if cells().any(|cell| cell.main().is_some_and(|(_, is_all)| !is_all)) {
        let [data, hole] = [Class::Data, Class::Hole].map(|class| look.glyph(class, false));
        lines.push(look.fitting(&format!("a small letter, {data} or {hole}  where not all of it is the same")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extents::extent::{Extent, ExtentFlags};
    use crate::extents::picture::{self, Names, Sketch};
    use crate::extents::sharing::{self, Holdings};
    use crate::fs::filesystem::Id;
    use crate::monitor::Silent;
    use std::path::{Path, PathBuf};

    const MIB: u64 = 1 << 20;

    fn drawn(names: &[&str], look: Look) -> Vec<String> {
        let extent = |logical: u64, physical: u64, length: u64, flags: ExtentFlags| {
            Extent::from_kernel(logical * MIB, physical * MIB, length * MIB, flags.0)
        };
        let plain = ExtentFlags::default();
        let files = [
            vec![extent(0, 0, 40, plain), extent(48, 200, 16, ExtentFlags::UNWRITTEN)],
            vec![extent(0, 0, 17, plain), extent(17, 500, 3, plain), extent(20, 20, 12, plain)],
            vec![Extent::from_kernel(0, 0, 100, ExtentFlags::DATA_INLINE.0)],
        ];
        let (mut sketch, mut holdings) = (Sketch::new(10), Holdings::default());
        let sizes = [64 * MIB, 32 * MIB, 100];
        for ((name, size), extents) in names.iter().zip(sizes).zip(&files) {
            let file = holdings.begin(Some(Id::Device(1).into()));
            sketch.begin(Path::new(name), size);
            for extent in extents {
                holdings.add(file, extent);
                sketch.add(extent);
            }
        }
        let paths: Vec<_> = names.iter().map(PathBuf::from).collect();
        let sharing = sharing::find(holdings, &sharing::Options::default(), &Silent).unwrap();
        let names = Names::of(&paths.iter().map(PathBuf::as_path).collect::<Vec<_>>());
        let columns = Columns::of(names.names.iter().map(String::as_str), sizes.into_iter(), look.width);
        let options = picture::Options { cells: columns.bar, rows: 10, spans: 0, bands: 0 };
        let layout = picture::lay_out(&sketch, &sharing, &options, &Silent).unwrap();
        lines(&SharingReport::new(&sharing, &paths), &layout, columns, look)
    }

    #[test]
    fn the_map_reads_without_colour() {
        let look = Look { width: 60, colours: false, unicode: true };
        let lines = drawn(&["/d/one", "/d/two", "/d/tiny"], look);
        let expected = "\
/d/
      |0                    |32 MiB
one   AAAAAAAAAAAa█▓AAAAAAAA█████▓·····░░░░░░░░░░░  64.0 MiB
two   AAAAAAAAAAAa█▓AAAAAAAA                        32.0 MiB
tiny  =                                                100 B

A  29.0 MiB in 2 files: one, two
█  data that no other of these files holds
░  allocated, never written
=  inline, beside the metadata
·  hole
one character: 1.5 MiB
a small letter, ▓ or :  where not all of it is the same";
        assert_eq!(lines.join("\n"), expected);
        let ascii = drawn(&["/d/one", "/d/two", "/d/tiny"], Look { unicode: false, ..look });
        assert!(ascii.iter().all(|line| line.is_ascii()), "{ascii:#?}");
    }

    #[test]
    fn the_map_fits_any_width() {
        let long = "/d/ein-sehr-langer-name-日本語日本語日本語日本語日本語日本語日本語-am-ende";
        for width in [0, 20, 37, 49, 50, 80, 120, 300] {
            for line in drawn(&["/d/one", long, "/d/tiny"], Look { width, colours: false, unicode: true }) {
                assert!(line.width() <= width.max(20), "{width}: {line}");
            }
        }
    }

    #[test]
    fn colours_change_no_place() {
        let look = Look { width: 80, colours: false, unicode: true };
        let files = ["/d/one", "/d/two", "/d/tiny"];
        let (plain, coloured) = (drawn(&files, look), drawn(&files, Look { colours: true, ..look }));
        for (plain, coloured) in plain.iter().zip(coloured) {
            let mut stripped = String::new();
            for (n, part) in coloured.split("\x1b[").enumerate() {
                stripped += if n == 0 { part } else { part.split_once('m').unwrap().1 };
            }
            assert_eq!(plain.width(), stripped.width());
        }
    }
}
