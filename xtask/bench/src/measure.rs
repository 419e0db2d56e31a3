//! Times one command: alone, and with the sync of its destination; also measures its processor time and memory.

use crate::contender::Figures;
use crate::watch;
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use wait4::Wait4;
use xtask::command::line;
use xtask::space;

/// Runs a command, syncs the filesystem at `destination`, and returns these figures:
///
/// - `alone_seconds`: the command, from its start to its end; `seconds`: the same, including the sync;
/// - `processor_seconds`: user and system time;
/// - `memory_bytes`: its peak memory; `read_bytes`: its reads from devices; `threads`: its peak number of threads.
///
/// Also returns the command's output if it is `heard`; otherwise the output is discarded.
pub(crate) fn measure(command: &mut Command, destination: &Path, heard: bool) -> Result<(Figures, String)> {
    // Files instead of pipes: nobody has to drain them while the command runs.
    let (mut said, mut errors) = (temporary_file()?, temporary_file()?);
    let stdout = if heard { said.try_clone()?.into() } else { Stdio::null() };
    command.stdin(Stdio::null()).stdout(stdout).stderr(errors.try_clone()?);
    let begin = Instant::now();
    let mut child = command.spawn().with_context(|| format!("cannot run {}", line(command)))?;
    let seen = watch::to_the_end(&child);
    let used = child.wait4()?;
    let alone = begin.elapsed();
    if !used.status.success() {
        bail!("{} failed ({}):\n{}", line(command), used.status, content(&mut errors)?);
    }
    space::sync(destination)?;
    let synced = begin.elapsed();
    let figures = Figures::from([
        ("seconds", synced.as_secs_f64()),
        ("alone_seconds", alone.as_secs_f64()),
        ("processor_seconds", (used.rusage.utime + used.rusage.stime).as_secs_f64()),
        ("memory_bytes", seen.memory as f64),
        ("read_bytes", seen.read as f64),
        ("threads", seen.threads as f64),
    ]);
    Ok((figures, content(&mut said)?))
}

/// A file without a name.
fn temporary_file() -> Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};
    Ok(File::from(memfd_create("bench", MemfdFlags::CLOEXEC).context("cannot make a file in memory")?))
}

fn content(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// An integer from the last line that `pleach … --json` printed.
pub(crate) fn summary(said: &str, field: &str) -> Result<f64> {
    let last = said.lines().last().unwrap_or_default();
    let summary: serde_json::Value = serde_json::from_str(last).with_context(|| format!("no summary: {last}"))?;
    summary[field].as_f64().with_context(|| format!("the summary has no {field}: {last}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_the_last_line() {
        let said = "{\"type\":\"share\"}\n{\"type\":\"summary\",\"freed_bytes\":12}\n";
        assert!((summary(said, "freed_bytes").unwrap() - 12.0).abs() < f64::EPSILON);
        assert!(summary(said, "read_bytes").is_err());
    }
}
