//! Every command that changes something, on bad days: a full disk or stdout, calls that fail in the middle, few
//! descriptors, little memory, other filesystems, leftovers that cannot be cleared. Nothing half-done is reported as
//! done, nothing else is harmed, and the same command succeeds afterwards.

mod descriptors;
mod filesystems;
mod full;
mod jobs;
mod later;
mod latest;
mod leftovers;
mod little;
mod refused_calls;
mod scene;
mod unread;
mod unwritten;

use crate::harness::*;
use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// Runs pleach behind another program, as `prlimit`.
fn behind(program: &[&str], args: &[impl AsRef<OsStr>]) -> Run {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).arg(env!("CARGO_BIN_EXE_pleach")).args(args);
    finish(command.env_remove("PLEACH_REPO").env("RESTIC_PASSWORD", "secret").stdin(Stdio::null()))
}
