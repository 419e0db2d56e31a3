//! Manifests that are written again with other content, as a wrong clock or a forger would have it.

use pleach::testing::manifest::{Header, Item, Reader, Time, Totals, Writer};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The file of a snapshot's manifest.
pub(crate) fn manifest(repo: &Path, name: &str) -> PathBuf {
    repo.join(".pleach/manifests").join(name)
}

/// Edits the manifest of a snapshot. Its file stays the same inode, with the same attributes.
#[track_caller]
pub(crate) fn edit(repo: &Path, name: &str, edit: impl FnOnce(&mut Header, &mut [Item], &mut Totals)) {
    let path = manifest(repo, name);
    let reader = Reader::open(&path).unwrap();
    let mut items: Vec<Item> = reader.items().collect::<Result<_, _>>().unwrap();
    let (mut header, mut totals, origins) = (reader.header().clone(), *reader.totals(), reader.origins().to_vec());
    drop(reader);
    edit(&mut header, &mut items, &mut totals);
    let file = File::options().read(true).write(true).truncate(true).open(&path).unwrap();
    let mut writer = Writer::create(file, &path, &header).unwrap();
    items.iter().for_each(|item| writer.push(item).unwrap());
    writer.set_origins(origins);
    writer.finish(&totals).unwrap();
}

/// Gives a snapshot another time, in seconds since 1970, as if it had been taken then.
pub(crate) fn date(repo: &Path, name: &str, seconds: i64) {
    edit(repo, name, |header, _, _| header.created = Time { seconds, nanos: 0 });
}
