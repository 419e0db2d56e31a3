//! The command line: its words, its help, and what stands for a `REPO` that is left out. Nothing here does any work.

mod copy;
mod dedupe;
mod du;
mod help;
mod put;
mod snapshot;
mod values;

pub(crate) use copy::Copy;
pub(crate) use du::Du;
pub(crate) use put::Put;
pub(crate) use snapshot::{Excludes, Hash, Snapshot, Unchanged};

use crate::output::terminal::Usage;
use clap::builder::RangedU64ValueParser;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
pub(crate) use dedupe::{Dedupe, Ranges};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Snapshots that share what is equal, by the reflinks of XFS and Btrfs.
#[derive(Debug, Parser)]
#[command(name = "pleach", version, arg_required_else_help = true)]
#[command(after_help = help::EXAMPLES, after_long_help = help::long(help::EXAMPLES))]
#[command(max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The options of every command, before or after its name.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    /// One JSON object a line on stdout; messages stay on stderr
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Only errors, and what was asked for
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Tell more of what is done
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// How many threads work; by default what suits the device
    #[arg(short = 'j', long, global = true, value_name = "N")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=4096))]
    pub(crate) threads: Option<usize>,
    /// Show progress on stderr; auto: on a terminal
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) progress: When,
    /// Use colours; auto: on a terminal
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: When,
}

/// Of a choice that a terminal decides unless the user does.
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
    #[command(after_help = snapshot::EXAMPLES, after_long_help = help::long(snapshot::EXAMPLES))]
    Snapshot(Snapshot),
    /// List the snapshots of a repository
    #[command(after_help = help::LIST_EXAMPLES, after_long_help = help::long(help::LIST_EXAMPLES))]
    List(List),
    /// Restore a snapshot, or parts of it, below a directory
    #[command(override_usage = "pleach restore [OPTIONS] --target <DIR> REPO ID [PATH]...")]
    #[command(after_help = help::RESTORE_EXAMPLES, after_long_help = help::long(help::RESTORE_EXAMPLES))]
    Restore(Restore),
    /// Copy files and trees, cloned where they can be
    #[command(
        override_usage = "pleach copy [OPTIONS] SOURCE... DEST\n       pleach copy [OPTIONS] --target-directory <DIR> SOURCE..."
    )]
    #[command(after_help = copy::EXAMPLES, after_long_help = help::long(copy::EXAMPLES))]
    Copy(Copy),
    /// Replace a file by what comes from stdin, sharing what did not change
    #[command(after_help = put::EXAMPLES, after_long_help = help::long(put::EXAMPLES))]
    Put(Put),
    /// Let files share what is equal in them, and count what that frees
    #[command(after_help = dedupe::EXAMPLES, after_long_help = help::long(dedupe::EXAMPLES))]
    Dedupe(Dedupe),
    /// Show where the bytes of files lie, and which of them are shared
    #[command(after_help = help::FIEMAP_EXAMPLES, after_long_help = help::long(help::FIEMAP_EXAMPLES))]
    Fiemap(Fiemap),
    /// Show what a filesystem can do, and what that means
    #[command(after_help = help::PROBE_EXAMPLES, after_long_help = help::long(help::PROBE_EXAMPLES))]
    Probe(Probe),
    /// Show what paths take on the disk, what they share, and what deleting them would free
    #[command(after_help = help::DU_EXAMPLES, after_long_help = help::long(help::DU_EXAMPLES))]
    Du(Du),
    /// Print the completions of a shell
    #[command(after_help = help::COMPLETIONS_EXAMPLES)]
    Completions(Completions),
}

