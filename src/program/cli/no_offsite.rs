//! `pleach offsite` in a build without it: whatever follows is accepted, so that the answer is always the same.

use clap::Args;
use std::ffi::OsString;

#[derive(Args, Debug)]
pub(crate) struct Offsite {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _words: Vec<OsString>,
}
