//! `pleach put`: replaces a file by a stream, completely or not at all. The new version shares every aligned unchanged
//! block with the last version.
//!
//! The new file is a clone of the base, under a temporary name; only the differences are written into it. `destination`
//! is the name and the present file; `staging` is the temporary file, from its creation to the rename; `base` is the
//! frozen last version; `stream` reads the input in its own thread; `command` runs the program that writes the input,
//! and `foreground` gives it the terminal if it asks for one; `diff` compares the input with the base and writes, and
//! `moved` finds equal content at other offsets; `file` handles an input that is itself a file. The shared bytes are
//! counted from extents.

mod base;
mod command;
mod destination;
mod diff;
mod equal;
mod file;
mod foreground;
mod input;
mod job;
mod keep;
mod moved;
mod staging;
mod stream;

pub use self::job::Options;

use self::base::Base;
use self::command::Producer;
use self::destination::Destination;
use self::input::Input;
use self::job::{Content, Failure, Job};
use self::staging::{Staging, set_size};
use crate::content::copy::Reason;
use crate::error::{Advice, Error, Result};
use crate::extents::address_space::{AddressSpace, SpaceId};
use crate::extents::places::{self, Places};
use crate::fs::filesystem::{Filesystem, Kind};
use crate::fs::metadata::Creator;
use crate::monitor::{Event, Monitor};
use crate::util::text;
use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Instant;

/// The source of the new content.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Source<'a> {
    /// A stream, from its present position to its end.
    Stream(BorrowedFd<'a>),
    /// The standard output of a command: a program and its arguments. It must exit with status 0.
    Command(&'a [OsString]),
}

/// The result, in bytes.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The file's size.
    pub bytes: u64,
    /// Bytes of its data in the same place on the disk as the base or the input, counted from the extents.
    pub shared: u64,
    /// The rest of its data.
    pub written: u64,
    /// Bytes read from the stream and from the base.
    pub read: u64,
    /// Why nothing is shared, if there was something to share with.
    pub reason: Option<Reason>,
    /// Metadata of the replaced file that could not be kept.
    pub errors: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Replaces the file at `path` with the content of `source`, read to its end.
///
/// The file is replaced by one rename(2), after all of it is on the disk and a command has exited with status 0. A
/// failure before the rename does not change the file. If somebody else changes or creates the file meanwhile, that
/// version is kept.
///
/// ```
/// use pleach::put::{Options, Source, put};
/// let dir = tempfile::tempdir()?;
/// let file = dir.path().join("db.sql");
///
/// let dump = ["echo", "insert into letters"].map(Into::into);
/// let stats = put(Source::Command(&dump), &file, &Options::default(), &pleach::monitor::Silent)?;
/// assert_eq!(stats.bytes, 20);
/// assert_eq!(std::fs::read_to_string(&file)?, "insert into letters\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If a system call fails; if the input is not as `options` expect; if an empty input would replace a file that is not
/// empty, unless `options` allow it; if a command fails; if the destination is not a regular file.
pub fn put(source: Source<'_>, path: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let began = Instant::now();
    let stream = match source {
        Source::Stream(fd) => Some(Input::of(fd, options.expect_size)?),
        Source::Command(_) => None,
    };
    let destination = Destination::open(path, monitor)?;
    let creator = Creator::current();
    let statfs = rustix::fs::fstatfs(&destination.dir)
        .map_err(|errno| Error::io("query the filesystem of", &destination.shown, errno))?;
    let id = Filesystem::identify(&destination.dir)
        .map_err(|errno| Error::io("query the filesystem of", &destination.shown, errno))?;
    let job = Job {
        options,
        monitor,
        block: (statfs.f_bsize as u64).next_power_of_two().clamp(512, 64 << 10),
        kind: Kind::from_statfs(&statfs),
        space: AddressSpace::from(id).id(),
    };
    let base = base::open(&destination, options)?;
    let staging = Staging::begin(&destination, monitor)?;
    keep::prepare(&creator, &destination, staging.file())
        .map_err(|errno| Error::io("make a file beside", &destination.shown, errno))?;
    let frozen = base.as_ref().map(|base| Base::freeze(base, &destination, &job)).transpose()?;
    let (base, reason) = match frozen {
        None => (None, None),
        Some(Ok(base)) => (Some(base), None),
        Some(Err(reason)) => (None, Some(reason)),
    };
    // Last, so that a command runs only if its output can be used.
    let producer = match source {
        Source::Stream(_) => None,
        Source::Command(words) => Some(
            Producer::start(words, options.shares_terminal)
                .map_err(|error| error.hint_also(unchanged(&destination)))?,
        ),
    };
    let Some(input) = stream.or_else(|| Input::of_command(producer.as_ref()?, options.expect_size)) else {
        return Err(Error::failed("read the input").hint(unchanged(&destination)));
    };

    let failed = |failure| failure_of(failure, &destination, options);
    let made = make(&job, &input, base, reason, &staging).map_err(failed)?;
    if let Some(producer) = &producer {
        producer.finish(monitor).map_err(failed)?;
    }
    expect(options, &made.content).map_err(failed)?;
    refuse_empty(options, &made.content, &destination).map_err(failed)?;
    let write = |errno| failed(Failure::Output(errno));
    set_size(staging.file(), made.content.size).map_err(write)?;
    if let Some(base) = &made.base {
        base.release_extents(staging.file(), made.content.size, &job).map_err(failed)?;
    }
    let errors = keep::keep(&creator, &destination, staging.file(), monitor)?;
    if monitor.is_cancelled() {
        return Err(failed(Failure::Interrupted));
    }
    rustix::fs::fsync(staging.file()).map_err(write)?;
    let account = places::account(staging.file(), made.content.size, &made.places(job.space));
    staging.put(&destination)?;
    report(&made, &destination, options, monitor);
    Ok(Stats {
        bytes: made.content.size,
        shared: account.shared,
        written: account.data - account.shared,
        read: made.content.read,
        reason: made.reason,
        errors,
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// The content, and the files it shares with.
struct Made<'a> {
    content: Content,
    base: Option<Base<'a>>,
    /// Why it does not share with the base.
    reason: Option<Reason>,
    /// The input, if it is a file that the content was cloned from.
    cloned: Option<BorrowedFd<'a>>,
}

impl Made<'_> {
    /// The places of the files that the content shares with.
    fn places(&self, space: SpaceId) -> Places {
        let mut places = Places::new(space);
        let files = self.base.as_ref().map(Base::frozen).into_iter().chain(self.cloned);
        // A map that cannot be read adds no places: the count of shared bytes is then too low, never too high.
        files.for_each(|file| {
            let _ = places.add(file, |_| true);
        });
        places.sort();
        places
    }
}

/// Writes the content to the temporary file, in the cheapest way that the input allows.
fn make<'a>(
    job: &Job<'_>,
    input: &Input<'a>,
    base: Option<Base<'a>>,
    reason: Option<Reason>,
    staging: &Staging,
) -> std::result::Result<Made<'a>, Failure> {
    let out = staging.file();
    if input.file.is_some() {
        input.begins(job.monitor);
    }
    if let Some(content) = file::clone(job, input, base.as_ref(), out)? {
        return Ok(Made { content, base, reason, cloned: Some(input.fd) });
    }
    let (mut base, reason) = match base.map(|base| base.clone_to(out)) {
        None => (None, reason),
        Some(Ok(base)) => (Some(base), reason),
        Some(Err(refused)) => (None, Some(refused)),
    };
    let content = match file::update(job, input, base.as_ref(), out)? {
        Some(content) => content,
        None => diff::all(job, input, base.as_mut(), out)?,
    };
    input.assert_untouched()?;
    Ok(Made { content, base, reason, cloned: None })
}

