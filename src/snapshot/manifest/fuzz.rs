//! Fuzz targets for manifests: whole files, and records in sound files.

use super::block::Block;
use super::index::IndexRecord;
use super::layout::{self, FOOTER_LENGTH, Footer, PREFIX_LENGTH};
use super::order::{is_name, is_path};
use super::wire::{Record, encode};
use super::{Entry, Header, Item, Origin, Reader, Summary, Time, Totals, VERSION, Writer, compare_paths};
use crate::util::fuzz::{self, Source, file};
use std::cmp::Ordering;
use std::path::Path;

/// The path for messages.
const PATH: &str = "manifest";

/// A manifest, as it is and with all digests made right.
pub(crate) fn manifest(bytes: &[u8]) {
    read(bytes);
    if let Some(sealed) = seal(bytes) {
        read(&sealed);
    }
}

/// Blocks of records, in a manifest that is otherwise sound. The first byte is the version; strings follow, one for
/// each block.
pub(crate) fn records(bytes: &[u8]) {
    let mut source = Source::new(bytes);
    let version = 1 + u32::from(source.byte()) % VERSION;
    let mut blocks = Vec::new();
    while !source.is_empty() && blocks.len() < 8 {
        blocks.push(source.bytes().to_vec());
    }
    for block in &blocks {
        check_block(block, version);
    }
    if let Some(reader) = read(&of_blocks(&blocks, version)) {
        check_written(&reader);
    }
}

/// A manifest with these blocks of the current version, and the file that it is in.
pub(in crate::snapshot) fn of_records(blocks: &[Vec<u8>]) -> Option<Reader> {
    Reader::from_file(file(&of_blocks(blocks, VERSION)), Path::new(PATH)).ok()
}

fn header() -> Header {
    let text = String::from;
    Header {
        name: text("n"),
        created: Time::default(),
        program: text("p"),
        host: text("h"),
        sources: vec![b"/".to_vec().into()],
        tags: Vec::new(),
        parent: None,
    }
}

fn check_block(raw: &[u8], version: u32) {
    let Ok(block) = Block::parse(raw.to_vec(), version) else { return };
    assert!(block.size() <= raw.len() * 32, "a mark takes more memory than the record that it is for");
    let (mut at, mut marks) = (0, 0);
    while let Some((record, after)) = block.record(at) {
        assert!(after > at);
        if !matches!(record, Record::Entry { .. }) {
            let path = block.path(marks);
            assert!(is_path(&path));
            assert_eq!(block.find(&path), (marks, true));
            marks += 1;
        }
        at = after;
    }
    assert_eq!(at as usize, raw.len());
}

/// A file with these blocks, as a writer that checks nothing would make it.
fn of_blocks(blocks: &[Vec<u8>], version: u32) -> Vec<u8> {
    let mut packed_header = Vec::new();
    encode(&header(), &mut packed_header).expect("a header");
    let mut out = layout::prefix(packed_header.len() as u32).to_vec();
    out[8..12].copy_from_slice(&version.to_le_bytes());
    out[12..16].copy_from_slice(&(!version).to_le_bytes());
    out.extend(packed_header);
    let (beginning, mut index, mut before) = (out.clone(), Vec::new(), Vec::new());
    for raw in blocks {
        let packed = fuzz::packed(raw);
        let (path, name) = first_key(raw, version).unwrap_or_default();
        let shared = super::shared_length(&before, &path);
        let record = IndexRecord {
            stored: packed.len() as u32,
            raw: raw.len() as u32,
            digest: *blake3::hash(&packed).as_bytes(),
            shared: shared as u32,
            suffix: &path[shared..],
            name: &name,
        };
        encode(&record, &mut index).expect("a record of the index");
        out.extend(packed);
        before = path;
    }
    let mut totals = Vec::new();
    match version {
        1 | 2 => encode(&Totals::default(), &mut totals).expect("totals"),
        _ => encode(&(Totals::default(), Vec::<Origin>::new()), &mut totals).expect("totals"),
    }
    let index_offset = out.len() as u64;
    let footer = Footer {
        index_offset,
        index_length: index.len() as u64,
        totals_offset: index_offset + index.len() as u64,
        totals_length: totals.len() as u64,
        blocks: blocks.len() as u64,
        index_digest: *blake3::hash(&index).as_bytes(),
    };
    let end = footer.encode(&beginning, &totals);
    [out, index, totals, end.to_vec()].concat()
}

/// The path and the name by which an index names a block.
fn first_key(raw: &[u8], version: u32) -> Option<(Vec<u8>, Vec<u8>)> {
    match Record::take_from(raw, version)? {
        (Record::Directory { suffix, .. }, _) => Some((suffix.to_vec(), Vec::new())),
        (Record::Continued(path), rest) => match Record::take_from(rest, version)? {
            (Record::Entry { name, .. }, _) => Some((path.to_vec(), name.to_vec())),
            _ => None,
        },
        (Record::Entry { .. }, _) => None,
    }
}

