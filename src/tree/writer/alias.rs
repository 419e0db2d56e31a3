//! Detects different names that a directory treats as the same name. On vfat, exFAT and NTFS, on many servers, and in
//! directories with the flag casefold of ext4, f2fs, tmpfs and bcachefs, `A` finds `a`, or one form of Unicode finds
//! another. If several such names are wanted, one gets the entry, and the others must not touch it.
//!
//! The comparison rules of a filesystem need not be known: if an entry is found under a name that its directory does
//! not list, the entry has another name. A directory is listed only if it may compare names this way. Its flags show
//! that. On filesystems without such a flag, its first existing entry shows it: can the entry be found in the other
//! case?

use super::Device;
use crate::error::Error;
use crate::fs::filesystem::Kind;
use crate::fs::status::Status;
use crate::util::mutex::lock;
use crate::util::text;
use rustix::fs::{Mode, OFlags, RawDir, ioctl_getflags};
use rustix::io::{Errno, Result};
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::{Mutex, OnceLock};

/// `FS_CASEFOLD_FL`.
const CASEFOLD: u32 = 0x4000_0000;

/// The names that a directory must have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    /// The names in this directory.
    Of(BorrowedFd<'a>),
    /// These names, in this order.
    These(&'a [Vec<u8>]),
}

/// Which wanted name owns an existing entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The name under which it was found.
    Itself,
    /// Another wanted name: this one, if known.
    Other(Option<Vec<u8>>),
}

/// The names in one directory, read when needed. Each name takes about 200 bytes once the directory was listed.
#[derive(Debug, Default)]
pub(crate) struct Aliases {
    sense: OnceLock<Sense>,
    listed: Mutex<Option<Listed>>,
}

/// How a directory compares names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sense {
    /// Byte by byte.
    Exact,
    /// It distinguishes upper case from lower case, but perhaps not the forms of Unicode.
    ExactCase,
    /// It may treat two names as one.
    Folds,
}

impl Aliases {
    /// Whether `dir`, which has an entry with this name, surely compares names byte by byte.
    pub(crate) fn are_exact(&self, dir: impl AsFd, device: &Device, name: &[u8]) -> bool {
        self.sense(dir.as_fd(), device, name) == Sense::Exact
    }

    /// Which name owns the entry that was found in `dir` under this name. This costs nothing if names are compared byte
    /// by byte.
    ///
    /// # Errors
    /// Errors of listing one of the directories.
    pub(crate) fn owner(&self, dir: impl AsFd, device: &Device, name: &[u8], wanted: Wanted<'_>) -> Result<Owner> {
        let dir = dir.as_fd();
        match self.sense(dir, device, name) {
            Sense::Exact => return Ok(Owner::Itself),
            Sense::ExactCase if name.is_ascii() => return Ok(Owner::Itself),
            Sense::ExactCase | Sense::Folds => {}
        }
        let mut listed = lock(&self.listed);
        if let Some(known) = &*listed {
            if known.names.contains_key(name) {
                return Ok(Owner::Itself);
            }
            if let Some(owner) = known.owner(name) {
                return Ok(owner);
            }
        }
        // The entry was created later.
        let fresh = Listed::new(dir, name, wanted)?;
        let owner = match fresh.names.contains_key(name) {
            true => Owner::Itself,
            false => fresh.owner(name).unwrap_or(Owner::Other(None)),
        };
        *listed = Some(fresh);
        Ok(owner)
    }

    /// The listed names with entries that are also found under other, wanted names. They must not be deleted, even if
    /// nobody wants them as listed. Empty if none of `names` can be found under another name.
    ///
    /// # Errors
    /// Errors of listing one of the directories.
    pub(crate) fn found(
        &self,
        dir: impl AsFd,
        device: &Device,
        names: &[Vec<u8>],
        wanted: Wanted<'_>,
    ) -> Result<HashSet<Vec<u8>>> {
        let dir = dir.as_fd();
        let may_be_found = |name: &Vec<u8>| match self.sense(dir, device, name) {
            Sense::Exact => false,
            Sense::ExactCase => !name.is_ascii(),
            Sense::Folds => true,
        };
        if !names.iter().any(may_be_found) {
            return Ok(HashSet::new());
        }
        Ok(Listed::new(dir, b"", wanted)?.owners.into_keys().collect())
    }

