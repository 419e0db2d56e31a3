//! The questions of `docs/benchmarks.md`: the goal, the floor, the command, and facts for maintainers.
//!
//! The answers are recorded elsewhere (`results`); `report` makes the page from both.

/// The format of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Mebibytes,
    /// Three digits after the point.
    Ratio,
}

/// A figure that the page shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) heading: &'static str,
    /// Its name in the results.
    pub(crate) figure: &'static str,
    pub(crate) unit: Unit,
}

/// A question.
pub(crate) struct Question {
    /// The name of its file of results.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// The goal.
    pub(crate) asked: &'static str,
    /// The work that no tool can avoid; empty if none was found.
    pub(crate) floor: &'static str,
    /// The commands, in backquotes.
    pub(crate) run: &'static str,
    /// The figure by which contenders are compared.
    pub(crate) measure: Column,
    /// Whether there is no comparison: the page shows the worst of pleach's runs.
    pub(crate) is_limit: bool,
    /// A peer counts only if it reaches 0.95 of pleach's value of this figure.
    pub(crate) at_least: Option<&'static str>,
    /// Further figures of pleach that the page shows.
    pub(crate) more: &'static [Column],
    /// For maintainers, by `cargo xtask bench report --notes`.
    pub(crate) note: &'static str,
}

const SECONDS: Column = Column { heading: "s", figure: "seconds", unit: Unit::Seconds };
const MEMORY: Column = Column { heading: "memory MiB", figure: "memory_bytes", unit: Unit::Mebibytes };
const ADDED: Column = Column { heading: "added MiB", figure: "added_bytes", unit: Unit::Mebibytes };

