//! The frozen stream of version 1. `tests/samples/stream-1` is never edited: later versions must read it. It has two
//! snapshots, one based on the other, with operations of every kind but an offer.

use super::wire::*;
use super::{receive, stream};
use crate::harness::*;
use crate::on_filesystems;
use pleach::testing::manifest::{Body, Entry};
use rustix::fs::FileType;
use std::fs;
use std::path::{Path, PathBuf};

const NAMES: [(&str, Option<&str>); 2] = [("one", None), ("two", Some("one"))];

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/stream-1")
}

/// The beginning and the end of each snapshot in a stream.
fn ends(stream: &[u8]) -> Vec<Op> {
    let ops = Stream::parse(stream).parts.into_iter().filter_map(|part| part.op());
    ops.filter(|op| matches!(op, Op::Begin(_) | Op::End { .. })).collect()
}

const BLOCK: usize = 4096;

/// A file with this content. Its hash is in its record.
fn hashed(name: &[u8], content: &[u8], holes: u64) -> Entry {
    let mut entry = file(name, content.len() as u64);
    let Body::File(body) = &mut entry.body else { unreachable!("it is a file") };
    (body.hash, body.holes) = (Some(*blake3::hash(content).as_bytes()), holes);
    entry
}

/// The bytes in the sample: never changed.
fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let words = (0..length.div_ceil(8)).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.take(length).collect()
}

/// Data, a hole, data.
fn image() -> Vec<u8> {
    [bytes(1, 4 * BLOCK), vec![0; 4 * BLOCK], bytes(2, 4 * BLOCK + 7)].concat()
}

fn part(draft: Draft, content: &[u8], offset: usize, length: usize) -> Draft {
    let data = Op::Data { offset: offset as u64, length: length as u64 };
    draft.and(data).bytes(&content[offset..offset + length])
}

/// The sample, made by hand.
fn by_hand() -> Vec<u8> {
    let (image, hole) = (image(), 4 * BLOCK as u64);
    let in_record = |entry| new(entry, Content::InRecord);
    let note = || hashed(b"note", b"hello", 0);
    let linked_file = |name: &[u8]| linked(hashed(name, b"two names", 0), 77);
    let with_xattr = |op| match op {
        Op::Entry { replaces, entry, content, .. } => {
            let xattrs = vec![(b"user.colour".to_vec().into(), b"green".to_vec().into())];
            let mut entry = entry;
            entry.meta.has_xattrs = true;
            Op::Entry { replaces, entry, xattrs, content }
        }
        other => other,
    };
    let mut one = Draft::new("one", None).and(directory(b"home")).and(new(hashed(b"image", &image, hole), parts()));
    one = part(one, &image, 0, 4 * BLOCK);
    one = part(one, &image, 8 * BLOCK, 4 * BLOCK + 7).and(Op::Complete);
    let from = place(Side::New, b"home/image");
    one = one.and(new(hashed(b"image copy", &image[..4 * BLOCK], 0), parts()));
    one = one.and(Op::Clone { offset: 0, length: 4 * BLOCK as u64, from }).and(Op::Complete);
    one = part(one.and(with_xattr(new(note(), parts()))), b"hello", 0, 5).and(Op::Complete);
    one = part(one.and(new(linked_file(b"one name"), parts())), b"two names", 0, 9).and(Op::Complete);
    one = one.and(new(linked_file(b"other name"), Content::LinkTo(b"home/one name".to_vec().into())));
    one = one.and(in_record(node(b"pipe", FileType::Fifo, Body::Fifo)));
    one = one.and(in_record(symlink(b"points", b"/nowhere"))).and(in_record(node(
        b"zero",
        FileType::CharacterDevice,
        Body::Device(1, 5),
    )));
    one = one.and(directory(b"home/gone")).and(in_record(file(b"empty", 0))).and(directory(b"home/stays"));
    one = part(one.and(new(hashed(b"moves", &bytes(5, 9000), 0), parts())), &bytes(5, 9000), 0, 9000).and(Op::Complete);
    let items = one.items().to_vec();
    let mut changed = image.clone();
    changed[BLOCK..2 * BLOCK].copy_from_slice(&bytes(6, BLOCK));
    changed[2 * BLOCK..3 * BLOCK].fill(0);
    let start = Content::Parts { start: Some(place(Side::Base, b"home/image")) };
    let mut two = Draft::new("two", Some(("one", [1; 32]))).beginning(|begin| {
        begin.header.created.seconds += 86400;
        begin.identity = [2; 32];
    });
    let mut new_image = hashed(b"image", &changed, hole + BLOCK as u64);
    new_image.meta.mtime.seconds += 1000;
    new_image.meta.ctime.seconds += 1000;
    // No record has this device.
    two = two.and(Op::Device { old: 99, new: 100 }).same(&items[..1]).and(replacing(new_image, start));
    two = part(two, &changed, BLOCK, BLOCK);
    two = two.and(Op::Hole { offset: 2 * BLOCK as u64, length: BLOCK as u64 });
    two = two.and(Op::Complete).same(&items[2..9]).and(Op::Gone { count: 2 });
    two = two.same(&items[11..12]).and(Op::Gone { count: 1 });
    let moved = Content::Of(place(Side::Base, b"home/stays/moves"));
    two = two.and(new(hashed(b"moved", &bytes(5, 9000), 0), moved));
    let mut whole = Stream::parse(&one.end());
    whole.parts.pop();
    whole.parts.append(&mut Stream::parse(&two.end()).parts);
    whole.encode(true)
}

