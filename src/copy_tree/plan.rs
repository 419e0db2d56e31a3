//! Which source gets which name in the destination, by the rules of `cp -a`, and which requests are refused before
//! anything is touched.

use super::options::Placement;
use crate::error::{Error, Result};
use crate::fs::filesystem::{Filesystem, Kind};
use crate::fs::openat;
use crate::fs::status::Status;
use crate::tree::walk::Top;
use crate::util::text;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The paths to walk, and the target of each.
pub(super) struct Plan {
    /// The directory that everything is copied to, open.
    pub(super) top: OwnedFd,
    /// Its device and inode.
    pub(super) top_inode: (u64, u64),
    /// Its path, as shown to the user.
    pub(super) shown: PathBuf,
    /// Walks, one after the other.
    pub(super) steps: Vec<Step>,
    /// The names that sources get in the top.
    pub(super) names: Vec<Vec<u8>>,
    /// The directories among the sources, by device and inode.
    pub(super) source_inodes: Vec<(u64, u64)>,
    /// Whether files can probably be cloned, judging by the top directories of the sources: they are on the
    /// destination's filesystem, and it may support reflinks.
    pub(super) may_clone: bool,
}

/// Sources that are walked side by side.
#[derive(Default)]
pub(super) struct Step {
    tops: Vec<Top>,
    /// The target of each of them.
    pub(super) targets: Vec<Target>,
}

impl Step {
    /// The directories where its walk begins.
    pub(super) fn tops(&self) -> Vec<Top> {
        self.tops.clone()
    }
}

/// The target of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A directory of this name in the top.
    Named(Vec<u8>),
    /// The top itself: the entries of the source go there.
    Itself,
    /// Entries of the top, with their own names, or one entry with this name.
    Entries(Option<Vec<u8>>),
}

/// A source as the user named it.
struct Source<'a> {
    named: &'a Path,
    status: Status,
    /// Its last component. `None` if that is not a name (`.`, `..`, `/`): then its content is copied.
    name: Option<&'a [u8]>,
}

