//! The format of the kept index of one filesystem: a header, keys of files, borrowed ranges and places, 16 bytes each.
//! Read and written in order; a reader keeps only what its callbacks keep, whatever the header claims.

use super::borrowed::{Borrowed, NOBODY};
use crate::content::block_index::Place;
use crate::dedupe::entry::Key;
use std::io::{self, Read, Write};

/// How every part begins. The last byte is the version.
const MAGIC: [u8; 8] = *b"blocks\n\x01";
/// The length of the header.
pub(super) const HEADER: usize = 80;
/// The length of a key, a range and a place.
const LENGTH: usize = 16;
/// The number of items read or written at once.
const AT_ONCE: usize = 1 << 12;
const CHECKSUM: usize = 32;
/// The byte of the header that changes while the rest stays.
const AGE: usize = 11;

/// The kind of hash. Places of different kinds are never in one index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dedupe) enum Kind {
    /// The bytes of a block, by the beginning of their BLAKE3.
    Bytes = 1,
}

/// Which blocks an index is about, and how they were looked at. Only a run with the same id can use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dedupe) struct Id {
    /// The kind of hash.
    pub(in crate::dedupe) kind: Kind,
    /// The filesystem.
    pub(in crate::dedupe) volume: [u8; 16],
    /// Whether the files are written in place.
    pub(in crate::dedupe) nocow: bool,
    /// The length of a block.
    pub(in crate::dedupe) block: u64,
    /// The shortest run that was shared.
    pub(in crate::dedupe) min_run: u64,
}

/// The header of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dedupe) struct Header {
    pub(in crate::dedupe) id: Id,
    /// The number of runs since the part was written.
    pub(in crate::dedupe) age: u8,
    /// N of the index.
    pub(in crate::dedupe) modulus: u64,
    /// The number of keys.
    pub(in crate::dedupe) files: u64,
    /// The number of borrowed ranges.
    pub(in crate::dedupe) borrowed: u64,
    /// The number of places.
    pub(in crate::dedupe) places: u64,
}

impl Header {
    pub(super) fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8] = self.id.kind as u8;
        bytes[9] = u8::from(self.id.nocow);
        bytes[AGE] = self.age;
        bytes[16..32].copy_from_slice(&self.id.volume);
        let numbers = [self.id.block, self.id.min_run, self.modulus, self.files, self.borrowed, self.places];
        for (place, number) in bytes[32..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// The header in these bytes; `None` if it is of another version, or no header.
    pub(super) fn from_bytes(bytes: &[u8; HEADER]) -> Option<Header> {
        let number = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let kind = Some(Kind::Bytes).filter(|kind| *kind as u8 == bytes[8])?;
        let mut volume = [0; 16];
        volume.copy_from_slice(&bytes[16..32]);
        let id = Id { kind, volume, nocow: bytes[9] != 0, block: number(32), min_run: number(40) };
        let header = Header {
            id,
            age: bytes[AGE],
            modulus: number(48),
            files: number(56),
            borrowed: number(64),
            places: number(72),
        };
        (bytes[..8] == MAGIC && header.modulus > 0 && header.to_bytes() == *bytes).then_some(header)
    }

    /// The length of keys, ranges and their checksum.
    pub(super) fn head(&self) -> Option<u64> {
        self.files.checked_add(self.borrowed)?.checked_mul(LENGTH as u64)?.checked_add(CHECKSUM as u64)
    }

    /// The length of all that follows the header.
    pub(super) fn length(&self) -> Option<u64> {
        let places = self.places.checked_mul(LENGTH as u64)?.checked_add(CHECKSUM as u64)?;
        self.head()?.checked_add(places)
    }

    /// A hasher for the keys and ranges that follow.
    fn hasher(self) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&Header { age: 0, ..self }.to_bytes());
        hasher
    }
}

