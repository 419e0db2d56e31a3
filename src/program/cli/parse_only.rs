//! Command lines that are parsed and not run, and the texts of the help, for the tests of the documents.

use super::{Cli, help, settle};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory as _};
use std::collections::BTreeSet;
use std::ffi::OsString;

/// The reason why words are not a command line.
#[derive(Debug)]
pub struct Mistake {
    /// The message.
    pub message: String,
    /// Whether words are missing, and nothing else is wrong so far.
    pub is_incomplete: bool,
}

/// Parses the words behind `pleach` as the command does.
///
/// # Errors
/// The mistake in them. A request for help is not a mistake.
pub fn parse(words: impl IntoIterator<Item = impl Into<OsString>>) -> Result<(), Mistake> {
    let program = std::iter::once(OsString::from("pleach"));
    let args = help::with_flag(program.chain(words.into_iter().map(Into::into)).collect());
    match settle(&args) {
        Err(error) if error.use_stderr() => {
            Err(Mistake { message: error.render().to_string(), is_incomplete: is_incomplete(&error) })
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn is_incomplete(error: &clap::Error) -> bool {
    match error.kind() {
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        | ErrorKind::TooFewValues
        | ErrorKind::WrongNumberOfValues => true,
        // An option without its value.
        ErrorKind::InvalidValue => error.get(ContextKind::InvalidValue) == Some(&ContextValue::String(String::new())),
        _ => false,
    }
}

/// The long options of all commands.
pub fn options() -> BTreeSet<String> {
    let mut options = BTreeSet::new();
    for_each_command(&Cli::command(), &mut |command| {
        options.extend(command.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?))));
    });
    options
}

/// The end of the long help of each command, which begins with examples.
pub fn help_texts() -> Vec<String> {
    let mut texts = Vec::new();
    for_each_command(&Cli::command(), &mut |command| {
        texts.extend(command.get_after_long_help().map(ToString::to_string));
    });
    texts
}

fn for_each_command(command: &Command, visit: &mut dyn FnMut(&Command)) {
    visit(command);
    command.get_subcommands().for_each(|below| for_each_command(below, visit));
}
