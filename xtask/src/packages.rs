//! The tools that chores call: Debian packages, and programs from crates.io.

use crate::command::{self, find, program, run};
use crate::namespace::is_root;
use anyhow::Result;
use std::env;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Tools and their packages.
pub type Tools = &'static [(&'static str, &'static str)];

/// The tools that make and mount filesystems.
pub const MOUNTING: Tools = &[
    ("mkfs.xfs", "xfsprogs"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mount", "mount"),
    ("losetup", "mount"),
    ("unshare", "util-linux"),
    ("setpriv", "util-linux"),
];

/// Further tools that tests call.
pub const TESTING: Tools = &[
    ("xfs_io", "xfsprogs"),
    ("xfs_repair", "xfsprogs"),
    ("xfs_info", "xfsprogs"),
    ("filefrag", "e2fsprogs"),
    ("chattr", "e2fsprogs"),
    ("findmnt", "util-linux"),
    ("getfattr", "attr"),
    ("setfattr", "attr"),
    ("getfacl", "acl"),
    ("setfacl", "acl"),
    ("setcap", "libcap2-bin"),
    ("rsync", "rsync"),
    ("bindfs", "bindfs"),
    ("mkfs.exfat", "exfatprogs"),
    ("mount.exfat-fuse", "exfat-fuse"),
    ("strace", "strace"),
    ("systemd-analyze", "systemd"),
    ("ionice", "util-linux"),
    ("flock", "util-linux"),
    ("pkill", "procps"),
    ("groff", "groff-base"),
    ("zsh", "zsh"),
    ("fish", "fish"),
    ("chromium", "chromium"),
    ("ssh", "openssh-client"),
    ("sshd", "openssh-server"),
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
    ("openssl", "openssl"),
    ("restic", "restic"),
    ("pip3", "python3-pip"),
    ("node", "nodejs"),
    ("npm", "npm"),
];

/// The tools that pleach is measured against.
pub const PEERS: Tools = &[("rsync", "rsync"), ("cp", "coreutils")];

/// The tools that back up to stores.
pub const STORES: Tools = &[("restic", "restic")];

/// The tools that copy and compare trees.
pub const COPIERS: Tools = &[("cp", "coreutils"), ("rsync", "rsync"), ("tar", "tar"), ("diff", "diffutils")];

/// The tools that list the extents of a file.
pub const LISTERS: Tools = &[("filefrag", "e2fsprogs"), ("xfs_io", "xfsprogs")];

/// The tools for a database and its load.
pub const DATABASE: Tools = &[("pgbench", "postgresql")];

/// The tools that find and share duplicates.
pub const DEDUPERS: Tools = &[("jdupes", "jdupes"), ("rmlint", "rmlint"), ("duperemove", "duperemove")];

/// The directory for tools of fixed versions that are in no system package. It is in the home directory of Cargo, so
/// that each version is installed once, not once in each clone.
pub fn tools_dir() -> PathBuf {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    match home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo"))) {
        Some(home) => home.join("pleach-tools"),
        None => command::target_dir().join("xtask/tools"),
    }
}

/// A program from crates.io, in a fixed version.
#[derive(Clone, Copy, Debug)]
pub struct Crate {
    /// The name of the crate and of its program.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Whether it is built without optimization, which takes a few minutes less.
    pub debug: bool,
}

impl Crate {
    /// Where it is when it is installed.
    pub fn path(&self) -> PathBuf {
        self.dir().join("bin").join(self.name)
    }

    /// Installs it, unless it is there already. Returns its path.
    pub fn install(&self) -> Result<PathBuf> {
        let Crate { name, version, debug } = *self;
        let path = self.path();
        if !path.is_file() {
            println!("installing {name} {version}");
            let mut install = command::cargo();
            install.env("CARGO_PROFILE_DEV_DEBUG", "0");
            install
                .args(["install", "--quiet", "--locked", "--force", "--version", version])
                .args(debug.then_some("--debug"));
            command::output(install.arg("--root").arg(self.dir()).arg(name))?;
        }
        Ok(path)
    }

    fn dir(&self) -> PathBuf {
        tools_dir().join(format!("{}-{}", self.name, self.version))
    }
}

/// Installs the missing ones of `tools`, if it may; returns the names of those that stay missing.
pub fn install(tools: impl IntoIterator<Item = &'static (&'static str, &'static str)>) -> Result<Vec<String>> {
    let tools: Vec<_> = tools.into_iter().collect();
    let missing = || tools.iter().filter(|(tool, _)| find(tool).is_none());
    let mut packages: Vec<_> = missing().map(|(_, package)| *package).collect();
    packages.dedup();
    if packages.is_empty() {
        return Ok(Vec::new());
    }
    if is_root() && find("apt-get").is_some() {
        println!("installing {}", packages.join(", "));
        let _quiet = NoServices::begin();
        let apt = || {
            let mut apt = program("apt-get");
            apt.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet=2");
            apt
        };
        let done = run(apt().arg("update"))
            .and_then(|()| run(apt().args(["install", "--yes", "--no-install-recommends"]).args(&packages)));
        if let Err(error) = done {
            eprintln!("xtask: {error:#}");
        }
        disable_services(&packages);
    }
    Ok(missing().map(|(tool, package)| format!("{tool} (package {package})")).collect())
}

/// The file that Debian's packages ask before they start a service. Its exit status 101 forbids it.
const POLICY: &str = "/usr/sbin/policy-rc.d";
/// Packages with services that must not run on this machine only because tests call their programs.
const SERVICES: Tools = &[("ssh.service", "openssh-server"), ("ssh.socket", "openssh-server")];

/// While it exists, no package starts a service.
struct NoServices {
    is_own: bool,
}

impl NoServices {
    fn begin() -> NoServices {
        let file = File::options().write(true).create_new(true).mode(0o755).open(POLICY);
        let written = file.and_then(|mut file| file.write_all(b"#!/bin/sh\nexit 101\n"));
        NoServices { is_own: written.is_ok() }
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.is_own {
            let _ = fs::remove_file(POLICY);
        }
    }
}

/// The services of packages that were just installed do not start with the machine either.
fn disable_services(packages: &[&str]) {
    for (service, _) in SERVICES.iter().filter(|(_, package)| packages.contains(package)) {
        if Path::new("/lib/systemd/system").join(service).exists() {
            let _ = command::output(program("systemctl").args(["--root=/", "--quiet", "disable", service]));
        }
    }
}
