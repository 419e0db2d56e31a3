//! Another host: an sshd in a network namespace of its own, with its own keys. It ends with the test, even if that is
//! killed. Its users have a home in the scratch directory, and its `pleach` is the one that is tested.

use super::{Run, command, finish};
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The port of the second listener. It is in a namespace of its own, so no other program has it.
pub(crate) const OTHER_PORT: u16 = 42_022;

/// The script that becomes sshd. `$1` is the directory with its files.
const START: &str = "ip link set lo up && mkdir -p /run/sshd && mount --bind \"$1/passwd\" /etc/passwd && \
                     mount --bind \"$1/shadow\" /etc/shadow && exec \"$(command -v sshd)\" -D -e -f \"$1/sshd_config\"";

/// A host that ssh reaches as `nas`.
pub(crate) struct Sshd {
    dir: PathBuf,
    child: Child,
    log: Arc<Mutex<String>>,
}

impl Sshd {
    /// Starts it, with its files in `dir`.
    pub(crate) fn start(dir: PathBuf) -> Sshd {
        for name in ["home", "bin"] {
            fs::create_dir_all(dir.join(name)).unwrap();
        }
        for key in ["host", "user", "other"] {
            let mut keygen = Command::new("ssh-keygen");
            finish(keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", key, "-f"]).arg(dir.join(key))).expect(0);
        }
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_pleach"), dir.join("bin/pleach")).unwrap();
        let [host, user] = ["host.pub", "user.pub"].map(|name| fs::read_to_string(dir.join(name)).unwrap());
        fs::write(dir.join("authorized_keys"), user).unwrap();
        fs::write(dir.join("known_hosts"), format!("nas {host}")).unwrap();
        let shown = dir.display();
        let home = dir.join("home");
        let home = home.display();
        let users = format!("root:x:0:0::{home}:/bin/bash\nann:x:0:0::{home}:/bin/bash\n");
        let own = "sshd:x:102:65534::/run/sshd:/usr/sbin/nologin\nnobody:x:65534:65534::/nonexistent:/bin/sh\n";
        fs::write(dir.join("passwd"), users + own).unwrap();
        fs::write(dir.join("shadow"), "root:*:1::::::\nann:*:1::::::\nsshd:*:1::::::\nnobody:*:1::::::\n").unwrap();
        let server = format!(
            "ListenAddress 127.0.0.1:22\nListenAddress [::1]:22\nListenAddress 127.0.0.1:{OTHER_PORT}\n\
             HostKey {shown}/host\nAuthorizedKeysFile {shown}/authorized_keys\nStrictModes no\nUsePAM no\n\
             PermitRootLogin yes\nPasswordAuthentication no\nPidFile none\nClientAliveInterval 1\n\
             ClientAliveCountMax 3\nSetEnv PATH={shown}/bin:/usr/bin:/bin\n\
             Subsystem sftp internal-sftp\n"
        );
        fs::write(dir.join("sshd_config"), server).unwrap();
        let client = format!(
            "Host *\nHostKeyAlias nas\nIdentityFile {shown}/user\nIdentitiesOnly yes\n\
             UserKnownHostsFile {shown}/known_hosts\nGlobalKnownHostsFile none\nStrictHostKeyChecking yes\n\
             Host nas\nHostname 127.0.0.1\n"
        );
        fs::write(dir.join("config"), client).unwrap();
        let mut start = Command::new("setpriv");
        start.args(["--pdeathsig", "KILL", "unshare", "--net", "--mount", "sh", "-c", START, "sh"]).arg(&dir);
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        let mut child = start.env("PATH", path).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let lines = BufReader::new(child.stderr.take().unwrap());
        let writer = log.clone();
        thread::spawn(move || {
            lines.split(b'\n').map_while(Result::ok).for_each(|line| {
                let mut log = writer.lock().unwrap();
                log.push_str(&String::from_utf8_lossy(&line));
                log.push('\n');
            });
        });
        let sshd = Sshd { dir, child, log };
        sshd.await_log(&format!("port {OTHER_PORT}"));
        sshd
    }

    /// Waits until the log of sshd contains this.
    #[track_caller]
    pub(crate) fn await_log(&self, text: &str) {
        let begun = Instant::now();
        while !self.log().contains(text) {
            assert!(begun.elapsed() < Duration::from_secs(20), "sshd did not log {text:?}:\n{}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// What sshd has logged so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// One of its files.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The home of its users.
    pub(crate) fn home(&self) -> PathBuf {
        self.dir.join("home")
    }

    /// Adds settings for ssh. The first value of each counts, so they win over the usual ones.
    pub(crate) fn configure(&self, lines: &str) {
        let config = fs::read_to_string(self.file("config")).unwrap();
        fs::write(self.file("config"), format!("{lines}\n{config}")).unwrap();
    }

    /// Accepts the key `other` too, but only with these options of authorized_keys(5), in the place of earlier ones.
    /// `config-other` uses it.
    pub(crate) fn accept_other_key(&self, options: &str) {
        let config = fs::read_to_string(self.file("config")).unwrap();
        let (user, other) = (self.file("user"), self.file("other"));
        let config = config.replace(user.to_str().unwrap(), other.to_str().unwrap());
        fs::write(self.file("config-other"), config).unwrap();
        let key = fs::read_to_string(self.file("other.pub")).unwrap();
        let keys = fs::read_to_string(self.file("authorized_keys")).unwrap();
        let mut keys: String = keys.split_inclusive('\n').filter(|line| !line.contains(&key)).collect();
        keys += &format!("{options} {key}");
        fs::write(self.file("authorized_keys"), keys).unwrap();
    }

    /// Another pleach on the remote host: a script, in which `$REAL` is the real one.
    pub(crate) fn replace_pleach(&self, script: &str) {
        let path = self.file("bin/pleach");
        fs::remove_file(&path).unwrap();
        let real = env!("CARGO_BIN_EXE_pleach");
        fs::write(&path, format!("#!/bin/sh\nREAL='{real}'\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A script for [`replace_pleach`](Self::replace_pleach) that waits for the file `go` of this host. Its process,
    /// which becomes the receiver, is in the file `started`.
    pub(crate) fn waiting(&self) -> String {
        let [started, go] = ["started", "go"].map(|name| self.file(name));
        let (started, go) = (started.display(), go.display());
        format!(
            "echo $$ > '{started}.new'; mv '{started}.new' '{started}'; \
             while [ ! -e '{go}' ]; do sleep 0.05; done; exec \"$REAL\" \"$@\""
        )
    }

    /// The program that connects, for PLEACH_SSH.
    pub(crate) fn program(&self) -> String {
        self.program_with("config")
    }

    /// The same with another configuration.
    pub(crate) fn program_with(&self, config: &str) -> String {
        format!("nsenter --net=/proc/{}/ns/net ssh -F {}", self.child.id(), self.file(config).display())
    }

    /// A program of ssh (ssh, scp, sftp) with a configuration and these arguments.
    pub(crate) fn tool(&self, name: &str, config: &str, args: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.child.id())).args([name, "-F"]).arg(self.file(config));
        command.args(args).stdin(Stdio::null());
        command
    }

    /// The words that run a program where root's home is that of this host's users, and where only this host is
    /// reached.
    pub(crate) fn enter(&self) -> Vec<String> {
        let id = self.child.id();
        vec!["nsenter".into(), format!("--net=/proc/{id}/ns/net"), format!("--mount=/proc/{id}/ns/mnt")]
    }

    /// pleach with these arguments, which connects to this host.
    pub(crate) fn pleach<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = command(args);
        command.env("PLEACH_SSH", self.program());
        command
    }

    /// The command that replicates to a path of this host.
    pub(crate) fn replicate_command(&self, repo: &Path, to: &Path) -> Command {
        self.pleach([OsStr::new("replicate"), "--json".as_ref(), repo.as_ref(), &url(to)])
    }

    /// Replicates to a path of this host.
    pub(crate) fn replicate(&self, repo: &Path, to: &Path) -> Run {
        finish(&mut self.replicate_command(repo, to))
    }

    /// Connects or cuts its network.
    pub(crate) fn set_network(&self, state: &str) {
        let mut ip = Command::new("nsenter");
        ip.arg(format!("--net=/proc/{}/ns/net", self.child.id())).args(["ip", "link", "set", "lo", state]);
        finish(&mut ip).expect(0);
    }
}

/// The address of a path on this host.
pub(crate) fn url(path: &Path) -> std::ffi::OsString {
    let mut url = std::ffi::OsString::from("ssh://nas");
    url.push(path);
    url
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
