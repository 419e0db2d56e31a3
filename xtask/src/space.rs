//! Free space, told only when it stands still: XFS gives back the space of deleted files in the background, and what it
//! set aside for writes into shared ranges when the inode leaves memory; Btrfs cleans up after its commit.

use crate::command::{output, program};
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Bytes in use on the filesystem at `path`, when all is written and all that was deleted is given back.
pub fn used(path: &Path) -> Result<u64> {
    sync(path)?;
    // Those of which pages are in memory stay, unless these go first.
    fs::write("/proc/sys/vm/drop_caches", "3").context("cannot have inodes leave memory")?;
    // Btrfs's cleaner is lazy, and one more sync writes what it has done.
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
    let stat = rustix::fs::statvfs(path).with_context(|| format!("cannot tell the space of {}", path.display()))?;
    Ok((stat.f_blocks - stat.f_bfree) * stat.f_frsize)
}

/// Bytes of metadata that a Btrfs has in use now, after a sync, each copy counted; `None` on other filesystems.
pub fn metadata(path: &Path) -> Result<Option<u64>> {
    sync(path)?;
    let Ok(text) = output(program("btrfs").args(["filesystem", "usage", "-b"]).arg(path)) else { return Ok(None) };
    // `Metadata,DUP: Size:268435456, Used:163840 (0.06%)`.
    let line = text.lines().find(|line| line.starts_with("Metadata,")).context("btrfs tells nothing of metadata")?;
    let used = line.split("Used:").nth(1).context("btrfs does not tell what is used of metadata")?;
    let digits: String = used.chars().take_while(char::is_ascii_digit).collect();
    let copies = if line.starts_with("Metadata,DUP") { 2 } else { 1 };
    Ok(Some(digits.parse::<u64>()? * copies))
}

/// Writes everything out on the filesystem at `path`, as `sync -f` does.
pub fn sync(path: &Path) -> Result<()> {
    let dir = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    rustix::fs::syncfs(&dir).with_context(|| format!("cannot sync {}", path.display()))
}
