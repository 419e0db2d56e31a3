//! The section `[hooks]`: commands that run before and after the work.

use super::fields::Fields;
use super::show::{Shown, Shows};
use super::values;
use std::time::Duration;

/// A program and its arguments. No shell is involved.
pub(crate) type Command = Vec<String>;

/// The section `[hooks]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hooks {
    /// Before the work. If one fails, nothing else is done.
    pub(crate) before: Vec<Command>,
    /// After work without failures.
    pub(crate) after: Vec<Command>,
    /// After everything else, if anything failed.
    pub(crate) failed: Vec<Command>,
    /// Last, in any case.
    pub(crate) finally: Vec<Command>,
    /// How long each of them may take.
    pub(crate) timeout: Duration,
}

impl Default for Hooks {
    fn default() -> Self {
        let none = Vec::new;
        Hooks { before: none(), after: none(), failed: none(), finally: none(), timeout: Duration::from_secs(600) }
    }
}

impl Hooks {
    pub(super) fn read(fields: &mut Fields<'_>) -> Hooks {
        Hooks {
            before: fields.or("before", Vec::new(), values::commands),
            after: fields.or("after", Vec::new(), values::commands),
            failed: fields.or("failed", Vec::new(), values::commands),
            finally: fields.or("finally", Vec::new(), values::commands),
            timeout: fields.or("timeout", Hooks::default().timeout, values::duration),
        }
    }

    pub(super) fn show(&self) -> Shown {
        let lists = |commands: &[Command]| Shows::List(commands.iter().map(|command| command.clone().into()).collect());
        vec![
            ("before", lists(&self.before)),
            ("after", lists(&self.after)),
            ("failed", lists(&self.failed)),
            ("finally", lists(&self.finally)),
            ("timeout", values::duration_text(self.timeout).into()),
        ]
    }
}
