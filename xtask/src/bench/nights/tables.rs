//! The section of `docs/benchmarks.md`.

use super::{From, Night, Nights, Rewritten};
use crate::bench::measure::median;
use crate::bench::report;
use crate::image::Kind;

pub(super) fn section(kind: Kind, all: &[Nights], rewritten: &Rewritten, runs: u32) -> String {
    let mut text = format!("## A night on {}\n\n", kind.title());
    text.push_str(&format!("{}. Medians of {runs} nights.\n\n", report::machine()));
    text.push_str(
        "The image: one block of 4 KiB in a hundred is written in place each night, in no order. PostgreSQL: its data\n\
         directory after a run of pgbench. From another filesystem, which is XFS, and from the repository's own. \"Changed\" are the\n\
         blocks that differ from the last snapshot, \"added\" is what `df` shows in addition. Times are of cold caches; `cat`\n\
         reads the source to `/dev/null`; the snapshot reads, hashes, writes and syncs.\n\n",
    );
    if kind == Kind::Btrfs {
        text.push_str(
            "Of what is added the data stands in a column of its own; the rest are Btrfs's trees, twice on the disk, as mkfs\n\
             makes them: a block that stands alone takes two items of its file, 78 bytes each, and one of the extent tree.\n\n",
        );
    }
    let heading = [
        "",
        "from",
        "size MiB",
        "changed MiB",
        "added MiB",
        "added / changed",
        "data / changed",
        "read MiB",
        "s",
        "cat s",
        "s / cat",
        "memory MiB",
    ];
    text.push_str(&report::table(&heading, &all.iter().map(row).collect::<Vec<_>>()));
    let ratio = |bytes: u64| format!("{:.3}", bytes as f64 / rewritten.size as f64);
    text.push_str(&format!(
        "\nThe image written whole on the repository's own filesystem, as programs do that save, with {} MiB of {} changed: the \
         two snapshots and the live file together take {} times its size, and after the live file was deleted {}. That \
         snapshot took {:.2} s.\n",
        report::mebibytes(rewritten.changed as f64),
        rewritten.size >> 20,
        ratio(rewritten.all),
        ratio(rewritten.snapshots),
        rewritten.seconds,
    ));
    text
}

fn row(nights: &Nights) -> Vec<String> {
    let figure = |what: &dyn Fn(&Night) -> f64| median(nights.nights.iter().map(what).collect());
    let seconds = |sample: &crate::bench::measure::Sample| sample.wall.as_secs_f64();
    vec![
        nights.subject.name().to_string(),
        match nights.from {
            From::Elsewhere => "elsewhere".into(),
            From::Here => "here".into(),
        },
        report::mebibytes(nights.size as f64),
        report::mebibytes(figure(&|night| night.changed as f64)),
        report::mebibytes(figure(&|night| night.added as f64)),
        format!("{:.3}", figure(&|night| night.added as f64 / night.changed as f64)),
        match nights.nights.iter().map(|night| night.data).collect::<Option<Vec<_>>>() {
            Some(_) => format!("{:.3}", figure(&|night| night.data.unwrap_or(0) as f64 / night.changed as f64)),
            None => String::new(),
        },
        report::mebibytes(figure(&|night| night.read as f64)),
        format!("{:.2}", figure(&|night| seconds(&night.snapshot))),
        format!("{:.2}", figure(&|night| seconds(&night.cat))),
        format!("{:.2}", figure(&|night| seconds(&night.snapshot) / seconds(&night.cat))),
        report::mebibytes(figure(&|night| night.snapshot.memory as f64)),
    ]
}
