//! A fuzz target for the table of mounts.

use super::inside::{inside, very_deep};
use super::table::{Mount, parse, unescape};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The lines of a table. The mounts inside the mount point of the first one are found.
pub(crate) fn mounts(bytes: &[u8]) {
    let is_whole = |mount: &Mount| mount.root.is_absolute() && mount.point.is_absolute();
    let lines = bytes.split(|byte| *byte == b'\n').take(100);
    let mounts: Vec<_> = lines.filter_map(parse).filter(is_whole).collect();
    for mount in &mounts {
        assert!(!mount.options.is_empty() && mount.has(mount.options[0].split('=').next().unwrap_or_default()));
        for path in [&mount.root, &mount.point] {
            assert_eq!(unescape(&escape(path)), **path);
        }
        let below = mount.point.join("a/b");
        let from_top = mount.path_from_top(&below).expect("a path below the mount point");
        assert_eq!(mount.path_from_top(&mount.point).as_deref(), Some(&*mount.root));
        assert_eq!(mount.place(&from_top), Some(below));
    }
    let Some(first) = mounts.first() else { return };
    for found in inside(&mounts, first.id, &first.point) {
        assert!(found.way.is_none_or(|way| !way.is_absolute()), "a way leads out of the directory");
    }
    assert!(very_deep(&mounts, first.id).len() <= mounts.len());
}

/// A path as the kernel writes it.
fn escape(path: &Path) -> Vec<u8> {
    let escaped = path.as_os_str().as_bytes().iter().flat_map(|byte| match byte {
        b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
        byte => vec![*byte],
    });
    escaped.collect()
}
