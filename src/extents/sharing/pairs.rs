//! Pairs of files: what each two have in common, in sum over all groups that both are in. Only among files that are few
//! enough, since pairs are as many as the square of the files.

use super::found::{Amount, Pair};
use super::holdings::FileId;
use super::sets::Sets;
use super::sweep::Visitor;
use std::cmp::Reverse;
use std::collections::HashMap;

/// The second sweep.
pub(super) struct Pairing {
    /// How many files each is linked with.
    webs: Vec<u32>,
    limit: u32,
    /// Since which address each file is there.
    since: Vec<u64>,
    pairs: HashMap<[u32; 2], Amount>,
}

impl Pairing {
    pub(super) fn new(sets: &mut Sets, files: usize, limit: u32) -> Self {
        Pairing { webs: sets.web_sizes(), limit, since: vec![0; files], pairs: HashMap::new() }
    }

    /// How many files are linked with too many.
    pub(super) fn unpaired_files(&self) -> u32 {
        self.webs.iter().filter(|web| **web > self.limit).count() as u32
    }

    /// The pairs, the largest first.
    pub(super) fn finish(self) -> Vec<Pair> {
        let pair = |([a, b], amount): ([u32; 2], Amount)| Pair { files: [FileId(a), FileId(b)], amount };
        let mut pairs: Vec<_> = self.pairs.into_iter().map(pair).collect();
        pairs.sort_unstable_by_key(|pair| (Reverse(pair.amount.total()), pair.files));
        pairs
    }

    /// All files that are somewhere together belong to one web, so one file is enough.
    fn is_paired(&self, file: u32) -> bool {
        self.webs[file as usize] <= self.limit
    }

    fn amount(&mut self, a: u32, b: u32) -> &mut Amount {
        self.pairs.entry([a.min(b), a.max(b)]).or_default()
    }
}

impl Visitor for Pairing {
    fn entered(&mut self, file: u32, at: u64, _present: &[u32]) {
        self.since[file as usize] = at;
    }

    fn left(&mut self, file: u32, at: u64, present: &[u32]) {
        if self.is_paired(file) {
            for other in present {
                let since = self.since[file as usize].max(self.since[*other as usize]);
                // Two that came and went at the same address were never together.
                if at > since {
                    let amount = self.amount(file, *other);
                    amount.bytes = amount.bytes.saturating_add(at - since);
                }
            }
        }
    }

    fn doubled(&mut self, file: u32, bytes: u64) {
        if bytes > 0 {
            let amount = self.amount(file, file);
            amount.bytes = amount.bytes.saturating_add(bytes);
        }
    }

    fn token(&mut self, holders: &[(u32, u64)]) {
        if !self.is_paired(holders[0].0) {
            return;
        }
        for (i, (a, of_a)) in holders.iter().enumerate() {
            for (b, of_b) in &holders[i + 1..] {
                let amount = self.amount(*a, *b);
                amount.encoded_bytes = amount.encoded_bytes.saturating_add((*of_a).min(*of_b));
            }
        }
    }
}
