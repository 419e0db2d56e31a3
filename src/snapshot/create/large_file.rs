//! Large files: several threads read them, and a list keeps the hashes of their blocks for the next snapshot.

use super::context::Context;
use super::staged::Staged;
use crate::content::copy::CopyError;
use crate::content::delta::{self, Options};
use crate::snapshot::manifest::{Entry, FileBody};

/// Files from this size on, in bytes, have a list of their hashes, and several threads read them.
pub(super) const LEAST: u64 = 8 << 20;
/// How many threads read a large file: some wait for short reads of the last version while others keep a solid-state
/// disk busy.
const READERS: usize = 8;

/// How a file of this size is read and compared.
fn comparison<'a>(context: &Context<'a>, staged: &Staged, size: u64, hashed: bool) -> Options<'a> {
    let readers = context.options.threads.unwrap_or(READERS).clamp(1, READERS);
    Options {
        block: staged.filesystem.block_size.next_power_of_two().clamp(512, 64 << 10),
        hashed,
        threads: if size >= LEAST { readers } else { 1 },
        monitor: context.monitor,
    }
}

/// Compares or copies a file of this size with `compare`. If the file is large and hashed, it gets a new list, which is
/// kept if it is complete.
pub(super) fn with_list<T>(
    context: &Context<'_>,
    staged: &Staged,
    (size, hashed): (u64, bool),
    compare: impl FnOnce(Option<&delta::NewList>, &Options<'_>) -> Result<T, CopyError>,
) -> Result<T, CopyError> {
    let draft = (size >= LEAST && hashed).then(|| staged.blocks.begin(size)).flatten();
    let options = comparison(context, staged, size, hashed);
    let result = compare(draft.as_ref().map(|draft| &draft.list), &options);
    if let Some(draft) = &draft {
        staged.blocks.end(draft, draft.list.complete().filter(|_| result.is_ok()));
    }
    result
}

/// Keeps the last snapshot's list of hashes of an entry's content, if there is one.
pub(super) fn carry_list(staged: &Staged, entry: &Entry) {
    if let Some(FileBody { size, hash, .. }) = entry.file() {
        carry_list_of(staged, *size, hash.as_ref());
    }
}

/// The same for content of this size and hash.
pub(super) fn carry_list_of(staged: &Staged, size: u64, hash: Option<&[u8; 32]>) {
    if let (LEAST.., Some(hash)) = (size, hash) {
        staged.blocks.carry(hash);
    }
}
