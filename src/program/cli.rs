//! The command line: its arguments, its help, and the `REPO` that is used if none is given. Nothing here does any work.

mod adopt;
mod cat;
mod copy;
mod dedupe;
mod diff;
mod du;
mod fiemap;
mod find;
#[cfg(feature = "testing")]
pub(super) mod fuzz;
mod help;
mod list;
mod log;
#[cfg(feature = "offsite")]
mod offsite;
#[cfg(feature = "testing")]
pub(super) mod parse_only;
mod probe;
mod prune;
mod put;
mod replicate;
mod repo_first;
mod report;
mod restore;
mod run;
mod snapshot;
mod tag;
mod texts;
mod usage_error;
mod values;
mod verify;
pub(crate) mod words;

pub(crate) use adopt::{Adopt, Layout};
pub(crate) use cat::Cat;
pub(crate) use copy::Copy;
pub(crate) use diff::Diff;
pub(crate) use du::Du;
pub(crate) use fiemap::Fiemap;
pub(crate) use find::Find;
pub(crate) use list::List;
pub(crate) use log::Log;
#[cfg(feature = "offsite")]
pub(crate) use offsite::{
    Check as OffsiteCheck, Init as OffsiteInit, List as OffsiteList, Offsite, Prune as OffsitePrune,
    Push as OffsitePush, Restore as OffsiteRestore, Store, Verb,
};
pub(crate) use probe::Probe;
pub(crate) use prune::{Prune, Remove};
pub(crate) use put::Put;
pub(crate) use replicate::{Receive, Replicate, Send};
pub(crate) use repo_first::is_path;
pub(crate) use report::Report;
pub(crate) use restore::{Overwrite, Restore};
pub(crate) use run::{InitProfile, Run};
pub(crate) use snapshot::{Excludes, Hash, Snapshot, Unchanged};
pub(crate) use tag::{Pin, Tag};
pub(crate) use texts::{Completions, Man};
pub(crate) use verify::Verify;

use crate::program::output::terminal::Usage;
use clap::error::ErrorKind;
use clap::{ArgAction, ArgMatches, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
pub(crate) use dedupe::{Dedupe, Ranges};
use std::ffi::OsString;
use std::path::PathBuf;

/// Snapshots and deduplication with the reflinks of XFS and Btrfs.
#[derive(Debug, Parser)]
#[command(name = "pleach", version, arg_required_else_help = true)]
#[command(disable_help_flag = true, disable_version_flag = true, disable_help_subcommand = true)]
#[command(after_help = help::ABOUT_COMMANDS, after_long_help = help::long(help::EXAMPLES))]
#[command(max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    /// Print the version
    #[arg(short = 'V', long, action = ArgAction::Version, help_heading = GLOBAL, hide_short_help = true)]
    version: Option<bool>,
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Whether the command has the option `--dry-run`, and it is given.
    #[arg(skip)]
    pub(crate) is_dry_run: bool,
}

/// Words are missing, or contradict each other.
const MISSING: ErrorKind = ErrorKind::MissingRequiredArgument;

/// The heading of the options that each command has.
const GLOBAL: &str = "Global options";

/// The options of every command, before or after its name.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = GLOBAL)]
pub(crate) struct Globals {
    /// Print JSON objects on stdout, one per line
    ///
    /// Messages go to stderr as well. See docs/messages.md for the objects.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Suppress informational output
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Show details, and every problem
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Number of threads; the default suits the device
    #[arg(short = 'j', long, global = true, value_name = "N")]
    #[arg(value_parser = values::whole::<usize>(1..=4096), allow_negative_numbers = true)]
    pub(crate) threads: Option<usize>,
    /// Show progress: auto, always, never
    ///
    /// auto: if stderr is a terminal.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    #[arg(hide_short_help = true)]
    pub(crate) progress: When,
    /// Use colours: auto, always, never
    ///
    /// auto: on a terminal.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    #[arg(hide_short_help = true)]
    pub(crate) color: When,
    /// Print this help; --help prints more
    #[arg(short, long, global = true, action = ArgAction::Help)]
    help: Option<bool>,
}

