//! Copies a file's data with the chosen engine, and falls back to the next engine if that one stops.

use super::batches::Batches;
use super::choose::{self, Facts, Plan};
use super::engine::Engine;
use super::engines::{self, Halt, Job, LAST_RESORT, Progress};
use super::file_copy::FileCopy;
use super::strategy::Strategy;
use super::types::{Copied, CopyError, Request};
use super::{endless, reserved};
use crate::content::hash::{self, Hashed, StreamHash};
use crate::fs::pread;
use crate::fs::status::Status;
use crate::monitor::{Amount, Event, Monitor};
use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// Copies the data, for callers that already tried to clone the file. Otherwise like [`content`](super::content()).
pub fn data(copy: &FileCopy<'_>, request: &Request) -> Result<Copied, CopyError> {
    if copy.status.size == 0 {
        return endless::copy(copy, request);
    }
    let FileCopy { source, status, destination, strategy, monitor } = *copy;
    let hashed = request.hashed && hash::is_hashed(source, status).map_err(CopyError::Source)?;
    let request = &Request { hashed, ..*request };
    let plan = choose::plan(request.engine, &Facts::of(copy, request));
    let mut job = Job {
        source,
        destination,
        direct: plan.direct,
        monitor,
        hash: (request.hashed && engines::capabilities(plan.engine).hashes).then(StreamHash::default),
        progress: Progress::new(monitor),
    };
    let mut work = Work { strategy, dev: status.dev, plan, engine: plan.engine, by: [0; Engine::ALL.len()] };
    let copied = work.copy(&mut job, status)?;
    let mut copied = Copied { engine: work.busiest(), ..copied };
    if request.hashed {
        let size = copied.size();
        copied.hash = match job.hash {
            Some(hash) => Some(hash.finish_at(size, monitor).map_err(CopyError::Source)?),
            None => {
                let hashed = hash_of(destination, size, monitor)?;
                copied.read += hashed.read;
                hashed.hash
            }
        };
    }
    Ok(copied)
}

/// The hash of the copy.
pub(super) fn hash_of(destination: BorrowedFd<'_>, size: u64, monitor: &dyn Monitor) -> Result<Hashed, CopyError> {
    hash::file(destination, size, monitor).map_err(|errno| match errno {
        Errno::CANCELED => CopyError::Source(errno),
        _ => CopyError::Destination(errno),
    })
}

/// The copy of one file.
struct Work<'a> {
    strategy: &'a Strategy,
    /// The device of the source.
    dev: u64,
    plan: Plan,
    engine: Engine,
    /// Bytes by engine.
    by: [u64; Engine::ALL.len()],
}

