//! `cargo xtask bench snapshot`: a large real tree kept by pleach, cp and rsync, cold and warm, on XFS and Btrfs.
//!
//! All of them take turns: each round runs every one once, every other round backwards, each into a fresh destination.

use super::calls::Calls;
use super::measure::{Cache, Sample, median, sample, turns};
use super::peers::{ALL, Cleaner, Contender, Places};
use super::{Common, report};
use anyhow::{Result, ensure};
use clap::Args;
use std::path::{Path, PathBuf};
use xtask::command::{output, program};
use xtask::image::{Kind, Mounted};
use xtask::space;
use xtask::vendor::{self, Census};

/// The least that a tree must be to tell anything about large ones.
const LEAST: Census = Census { files: 50_000, dirs: 0, bytes: 3 << 29 };

/// The options of this bench.
#[derive(Args)]
pub(crate) struct Options {
    /// How often each command runs; medians are given
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    #[command(flatten)]
    pub(super) common: Common,
    /// Install the tools to compare with, where they are missing
    #[arg(long)]
    pub(super) install: bool,
    /// Measure on this tree instead of gathering one, and leave docs/benchmarks.md alone
    #[arg(long, value_name = "DIR")]
    pub(super) tree: Option<PathBuf>,
    /// Instead: the memory that snapshots of 1,000,000 small files take
    #[arg(long)]
    pub(super) million: bool,
}

/// Runs the bench inside the namespaces.
pub(super) fn run(dir: &Path, options: &Options) -> Result<()> {
    let source = match &options.tree {
        Some(tree) => tree.clone(),
        None => vendor::large_crates()?,
    };
    let census = Census::of(&source)?;
    println!("tree: {}", describe(census));
    if options.tree.is_none() {
        ensure!(census.files >= LEAST.files && census.bytes >= LEAST.bytes, "the tree is too small to tell anything");
    }
    for &kind in &options.common.kinds {
        let fs = Mounted::create(kind, dir, kind.name(), 12 << 10)?;
        let section = on(kind, fs.path(), &source, options)?;
        fs.check()?;
        println!("\n{section}");
        if options.tree.is_none() {
            report::write(&format!("snapshot {}", kind.name()), &section)?;
        }
    }
    Ok(())
}

/// What was measured of one contender.
struct Row {
    who: Contender,
    cold: Vec<Sample>,
    warm: Vec<Sample>,
    /// Bytes on disk that one run adds.
    disk: i64,
    /// Of them, bytes of metadata, where the filesystem tells.
    metadata: Option<i64>,
    calls: Option<Calls>,
}

fn on(kind: Kind, root: &Path, source: &Path, options: &Options) -> Result<String> {
    let places = Places::on(root);
    println!("{}: filling the filesystem", kind.name());
    vendor::copy_plainly(source, &places.tree)?;
    space::sync(root)?;
    let mut rows = Vec::new();
    for who in ALL {
        match who.absence() {
            None => rows.push(Row { who, cold: Vec::new(), warm: Vec::new(), disk: 0, metadata: None, calls: None }),
            Some(reason) => println!("skipped: {}: {reason}", who.name()),
        }
    }
    // What the later runs build upon: a snapshot, and a copy for rsync.
    output(Contender::CpReflink.command(&places).env("LC_ALL", "C"))
        .or_else(|_| output(&mut Contender::Cp.command(&places)))?;
    std::fs::rename(&places.fresh, &places.copy)?;
    output(program(super::pleach()).args(["snapshot", "--quiet"]).arg(&places.tree).arg(&places.repo))?;
    let cleaner = Cleaner::new(&places)?;

    for &cache in &options.common.caches {
        for round in 0..options.runs {
            for index in turns(round, rows.len()) {
                let who = rows[index].who;
                cache.prepare(root, &places.tree, &[&places.copy, &places.repo])?;
                let taken = sample(&mut who.command(&places), root)?;
                println!("{} {} {}: {:.2} s", kind.name(), cache.name(), who.name(), taken.wall.as_secs_f64());
                match cache {
                    Cache::Cold => rows[index].cold.push(taken),
                    Cache::Warm => rows[index].warm.push(taken),
                }
                cleaner.clean(&places)?;
            }
        }
    }
    // Space and system calls are the same each time, and finding them out takes long.
    let log = root.join("strace.log");
    for row in &mut rows {
        println!("{} space and system calls: {}", kind.name(), row.who.name());
        let (before, metadata) = (space::used(root)?, space::metadata(root)?);
        output(&mut row.who.command(&places))?;
        row.disk = space::used(root)? as i64 - before as i64;
        row.metadata = metadata.zip(space::metadata(root)?).map(|(before, after)| after as i64 - before as i64);
        cleaner.clean(&places)?;
        // strace takes minutes for a run, so only one of the others stands beside ours.
        if row.who.is_ours() || row.who == Contender::CpReflink {
            row.calls = Calls::count(&row.who.command(&places), &log)?;
            let _ = std::fs::remove_file(&log);
            cleaner.clean(&places)?;
        }
    }
    let threads = threads(&places)?;
    cleaner.clean(&places)?;
    Ok(section(kind, Census::of(&places.tree)?, options.runs, threads, &rows))
}

