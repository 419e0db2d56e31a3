//! The commands that are measured: pleach in its several ways, and its peers.

use super::pleach;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::{find, output, program};

/// Where a bench's things lie on the filesystem.
pub(crate) struct Places {
    /// The filesystem.
    pub(crate) root: PathBuf,
    /// The tree to keep.
    pub(crate) tree: PathBuf,
    /// An earlier copy of the tree, for rsync to link to.
    pub(crate) copy: PathBuf,
    /// A repository with one snapshot of the tree.
    pub(crate) repo: PathBuf,
    /// Where a run writes; not there between runs.
    pub(crate) fresh: PathBuf,
}

impl Places {
    /// On the filesystem mounted at `root`.
    pub(crate) fn on(root: &Path) -> Places {
        let at = |name| root.join(name);
        Places { root: root.into(), tree: at("tree"), copy: at("copy"), repo: at("repo"), fresh: at("fresh") }
    }
}

/// Something that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    /// The first snapshot, without hashing.
    FirstUnhashed,
    /// The first snapshot, which hashes everything.
    First,
    /// A snapshot of a tree that has not changed since the last one.
    Unchanged,
    /// `cp -a`.
    Cp,
    /// `cp -a --reflink=always`.
    CpReflink,
    /// `rsync -aHAX --link-dest`.
    Rsync,
    /// The bare system calls of cloning a tree.
    Floor,
    /// No copy at all: names and inodes read, as everyone must.
    Walk,
    /// The same on two threads, without a program around it.
    Statx,
}

/// All of them, those of pleach first.
pub(crate) const ALL: [Contender; 9] = [
    Contender::FirstUnhashed,
    Contender::First,
    Contender::Unchanged,
    Contender::Cp,
    Contender::CpReflink,
    Contender::Rsync,
    Contender::Floor,
    Contender::Walk,
    Contender::Statx,
];

impl Contender {
    /// Its name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Contender::FirstUnhashed => "pleach, first snapshot, `--hash none`",
            Contender::First => "pleach, first snapshot",
            Contender::Unchanged => "pleach, unchanged tree",
            Contender::Cp => "`cp -a`",
            Contender::CpReflink => "`cp -a --reflink=always`",
            Contender::Rsync => "`rsync -aHAX --link-dest`",
            Contender::Floor => "the bare calls",
            Contender::Walk => "`find`, names and inodes only",
            Contender::Statx => "`statx` of each entry",
        }
    }

    /// Whether it is pleach.
    pub(crate) fn is_ours(self) -> bool {
        matches!(self, Contender::FirstUnhashed | Contender::First | Contender::Unchanged)
    }

    /// The program behind it.
    fn program(self) -> PathBuf {
        match self {
            _ if self.is_ours() => pleach(),
            Contender::Cp | Contender::CpReflink => find("cp").unwrap_or_default(),
            Contender::Rsync => find("rsync").unwrap_or_default(),
            Contender::Floor | Contender::Statx => std::env::current_exe().unwrap_or_default(),
            _ => find("find").unwrap_or_default(),
        }
    }

    /// Why it cannot take part, if it cannot.
    pub(crate) fn absence(self) -> Option<String> {
        (!self.program().is_file()).then(|| "not installed".into())
    }

    /// Its version in its own words.
    pub(crate) fn version(self) -> String {
        let said = output(Command::new(self.program()).arg("--version")).unwrap_or_default();
        said.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// How many threads it uses, where ours are `threads`.
    pub(crate) fn threads(self, threads: usize) -> String {
        match self {
            _ if self.is_ours() => threads.to_string(),
            Contender::Rsync => "1 in each of 3 processes".into(),
            Contender::Floor => super::floor::THREADS.to_string(),
            Contender::Statx => super::statx::THREADS.to_string(),
            _ => "1".into(),
        }
    }

    /// The command, for the tree and the places.
    pub(crate) fn command(self, places: &Places) -> Command {
        let mut command = Command::new(self.program());
        command.env_remove("PLEACH_REPO").env("LC_ALL", "C");
        match self {
            Contender::FirstUnhashed => command.args(["snapshot", "--quiet", "--hash", "none"]),
            Contender::First => command.args(["snapshot", "--quiet"]),
            Contender::Unchanged => command.args(["snapshot", "--quiet", "--name", "again"]),
            Contender::Cp => command.arg("-a"),
            Contender::CpReflink => command.args(["-a", "--reflink=always"]),
            Contender::Rsync => command.arg("-aHAX").arg(with_option("--link-dest=", &places.copy)),
            Contender::Floor => command.args(["floor"]),
            Contender::Statx => command.args(["statx"]).arg(&places.tree),
            // A test on the time makes find ask for each inode; nothing is that young.
            Contender::Walk => command.arg(&places.tree).args(["-newermt", "2200-01-01"]),
        };
        match self {
            Contender::FirstUnhashed | Contender::First => command.arg(&places.tree).arg(&places.fresh),
            Contender::Unchanged => command.arg(&places.tree).arg(&places.repo),
            Contender::Cp | Contender::CpReflink | Contender::Floor => command.arg(&places.tree).arg(&places.fresh),
            Contender::Rsync => command.arg(with_slash(&places.tree)).arg(&places.fresh),
            Contender::Walk | Contender::Statx => &mut command,
        };
        command
    }
}

