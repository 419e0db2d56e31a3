//! The block index that a run keeps for the next: unchanged files are not read again, and nothing is missed for it.
//! On Btrfs the files are NOCOW, because others have checksums, which are read instead.

use super::*;
use pleach::dedupe as library;
use pleach::monitor::{Amount, Monitor};
use std::sync::atomic::AtomicU64;

/// A tree and a cache, which is on another filesystem.
struct Kept<'o> {
    own: &'o mut Own,
    dir: PathBuf,
    is_nocow: bool,
    scratch: tempfile::TempDir,
}

impl Kept<'_> {
    fn new(own: &mut Own) -> Kept<'_> {
        let dir = own.join("tree");
        // Fails on XFS, which has no such flag.
        let is_nocow = finish(Command::new("chattr").arg("+C").arg(&dir)).status == 0;
        Kept { own, dir, is_nocow, scratch: tempfile::tempdir().expect("a directory can be made") }
    }

    /// A directory outside the scope, which holds what it has clones of.
    fn outside(&self) -> PathBuf {
        let outside = self.own.join("outside");
        fs::create_dir(&outside).expect("a directory can be made");
        if self.is_nocow {
            finish(Command::new("chattr").arg("+C").arg(&outside)).expect(0);
        }
        outside
    }

    /// The run has freed this much. On Btrfs it may be less, because an extent is freed as a whole or not at all; a run
    /// without the cache must not free more.
    #[track_caller]
    fn assert_freed(&self, done: &Value, range: std::ops::RangeInclusive<u64>) {
        let least = if self.is_nocow { 0 } else { *range.start() };
        assert_between(done, "freed_bytes", least..=*range.end());
        self.assert_nothing_is_missed(&[], done);
    }

    fn cache(&self) -> PathBuf {
        self.scratch.path().join("cache")
    }

    fn file(&self, name: &str, parts: &[&[u8]]) {
        write(self.dir.join(name), &parts.concat());
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.dir.join(name)).expect("the file can be removed");
    }

    /// A run with the cache. The disk must give back what it reports.
    #[track_caller]
    fn run(&mut self, options: &[&str]) -> Value {
        let (before, content) = (used(self.own), seen(&self.dir));
        let cache = self.cache();
        let options = [&["--cache", cache.to_str().expect("a plain path")], options].concat();
        let done = pleach(args(&options, &self.dir)).expect(0).summary();
        let after = used(self.own);
        if !options.contains(&"--dry-run") {
            assert_freed(&done, before, after);
        }
        assert_eq!(seen(&self.dir), content, "{done}");
        done
    }

    /// A run without the cache finds nothing more.
    #[track_caller]
    fn assert_nothing_is_missed(&self, options: &[&str], done: &Value) {
        let full = dedupe(&[&["--dry-run"], options].concat(), &self.dir);
        assert_eq!((number(&full, "freed_bytes"), number(&full, "duplicate_files")), (0, 0), "{done} {full}");
    }
}

#[track_caller]
fn assert_between(summary: &Value, field: &str, range: std::ops::RangeInclusive<u64>) {
    assert!(range.contains(&number(summary, field)), "{field}, {range:?}: {summary}");
}

const MIB: u64 = 1 << 20;
/// The samples of the first stage, and the data that is read ahead of a match.
const LITTLE: u64 = 1 << 20;

