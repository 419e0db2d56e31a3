//! The meaning of DEST is that of `cp -a`; the tests compare with `cp` itself.

use super::run;
use crate::harness::*;
use crate::on_filesystems;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// Files and directories for all cases.
fn scene(dir: &Path) {
    for inner in ["tree/sub/inner", "dir", "merge/tree/sub", "merge2", "into/tree/other"] {
        fs::create_dir_all(dir.join(inner)).unwrap();
    }
    for (number, file) in [
        "file",
        "other",
        "tree/a",
        "tree/sub/b",
        "tree/sub/inner/c",
        "merge/tree/sub/d",
        "merge/file",
        "into/tree/a",
        "into/tree/other/kept",
        "into/x",
    ]
    .iter()
    .enumerate()
    {
        write(dir.join(file), &bytes(number as u64, 5000));
    }
    symlink("tree", dir.join("link")).unwrap();
    symlink("file", dir.join("file link")).unwrap();
    symlink("dir", dir.join("dir link")).unwrap();
}

/// Paths, types, modes, sizes, targets and content of all entries below a directory.
fn shape(dir: &Path) -> Vec<String> {
    let mut find = Command::new("find");
    find.args([".", "-not", "-type", "d", "-printf", "%P %y %m %s %l\\n", "-o", "-printf", "%P %y %m\\n"])
        .current_dir(dir);
    let mut lines: Vec<_> = finish(&mut find).expect(0).stdout.lines().map(String::from).collect();
    lines.sort();
    let mut sums = Command::new("find");
    sums.args([".", "-type", "f", "-exec", "cksum", "{}", "+"]).current_dir(dir);
    let mut sums: Vec<_> = finish(&mut sums).expect(0).stdout.lines().map(String::from).collect();
    sums.sort();
    lines.extend(sums);
    lines
}

/// `cp -a` and `pleach copy` do the same with these arguments, or both refuse them; a refused command changes nothing.
#[track_caller]
fn assert_as_cp(fs: &Filesystem, number: usize, args: &[&str]) {
    let (theirs, ours) = (fs.dir(format!("{number}/cp")), fs.dir(format!("{number}/pleach")));
    scene(&theirs);
    scene(&ours);
    let before = shape(&ours);
    let cp = finish(Command::new("cp").arg("-a").args(args).current_dir(&theirs));
    let mut pleach = command(["copy", "-q"]);
    let copied = finish(pleach.args(args).current_dir(&ours));
    assert_eq!(copied.status == 0, cp.status == 0, "{args:?}: {} {}", cp.stderr, copied.stderr);
    if cp.status == 0 {
        assert_eq!(shape(&ours), shape(&theirs), "{args:?}");
    } else {
        assert_eq!(shape(&ours), before, "{args:?}");
        assert!(copied.stderr.starts_with("pleach: cannot ") || copied.stderr.contains("error:"), "{}", copied.stderr);
    }
}

