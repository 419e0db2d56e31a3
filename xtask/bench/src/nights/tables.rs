//! The section of `docs/benchmarks.md`.

use super::{Added, From, Night, Nights, Rewritten};
use crate::measure::{Sample, median};
use crate::report;
use xtask::image::Kind;

pub(super) fn section(kind: Kind, all: &[Nights], rewritten: &Rewritten, runs: u32) -> String {
    let mut text = format!("## A night on {}\n\n", kind.title());
    text.push_str(&format!("{}. Medians of {runs} nights.\n\n", report::machine()));
    text.push_str(
        "The image: one block of 4 KiB in a hundred is written in place each night, in no order. PostgreSQL: its data\n\
         directory after a run of pgbench. From another filesystem, which is XFS, and from the repository's own. \"Changed\" are the\n\
         blocks that differ from the last snapshot, those of new files among them; \"added\" is what `df` shows in addition.\n\n\
         The floor is what `df` shows in addition for the bare writes of the same night: each changed file a clone of its last version into\n\
         which just the changed blocks are written, in their order; from the repository's own filesystem a clone of its source. ",
    );
    text.push_str(match kind {
        Kind::Btrfs => {
            "The tree around them is a subvolume snapshot.\n\
             Of what is added, \"trees\" is Btrfs's metadata, twice on the disk as mkfs makes it. A block that stands alone takes two\n\
             more items of its file, 78 bytes each, and one of the extent tree, 78 bytes, and 4 bytes of checksum: 238 bytes, and twice that\n\
             is 0.116 of the block. So no tool that keeps such blocks as blocks of files comes below 1.116 there.\n\n"
        }
        _ => "Every unchanged file is a clone too: an inode of 512 bytes each.\n\n",
    });
    text.push_str(&report::table(
        &space_heading(kind),
        &all.iter().map(|nights| space(kind, nights)).collect::<Vec<_>>(),
    ));
    text.push_str(
        "\nTimes are of cold caches; `cat` reads the source to `/dev/null`; the snapshot reads, hashes, writes and syncs.\n\n",
    );
    let heading = ["", "from", "read MiB", "s", "cat s", "s / cat", "memory MiB"];
    text.push_str(&report::table(&heading, &all.iter().map(time).collect::<Vec<_>>()));
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

fn space_heading(kind: Kind) -> Vec<&'static str> {
    let mut heading = vec![
        "",
        "from",
        "size MiB",
        "files",
        "changed MiB",
        "added MiB",
        "added / changed",
        "floor MiB",
        "floor / changed",
        "added / floor",
    ];
    if kind == Kind::Btrfs {
        heading.extend(["data / changed", "trees MiB", "floor's trees MiB"]);
    }
    heading
}

fn space(kind: Kind, nights: &Nights) -> Vec<String> {
    let figure = |what: &dyn Fn(&Night) -> f64| median(nights.nights.iter().map(what).collect());
    let mebibytes = |what: &dyn Fn(&Night) -> i64| report::mebibytes(figure(&|night| what(night) as f64));
    let ratio = |what: &dyn Fn(&Night) -> (i64, i64)| {
        format!("{:.3}", figure(&|night| what(night).0 as f64 / what(night).1 as f64))
    };
    let mut row = subject(nights);
    row.extend([
        report::mebibytes(nights.size as f64),
        report::thousands(nights.files),
        mebibytes(&|night| night.changed as i64),
        mebibytes(&|night| night.added.all),
        ratio(&|night| (night.added.all, night.changed as i64)),
        mebibytes(&|night| night.floor.all),
        ratio(&|night| (night.floor.all, night.changed as i64)),
        ratio(&|night| (night.added.all, night.floor.all)),
    ]);
    if kind == Kind::Btrfs {
        let trees = |added: &Added| added.all - added.data.unwrap_or(0);
        row.extend([
            ratio(&|night| (night.added.data.unwrap_or(0), night.changed as i64)),
            mebibytes(&|night| trees(&night.added)),
            mebibytes(&|night| trees(&night.floor)),
        ]);
    }
    row
}

fn time(nights: &Nights) -> Vec<String> {
    let figure = |what: &dyn Fn(&Night) -> f64| median(nights.nights.iter().map(what).collect());
    let seconds = |sample: &Sample| sample.wall.as_secs_f64();
    let mut row = subject(nights);
    row.extend([
        report::mebibytes(figure(&|night| night.read as f64)),
        format!("{:.2}", figure(&|night| seconds(&night.snapshot))),
        format!("{:.2}", figure(&|night| seconds(&night.cat))),
        format!("{:.2}", figure(&|night| seconds(&night.snapshot) / seconds(&night.cat))),
        report::mebibytes(figure(&|night| night.snapshot.memory as f64)),
    ]);
    row
}

fn subject(nights: &Nights) -> Vec<String> {
    let from = match nights.from {
        From::Elsewhere => "elsewhere",
        From::Here => "here",
    };
    vec![nights.subject.name().to_string(), from.to_string()]
}