#[derive(Args, Debug)]
pub(crate) struct List {
    /// The repository
    #[arg(value_name = "REPO", env = "PLEACH_REPO", hide_env_values = true, value_hint = clap::ValueHint::DirPath)]
    pub(crate) repo: PathBuf,
    /// Also measure what each snapshot alone holds: asks for the extents of every file
    #[arg(long)]
    pub(crate) exclusive: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Restore {
    /// The repository (left out: $PLEACH_REPO), the snapshot, and what to restore of it; no PATH: all
    #[arg(value_name = "REPO ID [PATH]", required = true, num_args = 1.., value_hint = clap::ValueHint::AnyPath)]
    words: Vec<PathBuf>,
    /// Where to: /home/ann/a is restored as DIR/home/ann/a
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) target: PathBuf,
    /// Remove from the restored directories what the snapshot does not have
    #[arg(long)]
    pub(crate) delete: bool,
    /// What happens to files that are there already
    #[arg(long, value_name = "WHEN", default_value = "always")]
    pub(crate) overwrite: Overwrite,
    /// Only show what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// When a restore replaces files that are there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Overwrite {
    /// Replace them
    Always,
    /// Replace them if type, size or modification time differ
    IfChanged,
    /// Leave them as they are
    Never,
}

#[derive(Args, Debug)]
pub(crate) struct Fiemap {
    /// Regular files, or directories whose files are meant; symbolic links are followed only if named here
    #[arg(value_name = "FILE", required = true, num_args = 1.., value_hint = clap::ValueHint::AnyPath)]
    pub(crate) files: Vec<PathBuf>,
    /// How the extents are told
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(crate) format: Format,
    /// Show which of the files share which ranges with each other, instead of their extents
    #[arg(long, conflicts_with = "format")]
    pub(crate) shared_with: bool,
    /// Draw the files in the terminal, each a line: what lies where, and a letter for each group that shares it
    #[arg(long, conflicts_with = "format")]
    pub(crate) map: bool,
    /// Draw them as a picture in FILE, with bands between what is shared; '-' for stdout
    #[arg(long, value_name = "FILE", conflicts_with = "format", value_hint = clap::ValueHint::FilePath)]
    pub(crate) svg: Option<PathBuf>,
    /// Do not have the files written to disk first; what is not yet there shows as delalloc
    #[arg(long)]
    pub(crate) no_sync: bool,
    /// Also name every file of the filesystem that holds these extents (root; XFS, Btrfs)
    #[arg(long)]
    pub(crate) owners: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Probe {
    /// A directory on it, or a file, whose directory is used; test files without a name are made there
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) path: PathBuf,
    /// Also measure how fast each way of copying is on it: a file of 256 MiB, or what there is room for, and 2,000 small ones
    #[arg(long)]
    pub(crate) bench: bool,
}

/// How extents are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people, with holes, in bytes and larger units
    Table,
    /// As xfs_io's "fiemap -v" prints them; with -q as its "fiemap" does
    #[value(name = "xfs_io")]
    XfsIo,
    /// As "filefrag -v" prints them
    Filefrag,
}

#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Parses the command line and settles which path is the repository.
///
/// # Errors
/// The text to show instead: help, the version, or what is wrong.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, Usage> {
    settle(args).map_err(|error| {
        let text = error.render();
        Usage {
            is_answer: !error.use_stderr(),
            is_help: error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
            plain: text.to_string(),
            ansi: text.ansi().to_string(),
        }
    })
}

fn settle(args: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let mut cli = Cli::try_parse_from(args)?;
    // clap's own check does not see that one stands before and the other after the command's name.
    if cli.globals.quiet && cli.globals.verbose {
        let message = "the argument '--quiet' cannot be used with '--verbose'";
        return Err(Cli::command().error(ErrorKind::ArgumentConflict, message));
    }
    let environment = std::env::var_os("PLEACH_REPO").filter(|repo| !repo.is_empty()).map(PathBuf::from);
    match &mut cli.command {
        Command::Snapshot(snapshot) => {
            snapshot
                .settle(environment)
                .map_err(|message| usage("snapshot", ErrorKind::MissingRequiredArgument, &message))?;
        }
        Command::Restore(restore) => {
            let words = std::mem::take(&mut restore.words);
            restore.words = with_repo_first(words, environment)
                .map_err(|message| usage("restore", ErrorKind::MissingRequiredArgument, &message))?;
        }
        Command::Copy(copy) => {
            copy.settle().map_err(|message| usage("copy", ErrorKind::MissingRequiredArgument, &message))?;
        }
        Command::Fiemap(fiemap) => {
            fiemap
                .assert_one_use_of_stdout(cli.globals.json)
                .map_err(|message| usage("fiemap", ErrorKind::ArgumentConflict, message))?;
        }
        Command::List(_)
        | Command::Put(_)
        | Command::Dedupe(_)
        | Command::Probe(_)
        | Command::Du(_)
        | Command::Completions(_) => {}
    }
    Ok(cli)
}

