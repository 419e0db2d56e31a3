//! The lists of hashes that save reading the last version: when they are kept, and that nothing depends on them.

use super::*;
use crate::on_filesystems;

/// The lists of a repository: snapshot and name.
fn lists(repo: &Path) -> Vec<PathBuf> {
    let all = repo.join(".pleach/blocks");
    if !all.exists() {
        return Vec::new();
    }
    let of = |name: String| names(&all.join(&name)).into_iter().map(move |list| Path::new(&name).join(list));
    names(&all).into_iter().flat_map(of).map(|list| all.join(list)).collect()
}

/// Damages the only list between two snapshots. The second snapshot must be as good, but may read more.
fn spoiled(fs: &Filesystem, spoil: fn(&Path)) {
    let other = fs.elsewhere();
    let (source, repo) = (other.dir("source"), fs.join("repo"));
    let (size, file) = (12 * MIB + 99, source.join("image"));
    write(&file, &bytes(1, size as usize));
    night(&source, &repo, "image");
    let list: [PathBuf; 1] = lists(&repo).try_into().expect("one list");
    spoil(&list[0]);
    let changed = change_blocks(&file, 1000, [0, 700, 701, 1500]);
    let (summary, after) = night(&source, &repo, "image");
    assert_eq!(numbers(&summary, ["copied_bytes", "errors"]), [changed, 0], "{summary}");
    assert!(number(&summary, "read_bytes") > size + MIB / 2, "the last version is read: {summary}");
    assert_same_content(&file, &after);
    // The next snapshot has its list again.
    change_blocks(&file, 2000, [5]);
    let (summary, after) = night(&source, &repo, "image");
    assert!(number(&summary, "read_bytes") < size + MIB / 2, "{summary}");
    assert_same_content(&file, &after);
}

