//! How exact a figure is, if it was counted from extents.

/// How exact a figure is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bound {
    /// The figure is exact.
    #[default]
    Exact,
    /// The true figure may be larger.
    AtLeast,
    /// The true figure may be smaller.
    AtMost,
    /// The true figure may be larger or smaller.
    About,
}

impl Bound {
    /// The bound of a figure with these doubts.
    pub(crate) fn of(is_at_least: bool, is_at_most: bool) -> Bound {
        match (is_at_least, is_at_most) {
            (false, false) => Bound::Exact,
            (true, false) => Bound::AtLeast,
            (false, true) => Bound::AtMost,
            (true, true) => Bound::About,
        }
    }

    /// The bound of a sum of figures with these bounds.
    pub(crate) fn and(self, other: Bound) -> Bound {
        let is = |bound: Bound| [self, other].into_iter().any(|either| either == bound || either == Bound::About);
        Bound::of(is(Bound::AtLeast), is(Bound::AtMost))
    }
}
