//! Fuzz targets for the journal of a receiver, and for the order of the records that it accepts.

use super::journal;
use super::sequence::Sequence;
use crate::snapshot::manifest::{self, Body, Directory, Entry, Header, Item, Meta, Reader, Time, Totals, Writer};
use crate::snapshot::manifest::{is_name, is_path};
use crate::util::fuzz::{Source, file};
use std::collections::BTreeSet;
use std::path::Path;

/// The notes of a receiver: the position, and the records.
pub(crate) fn journal(bytes: &[u8]) {
    assert!(journal::parse(bytes).is_none_or(|note| journal::format(&note).is_some()));
    let sealed = [blake3::hash(bytes).as_bytes(), bytes].concat();
    if let Some(note) = journal::parse(&sealed) {
        let written = journal::format(&note).expect("a note that was read");
        assert_eq!(journal::parse(&written), Some(note));
    }
    let mut found = Vec::new();
    let result = journal::records(bytes, u64::MAX, |item| {
        found.push(item);
        Ok(())
    });
    assert!(result.is_err(), "records without end");
    let mut written = Vec::new();
    for item in &found {
        let record = postcard::to_stdvec(item).expect("a record that was read");
        written.extend((record.len() as u32).to_le_bytes());
        written.extend(record);
    }
    let mut again = Vec::new();
    let count = found.len() as u64;
    journal::records(&*written, count, |item| {
        again.push(item);
        Ok(())
    })
    .expect("records that were written");
    assert_eq!(again, found);
}

/// Steps of a sender: whatever passes the check of their order makes a sound manifest. A string with the records of
/// the base comes first, then for each step a byte and its strings.
pub(crate) fn sequence(bytes: &[u8]) {
    let mut source = Source::new(bytes);
    let base = match source.bytes() {
        [] => None,
        block => manifest::fuzz::of_records(&[block.to_vec()]),
    };
    let Ok(mut sequence) = Sequence::new(base.as_ref().map(Reader::items)) else { return };
    let path = Path::new("manifest");
    let mut writer = Writer::create(file(&[]), path, &header()).expect("a new manifest");
    let (mut records, mut directory, mut places) = (0_u64, Vec::new(), BTreeSet::new());
    while !source.is_empty() {
        let step = source.byte();
        let replaces = step & 0x80 != 0;
        let item = match step % 4 {
            0 => sequence.same(),
            1 => match sequence.gone() {
                Ok(_) => continue,
                Err(_) => return,
            },
            2 => {
                let path = source.bytes().to_vec();
                if !is_path(&path) {
                    return;
                }
                sequence
                    .directory(&path, replaces)
                    .map(|()| Item::Directory(Directory { path, scaffold: false, meta: Meta::default() }))
            }
            _ => {
                let name = source.bytes().to_vec();
                if !is_name(&name) {
                    return;
                }
                let entry = Entry { name, meta: Meta::default(), body: Body::Fifo };
                sequence.entry(&entry.name, replaces).map(|_| Item::Entry(entry))
            }
        };
        let Ok(item) = item else { return };
        let place = match &item {
            Item::Directory(entered) => {
                directory.clone_from(&entered.path);
                (directory.clone(), Vec::new())
            }
            Item::Entry(entry) => (directory.clone(), entry.name.clone()),
        };
        assert!(places.insert(place), "a path has two records");
        writer.push(&item).expect("a record at its place");
        records += 1;
    }
    if sequence.finish().is_ok() {
        let file = writer.finish(&Totals::default()).expect("a manifest");
        let reader = Reader::from_file(file, path).expect("a manifest");
        assert_eq!(reader.items().filter(|item| item.is_ok()).count() as u64, records);
    }
}

fn header() -> Header {
    let text = || String::from("n");
    let (created, sources, tags) = (Time::default(), Vec::new(), Vec::new());
    Header { name: text(), created, program: text(), host: text(), sources, tags, parent: None }
}