on_own_filesystems! {
    fn only_what_is_new_and_what_it_shares_is_read(own: &mut Own, 512) {
        let mut kept = Kept::new(own);
        for number in 0..8 {
            kept.file(&format!("old {number}"), &[&bytes(number, (4 << 20) + number as usize * BLOCK)]);
        }
        let first = kept.run(&[]);
        assert_between(&first, "read_bytes", 32 * MIB..=33 * MIB);
        // A file of new data, of data of an old file at another offset, and of data that it has twice.
        let new = bytes(100, 1 << 20);
        let old = bytes(3, (4 << 20) + 3 * BLOCK);
        kept.file("new", &[&new, &old[1 << 20..3 << 20], &bytes(101, 1 << 20), &new]);
        kept.remove("old 5");
        let second = kept.run(&[]);
        // The new file, and the data of the old one.
        assert_between(&second, "read_bytes", 7 * MIB..=7 * MIB + LITTLE);
        kept.assert_freed(&second, 3 * MIB..=3 * MIB);
        // The file that has shared ranges is known now, with all of its data.
        kept.file("again", &[&bytes(102, BLOCK), &new, &bytes(103, 1 << 20), &old[2 << 20..3 << 20]]);
        let third = kept.run(&[]);
        assert_between(&third, "read_bytes", 5 * MIB..=5 * MIB + LITTLE);
        kept.assert_freed(&third, 2 * MIB..=2 * MIB);
        // A file comes back.
        kept.file("old 5", &[&bytes(5, (4 << 20) + 5 * BLOCK)]);
        kept.file("like old 5", &[&bytes(5, (4 << 20) + 5 * BLOCK), &[1]]);
        let fourth = kept.run(&[]);
        assert_between(&fourth, "read_bytes", 8 * MIB..=8 * MIB + LITTLE);
        kept.assert_freed(&fourth, 4 * MIB..=4 * MIB + LITTLE);
    }

    fn data_is_found_after_the_file_that_had_it_first_is_gone(own: &mut Own, 512) {
        let mut kept = Kept::new(own);
        let common = bytes(1, 4 << 20);
        kept.file("a", &[&common, &bytes(2, 1 << 20)]);
        kept.file("b", &[&bytes(3, 1 << 20), &common, &bytes(4, BLOCK)]);
        kept.file("c", &[&bytes(5, 2 << 20), &common, &bytes(6, BLOCK)]);
        kept.file("other", &[&bytes(7, 8 << 20)]);
        let first = kept.run(&[]);
        kept.assert_freed(&first, 8 * MIB..=8 * MIB);
        kept.remove("a");
        let second = kept.run(&[]);
        // One of the two files that shared with it.
        assert_between(&second, "read_bytes", 4 * MIB..=4 * MIB + LITTLE);
        kept.assert_freed(&second, 0..=0);
        kept.file("d", &[&bytes(8, 3 << 20), &common]);
        kept.remove("c");
        let third = kept.run(&[]);
        kept.assert_freed(&third, 4 * MIB..=4 * MIB);
        assert_between(&third, "read_bytes", 7 * MIB..=11 * MIB + LITTLE);
    }

    fn blocks_that_the_index_has_from_a_file_that_is_gone_are_read_again(own: &mut Own, 512) {
        let mut kept = Kept::new(own);
        let old = bytes(1, 2 << 20);
        kept.file("a", &[&old]);
        // All blocks of a, in pieces that are too short to be shared. The index has them as blocks of b.
        let pieces: Vec<_> = old.chunks(4 * BLOCK).enumerate().map(|(number, piece)| {
            [piece, &bytes(100 + number as u64, BLOCK)].concat()
        }).collect();
        kept.file("b", &[&pieces.concat()]);
        kept.file("other", &[&bytes(2, 8 << 20)]);
        let done = kept.run(&[]);
        kept.assert_freed(&done, 0..=0);
        kept.file("unrelated", &[&bytes(3, 1 << 20)]);
        assert_between(&kept.run(&[]), "read_bytes", MIB..=MIB + LITTLE);
        kept.remove("b");
        kept.file("c", &[&old, &[1]]);
        let done = kept.run(&[]);
        kept.assert_freed(&done, 2 * MIB..=2 * MIB);
        assert_between(&done, "read_bytes", 4 * MIB..=4 * MIB + LITTLE);
    }

    fn a_changed_file_is_read_again_and_its_old_data_is_forgotten(own: &mut Own, 512) {
        let mut kept = Kept::new(own);
        let (one, two) = (bytes(1, 4 << 20), bytes(2, (4 << 20) + BLOCK));
        kept.file("one", &[&one]);
        kept.file("two", &[&two]);
        kept.file("three", &[&bytes(3, 2 << 20)]);
        kept.run(&[]);
        overwrite(&kept.dir.join("one"), MIB, &two[..1 << 20]);
        kept.file("four", &[&bytes(4, BLOCK), &one[..2 << 20]]);
        let second = kept.run(&[]);
        // The changed file, the new one, and a MiB of the other.
        assert_between(&second, "read_bytes", 7 * MIB..=7 * MIB + LITTLE);
        kept.assert_freed(&second, 2 * MIB..=2 * MIB);
    }

    fn a_clone_of_a_known_file_is_not_read(own: &mut Own, 512) {
        let mut kept = Kept::new(own);
        kept.file("m", &[&bytes(1, 4 << 20)]);
        kept.file("n", &[&bytes(2, (4 << 20) + BLOCK)]);
        kept.run(&[]);
        // The walk meets the clone first. It differs in one block.
        clone(&kept.dir.join("m"), &kept.dir.join("a"));
        overwrite(&kept.dir.join("a"), MIB, &bytes(3, BLOCK));
        clone(&kept.dir.join("n"), &kept.dir.join("b"));
        let second = kept.run(&["--ranges", "always"]);
        assert_between(&second, "read_bytes", 0..=LITTLE);
        kept.remove("m");
        kept.remove("n");
        kept.file("like m", &[&bytes(4, BLOCK), &bytes(1, 4 << 20)[2 << 20..]]);
        kept.file("like n", &[&bytes(5, BLOCK), &bytes(2, (4 << 20) + BLOCK)]);
        let third = kept.run(&[]);
        kept.assert_freed(&third, 6 * MIB..=6 * MIB + LITTLE);
    }

    fn equal_data_that_could_not_be_shared_is_tried_again(own: &mut Own, 512) {
        let mut kept = Kept::new(own);
        let outside = kept.outside();
        images(&kept.dir, 8 << 20, 6 << 20);
        kept.file("other", &[&bytes(7, 4 << 20)]);
        for name in ["a.img", "b.img"] {
            clone(&kept.dir.join(name), &outside.join(name));
        }
        let done = kept.run(&[]);
        kept.assert_freed(&done, 0..=0);
        fs::remove_dir_all(&outside).expect("the directory can be removed");
        kept.file("new", &[&bytes(8, 1 << 20)]);
        let second = kept.run(&[]);
        kept.assert_freed(&second, 5 * MIB..=6 * MIB);
        assert_between(&second, "read_bytes", 7 * MIB..=14 * MIB);
    }

    fn a_new_file_that_something_outside_holds_is_the_copy_that_stays(own: &mut Own, 512) {
        let mut kept = Kept::new(own);
        let outside = kept.outside();
        let common = bytes(1, 4 << 20);
        kept.file("old", &[&common, &bytes(2, BLOCK)]);
        kept.run(&[]);
        kept.file("new", &[&bytes(3, BLOCK), &common]);
        clone(&kept.dir.join("new"), &outside.join("new"));
        let second = kept.run(&[]);
        kept.assert_freed(&second, 4 * MIB..=4 * MIB);
    }

    fn an_interrupted_run_keeps_what_it_has_read_and_nothing_else(own: &mut Own, 512) {
        let mut kept = Kept::new(own);
        for number in 0..8 {
            kept.file(&format!("old {number}"), &[&bytes(number, (4 << 20) + number as usize * BLOCK)]);
        }
        settle();
        let cache = library::CacheChoice::File(kept.cache());
        let options = library::Options { cache, ..library::Options::default() };
        let stopped = library::dedupe(&[kept.dir.clone()], &options, &StopWhileComparing::after(14 << 20));
        assert!(stopped.expect("it ends in order").interrupted);
        kept.file("new", &[&bytes(1, 2 << 20), &bytes(7, 2 << 20), &[1]]);
        let second = kept.run(&[]);
        // Three of the files were read to their end.
        assert_between(&second, "read_bytes", (20 + 4 + 2) * MIB..=(20 + 4 + 4) * MIB + LITTLE);
        kept.assert_freed(&second, 4 * MIB..=4 * MIB);
    }

    fn an_index_with_other_options_is_of_no_use_and_stays(own: &mut Own, 512) {
        let mut kept = Kept::new(own);
        let old = bytes(1, 4 << 20);
        kept.file("old", &[&old]);
        kept.file("other", &[&bytes(2, 4 << 20), &old[..64 << 10]]);
        let done = kept.run(&["--min-run", "128K"]);
        assert_between(&done, "freed_bytes", 0..=0);
        let done = kept.run(&["--min-run", "64K"]);
        kept.assert_freed(&done, 64 << 10..=64 << 10);
        kept.file("new", &[&bytes(3, 1 << 20)]);
        for min_run in ["128K", "64K"] {
            assert_between(&kept.run(&["--min-run", min_run]), "read_bytes", MIB..=MIB + LITTLE);
        }
        // Less memory: one block in two or more. The kept places are enough.
        kept.file("newer", &[&bytes(4, 1 << 20), &old[1 << 20..3 << 20]]);
        let coarse = kept.run(&["--index-memory", "32K"]);
        assert_between(&coarse, "read_bytes", 5 * MIB..=5 * MIB + LITTLE);
        kept.assert_freed(&coarse, 2 * MIB..=2 * MIB);
        // More memory again: the places that were dropped must be found again.
        kept.file("newest", &[&bytes(5, 1 << 20)]);
        assert_between(&kept.run(&[]), "read_bytes", 9 * MIB..=14 * MIB);
    }

    fn a_dry_run_uses_the_index_and_leaves_it_alone(own: &mut Own, 512) {
        let mut kept = Kept::new(own);
        let old = bytes(1, 4 << 20);
        kept.file("old", &[&old]);
        kept.run(&[]);
        kept.file("new", &[&bytes(2, 1 << 20), &old]);
        let before = fs::read(kept.cache()).expect("a cache was written");
        let planned = kept.run(&["--dry-run"]);
        assert_eq!(fs::read(kept.cache()).expect("the cache is there"), before);
        let done = kept.run(&[]);
        for field in ["read_bytes", "range_bytes", "submitted_bytes"] {
            assert_eq!(number(&planned, field), number(&done, field), "{field}: {planned} {done}");
        }
        assert_between(&done, "read_bytes", 9 * MIB..=9 * MIB + LITTLE);
        kept.assert_freed(&done, 4 * MIB..=4 * MIB);
    }

    fn after_any_changes_nothing_is_missed(own: &mut Own, 768) {
        let options = ["--ranges", "always", "--min-run", "16K"];
        let mut kept = Kept::new(own);
        let tree = kept.dir.clone();
        for seed in 1..=4_u64 {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            kept.dir = tree.join(seed.to_string());
            fs::create_dir(&kept.dir).expect("a directory can be made");
            random_tree(&kept.dir, &mut random);
            kept.run(&options);
            for _ in 0..4 {
                edit(&kept.dir, &mut random);
                let done = kept.run(&options);
                // A full run finds no more than it finds after another full run: different runs may cut repetitive
                // data differently.
                let full = dedupe(&[&["--dry-run"][..], &options].concat(), &kept.dir);
                let much = number(&done, "freed_bytes") / 10 + (128 << 10);
                assert!(number(&full, "freed_bytes") <= much, "seed {seed}: {done} {full}");
            }
        }
    }
}

