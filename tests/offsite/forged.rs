//! What others can put into a store. Whoever can write there adds key files; whoever has the password too, as the
//! machine that pushes, adds anything.

use super::lines::{CheckSums, Listed, PruneSums, sums};
use super::stores::{Backend, Store};
use super::{below, in_store, library, take, two_nights};
use crate::harness::json_lines::Problem;
use crate::harness::*;
use crate::on_filesystems;
use rustic_core::repofile::SnapshotFile;
use sha2::{Digest as _, Sha256};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Adds snapshots to a store in a directory, made from those that it has.
#[track_caller]
fn forge(store: &Store, make: impl FnOnce(Vec<SnapshotFile>) -> Vec<SnapshotFile>) {
    let open = library::open(store);
    let found = open.get_all_snapshots().unwrap();
    open.save_snapshots(make(found)).unwrap();
}

/// The path of a sample for a store with the quick key.
fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/store").join(name)
}

/// The codes of the problems of a run.
#[track_caller]
fn codes(run: &Run) -> Vec<String> {
    run.lines::<Problem>().into_iter().map(|problem| problem.code).collect()
}

/// The pack with the directories, which is the smallest one.
fn pack_of_directories(fs: &Filesystem) -> PathBuf {
    let packs = tools::files(&fs.join("store/data"));
    packs.into_iter().min_by_key(|pack| fs::metadata(pack).unwrap().len()).expect("a pack")
}

/// A push after the first directory of its parent is lost or damaged says so, and does not count as complete.
#[track_caller]
fn assert_push_sees(fs: &Filesystem, harm: impl FnOnce(&Path)) {
    let (_, repo) = two_nights(fs);
    let store = Store::made(fs, Backend::Local);
    store.run("push", &[repo.as_ref(), "one".as_ref()]).expect(0);
    harm(&pack_of_directories(fs));
    let push = || store.run("push", &[repo.as_ref(), "--no-cache".as_ref()]);
    let run = push().expect(4);
    assert_eq!(codes(&run), ["damage"], "{run:?}");
    run.saying("offsite check");
    let again = push().expect(3);
    assert_eq!(codes(&again), ["incomplete"], "{again:?}");
    let mut command = store.program(env!("CARGO_BIN_EXE_pleach"));
    let words = finish(command.args(["offsite", "push", "--to", &store.url]).arg(&repo)).expect(3);
    assert!(!words.stdout.contains("lacks no snapshot"), "{words:?}");
}

