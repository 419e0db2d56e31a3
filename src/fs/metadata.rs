//! Reads the metadata of one inode and sets it on another: owner, mode, extended attributes (including ACLs and
//! capabilities), flags, project id and times.
//!
//! The kernel requires an order. A change of owner drops set-id bits and capabilities, so the owner comes first, then
//! the flags (Btrfs sets an attribute with them), the attributes, the mode, and the times. The mode comes after the
//! access control list, because its group permissions are the mask of the list. Before all that, `narrow` takes
//! permissions from existing inodes. Values that the destination refuses are returned, so that the manifest can store
//! them.

mod acl;
mod attributes;
mod buffer;
mod creator;
mod fileattr;
#[cfg(feature = "testing")]
pub(crate) mod fuzz;
mod narrow;
mod target;
mod xattr;

pub use acl::ACCESS as ACCESS_ACL;
pub use attributes::{Attributes, Refused};
pub use creator::Creator;
pub use fileattr::{FileAttr, FileAttrs, NOCOW, PROJECT_INHERIT, RefusedAttr, SEALS, has_project, letters};
pub use target::{open_path, set_permissions, set_times};
pub use xattr::{
    CAPABILITIES, Others, Xattr, access_acl, capabilities, has_unlisted_xattrs, has_unlisted_xattrs_at, is_alias,
    is_inherited, readable_xattrs, readable_xattrs_at, remove_other_xattrs, remove_other_xattrs_of_node, xattr, xattrs,
    xattrs_at,
};
