//! The order of a manifest, and the rules for its paths and names. Pure, no I/O.

use std::cmp::Ordering;

/// Compares two directory paths component by component as bytes. An ancestor comes before its descendants, and these
/// come before its next sibling, as in `a`, `a/b`, `a-b`.
pub(crate) fn compare_paths(a: &[u8], b: &[u8]) -> Ordering {
    compare_tails(a, b, shared_length(a, b))
}

/// [`compare_paths`] for paths that are known to share exactly their first `shared` bytes.
pub(super) fn compare_tails(a: &[u8], b: &[u8], shared: usize) -> Ordering {
    match (a.get(shared), b.get(shared)) {
        (Some(&x), Some(&y)) => rank(x).cmp(&rank(y)),
        (x, y) => x.is_some().cmp(&y.is_some()),
    }
}

/// The slash sorts before every byte that a name can have. A name cannot have NUL.
fn rank(byte: u8) -> u8 {
    if byte == b'/' { 0 } else { byte }
}

/// How many first bytes two paths have in common.
pub(crate) fn shared_length(a: &[u8], b: &[u8]) -> usize {
    // Eight bytes at a time: deep trees compare paths of many kilobytes.
    let words = a.chunks_exact(8).zip(b.chunks_exact(8)).take_while(|(x, y)| x == y).count() * 8;
    words + a[words..].iter().zip(&b[words..]).take_while(|(x, y)| x == y).count()
}

/// Whether a name can be the name of a file: not empty, not `.` or `..`, without slash and NUL.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|&byte| byte == b'/' || byte == 0)
}

/// Whether a path can be the path of a directory: names with slashes between them, or empty.
pub(crate) fn is_path(path: &[u8]) -> bool {
    path.is_empty() || path.split(|&byte| byte == b'/').all(is_name)
}

/// Whether `path` may follow `before`, with which it shares `shared` first bytes. It must consist of names, be later in
/// the order, and lie in a directory that came before. The root, which has the empty path, need not have come before.
pub(crate) fn may_follow(before: Option<&[u8]>, path: &[u8], shared: usize) -> Result<(), &'static str> {
    let Some(before) = before else {
        return match path.contains(&b'/') {
            true => Err("a directory comes before the one it lies in"),
            false if is_path(path) => Ok(()),
            false => Err("invalid directory path"),
        };
    };
    if compare_tails(before, path, shared) != Ordering::Less {
        return Err("directories are out of order or there twice");
    }
    // The new part must be one name below a directory on the way to the directory before.
    let (parent, name) = match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (slash, &path[slash + 1..]),
        None => (0, path),
    };
    if !is_name(name) || path[0] == b'/' {
        return Err("invalid directory path");
    }
    let parent_was_there = parent <= shared && (parent == 0 || before.len() == parent || before[parent] == b'/');
    if parent_was_there { Ok(()) } else { Err("a directory comes before the one it lies in") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follows(before: &str, path: &str) -> bool {
        may_follow(Some(before.as_bytes()), path.as_bytes(), shared_length(before.as_bytes(), path.as_bytes())).is_ok()
    }

    #[test]
    fn a_directory_comes_before_what_is_in_it_and_that_before_its_sibling() {
        let mut paths: Vec<&[u8]> = vec![b"a-b", b"a/b", b"b", b"a", b"", b"a/b/c", b"a\x01", b"a/-"];
        paths.sort_by(|a, b| compare_paths(a, b));
        assert_eq!(paths, [&b""[..], b"a", b"a/-", b"a/b", b"a/b/c", b"a\x01", b"a-b", b"b"]);
    }

    #[test]
    fn a_directory_follows_only_in_order_and_below_one_that_was_there() {
        assert!(follows("", "home") && follows("home", "home/ann") && follows("home/ann/x", "home/bob"));
        assert!(follows("home/ann", "srv") && follows("home", "home2"));
        assert!(!follows("home", "home") && !follows("home/bob", "home/ann"), "order");
        assert!(!follows("home", "home2/x") && !follows("home", "srv/x") && !follows("ho", "home/x"), "parents");
        assert!(!follows("home", "home/..") && !follows("home", "home//x") && !follows("home", "home/"), "names");
        assert!(!follows("home", "home/./x") && !follows("", "/home"), "names");
    }
}
