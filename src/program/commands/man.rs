//! `pleach man DIR`: a man page for each command, from its definition. clap_mangen renders names, usage and options.
//! The texts at the end of the long help become the description and further sections.

use super::outcome::Ended;
use crate::error::{Error, Result};
use crate::program::cli::{self, Cli};
use crate::program::exit_status::ExitStatus;
use crate::program::output::Output;
use crate::util::text;
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use roff::{Roff, bold, roman};
use std::fs;
use std::io;

/// The section of the manual for commands.
const SECTION: &str = "1";

pub(crate) fn run(args: &cli::Man, output: &Output) -> Result<Ended> {
    let mut pleach = Cli::command();
    pleach.build();
    fs::create_dir_all(&args.dir).map_err(|cause| Error::io("create the directory", &args.dir, cause))?;
    let mut commands = Vec::new();
    with_subcommands(&pleach, &mut commands);
    for command in &commands {
        let path = args.dir.join(format!("{}.{SECTION}", page_name(command)));
        let page = page(command).map_err(|cause| Error::io("render", &path, cause))?;
        fs::write(&path, page).map_err(|cause| Error::io("write", &path, cause))?;
    }
    output.info(&format!("wrote {} man pages to {}", commands.len(), text::path(&args.dir)));
    Ok(Ended::Worked(ExitStatus::Done))
}

fn with_subcommands(command: &Command, all: &mut Vec<Command>) {
    all.push(command.clone());
    command.get_subcommands().for_each(|below| with_subcommands(below, all));
}

/// The command as its page shows it: with all subcommands, and with texts that suit a page.
fn described(mut command: Command) -> Command {
    if command.get_subcommand_help_heading().is_some() {
        command = command.subcommand_help_heading("VERBS");
    }
    command.mut_subcommands(|below| below.hide(false)).mut_args(|arg| match arg.get_id().as_str() {
        "help" => arg.help("Print the help: -h in short, --help with examples"),
        "version" => arg.hide_short_help(false),
        _ => arg,
    })
}

fn page_name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_string()
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut command = described(command.clone());
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_string();
    let notes = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let (described, sections): (Vec<_>, Vec<_>) =
        notes.split("\n\n").map(Block::new).partition(|block| block.heading.is_none());
    let man = Man::new(command.clone().override_usage(usage));
    let title = page_name(&command).to_uppercase();
    let version = env!("CARGO_PKG_VERSION");
    // roff does not quote the empty date, so the version would be the date.
    let mut page = format!(".TH {title} {SECTION} \"\" \"pleach {version}\" \"pleach manual\"\n").into_bytes();
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    let mut roff = Roff::new();
    if command.get_long_about().is_none() && !described.is_empty() {
        // The section NAME has the short description already.
        roff.control("SH", ["DESCRIPTION"]);
    } else {
        man.render_description_section(&mut page)?;
    }
    described.iter().for_each(|block| block.render(&mut roff));
    roff.to_writer(&mut page)?;
    // Arguments come before options, as in the synopsis.
    let mut arguments = Vec::new();
    Man::new(command.clone().mut_args(|arg| if arg.is_positional() { arg } else { arg.hide(true) }))
        .render_options_section(&mut arguments)?;
    page.extend(String::from_utf8_lossy(&arguments).replace(".SH OPTIONS", ".SH ARGUMENTS").into_bytes());
    Man::new(command.clone().mut_args(|arg| if arg.is_positional() { arg.hide(true) } else { arg }))
        .render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut roff = Roff::new();
    sections.iter().for_each(|block| block.render(&mut roff));
    let name = page_name(&command);
    let related = |page: &str| RELATED.iter().find(|(of, _)| page.strip_prefix("pleach-") == Some(of));
    // Names of commands have hyphens too.
    let mut above = name.rmatch_indices('-').map(|(end, _)| &name[..end]);
    let above = above.find(|page| *page == "pleach" || related(page).is_some());
    let mut others: Vec<String> = above.map(String::from).into_iter().collect();
    others.extend(related(&name).iter().flat_map(|(_, names)| names.iter()).map(|name| format!("pleach-{name}")));
    if !others.is_empty() {
        roff.control("SH", ["SEE ALSO"]);
        let mut words = Vec::new();
        for (number, other) in others.iter().enumerate() {
            let end = if number + 1 < others.len() { ", " } else { "" };
            words.extend([bold(other), roman(format!("({SECTION}){end}"))]);
        }
        roff.text(words);
    }
    roff.to_writer(&mut page)?;
    Ok(page)
}

/// The pages that a page of a command refers to.
const RELATED: [(&str, &[&str]); 27] = [
    ("snapshot", &["list", "restore", "prune", "run"]),
    ("list", &["snapshot", "log", "find", "du", "report"]),
    ("diff", &["log", "cat"]),
    ("log", &["find", "diff", "cat", "restore"]),
    ("cat", &["log", "find", "restore"]),
    ("find", &["log", "restore"]),
    ("restore", &["find", "log", "cat", "verify"]),
    ("prune", &["remove", "tag", "pin", "du"]),
    ("remove", &["prune", "pin", "du"]),
    ("tag", &["pin", "list", "prune"]),
    ("pin", &["unpin", "tag", "prune", "remove"]),
    ("unpin", &["pin", "tag", "remove"]),
    ("verify", &["restore", "replicate", "report"]),
    ("replicate", &["send", "receive", "verify", "offsite"]),
    ("send", &["receive", "replicate"]),
    ("receive", &["send", "replicate"]),
    ("offsite", &["replicate", "restore", "prune"]),
    ("report", &["list", "du", "verify"]),
    ("adopt", &["snapshot", "list", "dedupe"]),
    ("run", &["init-profile", "snapshot", "verify", "prune", "replicate", "dedupe"]),
    ("init-profile", &["run"]),
    ("copy", &["put", "dedupe", "snapshot"]),
    ("put", &["copy"]),
    ("dedupe", &["copy", "fiemap", "du"]),
    ("fiemap", &["du", "dedupe", "probe"]),
    ("probe", &["fiemap", "copy"]),
    ("du", &["fiemap", "list", "prune"]),
];

/// The headings that become sections of a page. A line with a colon elsewhere introduces a table.
const HEADINGS: [&str; 3] = ["Examples:", "Exit status:", "Environment:"];

/// Lines of a long help without an empty one between them.
struct Block<'t> {
    heading: Option<String>,
    lines: Vec<&'t str>,
}

impl<'t> Block<'t> {
    fn new(text: &'t str) -> Block<'t> {
        let mut lines: Vec<&str> = text.lines().collect();
        let is_heading = lines.first().is_some_and(|first| HEADINGS.contains(first));
        let heading = is_heading.then(|| lines.remove(0).trim_end_matches(':').to_uppercase());
        Block { heading, lines }
    }

    /// Indented lines stay as they are; the others flow.
    fn render(&self, roff: &mut Roff) {
        match &self.heading {
            Some(heading) => roff.control("SH", [heading.as_str()]),
            None => roff.control("PP", []),
        };
        let mut is_literal = false;
        for line in &self.lines {
            let literal = line.strip_prefix("  ");
            if literal.is_some() != is_literal {
                is_literal = literal.is_some();
                roff.control(if is_literal { "EX" } else { "EE" }, []);
            }
            roff.text([roman(literal.unwrap_or(line))]);
        }
        if is_literal {
            roff.control("EE", []);
        }
    }
}
