//! `pleach fiemap --format`: byte for byte the output of the tools, and readable tables for people; also with changing
//! files, and the memory for large files.

use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use pleach::fiemap;
use shapes::BLOCK;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

on_filesystems! {
    fn tool_formats_are_the_tools_own_output_for_files_of_all_shapes(fs: &Filesystem) {
        let mut files = shapes::all(fs, &fs.dir("shapes"), 299);
        let scattered = fs.join("scattered");
        shapes::scattered(&scattered, 100_000);
        files.insert(150, scattered);
        assert_eq!(files.len(), 300);
        let (filefrag, _, _) = assert_like_the_tools(&files);
        let extents = filefrag.split(|byte| *byte == b'\n').filter(|line| line.windows(3).any(|part| part == b".. "));
        assert!(extents.count() > 100_000, "one of them has that many extents");
    }

    fn each_file_alone_is_told_as_the_tools_tell_it(fs: &Filesystem) {
        // One file at a time, because state that a tool keeps from earlier files could hide its behaviour on the first
        // one.
        for file in shapes::all(fs, &fs.dir("shapes"), 24) {
            assert_like_the_tools(&[file]);
        }
    }

    fn what_is_not_on_disk_yet_is_told_as_filefrag_tells_it(fs: &Filesystem) {
        let file = fs.join("fresh");
        write(&file, &bytes(1, 100_000));
        assert_like(Command::new("filefrag").arg("-v").arg(&file), &["--no-sync", "--format", "filefrag"], &[file]);
    }

    fn a_file_without_an_extent_map_stops_no_format(fs: &Filesystem) {
        let file = fs.join("file");
        write(&file, &bytes(1, 5000));
        // Files in memory are on an internal tmpfs of the kernel.
        let memory = rustix::fs::memfd_create("memory", rustix::fs::MemfdFlags::CLOEXEC).expect("a memfd can be made");
        rustix::io::write(&memory, &[b'x'; 5000]).expect("it can be written");
        let on_tmpfs = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
        for bad in ["/proc/self/status", &on_tmpfs] {
            for format in FORMATS {
                let run = fiemap_of(format, &[Path::new(bad), &file]).expect(3);
                assert!(run.stdout.contains(&*file.to_string_lossy()), "{format:?}: {}", run.stdout);
                run.saying(&format!("cannot map {bad}")).saying("keeps no extent maps");
                fiemap_of(format, &[Path::new(bad)]).expect(1).saying("keeps no extent maps");
            }
        }
    }

    fn a_file_cut_short_while_it_is_read_is_named(fs: &Filesystem) {
        for format in FORMATS {
            let file = fs.join("file");
            let _ = fs::remove_file(&file);
            shapes::scattered(&file, 20_000);
            let mut child = begin(format, &file);
            // The remaining output is larger than all buffers together, so the listing is still running.
            let mut stdout = child.stdout.take().expect("stdout is a pipe");
            stdout.read_exact(&mut [0; 100]).expect("the listing has begun");
            File::options().write(true).open(&file).and_then(|file| file.set_len(5 * BLOCK)).expect("it can be cut");
            let mut rest = Vec::new();
            stdout.read_to_end(&mut rest).expect("the listing can be read");
            assert!(rest.len() > 60_000, "{format:?}: what was seen of it is shown");
            let run = Run::new(child.wait_with_output().expect("it ends"), format!("{format:?}"));
            run.expect(3).saying("it changed while it was read");
        }
    }

    [xfs] fn memory_does_not_grow_with_the_extents(fs: &Filesystem) {
        let file = fs.join("file");
        shapes::scattered(&file, 50_000);
        for format in FORMATS {
            let all = fiemap_of(format, &[&file]).expect(0).stdout.len();
            let mut child = begin(format, &file);
            let mut stdout = child.stdout.take().expect("stdout is a pipe");
            // It cannot continue while the pipe is full, so the measurement does not depend on timing.
            stdout.read_exact(&mut [0; 100]).expect("the listing has begun");
            let early = peak_memory(child.id());
            stdout.read_exact(&mut vec![0; all - (256 << 10)]).expect("the listing continues");
            let late = peak_memory(child.id());
            std::io::copy(&mut stdout, &mut std::io::sink()).expect("the listing ends");
            assert!(child.wait().expect("it ends").success());
            assert!(late <= early + (1 << 20), "{format:?}: {early} bytes at first, {late} in the end");
        }
    }

    fn a_reader_that_goes_away_ends_the_listing_quietly(fs: &Filesystem) {
        let file = fs.join("file");
        shapes::scattered(&file, 20_000);
        for format in FORMATS {
            let mut child = begin(format, &file);
            drop(child.stdout.take());
            let run = Run::new(child.wait_with_output().expect("it ends"), format!("{format:?}")).expect(0);
            assert_eq!(run.stderr, "");
        }
    }

    [xfs] fn tool_formats_keep_the_bytes_of_a_name_but_for_a_terminal(fs: &Filesystem) {
        let file = fs.join(OsStr::from_bytes(b"red \x1b[31m \xff"));
        write(&file, &bytes(1, 5000));
        for format in ["xfs_io", "filefrag"] {
            let args = [OsStr::new("fiemap"), "--format".as_ref(), format.as_ref(), file.as_ref()];
            let piped = command(args).output().expect("pleach runs").stdout;
            assert!(contains(&piped, b"red \x1b[31m \xff"), "{}", String::from_utf8_lossy(&piped));
            let mut line = OsString::from(format!("'{}' fiemap --format {format} '", env!("CARGO_BIN_EXE_pleach")));
            line.push(&file);
            line.push("'");
            // script(1) runs the command on a new terminal.
            let mut script = Command::new("script");
            let shown = script.args(["-q", "-e", "-c"]).arg(line).arg("/dev/null").stdin(Stdio::null()).output();
            let shown = shown.expect("script runs").stdout;
            assert!(contains(&shown, b"red \\x1b[31m \\xff"), "{}", String::from_utf8_lossy(&shown));
            assert!(!contains(&shown, b"\x1b[31m"), "{}", String::from_utf8_lossy(&shown));
        }
    }

    [xfs, btrfs] fn the_table_says_in_words_what_an_extent_is(fs: &Filesystem) {
        let (original, copy, reserved) = (fs.join("original"), fs.join("copy"), fs.join("reserved"));
        write(&original, &bytes(1, 1 << 20));
        File::create(&copy).expect("a file can be made");
        shapes::clone_range(&original, 0, &copy, 0, 0);
        shapes::scattered(&reserved, 2);
        let run = pleach([OsStr::new("fiemap"), copy.as_ref(), reserved.as_ref()]).expect(0);
        let ends = |text: &str| run.stdout.lines().any(|line| line.ends_with(text));
        assert!(ends("1.0 MiB  shared, last") && ends("4.0 KiB  unwritten, last"), "{}", run.stdout);
    }

    [xfs] fn the_columns_of_a_long_table_are_straight(fs: &Filesystem) {
        let file = fs.join("file");
        shapes::scattered(&file, 2000);
        let run = fiemap_of(&[], &[&file]).expect(0);
        let rows: Vec<&str> = run.stdout.lines().skip(2).filter(|line| line.contains(" KiB")).collect();
        assert!(rows.len() > 2000);
        let ends = |row: &str| row.find(" KiB").expect("each row has a length");
        assert!(rows.iter().all(|row| ends(row) == ends(rows[0])), "{}\n{}", rows[0], rows[rows.len() - 1]);
    }

    [xfs] fn a_link_that_takes_a_places_in_a_walked_tree_is_not_followed(fs: &Filesystem) {
        let (tree, secret) = (fs.dir("tree"), fs.dir("secret"));
        for dir in [&tree.join("dir"), &secret] {
            fs::create_dir_all(dir).expect("a directory can be made");
            write(dir.join("file"), &bytes(1, 5000));
        }
        write(tree.join("file"), &bytes(2, 5000));
        let found: Vec<_> = fiemap::files(&tree).map(|found| found.expect("nothing is in the way")).collect();
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|found| found.open().is_ok()));
        for name in ["dir", "file"] {
            fs::rename(tree.join(name), fs.join(name)).expect("it can be moved");
        }
        std::os::unix::fs::symlink(&secret, tree.join("dir")).expect("a link can be made");
        std::os::unix::fs::symlink(secret.join("file"), tree.join("file")).expect("a link can be made");
        for found in found {
            let error = found.open().expect_err("a link leads elsewhere").to_string();
            assert!(error.contains("symbolic link"), "{error}");
        }
    }
}

