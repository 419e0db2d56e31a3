//! Forged manifests with correct digests: no length in them decides an allocation, and none of them crashes a run.

use super::{manifest, run_snapshot};
use crate::harness::*;
use crate::on_filesystems;
use pleach::monitor::Silent;
use pleach::snapshot::{create, list, restore};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::Command;

const FOOTER: usize = 112;
/// The address space for a run, in KiB. Threads and the allocator reserve most of it; forged lengths are far larger.
const MEMORY: u64 = 3 << 20;

#[derive(Clone, Serialize, Deserialize)]
struct IndexRecord {
    stored: u32,
    raw: u32,
    digest: [u8; 32],
    shared: u32,
    #[serde(with = "serde_bytes")]
    suffix: Vec<u8>,
    #[serde(with = "serde_bytes")]
    name: Vec<u8>,
}

/// The parts of a manifest.
#[derive(Clone)]
struct Parts {
    beginning: Vec<u8>,
    blocks: Vec<Vec<u8>>,
    index: Vec<u8>,
    totals: Vec<u8>,
    /// The first five numbers of the footer.
    numbers: [u64; 5],
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

impl Parts {
    fn of(file: &[u8]) -> Parts {
        let footer = &file[file.len() - FOOTER..];
        let numbers: [u64; 5] = std::array::from_fn(|i| number(footer, 8 * i));
        let [index_at, index_length, totals_at, totals_length, _] = numbers.map(|number| number as usize);
        let header = u32::from_le_bytes(file[16..20].try_into().unwrap()) as usize;
        let mut at = 20 + header;
        let index = file[index_at..index_at + index_length].to_vec();
        let blocks = Parts::records(&index).into_iter().map(|record| {
            let stored = &file[at..at + record.stored as usize];
            at += record.stored as usize;
            zstd::bulk::decompress(stored, record.raw as usize).unwrap()
        });
        let blocks = blocks.collect();
        let totals = file[totals_at..totals_at + totals_length].to_vec();
        Parts { beginning: file[..20 + header].to_vec(), blocks, index, totals, numbers }
    }

    fn records(mut index: &[u8]) -> Vec<IndexRecord> {
        let mut records = Vec::new();
        while !index.is_empty() {
            let (record, rest) = postcard::take_from_bytes(index).unwrap();
            records.push(record);
            index = rest;
        }
        records
    }

    /// Builds a file with an index of its blocks, which `alter` may change; all digests are correct.
    fn seal(&self, alter: impl Fn(&mut Vec<IndexRecord>)) -> Vec<u8> {
        let mut file = self.beginning.clone();
        let mut records = Parts::records(&self.index);
        for (record, raw) in records.iter_mut().zip(&self.blocks) {
            let stored = zstd::bulk::compress(raw, 1).unwrap();
            record.stored = stored.len() as u32;
            record.raw = raw.len() as u32;
            record.digest = *blake3::hash(&stored).as_bytes();
            file.extend_from_slice(&stored);
        }
        alter(&mut records);
        let index = records.iter().flat_map(|record| postcard::to_allocvec(record).unwrap()).collect();
        Parts { index, ..self.clone() }.seal_as_it_is(file)
    }

