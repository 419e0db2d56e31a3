//! Counts the copied entries, and how they were copied.

use super::context::Context;
use super::stats::Stats;
use crate::content::copy::{Copied, Engine};
use crate::fs::status::Status;
use crate::monitor::Amount;
use rustix::fs::FileType;

/// Counts an entry that is complete now. `status` is that of the source. `is_there`: its content existed already.
pub(super) fn entry(context: &Context<'_>, status: &Status, is_there: bool, part: &mut Stats) {
    part.bytes = match status.file_type() {
        FileType::RegularFile => part.bytes.saturating_add(status.size),
        _ => part.bytes,
    };
    name(status, is_there, part);
    let bytes = if is_there { status.size } else { 0 };
    context.monitor.advance(Amount { files: 1, bytes });
}

/// Counts another name of an inode. Its content was counted with the first name.
pub(super) fn further_name(context: &Context<'_>, status: &Status, is_there: bool, part: &mut Stats) {
    name(status, is_there, part);
    context.monitor.advance(Amount { files: 1, bytes: 0 });
}

fn name(status: &Status, is_there: bool, part: &mut Stats) {
    match status.file_type() {
        FileType::RegularFile => {
            part.files += 1;
            part.unchanged_files += u64::from(is_there);
        }
        FileType::Symlink => part.symlinks += 1,
        _ => part.others += 1,
    }
    part.copied_entries += u64::from(!is_there);
}

/// Counts how a file's content was copied.
pub(super) fn content(copied: &Copied, part: &mut Stats) {
    part.cloned_bytes += copied.cloned;
    part.hole_bytes = part.hole_bytes.saturating_add(copied.holes);
    part.read_bytes += copied.read;
    if copied.engine == Engine::Clone {
        part.inline_bytes += copied.data;
    } else {
        part.copied_bytes += copied.data;
    }
    if let Some(reason) = copied.reason.filter(|_| copied.data > 0) {
        *part.reasons.entry(reason).or_default() += copied.data;
    }
    if copied.size() > 0 {
        *part.engines.entry(copied.engine).or_default() += 1;
    }
}