    fn sense(&self, dir: BorrowedFd<'_>, device: &Device, name: &[u8]) -> Sense {
        if let Some(sense) = self.sense.get() {
            return *sense;
        }
        let exact_if = |folds: bool, exact| if folds { Sense::Folds } else { exact };
        let sense = match device.kind {
            Some(Kind::Btrfs) => Some(Sense::Exact),
            // This is a property of the whole filesystem (`mkfs.xfs -n version=ci`).
            Some(Kind::Xfs) => match device.folds_case.get() {
                Some(folds) => Some(exact_if(*folds, Sense::Exact)),
                None => is_found_in_other_case(dir, name)
                    .map(|found| exact_if(*device.folds_case.get_or_init(|| found), Sense::Exact)),
            },
            Some(kind) if kind.shows_casefold() => {
                let folds = ioctl_getflags(dir).is_ok_and(|flags| flags.bits() & CASEFOLD != 0);
                Some(exact_if(folds, Sense::Exact))
            }
            _ => is_found_in_other_case(dir, name).map(|found| exact_if(found, Sense::ExactCase)),
        };
        match sense {
            Some(sense) => *self.sense.get_or_init(|| sense),
            // This name has no letters, so it shows nothing about the next one.
            None => Sense::ExactCase,
        }
    }
}

/// Whether an entry of a directory is found under its name with upper and lower case swapped. `None`: the name has no
/// letters, or the entry does not exist.
pub(crate) fn is_found_in_other_case(dir: impl AsFd, name: &[u8]) -> Option<bool> {
    let other = in_other_case(name)?;
    match Status::at(&dir, &other) {
        Ok(_) => Some(true),
        Err(_) => Status::at(&dir, name).is_ok().then_some(false),
    }
}

fn in_other_case(name: &[u8]) -> Option<Vec<u8>> {
    let other = match std::str::from_utf8(name) {
        Ok(text) if text.to_lowercase() != text => text.to_lowercase().into_bytes(),
        Ok(text) => text.to_uppercase().into_bytes(),
        Err(_) if name.to_ascii_lowercase() != name => name.to_ascii_lowercase(),
        Err(_) => name.to_ascii_uppercase(),
    };
    (other != name).then_some(other)
}

/// A form of a name that is equal for names that differ only in case.
fn folded(name: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(name) {
        Ok(text) => text.to_uppercase().to_lowercase().into_bytes(),
        Err(_) => name.to_ascii_lowercase(),
    }
}

/// The names in a directory, and the wanted names that find an entry with another name.
#[derive(Debug, Default)]
struct Listed {
    /// Each with its inode number.
    names: HashMap<Vec<u8>, u64>,
    /// Wanted names that are not listed but find an entry, each with the listed name of that entry, if it was
    /// recognized.
    aliases: HashMap<Vec<u8>, Option<Vec<u8>>>,
    /// For listed entries, the wanted names that own them.
    owners: HashMap<Vec<u8>, Vec<u8>>,
}

impl Listed {
    /// Lists a directory. `name` is wanted in addition.
    fn new(dir: BorrowedFd<'_>, name: &[u8], wanted: Wanted<'_>) -> Result<Listed> {
        let mut wanted: Vec<Vec<u8>> = match wanted {
            Wanted::Of(source) => list(source)?.into_keys().collect(),
            Wanted::These(names) => names.to_vec(),
        };
        if !name.is_empty() {
            wanted.push(name.to_vec());
        }
        wanted.sort_unstable();
        wanted.dedup();
        let names = list(dir)?;
        let unlisted = wanted.iter().filter(|name| !names.contains_key(*name));
        let found: Vec<_> = unlisted.filter_map(|name| Some((name.clone(), Status::at(dir, name).ok()?.ino))).collect();
        // Other threads create entries meanwhile. An entry that has just been found is in the next list for certain.
        let names = if found.is_empty() { names } else { list(dir)? };
        Ok(Listed::resolve(names, &wanted, found))
    }

