//! A server in a network namespace of its own. It ends with the test, even if that is killed. It can use any port, and
//! only programs that are started through [`Server::enter`] reach it.

use super::Run;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A running server.
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts a program with its arguments, and waits until it listens on this port. Its output is in the file `log`.
    #[track_caller]
    pub(crate) fn start(log: PathBuf, port: u16, command: &str) -> Server {
        let mut start = Command::new("setpriv");
        start.args(["--pdeathsig", "KILL", "unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]);
        start.args(command.split_whitespace()).stdin(Stdio::null());
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        let output = File::create(&log).expect("a log can be made");
        start.env("PATH", path).env("HOME", log.parent().expect("a file is in a directory"));
        start.stdout(output.try_clone().expect("a descriptor can be duplicated")).stderr(output);
        let child = start.spawn().unwrap_or_else(|error| panic!("{start:?} cannot run: {error}"));
        let mut server = Server { child, log };
        server.await_port(port);
        server
    }

    /// Waits until the server listens.
    #[track_caller]
    fn await_port(&mut self, port: u16) {
        let begun = Instant::now();
        while !self.listens(port) {
            let ended = self.child.try_wait().expect("a child can be asked for its status");
            assert!(ended.is_none() && begun.elapsed() < Duration::from_secs(60), "no server:\n{}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether a socket of its namespace listens on a port.
    fn listens(&self, port: u16) -> bool {
        let table = |name| fs::read_to_string(format!("/proc/{}/net/{name}", self.child.id())).unwrap_or_default();
        let port = format!(":{port:04X}");
        ["tcp", "tcp6"].into_iter().any(|name| {
            table(name).lines().any(|line| {
                let words: Vec<_> = line.split_whitespace().collect();
                words.len() > 3 && words[1].ends_with(&port) && words[3] == "0A"
            })
        })
    }

    /// The words that run a program in its namespace.
    pub(crate) fn enter(&self) -> Vec<String> {
        vec!["nsenter".into(), format!("--net=/proc/{}/ns/net", self.child.id())]
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read(&self.log).map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default()
    }

    /// Ends it at once. The namespace lasts as long as the process of [`Server::enter`] needs it: no later one finds
    /// it.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A network namespace without any server.
#[track_caller]
pub(crate) fn nobody(log: PathBuf) -> Server {
    let mut start = Command::new("setpriv");
    start.args(["--pdeathsig", "KILL", "unshare", "--net", "sh", "-c", "ip link set lo up && exec sleep infinity"]);
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let child = start.env("PATH", path).stdin(Stdio::null()).spawn().expect("a namespace can be made");
    let ours = fs::read_link("/proc/self/ns/net").expect("/proc is mounted");
    let theirs = format!("/proc/{}/ns/net", child.id());
    while fs::read_link(&theirs).is_ok_and(|namespace| namespace == ours) {
        thread::sleep(Duration::from_millis(5));
    }
    Server { child, log }
}

/// Repeats a command until it succeeds, for at most a minute.
#[track_caller]
pub(crate) fn until_success(mut command: impl FnMut() -> Run) -> Run {
    let begun = Instant::now();
    loop {
        let run = command();
        if run.status == 0 {
            return run;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{run:?}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Whether a program can be found.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir: PathBuf| Path::new(&dir).join(program).is_file())
}
