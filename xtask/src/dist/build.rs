//! The programs: static, with musl, so that one file runs on each Linux.

use crate::command::{self, cargo, output, program, run};
use crate::packages::Tools;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use std::path::PathBuf;

/// The architectures of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum Arch {
    /// PCs and servers by Intel and AMD.
    #[value(name = "x86_64")]
    X86,
    /// 64-bit ARM.
    Aarch64,
}

impl Arch {
    /// The architecture of this machine.
    pub(super) fn own() -> Option<Arch> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Arch::X86),
            "aarch64" => Some(Arch::Aarch64),
            _ => None,
        }
    }

    /// Its name in Rust, Linux and RPM.
    pub(super) fn name(self) -> &'static str {
        match self {
            Arch::X86 => "x86_64",
            Arch::Aarch64 => "aarch64",
        }
    }

    /// Its name in Debian.
    pub(super) fn debian(self) -> &'static str {
        match self {
            Arch::X86 => "amd64",
            Arch::Aarch64 => "arm64",
        }
    }

    fn target(self) -> String {
        format!("{}-unknown-linux-musl", self.name())
    }

    /// The compiler of the few parts in C and assembler.
    fn compiler(self) -> &'static str {
        match (self, Arch::own()) {
            (own, Some(this)) if own == this => "musl-gcc",
            (Arch::X86, _) => "x86_64-linux-gnu-gcc",
            (Arch::Aarch64, _) => "aarch64-linux-gnu-gcc",
        }
    }

    /// The tools that its build needs.
    pub(super) fn tools(self) -> Tools {
        match (self, Arch::own()) {
            (own, Some(this)) if own == this => &[("musl-gcc", "musl-tools")],
            (Arch::X86, _) => &[("x86_64-linux-gnu-gcc", "gcc-x86-64-linux-gnu")],
            (Arch::Aarch64, _) => &[("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")],
        }
    }
}

/// Builds the program. Returns its path.
pub(super) fn build(arch: Arch, offsite: bool) -> Result<PathBuf> {
    let target = arch.target();
    let mut rustup = program("rustup");
    run(rustup.current_dir(command::root()).args(["--quiet", "target", "add", &target]))
        .context("a release needs rustup: https://rustup.rs")?;
    let mut build = cargo();
    let variable = target.replace('-', "_");
    build.env(format!("CC_{variable}"), arch.compiler());
    if Arch::own() != Some(arch) {
        build.env(format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase()), arch.compiler());
    }
    if arch == Arch::Aarch64 {
        // The helpers for newer processors are in a library of GNU's that musl lacks.
        build.env(format!("CFLAGS_{variable}"), "-mno-outline-atomics");
    }
    build.args(["build", "--locked", "--quiet", "--profile", "dist", "--package", "pleach", "--target", &target]);
    run(build.args(offsite.then_some("--features=offsite")))?;
    let binary = command::target_dir().join(target).join("dist/pleach");
    let kind = output(program("file").arg("--brief").arg(&binary))?;
    ensure!(kind.contains("static") && kind.contains("stripped") && !kind.contains("not stripped"), "{kind}");
    Ok(binary)
}
