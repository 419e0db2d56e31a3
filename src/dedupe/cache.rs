//! What a run found out, kept for the next: one file, 64 bytes for each candidate, replaced by rename.
//!
//! An entry's key is a hash of filesystem, subvolume, inode, size, mtime and ctime: a file that was written to has another one. A file
//! as young as the run's beginning is not kept, since a later change could bear the same time. The layout is in
//! `docs/dedupe.md`. A cache that is damaged or of another version is made anew.

use super::catalogue::Catalogue;
use super::entry::{Entry, Key, LENGTH};
use super::facts::{Facts, Member};
use super::file::FileId;
use super::ranges;
use super::run::{Run, add};
use crate::error::{Error, Result};
use crate::mutex::{self, lock};
use crate::status::Time;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, ftruncate, stat};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

const MAGIC: [u8; 16] = *b"pleach dedupe\n\0\0";
const VERSION: u32 = 1;
const HEADER: usize = 32;
const CHECKSUM: usize = 32;

/// Entries that no run has met for so many runs are dropped.
const OLDEST: u8 = 30;

/// The cache of one run.
pub(super) struct Cache {
    path: Option<PathBuf>,
    /// Sorted by their keys.
    old: Vec<Entry>,
    /// Of each old entry, whether this run met it and leaves it as it is: then it is not held a second time.
    met: Vec<AtomicBool>,
    new: Mutex<Vec<Entry>>,
    /// When the run began.
    begun: Time,
}

impl Cache {
    /// No cache.
    pub(super) fn none() -> Cache {
        Cache { path: None, old: Vec::new(), met: Vec::new(), new: Mutex::default(), begun: Time::default() }
    }

    /// Reads the cache at `path`; one that cannot be used is told of in a sentence, and made anew.
    pub(super) fn open(path: PathBuf) -> (Cache, Option<String>) {
        let begun = Time::now();
        let (old, word) = match read(&path) {
            Ok(old) => (old, None),
            Err(Unusable::Missing) => (Vec::new(), None),
            Err(Unusable::Because(reason)) => {
                let shown = crate::text::path(&path);
                (
                    Vec::new(),
                    Some(format!("the cache {shown} {reason}: it is made anew, and this run looks at everything")),
                )
            }
        };
        let met = old.iter().map(|_| AtomicBool::new(false)).collect();
        (Cache { path: Some(path), old, met, new: Mutex::default(), begun }, word)
    }

    /// The inode of its file, which is not to be touched by the run.
    pub(super) fn inode(&self) -> Option<(u64, u64)> {
        let meta = fs::symlink_metadata(self.path.as_ref()?).ok()?;
        Some((meta.dev(), meta.ino()))
    }

    /// A candidate with what is known of it.
    pub(super) fn member(&self, run: &Run<'_>, file: FileId) -> Member {
        let key = key(run.catalogue, file);
        let facts = self.find(&key).map(|(old, _)| old.facts);
        if facts.is_some() {
            add(&run.counters.cache_hits, 1);
        }
        Member { file, identity: key.identity(), facts: facts.unwrap_or_default(), out: false }
    }

    /// The entry with this key in the cache as it was read, and where to say that it was met.
    fn find(&self, key: &Key) -> Option<(&Entry, &AtomicBool)> {
        let at = self.old.binary_search_by_key(key, |entry| entry.key).ok()?;
        self.old.get(at).zip(self.met.get(at))
    }

    /// Keeps what is known of a candidate now.
    pub(super) fn keep(&self, run: &Run<'_>, member: &Member) {
        let is_settled = run.catalogue.record(member.file).ctime() < self.begun;
        let is_placed = !member.out && member.facts.layout != 0;
        if self.path.is_some() && is_settled && !member.facts.changing && (is_placed || member.facts.inline) {
            let entry = Entry { key: key(run.catalogue, member.file), facts: member.facts.lasting(), age: 0 };
            if let Some((old, met)) = self.find(&entry.key)
                && old.facts == entry.facts
            {
                return met.store(true, Ordering::Relaxed);
            }
            lock(&self.new).push(entry);
        }
    }

    /// Whether a run went through the blocks of these very files, as they are now, with these options.
    pub(super) fn knows_ranges(&self, run: &Run<'_>, options: &ranges::Options) -> bool {
        let key = self.path.as_ref().map(|_| set_key(run, options));
        let known = key.is_some_and(|key| self.find(&key).is_some());
        if known {
            self.keep_ranges(run, options);
        }
        known
    }

