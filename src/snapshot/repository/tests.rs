//! Repositories: made, refused, completed; snapshots staged, published, found; leftovers cleared.

use super::*;
use crate::error::ErrorKind;
use crate::monitor::Silent;
use crate::snapshot::manifest::{Header, Time, Totals, Writer};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use tempfile::TempDir;

fn repository() -> (TempDir, Repository) {
    let dir = tempfile::tempdir().unwrap();
    let repository = Repository::open_or_create(&dir.path().join("repo")).unwrap();
    (dir, repository)
}

fn stage(repository: &Repository, name: &str, created: i64) -> Staging {
    let staging = begin(repository, name, Start::Directory).unwrap();
    let header = Header {
        name: name.into(),
        created: Time { seconds: created, nanos: 0 },
        program: "p".into(),
        host: "h".into(),
        sources: vec![],
        tags: vec![],
        parent: None,
    };
    let writer = Writer::create(staging.create_manifest().unwrap(), &staging.manifest, &header).unwrap();
    writer.finish(&Totals::default()).unwrap();
    staging
}

fn publish(repository: &Repository, name: &str, created: i64) {
    let published = super::publish(repository, stage(repository, name, created), Latest::Moves).unwrap();
    assert!(published.is_settled() && published.errors().count() == 0);
}

fn names(repository: &Repository) -> Vec<String> {
    repository.listing().unwrap().snapshots.into_iter().map(|info| info.name).collect()
}

#[test]
fn a_missing_or_empty_directory_becomes_a_private_repository() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["missing", "empty", "formatted"] {
        let path = dir.path().join(name);
        if name != "missing" {
            fs::create_dir(&path).unwrap();
        }
        if name == "formatted" {
            fs::create_dir(path.join("lost+found")).unwrap();
        }
        assert!(Repository::open(&path).is_err());
        Repository::open_or_create(&path).unwrap();
        Repository::open(&path).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o700);
        assert_eq!(path.join(".pleach/partial").metadata().unwrap().mode() & 0o7777, 0o700);
    }
}

#[test]
fn what_is_no_repository_is_refused_in_words_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("foreign");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("letter"), "x").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let error = Repository::open_or_create(&path).unwrap_err();
    assert!(error.to_string().ends_with("Directory not empty"), "{error}");
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o755);
    assert!(!path.join(".pleach").exists());
    let error = Repository::open(&path).unwrap_err();
    assert!(error.to_string().contains("find a pleach repository"), "{error}");
    let error = Repository::open_or_create(&path.join("letter")).unwrap_err();
    assert!(error.to_string().contains("Not a directory"), "{error}");
    let error = Repository::open_or_create(&path.join("a/b")).unwrap_err();
    assert!(error.to_string().contains("mounted?"), "{error}");
    symlink("letter", dir.path().join("dangling")).unwrap();
    assert!(Repository::open_or_create(&dir.path().join("dangling")).is_err());
}

#[test]
fn a_half_made_repository_is_completed() {
    let dir = tempfile::tempdir().unwrap();
    for made in [&[][..], &["manifests"], &["manifests", "partial", "trash"]] {
        let path = dir.path().join(made.len().to_string());
        fs::create_dir_all(path.join(".pleach")).unwrap();
        made.iter().for_each(|part| fs::create_dir(path.join(".pleach").join(part)).unwrap());
        assert!(Repository::open(&path).is_err());
        let repository = Repository::open_or_create(&path).unwrap();
        publish(&repository, "one", 1);
        assert_eq!(names(&repository), ["one"]);
    }
}

#[test]
fn an_unknown_format_is_refused_with_both_versions() {
    let (dir, _) = repository();
    fs::write(dir.path().join("repo/.pleach/format"), "pleach repository, format 7\n").unwrap();
    let error = Repository::open(&dir.path().join("repo")).unwrap_err().to_string();
    assert!(error.contains("format 7") && error.contains("format 1"), "{error}");
}

