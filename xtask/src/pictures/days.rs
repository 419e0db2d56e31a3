//! The picture of a repository that grows: a snapshot a day for a month, and the space that all of them take.

use super::root::Root;
use super::style::{self, area, path, round, size, text};
use crate::noise::Noise;
use crate::space;
use anyhow::{Context, Result};
use serde_json::Value;
use svg::Document;

const DAYS: u64 = 30;
/// The first tree: a disk image, and photos.
const IMAGE: u64 = 160 << 20;
const PHOTO: u64 = 3 << 20;
const PHOTOS: u64 = 20;
/// A day's work: this many blocks of the image change, and a photo is added. Every third day one is deleted.
const BLOCKS: u64 = 24;
const BLOCK: u64 = 64 << 10;

/// The space after the snapshot of a day.
#[derive(Debug, PartialEq)]
pub(crate) struct Day {
    /// The size of all snapshots so far, as if nothing was shared.
    trees: u64,
    /// What the source and the snapshots take on the disk together, with all metadata.
    disk: u64,
}

/// Takes the snapshots.
pub(crate) fn run(root: &Root) -> Result<Vec<Day>> {
    let empty = space::used_now(&root.path("/"))?;
    root.write("/data/vm.img", 0, usize::try_from(IMAGE)?, 1)?;
    for photo in 0..PHOTOS {
        add_photo(root, photo)?;
    }
    let mut places = Noise::from(2);
    let mut days: Vec<Day> = Vec::new();
    for day in 1..=DAYS {
        if day > 1 {
            for _ in 0..BLOCKS {
                let place = places.number() % (IMAGE / BLOCK) * BLOCK;
                root.write("/data/vm.img", place, usize::try_from(BLOCK)?, places.number())?;
            }
            add_photo(root, PHOTOS + day)?;
            if day % 3 == 0 {
                std::fs::remove_file(root.path(&photo_path(day / 3)))?;
            }
        }
        let name = format!("day-{day:02}");
        let json = root.shell(&format!("pleach snapshot --json --name {name} /data /backup"))?;
        let disk = space::used_now(&root.path("/"))?.saturating_sub(empty);
        let before = days.last().map_or(0, |day| day.trees);
        days.push(Day { trees: before + tree_bytes(&json)?, disk });
    }
    Ok(days)
}

fn photo_path(photo: u64) -> String {
    format!("/data/photos/img_{photo:04}.raw")
}

fn add_photo(root: &Root, photo: u64) -> Result<()> {
    root.write(&photo_path(photo), 0, usize::try_from(PHOTO)?, 100 + photo)
}

/// The size of the tree, by the summary of `pleach snapshot --json`.
fn tree_bytes(json: &str) -> Result<u64> {
    let last = json.lines().last().context("`pleach snapshot --json` printed nothing")?;
    let summary: Value = serde_json::from_str(last)?;
    summary["bytes"].as_u64().with_context(|| format!("no size of the tree in {last}"))
}

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 400.0;
/// The chart in the picture.
const LEFT: f64 = 78.0;
const RIGHT: f64 = 776.0;
const TOP: f64 = 76.0;
const BOTTOM: f64 = 346.0;

/// Draws bars for the trees, and in front of them bars for the disk.
pub(crate) fn draw(days: &[Day]) -> Document {
    let Day { trees, disk } = days.last().unwrap_or(&Day { trees: 1, disk: 0 });
    let description = format!(
        "After {} days the files in all snapshots add up to {}. Together with the source they take {} on the disk.",
        days.len(),
        size(*trees),
        size(*disk)
    );
    let mut picture = style::chart(WIDTH, HEIGHT, "A snapshot a day, for 30 days", &description);
    let gib = f64::from(1 << 30);
    let step = if *trees as f64 > 8.0 * gib { 2.0 } else { 1.0 };
    let top = (*trees as f64 / gib / step).ceil() * step;
    let y = |bytes: f64| BOTTOM - bytes / gib / top * (BOTTOM - TOP);
    let mut line = 0.0;
    while line <= top {
        let at = y(line * gib);
        picture = picture.add(path(&format!("M{LEFT} {0}H{RIGHT}", round(at))).set("class", "grid"));
        picture = picture.add(text(LEFT - 10.0, at + 4.5, "dim end", &format!("{line:.0} GiB")));
        line += step;
    }
    let width = (RIGHT - LEFT) / days.len() as f64;
    for (index, day) in days.iter().enumerate() {
        let x = LEFT + width * index as f64 + 3.0;
        for (bytes, class) in [(day.trees, "trees"), (day.disk, "disk")] {
            let at = y(bytes as f64);
            picture = picture.add(area(x, at, width - 6.0, BOTTOM - at, class));
        }
        let number = index + 1;
        if number == 1 || number % 5 == 0 {
            picture = picture.add(text(x + width / 2.0 - 3.0, BOTTOM + 20.0, "dim middle", &number.to_string()));
        }
    }
    picture = picture.add(text((LEFT + RIGHT) / 2.0, HEIGHT - 14.0, "dim middle", "day"));
    let legend = [
        ("trees", format!("the files of all snapshots, added up: {}", size(*trees))),
        ("disk", format!("on the disk, the source and all snapshots together: {}", size(*disk))),
    ];
    for (index, (class, words)) in legend.iter().enumerate() {
        let at = TOP + 14.0 + 26.0 * index as f64;
        picture = picture.add(area(LEFT + 16.0, at, 14.0, 14.0, class));
        picture = picture.add(text(LEFT + 40.0, at + 12.0, "strong", words));
    }
    picture
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_tree_is_in_the_last_line() {
        let json = "{\"type\":\"warning\"}\n{\"type\":\"summary\",\"bytes\":12}\n";
        assert_eq!(tree_bytes(json).unwrap(), 12);
        assert!(tree_bytes("{}").is_err());
    }
}
