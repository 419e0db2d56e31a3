//! The longer texts of `--help`: examples, exit statuses, environment.

const EXIT_STATUSES: &str = "\
Exit status:
  0    done
  1    failed, nothing to rely on
  2    wrong usage
  3    done, but something was left out (unreadable, changed while read, skipped with an error),
       or less was shared than required
  4    what is stored in the repository, or a copy that was read back, is damaged
  11   the repository is locked by another run
  130  interrupted";

const ENVIRONMENT: &str = "\
Environment:
  PLEACH_REPO  stands for REPO where it is left out
  NO_COLOR, CLICOLOR_FORCE, CLICOLOR  colours, where --color does not say";

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach snapshot /home /etc /backup        take a snapshot; every night, from a timer
  pleach list /backup                       show them
  pleach restore /backup latest /home/ann/notes.txt --target /
  pleach copy vm.img /srv/images            copy it, sharing the data where that can be
  pg_dump db | pleach put db.sql            replace a file, sharing what did not change in it
  pleach dedupe /srv                        share what is equal, and say what that freed
  pleach fiemap /backup/*/etc/services      where a file lies in each snapshot, and what is shared
  pleach probe /backup                      what the filesystem there can do
  pleach du /backup/2026-11-*               what they share, and what deleting them would free
  pleach completions bash > /etc/bash_completion.d/pleach

'pleach COMMAND --help' has the examples of each command.";

pub(super) const FIEMAP_EXAMPLES: &str = "\
Examples:
  pleach fiemap disk.img
  pleach fiemap /backup/*/home/ann/disk.img      the same addresses: the same blocks
  pleach fiemap --owners disk.img                every file that holds its extents
  pleach fiemap --format filefrag /srv/db        every file below, for a script that reads filefrag -v
  pleach fiemap --shared-with a.img b.img        which ranges they have in common
  pleach fiemap --map /backup/*/srv/disk.img     draw them in the terminal, a line each
  pleach fiemap --svg disks.svg *.img            draw them in a file, with bands between what is shared
  pleach fiemap --json disk.img | jq 'select(.type == \"file\").shared_bytes'

Offsets and addresses are in bytes. A physical address is one of the device; on Btrfs, of the
filesystem's logical address space. What has no address of its own (inline, not yet on disk) shows
\"-\". xfs_io tells units of 512 bytes, filefrag blocks of the filesystem.

Sharing is told among the files that are named. A group is all that exactly the same files have in
common. Of compressed extents it is an upper bound. Groups, ranges and JSON: docs/sharing.md.

--owners asks the filesystem, so it also names files that were not given. On Btrfs it also names
those that hold only another part of an extent: the extent stays as long as one of them does. On an
XFS made without mkfs.xfs -m rmapbt=1 it looks at every file; names that the kernel does not
remember are found by walking the tree.";

pub(super) const PROBE_EXAMPLES: &str = "\
Examples:
  pleach probe /srv
  pleach probe --json /srv | jq 'select(.item == \"reflink\").value'
  pleach probe --bench /srv                  and how fast each way of copying is there
  pleach probe --bench --json /srv | jq 'select(.type == \"bench\")'

Each answer is found by trying it with a file that has no name and is gone at once. What could not
be tried, on a read-only mount or in a directory of others, shows \"?\" and gives exit status 3.

--bench copies one large file and 2,000 small ones by each engine of 'pleach copy --engine', into
files and into memory (memfd), warm, on one thread, several times, and shows the medians. Copies
into files are on the disk before their time ends. Its files are in a directory of their own, which
is removed again.";

pub(super) const DU_EXAMPLES: &str = "\
Examples:
  pleach du /backup/2026-11-*            each snapshot, and what deleting all of these would free
  pleach du --json /srv | jq 'select(.type == \"summary\").set_freed_bytes'

  apparent   what readers of the files see
  on disk    what lies there for them, as often as files refer to it
  exclusive  what of that nothing else refers to
  shared     what is referred to several times, each block once
Files with several names count once. As root on Btrfs the figures come from its trees: compressed
files have their real lengths, and 'on disk', 'exclusive' and 'shared' are the Total, Exclusive
and Set shared of 'btrfs filesystem du -s'. What is freed is data there; its trees shrink too. On
XFS it is what df gives back. Where a figure is a bound, it says so: not root, for example, hears
from neither filesystem who else holds a block.";

pub(super) const RESTORE_EXAMPLES: &str = "\
Examples:
  pleach restore /backup latest --target /                          put everything back in place
  pleach restore /backup latest /home/ann/notes.txt --target /tmp   as /tmp/home/ann/notes.txt
  pleach restore --dry-run --delete /backup 2026-11-20 /etc --target /
      shows what it would change: + added, - removed, M content, U metadata, T type

ID is a snapshot's name, an unambiguous beginning of one, or 'latest'. PATHs are absolute paths as
they were in the sources. What stands in DIR is never reached through a symbolic link.";

pub(super) const LIST_EXAMPLES: &str = "\
Examples:
  pleach list /backup
  pleach list --exclusive /backup            what deleting each snapshot would free at least
  pleach list --json /backup | jq -r 'select(.type == \"snapshot\").name'

Sizes: \"size\" is what the files of a snapshot add up to, \"written\" the data that was written
anew for it, \"alone\" what no other file shares: that much at least is freed when it goes.";

pub(super) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  pleach completions bash > ~/.local/share/bash-completion/completions/pleach
  pleach completions zsh > ~/.zfunc/_pleach
  pleach completions fish > ~/.config/fish/completions/pleach.fish";

/// What stands at the end of a command's long help.
pub(super) fn long(examples: &str) -> String {
    format!("{examples}\n\n{EXIT_STATUSES}\n\n{ENVIRONMENT}")
}
