//! The section `[verify]`: how much of the repository each run verifies.

use super::fields::Fields;
use super::show::{Shown, unset};
use super::values;
use crate::snapshot::verify::Options;

/// The section `[verify]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verify {
    read: Option<f64>,
    quick: bool,
    sharing: bool,
}

impl Verify {
    pub(super) fn read(fields: &mut Fields<'_>) -> Verify {
        let verify = Verify {
            read: fields.optional("read", values::part),
            quick: fields.or("quick", false, values::flag),
            sharing: fields.or("sharing", false, values::flag),
        };
        if verify.quick && fields.has("read") {
            fields.refuse("[verify] has 'read' and 'quick', which reads nothing: remove one of them");
        }
        verify
    }

    pub(super) fn show(&self) -> Shown {
        vec![
            ("read", self.read.map_or_else(unset, Into::into)),
            ("quick", self.quick.into()),
            ("sharing", self.sharing.into()),
        ]
    }

    /// The options of the verification.
    pub(crate) fn options(&self, threads: Option<usize>) -> Options {
        Options { quick: self.quick, read: self.read, sharing: self.sharing, threads, ..Options::default() }
    }
}
