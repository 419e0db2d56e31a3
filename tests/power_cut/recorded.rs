//! Power cuts between any two requests to the device. All requests of one run are recorded. Then they are replayed on
//! copies of the disk, each time up to another one.

use super::*;
use crate::harness::recorder::{Event, Journal};
use std::fs::File;
use std::sync::Arc;

/// What a power cut leaves of the requests since the last flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unflushed {
    /// All of them.
    Kept,
    /// Each one or not, as a disk with a cache writes them in any order.
    Random,
}

/// The recorded requests of a run, and the disk before them.
pub(super) struct Recorded<'s> {
    /// The disk with all requests up to the last flush before the present moment.
    flushed: Disk<'s>,
    /// The number of requests in it.
    done: usize,
    journal: Arc<Journal>,
    events: Vec<Event>,
    reports: Vec<Report>,
}

/// What the command had reported at the latest when the device had completed this number of requests.
struct Report {
    requests: usize,
    reported: usize,
    is_done: bool,
}

impl<'s> Recorded<'s> {
    /// Runs a job to its end.
    pub(super) fn run(template: &Disk<'s>, job: &dyn Job) -> Recorded<'s> {
        let flushed = template.clone_now();
        let mut run = Running::start_recorded(template, job);
        let journal = run.recorder.as_ref().expect("the run is recorded").journal();
        let mut reports: Vec<Report> = Vec::new();
        let mut report = |is_done| {
            // In this order: a report may depend on requests up to now, but on no later ones.
            let reported = job.reported();
            let requests = journal.len();
            if is_done || reports.last().is_none_or(|last| last.reported < reported) {
                reports.push(Report { requests, reported, is_done });
            }
        };
        while run.is_running() {
            report(false);
        }
        report(run.end() == 0);
        run.disk.unmount();
        drop(run);
        Recorded { flushed, done: 0, events: journal.events(), journal, reports }
    }

    /// The numbers of requests after which the power is cut: each change of the disk, or this many of them, spread over
    /// the run. The last one is after all requests.
    pub(super) fn moments(&self, wanted: usize, random: &mut Random) -> Vec<usize> {
        let changes = self.events.iter().enumerate().filter(|(_, event)| **event != Event::Flush);
        let mut all: Vec<usize> = changes.map(|(at, _)| at).collect();
        if wanted > all.len() {
            counted(1, "recorded runs with a power cut after each request");
        } else {
            let part = all.len() as f64 / (wanted - 1) as f64;
            let choose = |number: usize| all[((number as f64 + random.fraction()) * part) as usize];
            all = (0..wanted - 1).map(choose).collect();
        }
        all.push(self.events.len());
        all
    }

    /// The disk after a power cut behind this number of requests. Numbers must rise from call to call.
    pub(super) fn cut(&mut self, requests: usize, unflushed: Unflushed, random: &mut Random) -> Cut<'s> {
        let before = &self.events[..requests];
        let flush = before.iter().rposition(|event| *event == Event::Flush).unwrap_or(0);
        self.replay(&self.flushed, self.done..flush, || true);
        self.done = flush;
        let disk = self.flushed.clone_now();
        self.replay(&disk, flush..requests, || unflushed == Unflushed::Kept || random.fraction() < 0.5);
        let known = self.reports.iter().rev().find(|report| report.requests <= requests);
        let (reported, is_done) = known.map_or((0, false), |report| (report.reported, report.is_done));
        Cut { at: requests as f64 / self.events.len() as f64, disk, reported, is_done }
    }

    fn replay(&self, disk: &Disk<'_>, events: std::ops::Range<usize>, mut is_kept: impl FnMut() -> bool) {
        let image = File::options().write(true).open(disk.image()).expect("an image can be opened");
        for event in self.events[events].iter().filter(|_| is_kept()) {
            self.journal.replay(*event, &image).expect("a request can be repeated");
        }
    }
}
