//! The index: pages of hashes and places, found by the first bits of a hash (extendible hashing). A full page is split
//! in two, and nothing else moves.

use crate::fs::pread::{read_exact, write_all};
use crate::fs::spill::Spill;
use rustix::io::{Errno, Result};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The number of words in a page: how many bits of the hash select the page, how many entries it has, and the entries.
const WORDS: usize = 512;
const PAGE: usize = WORDS * 8;
/// The number of entries in a page, two words each.
const ENTRIES: usize = (WORDS - 2) / 2;
/// With more bits, the directory of pages would be larger than memory.
const MOST_BITS: u32 = 31;

type Page = [u64; WORDS];

#[derive(Debug)]
pub(super) struct Index {
    /// The page for each prefix of a hash.
    directory: Vec<u32>,
    /// The length of a prefix, in bits.
    bits: u32,
    in_memory: Vec<Box<Page>>,
    /// The most pages in memory.
    most: usize,
    pages: usize,
    file: Option<OwnedFd>,
    spill: Arc<Spill>,
}

impl Index {
    pub(super) fn new(spill: Arc<Spill>, memory: usize) -> Index {
        let most = memory / PAGE;
        Index { directory: Vec::new(), bits: 0, in_memory: Vec::new(), most, pages: 0, file: None, spill }
    }

    pub(super) fn pages(&self) -> usize {
        self.pages
    }

    /// The places in a page.
    pub(super) fn places(&self, page: usize) -> Result<Vec<u64>> {
        self.with(page, |page| entries(page).map(|[_, place]| *place).collect())
    }

    /// The places of a hash.
    pub(super) fn find(&self, hash: u64) -> Result<Vec<u64>> {
        let Some(page) = self.page_of(hash) else { return Ok(Vec::new()) };
        self.with(page, |page| entries(page).filter(|[own, _]| *own == hash).map(|[_, place]| *place).collect())
    }

    pub(super) fn insert(&mut self, hash: u64, place: u64) -> Result<()> {
        if self.pages == 0 {
            let page = self.allocate(&[0; WORDS])?;
            self.directory = vec![page];
        }
        loop {
            let Some(number) = self.page_of(hash) else { return Err(Errno::OVERFLOW) };
            let mut page = self.with(number, |page| *page)?;
            let count = page[1] as usize;
            if count < ENTRIES {
                page[2 + 2 * count] = hash;
                page[3 + 2 * count] = place;
                page[1] += 1;
                return self.write(number, &page);
            }
            self.split(number, &page, hash)?;
        }
    }

    pub(super) fn remove(&mut self, hash: u64, place: u64) -> Result<()> {
        let Some(number) = self.page_of(hash) else { return Ok(()) };
        let mut page = self.with(number, |page| *page)?;
        let found = entries(&page).position(|entry| *entry == [hash, place]);
        if let Some(at) = found {
            let last = page[1] as usize - 1;
            page.copy_within(2 + 2 * last..4 + 2 * last, 2 + 2 * at);
            page[1] -= 1;
            self.write(number, &page)?;
        }
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        (self.directory, self.in_memory) = (Vec::new(), Vec::new());
        (self.bits, self.pages, self.file) = (0, 0, None);
    }

    /// The memory used, in bytes.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.in_memory.len() * PAGE + self.directory.capacity() * 4
    }

    fn page_of(&self, hash: u64) -> Option<usize> {
        let at = if self.bits == 0 { 0 } else { hash >> (u64::BITS - self.bits) };
        self.directory.get(at as usize).map(|page| *page as usize)
    }

    /// Splits a full page in two. `hash` is a hash that belongs in the page.
    fn split(&mut self, number: usize, page: &Page, hash: u64) -> Result<()> {
        let own_bits = page[0] as u32;
        if own_bits == self.bits {
            if self.bits == MOST_BITS {
                return Err(Errno::OVERFLOW);
            }
            self.directory = self.directory.iter().flat_map(|page| [*page, *page]).collect();
            self.bits += 1;
        }
        let bit = u64::BITS - 1 - own_bits;
        let mut halves = [[0; WORDS]; 2];
        for [hash, place] in entries(page) {
            let half = &mut halves[(hash >> bit & 1) as usize];
            let count = half[1] as usize;
            half[2 + 2 * count] = *hash;
            half[3 + 2 * count] = *place;
            half[1] += 1;
        }
        halves.iter_mut().for_each(|half| half[0] = u64::from(own_bits + 1));
        let new = self.allocate(&halves[1])?;
        self.write(number, &halves[0])?;
        // The prefixes of the old page are consecutive. The second half of them now belongs to the new page.
        let span = 1_usize << (self.bits - own_bits);
        let at = (hash >> (u64::BITS - self.bits)) as usize;
        let first = at / span * span;
        for entry in self.directory.iter_mut().take(first + span).skip(first + span / 2) {
            *entry = new;
        }
        Ok(())
    }

    fn allocate(&mut self, page: &Page) -> Result<u32> {
        let number = u32::try_from(self.pages).map_err(|_| Errno::OVERFLOW)?;
        if self.in_memory.len() < self.most {
            self.in_memory.push(Box::new(*page));
        } else {
            if self.file.is_none() {
                self.file = Some(self.spill.file()?);
            }
            self.write(self.pages, page)?;
        }
        self.pages += 1;
        Ok(number)
    }

    fn with<R>(&self, number: usize, look: impl FnOnce(&Page) -> R) -> Result<R> {
        if let Some(page) = self.in_memory.get(number) {
            return Ok(look(page));
        }
        let file = self.file.as_ref().ok_or(Errno::IO)?;
        let mut bytes = [0; PAGE];
        read_exact(file, &mut bytes, self.offset(number))?;
        let mut page = [0; WORDS];
        for (word, bytes) in page.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        if page[1] > ENTRIES as u64 { Err(Errno::IO) } else { Ok(look(&page)) }
    }

    fn write(&mut self, number: usize, page: &Page) -> Result<()> {
        if let Some(place) = self.in_memory.get_mut(number) {
            **place = *page;
            return Ok(());
        }
        let mut bytes = [0; PAGE];
        for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(page) {
            *bytes = word.to_le_bytes();
        }
        write_all(self.file.as_ref().ok_or(Errno::IO)?, &bytes, self.offset(number))
    }

    fn offset(&self, number: usize) -> u64 {
        (number.saturating_sub(self.most) * PAGE) as u64
    }
}

fn entries(page: &Page) -> impl Iterator<Item = &[u64; 2]> {
    let count = (page[1] as usize).min(ENTRIES);
    page[2..2 + 2 * count].as_chunks::<2>().0.iter()
}
