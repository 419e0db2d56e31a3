//! `pleach fiemap --map` and `--svg`: pictures that fit, are readable without colour, and are safe with any name.

use crate::harness::*;
use crate::on_filesystems;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use unicode_width::UnicodeWidthStr;

on_filesystems! {
    [xfs, btrfs] fn the_map_shows_what_lies_where(fs: &Filesystem) {
        let dir = some_files(fs);
        let run = map(&dir, 100, &[]);
        let lines: Vec<&str> = run.stdout.lines().collect();
        assert_eq!(lines[0], format!("{}/", dir.display()));
        assert!(lines[1].contains("|0") && lines[1].contains("|4 MiB"), "{}", run.stdout);
        let bar = |name: &str| {
            let line = lines.iter().find(|line| line.starts_with(&format!("{name} "))).expect("each file has a line");
            line[name.len()..].split_whitespace().next().unwrap_or_default().to_string()
        };
        // Half of the original is in the clone; 1 of 8 MiB was changed there; then a hole, and 2 MiB preallocated.
        let clone = bar("clone");
        let columns = bar("original").chars().count();
        assert!(
            clone.starts_with("AAA") && clone.contains('█') && clone.contains("···") && clone.contains("░░"),
            "{clone}"
        );
        assert!(bar("original").starts_with("AAA") && bar("original").contains('█'), "{}", run.stdout);
        let shown = |class: char| clone.chars().filter(|c| *c == class).count();
        assert!(shown('░').abs_diff(columns / 4) <= 2 && shown('·').abs_diff(columns / 8) <= 2, "{clone}");
        for words in ["in 2 files: clone, original", "allocated, never written", "hole", "one character"] {
            assert!(run.stdout.contains(words), "{words}:\n{}", run.stdout);
        }
        let inline = bar("tiny");
        assert_eq!(inline, if fs.kind == Kind::Btrfs { "=" } else { "█" });
    }

    [xfs] fn the_map_fits_the_terminal(fs: &Filesystem) {
        let dir = some_files(fs);
        for name in [
            "a name that is longer than any terminal has columns, so that its middle must be omitted",
            "日本語日本語日本語日本語日本語日本語日本語",
        ] {
            write(dir.join(name), &bytes(1, 9000));
        }
        for columns in [20, 40, 80, 120, 250] {
            for line in map(&dir, columns, &[]).stdout.lines() {
                assert!(line.width() <= columns, "{} of {columns} columns: {line}", line.width());
            }
        }
        let widest = |run: Run| run.stdout.lines().map(UnicodeWidthStr::width).max();
        assert_eq!(widest(map(&dir, 120, &[])), Some(120), "all of it is used");
        let mut command = command([OsStr::new("fiemap"), "--map".as_ref(), dir.as_ref()]);
        let unknown = finish(command.env_remove("COLUMNS").env("LC_ALL", "C.UTF-8")).expect(0);
        assert_eq!(widest(unknown), Some(100));
    }

    [xfs] fn the_map_is_coloured_only_where_it_is_wanted(fs: &Filesystem) {
        let dir = some_files(fs);
        for args in [&[][..], &["--color", "never"]] {
            assert!(!map(&dir, 80, args).stdout.contains('\x1b'));
        }
        let coloured = map(&dir, 80, &["--color", "always"]).stdout;
        assert!(coloured.contains("\x1b[38;5;16;48;5;75mA"), "{coloured}");
        let run = finish(map_command(&dir, 80, &[]).env("NO_COLOR", "1").env("CLICOLOR_FORCE", "1")).expect(0);
        assert!(!run.stdout.contains('\x1b'));
    }

    [xfs] fn a_terminal_without_unicode_is_sent_none(fs: &Filesystem) {
        let dir = some_files(fs);
        let run = finish(map_command(&dir, 80, &[]).env("LC_ALL", "C")).expect(0);
        assert!(run.stdout.is_ascii(), "{}", run.stdout);
        assert!(run.stdout.contains('#') && run.stdout.contains("...") && run.stdout.contains("---"));
    }

    [xfs] fn hostile_names_break_no_picture(fs: &Filesystem) {
        let dir = fs.dir("hostile");
        let names: [&[u8]; 5] =
            [b"<script>alert(1)<", b"a\x1b[31m\x07\nb", b"\xff\xfe", b"&amp;\"'", "\u{202e}\u{ffff}".as_bytes()];
        write(dir.join("original"), &bytes(1, 1 << 20));
        for name in names {
            clone(&dir.join("original"), &dir.join(OsStr::from_bytes(name)));
        }
        let map = map(&dir, 80, &[]).stdout;
        assert!(!map.contains(|c: char| c != '\n' && c.is_control()) && !map.contains('\u{202e}'), "{map:?}");
        let tables = pleach([OsStr::new("fiemap"), "--shared-with".as_ref(), dir.as_ref()]).expect(0).stdout;
        assert!(!tables.contains(|c: char| c != '\n' && c.is_control()) && !tables.contains('\u{202e}'), "{tables:?}");
        let svg = svg(&dir);
        let document = roxmltree::Document::parse(&svg).expect("the picture is XML");
        assert!(document.descendants().all(|node| !node.has_tag_name("script")));
        assert!(!svg.contains('\x1b') && !svg.contains('\u{202e}'));
    }

    [xfs, btrfs] fn the_picture_joins_what_is_shared(fs: &Filesystem) {
        let svg = svg(&some_files(fs));
        let document = roxmltree::Document::parse(&svg).expect("the picture is XML");
        let classes: Vec<_> = document.descendants().filter_map(|node| node.attribute("class")).collect();
        let count = |class: &str| classes.iter().filter(|other| **other == class).count();
        // In both files and in the legend; a change in the middle splits it.
        assert_eq!((count("g0"), count("band g0")), (5, 2), "{svg}");
        assert!(count("unwritten") >= 2 && count("hole") >= 2);
        let titles: Vec<_> = document
            .descendants()
            .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "title")))
            .filter_map(|node| node.text())
            .collect();
        assert!(titles.contains(&"clone: 2.0 MiB at 0\nA: shared in clone, original"), "{titles:#?}");
        assert!(!svg.replace("http://www.w3.org/2000/svg", "").contains("http"), "nothing is fetched");
    }

    [xfs] fn the_picture_replaces_a_file_at_once_and_nothing_else(fs: &Filesystem) {
        let (dir, out) = (some_files(fs), fs.dir("out"));
        let svg = out.join("picture.svg");
        draw(&dir, &svg).expect(0).saying("3 files drawn in");
        let first = fs::metadata(&svg).expect("it is there");
        assert_eq!(first.mode() & 0o777, 0o644, "as any file of this user");
        draw(&dir, &svg).expect(0);
        assert_ne!(fs::metadata(&svg).expect("it is there").ino(), first.ino(), "another file, moved there");
        assert_eq!(names(&out), ["picture.svg"]);

        let (link, fifo, target) = (out.join("link"), out.join("fifo"), out.join("target"));
        write(&target, b"precious");
        std::os::unix::fs::symlink("target", &link).expect("a link can be made");
        finish(Command::new("mkfifo").arg(&fifo)).expect(0);
        for path in [&link, &fifo, &out] {
            let run = draw(&dir, path).expect(1).saying("not a regular file");
            assert_eq!(run.stdout, "");
        }
        // A slip: the first file is taken for the picture's name.
        let slip = draw(&dir, &target).expect(1).saying("a file exists there that pleach did not draw");
        assert_eq!(slip.stdout, "");
        write(&svg, b"");
        draw(&dir, &svg).expect(0);
        // Somebody's own drawing, and files that only look like a picture.
        for own in
            ["<?xml version=\"1.0\"?>\n<svg/>", "<svg xmlns=\"http://www.w3.org/2000/svg\">\n", "<!-- <svg --> notes"]
        {
            write(&svg, own.as_bytes());
            draw(&dir, &svg).expect(1).saying("a file exists there that pleach did not draw");
            assert_eq!(fs::read(&svg).expect("it is there"), own.as_bytes());
        }
        fs::remove_file(&svg).expect("it can be removed");
        draw(&dir, &svg).expect(0);
        std::os::unix::fs::chown(&svg, Some(1000), None).expect("root may");
        draw(&dir, &svg).expect(1).saying("belongs to another user");
        std::os::unix::fs::chown(&svg, Some(0), None).expect("root may");
        draw(&dir, &svg).expect(0);
        assert_eq!(fs::read(&target).expect("it is there"), b"precious");
        assert!(fs::symlink_metadata(&fifo).expect("it is there").file_type().is_fifo());
        draw(&dir, &out.join("missing/picture.svg")).expect(1).saying("no such file or directory");
        draw(&dir, &target.join("picture.svg")).expect(1).saying("not a directory");
        assert_eq!(names(&out), ["fifo", "link", "picture.svg", "target"], "nothing is left behind");
    }

    [xfs] fn files_that_cannot_be_mapped_are_not_drawn(fs: &Filesystem) {
        let file = fs.join("file");
        write(&file, &bytes(1, 1 << 20));
        let svg = fs.join("picture.svg");
        let run =
            pleach([OsStr::new("fiemap"), "--svg".as_ref(), svg.as_ref(), "/proc/self/status".as_ref(), file.as_ref()]);
        run.expect(3).saying("keeps no extent maps").saying("1 file drawn");
        let run = pleach([
            OsStr::new("fiemap"),
            "--svg".as_ref(),
            svg.as_ref(),
            "--map".as_ref(),
            "/proc/self/status".as_ref(),
        ]);
        assert_eq!(run.expect(1).saying("keeps no extent maps").stdout, "");
    }

    [xfs] fn objects_for_scripts_stay_beside_a_picture(fs: &Filesystem) {
        let (dir, svg) = (some_files(fs), fs.join("picture.svg"));
        let run =
            pleach([OsStr::new("fiemap"), "--json".as_ref(), "--svg".as_ref(), svg.as_ref(), dir.as_ref()]).expect(0);
        assert_eq!(number(&run.summary(), "files"), 3);
        assert!(run.json().iter().any(|line| line["type"] == "extent"));
        assert!(fs::read_to_string(svg).expect("it is there").ends_with("</svg>\n"));
    }
}

