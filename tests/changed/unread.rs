//! Large files on the repository's own filesystem: what has the same extents as in the last snapshot is not read again,
//! and the hash is that of the content all the same.

use super::*;
use crate::harness::images::edit;
use crate::on_filesystems;

/// What one list covers with one hash.
const GRAIN: u64 = 16 << 10;

on_filesystems! {
    [xfs, btrfs] fn of_an_image_with_a_list_only_changed_grains_are_read(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let (size, image) = (12 * MIB + 99, source.join("image"));
        write(&image, &bytes(1, size as usize));
        night(&source, &repo, "image");
        change_blocks(&image, 1000, [5]);
        let (summary, _) = night(&source, &repo, "image");
        assert!(number(&summary, "read_bytes") >= size, "it has no list yet: {summary}");
        // Three grains of the image, and as much of its last version at most.
        change_blocks(&image, 2000, [0, 700, 701, 1500]);
        let (summary, kept) = night(&source, &repo, "image");
        let read = number(&summary, "read_bytes");
        assert!((3 * GRAIN..=6 * GRAIN).contains(&read), "{summary}");
        assert_same_content(&image, &kept);
        // Its times alone change: the list stays.
        File::open(&image).and_then(|file| file.set_modified(std::time::SystemTime::now())).expect("a time can be set");
        assert_eq!(number(&night(&source, &repo, "image").0, "read_bytes"), 0);
        change_blocks(&image, 3000, [2000]);
        let (summary, _) = night(&source, &repo, "image");
        assert!((GRAIN..=2 * GRAIN).contains(&number(&summary, "read_bytes")), "{summary}");
        pleach(["verify".as_ref(), repo.as_os_str()]).expect(0);
    }

    [xfs, btrfs] fn without_hashes_only_changed_blocks_are_read(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let image = source.join("image");
        write(&image, &bytes(1, 12 * MIB as usize));
        let run = || {
            settle();
            let args = ["snapshot", "--hash=none", "--json"].map(OsStr::new);
            pleach(args.into_iter().chain([source.as_os_str(), repo.as_os_str()])).expect(0).summary()
        };
        run();
        let changed = change_blocks(&image, 1000, [0, 700, 1500]);
        assert_eq!(number(&run(), "read_bytes"), 2 * changed);
        assert_same_content(&image, &inside(&repo, "latest", &source).join("image"));
    }

    [xfs, btrfs] fn whatever_changed_the_hash_is_that_of_the_content(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let image = source.join("image");
        let blocks = 10 * MIB / BLOCK;
        write(&image, &bytes(1, (blocks * BLOCK) as usize));
        for round in 0..24 {
            let (_, kept) = night(&source, &repo, "image");
            assert_same_content(&image, &kept);
            edit(fs.kind, &image, blocks, round);
        }
        // Reads all of them whole.
        pleach(["verify".as_ref(), repo.as_os_str()]).expect(0);
    }
}