    /// Keeps that a run went through the blocks of these files. Files as young as the run may change under the same time.
    pub(super) fn keep_ranges(&self, run: &Run<'_>, options: &ranges::Options) {
        let is_old = |file: FileId| run.catalogue.record(file).ctime() < self.begun;
        if self.path.is_some() && ranges_files(run, options).all(is_old) {
            let entry = Entry { key: set_key(run, options), facts: Facts::default(), age: 0 };
            lock(&self.new).push(entry);
        }
    }

    /// Writes it, complete or not at all.
    pub(super) fn save(self) -> Result<()> {
        let Some(path) = self.path else { return Ok(()) };
        let mut new = mutex::into_inner(self.new);
        new.sort_unstable_by_key(|entry| entry.key);
        new.dedup_by_key(|entry| entry.key);
        let failed =
            |cause: io::Error| Error::io("write the cache", &path, cause).hint("the next run is slower for it");
        write(&path, &aged(self.old, &self.met), &new).map_err(failed)
    }
}

/// The file of this user's cache: `$XDG_CACHE_HOME/pleach/dedupe`, or that below `~/.cache`.
pub(super) fn default_path() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    base.map(|base| base.join("pleach/dedupe"))
}

fn key(catalogue: &Catalogue, file: FileId) -> Key {
    Key::of(&catalogue.volume(file).uuid, catalogue.subvolume(file).number, catalogue.record(file))
}

/// The files that the second stage may look at.
fn ranges_files<'a>(run: &'a Run<'_>, options: &ranges::Options) -> impl Iterator<Item = FileId> + use<'a> {
    let smallest = ranges::smallest(options);
    run.catalogue.ids().filter(move |file| run.catalogue.size(*file) >= smallest)
}

/// A key for all files that the second stage may look at, as they are now, and how it looks at them.
fn set_key(run: &Run<'_>, options: &ranges::Options) -> Key {
    let mut keys: Vec<_> = ranges_files(run, options).map(|file| key(run.catalogue, file)).collect();
    keys.sort_unstable();
    let mut hasher = blake3::Hasher::new_derive_key("pleach: files whose blocks were compared");
    hasher.update(&options.min_run.to_le_bytes());
    hasher.update(&options.index_memory.to_le_bytes());
    keys.iter().for_each(|key| {
        hasher.update(&key.0);
    });
    let mut key = [0; 16];
    hasher.finalize_xof().fill(&mut key);
    Key(key)
}

enum Unusable {
    Missing,
    Because(String),
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Unusable::Missing,
            io::ErrorKind::UnexpectedEof => Unusable::Because("is cut short".into()),
            _ => Unusable::Because(format!("cannot be read ({})", crate::text::cause(&error))),
        }
    }
}

fn read(path: &Path) -> std::result::Result<Vec<Entry>, Unusable> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from)?);
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(Unusable::Because("is no regular file".into()));
    }
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut header = [0; HEADER];
    reader.read_exact(&mut header)?;
    if header[..16] != MAGIC {
        return Err(Unusable::Because("is no cache of pleach".into()));
    }
    if header[16..20] != VERSION.to_le_bytes() {
        return Err(Unusable::Because("is of another version".into()));
    }
    let count = header[24..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let expected = count.checked_mul(LENGTH as u64).and_then(|bytes| bytes.checked_add((HEADER + CHECKSUM) as u64));
    if expected != Some(meta.len()) {
        return Err(Unusable::Because("is cut short".into()));
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(&header);
    let mut entries = Vec::with_capacity(count as usize);
    let mut bytes = [0; LENGTH];
    for _ in 0..count {
        reader.read_exact(&mut bytes)?;
        hasher.update(&bytes);
        entries.push(Entry::from_bytes(&bytes));
    }
    let mut checksum = [0; CHECKSUM];
    reader.read_exact(&mut checksum)?;
    if hasher.finalize() != checksum || !entries.is_sorted_by(|a, b| a.key < b.key) {
        return Err(Unusable::Because("is damaged".into()));
    }
    Ok(entries)
}

/// The old entries a run later: those that it met are young again, those that no run has met for long are left out.
fn aged(mut old: Vec<Entry>, met: &[AtomicBool]) -> Vec<Entry> {
    for (entry, met) in old.iter_mut().zip(met) {
        entry.age = if met.load(Ordering::Relaxed) { 0 } else { entry.age.saturating_add(1) };
    }
    old.retain(|entry| entry.age <= OLDEST);
    old
}

/// Writes what is old and what is new beside the file, and renames it over that.
fn write(path: &Path, old: &[Entry], new: &[Entry]) -> io::Result<()> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let file = locked(Path::new(&beside))?;
    ftruncate(&file, 0)?;
    let count = merged(old, new).count() as u64;
    let mut hasher = blake3::Hasher::new();
    let mut writer = BufWriter::with_capacity(1 << 20, &file);
    let mut put = |bytes: &[u8]| {
        hasher.update(bytes);
        writer.write_all(bytes)
    };
    put(&MAGIC)?;
    put(&VERSION.to_le_bytes())?;
    put(&[0; 4])?;
    put(&count.to_le_bytes())?;
    for entry in merged(old, new) {
        put(&entry.to_bytes())?;
    }
    writer.write_all(hasher.finalize().as_bytes())?;
    writer.into_inner().map_err(|error| error.into_error())?.sync_all()?;
    fs::rename(&beside, path)
}