#[test]
fn stdout_has_one_use() {
    for args in [
        &["--json", "--map"][..],
        &["--json", "--svg", "-"],
        &["--map", "--svg", "-"],
        &["--shared-with", "--svg", "-"],
        &["--format", "filefrag", "--map"],
        &["--format", "xfs_io", "--shared-with"],
        &["--format", "table", "--svg", "x"],
    ] {
        let is_json = args.contains(&"--json");
        let args = ["fiemap"].iter().chain(args).chain(&["/nonexistent"]);
        let run = pleach(args).expect(2).saying("cannot be used with");
        // With --json the failure is an object as well.
        assert_eq!(run.json().len(), usize::from(is_json), "{}", run.stdout);
    }
}

/// A directory with three files: `original` of 8 MiB; `clone` with the first 4 MiB of `original` (the third of them
/// changed), 1 MiB of its own, a hole of 1 MiB, and 2 MiB that are only preallocated; and `tiny`.
fn some_files(fs: &Filesystem) -> PathBuf {
    const MIB: u64 = 1 << 20;
    let dir = fs.dir("files");
    let (original, copy) = (dir.join("original"), dir.join("clone"));
    write(&original, &bytes(1, 8 << 20));
    write(&copy, b"");
    let reflink = format!("reflink {} 0 0 {}", original.display(), 4 * MIB);
    finish(Command::new("xfs_io").args(["-c", &reflink]).arg(&copy)).expect(0);
    let file = File::options().write(true).open(&copy).expect("a file can be opened");
    // Set the size before anything is written near the end: otherwise XFS preallocates more than requested.
    file.set_len(8 * MIB).expect("a file can end in a hole");
    file.write_all_at(&bytes(2, 1 << 20), 2 * MIB).expect("a file can be written");
    file.write_all_at(&bytes(3, 1 << 20), 4 * MIB).expect("a file can be written");
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 6 * MIB, 2 * MIB).expect("space can be reserved");
    write(dir.join("tiny"), b"beside the metadata, on some filesystems");
    dir
}

fn map_command(dir: &Path, columns: usize, args: &[&str]) -> Command {
    let words = ["fiemap", "--map"].iter().chain(args).map(OsString::from).chain([dir.into()]);
    let mut command = command(words);
    command
        .env("COLUMNS", columns.to_string())
        .env("LC_ALL", "C.UTF-8")
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE");
    command
}

#[track_caller]
fn map(dir: &Path, columns: usize, args: &[&str]) -> Run {
    finish(&mut map_command(dir, columns, args)).expect(0)
}

fn draw(dir: &Path, svg: &Path) -> Run {
    pleach([OsStr::new("fiemap"), "--svg".as_ref(), svg.as_ref(), dir.as_ref()])
}

/// The picture of a directory, from stdout.
#[track_caller]
fn svg(dir: &Path) -> String {
    draw(dir, Path::new("-")).expect(0).stdout
}
