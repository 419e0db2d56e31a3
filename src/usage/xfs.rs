//! Questions that only XFS answers, and only to root.
//!
//! | file | answers |
//! |---|---|
//! | `access` | whether it can be asked by the numbers of inodes |
//! | `listed` | the status of inodes, by their numbers |
//! | `files` | which paths contain a file, by its inode |
//! | `reverse_map` | the owners of all blocks, in one sweep |
//! | `extents` | the extents of files, by the numbers of their inodes |
//! | `outside` | which files outside the set hold ranges that the set holds several times |
//! | `deleted` | the space that is freed besides the data, from the next three |
//! | `chunks` | the inodes that are freed |
//! | `directories` | the blocks of directories that stay |
//! | `free_space` | whether XFS's own trees keep their size |

pub(super) mod access;
pub(super) mod chunks;
pub(super) mod deleted;
pub(super) mod directories;
pub(super) mod extents;
pub(super) mod files;
pub(super) mod free_space;
pub(super) mod listed;
pub(super) mod outside;
pub(super) mod reverse_map;
