//! Metadata: every row of docs/metadata.md, verified by independent programs, in a snapshot's tree and after a restore.

mod acls;
mod flags;
mod projects;
mod rights;

use crate::harness::*;
use crate::on_filesystems;
use pleach::testing::manifest::{Entry, Item, Reader};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A source, a repository, and the target of the restore.
struct Scene {
    source: PathBuf,
    repo: PathBuf,
    target: PathBuf,
}

impl Scene {
    fn new(fs: &Filesystem) -> Scene {
        Scene { source: fs.dir("source"), repo: fs.join("repo"), target: fs.dir("target") }
    }

    /// Takes two snapshots, the second of an unchanged source, and restores the second. Then `check` compares the
    /// source with its copies in both trees and in the target; its last argument is true for the restored copy.
    #[track_caller]
    fn check(&self, check: impl Fn(&Path, &Path, bool)) {
        self.check_named(&["first", "second"], check);
    }

    /// [`Scene::check`] with snapshots of these names.
    #[track_caller]
    fn check_named(&self, names: &[&str], check: impl Fn(&Path, &Path, bool)) {
        for name in names {
            settle();
            pleach(snapshot_named(name, &self.source, &self.repo)).expect(0);
            check(&self.source, &inside(&self.repo, name, &self.source), false);
        }
        self.restore();
        check(&self.source, &self.restored(), true);
    }

    #[track_caller]
    fn restore(&self) {
        // Unchanged entries are not made again, so that immutable files can be restored twice.
        let options = ["restore", "--overwrite", "if-changed", "--target"].map(OsStr::new);
        let paths = [self.target.as_os_str(), self.repo.as_os_str(), OsStr::new("latest")];
        pleach(options.into_iter().chain(paths)).expect(0);
    }

    fn restored(&self) -> PathBuf {
        self.target.join(self.source.strip_prefix("/").expect("sources are absolute"))
    }

    /// The records of the newest manifest, with the names of the entries.
    fn records(&self) -> Vec<Entry> {
        let latest = fs::read_link(self.repo.join("latest")).expect("there is a newest snapshot");
        let reader = Reader::open(&self.repo.join(".pleach/manifests").join(latest)).expect("the manifest opens");
        let entry = |item: Item| match item {
            Item::Entry(entry) => Some(entry),
            Item::Directory(_) => None,
        };
        reader.items().filter_map(|item| entry(item.expect("the manifest is whole"))).collect()
    }

    fn record(&self, name: &str) -> Entry {
        let found = self.records().into_iter().find(|entry| entry.name == name.as_bytes());
        found.unwrap_or_else(|| panic!("the manifest has no {name}"))
    }
}

/// Runs a program on a path; it must succeed.
#[track_caller]
fn on(path: &Path, program: &str, args: &[&str]) -> String {
    tools::tool(program, args, path).stdout
}

/// Asserts that a program prints the same for every entry of two trees.
#[track_caller]
fn assert_alike(original: &Path, copy: &Path, say: impl Fn(&Path) -> String) {
    for path in tools::paths(original) {
        let name = path.strip_prefix(original).expect("it lies in the source");
        assert_eq!(say(&copy.join(name)), say(&path), "{} in {}", name.display(), copy.display());
    }
}

/// The positions of a file's data, by `lseek`, as xfs_io reports them.
fn data_and_holes(path: &Path) -> String {
    File::open(path).and_then(|file| file.sync_all()).expect("a file can be synced");
    on(path, "xfs_io", &["-r", "-c", "seek -ar 0"])
}

/// Sparse files of every kind: with holes before, between and after the data, and with nothing but holes.
fn sparse_files(dir: &Path) {
    let file = |name: &str, size: u64, data: &[u64]| {
        let file = File::create(dir.join(name)).expect("a file can be made");
        // Set before anything is written: otherwise XFS preallocates space beyond the end, and preallocated space looks
        // like data once it was read.
        file.set_len(size).expect("a file can be made longer");
        for at in data {
            file.write_all_at(&bytes(*at, 8192), *at).expect("a file can be written");
        }
        file.sync_all().expect("a file can be synced");
    };
    file("all hole", 5 << 20, &[]);
    file("tail", 3 << 20, &[0]);
    file("unaligned tail", (3 << 20) + 777, &[0]);
    file("head", (1 << 20) + 8192, &[1 << 20]);
    file("between", 64 << 20, &[1 << 20, 9 << 20, 40 << 20]);
    let many: Vec<u64> = (0..100).map(|n| n * 131_072).collect();
    file("many", 16 << 20, &many);
}

