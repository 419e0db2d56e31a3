//! System calls of one run, counted by strace. The run is slower for it, so it is never a timed one.

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;
use xtask::command::{find, output};

/// The calls of one run.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Each kind and how often, the most frequent first.
    pub(crate) kinds: Vec<(String, u64)>,
}

impl Calls {
    /// Counts those of `command`, by way of the file `log`. Nothing where strace is missing.
    pub(crate) fn count(command: &Command, log: &Path) -> Result<Option<Calls>> {
        let Some(strace) = find("strace") else { return Ok(None) };
        let mut traced = Command::new(strace);
        traced.args(["-c", "-f", "-U", "calls,name", "-o"]).arg(log);
        traced.arg(command.get_program()).args(command.get_args());
        output(&mut traced)?;
        Ok(Some(Calls::parse(&fs::read_to_string(log).context("strace wrote no log")?)))
    }

    fn parse(table: &str) -> Calls {
        let row = |line: &str| {
            let (calls, name) = line.trim().split_once(char::is_whitespace)?;
            Some((name.trim().to_string(), calls.parse().ok()?))
        };
        let mut kinds: Vec<_> = table.lines().filter_map(row).filter(|(name, _)| name != "total").collect();
        kinds.sort_by_key(|(_, calls)| std::cmp::Reverse(*calls));
        Calls { kinds }
    }

    /// How many in all.
    pub(crate) fn total(&self) -> u64 {
        self.kinds.iter().map(|(_, calls)| calls).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_strace_is_read_and_its_sum_is_ours() {
        let table = "    calls syscall\n--------- ----------------\n       12 openat\n        3 ioctl\n--------- ---\n       15 total\n";
        let calls = Calls::parse(table);
        assert_eq!(calls.kinds, [("openat".to_string(), 12), ("ioctl".to_string(), 3)]);
        assert_eq!(calls.total(), 15);
    }
}