/// A choice that depends on the terminal unless the user makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Take a snapshot of the sources into a repository
    #[command(override_usage = "pleach snapshot [OPTIONS] SOURCE... REPO")]
    #[command(after_help = help::MORE, after_long_help = help::long(snapshot::EXAMPLES))]
    Snapshot(Snapshot),
    /// List the snapshots of a repository
    #[command(after_help = help::MORE, after_long_help = help::long(list::EXAMPLES))]
    List(List),
    /// Show what differs between two snapshots, or since one
    #[command(override_usage = "pleach diff [OPTIONS] REPO A B [PATH]")]
    #[command(after_help = help::MORE, after_long_help = help::long(diff::EXAMPLES))]
    Diff(Diff),
    /// Show the versions of a path in all snapshots
    #[command(override_usage = "pleach log [OPTIONS] REPO PATH")]
    #[command(after_help = help::MORE, after_long_help = help::long(log::EXAMPLES))]
    Log(Log),
    /// Print a file of a snapshot, and check its content
    #[command(override_usage = "pleach cat [OPTIONS] REPO ID PATH")]
    #[command(after_help = help::MORE, after_long_help = help::long(cat::EXAMPLES))]
    Cat(Cat),
    /// Find the snapshots that have a path
    #[command(override_usage = "pleach find [OPTIONS] REPO PATTERN")]
    #[command(after_help = help::MORE, after_long_help = help::long(find::EXAMPLES))]
    Find(Find),
    /// Restore a snapshot, or parts of it, below a directory
    #[command(override_usage = "pleach restore [OPTIONS] --target <DIR> REPO ID [PATH]...")]
    #[command(after_help = help::MORE, after_long_help = help::long(restore::EXAMPLES))]
    Restore(Restore),
    /// Remove the snapshots that no rule keeps
    #[command(override_usage = "pleach prune [OPTIONS] --keep-... [REPO]")]
    #[command(after_help = help::MORE, after_long_help = help::long(prune::EXAMPLES))]
    Prune(Prune),
    /// Remove single snapshots
    #[command(override_usage = "pleach remove [OPTIONS] REPO ID...")]
    #[command(after_help = help::MORE, after_long_help = help::long(prune::REMOVE_EXAMPLES))]
    Remove(Remove),
    /// List or change the tags of a snapshot
    #[command(override_usage = "pleach tag [OPTIONS] REPO ID [+TAG|-TAG]...")]
    #[command(after_help = help::MORE, after_long_help = help::long(tag::EXAMPLES))]
    Tag(Tag),
    /// Protect a snapshot from being removed
    #[command(override_usage = "pleach pin [OPTIONS] REPO ID")]
    #[command(after_help = help::MORE, after_long_help = help::long(tag::PIN_EXAMPLES))]
    Pin(Pin),
    /// Allow a pinned snapshot to be removed
    #[command(override_usage = "pleach unpin [OPTIONS] REPO ID")]
    #[command(after_help = help::MORE, after_long_help = help::long(tag::PIN_EXAMPLES))]
    Unpin(Pin),
    /// Check snapshots against their manifests and hashes
    #[command(override_usage = "pleach verify [OPTIONS] REPO [ID]...")]
    #[command(after_help = help::MORE, after_long_help = help::long(verify::EXAMPLES))]
    Verify(Verify),
    /// Send snapshots to another disk or host, keeping what they share
    #[command(override_usage = "pleach replicate [OPTIONS] REPO DEST [ID]...")]
    #[command(after_help = help::MORE, after_long_help = help::long(replicate::EXAMPLES))]
    Replicate(Replicate),
    /// Write a snapshot to standard output, for `receive`
    #[command(override_usage = "pleach send [OPTIONS] REPO ID > FILE", hide = true)]
    #[command(after_help = help::MORE, after_long_help = help::long(replicate::SEND_EXAMPLES))]
    Send(Send),
    /// Add snapshots from standard input, which `send` made
    #[command(override_usage = "pleach receive [OPTIONS] REPO < FILE", hide = true)]
    #[command(after_help = help::MORE, after_long_help = help::long(replicate::RECEIVE_EXAMPLES))]
    Receive(Receive),
    /// Push snapshots, encrypted, to an object store that restic reads
    #[cfg(feature = "offsite")]
    #[command(override_usage = "pleach offsite VERB --to <URL> ...")]
    #[command(after_help = help::MORE, after_long_help = help::long(offsite::EXAMPLES))]
    Offsite(Offsite),
    /// Write a page about a repository: growth, changes, problems
    #[command(after_help = help::MORE, after_long_help = help::long(report::EXAMPLES))]
    Report(Report),
    /// Turn the backups of rsync, rsnapshot and others into snapshots
    #[command(override_usage = "pleach adopt [OPTIONS] DIR... REPO")]
    #[command(after_help = help::MORE, after_long_help = help::long(adopt::EXAMPLES))]
    Adopt(Adopt),
    /// Do the work of a profile: hooks, snapshot, verify, prune, …
    ///
    /// The order is: hooks before, snapshot, verify, prune, replicate, dedupe, hooks after, metrics, hooks failed,
    /// hooks finally.
    #[command(after_help = help::MORE, after_long_help = help::long(run::EXAMPLES))]
    Run(Run),
    /// Write a commented profile for `pleach run`
    #[command(after_help = help::MORE, after_long_help = help::long(run::INIT_EXAMPLES))]
    InitProfile(InitProfile),
    /// Copy files and trees, by cloning if possible
    #[command(override_usage = "pleach copy [OPTIONS] SOURCE... DEST\n       \
                                pleach copy [OPTIONS] --target-directory <DIR> SOURCE...")]
    #[command(after_help = help::MORE, after_long_help = help::long(copy::EXAMPLES))]
    Copy(Copy),
    /// Replace a file by stdin or a command's output, sharing blocks
    ///
    /// Blocks that did not change are shared with the replaced file.
    #[command(
        override_usage = "pleach put [OPTIONS] DEST < DATA\n       pleach put [OPTIONS] DEST -- COMMAND [ARG]..."
    )]
    #[command(after_help = help::MORE, after_long_help = help::long(put::EXAMPLES))]
    Put(Put),
    /// Let files share equal data, and report the space freed
    #[command(after_help = help::MORE, after_long_help = help::long(dedupe::EXAMPLES))]
    Dedupe(Dedupe),
    /// Show the extents of files, and which of them are shared
    #[command(after_help = help::MORE, after_long_help = help::long(fiemap::EXAMPLES))]
    Fiemap(Fiemap),
    /// Show the features of a filesystem, and what they mean
    #[command(after_help = help::MORE, after_long_help = help::long(probe::EXAMPLES))]
    Probe(Probe),
    /// Show disk usage, sharing, and what deleting would free
    #[command(after_help = help::MORE, after_long_help = help::long(du::EXAMPLES))]
    Du(Du),
    /// Print the completion script of a shell
    #[command(after_help = help::MORE, after_long_help = help::long(texts::COMPLETIONS_EXAMPLES))]
    Completions(Completions),
    /// Write the man pages into a directory
    #[command(hide = true)]
    #[command(after_help = help::MORE, after_long_help = help::long(texts::MAN_EXAMPLES))]
    Man(Man),
}

