//! The longer texts of `--help`: examples, exit statuses, environment.

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
  pleach list /backup                       show all snapshots
  pleach restore /backup latest /home/ann/notes.txt --target /
  pleach copy vm.img /srv/images            copy a file, sharing its data if possible
  pleach put db.sql -- pg_dump db           replace a file, sharing unchanged blocks
  pleach dedupe /srv                        share equal data, and report the space freed
  pleach fiemap /backup/*/etc/services      the extents of a file in each snapshot
  pleach probe /backup                      the features of the filesystem there
  pleach du /backup/2026-11-*               how much they share, and how much deleting them would free
  pleach completions bash > /etc/bash_completion.d/pleach

'pleach COMMAND --help' shows the options and more examples of a command.";

pub(super) const FIEMAP_EXAMPLES: &str = "\
Examples:
  pleach fiemap disk.img
  pleach fiemap /backup/*/home/ann/disk.img      the same addresses: the same blocks
  pleach fiemap --owners disk.img                every file that holds its extents
  pleach fiemap --format filefrag /srv/db        every file below, for a script that reads filefrag -v
  pleach fiemap --shared-with a.img b.img        which ranges they have in common
  pleach fiemap --map /backup/*/srv/disk.img     draw them in the terminal, one line each
  pleach fiemap --svg disks.svg *.img            draw a picture, with bands between shared ranges
  pleach fiemap --json disk.img | jq 'select(.type == \"file\").shared_bytes'

Offsets and addresses are in bytes. A physical address is an address of the device; on Btrfs, of the
filesystem's logical address space. Data without an address of its own (inline, not yet on disk)
shows \"-\". The xfs_io format counts in units of 512 bytes, the filefrag format in blocks of the
filesystem. Both print names byte by byte, as those programs do; only on a terminal are control
characters escaped.

--shared-with, --map and --svg show sharing among the given files. A group is the data that exactly
the same files have in common. For compressed extents it is an upper bound. See docs/sharing.md.

--owners asks the filesystem, so it also shows files that were not given. On Btrfs it also shows
files that hold only another part of an extent: the extent stays allocated as long as one of them
exists. On an XFS made without mkfs.xfs -m rmapbt=1 it looks at every file; names that the kernel
does not know are found by walking the tree.";

pub(super) const PROBE_EXAMPLES: &str = "\
Examples:
  pleach probe /srv
  pleach probe --json /srv | jq 'select(.item == \"reflink\").value'
  pleach probe --bench /srv                  also measure how fast each way of copying is
  pleach probe --bench --json /srv | jq 'select(.type == \"bench\")'

Each feature is tried with an unnamed file that disappears at once. Features that cannot be tried,
on a read-only mount or in a directory without write permission, show \"?\"; the exit status is 3.

--bench copies one large file and 2,000 small ones by each engine of 'pleach copy --engine', into
files and into memory (memfd), cached, on one thread, several times, and shows the medians. The time
of copies into files includes the sync. The test files are in a directory of their own, which is
removed again.";

pub(super) const DU_EXAMPLES: &str = "\
Examples:
  pleach du /backup/2026-11-*            each snapshot, and how much deleting all of them would free
  pleach du --json /srv | jq 'select(.type == \"summary\").set_freed_bytes'

  apparent   the sizes of the files
  on disk    their blocks; a block counts as often as files refer to it
  exclusive  blocks that nothing else refers to
  shared     blocks with several references, each block once
Files with several names count once. As root on Btrfs the figures come from its trees: compressed
files count with their compressed size, and 'on disk', 'exclusive' and 'shared' are Total, Exclusive
and Set shared of 'btrfs filesystem du -s'. The freed space is data there; the trees shrink as well.
On XFS it is the space that df shows afterwards. Figures that are only bounds are marked: without
root, for instance, neither filesystem reports who else holds a block.";

pub(super) const RESTORE_EXAMPLES: &str = "\
Examples:
  pleach restore /backup latest --target /                          put everything back in place
  pleach restore /backup latest /home/ann/notes.txt --target /tmp   as /tmp/home/ann/notes.txt
  pleach restore --dry-run --delete /backup 2026-11-20 /etc --target /
      shows what it would change: + added, - removed, M content, U metadata, T type
  pleach restore --verify /backup latest --target /                 read all files, replace damaged ones

ID is a snapshot's name, an unambiguous beginning of one, 'latest', or 'latest:/home': the newest that
has /home among its sources or in one of them. With PATHs, 'latest' is the newest snapshot that has
them all. PATHs are absolute paths, as in the sources. No symbolic link in DIR is followed.";

pub(super) const LIST_EXAMPLES: &str = "\
Examples:
  pleach list /backup
  pleach list --exclusive /backup            how much deleting each snapshot would free at least
  pleach list --json /backup | jq -r 'select(.type == \"snapshot\").name'

\"size\" is the sum of the files of a snapshot; \"added data\" and \"metadata\" is the space on the disk
that it added when it was made (metadata approximately, since other programs may write meanwhile;
\"-\": not known); \"alone\" is data that no other file shares: deleting the snapshot frees at least
that much. Sources are shown if they differ, or with -v. Columns that do not fit the terminal, or 80
columns without one, are shown below their snapshot.";

pub(super) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  pleach completions bash > ~/.local/share/bash-completion/completions/pleach
  pleach completions zsh > ~/.zfunc/_pleach
  pleach completions fish > ~/.config/fish/completions/pleach.fish";

/// How wide an example may be.
const WIDTH: usize = 80;
/// Before a comment on a line of its own.
const COMMENT: &str = "      ";

/// The end of the short help of a command.
pub(super) const MORE: &str = "--help shows examples and more.";

/// The end of the short help of pleach.
pub(super) const ABOUT_COMMANDS: &str = "\
'pleach --help' shows examples, 'pleach COMMAND -h' the options of a command.";

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
    lines.extend(comment.map(|comment| format!("      {comment}")));
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
