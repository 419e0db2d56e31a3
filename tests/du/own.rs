//! Tests that need their own filesystem: deletions measured by `df`, subvolumes, compression.

use super::*;
use crate::harness::own::Own;

#[test]
fn deleting_one_snapshot_of_three_frees_on_xfs_exactly_what_du_said() {
    let test = concat!(module_path!(), "::deleting_one_snapshot_of_three_frees_on_xfs_exactly_what_du_said");
    let made = [(&[][..], ""), (&["-m", "rmapbt=1"], ""), (&["-i", "size=1024"], ""), (&[], "ikeep")];
    for (mkfs, mount) in made {
        let Some(mut fs) = Own::new(Kind::Xfs, test, 1024, mkfs, mount) else { return };
        let repo = three_snapshots(&fs, 300, 30 * KIB);
        for set in [vec!["two"], vec!["one", "three"]] {
            let paths: Vec<_> = set.iter().map(|name| repo.join(name)).collect();
            let before = fs.used();
            let said = du(&paths.iter().map(PathBuf::as_path).collect::<Vec<_>>()).summary;
            assert_eq!(said["set_freed_is"], "exact", "{mkfs:?} {mount}");
            paths.iter().for_each(|path| fs::remove_dir_all(path).expect("a snapshot can be deleted"));
            assert_eq!(before - fs.used(), number(&said, "set_freed_bytes"), "{mkfs:?} {mount} {set:?}: {said}");
        }
        fs.assert_clean();
    }
}

#[test]
fn deleting_one_snapshot_of_three_frees_on_btrfs_what_du_said_to_one_percent() {
    let test = concat!(module_path!(), "::deleting_one_snapshot_of_three_frees_on_btrfs_what_du_said_to_one_percent");
    let Some(mut fs) = Own::new(Kind::Btrfs, test, 1024, &[], "") else { return };
    // Large files, because `df` also counts the trees, which are not part of the figure.
    let repo = three_snapshots(&fs, 60, 1200 * KIB);
    for set in [vec!["two"], vec!["one", "three"]] {
        let paths: Vec<_> = set.iter().map(|name| repo.join(name)).collect();
        let before = fs.used();
        let said = du(&paths.iter().map(PathBuf::as_path).collect::<Vec<_>>()).summary;
        assert_eq!(said["set_freed_is"], "exact");
        let said = number(&said, "set_freed_bytes");
        assert!(said >= 20 << 20, "half of the files changed twice: {said}");
        paths.iter().for_each(|path| tools::delete_snapshot(path));
        let freed = before - fs.used();
        assert!(freed.abs_diff(said) <= said / 100, "{set:?}: said {said}, freed {freed}");
    }
}

#[test]
fn everything_that_xfs_keeps_for_a_file_is_freed_with_it() {
    let test = concat!(module_path!(), "::everything_that_xfs_keeps_for_a_file_is_freed_with_it");
    let Some(mut fs) = Own::new(Kind::Xfs, test, 1024, &[], "") else { return };
    let tree = fs.join("tree");
    fs::create_dir(&tree).expect("a directory can be made");
    shapes(&tree);
    // Attributes, a link's target and a directory that all need blocks.
    let attribute = vec![b'x'; 30_000];
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(tree.join("whole"), "user.long", &attribute, flags).expect("an attribute can be set");
    symlink("x".repeat(900), tree.join("long link")).expect("a symlink can be made");
    fs::create_dir(tree.join("many")).expect("a directory can be made");
    for number in 0..2000 {
        write(tree.join(format!("many/a rather long name for a file, number {number}")), b"");
    }
    // Held from outside: a part of one file, and a name of another.
    clone(&tree.join("unaligned"), &fs.join("outside"));
    fs::hard_link(tree.join("dir/file"), fs.join("name outside")).expect("a hard link can be made");
    let before = fs.used();
    let said = du(&[&tree]).summary;
    assert_eq!(said["set_freed_is"], "exact");
    fs::remove_dir_all(&tree).expect("a tree can be deleted");
    assert_eq!(before - fs.used(), number(&said, "set_freed_bytes"), "{said}");
}

