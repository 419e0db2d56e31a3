//! The first stage: whole files. It takes the size classes in chunks, those that may save the most first. `chunk` has
//! the steps for one chunk, and `large_class` those for a class that is larger than a chunk.
//!
//! A chunk is small enough that the data read for its samples is still in memory when the kernel compares. One chunk is
//! shared, which mostly uses the processor, while the next one is examined, which mostly waits for the disk.

use super::cache::Cache;
use super::candidates::{Candidates, Class};
use super::chunk::{FILES, Stage};
use super::large_class;
use super::run::Run;
use super::sample::WHOLE;
use std::sync::mpsc;

/// The most bytes of samples in a chunk.
const SAMPLES: u64 = 128 << 20;

/// Shares all files that are equal as a whole.
pub(super) fn whole_files(run: &Run<'_>, candidates: &Candidates, cache: &Cache) {
    candidates.links.iter().for_each(|link| run.settle(*link));
    let stage = Stage { run, candidates, cache };
    for classes in candidates.classes().chunk_by(|a, b| !is_large(a) && !is_large(b)) {
        match classes {
            // Without room for a temporary file, memory must do.
            [class] if is_large(class) && large_class::share(&stage, class).is_ok() => {}
            _ => share_chunks(stage, classes),
        }
    }
}

fn is_large(class: &Class) -> bool {
    class.len() > FILES
}

/// Shares the files of these classes, chunk by chunk.
fn share_chunks(stage: Stage<'_, '_>, classes: &[Class]) {
    let run = stage.run;
    let mut looked_at = chunks(classes).take_while(|_| !run.is_over()).map(|chunk| stage.look(chunk));
    if run.threads.is_some() {
        // No more threads than requested.
        return looked_at.for_each(|chunk| stage.share(chunk));
    }
    std::thread::scope(|scope| {
        // While one chunk is shared, the next one is examined or waits.
        let (sender, receiver) = mpsc::sync_channel(0);
        let sharing = std::thread::Builder::new().name("dedupe-share".into()).spawn_scoped(scope, move || {
            receiver.into_iter().for_each(|chunk| stage.share(chunk));
        });
        if sharing.is_err() {
            // No thread can be started: this thread does all the work.
            return looked_at.for_each(|chunk| stage.share(chunk));
        }
        // The receiver only hangs up when it panics, and then the scope panics too.
        let _ = looked_at.try_for_each(|chunk| sender.send(chunk));
    });
}

/// The classes cut into chunks.
fn chunks(mut classes: &[Class]) -> impl Iterator<Item = &[Class]> {
    std::iter::from_fn(move || {
        let (chunk, rest) = classes.split_at_checked(chunk(classes))?;
        classes = rest;
        Some(chunk)
    })
}

/// The number of these classes that make a chunk.
fn chunk(classes: &[Class]) -> usize {
    let (mut files, mut samples) = (0, 0);
    let fits = classes.iter().take_while(|class| {
        files += class.len();
        samples += class.size.min(WHOLE) * class.len() as u64;
        files <= FILES && samples <= SAMPLES
    });
    fits.count().max(1)
}
