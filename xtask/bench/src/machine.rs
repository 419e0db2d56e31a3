//! The machine and the day of a measurement.

use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::fs;
use xtask::command::{output, program};

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) kernel: String,
    pub(crate) cpus: usize,
    pub(crate) processor: String,
    pub(crate) memory_gib: u64,
}

impl Machine {
    /// The present machine.
    pub(crate) fn here() -> Machine {
        let field = |file: &str, key: &str| {
            let text = fs::read_to_string(file).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(key)).and_then(|line| line.split_once(':'));
            line.map(|(_, value)| value.trim().to_string()).unwrap_or_default()
        };
        let kibibytes = field("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0);
        Machine {
            kernel: output(program("uname").arg("-r")).unwrap_or_default().trim().into(),
            cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            processor: field("/proc/cpuinfo", "model name"),
            memory_gib: (kibibytes / f64::from(1 << 20)).round() as u64,
        }
    }

    /// A description in one line.
    pub(crate) fn line(&self) -> String {
        format!("Linux {}, {} CPUs ({}), {} GiB of memory", self.kernel, self.cpus, self.processor, self.memory_gib)
    }
}

/// The date in UTC.
pub(crate) fn today() -> Result<String> {
    Ok(output(program("date").args(["-u", "+%F"]))?.trim().into())
}
