//! The values. Each is in a place of its size class and begins with its length. Free places are reused.

use crate::fs::pread::{read_exact, read_full, write_all};
use crate::fs::spill::Spill;
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The size of a length, in bytes.
const LENGTH: usize = 4;
/// How many bytes of a place are read first: most values are shorter.
const FIRST: usize = 512;

/// Free places by size class.
type FreePlaces = HashMap<u32, Vec<u64>>;

#[derive(Debug)]
pub(super) struct Values {
    /// The places before `most`.
    memory: Vec<u8>,
    most: usize,
    /// The total size of all places, in bytes.
    length: u64,
    free: FreePlaces,
    file: Option<OwnedFd>,
    spill: Arc<Spill>,
}

impl Values {
    pub(super) fn new(spill: Arc<Spill>, memory: usize) -> Values {
        Values { memory: Vec::new(), most: memory, length: 0, free: FreePlaces::new(), file: None, spill }
    }

    /// Adds a value and returns its place.
    pub(super) fn add(&mut self, value: &[u8]) -> Result<u64> {
        let class = class(value.len())?;
        let place = match self.free.get_mut(&class).and_then(Vec::pop) {
            Some(place) => place,
            None => self.allocate(class as usize)?,
        };
        self.write(place, value)?;
        Ok(place)
    }

    /// Replaces the value at a place and returns the place of the new value.
    pub(super) fn replace(&mut self, place: u64, value: &[u8]) -> Result<u64> {
        if class(self.length_at(place)?)? == class(value.len())? {
            self.write(place, value)?;
            return Ok(place);
        }
        self.free(place)?;
        self.add(value)
    }

    /// Frees the place of a value.
    pub(super) fn free(&mut self, place: u64) -> Result<()> {
        let class = class(self.length_at(place)?)?;
        self.free.entry(class).or_default().push(place);
        Ok(())
    }

    /// Reads a value.
    pub(super) fn read<R>(&self, place: u64, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        if place < self.most as u64 {
            let at = place as usize;
            let length = self.length_at(place)?;
            return self.memory.get(at + LENGTH..at + LENGTH + length).map(look).ok_or(Errno::IO);
        }
        let file = self.file.as_ref().ok_or(Errno::IO)?;
        let at = place - self.most as u64;
        let mut first = [0; FIRST];
        let got = read_full(file, &mut first, at)?;
        let length = first.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize);
        if let Some(value) = first[..got].get(LENGTH..LENGTH + length) {
            return Ok(look(value));
        }
        // A length beyond the written data means damage, and must not decide the size of an allocation.
        if length as u64 > self.length {
            return Err(Errno::IO);
        }
        let mut value = vec![0; length];
        read_exact(file, &mut value, at + LENGTH as u64)?;
        Ok(look(&value))
    }

    pub(super) fn clear(&mut self) {
        (self.memory, self.free) = (Vec::new(), FreePlaces::new());
        (self.length, self.file) = (0, None);
    }

    /// The memory of the values, in bytes, without the list of free places.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.memory.len()
    }

    #[cfg(test)]
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    fn allocate(&mut self, size: usize) -> Result<u64> {
        let most = self.most as u64;
        let is_in_memory = self.length + size as u64 <= most;
        if !is_in_memory {
            if self.file.is_none() {
                self.file = Some(self.spill.file()?);
            }
            // A place is completely in memory or completely in the file.
            self.length = self.length.max(most);
        }
        let place = self.length;
        self.length += size as u64;
        if is_in_memory {
            self.memory.resize(self.length as usize, 0);
        }
        Ok(place)
    }

    fn length_at(&self, place: u64) -> Result<usize> {
        let mut bytes = [0; LENGTH];
        match place < self.most as u64 {
            true => {
                let there = self.memory.get(place as usize..place as usize + LENGTH).ok_or(Errno::IO)?;
                bytes.copy_from_slice(there);
            }
            false => read_exact(self.file.as_ref().ok_or(Errno::IO)?, &mut bytes, place - self.most as u64)?,
        }
        Ok(u32::from_le_bytes(bytes) as usize)
    }

    fn write(&mut self, place: u64, value: &[u8]) -> Result<()> {
        let length = u32::try_from(value.len()).map_err(|_| Errno::OVERFLOW)?.to_le_bytes();
        if place < self.most as u64 {
            let at = place as usize;
            let there = self.memory.get_mut(at..at + LENGTH + value.len()).ok_or(Errno::IO)?;
            let (head, body) = there.split_at_mut(LENGTH);
            head.copy_from_slice(&length);
            body.copy_from_slice(value);
            return Ok(());
        }
        let file = self.file.as_ref().ok_or(Errno::IO)?;
        write_all(file, &[&length[..], value].concat(), place - self.most as u64)
    }
}

/// The size of the place for a value of this length.
fn class(length: usize) -> Result<u32> {
    let size = length + LENGTH;
    let step = if size <= 1024 { 32 } else { 512 };
    u32::try_from(size.next_multiple_of(step)).map_err(|_| Errno::OVERFLOW)
}