/// Whether the input was what the user expected.
fn expect(options: &Options, content: &Content) -> std::result::Result<(), Failure> {
    if let Some(expected) = options.expect_size.filter(|expected| *expected != content.size) {
        let (size, expected) = (text::count(content.size), text::count(expected));
        return Err(Failure::Unexpected(format!("the input ended after {size} bytes, and {expected} were expected")));
    }
    if options.expect_blake3.is_some_and(|expected| content.hash != Some(expected)) {
        return Err(Failure::Unexpected("the BLAKE3 of the input is not the expected one".to_string()));
    }
    Ok(())
}

/// Refuses an empty input for a file that is not empty: usually the program before the pipe has failed. An expected
/// size of 0 or an expected hash shows that the empty input is intended.
fn refuse_empty(options: &Options, content: &Content, destination: &Destination) -> std::result::Result<(), Failure> {
    let is_meant = options.allow_empty || options.expect_size == Some(0) || options.expect_blake3.is_some();
    let Some(present) = destination.present.as_ref().filter(|_| content.size == 0 && !is_meant) else { return Ok(()) };
    // The present size: somebody may have written to the file meanwhile.
    let size = rustix::fs::fstat(&present.fd).map_or(present.status.size, |status| status.st_size as u64);
    if size > 0 { Err(Failure::Empty(size)) } else { Ok(()) }
}

/// The state of the destination after a failure.
fn unchanged(destination: &Destination) -> &'static str {
    if destination.present.is_some() { "the file is unchanged" } else { "no file was created" }
}

/// The error for a failure. The destination is unchanged.
fn failure_of(failure: Failure, destination: &Destination, options: &Options) -> Error {
    let shown = &destination.shown;
    let left = unchanged(destination);
    let refused = |why: String| Error::failed("replace").at(shown).hint(format!("{why}; {left}"));
    match failure {
        Failure::Input(errno) => Error::failed("read the input").because(errno).hint(left),
        Failure::Base(errno) => Error::io("read", options.base.as_ref().unwrap_or(shown), errno).hint(left),
        Failure::Output(errno) => Error::io("write the new content of", shown, errno).hint(left),
        Failure::Unexpected(why) => refused(why).with_code("unexpected-input"),
        Failure::Empty(size) => {
            let size = text::size(size);
            let why = format!("the input is empty, and the file has {size}; the file is unchanged");
            let error = Error::failed("replace").at(shown).with_code("empty-input");
            error.hint(why).advise(Advice::AllowEmptyInput)
        }
        Failure::Command(why) => refused(why).with_code("command-failed"),
        Failure::Interrupted => Error::interrupted().hint(left),
    }
}

/// Reports why nothing is shared although there is a base.
fn report(made: &Made<'_>, destination: &Destination, options: &Options, monitor: &dyn Monitor) {
    if let Some(reason) = made.reason.filter(|_| made.content.size > 0) {
        let why = match reason {
            Reason::OtherFilesystem => "the two lie on different filesystems".to_string(),
            reason => reason.to_string(),
        };
        monitor.event(Event::NothingShared { path: &destination.shown, base: options.base.as_deref(), why: &why });
    }
}