/// Writes a part. The header must have the numbers of items.
pub(in crate::dedupe) fn write(
    out: &mut dyn Write,
    header: Header,
    keys: impl Iterator<Item = Key>,
    borrowed: impl Iterator<Item = Borrowed>,
    places: impl Iterator<Item = (u64, Place)>,
) -> io::Result<()> {
    out.write_all(&header.to_bytes())?;
    let mut hasher = header.hasher();
    write_items(out, &mut hasher, header.files, keys.map(|key| key.0))?;
    write_items(out, &mut hasher, header.borrowed, borrowed.map(bytes_of_range))?;
    out.write_all(hasher.finalize().as_bytes())?;
    write_items(out, &mut hasher, header.places, places.map(bytes_of_place))?;
    out.write_all(hasher.finalize().as_bytes())
}

/// An item before the places. All keys come before the first range.
#[derive(Clone, Copy, Debug)]
pub(in crate::dedupe) enum Item {
    /// The key of the next file.
    Key(Key),
    /// A borrowed range.
    Range(Borrowed),
}

/// Reads the keys and the borrowed ranges of a part with this header. They count only if this succeeds.
///
/// # Errors
/// If they are damaged.
pub(in crate::dedupe) fn read_head(from: &mut dyn Read, header: Header, mut each: impl FnMut(Item)) -> io::Result<()> {
    let mut hasher = header.hasher();
    read_items(from, &mut hasher, header.files, |bytes| each(Item::Key(Key(*bytes))))?;
    read_items(from, &mut hasher, header.borrowed, |bytes| each(Item::Range(range_of(bytes))))?;
    check(from, &hasher)
}

/// Reads the whole part with this header, and passes on only its places. They count only if this succeeds.
///
/// # Errors
/// If the part is damaged.
pub(in crate::dedupe) fn read_places(
    from: &mut dyn Read,
    header: Header,
    mut place: impl FnMut(u64, Place),
) -> io::Result<()> {
    let mut hasher = header.hasher();
    read_items(from, &mut hasher, header.files, |_| {})?;
    read_items(from, &mut hasher, header.borrowed, |_| {})?;
    check(from, &hasher)?;
    read_items(from, &mut hasher, header.places, |bytes| {
        let (hash, at) = place_of(bytes);
        place(hash, at);
    })?;
    check(from, &hasher)
}

fn write_items(
    out: &mut dyn Write,
    hasher: &mut blake3::Hasher,
    count: u64,
    items: impl Iterator<Item = [u8; LENGTH]>,
) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(AT_ONCE * LENGTH);
    let mut written = 0;
    let mut put = |buffer: &mut Vec<u8>| {
        hasher.update(buffer);
        let result = out.write_all(buffer);
        buffer.clear();
        result
    };
    for item in items {
        buffer.extend(item);
        written += 1;
        if buffer.len() == AT_ONCE * LENGTH {
            put(&mut buffer)?;
        }
    }
    put(&mut buffer)?;
    if written == count { Ok(()) } else { Err(io::Error::other("the number of kept blocks changed")) }
}

fn read_items(
    from: &mut dyn Read,
    hasher: &mut blake3::Hasher,
    count: u64,
    mut each: impl FnMut(&[u8; LENGTH]),
) -> io::Result<()> {
    let mut buffer = vec![0; AT_ONCE * LENGTH];
    let mut left = count;
    while left > 0 {
        let now = left.min(AT_ONCE as u64);
        let bytes = &mut buffer[..now as usize * LENGTH];
        from.read_exact(bytes)?;
        hasher.update(bytes);
        bytes.as_chunks().0.iter().for_each(&mut each);
        left -= now;
    }
    Ok(())
}

