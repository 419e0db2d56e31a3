//! The arguments of `pleach copy`.

use clap::{Args, ValueEnum};
use pleach::content::copy;
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach copy photos /mnt/disk              to /mnt/disk/photos, merged with an existing directory
  pleach copy photos/. /mnt/disk/pictures   only its content
  pleach copy --verify vm.img /mnt/disk     read both back from the disk at the end, and compare
  pleach copy --engine clone vm.img new.img clone it, or fail with the reason

SOURCE and DEST work as with 'cp -a', and the same metadata is kept: owners, modes, times, extended
attributes, ACLs, hard links, symbolic links, devices, holes, chattr flags, project ids. Each file is
written under a temporary name and renamed when it is complete; it replaces an existing file.
Symbolic links are copied as links, and none is followed in SOURCE or DEST. An interrupted copy
continues when it is run again: entries with the same type, size and modification time are not
copied again. When the command has finished, everything is on the disk.";

#[derive(Args, Debug)]
pub(crate) struct Copy {
    /// What to copy, and the destination: a directory, or a new name for a single source
    #[arg(value_name = "SOURCE... DEST", required = true, num_args = 1.., value_hint = clap::ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// Copy all sources into DIR, which must exist
    #[arg(short, long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) target_directory: Option<PathBuf>,
    /// Treat DEST as the name of the copy, even if it is a directory (like cp -T)
    #[arg(short = 'T', long, conflicts_with = "target_directory")]
    pub(crate) no_target_directory: bool,
    /// How to copy content; auto: clone if possible, otherwise whatever is fastest for the file
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    pub(crate) engine: Engine,
    /// Read sources and copies back at the end and compare their hashes; exit status 4 if they differ
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) verify: bool,
    /// Do not enter other filesystems; create their mount points as empty directories
    #[arg(short = 'x', long)]
    pub(crate) one_file_system: bool,
    /// Only show what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// How content is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// Clone if possible, otherwise whatever is fastest for the file
    Auto,
    /// Share the extents, or fail
    Clone,
    /// copy_file_range(2)
    #[value(name = "copy_file_range")]
    CopyFileRange,
    /// io_uring, many reads and writes at once
    Uring,
    /// sendfile(2)
    Sendfile,
    /// splice(2), through a pipe
    Splice,
    /// Write from the mapped source
    Mmap,
    /// Read and write side by side
    Buffered,
}

impl Engine {
    /// The engine that was named.
    pub(crate) fn engine(self) -> Option<copy::Engine> {
        Some(match self {
            Engine::Auto => return None,
            Engine::Clone => copy::Engine::Clone,
            Engine::CopyFileRange => copy::Engine::CopyFileRange,
            Engine::Uring => copy::Engine::Uring,
            Engine::Sendfile => copy::Engine::Sendfile,
            Engine::Splice => copy::Engine::Splice,
            Engine::Mmap => copy::Engine::Mmap,
            Engine::Buffered => copy::Engine::Buffered,
        })
    }
}

impl Copy {
    /// Asserts that there is a source and a destination.
    ///
    /// # Errors
    /// What is wrong with the paths, in a sentence.
    pub(super) fn settle(&self) -> Result<(), String> {
        match (&self.target_directory, &self.paths[..]) {
            (None, [only]) => {
                let only = pleach::util::text::path(only);
                Err(format!("only one path was given, {only}: name what to copy, then where to"))
            }
            (None, [_, _, third, ..]) if self.no_target_directory => {
                let third = pleach::util::text::path(third);
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