on_filesystems! {
    [xfs] fn it_means_what_it_means_to_cp(fs: &Filesystem) {
        let cases: [&[&str]; 42] = [
            &["file", "new"],
            &["file", "dir"],
            &["file", "dir/new"],
            &["file", "other"],
            &["file", "new/"],
            &["file", "other/"],
            &["file", "no/such/new"],
            &["tree", "new"],
            &["tree", "new/"],
            &["tree", "dir"],
            &["tree/", "dir"],
            &["tree", "dir/"],
            &["tree/.", "dir"],
            &["tree/.", "new"],
            &["tree/./", "dir"],
            &["tree/sub/..", "dir"],
            &["tree/sub", "dir"],
            &["tree", "other"],
            &["tree", "into"],
            &["tree", "into/x"],
            &["merge/tree", "."],
            &["tree", "merge"],
            &["file", "merge"],
            &["link", "dir"],
            &["link", "new"],
            &["link/", "dir"],
            &["link/.", "dir"],
            &["file link", "new"],
            &["file", "dir link"],
            &["tree", "dir link"],
            &["file", "other", "tree", "dir"],
            &["file", "tree", "new"],
            &["file", "tree", "other"],
            &["-t", "dir", "file", "tree"],
            &["--target-directory=other", "file"],
            &["--target-directory=new", "file"],
            &["-T", "tree", "dir"],
            &["-T", "tree", "new"],
            &["-T", "file", "dir"],
            &["-T", "file", "other", "dir"],
            &["no such file", "dir"],
            &["file"],
        ];
        for (number, args) in cases.into_iter().enumerate() {
            assert_as_cp(fs, number, args);
        }
    }

    [xfs] fn nothing_is_copied_onto_or_into_itself(fs: &Filesystem) {
        let dir = fs.dir("scene");
        scene(&dir);
        fs::hard_link(dir.join("file"), dir.join("hard")).unwrap();
        symlink("sub", dir.join("tree/way in")).unwrap();
        let before = shape(&dir);
        let cases = [
            ("file", "file", "same"),
            ("file", ".", "same"),
            ("file", "hard", "same"),
            ("tree", "tree", "lies in it"),
            ("tree", "tree/sub", "lies in it"),
            ("tree", "tree/sub/new", "lies in it"),
            ("tree", "tree/way in", "lies in it"),
            ("link/", "tree/sub", "lies in it"),
            ("tree/.", "tree", "same"),
            ("tree/.", "tree/sub", "lies in it"),
            (".", "dir", "lies in it"),
            ("tree/sub/inner", "tree/sub", "same"),
        ];
        for (source, destination, why) in cases {
            let mut pleach = command(["copy", source, destination]);
            finish(pleach.current_dir(&dir)).expect(2).saying(why);
            assert_eq!(shape(&dir), before, "{source} {destination}");
        }
    }

    [xfs] fn several_sources_need_a_directory_and_names_of_their_own(fs: &Filesystem) {
        let dir = fs.dir("scene");
        scene(&dir);
        let copy = |args: &[&str]| finish(command(["copy"]).args(args).current_dir(&dir));
        copy(&["file", "tree", "other"]).expect(2).saying("need an existing directory");
        copy(&["file", "tree", "missing"]).expect(2).saying("need an existing directory");
        copy(&["-T", "file", "other", "new"]).expect(2).saying("one too many");
        copy(&["-t", "missing", "file"]).expect(2).saying("not an existing directory");
        copy(&["file"]).expect(2).saying("only one path");
        copy(&["file", "merge/file", "dir"]).expect(2).saying("the same name");
        assert_eq!(names(&dir.join("dir")), [""; 0]);
        // A source that is named twice is copied once.
        copy(&["file", "./file", "dir"]).expect(0);
        // When contents are merged, the source named later wins.
        copy(&["tree/.", "into/tree/.", "dir"]).expect(0);
        assert!(fs::read(dir.join("dir/a")).unwrap() == fs::read(dir.join("into/tree/a")).unwrap());
    }

    fn a_link_in_the_place_of_a_file_is_replaced_and_not_followed(fs: &Filesystem) {
        let dir = fs.dir("scene");
        write(dir.join("file"), b"new");
        write(dir.join("precious"), b"precious");
        symlink("precious", dir.join("link")).unwrap();
        symlink("nowhere", dir.join("dangling")).unwrap();
        for link in ["link", "dangling"] {
            run([dir.join("file"), dir.join(link)]).expect(0);
            assert!(dir.join(link).symlink_metadata().unwrap().is_file());
            assert_eq!(fs::read(dir.join(link)).unwrap(), b"new");
        }
        assert_eq!(fs::read(dir.join("precious")).unwrap(), b"precious");
        assert_eq!(names(&dir), ["dangling", "file", "link", "precious"]);
    }

    fn a_link_in_the_place_of_a_directory_is_told_and_not_followed(fs: &Filesystem) {
        let (source, into, outside) = (fs.dir("tree"), fs.dir("into"), fs.dir("outside"));
        fs::create_dir_all(source.join("sub")).unwrap();
        write(source.join("sub/file"), b"new");
        write(source.join("beside"), b"new");
        fs::create_dir(into.join("tree")).unwrap();
        symlink(&outside, into.join("tree/sub")).unwrap();
        let run = run([&source, &into]).expect(3).saying("symbolic link").saying("tree/sub");
        assert_eq!(number(&run.summary(), "errors"), 1);
        assert_eq!(names(&outside), [""; 0]);
        assert_eq!(fs::read(into.join("tree/beside")).unwrap(), b"new", "the rest is copied");
    }

    fn a_directory_is_never_replaced_by_a_file(fs: &Filesystem) {
        let (source, into) = (fs.dir("tree"), fs.dir("into"));
        write(source.join("name"), b"a file");
        write(source.join("beside"), b"new");
        fs::create_dir_all(into.join("tree/name")).unwrap();
        write(into.join("tree/name/kept"), b"kept");
        run([&source, &into]).expect(3).saying("a directory is in its place").saying("tree/name");
        assert_eq!(fs::read(into.join("tree/name/kept")).unwrap(), b"kept");
        assert_eq!(fs::read(into.join("tree/beside")).unwrap(), b"new");
        let (file, dir) = (source.join("name"), into.join("tree/name"));
        run([std::ffi::OsStr::new("-T"), file.as_ref(), dir.as_ref()]).expect(1).saying("a directory is in its place");
    }
}