#[test]
fn data_beside_the_inode_and_blocks_without_extents_are_told_as_the_tools_tell_them() {
    let test = "formats::data_beside_the_inode_and_blocks_without_extents_are_told_as_the_tools_tell_them";
    for options in [&["-O", "inline_data", "-I", "512"][..], &["-O", "^extents,^64bit"], &["-b", "1024"]] {
        let Some(fs) = Own::new(Kind::Ext4, test, 64, options, "") else { return };
        for (name, length) in [("inline", 60), ("small", 200), ("large", 300_000)] {
            write(fs.join(name), &bytes(length, length as usize));
        }
        shapes::every_other_block(&fs.join("sparse"), 50);
        shapes::settle(fs.path());
        assert_like_the_tools(&["inline", "small", "large", "sparse"].map(|name| fs.join(name)));
    }
}

/// All formats, as arguments.
const FORMATS: [&[&str]; 5] =
    [&[], &["--json"], &["--format", "xfs_io"], &["-q", "--format", "xfs_io"], &["--format", "filefrag"]];

fn fiemap_of(format: &[&str], files: &[&Path]) -> Run {
    finish(command(["fiemap"]).args(format).args(files))
}

/// Starts a listing; nobody reads its output yet.
fn begin(format: &[&str], file: &Path) -> Child {
    let mut command = command(["fiemap"]);
    command.args(format).arg(file).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pleach runs")
}

