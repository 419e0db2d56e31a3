//! Sorted references, grouped by their extents. Pure, no I/O.

use super::references::{Reference, extent_of};

/// Sorted references in parts of about `share`. No part splits the references of one extent.
pub(super) fn cut(mut sorted: &[Reference], share: usize) -> Vec<&[Reference]> {
    let mut parts = Vec::new();
    while let Some(last) = sorted.get(share) {
        let end = sorted.partition_point(|reference| extent_of(reference) <= extent_of(last));
        let (part, rest) = sorted.split_at(end);
        parts.push(part);
        sorted = rest;
    }
    parts.extend((!sorted.is_empty()).then_some(sorted));
    parts
}

/// The references of a path to the extents of one part of `all`.
pub(super) fn within<'a>(path: &'a [Reference], all: &[Reference]) -> Groups<'a> {
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return Groups::new(&[]) };
    let start = path.partition_point(|reference| extent_of(reference) < extent_of(first));
    let end = path.partition_point(|reference| extent_of(reference) <= extent_of(last));
    Groups::new(&path[start..end])
}

/// Sorted references, one extent at a time.
pub(super) struct Groups<'a> {
    rest: &'a [Reference],
}

impl<'a> Groups<'a> {
    pub(super) fn new(sorted: &'a [Reference]) -> Self {
        Groups { rest: sorted }
    }

    pub(super) fn bounds(&self) -> Option<(u64, u64)> {
        Some((extent_of(self.rest.first()?), extent_of(self.rest.last()?)))
    }

    pub(super) fn first(&self) -> Option<u64> {
        self.rest.first().map(extent_of)
    }

    pub(super) fn next(&mut self) -> &'a [Reference] {
        let first = self.first();
        let length = self.rest.iter().take_while(|reference| Some(extent_of(reference)) == first).count();
        let (group, rest) = self.rest.split_at(length);
        self.rest = rest;
        group
    }

    /// The references to this extent. Extents must be requested in ascending order.
    pub(super) fn take(&mut self, extent: u64) -> &'a [Reference] {
        if self.first() == Some(extent) { self.next() } else { &[] }
    }
}
