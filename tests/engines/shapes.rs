//! Every engine copies files of all shapes completely.

use super::*;
use crate::on_filesystems;
use rustix::fs::{FallocateFlags, fallocate};

/// Files with unusual sizes, holes or numbers of extents, in a directory.
fn shapes(fs: &Filesystem) -> Vec<PathBuf> {
    let dir = fs.dir("shapes");
    let mut files = crate::harness::shapes::all(fs, &dir, 30);
    let mut add = |name: &str, make: &dyn Fn(&File)| {
        let path = dir.join(name);
        make(&File::create(&path).expect("a file can be made"));
        files.push(path);
    };
    let put = |file: &File, at: u64, length: u64| {
        file.write_all_at(&bytes(at ^ length, length as usize), at).expect("a file can be written");
    };
    for size in [0, 1, 4095, 4096, 4097, MIB - 1, MIB, MIB + 1] {
        add(&format!("size-{size}"), &|file| put(file, 0, size));
    }
    add("large-with-an-odd-tail", &|file| put(file, 0, 64 * MIB + 12_345));
    add("sparse-at-the-beginning", &|file| put(file, 3 * MIB, 5 * MIB + 1));
    add("sparse-in-the-middle", &|file| {
        put(file, 0, 5 * MIB);
        put(file, 20 * MIB, 100);
    });
    add("sparse-at-the-end", &|file| {
        put(file, 0, 5 * MIB + 7);
        file.set_len(100 * MIB + 1).expect("a file can end in a hole");
    });
    add("reserved-between-data", &|file| {
        fallocate(file, FallocateFlags::empty(), 0, 8 * MIB).expect("space can be reserved");
        put(file, MIB, MIB);
        put(file, 5 * MIB + 100, 10);
    });
    crate::harness::shapes::settle(&dir);
    files
}

/// Whether two filesystems use the same space for the same file.
fn is_alike(a: Kind, b: Kind) -> bool {
    let is_xfs = |kind| matches!(kind, Kind::Xfs | Kind::XfsOther);
    a == b || (is_xfs(a) && is_xfs(b))
}

/// The number of 512-byte blocks that a file takes, as `du` counts them.
fn blocks(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(path).expect("it has a status").blocks()
}

on_filesystems! {
    fn every_engine_copies_every_shape(fs: &Filesystem) {
        let files: Vec<_> = shapes(fs).into_iter().map(|file| (reserved(&file), file)).collect();
        let targets = [Kind::Xfs, Kind::Btrfs, Kind::Ext4, Kind::XfsOther];
        for target in targets {
            let Ok(to) = Filesystem::open(target, "engines::target") else { continue };
            for engine in copying() {
                let ladder = Strategy::new();
                for (number, (reserved_there, file)) in files.iter().enumerate() {
                    let what = format!("{engine:?} of {} to {target:?}", file.display());
                    let copy = Copy::of(file, to.join(number.to_string()), &ladder).by(engine);
                    tools::forget(file);
                    let copied = copy.run().unwrap_or_else(|error| panic!("{what}: {error:?}"));
                    assert_same(file, &copy.copy, &copied, &what);
                    assert_eq!(&reserved(&copy.copy), reserved_there, "reserved by {what}");
                    if is_alike(target, fs.kind) && copied.engine != Engine::Clone {
                        assert!(
                            blocks(&copy.copy) <= blocks(file),
                            "{} blocks, not {}, after {what}",
                            blocks(&copy.copy),
                            blocks(file)
                        );
                    }
                    assert_eq!(copied.size(), fs::metadata(file).expect("it is there").len(), "{what}: {copied:?}");
                    fs::remove_file(&copy.copy).expect("a copy can be removed");
                }
            }
        }
    }

    fn the_hash_is_that_of_the_content_whatever_the_engine(fs: &Filesystem) {
        let other = fs.elsewhere();
        let dir = other.dir("sources");
        let mut content = bytes(1, 9 * MIB as usize + 5);
        content[2 * MIB as usize..4 * MIB as usize].fill(0);
        let sparse = dir.join("sparse");
        let file = File::create(&sparse).expect("a file can be made");
        file.write_all_at(&content[..2 * MIB as usize], 0).expect("a file can be written");
        file.write_all_at(&content[4 * MIB as usize..], 4 * MIB).expect("a file can be written");
        let hash = Some(*blake3::hash(&content).as_bytes());
        let ladder = Strategy::new();
        for engine in copying() {
            let name = format!("{engine:?}");
            let copied = Copy::of(&sparse, fs.join(&name), &ladder).by(engine).hashed().run().expect("it is copied");
            assert_eq!(copied.hash, hash, "{name}");
            assert_eq!((copied.data, copied.holes), (7 * MIB + 5, 2 * MIB), "{name}");
        }
        if fs.reflinks() {
            let copied = Copy::of(&fs.join("None"), fs.join("clone"), &ladder).hashed().run().expect("it is cloned");
            assert_eq!((copied.engine, copied.hash, copied.cloned), (Engine::Clone, hash, 7 * MIB + 5));
        }
    }

    fn short_ranges_between_holes_stay_in_the_kernel_where_nobody_hashes_them(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (scattered, dense) = (other.join("scattered"), other.join("dense"));
        let file = File::create(&scattered).expect("a file can be made");
        for piece in 0..300 {
            file.write_all_at(&bytes(piece, BLOCK as usize), piece * MIB).expect("a file can be written");
        }
        write(&dense, &bytes(1, 2 * MIB as usize));
        let ladder = Strategy::new();
        let engine = |source, name: &str, hashed| {
            let copy = Copy::of(source, fs.join(name), &ladder);
            let copy = if hashed { copy.hashed() } else { copy };
            let copied = copy.run().expect("it is copied");
            assert_same(source, &copy.copy, &copied, name);
            copied.engine
        };
        assert_eq!(engine(&scattered, "plain", false), Engine::Sendfile);
        assert_eq!(engine(&scattered, "hashed", true), Engine::Buffered);
        assert_eq!(engine(&dense, "dense", false), Engine::Buffered);
    }

    [xfs, ext4] fn large_files_are_written_past_the_page_cache_in_one_piece(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = other.join("source");
        write(&source, &bytes(1, 64 * MIB as usize + 77));
        for engine in [None, Some(Engine::Buffered), Some(Engine::Uring)] {
            let ladder = Strategy::new();
            let copies: Vec<_> = ["one", "two"].map(|name| fs.join(format!("{name}-{engine:?}"))).into();
            std::thread::scope(|scope| {
                for copy in &copies {
                    let (source, ladder) = (&source, &ladder);
                    scope.spawn(move || Copy::of(source, copy, ladder).by(engine).run().expect("it is copied"));
                }
            });
            for copy in copies {
                let cached = tools::tool("fincore", &["--bytes", "--noheadings", "--output", "RES"], &copy).stdout;
                assert_eq!(cached.trim().parse(), Ok(BLOCK), "only the tail of the copy by {engine:?} is in memory");
                let extents = tools::extents(&copy);
                assert!(extents.len() <= 4, "{} extents by {engine:?}: {extents:?}", extents.len());
                assert!(extents.iter().all(|extent| !extent.is_unwritten()), "{engine:?}: {extents:?}");
            }
        }
    }
}
