//! Copies through the library: every engine, files of every shape, from every filesystem to every other.

mod refused;
mod shapes;
mod small;
mod troubles;

use crate::harness::*;
use pleach::monitor::{Amount, Event, Monitor, Silent};
use pleach::testing::copy::{self, Copied, CopyError, Engine, Request, Strategy};
use pleach::testing::sparse;
use pleach::testing::status::Status;
use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

const MIB: u64 = 1 << 20;
const BLOCK: u64 = crate::harness::shapes::BLOCK;

/// The engines that copy data, and `None`, which lets pleach choose.
fn copying() -> impl Iterator<Item = Option<Engine>> {
    let engines = Engine::ALL.into_iter().filter(|engine| *engine != Engine::Clone);
    std::iter::once(None).chain(engines.map(Some))
}

/// The parameters of one copy.
struct Copy<'a> {
    source: &'a Path,
    copy: PathBuf,
    request: Request,
    ladder: &'a Strategy,
    monitor: &'a dyn Monitor,
}

impl<'a> Copy<'a> {
    fn of(source: &'a Path, copy: impl Into<PathBuf>, ladder: &'a Strategy) -> Self {
        Copy { source, copy: copy.into(), request: Request::default(), ladder, monitor: &Silent }
    }

    fn by(mut self, engine: Option<Engine>) -> Self {
        self.request.engine = engine;
        self
    }

    fn hashed(mut self) -> Self {
        self.request.hashed = true;
        self
    }

    fn told(mut self, monitor: &'a dyn Monitor) -> Self {
        self.monitor = monitor;
        self
    }

    /// Makes the copy, which must not exist yet.
    fn run(&self) -> Result<Copied, CopyError> {
        let source = File::open(self.source).expect("the source opens");
        let copy =
            File::options().read(true).write(true).create_new(true).open(&self.copy).expect("a file can be made");
        let status = Status::of(&source).expect("the source has a status");
        let files = copy::FileCopy {
            source: source.as_fd(),
            status: &status,
            destination: copy.as_fd(),
            strategy: self.ladder,
            monitor: self.monitor,
        };
        copy::content(&files, &self.request)
    }
}

/// Asserts that a copy has the size of its source, the same holes, and the same bytes between them. Pages of zeros that
/// were read ahead from preallocated space would count as data for `SEEK_DATA`.
#[track_caller]
fn assert_same(source: &Path, copy: &Path, copied: &Copied, what: &str) {
    tools::forget(source);
    tools::forget(copy);
    let (source_file, copy_file) = (File::open(source).expect("it opens"), File::open(copy).expect("it opens"));
    let size = |file: &File| file.metadata().expect("it has a status").len();
    assert_eq!(size(&copy_file), size(&source_file), "size after {what}");
    let segments = |file: &File| -> Vec<_> {
        let segments = sparse::of(file.as_fd(), size(file));
        segments.map(|segment| segment.expect("segments can be had")).collect()
    };
    let data = segments(&source_file);
    // Btrfs reports preallocated space of a clone as data, although the clone has the same extents as its source.
    if copied.engine != Engine::Clone {
        assert_eq!(segments(&copy_file), data, "data and holes after {what}");
    }
    let (mut a, mut b) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    for segment in data {
        let sparse::Segment::Data { offset, length } = segment else { continue };
        let mut at = offset;
        while at < offset + length {
            let now = (offset + length - at).min(1 << 20) as usize;
            source_file.read_exact_at(&mut a[..now], at).expect("it can be read");
            copy_file.read_exact_at(&mut b[..now], at).expect("it can be read");
            assert!(a[..now] == b[..now], "the bytes at {at} after {what}");
            at += now as u64;
        }
    }
}

/// The ranges that are preallocated and unwritten, up to the end of the file, in bytes.
fn reserved(path: &Path) -> Vec<(u64, u64)> {
    let end = fs::metadata(path).expect("it has a status").len().next_multiple_of(BLOCK);
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for extent in tools::extents(path).iter().filter(|extent| extent.is_unwritten()) {
        let range = (extent.logical * 512, ((extent.logical + extent.length) * 512).min(end));
        match ranges.last_mut() {
            Some(last) if last.1 == range.0 => last.1 = range.1,
            _ if range.0 < end => ranges.push(range),
            _ => {}
        }
    }
    ranges
}

/// Keeps the detail messages, and interferes once this many bytes were copied.
#[derive(Default)]
struct Listening<'a> {
    events: Mutex<Vec<String>>,
    bytes: Mutex<u64>,
    then: Option<(u64, &'a (dyn Fn() + Sync))>,
}

impl Monitor for Listening<'_> {
    fn advance(&self, done: Amount) {
        let mut bytes = self.bytes.lock().expect("nobody panicked");
        let before = *bytes;
        *bytes += done.bytes;
        if let Some((mark, then)) = self.then
            && (before..*bytes).contains(&mark)
        {
            then();
        }
    }

    fn event(&self, event: Event<'_>) {
        self.events.lock().expect("nobody panicked").push(format!("{event:?}"));
    }
}
