//! What an operation may say. `Input` checks each one, so nobody else has to expect a name with a slash, a time with
//! two billion nanoseconds, or a range that ends behind the last possible byte. Whether an operation fits to those
//! before it is checked by the receiver.

use super::op::{Content, Op, Place, Xattrs};
use crate::snapshot::manifest::{self, Body, Entry, Meta, Time};
use rustix::fs::FileType;

/// The longest name and the longest target of a link, in bytes: no filesystem of Linux has longer ones.
const LONGEST_NAME: usize = 4095;
/// The longest name and the longest value of an extended attribute, in bytes (xattr(7)).
const LONGEST_XATTR: (usize, usize) = (255, 1 << 16);
/// The largest numbers of a device: the kernel cuts others short without an error.
const LARGEST_DEVICE: (u32, u32) = (0xfff, 0xf_ffff);
/// The end of the longest file.
const END: u64 = i64::MAX as u64;

type Checked = Result<(), &'static str>;

/// Something that is read from a stream, and may be nonsense.
pub(crate) trait Check {
    /// Refuses nonsense. The error says what it is.
    fn check(&self) -> Checked;
}

impl Check for Op {
    fn check(&self) -> Checked {
        match self {
            Op::Directory { directory, xattrs, .. } => {
                if !manifest::is_path(&directory.path) || directory.path.len() > manifest::LONGEST_PATH {
                    return Err("invalid directory path");
                }
                meta(&directory.meta, &[FileType::Directory])?;
                all(xattrs)
            }
            Op::Entry { entry, xattrs, content, .. } => {
                self::entry(entry)?;
                all(xattrs)?;
                self::content(entry, content)
            }
            Op::Data { offset, length } | Op::Hole { offset, length } => range(*offset, *length),
            Op::Clone { offset, length, from } => {
                range(*offset, *length)?;
                range(from.offset, *length)?;
                place(from)
            }
            Op::Offer(_)
            | Op::Begin(_)
            | Op::Device { .. }
            | Op::Same { .. }
            | Op::Gone { .. }
            | Op::Complete
            | Op::Bye
            | Op::End { .. } => Ok(()),
        }
    }
}

impl Check for super::op::Reply {
    fn check(&self) -> Checked {
        Ok(())
    }
}

fn entry(entry: &Entry) -> Checked {
    if !manifest::is_name(&entry.name) || entry.name.len() > LONGEST_NAME {
        return Err("invalid entry name");
    }
    match &entry.body {
        Body::File(file) => {
            if file.size > END || file.holes > file.size {
                return Err("invalid file size");
            }
            meta(&entry.meta, &[FileType::RegularFile])
        }
        Body::Symlink(target) => {
            if target.is_empty() || target.len() > LONGEST_NAME || target.contains(&0) {
                return Err("invalid link target");
            }
            meta(&entry.meta, &[FileType::Symlink])
        }
        Body::Device(major, minor) if *major > LARGEST_DEVICE.0 || *minor > LARGEST_DEVICE.1 => {
            Err("invalid device number")
        }
        Body::Device(..) => meta(&entry.meta, &[FileType::CharacterDevice, FileType::BlockDevice]),
        Body::Fifo => meta(&entry.meta, &[FileType::Fifo]),
        Body::Socket => meta(&entry.meta, &[FileType::Socket]),
    }
}

fn meta(meta: &Meta, types: &[FileType]) -> Checked {
    if meta.mode > u32::from(u16::MAX) || !types.contains(&FileType::from_raw_mode(meta.mode)) {
        return Err("the mode of an entry is that of another type");
    }
    // To chown(2) this means no change.
    if meta.uid == u32::MAX || meta.gid == u32::MAX {
        return Err("invalid owner of an entry");
    }
    // To utimensat(2) some larger numbers mean the current time, or no change.
    let is_time = |time: &Time| time.nanos < 1_000_000_000;
    if ![Some(&meta.mtime), Some(&meta.ctime), meta.btime.as_ref()].into_iter().flatten().all(is_time) {
        return Err("invalid time of an entry");
    }
    // Only the receiver knows what its tree refuses.
    if meta.kept_here || !meta.kept_xattrs.is_empty() {
        return Err("a record says what the tree of the sender refused");
    }
    Ok(())
}

fn all(xattrs: &Xattrs) -> Checked {
    let (name, value) = LONGEST_XATTR;
    let is_xattr = |xattr: &(serde_bytes::ByteBuf, serde_bytes::ByteBuf)| {
        (1..=name).contains(&xattr.0.len()) && !xattr.0.contains(&0) && xattr.1.len() <= value
    };
    if xattrs.iter().all(is_xattr) { Ok(()) } else { Err("invalid extended attribute") }
}

fn content(entry: &Entry, content: &Content) -> Checked {
    match (entry.file(), content) {
        (_, Content::LinkTo(first)) if manifest::is_path(first) && !first.is_empty() => Ok(()),
        (None, Content::InRecord) => Ok(()),
        (Some(file), Content::InRecord) if file.size == 0 => Ok(()),
        (Some(_), Content::Of(from) | Content::Parts { start: Some(from) }) => place(from),
        (Some(_), Content::Parts { start: None }) => Ok(()),
        _ => Err("an entry cannot have such content"),
    }
}

fn place(place: &Place) -> Checked {
    if manifest::is_path(&place.path) { Ok(()) } else { Err("invalid path of a place") }
}

