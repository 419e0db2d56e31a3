//! `pleach offsite` in a build without it.

use crate::error::{Error, Result};
use crate::program::exit_status::ExitStatus;

/// Says that it is missing, and how to get it.
pub(crate) fn run() -> Result<ExitStatus> {
    let hint = "it needs the cargo feature 'offsite', which the released programs have: \
                cargo install pleach --features offsite";
    Err(Error::usage("use 'offsite': this build of pleach has no 'offsite'").hint(hint).with_code("unsupported"))
}