on_filesystems! {
    [xfs] fn a_damaged_directory_of_the_parent_ends_a_push_with_damage(fs: &Filesystem) {
        assert_push_sees(fs, |pack| {
            fs::set_permissions(pack, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            overwrite(pack, 60, b"XXXX");
        });
    }

    [xfs] fn a_lost_directory_of_the_parent_ends_a_push_with_damage(fs: &Filesystem) {
        assert_push_sees(fs, |pack| fs::remove_file(pack).unwrap());
    }

    [xfs] fn files_that_the_library_drops_are_missing_at_once(fs: &Filesystem) {
        let (source, repo, store) = (fs.dir("source"), fs.join("repo"), Store::made(fs, Backend::Local));
        tree::plain(&source);
        take("one", &source, &repo);
        let config = fs.join("store/config");
        let sane = fs::read(&config).unwrap();
        fs::write(&config, fs::read(sample("config-chunks")).unwrap()).unwrap();
        let run = store.run("push", &[repo.as_ref()]).expect(3);
        assert_eq!(codes(&run), ["incomplete"], "{run:?}");
        run.saying("5 files");
        assert_eq!(codes(&store.run("push", &[repo.as_ref()]).expect(3)), ["incomplete"]);
        fs::write(&config, sane).unwrap();
        store.run("push", &[repo.as_ref(), "one".as_ref()]).expect(0);
        store.push(&repo);
        assert_eq!(in_store(&store), ["one"], "the whole one");
        tools::assert_equal_trees(&source, &below(&store.restores("one", fs.join("to")), &source));
        let kept: PruneSums = sums(&store.run("prune", &["--keep-last".as_ref(), "9".as_ref()]).expect(0));
        assert_eq!((kept.kept, kept.removed), (1, 1), "{kept:?}");
    }

    [xfs] fn settings_that_would_stall_a_push_are_refused(fs: &Filesystem) {
        let (_, repo) = two_nights(fs);
        let store = Store::made(fs, Backend::Local);
        fs::write(fs.join("store/config"), fs::read(sample("config-polynomial")).unwrap()).unwrap();
        store.run("push", &[repo.as_ref()]).expect(1).saying("polynomial");
    }

    [xfs] fn a_snapshot_that_claims_to_be_another_one_does_not_remove_it(fs: &Filesystem) {
        let (_, repo) = two_nights(fs);
        let store = Store::made(fs, Backend::Local);
        store.push(&repo);
        let real: Vec<_> = store.run("list", &[]).expect(0).lines::<Listed>().into_iter().map(|one| one.id).collect();
        forge(&store, |mut found| {
            let tree = found[0].tree;
            for snapshot in &mut found {
                snapshot.tree = tree;
                snapshot.summary.as_mut().unwrap().total_files_processed += 1;
            }
            found
        });
        let listed: Vec<_> = store.run("list", &[]).expect(0).lines::<Listed>().into_iter().map(|one| one.id).collect();
        assert!(listed.len() == 4 && real.iter().all(|id| listed.contains(id)), "{listed:?}");
        let kept: PruneSums = sums(&store.run("prune", &["--keep-last".as_ref(), "9".as_ref()]).expect(0));
        assert_eq!((kept.kept, kept.removed), (4, 0), "{kept:?}");
        let to = fs.join("to");
        // The two that are called so have different content.
        let other = |name: &str| store.run("restore", &["--target".as_ref(), to.as_ref(), name.as_ref()]);
        let refused = ["one", "two"].map(other).into_iter().filter(|run| run.status == 1).collect::<Vec<_>>();
        let [run] = &refused[..] else { panic!("{refused:?}") };
        assert!(run.stderr.contains("store's ID"), "{run:?}");
    }

    [xfs] fn further_key_files_neither_stop_nor_stall_a_command(fs: &Filesystem) {
        let (_, repo) = two_nights(fs);
        let store = Store::made(fs, Backend::Local);
        store.push(&repo);
        let data = "A".repeat(100);
        let scrypt = |n: u64, r: u64, p: u64| {
            format!(r#"{{"kdf":"scrypt","N":{n},"r":{r},"p":{p},"data":"{data}","salt":"{data}"}}"#)
        };
        let mut contents = vec![String::new(), "hello".into(), "[".repeat(100_000), scrypt(2, 8, 1).replace(&data, "")];
        let odd = [(0, 8, 1), (1, 8, 1), (2, 0, 1), (2, 8, 0), (1 << 22, 8, 1), (1 << 31, 8, 1), (2, 1 << 20, 1)];
        contents.extend(odd.map(|(n, r, p)| scrypt(n, r, p)));
        contents.push(scrypt(1 << 14, 8, 1_000_000));
        for content in &contents {
            let name: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
            write(fs.join("store/keys").join(name), content.as_bytes());
        }
        write(fs.join("store/keys").join("0".repeat(64)), scrypt(2, 8, 1).as_bytes());
        assert_eq!(in_store(&store), ["one", "two"]);
        let run = store.run("check", &[]).expect(4);
        assert_eq!(sums::<CheckSums>(&run).damaged, contents.len() as u64 + 1, "{run:?}");
        let mut wrong = store.pleach("list", [""; 0]);
        finish(wrong.env("RESTIC_PASSWORD", "not it")).expect(1).saying("wrong password").saying("keys/");
    }

    [xfs] fn many_lost_directories_are_an_error_and_no_bug(fs: &Filesystem) {
        let (_, repo) = two_nights(fs);
        let store = Store::made(fs, Backend::Local);
        store.push(&repo);
        forge(&store, |found| {
            let forged = |number: usize| {
                let mut snapshot = found[0].clone();
                snapshot.tree = format!("{number:064x}").parse::<rustic_core::Id>().unwrap().into();
                snapshot
            };
            (1..=40).map(forged).collect()
        });
        let rule: [&OsStr; 2] = ["--keep-last".as_ref(), "99".as_ref()];
        for _ in 0..5 {
            let run = store.run("prune", &rule);
            assert!([1, 4].contains(&run.status), "{run:?}");
            assert!(!run.stderr.contains("bug") && run.stderr.contains("prune the store"), "{run:?}");
        }
    }
}
