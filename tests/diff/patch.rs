//! `--patch`: the program diff shows the differences of text files.

use super::*;
use std::os::unix::ffi::OsStrExt as _;

fn patch(repo: &Path, b: &str, more: &[&OsStr]) -> Run {
    compare(repo, "one", b, &[&["--patch".as_ref()], more].concat())
}

on_filesystems! {
    [xfs, btrfs] fn the_patch_turns_the_old_tree_into_the_new_one(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        fs::create_dir(source.join("dir")).unwrap();
        let text = |seed: u64| (0..200).map(|line| format!("line {} of {seed}\n", line % 37)).collect::<String>();
        let blanks = ["with space", "two  spaces", "end ", " ", " begin"];
        let hostile = [&blanks[..], &["tab\tname", "new\nline", "\"quoted\"", "back\\n"]].concat();
        let names = [&["a", "b", "-rf", "dir/c", "dir/gone"][..], &hostile].concat();
        for (number, name) in names.iter().enumerate() {
            write(source.join(name), text(number as u64).as_bytes());
        }
        let latin = source.join(OsStr::from_bytes(b"latin-\xe9"));
        write(&latin, text(9).as_bytes());
        take("one", &source, &repo);
        write(&latin, text(1).replace("line 5 ", "another line ").as_bytes());
        for name in ["b", "-rf", "dir/c"].iter().chain(&hostile) {
            write(source.join(name), text(1).replace("line 5 ", "another line ").as_bytes());
        }
        fs::remove_file(source.join("dir/gone")).unwrap();
        write(source.join("dir/new"), b"without an end of line");
        fs::rename(source.join("a"), source.join("renamed")).unwrap();
        take("two", &source, &repo);
        for b in ["two", "live"] {
            let copy = fs.dir(format!("copy of {b}"));
            finish(Command::new("cp").arg("-a").arg(inside(&repo, "one", &source)).arg(copy.join("tree"))).expect(0);
            let run = patch(&repo, b, &[]).expect(0);
            assert!(run.stdout.contains(&format!("+++ {b}{}", source.join("-rf").display())), "{}", run.stdout);
            let file = fs.join(format!("patch of {b}"));
            write(&file, run.stdout.as_bytes());
            let strip = format!("-p{}", 1 + source.components().count() - 1);
            let mut apply = Command::new("patch");
            apply.args([&strip, "-d"]).arg(copy.join("tree")).arg("-i").arg(&file);
            finish(&mut apply).expect(0);
            fs::rename(copy.join("tree/a"), copy.join("tree/renamed")).unwrap();
            let mut same = Command::new("diff");
            let same = finish(same.arg("-r").arg(&source).arg(copy.join("tree")));
            assert_eq!((same.status, &*same.stdout), (0, ""), "{b}");
        }
    }

    [xfs] fn binary_files_take_one_line_and_nothing_else_runs(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("binary"), &bytes(1, 5000));
        symlink("binary", source.join("link")).unwrap();
        write(source.join("mode"), b"text\n");
        write(source.join("evil\x1b[31m\nname"), b"text\n");
        take("one", &source, &repo);
        write(source.join("binary"), &bytes(2, 5000));
        fs::remove_file(source.join("link")).unwrap();
        symlink("mode", source.join("link")).unwrap();
        fs::set_permissions(source.join("mode"), fs::Permissions::from_mode(0o600)).unwrap();
        write(source.join("evil\x1b[31m\nname"), b"changed\n");
        take("two", &source, &repo);
        let run = patch(&repo, "two", &[]).expect(0);
        let named = run.stdout.lines().filter(|line| line.starts_with("Binary files ")).count();
        assert_eq!(named, 1, "{}", run.stdout);
        assert!(!run.stdout.contains("text\n-") && !run.stdout.contains('\x1b'), "{}", run.stdout);
        assert!(run.stdout.contains("evil\\033[31m\\nname"), "{}", run.stdout);
        let one = patch(&repo, "two", &[source.join("binary").as_os_str()]).expect(0);
        assert_eq!(one.stdout.lines().count(), 1);
    }

    [xfs] fn a_missing_program_and_an_unreadable_file_are_reported(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("a"), b"old\n");
        write(source.join("b"), b"old\n");
        take("one", &source, &repo);
        write(source.join("a"), b"newer\n");
        write(source.join("b"), b"newer\n");
        take("two", &source, &repo);
        let args = ["diff".as_ref(), repo.as_os_str(), "one".as_ref(), "two".as_ref(), "--patch".as_ref()];
        finish(command(args).env("PATH", fs.path())).expect(1).saying("diffutils");
        let tree = inside(&repo, "one", &source);
        tools::let_be_removed(&repo);
        fs::remove_file(tree.join("a")).unwrap();
        let run = patch(&repo, "two", &[]).expect(3).saying("cannot read the version to compare");
        assert!(run.stdout.contains("-old\n+newer"), "{}", run.stdout);
    }
}