/// Parses the command line and settles which path is the repository.
///
/// # Errors
/// The text to show instead: help, the version, or the mistake.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, Usage> {
    let args = help::with_flag(args.into_iter().collect());
    let is_json = args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json");
    settle(&args).map_err(|error| {
        let text = error.render();
        Usage {
            is_json,
            is_answer: !error.use_stderr(),
            is_help: error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
            plain: text.to_string(),
            ansi: text.ansi().to_string(),
        }
    })
}

/// Parses each argument by itself.
fn parsed(args: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let mut command = Cli::command();
    let mut matches = command.try_get_matches_from_mut(args)?;
    let is_dry_run = is_dry_run(&matches);
    let cli = Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))?;
    Ok(Cli { is_dry_run, ..cli })
}

/// Whether `--dry-run` is given to the command, or to the verb below it.
fn is_dry_run(matches: &ArgMatches) -> bool {
    let is_given = matches.try_get_one::<bool>("dry_run").ok().flatten().copied().unwrap_or(false);
    is_given || matches.subcommand().is_some_and(|(_, below)| is_dry_run(below))
}

fn settle(args: &[OsString]) -> Result<Cli, clap::Error> {
    let mut cli =
        parsed(tag::with_removals_last(args)).map_err(|error| usage_error::of_unknown(error, Cli::command()))?;
    // clap's own check does not see that one stands before and the other after the command's name.
    if cli.globals.quiet && cli.globals.verbose {
        let message = "the argument '--quiet' cannot be used with '--verbose'";
        return Err(Cli::command().error(ErrorKind::ArgumentConflict, message));
    }
    let environment = std::env::var_os("PLEACH_REPO").filter(|repo| !repo.is_empty()).map(PathBuf::from);
    match &mut cli.command {
        Command::Snapshot(snapshot) => {
            snapshot.settle(environment).map_err(|message| usage("snapshot", MISSING, &message))?;
        }
        Command::Adopt(adopt) => {
            adopt.settle(environment).map_err(|message| usage("adopt", MISSING, &message))?;
        }
        Command::Replicate(replicate) => {
            replicate.settle(environment).map_err(|message| usage("replicate", MISSING, &message))?;
        }
        Command::Send(send) => {
            send.settle(environment).map_err(|message| usage("send", MISSING, &message))?;
        }
        Command::Receive(receive) => {
            receive.settle(environment).map_err(|message| usage("receive", MISSING, &message))?;
        }
        #[cfg(feature = "offsite")]
        Command::Offsite(offsite) => {
            let settled = offsite.settle(environment);
            settled
                .map_err(|(verb, message)| usage_error::of(Cli::command(), &["offsite", verb], MISSING, &message))?;
        }
        Command::Restore(restore) => {
            restore.settle(environment).map_err(|message| usage("restore", MISSING, &message))?;
        }
        Command::Diff(diff) => {
            diff.settle(environment).map_err(|message| usage("diff", MISSING, &message))?;
            if cli.globals.json && diff.patch {
                let message = "the argument '--json' cannot be used with '--patch'";
                return Err(usage("diff", ErrorKind::ArgumentConflict, message));
            }
        }
        Command::Log(log) => {
            log.settle(environment).map_err(|message| usage("log", MISSING, &message))?;
        }
        Command::Cat(cat) => {
            cat.settle(environment).map_err(|message| usage("cat", MISSING, &message))?;
            if cli.globals.json {
                let message = "the argument '--json' cannot be used with 'cat', which prints a file";
                return Err(usage("cat", ErrorKind::ArgumentConflict, message));
            }
        }
        Command::Find(find) => {
            find.settle(environment).map_err(|message| usage("find", MISSING, &message))?;
        }
        Command::Remove(remove) => {
            remove.settle(environment).map_err(|message| usage("remove", MISSING, &message))?;
        }
        Command::Tag(tag) => {
            let settled = tag.settle(environment);
            settled.map_err(|message| usage("tag", ErrorKind::InvalidValue, &message))?;
        }
        Command::Pin(pin) | Command::Unpin(pin) => {
            let settled = pin.settle(environment);
            settled.map_err(|message| usage("pin", MISSING, &message))?;
        }
        Command::Verify(verify) => {
            verify.settle(environment).map_err(|message| usage("verify", MISSING, &message))?;
        }
        Command::Du(du) => {
            du.settle(environment).map_err(|message| usage("du", MISSING, &message))?;
        }
        Command::Copy(copy) => {
            copy.settle().map_err(|message| usage("copy", MISSING, &message))?;
        }
        Command::Fiemap(fiemap) => {
            fiemap
                .assert_one_use_of_stdout(cli.globals.json)
                .map_err(|message| usage("fiemap", ErrorKind::ArgumentConflict, message))?;
        }
        Command::Report(report) => {
            report
                .assert_consistent(cli.globals.json)
                .map_err(|message| usage("report", ErrorKind::ArgumentConflict, message))?;
        }
        // A variable that should hold the command was empty: stdin is not what the user meant.
        Command::Put(put) if put.command.is_empty() && args.last().is_some_and(|last| last == "--") => {
            return Err(usage("put", MISSING, "name the command to run after '--'"));
        }
        Command::List(_)
        | Command::Prune(_)
        | Command::Run(_)
        | Command::InitProfile(_)
        | Command::Put(_)
        | Command::Dedupe(_)
        | Command::Probe(_)
        | Command::Completions(_)
        | Command::Man(_) => {}
    }
    Ok(cli)
}

