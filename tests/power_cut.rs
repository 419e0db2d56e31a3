//! The power is cut while pleach runs. No old data may be lost, only data on the disk counts as done, and the same
//! command, run again, completes the work. The last check of all reads from a fresh mount.
//!
//! A [`Job`] is a command with its initial state and the checks after it. [`cut`] runs it on a separate disk and cuts
//! the power at several moments, which are spread over the run by its progress on the device. The number and the choice
//! of moments can be set: see docs/testing.md.

mod adopt;
mod copy;
mod dedupe;
mod done;
mod failed_writes;
mod listed;
#[cfg(feature = "offsite")]
mod offsite;
mod prune;
mod put;
mod recorded;
mod repair;
mod replaced;
mod replicate;
mod restore;
mod running;
mod snapshot;
mod tag;
mod trees;

use crate::harness::disk::{Disk, Shelf};
use crate::harness::power::Shutdown;
use crate::harness::random::{Random, seed};
use crate::harness::*;
use recorded::{Recorded, Unflushed};
use running::{Progress, Running};
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

/// How the power is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The filesystem is shut down and its run ends with errors.
    ShutDown(Shutdown),
    /// The image is cloned while the run continues.
    CloneImage,
    /// All requests to the device are recorded, and replayed up to a moment.
    Replay(Unflushed),
    /// The power stays on, but most writes during the run do not reach the disk.
    FailWrites,
}

/// The faults found, in words.
type Faults = Vec<String>;

/// A command that meets a power cut.
trait Job {
    /// Makes the state of the disk before the command begins.
    fn prepare(&self);

    /// The command.
    fn command(&self) -> Command;

    /// The command that must complete the work after a power cut.
    fn again(&self) -> Command {
        self.command()
    }

    /// Forgets what earlier runs reported.
    fn begin(&self) {}

    /// The number of parts of its work that the command has reported as done.
    fn reported(&self) -> usize {
        0
    }

    /// Checks the disk before anything is run again.
    fn check_recovered(&self, cut: &Cut<'_>, faults: &mut Faults);

    /// Checks the disk after the command of [`Job::again`], on a fresh mount.
    fn check_completed(&self, faults: &mut Faults);
}

/// A power cut.
struct Cut<'s> {
    /// The moment in the run, from 0 to 1.
    at: f64,
    /// The disk after the power cut.
    disk: Disk<'s>,
    /// The number of parts that the command had reported as done by then.
    reported: usize,
    /// Whether the command had ended with success by then, so that everything must be on the disk.
    is_done: bool,
}

/// The size of the disks.
const MEBIBYTES: u64 = 600;

/// Cuts the power at several moments of a job on disks of this shelf, or lets its writes fail. Panics if there are any
/// faults afterwards.
fn cut(shelf: &Shelf, way: Way, job: &dyn Job) {
    let (moments, seed) = (moments(), seed());
    let mut template = shelf.disk(MEBIBYTES);
    template.mount();
    job.prepare();
    template.unmount();
    let whole = Whole::measure(&template, job);
    if way == Way::FailWrites {
        return failed_writes::once(shelf, template, whole.status, job);
    }
    let mut random = Random(seed);
    // Spread evenly, each at a random point of its part; the last one is after the end.
    let mut fractions: Vec<f64> =
        (0..moments - 1).map(|n| (n as f64 + random.fraction()) / (moments - 1) as f64).collect();
    fractions.push(f64::INFINITY);
    let mut failures = Vec::new();
    let mut count = 0;
    let mut check = |mut cut: Cut<'_>| {
        count += 1;
        let faults = faults_after(&mut cut, whole.status, job);
        if !faults.is_empty() {
            let shown = faults.iter().rev().take(10).rev().cloned().collect::<Vec<_>>().join("\n  ");
            failures.push(format!("at {:.3} of the run, {} faults, the last ones:\n  {shown}", cut.at, faults.len()));
        }
    };
    match way {
        Way::FailWrites => {}
        Way::Replay(unflushed) => {
            let mut run = Recorded::run(&template, job);
            for requests in run.moments(moments, &mut random) {
                check(run.cut(requests, unflushed, &mut random));
            }
        }
        Way::ShutDown(how) => fractions.iter().for_each(|at| check(whole.shut_down(&template, job, *at, how))),
        Way::CloneImage => {
            // Each clone slows the run down a little, so several runs make the clones.
            for part in interleaved(&fractions, moments.div_ceil(6)) {
                whole.clone_images(&template, job, &part).into_iter().for_each(&mut check);
            }
        }
    }
    let title = thread::current().name().unwrap_or_default().to_string();
    let title = format!("{title}: {count} moments, {} failures (PLEACH_TEST_SEED={seed})", failures.len());
    report(&title);
    counted(count, "power cuts");
    assert!(failures.is_empty(), "{title}\n{}", failures.join("\n"));
}

