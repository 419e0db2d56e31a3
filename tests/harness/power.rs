//! Power cuts in the middle of a command, on a filesystem of the test's own that is mounted again afterwards. `disk`
//! has disks with images that can be cloned while they are written to.

use super::finish;
use super::own::Own;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How a mounted filesystem is shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shutdown {
    /// Its log is written out first, so the metadata on disk is newer than the data.
    LogWritten,
    /// Nothing more is written.
    AtOnce,
}

/// Shuts a mounted filesystem down, like a power cut or a failed device. Btrfs does not support this.
#[track_caller]
pub(crate) fn shut_down(mount: &Path, how: Shutdown) {
    let command = match how {
        Shutdown::LogWritten => "shutdown -f",
        Shutdown::AtOnce => "shutdown",
    };
    let run = finish(Command::new("xfs_io").args(["-x", "-c", command]).arg(mount)).expect(0);
    assert_eq!(run.stderr, "", "xfs_io's exit status does not show a refusal");
}

/// Runs a command until a condition is met or the command ends; then cuts the power of the filesystem and mounts it
/// again.
#[track_caller]
pub(crate) fn cut_during(own: &mut Own, command: &mut Command, how: Shutdown, until: &dyn Fn() -> bool) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command can be started");
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut is_running = || child.try_wait().expect("a child can be waited for").is_none();
    while !until() && Instant::now() < deadline && is_running() {
        thread::sleep(Duration::from_millis(1));
    }
    shut_down(own.path(), how);
    child.wait().expect("a child can be waited for");
    own.remount();
}
