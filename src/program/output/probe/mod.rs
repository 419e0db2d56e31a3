//! The capabilities of a filesystem: a table for people, objects for scripts.

mod answers;
mod bench;

use super::Output;
use super::table::{Align, Cell, Table};
use super::terminal::Style;
use crate::probe::{self, Item, Stats};
use crate::util::text::{self, count};
use answers::{Value, worded};
use serde::{Serialize, Serializer};

const COLUMNS: [(&str, Align); 3] = [("", Align::Left), ("found", Align::Left), ("what it means", Align::Left)];

#[derive(Serialize)]
struct ItemLine<'a> {
    r#type: &'static str,
    item: &'a str,
    value: Json<'a>,
    means: &'a str,
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    command: &'static str,
    items: u64,
    open: u64,
    errors: u64,
}

/// A value for scripts; `null` if the question stayed open.
struct Json<'a>(&'a Value);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Flag(yes) => serializer.serialize_bool(*yes),
            Value::Number(number) | Value::Bytes(number) => serializer.serialize_u64(*number),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Open => serializer.serialize_none(),
        }
    }
}

/// Shows the answers, and the measurements if there are any.
pub(crate) fn show(output: &Output, stats: &Stats, bench: Option<&probe::bench::Stats>) {
    if output.is_json() {
        for Item { name, answer } in &stats.items {
            let (value, means) = worded(answer);
            output.json(&ItemLine { r#type: "probe", item: name, value: Json(&value), means: &means });
        }
        if let Some(bench) = bench {
            bench::lines(output, bench);
        }
        let items = stats.items.len() as u64;
        return output.json(&Summary {
            r#type: "summary",
            command: "probe",
            items,
            open: stats.open,
            errors: stats.open,
        });
    }
    let mut table = Table::new(output, &COLUMNS);
    for Item { name, answer } in &stats.items {
        let (value, means) = worded(answer);
        let value = match value {
            Value::Flag(true) => Cell::styled("yes", Style::Green),
            Value::Flag(false) => "no".into(),
            Value::Number(number) => count(number).into(),
            Value::Bytes(bytes) => text::size(bytes).into(),
            Value::Text(text) => text.into(),
            Value::Open => Cell::styled("?", Style::Yellow),
        };
        table.row(vec![name.replace('_', " ").into(), value, Cell::prose(&means)]);
    }
    table.finish();
    if let Some(bench) = bench {
        bench::show(output, bench);
    }
}
