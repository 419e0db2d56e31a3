//! Tests that need their own filesystem: reverse maps, subvolumes, tens of thousands of references, other mounts.

use super::*;
use crate::harness::own::Own;

#[test]
fn owners_are_those_that_btrfs_resolves() {
    let name = concat!(module_path!(), "::owners_are_those_that_btrfs_resolves");
    let Some(own) = Own::new(Kind::Btrfs, name, 400, &[], "") else { return };
    let file = own.join("file");
    write(&file, &bytes(8, 1 << 20));
    btrfs_tool(&["subvolume", "create"], &[&own.join("subvolume")]);
    clone(&file, &own.join("subvolume/clone"));
    btrfs_tool(&["subvolume", "snapshot"], &[&own.join("subvolume"), &own.join("snapshot")]);
    clone_part(&file, &own.join("part"), 0, 65536, 131_072);
    let rows = owners(&file);
    for row in &rows {
        let mut resolve = Command::new("btrfs");
        resolve.args(["inspect-internal", "logical-resolve", &row.physical.to_string()]).arg(own.path());
        let theirs: BTreeSet<_> = finish(&mut resolve).expect(0).stdout.lines().map(String::from).collect();
        let at = |other: &&Row| (other.physical..other.physical + other.length).contains(&row.physical);
        // The tool prints paths in other subvolumes only if they are mounted, else their inodes.
        let told = |row: &Row| match row.path.strip_prefix(own.path()).ok().and_then(|path| path.parent()) {
            Some(dir) if dir != Path::new("") => {
                format!("inode {} subvol {} could not be accessed: not mounted", row.inode, dir.display())
            }
            _ => row.path.display().to_string(),
        };
        let ours: BTreeSet<_> = rows.iter().filter(at).map(told).collect();
        assert_eq!(ours, theirs, "at {}", row.physical);
    }
    let expected = ["file", "part", "snapshot/clone", "subvolume/clone"].map(|name| own.join(name));
    assert_eq!(paths(&rows), BTreeSet::from(expected));
}

#[test]
fn xfs_with_and_without_a_reverse_map_gives_the_same_owners() {
    for map in [true, false] {
        let mkfs = format!("rmapbt={},reflink=1", u8::from(map));
        let name = concat!(module_path!(), "::xfs_with_and_without_a_reverse_map_gives_the_same_owners");
        let Some(mut own) = Own::new(Kind::Xfs, name, 400, &["-m", &mkfs], "") else { return };
        let file = own.join("file");
        write(&file, &bytes(11, 4 << 20));
        fs::create_dir_all(own.join("a/b")).expect("directories can be made");
        clone(&file, &own.join("a/b/whole"));
        fs::hard_link(own.join("a/b/whole"), own.join("a/link")).expect("a link can be made");
        for block in 0..20 {
            clone_part(&file, &own.join("scattered"), block * 65536, 4096, block * 131_072);
        }
        write_at(&file, &bytes(12, 4096), 2 << 20);
        // The kernel has dropped all names from its caches.
        own.remount();
        let run = listed(&file, &["--json"]);
        assert_eq!(run.stderr.contains("no reverse map"), !map, "{}", run.stderr);
        let rows = rows(&run);
        let expected = ["file", "a/b/whole", "a/link", "scattered"].map(|name| own.join(name));
        assert_eq!(paths(&rows), BTreeSet::from(expected), "rmapbt {map}");
        let scattered: BTreeSet<_> =
            rows.iter().filter(|row| row.path.ends_with("scattered")).map(|row| (row.logical, row.length)).collect();
        assert_eq!(scattered, (0..20).map(|block| (block * 131_072, 4096)).collect());
        if map {
            assert_eq!(told_by_us(&rows), told_by_xfs_io(&file, &rows), "block by block");
        }
    }
}

#[test]
fn subvolumes_that_no_mount_shows_are_told_from_the_top() {
    let name = concat!(module_path!(), "::subvolumes_that_no_mount_shows_are_told_from_the_top");
    let Some(mut own) = Own::new(Kind::Btrfs, name, 400, &[], "") else { return };
    btrfs_tool(&["subvolume", "create"], &[&own.join("home")]);
    fs::create_dir(own.join("home/dir")).expect("a directory can be made");
    btrfs_tool(&["subvolume", "create"], &[&own.join("home/dir/nested")]);
    let file = own.join("home/dir/nested/file");
    write(&file, &bytes(13, 1 << 20));
    clone(&file, &own.join("top"));
    btrfs_tool(&["subvolume", "snapshot", "-r"], &[&own.join("home/dir/nested"), &own.join("snapshot")]);
    let expected = ["home/dir/nested/file", "snapshot/file", "top"].map(|name| own.join(name));
    assert_eq!(paths(&owners(&file)), BTreeSet::from(expected));

    own.remount_with("subvol=home");
    let file = own.join("dir/nested/file");
    let lines = listed(&file, &["--json"]).json();
    let told = |mounted: bool| -> BTreeSet<_> {
        let lines = lines.iter().filter(|line| line["mounted"] == mounted);
        lines.map(|line| line["path"].as_str().expect("a path is text").to_string()).collect()
    };
    assert_eq!(told(true), BTreeSet::from([file.display().to_string()]));
    assert_eq!(told(false), BTreeSet::from(["/snapshot/file".into(), "/top".into()]));
    let table = listed(&file, &[]).stdout;
    assert!(table.contains("subvolume 5 /top (not below the mount point)"), "{table}");

    // A second mount, of the snapshot, makes one more name visible.
    let second = own.path().with_extension("second");
    fs::create_dir(&second).expect("a mount point can be made");
    let source = finish(Command::new("findmnt").args(["-n", "-o", "SOURCE", "-v"]).arg(own.path())).expect(0);
    let mount = Command::new("mount").args(["-o", "subvol=snapshot", source.stdout.trim()]).arg(&second).output();
    assert!(mount.is_ok_and(|output| output.status.success()));
    let rows = owners(&file);
    finish(Command::new("umount").arg(&second)).expect(0);
    fs::remove_dir(&second).expect("the mount point can be removed");
    assert!(paths(&rows).contains(&second.join("file")), "{rows:#?}");
}

