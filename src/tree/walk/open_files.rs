//! Limits the number of open files of a walk: its directories and the files of its visitor share the limit of the
//! process.

/// How many files a visitor may open at once on each thread if it wants `wished`. Fewer, if the process may open only
/// few files.
pub fn group(wished: usize) -> usize {
    open_files(64).clamp(1, wished)
}

/// The number of files that this process may open, divided by `parts`.
pub(crate) fn open_files(parts: u64) -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / parts).unwrap_or(usize::MAX)
}