/// Changes some files of a random tree: each is removed, changed, cloned, or cut and pasted into a new one.
fn edit(dir: &Path, random: &mut Random) {
    for _ in 0..3 {
        let files = tools::files(dir);
        let path = &files[random.below(files.len() as u64) as usize];
        let new = dir.join(format!("new {}", random.below(1 << 40)));
        let content = fs::read(path).expect("the file can be read");
        match random.below(5) {
            0 if files.len() > 3 => fs::remove_file(path).expect("the file can be removed"),
            1 => overwrite(path, random.below(content.len().max(1) as u64), &bytes(random.below(1 << 40), 20_000)),
            2 => clone(path, &new),
            _ => {
                let from = random.below(content.len() as u64 / 2 + 1) as usize / BLOCK * BLOCK;
                let other = &files[random.below(files.len() as u64) as usize];
                let other = fs::read(other).expect("the file can be read");
                let own = bytes(random.below(1 << 40), random.below(100) as usize * BLOCK);
                write(new, &[&own, &content[from..], &other].concat());
            }
        }
    }
}

/// Stops a run after it has compared this many bytes block by block.
struct StopWhileComparing {
    most: u64,
    is_comparing: AtomicBool,
    bytes: AtomicU64,
}

impl StopWhileComparing {
    fn after(most: u64) -> StopWhileComparing {
        StopWhileComparing { most, is_comparing: AtomicBool::new(false), bytes: AtomicU64::new(0) }
    }
}

impl Monitor for StopWhileComparing {
    fn phase(&self, name: &str, _: Option<Amount>) {
        self.is_comparing.store(name == "comparing blocks", Ordering::Relaxed);
    }

    fn advance(&self, done: Amount) {
        if self.is_comparing.load(Ordering::Relaxed) {
            self.bytes.fetch_add(done.bytes, Ordering::Relaxed);
        }
    }

    fn is_cancelled(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.most
    }
}