/// The most threads that pleach has at once, as its process status tells it.
fn threads(places: &Places) -> Result<usize> {
    let mut child = Contender::Unchanged.command(places).spawn()?;
    let status = format!("/proc/{}/status", child.id());
    let mut most = 1;
    while child.try_wait()?.is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Threads:"));
        most = most.max(line.and_then(|number| number.trim().parse().ok()).unwrap_or(1));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Ok(most)
}

fn describe(census: Census) -> String {
    format!(
        "{} files, {} directories, {:.2} GiB",
        report::thousands(census.files),
        report::thousands(census.dirs),
        census.bytes as f64 / f64::from(1 << 30)
    )
}

fn section(kind: Kind, census: Census, runs: u32, threads: usize, rows: &[Row]) -> String {
    let mut text = format!("## Snapshots on {}\n\n", kind.title());
    text.push_str(&format!("The tree: sources of published crates, {}. {}. ", describe(census), report::machine()));
    text.push_str(&format!("Medians of {runs} runs in turns.\n\n"));
    text.push_str(
        "\"Alone\" is the command itself. \"Synced\" is the command and then a sync of its filesystem (`sync -f`): pleach\n\
         syncs before it publishes, so its result is on disk when it ends; the others leave theirs in memory. Cold: after\n\
         dropping all caches. Warm: content, names and inodes read before.\n\n\
         GNU `cp -a` clones by itself where it can, since coreutils 9.0. `rsync --link-dest` makes hard links and no files,\n\
         so its copies share metadata too. \"The bare calls\" are the system\n\
         calls that cloning a tree cannot leave out, on as many threads as pleach has, with no manifest, no check and no\n\
         sync: what the kernel itself takes. `find` copies nothing: it is the floor of everyone who looks at each entry;\n\
         so is `statx`, on two threads and without a program around it. Btrfs keeps two copies of its metadata here, and both\n\
         are counted.\n\n",
    );
    for (cache, samples) in
        [(Cache::Cold, (|row| &row.cold) as fn(&Row) -> &Vec<Sample>), (Cache::Warm, |row| &row.warm)]
    {
        if rows.iter().all(|row| samples(row).is_empty()) {
            continue;
        }
        text.push_str(&format!("### Time, {} cache\n\n", cache.name()));
        text.push_str(&times(census, threads, rows, samples));
        text.push_str(&format!(
            "\n### Ratios, {} cache\n\npleach's time over the other's; below 1 pleach is faster. ",
            cache.name()
        ));
        text.push_str("Alone, and with both synced.\n\n");
        text.push_str(&ratios(rows, samples));
        text.push('\n');
    }
    text.push_str(
        "### System calls\n\nOf one run each, counted by `strace -c -f`, for each file and directory of the tree.\n\n",
    );
    text.push_str(&calls(census, rows));
    text.push_str("\n### Versions\n\n");
    for row in rows.iter().filter(|row| {
        row.who == Contender::First || (!row.who.is_ours() && !matches!(row.who, Contender::Floor | Contender::Statx))
    }) {
        text.push_str(&format!("- {}: {}\n", row.who.name(), row.who.version()));
    }
    text
}

