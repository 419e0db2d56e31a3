//! A root directory for runs of the program: an XFS with the system's directories, and otherwise empty.

use crate::command::{self, output, program};
use crate::image::{Kind, Mounted};
use crate::noise::Noise;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

/// The directories that programs need.
const SYSTEM: &[&str] = &["bin", "dev", "etc", "lib", "lib64", "proc", "sbin", "usr"];
/// The directory of the program.
const PROGRAMS: &str = "opt";
/// The size of the filesystem, far more than the runs need.
const MEBIBYTES: u64 = 4096;
/// The variables of each run.
const VARIABLES: &[&str] =
    &["PATH=/opt:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C.UTF-8", "TZ=UTC", "TERM=xterm-256color"];

/// A mounted root directory.
pub(crate) struct Root {
    filesystem: Mounted,
    /// The system's directories and the program in it, in the order of mounting.
    mounted: Vec<PathBuf>,
}

impl Root {
    /// Makes the filesystem `dir/name.img`, and mounts it with all that programs need.
    pub(crate) fn create(dir: &Path, name: &str) -> Result<Root> {
        let filesystem = Mounted::create(Kind::Xfs, dir, name, MEBIBYTES)?;
        let mut root = Root { filesystem, mounted: Vec::new() };
        for name in SYSTEM {
            let (system, here) = (Path::new("/").join(name), root.path(name));
            let Ok(meta) = fs::symlink_metadata(&system) else { continue };
            if meta.is_symlink() {
                symlink(fs::read_link(&system)?, &here)?;
            } else {
                fs::create_dir(&here)?;
                root.bind(&system, here)?;
            }
        }
        let file = root.path(PROGRAMS).join("pleach");
        for dir in [PROGRAMS, "tmp", "data"] {
            fs::create_dir(root.path(dir))?;
        }
        File::create(&file)?;
        root.bind(&command::target_dir().join("release/pleach"), file)?;
        Ok(root)
    }

    fn bind(&mut self, from: &Path, to: PathBuf) -> Result<()> {
        output(program("mount").arg("--rbind").args([from, &to]))?;
        self.mounted.push(to);
        Ok(())
    }

    /// The path outside for a path in the root.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.filesystem.path().join(path.trim_start_matches('/'))
    }

    /// Runs a line of a shell. Returns all output, in the order in which a terminal shows it.
    pub(crate) fn shell(&self, line: &str) -> Result<String> {
        let mut shell = program("chroot");
        shell.arg(self.filesystem.path()).args(["env", "-i"]).args(VARIABLES);
        output(shell.args(["sh", "-c", &format!("exec 2>&1\n{line}")]))
    }

    /// Runs a line on a terminal of this size. Returns everything that was sent to the terminal.
    pub(crate) fn terminal(&self, line: &str, columns: u16, rows: u16) -> Result<String> {
        let mut script = program("chroot");
        script.arg(self.filesystem.path()).args(["env", "-i"]).args(VARIABLES);
        script.args(["script", "--quiet", "--return", "--command"]);
        output(script.arg(format!("stty cols {columns} rows {rows}; {line}")).arg("/dev/null"))
    }

    /// Writes bytes that do not repeat, at an offset of a file. The same seed gives the same bytes.
    pub(crate) fn write(&self, path: &str, offset: u64, length: usize, seed: u64) -> Result<()> {
        let path = self.path(path);
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let file = File::options().write(true).create(true).truncate(false).open(&path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        file.write_all_at(&Noise::from(seed).bytes(length), offset)
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        for path in self.mounted.iter().rev() {
            if let Err(error) = output(program("umount").arg("--recursive").arg(path)) {
                eprintln!("xtask: {error:#}");
            }
        }
    }
}