impl Work<'_> {
    fn copy(&mut self, job: &mut Job<'_>, status: &Status) -> Result<Copied, CopyError> {
        let size = status.size;
        let mut holes = 0;
        let mut is_first = true;
        // When a write extends a file, XFS reserves more than is written: space that stays in the holes, and behind the
        // end for minutes. Such writes also exclude each other. Setting the size of an empty file is cheap; if the file
        // has dirty pages, XFS writes them out and waits.
        let mut is_sized = size > engines::capabilities(self.engine).longest_write;
        if is_sized {
            ftruncate(job.destination, size).map_err(CopyError::Destination)?;
        }
        let mut ended = size;
        for batch in Batches::of(job.source, size) {
            let batch = batch.map_err(CopyError::Source)?;
            // A file with holes is better assembled in the page cache.
            job.direct &= !is_first || batch.holes == 0;
            if batch.holes > 0 && !is_sized {
                ftruncate(job.destination, size).map_err(CopyError::Destination)?;
                is_sized = true;
            }
            if is_first && job.direct {
                reserve(job.destination, size)?;
            }
            is_first = false;
            self.engine = if batch.is_scattered() { self.plan.scattered } else { self.plan.engine };
            let goes_on = self.batch(job, &batch.data)?;
            if !goes_on {
                ended = job.progress.at;
                holes = ended - job.progress.data;
                break;
            }
            holes += batch.holes;
            job.monitor.advance(Amount { files: 0, bytes: batch.holes });
        }
        if ended != size && is_sized {
            ftruncate(job.destination, ended).map_err(CopyError::Destination)?;
        }
        let data = job.progress.data;
        if holes > 0 && ended == size {
            reserved::keep(job.source, status, data, job.destination)?;
        }
        Ok(Copied { data, holes, read: data, ..Copied::by(self.engine) })
    }

    /// Copies these ranges. Returns whether the source continues behind them.
    fn batch(&mut self, job: &mut Job<'_>, ranges: &[Range<u64>]) -> Result<bool, CopyError> {
        let mut rest = ranges.to_vec();
        while !rest.is_empty() {
            if !self.strategy.is_open(self.engine, self.dev) {
                self.fall_back(job, engines::next(self.engine));
                continue;
            }
            let before = job.progress.data;
            let result = engines::run(self.engine, job, &rest);
            let moved = job.progress.data - before;
            self.by[self.engine as usize] += moved;
            if moved > 0 {
                self.strategy.served(self.engine, self.dev);
            }
            match result {
                Ok(()) => return Ok(true),
                Err(Halt::Failed(error)) => return Err(error),
                Err(Halt::End) => {
                    let is_certain = engines::capabilities(self.engine).knows_end;
                    if is_certain || !has_more(job.source, job.progress.at, &rest) {
                        return Ok(false);
                    }
                    self.fall_back(job, LAST_RESORT);
                }
                // Plain reads and writes show the error and its side.
                Err(Halt::Unclear) => self.fall_back(job, LAST_RESORT),
                Err(Halt::Refused(errno)) => {
                    let next = engines::next(self.engine);
                    if self.strategy.refused(self.engine, self.dev, errno) {
                        let (engine, why) = (self.engine, super::refusals::meaning(self.engine, errno));
                        let (engine, next) = (engine.to_string(), next.to_string());
                        job.monitor.event(Event::EngineRefused { engine: &engine, why, next: Some(&next) });
                    }
                    self.fall_back(job, next);
                }
            }
            rest = beyond(&rest, job.progress.at);
        }
        Ok(true)
    }

    /// Continues with another engine. A hash that was computed so far may have bytes that were not written, so the copy
    /// is read for its hash.
    fn fall_back(&mut self, job: &mut Job<'_>, engine: Engine) {
        job.hash = None;
        self.engine = engine;
    }

    /// The engine that copied most of the data; for a file without data, the engine that would have.
    fn busiest(&self) -> Engine {
        let most = Engine::ALL.into_iter().max_by_key(|engine| self.by[*engine as usize]);
        most.filter(|engine| self.by[*engine as usize] > 0).unwrap_or(self.engine)
    }
}

/// Reserves all the space for a file that will be written past the page cache, a buffer at a time. Otherwise each
/// buffer would be an allocation of its own, and the extents of parallel copies would alternate. Fails early if the
/// disk is full.
fn reserve(destination: BorrowedFd<'_>, size: u64) -> Result<(), CopyError> {
    match fallocate(destination, FallocateFlags::KEEP_SIZE, 0, size) {
        Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(CopyError::Destination(errno)),
        // It can still be written.
        _ => Ok(()),
    }
}

/// The parts of these ranges at or behind an offset.
fn beyond(ranges: &[Range<u64>], at: u64) -> Vec<Range<u64>> {
    let rest = ranges.iter().filter(|range| range.end > at);
    rest.map(|range| range.start.max(at)..range.end).collect()
}

/// Whether the source can be read where an engine reported its end.
fn has_more(source: BorrowedFd<'_>, at: u64, ranges: &[Range<u64>]) -> bool {
    let Some(next) = beyond(ranges, at).first().map(|range| range.start) else { return false };
    !matches!(pread::read_full(source, &mut [0], next), Ok(0))
}

impl Facts {
    fn of(copy: &FileCopy<'_>, request: &Request) -> Facts {
        Facts { size: copy.status.size, destination: copy.strategy.kind(copy.destination), hashed: request.hashed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::FileExt as _;

    #[test]
    fn an_end_that_an_engine_met_is_one_only_if_nothing_can_be_read_there() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 100], 0).unwrap();
        let has_more = |at, ranges: &[Range<u64>]| has_more(file.as_fd(), at, ranges);
        assert!(has_more(0, &[0..50, 60..4096]));
        assert!(has_more(99, &[0..50, 60..4096]));
        assert!(!has_more(100, &[0..50, 60..4096]));
        assert!(!has_more(10, &[0..10, 200..300]));
    }

    #[test]
    fn an_engine_goes_on_where_the_one_before_it_stopped() {
        let ranges = [0..10, 20..30, 40..50];
        assert_eq!(beyond(&ranges, 0), ranges);
        assert_eq!(beyond(&ranges, 10), [20..30, 40..50]);
        assert_eq!(beyond(&ranges, 25), [25..30, 40..50]);
        assert_eq!(beyond(&ranges, 50), []);
    }
}
