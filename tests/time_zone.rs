//! The environment variable `TZ`.

use crate::harness::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::process::{Command, Stdio};

#[test]
fn a_time_zone_without_an_end_is_not_read() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let [pipe, utc] = ["pipe", "UTC"].map(|name| dir.path().join(name));
    for path in [&pipe, &utc] {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).unwrap();
    }
    let pipe = pipe.to_str().unwrap();
    // The pipe first: reading it takes no memory.
    for zone in [pipe, &format!(":{pipe}"), "/dev/zero"] {
        let commands: [&[&str]; 3] =
            [&["prune", "/nowhere", "--keep-last=1"], &["report", "/nowhere"], &["adopt", "/nowhere", "/no"]];
        for words in commands {
            let mut timeout = Command::new("timeout");
            timeout
                .args(["-s", "KILL", "20"])
                .arg(env!("CARGO_BIN_EXE_pleach"))
                .args(words)
                .env("TZ", zone)
                .env_remove("PLEACH_REPO");
            finish(timeout.stdin(Stdio::null())).expect(1).saying(&format!("cannot find the time zone '{zone}'"));
        }
    }
    // A zone of the database may have the name of such a file.
    let run = finish(command(["prune", "/nowhere", "--keep-last=1"]).env("TZ", "UTC").current_dir(dir.path()));
    assert!(!run.expect(1).stderr.contains("time zone"));
}
