//! A run: a range of a file with bytes that were also found elsewhere. Pure.

/// Where the same bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The bytes are zeros: any hole has them.
    Zeros,
    /// In a file, from this offset on.
    File {
        /// The number of the file.
        file: u32,
        /// The offset of the first byte.
        offset: u64,
    },
}

impl Source {
    /// The place that is `by` bytes further on.
    pub(super) fn advanced(self, by: u64) -> Source {
        match self {
            Source::Zeros => Source::Zeros,
            Source::File { file, offset } => Source::File { file, offset: offset + by },
        }
    }
}

/// A range of the file that is being read, and an equal range elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Where the same bytes are; if in the same file, then always further ahead.
    pub(super) source: Source,
    /// Where it begins in the file.
    pub(super) start: u64,
    /// How long it is.
    pub(super) length: u64,
}

impl Run {
    /// The same equal ranges, seen from the other file: that file, and its run with its source in `file`. `None` if
    /// there is no other file.
    pub(super) fn turned(self, file: u32) -> Option<(u32, Run)> {
        match self.source {
            Source::File { file: other, offset } if other != file => {
                let source = Source::File { file, offset: self.start };
                Some((other, Run { source, start: offset, length: self.length }))
            }
            _ => None,
        }
    }
}

/// The least amount of repetitive data to keep. It is constant, so that a second run finds nothing more to do.
const KEPT: u64 = 256 << 10;

/// Splits a run of `file` with overlapping source and destination into runs that do not overlap. Any other run is
/// returned unchanged.
///
/// A run that begins `shift` bytes behind its source and is longer than that is data with the period `shift`. Its
/// beginning, a multiple of the period, stays. The rest is shared with that beginning piece by piece, so that no block
/// gets as many references as the file has blocks.
pub(super) fn disjoint(run: Run, file: u32, min_run: u64) -> impl Iterator<Item = Run> {
    let (mut kept, mut at, end) = (run.source, run.start, run.start + run.length);
    let mut step = run.length;
    if let Source::File { file: source, offset } = run.source
        && source == file
        && run.start.saturating_sub(offset) < run.length
    {
        let period = (run.start - offset).max(1);
        step = period * KEPT.max(min_run).div_ceil(period);
        kept = Source::File { file, offset };
        at = offset + step;
    }
    std::iter::from_fn(move || {
        let length = step.min(end.checked_sub(at)?);
        let run = Run { source: kept, start: at, length };
        at += length.max(1);
        (length > 0 && (length >= min_run || length == step)).then_some(run)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn overlapping_runs_are_cut_into_true_ones(
            offset in 0..20_u64, shift in 1..70_000_u64, length in 1..1_000_000_u64, min_run in 1..500_000_u64
        ) {
            // Data with this period, as the run requires.
            let data: Vec<u8> = (0..offset + shift + length).map(|n| (n % shift * 31 / 7) as u8).collect();
            let run = Run { source: Source::File { file: 7, offset }, start: offset + shift, length };
            let mut shared = 0;
            let mut last = run.start;
            for cut in disjoint(run, 7, min_run) {
                let Source::File { file: 7, offset: from } = cut.source else { panic!() };
                prop_assert!(from + cut.length <= cut.start, "apart");
                prop_assert!(cut.start >= last && cut.start + cut.length <= run.start + length);
                let same = |from: u64| &data[from as usize..(from + cut.length) as usize];
                prop_assert_eq!(same(from), same(cut.start));
                shared += cut.length;
                last = cut.start + cut.length;
            }
            if shift < length {
                let kept = KEPT.max(min_run).next_multiple_of(shift) + min_run;
                prop_assert!(shared + kept >= length, "{} of {}", shared, length);
                // A second run keeps the same beginning.
                let again = Run { length: length.min(KEPT.max(min_run)) - shift.min(length), ..run };
                prop_assert_eq!(disjoint(again, 7, min_run).filter(|_| again.length > shift).count(), 0);
            } else {
                prop_assert_eq!(shared, length);
            }
            prop_assert!(disjoint(run, 8, min_run).eq([run]), "another file's run stays whole");
        }
    }
}
