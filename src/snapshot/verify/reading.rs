//! Reads files with different data, and reports each entry that has it. `content::hash::versions` reads even the shared
//! parts of different versions once.

use super::claim::{self, Claim};
use super::context::Context;
use super::results::Place;
use crate::content::hash::versions::{self, Version};
use crate::error::{Error, Result};
use std::os::fd::{AsFd as _, OwnedFd};

/// Files of at least this size, in bytes, are read by several threads each.
const LARGE: u64 = 16 << 20;
/// How many threads read a large file. One hashes while the other reads; the kernel's readahead keeps the device busy,
/// also while neither has a processor.
const THREADS: usize = 2;

/// Files of one path, each with other data. Their places are in progress until they are read.
#[derive(Default)]
pub(super) struct Reading(Vec<Same>);

/// Files with the same data.
struct Same {
    file: OwnedFd,
    size: u64,
    place: Place,
    claims: Vec<Claim>,
}

impl Same {
    fn version(&self) -> Version<'_> {
        Version {
            file: self.file.as_fd(),
            size: self.size,
            space: self.place.space(),
            claim: self.claims[0].hash,
            holders: self.claims.len() as u64,
        }
    }
}

impl Reading {
    /// How many files are open.
    pub(super) fn files(&self) -> usize {
        self.0.len()
    }

    /// The size of the largest file.
    pub(super) fn largest(&self) -> u64 {
        self.0.iter().map(|same| same.size).max().unwrap_or(0)
    }

    /// How many threads read it, unless the user chose a number.
    pub(super) fn threads(&self) -> usize {
        if self.largest() < LARGE { 1 } else { THREADS }
    }

    /// Adds a claim to the files with this data.
    ///
    /// # Errors
    /// The claim, if there are none.
    pub(super) fn add(&mut self, place: &Place, claim: Claim) -> std::result::Result<(), Claim> {
        match self.0.iter_mut().find(|same| same.place == *place) {
            Some(same) => {
                same.claims.push(claim);
                Ok(())
            }
            None => Err(claim),
        }
    }

    /// Adds the first file with this data.
    pub(super) fn begin(&mut self, place: Place, file: OwnedFd, claim: Claim) {
        self.0.push(Same { file, size: claim.size, place, claims: vec![claim] });
    }

    /// Reads the files.
    ///
    /// # Errors
    /// If the run should stop.
    pub(super) fn read(self, context: &Context<'_>) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let threads = if self.largest() < LARGE { 1 } else { context.options.threads.unwrap_or(THREADS) };
        let versions: Vec<_> = self.0.iter().map(Same::version).collect();
        let hashed = versions::hash(&versions, threads, context.monitor);
        let Ok((digests, read)) = hashed else {
            // Only the monitor ends it.
            self.0.iter().for_each(|same| context.results.give_up(&same.place));
            return Err(Error::interrupted());
        };
        context.read_bytes.add(read);
        for (same, digest) in self.0.iter().zip(digests) {
            context.results.put(same.place, digest);
            same.claims.iter().for_each(|claim| claim::report(context, claim, digest));
        }
        Ok(())
    }
}
