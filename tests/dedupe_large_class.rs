//! `pleach dedupe` with more files of one size than it examines at once.

use crate::dedupe::{assert_shared, dedupe};
use crate::harness::*;
use crate::on_filesystems;
use std::fs;
use std::path::PathBuf;

/// Files that are examined at once.
const CHUNK: usize = 32 << 10;

on_filesystems! {
    [xfs] fn equal_files_are_found_across_the_largest_class(fs: &Filesystem) {
        let dir = fs.dir("tree");
        let equal = CHUNK + 1000;
        let path = |kind: &str, number: usize| dir.join(format!("{kind}-{}", number / 1000)).join(number.to_string());
        let add = |path: PathBuf, content: &[u8]| {
            fs::create_dir_all(path.parent().expect("it has a parent")).expect("a directory can be made");
            write(path, content);
        };
        // Each pair is far apart, and more files are equal than a chunk has.
        let content = |number: usize| bytes(2 + number as u64, 4200);
        (0..500).for_each(|number| add(path("one", number), &content(number)));
        (0..equal).for_each(|number| add(path("equal", number), &bytes(1, 4200)));
        (0..500).for_each(|number| add(path("other", number), &content(number)));
        add(path("alone", 0), &bytes(1000, 4200));
        let before = tools::checksums(&dir);
        let first = dedupe(&dir);
        assert_eq!(number(&first, "duplicate_files"), equal as u64 - 1 + 500, "{first}");
        assert_eq!(tools::checksums(&dir), before, "contents are as before");
        for number in [0, 499] {
            assert_shared(&path("one", number), &path("other", number));
        }
        for number in [1, CHUNK / 2, CHUNK - 1, CHUNK, equal - 1] {
            assert_shared(&path("equal", 0), &path("equal", number));
        }
        let second = dedupe(&dir);
        for field in ["opened_files", "read_bytes", "submitted_bytes", "freed_bytes"] {
            assert_eq!(number(&second, field), 0, "{field}: {second}");
        }
        let shared = (equal as u64 - 1 + 500) * 4200;
        assert_eq!(number(&second, "already_shared_bytes"), shared, "{second}");
        // Without what the first run knew, one file in each place is read.
        fs::remove_file(fs.join("tree.cache")).expect("the cache can be removed");
        let third = dedupe(&dir);
        assert_eq!(number(&third, "duplicate_files"), 0, "{third}");
        assert_eq!(number(&third, "read_bytes"), 502 * 4200, "{third}");
        assert_eq!(number(&third, "already_shared_bytes"), shared, "{third}");
        // A file that was changed is shared again.
        write(path("other", 7), &content(7));
        assert_eq!(number(&dedupe(&dir), "duplicate_files"), 1);
        assert_shared(&path("one", 7), &path("other", 7));
    }
}
