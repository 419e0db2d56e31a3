//! The arguments of `pleach copy`.

use crate::content::copy;
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach copy photos /mnt/disk               to /mnt/disk/photos, merged with an existing directory
  pleach copy photos/. /mnt/disk/pictures    only its content
  pleach copy --verify vm.img /mnt/disk      read both back from the disk at the end, and compare
  pleach copy --engine clone vm.img new.img  clone it, or fail with the reason

SOURCE and DEST work as with 'cp -a', and the same metadata is kept: owners, modes, times, extended
attributes, ACLs, hard links, symbolic links, devices, holes, chattr flags, project ids. Each file is
written under a temporary name and renamed when it is complete; it replaces an existing file.
Symbolic links are copied as links, and none is followed in SOURCE or DEST. An interrupted copy
continues when it is run again: entries with the same type, size and modification time are not
copied again. When the command has finished, everything is on the disk.";

#[derive(Args, Debug)]
pub(crate) struct Copy {
    /// What to copy, and the destination
    ///
    /// The destination is a directory, or a new name for a single source.
    #[arg(value_name = "SOURCE... DEST", required = true, num_args = 1.., value_hint = clap::ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// Copy all sources into DIR, which must exist
    #[arg(short, long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) target_directory: Option<PathBuf>,
    /// Treat DEST as a normal file (like cp -T)
    #[arg(short = 'T', long, conflicts_with = "target_directory")]
    pub(crate) no_target_directory: bool,
    /// How to copy content
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    pub(crate) engine: Engine,
    /// Read everything back and compare
    ///
    /// At the end, the sources and the copies are read from the disk. The exit status is 4 if they differ.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) verify: bool,
    /// Do not enter other filesystems
    ///
    /// Their mount points are created as empty directories.
    #[arg(short = 'x', long)]
    pub(crate) one_file_system: bool,
    /// Only show what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// How to copy content: with the named engine, or with the best one for each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Engine(Option<copy::Engine>);

impl Engine {
    /// `auto`, and each engine.
    const CHOICES: [Engine; copy::Engine::ALL.len() + 1] = {
        let mut choices = [Engine(None); copy::Engine::ALL.len() + 1];
        let mut at = 0;
        while at < copy::Engine::ALL.len() {
            choices[at + 1] = Engine(Some(copy::Engine::ALL[at]));
            at += 1;
        }
        choices
    };

    /// The named engine.
    pub(crate) fn engine(self) -> Option<copy::Engine> {
        self.0
    }
}

/// The help text of an engine.
fn summary(engine: copy::Engine) -> &'static str {
    match engine {
        copy::Engine::Clone => "Share the extents, or fail",
        copy::Engine::CopyFileRange => "copy_file_range(2)",
        copy::Engine::Uring => "io_uring, many reads and writes at once",
        copy::Engine::Sendfile => "sendfile(2)",
        copy::Engine::Splice => "splice(2), through a pipe",
        copy::Engine::Mmap => "Write from the mapped source",
        copy::Engine::Buffered => "Read and write side by side",
    }
}

impl ValueEnum for Engine {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::CHOICES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self.0 {
            None => PossibleValue::new("auto").help("Clone if possible, otherwise whatever is fastest for the file"),
            Some(engine) => PossibleValue::new(engine.name()).help(summary(engine)),
        })
    }
}

impl Copy {
    /// Asserts that there is a source and a destination.
    ///
    /// # Errors
    /// The mistake in the paths, in a sentence.
    pub(super) fn settle(&self) -> Result<(), String> {
        match (&self.target_directory, &self.paths[..]) {
            (None, [only]) => {
                let only = crate::util::text::path(only);
                Err(format!("only one path was given, {only}: name what to copy, then where to"))
            }
            (None, [_, _, third, ..]) if self.no_target_directory => {
                let third = crate::util::text::path(third);
                Err(format!(
                    "with --no-target-directory there is one source and one destination; {third} is one too many"
                ))
            }
            _ => Ok(()),
        }
    }

    /// The sources and the destination.
    pub(crate) fn sources_and_destination(&self) -> (&[PathBuf], &Path) {
        match (&self.target_directory, self.paths.split_last()) {
            (Some(directory), _) => (&self.paths, directory),
            (None, Some((destination, sources))) => (sources, destination),
            // clap asks for one at least.
            (None, None) => (&[], Path::new("")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_can_be_given_by_its_name() {
        let named: Vec<_> = Engine::value_variants()
            .iter()
            .filter_map(|engine| Some((engine.to_possible_value()?.get_name().to_string(), engine.engine()?)))
            .collect();
        assert_eq!(named.len(), copy::Engine::ALL.len());
        assert!(named.iter().all(|(name, engine)| name == engine.name()), "{named:?}");
    }
}
