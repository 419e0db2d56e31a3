//! `pleach completions SHELL`: the script that clap generates from the options. For bash, zsh and fish a function
//! around it asks `pleach __complete` for repositories, snapshots and paths in snapshots.

use super::outcome::Ended;
use crate::error::Result;
use crate::program::cli::{Cli, Completions};
use crate::program::exit_status::ExitStatus;
use crate::program::output::Output;
use clap::CommandFactory as _;
use clap_complete::Shell;

pub(crate) fn run(args: &Completions, output: &Output) -> Result<Ended> {
    // Into memory first: the generator panics when a pipe is closed.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "pleach", &mut script);
    output.text(&with_words(args.shell, script));
    Ok(Ended::Listed(ExitStatus::Done))
}

fn with_words(shell: Shell, script: Vec<u8>) -> Vec<u8> {
    let wrapped = |wrapper: &str| [&script[..], wrapper.as_bytes()].concat();
    match shell {
        Shell::Bash => wrapped(include_str!("completions/wrapper.bash")),
        Shell::Fish => wrapped(include_str!("completions/wrapper.fish")),
        Shell::Zsh => {
            // The file itself is the body of `_pleach`, which zsh loads at the first use. Its last lines call the
            // generated function by that name.
            let script = String::from_utf8_lossy(&script);
            let script = script.replacen("\n_pleach() {", "\n_pleach_static() {", 1);
            let end = script.rfind("\nif [ \"$funcstack[1]\"").unwrap_or(script.len());
            [&script[..end], include_str!("completions/wrapper.zsh"), &script[end..]].concat().into_bytes()
        }
        _ => script,
    }
}
