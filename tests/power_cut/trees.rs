//! The trees that jobs work on, in an older and a newer version, and how they are compared.

use super::*;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};

/// A source: its newer version, at the path that commands read, and its older version next to it.
pub(super) struct Versions {
    pub(super) old: PathBuf,
    pub(super) new: PathBuf,
}

const MIB: usize = 1 << 20;

impl Versions {
    /// Makes both in a directory: many small files, files of more than a mebibyte, a larger one, a sparse one, hard
    /// links. After each of some hundred power cuts, all of it is read several times.
    pub(super) fn make(dir: &Path) -> Versions {
        let versions = Versions { old: dir.join("old"), new: dir.join("new") };
        fill(&versions.old, 0);
        fill(&versions.new, 1);
        shapes::settle(dir);
        versions
    }
}

/// Fills a tree. One third of the files is equal in both versions, one third differs, one third is only in the newer
/// one.
fn fill(dir: &Path, version: u64) {
    for name in ["small", "links"] {
        fs::create_dir_all(dir.join(name)).expect("a directory can be made");
    }
    for number in 0..180_u64 {
        add(&dir.join(format!("small/{number:03}")), number, version, 200 + number as usize * 97);
    }
    for number in 0..6_u64 {
        add(&dir.join(format!("medium-{number}")), number + 501, version, MIB + 300_000);
    }
    // An unaligned tail, and a difference in the middle only.
    let mut large = bytes(600, 4 * MIB + 1234);
    large[2 * MIB..2 * MIB + 100_000].copy_from_slice(&bytes(601 + version, 100_000));
    write(dir.join("large"), &large);
    set_time(&dir.join("large"), version);
    let sparse = File::create(dir.join("sparse")).expect("a file can be made");
    sparse.set_len(16 << 20).expect("a file can be all hole");
    sparse.write_all_at(&bytes(700 + version, 300_000), 3 << 20).expect("a file can be written");
    sparse.write_all_at(&bytes(710 + version, 5000), 12 << 20).expect("a file can be written");
    set_time(&dir.join("sparse"), version);
    for name in ["medium-1", "small/001", "small/003"] {
        let link = dir.join("links").join(name.replace('/', "-"));
        fs::hard_link(dir.join(name), link).expect("a hard link can be made");
    }
    fs::set_permissions(dir.join("small/000"), fs::Permissions::from_mode(0o600)).expect("a mode can be set");
}

/// Adds a file; its number decides its content in the two versions.
fn add(path: &Path, number: u64, version: u64, length: usize) {
    let version = match number % 3 {
        0 => 0,
        1 => version,
        _ if version == 1 => 1,
        _ => return,
    };
    write(path, &bytes(number + 1000 * version, length));
    set_time(path, version);
}

fn set_time(path: &Path, version: u64) {
    tree::set_mtime(path, 1_600_000_000 + version as i64, 123_456_789);
}

/// Copies the older version to a place on the disk, with its times, and syncs it.
pub(super) fn put_in_place(version: &Path, place: &Path) {
    fs::create_dir_all(place).expect("a directory can be made");
    finish(Command::new("cp").args(["-a", "--reflink=never", "--sparse=always", "-T"]).arg(version).arg(place))
        .expect(0);
    shapes::settle(place);
}

/// Adds every entry that differs, in content or in metadata.
pub(super) fn compare(original: &Path, copy: &Path, faults: &mut Faults) {
    if !copy.is_dir() {
        faults.push(format!("{} is not there", copy.display()));
        return;
    }
    let names = |dir: &Path| -> BTreeSet<PathBuf> {
        let paths = tools::paths(dir).into_iter();
        paths.map(|path| path.strip_prefix(dir).expect("it is below").to_path_buf()).collect()
    };
    for name in names(original).union(&names(copy)) {
        let (wanted, there) = (facts(&original.join(name)), facts(&copy.join(name)));
        if wanted != there {
            faults.push(format!("{}: {}, not {}", name.display(), shown(there.as_ref()), shown(wanted.as_ref())));
        } else if original.join(name).is_file() {
            let content = fs::read(copy.join(name)).unwrap_or_default();
            if fs::read(original.join(name)).expect("a source can be read") != content {
                faults.push(format!("{}: wrong content, {}", name.display(), looks(&content)));
            }
        }
    }
}

/// The metadata of an entry that must be equal.
#[derive(Debug, PartialEq)]
struct Facts {
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
    /// The size and the number of links of a file.
    size_and_links: Option<(u64, u64)>,
}

fn facts(path: &Path) -> Option<Facts> {
    let meta = fs::symlink_metadata(path).ok()?;
    Some(Facts {
        mode: meta.mode(),
        owner: (meta.uid(), meta.gid()),
        modified: (meta.mtime(), meta.mtime_nsec()),
        size_and_links: meta.is_file().then(|| (meta.size(), meta.nlink())),
    })
}

fn shown(facts: Option<&Facts>) -> String {
    facts.map_or_else(|| "nothing".into(), |facts| format!("{facts:?}"))
}

/// A description of wrong content.
pub(super) fn looks(content: &[u8]) -> String {
    let zeros = content.chunks(4096).filter(|block| block.iter().all(|byte| *byte == 0)).count();
    format!("{} bytes, {zeros} of {} blocks are zeros", content.len(), content.len().div_ceil(4096))
}

/// Finds what an unfinished run or deletion left in a repository.
pub(super) fn find_leftovers(repo: &Path, faults: &mut Faults) {
    for dir in ["partial", "trash"] {
        let path = repo.join(".pleach").join(dir);
        if path.exists() && !names(&path).is_empty() {
            faults.push(format!("left in {dir}: {:?}", names(&path)));
        }
    }
}