/// A usage error of one command: exit status 2.
fn usage(command: &str, kind: ErrorKind, message: &str) -> clap::Error {
    usage_error::of(Cli::command(), &[command], kind, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn each_command_that_has_a_dry_run_is_recognized_in_one() {
        fn check(command: &clap::Command, words: &[&str]) {
            if command.get_arguments().any(|arg| arg.get_long() == Some("dry-run")) {
                let line = |more: &[&'static str]| {
                    // The rest of the line does not matter here.
                    let matches = Cli::command().ignore_errors(true).try_get_matches_from([words, more].concat());
                    matches.map(|matches| is_dry_run(&matches)).unwrap()
                };
                assert!(line(&["--dry-run"]) && !line(&[]), "{words:?}");
            }
            for below in command.get_subcommands() {
                check(below, &[words, &[below.get_name()]].concat());
            }
        }
        check(&Cli::command(), &["pleach"]);
    }

    #[test]
    fn help_is_a_command_too() {
        let of = |line: &str| parse(line.split(' ').map(OsString::from)).map_err(|usage| usage.plain);
        assert_eq!(of("pleach help").unwrap_err(), of("pleach --help").unwrap_err());
        assert_eq!(of("pleach help restore").unwrap_err(), of("pleach restore --help").unwrap_err());
        assert!(of("pleach help nonsense").unwrap_err().contains("nonsense"));
    }
}
