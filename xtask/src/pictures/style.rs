//! The common parts of the pictures: the document, fonts, colours by class, numbers.

use svg::Document;
use svg::node::Text as Words;
use svg::node::element::{Description, Element, Path, Rectangle, Style, Text, Title};

/// Fonts for texts. Nothing is loaded, so each reader has one of them.
pub(crate) const SANS: &str = "system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif";
/// Fonts of equal width.
pub(crate) const MONO: &str = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace";

/// Colours in the reader's light or dark mode, as `pleach fiemap --svg` has them.
const RULES: &str = "
.paper{fill:#fcfdfe}.title{font-size:17px;font-weight:600;fill:#1d242b}.dim{fill:#5f6b75}.mono{font-size:13px}
.grid{stroke:#dde3e8;stroke-width:1}.line{stroke:#98a4af;stroke-width:1.5;fill:none}
.trees{fill:#c3ccd4}.disk{fill:#1f7fb8}
.before{fill:#e69f00}.between{fill:#a98fd8}.after{fill:#2fb591}.number{fill:#14191e;font-weight:700;text-anchor:middle}
.end{text-anchor:end}.middle{text-anchor:middle}.strong{font-weight:600}
@media (prefers-color-scheme:dark){
text{fill:#c4ccd4}.title{fill:#eef2f5}.dim{fill:#98a4af}.paper{fill:#14181d}.grid{stroke:#2b333b}.line{stroke:#6b7680}
.trees{fill:#5d6873}.disk{fill:#56b4e9}
}
";

/// An empty picture with a title and a description for people who do not see it.
pub(crate) fn document(width: f64, height: f64, title: &str, description: &str) -> Document {
    let document = Document::new().set("viewBox", (0, 0, width, height)).set("width", width).set("height", height);
    let document = document.set("role", "img").set("aria-labelledby", "title description");
    document
        .add(Title::new(title).set("id", "title"))
        .add(Description::new().set("id", "description").add(Words::new(description)))
}

/// A picture with the colours above, and its title at the top.
pub(crate) fn chart(width: f64, height: f64, title: &str, description: &str) -> Document {
    let rules = format!("text{{font-family:{SANS};font-size:13px;fill:#3c4650}}.mono{{font-family:{MONO}}}{RULES}");
    let paper = Rectangle::new().set("class", "paper").set("width", width).set("height", height);
    let document = document(width, height, title, description).add(Style::new(rules)).add(paper);
    document.add(text(24.0, 36.0, "title", title))
}

/// A line of text.
pub(crate) fn text(x: f64, y: f64, class: &str, text: &str) -> Element {
    inline(Text::new(text).set("class", class).set("x", round(x)).set("y", round(y)))
}

/// The element of a text without the line breaks that `Text` writes around its words.
pub(crate) fn inline(text: Text) -> Element {
    text.into()
}

/// A filled area.
pub(crate) fn area(x: f64, y: f64, width: f64, height: f64, class: &str) -> Rectangle {
    let area = Rectangle::new().set("class", class).set("x", round(x)).set("y", round(y));
    area.set("width", round(width)).set("height", round(height))
}

/// A path with this description.
pub(crate) fn path(path: &str) -> Path {
    Path::new().set("d", path)
}

/// A number with two digits behind the point at most.
pub(crate) fn round(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// A size for people.
pub(crate) fn size(bytes: u64) -> String {
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    if mebibytes >= 1024.0 { format!("{:.1} GiB", mebibytes / 1024.0) } else { format!("{mebibytes:.0} MiB") }
}
