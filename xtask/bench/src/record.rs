//! The end of each case of a bench: its figures are printed, and recorded if requested. `results` has the files.

use crate::machine::{self, Machine};
use crate::report;
use crate::results::{self, Case, Row};
use crate::runner::{Measured, Plan};
use anyhow::Result;

/// A bench's description of a case, without its figures.
pub(crate) struct About<'a> {
    /// The question's identifier.
    pub(crate) question: &'static str,
    pub(crate) title: String,
    pub(crate) sizes: &'a str,
    pub(crate) checked: &'a str,
}

/// Prints a case, and records it if requested.
pub(crate) fn finish(about: About<'_>, plan: &Plan, rows: &[Measured], save: bool) -> Result<()> {
    let row = |row: &Measured| Row {
        name: row.name.clone(),
        role: row.role,
        version: row.version.clone(),
        figures: row.spreads(),
    };
    let case = Case {
        title: about.title,
        date: machine::today()?,
        machine: Machine::here(),
        sizes: about.sizes.into(),
        rounds: plan.rounds,
        checked: about.checked.into(),
        contenders: rows.iter().map(row).collect(),
    };
    println!("\n{}: {}\n\n{}", about.question, case.title, report::full_table(&case));
    if save {
        let path = results::save(about.question, case)?;
        println!("recorded in {}; `cargo xtask bench report` writes the page", path.display());
    }
    Ok(())
}
