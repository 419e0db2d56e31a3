//! Passwords and keys are in no command line and in no message.

use super::stores::{Backend, KEY, PASSWORD, Store};
use super::{take, two_nights};
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

/// The command lines of the processes that run `pleach offsite`, and of their children.
fn command_lines(parent: u32) -> Vec<String> {
    let stat = |id: &str| fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let parent_of = |id: &str| {
        let stat = stat(id);
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<u32>().ok())
    };
    let ids: Vec<String> = names(Path::new("/proc")).into_iter().filter(|name| name.parse::<u32>().is_ok()).collect();
    let mut family = vec![parent];
    // A child has a greater number than its parent, nearly always.
    for _ in 0..4 {
        for id in &ids {
            if parent_of(id).is_some_and(|parent| family.contains(&parent)) {
                family.push(id.parse().unwrap());
            }
        }
        family.sort();
        family.dedup();
    }
    let line = |id: &u32| fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    family.iter().map(|id| String::from_utf8_lossy(&line(id)).replace('\0', " ")).collect()
}

on_filesystems! {
    [xfs] fn no_command_line_and_no_message_has_a_secret(fs: &Filesystem) {
        let (source, repo) = two_nights(fs);
        write(source.join("large"), &bytes(1, 10 << 20));
        take("three", &source, &repo);
        for backend in [Backend::Local, Backend::Sftp, Backend::Rest, Backend::S3, Backend::Azure] {
            let scratch = Filesystem::open(fs.kind, "offsite::secret::store").expect("it is mounted");
            let store = Store::made(&scratch, backend);
            let mut push = store.pleach("push", [OsStr::new("-v"), repo.as_ref()]);
            let mut push = push.env("RUST_LOG", "trace").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let mut lines = Vec::new();
            while push.try_wait().unwrap().is_none() {
                lines.extend(command_lines(push.id()));
                lines.sort();
                lines.dedup();
                thread::sleep(Duration::from_millis(10));
            }
            let run = Run::new(push.wait_with_output().unwrap(), format!("{backend:?}")).expect(0);
            assert!(lines.iter().any(|line| line.contains("offsite push")), "{lines:?}");
            assert!(backend != Backend::Sftp || lines.iter().any(|line| line.contains("ssh")), "{lines:?}");
            for text in lines.iter().chain([&run.stdout, &run.stderr]) {
                assert!(!text.contains(PASSWORD) && !text.contains(KEY) && !text.contains("Eby8vdM"), "{text}");
            }
        }
    }

    [xfs] fn nothing_that_is_stored_is_readable(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let text = "a sentence that anybody could find in the store ".repeat(100);
        write(source.join("a private name"), text.as_bytes());
        take("one", &source, &repo);
        let store = Store::made(fs, Backend::Local);
        store.push(&repo);
        for dir in [fs.join("store"), store.home.path().to_path_buf()] {
            for file in tools::files(&dir) {
                let content = fs::read(&file).unwrap();
                for word in [&b"a sentence that"[..], b"a private name", PASSWORD.as_bytes()] {
                    let found = content.windows(word.len()).any(|window| window == word);
                    assert!(!found, "{} in {}", String::from_utf8_lossy(word), file.display());
                }
            }
        }
    }

    [xfs] fn a_store_in_a_directory_belongs_to_its_owner_alone(fs: &Filesystem) {
        let (_, repo) = two_nights(fs);
        let store = Store::made(fs, Backend::Local);
        store.push(&repo);
        let mode = fs::metadata(fs.join("store")).unwrap().mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
    }
}
