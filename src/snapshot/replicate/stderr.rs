//! The messages of ssh(1), and of the receiver on the remote host. They are passed on line by line. The last ones,
//! after which the program ends, are kept: they say why.

use crate::util::text;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io::{ErrorKind, Read as _};
use std::os::fd::OwnedFd;
use std::process::ChildStderr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A line waits so long for the end of the program.
const PATIENCE: Duration = Duration::from_millis(400);
/// How often everything else is looked at.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// A longer line is divided.
const LONGEST: usize = 4 << 10;
/// How many of the last lines are kept.
const KEPT: usize = 100;

/// How far the program is.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The conversation is over: the messages from here on belong to its end.
    pub(super) is_over: AtomicBool,
    /// The program has ended.
    pub(super) has_ended: AtomicBool,
}

/// Reads messages until the program has ended. Something that it leaves behind may keep the pipe open. Calls `pass_on`
/// with each line, and `tick` now and then. Returns the last lines.
pub(super) fn follow(pipe: ChildStderr, progress: &Progress, pass_on: &dyn Fn(&str), tick: &dyn Fn()) -> Vec<String> {
    let mut pipe = std::fs::File::from(OwnedFd::from(pipe));
    if let Ok(flags) = fcntl_getfl(&pipe) {
        let _ = fcntl_setfl(&pipe, flags | OFlags::NONBLOCK);
    }
    let mut lines = Lines::default();
    let mut is_open = true;
    loop {
        let has_ended = progress.has_ended.load(Ordering::Acquire);
        let is_over = progress.is_over.load(Ordering::Acquire);
        if !has_ended && !is_open {
            std::thread::sleep(Duration::from_millis(50));
        } else if !has_ended {
            let _ = poll(&mut [PollFd::new(&pipe, PollFlags::IN)], Some(&TICK));
        }
        let mut buffer = [0; 4096];
        let count = match pipe.read(&mut buffer) {
            Ok(0) => {
                is_open = false;
                0
            }
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            Err(_) => {
                is_open = false;
                0
            }
        };
        lines.add(&buffer[..count]);
        lines.pass_on(is_over, pass_on);
        if has_ended && count == 0 {
            break;
        }
        tick();
    }
    lines.end();
    lines.waiting.into_iter().map(|(line, _)| line).collect()
}

#[derive(Default)]
struct Lines {
    part: Vec<u8>,
    waiting: std::collections::VecDeque<(String, Instant)>,
}

impl Lines {
    fn add(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.part.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.part.len() >= LONGEST {
                self.end();
            }
        }
    }

    fn end(&mut self) {
        let line = text::escape_output(String::from_utf8_lossy(&self.part).trim_end());
        self.part.clear();
        if !line.is_empty() {
            self.waiting.push_back((line, Instant::now()));
        }
    }

    /// Passes on the lines that have waited long enough, or too many.
    fn pass_on(&mut self, is_over: bool, pass_on: &dyn Fn(&str)) {
        let is_due = |at: &Instant| !is_over && at.elapsed() >= PATIENCE;
        while let Some((line, _)) = self.waiting.front().filter(|(_, at)| is_due(at)) {
            pass_on(line);
            self.waiting.pop_front();
        }
        while self.waiting.len() > KEPT {
            self.waiting.pop_front();
        }
    }
}
