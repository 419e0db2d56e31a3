//! What a package installs: the program, its man pages and completions, the units, the documents.

use super::build::Arch;
use super::release::Release;
use crate::command::{self, output, program, run};
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The completions: the shell, and where it looks for them.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/pleach"),
    ("zsh", "usr/share/zsh/vendor-completions/_pleach"),
    ("fish", "usr/share/fish/vendor_completions.d/pleach.fish"),
];

const UNITS: &[&str] = &["pleach@.service", "pleach@.timer"];

/// Makes the tree of a package. `runnable` is the same program for this machine.
pub(super) fn make(release: &Release, arch: Arch, binary: &Path, runnable: &Path) -> Result<PathBuf> {
    let root = release.dir.join(format!("tree-{}", arch.name()));
    let put = |path: &str, content: &[u8], mode: u32| -> Result<()> {
        let path = root.join(path);
        fs::create_dir_all(path.parent().context("a file has a directory")?)?;
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(fs::set_permissions(&path, fs::Permissions::from_mode(mode))?)
    };
    put("usr/bin/pleach", &fs::read(binary)?, 0o755)?;
    for (shell, path) in COMPLETIONS {
        put(path, output(program(runnable).args(["completions", shell]))?.as_bytes(), 0o644)?;
    }
    let pages = root.join("usr/share/man/man1");
    run(program(runnable).args(["man", "--quiet"]).arg(&pages))?;
    for page in fs::read_dir(&pages)? {
        run(program("gzip").args(["-9", "--no-name"]).arg(page?.path()))?;
    }
    let sources = command::root();
    for unit in UNITS {
        let text = fs::read_to_string(sources.join("docs/systemd").join(unit))?;
        put(&format!("usr/lib/systemd/system/{unit}"), packaged(&text).as_bytes(), 0o644)?;
    }
    let documents = "usr/share/doc/pleach";
    put(&format!("{documents}/README.md"), &fs::read(sources.join("README.md"))?, 0o644)?;
    put(&format!("{documents}/copyright"), copyright(sources)?.as_bytes(), 0o644)?;
    for page in documents_of(&sources.join("docs"))? {
        let name = page.strip_prefix(sources)?.to_str().context("a document has a plain name")?;
        put(&format!("{documents}/{name}"), &fs::read(&page)?, 0o644)?;
    }
    Ok(root)
}

/// A unit as a package has it: the program is in another directory.
fn packaged(unit: &str) -> String {
    let lines = unit.lines().filter(|line| !line.starts_with("# Install it in"));
    let lines = lines.map(|line| line.replace("/usr/local/bin/", "/usr/bin/") + "\n");
    lines.collect()
}

fn copyright(sources: &Path) -> Result<String> {
    let licences = ["LICENSE-MIT", "LICENSE-APACHE"].map(|name| fs::read_to_string(sources.join(name)));
    let [mit, apache] = licences;
    Ok(format!("pleach is licensed under either of the following licences, at your choice.\n\n{}\n\n{}", mit?, apache?))
}

/// All files below a directory.
fn documents_of(dir: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, mut waiting) = (Vec::new(), vec![dir.to_path_buf()]);
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                if entry.file_name() != "systemd" {
                    waiting.push(entry.path());
                }
            } else {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packaged_unit_runs_the_packaged_program() {
        for unit in UNITS {
            let text = fs::read_to_string(command::root().join("docs/systemd").join(unit)).unwrap();
            let packaged = packaged(&text);
            assert!(!packaged.contains("/usr/local") && !packaged.contains("Install it in"), "{packaged}");
            assert_eq!(packaged.contains("ExecStart=/usr/bin/pleach "), text.contains("ExecStart"));
        }
    }
}
