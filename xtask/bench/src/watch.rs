//! A running command as `/proc` shows it: its peak memory, its peak number of threads, and the bytes that it read from
//! devices.
//!
//! Not from `getrusage`: the maximum resident set of a child starts with that of the parent that forked it.

use rustix::process::{Pid, WaitId, WaitIdOptions};
use std::fs;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The interval between samples.
const INTERVAL: Duration = Duration::from_millis(5);

/// The counters of a command and of its child processes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// The peak memory of any one of its processes, in bytes: `VmHWM` of proc_pid_status(5).
    pub(crate) memory: u64,
    /// The most bytes that any one of its processes read from devices: `read_bytes` of proc_pid_io(5). For child
    /// processes, only reads that were sampled count, until the command has collected them; then they count as its own.
    pub(crate) read: u64,
    /// The most threads that all of its processes together had at once.
    pub(crate) threads: u64,
}

impl Seen {
    fn reads(&mut self, pid: u32) {
        self.read = self.read.max(field(&format!("/proc/{pid}/io"), "read_bytes:").unwrap_or(0));
    }
}

/// Waits for the end of a command, without collecting it; the caller must still call `wait`.
pub(crate) fn to_the_end(child: &Child) -> Seen {
    let pid = child.id();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut seen = Seen::default();
            while !ended.load(Ordering::Relaxed) {
                let threads = look(pid, &mut seen);
                seen.threads = seen.threads.max(threads);
                thread::sleep(INTERVAL);
            }
            seen
        });
        // The counters of a process stay available until it is collected.
        let wait = WaitId::Pid(Pid::from_child(child));
        while let Err(rustix::io::Errno::INTR) =
            rustix::process::waitid(wait.clone(), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        {}
        ended.store(true, Ordering::Relaxed);
        let mut seen = watcher.join().expect("the watcher does not panic");
        // These include the reads of collected children.
        seen.reads(pid);
        seen
    })
}

/// Samples a process and its children; returns their current number of threads.
fn look(pid: u32, seen: &mut Seen) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    if let Some(kibibytes) = value(&status, "VmHWM:") {
        seen.memory = seen.memory.max(kibibytes << 10);
    }
    seen.reads(pid);
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let below: u64 =
        children.split_whitespace().filter_map(|child| child.parse().ok()).map(|child| look(child, seen)).sum();
    value(&status, "Threads:").unwrap_or(0) + below
}

fn field(file: &str, key: &str) -> Option<u64> {
    value(&fs::read_to_string(file).ok()?, key)
}

fn value(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_small_command_takes_less_memory_than_its_large_parent() {
        let ballast = vec![1_u8; 64 << 20];
        let mut child = Command::new("sleep").arg("0.1").spawn().unwrap();
        let seen = to_the_end(&child);
        child.wait().unwrap();
        assert!(seen.memory > 0 && seen.memory < 32 << 20, "{seen:?}");
        assert_eq!(seen.threads, 1);
        assert_eq!(ballast.iter().map(|byte| u64::from(*byte)).sum::<u64>(), 64 << 20);
    }
}