fn parts() -> Content {
    Content::Parts { start: None }
}

on_filesystems! {
    fn the_sample_of_version_1_is_received(fs: &Filesystem) {
        let to = fs.join("to");
        let sample = fs::read(sample()).unwrap();
        receive(&to, &sample, &["--append-only"]).expect(0);
        assert_eq!(listed(&to), ["one", "two"]);
        assert_eq!(fs::read(to.join("one/home/image")).unwrap(), image());
        assert_eq!(fs::read(to.join("two/home/stays/moved")).unwrap(), bytes(5, 9000));
        assert_eq!(tools::xattrs(&to.join("two/home/note")), tools::xattrs(&to.join("one/home/note")));
        pleach(["verify".as_ref(), "-q".as_ref(), to.as_os_str()]).expect(0);
        let has = |op: fn(&Op) -> bool| Stream::parse(&sample).parts.iter().filter_map(Part::op).any(|part| op(&part));
        assert!(has(|op| matches!(op, Op::Same { .. })) && has(|op| matches!(op, Op::Gone { .. })));
        assert!(has(|op| matches!(op, Op::Data { .. })) && has(|op| matches!(op, Op::Clone { .. })));
        assert!(has(|op| matches!(op, Op::Hole { .. })) && has(|op| matches!(op, Op::Device { .. })));
    }

    fn what_is_sent_of_the_sample_has_its_records(fs: &Filesystem) {
        let (to, again) = (fs.join("to"), fs.join("again"));
        let sample = fs::read(sample()).unwrap();
        receive(&to, &sample, &[]).expect(0);
        let sent = NAMES.map(|(name, base)| stream(&to, name, base));
        let then = ends(&sample);
        let now: Vec<Op> = sent.iter().flat_map(|stream| ends(stream)).collect();
        for (now, then) in now.iter().zip(&then) {
            match (now, then) {
                (Op::Begin(now), Op::Begin(then)) => {
                    assert_eq!((&now.header, now.identity, &now.base), (&then.header, then.identity, &then.base));
                }
                (Op::End { digest: now, .. }, Op::End { digest: then, .. }) => assert_eq!(now, then),
                other => panic!("{other:?}"),
            }
        }
        sent.iter().for_each(|stream| drop(receive(&again, stream, &[]).expect(0)));
        for (name, _) in NAMES {
            tools::assert_equal_trees(&to.join(name).join("home"), &again.join(name).join("home"));
        }
    }

    [xfs] fn a_new_sample_is_written_if_wanted(fs: &Filesystem) {
        let (to, stream) = (fs.join("to"), by_hand());
        receive(&to, &stream, &[]).expect(0);
        pleach(["verify".as_ref(), "-q".as_ref(), to.as_os_str()]).expect(0);
        if let Some(path) = std::env::var_os("PLEACH_TEST_WRITE_STREAM") {
            fs::write(path, stream).unwrap();
        }
    }
}
