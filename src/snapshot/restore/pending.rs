//! Runs the jobs that wait until data is on the disk: they set the times of written files, put names in the place of
//! others, and do what must follow. See `after_sync` in `tree::writer`.

use super::context::Context;
use super::job::Job;
use super::stats::Stats;
use super::{directory, outcome};
use crate::tree::writer::{AfterSync, Run, Synced, Target as _};
use crate::util::mutex::lock;

impl Run for Context<'_> {
    type Job = Job;

    fn waiting(&self) -> &AfterSync<Job> {
        &self.waiting
    }

    fn finish(&self, job: Job, synced: &Synced) {
        let mut stats = Stats::default();
        match job {
            Job::File { file, change, path } => match file.settle(synced) {
                Ok(refused) => {
                    change.inspect(|change| self.done.count(*change));
                    stats.errors += outcome::report_seal(self, refused, || self.shown(&path.path()));
                }
                Err(errno) => {
                    self.monitor.problem(&self.failure(&path.path(), "put in place", errno).into_error());
                    stats.errors += 1;
                }
            },
            Job::End(place, end) => {
                if let Err(error) = directory::end(self, &place, end, &mut stats) {
                    let _ = self.fatal.set(error);
                }
            }
        }
        lock(&self.late).add(&stats);
    }
}