impl<'a> Source<'a> {
    fn find(named: &'a Path) -> Result<Source<'a>> {
        let bytes = named.as_os_str().as_bytes();
        // If the path ends in a slash, a link is followed.
        let status = Status::at(CWD, bytes)
            .map_err(|errno| Error::io("find the source", named, errno).hint("nothing was copied"))?;
        Ok(Source { named, status, name: split(bytes).1 })
    }

    fn is_directory(&self) -> bool {
        self.status.file_type() == FileType::Directory
    }

    fn inode(&self) -> (u64, u64) {
        (self.status.dev, self.status.ino)
    }

    fn usage(&self, action: &str, hint: &str) -> Error {
        Error::usage(action).at(self.named).hint(hint)
    }
}

/// The directory part of a path, and its last component without trailing slashes. `None` if that is not a name.
fn split(path: &[u8]) -> (&[u8], Option<&[u8]>) {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let path = &path[..end];
    let (above, name) = match path.iter().rposition(|&byte| byte == b'/') {
        Some(0) => (&b"/"[..], &path[1..]),
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None if path.is_empty() => (&b"/"[..], path),
        None => (&b"."[..], path),
    };
    (above, Some(name).filter(|name| !matches!(*name, b"" | b"." | b"..")))
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// The destination of the sources: a directory that receives them, or a name for one of them.
struct Destination {
    top: OwnedFd,
    shown: PathBuf,
    /// The name of the only source. `None` inside: its own name.
    name: Option<Option<Vec<u8>>>,
}

impl Plan {
    pub(super) fn new(named: &[PathBuf], destination: &Path, into: Placement) -> Result<Plan> {
        let sources = named.iter().map(|path| Source::find(path)).collect::<Result<Vec<_>>>()?;
        let Destination { top, shown, name } = Destination::find(destination, &sources, into)?;
        let failed = |errno| Error::io("read the status of the destination", &shown, errno);
        let status = Status::of(&top).map_err(failed)?;
        let above = openat::ancestors(&top).map_err(failed)?;
        let mut steps = Steps::default();
        for source in &sources {
            let target = match &name {
                Some(name) => name.as_deref(),
                None => source.name,
            };
            refuse_onto_itself(source, target, &top, &shown, &above)?;
            steps.add(source, target, name.is_some())?;
        }
        let own = Filesystem::identify(&top).map_err(failed)?;
        // One directory of each device is queried: on Btrfs, subvolumes have their own devices.
        let mut devices: HashMap<u64, bool> = HashMap::from([(status.dev, true)]);
        let has_none = matches!(Kind::of(&top), Ok(Kind::Ext4 | Kind::Tmpfs));
        let is_one_filesystem = sources.iter().all(|source| {
            *devices.entry(source.status.dev).or_insert_with(|| {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let above = if source.is_directory() { source.named } else { as_path(split(bytes(source.named)).0) };
                let opened = rustix::fs::open(above, flags, Mode::empty());
                opened.and_then(Filesystem::identify).is_ok_and(|id| id == own)
            })
        });
        let source_inodes = sources.iter().filter(|source| source.is_directory()).map(Source::inode).collect();
        let top_inode = (status.dev, status.ino);
        let names = steps.taken.keys().cloned().collect();
        Ok(Plan {
            top,
            top_inode,
            shown,
            steps: steps.finish(),
            names,
            source_inodes,
            may_clone: is_one_filesystem && !has_none,
        })
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

impl Destination {
    fn find(destination: &Path, sources: &[Source<'_>], into: Placement) -> Result<Destination> {
        let directory = match open_directory(destination) {
            Ok(directory) => Some(directory),
            Err(Errno::NOENT | Errno::NOTDIR) => None,
            Err(errno) => return Err(Error::io("open the destination", destination, errno)),
        };
        match (directory, sources) {
            (Some(top), _) if into != Placement::Name => Ok(Destination { top, shown: destination.into(), name: None }),
            (_, _) if into == Placement::Directory => {
                Err(Error::usage("copy into").at(destination).hint("not an existing directory"))
            }
            (Some(top), [source]) if source.is_directory() => {
                Ok(Destination { top, shown: destination.into(), name: Some(None) })
            }
            (_, [source]) => Destination::to_be(destination, source),
            (None, _) if into == Placement::AsItStands => {
                let hint = "several sources need an existing directory as destination";
                Err(Error::usage(format!("copy {} sources to", sources.len())).at(destination).hint(hint))
            }
            _ => Err(Error::usage(format!("copy {} sources to be", sources.len())).at(destination).hint("name one")),
        }
    }

    /// The only source gets this path.
    fn to_be(destination: &Path, source: &Source<'_>) -> Result<Destination> {
        let path = bytes(destination);
        let (above, name) = split(path);
        let Some(name) = name else {
            // The path is a directory, and only a directory can replace it.
            return Err(Error::usage("copy to").at(destination).hint("it is a directory, and the source is not"));
        };
        if path.ends_with(b"/") && !source.is_directory() {
            let error = Error::usage("copy into").at(destination).hint("not an existing directory");
            return Err(error);
        }
        let above = as_path(above);
        let top = open_directory(above).map_err(|errno| {
            let error = Error::io("open the destination's directory", above, errno);
            if errno == Errno::NOENT { error.hint("create it first") } else { error }
        })?;
        Ok(Destination { top, shown: above.into(), name: Some(Some(name.to_vec())) })
    }
}

fn open_directory(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn refuse_onto_itself(
    source: &Source<'_>,
    target: Option<&[u8]>,
    top: &OwnedFd,
    shown: &Path,
    above: &[(u64, u64)],
) -> Result<()> {
    let there = target.and_then(|name| Status::at(top, name).ok());
    let is_itself = match target {
        Some(_) => there.is_some_and(|there| there.is_same_inode(&source.status)),
        None => source.is_directory() && above.first() == Some(&source.inode()),
    };
    let place = text::path(&target.map_or_else(|| shown.into(), |name| shown.join(as_path(name))));
    if is_itself {
        return Err(source.usage("copy onto itself", &format!("{place} is the same")));
    }
    if source.is_directory() && above.contains(&source.inode()) {
        return Err(source.usage("copy into itself", &format!("{place} lies in it")));
    }
    Ok(())
}

/// The steps found so far.
#[derive(Default)]
struct Steps {
    done: Vec<Step>,
    now: Step,
    /// Entries that are not directories, grouped by the directory in their path.
    entries: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    /// The source of each name in the top.
    taken: BTreeMap<Vec<u8>, ((u64, u64), PathBuf)>,
}

impl Steps {
    fn add(&mut self, source: &Source<'_>, target: Option<&[u8]>, is_renamed: bool) -> Result<()> {
        let Some(target) = target else {
            // The content of several sources may have the same names. A later source replaces entries of an earlier
            // one.
            self.end_step();
            self.now.tops.push(Top::whole(source.named));
            self.now.targets.push(Target::Itself);
            self.end_step();
            return Ok(());
        };
        if let Some((inode, first)) = self.taken.get(target) {
            if *inode == source.inode() {
                return Ok(());
            }
            let hint = format!("{} would get the same name; copy them to different directories", text::path(first));
            return Err(source.usage("copy", &hint));
        }
        self.taken.insert(target.to_vec(), (source.inode(), source.named.into()));
        if source.is_directory() {
            self.now.tops.push(Top::whole(source.named));
            self.now.targets.push(Target::Named(target.to_vec()));
            return Ok(());
        }
        let (above, name) = split(bytes(source.named));
        let name = name.unwrap_or_default().to_vec();
        if is_renamed {
            self.now.tops.push(Top::some(as_path(above), [name]));
            self.now.targets.push(Target::Entries(Some(target.to_vec())));
        } else {
            self.entries.entry(above.to_vec()).or_default().push(name);
        }
        Ok(())
    }

    fn end_step(&mut self) {
        for (above, names) in std::mem::take(&mut self.entries) {
            self.now.tops.push(Top::some(as_path(&above), names));
            self.now.targets.push(Target::Entries(None));
        }
        if !self.now.tops.is_empty() {
            self.done.push(std::mem::take(&mut self.now));
        }
    }

    fn finish(mut self) -> Vec<Step> {
        self.end_step();
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_component_is_a_name_or_the_content_is_meant() {
        let split = |path: &'static str| {
            let (above, name) = split(path.as_bytes());
            (std::str::from_utf8(above).unwrap(), name.map(|name| std::str::from_utf8(name).unwrap()))
        };
        assert_eq!(split("a"), (".", Some("a")));
        assert_eq!(split("a/b//"), ("a", Some("b")));
        assert_eq!(split("/a"), ("/", Some("a")));
        assert_eq!(split("a/."), ("a", None));
        assert_eq!(split(".."), (".", None));
        assert_eq!(split("/"), ("/", None));
        assert_eq!(split("a/..b"), ("a", Some("..b")));
    }
}