/// Both lists as one, sorted; of the same key the new entry.
fn merged<'a>(old: &'a [Entry], new: &'a [Entry]) -> impl Iterator<Item = Entry> + 'a {
    let mut new = new.iter().copied().peekable();
    let mut old = old.iter().copied().peekable();
    std::iter::from_fn(move || match (old.peek(), new.peek()) {
        (Some(a), Some(b)) if a.key < b.key => old.next(),
        (Some(a), Some(b)) => {
            if a.key == b.key {
                old.next();
            }
            new.next()
        }
        (Some(_), None) => old.next(),
        (None, _) => new.next(),
    })
}

/// The file to be written, made or taken over from a killed run, and held alone.
fn locked(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    loop {
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Err(io::Error::other("another run is writing it")),
            result => result?,
        }
        // The other run may have renamed it between opening and locking.
        let (ours, there) = (fstat(&file)?, stat(path));
        if there.is_ok_and(|there| (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)) {
            return Ok(File::from(file));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dedupe::facts::Facts;

    fn entry(number: u8, layout: u64, age: u8) -> Entry {
        Entry { key: Key([number; 16]), facts: Facts { layout, ..Facts::default() }, age }
    }

    #[test]
    fn what_is_written_is_read_again_and_damage_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub/cache");
        write(&path, &[entry(1, 1, 0), entry(2, 2, 5)], &[entry(1, 7, 0), entry(3, 3, 0)]).unwrap();
        let layouts =
            |path: &Path| read(path).map(|list| list.iter().map(|e| (e.facts.layout, e.age)).collect::<Vec<_>>());
        assert_eq!(layouts(&path).ok(), Some(vec![(7, 0), (2, 5), (3, 0)]));
        let whole = fs::read(&path).unwrap();
        for (at, word) in [(3, "no cache"), (17, "version"), (40, "damaged"), (whole.len() - 1, "damaged")] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&path, bytes).unwrap();
            assert!(matches!(read(&path), Err(Unusable::Because(why)) if why.contains(word)), "{at}");
        }
        for length in [0, 10, HEADER, HEADER + 5, whole.len() - 1] {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(matches!(read(&path), Err(Unusable::Because(why)) if why.contains("cut short")), "{length}");
        }
        let (cache, word) = Cache::open(path);
        assert!(cache.old.is_empty() && word.unwrap().contains("made anew"));
    }

    #[test]
    fn entries_age_unless_they_are_met_and_leave_when_no_run_met_them_for_long() {
        let met = [true, false, false, true].map(AtomicBool::new);
        let old = vec![entry(1, 1, 7), entry(2, 2, 7), entry(3, 3, OLDEST), entry(4, 4, OLDEST)];
        let ages: Vec<_> = aged(old, &met).iter().map(|entry| (entry.key.0[0], entry.age)).collect();
        assert_eq!(ages, [(1, 0), (2, 8), (4, 0)]);
    }

    #[test]
    fn what_a_killed_run_left_is_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("cache.new"), vec![7; 1000]).unwrap();
        write(&dir.path().join("cache"), &[], &[entry(1, 1, 0)]).unwrap();
        assert_eq!(read(&dir.path().join("cache")).ok().unwrap().len(), 1);
        assert!(!dir.path().join("cache.new").exists());
    }
}
