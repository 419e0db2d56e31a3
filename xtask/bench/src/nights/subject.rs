//! The data that changes between two snapshots: an image, rewritten by blocks or as a whole, many small files, and a
//! database under pgbench.

use crate::small_files::SmallFiles;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::{find, output, program};
use xtask::noise::Noise;

const BLOCK: u64 = 4096;
/// One block, or one small file, in this many changes.
const CHANGING: u64 = 100;
const IN_DIRECTORY: u64 = 1000;
/// Transactions per round and unit of the database's scale: they change about one block in a hundred.
const TRANSACTIONS: u32 = 14;

/// The changing data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject {
    /// The image of a virtual machine.
    Image {
        /// Its size.
        bytes: u64,
        /// One block in this many changes.
        changing: u64,
    },
    /// Files of one or two blocks.
    Small {
        /// Their number.
        files: u64,
    },
    /// The data directory of PostgreSQL.
    Database {
        /// pgbench's scale.
        scale: u32,
    },
}

/// An image of this size, which changes as much as the other data.
pub(super) fn image(bytes: u64) -> Subject {
    Subject::Image { bytes, changing: CHANGING }
}

/// A database of this scale, if PostgreSQL is installed.
pub(super) fn database(scale: u32) -> Option<Subject> {
    (postgres("initdb").is_some() && postgres("pgbench").is_some()).then_some(Subject::Database { scale })
}

impl Subject {
    pub(super) fn name(self) -> &'static str {
        match self {
            Subject::Image { .. } => "image",
            Subject::Small { .. } => "small files",
            Subject::Database { .. } => "PostgreSQL",
        }
    }

    /// The approximate size.
    pub(super) fn size(self) -> u64 {
        match self {
            Subject::Image { bytes, .. } => bytes,
            Subject::Small { files } => files * 3 * BLOCK,
            Subject::Database { scale } => ((u64::from(scale) * 16) << 20) + (2 << 30),
        }
    }

    /// Creates the data in an empty directory.
    pub(crate) fn make(self, dir: &Path) -> Result<()> {
        match self {
            Subject::Image { bytes, .. } => write_image(&dir.join("image"), bytes, |_| false),
            Subject::Small { files } => write_small(dir, files),
            Subject::Database { scale } => {
                let server = Server::new(dir)?;
                server.run("initdb", ["--no-sync", "--auth=trust", "-D"], Some(&server.data))?;
                server.while_up(|| server.run("pgbench", ["-i", "-q", "-s", &scale.to_string(), "postgres"], None))
            }
        }
    }

    /// Changes some of the blocks in place.
    pub(crate) fn change(self, dir: &Path, round: u32) -> Result<()> {
        let mut noise = Noise::from(u64::from(round) + 1000);
        match self {
            Subject::Image { bytes, changing } => {
                let file = File::options().write(true).open(dir.join("image"))?;
                for block in some_of(bytes / BLOCK, changing, &mut noise) {
                    file.write_all_at(&noise.bytes(BLOCK as usize), block * BLOCK)?;
                }
                Ok(file.sync_all()?)
            }
            Subject::Small { files } => some_of(files, CHANGING, &mut noise).into_iter().try_for_each(|number| {
                let file = File::options().write(true).open(small(dir, files).path(number))?;
                Ok(file.write_all_at(&noise.bytes(BLOCK as usize), 0)?)
            }),
            Subject::Database { scale } => {
                let server = Server::new(dir)?;
                let transactions = (scale * TRANSACTIONS / 4).to_string();
                let seed = format!("--random-seed={}", round + 1);
                server
                    .while_up(|| server.run("pgbench", ["-n", "-c", "4", "-t", &transactions, &seed, "postgres"], None))
            }
        }
    }

    /// Rewrites an image, with some of its blocks changed.
    pub(super) fn rewrite(self, dir: &Path) -> Result<()> {
        let Subject::Image { bytes, .. } = self else { return Ok(()) };
        fs::remove_file(dir.join("image"))?;
        let mut noise = Noise::from(2000);
        let mut chosen = 0;
        write_image(&dir.join("image"), bytes, move |block| {
            if block % CHANGING == 0 {
                chosen = noise.number() % CHANGING;
            }
            block % CHANGING == chosen
        })
    }
}