    /// Builds a file from this beginning and these blocks; the digests are correct for any index in it.
    fn seal_as_it_is(&self, mut file: Vec<u8>) -> Vec<u8> {
        let index_at = file.len() as u64;
        let totals_at = index_at + self.index.len() as u64;
        let numbers = [index_at, self.index.len() as u64, totals_at, self.totals.len() as u64, self.numbers[4]];
        file.extend_from_slice(&self.index);
        file.extend_from_slice(&self.totals);
        file.extend_from_slice(&footer(&self.beginning, &self.index, &self.totals, numbers));
        file
    }
}

fn footer(beginning: &[u8], index: &[u8], totals: &[u8], numbers: [u64; 5]) -> Vec<u8> {
    let mut footer: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    footer.extend_from_slice(blake3::hash(index).as_bytes());
    let digest = blake3::Hasher::new().update(beginning).update(totals).update(&footer).finalize();
    footer.extend_from_slice(digest.as_bytes());
    footer.extend_from_slice(b"FMhcaelp");
    footer
}

/// Reproducible random choices.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below.max(1)
    }

    fn extreme(&mut self) -> u64 {
        let small = self.roll(200);
        [
            0,
            1,
            small,
            1 << 16,
            1 << 31,
            u64::from(u32::MAX),
            1 << 40,
            1 << 62,
            i64::MAX as u64,
            u64::MAX - small,
            u64::MAX,
        ][self.roll(11) as usize]
    }

    fn alter(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.roll(4) {
            let at = self.roll(bytes.len() as u64) as usize;
            match self.roll(4) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << self.roll(8),
                1 if !bytes.is_empty() => bytes[at] = 0xff,
                2 => bytes.truncate(at),
                _ => {
                    let more = vec![[0, 0xff, 0x80, 0x7f][self.roll(4) as usize]; self.roll(12) as usize];
                    bytes.splice(at.min(bytes.len())..at.min(bytes.len()), more);
                }
            }
        }
    }

    /// A manifest that differs from `whole`, in a different way in each case.
    fn forge(&mut self, whole: &[u8]) -> Vec<u8> {
        let mut parts = Parts::of(whole);
        match self.roll(7) {
            0 => {
                let mut file = whole.to_vec();
                self.alter(&mut file);
                file
            }
            1 => {
                let mut file = whole[..whole.len() - FOOTER].to_vec();
                let place = self.roll(5) as usize;
                parts.numbers[place] = self.extreme();
                file.extend_from_slice(&footer(&parts.beginning, &parts.index, &parts.totals, parts.numbers));
                file
            }
            2 => {
                let mut header = parts.beginning.split_off(20);
                self.alter(&mut header);
                parts.beginning[16..20].copy_from_slice(&(header.len() as u32).to_le_bytes());
                parts.beginning.extend_from_slice(&header);
                parts.seal(|_| {})
            }
            3 => {
                self.alter(&mut parts.totals);
                parts.seal(|_| {})
            }
            4 => {
                self.alter(&mut parts.index);
                let blocks = whole[..parts.numbers[0] as usize].to_vec();
                parts.seal_as_it_is(blocks)
            }
            5 => {
                let (record, field, value) = (self.roll(9) as usize, self.roll(3), self.extreme() as u32);
                parts.seal(|records| {
                    let count = records.len();
                    let record = &mut records[record % count];
                    *[&mut record.stored, &mut record.raw, &mut record.shared]
                        .into_iter()
                        .nth(field as usize)
                        .unwrap() = value;
                })
            }
            _ => {
                let number = self.roll(parts.blocks.len() as u64) as usize;
                self.alter(&mut parts.blocks[number]);
                parts.seal(|_| {})
            }
        }
    }
}

/// A source with every type of entry, in a repository of two snapshots.
fn repository(fs: &Filesystem) -> (std::path::PathBuf, std::path::PathBuf) {
    let (source, repo) = (fs.dir("source"), fs.join("repo"));
    tree::plain(&source);
    symlink("nowhere", source.join("link")).unwrap();
    for number in 0..1500 {
        write(fs.dir(format!("source/many/{}", number % 7)).join(format!("{number:040}")), b"");
    }
    run_snapshot("one", &source, &repo).expect(0);
    run_snapshot("two", &source, &repo).expect(0);
    (source, repo)
}

/// Runs pleach with this much address space.
fn within_memory<'a>(args: impl IntoIterator<Item = &'a std::ffi::OsStr>) -> Run {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -v {MEMORY}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_pleach")]);
    finish(shell.args(args).env_remove("PLEACH_REPO"))
}

