//! The command `pleach`: sets up the process (signals, the message of a panic), parses the command line, runs the
//! command, and turns the result into an exit status.
//!
//! `cli` has the command line, `commands` one file per command, `output` everything that is shown. The engines are in
//! the other modules of the library. Without the feature `cli` there is only the library.

mod cli;
mod commands;
mod exit_status;
#[cfg(feature = "testing")]
pub(crate) mod fuzz {
    pub(crate) use super::cli::fuzz::values;
    pub(crate) use super::profile::fuzz::profile;
}
mod output;
#[cfg(feature = "testing")]
pub(crate) mod command_line {
    pub use super::cli::parse_only::{Mistake, help_texts, options, parse};
}
mod profile;

use crate::sys::abort;
use crate::util::panic::{errno, text};
use exit_status::ExitStatus;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Runs the command with the arguments of this process.
pub fn main() -> ExitCode {
    std::panic::set_hook(Box::new(report_panic));
    abort::exit_with(ExitStatus::Failed as u8);
    let args: Vec<_> = std::env::args_os().collect();
    if args.get(1).is_some_and(|name| name == commands::words::NAME) {
        commands::words::answer(&args[2..]);
        return ExitCode::SUCCESS;
    }
    let cli = match cli::parse(args) {
        Ok(cli) => cli,
        Err(usage) => return ExitCode::from(output::terminal::show_usage(&usage) as u8),
    };
    allow_open_files();
    let cancel = Arc::new(AtomicBool::new(false));
    watch_signals(&cancel);
    ExitCode::from(commands::run(cli, cancel) as u8)
}

/// Raises the soft limit for open files to the hard limit: deep trees need many open directories.
fn allow_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If this fails, the old limit remains. A tree that is too deep for it is reported with its path.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// The first SIGINT, SIGQUIT, SIGTERM or SIGHUP asks the engines to stop. A second signal ends the process at once.
///
/// A signal that was ignored when the process started stays ignored: `nohup` needs this.
fn watch_signals(cancel: &Arc<AtomicBool>) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    const INTERRUPTED: i32 = ExitStatus::Interrupted as i32;
    let ignored = ignored_signals();
    for signal in [SIGINT, SIGQUIT, SIGTERM, SIGHUP] {
        if ignored & (1 << (signal - 1)) == 0 {
            // The order matters: the first signal must find the flag still unset. Without a handler, a signal ends the
            // process, which is harmless too.
            let _ = signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, cancel.clone());
            let _ = signal_hook::flag::register(signal, cancel.clone());
        }
    }
    // A file above the limit of the process (`ulimit -f`): with a handler the write fails, which is reported.
    let _ = signal_hook::flag::register(libc::SIGXFSZ, Arc::default());
}

/// The signals that were ignored when this process started, as the kernel's mask (proc_pid_status(5)). None if `/proc`
/// is not mounted.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// A backtrace takes less than a second. Without memory, it is never complete.
const BACKTRACE_SECONDS: u32 = 10;

/// A panic is a bug in pleach, or a lack of memory. Prints one readable message instead of a trace, and exits with the
/// status of a failure.
fn report_panic(panic: &std::panic::PanicHookInfo<'_>) {
    #[cfg(feature = "offsite")]
    if crate::snapshot::offsite::catches(panic) {
        return;
    }
    let what = text(panic.payload()).unwrap_or("no message");
    // The standard library panics if there is no memory to start a thread.
    if errno(what) == Some(libc::ENOMEM) {
        abort::without_memory();
    }
    let place = panic.location().map(|location| format!(" ({}:{})", location.file(), location.line()));
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(
        stderr,
        "\npleach: stopped by a bug in pleach {}: {}{}\n\
         pleach: published snapshots are not affected; a restore, copy or dedupe may be incomplete: \
         run the same command again\n\
         pleach: please report these lines and the command to the maintainers of pleach",
        env!("CARGO_PKG_VERSION"),
        output::terminal::harmless(what),
        place.unwrap_or_default(),
    );
    if std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0") {
        abort::exit_after(BACKTRACE_SECONDS);
        let _ = writeln!(stderr, "{}", std::backtrace::Backtrace::force_capture());
    }
    // Whichever thread panicked, other threads must not continue as if nothing had happened.
    std::process::exit(ExitStatus::Failed as i32);
}
