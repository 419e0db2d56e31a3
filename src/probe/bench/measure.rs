//! One engine, one thing to copy, one place for the copy: what is timed, and what is counted.

use super::scratch::Scratch;
use super::{SMALL, Source, Target};
use crate::content::copy::engines;
use crate::content::copy::small_files::{self, FileError, Opened, Wanted};
use crate::content::copy::{self, Copied, CopyError, Engine, Request, Strategy};
use crate::fs::status::Status;
use crate::monitor::{Amount, Monitor};
use crate::sys::seccomp;
use crate::util::text;
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

/// What is copied by which engine, and into what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) engine: Engine,
    pub(super) source: Source,
    pub(super) target: Target,
}

/// Why a case came to no end.
#[derive(Debug)]
pub(super) enum Stop {
    /// The engine cannot do that here, for this reason.
    Impossible(String),
    /// Something failed: while doing what, and why.
    Failed(&'static str, Errno),
}

type Work<'a> = Box<dyn FnMut() -> Result<(), Stop> + Send + 'a>;

/// The time that a case takes, from the first call to the last; for files, with their sync.
pub(super) fn time(case: Case, scratch: &Scratch, monitor: &dyn Monitor) -> Result<Duration, Stop> {
    let ear = Ear(monitor);
    let mut work = case.prepare(scratch, &ear)?;
    let begin = Instant::now();
    let done = work();
    let taken = begin.elapsed();
    drop(work);
    tidy(scratch)?;
    done.map(|()| taken)
}

/// The system calls of a case.
pub(super) enum Counted {
    /// The number of calls.
    Calls(u64),
    /// Calls cannot be counted here.
    Unavailable(Errno),
}

/// Counts the system calls of a case.
pub(super) fn count(case: Case, scratch: &Scratch, monitor: &dyn Monitor) -> Result<Counted, Stop> {
    let ear = Ear(monitor);
    let mut work = case.prepare(scratch, &ear)?;
    let counted = seccomp::counted(&mut *work);
    drop(work);
    tidy(scratch)?;
    match counted {
        Ok((done, calls)) => done.map(|()| Counted::Calls(calls)),
        Err(errno) => Ok(Counted::Unavailable(errno)),
    }
}

fn tidy(scratch: &Scratch) -> Result<(), Stop> {
    scratch.clear().map_err(|errno| Stop::Failed("remove test files in", errno))
}

impl Case {
    /// Opens what is not part of the work: the one large file and its copy. Small files are opened and closed one by one,
    /// and that is part of it.
    fn prepare<'a>(self, scratch: &'a Scratch, ear: &'a Ear<'_>) -> Result<Work<'a>, Stop> {
        let engine = self.engine;
        Ok(match self.source {
            Source::Large => {
                let (from, status) = scratch.large().map_err(reading)?;
                let to = match self.target {
                    Target::File => scratch.new_copy().map_err(writing)?,
                    Target::Memory => in_memory()?,
                };
                Box::new(move || {
                    copied(&from, &status, &to, engine, &Strategy::new(), ear)?;
                    match self.target {
                        Target::File => rustix::fs::fsync(&to).map_err(writing),
                        Target::Memory => Ok(()),
                    }
                })
            }
            Source::Small if engines::takes_groups(engine) && self.target == Target::File => Box::new(move || {
                at_once(engine, scratch, ear)?;
                scratch.sync().map_err(writing)
            }),
            Source::Small => Box::new(move || {
                let ladder = Strategy::new();
                for name in scratch.names() {
                    let (from, status) = scratch.small(name).map_err(reading)?;
                    let to = match self.target {
                        Target::File => scratch.new_small_copy(name).map_err(writing)?,
                        Target::Memory => in_memory()?,
                    };
                    copied(&from, &status, &to, engine, &ladder, ear)?;
                }
                match self.target {
                    Target::File => scratch.sync().map_err(writing),
                    Target::Memory => Ok(()),
                }
            }),
        })
    }
}

