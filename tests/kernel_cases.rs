//! The properties of FIDEDUPERANGE that pleach relies on, as cases of xfstests check them. The comment above each test
//! names its case.
//!
//! First the wrapper of the ioctl asks the kernel, so that another answer than `src/fs/fidedupe.rs` expects is noticed.
//! Then a command meets the same files. The cases that run `duperemove` (generic/559 to 561) are not here:
//! `cargo xtask xfstests` runs them with pleach in its place.

mod ends;
mod kept;
mod parts;
mod races;
mod refused;

use crate::harness::*;
use pleach::testing::reflink::{self, DedupeStatus};
use rustix::fs::{Mode, OFlags};
use std::fs;
use std::os::fd::AsFd as _;
use std::path::Path;

const BLOCK: u64 = shapes::BLOCK;
/// The cases work in units that are a multiple of every block size.
const PART: u64 = 64 << 10;

/// The options of `pleach dedupe` that share each equal block.
const EACH_BLOCK: [&str; 5] = ["--no-cache", "--ranges", "always", "--min-run", "4K"];

/// A file, and an offset in it.
type Place<'a> = (&'a Path, u64);

/// The answer for the whole request, or for its only destination.
type Answer = rustix::io::Result<DedupeStatus>;

/// Asks the kernel to compare two ranges of this length, and to share them if they are equal.
#[track_caller]
fn ask(source: Place<'_>, length: u64, destination: Place<'_>) -> Answer {
    // An open named pipe must not wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = |path: &Path| {
        rustix::fs::open(path, flags, Mode::empty()).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let (from, to) = (open(source.0), open(destination.0));
    let answers = reflink::dedupe(&from, source.1, length, &[(to.as_fd(), destination.1)])?;
    Ok(answers[0])
}

/// The address of the data at a place, in units of 512 bytes. `None` for a hole and for inline data.
#[track_caller]
fn address(place: Place<'_>) -> Option<u64> {
    let unit = place.1 / 512;
    let extents = tools::extents(place.0);
    let holds_it = |extent: &&tools::Extent| (extent.logical..extent.logical + extent.length).contains(&unit);
    let extent = extents.iter().find(holds_it).filter(|extent| !extent.is_inline())?;
    Some(extent.physical + (unit - extent.logical))
}

/// Whether the data at two places is the same data on the disk.
#[track_caller]
fn is_shared(one: Place<'_>, other: Place<'_>) -> bool {
    address(one).is_some_and(|address_of_one| address(other) == Some(address_of_one))
}

/// The checksums of all files below a directory, read from the disk.
#[track_caller]
fn sums_on_disk(dir: &Path) -> String {
    tools::files(dir).iter().for_each(|path| tools::forget(path));
    tools::checksums(dir)
}

/// Asserts the content of a file, read from the disk.
#[track_caller]
fn assert_on_disk(path: &Path, content: &[u8]) {
    tools::forget(path);
    assert_content(path, content);
}
