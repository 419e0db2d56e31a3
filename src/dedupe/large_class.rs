//! A class that is larger than a chunk: files of one size that do not fit into memory with all facts about them.
//!
//! The facts are in an unnamed file. In memory is one row for each file. The rows are sorted by the places of the
//! files, and then by their samples, so that equal files are found across the whole class.

use super::candidates::Class;
use super::catalogue::FileId;
use super::chunk::{FILES, Stage};
use super::entry::{Encoded, Entry, Key, LENGTH};
use super::facts::Member;
use super::run::add;
use super::sample::WHOLE;
use super::skip::Skip;
use super::survey;
use crate::fs::pread::{read_exact, write_all};
use crate::monitor::Amount;
use crate::util::bits::Bits;
use std::cmp::Reverse;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;

/// Shares the equal files of a class.
///
/// # Errors
/// If the temporary file cannot be written; then nothing was shared.
pub(super) fn share(stage: &Stage<'_, '_>, class: &Class) -> io::Result<()> {
    let count = stage.candidates.files(class).len();
    let mut large = LargeClass {
        stage,
        class,
        facts: stage.cache.spill()?.into(),
        samples: Vec::with_capacity(count),
        rows: Vec::with_capacity(count),
        follows: Bits::new(count),
        followed: Bits::new(count),
        changing: Bits::new(count),
        places: 0,
    };
    large.place()?;
    large.rows.sort_unstable();
    large.find_followers();
    large.sample();
    large.sort_by_samples();
    large.share_rows();
    Ok(())
}

/// A number (place or sample) and the position of a file in its class. 12 bytes, sorted by the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    number: [u32; 2],
    position: u32,
}

const _: () = assert!(size_of::<Row>() == 12);

impl Row {
    fn new(number: u64, position: usize) -> Row {
        Row { number: [(number >> 32) as u32, number as u32], position: position as u32 }
    }

    fn position(&self) -> usize {
        self.position as usize
    }
}

struct LargeClass<'s, 'a, 'r> {
    stage: &'s Stage<'a, 'r>,
    class: &'s Class,
    /// The facts about each file, as they were when its place was found.
    facts: File,
    /// The hash of each file's samples; 0: none.
    samples: Vec<u64>,
    rows: Vec<Row>,
    /// Files in the same place as an earlier file of the class.
    follows: Bits,
    /// The first file in each of these places.
    followed: Bits,
    /// Files that changed while they were sampled.
    changing: Bits,
    /// The number of different places.
    places: usize,
}