/// Copies the small files as a ring does: many at once, and it opens, makes and closes them as well.
fn at_once(engine: Engine, scratch: &Scratch, ear: &Ear<'_>) -> Result<(), Stop> {
    let names = scratch.names().iter().map(|name| name.as_bytes());
    let wanted: Vec<_> = names.map(|name| Wanted { dir: scratch.small_dir(), name, size: SMALL.1 as u64 }).collect();
    let (ladder, request) = (Strategy::new(), Request { engine: Some(engine), hashed: false });
    let mut told = Told { scratch, copied: 0, stop: None };
    small_files::files(&wanted, &mut told, &ladder, &request, ear)
        .map_err(|errno| Stop::Impossible(text::cause(&errno.into())))?;
    match told {
        Told { stop: Some(stop), .. } => Err(stop),
        // It leaves off without a word when it is asked to.
        Told { copied, .. } if copied < wanted.len() => Err(reading(Errno::CANCELED)),
        _ => Ok(()),
    }
}

/// What was told of files that are copied at once.
struct Told<'a> {
    scratch: &'a Scratch,
    copied: usize,
    stop: Option<Stop>,
}

impl Told<'_> {
    fn stop(&mut self, stop: Stop) {
        self.stop.get_or_insert(stop);
    }
}

impl small_files::Files for Told<'_> {
    type Copy = OwnedFd;

    fn opened(&mut self, number: usize, _: Opened<'_>) -> Option<OwnedFd> {
        let made = self.scratch.new_small_copy(&self.scratch.names()[number]);
        made.map_err(|errno| self.stop(writing(errno))).ok()
    }

    fn copied(&mut self, _: usize, _: Opened<'_>, _: OwnedFd, copied: Result<Copied, CopyError>) {
        match copied {
            Ok(_) => self.copied += 1,
            Err(error) => self.stop(stop(error)),
        }
    }

    fn failed(&mut self, _: usize, error: FileError) {
        self.stop(match error {
            FileError::Open(errno) => reading(errno),
            FileError::NotRegular(_) => reading(Errno::INVAL),
        });
    }
}

fn stop(error: CopyError) -> Stop {
    match error {
        CopyError::Refused(reason) => Stop::Impossible(reason.to_string()),
        CopyError::Source(errno) => reading(errno),
        CopyError::Destination(errno) => writing(errno),
    }
}

fn reading(errno: Errno) -> Stop {
    Stop::Failed("read test files in", errno)
}

fn writing(errno: Errno) -> Stop {
    Stop::Failed("write test files in", errno)
}

fn in_memory() -> Result<OwnedFd, Stop> {
    rustix::fs::memfd_create(c"pleach-bench", MemfdFlags::CLOEXEC)
        .map_err(|errno| Stop::Failed("make a file in memory beside", errno))
}

/// Copies by that engine; where another one had to take its place, it is not possible.
fn copied(
    from: &OwnedFd,
    status: &Status,
    to: &OwnedFd,
    engine: Engine,
    ladder: &Strategy,
    ear: &Ear<'_>,
) -> Result<(), Stop> {
    let request = Request { engine: Some(engine), hashed: false };
    match copy::content(from.as_fd(), status, to.as_fd(), ladder, &request, ear) {
        Ok(copied) if copied.engine == engine => Ok(()),
        Ok(copied) => Err(Stop::Impossible(refusal(engine, ladder, &copied))),
        Err(error) => Err(stop(error)),
    }
}

/// What the kernel said to an engine in whose place another one copied.
fn refusal(engine: Engine, ladder: &Strategy, copied: &Copied) -> String {
    match ladder.refusals().into_iter().find(|refusal| refusal.engine == engine) {
        Some(refusal) => text::cause(&refusal.errno.into()),
        None => format!("{} took its place", copied.engine),
    }
}

/// Passes on how far a copy has come, and not which engine took whose place: that is what the table says.
struct Ear<'a>(&'a dyn Monitor);

impl Monitor for Ear<'_> {
    fn advance(&self, done: Amount) {
        self.0.advance(done);
    }

    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}
