//! Copies small files in groups, in two steps. The first opens the sources and prefetches the data to read, on as many
//! threads as suit the device's queue. The second creates, fills and finishes the copies, on few threads at once. So
//! all reads of a group are pending before the first is waited for. Files that suit io_uring are copied by `ring`.

use super::pair::{Pair, Seen};
use super::stats::Stats;
use super::{alone, file, ring};
use crate::content::copy::{self, Engine};
use crate::error::Result;
use crate::fs::pread;
use crate::fs::status::Status;

/// The most data that is prefetched for a group.
const AHEAD: u64 = 16 << 20;

/// Copies small files, each with one name, that do not exist or differ.
pub(super) fn copy(pair: &Pair<'_>, group: &mut [Seen<'_>], part: &mut Stats) -> Result<()> {
    let context = pair.context;
    let before = (part.files, part.copied_bytes);
    let opened: Vec<_> = group.iter_mut().map(|seen| seen.opened.take()).collect();
    let (for_ring, mut plain): (Vec<_>, Vec<_>) =
        group.iter().zip(opened).partition(|(seen, _)| is_for_ring(pair, &seen.status));
    let pays = copy::ring_pays(context.request.engine, for_ring.len());
    let seen: Vec<_> = for_ring.iter().map(|(seen, _)| *seen).collect();
    if !pays || !context.writers.with(|| ring::copy(pair, &seen, part))? {
        plain.extend(for_ring);
    }
    let mut sources = Vec::with_capacity(plain.len());
    let mut ahead = 0;
    for (seen, opened) in plain {
        let source = match opened {
            Some(fd) => Ok(Some(file::Source::new(context, fd, seen.status))),
            None => file::open(pair, seen.name),
        };
        match source {
            Ok(Some(source)) => {
                let status = source.kept.status;
                if ahead < AHEAD && is_read(pair, status.dev) {
                    pread::prefetch(&source.fd, 0..status.size);
                    ahead += status.size;
                }
                sources.push((seen, source));
            }
            Ok(None) => {}
            Err(failure) => pair.skip(failure, part)?,
        }
    }
    context.writers.with(|| {
        sources.into_iter().try_for_each(|(seen, source)| {
            let copied = alone::file(pair, seen, Some(source), part);
            copied.map(|_| ()).or_else(|failure| pair.skip(failure, part))
        })
    })?;
    context.waiting.made(part.files - before.0, part.copied_bytes - before.1);
    Ok(())
}

/// Whether small files of a directory may be copied through io_uring, which opens them itself.
pub(super) fn may_use_ring(pair: &Pair<'_>) -> bool {
    is_for_ring(pair, &Status { size: 1, ..pair.directory.status })
}

/// Whether a small file is copied through io_uring.
fn is_for_ring(pair: &Pair<'_>, status: &Status) -> bool {
    let dir = &pair.place().dir;
    let kind = dir.fd.as_ref().and_then(|target| dir.device.strategy.kind(target));
    // A file that claims to be empty may be in procfs. Such files are read until they end.
    status.size > 0 && is_read(pair, status.dev) && copy::goes_by_ring(pair.context.request.engine, status.size, kind)
}

/// Whether the content of files from this device will probably be read. Before the first clone was tried, in the first
/// group of each thread, the plan decides.
fn is_read(pair: &Pair<'_>, dev: u64) -> bool {
    match pair.context.request.engine {
        None => match pair.place().dir.device.strategy.known(dev) {
            Some(known) => known.is_err(),
            None => !pair.context.plan.may_clone,
        },
        engine => engine != Some(Engine::Clone),
    }
}
