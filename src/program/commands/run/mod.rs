//! `pleach run PROFILE`: hooks, steps, metrics, and one exit status for all of them.
//!
//! The order is: hooks `before`, the steps, hooks `after` if all steps were done, the metrics, hooks `failed` if
//! anything failed, hooks `finally`. A failure does not end the run: parts that do not need the failed one are done.

mod hook;
mod step;

use super::outcome::Ended;
use crate::error::{Error, ErrorKind, Result};
use crate::monitor::Silent;
use crate::program::cli::{self, Globals};
use crate::program::exit_status::ExitStatus;
use crate::program::output::{Output, run as show};
use crate::program::profile::{self, Command, Process, Profile};
use crate::snapshot::Repository;
use crate::sys::ioprio;
use hook::When;
use std::ffi::OsString;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use step::{Context, Need, Step};

pub(crate) fn run(args: &cli::Run, globals: &Globals, output: &Output) -> Result<Ended> {
    let file = profile::open(&args.profile)?;
    if let Some(why) = file.distrust.as_deref().filter(|_| !args.show) {
        let error = Error::failed("run the profile as root").at(&file.path).because(std::io::Error::other(why));
        let hint =
            "its hooks are commands; make it root's, without write permission for others: chown root, chmod go-w";
        return Err(error.hint(hint).with_code("profile-not-trusted"));
    }
    let profile = match Profile::read(&file.text, &file.name, &file.path) {
        Ok(profile) => profile,
        Err(mut mistakes) => {
            let rest = Profile::without_steps(&file.text, &file.name, &file.path);
            if let Some(rest) = rest.filter(|_| !args.show && !args.dry_run) {
                output.work_unattended();
                Run::new(&rest, globals.threads, false, output).refuse(&mistakes);
            }
            let last = mistakes.pop().unwrap_or_else(|| Error::usage("use the profile").at(&file.path));
            mistakes.iter().for_each(|mistake| output.error(mistake));
            return Err(last);
        }
    };
    if args.show {
        if output.is_json() {
            output.json(&profile.object());
            show::show_profile(output);
        } else {
            output.text(profile.toml().as_bytes());
        }
        return Ok(Ended::Listed(ExitStatus::Done));
    }
    output.work_unattended();
    let mut run = Run::new(&profile, globals.threads, args.dry_run, output);
    if args.dry_run {
        run.plan()
    } else {
        run.work(&file)
    }
    run.results.seconds = run.began.elapsed().as_secs_f64();
    show::show(output, &run.results);
    Ok(Ended::Worked(run.results.status))
}

/// Whether work with this status did what it should, but for single entries.
fn is_done(status: ExitStatus) -> bool {
    matches!(status, ExitStatus::Done | ExitStatus::Incomplete)
}

/// A run in progress.
struct Run<'a> {
    context: Context<'a>,
    results: show::Results,
    began: Instant,
}

