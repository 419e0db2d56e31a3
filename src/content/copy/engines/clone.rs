//! The clone as an engine. It shares whole files, so `content` makes it (through `strategy`) before any range is
//! copied.

use super::driver::{Capabilities, Driver};
use super::job::Halt;
use rustix::io::Errno;

pub(super) const DRIVER: Driver = Driver {
    capabilities: Capabilities { clones: true, ..Capabilities::KERNEL_CALL },
    copy: |_, _| Err(Halt::Refused(Errno::OPNOTSUPP)),
};
