//! A thousand random small changes, judged by rsync too.

use super::*;
use std::collections::BTreeSet;

/// A small generator of numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

fn grow(source: &Path, numbers: &mut Numbers) {
    for number in 0..1500 {
        let dir = source.join(format!("d{}/e{}", number % 10, numbers.below(6)));
        fs::create_dir_all(&dir).unwrap();
        write(dir.join(format!("f{number}")), &bytes(number, 10 + numbers.below(6000)));
    }
}

/// Changes one entry at random.
fn meddle(source: &Path, number: usize, numbers: &mut Numbers) {
    let dir = source.join(format!("d{}/e{}", numbers.below(10), numbers.below(6)));
    let Some(entry) = names(&dir).into_iter().nth(numbers.below(25)) else { return };
    let path = dir.join(&entry);
    let is_file = fs::symlink_metadata(&path).unwrap().is_file();
    match numbers.below(10) {
        0 => fs::write(dir.join(format!("new{number}")), bytes(number as u64 + 9000, 300)).unwrap(),
        1 if is_file => fs::remove_file(path).unwrap(),
        2 if is_file => overwrite(&path, 0, &bytes(number as u64, 8)),
        3 if is_file => fs::write(&path, bytes(number as u64, 700)).unwrap(),
        4 => tree::set_mtime(&path, 1_500_000_000 + number as i64, 0),
        5 if is_file => fs::set_permissions(&path, fs::Permissions::from_mode(0o600 | number as u32 & 0o77)).unwrap(),
        6 => std::os::unix::fs::lchown(&path, Some(number as u32), None).unwrap(),
        7 if is_file => drop(tools::tool("setfattr", &["-n", "user.n", "-v", &number.to_string()], &path)),
        8 => {
            let target = source.join(format!("d{}/e{}/moved{number}", numbers.below(10), numbers.below(6)));
            fs::rename(&path, target).unwrap();
        }
        9 => {
            let link = dir.join(format!("link{}", number % 40));
            let _ = fs::remove_file(&link);
            symlink(number.to_string(), link).unwrap();
        }
        _ => {}
    }
}

/// What rsync would do, as letters and paths. Directories with nothing but another time are not listed.
fn by_rsync(old: &Path, new: &Path) -> BTreeSet<String> {
    tools::differences(new, old)
        .lines()
        .filter_map(|line| {
            let (flags, name) = line.split_once(' ')?;
            let name = name.trim_start().split(" -> ").next()?.trim_end_matches('/');
            let letter = match flags.as_bytes() {
                b"*deleting" => '-',
                [_, b'd', rest @ ..] if rest.starts_with(b"..t......") || rest == b"..t......" => return None,
                [_, _, b'+', ..] => '+',
                [_, b'L', b'c', ..] => 'M',
                [_, b'f', b'c', ..] | [_, b'f', _, b's', ..] => 'M',
                _ => 'U',
            };
            Some(format!("{letter} {name}"))
        })
        .collect()
}

on_filesystems! {
    fn rsync_finds_the_same_differences(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let mut numbers = Numbers(0x5eed_1234_5678_9abc);
        grow(&source, &mut numbers);
        take("one", &source, &repo);
        (0..1000).for_each(|number| meddle(&source, number, &mut numbers));
        settle();
        let live = compare(&repo, "one", "live", &["--json".as_ref()]).expect(0);
        take("two", &source, &repo);
        let run = compare(&repo, "one", "two", &["--json".as_ref()]).expect(0);
        let found = summary(&run);
        assert!(found.renamed > 50 && found.content > 50 && found.metadata > 50, "{found:?}");
        let wanted = by_rsync(&inside(&repo, "one", &source), &inside(&repo, "two", &source));
        for run in [&run, &live] {
            let relative = |line: &serde_json::Value, field: &str| {
                let path = line[field].as_str()?;
                Some(Path::new(path).strip_prefix(&source).unwrap().to_str().unwrap().to_string())
            };
            let mut ours = BTreeSet::new();
            for line in run.lines_of_type("change") {
                let (path, from) = (relative(&line, "path").unwrap(), relative(&line, "from"));
                match (line["change"].as_str().unwrap(), from) {
                    // For rsync, a renamed file is a new one and a deleted one.
                    ("R", Some(from)) => ours.extend([format!("+ {path}"), format!("- {from}")]),
                    (_, Some(_)) => {}
                    (letter, None) => drop(ours.insert(format!("{letter} {path}"))),
                }
            }
            let lost: Vec<_> = wanted.difference(&ours).collect();
            let invented: Vec<_> = ours.difference(&wanted).collect();
            assert!(lost.is_empty() && invented.is_empty(), "only rsync: {lost:?}\nonly pleach: {invented:?}");
        }
    }
}
