//! A damaged store: `check` finds the damage, and `restore` does not pass it on.

use super::lines::{CheckSums, sums};
use super::stores::{Backend, Store};
use super::two_nights;
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// A store with two snapshots.
fn store(fs: &Filesystem) -> Store {
    let (_, repo) = two_nights(fs);
    let store = Store::made(fs, Backend::Local);
    store.push(&repo);
    store
}

/// The largest pack, which has the data.
fn largest_pack(fs: &Filesystem) -> PathBuf {
    let packs = tools::files(&fs.join("store/data"));
    packs.into_iter().max_by_key(|pack| fs::metadata(pack).unwrap().len()).expect("a pack")
}

/// Changes the byte in the middle of a file, which may be read-only.
fn flip(path: &PathBuf) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    let mut content = fs::read(path).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(path, content).unwrap();
}

/// Checks without the cache, which could hide the damage.
fn check(store: &Store, args: &[&OsStr]) -> Run {
    store.run("check", &[&["--no-cache".as_ref()], args].concat())
}

on_filesystems! {
    [xfs] fn a_flipped_byte_is_found_where_data_is_read(fs: &Filesystem) {
        let store = store(fs);
        check(&store, &["--read-data".as_ref()]).expect(0);
        flip(&largest_pack(fs));
        check(&store, &[]).expect(0);
        let run = check(&store, &["--read-data".as_ref()]).expect(4);
        let [damage, ..] = &run.lines_of_type("damage")[..] else { panic!("{run:?}") };
        assert!(damage["what"].is_string(), "{damage}");
        assert!(sums::<CheckSums>(&run).damaged > 0);
    }

    [xfs] fn a_lost_or_shortened_pack_is_found_at_once(fs: &Filesystem) {
        let store = store(fs);
        let pack = largest_pack(fs);
        let content = fs::read(&pack).unwrap();
        fs::set_permissions(&pack, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&pack, &content[..content.len() - 1]).unwrap();
        check(&store, &[]).expect(4);
        fs::remove_file(&pack).unwrap();
        check(&store, &[]).expect(4);
        fs::write(&pack, &content).unwrap();
        check(&store, &["--read-data".as_ref()]).expect(0);
    }

    [xfs] fn a_damaged_index_or_snapshot_is_damage_and_no_panic(fs: &Filesystem) {
        for dir in ["index", "snapshots"] {
            let fs = Filesystem::open(fs.kind, "offsite::damaged::file").expect("it is mounted");
            let store = store(&fs);
            let file = tools::files(&fs.join("store").join(dir)).pop().expect("a file");
            flip(&file);
            let run = check(&store, &[]);
            assert!([1, 4].contains(&run.status), "{dir}: {run:?}");
            assert!(!run.stderr.contains("panicked") && !run.stderr.is_empty(), "{dir}: {run:?}");
        }
    }

    [xfs] fn a_restore_from_a_damaged_store_fails_and_says_what(fs: &Filesystem) {
        let store = store(fs);
        flip(&largest_pack(fs));
        let to = fs.join("to");
        let run = store.run("restore", &["--target".as_ref(), to.as_ref(), "--no-cache".as_ref()]);
        assert!([1, 3, 4].contains(&run.status), "{run:?}");
        assert!(!run.stderr.contains("panicked") && !run.stderr.is_empty(), "{run:?}");
    }

    [xfs] fn a_damaged_config_or_key_is_no_panic(fs: &Filesystem) {
        let store = store(fs);
        let key = tools::files(&fs.join("store/keys")).pop().expect("a key");
        for file in [fs.join("store/config"), key] {
            let content = fs::read(&file).unwrap();
            flip(&file);
            let run = store.run("list", &[]);
            assert!([1, 4].contains(&run.status) && !run.stderr.contains("panicked"), "{run:?}");
            fs::write(&file, b"").unwrap();
            let run = store.run("list", &[]);
            assert!([1, 4].contains(&run.status) && !run.stderr.contains("panicked"), "{run:?}");
            fs::write(&file, content).unwrap();
        }
        store.run("list", &[]).expect(0);
    }
}
