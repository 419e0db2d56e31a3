//! Every command on a repository with something wrong in it: a table of exit statuses. Each failure names a path of the
//! repository, and no command but `remove` and `prune` changes a tree.

use super::*;
use std::process::Command;

/// The names of the snapshots, oldest first. The middle one is the bad one.
const NAMES: [&str; 3] = ["one", "two", "three"];

/// The commands. `S` is the bad snapshot, `R` the repository, `F` a file in the sources, `T` a new directory, `X` the
/// sources.
const COMMANDS: [&str; 14] = [
    "list R",
    "du --snapshots R",
    "find R file",
    "log R F",
    "cat R S F",
    "diff R S three",
    "verify R",
    "restore --target T R S",
    "prune --dry-run --keep-last 1 R",
    "prune --keep-last 1 R",
    "remove R S",
    "tag R S +t",
    "pin R S",
    "snapshot X R",
];

/// Something wrong, what every message about it names, and the exit status of each command.
type Case = (&'static str, fn(&Path), &'static str, [i32; 14]);

const CASES: [Case; 7] = [
    (
        "cut",
        |repo| Damage::CutShort.inflict(&manifest(repo, "two")),
        "manifests/two",
        [3, 3, 3, 3, 4, 4, 4, 4, 3, 3, 0, 4, 4, 0],
    ),
    (
        "flipped",
        |repo| Damage::Block.inflict(&manifest(repo, "two")),
        "manifests/two",
        [0, 0, 3, 3, 4, 3, 4, 4, 0, 0, 0, 0, 0, 0],
    ),
    (
        "empty",
        |repo| Damage::Emptied.inflict(&manifest(repo, "two")),
        "manifests/two",
        [3, 3, 3, 3, 4, 4, 4, 4, 3, 3, 0, 4, 4, 0],
    ),
    (
        "missing",
        |repo| fs::remove_file(manifest(repo, "two")).unwrap(),
        "two",
        [0, 0, 0, 0, 1, 1, 4, 1, 0, 0, 1, 1, 1, 0],
    ),
    (
        "deleted",
        |repo| fs::remove_dir_all(repo.join("two")).unwrap(),
        "two",
        [0, 0, 0, 0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0],
    ),
    (
        "renamed",
        |repo| fs::rename(repo.join("two"), repo.join("other")).unwrap(),
        "two",
        [0, 0, 0, 0, 1, 1, 4, 1, 0, 0, 1, 1, 1, 0],
    ),
    ("newer", |repo| write(repo.join(".pleach/format"), b"pleach repository, format 9\n"), "format 9", [1; 14]),
];

/// The trees that exist of the snapshots, whatever their names.
fn trees(repo: &Path) -> Vec<(String, Vec<String>)> {
    let shown = |name: &String| {
        // The copies of a repository have inodes and times of change of their own.
        let files = tools::files(&repo.join(name));
        files.iter().map(|path| format!("{path:?} {}", blake3::hash(&fs::read(path).unwrap()))).collect()
    };
    published(repo)
        .into_iter()
        .map(|name| {
            let shown = shown(&name);
            (name, shown)
        })
        .collect()
}

on_filesystems! {
    [xfs] fn each_command_on_a_repository_with_something_wrong_says_so_and_loses_nothing(fs: &Filesystem) {
        let (source, sound) = (fs.dir("source"), fs.join("sound"));
        tree::plain(&source);
        write(source.join("file"), &bytes(1, 9000));
        for name in NAMES {
            run_snapshot(name, &source, &sound).expect(0);
        }
        let mut wrong = Vec::new();
        for (case, damage, named, expected) in CASES {
            let mut statuses = [0; 14];
            for (command, status) in COMMANDS.iter().zip(&mut statuses) {
                let repo = fs.join("repo");
                finish(Command::new("cp").args(["-a", "--reflink=auto"]).arg(&sound).arg(&repo)).expect(0);
                damage(&repo);
                let before = trees(&repo);
                let (target, file) = (fs.join("target"), source.join("file"));
                let words = command.split(' ').map(|word| match word {
                    "R" => repo.as_os_str(),
                    "S" => OsStr::new("two"),
                    "F" => file.as_os_str(),
                    "T" => target.as_os_str(),
                    "X" => source.as_os_str(),
                    word => OsStr::new(word),
                });
                let run = pleach(words);
                *status = run.status;
                let text = format!("{}{}", run.stdout, run.stderr);
                let is_named = text.contains(named) || case == "renamed" && text.contains("repo/other");
                if text.contains("panicked") || run.status != 0 && !is_named {
                    wrong.push(format!("{case}: {command}: {}: {text}", run.status));
                }
                let after = trees(&repo);
                let may_remove = command.starts_with("prune --keep") || command.starts_with("remove");
                let lost = before.iter().filter(|tree| !after.contains(tree)).map(|(name, _)| name.as_str());
                let lost: Vec<_> = lost.collect();
                let allowed: &[&str] = match (may_remove, &command[..5]) {
                    (true, "remov") => &["two"],
                    (true, _) => &["one", "two"],
                    _ => &[],
                };
                if lost.iter().any(|name| !allowed.contains(name)) {
                    wrong.push(format!("{case}: {command}: {lost:?} lost: {text}"));
                }
                for dir in [&repo, &target] {
                    let _ = fs::remove_dir_all(dir);
                }
            }
            if statuses != expected {
                wrong.push(format!("{case}: the exit statuses of {COMMANDS:?} are {statuses:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
