//! Data that several snapshots share is read once.

use super::*;

const SIZE: u64 = 24 << 20;

on_filesystems! {
    [xfs, btrfs] fn what_snapshots_share_is_read_once(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("image"), &bytes(1, SIZE as usize));
        write(source.join("small"), &bytes(2, 50_000));
        for number in 0..20 {
            take(&format!("{number:02}"), &source, &repo);
        }
        let stats = assert_sound(&repo, &source);
        assert_eq!((stats.read_bytes, stats.checked_bytes), (SIZE + 50_000, 20 * (SIZE + 50_000)));

        // A changed part of a large file is read, and its unchanged rest is not read again.
        overwrite(&source.join("image"), 5 << 20, &bytes(3, 100_000));
        take("changed", &source, &repo);
        let stats = assert_sound(&repo, &source);
        assert_eq!(stats.read_bytes, SIZE + 50_000 + (1 << 20), "one window");
    }

    [xfs, btrfs] fn the_same_data_under_other_names_is_read_once(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("image"), &bytes(1, SIZE as usize));
        write(source.join("small"), &bytes(2, 50_000));
        fs::create_dir(source.join("dir")).unwrap();
        take("first", &source, &repo);
        fs::rename(source.join("image"), source.join("dir/moved")).unwrap();
        clone(&source.join("small"), &source.join("a clone"));
        take("moved", &source, &repo);
        assert_eq!(assert_sound(&repo, &source).read_bytes, SIZE + 50_000);
    }

    fn names_of_one_inode_are_read_once(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("file"), &bytes(1, 2 << 20));
        fs::hard_link(source.join("file"), source.join("file too")).unwrap();
        take("one", &source, &repo);
        assert_eq!(assert_sound(&repo, &source).read_bytes, 2 << 20);
    }

    [btrfs] fn compressed_data_that_snapshots_share_is_read_once(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        finish(Command::new("btrfs").args(["property", "set"]).arg(&source).args(["compression", "zstd"])).expect(0);
        write(source.join("file"), &b"pleach ".repeat(900_000));
        for name in ["one", "two", "three"] {
            take(name, &source, &repo);
        }
        assert_eq!(assert_sound(&repo, &source).read_bytes, 6_300_000);
        overwrite(&source.join("file"), 4 << 20, b"PLEACH");
        take("four", &source, &repo);
        assert_sound(&repo, &source);
    }

    [xfs, btrfs] fn sharing_is_proved_by_extents(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("file"), &bytes(1, 4 << 20));
        write(source.join("other"), &bytes(2, 1 << 20));
        for name in ["one", "two", "three"] {
            take(name, &source, &repo);
        }
        let sharing = Options { sharing: true, quick: true, ..Options::default() };
        assert_eq!(damage(&repo, &source, &sharing).0.unshared_bytes, 0);
        let tree = inside(&repo, "two", &source);
        change(&repo, "two", || {
            in_directory(&tree, || {
                let mut copy = Command::new("cp");
                copy.args(["-a", "--reflink=never"]).arg(tree.join("file")).arg(tree.join("new"));
                finish(&mut copy).expect(0);
                fs::rename(tree.join("new"), tree.join("file")).unwrap();
            });
            // Only a part of this one.
            overwrite_quietly(&tree.join("other"), 65536, &bytes(2, 1 << 20)[65536..65536 + 8192]);
        });
        tools::forget(&tree.join("file"));
        tools::forget(&tree.join("other"));
        let (stats, found) = damage(&repo, &source, &sharing);
        assert_eq!(found, [], "it is not damage");
        let unshared: Vec<_> = stats.rows.iter().map(|row| (row.name.as_str(), row.unshared_bytes)).collect();
        let lost = (4 << 20) + 8192;
        assert_eq!(unshared, [("one", 0), ("two", lost), ("three", lost)]);
        let run = run(&repo, &["--sharing"]).expect(0);
        assert_eq!(number(&run.summary(), "unshared_bytes"), 2 * lost);
        assert_eq!(number(&run.lines_of_type("snapshot")[1], "unshared_bytes"), lost);
    }
}