fn with_option(option: &str, path: &Path) -> std::ffi::OsString {
    let mut argument = std::ffi::OsString::from(option);
    argument.push(path);
    argument
}

fn with_slash(path: &Path) -> std::ffi::OsString {
    let mut argument = path.as_os_str().to_owned();
    argument.push("/");
    argument
}

/// Removes what runs leave, so that the next one finds everything as the first one did.
pub(crate) struct Cleaner {
    /// What the repository held when it had one snapshot.
    kept: Vec<PathBuf>,
    latest: PathBuf,
}

impl Cleaner {
    /// Remembers the present state.
    pub(crate) fn new(places: &Places) -> anyhow::Result<Cleaner> {
        Ok(Cleaner { kept: listing(&places.repo)?, latest: fs::read_link(places.repo.join("latest"))? })
    }

    /// Brings it back.
    pub(crate) fn clean(&self, places: &Places) -> anyhow::Result<()> {
        let is_new = |path: &PathBuf| !self.kept.contains(path);
        let new: Vec<_> = listing(&places.repo)?.into_iter().filter(is_new).chain([places.fresh.clone()]).collect();
        new.iter().try_for_each(|dir| delete_subvolumes(dir, places))?;
        output(program("rm").arg("-rf").args(new))?;
        let latest = places.repo.join("latest");
        let _ = fs::remove_file(&latest);
        std::os::unix::fs::symlink(&self.latest, latest)?;
        xtask::space::sync(&places.root)
    }
}

/// Deletes the snapshots of a repository, or one of them, that are Btrfs subvolumes: `rm` may not. It is over when they are
/// gone, so that nothing of it falls into the next run.
fn delete_subvolumes(dir: &Path, places: &Places) -> anyhow::Result<()> {
    let found = output(program("find").arg(dir).args(["-maxdepth", "1", "-type", "d", "-inum", "256"]));
    let found = found.unwrap_or_default();
    let subvolumes: Vec<_> = found.lines().collect();
    if !subvolumes.is_empty() {
        output(program("btrfs").args(["subvolume", "delete", "--commit-after"]).args(subvolumes))?;
        output(program("btrfs").args(["subvolume", "sync"]).arg(&places.root))?;
    }
    Ok(())
}

/// The snapshots of a repository, and all of its own files.
fn listing(repo: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let own = output(program("find").arg(repo.join(".pleach")))?;
    let mut paths: Vec<_> = own.lines().map(PathBuf::from).collect();
    for entry in fs::read_dir(repo)? {
        paths.push(entry?.path());
    }
    Ok(paths)
}
