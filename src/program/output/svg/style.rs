//! Colours and type. The colours of the first groups are near those of Okabe and Ito, which colour-blind eyes can
//! distinguish; further groups have lighter versions, then darker ones. Letters identify the groups too. The picture
//! follows the reader's light or dark mode; a viewer that does not support this shows the light one.

use crate::extents::picture::Class;
use std::fmt::Write as _;

/// The CSS class for a class of ranges.
pub(super) fn class(class: Class) -> String {
    match class {
        Class::Group(group) => format!("g{group}"),
        Class::OtherGroup => "go".into(),
        Class::Data => "data".into(),
        Class::Unwritten => "unwritten".into(),
        Class::Inline => "inline".into(),
        Class::Unplaced => "unplaced".into(),
        Class::Hole => "hole".into(),
    }
}

/// Draws the letter of a group, centred at this position.
pub(super) fn letter(group: u8, x: f64, y: f64, out: &mut String) {
    let light = if group < FIRST_DARK { "" } else { " light" };
    if let Some(letter) = crate::program::output::sharing::letter(usize::from(group)) {
        let _ = writeln!(out, "<text class=\"letter{light}\" x=\"{x:.1}\" y=\"{:.1}\">{letter}</text>", y + 4.3);
    }
}

/// The first of the darker colours.
const FIRST_DARK: u8 = 16;

/// The rules of the style, each for the elements in those that `scope` selects.
pub(super) fn rules(scope: &str) -> String {
    format!("{}@media (prefers-color-scheme:dark){{\n{}}}\n", scoped(RULES, scope), scoped(DARK, scope))
}

/// Patterns, for the definitions of a picture.
pub(super) fn patterns() -> String {
    PATTERNS.to_string()
}

/// Writes `scope` before each selector.
fn scoped(rules: &str, scope: &str) -> String {
    if scope.is_empty() {
        return rules.to_string();
    }
    let mut out = String::new();
    for rule in rules.split_inclusive('}') {
        let (selectors, body) = rule.trim_start().split_once('{').unwrap_or_default();
        if !selectors.is_empty() {
            let selectors: Vec<_> = selectors.split(',').map(|selector| format!("{scope} {selector}")).collect();
            let _ = writeln!(out, "{}{{{body}", selectors.join(","));
        }
    }
    out
}

const RULES: &str = "\
text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;font-size:12.5px;fill:#3c4650}
.mono,.title{font-family:ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace}
.mono{font-size:12px}
.title{font-size:17px;font-weight:600;fill:#1d242b}
.sub,.dim{fill:#6b7680}
.dim{font-size:11px}
.axis text{font-size:11px;fill:#6b7680;text-anchor:middle}
.axis path{stroke:#e3e8ed;stroke-width:1;fill:none}
.letter{font-size:12px;font-weight:700;text-anchor:middle;fill:#14191e;pointer-events:none}
.letter.light{fill:#fff}
.paper{fill:#fcfdfe}
.track{fill:#f4f6f8;stroke:#c3ccd4;stroke-width:1}
.frame{fill:none;stroke:#98a4af;stroke-width:1;pointer-events:none}
.hole{fill:#f4f6f8}
.data{fill:#b3bdc7}
.inline{fill:#8a7f9c}
.g0{fill:#56b4e9}.g1{fill:#e69f00}.g2{fill:#2fb591}.g3{fill:#d58fb6}\
.g4{fill:#5b7fd0}.g5{fill:#e0743a}.g6{fill:#f0e442}.g7{fill:#a98fd8}
.g8{fill:#b5def6}.g9{fill:#f6d38a}.g10{fill:#a6dfcd}.g11{fill:#f0cfe0}\
.g12{fill:#b9c9ee}.g13{fill:#f4c0a2}.g14{fill:#f8f2a8}.g15{fill:#d9cdf0}
.g16{fill:#1f7fb8}.g17{fill:#a86f00}.g18{fill:#12795d}.g19{fill:#a2577f}\
.g20{fill:#2f4f9e}.g21{fill:#a8481a}.g22{fill:#8f8410}.g23{fill:#6f4fb0}
.go{fill:#cdb79a}
.unwritten{fill:url(#unwritten)}.unplaced{fill:url(#unplaced)}
.band{fill-opacity:.34}
.band:hover{fill-opacity:.62}
.lines{stroke:#8794a0;stroke-width:1.4;fill:none}
.ground{fill:#fff}
";

const DARK: &str = "\
text{fill:#c4ccd4}.title{fill:#eef2f5}.sub,.dim,.axis text{fill:#8f9ba6}.letter{fill:#0d1115}.letter.light{fill:#fff}
.paper{fill:#14181d}.track,.hole{fill:#1b2027}.track{stroke:#3a444e}.frame{stroke:#56626d}.axis path{stroke:#252c34}
.data{fill:#5d6873}.inline{fill:#9d92b0}.lines{stroke:#7f8c98}.ground{fill:#20262d}
.band{fill-opacity:.3}.g6{fill:#ddd24a}
";

const PATTERNS: &str = "\
<pattern id=\"unwritten\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">\
<rect class=\"ground\" width=\"6\" height=\"6\"/><path class=\"lines\" d=\"M-1 7L7 -1M-1 1L1 -1M5 7L7 5\"/></pattern>
<pattern id=\"unplaced\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">\
<rect class=\"ground\" width=\"6\" height=\"6\"/><path class=\"lines\" d=\"M0 0L6 6M6 0L0 6\"/></pattern>
";
