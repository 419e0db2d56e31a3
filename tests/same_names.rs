//! Destinations that treat several names as one: exFAT is case-insensitive.

use crate::harness::mounted::Mounted;
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A source with pairs of names that differ only in case, and an exFAT.
struct Scene {
    source: PathBuf,
    repo: PathBuf,
    exfat: Mounted,
}

impl Scene {
    fn new(fs: &Filesystem, test: &str) -> Option<Scene> {
        let exfat = Mounted::exfat(test, &fs.join("exfat"))?;
        Some(Scene { source: fs.dir("source"), repo: fs.join("repo"), exfat })
    }

    /// A file that contains its name. exFAT times have a resolution of two seconds.
    fn file(&self, name: &str) {
        let path = self.source.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write(&path, name.as_bytes());
        tree::set_mtime(&path, 1_700_000_000, 0);
    }

    fn pairs(&self) {
        ["A", "a", "B", "D/one", "d/two", "É", "é", "file", "FILE/three", "z"].iter().for_each(|name| self.file(name));
    }

    fn copied(&self) -> PathBuf {
        self.exfat.path().join("copy")
    }

    fn copy(&self, more: &[&str]) -> Run {
        let (source, to) = (self.source.join("."), self.copied());
        let _ = fs::create_dir(&to);
        pleach(
            ["copy", "--json"]
                .iter()
                .map(OsStr::new)
                .chain(more.iter().map(OsStr::new))
                .chain([source.as_ref(), to.as_ref()]),
        )
    }

    fn target(&self) -> PathBuf {
        self.exfat.path().join("target")
    }

    /// The path of the source in the target of a restore.
    fn restored(&self) -> PathBuf {
        self.target().join(self.source.strip_prefix("/").unwrap())
    }

    fn restore(&self, more: &[&str]) -> Run {
        let target = self.target();
        let begin = ["restore", "--json"].iter().chain(more).map(OsStr::new);
        pleach(begin.chain(["--target".as_ref(), target.as_ref(), self.repo.as_ref(), "latest".as_ref()]))
    }
}

/// Asserts that every file below `dir` contains its own name, not another file's content. Returns the names.
#[track_caller]
fn says_its_name(dir: &Path) -> Vec<String> {
    let files = tools::files(dir);
    let name = |path: &PathBuf| path.strip_prefix(dir).unwrap().to_str().unwrap().to_string();
    for path in &files {
        assert_eq!(fs::read_to_string(path).unwrap(), name(path));
    }
    let mut names: Vec<_> = files.iter().map(name).collect();
    names.sort();
    names
}

/// The pairs of names that errors are about, each with the smaller one first. Asserts that there are no other errors.
#[track_caller]
fn refused(run: &Run, below: &Path) -> Vec<(String, String)> {
    let errors: Vec<_> = run.json().into_iter().filter(|line| line["type"] == "error").collect();
    let mut pairs: Vec<_> = errors
        .iter()
        .map(|error| {
            assert_eq!(error["code"], "same-name", "{error}");
            let (path, message) = (error["path"].as_str().unwrap(), error["message"].as_str().unwrap());
            let name = Path::new(path).strip_prefix(below).unwrap().to_str().unwrap().to_string();
            let other = message.split(" this name from ").nth(1).unwrap().split(", which").next().unwrap();
            let other = Path::new(other).strip_prefix(below).unwrap().to_str().unwrap().to_string();
            assert_eq!(name.to_lowercase(), other.to_lowercase());
            if name < other { (name, other) } else { (other, name) }
        })
        .collect();
    pairs.sort();
    assert_eq!(number(&run.summary(), "errors"), pairs.len() as u64);
    pairs
}

/// The content of a file, whether its name is listed in upper or lower case. Opens the listed name, because through
/// FUSE lookups of another case stay in the cache.
#[track_caller]
fn content(dir: &Path, name: &str) -> String {
    let listed =
        names(dir).into_iter().find(|listed| listed.to_lowercase() == name.to_lowercase()).expect("it is listed");
    fs::read_to_string(dir.join(listed)).unwrap()
}

fn pairs(names: &[(&str, &str)]) -> Vec<(String, String)> {
    names.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect()
}

const PAIRS: [(&str, &str); 4] = [("A", "a"), ("D", "d"), ("FILE", "file"), ("É", "é")];