impl LargeClass<'_, '_, '_> {
    fn count(&self) -> usize {
        self.class.len()
    }

    /// Finds out where each file lies.
    fn place(&mut self) -> io::Result<()> {
        let stage = self.stage;
        for files in stage.candidates.files(self.class).chunks(FILES) {
            let mut members: Vec<_> = files.iter().map(|file| stage.cache.member(stage.run, *file)).collect();
            stage.place(&mut members);
            let at = self.samples.len();
            for (number, member) in members.iter().enumerate() {
                if !member.out {
                    self.rows.push(Row::new(member.facts.layout, at + number));
                }
                self.samples.push(member.facts.sample.map_or(0, NonZeroU64::get));
            }
            let records: Vec<_> = members.iter().map(encode).collect();
            write_all(&self.facts, records.as_flattened(), (at * LENGTH) as u64)?;
        }
        Ok(())
    }

    /// Finds the files that lie in the same place as another one, and counts them: they share all their data already.
    fn find_followers(&mut self) {
        let run = self.stage.run;
        for same in self.rows.chunk_by(|a, b| a.number == b.number) {
            self.places += 1;
            let Some((first, again)) = same.split_first().filter(|(_, again)| !again.is_empty()) else { continue };
            let leader = self.load(first.position());
            // A file without data on the disk shares none.
            if leader.facts.extents > 0 {
                add(&run.counters.already_shared, self.class.size * again.len() as u64);
            }
            run.set_standing(leader.file);
            self.followed.set(first.position());
            for row in again {
                self.follows.set(row.position());
                run.settle(self.file(row.position()));
            }
            // Facts known about one file hold for all files in the same place.
            let known = same.iter().map(|row| self.samples[row.position()]).find(|sample| *sample != 0);
            self.samples[first.position()] = known.unwrap_or(0);
        }
    }

    /// Reads samples of the first file in each place, in the order of the class, and keeps the facts about all
    /// files.
    fn sample(&mut self) {
        let stage = self.stage;
        for from in (0..self.count()).step_by(FILES) {
            let mut members = Vec::with_capacity(FILES);
            for position in from..self.count().min(from + FILES) {
                let mut member = self.load(position);
                member.facts.sample = NonZeroU64::new(self.samples[position]);
                members.push(member);
            }
            let is_wanted = |(number, member): &(usize, &mut [Member])| {
                self.places > 1
                    && !self.follows.has(from + number)
                    && member.iter().all(|member| !member.out && member.facts.sample.is_none())
            };
            let wanted = members.chunks_mut(1).enumerate().filter(is_wanted).map(|(_, member)| member).collect();
            stage.read_samples(wanted);
            for (number, member) in members.iter().enumerate() {
                self.samples[from + number] = member.facts.sample.map_or(0, NonZeroU64::get);
                if member.facts.changing {
                    self.changing.set(from + number);
                }
            }
            stage.keep(&members);
        }
    }

    /// Sorts the files by their samples, and forgets those that look like no file in another place.
    fn sort_by_samples(&mut self) {
        let mut rows = std::mem::take(&mut self.rows);
        for same in rows.chunk_by_mut(|a, b| a.number == b.number) {
            let first = same.first().map_or(0, |row| self.samples[row.position()]);
            let sample = if first == 0 { self.sample_follower(same) } else { first };
            same.iter_mut().for_each(|row| *row = Row::new(sample, row.position()));
        }
        self.samples = Vec::new();
        rows.sort_unstable();
        let mut kept = 0;
        let mut from = 0;
        while let Some(first) = rows.get(from).copied() {
            let length = rows[from..].iter().take_while(|row| row.number == first.number).count();
            let places = rows[from..from + length].iter().filter(|row| !self.follows.has(row.position())).count();
            if first.number != [0, 0] && places > 1 {
                rows.copy_within(from..from + length, kept);
                kept += length;
            }
            from += length;
        }
        rows.truncate(kept);
        let alone = (self.count() - kept) as u64;
        self.stage.run.monitor.advance(Amount { files: alone, bytes: alone.saturating_mul(self.class.size) });
        self.rows = rows;
    }

    /// The samples of another file in the same place, if the first one could not be read.
    fn sample_follower(&self, same: &[Row]) -> u64 {
        let run = self.stage.run;
        let sampled = same.iter().skip(1).take_while(|_| self.places > 1 && !run.is_over()).find_map(|row| {
            let mut member = self.load(row.position());
            survey::samples(run, &mut member);
            member.facts.sample
        });
        sampled.map_or(0, NonZeroU64::get)
    }

    /// Shares the files with equal samples, a bounded number at a time.
    fn share_rows(&self) {
        let run = self.stage.run;
        let mut waiting = Vec::new();
        for same in self.rows.chunk_by(|a, b| a.number == b.number) {
            if run.is_over() {
                return;
            }
            if same.len() > FILES && self.class.size <= WHOLE {
                self.share_many(same);
                continue;
            }
            if waiting.len() + same.len() > FILES {
                self.share_some(&waiting);
                waiting.clear();
            }
            waiting.extend_from_slice(same);
        }
        self.share_some(&waiting);
    }

    fn share_some(&self, rows: &[Row]) {
        let mut members: Vec<_> = rows.iter().map(|row| self.member(row)).collect();
        self.stage.share_members(&mut members, None);
    }

    /// Shares more files with equal samples than fit into a chunk. Their samples cover all of their data. One source is
    /// chosen for all of them, in the order of preference that `group` has.
    fn share_many(&self, rows: &[Row]) {
        let run = self.stage.run;
        let mut sources = [None, None];
        for row in rows {
            let Member { file, facts, .. } = self.load(row.position());
            let stays = facts.fixed || run.catalogue.subvolume(file).read_only;
            let followed = self.followed.has(row.position());
            let pinned = facts.shared && !followed && !self.follows.has(row.position());
            let merit = (stays, pinned, facts.encoded, Reverse(facts.extents), followed, Reverse(file));
            let best = &mut sources[usize::from(facts.nocow)];
            if best.as_ref().is_none_or(|(most, _)| merit > *most) {
                *best = Some((merit, *row));
            }
        }
        let is_mixed = sources.iter().all(Option::is_some);
        for (nocow, source) in [false, true].into_iter().zip(sources) {
            let Some((_, source)) = source else { continue };
            for part in rows.chunks(FILES) {
                let others = part.iter().filter(|row| **row != source);
                let members = std::iter::once(&source).chain(others).map(|row| self.member(row));
                let mut members: Vec<_> = members.filter(|member| member.facts.nocow == nocow).collect();
                if is_mixed && nocow {
                    members.iter().for_each(|member| run.record_skip(member.file, Skip::Nocow));
                }
                self.stage.share_members(&mut members, Some(self.file(source.position())));
            }
        }
    }

    /// A file with the facts about it.
    fn member(&self, row: &Row) -> Member {
        let mut member = self.load(row.position());
        let [high, low] = row.number.map(u64::from);
        member.facts.sample = NonZeroU64::new(high << 32 | low);
        member.facts.changing |= self.changing.has(row.position());
        member
    }

    fn file(&self, position: usize) -> FileId {
        self.stage.candidates.files(self.class)[position]
    }

    /// Reads the facts about a file as they were when its place was found.
    fn load(&self, position: usize) -> Member {
        let (mut record, file) = ([0; LENGTH], self.file(position));
        if let Err(errno) = read_exact(&self.facts, &mut record, (position * LENGTH) as u64) {
            self.stage.run.failed(file, "read back the facts about", errno);
            record[FLAGS] = OUT;
        }
        decode(&record, file)
    }
}

/// The flags of a member that are in no entry of a cache, in a byte that is 0 there.
const FLAGS: usize = 62;
const OUT: u8 = 1;
const CHANGING: u8 = 2;

/// A member in the form of an entry; the identity is in the key.
fn encode(member: &Member) -> Encoded {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&member.identity.get().to_le_bytes());
    let mut record = Entry { key: Key(key), facts: member.facts, age: 0 }.to_bytes();
    record[FLAGS] = if member.out { OUT } else { 0 } | if member.facts.changing { CHANGING } else { 0 };
    record
}

fn decode(record: &Encoded, file: FileId) -> Member {
    let Entry { key, mut facts, .. } = Entry::from_bytes(record);
    facts.changing = record[FLAGS] & CHANGING != 0;
    let identity = key.0.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let identity = NonZeroU64::new(identity).unwrap_or(NonZeroU64::MIN);
    Member { file, identity, facts, out: record[FLAGS] & OUT != 0 }
}