fn range(offset: u64, length: u64) -> Checked {
    match offset.checked_add(length) {
        Some(end) if end <= END && length > 0 => Ok(()),
        _ => Err("invalid range"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::manifest::{Directory, FileBody, Stored};
    use crate::snapshot::stream::Side;

    fn file(name: &[u8]) -> Entry {
        let meta = Meta { mode: 0o100_644, ..Meta::default() };
        let body = FileBody { size: 5, holes: 0, hash: None, stored: Stored::Copied, changed: false };
        Entry { name: name.to_vec(), meta, body: Body::File(body) }
    }

    fn is_sound(entry: Entry, content: Content) -> bool {
        Op::Entry { replaces: false, entry, xattrs: Vec::new(), content }.check().is_ok()
    }

    fn is_sound_with(change: impl FnOnce(&mut Entry)) -> bool {
        let mut entry = file(b"name");
        change(&mut entry);
        is_sound(entry, Content::Parts { start: None })
    }

    #[test]
    fn a_name_is_one_component_and_a_path_has_no_dots() {
        assert!(is_sound_with(|_| ()));
        for name in [&b""[..], b".", b"..", b"a/b", b"/a", b"a\0", &[b'x'; 4096]] {
            assert!(!is_sound_with(|entry| entry.name = name.to_vec()), "{name:?}");
        }
        let directory = |path: &[u8]| {
            let meta = Meta { mode: 0o40_755, ..Meta::default() };
            let directory = Directory { path: path.to_vec(), scaffold: false, meta };
            Op::Directory { replaces: false, directory, xattrs: Vec::new() }.check().is_ok()
        };
        assert!(directory(b"") && directory(b"a/b"));
        for path in [&b"/"[..], b"/a", b"a/", b"a//b", b"a/../b", b".", b"a\0b"] {
            assert!(!directory(path), "{path:?}");
            let place = Place { side: Side::New, path: path.to_vec(), offset: 0 };
            assert!(!is_sound(file(b"name"), Content::Of(place.clone())), "{path:?}");
            assert!(!is_sound(file(b"name"), Content::LinkTo(path.to_vec())), "{path:?}");
            assert!(Op::Clone { offset: 0, length: 1, from: place }.check().is_err(), "{path:?}");
        }
    }

    #[test]
    fn metadata_has_no_values_with_another_meaning_to_the_kernel() {
        assert!(!is_sound_with(|entry| entry.meta.mode = 0o120_777));
        assert!(!is_sound_with(|entry| entry.meta.mode = 0o644));
        assert!(!is_sound_with(|entry| entry.meta.mode |= 1 << 16));
        assert!(!is_sound_with(|entry| entry.body = Body::Device(1, 3)));
        let device = |major, minor| {
            let meta = Meta { mode: 0o20_600, ..Meta::default() };
            is_sound(Entry { name: b"d".to_vec(), meta, body: Body::Device(major, minor) }, Content::InRecord)
        };
        assert!(device(0xfff, 0xf_ffff) && !device(0x1000, 0) && !device(0, 0x10_0000));
        assert!(!is_sound_with(|entry| entry.meta.uid = u32::MAX));
        assert!(!is_sound_with(|entry| entry.meta.gid = u32::MAX));
        assert!(!is_sound_with(|entry| entry.meta.mtime.nanos = 0x3fff_ffff));
        assert!(!is_sound_with(|entry| entry.meta.kept_here = true));
        assert!(!is_sound_with(|entry| entry.meta.kept_xattrs.push((b"a".to_vec().into(), Vec::new().into()))));
    }

    #[test]
    fn a_range_ends_where_a_file_can_end() {
        for (offset, length, is_range) in
            [(0, 1, true), (5, 0, false), (u64::MAX, 1, false), (END, 1, false), (END - 1, 1, true), (1, END, false)]
        {
            assert_eq!(Op::Data { offset, length }.check().is_ok(), is_range, "{offset} {length}");
            assert_eq!(Op::Hole { offset, length }.check().is_ok(), is_range, "{offset} {length}");
            let from = Place { side: Side::New, path: b"a".to_vec(), offset };
            assert_eq!(Op::Clone { offset: 0, length, from }.check().is_ok(), is_range, "{offset} {length}");
        }
        let sized = |size, holes| {
            move |entry: &mut Entry| {
                let Body::File(file) = &mut entry.body else { return };
                (file.size, file.holes) = (size, holes);
            }
        };
        assert!(is_sound_with(sized(END, END)) && !is_sound_with(sized(END + 1, 0)) && !is_sound_with(sized(5, 6)));
    }

    #[test]
    fn content_fits_to_the_type() {
        assert!(!is_sound(file(b"name"), Content::InRecord));
        let link = || Entry {
            name: b"link".to_vec(),
            meta: Meta { mode: 0o120_777, ..Meta::default() },
            body: Body::Symlink(b"/etc".to_vec()),
        };
        assert!(is_sound(link(), Content::InRecord) && is_sound(link(), Content::LinkTo(b"a".to_vec())));
        assert!(!is_sound(link(), Content::Parts { start: None }) && !is_sound(link(), Content::LinkTo(Vec::new())));
        let mut long = link();
        long.body = Body::Symlink(vec![b'x'; 4096]);
        assert!(!is_sound(long, Content::InRecord));
    }
}
