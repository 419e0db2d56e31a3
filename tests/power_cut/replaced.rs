//! A tree that was being replaced when the power was cut.

use super::trees::{Versions, looks};
use super::*;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;

/// How a command replaces files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Each file as a whole: it is always the older or the newer version.
    Whole,
    /// In place: a file may be incomplete, and then looks so.
    InPlace,
}

/// Checks such a tree. Every old file is still there, in its older or its newer version, if the command replaces whole
/// files. A file with the size and time of the newer version has its content, because the next run relies on these.
pub(super) fn check(manner: Manner, versions: &Versions, there: &Path, faults: &mut Faults) {
    let names = |dir: &Path| -> BTreeSet<PathBuf> {
        let files = tools::files(dir).into_iter();
        files.map(|file| file.strip_prefix(dir).expect("it is below").to_path_buf()).collect()
    };
    let (old, new) = (names(&versions.old), names(&versions.new));
    for name in old.union(&new) {
        let path = there.join(name);
        let was = old.contains(name).then(|| versions.old.join(name));
        let will_be = new.contains(name).then(|| versions.new.join(name));
        let content = match fs::read(&path) {
            Ok(content) => content,
            Err(error) if was.is_some() => {
                faults.push(format!("{}: {error}, though an older version was there", name.display()));
                continue;
            }
            Err(_) => continue,
        };
        let is = |version: &Option<PathBuf>| {
            version.as_ref().is_some_and(|path| fs::read(path).is_ok_and(|is| is == content))
        };
        if is(&was) || is(&will_be) {
            continue;
        }
        if was.is_some() && manner == Manner::Whole {
            faults.push(format!("{}: neither the older nor the newer content, {}", name.display(), looks(&content)));
        } else if let Some(original) = will_be {
            let facts =
                |path: &Path| fs::metadata(path).map(|meta| (meta.size(), meta.mtime(), meta.mtime_nsec())).ok();
            if facts(&path) == facts(&original) {
                faults.push(format!("{}: has its size and time, but {}", name.display(), looks(&content)));
            }
        }
    }
}
