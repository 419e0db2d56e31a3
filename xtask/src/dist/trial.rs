//! Installs the packages into a fresh Debian, takes a snapshot there, restores a file from it, and removes the
//! packages.

use super::build::Arch;
use crate::command::{output, program, run};
use crate::image::{Kind, Mounted};
use crate::packages::Tools;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

pub(super) const TOOLS: Tools = &[
    ("debootstrap", "debootstrap"),
    ("chroot", "coreutils"),
    ("rpm", "rpm"),
    ("find", "findutils"),
    ("qemu-aarch64-static", "qemu-user-static"),
];

const SEARCHED: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The first task of the README, with an archive of photos in place of one's own.
const FIRST_TASK: &str = "set -e
pleach --version
pleach snapshot $DATA/photos $DATA/backup
rm $DATA/photos/img_3
pleach restore $DATA/backup latest $DATA/photos/img_3 --target /
cmp $DATA/photos/img_3 $DATA/photos/img_2
pleach list $DATA/backup
[ -n \"$EMULATED\" ] || pleach verify $DATA/backup
rm -r $DATA/backup";

/// Runs the trial, inside a namespace, with a directory for its systems.
pub(super) fn try_packages(dir: &Path, dist: &Path) -> Result<()> {
    let arch = Arch::own().context("this architecture has no packages")?;
    let data = Mounted::create(Kind::Xfs, dir, "data", 1024)?;
    let root = dir.join("debian");
    println!("making a fresh Debian");
    output(program("debootstrap").args(["--variant=minbase", "stable"]).arg(&root))?;
    let system = System { root: root.clone() };
    system.bind(data.path(), "data")?;
    run(program("mount").args(["-t", "proc", "proc"]).arg(root.join("proc")))?;
    let before = system.files()?;

    let package = named(dist, &format!("_{}.deb", arch.debian()))?;
    let begun = Instant::now();
    system.give(&package)?;
    system.run(&["dpkg", "--install", &system.given(&package)])?;
    photos(data.path())?;
    system.run(&["sh", "-c", FIRST_TASK])?;
    println!("from the package to the first restored file: {:.1} s", begun.elapsed().as_secs_f64());
    system.run(&["test", "-s", "/usr/share/man/man1/pleach-snapshot.1.gz"])?;
    system.run(&["sh", "-c", "cd / && md5sum --quiet --check /var/lib/dpkg/info/pleach.md5sums"])?;
    system.run(&["dpkg", "--purge", "pleach"])?;
    system.assert_files("the Debian package", &before)?;

    let archive = named(dist, &format!("-{}-linux.tar.gz", arch.name()))?;
    system.give(&archive)?;
    let unpack = format!("tar -C /usr/local --strip-components=1 -xf {}", system.given(&archive));
    system.run(&["sh", "-c", &format!("{unpack}\n{FIRST_TASK}")])?;

    for other in [Arch::X86, Arch::Aarch64].into_iter().filter(|other| *other != arch) {
        // It may not have been built.
        if named(dist, &format!("-{}-linux.tar.gz", other.name())).is_ok() {
            println!("the program for {}, emulated", other.name());
            emulated(dir, dist, other, data.path())?;
        }
    }

    let package = named(dist, &format!(".{}.rpm", arch.name()))?;
    let red = System { root: dir.join("rpm") };
    fs::create_dir(&red.root)?;
    let rpm = |arguments: &[&str], path: &OsStr| {
        output(program("rpm").arg("--root").arg(&red.root).args(arguments).arg(path)).map(drop)
    };
    // The empty root has not even a shell.
    rpm(&["--install", "--noscripts", "--nodeps"], package.as_os_str())?;
    ensure!(red.root.join("usr/bin/pleach").is_file(), "the RPM has no program");
    output(program(red.root.join("usr/bin/pleach")).arg("--version"))?;
    rpm(&["--erase", "--noscripts"], "pleach".as_ref())?;
    let left: Vec<_> = red.files()?.into_iter().filter(|path| path.contains("pleach")).collect();
    ensure!(left.is_empty(), "the RPM leaves {left:?}");
    println!("the packages install, work, and leave nothing");
    Ok(())
}

/// The file in the directory with a name that ends like this.
fn named(dist: &Path, end: &str) -> Result<PathBuf> {
    let mut found = fs::read_dir(dist)?.filter_map(|entry| Some(entry.ok()?.path()));
    found.find(|path| path.to_string_lossy().ends_with(end)).with_context(|| format!("no file ends with {end}"))
}

fn photos(data: &Path) -> Result<()> {
    fs::create_dir(data.join("photos"))?;
    let content: Vec<u8> = (0..8_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    (0..4).try_for_each(|number| Ok(fs::write(data.join(format!("photos/img_{number}")), &content)?))
}

/// Runs the program of another architecture by an emulator. That has no openat2(2), which `verify` needs.
fn emulated(dir: &Path, dist: &Path, arch: Arch, data: &Path) -> Result<()> {
    let programs = dir.join("programs");
    fs::create_dir(&programs)?;
    let mut unpack = program("tar");
    unpack.arg("-C").arg(&programs).arg("-xf").arg(named(dist, &format!("-{}-linux.tar.gz", arch.name()))?);
    run(unpack.args(["--strip-components=2", "--wildcards", "*/bin/pleach"]))?;
    let binary = programs.join("emulated");
    fs::rename(programs.join("pleach"), &binary)?;
    let wrapper = programs.join("pleach");
    fs::write(&wrapper, format!("#!/bin/sh\nexec qemu-{}-static {} \"$@\"\n", arch.name(), binary.display()))?;
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755))?;
    let path = format!("{}:{SEARCHED}", programs.display());
    run(program("sh").args(["-c", FIRST_TASK]).env("PATH", path).env("DATA", data).env("EMULATED", "yes"))
}

