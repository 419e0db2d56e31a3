//! A fuzz target for the extents that FIEMAP reports: maps, sharing and pictures of any such extents.

use super::address_space::{AddressSpace, SpaceId};
use super::extent::Extent;
use super::layout::join_neighbours;
use super::map::Map;
use super::picture::{self, Sketch};
use super::piece::Piece;
use super::ranges;
use super::sharing::{self, Holdings};
use crate::fs::filesystem::Id;
use crate::monitor::Silent;
use crate::util::fuzz::Source;
use std::ops::Range;
use std::path::Path;

/// The extents of two files, each after their number and the size of the file.
pub(crate) fn extents(bytes: &[u8]) {
    let mut source = Source::new(bytes);
    let mut file = || {
        let (count, size) = (source.byte() % 32, source.number());
        (size, extents_of(&mut source, count))
    };
    let files = [file(), file()];
    let space = AddressSpace::from(Id::Device(1));
    let [one, other] = [&files[0].1, &files[1].1].map(|extents| map(extents, space.id()));
    check_maps(&one, &other, files[0].0);
    check_sharing(&files, space);
    let mut pieces: Vec<Piece> = one.pieces().iter().chain(other.pieces()).copied().collect();
    join_neighbours(&mut pieces);
    for piece in &pieces {
        assert!(piece.extent.is_none() || piece.encoded || piece.offset <= piece.disk);
    }
}

/// Extents in the order in which `sys::fiemap` returns them: each ends behind the one before.
fn extents_of(source: &mut Source<'_>, count: u8) -> Vec<Extent> {
    let (mut extents, mut end) = (Vec::new(), 0);
    for _ in 0..count {
        let [logical, physical, length, flags] = [(); 4].map(|()| source.number());
        let logical = if flags & 1 << 20 == 0 { logical } else { end };
        let extent = Extent::from_kernel(logical, physical, length, flags as u32);
        if extent.logical_end() > end {
            assert!(extent.logical.checked_add(extent.length).is_some());
            assert!(extent.physical.is_none_or(|physical| physical.checked_add(extent.length).is_some()));
            end = extent.logical_end();
            extents.push(extent);
        }
    }
    extents
}

fn map(extents: &[Extent], space: SpaceId) -> Map {
    Map::from_pieces(extents.iter().map(|extent| Piece::of_extent(extent, Some(space))).collect())
}

fn check_maps(one: &Map, other: &Map, size: u64) {
    let _ = (one.bytes(), one.first_physical());
    let is_placed = one.pieces().iter().all(|piece| piece.extent.is_some());
    assert_eq!(one.key().is_some(), is_placed);
    if is_placed && is_disjoint(one) {
        assert_eq!(one.unlike(one, size), []);
    }
    let unlike = one.unlike(other, size);
    assert!(unlike.iter().all(|range| range.start < range.end && range.end <= size));
    assert!(unlike.windows(2).all(|two| two[0].end < two[1].start));
    let both = one.with_ranges_of(other, &unlike);
    if is_disjoint(one) && is_disjoint(other) {
        assert!(is_disjoint(&both));
    }
    let places = |map: &Map| -> Vec<Range<u64>> {
        ranges::list(map.pieces().iter().map(|piece| piece.logical..piece.end()).collect())
    };
    let (ours, theirs) = (places(one), places(other));
    let rest = ranges::subtract(&ours, &theirs);
    assert!(ranges::length(&rest) <= ranges::length(&ours));
    assert!(rest.iter().all(|range| ranges::within(&theirs, range).next().is_none()));
}

fn is_disjoint(map: &Map) -> bool {
    map.pieces().windows(2).all(|two| two[0].end() <= two[1].logical)
}

fn check_sharing(files: &[(u64, Vec<Extent>)], space: AddressSpace) {
    let (mut holdings, mut sketch) = (Holdings::default(), Sketch::new(2));
    for (size, extents) in files {
        let file = holdings.begin(Some(space));
        sketch.begin(Path::new("f"), *size);
        for extent in extents {
            holdings.add(file, extent);
            sketch.add(extent);
        }
    }
    let sharing = sharing::find(holdings, &sharing::Options::default(), &Silent).expect("no reason to stop");
    let options = picture::Options { cells: 40, rows: 2, spans: 64, bands: 8 };
    let layout = picture::lay_out(&sketch, &sharing, &options, &Silent).expect("a picture");
    for row in &layout.rows {
        assert!(row.cells.len() <= options.cells);
        let spans = row.spans.as_deref().unwrap_or_default();
        assert!(spans.len() <= 4 * options.spans && spans.windows(2).all(|two| two[0].end <= two[1].start));
    }
}
