//! Pairs of files: the bytes that each two files have in common, summed over all groups that contain both. Only for a
//! limited number of files, since the number of pairs grows with their square.

use super::found::{Amount, Pair};
use super::holdings::FileId;
use super::sets::Sets;
use super::sweep::Visitor;
use std::cmp::Reverse;
use std::collections::HashMap;

/// The second sweep.
pub(super) struct Pairing {
    /// The number of files that each file is linked with.
    webs: Vec<u32>,
    limit: u32,
    /// The address at which each present file began.
    since: Vec<u64>,
    pairs: HashMap<[u32; 2], Amount>,
}

impl Pairing {
    pub(super) fn new(sets: &mut Sets, files: usize, limit: u32) -> Self {
        Pairing { webs: sets.web_sizes(), limit, since: vec![0; files], pairs: HashMap::new() }
    }

    /// The number of files that are linked with too many files.
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

    /// All files that are present together anywhere belong to one web, so checking one file is enough.
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
                // A file that ended where the other began was never present together with it.
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
