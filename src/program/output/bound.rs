//! How exact a figure is, for people and for scripts.

use crate::extents::bound::Bound;

/// The word in JSON.
pub(super) fn name(bound: Bound) -> &'static str {
    match bound {
        Bound::Exact => "exact",
        Bound::AtLeast => "at_least",
        Bound::AtMost => "at_most",
        Bound::About => "about",
    }
}

/// The words before a figure, followed by a space.
pub(super) fn words(bound: Bound) -> &'static str {
    match bound {
        Bound::Exact => "",
        Bound::AtLeast => "at least ",
        Bound::AtMost => "at most ",
        Bound::About => "about ",
    }
}