impl Fiemap {
    /// That stdout is not to be one thing and another.
    fn assert_one_use_of_stdout(&self, json: bool) -> Result<(), &'static str> {
        let picture = self.svg.as_deref() == Some(Path::new("-"));
        let foreign = self.format != Format::Table;
        match () {
            () if json && foreign => Err("the argument '--json' cannot be used with a '--format' for other readers"),
            () if self.owners && foreign => {
                Err("the argument '--owners' cannot be used with a '--format' for other readers")
            }
            () if self.owners && picture => Err("the argument '--owners' cannot be used with '--svg -'"),
            () if json && self.map => Err("the argument '--json' cannot be used with '--map'"),
            () if json && picture => Err("the argument '--json' cannot be used with '--svg -'"),
            () if self.map && picture => Err("the argument '--map' cannot be used with '--svg -'"),
            () if self.shared_with && picture => Err("the argument '--shared-with' cannot be used with '--svg -'"),
            () => Ok(()),
        }
    }
}

impl Restore {
    /// The repository, the snapshot, and the paths to restore.
    pub(crate) fn repo_id_and_paths(&self) -> (&Path, &Path, &[PathBuf]) {
        match &self.words[..] {
            [repo, id, paths @ ..] => (repo, id, paths),
            // `parse` leaves at least two.
            _ => (Path::new(""), Path::new(""), &[]),
        }
    }
}

/// The words of `restore` with the repository at their beginning.
///
/// A snapshot's name has no slash in it, and the paths are absolute: so with `PLEACH_REPO` set, a second word with a slash,
/// or none, means that the repository was left out.
fn with_repo_first(mut words: Vec<PathBuf>, environment: Option<PathBuf>) -> Result<Vec<PathBuf>, String> {
    let is_path = |word: &PathBuf| word.as_os_str().as_bytes().contains(&b'/');
    match environment {
        Some(repo) if words.get(1).is_none_or(is_path) => words.insert(0, repo),
        None if words.len() < 2 => return Err("name the repository, then the snapshot (or set PLEACH_REPO)".into()),
        _ => {}
    }
    Ok(words)
}

/// A usage error of one command: exit status 2.
fn usage(command: &str, kind: ErrorKind, message: &str) -> clap::Error {
    let mut cli = Cli::command();
    cli.build();
    match cli.find_subcommand_mut(command) {
        Some(command) => command.error(kind, message),
        None => cli.error(kind, message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_restore_knows_whether_its_repository_was_left_out() {
        let repo = || Some(PathBuf::from("/r"));
        assert_eq!(with_repo_first(paths(&["/r", "latest"]), None), Ok(paths(&["/r", "latest"])));
        assert_eq!(with_repo_first(paths(&["latest"]), repo()), Ok(paths(&["/r", "latest"])));
        assert_eq!(with_repo_first(paths(&["latest", "/a"]), repo()), Ok(paths(&["/r", "latest", "/a"])));
        assert_eq!(with_repo_first(paths(&["/x", "latest", "/a"]), repo()), Ok(paths(&["/x", "latest", "/a"])));
        assert!(with_repo_first(paths(&["latest"]), None).is_err());
    }
}
