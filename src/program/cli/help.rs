//! The longer texts of `--help`: examples, exit statuses, environment.

use std::ffi::OsString;

const EXIT_STATUSES: &str = "\
Exit status:
  0    done
  1    failed, nothing to rely on
  2    wrong usage
  3    done, but something was skipped (unreadable, changed while read,
       another error), or less was shared than required
  4    data in the repository, or a copy that was read back, is damaged
  11   the repository is locked by another run
  130  interrupted";

const ENVIRONMENT: &str = "\
Environment:
  PLEACH_REPO  the repository, if REPO is not given
  NO_COLOR, CLICOLOR_FORCE, CLICOLOR  colours, unless --color is given";

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach snapshot /home /etc /backup        take a snapshot, for instance daily from a timer
  pleach run home                           do this and more, by a profile
  pleach list /backup                       show all snapshots
  pleach diff /backup latest live           what changed since the last snapshot
  pleach log /backup /home/ann/notes.txt    the versions of a file
  pleach find /backup '*.sql'               which snapshots have it
  pleach restore /backup latest /home/ann/notes.txt --target /
  pleach verify --read 5% /backup           read another part each time, and report damage
  pleach replicate /backup ssh://nas/backup  keep a copy on another host, or another disk
  pleach report /backup --html report.html  a page about all snapshots
  pleach copy vm.img /srv/images            copy a file, sharing its data if possible
  pleach put db.sql -- pg_dump db           replace a file, sharing unchanged blocks
  pleach dedupe /srv                        share equal data, and report the space freed
  pleach fiemap /backup/*/etc/services      the extents of a file in each snapshot
  pleach adopt /mnt/rsnapshot /backup       the backups of rsnapshot become snapshots
  pleach probe /backup                      the features of the filesystem there
  pleach du /backup/2026-11-*               how much they share, and how much deleting them would free
  pleach completions bash > /etc/bash_completion.d/pleach
  pleach man /usr/local/share/man/man1      install the man pages

'pleach COMMAND --help' shows the options and more examples of a command. Further commands: send and
receive, for a snapshot as a stream, and man, for the man pages.";

/// How wide an example may be. A man page indents it further.
const WIDTH: usize = 75;
/// Before a comment on a line of its own.
const COMMENT: &str = "      ";

/// The end of the short help of a command.
pub(super) const MORE: &str = "--help shows examples and more.";

/// The end of the short help of pleach.
pub(super) const ABOUT_COMMANDS: &str = "\
More commands: send, receive, man. COMMAND -h shows options, --help examples.";

/// `pleach help COMMAND` is `pleach COMMAND --help`.
pub(super) fn with_flag(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.get(1).is_some_and(|arg| arg == "help") {
        args.remove(1);
        args.push("--help".into());
    }
    args
}

/// The end of a command's long help.
pub(super) fn long(examples: &str) -> String {
    format!("{}\n\n{EXIT_STATUSES}\n\n{ENVIRONMENT}", flow(examples))
}

/// Joins the lines of each paragraph, so that clap wraps it to the terminal, and breaks long examples: first before the
/// comment behind a command, then in the command.
fn flow(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut is_paragraph = false;
    for line in text.lines() {
        let is_prose = !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
        match lines.last_mut() {
            Some(last) if is_prose && is_paragraph => *last = format!("{last} {line}"),
            _ if line.starts_with("  ") => example(line, &mut lines),
            _ => lines.push(line.to_string()),
        }
        is_paragraph = is_prose;
    }
    lines.join("\n")
}

fn example(line: &str, lines: &mut Vec<String>) {
    if line.chars().count() <= WIDTH {
        return lines.push(line.to_string());
    }
    let indent = line.len() - line.trim_start().len();
    if indent >= COMMENT.len() {
        // A comment on a line of its own.
        return match line.get(..WIDTH).and_then(|start| start.rfind(' ')).filter(|at| *at > indent) {
            Some(at) => {
                lines.push(line[..at].to_string());
                example(&format!("{COMMENT}{}", line[at..].trim_start()), lines);
            }
            None => lines.push(line.to_string()),
        };
    }
    let (command, comment) = match line[indent..].split_once("  ") {
        Some((command, comment)) => (&line[..indent + command.len()], Some(comment.trim_start())),
        None => (line, None),
    };
    match command.get(..WIDTH - 2).and_then(|start| start.rfind(' ')).filter(|at| *at > indent && command.len() > WIDTH)
    {
        Some(at) => lines.extend([format!("{} \\", &command[..at]), format!("      {}", command[at..].trim_start())]),
        None => lines.push(command.to_string()),
    }
    if let Some(comment) = comment {
        example(&format!("{COMMENT}{comment}"), lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_flow_and_long_examples_are_broken() {
        let text = format!(
            "Examples:\n  a b   short\n  {} c   {}\n\nOne\ntwo.\nTable:\n  x  y\nThree.",
            "a".repeat(60),
            "d".repeat(30)
        );
        let flown = flow(&text);
        let expected = [
            "Examples:",
            "  a b   short",
            &format!("  {} c", "a".repeat(60)),
            &format!("      {}", "d".repeat(30)),
            "",
            "One two.",
            "Table:",
            "  x  y",
            "Three.",
        ];
        assert_eq!(flown.lines().collect::<Vec<_>>(), expected);
        let comment = format!("      {}", "a bb ".repeat(20));
        let lines: Vec<String> = flow(&comment).lines().map(String::from).collect();
        assert!(lines.len() == 2 && lines.iter().all(|line| line.len() <= 80 && !line.ends_with('\\')), "{lines:?}");
        let command = format!("  {} {}", "a".repeat(50), "b".repeat(40));
        assert_eq!(flow(&command), format!("  {} \\\n      {}", "a".repeat(50), "b".repeat(40)));
    }
}
