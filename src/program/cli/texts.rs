//! The arguments of `pleach completions` and `pleach man`: texts that are made of the definitions of the commands.

use clap::Args;
use std::path::PathBuf;

pub(super) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  pleach completions bash > ~/.local/share/bash-completion/completions/pleach
  pleach completions zsh > ~/.zfunc/_pleach
  pleach completions fish > ~/.config/fish/completions/pleach.fish

Packages install them for all users.";

pub(super) const MAN_EXAMPLES: &str = "\
Examples:
  pleach man ~/.local/share/man/man1         for you
  pleach man /usr/local/share/man/man1       for all users

Each command has a page: 'man pleach-snapshot'. 'man pleach' lists them. Pages of an earlier version are replaced.
Packages install them for all users.";

#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args, Debug)]
pub(crate) struct Man {
    /// The directory; it is created if it is missing
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
}
