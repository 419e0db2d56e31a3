//! Used space, reported only once it is stable. XFS frees the space of deleted files in the background, and frees
//! reservations for writes into shared ranges when the inode leaves memory; Btrfs cleans up after its commit.

use crate::command::{output, program};
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Bytes in use on the filesystem at `path`, once all data is written and the space of deleted files is freed.
pub fn used(path: &Path) -> Result<u64> {
    sync(path)?;
    // Inodes with cached pages stay in memory until these pages are dropped.
    fs::write("/proc/sys/vm/drop_caches", "3").context("cannot have inodes leave memory")?;
    // Btrfs's cleaner runs late, and another sync writes its changes.
    sleep(Duration::from_secs(2));
    let mut last = used_now(path)?;
    loop {
        sleep(Duration::from_secs(1));
        let now = used_now(path)?;
        if now == last {
            return Ok(now);
        }
        last = now;
    }
}

/// Bytes in use now, after a sync.
pub fn used_now(path: &Path) -> Result<u64> {
    sync(path)?;
    let stat = rustix::fs::statvfs(path).with_context(|| format!("cannot find the space of {}", path.display()))?;
    Ok((stat.f_blocks - stat.f_bfree) * stat.f_frsize)
}

/// Bytes of metadata in use on Btrfs, after a sync, counting every copy; `None` on other filesystems.
pub fn metadata(path: &Path) -> Result<Option<u64>> {
    sync(path)?;
    let Ok(text) = output(program("btrfs").args(["filesystem", "usage", "-b"]).arg(path)) else { return Ok(None) };
    // `Metadata,DUP: Size:268435456, Used:163840 (0.06%)`.
    let line =
        text.lines().find(|line| line.starts_with("Metadata,")).context("btrfs reports nothing about metadata")?;
    let used = line.split("Used:").nth(1).context("btrfs does not report the used metadata")?;
    let digits: String = used.chars().take_while(char::is_ascii_digit).collect();
    let copies = if line.starts_with("Metadata,DUP") { 2 } else { 1 };
    Ok(Some(digits.parse::<u64>()? * copies))
}

/// Writes out all data of the filesystem at `path`, as `sync -f` does.
pub fn sync(path: &Path) -> Result<()> {
    let dir = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    rustix::fs::syncfs(&dir).with_context(|| format!("cannot sync {}", path.display()))
}