fn seconds(samples: &[Sample], what: fn(&Sample) -> std::time::Duration) -> f64 {
    median(samples.iter().map(|sample| what(sample).as_secs_f64()).collect())
}

fn times(census: Census, threads: usize, rows: &[Row], samples: fn(&Row) -> &Vec<Sample>) -> String {
    let cell = |row: &Row| {
        let all = samples(row);
        let alone = seconds(all, |sample| sample.wall);
        let (least, most) = all.iter().fold((f64::MAX, 0.0_f64), |(least, most), sample| {
            (least.min(sample.wall.as_secs_f64()), most.max(sample.wall.as_secs_f64()))
        });
        vec![
            row.who.name().to_string(),
            row.who.threads(threads),
            format!("{alone:.2}"),
            format!("{least:.2}–{most:.2}"),
            format!("{:.2}", seconds(all, |sample| sample.synced)),
            format!("{:.2}", seconds(all, |sample| sample.user)),
            format!("{:.2}", seconds(all, |sample| sample.system)),
            format!("{:.0}", alone * 1e6 / census.entries() as f64),
            report::mebibytes(median(all.iter().map(|sample| sample.memory as f64).collect())),
            report::mebibytes(row.disk as f64),
            row.metadata.map_or("–".into(), |bytes| format!("{:.2}", bytes as f64 / f64::from(1 << 20))),
        ]
    };
    let heading = [
        "",
        "threads",
        "alone s",
        "least–most",
        "synced s",
        "user s",
        "system s",
        "µs an entry",
        "memory MiB",
        "disk MiB",
        "of it metadata",
    ];
    report::table(&heading, &rows.iter().map(cell).collect::<Vec<_>>())
}

fn ratios(rows: &[Row], samples: fn(&Row) -> &Vec<Sample>) -> String {
    let others: Vec<_> = rows.iter().filter(|row| !row.who.is_ours()).collect();
    let mut heading = vec![""];
    heading.extend(others.iter().map(|row| row.who.name()));
    let cell = |ours: &Row, other: &Row| {
        let ratio =
            |what: fn(&Sample) -> std::time::Duration| seconds(samples(ours), what) / seconds(samples(other), what);
        let (alone, synced) = (ratio(|sample| sample.wall), ratio(|sample| sample.synced));
        format!("{alone:.2} / {synced:.2}")
    };
    let row = |ours: &Row| {
        let cells = others.iter().map(|other| cell(ours, other));
        std::iter::once(ours.who.name().to_string()).chain(cells).collect()
    };
    report::table(&heading, &rows.iter().filter(|row| row.who.is_ours()).map(row).collect::<Vec<_>>())
}

fn calls(census: Census, rows: &[Row]) -> String {
    let each = |calls: u64| format!("{:.2}", calls as f64 / census.entries() as f64);
    let row = |row: &Row| {
        let calls = row.calls.as_ref()?;
        let most = calls.kinds.iter().take(10).filter(|(_, calls)| *calls * 50 > census.entries());
        let most = most.map(|(name, calls)| format!("{name} {}", each(*calls))).collect::<Vec<_>>().join(", ");
        Some(vec![row.who.name().to_string(), each(calls.total()), most])
    };
    let rows: Vec<_> = rows.iter().filter_map(row).collect();
    if rows.is_empty() {
        "strace is not installed.\n".into()
    } else {
        report::table(&["", "an entry", "most of them"], &rows)
    }
}
