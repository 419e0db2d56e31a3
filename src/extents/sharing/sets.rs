//! The sets of files that the first sweep finds, by their keys, and the bytes of each set.

use super::found::{Amount, FileSharing, Group};
use super::holdings::Packed;
use super::set_key::SetKey;
use super::sweep::{Segment, Visitor};
use std::collections::HashMap;

/// The bytes that each set has in common, and the sums of each file: the result of the first sweep.
#[derive(Debug)]
pub(super) struct Sets {
    indices: HashMap<SetKey, u32>,
    totals: Vec<Total>,
    /// The rank of each set, the largest first; those below `listed` are listed.
    ranks: Vec<u32>,
    listed: Vec<bool>,
    files: Vec<FileSharing>,
    /// A file that each file is linked with by sharing, or the file itself: a union-find forest.
    links: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Total {
    amount: Amount,
    holders: u64,
    files: u32,
}

impl Sets {
    pub(super) fn new(files: usize) -> Self {
        Sets {
            indices: HashMap::new(),
            totals: Vec::new(),
            ranks: Vec::new(),
            listed: Vec::new(),
            files: vec![FileSharing::default(); files],
            links: (0..files as u32).collect(),
        }
    }

    /// Orders the sets by the bytes they have in common. Lists the first sets with no more than `listed_holders`
    /// holders together. Returns their groups, with the files still unknown.
    pub(super) fn rank(&mut self, listed_holders: u64) -> Vec<Group> {
        let mut order: Vec<u32> = (0..self.totals.len() as u32).collect();
        order.sort_by_key(|set| std::cmp::Reverse(self.totals[*set as usize].amount.total()));
        self.ranks = vec![0; order.len()];
        let mut holders: u64 = 0;
        let mut groups = Vec::with_capacity(order.len());
        for (rank, set) in order.iter().enumerate() {
            let total = self.totals[*set as usize];
            self.ranks[*set as usize] = rank as u32;
            holders = holders.saturating_add(total.holders);
            self.listed.push(holders <= listed_holders);
            groups.push(Group { files: Vec::new(), file_count: total.files, amount: total.amount, ranges: 0 });
        }
        groups
    }

    /// The rank of a set.
    pub(super) fn rank_of(&self, key: SetKey) -> Option<usize> {
        let set = self.indices.get(&key)?;
        self.ranks.get(*set as usize).map(|rank| *rank as usize)
    }

    /// Whether the ranges of the set with this rank are listed.
    pub(super) fn is_listed(&self, rank: usize) -> bool {
        self.listed.get(rank).is_some_and(|listed| *listed)
    }

    /// The sums of each file.
    pub(super) fn files(&self) -> Vec<FileSharing> {
        self.files.clone()
    }

    /// The number of files linked with each file, itself included.
    pub(super) fn web_sizes(&mut self) -> Vec<u32> {
        let roots: Vec<u32> = (0..self.links.len() as u32).map(|file| self.root(file)).collect();
        let mut sizes = vec![0; roots.len()];
        roots.iter().for_each(|root| sizes[*root as usize] += 1);
        roots.iter().map(|root| sizes[*root as usize]).collect()
    }

    fn root(&mut self, mut file: u32) -> u32 {
        while self.links[file as usize] != file {
            let next = self.links[file as usize];
            self.links[file as usize] = self.links[next as usize];
            file = next;
        }
        file
    }

    fn link(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        // Link to the smaller number. With path halving the paths stay short enough.
        self.links[a.max(b) as usize] = a.min(b);
    }
}

impl Visitor for Sets {
    fn segment(&mut self, segment: &Segment<'_>) {
        let next = self.totals.len() as u32;
        let set = *self.indices.entry(segment.key).or_insert(next);
        if set == next {
            self.totals.push(Total { amount: Amount::default(), holders: 0, files: segment.files });
        }
        let total = &mut self.totals[set as usize];
        let bytes = if segment.is_encoded { &mut total.amount.encoded_bytes } else { &mut total.amount.bytes };
        *bytes = bytes.saturating_add(segment.length);
        total.holders += segment.places as u64;
    }

    fn entered(&mut self, file: u32, _at: u64, present: &[u32]) {
        if let Some(other) = present.first() {
            self.link(file, *other);
        }
    }

    fn ended(&mut self, piece: &Packed, shared: u64) {
        let file = &mut self.files[piece.by.file.number as usize];
        file.shared.bytes = file.shared.bytes.saturating_add(shared);
        if piece.by.file.is_shared {
            file.marked_only_bytes = file.marked_only_bytes.saturating_add(piece.length().saturating_sub(shared));
        }
    }

    fn token(&mut self, holders: &[(u32, u64)]) {
        for (file, bytes) in holders {
            let shared = &mut self.files[*file as usize].shared;
            shared.encoded_bytes = shared.encoded_bytes.saturating_add(*bytes);
            self.link(*file, holders[0].0);
        }
    }
}
