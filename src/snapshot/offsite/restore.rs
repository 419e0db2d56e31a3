//! Restores a snapshot from a store, or parts of it. The library writes the files.

use super::progress::watch;
use super::store::{Access, Store};
use super::stored::{Stored, find};
use super::{guard, library_log};
use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::util::text;
use rustic_core::repofile::Node;
use rustic_core::{IndexedFullStatus, LocalDestination, LsOptions, Repository, RusticResult};
use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::Metadata;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

/// The parts to restore, and the target.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct RestoreOptions {
    /// The snapshot: its name, the beginning of it, its ID in the store, or `latest`.
    pub id: String,
    /// Absolute paths in it. Without any, everything.
    pub paths: Vec<PathBuf>,
    /// The directory below which the paths are restored.
    pub target: PathBuf,
    /// Read existing files, even if their size and time match.
    pub verify: bool,
    /// Count what would be restored, and change nothing.
    pub dry_run: bool,
}

impl RestoreOptions {
    /// Restores the latest snapshot below `target`.
    pub fn new(target: PathBuf) -> RestoreOptions {
        RestoreOptions { id: "latest".into(), paths: Vec::new(), target, verify: false, dry_run: false }
    }
}

/// The result.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RestoreStats {
    /// The name of the snapshot.
    pub snapshot: String,
    /// Files that were written or, in a dry run, would be.
    pub files: u64,
    /// Files that were there already.
    pub unchanged: u64,
    /// Directories that were made.
    pub dirs: u64,
    /// Bytes that were written.
    pub restored_bytes: u64,
    /// Entries that lack some of their metadata.
    pub errors: u64,
    /// How long it took.
    pub seconds: f64,
}

type Indexed = Repository<IndexedFullStatus>;
/// Nodes with their paths, in the order of a tree.
type Stream<'r> = Box<dyn Iterator<Item = RusticResult<(PathBuf, Node)>> + 'r>;

/// Restores a snapshot, or parts of it. Existing files with the same size and time are kept, others are replaced.
///
/// The target should be new, or trusted: the library follows symbolic links in it.
///
/// # Errors
/// If something of the content is missing: then the files are incomplete. Metadata that cannot be restored is reported
/// to the monitor and counted.
pub fn restore(access: &Access, options: &RestoreOptions, monitor: &dyn Monitor) -> Result<RestoreStats> {
    let begun = Instant::now();
    let store = Store::open(access)?;
    let stored = find(&store, &options.id)?;
    let name = stored.name.clone().unwrap_or_default();
    let action = format!("restore the snapshot {name} from");
    library_log::take();
    let mut stats = RestoreStats { snapshot: name, ..RestoreStats::default() };
    let (result, _) = watch(
        &store.counts,
        Some("restoring"),
        monitor,
        || store.watch.end(),
        || {
            let open = || store.again()?.to_indexed();
            let repository = open().map_err(store.fault(&action))?;
            run(&store, &repository, &stored, options, &action)
        },
    );
    if monitor.is_cancelled() {
        return Err(Error::interrupted());
    }
    let plan = result.unwrap_or_else(|panic| {
        Err(store.read_failure(&action).unwrap_or_else(|| guard::error(&format!("{action} {}", store.url), &*panic)))
    })?;
    let messages = library_log::take().into_iter().filter(|message| !message.starts_with("Note: additional"));
    for message in messages {
        stats.errors += 1;
        monitor.problem(&Error::failed("restore something").because(io::Error::other(message)));
    }
    stats.files = plan.files;
    stats.unchanged = plan.unchanged;
    stats.dirs = plan.dirs;
    stats.restored_bytes = plan.bytes;
    Ok(RestoreStats { seconds: begun.elapsed().as_secs_f64(), ..stats })
}

#[derive(Default)]
struct Plan {
    files: u64,
    unchanged: u64,
    dirs: u64,
    bytes: u64,
}

fn run(store: &Store, repository: &Indexed, stored: &Stored, options: &RestoreOptions, action: &str) -> Result<Plan> {
    let failed = store.fault(action);
    let target = options.target.to_str().ok_or_else(|| {
        Error::failed("restore below").at(&options.target).because(io::Error::other("its path is not UTF-8"))
    })?;
    let selection = Selection::of(repository, stored, options, store)?;
    if options.dry_run && !options.target.exists() {
        return count(&selection, repository).map_err(&failed);
    }
    let mut library = rustic_core::RestoreOptions::default();
    (library.numeric_id, library.verify_existing) = (true, options.verify);
    let with_slash = format!("{}/", target.trim_end_matches('/'));
    let to = LocalDestination::new(&with_slash, !options.dry_run, false).map_err(&failed)?;
    let room = Room::new(options);
    let all = selection.nodes(repository, true).map_err(&failed)?.inspect(|node| room.for_content(node));
    let plan = repository.prepare_restore(&library, all, &to, options.dry_run).map_err(&failed)?;
    let done = Plan {
        files: plan.stats.files.restore + plan.stats.files.modify,
        unchanged: plan.stats.files.unchanged + plan.stats.files.verified,
        dirs: plan.stats.dirs.restore,
        bytes: plan.restore_size,
    };
    if !options.dry_run {
        let own = selection.nodes(repository, false).map_err(&failed)?.inspect(|node| room.for_name(node));
        repository.restore(plan, &library, own, &to).map_err(&failed)?;
    }
    Ok(done)
}