on_filesystems! {
    fn owner_mode_and_times_are_kept(fs: &Filesystem) {
        let scene = Scene::new(fs);
        tree::every_kind(&scene.source);
        scene.check(|source, copy, _| {
            tools::assert_equal_trees(source, copy);
            // Type, mode with set-id and sticky bits, owner, modification time to the nanosecond, device numbers,
            // target.
            assert_alike(source, copy, |path| on(path, "stat", &["--format=%F %f %u %g %y %t,%T"]));
        });
    }

    fn attributes_of_every_namespace_are_kept(fs: &Filesystem) {
        let scene = Scene::new(fs);
        tree::every_kind(&scene.source);
        for (name, attribute) in [("tiny", "security.pleach"), ("tiny", "user.pleach"), ("tiny", "trusted.pleach")] {
            on(&scene.source.join(name), "setfattr", &["-n", attribute, "-v", "a value"]);
        }
        on(&scene.source.join("nodes/fifo"), "setfattr", &["-n", "trusted.pleach", "-v", "of a pipe"]);
        scene.check(|source, copy, _| {
            assert_alike(source, copy, tools::xattrs);
            assert!(tools::xattrs(&copy.join("tiny")).lines().count() >= 3);
            assert!(tools::xattrs(&copy.join("attributes/link")).contains("trusted.note"));
        });
    }

    fn acls_are_kept(fs: &Filesystem) {
        let scene = Scene::new(fs);
        tree::every_kind(&scene.source);
        scene.check(|source, copy, _| {
            for name in ["attributes/acl", "attributes/dir", "attributes", "tiny"] {
                assert_eq!(tools::acl(&copy.join(name)), tools::acl(&source.join(name)), "{name}");
            }
            assert!(tools::acl(&copy.join("attributes/dir")).contains("default:user:1003:r-x"));
        });
    }

    fn capabilities_are_kept_beside_owners_and_set_id_bits(fs: &Filesystem) {
        let scene = Scene::new(fs);
        let file = scene.source.join("program");
        write(&file, &bytes(1, 9000));
        std::os::unix::fs::chown(&file, Some(1000), Some(1001)).expect("an owner can be set");
        on(&file, "chmod", &["6755"]);
        on(&file, "setcap", &["cap_net_raw,cap_dac_override=ep"]);
        scene.check(|_, copy, _| {
            let copy = copy.join("program");
            assert!(
                on(&copy, "getcap", &[]).contains("cap_dac_override,cap_net_raw=ep"),
                "{}",
                on(&copy, "getcap", &[])
            );
            assert_eq!(on(&copy, "stat", &["--format=%a %u:%g"]), "6755 1000:1001\n");
        });
    }

    fn hard_links_are_kept_also_across_sources(fs: &Filesystem) {
        let (one, two) = (fs.dir("one"), fs.dir("deep/two"));
        write(one.join("file"), &bytes(1, 10_000));
        fs::hard_link(one.join("file"), one.join("again")).expect("a hard link can be made");
        fs::hard_link(one.join("file"), two.join("elsewhere")).expect("a hard link can be made");
        std::os::unix::fs::symlink("target", one.join("link")).expect("a symlink can be made");
        fs::hard_link(one.join("link"), two.join("link")).expect("symlinks can be hard-linked");
        let (repo, target) = (fs.join("repo"), fs.dir("target"));
        let linked = |top: &Path| {
            let inode = |dir: &Path, name: &str| {
                let path = top.join(dir.strip_prefix("/").expect("sources are absolute")).join(name);
                fs::symlink_metadata(path).expect("it is there")
            };
            let files = [inode(&one, "file"), inode(&one, "again"), inode(&two, "elsewhere")];
            assert!(files.iter().all(|file| file.ino() == files[0].ino() && file.nlink() == 3), "{files:?}");
            let links = [inode(&one, "link"), inode(&two, "link")];
            assert!(links.iter().all(|link| link.ino() == links[0].ino() && link.nlink() == 2), "{links:?}");
        };
        for _ in 0..2 {
            settle();
            let summary = pleach(["snapshot".as_ref(), "--json".as_ref(), &*one, &*two, &*repo]).expect(0).summary();
            assert_eq!(number(&summary, "bytes"), 10_000, "one inode: {summary}");
            linked(&repo.join("latest"));
        }
        pleach(["restore".as_ref(), "--target".as_ref(), &*target, &*repo, Path::new("latest")]).expect(0);
        linked(&target);
    }

    fn holes_are_exactly_those_of_the_source(fs: &Filesystem) {
        let scene = Scene::new(fs);
        sparse_files(&scene.source);
        scene.check(|source, copy, _| {
            tools::assert_equal_trees(source, copy);
            for file in tools::files(source) {
                let copy = copy.join(file.file_name().expect("a file has a name"));
                assert_eq!(data_and_holes(&copy), data_and_holes(&file), "{}", file.display());
            }
        });
    }

    fn holes_are_exactly_those_of_a_source_elsewhere(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene = Scene { source: other.dir("source"), ..Scene::new(fs) };
        sparse_files(&scene.source);
        scene.check(|source, copy, _| {
            for file in tools::files(source) {
                let copy = copy.join(file.file_name().expect("a file has a name"));
                assert_eq!(data_and_holes(&copy), data_and_holes(&file), "{}", file.display());
                let blocks = |path: &Path| fs::metadata(path).expect("the file is there").blocks();
                assert!(blocks(&copy) <= blocks(&file) + 64, "{}: {}", copy.display(), blocks(&copy));
            }
        });
    }

    fn owner_times_and_attributes_of_symlinks_are_kept(fs: &Filesystem) {
        let scene = Scene::new(fs);
        for (name, target) in [("dangling", "nowhere"), ("loop", "."), ("long", &"x/".repeat(500)), ("outside", "/etc")]
        {
            let link = scene.source.join(name);
            std::os::unix::fs::symlink(target, &link).expect("a symlink can be made");
            std::os::unix::fs::lchown(&link, Some(1234), Some(4321)).expect("a symlink's owner can be set");
            on(&link, "setfattr", &["-h", "-n", "trusted.pleach", "-v", name]);
            tree::set_mtime(&link, 1_222_222_222, 222_222_222);
        }
        scene.check(|source, copy, _| {
            assert_alike(source, copy, |path| on(path, "stat", &["--format=%F %u %g %s %Y.%y"]));
            assert_alike(source, copy, tools::xattrs);
            tools::assert_equal_trees(source, copy);
        });
    }

    fn devices_pipes_and_sockets_are_kept(fs: &Filesystem) {
        let scene = Scene::new(fs);
        tree::every_kind(&scene.source);
        scene.check(|source, copy, _| {
            let say = |path: &Path| on(path, "stat", &["--format=%F %a %u %g %t,%T %y"]);
            assert_alike(&source.join("nodes"), &copy.join("nodes"), say);
            assert!(say(&copy.join("nodes/disk")).contains("block special file"));
            assert!(say(&copy.join("nodes/socket")).contains("socket"));
        });
    }

    fn the_birth_time_is_recorded(fs: &Filesystem) {
        let scene = Scene::new(fs);
        write(scene.source.join("file"), &bytes(1, 5000));
        tree::set_mtime(&scene.source.join("file"), 1_000_000_000, 0);
        scene.check(|_, _, _| {});
        let born = on(&scene.source.join("file"), "stat", &["--format=%.W"]);
        let recorded = scene.record("file").meta.btime.expect("these filesystems report it");
        assert_eq!(format!("{}.{:09}", recorded.seconds, recorded.nanos), born.trim());
    }

    fn access_times_come_with_the_file(fs: &Filesystem) {
        let scene = Scene::new(fs);
        let file = scene.source.join("file");
        write(&file, &bytes(1, 5000));
        on(&file, "touch", &["-a", "-d", "2001-02-03 04:05:06.789"]);
        settle();
        pleach(snapshot_named("first", &scene.source, &scene.repo)).expect(0);
        let copy = inside(&scene.repo, "first", &scene.source).join("file");
        assert_eq!(on(&copy, "stat", &["--format=%x"]), on(&file, "stat", &["--format=%x"]));
        scene.restore();
        assert_eq!(on(&scene.restored().join("file"), "stat", &["--format=%x"]), on(&file, "stat", &["--format=%x"]));
    }
}

#[test]
fn every_row_of_the_table_names_a_test_that_is_here() {
    let here = concat!(
        include_str!("metadata.rs"),
        include_str!("metadata/flags.rs"),
        include_str!("metadata/projects.rs"),
        include_str!("metadata/rights.rs")
    );
    let rows =
        include_str!("../docs/metadata.md").lines().filter(|line| line.starts_with("| ") && line.ends_with("` |"));
    let mut count = 0;
    for row in rows {
        let test = row.trim_end_matches("` |").rsplit('`').next().expect("a row has a last cell");
        assert!(here.contains(&format!("fn {test}(")), "{row}");
        count += 1;
    }
    assert!(count >= 14, "{count} rows");
}
