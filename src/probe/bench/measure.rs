//! Measures one case: its time and its system calls.

use super::case::{Case, SMALL, Source, Target};
use super::scratch::Scratch;
use crate::content::copy::engines;
use crate::content::copy::small_files::{self, FileError, Opened, Wanted};
use crate::content::copy::{self, Copied, CopyError, Engine, FileCopy, Reason, Request, Strategy};
use crate::fs::status::Status;
use crate::monitor::{Amount, Monitor};
use crate::sys::seccomp;
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

/// Why a case did not finish.
#[derive(Debug)]
pub(super) enum Stop {
    /// The engine cannot do this here.
    Impossible(Impossible),
    /// An operation failed: which operation, and why.
    Failed(&'static str, Errno),
}

/// Why an engine cannot copy here.
#[derive(Debug)]
pub(crate) enum Impossible {
    /// The kernel does not clone, for this reason.
    NotCloned(Reason),
    /// The kernel refused the engine's call.
    Refused(io::Error),
    /// This engine replaced it.
    Replaced(Engine),
}

type Work<'a> = Box<dyn FnMut() -> Result<(), Stop> + Send + 'a>;

/// The time of a case, from the first call to the last; for files, including their sync.
pub(super) fn time(case: Case, scratch: &Scratch, monitor: &dyn Monitor) -> Result<Duration, Stop> {
    let advance = Advance(monitor);
    let mut work = case.prepare(scratch, &advance)?;
    let begin = Instant::now();
    let done = work();
    let taken = begin.elapsed();
    drop(work);
    tidy(scratch)?;
    done.map(|()| taken)
}

/// The number of system calls of a case.
pub(super) enum Counted {
    Calls(u64),
    /// They cannot be counted on this system.
    Impossible(Errno),
}

/// Counts the system calls of a case.
pub(super) fn count(case: Case, scratch: &Scratch, monitor: &dyn Monitor) -> Result<Counted, Stop> {
    let advance = Advance(monitor);
    let mut work = case.prepare(scratch, &advance)?;
    let counted = seccomp::counted(&mut *work);
    drop(work);
    tidy(scratch)?;
    match counted {
        Ok((done, calls)) => done.map(|()| Counted::Calls(calls)),
        Err(errno) => Ok(Counted::Impossible(errno)),
    }
}

fn tidy(scratch: &Scratch) -> Result<(), Stop> {
    scratch.clear().map_err(|errno| Stop::Failed("remove test files in", errno))
}

impl Case {
    /// Opens the files that are not part of the timed work: the large file and its copy. Small files are opened and
    /// closed one by one as part of the work.
    fn prepare<'a>(self, scratch: &'a Scratch, advance: &'a Advance<'_>) -> Result<Work<'a>, Stop> {
        let engine = self.engine;
        Ok(match self.source {
            Source::Large => {
                let (from, status) = scratch.large().map_err(reading)?;
                let to = match self.target {
                    Target::File => scratch.new_copy().map_err(writing)?,
                    Target::Memory => in_memory()?,
                };
                Box::new(move || {
                    copied(&from, &status, &to, engine, &Strategy::new(), advance)?;
                    match self.target {
                        Target::File => rustix::fs::fsync(&to).map_err(writing),
                        Target::Memory => Ok(()),
                    }
                })
            }
            Source::Small if engines::takes_groups(engine) && self.target == Target::File => Box::new(move || {
                at_once(engine, scratch, advance)?;
                scratch.sync().map_err(writing)
            }),
            Source::Small => Box::new(move || {
                let strategy = Strategy::new();
                for name in scratch.names() {
                    let (from, status) = scratch.small(name).map_err(reading)?;
                    let to = match self.target {
                        Target::File => scratch.new_small_copy(name).map_err(writing)?,
                        Target::Memory => in_memory()?,
                    };
                    copied(&from, &status, &to, engine, &strategy, advance)?;
                }
                match self.target {
                    Target::File => scratch.sync().map_err(writing),
                    Target::Memory => Ok(()),
                }
            }),
        })
    }
}

/// Copies the small files as an io_uring ring does: many at once, including opening, creating and closing them.
fn at_once(engine: Engine, scratch: &Scratch, advance: &Advance<'_>) -> Result<(), Stop> {
    let names = scratch.names().iter().map(|name| name.as_bytes());
    let wanted: Vec<_> = names.map(|name| Wanted { dir: scratch.small_dir(), name, size: SMALL.1 as u64 }).collect();
    let (strategy, request) = (Strategy::new(), Request { engine: Some(engine), hashed: false });
    let mut copies = SmallCopies { scratch, copied: 0, stop: None };
    small_files::files(&wanted, &mut copies, &strategy, &request, advance)
        .map_err(|errno| Stop::Impossible(Impossible::Refused(errno.into())))?;
    match copies {
        SmallCopies { stop: Some(stop), .. } => Err(stop),
        // The ring returns no error when it is asked to stop.
        SmallCopies { copied, .. } if copied < wanted.len() => Err(reading(Errno::CANCELED)),
        _ => Ok(()),
    }
}

/// The copies of files that are copied at once.
struct SmallCopies<'a> {
    scratch: &'a Scratch,
    copied: usize,
    stop: Option<Stop>,
}

impl SmallCopies<'_> {
    fn stop(&mut self, stop: Stop) {
        self.stop.get_or_insert(stop);
    }
}

impl small_files::Files for SmallCopies<'_> {
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
        CopyError::Refused(reason) => Stop::Impossible(Impossible::NotCloned(reason)),
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

/// Copies with that engine. If another engine had to replace it, the case is impossible.
fn copied(
    from: &OwnedFd,
    status: &Status,
    to: &OwnedFd,
    engine: Engine,
    strategy: &Strategy,
    advance: &Advance<'_>,
) -> Result<(), Stop> {
    let request = Request { engine: Some(engine), hashed: false };
    let files = FileCopy { source: from.as_fd(), status, destination: to.as_fd(), strategy, monitor: advance };
    match copy::content(&files, &request) {
        Ok(copied) if copied.engine == engine => Ok(()),
        Ok(copied) => Err(Stop::Impossible(refusal(engine, strategy, &copied))),
        Err(error) => Err(stop(error)),
    }
}

/// Why the kernel refused an engine that another one replaced.
fn refusal(engine: Engine, strategy: &Strategy, copied: &Copied) -> Impossible {
    match strategy.refusals().into_iter().find(|refusal| refusal.engine == engine) {
        Some(refusal) => Impossible::Refused(refusal.errno.into()),
        None => Impossible::Replaced(copied.engine),
    }
}

/// Passes on the progress of a copy, but not which engine replaced which: the table shows that.
struct Advance<'a>(&'a dyn Monitor);

impl Monitor for Advance<'_> {
    fn advance(&self, done: Amount) {
        self.0.advance(done);
    }

    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}
