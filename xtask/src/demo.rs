//! `cargo xtask demo`: the main job, for someone who sees it for the first time.
//!
//! A shell runs every command exactly as shown, followed by its real output.

use crate::command::{self, cargo, program, run};
use crate::image::{Kind, Mounted};
use crate::namespace::{self, Rights};
use crate::packages;
use crate::rundir::RunDir;
use crate::space;
use crate::vendor::{self, Census};
use anyhow::{Context, Result, ensure};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs the chore.
pub(crate) fn run_demo() -> Result<ExitCode> {
    if let Some(dir) = namespace::inside()? {
        let place = mount_point(&dir);
        let fs = Mounted::create_at(Kind::Xfs, &dir, "demo", 4096, &place)?;
        println!("A fresh XFS, in an image under {}, is mounted at {}.", dir.display(), place.display());
        show(fs.path())?;
        drop(fs);
        println!("\nThe filesystem is unmounted and its image removed.");
        return Ok(ExitCode::SUCCESS);
    }
    run(cargo().args(["build", "--release", "--package", "pleach"]))?;
    vendor::own_dependencies()?;
    let missing = packages::install(packages::MOUNTING)?;
    let rights = Rights::best();
    let obstacle = match &missing[..] {
        [] => namespace::obstacle(rights),
        missing => Some(format!("not installed: {}", missing.join(", "))),
    };
    let dir = RunDir::create("demo")?;
    let Some(reason) = obstacle else {
        return namespace::enter(dir.path(), rights);
    };
    println!("No XFS CAN BE MOUNTED HERE ({reason}).");
    println!("The demo runs on the present filesystem. Unless that is XFS or Btrfs, data is copied and not shared.");
    show(dir.path())?;
    println!("\nThe demo's files are removed.");
    Ok(ExitCode::SUCCESS)
}

/// Short paths are easier to read. Mounting hides the content of `/mnt` from this namespace only.
fn mount_point(dir: &Path) -> PathBuf {
    let short = Path::new("/mnt");
    if short.is_dir() && !command::root().starts_with(short) && !dir.starts_with(short) {
        short.into()
    } else {
        dir.join("demo")
    }
}

fn show(place: &Path) -> Result<()> {
    let project = place.join("project");
    vendor::copy_plainly(&vendor::own_dependencies()?, &project)?;
    let census = Census::of(&project)?;
    println!(
        "In it: the sources of pleach's own dependencies, {} files in {} directories, {}.",
        census.files,
        census.dirs,
        mebibytes(census.bytes)
    );
    let crates = Crates::choose(&project)?;
    let [changed, added, removed, renamed] = &crates.edited;
    let (project, backup) = (project.display(), place.join("backup"));
    let repo = backup.display();

    chapter("The first night");
    shell(&format!("pleach snapshot {project} {repo}"))?;

    chapter("A day's work: some files change, some come, some go, some get another name");
    shell(&format!("find {project}/{changed} -name '*.rs' -exec sed -i '1i // A new first line.' {{}} +"))?;
    shell(&format!("cp -r {project}/{added} {project}/a-new-one"))?;
    shell(&format!("rm -r {project}/{removed}"))?;
    shell(&format!("mv {project}/{renamed} {project}/another-name"))?;

    chapter("The second night");
    let before = space::used(place)?;
    shell(&format!("df -h {}", place.display()))?;
    shell(&format!("pleach snapshot {project} {repo}"))?;
    let cost = space::used(place)?.saturating_sub(before);
    shell(&format!("df -h {}", place.display()))?;
    let after = Census::of(&place.join("project"))?;
    println!(
        "\nThe second snapshot holds {} files, {}. On disk it took {}.",
        after.files,
        mebibytes(after.bytes),
        mebibytes(cost)
    );

    chapter("Both are there, as plain trees");
    shell(&format!("pleach list {repo}"))?;
    shell(&format!("ls -l {repo}"))?;
    shell(&format!("diff -r {project} {repo}/latest{project} && echo 'no difference'"))?;

    chapter("One unchanged file, three times: the work, the first night, the second night");
    let first = first_snapshot(&backup)?;
    let file = crates.unchanged.display();
    shell(&format!("pleach fiemap {file} {repo}/{first}{file} {repo}/latest{file}"))
}

fn chapter(title: &str) {
    println!("\n── {title}");
}

/// Shows a command line, and runs it with its output on the terminal.
fn shell(line: &str) -> Result<()> {
    println!("\n$ {line}");
    let binaries = command::target_dir().join("release");
    let mut path = binaries.into_os_string();
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_default());
    let mut shell = program("sh");
    run(shell.args(["-c", line]).env("PATH", path).env_remove("PLEACH_REPO"))
}

/// The crates that the day's work edits, and an untouched file.
struct Crates {
    edited: [String; 4],
    unchanged: PathBuf,
}

impl Crates {
    fn choose(project: &Path) -> Result<Crates> {
        let mut crates = Vec::new();
        for entry in fs::read_dir(project)? {
            let entry = entry?;
            crates.push((Census::of(&entry.path())?.files, entry.file_name().to_string_lossy().into_owned()));
        }
        crates.sort();
        ensure!(crates.len() > 20, "too few dependencies were vendored in {}", project.display());
        // Neither the smallest nor the largest crates.
        let middle = crates.len() * 3 / 4;
        let edited = [0, 1, 2, 3].map(|next| crates[middle + next].1.clone());
        let (_, largest) = &crates[crates.len() - 1];
        Ok(Crates { edited, unchanged: largest_file(&project.join(largest))? })
    }
}

fn largest_file(dir: &Path) -> Result<PathBuf> {
    let (mut largest, mut waiting) = ((0, PathBuf::new()), vec![dir.to_path_buf()]);
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            let meta = entry.metadata()?;
            if meta.is_dir() {
                waiting.push(entry.path());
            } else if meta.is_file() && meta.len() > largest.0 {
                largest = (meta.len(), entry.path());
            }
        }
    }
    Ok(largest.1)
}

fn first_snapshot(repo: &Path) -> Result<String> {
    let names = fs::read_dir(repo)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names = names.collect::<Result<Vec<_>>>()?;
    let snapshots = names.into_iter().filter(|name| name != "latest" && !name.starts_with('.'));
    snapshots.min().context("no snapshot was made")
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
