//! `cargo xtask xfstests`: the cases of xfstests that run `duperemove`, with pleach in its place, on XFS and Btrfs.
//!
//! generic/559 deduplicates one large file, generic/560 trees of random files, generic/561 files that other programs
//! change meanwhile. Each compares checksums before and after. xfstests must be installed. Its other cases of sharing
//! are remade in `tests/kernel_cases.rs`.

use crate::command::{self, cargo, program};
use crate::image::{Kind, Mounted};
use crate::namespace::{self, Rights};
use crate::packages::{self, Tools};
use crate::rundir::RunDir;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::env;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The options of `cargo xtask xfstests`.
#[derive(Args)]
pub(crate) struct Options {
    /// The directory where xfstests is installed
    ///
    /// The default is $XFSTESTS_DIR, or /var/lib/xfstests.
    #[arg(long, value_name = "PATH")]
    dir: Option<PathBuf>,
}

/// Where `make install` puts xfstests.
const INSTALLED: &str = "/var/lib/xfstests";
const CASES: &[&str] = &["generic/559", "generic/560", "generic/561"];
const KINDS: [Kind; 2] = [Kind::Xfs, Kind::Btrfs];
/// The size of each image in MiB. generic/559 fills 2 GiB.
const SIZE: u64 = 6144;

/// Further tools that xfstests calls.
const CALLED: Tools = &[
    ("xfs_io", "xfsprogs"),
    ("awk", "gawk"),
    ("bc", "bc"),
    ("hostname", "hostname"),
    ("perl", "perl"),
    ("pkill", "procps"),
    ("setfattr", "attr"),
];

/// `duperemove` with the options that these cases use: `-d` deduplicates, `-b` is the size of a block, directories are
/// searched in any case. It keeps each exit status that is neither 0 nor 3. generic/561 sends SIGTERM, which must not
/// end it before pleach ends, because pleach holds files open.
const DUPEREMOVE: &str = r#"#!/bin/sh
mode=--dry-run
block=128K
while :; do
    case $1 in
    -d | -dr | -rd) mode= ;;
    -r | --dedupe-options=*) ;;
    -b) block=$2 && shift ;;
    -*) echo "the option $1 has no counterpart" >&2 && exit 2 ;;
    *) break ;;
    esac
    shift
done
trap : TERM
"$PLEACH_BINARY" dedupe --no-cache --ranges always --min-run "$block" $mode "$@"
status=$?
case $status in
0 | 3) ;;
*) echo "exit status $status of pleach dedupe $*" >>"$PLEACH_FAILURES" ;;
esac
exit $status
"#;

/// Runs the chore.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let suite = options.dir.clone().or_else(|| env::var_os("XFSTESTS_DIR").map(PathBuf::from));
    let suite = suite.unwrap_or_else(|| INSTALLED.into());
    if !suite.join("check").is_file() {
        bail!(
            "xfstests is not in {}: clone git://git.kernel.org/pub/scm/fs/xfs/xfstests-dev.git, install the packages \
             that its README names, run `make` and `make install`; or name its directory with --dir or XFSTESTS_DIR",
            suite.display()
        );
    }
    if let Some(dir) = namespace::inside()? {
        return run_cases(&dir, &suite);
    }
    let missing = packages::install(packages::MOUNTING.iter().chain(CALLED))?;
    if !missing.is_empty() {
        bail!("install {} first", missing.join(", "));
    }
    if let Some(reason) = namespace::obstacle(Rights::Root) {
        bail!("filesystems cannot be mounted here: {reason}");
    }
    command::run(cargo().args(["build", "--release", "--package", "pleach"]))?;
    let dir = RunDir::create("xfstests")?;
    namespace::enter(dir.path(), Rights::Root)
}

/// Runs the cases on each filesystem.
fn run_cases(dir: &Path, suite: &Path) -> Result<ExitCode> {
    let mut failures = Vec::new();
    for kind in KINDS {
        println!("{}", kind.title());
        failures.extend(run_on(kind, dir, suite)?.into_iter().map(|failure| format!("{}: {failure}", kind.title())));
    }
    failures.iter().for_each(|failure| println!("{failure}"));
    println!("the results are in {}", results().display());
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Where xfstests leaves its results. They outlive the run.
fn results() -> PathBuf {
    command::target_dir().join("xtask/xfstests")
}

/// Runs the cases on one filesystem. Returns what failed.
fn run_on(kind: Kind, dir: &Path, suite: &Path) -> Result<Vec<String>> {
    let [test, scratch] = ["test", "scratch"].map(|name| Device::create(kind, dir, &format!("{}-{name}", kind.name())));
    let (test, scratch) = (test?, scratch?);
    let config = dir.join("local.config");
    fs::write(
        &config,
        format!(
            "export FSTYP={}\nexport TEST_DEV={}\nexport TEST_DIR={}\nexport SCRATCH_DEV={}\nexport SCRATCH_MNT={}\n",
            kind.name(),
            test.name,
            test.mount_point.display(),
            scratch.name,
            scratch.mount_point.display()
        ),
    )?;
    let programs = dir.join("programs");
    fs::create_dir_all(&programs)?;
    let duperemove = programs.join("duperemove");
    fs::write(&duperemove, DUPEREMOVE)?;
    fs::set_permissions(&duperemove, fs::Permissions::from_mode(0o755))?;
    let mut path = programs.into_os_string();
    path.push(":");
    path.push(command::search_path());

    let (results, failed) = (results().join(kind.name()), dir.join(format!("{}-failures", kind.name())));
    fs::create_dir_all(&results)?;
    let mut check = program("bash");
    check.arg("./check").args(CASES).current_dir(suite).env("PATH", path);
    check.env("HOST_OPTIONS", &config).env("RESULT_BASE", &results);
    check.env("PLEACH_BINARY", command::target_dir().join("release/pleach")).env("PLEACH_FAILURES", &failed);
    let status = check.status().with_context(|| format!("cannot run {}", command::line(&check)))?;

    let mut failures = Vec::new();
    if !status.success() {
        failures.push(format!("xfstests failed ({status})"));
    }
    // A case that cannot run is not a failure for xfstests.
    for case in CASES {
        if let Ok(reason) = fs::read_to_string(results.join(format!("{case}.notrun"))) {
            failures.push(format!("{case} did not run: {}", reason.trim()));
        }
    }
    if let Ok(lines) = fs::read_to_string(&failed) {
        failures.extend(lines.lines().map(String::from));
    }
    Ok(failures)
}

/// A loop device with a fresh filesystem that is not mounted: xfstests mounts it, again and again.
struct Device {
    name: String,
    mount_point: PathBuf,
    /// A loop device of `mount` disappears when nobody uses it any more.
    _open: File,
}

impl Device {
    fn create(kind: Kind, dir: &Path, name: &str) -> Result<Device> {
        let mounted = Mounted::create(kind, dir, name, SIZE)?;
        let (name, mount_point) = (mounted.device()?, mounted.path().to_path_buf());
        let open = File::open(&name).with_context(|| format!("cannot open {name}"))?;
        // Unmounts it.
        drop(mounted);
        Ok(Device { name, mount_point, _open: open })
    }
}