#[test]
fn a_second_lock_is_refused_until_the_first_is_gone() {
    let (_dir, repository) = repository();
    let lock = repository.lock(&Silent).unwrap();
    let error = repository.lock(&Silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    // Whoever has the lock, it is not a process that has ended.
    fs::write(repository.path().join(".pleach/lock"), u32::MAX.to_string()).unwrap();
    let error = repository.lock(&Silent).unwrap_err();
    assert!(error.to_string().contains("another run"), "{error}");
    let inherited = lock.file.try_clone().unwrap();
    drop(lock);
    repository.lock(&Silent).unwrap();
    drop(inherited);
}

#[test]
fn a_snapshot_appears_when_it_is_published_and_latest_points_at_it() {
    let (dir, repository) = repository();
    let repo = dir.path().join("repo");
    let staging = stage(&repository, "b", 1);
    assert!(names(&repository).is_empty());
    assert!(super::publish(&repository, staging, Latest::Stays).unwrap().is_settled());
    assert!(!repo.join("latest").exists());
    publish(&repository, "a", 2);
    assert_eq!(names(&repository), ["b", "a"], "by creation");
    assert_eq!(fs::read_link(repo.join("latest")).unwrap().to_str(), Some("a"));
    assert_eq!(fs::read_dir(repo.join(".pleach/partial")).unwrap().count(), 0);
    assert!(begin(&repository, "a", Start::Directory).is_err(), "taken");
    assert!(free_name(&repository, Some("a"), Time::default()).is_err(), "taken");
    assert_eq!(repository.manifest("a").unwrap().header().name, "a");
    repository.tree("a").unwrap();
}

#[test]
fn an_id_is_a_name_a_beginning_or_latest() {
    let (_dir, repository) = repository();
    assert!(repository.resolve("latest").unwrap_err().to_string().contains("it has none"));
    for (name, created) in [("2026-01", 3), ("2026-01-02", 2), ("2025-01", 1)] {
        publish(&repository, name, created);
    }
    let resolve = |id| repository.resolve(id).map(|info| info.name).map_err(|error| error.to_string());
    assert_eq!(resolve("2026-01").unwrap(), "2026-01", "a whole name is itself");
    assert_eq!(resolve("2025").unwrap(), "2025-01");
    assert_eq!(resolve("latest").unwrap(), "2026-01");
    let error = resolve("20").unwrap_err();
    assert!(error.contains("2025-01, 2026-01, 2026-01-02"), "{error}");
    assert!(resolve("x").is_err() && resolve("").is_err() && resolve("../x").is_err());
}

#[test]
fn a_damaged_manifest_is_a_problem_and_hides_no_other() {
    let (dir, repository) = repository();
    publish(&repository, "a", 1);
    publish(&repository, "b", 2);
    fs::write(dir.path().join("repo/.pleach/manifests/b"), "x").unwrap();
    let listing = repository.listing().unwrap();
    assert_eq!((listing.snapshots.len(), listing.problems.len()), (1, 1));
    assert_eq!(repository.resolve("latest").unwrap_err().kind(), ErrorKind::Damage);
    assert_eq!(repository.resolve("a").unwrap().name, "a");
}

#[test]
fn leftovers_of_killed_runs_are_cleared_and_block_nothing() {
    let (dir, repository) = repository();
    let repo = dir.path().join("repo");
    publish(&repository, "kept", 1);
    drop(stage(&repository, "killed", 2));
    fs::create_dir_all(repo.join(".pleach/partial/killed/tree/a/b/c")).unwrap();
    fs::write(repo.join(".pleach/partial/killed/tree/a/b/file"), "x").unwrap();
    fs::copy(repo.join(".pleach/manifests/kept"), repo.join(".pleach/manifests/gone")).unwrap();
    assert_eq!(names(&repository), ["kept"], "a manifest without its tree is not a snapshot");
    discard(&repository, stage(&repository, "killed", 3), 2, &Silent).unwrap();
    drop(stage(&repository, "killed", 4));
    clear_leftovers(&repository, &[], 2, &Clearing::new(&Silent)).unwrap();
    for place in ["partial", "trash"] {
        assert_eq!(fs::read_dir(repo.join(".pleach").join(place)).unwrap().count(), 0, "{place}");
    }
    assert!(!repo.join(".pleach/manifests/gone").exists());
    publish(&repository, "killed", 5);
    publish(&repository, "gone", 6);
    assert_eq!(names(&repository), ["kept", "killed", "gone"]);
}

#[test]
fn names_are_moments_and_never_taken_twice() {
    let (_dir, repository) = repository();
    let moment = Time { seconds: 1_795_140_000, nanos: 5 };
    let first = free_name(&repository, None, moment).unwrap();
    assert_eq!(first, "2026-11-20T020000Z");
    publish(&repository, &first, 1);
    assert_eq!(free_name(&repository, None, moment).unwrap(), "2026-11-20T020000Z-2");
}
