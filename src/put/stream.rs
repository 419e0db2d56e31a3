//! Reads the input in its own thread, in large pieces, while other threads process them.

use super::input::Input;
use super::job::Failure;
use crate::monitor::Monitor;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::io::{Errno, read};
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

/// The number of bytes passed on at once.
pub(super) const PIECE: usize = 1 << 20;
/// The number of pieces, full or empty: enough to bridge a wait for the disk.
const PIECES: usize = 8;
/// The size to which a pipe is enlarged: the most that any user may set.
const PIPE: usize = 1 << 20;
/// How long the reader waits before it checks whether the user asked to stop.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How long a large pipe may fill before it is read. A program that writes lines writes 4 KiB at a time, and is slowed
/// down if its reader wakes for each.
const NAP: Duration = Duration::from_micros(300);

enum Message {
    Piece(Vec<u8>),
    /// The input has ended; its hash, if requested.
    End(Option<[u8; 32]>),
    Failed(Errno),
}

/// The pieces of the input, in order. All of them are [`PIECE`] bytes long except the last.
pub(super) struct Pieces {
    full: Receiver<Message>,
    empty: Sender<Vec<u8>>,
    hash: Option<[u8; 32]>,
}

impl Pieces {
    /// The next piece; `None` at the end of the input.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        match self.full.recv() {
            Ok(Message::Piece(bytes)) => Ok(Some(bytes)),
            Ok(Message::End(hash)) => {
                self.hash = hash;
                Ok(None)
            }
            Ok(Message::Failed(Errno::CANCELED)) => Err(Failure::Interrupted),
            Ok(Message::Failed(errno)) => Err(Failure::Input(errno)),
            // The reader never ends without sending a message.
            Err(_) => Err(Failure::Input(Errno::IO)),
        }
    }

    /// Returns a piece for reuse.
    pub(super) fn give_back(&self, bytes: Vec<u8>) {
        let _ = self.empty.send(bytes);
    }

    /// The hash of the whole input, after its end.
    pub(super) fn hash(&self) -> Option<[u8; 32]> {
        self.hash
    }
}

/// Reads the input to its end while `work` takes the pieces.
pub(super) fn read_beside<T>(
    input: &Input<'_>,
    hashed: bool,
    monitor: &dyn Monitor,
    work: impl FnOnce(&mut Pieces) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (full_to, full) = sync_channel(PIECES);
    let (empty, empty_from) = channel();
    let stop = AtomicBool::new(false);
    let reader = Reader { input, monitor, stop: &stop, full: full_to, empty: empty_from, made: 0, begun: false };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("input".into());
        let started = thread.spawn_scoped(scope, move || reader.run(hashed));
        started.map_err(|error| Failure::Input(Errno::from_io_error(&error).unwrap_or(Errno::AGAIN)))?;
        let mut pieces = Pieces { full, empty, hash: None };
        let result = work(&mut pieces);
        stop.store(true, Ordering::Relaxed);
        result
    })
}

struct Reader<'a> {
    input: &'a Input<'a>,
    monitor: &'a dyn Monitor,
    /// Set when nobody takes the pieces any more.
    stop: &'a AtomicBool,
    full: SyncSender<Message>,
    empty: Receiver<Vec<u8>>,
    made: usize,
    /// Something has been read.
    begun: bool,
}

impl Reader<'_> {
    fn run(mut self, hashed: bool) {
        let mut hasher = hashed.then(blake3::Hasher::new);
        let pipe = if self.input.kind == FileType::Fifo { enlarge(self.input) } else { 0 };
        loop {
            let Some(mut bytes) = self.empty_piece() else { return };
            let message = match self.fill(&mut bytes, pipe) {
                Err(errno) => Message::Failed(errno),
                Ok(()) if bytes.is_empty() => Message::End(hasher.as_ref().map(|hasher| *hasher.finalize().as_bytes())),
                Ok(()) => {
                    if let Some(hasher) = &mut hasher {
                        hasher.update(&bytes);
                    }
                    Message::Piece(bytes)
                }
            };
            let is_last = !matches!(message, Message::Piece(_));
            if self.full.send(message).is_err() || is_last {
                return;
            }
        }
    }

    /// A piece to fill; `None` if nobody will take it.
    fn empty_piece(&mut self) -> Option<Vec<u8>> {
        match self.empty.try_recv() {
            Ok(piece) => Some(piece),
            Err(_) if self.made < PIECES => {
                self.made += 1;
                Some(Vec::new())
            }
            Err(_) => self.empty.recv().ok(),
        }
    }

    /// Reads until the piece is full or the input ends.
    fn fill(&mut self, bytes: &mut Vec<u8>, pipe: usize) -> rustix::io::Result<()> {
        bytes.resize(PIECE, 0);
        let mut filled = 0;
        while filled < PIECE {
            if self.stop.load(Ordering::Relaxed) || self.monitor.is_cancelled() {
                return Err(Errno::CANCELED);
            }
            let mut ready = [PollFd::new(&self.input.fd, PollFlags::IN)];
            match poll(&mut ready, Some(&PATIENCE)) {
                Ok(0) | Err(Errno::INTR) => {
                    if self.input.producer.is_some_and(|producer| producer.has_failed(self.monitor)) {
                        break;
                    }
                    continue;
                }
                // An input that cannot be polled is read all the same.
                Ok(_) | Err(_) => {}
            }
            match read(self.input.fd, &mut bytes[filled..]) {
                Ok(0) => break,
                Ok(got) => {
                    filled += got;
                    if !std::mem::replace(&mut self.begun, true) {
                        self.input.begins(self.monitor);
                    }
                    if got < pipe / 4 && filled < PIECE {
                        std::thread::sleep(NAP);
                    }
                }
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => return Err(errno),
            }
        }
        bytes.truncate(filled);
        Ok(())
    }
}

/// Enlarges a pipe, if permitted. Returns its size, or 0 if it is too small to leave unread for a while.
fn enlarge(input: &Input<'_>) -> usize {
    let size = fcntl_getpipe_size(input.fd).unwrap_or(0);
    let size = if size < PIPE { fcntl_setpipe_size(input.fd, PIPE).unwrap_or(size) } else { size };
    if size < PIPE { 0 } else { size }
}