fn check(from: &mut dyn Read, hasher: &blake3::Hasher) -> io::Result<()> {
    let mut checksum = [0; CHECKSUM];
    from.read_exact(&mut checksum)?;
    if hasher.finalize() == checksum { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

fn bytes_of_range(range: Borrowed) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    let numbers = [range.file, range.block, range.blocks, range.owner];
    for (place, number) in bytes.chunks_exact_mut(4).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

fn range_of(bytes: &[u8; LENGTH]) -> Borrowed {
    Borrowed { file: u32_at(bytes, 0), block: u32_at(bytes, 4), blocks: u32_at(bytes, 8), owner: u32_at(bytes, 12) }
}

fn bytes_of_place((hash, place): (u64, Place)) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes[..8].copy_from_slice(&hash.to_le_bytes());
    bytes[8..12].copy_from_slice(&place.file.to_le_bytes());
    bytes[12..].copy_from_slice(&place.block.to_le_bytes());
    bytes
}

fn place_of(bytes: &[u8; LENGTH]) -> (u64, Place) {
    let hash = bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    (hash, Place { file: u32_at(bytes, 8), block: u32_at(bytes, 12) })
}

fn u32_at(bytes: &[u8; LENGTH], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(NOBODY, |bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: Id = Id { kind: Kind::Bytes, volume: [7; 16], nocow: true, block: 4096, min_run: 65536 };

    type Content = (Vec<Key>, Vec<Borrowed>, Vec<(u64, Place)>);

    fn written(content: &Content) -> (Header, Vec<u8>) {
        let (keys, borrowed, places) = content;
        let [files, ranges, many] = [keys.len(), borrowed.len(), places.len()].map(|number| number as u64);
        let header = Header { id: ID, age: 3, modulus: 5, files, borrowed: ranges, places: many };
        let mut bytes = Vec::new();
        let (keys, borrowed, places) = (keys.iter().copied(), borrowed.iter().copied(), places.iter().copied());
        write(&mut bytes, header, keys, borrowed, places).unwrap();
        (header, bytes)
    }

    /// The header and the content, if the part is sound.
    fn read(bytes: &[u8]) -> Option<(Header, Content)> {
        let (first, rest) = bytes.split_first_chunk()?;
        let header = Header::from_bytes(first)?;
        let (mut keys, mut borrowed, mut places) = Content::default();
        let each = |item| match item {
            Item::Key(key) => keys.push(key),
            Item::Range(range) => borrowed.push(range),
        };
        read_head(&mut &*rest, header, each).ok()?;
        read_places(&mut &*rest, header, |hash, place| places.push((hash, place))).ok()?;
        Some((header, (keys, borrowed, places)))
    }

    fn content(files: u8, borrowed: u32, places: u32) -> Content {
        let range = |block| Borrowed { file: block % 3, block, blocks: block + 1, owner: NOBODY - block };
        let place = |block: u32| (u64::from(block) << 40 | 9, Place { file: block % 3, block });
        (
            (0..files).map(|n| Key([n; 16])).collect(),
            (0..borrowed).map(range).collect(),
            (0..places).map(place).collect(),
        )
    }

    #[test]
    fn a_part_is_read_as_it_was_written() {
        for content in [content(0, 0, 0), content(3, 2, 5), content(200, 5000, 9000)] {
            let (header, bytes) = written(&content);
            assert_eq!(bytes.len() as u64, HEADER as u64 + header.length().unwrap());
            assert_eq!(read(&bytes), Some((header, content)));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn no_changed_part_is_believed(at in any::<prop::sample::Index>(), bit in 0..8_u8, is_cut in any::<bool>()) {
            let (_, bytes) = written(&content(3, 2, 5));
            let mut damaged = bytes.clone();
            let at = at.index(bytes.len());
            if is_cut {
                damaged.truncate(at);
            } else {
                damaged[at] ^= 1 << bit;
            }
            // The age is not covered: it changes while the rest stays.
            prop_assert!(read(&damaged).is_none() || at == AGE, "at {}", at);
        }
    }

    #[test]
    fn a_forged_number_ends_the_reading_and_takes_no_memory() {
        let (header, bytes) = written(&content(3, 2, 5));
        for forged in [
            Header { files: u64::MAX, ..header },
            Header { borrowed: u64::MAX / 16, ..header },
            Header { places: 1 << 60, ..header },
        ] {
            let all = [&forged.to_bytes()[..], &bytes[HEADER..]].concat();
            assert_eq!(read(&all), None);
        }
        assert_eq!(Header { files: u64::MAX, ..header }.length(), None);
    }

    #[test]
    fn another_kind_of_hash_or_version_is_no_part() {
        let (_, bytes) = written(&content(1, 0, 0));
        for at in [7, 8] {
            let mut other = bytes.clone();
            other[at] += 1;
            assert!(Header::from_bytes(other.first_chunk().unwrap()).is_none());
        }
    }
}
