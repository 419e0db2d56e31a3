//! A run of a job, and its progress on the device.

use super::Job;
use crate::harness::disk::Disk;
use crate::harness::recorder::Recorder;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A running job on a separate disk.
pub(super) struct Running<'s> {
    pub(super) disk: Disk<'s>,
    /// Dropped after the disk, which uses it.
    pub(super) recorder: Option<Recorder>,
    child: Child,
    log: PathBuf,
    begun: Instant,
    pub(super) meter: Meter,
}

impl<'s> Running<'s> {
    pub(super) fn start(template: &Disk<'s>, job: &dyn Job) -> Running<'s> {
        let mut disk = template.clone_now();
        disk.mount();
        Running::on(disk, None, job)
    }

    /// The same, with all requests to the device recorded.
    pub(super) fn start_recorded(template: &Disk<'s>, job: &dyn Job) -> Running<'s> {
        let mut disk = template.clone_now();
        let recorder = disk.mount_recorded();
        Running::on(disk, Some(recorder), job)
    }

    fn on(disk: Disk<'s>, recorder: Option<Recorder>, job: &dyn Job) -> Running<'s> {
        job.begin();
        let meter = Meter::new(&disk);
        let log = disk.image().with_extension("log");
        let stderr = fs::File::create(&log).expect("a log can be made");
        let mut command = job.command();
        let child = command.stdout(Stdio::null()).stderr(stderr).spawn().expect("the command can be started");
        Running { disk, recorder, child, log, begun: Instant::now(), meter }
    }

    /// Whether the job still runs, after a short wait.
    pub(super) fn is_running(&mut self) -> bool {
        assert!(self.begun.elapsed() < Duration::from_secs(300), "the run ends: {}", self.stderr());
        thread::sleep(Duration::from_micros(500));
        self.child.try_wait().expect("a child can be waited for").is_none()
    }

    /// Waits for the end of the job, and returns its exit status.
    pub(super) fn end(&mut self) -> i32 {
        while self.is_running() {}
        let status = self.child.wait().expect("a child can be waited for");
        status.code().unwrap_or(128)
    }

    pub(super) fn stderr(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.log);
    }
}

/// Adds up the changes on a disk.
pub(super) struct Meter {
    sectors: u64,
    blocks: u64,
    sum: Progress,
}

impl Meter {
    fn new(disk: &Disk<'_>) -> Meter {
        Meter { sectors: disk.sectors_written(), blocks: disk.blocks_used(), sum: Progress::default() }
    }

    pub(super) fn read(&mut self, disk: &Disk<'_>) -> Progress {
        let blocks = disk.blocks_used();
        self.sum.sectors = disk.sectors_written().saturating_sub(self.sectors);
        self.sum.changed_blocks += blocks.abs_diff(self.blocks);
        self.blocks = blocks;
        self.sum
    }

    /// The last reading.
    pub(super) fn read_unmounted(&self) -> Progress {
        self.sum
    }
}

/// The progress of a run, by its effect on its disk.
#[derive(Clone, Copy, Default)]
pub(super) struct Progress {
    pub(super) sectors: u64,
    /// The sum of all changes of the number of used blocks.
    pub(super) changed_blocks: u64,
}
