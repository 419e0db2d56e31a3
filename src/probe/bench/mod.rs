//! The speed of each way of copying on a filesystem: each copy engine copies one large file and many small ones, into
//! files beside them and into memory.
//!
//! The files have just been written, so they are in the page cache. The benchmark therefore measures the copying, and
//! the device only through the writes. Copies into files are on the disk before the time ends (one fsync for the large
//! file, one syncfs for all small ones); copies into memory (memfd) touch no device. One engine works at a time, on one
//! thread. Small files are opened, created and closed within the measured time, one after the other; `uring` works on
//! many at once.

mod case;
mod measure;
mod scratch;

pub(crate) use case::{Source, Target};
pub(crate) use measure::Impossible;

use super::place::{Place, noise};
use crate::content::copy::Engine;
use crate::error::{Error, Result};
use crate::monitor::{Amount, Event, Monitor};
use crate::util::text;
use case::{Case, SMALL};
use measure::{Counted, Stop};
use rustix::io::Errno;
use scratch::Scratch;
use std::path::Path;
use std::time::{Duration, Instant};

/// The size of the large file, if there is room for it.
const LARGE: u64 = 256 << 20;
/// The smallest size with a meaningful result.
const LEAST: u64 = 16 << 20;
/// The number of times each case is measured, unless that takes too long.
const ROUNDS: usize = 3;
/// No further round begins after this time.
const PATIENCE: Duration = Duration::from_secs(20);

/// The result of one engine for one source and one target.
#[derive(Debug)]
pub(crate) struct Row {
    /// The engine that copied.
    pub engine: Engine,
    /// The files that were copied.
    pub source: Source,
    /// Where the copies went.
    pub target: Target,
    /// The number of files of the source.
    pub files: u64,
    /// The number of bytes in all of them.
    pub bytes: u64,
    /// The measurements, or why the case is not possible.
    pub outcome: std::result::Result<Figures, Impossible>,
}

/// The measurements of a copy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figures {
    /// The median of the rounds.
    pub seconds: f64,
    /// The system calls of a run that was not timed; `None` if they cannot be counted.
    pub calls: Option<u64>,
}

impl Row {
    /// The speed in MiB per second.
    pub(crate) fn mebibytes_per_second(&self) -> Option<f64> {
        let figures = self.outcome.as_ref().ok()?;
        Some(self.bytes as f64 / f64::from(1 << 20) / figures.seconds)
    }
}

/// The measurements of all cases.
#[derive(Debug)]
pub(crate) struct Stats {
    /// A row for each engine, source and target.
    pub rows: Vec<Row>,
    /// The number of rounds behind each median.
    pub rounds: usize,
}

/// Measures all engines on the filesystem of `path`: a directory, or the directory of a file.
///
/// It takes some seconds, more on a slow device. The monitor is notified of each engine that begins.
///
/// # Errors
/// If the directory is not writable, there is no room, or the monitor asks to stop. No files are left behind.
pub(crate) fn bench(path: &Path, monitor: &dyn Monitor) -> Result<Stats> {
    let place = Place::open(path)?;
    let failed = |(action, errno)| match errno {
        Errno::CANCELED => Error::interrupted(),
        Errno::ROFS => Error::io(action, place.path(), errno).hint("it is read-only: only reading can be measured"),
        _ => Error::io(action, place.path(), errno),
    };
    let making = |errno| failed(("make test files in", errno));
    let scratch = Scratch::create(&place, SMALL.0).map_err(making)?;
    let size = size_for(&place)?;
    let go_on = |bytes| match monitor.is_cancelled() {
        true => Err(Errno::CANCELED),
        false => {
            monitor.advance(Amount { files: 0, bytes });
            Ok(())
        }
    };
    let small = SMALL.0 * SMALL.1 as u64;
    monitor.phase("writing test files", Some(Amount { files: 0, bytes: size + small }));
    let content = noise(1 << 20);
    scratch.fill_large(size, &content, go_on).map_err(making)?;
    scratch.fill_small(SMALL.1, &content, go_on).map_err(making)?;

    let mut cases: Vec<_> = case::all().map(|case| Measured { case, seconds: Vec::new(), impossible: None }).collect();
    let begin = Instant::now();
    let mut rounds = 0;
    while rounds < ROUNDS && (rounds == 0 || begin.elapsed() < PATIENCE) {
        for index in order(rounds, cases.len()) {
            let case = &mut cases[index];
            if case.impossible.is_none() {
                announce("measuring", case.case, size + small, monitor)?;
                case.measure(&scratch, monitor).map_err(failed)?;
            }
        }
        rounds += 1;
    }
    let mut rows = Vec::new();
    let mut uncounted = None;
    for Measured { case, seconds, impossible } in cases {
        let outcome = match impossible {
            Some(why) => Err(why),
            None => {
                announce("counting calls of", case, size + small, monitor)?;
                let calls = match measure::count(case, &scratch, monitor) {
                    Ok(Counted::Calls(calls)) => Some(calls),
                    Ok(Counted::Impossible(errno)) => {
                        uncounted = Some(errno);
                        None
                    }
                    Err(Stop::Failed(action, errno)) => return Err(failed((action, errno))),
                    // The case was possible in every round, so the engine is not the reason for this failure.
                    Err(Stop::Impossible(_)) => None,
                };
                Ok(Figures { seconds: median(seconds), calls })
            }
        };
        let (files, bytes) = match case.source {
            Source::Large => (1, size),
            Source::Small => (SMALL.0, small),
        };
        rows.push(Row { engine: case.engine, source: case.source, target: case.target, files, bytes, outcome });
    }
    if let Some(errno) = uncounted {
        monitor.event(Event::CallsNotCounted { cause: &text::cause(&errno.into()) });
    }
    Ok(Stats { rows, rounds })
}

