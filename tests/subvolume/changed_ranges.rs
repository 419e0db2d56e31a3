//! Of a changed image on the repository's own Btrfs only the changed ranges are cloned, and the result is the same as
//! with a clone of the whole image.

use super::{take, take_both};
use crate::harness::images::edit;
use crate::harness::*;
use crate::on_filesystems;
use pleach::snapshot::create::Subvolumes;
use std::path::Path;

const BLOCK: u64 = 4096;

/// Where the extents of a file are, as an independent program reports it.
fn extents(file: &Path) -> Vec<String> {
    let listed = tools::tool("filefrag", &["-v"], file).stdout;
    let fields = listed.lines().filter(|line| line.contains("..")).map(|line| {
        line.split(':').skip(1).take(3).map(|field| field.split_whitespace().collect::<String>()).collect::<Vec<_>>()
    });
    fields.map(|fields| fields.join(" ")).collect()
}

on_filesystems! {
    [btrfs] fn blocks_that_did_not_change_are_not_cloned_again(fs: &Filesystem) {
        let (source, repo, log) = (fs.dir("source"), fs.join("repo"), fs.join("log"));
        let image = source.join("image");
        write(&image, &bytes(1, 4 << 20));
        settle();
        take("one", &source, &repo, Subvolumes::Auto);
        let blocks = [3, 4, 90, 1000];
        blocks.iter().for_each(|block| overwrite(&image, block * BLOCK, &bytes(2, BLOCK as usize)));
        settle();
        let calls = tools::traced_calls("ioctl", &snapshot_named("two", &source, &repo), &log);
        let clones: Vec<_> = calls.iter().filter(|call| call.contains("FICLONE") && call.contains("/image>")).collect();
        let length = |length: u64| clones.iter().filter(|call| call.contains(&format!("src_length={length},"))).count();
        assert_eq!((clones.len(), length(2 * BLOCK), length(BLOCK)), (3, 1, 2), "{clones:#?}");
        let copy = inside(&repo, "two", &source).join("image");
        tools::assert_equal_trees(&source, copy.parent().unwrap());
        assert_eq!(extents(&image), extents(&copy));
    }

    [btrfs] fn whatever_changed_the_tree_and_the_records_are_those_of_a_clone_of_the_whole(fs: &Filesystem) {
        let (source, repo, plain) = (fs.dir("source"), fs.join("repo"), fs.join("plain"));
        let image = source.join("image");
        write(&image, &bytes(1, 500 * BLOCK as usize));
        for round in 0..24 {
            take_both(&format!("day-{round}"), &source, &repo, &plain);
            edit(fs.kind, &image, 500, round);
        }
    }
}