/// The page's questions, in its order.
pub(crate) const QUESTIONS: &[Question] = &[
    Question {
        id: "unchanged",
        title: "A snapshot of an unchanged tree",
        asked: "At most 0.5 of the time of `cp -a --reflink=always`, cold cache.",
        floor: "XFS: a clone of each file by the bare system calls. Btrfs, where a subvolume snapshot replaces \
                the clones: the status of each entry.",
        run: "`cargo xtask bench snapshot`",
        measure: SECONDS,
        is_limit: false,
        at_least: None,
        more: &[MEMORY],
        note: "Cloning from the source, with an inode that has just been read, is faster than cloning from the last \
               snapshot: with the bare calls 3.9 against 4.5 s on XFS, 5.0 against 5.8 s on Btrfs. On Btrfs \
               all new inodes go into the right edge of one tree, so a second writer mostly waits for the \
               first; four and eight writers are slower than two. On XFS two writers of four threads do as \
               well as eight. Reading content from a cold disk wants eight threads. On Btrfs, 99,927 files \
               took 0.88 s with a subvolume snapshot, 1.15 of `statx`, by hand.",
    },
    Question {
        id: "first",
        title: "A first snapshot on the source's filesystem",
        asked: "With `--hash none` at most 0.6 of the time of `cp -a --reflink=always`, cold cache.",
        floor: "A clone of each file by the bare system calls.",
        run: "`cargo xtask bench snapshot`",
        measure: SECONDS,
        is_limit: false,
        at_least: None,
        more: &[MEMORY],
        note: "Without `--hash none` every file is read once and hashed, which nobody else does. A manifest \
               takes 62 bytes an entry on disk, 0.7 µs an entry to write and 0.4 µs to look up in the order of \
               the walk.",
    },
    Question {
        id: "dedupe",
        title: "Space given back by a dedupe",
        asked: "At least what the best peer frees, in at most 0.8 of the time of `jdupes -B`; the \
                reported bytes equal `df` within 1 %; a second run reads no data. Peers that free less do not count.",
        floor: "The files that are equal are known; they are only opened, read ahead and given to \
                FIDEDUPERANGE. Whole files only.",
        run: "`cargo xtask bench dedupe`",
        measure: SECONDS,
        is_limit: false,
        at_least: Some("freed_bytes"),
        more: &[
            Column { heading: "freed MiB", figure: "freed_bytes", unit: Unit::Mebibytes },
            Column { heading: "reported", figure: "reported_bytes", unit: Unit::Mebibytes },
            Column { heading: "again s", figure: "second_seconds", unit: Unit::Seconds },
        ],
        note: "duperemove 0.11.2 is faster than pleach because it skips files below 128 KiB, and frees a \
               third; half of its time is below what the kernel takes to compare the files that pleach shares. \
               duperemove 0.15.2 frees what `--ranges never` frees in 40 s on XFS, 23 s on Btrfs; \
               PLEACH_BENCH_DUPEREMOVE names such another one. Of two images that have 284 MiB of blocks in \
               common pleach frees 284, jdupes and duperemove nothing.",
    },
    Question {
        id: "changes",
        title: "A snapshot of 500,000 files after changes in 50",
        asked: "At most 0.1 of the time of `find -printf %s` on Btrfs, and less than it on XFS, cold cache, and no \
                data read but that of the changed files.",
        floor: "`find -printf %s`: the status of each file, and no snapshot.",
        run: "`cargo xtask bench changes`",
        measure: SECONDS,
        is_limit: false,
        at_least: None,
        more: &[Column { heading: "data read MiB", figure: "data_bytes", unit: Unit::Mebibytes }, MEMORY],
        note: "",
    },
    Question {
        id: "memory",
        title: "The memory for a million files",
        asked: "A snapshot in at most 400 MiB, a dedupe in at most 300 MiB, in each of two runs; the benches fail \
                above that.",
        floor: "",
        run: "`cargo xtask bench snapshot --million` and `cargo xtask bench dedupe --million`",
        measure: MEMORY,
        is_limit: true,
        at_least: None,
        more: &[],
        note: "Files of one size are one class, which is in memory at once. A snapshot took 19 MiB for a \
               thousand directories on XFS, 37 MiB for one directory of a million files.",
    },
    Question {
        id: "dedupe-replaced",
        title: "A dedupe after 1 % was replaced",
        asked: "The data read is at most 1.2 times the new and the shared bytes, and as much is freed as without a \
                cache; the bench fails otherwise.",
        floor: "",
        run: "`cargo xtask bench dedupe --replaced`",
        measure: Column { heading: "data read MiB", figure: "data_bytes", unit: Unit::Mebibytes },
        is_limit: true,
        at_least: None,
        more: &[Column { heading: "freed MiB", figure: "freed_bytes", unit: Unit::Mebibytes }, SECONDS],
        note: "On Btrfs, root reads checksums with and without a cache.",
    },
    Question {
        id: "copy-cold",
        title: "A tree copied to another filesystem, cold cache",
        asked: "No tool faster, no named engine faster than `auto` by more than 5 %; with a sync of the destination.",
        floor: "As many bytes read and written in large pieces past the page cache.",
        run: "`cargo xtask bench copy --cache cold`",
        measure: SECONDS,
        is_limit: false,
        at_least: None,
        more: &[],
        note: "The device alone takes 10.3 s for 8 × 1 GiB from ext4 to XFS and 9.0 s from XFS to Btrfs; \
               pleach took 8.5 and 11.6 s in one round. Between `auto`, `buffered` and `sendfile` on real \
               files lies only noise. Through the page cache, 8 GiB take 7 to 18 s of the processor, with \
               RWF_DONTCACHE 3.8 s, by direct I/O 1.3 s.",
    },
    Question {
        id: "copy-warm",
        title: "A tree copied to another filesystem, warm cache",
        asked: "At most 1.06 of the floor.",
        floor: "Each file made without a name, filled, given mode and times, linked, by two threads; one sync.",
        run: "`cargo xtask bench copy --cache warm`",
        measure: SECONDS,
        is_limit: false,
        at_least: None,
        more: &[],
        note: "The peers write each file under its final name at once, so a killed copy leaves half files. On \
               Btrfs a file without a name costs one more item of the tree, up to 13 %. So pleach fills a new \
               directory of small files under a temporary name, and gives it its own name when they are complete. \
               To XFS from itself, `cpz` is faster, because it keeps no times. A temporary name and a rename for \
               each file take longer on every filesystem.",
    },
    Question {
        id: "put",
        title: "A stream that replaces a file",
        asked: "At most the time of `cat > new`, fsync and rename; all but the changed blocks shared.",
        floor: "",
        run: "`cargo xtask bench put`",
        measure: Column { heading: "s", figure: "alone_seconds", unit: Unit::Seconds },
        is_limit: false,
        at_least: None,
        more: &[ADDED, Column { heading: "shared MiB", figure: "shared_bytes", unit: Unit::Mebibytes }],
        note: "",
    },
    Question {
        id: "nights",
        title: "The space of a snapshot after few blocks changed",
        asked: "At most 1.05 × the changed blocks.",
        floor: "A clone of each changed file's last version into which just the changed blocks are written.",
        run: "`cargo xtask bench nights`",
        measure: Column { heading: "added / changed", figure: "added_ratio", unit: Unit::Ratio },
        is_limit: false,
        at_least: None,
        more: &[ADDED],
        note: "On Btrfs a single block takes 238 bytes of items (two more of its file, one of the \
               extent tree, its checksum), and mkfs keeps them twice: 1.116 is the least, whoever writes; `-m \
               single` has half of that. A second snapshot on top of the first takes 1.23 to 1.24 there. On \
               XFS a database's snapshot has a constant part of 0.7 MiB, the inodes of 1,045 clones; \
               `--unchanged hardlink` spares them. The time of `cat` swings from 4.9 to 17 s for 8 GiB; direct \
               reads alone take 5.5 to 5.9 s. FICLONE of an image with extents split by a change of \
               100,000 blocks takes 2.4 to 3.2 s.",
    },
    Question {
        id: "chain",
        title: "The last night of a year",
        asked: "At most 1.5 of the time of the tenth night.",
        floor: "The changed blocks written into a version of the last snapshot, a clone of the image, and the deletion \
                of a clone: whichever takes longest.",
        run: "`cargo xtask bench chain`",
        measure: SECONDS,
        is_limit: false,
        at_least: None,
        more: &[Column { heading: "data read MiB", figure: "data_bytes", unit: Unit::Mebibytes }, MEMORY],
        note: "",
    },
    Question {
        id: "moved",
        title: "A snapshot after a directory of 64 GiB was moved on another filesystem",
        asked: "0 bytes copied; nothing read unless files themselves were renamed, which changes their ctime.",
        floor: "0 bytes.",
        run: "`cargo xtask bench moved`",
        measure: Column { heading: "copied MiB", figure: "copied_bytes", unit: Unit::Mebibytes },
        is_limit: false,
        at_least: None,
        more: &[Column { heading: "data read MiB", figure: "data_bytes", unit: Unit::Mebibytes }],
        note: "",
    },
    Question {
        id: "prune",
        title: "50 of 60 snapshots removed",
        asked: "At most 0.7 of the time of `rm -rf` of the same trees on XFS, 0.05 on Btrfs; the freed space is what \
                the dry run foretold: exact on XFS, to 2 % on Btrfs.",
        floor: "XFS: `rm -rf`, two at a time. Btrfs: `btrfs subvolume delete`.",
        run: "`cargo xtask bench prune`",
        measure: SECONDS,
        is_limit: false,
        at_least: None,
        more: &[
            Column { heading: "freed MiB", figure: "freed_bytes", unit: Unit::Mebibytes },
            Column { heading: "foretold / freed", figure: "foretold_ratio", unit: Unit::Ratio },
        ],
        note: "",
    },
    Question {
        id: "verify",
        title: "20 snapshots that share 2 GiB verified",
        asked: "2 GiB read, in at most 1.1 of the time of `cat` of one snapshot, cold cache.",
        floor: "`cat` of each file of one snapshot.",
        run: "`cargo xtask bench verify`",
        measure: SECONDS,
        is_limit: false,
        at_least: None,
        more: &[Column { heading: "data read MiB", figure: "data_bytes", unit: Unit::Mebibytes }, MEMORY],
        note: "",
    },
    Question {
        id: "replicate",
        title: "Ten nights to another filesystem",
        asked: "All nights: a stream of at most 1.05 of the changed data and 80 bytes an entry, equal space to \
                2 %. The last night, cold, both sides synced: at most the time of `btrfs send -p` and `btrfs \
                receive` on Btrfs, at most 0.3 of the time of rsync on XFS.",
        floor: "",
        run: "`cargo xtask bench replicate`",
        measure: SECONDS,
        is_limit: false,
        at_least: None,
        more: &[Column { heading: "stream MiB", figure: "stream_bytes", unit: Unit::Mebibytes }, MEMORY],
        note: "",
    },
    Question {
        id: "offsite",
        title: "A snapshot pushed to a store in restic's format",
        asked: "An unchanged tree: at most 0.3 of the time of `restic backup` of the live tree, cold cache; only \
                changed files are read.",
        floor: "",
        run: "`cargo xtask bench offsite`",
        measure: SECONDS,
        is_limit: false,
        at_least: None,
        more: &[
            Column { heading: "data read MiB", figure: "data_bytes", unit: Unit::Mebibytes },
            Column { heading: "stored MiB", figure: "stored_bytes", unit: Unit::Mebibytes },
            MEMORY,
        ],
        note: "",
    },
    Question {
        id: "du",
        title: "What a repository takes and shares",
        asked: "The figures of `btrfs filesystem du -s` to the byte, in less time.",
        floor: "`du -s`, which only adds up the status of each file.",
        run: "`cargo xtask bench du`",
        measure: SECONDS,
        is_limit: false,
        at_least: None,
        more: &[MEMORY],
        note: "",
    },
    Question {
        id: "fiemap",
        title: "The list of a million extents",
        asked: "At most the time of `filefrag -v`.",
        floor: "",
        run: "`cargo xtask bench fiemap`",
        measure: SECONDS,
        is_limit: false,
        at_least: None,
        more: &[MEMORY],
        note: "Most of the time is the kernel's, whoever asks and in batches of any size. Printing takes \
               pleach 0.1 to 0.2 s, filefrag 0.5 to 0.6, xfs_io 0.5 to 1.3. xfs_io has the file \
               synced with each batch of 32 extents, pleach once, filefrag never.",
    },
];