#[test]
fn sharing_within_a_set_across_its_edge_and_over_two_filesystems_is_exact_on_a_fresh_xfs() {
    let test = concat!(
        module_path!(),
        "::sharing_within_a_set_across_its_edge_and_over_two_filesystems_is_exact_on_a_fresh_xfs"
    );
    let Some(mut fs) = Own::new(Kind::Xfs, test, 1024, &[], "") else { return };
    let Some(other) = Own::new(Kind::Xfs, test, 1024, &[], "") else { return };
    let [set, outside, there] = [fs.join("set"), fs.join("outside"), other.join("there")];
    [&set, &outside, &there].iter().for_each(|dir| fs::create_dir(dir).expect("a directory can be made"));
    write(outside.join("held"), &bytes(1, MIB));
    clone(&outside.join("held"), &set.join("held"));
    write(set.join("own"), &bytes(2, 2 * MIB));
    clone(&set.join("own"), &set.join("own again"));
    write(there.join("file"), &bytes(3, 128 * KIB));
    let before = fs.used();
    let here = du(&[&set]).summary;
    assert_eq!(here["set_freed_is"], "exact", "{here}");
    let both = du(&[&set, &there]).summary;
    assert_eq!(both["set_freed_is"], "exact", "{both}");
    let apart = number(&here, "set_freed_bytes") + number(&du(&[&there]).summary, "set_freed_bytes");
    assert_eq!(number(&both, "set_freed_bytes"), apart);
    fs::remove_dir_all(&set).expect("a tree can be deleted");
    assert_eq!(before - fs.used(), number(&here, "set_freed_bytes"), "{here}");
}

#[test]
fn a_file_of_thousands_of_extents_is_freed_with_its_map_to_a_few_blocks() {
    let test = concat!(module_path!(), "::a_file_of_thousands_of_extents_is_freed_with_its_map_to_a_few_blocks");
    let Some(mut fs) = Own::new(Kind::Xfs, test, 1024, &[], "") else { return };
    let path = fs.join("scattered");
    let scattered = File::create(&path).expect("a file can be made");
    for block in 0..3000 {
        scattered.write_all_at(&[1; 4096], block * 8192).expect("a file can be written");
    }
    drop(scattered);
    let before = fs.used();
    let said = du(&[&path]).summary;
    // With this many free ranges the size of XFS's own trees may change.
    assert_eq!(said["set_freed_is"], "about");
    fs::remove_file(&path).expect("a file can be deleted");
    let difference = (before - fs.used()).abs_diff(number(&said, "set_freed_bytes"));
    assert!(difference <= 16 << 10, "{difference} {said}");
}

#[test]
fn subvolumes_that_have_leaves_in_common_are_counted_as_the_kernel_counts() {
    let test = concat!(module_path!(), "::subvolumes_that_have_leaves_in_common_are_counted_as_the_kernel_counts");
    let Some(fs) = Own::new(Kind::Btrfs, test, 1024, &[], "") else { return };
    let [a, b, c] = ["a", "b", "c"].map(|name| fs.join(name));
    tools::tool("btrfs", &["subvolume", "create"], &a);
    shapes(&a);
    // Enough files that most leaves of the tree stay shared.
    for number in 0..600 {
        write(a.join(format!("file {number}")), &bytes(number, 5000));
    }
    write(a.join("three"), &bytes(1, 3 * MIB));
    write(a.join("two"), &bytes(2, 2 * MIB));
    for copy in [&b, &c] {
        let a = a.to_str().expect("a path of our own");
        tools::tool("btrfs", &["subvolume", "snapshot", a], copy);
    }
    overwrite(&a.join("three"), 128 * KIB, 64 * KIB);
    fs::remove_file(b.join("two")).expect("a file can be deleted");
    write(c.join("new"), &bytes(3, MIB));
    clone(&c.join("new"), &a.join("new"));
    for paths in [vec![&a], vec![&b], vec![&c], vec![&a, &b], vec![&a, &b, &c]] {
        let found = du(&paths.iter().map(|path| path.as_path()).collect::<Vec<_>>());
        for (path, row) in paths.iter().zip(&found.rows) {
            assert_eq!(ours(row), theirs(path), "{} of {paths:?}", path.display());
        }
        assert_eq!(found.summary["set_freed_is"], "exact");
    }
    let freed = |paths: &[&Path]| number(&du(paths).summary, "set_freed_bytes");
    assert_eq!(freed(&[&a]), 64 << 10, "what was overwritten there");
    assert_eq!(freed(&[&b]), 0);
    assert_eq!(freed(&[&c]), 0, "its new file, another holds");
    assert_eq!(freed(&[&b, &c]), 0);
    let two = freed(&[&a.join("two"), &c.join("two")]);
    assert_eq!(two, 2 << 20, "the third does not have it any more");
    assert_eq!(freed(&[&a.join("three"), &c.join("three")]), 64 << 10, "the third has the old extent");
    let data = freed(&[&a, &b, &c]);
    let all = freed(&[fs.path()]);
    assert_eq!(data, all, "nothing else is on this filesystem");
}

