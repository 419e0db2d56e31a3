//! Spans: the exact ranges of a row, while they are few.

use super::class::{Class, Span};

/// The shared ranges of a row, collected in any order.
#[derive(Debug)]
pub(super) struct Spans {
    shared: Vec<Span>,
    limit: usize,
    is_full: bool,
}

impl Spans {
    pub(super) fn new(runs: &[Span], limit: usize) -> Self {
        Spans { shared: Vec::new(), limit, is_full: runs.len() > limit }
    }

    /// Adds a shared range.
    pub(super) fn put(&mut self, span: Span) {
        self.is_full |= self.shared.len() >= self.limit;
        if !self.is_full {
            self.shared.push(span);
        }
    }

    /// The row from its beginning to its end: the runs in order, overlaid by the shared ranges, with holes between.
    /// `None` if there are too many spans.
    pub(super) fn finish(mut self, runs: &[Span], end: u64) -> Option<Vec<Span>> {
        if self.is_full {
            return None;
        }
        self.shared.sort_by_key(|span| span.start);
        let mut row = Row::default();
        let mut shared = self.shared.into_iter().peekable();
        for run in runs {
            while let Some(span) = shared.next_if(|span| span.start < run.end) {
                row.fill(span.start, run);
                row.push(Span { start: span.start.max(run.start), ..span });
            }
            row.fill(run.end, run);
        }
        row.push(Span { start: row.end, end, class: Class::Hole });
        (row.spans.len() <= self.limit).then_some(row.spans)
    }
}

#[derive(Default)]
struct Row {
    spans: Vec<Span>,
    end: u64,
}

impl Row {
    /// Adds the part of a run up to `to` that is not yet in the row, and the hole before it.
    fn fill(&mut self, to: u64, run: &Span) {
        self.push(Span { start: self.end, end: run.start.min(to), class: Class::Hole });
        self.push(Span { start: run.start, end: run.end.min(to), class: run.class });
    }

    fn push(&mut self, span: Span) {
        let start = span.start.max(self.end);
        if start >= span.end {
            return;
        }
        self.end = span.end;
        match self.spans.last_mut() {
            Some(last) if last.class == span.class && last.end == start => last.end = span.end,
            _ => self.spans.push(Span { start, ..span }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(start: u64, end: u64, class: Class) -> Span {
        Span { start, end, class }
    }

    proptest! {
        #[test]
        fn spans_are_the_classes_of_the_bytes(
            runs in proptest::collection::vec((0..5u64, 1..20u64, any::<bool>()), 0..8),
            shared in proptest::collection::vec((0..100u64, 1..20u64, 0..3u8), 0..6),
            tail in 0..5u64,
        ) {
            let mut bytes = Vec::new();
            let mut spans = Vec::new();
            for (gap, length, is_data) in runs {
                let class = if is_data { Class::Data } else { Class::Unwritten };
                bytes.extend((0..gap).map(|_| Class::Hole));
                spans.push(span(bytes.len() as u64, bytes.len() as u64 + length, class));
                bytes.extend((0..length).map(|_| class));
            }
            bytes.extend((0..tail).map(|_| Class::Hole));
            let mut all = Spans::new(&spans, 1000);
            // As sharing reports them: within the ranges that the file holds, and never two at one place.
            let mut taken = vec![false; bytes.len()];
            for (start, length, group) in shared {
                let place = start as usize..(start + length) as usize;
                let run = spans.iter().any(|run| run.start <= start && start + length <= run.end);
                if run && !taken[place.clone()].contains(&true) {
                    taken[place.clone()].fill(true);
                    bytes[place].fill(Class::Group(group));
                    all.put(span(start, start + length, Class::Group(group)));
                }
            }
            let row = all.finish(&spans, bytes.len() as u64).unwrap();
            let told: Vec<_> = row.iter().flat_map(|span| (span.start..span.end).map(|_| span.class)).collect();
            prop_assert_eq!(told, bytes);
            prop_assert!(row.windows(2).all(|pair| pair[0].class != pair[1].class && pair[0].end == pair[1].start));
        }
    }
}
