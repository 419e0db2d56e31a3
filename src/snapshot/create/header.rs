//! The header of a new snapshot's manifest.

use super::options::Options;
use super::previous::Previous;
use crate::snapshot::manifest::{Header, Time};
use crate::tree::walk::Sources;
use std::os::unix::ffi::OsStrExt as _;

/// The header of the snapshot `name`, which is compared with `previous`.
pub(super) fn header(
    name: &str,
    created: Time,
    sources: &Sources,
    options: &Options,
    previous: Option<&Previous>,
) -> Header {
    Header {
        name: name.to_string(),
        created,
        program: concat!("pleach ", env!("CARGO_PKG_VERSION")).to_string(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        sources: sources.paths().iter().map(|path| path.as_os_str().as_bytes().to_vec().into()).collect(),
        tags: options.tags.clone(),
        parent: previous.map(|previous| previous.reader.header().name.clone()),
    }
}