#[test]
fn compressed_files_have_their_real_lengths_for_root_and_a_bound_for_others() {
    let test = concat!(module_path!(), "::compressed_files_have_their_real_lengths_for_root_and_a_bound_for_others");
    let Some(mut fs) = Own::new(Kind::Btrfs, test, 1024, &[], "compress-force=zstd") else { return };
    let tree = fs.join("tree");
    fs::create_dir(&tree).expect("a directory can be made");
    let content = half_zeros(1, 32 * MIB);
    write(tree.join("half"), &content);
    clone(&tree.join("half"), &tree.join("again"));
    let before = fs.used();
    let found = du(&[&tree]);
    let (length, disk) = (content.len() as u64, number(&found.rows[0], "disk_bytes"));
    assert_eq!(number(&found.rows[0], "apparent_bytes"), 2 * length);
    assert!(disk < 2 * length * 6 / 10, "compressed by nearly half: {disk} of {}", 2 * length);
    assert_eq!(found.rows[0]["disk_is"], "exact");
    let said = number(&found.summary, "set_freed_bytes");
    assert_eq!(said, disk / 2);
    assert_eq!(number(&found.rows[0], "shared_bytes"), said);
    let mut bound = Command::new("setpriv");
    bound.args(["--inh-caps=-all", "--bounding-set=-sys_admin"]).arg(env!("CARGO_BIN_EXE_pleach"));
    let row = finish(bound.args(["du", "--json"]).arg(&tree)).expect(0).json().remove(0);
    assert_eq!((number(&row, "disk_bytes"), &row["disk_is"]), (2 * length, &Value::from("at_most")));
    let mut bound = Command::new("setpriv");
    bound.args(["--inh-caps=-all", "--bounding-set=-sys_admin"]).arg(env!("CARGO_BIN_EXE_pleach"));
    assert!(finish(bound.arg("du").arg(&tree)).expect(0).stdout.contains('≤'));
    fs::remove_dir_all(&tree).expect("a tree can be deleted");
    let freed = before - fs.used();
    // `df` counts the trees too: here, hundreds of small extents for little data.
    assert!(freed.abs_diff(said) <= 512 << 10, "said {said}, freed {freed}");
}

