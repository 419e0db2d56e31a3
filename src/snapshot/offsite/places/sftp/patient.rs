//! A pipe on which nothing waits longer than a host may be silent.

use super::super::error::silent;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Our end of a pipe.
#[derive(Debug)]
pub(super) struct Patient<P> {
    pipe: P,
    patience: Duration,
}

impl<P: AsFd> Patient<P> {
    pub(super) fn new(pipe: P, patience: Duration) -> io::Result<Patient<P>> {
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        Ok(Patient { pipe, patience })
    }

    /// From now on, waits so long.
    pub(super) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Repeats a call until it need not wait for the other end.
    fn repeat(&mut self, flags: PollFlags, mut call: impl FnMut(&mut P) -> io::Result<usize>) -> io::Result<usize> {
        let end = Instant::now() + self.patience;
        loop {
            match call(&mut self.pipe) {
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {}
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
                result => return result,
            }
            let rest = end.saturating_duration_since(Instant::now());
            let rest = Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&self.pipe, flags)], Some(&rest)) {
                Ok(0) => return Err(silent()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl<P: AsFd + Read> Read for Patient<P> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.repeat(PollFlags::IN, |pipe| pipe.read(buffer))
    }
}

impl<P: AsFd + Write> Write for Patient<P> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.repeat(PollFlags::OUT, |pipe| pipe.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pipe.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_silent_host_nor_one_that_reads_nothing_is_waited_for_without_end() {
        let (output, input) = io::pipe().unwrap();
        let patience = Duration::from_millis(20);
        let mut output = Patient::new(output, patience).unwrap();
        let mut input = Patient::new(input, patience).unwrap();
        assert_eq!(output.read(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(input.write_all(&[0; 4 << 20]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(output.read(&mut [0; 8]).is_ok_and(|length| length == 8));
    }
}
