//! The section `[process]`: the priority of the run and of its hooks.

use super::fields::Fields;
use super::show::{Shown, unset};
use super::values;
use crate::sys::ioprio::IoPriority;

const IO: &[(&str, IoPriority)] = &[("idle", IoPriority::Idle), ("low", IoPriority::Low)];

/// The section `[process]`. A priority that is not set is not changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Process {
    /// As for nice(1): the higher, the less processor time.
    pub(crate) nice: Option<i32>,
    pub(crate) io: Option<IoPriority>,
}

impl Process {
    pub(super) fn read(fields: &mut Fields<'_>) -> Process {
        let nice = fields.optional("nice", |value| values::integer(value, -20..=19));
        Process {
            nice: nice.and_then(|nice| i32::try_from(nice).ok()),
            io: fields.optional("io", |value| values::choice(value, IO)),
        }
    }

    pub(super) fn show(&self) -> Shown {
        vec![
            ("nice", self.nice.map_or_else(unset, |nice| i64::from(nice).into())),
            ("io", self.io.map_or_else(unset, |io| values::word(IO, &io).into())),
        ]
    }
}