/// One number in `changing` of those below `all`, in random order, as a machine writes.
fn some_of(all: u64, changing: u64, noise: &mut Noise) -> Vec<u64> {
    let mut some: Vec<_> = (0..all / changing).map(|n| n * changing + noise.number() % changing).collect();
    for n in (1..some.len()).rev() {
        some.swap(n, (noise.number() % (n as u64 + 1)) as usize);
    }
    some
}

/// A tree of small files.
fn small(tree: &Path, files: u64) -> SmallFiles<'_> {
    SmallFiles { tree, files, in_directory: IN_DIRECTORY }
}

/// Writes small files. None is so small that Btrfs keeps it in its tree.
fn write_small(dir: &Path, files: u64) -> Result<()> {
    let mut noise = Noise::from(1);
    small(dir, files).fill(|_, mut file| {
        let size = BLOCK + noise.number() % BLOCK;
        Ok(file.write_all(&noise.bytes(size as usize))?)
    })
}

/// Writes the image. Its content is always the same, except for the blocks that must differ.
fn write_image(path: &Path, bytes: u64, mut is_other: impl FnMut(u64) -> bool) -> Result<()> {
    let mut file = File::create(path)?;
    let (mut noise, mut others) = (Noise::from(1), Noise::from(77));
    let mut buffer = Vec::with_capacity(1 << 20);
    for block in 0..bytes / BLOCK {
        let content = noise.bytes(BLOCK as usize);
        buffer.extend(if is_other(block) { others.bytes(BLOCK as usize) } else { content });
        if buffer.len() == buffer.capacity() {
            file.write_all(&buffer)?;
            buffer.clear();
        }
    }
    file.write_all(&buffer)?;
    Ok(file.sync_all()?)
}

/// A program of PostgreSQL. Debian keeps most of them outside the default `PATH`.
fn postgres(name: &str) -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<_> =
        versions.map(|version| version.path().join("bin").join(name)).filter(|path| path.is_file()).collect();
    found.sort();
    found.pop().or_else(|| find(name))
}

/// The directory of the server's socket: the path of a socket must be short.
const SOCKETS: &str = "/tmp";
const PORT: &str = "54329";

/// A database server of our own, in a directory, for the duration of some work. It does not run as root.
struct Server {
    data: PathBuf,
}

impl Server {
    fn new(dir: &Path) -> Result<Server> {
        let data = dir.join("data");
        if !data.exists() {
            fs::create_dir(&data)?;
            output(program("chown").arg("postgres:").arg(&data))?;
        }
        Ok(Server { data })
    }

    fn command(&self, name: &str) -> Result<Command> {
        let mut command = program("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
        command.arg(postgres(name).with_context(|| format!("there is no {name}"))?).current_dir("/");
        command.env("PGHOST", SOCKETS).env("PGPORT", PORT).env("LC_ALL", "C");
        Ok(command)
    }

    fn run<'a>(&self, name: &str, args: impl IntoIterator<Item = &'a str>, path: Option<&Path>) -> Result<()> {
        output(self.command(name)?.args(args).args(path)).map(drop)
    }

    fn while_up(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let control = |what: &[&str]| output(self.command("pg_ctl")?.arg("-D").arg(&self.data).args(what)).map(drop);
        let options = format!("-k {SOCKETS} -p {PORT} -c listen_addresses= -c fsync=off");
        // The log goes to a file: with our pipe, the server would keep the pipe open.
        control(&["-w", "-s", "-l", "/dev/null", "-o", &options, "start"])?;
        let done = work();
        control(&["-w", "-s", "-m", "fast", "stop"])?;
        done
    }
}