/// The measurements of a case so far.
struct Measured {
    case: Case,
    seconds: Vec<f64>,
    impossible: Option<Impossible>,
}

impl Measured {
    fn measure(&mut self, scratch: &Scratch, monitor: &dyn Monitor) -> std::result::Result<(), (&'static str, Errno)> {
        match measure::time(self.case, scratch, monitor) {
            Ok(taken) => self.seconds.push(taken.as_secs_f64()),
            Err(Stop::Impossible(why)) => self.impossible = Some(why),
            Err(Stop::Failed(action, errno)) => return Err((action, errno)),
        }
        Ok(())
    }
}

fn announce(what: &str, case: Case, bytes: u64, monitor: &dyn Monitor) -> Result<()> {
    if monitor.is_cancelled() {
        return Err(Error::interrupted());
    }
    monitor.phase(&format!("{what} {}", case.engine.name()), Some(Amount { files: 0, bytes }));
    Ok(())
}

/// The size of the large file: the usual one, or a smaller one if the filesystem or memory has less room.
fn size_for(place: &Place) -> Result<u64> {
    let space = &place.space;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let memory = rustix::system::sysinfo();
    let memory = (memory.totalram as u64).saturating_mul(memory.mem_unit.into());
    // Twice each file, the same again for the metadata of small files, and some room for other writers.
    let others = 4 * SMALL.0 * SMALL.1 as u64 + (16 << 20);
    let fits = |size: &u64| 2 * size + others <= free && *size <= (memory / 8).max(LEAST);
    let has_inodes = space.f_files == 0 || space.f_favail > 2 * SMALL.0 + 100;
    let sizes = std::iter::successors(Some(LARGE), |size| Some(size / 2)).take_while(|size| *size >= LEAST);
    match sizes.into_iter().find(fits) {
        Some(size) if has_inodes => Ok(size),
        Some(_) => {
            let hint = format!("{} new files are needed", text::count(2 * SMALL.0 + 100));
            Err(Error::io("make test files in", place.path(), Errno::NOSPC).hint(hint))
        }
        None => {
            let needed = text::size(2 * LEAST + others);
            let hint = format!("{needed} are needed, and {} are free", text::size(free));
            Err(Error::io("make test files in", place.path(), Errno::NOSPC).hint(hint))
        }
    }
}

/// Every other round runs backwards, so that no case always follows the same one.
fn order(round: usize, cases: usize) -> Vec<usize> {
    let mut order: Vec<_> = (0..cases).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// The median; of an even number of values, the larger of the two in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_a_value_that_was_measured() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]).to_bits(), 2.0_f64.to_bits());
        assert_eq!(median(vec![1.0, 2.0]).to_bits(), 2.0_f64.to_bits());
        assert!(median(Vec::new()).is_nan());
    }
}
