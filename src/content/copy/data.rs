//! What a clone did not do: a file's data, copied by the engine that was chosen, and from where that one stops by the next.

use super::batches::Batches;
use super::choose::{self, Facts, Plan};
use super::content::{Copied, CopyError, Request};
use super::engine::Engine;
use super::engines::{self, Halt, HashTee, Job, Progress};
use super::reserved;
use super::strategy::Strategy;
use crate::content::hash::{self, Hashed};
use crate::fs::pread;
use crate::fs::status::Status;
use crate::monitor::{Amount, Event, Monitor};
use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// Copies the data of `source` into the empty file `destination`, for callers that have tried to clone it; otherwise as
/// [`content`](super::content).
pub fn data(
    source: BorrowedFd<'_>,
    status: &Status,
    destination: BorrowedFd<'_>,
    ladder: &Strategy,
    request: &Request,
    monitor: &dyn Monitor,
) -> Result<Copied, CopyError> {
    if status.size == 0 {
        return engines::endless::copy(source, status, destination, request, monitor);
    }
    let hashed = request.hashed && hash::is_hashed(source, status).map_err(CopyError::Source)?;
    let request = &Request { hashed, ..*request };
    let plan = choose::plan(request.engine, &Facts::of(status, ladder, destination, request));
    let mut job = Job {
        source,
        destination,
        direct: plan.direct,
        monitor,
        // The others never see the data.
        passing: (request.hashed && plan.engine == Engine::Buffered).then(HashTee::default),
        progress: Progress::new(monitor),
    };
    let mut work = Work { ladder, dev: status.dev, plan, engine: plan.engine, by: [0; Engine::ALL.len()] };
    let copied = work.copy(&mut job, status)?;
    let mut copied = Copied { engine: work.busiest(), ..copied };
    if request.hashed {
        let size = copied.size();
        copied.hash = match job.passing {
            Some(passing) => Some(passing.finish(size, monitor).map_err(CopyError::Source)?),
            None => {
                let hashed = hash_of(destination, size, monitor)?;
                copied.read += hashed.read;
                hashed.hash
            }
        };
    }
    Ok(copied)
}

/// The hash of what has come into the destination.
pub(super) fn hash_of(destination: BorrowedFd<'_>, size: u64, monitor: &dyn Monitor) -> Result<Hashed, CopyError> {
    hash::file(destination, size, monitor).map_err(|errno| match errno {
        Errno::CANCELED => CopyError::Source(errno),
        _ => CopyError::Destination(errno),
    })
}

/// One file on its way down the engines.
struct Work<'a> {
    ladder: &'a Strategy,
    /// Of the source.
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
        // Writing at the end of a file has XFS reserve more than is written. That would stay in the holes, and behind the
        // end for minutes; and writes at the end do not go side by side. Given to an empty file, a size costs little; to one
        // with dirty pages, it has XFS write them out and wait.
        let mut is_sized = size > one_write(self.engine);
        if is_sized {
            ftruncate(job.destination, size).map_err(CopyError::Destination)?;
        }
        let mut ended = size;
        for batch in Batches::of(job.source, size) {
            let batch = batch.map_err(CopyError::Source)?;
            // A file with holes is better put together in the page cache.
            job.direct &= !is_first || batch.holes == 0;
            if batch.holes > 0 && !is_sized {
                ftruncate(job.destination, size).map_err(CopyError::Destination)?;
                is_sized = true;
            }
            if is_first && job.direct {
                set_aside(job.destination, size)?;
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

    /// Copies these ranges; whether the source goes on behind them.
    fn batch(&mut self, job: &mut Job<'_>, ranges: &[Range<u64>]) -> Result<bool, CopyError> {
        let mut rest = ranges.to_vec();
        while !rest.is_empty() {
            if !self.ladder.is_open(self.engine, self.dev) {
                self.step(self.engine.next().unwrap_or(Engine::Buffered));
                continue;
            }
            let before = job.progress.data;
            let result = engines::run(self.engine, job, &rest);
            let moved = job.progress.data - before;
            self.by[self.engine as usize] += moved;
            if moved > 0 {
                self.ladder.served(self.engine, self.dev);
            }
            match result {
                Ok(()) => return Ok(true),
                Err(Halt::Failed(error)) => return Err(error),
                Err(Halt::End) => match self.engine {
                    Engine::Buffered => return Ok(false),
                    // The kernel's copying calls also say 0 of files in procfs and sysfs, where there is more.
                    _ if !has_more(job.source, job.progress.at, &rest) => return Ok(false),
                    _ => self.step(Engine::Buffered),
                },
                // What it means, and of which side, reads and writes of our own will tell.
                Err(Halt::Unclear) => self.step(Engine::Buffered),
                Err(Halt::Refused(errno)) => {
                    let next = self.engine.next().unwrap_or(Engine::Buffered);
                    if self.ladder.refused(self.engine, self.dev, errno) {
                        let (engine, why) = (self.engine, super::refusals::describe(self.engine, errno));
                        let (engine, next) = (engine.to_string(), next.to_string());
                        job.monitor.event(Event::EngineRefused { engine: &engine, why: &why, next: Some(&next) });
                    }
                    self.step(next);
                }
            }
            rest = beyond(&rest, job.progress.at);
        }
        Ok(true)
    }

    fn step(&mut self, engine: Engine) {
        self.engine = engine;
    }

    /// What did most of it; of a file without data, what would have.
    fn busiest(&self) -> Engine {
        let most = Engine::ALL.into_iter().max_by_key(|engine| self.by[*engine as usize]);
        most.filter(|engine| self.by[*engine as usize] > 0).unwrap_or(self.engine)
    }
}

/// How much an engine writes by one call of the kernel's own functions: nothing is reserved for a first write.
fn one_write(engine: Engine) -> u64 {
    match engine {
        Engine::Buffered => 1 << 20,
        _ => 64 << 10,
    }
}

/// Sets all the room aside for what is then written past the page cache, a buffer at a time: else each of them would be an
/// allocation of its own, and several copies side by side would lie in turn. A disk that is too small says so at once.
fn set_aside(destination: BorrowedFd<'_>, size: u64) -> Result<(), CopyError> {
    match fallocate(destination, FallocateFlags::KEEP_SIZE, 0, size) {
        Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(CopyError::Destination(errno)),
        // It can be written all the same.
        _ => Ok(()),
    }
}

/// What of these ranges lies at or behind an offset.
fn beyond(ranges: &[Range<u64>], at: u64) -> Vec<Range<u64>> {
    let rest = ranges.iter().filter(|range| range.end > at);
    rest.map(|range| range.start.max(at)..range.end).collect()
}

/// Whether the source can be read where an engine said that it ends.
fn has_more(source: BorrowedFd<'_>, at: u64, ranges: &[Range<u64>]) -> bool {
    let Some(next) = beyond(ranges, at).first().map(|range| range.start) else { return false };
    !matches!(pread::read_full(source, &mut [0], next), Ok(0))
}

impl Facts {
    fn of(status: &Status, ladder: &Strategy, destination: BorrowedFd<'_>, request: &Request) -> Facts {
        Facts { size: status.size, destination: ladder.kind(destination), hashed: request.hashed }
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
