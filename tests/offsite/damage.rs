//! A damaged store: `check` finds the damage, and `restore` does not pass it on.

use super::lines::{CheckSums, RestoreSums, said, sums};
use super::stores::{Backend, Store};
use super::{below, take, two_nights};
use crate::harness::json_lines::Problem;
use crate::harness::*;
use crate::on_filesystems;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

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

/// A tree with many files, some of two names, and a store with a snapshot of it.
fn many_files(fs: &Filesystem) -> (PathBuf, Store) {
    let (source, repo) = (fs.dir("source"), fs.join("repo"));
    for number in 0..30 {
        fs::create_dir_all(source.join(format!("dir {}", number % 3))).unwrap();
        let file = source.join(format!("dir {}/file {number}", number % 3));
        write(&file, &bytes(700 + number, 150_000));
        tree::set_mtime(&file, 1_000_000_000 + number as i64, 5);
    }
    fs::hard_link(source.join("dir 0/file 15"), source.join("linked")).unwrap();
    write(source.join("empty"), b"");
    take("one", &source, &repo);
    let store = Store::made(fs, Backend::Local);
    store.push(&repo);
    (source, store)
}

/// Restores from a damaged store. All files that are not named in an error must be whole, with their metadata, and
/// the named ones absent. Returns the named ones.
#[track_caller]
fn assert_restores_the_rest(fs: &Filesystem, source: &Path, store: &Store, to: &str) -> BTreeSet<String> {
    let to = fs.join(to);
    let run = store.run("restore", &["--target".as_ref(), to.as_ref(), "--no-cache".as_ref()]).expect(4);
    assert!(!run.stderr.contains("panicked"), "{run:?}");
    let restored = below(&to, source);
    let named = |problem: Problem| {
        let path = PathBuf::from(problem.path.expect("an error has a path"));
        path.strip_prefix(&restored).expect("it is below the target").to_str().unwrap().to_string()
    };
    let names: BTreeSet<String> = run.lines::<Problem>().into_iter().map(named).collect();
    let sums: RestoreSums = sums(&run);
    assert_eq!(sums.errors, names.len() as u64, "{run:?}");
    // The same tree without these files, as rsync sees it. Directories have new times where something is removed.
    let expected = fs.dir("expected");
    finish(std::process::Command::new("cp").arg("-a").arg(source.join(".")).arg(&expected)).expect(0);
    for name in &names {
        fs::remove_file(expected.join(name)).unwrap();
    }
    for dir in ["dir 0", "dir 1", "dir 2", ""] {
        let time = fs::metadata(source.join(dir)).unwrap().modified().unwrap();
        fs::File::open(expected.join(dir)).unwrap().set_modified(time).unwrap();
    }
    tools::assert_equal_trees(&expected, &restored);
    names
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

    [xfs] fn the_cache_does_not_answer_for_the_store(fs: &Filesystem) {
        let store = store(fs);
        store.run("check", &[]).expect(0);
        for dir in ["index", "snapshots"] {
            let files = tools::files(&fs.join("store").join(dir));
            let contents: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
            files.iter().for_each(flip);
            let run = store.run("check", &["--read-data".as_ref()]).expect(4);
            let said = said(&run);
            assert!(said.contains(&format!("{dir}/")) && said.contains("hash"), "{run:?}");
            files.iter().zip(contents).for_each(|(file, content)| fs::write(file, content).unwrap());
        }
        store.run("check", &["--read-data".as_ref()]).expect(0);
    }

    [xfs] fn a_snapshot_in_the_place_of_another_one_is_damage(fs: &Filesystem) {
        let store = store(fs);
        let [one, other] = &tools::files(&fs.join("store/snapshots"))[..] else { panic!("two snapshots") };
        fs::set_permissions(other, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(other, fs::read(one).unwrap()).unwrap();
        let name = other.file_name().unwrap().to_str().unwrap();
        let no_cache = OsStr::new("--no-cache");
        for (verb, args) in [
            ("check", &[][..]),
            ("list", &[no_cache]),
            ("prune", &[no_cache, "--keep-last".as_ref(), "1".as_ref()]),
        ] {
            let run = store.run(verb, args).expect(4);
            let said = said(&run);
            assert!(said.contains(name) && said.contains("hash"), "{verb}: {run:?}");
        }
        assert!(one.exists() && other.exists());
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
            assert!(said(&run).contains(dir) && !run.stderr.contains("panicked"), "{dir}: {run:?}");
        }
    }

    [xfs] fn a_prune_of_a_damaged_store_removes_no_snapshot(fs: &Filesystem) {
        let store = store(fs);
        let index = tools::files(&fs.join("store/index")).pop().expect("a file");
        fs::set_permissions(&index, fs::Permissions::from_mode(0o600)).unwrap();
        // Of another length than the copy in the cache.
        fs::write(&index, &fs::read(&index).unwrap()[10..]).unwrap();
        let words: [&OsStr; 2] = ["--keep-last".as_ref(), "1".as_ref()];
        for words in [&[&["--dry-run".as_ref()], &words[..]].concat()[..], &words] {
            let run = store.run("prune", words);
            assert!([1, 4].contains(&run.status) && said(&run).contains("index"), "{run:?}");
            assert_eq!(tools::files(&fs.join("store/snapshots")).len(), 2);
        }
    }

    [xfs] fn a_file_that_the_disk_of_the_repository_cannot_read_is_damage(fs: &Filesystem) {
        let (source, repo) = two_nights(fs);
        let store = Store::made(fs, Backend::Local);
        let lost = repo.join("two").join(source.strip_prefix("/").unwrap()).join("new");
        let mut push = store.program("strace");
        push.args(["-f", "-qq", "-o", "/dev/null", "-e", "inject=read,pread64:error=EIO", "-P"]).arg(lost);
        push.args([env!("CARGO_BIN_EXE_pleach"), "offsite", "push", "--to", &store.url]).arg(repo);
        finish(&mut push).expect(4);
    }

    [xfs] fn damaged_data_costs_only_the_files_that_have_it(fs: &Filesystem) {
        let (source, store) = many_files(fs);
        flip(&largest_pack(fs));
        let names = assert_restores_the_rest(fs, &source, &store, "flipped");
        // Blocks of up to 2 MiB: the byte is in one file, and in one of two names of a file.
        assert!((1..=2).contains(&names.len()), "{names:?}");
    }

    [xfs] fn a_lost_pack_costs_only_the_files_in_it(fs: &Filesystem) {
        let (source, store) = many_files(fs);
        fs::remove_file(largest_pack(fs)).unwrap();
        let names = assert_restores_the_rest(fs, &source, &store, "lost");
        assert!(!names.is_empty() && !names.contains("empty"), "{names:?}");
        // A file of the right size without its content would look whole.
        let restored = below(&fs.join("lost"), &source);
        assert!(names.iter().all(|name| !restored.join(name).exists()));
    }

    [xfs] fn a_damaged_directory_costs_only_itself(fs: &Filesystem) {
        let (source, store) = many_files(fs);
        let packs = tools::files(&fs.join("store/data"));
        let smallest = packs.into_iter().min_by_key(|pack| fs::metadata(pack).unwrap().len()).expect("a pack");
        // The first directory in it is the innermost one, as directories are stored after their content.
        fs::set_permissions(&smallest, fs::Permissions::from_mode(0o600)).unwrap();
        overwrite(&smallest, 60, b"XXXX");
        let run = store.run("restore", &["--target".as_ref(), fs.join("to").as_ref(), "--no-cache".as_ref()]).expect(4);
        let problems = run.lines::<Problem>();
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        let path = PathBuf::from(problem.path.clone().expect("a path"));
        let restored = below(&fs.join("to"), &source);
        let inner = path.strip_prefix(&restored).expect("it is below the target");
        let (ours, original) = (tools::files(&restored), tools::files(&source));
        let lost = |file: &PathBuf| file.strip_prefix(&source).unwrap().starts_with(inner);
        assert_eq!(ours.len(), original.iter().filter(|file| !lost(file)).count(), "{problem:?}");
        assert!(path.is_dir() && original.iter().any(lost), "{problem:?}");
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