on_filesystems! {
    [ext4] fn a_copy_keeps_the_first_of_two_names_that_are_one_there_and_names_both(fs: &Filesystem) {
        let Some(scene) = Scene::new(fs, "same_names::copy") else { return };
        scene.pairs();
        let first = scene.copy(&[]).expect(3);
        assert_eq!(refused(&first, &scene.copied()), pairs(&PAIRS));
        let kept = says_its_name(&scene.copied());
        let mut roots: Vec<_> = kept.iter().map(|name| name.split('/').next().unwrap().to_lowercase()).collect();
        roots.sort();
        assert_eq!(roots, ["a", "b", "d", "file", "z", "é"]);
        for more in [&[][..], &["--verify"], &["--dry-run"]] {
            let again = scene.copy(more).expect(3);
            assert_eq!(refused(&again, &scene.copied()), pairs(&PAIRS), "{more:?}");
            let summary = again.summary();
            assert_eq!(number(&summary, "unchanged_files"), number(&summary, "files"));
            assert_eq!(says_its_name(&scene.copied()), kept, "{more:?}");
        }
    }

    [ext4] fn names_in_different_batches_of_a_directory_are_told_apart_as_well(fs: &Filesystem) {
        let Some(scene) = Scene::new(fs, "same_names::batches") else { return };
        (0..400)
            .for_each(|number| ["N", "n", "only"].iter().for_each(|name| scene.file(&format!("{name}{number:03}"))));
        let mut kept = Vec::new();
        for _ in 0..2 {
            let run = scene.copy(&[]).expect(3);
            assert_eq!(refused(&run, &scene.copied()).len(), 400);
            kept.push(says_its_name(&scene.copied()));
        }
        assert_eq!(kept[0].len(), 800);
        assert_eq!(kept[0], kept[1]);
    }

    [ext4] fn a_copy_replaces_what_has_its_name_in_the_other_case_if_nothing_else_wants_that(fs: &Filesystem) {
        let Some(scene) = Scene::new(fs, "same_names::other_case") else { return };
        ["name", "dir/inner", "Two"].iter().for_each(|name| scene.file(name));
        let to = scene.copied();
        fs::create_dir_all(to.join("DIR")).unwrap();
        write(to.join("NAME"), b"another");
        for changed in [true, false] {
            let run = scene.copy(&[]).expect(0).summary();
            assert_eq!(number(&run, "unchanged_files") == 3, !changed);
            assert_eq!(content(&to, "name"), "name");
            assert_eq!(content(&to.join("DIR"), "inner"), "dir/inner");
            assert_eq!(names(&to).len(), 3);
        }
        // Named explicitly, as with cp.
        write(scene.source.join("TWO"), b"named");
        let named = scene.source.join("TWO");
        pleach([OsStr::new("copy"), named.as_ref(), to.as_ref()]).expect(0);
        assert_eq!(content(&to, "two"), "named");
        let both = [scene.source.join("Two"), named];
        let run = pleach([OsStr::new("copy"), "--json".as_ref(), both[0].as_ref(), both[1].as_ref(), to.as_ref()]);
        assert_eq!(refused(&run.expect(3), &to), pairs(&[("TWO", "Two")]));
        // The same for the output of a program.
        for content in ["first", "second"] {
            let at = to.join(if content == "first" { "put" } else { "PUT" });
            pleach([OsStr::new("put"), at.as_ref(), "--".as_ref(), "echo".as_ref(), "-n".as_ref(), content.as_ref()])
                .expect(0);
        }
        assert_eq!(content(&to, "put"), "second");
        assert_eq!(names(&to).len(), 4);
    }

    [xfs, ext4] fn a_restore_keeps_the_first_of_two_names_that_are_one_there_and_names_both(fs: &Filesystem) {
        let Some(scene) = Scene::new(fs, "same_names::restore") else { return };
        scene.pairs();
        fs::hard_link(scene.source.join("B"), scene.source.join("b")).unwrap();
        snapshot(&scene.source, &scene.repo);
        let wanted = [("A", "a"), ("B", "b"), ("D", "d"), ("FILE", "file"), ("É", "é")];
        let first = scene.restore(&[]).expect(3);
        assert_eq!(refused(&first, &scene.restored()), pairs(&wanted));
        let kept = says_its_name(&scene.restored());
        assert_eq!(kept.len(), 6);
        for more in [&[][..], &["--delete"], &["--verify"], &["--dry-run", "--delete"]] {
            let again = scene.restore(more).expect(3);
            assert_eq!(refused(&again, &scene.restored()), pairs(&wanted), "{more:?}");
            let summary = again.summary();
            let counts = ["new_entries", "replaced_entries", "deleted"].map(|field| number(&summary, field));
            assert_eq!(counts, [0; 3], "{more:?}");
            assert_eq!(says_its_name(&scene.restored()), kept, "{more:?}");
        }
    }

    [ext4] fn a_restore_does_not_delete_what_it_finds_in_another_case(fs: &Filesystem) {
        let Some(scene) = Scene::new(fs, "same_names::delete") else { return };
        ["name", "dir/inner", "É", "zz"].iter().for_each(|name| scene.file(name));
        snapshot(&scene.source, &scene.repo);
        let to = scene.restored();
        fs::create_dir_all(to.join("DIR/gone")).unwrap();
        for (name, content) in [("NAME", "name"), ("é", "É"), ("gone", "gone")] {
            write(to.join(name), content.as_bytes());
            tree::set_mtime(&to.join(name), 1_700_000_000, 0);
        }
        for (deleted, made) in [(2, 2), (0, 0)] {
            let run = scene.restore(&["--delete"]).expect(0).summary();
            assert_eq!((number(&run, "deleted"), number(&run, "new_entries")), (deleted, made));
            let mut found = names(&to);
            found.iter_mut().for_each(|name| *name = name.to_lowercase());
            found.sort();
            assert_eq!(found, ["dir", "name", "zz", "é"]);
            assert_eq!(content(&to.join("DIR"), "inner"), "dir/inner");
            assert_eq!(content(&to, "É"), "É");
        }
    }

    [ext4] fn a_snapshot_into_such_a_repository_keeps_the_first_and_reports_the_second(fs: &Filesystem) {
        let Some(scene) = Scene::new(fs, "same_names::snapshot") else { return };
        ["A", "a", "D/one", "d/two"].iter().for_each(|name| scene.file(name));
        let repo = scene.exfat.path().join("repo");
        for name in ["one", "two"] {
            settle();
            let run = pleach(snapshot_named(name, &scene.source, &repo)).expect(3).saying("ignores case");
            // The directories above the source may have modes that FUSE does not keep, which is an error too.
            let refused = run.stderr.matches("differs in upper and lower case only").count();
            assert_eq!(refused, 2, "{}", run.stderr);
            let reported = run.stderr.matches("cannot write to the snapshot").count() as u64;
            assert_eq!(number(&run.summary(), "errors"), reported, "{}", run.stderr);
            let kept = says_its_name(&inside(&repo, name, &scene.source));
            assert_eq!(kept.len(), 2);
        }
    }

    [xfs, ext4] fn where_names_are_compared_byte_by_byte_no_file_costs_a_call_more(fs: &Filesystem) {
        let log = fs.join("log");
        let counts = [100, 300].map(|files| {
            let (from, to) = (fs.dir(format!("from{files}")), fs.dir(format!("to{files}")));
            (0..files).for_each(|number| write(from.join(format!("n{number}")), b"x"));
            settle();
            let args = ["copy".as_ref(), "-q".as_ref(), "-T".as_ref(), from.as_os_str(), to.as_os_str()];
            pleach(args).expect(0);
            let mut strace = Command::new("strace");
            strace.args(["-f", "-c", "-e", "trace=statx,openat,openat2,ioctl,getdents64", "-o"]).arg(&log);
            finish(strace.arg(env!("CARGO_BIN_EXE_pleach")).args(args)).expect(0);
            let table = fs::read_to_string(&log).unwrap();
            let count = |call: &str| {
                let line = table.lines().find(|line| line.split_whitespace().last() == Some(call));
                line.map_or(0, |line| line.split_whitespace().nth(3).unwrap().parse::<u64>().unwrap())
            };
            ["statx", "openat", "openat2", "ioctl", "getdents64"].map(count)
        });
        let more: Vec<_> = counts[1].iter().zip(counts[0]).map(|(many, few)| many.saturating_sub(few) / 200).collect();
        // The source and the copy are examined, and nothing is opened or listed per file.
        assert_eq!(more, [2, 0, 0, 0, 0], "{counts:?}");
    }
}