    /// Finds the owners of entries. `found` are wanted names that found an entry before `names` was listed, each with
    /// the inode number.
    fn resolve(names: HashMap<Vec<u8>, u64>, wanted: &[Vec<u8>], found: Vec<(Vec<u8>, u64)>) -> Listed {
        let mut by_case: HashMap<Vec<u8>, &Vec<u8>> = HashMap::new();
        let mut by_inode: HashMap<u64, &Vec<u8>> = HashMap::new();
        for (name, inode) in &names {
            by_case.insert(folded(name), name);
            by_inode.insert(*inode, name);
        }
        let (mut aliases, mut owners) = (HashMap::new(), HashMap::new());
        let exact: HashSet<&Vec<u8>> = wanted.iter().filter(|name| names.contains_key(*name)).collect();
        for (name, inode) in found {
            if exact.contains(&name) {
                continue;
            }
            let entry = by_case.get(&folded(&name)).or_else(|| by_inode.get(&inode)).copied();
            if let Some(entry) = entry {
                // A name that is wanted exactly as listed has priority.
                let owner = if exact.contains(entry) { entry } else { &name };
                owners.entry(entry.clone()).or_insert_with(|| owner.clone());
            }
            aliases.insert(name, entry.cloned());
        }
        Listed { names, aliases, owners }
    }

    /// Which name owns the entry that is found under an unlisted name. `None`: the entry did not exist, or nobody asked
    /// for the name.
    fn owner(&self, name: &[u8]) -> Option<Owner> {
        let Some(found) = self.aliases.get(name)? else { return Some(Owner::Other(None)) };
        let owner = self.owners.get(found)?;
        Some(if owner == name { Owner::Itself } else { Owner::Other(Some(owner.clone())) })
    }
}

/// The error for an entry that would replace another wanted entry because the directory treats their names as the same.
/// `there` is the path of the other entry.
pub(crate) fn is_another(action: &str, shown: &Path, there: Option<&Path>) -> Error {
    let other = there.map_or_else(|| "that of another entry".into(), text::path);
    let hint = format!(
        "the filesystem does not distinguish this name from {other}, which is wanted too and was kept; \
         choose another name, or another directory"
    );
    Error::io(action, shown, Errno::EXIST).hint(hint).with_code("same-name")
}

/// The names in a directory, with the inode numbers that the directory has.
fn list(dir: BorrowedFd<'_>) -> Result<HashMap<Vec<u8>, u64>> {
    // Opened again, to have its own position in the directory.
    let dir = rustix::fs::openat(dir, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut buffer = Vec::with_capacity(32 << 10);
    let mut entries = RawDir::new(&dir, buffer.spare_capacity_mut());
    let mut names = HashMap::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.insert(name.to_vec(), entry.ino());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The owners of entries. `listed` have the inode numbers 1, 2 and so on.
    fn resolve(listed: &[&str], wanted: &[&str], found: &[(&str, u64)]) -> Listed {
        let bytes = |name: &str| name.as_bytes().to_vec();
        let wanted: Vec<_> = wanted.iter().map(|name| bytes(name)).collect();
        let found = found.iter().map(|(name, inode)| (bytes(name), *inode)).collect();
        Listed::resolve(listed.iter().map(|name| bytes(name)).zip(1..).collect(), &wanted, found)
    }

    #[test]
    fn the_first_wanted_name_owns_an_entry_that_has_the_name_of_none() {
        let listed = resolve(&["B"], &["b", "É"], &[("b", 1)]);
        assert_eq!(listed.owner(b"b"), Some(Owner::Itself));
        // Recognized by the inode number.
        let listed = resolve(&["x"], &["a", "b"], &[("a", 1), ("b", 1)]);
        assert_eq!(listed.owner(b"b"), Some(Owner::Other(Some(b"a".to_vec()))));
    }

    #[test]
    fn an_entry_that_was_created_while_its_directory_was_listed_belongs_to_its_name() {
        // `b` found an entry that the first list lacked. The new list has it under its name.
        let listed = resolve(&["b"], &["B", "b"], &[("B", 1), ("b", 1)]);
        assert_eq!(listed.owner(b"B"), Some(Owner::Other(Some(b"b".to_vec()))));
        assert!(listed.names.contains_key(&b"b"[..]) && !listed.aliases.contains_key(&b"b"[..]));
    }
}
