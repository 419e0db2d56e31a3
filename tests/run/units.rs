//! The units for systemd in `docs/systemd`: systemd accepts them, they are hardened, and pleach works with the rights
//! and the system calls that they leave.

use super::*;
use std::collections::BTreeSet;
use std::process::Command;

/// The highest exposure that `systemd-analyze security` may find, in tenths. A service that can do nothing has 0, one
/// without any restriction 100.
const EXPOSURE: &str = "45";
/// System calls that older versions of systemd, and of strace, do not know. pleach works without them.
const NEWER: &[&str] = &["cachestat", "syscall_0x1c3"];

fn unit(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/systemd").join(name);
    fs::read_to_string(path).expect("the unit is there")
}

/// The words of a setting of the service.
fn setting(name: &str) -> Vec<String> {
    let text = unit("pleach@.service");
    let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    lines.flat_map(|line| line.split(' ').map(String::from).collect::<Vec<_>>()).collect()
}

/// The names of all system calls in these groups of systemd.
fn calls(groups: &[String]) -> BTreeSet<String> {
    let (mut calls, mut groups) = (BTreeSet::new(), groups.to_vec());
    while let Some(group) = groups.pop() {
        let listed = finish(Command::new("systemd-analyze").args(["syscall-filter", "--no-pager", &group])).expect(0);
        for word in listed.stdout.lines().filter(|line| line.starts_with(' ')).map(str::trim) {
            if word.starts_with('@') {
                groups.push(word.to_string());
            } else if !word.starts_with('#') {
                calls.insert(word.to_string());
            }
        }
    }
    calls
}

on_filesystems! {
    [xfs] fn systemd_accepts_the_units_and_calls_them_hardened(fs: &Filesystem) {
        let service = unit("pleach@.service").replace("/usr/local/bin/pleach", env!("CARGO_BIN_EXE_pleach"));
        let (path, timer) = (fs.join("pleach@test.service"), fs.join("pleach@test.timer"));
        fs::write(&path, service).unwrap();
        fs::write(&timer, unit("pleach@.timer")).unwrap();
        let mut verify = Command::new("systemd-analyze");
        verify.args(["verify", "--man=no"]).args([&path, &timer]);
        let verified = finish(&mut verify).expect(0);
        // An unknown setting is only a warning.
        let warnings: Vec<_> = verified.stderr.lines().filter(|line| line.contains("pleach@")).collect();
        assert_eq!(warnings, [""; 0]);
        let mut security = Command::new("systemd-analyze");
        security.args(["security", "--no-pager", "--offline=true", &format!("--threshold={EXPOSURE}")]).arg(&path);
        finish(&mut security).expect(0);
        let text = unit("pleach@.timer");
        for setting in ["Persistent=true", "RandomizedDelaySec=", "OnCalendar=", "WantedBy=timers.target"] {
            assert!(text.lines().any(|line| line.starts_with(setting)), "{setting}");
        }
    }

    fn a_run_with_the_rights_of_the_unit_keeps_everything(fs: &Filesystem) {
        let (source, more) = (fs.dir("source"), fs.dir("more"));
        tree::every_kind(&source);
        for name in ["a", "b"] {
            write(more.join(name), &bytes(7, 1 << 20));
            std::os::unix::fs::chown(more.join(name), Some(1000), Some(1000)).unwrap();
            fs::set_permissions(more.join(name), fs::Permissions::from_mode(0o400)).unwrap();
        }
        settle();
        let dedupe = format!("[dedupe]\npaths = [{more:?}]\ncache = 'none'\n");
        let dedupe = if fs.reflinks() { dedupe } else { String::new() };
        let verify = "[verify]\n[prune]\nkeep_last = 1\n";
        let profile = usual(fs, &format!("{verify}{dedupe}[process]\nnice = 5\nio = 'idle'\n"));
        let capabilities = setting("CapabilityBoundingSet");
        assert!(capabilities.len() > 5, "{capabilities:?}");
        let names: Vec<_> = capabilities.iter().map(|name| name.to_lowercase().replacen("cap_", "+", 1)).collect();
        let bounding = format!("--bounding-set=-all,{}", names.join(","));
        // The second snapshot begins with the first one.
        for _ in 0..2 {
            let mut bound = Command::new("setpriv");
            bound.args([&bounding, "--inh-caps=-all", "--no-new-privs", env!("CARGO_BIN_EXE_pleach")]);
            bound.args(["run", "--json"]).arg(&profile).env_remove("PLEACH_REPO");
            let done = finish(&mut bound).expect(0);
            let whole = done.summary();
            let name = whole["snapshot"].as_str().expect("a name");
            tools::assert_equal_trees(&source, &inside(&fs.join("repo"), name, &source));
            if fs.kind == Kind::Btrfs {
                assert!(tools::is_subvolume(&fs.join("repo").join(name)));
            }
            settle();
        }
        if fs.reflinks() {
            assert!(tools::assert_same_blocks(&more.join("a"), &more.join("b")));
        }
    }

    [xfs, btrfs] fn a_run_needs_no_system_call_that_the_unit_forbids(fs: &Filesystem) {
        let allowed = calls(&setting("SystemCallFilter"));
        assert!(allowed.len() > 200 && allowed.contains("ioctl"), "{allowed:?}");
        let (source, log) = (fs.dir("source"), fs.join("trace"));
        tree::every_kind(&source);
        settle();
        let more = format!(
            "[verify]\n[prune]\nkeep_last = 1\n[dedupe]\npaths = [{source:?}]\ncache = 'none'\n\
             [process]\nnice = 5\nio = 'low'\n"
        );
        let profile = usual(fs, &more);
        for _ in 0..2 {
            let mut strace = Command::new("strace");
            strace.args(["-f", "-qq", "-o"]).arg(&log).arg(env!("CARGO_BIN_EXE_pleach"));
            finish(strace.args(["run", "-q"]).arg(&profile)).expect(0);
            let text = String::from_utf8_lossy(&fs::read(&log).expect("a log")).into_owned();
            let name = |line: &str| {
                let call = line.split_once(' ')?.1.trim_start();
                let name = call.split('(').next()?;
                let is_word = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                is_word.then(|| name.to_string())
            };
            let used: BTreeSet<_> = text.lines().filter_map(name).collect();
            assert!(used.len() > 30, "{used:?}");
            let forbidden: Vec<_> = used.difference(&allowed).filter(|call| !NEWER.contains(&call.as_str())).collect();
            assert_eq!(forbidden, [""; 0]);
            settle();
        }
    }
}