/// Runs every command that reads a manifest, with the manifest of the snapshot `two` forged. Each command must end with
/// an ordinary exit status.
#[track_caller]
fn assert_bearable(source: &Path, repo: &Path, target: &Path, what: &str) {
    let list = within_memory(["list".as_ref(), "--json".as_ref(), repo.as_os_str()]);
    assert!([0, 3].contains(&list.status), "list {what}: {}", list.stderr);
    assert!(list.stdout.contains("\"name\":\"one\""), "{what}: the other snapshot is listed: {}", list.stdout);
    let args = ["restore".as_ref(), "--dry-run".as_ref(), "--target".as_ref(), target.as_os_str(), repo.as_ref()];
    let restore = within_memory(args.into_iter().chain(["two".as_ref()]));
    assert!([0, 1, 3, 4].contains(&restore.status), "restore {what}: {} {}", restore.status, restore.stderr);
    let args = ["snapshot".as_ref(), "--name".as_ref(), "three".as_ref(), source.as_os_str(), repo.as_ref()];
    let snapshot = within_memory(args);
    assert_eq!(snapshot.status, 0, "snapshot {what}: {}", snapshot.stderr);
    tools::delete_snapshot(&repo.join("three"));
    fs::remove_file(manifest(repo, "three")).unwrap();
}

