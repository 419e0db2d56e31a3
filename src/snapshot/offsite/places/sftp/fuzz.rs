//! A fuzz target for the replies of SFTP.

use super::wire::{Reply, free_space};

/// Replies, one after the other; and one packet of the right length.
pub(crate) fn sftp(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok((_, reply)) = Reply::read(&mut rest) {
        check(&reply, bytes.len());
    }
    let framed = [&(bytes.len() as u32).to_be_bytes(), bytes].concat();
    if let Ok((_, reply)) = Reply::read(&mut &*framed) {
        check(&reply, bytes.len());
    }
    let _ = free_space(bytes);
}

/// Nothing in a reply is longer than its packet.
fn check(reply: &Reply, length: usize) {
    let taken = match reply {
        Reply::Version(extensions) => extensions.iter().map(|extension| extension.len() + 8).sum(),
        Reply::Status(_, text) => text.len() / 3,
        Reply::Handle(bytes) | Reply::Data(bytes) | Reply::Extended(bytes) => bytes.len(),
        Reply::Names(names) => names.iter().map(|(name, _)| name.len() + 12).sum(),
        Reply::Attributes(_) => 4,
    };
    assert!(taken <= length, "a reply is longer than its packet");
}
