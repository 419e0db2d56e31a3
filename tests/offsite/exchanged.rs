//! The host of a store exchanges blobs of the same length, for which it needs no key: nobody gets other content than
//! that of the snapshot.

use super::lines::{CheckSums, RestoreSums, sums};
use super::stores::{Backend, Store};
use super::{below, library, take};
use crate::harness::json_lines::Problem;
use crate::harness::*;
use crate::on_filesystems;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Restores from a store with damage. Returns the names below the restored source that are named.
#[track_caller]
fn restore_damaged(store: &Store, to: &Path, source: &Path, options: &[&str]) -> BTreeSet<String> {
    let mut args = vec!["--no-cache".as_ref(), "--target".as_ref(), to.as_os_str()];
    args.extend(options.iter().map(std::ffi::OsStr::new));
    let run = store.run("restore", &args).expect(4);
    let restored = below(to, source);
    let name = |problem: Problem| {
        let path = PathBuf::from(problem.path.expect("an error has a path"));
        path.strip_prefix(&restored).expect("it is below the target").to_str().unwrap().to_string()
    };
    let names: BTreeSet<String> = run.lines::<Problem>().into_iter().map(name).collect();
    assert_eq!(sums::<RestoreSums>(&run).errors, names.len() as u64, "{run:?}");
    names
}

on_filesystems! {
    [xfs] fn exchanged_data_is_no_content_of_a_file(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        for number in 0..4 {
            write(source.join(number.to_string()), &bytes(number, 100_000));
        }
        take("one", &source, &repo);
        let store = Store::made(fs, Backend::Local);
        store.push(&repo);
        let before = below(&store.restores("one", fs.join("before")), &source);
        let blob = |name: &str| library::node(&library::open(&store), &source.join(name)).content.unwrap()[0];
        library::exchange(&store, [&blob("0"), &blob("1")]);
        let both = BTreeSet::from(["0".to_string(), "1".to_string()]);
        let to = fs.join("to");
        assert_eq!(restore_damaged(&store, &to, &source, &[]), both);
        let restored = below(&to, &source);
        assert_eq!(names(&restored), ["2", "3"]);
        for name in ["2", "3"] {
            assert_eq!(fs::read(restored.join(name)).unwrap(), fs::read(source.join(name)).unwrap());
            let time = |dir: &Path| fs::metadata(dir.join(name)).unwrap().modified().unwrap();
            assert_eq!(time(&restored), time(&source));
        }
        // The files of the earlier restore are whole, and stay.
        store.run("restore", &["--target".as_ref(), fs.join("before").as_ref(), "--verify".as_ref()]).expect(0);
        tools::assert_equal_trees(&source, &before);
        // A file with another content is not whole, and nothing of the store makes it so.
        for name in ["0", "2"] {
            let time = fs::metadata(before.join(name)).unwrap().modified().unwrap();
            overwrite(&before.join(name), 50_000, b"XXXX");
            fs::File::options().write(true).open(before.join(name)).unwrap().set_modified(time).unwrap();
        }
        let lost = restore_damaged(&store, &fs.join("before"), &source, &["--verify"]);
        assert_eq!(lost, BTreeSet::from(["0".to_string()]));
        assert!(!before.join("0").exists());
        assert_eq!(fs::read(before.join("2")).unwrap(), fs::read(source.join("2")).unwrap());
    }

    [xfs] fn exchanged_directories_are_damage_where_directories_are_read(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let dirs: Vec<_> = (100..160).map(|number| format!("dir {number}")).collect();
        for (number, dir) in dirs.iter().enumerate() {
            fs::create_dir(source.join(dir)).unwrap();
            write(source.join(dir).join("file"), &bytes(number as u64, 1000));
        }
        take("one", &source, &repo);
        let store = Store::made(fs, Backend::Local);
        store.push(&repo);
        let check = |status| store.run("check", &["--no-cache".as_ref()]).expect(status);
        check(0);
        // Two directories of the same length.
        let repository = library::open(&store);
        let mut known = BTreeMap::new();
        let pair = dirs.iter().find_map(|name| {
            let tree = library::node(&repository, &source.join(name)).subtree.unwrap();
            let earlier = known.insert(library::lengths(&repository, &tree), (name, tree));
            earlier.map(|earlier| [earlier, (name, tree)])
        });
        let [(one, first), (other, second)] = pair.expect("two of them have the same length");
        library::exchange(&store, [&first, &second]);
        let run = check(4);
        let found: Vec<_> = run.lines_of_type("damage").iter().map(|line| line["what"].to_string()).collect();
        assert_eq!(sums::<CheckSums>(&run).damaged, 2, "{run:?}");
        for name in [one, other] {
            assert!(found.iter().any(|what| what.contains(name) && what.contains("hash")), "{name}: {found:?}");
        }
        let both = BTreeSet::from([one.clone(), other.clone()]);
        let to = fs.join("to");
        assert_eq!(restore_damaged(&store, &to, &source, &["--dry-run"]), both);
        assert_eq!(restore_damaged(&store, &to, &source, &[]), both);
        for name in &dirs {
            let file = below(&to, &source).join(name).join("file");
            let expected = fs::read(source.join(name).join("file")).ok().filter(|_| !both.contains(name));
            assert_eq!(fs::read(file).ok(), expected, "{name}");
        }
        // A path in one of them leads nowhere.
        let inside = source.join(one).join("file");
        let args = ["--no-cache".as_ref(), "--target".as_ref(), to.as_os_str(), "one".as_ref(), inside.as_os_str()];
        store.run("restore", &args).expect(4).saying("does not have its hash");
    }
}
