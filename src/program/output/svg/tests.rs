//! Tests of the picture as text: it is well formed for all names.

use super::*;
use crate::extents::extent::{Extent, ExtentFlags};
use crate::extents::picture::{self, Sketch};
use crate::extents::sharing::{self, Holdings};
use crate::fs::filesystem::Id;
use crate::monitor::Silent;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;

fn rendered(files: &[(&[u8], u64, Vec<Extent>)]) -> String {
    let (mut sketch, mut holdings) = (Sketch::new(ROWS), Holdings::default());
    let mut paths = Vec::new();
    for (name, size, extents) in files {
        let path = Path::new(OsStr::from_bytes(name));
        let file = holdings.begin(Some(Id::Device(1).into()));
        sketch.begin(path, *size);
        paths.push(PathBuf::from(path));
        for extent in extents {
            holdings.add(file, extent);
            sketch.add(extent);
        }
    }
    let sharing = sharing::find(holdings, &sharing::Options::default(), &Silent).unwrap();
    let options = picture::Options { cells: CELLS, rows: ROWS, spans: 200, bands: BANDS };
    let layout = picture::lay_out(&sketch, &sharing, &options, &Silent).unwrap();
    render(&SharingReport::new(&sharing, &paths), &layout)
}

fn data(logical: u64, physical: u64, length: u64) -> Extent {
    Extent::from_kernel(logical * MIB, physical * MIB, length * MIB, 0)
}

#[test]
fn hostile_names_are_text() {
    let names: [&[u8]; 3] =
        [b"/d/</text><script>alert(1)</script>\x1b[31m&\"'\n\xff", "/d/\u{ffff}\u{202e}".as_bytes(), b"/d/]]>--><!--"];
    let files = names.map(|name| (name, MIB, vec![data(0, 0, 1)]));
    let svg = rendered(&files);
    let document = roxmltree::Document::parse(&svg).expect("the picture is XML");
    assert_eq!(document.root_element().tag_name().name(), "svg");
    assert!(document.descendants().all(|node| node.tag_name().name() != "script"));
    assert!(!svg.contains(|c: char| c != '\n' && c.is_control()) && !svg.contains('\u{202e}'));
}

#[test]
fn every_shared_range_is_a_rectangle_with_a_hover_text_and_a_band() {
    let svg = rendered(&[
        (b"/d/one", 8 * MIB, vec![data(0, 0, 8)]),
        (b"/d/two", 4 * MIB, vec![data(0, 90, 2), data(2, 4, 2)]),
    ]);
    let document = roxmltree::Document::parse(&svg).expect("the picture is XML");
    let with_class =
        |class: &str| document.descendants().filter(|node| node.attribute("class") == Some(class)).collect::<Vec<_>>();
    let [one, two, _swatch] = &with_class("g0")[..] else { panic!("{svg}") };
    assert_eq!([one.attribute("width"), two.attribute("width")], [Some("230.00"); 2]);
    assert_eq!(
        one.first_element_child().and_then(|title| title.text()),
        Some("one: 2.0 MiB at 4 MiB\nA: shared in one, two")
    );
    assert_eq!(with_class("band g0").len(), 1);
    assert!(svg.contains("/d/"), "what the names have in common is the title");
}

#[test]
fn a_file_that_shares_with_itself_has_a_bow() {
    let svg = rendered(&[(b"/d/one", 8 * MIB, vec![data(0, 0, 2), data(4, 0, 2)])]);
    assert!(svg.contains("band g0") && svg.contains("more than once in one file"), "{svg}");
}

#[test]
fn the_picture_is_bounded() {
    let blocks: Vec<_> = (0..2_000).map(|n| data(n * 2, n * 3, 1)).collect();
    let names: Vec<_> = (0..150).map(|n| format!("/d/{n}").into_bytes()).collect();
    let files: Vec<_> = names.iter().map(|name| (&name[..], 4_000 * MIB, blocks.clone())).collect();
    let svg = rendered(&files);
    assert!(svg.len() < 4 << 20, "{}", svg.len());
    assert!(svg.contains("50 more files not drawn") && svg.contains("150 files"));
    roxmltree::Document::parse(&svg).expect("the picture is XML");
}

#[test]
fn nothing_at_all_can_be_drawn_too() {
    for files in [&[][..], &[(&b"/d/empty"[..], 0, vec![])]] {
        let svg = rendered(files);
        roxmltree::Document::parse(&svg).expect("the picture is XML");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
    let inline = Extent::from_kernel(0, 0, 90, ExtentFlags::DATA_INLINE.0);
    let svg = rendered(&[(b"/d/tiny", 90, vec![inline])]);
    assert!(svg.contains("class=\"inline\""));
}
