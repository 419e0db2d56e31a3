//! The mode in an access control list. The kernel keeps both equal: setting a list sets the mode, too. But an inode can
//! have a list that contradicts its mode: the mode was changed while the filesystem was mounted without ACLs, or
//! somebody made the stream that it comes from. As such a list is, it could open a closed file to others.
//!
//! Sources: acl(5), `include/uapi/linux/posix_acl_xattr.h`, `fs/posix_acl.c`.

/// The extended attribute with the list that decides the access to an inode.
pub const ACCESS: &[u8] = b"system.posix_acl_access";

/// `POSIX_ACL_XATTR_VERSION`, before the entries.
const VERSION: [u8; 4] = 2_u32.to_le_bytes();
/// The length of an entry: tag, permissions, id.
const ENTRY: usize = 8;
/// The tags of the entries that the mode has, too.
const OWNER: u16 = 0x01;
const GROUP: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// Whether an extended attribute is an access control list.
pub(super) fn is_acl(name: &[u8]) -> bool {
    name.starts_with(b"system.posix_acl_")
}

/// A list that contradicts the mode, changed as chmod(2) changes it. `None` if it agrees with the mode, or is not a
/// list.
pub(super) fn with_mode(list: &[u8], mode: u32) -> Option<Vec<u8>> {
    let mut changed = list.to_vec();
    let (version, entries) = changed.split_first_chunk_mut::<{ VERSION.len() }>()?;
    let (entries, rest) = entries.as_chunks_mut::<ENTRY>();
    if *version != VERSION || !rest.is_empty() {
        return None;
    }
    let tag = |entry: &[u8; ENTRY]| u16::from_le_bytes([entry[0], entry[1]]);
    let has_mask = entries.iter().any(|entry| tag(entry) == MASK);
    for entry in entries {
        let permissions = match tag(entry) {
            OWNER => mode >> 6,
            GROUP if !has_mask => mode >> 3,
            MASK => mode >> 3,
            OTHER => mode,
            _ => continue,
        };
        entry[2..4].copy_from_slice(&((permissions & 0o7) as u16).to_le_bytes());
    }
    (changed != list).then_some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut list = VERSION.to_vec();
        for (tag, permissions, id) in entries {
            list.extend([tag.to_le_bytes(), permissions.to_le_bytes()].as_flattened());
            list.extend(id.to_le_bytes());
        }
        list
    }

    #[test]
    fn the_mode_decides_on_the_owner_the_mask_and_others() {
        const USER: u16 = 0x02;
        let of = |owner, mask, other| {
            list(&[(OWNER, owner, !0), (USER, 7, 1234), (GROUP, 5, !0), (MASK, mask, !0), (OTHER, other, !0)])
        };
        assert_eq!(with_mode(&of(6, 6, 4), 0o100_664), None);
        assert_eq!(with_mode(&of(6, 6, 4), 0o2640), Some(of(6, 4, 0)));
        assert_eq!(with_mode(&of(0, 0, 0), 0o751), Some(of(7, 5, 1)));
        let without_mask = |group| list(&[(OWNER, 6, !0), (GROUP, group, !0), (OTHER, 4, !0)]);
        assert_eq!(with_mode(&without_mask(6), 0o644), Some(without_mask(4)));
    }

    #[test]
    fn what_is_no_list_stays_as_it_is() {
        let good = list(&[(OWNER, 7, !0)]);
        for length in [0, 3, 5, 11] {
            assert_eq!(with_mode(&good[..length], 0), None, "{length} bytes");
        }
        assert_eq!(with_mode(&[&[9], &good[1..]].concat(), 0), None);
        assert_eq!(with_mode(&good[..4], 0), None);
    }
}
