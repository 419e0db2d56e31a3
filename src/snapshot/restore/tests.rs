//! How much of the manifest a restore looks up.

use super::*;
use crate::monitor::Silent;
use crate::snapshot::create;
use crate::snapshot::manifest::lookups;
use std::fs;

/// Restores a chain of directories of this depth, with a file in each, twice, the second time with `delete`. Returns
/// how many directories the second restore looked up in the manifest by their path.
fn lookups_of_a_restore(depth: usize) -> u64 {
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let at = |name: &str| dir.path().join(name);
    let (source, repo, target) = (at("source"), at("repo"), at("target"));
    let mut deepest = source.clone();
    for _ in 0..depth {
        deepest.push("d");
        fs::create_dir_all(&deepest).unwrap();
        fs::write(deepest.join("a"), "").unwrap();
        fs::create_dir(deepest.join("e")).unwrap();
    }
    create::create(&[source.canonicalize().unwrap()], &repo, &create::Options::default(), &Silent).unwrap();
    let mut options = Options { target: target.clone(), ..Options::default() };
    restore(&repo, "latest", &[], &options, &Silent).unwrap();
    let deepest = target.join(deepest.canonicalize().unwrap().strip_prefix("/").unwrap());
    for name in ["b", "f"] {
        fs::write(deepest.join(name), "").unwrap();
    }
    options.delete = true;
    let before = lookups();
    let stats = restore(&repo, "latest", &[], &options, &Silent).unwrap();
    assert_eq!((stats.deleted, stats.new_entries, stats.errors), (2, 0, 0));
    lookups() - before
}

#[test]
fn nothing_is_looked_up_for_a_directory_to_delete_what_the_snapshot_does_not_have() {
    assert_eq!(lookups_of_a_restore(200), lookups_of_a_restore(20));
}