on_filesystems! {
    [xfs] fn a_missing_list_costs_a_reading(fs: &Filesystem) {
        spoiled(fs, |list| fs::remove_file(list).expect("a list can be removed"));
    }

    [xfs] fn a_list_that_was_cut_costs_a_reading(fs: &Filesystem) {
        spoiled(fs, |list| {
            let file = File::options().write(true).open(list).expect("a list can be opened");
            file.set_len(500).expect("a list can be cut");
        });
    }

    [xfs] fn an_altered_list_costs_a_reading_and_no_block(fs: &Filesystem) {
        spoiled(fs, |list| {
            let mut content = fs::read(list).expect("a list can be read");
            content.iter_mut().skip(80).step_by(500).for_each(|byte| *byte ^= 1);
            write(list, &content);
        });
    }

    [xfs] fn a_list_of_another_file_costs_a_reading(fs: &Filesystem) {
        spoiled(fs, |list| {
            // The list of a file of the same size that already has the new content: if it were trusted, it would hide
            // the change.
            let mut content = bytes(1, (12 * MIB + 99) as usize);
            content[..BLOCK as usize].copy_from_slice(&bytes(1000, BLOCK as usize));
            write(list, &list_of(&content));
        });
    }

    [xfs, btrfs] fn only_the_newest_snapshot_has_lists(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        write(source.join("small"), &bytes(1, 8 * MIB as usize - 1));
        night(&source, &repo, "");
        assert!(lists(&repo).is_empty(), "small files have none");
        write(source.join("one"), &bytes(1, 8 * MIB as usize));
        write(source.join("two"), &bytes(2, 9 * MIB as usize));
        let (first, _) = night(&source, &repo, "");
        let of = |list: &Path| list.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        assert_eq!(
            lists(&repo).iter().map(|list| of(list).expect("a name")).collect::<Vec<_>>(),
            [first["name"].as_str().expect("a name"); 2]
        );
        let unchanged = |n: u64| blake3::hash(&bytes(n, (7 + n) as usize * MIB as usize)).to_hex().to_string();
        change_blocks(&source.join("two"), 50, [7]);
        let (second, _) = night(&source, &repo, "");
        let names: Vec<_> = lists(&repo);
        assert_eq!(names.len(), 2, "one is carried on, one is new: {names:?}");
        assert!(names.iter().all(|list| of(list).as_deref() == second["name"].as_str()), "{names:?}");
        assert!(names.iter().any(|list| list.ends_with(unchanged(1))), "{names:?}");
        assert!(!names.iter().any(|list| list.ends_with(unchanged(2))), "{names:?}");
        fs::remove_file(source.join("two")).expect("a file can be removed");
        fs::rename(source.join("one"), source.join("three")).expect("a file can be renamed");
        night(&source, &repo, "");
        let names: Vec<_> = lists(&repo);
        assert!(names.len() == 1 && names[0].ends_with(unchanged(1)), "{names:?}");
        assert_no_leftovers(&repo);
    }

    [xfs] fn lists_of_snapshots_that_are_gone_are_cleared(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        write(source.join("one"), &bytes(1, 8 * MIB as usize));
        let (first, _) = night(&source, &repo, "");
        fs::remove_dir_all(repo.join(first["name"].as_str().expect("a name"))).expect("a snapshot can be deleted");
        fs::remove_file(source.join("one")).expect("a file can be removed");
        night(&source, &repo, "");
        assert!(lists(&repo).is_empty());
        assert_no_leftovers(&repo);
    }

    [xfs] fn lists_that_cannot_be_kept_hinder_no_snapshot(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        write(source.join("small"), &bytes(1, 100));
        night(&source, &repo, "");
        write(repo.join(".pleach/blocks"), b"not a directory");
        write(source.join("image"), &bytes(1, 9 * MIB as usize));
        let (_, after) = night(&source, &repo, "image");
        assert_same_content(&source.join("image"), &after);
        fs::remove_file(repo.join(".pleach/blocks")).expect("a file can be removed");
        change_blocks(&source.join("image"), 50, [7]);
        let (_, after) = night(&source, &repo, "image");
        assert_same_content(&source.join("image"), &after);
        assert_eq!(lists(&repo).len(), 1);
        assert_no_leftovers(&repo);
    }

    [xfs] fn lists_of_an_earlier_snapshot_are_not_in_the_way_of_one_with_its_name(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        let take = |number| {
            write(source.join("image"), &bytes(number, 9 * MIB as usize));
            settle();
            pleach(snapshot_named("one", &source, &repo)).expect(0);
            lists(&repo)
        };
        let before = take(1);
        // As long as a tree has no manifest, manifests without a tree stay, and all that belongs to them.
        fs::rename(repo.join("one"), repo.join("renamed")).expect("a tree can be renamed");
        let after = take(2);
        assert_eq!((before.len(), after.len()), (1, 1));
        assert_ne!(before, after);
        assert_no_leftovers(&repo);
    }

    [xfs, btrfs] fn without_hashes_there_are_no_lists_and_blocks_are_compared_all_the_same(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        let (size, file) = (9 * MIB, source.join("image"));
        write(&file, &bytes(1, size as usize));
        let run = || {
            settle();
            let args =
                ["snapshot".as_ref(), "--hash=none".as_ref(), "--json".as_ref(), source.as_os_str(), repo.as_ref()];
            pleach(args).expect(0).summary()
        };
        run();
        let changed = change_blocks(&file, 1000, [17, 2000]);
        let summary = run();
        assert_eq!(numbers(&summary, ["copied_bytes", "read_bytes"]), [changed, 2 * size], "{summary}");
        assert!(lists(&repo).is_empty());
        assert_same_content(&file, &inside(&repo, "latest", &source).join("image"));
    }
}

/// A list as pleach writes it, for other content.
fn list_of(content: &[u8]) -> Vec<u8> {
    use pleach::testing::delta::NewList;
    use pleach::testing::hash::tree;
    use std::io::{Read, Seek};
    let mut file = tempfile::tempfile().expect("a file can be made");
    let list = NewList::new(file.try_clone().expect("a file"), content.len() as u64, tree::GRAIN);
    for (number, window) in content.chunks(tree::WINDOW as usize).enumerate() {
        let values: Vec<_> = tree::grains(window, number as u64 * tree::WINDOW, tree::GRAIN).collect();
        list.write(number as u64, &values);
    }
    list.finish(blake3::hash(content).as_bytes());
    assert!(list.complete().is_some(), "a list can be written");
    let mut written = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut written)).expect("a list can be read");
    written
}