/// The faults after a power cut.
fn faults_after(cut: &mut Cut<'_>, status: i32, job: &dyn Job) -> Faults {
    let mut faults = Faults::new();
    cut.disk.mount();
    job.check_recovered(cut, &mut faults);
    let run = run_again(status, job, &mut faults);
    cut.disk.unmount();
    cut.disk.mount();
    let before = faults.len();
    job.check_completed(&mut faults);
    if faults.len() > before {
        faults.push(format!("… after running again, with status {}", run.status));
    }
    cut.disk.unmount();
    faults
}

/// Runs the command of [`Job::again`], which must end with this status.
fn run_again(status: i32, job: &dyn Job, faults: &mut Faults) -> Run {
    job.begin();
    let mut command = job.again();
    let run = finish(&mut command);
    if run.status != status {
        faults.push(format!("run again, its status is {}: {command:?}\n{}", run.status, run.stderr));
    }
    run
}

/// The result of an uninterrupted run of a job.
struct Whole {
    status: i32,
    progress: Progress,
}

impl Whole {
    /// Runs the job to its end.
    fn measure(template: &Disk<'_>, job: &dyn Job) -> Whole {
        let mut run = Running::start(template, job);
        while run.is_running() {
            run.meter.read(&run.disk);
        }
        let status = run.end();
        assert!(matches!(status, 0 | 3), "a run without a power cut succeeds: {status}, {}", run.stderr());
        run.disk.unmount();
        let progress = run.meter.read_unmounted();
        run.disk.mount();
        let mut faults = Faults::new();
        job.check_completed(&mut faults);
        assert!(faults.is_empty(), "a run without a power cut does its work: {faults:#?}");
        run.disk.unmount();
        Whole { status, progress }
    }

    /// The progress as a fraction of the whole run.
    fn fraction(&self, progress: Progress) -> f64 {
        let part = |now: u64, all: u64| now as f64 / all.max(1) as f64;
        let sectors = part(progress.sectors, self.progress.sectors);
        let blocks = part(progress.changed_blocks, self.progress.changed_blocks);
        (sectors + blocks) / 2.0
    }

    /// Runs the job until `at` of it is done, or to its end, and shuts its filesystem down.
    fn shut_down<'s>(&self, template: &Disk<'s>, job: &dyn Job, at: f64, how: Shutdown) -> Cut<'s> {
        let mut run = Running::start(template, job);
        while run.is_running() && self.fraction(run.meter.read(&run.disk)) < at {}
        run.disk.shut_down(how);
        let is_done = run.end() == 0;
        let reported = job.reported();
        run.disk.unmount();
        Cut { at, disk: run.disk.clone_now(), reported, is_done }
    }

    /// Runs the job to its end, and clones its disk at these moments.
    fn clone_images<'s>(&self, template: &Disk<'s>, job: &dyn Job, moments: &[f64]) -> Vec<Cut<'s>> {
        let mut run = Running::start(template, job);
        let mut cuts = Vec::new();
        let mut moments = moments.iter().copied().peekable();
        while run.is_running() {
            let now = self.fraction(run.meter.read(&run.disk));
            if let Some(at) = moments.next_if(|at| *at <= now) {
                let reported = job.reported();
                cuts.push(Cut { at, disk: run.disk.clone_now(), reported, is_done: false });
            }
        }
        let is_done = run.end() == 0;
        // The moments that the run did not reach before it ended.
        for at in moments {
            cuts.push(Cut { at, disk: run.disk.clone_now(), reported: job.reported(), is_done });
        }
        run.disk.unmount();
        cuts
    }
}