/// The file with the right digests wherever it has a digest.
fn seal(bytes: &[u8]) -> Option<Vec<u8>> {
    let path = Path::new(PATH);
    let (_, header_length) = layout::parse_prefix(bytes.first_chunk()?, path).ok()?;
    let (start, end) = (PREFIX_LENGTH + header_length as usize, bytes.len().checked_sub(FOOTER_LENGTH)?);
    let parsed = Footer::parse(bytes[end..].first_chunk()?, start as u64, bytes.len() as u64, path).ok()?;
    let [index, totals] = [parsed.index_offset as usize, parsed.totals_offset as usize];
    let mut rest = &bytes[index..totals];
    let (mut sealed, mut at) = (Vec::new(), start);
    while !rest.is_empty() {
        let (mut record, behind) = postcard::take_from_bytes::<IndexRecord<'_>>(rest).ok()?;
        let block = bytes.get(at..at.checked_add(record.stored as usize)?)?;
        record.digest = *blake3::hash(block).as_bytes();
        encode(&record, &mut sealed).ok()?;
        (rest, at) = (behind, at + block.len());
    }
    // Numbers can have longer forms than those that are written.
    if sealed.len() != totals - index {
        return None;
    }
    let footer = Footer { index_digest: *blake3::hash(&sealed).as_bytes(), ..parsed };
    let end_bytes = footer.encode(&bytes[..start], &bytes[totals..end]);
    Some([&bytes[..index], &sealed, &bytes[totals..end], &end_bytes].concat())
}

/// Reads everything in every way. All ways must agree.
fn read(bytes: &[u8]) -> Option<Reader> {
    let path = Path::new(PATH);
    let summary = Summary::read(&file(bytes), path);
    let reader = Reader::from_file(file(bytes), path).ok()?;
    let summary = summary.expect("the summary of an open manifest");
    assert_eq!((&summary.header, &summary.totals), (reader.header(), reader.totals()));
    assert!(reader.header().created.is_in_calendar());
    let are_all_sound = reader.check().is_ok();
    let (mut items, mut failed, mut last) = (reader.items(), false, None);
    while let Some(item) = items.next() {
        let Ok(item) = item else {
            (failed, last) = (true, None);
            continue;
        };
        let (directory, address) = (items.directory().to_vec(), items.address());
        let name = match &item {
            Item::Directory(found) => {
                assert_eq!(found.path, directory);
                Vec::new()
            }
            Item::Entry(entry) => {
                check_entry(entry);
                assert_eq!(reader.entry_at(address).ok().flatten(), Some((directory.clone(), entry.clone())));
                entry.name.clone()
            }
        };
        assert!(is_path(&directory));
        let key = (directory, name);
        if let Some(last) = &last {
            assert_eq!(compare(last, &key), Ordering::Less, "records are out of order");
        }
        last = Some(key);
    }
    assert!(are_all_sound || failed, "a wrong digest was not noticed");
    if !failed {
        search(&reader);
    }
    Some(reader)
}

fn compare(one: &(Vec<u8>, Vec<u8>), other: &(Vec<u8>, Vec<u8>)) -> Ordering {
    compare_paths(&one.0, &other.0).then_with(|| one.1.cmp(&other.1))
}

fn check_entry(entry: &Entry) {
    assert!(is_name(&entry.name) && entry.name != b".." && !entry.name.contains(&b'/'));
    if let Some(file) = entry.file() {
        assert!(file.size <= i64::MAX as u64 && file.holes <= file.size);
    }
}

/// Finds each record of an intact manifest by its path.
fn search(reader: &Reader) {
    let mut items = reader.items();
    let mut directory = None;
    // Each search can unpack a block.
    for _ in 0..200 {
        match items.next() {
            Some(Ok(Item::Directory(found))) => {
                let cursor = reader.directory(&found.path).expect("sound blocks").expect("a directory that exists");
                assert_eq!(*cursor.directory(), found);
                let first = reader.items_from(&found.path).next();
                assert_eq!(first.and_then(Result::ok), Some(Item::Directory(found.clone())));
                let names = reader.names_at(items.address()).expect("sound blocks").expect("a directory's address");
                directory = Some((found.path, names));
            }
            Some(Ok(Item::Entry(entry))) => {
                let (path, names) = directory.as_mut().expect("a directory before its entries");
                assert_eq!(path, items.directory());
                assert_eq!(reader.entry(path, &entry.name).expect("sound blocks").as_ref(), Some(&entry));
                assert!(names.seek(&entry.name).expect("sound blocks"));
            }
            _ => return,
        }
    }
}

/// Whatever was read can be written, and is then read again.
fn check_written(reader: &Reader) {
    let path = Path::new(PATH);
    let Ok(items) = reader.items().collect::<Result<Vec<_>, _>>() else { return };
    let mut writer = Writer::create(file(&[]), path, &header()).expect("a new manifest");
    for (number, item) in items.iter().enumerate() {
        assert!(writer.push(item).is_ok(), "record {number} cannot be written");
    }
    let reader = Reader::from_file(writer.finish(&Totals::default()).expect("a manifest"), path).expect("a manifest");
    let again = reader.items().map(|item| item.expect("sound blocks")).collect::<Vec<_>>();
    assert_eq!(again, items);
}