on_filesystems! {
    [xfs] fn a_thousand_forged_manifests_end_no_run(fs: &Filesystem) {
        let (source, repo) = repository(fs);
        let path = manifest(&repo, "two");
        let whole = fs::read(&path).unwrap();
        assert!(Parts::of(&whole).seal(|_| {}).len() > 1000);
        let mut dice = Dice(0x51_5bad_5eed);
        let listing = list::Options::default();
        let options = restore::Options { target: fs.join("target"), dry_run: true, ..restore::Options::default() };
        let plan = create::Options { dry_run: true, threads: Some(1), ..create::Options::default() };
        for case in 0..1000 {
            let forged = dice.forge(&whole);
            write(&path, &forged);
            let listed = list::list(&repo, &listing, &Silent).unwrap();
            assert!(listed.rows.iter().any(|row| row.name == "one"), "case {case}");
            let _ = restore::restore(&repo, "two", &[], &options, &Silent);
            if case % 10 == 0 {
                create::create(std::slice::from_ref(&source), &repo, &plan, &Silent).unwrap();
            }
            if case % 300 == 0 {
                assert_bearable(&source, &repo, &fs.join("target"), &format!("case {case}"));
            }
        }
    }

    fn lengths_beyond_all_memory_are_damage_and_hide_no_other_snapshot(fs: &Filesystem) {
        let (source, repo) = repository(fs);
        let path = manifest(&repo, "two");
        let whole = fs::read(&path).unwrap();
        let parts = Parts::of(&whole);
        let [index, _, totals, totals_length, blocks] = parts.numbers;
        // As large as a file can be on this filesystem, and nearly all of it a hole.
        let huge = match fs.kind {
            Kind::Ext4 => 15_u64 << 40,
            _ => 7 << 60,
        };
        let end = huge - FOOTER as u64;
        let claims = [
            ("totals", [index, totals - index, totals, end - totals, blocks]),
            ("index", [index, end - totals_length - index, end - totals_length, totals_length, blocks]),
            ("blocks", [end - totals_length, 0, end - totals_length, totals_length, 0]),
            ("count", [index, end - totals_length - index, end - totals_length, totals_length, u64::MAX]),
        ];
        for (what, numbers) in claims {
            write(&path, &whole);
            let file = File::options().write(true).open(&path).unwrap();
            file.set_len(huge).unwrap();
            file.write_all_at(&parts.totals, numbers[2]).unwrap();
            file.write_all_at(&footer(&parts.beginning, &[], &parts.totals, numbers), end).unwrap();
            assert_bearable(&source, &repo, &fs.join("target"), what);
            let args = ["restore".as_ref(), "--target".as_ref(), fs.path().as_os_str(), repo.as_ref(), "two".as_ref()];
            within_memory(args).expect(4).saying("manifests/two");
        }
        let mut header = whole.clone();
        header[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
        write(&path, &header);
        assert_bearable(&source, &repo, &fs.join("target"), "header");
    }

    [xfs] fn a_block_that_unpacks_to_far_more_than_it_takes_is_damage(fs: &Filesystem) {
        let (source, repo) = repository(fs);
        let path = manifest(&repo, "two");
        let whole = fs::read(&path).unwrap();
        let mut parts = Parts::of(&whole);
        parts.blocks[0] = vec![0; 80 << 20];
        write(&path, &parts.seal(|_| {}));
        assert_bearable(&source, &repo, &fs.join("target"), "a bomb");
        // A block with a false uncompressed length.
        write(&path, &parts.seal(|records| records[0].raw = 4096));
        assert_bearable(&source, &repo, &fs.join("target"), "a bomb in disguise");

        let record = |shared: u32, suffix: &[u8]| {
            let digest = [0; 32];
            IndexRecord { stored: 0, raw: 0, digest, shared, suffix: suffix.to_vec(), name: Vec::new() }
        };
        // Each key extends the previous one: together they would take 100 GiB.
        let mut index = postcard::to_allocvec(&record(0, &vec![b'a'; 1 << 20])).unwrap();
        for number in 0..100_000_u32 {
            let suffix = [&b"aaaaaaaa"[..], format!("{number:08}").as_bytes()].concat();
            index.extend(postcard::to_allocvec(&record(1 << 20, &suffix)).unwrap());
        }
        parts.numbers[4] = 100_001;
        let forged = Parts { index, ..parts.clone() }.seal_as_it_is(parts.beginning.clone());
        write(&path, &forged);
        assert_bearable(&source, &repo, &fs.join("target"), "long keys");
    }

    [xfs, ext4] fn whatever_is_in_a_manifests_place_hides_no_other_snapshot(fs: &Filesystem) {
        use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
        let (source, repo) = repository(fs);
        let path = manifest(&repo, "two");
        let whole = fs::read(&path).unwrap();
        let put_aside = || {
            let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        };
        let things: [(&str, &dyn Fn()); 5] = [
            ("a pipe", &|| mknodat(CWD, &path, FileType::Fifo, Mode::RUSR, 0).unwrap()),
            ("a device", &|| mknodat(CWD, &path, FileType::CharacterDevice, Mode::RUSR, makedev(1, 5)).unwrap()),
            ("a socket", &|| mknodat(CWD, &path, FileType::Socket, Mode::RUSR, 0).unwrap()),
            ("a directory", &|| fs::create_dir_all(path.join("in/it")).unwrap()),
            ("a link", &|| symlink(manifest(&repo, "one"), &path).unwrap()),
        ];
        for (what, put) in things {
            put_aside();
            put();
            let args = ["list".as_ref(), "--json".as_ref(), repo.as_os_str()];
            assert!(within_memory(args).expect(3).stdout.contains("\"name\":\"one\""));
            assert_bearable(&source, &repo, &fs.join("target"), what);
            // Without its tree, the manifest is a leftover, whatever its content.
            fs::rename(repo.join("two"), fs.join("two")).unwrap();
            run_snapshot("four", &source, &repo).expect(0);
            assert!(fs::symlink_metadata(&path).is_err(), "{what} is cleared");
            fs::rename(fs.join("two"), repo.join("two")).unwrap();
            fs::remove_dir_all(repo.join("four")).unwrap();
            fs::remove_file(manifest(&repo, "four")).unwrap();
        }
        put_aside();
        for cut in [0, 1, 19, 20, 131, 132, 133] {
            write(&path, &whole[..cut]);
            assert_bearable(&source, &repo, &fs.join("target"), &format!("{cut} bytes"));
        }
    }
}
