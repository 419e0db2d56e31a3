//! Requests of a ring on real files.

use super::*;
use std::io::Read as _;
use std::os::fd::AsFd as _;

/// `None` if this process cannot have a ring.
fn ring() -> Option<Ring> {
    Ring::new(3, 5000).ok()
}

fn moved(done: Vec<Done>) -> Vec<(usize, usize)> {
    let moved = |done: Done| match done.outcome {
        Ok(Outcome::Moved(bytes)) => (done.slot, bytes),
        other => panic!("{other:?}"),
    };
    done.into_iter().map(moved).collect()
}

#[test]
fn a_file_is_made_written_and_read_by_requests() {
    let Some(mut ring) = ring() else { return };
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("source"), b"content").unwrap();
    let above = std::fs::File::open(dir.path()).unwrap();
    let mut open = |name: &str, flags| {
        let name = CString::new(name).unwrap();
        let op = Op::Open { slot: 1, dir: above.as_fd(), name, flags, mode: Mode::RUSR | Mode::WUSR };
        let done = ring.turn([op]).unwrap().pop().unwrap();
        match done.outcome {
            Ok(Outcome::Opened(fd)) => fd,
            other => panic!("{other:?}"),
        }
    };
    let source = open("source", OFlags::RDONLY);
    let copy = open("copy", OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL);
    let read = Op::Read { slot: 2, file: source.as_fd(), into: 0..5000, at: 0 };
    assert_eq!(moved(ring.turn([read]).unwrap()), [(2, 7)]);
    assert_eq!(&ring.buffer(2)[..7], b"content");
    let write = Op::Write { slot: 2, file: copy.as_fd(), from: 3..7, at: 2 };
    assert_eq!(moved(ring.turn([write]).unwrap()), [(2, 4)]);
    let mut content = Vec::new();
    std::fs::File::open(dir.path().join("copy")).unwrap().read_to_end(&mut content).unwrap();
    assert_eq!(content, b"\0\0tent");
}

#[test]
fn a_slot_that_is_not_there_and_a_range_outside_of_it_are_refused() {
    let Some(mut ring) = ring() else { return };
    let file = tempfile::tempfile().unwrap();
    let length = ring.buffer_length();
    for (slot, into) in [(3, 0..1), (0, 0..length + 1), (0, length + 1..length + 1)] {
        let read = Op::Read { slot, file: file.as_fd(), into, at: 0 };
        assert_eq!(ring.turn([read]).unwrap_err(), Errno::INVAL);
    }
    assert_eq!(ring.under_way(), 0);
}

#[test]
fn what_a_failed_call_left_in_the_queue_reaches_no_other_file() {
    use std::os::fd::AsRawFd as _;
    let Some(mut ring) = ring() else { return };
    let mut first = tempfile::tempfile().unwrap();
    io::Write::write_all(&mut first, b"content").unwrap();
    let read = Op::Read { slot: 0, file: first.as_fd(), into: 0..7, at: 0 };
    assert_eq!(moved(ring.turn([read]).unwrap()), [(0, 7)]);
    // One request is pending when the call that would submit the next request fails.
    let (pipe, other_end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    ring.push(Op::Read { slot: 1, file: pipe.as_fd(), into: 0..7, at: 0 }).unwrap();
    ring.enter(0).unwrap();
    ring.next_error = Some(Errno::NOMEM);
    let target = tempfile::tempfile().unwrap();
    let write = Op::Write { slot: 0, file: target.as_fd(), from: 0..7, at: 0 };
    assert_eq!(ring.turn([write]).unwrap_err(), Errno::NOMEM);
    assert_eq!(ring.under_way(), 1);
    // Another file gets the number of the first file.
    let number = target.as_raw_fd();
    drop(target);
    let other = (0..64).map(|_| tempfile::tempfile().unwrap()).collect::<Vec<_>>();
    let read = Op::Read { slot: 2, file: first.as_fd(), into: 0..7, at: 0 };
    assert_eq!(ring.turn([read]).unwrap_err(), Errno::NOMEM, "a broken ring submits nothing");
    assert_eq!(rustix::io::write(&other_end, b"content"), Ok(7));
    ring.drain();
    assert_eq!(ring.under_way(), 0);
    drop(ring);
    let reused = other.iter().find(|file| file.as_raw_fd() == number);
    assert_eq!(reused.expect("the number is reused").metadata().unwrap().len(), 0);
}

#[test]
fn an_error_is_told_of_its_slot() {
    let Some(mut ring) = ring() else { return };
    let above = std::fs::File::open("/").unwrap();
    let name = CString::new("there is no such thing").unwrap();
    let op = Op::Open { slot: 0, dir: above.as_fd(), name, flags: OFlags::RDONLY, mode: Mode::empty() };
    let done = ring.turn([op]).unwrap().pop().unwrap();
    assert_eq!((done.slot, done.outcome.unwrap_err()), (0, Errno::NOENT));
}
