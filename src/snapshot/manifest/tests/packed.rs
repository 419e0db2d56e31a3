//! Whole blocks that pass from one manifest to another.

use super::*;

/// The manifest `from` without the items of these numbers, written by taking over whole blocks where possible. Returns
/// how many blocks that were.
fn without(from: &Reader, dir: &Path, numbers: &[usize]) -> (PathBuf, usize) {
    let path = dir.join("copy");
    let mut writer = Writer::create(File::create(&path).unwrap(), &path, &header()).unwrap();
    writer.expect_blocks();
    let ends: Vec<usize> = {
        let mut items = from.items();
        let mut count = 0;
        let blocks: Vec<usize> = std::iter::from_fn(|| items.next().map(|_| items.address().block)).collect();
        (0..from.blocks())
            .map(|block| {
                count += blocks.iter().filter(|of| **of == block).count();
                count
            })
            .collect()
    };
    let (mut items, mut number, mut taken) = (from.items(), 0, 0);
    loop {
        let block = ends.partition_point(|end| *end <= number);
        let is_whole = ends.get(block).is_some_and(|end| !numbers.iter().any(|gone| (number..*end).contains(gone)));
        if items.next_block().is_some() && is_whole && writer.may_take_block() {
            writer.push_block(&items.take_block().unwrap().unwrap()).unwrap();
            (number, taken) = (ends[block], taken + 1);
            continue;
        }
        let Some(item) = items.next() else { break };
        if !numbers.contains(&number) {
            writer.push(&item.unwrap()).unwrap();
        }
        number += 1;
    }
    writer.finish(from.totals()).unwrap();
    (path, taken)
}

#[test]
fn blocks_that_are_taken_over_whole_read_as_if_each_record_had_been_written() {
    let dir = tempfile::tempdir().unwrap();
    let items = large();
    let reader = Reader::open(&write(dir.path(), &items, &Totals::default())).unwrap();
    let entries: Vec<usize> = (0..items.len()).filter(|number| matches!(items[*number], Item::Entry(_))).collect();
    for gone in [&[][..], &entries[..1], &entries[700..701], &entries[5000..9000], &entries[entries.len() - 1..]] {
        let (path, taken) = without(&reader, dir.path(), gone);
        let copy = Reader::open(&path).unwrap();
        copy.check().unwrap();
        let expected: Vec<_> =
            (0..items.len()).filter(|number| !gone.contains(number)).map(|number| items[number].clone()).collect();
        assert!(all(copy.items()) == expected, "{gone:?}");
        assert!(taken + 10 > reader.blocks() / 2, "{taken} of {} blocks", reader.blocks());
        for item in expected.iter().step_by(97) {
            if let Item::Directory(directory) = item {
                assert_eq!(copy.directory(&directory.path).unwrap().unwrap().directory(), directory);
            }
        }
        let entry = copy.entry(b"big", b"00004500").unwrap();
        assert_eq!(entry.is_some(), gone.len() < 2, "{gone:?}");
    }
}
