//! Errors in the use of a command, with its usage and the way to its help.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A usage error of a command, or of its verb: exit status 2.
pub(super) fn of(mut cli: Command, names: &[&str], kind: ErrorKind, message: &str) -> clap::Error {
    cli.build();
    error(&mut cli, names, kind, message)
}

/// The error of a command line, with a better one for a command that only this build lacks.
pub(super) fn of_unknown(error: clap::Error, mut cli: Command) -> clap::Error {
    let name = error.get(ContextKind::InvalidSubcommand);
    if cfg!(feature = "offsite") || name != Some(&ContextValue::String("offsite".into())) {
        return error;
    }
    let message = "this build of pleach has no 'offsite': it needs the cargo feature 'offsite', which the released \
                   programs have (cargo install pleach --features offsite)";
    cli.error(ErrorKind::InvalidSubcommand, message)
}

fn error(command: &mut Command, names: &[&str], kind: ErrorKind, message: &str) -> clap::Error {
    if let [name, rest @ ..] = names
        && let Some(found) = command.find_subcommand_mut(name)
    {
        return error(found, rest, kind, message);
    }
    command.error(kind, message)
}