impl<'a> Run<'a> {
    fn new(profile: &'a Profile, threads: Option<usize>, dry_run: bool, output: &'a Output) -> Run<'a> {
        let results = show::Results {
            profile: profile.name.clone(),
            repository: profile.repository.clone(),
            began: now(),
            steps: Vec::new(),
            hooks: Vec::new(),
            snapshot: None,
            status: ExitStatus::Done,
            error: None,
            errors: 0,
            dry_run,
            seconds: 0.0,
        };
        Run { context: Context { profile, threads, dry_run, output }, results, began: Instant::now() }
    }

    /// Shows the work. Runs no hook.
    fn plan(&mut self) {
        let hooks = &self.context.profile.hooks;
        self.plan_hooks(When::Before, &hooks.before);
        self.steps();
        for (when, commands) in
            [(When::After, &hooks.after), (When::Failed, &hooks.failed), (When::Finally, &hooks.finally)]
        {
            self.plan_hooks(when, commands);
        }
    }

    fn plan_hooks(&self, when: When, commands: &[Command]) {
        for command in commands {
            let hook = show::Hook {
                r#type: "hook",
                hook: when.name(),
                command: command.clone(),
                status: None,
                error: None,
                output: String::new(),
                dry_run: true,
                seconds: 0.0,
            };
            show::hook(self.context.output, &hook);
            if let Some(program) = command.first().filter(|program| !hook::is_program(program)) {
                show::missing_program(self.context.output, when.name(), program);
            }
        }
    }

    /// Reports that the profile has mistakes to those who wait for the run.
    fn refuse(&mut self, mistakes: &[Error]) {
        self.results.status = ExitStatus::Usage;
        self.results.errors = mistakes.len() as u64;
        self.results.error = mistakes.first().map(ToString::to_string);
        mistakes.iter().for_each(|mistake| self.context.output.note(&format!("pleach: {mistake}")));
        self.save_metrics();
        self.hooks(When::Failed, &self.context.profile.hooks.failed);
    }

    fn work(&mut self, file: &profile::File) {
        let hooks = &self.context.profile.hooks;
        self.set_priority(&self.context.profile.process);
        let locked = self.is_locked(file);
        if let Some(why) = locked {
            self.skip_all(why);
        } else if self.hooks(When::Before, &hooks.before) {
            self.steps();
            if is_done(self.results.status) {
                self.hooks(When::After, &hooks.after);
            }
        } else {
            let is_interrupted = self.results.status == ExitStatus::Interrupted;
            self.skip_all(if is_interrupted { "interrupted" } else { "a hook before it failed" });
        }
        self.save_metrics();
        let saved = self.results.status;
        if self.results.status != ExitStatus::Done {
            self.hooks(When::Failed, &hooks.failed);
        }
        // It undoes the hooks before, which another run still needs.
        if locked.is_none() {
            self.hooks(When::Finally, &hooks.finally);
        }
        if self.results.status != saved {
            self.save_metrics();
        }
    }

    /// Whether another run has locked the profile or the repository, in words. Then the hooks before must not run: they
    /// could disturb it.
    fn is_locked(&mut self, file: &profile::File) -> Option<&'static str> {
        let repository = || {
            let path = self.context.profile.repository.as_deref()?;
            Repository::open(path).ok()?.lock(&Silent).err().map(|error| (error, "the repository is locked"))
        };
        let locked = match file.lock() {
            Err(error) => Some((error.hint("another run of it is in progress"), "another run is in progress")),
            Ok(()) => repository(),
        };
        // Whatever else is wrong, the steps report it.
        let (error, why) = locked.filter(|(error, _)| error.kind() == ErrorKind::Locked)?;
        self.fail(&error.hint_also("this run did nothing"), ExitStatus::Locked);
        Some(why)
    }

    fn steps(&mut self) {
        for step in Step::ALL.iter().copied().filter(|step| step.is_in(self.context.profile)) {
            if self.results.status == ExitStatus::Interrupted || self.context.output.is_interrupted() {
                self.worsen(ExitStatus::Interrupted);
                self.skip(step, "interrupted");
            } else if let Some(why) = self.obstacle(step) {
                self.skip(step, why);
            } else {
                self.step(step);
            }
        }
    }

    fn step(&mut self, step: Step) {
        let began = Instant::now();
        let result = step.run(&self.context);
        let seconds = began.elapsed().as_secs_f64();
        let (status, errors, figures) = match result {
            Ok(Some(done)) => {
                self.results.snapshot = done.snapshot.or(self.results.snapshot.take());
                if done.status != ExitStatus::Done {
                    let result = show::result(done.status, done.errors);
                    let error = || done.error.unwrap_or_else(|| format!("{}: {result}", step.name()));
                    self.results.error.get_or_insert_with(error);
                }
                self.results.errors += done.errors;
                self.worsen(done.status);
                (done.status, done.errors, done.figures)
            }
            Ok(None) => return,
            Err(error) => {
                let status = ExitStatus::of(&error);
                self.fail(&error, status);
                (status, 1, Vec::new())
            }
        };
        let outcome = show::Outcome::Ran { status, errors, seconds };
        self.results.steps.push(show::Step { step: step.name(), outcome, figures });
    }

    /// Why a step must not be done.
    fn obstacle(&self, step: Step) -> Option<&'static str> {
        let Context { profile, dry_run, .. } = self.context;
        let missing = step.needs(profile).iter().find_map(|need| self.unmet(need));
        missing.or_else(|| step.undone_in_dry_run(profile).filter(|_| dry_run))
    }

    /// Why the result of an earlier step is not good enough. A dry run assumes that the steps it skips would succeed.
    fn unmet(&self, need: &Need) -> Option<&'static str> {
        let result = self.results.steps.iter().find(|result| result.step == need.step.name());
        let Some(result) = result else { return Some(need.failed) };
        match result.outcome {
            show::Outcome::Ran { status, .. } if !is_done(status) => {
                let volatile = need.volatile.filter(|_| self.results.snapshot.is_some());
                volatile.or(Some(need.failed))
            }
            show::Outcome::Ran { errors: 1.., .. } => need.partial,
            show::Outcome::Ran { .. } => None,
            show::Outcome::Skipped { .. } => Some(need.failed).filter(|_| !self.context.dry_run),
        }
    }

    fn skip_all(&mut self, why: &'static str) {
        for step in Step::ALL.iter().copied().filter(|step| step.is_in(self.context.profile)) {
            self.skip(step, why);
        }
    }

    fn skip(&mut self, step: Step, skipped: &'static str) {
        let outcome = show::Outcome::Skipped { skipped };
        self.results.steps.push(show::Step { step: step.name(), outcome, figures: Vec::new() });
    }

    /// Runs the hooks of one kind; returns whether all succeeded. After a failure, only the hooks before the work stop.
    fn hooks(&mut self, when: When, commands: &[Command]) -> bool {
        let mut all = true;
        for command in commands {
            self.results.seconds = self.began.elapsed().as_secs_f64();
            let output = self.context.output;
            let report = (when != When::Before).then(|| show::report(&self.results, &output.log()));
            let job = hook::Job {
                when,
                command,
                environment: &self.environment(when),
                report: report.as_deref(),
                timeout: self.context.profile.hooks.timeout,
            };
            let (hook, result) = hook::run(&job, output);
            show::hook(output, &hook);
            self.results.hooks.push(hook);
            if let Err(error) = result {
                let status = match (error.kind(), when) {
                    (ErrorKind::Interrupted, _) => ExitStatus::Interrupted,
                    (_, When::Before) => ExitStatus::Failed,
                    // The work itself is done.
                    _ => ExitStatus::Incomplete,
                };
                self.fail(&error, status);
                all = false;
                if when == When::Before || status == ExitStatus::Interrupted {
                    break;
                }
            }
        }
        all
    }

    /// The variables of a hook. None of them is inherited from another run.
    fn environment(&self, when: When) -> [(&'static str, Option<OsString>); 7] {
        let results = &self.results;
        let status = (when != When::Before).then(|| (results.status as u8).to_string().into());
        [
            ("PLEACH_HOOK", Some(when.name().into())),
            ("PLEACH_PROFILE", Some(results.profile.clone().into())),
            ("PLEACH_PROFILE_FILE", Some(self.context.profile.path.clone().into())),
            ("PLEACH_REPOSITORY", results.repository.clone().map(Into::into)),
            ("PLEACH_STATUS", status),
            ("PLEACH_SNAPSHOT", results.snapshot.clone().map(Into::into)),
            ("PLEACH_ERROR", results.error.clone().map(Into::into)),
        ]
    }

    /// Reports a failure.
    fn fail(&mut self, error: &Error, status: ExitStatus) {
        self.context.output.error(error);
        self.results.error.get_or_insert_with(|| error.to_string());
        self.results.errors += 1;
        self.worsen(status);
    }

    fn worsen(&mut self, status: ExitStatus) {
        self.results.status = self.results.status.worse(status);
    }

    fn save_metrics(&mut self) {
        let Some(path) = &self.context.profile.metrics.file else { return };
        self.results.seconds = self.began.elapsed().as_secs_f64();
        if let Err(error) = show::metrics::save(path, &self.results, now()) {
            self.fail(&error, ExitStatus::Incomplete);
        }
    }

    /// Before other threads and processes start, because they inherit the priority.
    fn set_priority(&self, process: &Process) {
        let nice = process.nice.map(|nice| rustix::process::setpriority_process(None, nice));
        let io = process.io.map(ioprio::set);
        for (what, result) in [("processor", nice), ("I/O", io)] {
            if let Some(Err(errno)) = result {
                let cause = crate::util::text::cause(&errno.into());
                let sentence = format!("cannot set the {what} priority: {cause}");
                self.context.output.warning("priority-not-set", &sentence);
            }
        }
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