#[test]
fn sixty_thousand_references_are_all_told_and_the_table_stays_short() {
    for (kind, references) in [(Kind::Btrfs, 60_000), (Kind::Xfs, 60_000)] {
        let name = concat!(module_path!(), "::sixty_thousand_references_are_all_told_and_the_table_stays_short");
        let mkfs: &[&str] = if kind == Kind::Xfs { &["-m", "rmapbt=1"] } else { &[] };
        let Some(own) = Own::new(kind, name, 600, mkfs, "") else { return };
        let (file, many) = (own.join("file"), own.join("many"));
        write(&file, &bytes(14, 4096));
        let (source, target) = (File::open(&file).expect("it opens"), File::create(&many).expect("it can be made"));
        for i in 0..references {
            clone_range(&source, 0, 4096, &target, i * 4096).expect("a block can be cloned");
        }
        let rows = owners(&file);
        let logical: BTreeSet<_> = rows.iter().filter(|row| row.path == many).map(|row| row.logical).collect();
        assert_eq!(logical.len() as u64, references, "{kind:?}");
        assert_eq!(rows.len() as u64, references + 1, "{kind:?}");
        let table = listed(&file, &[]).stdout;
        assert!(table.lines().count() < 15, "{table}");
        assert!(table.contains("held by 2 files"), "{table}");
    }
}

#[test]
fn a_table_shows_twenty_owners_and_says_how_many_more() {
    let name = concat!(module_path!(), "::a_table_shows_twenty_owners_and_says_how_many_more");
    let Some(own) = Own::new(Kind::Xfs, name, 400, &["-m", "rmapbt=1"], "") else { return };
    let file = own.join("file");
    write(&file, &bytes(15, 65536));
    for i in 0..50 {
        clone(&file, &own.join(format!("clone-{i}")));
    }
    let table = listed(&file, &[]).stdout;
    assert!(table.contains("and 31 more (-v shows all)"), "{table}");
    assert_eq!(listed(&file, &["-v"]).stdout.matches("/clone-").count(), 50);
}

#[test]
fn owners_are_told_on_a_read_only_mount() {
    for (kind, mkfs) in [(Kind::Xfs, &["-m", "rmapbt=1"][..]), (Kind::Xfs, &["-m", "rmapbt=0"]), (Kind::Btrfs, &[])] {
        let name = concat!(module_path!(), "::owners_are_told_on_a_read_only_mount");
        let Some(mut own) = Own::new(kind, name, 400, mkfs, "") else { return };
        let (file, other) = (own.join("file"), own.join("other"));
        write(&file, &bytes(16, 1 << 20));
        clone(&file, &other);
        own.remount_with("ro");
        assert_eq!(paths(&owners(&file)), BTreeSet::from([file, other]), "{kind:?}");
    }
}

/// Inode and offset for each 512 bytes of the device in our rows.
fn told_by_us(rows: &[Row]) -> BTreeSet<(u64, u64, u64)> {
    let sectors = |row: &Row| (row.physical / 512, row.logical / 512, row.length / 512, row.inode);
    rows.iter()
        .map(sectors)
        .flat_map(|(physical, logical, length, inode)| spread(physical, logical, length, inode))
        .collect()
}

/// The same from xfs_io, for the same ranges.
fn told_by_xfs_io(file: &Path, rows: &[Row]) -> BTreeSet<(u64, u64, u64)> {
    let ours: BTreeSet<u64> = told_by_us(rows).into_iter().map(|(physical, ..)| physical).collect();
    let run = finish(Command::new("xfs_io").args(["-r", "-c", "fsmap"]).arg(file)).expect(0);
    let mut told = BTreeSet::new();
    // `	0: 7:0 [192..8383]: inode 131 data 0..8191 8192`
    for line in run.stdout.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        // Other records: the inode's attributes, the map of its extents, free space, the filesystem's own data.
        if words.len() != 8 || words[3] != "inode" || words[5] != "data" {
            continue;
        }
        let first = |range: &str| range.trim_start_matches('[').split("..").next().and_then(|n| n.parse::<u64>().ok());
        let fields = (first(words[2]), first(words[6]), words[7].parse().ok(), words[4].parse().ok());
        let (Some(physical), Some(logical), Some(length), Some(inode)) = fields else { panic!("cannot read {line:?}") };
        told.extend(spread(physical, logical, length, inode));
    }
    told.retain(|(physical, ..)| ours.contains(physical));
    told
}

fn spread(physical: u64, logical: u64, length: u64, inode: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    (0..length).map(move |i| (physical + i, logical + i, inode))
}

#[track_caller]
fn btrfs_tool(words: &[&str], paths: &[&Path]) {
    finish(Command::new("btrfs").args(words).args(paths)).expect(0);
}
