//! Errors in the use of a command, with its usage and the way to its help.

use clap::Command;
use clap::error::ErrorKind;

/// A usage error of a command, or of its verb: exit status 2.
pub(super) fn of(mut cli: Command, names: &[&str], kind: ErrorKind, message: &str) -> clap::Error {
    cli.build();
    error(&mut cli, names, kind, message)
}

fn error(command: &mut Command, names: &[&str], kind: ErrorKind, message: &str) -> clap::Error {
    if let [name, rest @ ..] = names
        && let Some(found) = command.find_subcommand_mut(name)
    {
        return error(found, rest, kind, message);
    }
    command.error(kind, message)
}
