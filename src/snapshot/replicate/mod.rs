//! Sends the snapshots that another repository lacks.

use crate::error::{Error, Result};
use crate::monitor::{Monitor, Silent};
use crate::snapshot::receive;
use crate::snapshot::repository::Repository;
use crate::snapshot::send;
use crate::snapshot::stream::{Input, Op, Output, damage};
use std::path::Path;
use std::time::Instant;

/// How snapshots are replicated.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// The number of threads.
    pub threads: Option<usize>,
}

/// What was done.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The snapshots that were sent.
    pub snapshots: Vec<String>,
    /// Bytes of content that were sent.
    pub sent_bytes: u64,
    /// Bytes of content that the receiver had in other files.
    pub shared_bytes: u64,
    /// Bytes of the stream before compression.
    pub stream_bytes: u64,
    /// Bytes that were transferred.
    pub wire_bytes: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Sends to the repository at `dest` the snapshots of `repo` that it lacks.
///
/// # Errors
/// If a snapshot cannot be sent. The snapshots before it are complete.
pub fn replicate(repo: &Path, dest: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let begun = Instant::now();
    let from = Repository::open(repo)?;
    let to = Repository::open_or_create(dest)?;
    let _lock = to.lock(monitor)?;
    let threads = options.threads.unwrap_or(8);
    let mut stats = Stats::default();
    let mut have = to.snapshot_names()?;
    let mut base: Option<String> = None;
    for info in from.listing()?.snapshots {
        if have.contains(&info.name) {
            base = Some(info.name);
            continue;
        }
        let new = send::Snapshot::open(&from, &info.name)?;
        let old = base.as_ref().map(|name| send::Snapshot::open(&from, name)).transpose()?;
        let (reader, writer) = std::io::pipe().map_err(|cause| Error::failed("make a pipe").because(cause))?;
        let (sent, received) = std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let mut out = Output::begin(writer, false)?;
                let work = send::snapshot(&mut out, &new, old.as_ref(), threads, &Silent)?;
                out.flush()?;
                Ok::<_, Error>((work, out.sent()))
            });
            let receive = || {
                let mut input = Input::begin(std::io::BufReader::with_capacity(1 << 20, reader))?;
                match input.next_op()? {
                    Op::Begin(begin) => receive::snapshot(&to, &mut input, &begin, threads, monitor),
                    _ => Err(damage("it does not begin with a snapshot")),
                }
            };
            let received = receive();
            (sender.join().map_err(|_| Error::failed("send")), received)
        });
        if let Ok(Err(error)) = &sent {
            eprintln!("send: {error}");
        }
        received?;
        let (work, counts) = sent??;
        stats.sent_bytes += work.sent_bytes;
        stats.shared_bytes += work.shared_bytes;
        stats.stream_bytes += counts.stream_bytes;
        stats.wire_bytes += counts.wire_bytes;
        stats.snapshots.push(info.name.clone());
        have.push(info.name.clone());
        base = Some(info.name);
    }
    stats.seconds = begun.elapsed().as_secs_f64();
    Ok(stats)
}
