//! The archive and the packages, made from one tree.

use super::build::Arch;
use super::release::Release;
use crate::command::{output, program, run};
use anyhow::Result;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const SUMMARY: &str = "snapshots and deduplication with the reflinks of XFS and Btrfs";

const DESCRIPTION: &[&str] = &[
    "pleach takes snapshots of directories and deduplicates files. A file copied by",
    "reflink shares its blocks on the disk with the original until one of the two",
    "changes. Each snapshot is a plain directory tree that shares all unchanged data",
    "with the previous one.",
];

/// Has systemd read the units again, where it runs.
const RELOAD: &str = "if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi";
/// Before the program goes.
const STOP: &str = "if [ -d /run/systemd/system ]; then systemctl stop 'pleach@*.timer' || true; fi";

/// Makes all of them.
pub(super) fn make(release: &Release, arch: Arch, tree: &Path) -> Result<()> {
    archive(release, arch, tree)?;
    debian(release, arch, tree)?;
    rpm(release, arch, tree)
}

/// The archive unpacks below `/usr/local`, or anywhere else.
fn archive(release: &Release, arch: Arch, tree: &Path) -> Result<()> {
    let name = format!("pleach-{}-{}-linux", release.version, arch.name());
    let mut tar = program("tar");
    tar.current_dir(tree.join("usr")).arg("--create").arg("--file").arg(release.dir.join(format!("{name}.tar")));
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime"])
        .arg(format!("@{}", release.epoch));
    run(tar.arg(format!("--transform=s,^\\.,{name},")).arg("."))?;
    run(program("gzip").args(["-9", "--no-name"]).arg(release.dir.join(format!("{name}.tar"))))
}

fn debian(release: &Release, arch: Arch, tree: &Path) -> Result<()> {
    let control = tree.join("DEBIAN");
    fs::create_dir(&control)?;
    let sums = output(program("sh").current_dir(tree).args(["-c", "find usr -type f | LC_ALL=C sort | xargs md5sum"]))?;
    let size =
        output(program("du").args(["--summarize", "--apparent-size", "--block-size=1024"]).arg(tree.join("usr")))?;
    let size = size.split_whitespace().next().unwrap_or("0");
    let description = DESCRIPTION.iter().map(|line| format!(" {line}\n")).collect::<String>();
    let fields = format!(
        "Package: pleach\nVersion: {}\nArchitecture: {}\nMaintainer: The pleach developers\n\
         Installed-Size: {size}\nSuggests: openssh-client\nSection: admin\nPriority: optional\n\
         Description: {SUMMARY}\n{description}",
        release.version,
        arch.debian(),
    );
    let script = |command: &str| format!("#!/bin/sh\nset -e\n{command}\n");
    let stop = format!("if [ \"$1\" = remove ]; then\n{STOP}\nfi");
    for (name, content, mode) in [
        ("control", fields, 0o644),
        ("md5sums", sums, 0o644),
        ("postinst", script(RELOAD), 0o755),
        ("prerm", script(&stop), 0o755),
        ("postrm", script(RELOAD), 0o755),
    ] {
        fs::write(control.join(name), content)?;
        fs::set_permissions(control.join(name), fs::Permissions::from_mode(mode))?;
    }
    let mut build = program("dpkg-deb");
    build.env("SOURCE_DATE_EPOCH", &release.epoch).args(["--root-owner-group", "-Zxz", "--build"]).arg(tree);
    output(build.arg(release.dir.join(format!("pleach_{}_{}.deb", release.version, arch.debian()))))?;
    Ok(fs::remove_dir_all(control)?)
}

/// On Fedora, zsh looks for completions in another directory than on Debian.
fn rpm(release: &Release, arch: Arch, tree: &Path) -> Result<()> {
    let tree = tree.display();
    let spec = format!(
        "Name: pleach\nVersion: {version}\nRelease: 1\nSummary: {SUMMARY}\nLicense: MIT OR Apache-2.0\n\
         AutoReqProv: no\n%define debug_package %{{nil}}\n%define __os_install_post %{{nil}}\n\
         %define _build_id_links none\n%define source_date_epoch_from_changelog 0\n\
         %define use_source_date_epoch_as_buildtime 1\n%define clamp_mtime_to_source_date_epoch 1\n\
         %define _binary_payload w9.gzdio\n%define _buildhost localhost\n\
         %description\n{description}\n\
         %install\ncp -a {tree}/usr %{{buildroot}}/\n\
         mkdir %{{buildroot}}/usr/share/zsh/site-functions\n\
         mv %{{buildroot}}/usr/share/zsh/vendor-completions/_pleach %{{buildroot}}/usr/share/zsh/site-functions/\n\
         rmdir %{{buildroot}}/usr/share/zsh/vendor-completions\n\
         %post\n{RELOAD}\n%preun\nif [ \"$1\" = 0 ]; then\n{STOP}\nfi\n%postun\n{RELOAD}\n\
         %files\n%defattr(-,root,root)\n/usr/bin/pleach\n/usr/lib/systemd/system/*\n/usr/share/man/man1/*\n\
         /usr/share/bash-completion/completions/pleach\n/usr/share/zsh/site-functions/_pleach\n\
         /usr/share/fish/vendor_completions.d/pleach.fish\n%doc /usr/share/doc/pleach\n",
        version = release.version,
        description = DESCRIPTION.join("\n"),
    );
    let work = release.dir.join("rpm");
    fs::create_dir(&work)?;
    let path = work.join("pleach.spec");
    fs::write(&path, spec)?;
    let mut build = program("rpmbuild");
    build.env("SOURCE_DATE_EPOCH", &release.epoch).args(["-bb", "--quiet", "--target"]).arg(arch.name());
    build.arg("--define").arg(format!("_topdir {}", work.display()));
    build.arg("--define").arg(format!("_rpmdir {}", release.dir.display()));
    build.args(["--define", "_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm"]);
    output(build.arg(path))?;
    Ok(fs::remove_dir_all(work)?)
}