#[test]
fn deleting_files_of_every_kind_frees_on_btrfs_the_data_that_du_said() {
    let test = concat!(module_path!(), "::deleting_files_of_every_kind_frees_on_btrfs_the_data_that_du_said");
    for options in ["", "compress-force=zstd"] {
        let Some(mut fs) = Own::new(Kind::Btrfs, test, 1024, &[], options) else { return };
        let live = fs.join("live");
        tools::tool("btrfs", &["subvolume", "create"], &live);
        let tree = live.join("tree");
        fs::create_dir(&tree).expect("a directory can be made");
        shapes(&tree);
        let half = half_zeros(7, 8 * MIB);
        write(tree.join("half"), &half);
        write(tree.join("in the snapshot"), &bytes(8, 2 * MIB));
        let (from, to) = (live.to_str().expect("a path of our own"), fs.join("snapshot"));
        tools::tool("btrfs", &["subvolume", "snapshot", "-r", from], &to);
        // Partly the snapshot's extents, partly new ones; some of them held outside, in whole or in part.
        overwrite(&tree.join("in the snapshot"), 512 * KIB, 256 * KIB);
        overwrite(&tree.join("half"), 0, 128 * KIB);
        let new = tree.join("new");
        fs::create_dir(&new).expect("a directory can be made");
        shapes(&new);
        write(new.join("half"), &half);
        clone(&new.join("half"), &live.join("outside"));
        overwrite(&live.join("outside"), MIB, 3 * MIB);
        fs::hard_link(new.join("dir/file"), live.join("name outside")).expect("a hard link can be made");
        let before = data_used(&mut fs);
        let said = du(&[&tree]).summary;
        assert_eq!(said["set_freed_is"], "exact");
        fs::remove_dir_all(&tree).expect("a tree can be deleted");
        assert_eq!(before - data_used(&mut fs), number(&said, "set_freed_bytes"), "{options} {said}");
        fs.assert_clean();
    }
}

/// The bytes of the data extents of a Btrfs, without its metadata.
fn data_used(fs: &mut Own) -> u64 {
    fs.remount();
    let shown = tools::tool("btrfs", &["filesystem", "df", "-b"], fs.path()).stdout;
    let used = shown.split("used=").nth(1).and_then(|rest| rest.split_whitespace().next());
    used.and_then(|used| used.parse().ok()).expect("btrfs shows the bytes used by data")
}

/// Three snapshots of `files` files, with half of them changed before each. Returns the repository.
fn three_snapshots(fs: &Own, files: u64, size: usize) -> PathBuf {
    let (source, repo) = (fs.join("source"), fs.join("repo"));
    fs::create_dir(&source).expect("a directory can be made");
    let file = |number: u64| source.join(format!("file {number}"));
    (0..files).for_each(|number| write(file(number), &bytes(number, size)));
    for (round, name) in (1..).zip(["one", "two", "three"]) {
        settle();
        pleach(snapshot_named(name, &source, &repo)).expect(0);
        for number in (0..files).step_by(2) {
            // Every other one of them is changed only in part.
            match number % 4 == 0 {
                true => write(file(number), &bytes(number + round * files, size)),
                // With different bytes each time: equal bytes would be shared with the last snapshot.
                false => {
                    let opened = File::options().write(true).open(file(number)).expect("a file can be opened");
                    let part = bytes(number + (round + 10) * files, size / 2);
                    opened.write_all_at(&part, 4 << 10).expect("a file can be written");
                }
            }
        }
    }
    repo
}

#[test]
fn a_repository_in_the_subvolume_of_its_source_is_measured_without_a_question_for_each_extent() {
    let test = concat!(
        module_path!(),
        "::a_repository_in_the_subvolume_of_its_source_is_measured_without_a_question_for_each_extent"
    );
    let Some(fs) = Own::new(Kind::Btrfs, test, 1024, &[], "") else { return };
    let (source, repo) = (fs.join("source"), fs.join("repo"));
    fs::create_dir(&source).expect("a directory can be made");
    (0..100).for_each(|number| write(source.join(number.to_string()), &bytes(number, 12 * KIB)));
    ["one", "two"].into_iter().for_each(|name| drop(pleach(snapshot_named(name, &source, &repo)).expect(0)));
    let calls = tools::traced_calls("ioctl", &["du".as_ref(), repo.as_os_str()], &fs.join("trace"));
    let asked = calls.iter().filter(|call| call.contains("BTRFS_IOC_LOGICAL_INO_V2")).count();
    assert!(asked < 5, "{asked} questions about 100 extents");
}
