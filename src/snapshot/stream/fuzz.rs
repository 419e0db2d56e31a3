//! A fuzz target for streams: operations and replies.

use super::check::Check;
use super::op::{Content, Op, Place, Reply};
use super::{Input, Output};
use crate::snapshot::manifest::{is_name, is_path};
use crate::util::text;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// A stream as it is, and the same bytes as the content of sound frames. The first byte decides about compression.
pub(crate) fn stream(bytes: &[u8]) {
    if let Ok(input) = Input::begin(bytes) {
        read_all(input, bytes.len() as u64);
    }
    let Some((packs, content)) = bytes.split_first() else { return };
    let framed = |packs| {
        let mut framed = Vec::new();
        let mut output = Output::begin(&mut framed, packs).expect("memory");
        output.append(content).and_then(|()| output.flush()).expect("memory");
        let sent = output.sent();
        assert_eq!(sent.wire_bytes, framed.len() as u64);
        (framed, sent)
    };
    let (framed, sent) = framed(packs & 1 == 1);
    let counts = read_all(Input::begin(&*framed).expect("a beginning"), sent.stream_bytes);
    assert!(counts.0 <= sent.stream_bytes && counts.1 <= sent.wire_bytes);
    let mut replies = Input::begin(&*framed).expect("a beginning");
    while let Ok(reply) = replies.next::<Reply>() {
        check_form(&reply);
        if let Reply::Failed(failure) = reply {
            let shown = failure.reason().to_string();
            assert!(!shown.chars().any(text::is_unprintable), "{shown:?} would change a terminal");
        }
    }
}

/// Reads operations up to an error or the end. Returns the counts of bytes.
fn read_all(mut input: Input<&[u8]>, length: u64) -> (u64, u64) {
    while let Ok(op) = input.next_op() {
        check_form(&op);
        check_op(&op);
        if let Op::Data { length: data, .. } = op
            && input.skip(data).is_ok()
        {
            assert!(data <= length.max(1 << 20) * 100, "data from nowhere");
        }
        if op == Op::Bye && !matches!(input.next_stream(), Ok(true)) {
            break;
        }
    }
    input.counts()
}

/// A message that was read and written is read as the same one.
fn check_form<T: Serialize + DeserializeOwned + Check + PartialEq + Debug>(message: &T) {
    let mut bytes = Vec::new();
    let mut output = Output::begin(&mut bytes, false).expect("memory");
    output.push(message).and_then(|()| output.flush()).expect("a message");
    let mut input = Input::begin(&*bytes).expect("a beginning");
    assert_eq!(input.next::<T>().expect("a message"), *message);
}

/// The rules of `docs/stream.md`, independently of `check`.
fn check_op(op: &Op) {
    let is_range = |offset: u64, length: u64| offset.checked_add(length).is_some_and(|end| end <= i64::MAX as u64);
    match op {
        Op::Directory { directory, .. } => {
            assert!(is_path(&directory.path));
            check_path(&directory.path);
        }
        Op::Entry { entry, content, xattrs, .. } => {
            assert!(is_name(&entry.name) && !entry.name.contains(&b'/') && entry.name != b"..");
            assert!([&entry.meta.mtime, &entry.meta.ctime].iter().all(|time| time.nanos < 1_000_000_000));
            assert!(entry.meta.uid != u32::MAX && entry.meta.gid != u32::MAX);
            assert!(xattrs.iter().all(|(name, value)| !name.is_empty() && value.len() <= 1 << 16));
            match content {
                Content::Of(place) | Content::Parts { start: Some(place) } => check_path(&place.path),
                Content::LinkTo(path) => check_path(path),
                Content::InRecord | Content::Parts { start: None } => {}
            }
        }
        Op::Data { offset, length } | Op::Hole { offset, length } => assert!(is_range(*offset, *length)),
        Op::Clone { offset, length, from: Place { path, offset: start, .. } } => {
            assert!(is_range(*offset, *length) && is_range(*start, *length));
            check_path(path);
        }
        Op::Offer(offered) => assert!(offered.len() <= 1 << 16),
        Op::Begin(begin) => assert!(begin.origins.len() <= 1 << 16),
        Op::Device { .. } | Op::Same { .. } | Op::Gone { .. } | Op::Complete | Op::Bye | Op::End { .. } => {}
    }
}

/// No path leads out of a tree.
fn check_path(path: &[u8]) {
    assert!(!path.starts_with(b"/") && !path.contains(&0));
    assert!(path.split(|byte| *byte == b'/').all(|name| name != b".." && name != b"."));
}