/// The number of moments at which the power is cut.
fn moments() -> usize {
    let set = env::var("PLEACH_TEST_POWER_CUTS").ok();
    set.map_or(2, |number| number.parse().expect("PLEACH_TEST_POWER_CUTS is a number")).max(2)
}

/// Distributes the items over this many lists, each spread over the whole.
fn interleaved(items: &[f64], lists: usize) -> Vec<Vec<f64>> {
    (0..lists).map(|first| items.iter().skip(first).step_by(lists).copied().collect()).collect()
}

/// The command pleach with these arguments.
fn pleach_command(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(binary());
    command.args(args).env_remove("PLEACH_REPO").stdin(Stdio::null());
    command
}

/// The tested pleach; a variable can name another binary, to see what these tests find in it.
fn binary() -> PathBuf {
    env::var_os("PLEACH_TEST_BINARY").map_or_else(|| env!("CARGO_BIN_EXE_pleach").into(), PathBuf::from)
}

/// Makes a test of each job on each filesystem, for each way to cut the power there.
macro_rules! cut_on_filesystems {
    ($($job:ident),+ $(,)?) => {
        $(mod $job {
            use $crate::harness::power::Shutdown;
            use $crate::on_filesystems;
            use $crate::power_cut::Way;
            use $crate::power_cut::recorded::Unflushed;
            on_filesystems! {
                [xfs, ext4] fn shutdown_with_the_log_written(fs: &Filesystem) {
                    super::super::$job(fs, Way::ShutDown(Shutdown::LogWritten));
                }

                [xfs, ext4] fn shutdown_at_once(fs: &Filesystem) {
                    super::super::$job(fs, Way::ShutDown(Shutdown::AtOnce));
                }

                fn image_cloned(fs: &Filesystem) {
                    super::super::$job(fs, Way::CloneImage);
                }

                fn requests_replayed(fs: &Filesystem) {
                    super::super::$job(fs, Way::Replay(Unflushed::Kept));
                }

                fn requests_replayed_and_some_since_the_last_flush_lost(fs: &Filesystem) {
                    super::super::$job(fs, Way::Replay(Unflushed::Random));
                }

                // Btrfs makes itself read-only when metadata cannot be written.
                [xfs, ext4] fn writes_that_failed_once(fs: &Filesystem) {
                    super::super::$job(fs, Way::FailWrites);
                }
            }
        })+
    };
}
use cut_on_filesystems;

/// Makes a test of each job on each filesystem, for the cuts between any two requests. For commands that write by the
/// functions that other jobs put to the proof in each way.
macro_rules! cut_between_requests {
    ($($job:ident),+ $(,)?) => {
        $(mod $job {
            use $crate::on_filesystems;
            use $crate::power_cut::Way;
            use $crate::power_cut::recorded::Unflushed;
            on_filesystems! {
                fn requests_replayed(fs: &Filesystem) {
                    super::super::$job(fs, Way::Replay(Unflushed::Kept));
                }

                fn requests_replayed_and_some_since_the_last_flush_lost(fs: &Filesystem) {
                    super::super::$job(fs, Way::Replay(Unflushed::Random));
                }
            }
        })+
    };
}
use cut_between_requests;

/// A shelf for the disks of a test.
fn shelf(fs: &Filesystem) -> Option<Shelf> {
    let name = thread::current().name().unwrap_or_default().to_string();
    Shelf::new(fs.kind, &name, 8 * MEBIBYTES)
}