/// The peak memory of a running process, in bytes.
fn peak_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel reports it");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Asserts that all tool formats equal the output of the tools. Returns these outputs: of filefrag, of xfs_io, of
/// xfs_io without `-v`.
#[track_caller]
fn assert_like_the_tools(files: &[PathBuf]) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let xfs_io = |what: &str| {
        let mut xfs_io = Command::new("xfs_io");
        xfs_io.args(["-r", "-c", what]).args(files);
        xfs_io
    };
    let mut filefrag = Command::new("filefrag");
    filefrag.arg("-v").args(files);
    (
        assert_like(&mut filefrag, &["--format", "filefrag"], files),
        assert_like(&mut xfs_io("fiemap -v"), &["--format", "xfs_io"], files),
        assert_like(&mut xfs_io("fiemap"), &["-q", "--format", "xfs_io"], files),
    )
}

/// Asserts that pleach prints the same as the tool, byte for byte. A filesystem may move data at any time, so the tool
/// runs before and after, and only an unchanged result counts.
#[track_caller]
fn assert_like(tool: &mut Command, format: &[&str], files: &[PathBuf]) -> Vec<u8> {
    let run = |command: &mut Command| {
        let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let mut before = run(tool);
    for _ in 0..20 {
        let ours = run(command(["fiemap"]).args(format).args(files));
        let after = run(tool);
        if before == after {
            assert_same_text(&ours, &before);
            return before;
        }
        before = after;
    }
    panic!("the extents of the files never stand still");
}

/// Asserts that two texts are the same, and shows the first lines that differ.
#[track_caller]
fn assert_same_text(ours: &[u8], theirs: &[u8]) {
    if ours == theirs {
        return;
    }
    let lines = |text: &'_ [u8]| text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (ours, theirs) = (lines(ours), lines(theirs));
    let first = (0..).find(|&at| ours.get(at) != theirs.get(at)).unwrap_or(0);
    let show = |lines: &[Vec<u8>]| {
        let near = &lines[first.saturating_sub(3).min(lines.len())..(first + 2).min(lines.len())];
        near.iter().map(|line| format!("{:?}\n", String::from_utf8_lossy(line))).collect::<String>()
    };
    panic!("line {first}\n--- ours\n{}--- theirs\n{}", show(&ours), show(&theirs));
}
