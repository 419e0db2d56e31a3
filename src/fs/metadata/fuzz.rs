//! A fuzz target for lists of extended attributes, and for access control lists.

use super::acl::with_mode;
use super::xattr::{is_alias, names};
use crate::util::fuzz::Source;

/// A mode, and bytes as a list of names and as an access control list.
pub(crate) fn xattrs(bytes: &[u8]) {
    for name in names(bytes) {
        assert!(!name.is_empty() && !name.contains(&0) && !is_alias(name));
    }
    let mut source = Source::new(bytes);
    let mode = source.number() as u32;
    let entries = source.rest();
    for list in [entries, &[&2_u32.to_le_bytes(), entries].concat()] {
        let Some(changed) = with_mode(list, mode) else { continue };
        assert_eq!(changed.len(), list.len());
        assert_eq!(with_mode(&changed, mode), None, "a list that agrees with the mode");
        let ((old, _), (new, _)) = (list[4..].as_chunks::<8>(), changed[4..].as_chunks::<8>());
        for (old, new) in old.iter().zip(new) {
            // Tag and ID. Permissions of named users and groups stay.
            assert_eq!((&old[..2], &old[4..]), (&new[..2], &new[4..]));
            assert!(old == new || [1, 4, 16, 32].contains(&old[0]) && new[2] <= 7 && new[3] == 0);
        }
    }
}
