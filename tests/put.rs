//! `pleach put`: a stream becomes a file at once or not at all, and unchanged data is shared with its last version.

mod command;
mod content;
mod input;
mod kept;
mod meanwhile;
mod moved;
mod refusal;

use crate::harness::*;
use serde_json::Value;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const BLOCK: usize = 4096;
const MIB: usize = 1 << 20;

/// The command with a pipe for its input.
fn begin(dest: &Path, args: &[&str]) -> Child {
    let mut command = command(["put".as_ref(), dest.as_os_str()].into_iter().chain(args.iter().map(OsStr::new)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pleach can be started")
}

/// Pipes these bytes into the command and waits for its end.
fn feed(mut child: Child, content: &[u8]) -> Run {
    let mut pipe = child.stdin.take().expect("stdin is a pipe");
    let line = format!("put, process {}", child.id());
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A command that gave up does not read all input.
            let _ = pipe.write_all(content);
        });
        child.wait_with_output().expect("a child can be waited for")
    });
    Run::new(output, line)
}

/// Puts these bytes into a file, replacing it.
fn put(dest: &Path, args: &[&str], content: &[u8]) -> Run {
    feed(begin(dest, args), content)
}

/// The same, which must succeed and result in exactly these bytes; returns the summary.
#[track_caller]
fn put_well(dest: &Path, args: &[&str], content: &[u8]) -> Value {
    let args: Vec<_> = ["--json"].iter().chain(args).copied().collect();
    let summary = put(dest, &args, content).expect(0).summary();
    assert_content(dest, content);
    assert_eq!(number(&summary, "bytes"), content.len() as u64, "{summary}");
    assert_no_temporary(dest);
    summary
}

/// Asserts that no files of an unfinished run are next to a file.
#[track_caller]
fn assert_no_temporary(dest: &Path) {
    let left: Vec<_> =
        names(dest.parent().expect("a parent")).into_iter().filter(|name| name.contains("pleach-put")).collect();
    assert_eq!(left, [""; 0]);
}

/// Writes a file by plain writes and syncs it.
#[track_caller]
fn write_synced(path: &Path, content: &[u8]) {
    write(path, content);
    File::open(path).and_then(|file| file.sync_all()).expect("a file can be synced");
}

/// The address of each block of a file; blocks without an address are missing.
#[track_caller]
fn places(path: &Path) -> HashMap<u64, u64> {
    let units = BLOCK as u64 / 512;
    let mut places = HashMap::new();
    for extent in tools::extents(path).iter().filter(|extent| !extent.is_unwritten() && !extent.is_inline()) {
        for unit in (0..extent.length).step_by(units as usize) {
            places.insert((extent.logical + unit) / units, extent.physical + unit);
        }
    }
    places
}

/// The number of blocks of a file at addresses that another file had, whatever their offset.
fn shared(now: &HashMap<u64, u64>, before: &HashMap<u64, u64>) -> usize {
    let before: std::collections::HashSet<_> = before.values().collect();
    now.values().filter(|place| before.contains(place)).count()
}

/// Asserts the amount shared, by the summary and by xfs_io: the final file has this many blocks of `before`.
#[track_caller]
fn assert_shared(dest: &Path, summary: &Value, before: &HashMap<u64, u64>, blocks: usize) {
    let size = number(summary, "bytes");
    let told = number(summary, "shared_bytes");
    assert_eq!(told.div_ceil(BLOCK as u64), blocks as u64, "{summary}");
    assert_eq!(shared(&places(dest), before), blocks, "{summary}");
    assert!(number(summary, "written_bytes") + told <= size, "{summary}");
}

/// These bytes with some blocks replaced.
fn with_blocks(content: &[u8], blocks: &[usize]) -> Vec<u8> {
    let mut content = content.to_vec();
    for &block in blocks {
        let end = ((block + 1) * BLOCK).min(content.len());
        content[block * BLOCK..end].copy_from_slice(&bytes(9000 + block as u64, end - block * BLOCK));
    }
    content
}

/// The command in a shell that produces its input: `script` with the destination as `$1` and the command as `$PUT`.
fn in_shell(script: &str, dest: &Path) -> Run {
    let mut shell = Command::new("bash");
    shell.args(["-c", script, "bash"]).arg(dest).env("PUT", env!("CARGO_BIN_EXE_pleach")).stdin(Stdio::null());
    finish(&mut shell)
}
