//! The output of a dry run, compared with the run that follows: the same plan, and the same figures if the plan decides
//! them.

use super::*;

/// The figures that the plan decides.
const DECIDED: [&str; 8] = [
    "duplicate_files",
    "duplicate_bytes",
    "already_shared_bytes",
    "range_bytes",
    "read_bytes",
    "submitted_bytes",
    "rewritten_bytes",
    "pinned_bytes",
];

/// A dry run and then the run, with the same options. Returns both summaries.
#[track_caller]
fn plan_and_run(options: &[&str], dir: &Path) -> (Value, Value) {
    let planned = dedupe(&[&["--dry-run"], options].concat(), dir);
    let done = dedupe(options, dir);
    (planned, done)
}

#[track_caller]
fn assert_decided(planned: &Value, done: &Value, but: &[&str]) {
    for field in DECIDED.iter().filter(|field| !but.contains(*field)) {
        assert_eq!(number(planned, field), number(done, field), "{field}\nplanned {planned}\ndone    {done}");
    }
}

/// Trees with work for both stages: whole files, a file that begins like another one, and equal ranges.
fn mixed_tree(dir: &Path, seed: u64) {
    random_tree(dir, &mut Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let long = bytes(seed, 17 << 20);
    // The difference is where no sample is taken: only a comparison finds it, in the second window.
    let mut other_end = long.clone();
    other_end[(16 << 20) + (600 << 10)] ^= 1;
    for (name, content) in
        [("long", &long), ("long too", &long), ("other end", &other_end), ("other end too", &other_end)]
    {
        write(dir.join(name), content);
    }
    // Shares with a file that equals another file, and is longer.
    clone(&dir.join("long too"), &dir.join("longer"));
    append(&dir.join("longer"), &bytes(seed + 1, 3 << 20));
    let part = bytes(seed + 2, 2 << 20);
    for (name, number) in [("part 1", 10), ("part 2", 11), ("part 3", 12)] {
        write(dir.join(name), &[bytes(seed + number, 512 << 10), part.clone()].concat());
    }
    clone(&dir.join("part 3"), &dir.join("part 3 again"));
    // The samples of small files are all of their data. These share their beginnings.
    for name in ["small", "small too"] {
        write(dir.join(name), &bytes(seed + 3, 48 << 10));
    }
    shapes::clone_range(&dir.join("small"), 0, &dir.join("small too"), 0, 16 << 10);
    // The fewer go to the more, one after the other, and the source stays in memory.
    for (name, copies) in [("more", 3), ("fewer", 2)] {
        write(dir.join(name), &bytes(seed + 4, 600 << 10));
        (1..copies).for_each(|copy| clone(&dir.join(name), &dir.join(format!("{name} {copy}"))));
    }
}

on_own_filesystems! {
    fn the_plan_of_a_dry_run_is_carried_out(own: &mut Own, 1024) {
        for (seed, memory) in [(1, "256M"), (2, "256M"), (3, "1M"), (4, "256K"), (5, "256K")] {
            let dir = own.join(format!("tree/{seed}"));
            fs::create_dir(&dir).expect("a directory can be made");
            mixed_tree(&dir, seed);
            let (before, content, lists) = (used(own), seen(&dir), extent_list_bytes(&dir));
            let options = ["--ranges", "always", "--min-run", "16K", "--index-memory", memory];
            let (planned, done) = plan_and_run(&options, &dir);
            let after = used(own);
            assert_decided(&planned, &done, &[]);
            let listed = extent_list_bytes(&dir) - lists;
            assert_eq!(
                number(&planned, "freed_bytes"),
                number(&done, "freed_bytes") + listed,
                "{seed} {planned} {done}"
            );
            assert_freed(&done, before, after);
            assert_eq!(done["freed_is"], "exact");
            assert_eq!(seen(&dir), content);
        }
    }

    fn a_plan_that_something_outside_may_thwart_is_called_a_bound(own: &mut Own, 512) {
        let (dir, outside) = (own.join("tree"), own.join("outside"));
        fs::create_dir(&outside).expect("a directory can be made");
        images(&dir, 8 << 20, 6 << 20);
        // Two files in scope share, and so does one outside: the kernel only reports that they share.
        clone(&dir.join("b.img"), &dir.join("b too.img"));
        clone(&dir.join("b.img"), &outside.join("b.img"));
        clone(&dir.join("a.img"), &outside.join("a.img"));
        let before = used(own);
        let (planned, done) = plan_and_run(&["--ranges", "always"], &dir);
        assert_freed(&done, before, used(own));
        assert_eq!(number(&done, "freed_bytes"), 0, "{done}");
        let bound = if number(&planned, "freed_bytes") == 0 { "exact" } else { "at_most" };
        assert_eq!(planned["freed_is"], bound, "{planned}");
        let text = pleach([OsStr::new("dedupe"), "--no-cache".as_ref(), "--dry-run".as_ref(), dir.as_ref()]).expect(0);
        assert_eq!(
            text.stdout.contains("at most"),
            bound == "at_most" && text.stdout.contains("would free"),
            "{text:?}"
        );
    }
}
