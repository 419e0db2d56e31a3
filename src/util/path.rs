//! Paths as bytes, relative to some directory: names with slashes between them. That directory itself has the empty
//! path.

/// Whether a path is another or lies below it.
pub(crate) fn is_below(path: &[u8], above: &[u8]) -> bool {
    above.is_empty() || path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// The path of the directory above, and the name in it.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// The path of an entry of a directory.
pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_is_decided_by_whole_components() {
        assert!(is_below(b"a/b", b"a") && is_below(b"a", b"a") && is_below(b"a", b""));
        assert!(!is_below(b"ab", b"a") && !is_below(b"a-b", b"a") && !is_below(b"a", b"a/b"));
    }

    #[test]
    fn a_path_that_was_split_is_joined_again() {
        assert_eq!(split(&join(b"a/b", b"c")), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(split(&join(b"", b"c")), (&b""[..], &b"c"[..]));
    }
}