/// Makes room in the target: the library replaces nothing but the content of files.
struct Room<'o> {
    options: &'o RestoreOptions,
    /// The inodes that have a name already.
    links: RefCell<HashSet<(u64, u64)>>,
}

impl Room<'_> {
    fn new(options: &RestoreOptions) -> Room<'_> {
        Room { options, links: RefCell::default() }
    }

    /// Before the content: it must not be written through a link, or into a device.
    fn for_content(&self, node: &RusticResult<(PathBuf, Node)>) {
        if let Ok((path, node)) = node
            && node.is_file()
        {
            self.clear(path, |found| !found.is_file());
        }
    }

    /// Before the metadata: links and special files are made then.
    fn for_name(&self, node: &RusticResult<(PathBuf, Node)>) {
        let Ok((path, node)) = node else { return };
        let inode = (node.meta.device_id, node.meta.inode);
        let is_link = node.is_file() && node.meta.links > 1 && inode.0 != 0 && inode.1 != 0;
        if node.is_special() || is_link && !self.links.borrow_mut().insert(inode) {
            self.clear(path, |_| true);
        }
    }

    fn clear(&self, path: &Path, is_in_the_way: impl Fn(&Metadata) -> bool) {
        let path = self.options.target.join(path);
        let found = std::fs::symlink_metadata(&path).ok();
        if found.is_some_and(|found| !found.is_dir() && is_in_the_way(&found)) && !self.options.dry_run {
            // If it stays, the library reports it.
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// What would be restored into a new directory.
fn count(selection: &Selection, repository: &Indexed) -> RusticResult<Plan> {
    let mut plan = Plan::default();
    for node in selection.nodes(repository, true)? {
        let (_, node) = node?;
        if node.is_dir() {
            plan.dirs += 1;
        } else if node.is_file() {
            plan.files += 1;
            plan.bytes += node.meta.size;
        }
    }
    Ok(plan)
}

/// The wanted parts of a snapshot, in its order.
struct Selection {
    /// The path of each part, without the slash at its beginning, and its node.
    parts: Vec<(PathBuf, Node)>,
    /// The directories on the way to them, and whether they were there before.
    ways: Vec<(PathBuf, Node, bool)>,
}

impl Selection {
    fn of(repository: &Indexed, stored: &Stored, options: &RestoreOptions, store: &Store) -> Result<Selection> {
        let node = |path: &Path| repository.node_from_path(stored.file.tree, path);
        let mut paths: Vec<PathBuf> = options.paths.iter().map(|path| relative(path)).collect::<Result<_>>()?;
        if paths.is_empty() || paths.iter().any(|path| path.as_os_str().is_empty()) {
            paths = vec![PathBuf::new()];
        }
        paths.sort();
        // What lies in another part comes with it.
        paths.dedup_by(|path, before| path.starts_with(before));
        let mut selection = Selection { parts: Vec::new(), ways: Vec::new() };
        for path in paths {
            let above: Vec<_> = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()).collect();
            for way in above.into_iter().rev() {
                if selection.ways.iter().all(|(known, ..)| known != way) {
                    let node = node(way).map_err(|_| absent(&path, store))?;
                    let was_there = options.target.join(way).is_dir();
                    selection.ways.push((way.to_path_buf(), node, was_there));
                }
            }
            let found = node(&path).map_err(|_| absent(&path, store))?;
            selection.parts.push((path, found));
        }
        Ok(selection)
    }

    /// The nodes of all parts. `all`: also those of directories that were there before.
    fn nodes<'r>(
        &self,
        repository: &'r Indexed,
        all: bool,
    ) -> RusticResult<impl Iterator<Item = RusticResult<(PathBuf, Node)>> + 'r> {
        let mut streams: Vec<Stream<'r>> = Vec::new();
        let mut ways = self.ways.iter().filter(|(_, _, was_there)| all || !was_there).peekable();
        for (path, node) in &self.parts {
            while let Some((way, node, _)) = ways.next_if(|(way, ..)| path.starts_with(way)) {
                streams.push(Box::new(std::iter::once(Ok((way.clone(), node.clone())))));
            }
            if !path.as_os_str().is_empty() {
                streams.push(Box::new(std::iter::once(Ok((path.clone(), node.clone())))));
            }
            if node.is_dir() {
                let (below, above) = (repository.ls(node, &LsOptions::default())?, path.clone());
                streams.push(Box::new(below.map(move |item| item.map(|(path, node)| (above.join(path), node)))));
            }
        }
        Ok(streams.into_iter().flatten())
    }
}

/// A path without the slash at its beginning.
fn relative(path: &Path) -> Result<PathBuf> {
    let mut relative = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => relative.push(name),
            Component::RootDir | Component::CurDir => {}
            _ => return Err(Error::usage(format!("restore {}", text::path(path))).hint("it goes through '..'")),
        }
    }
    Ok(relative)
}

fn absent(path: &Path, store: &Store) -> Error {
    let error = Error::failed("find in the snapshot").at(Path::new("/").join(path));
    error.because(io::Error::other(format!("{} has no such path", store.url))).with_code("not-found")
}