/// A system in a directory.
struct System {
    root: PathBuf,
}

impl System {
    fn chroot(&self) -> Command {
        let mut chroot = program("chroot");
        chroot.arg(&self.root);
        chroot.env_clear().env("PATH", SEARCHED).env("HOME", "/root").env("DATA", "/data");
        chroot
    }

    fn run(&self, command: &[&str]) -> Result<()> {
        run(self.chroot().args(command))
    }

    /// Mounts a directory a second time. The mount ends with the namespace.
    fn bind(&self, from: &Path, at: &str) -> Result<()> {
        let at = self.root.join(at);
        fs::create_dir_all(&at)?;
        run(program("mount").arg("--bind").arg(from).arg(at))
    }

    fn give(&self, file: &Path) -> Result<()> {
        fs::copy(file, self.root.join(self.given(file).trim_start_matches('/')))?;
        Ok(())
    }

    fn given(&self, file: &Path) -> String {
        format!("/tmp/{}", file.file_name().unwrap_or_default().to_string_lossy())
    }

    /// All files that belong to a package, or could be left by one.
    fn files(&self) -> Result<BTreeSet<String>> {
        let mut find = program("find");
        find.arg(&self.root).args(["-xdev", "("]);
        for (number, ignored) in ["tmp", "var/lib/dpkg", "var/log", "var/cache", "var/lib/rpm"].iter().enumerate() {
            find.args((number > 0).then_some("-o")).arg("-path").arg(self.root.join(ignored));
        }
        let listed = output(find.args([")", "-prune", "-o", "-printf", "%P\n"]))?;
        Ok(listed.lines().map(String::from).collect())
    }

    fn assert_files(&self, what: &str, before: &BTreeSet<String>) -> Result<()> {
        let now = self.files()?;
        let left: Vec<_> = now.difference(before).collect();
        let lost: Vec<_> = before.difference(&now).collect();
        ensure!(left.is_empty() && lost.is_empty(), "{what} leaves {left:?} and takes {lost:?} with it");
        Ok(())
    }
}
