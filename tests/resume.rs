//! `pleach snapshot` after a killed or stopped run: its finished files are reused if they are still valid.

use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use pleach::testing::manifest::{Item, Reader};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

const FILES: usize = 24;
const SIZE: usize = 600_000;

/// Files in two directories, all of one size.
fn equal_files(dir: &Path) {
    for number in 0..FILES {
        let inner = dir.join(format!("{}", number % 2));
        fs::create_dir_all(&inner).unwrap();
        write(inner.join(format!("file-{number:02}")), &bytes(number as u64, SIZE));
    }
    settle();
}

/// Takes a snapshot that is stopped after this many bytes.
#[track_caller]
fn stopped(source: &Path, repo: &Path, after: usize) {
    stop::take_until(after as u64, "stopped", source, repo);
}

/// The path of the source's files in the leftover of the run `stopped`.
fn left(repo: &Path, source: &Path) -> PathBuf {
    repo.join(".pleach/partial/stopped/tree").join(source.strip_prefix("/").unwrap())
}

/// Asserts the requirements on every run that continues another one.
#[track_caller]
fn assert_resumed(summary: &Value, source: &Path, repo: &Path) {
    let [bytes, copied, resumed, read] =
        ["bytes", "copied_bytes", "resumed_bytes", "read_bytes"].map(|field| number(summary, field));
    assert_eq!(copied + resumed, bytes, "{summary}");
    assert_eq!(read, copied + resumed, "what was written is read back: {summary}");
    assert_eq!(number(summary, "resumed_files") * SIZE as u64, resumed, "{summary}");
    assert_whole(source, repo);
}

#[track_caller]
fn assert_whole(source: &Path, repo: &Path) {
    let copy = inside(repo, "latest", source);
    tools::assert_equal_trees(source, &copy);
    assert_no_leftovers(repo);
    let name = fs::read_link(repo.join("latest")).unwrap();
    let manifest = Reader::open(&repo.join(".pleach/manifests").join(name)).unwrap();
    let mut items = manifest.items();
    while let Some(item) = items.next() {
        let Item::Entry(entry) = item.unwrap() else { continue };
        let Some(file) = entry.file().filter(|file| file.size > 0) else { continue };
        use std::os::unix::ffi::OsStrExt;
        let name = std::ffi::OsStr::from_bytes(&entry.name);
        let path = Path::new("/").join(std::ffi::OsStr::from_bytes(items.directory())).join(name);
        let hash = *blake3::hash(&fs::read(&path).unwrap()).as_bytes();
        assert_eq!(file.hash, Some(hash), "{}", path.display());
    }
}

/// Changes the list of finished files to look as if it came from another boot.
fn as_of_another_boot(repo: &Path) {
    let path = repo.join(".pleach/partial/stopped/finished");
    let mut list = fs::read(&path).unwrap();
    let length = u32::from_le_bytes(list[12..16].try_into().unwrap()) as usize;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let header = &mut list[16..16 + length];
    let at = header.windows(36).position(|window| window == boot.trim().as_bytes()).expect("the boot is noted");
    header[at] = if header[at] == b'0' { b'1' } else { b'0' };
    let checksum = *blake3::hash(header).as_bytes();
    list[16 + length..24 + length].copy_from_slice(&checksum[..8]);
    fs::write(path, list).unwrap();
}

/// Overwrites a part of a file, and restores its time.
fn tamper(path: &Path) {
    let meta = fs::metadata(path).unwrap();
    overwrite(path, 1000, b"tampered");
    tree::set_mtime(path, meta.mtime(), meta.mtime_nsec());
}

on_filesystems! {
    fn what_a_stopped_run_had_copied_is_not_copied_again(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        equal_files(&source);
        stopped(&source, &repo, FILES / 2 * SIZE);
        let summary = snapshot(&source, &repo);
        assert_resumed(&summary, &source, &repo);
        assert_eq!(number(&summary, "resumed_files"), FILES as u64 / 2, "{summary}");
        let again = snapshot(&source, &repo);
        assert_eq!(number(&again, "unchanged_files"), FILES as u64, "{again}");
        assert_eq!(number(&again, "resumed_files"), 0, "{again}");
    }

    [xfs, btrfs] fn what_a_stopped_run_had_read_is_not_read_again(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        equal_files(&source);
        stopped(&source, &repo, FILES * SIZE);
        let summary = snapshot(&source, &repo);
        assert_eq!(number(&summary, "copied_bytes"), 0, "{summary}");
        let resumed = number(&summary, "resumed_files");
        assert!(resumed >= FILES as u64 / 2, "{summary}");
        assert_eq!(number(&summary, "read_bytes"), (FILES as u64 - resumed) * SIZE as u64, "{summary}");
        assert_whole(&source, &repo);
    }

    fn runs_stopped_one_after_the_other_all_count(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        equal_files(&source);
        for part in [2, 5, 9, 3] {
            stopped(&source, &repo, part * SIZE);
        }
        let summary = snapshot(&source, &repo);
        assert_resumed(&summary, &source, &repo);
        assert_eq!(number(&summary, "resumed_files"), 9, "{summary}");
    }

    fn what_has_changed_since_is_taken_as_it_is_now(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        equal_files(&source);
        stopped(&source, &repo, (FILES - 2) * SIZE);
        tamper(&source.join("0/file-00"));
        write(source.join("0/file-02"), &bytes(99, SIZE));
        fs::remove_file(source.join("0/file-04")).unwrap();
        fs::rename(source.join("0/file-06"), source.join("0/file-08")).unwrap();
        fs::rename(source.join("0"), source.join("2")).unwrap();
        let summary = snapshot(&source, &repo);
        // The files moved with their directory are unchanged; the renamed one has another ctime.
        assert_resumed(&summary, &source, &repo);
        assert!(number(&summary, "resumed_files") >= FILES as u64 - 8, "{summary}");
    }

    fn what_was_done_to_a_leftover_is_noticed(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        equal_files(&source);
        stopped(&source, &repo, (FILES - 2) * SIZE);
        let left = left(&repo, &source).join("0");
        let secret = fs.join("secret");
        write(&secret, &bytes(5, SIZE));
        tamper(&left.join("file-00"));
        write(left.join("file-02"), &bytes(99, SIZE));
        fs::remove_file(left.join("file-04")).unwrap();
        let replace = |name: &str| {
            fs::remove_file(left.join(name)).unwrap();
            left.join(name)
        };
        symlink(&secret, replace("file-06")).unwrap();
        fs::create_dir(replace("file-08")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, replace("file-10"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        let summary = snapshot(&source, &repo);
        assert_resumed(&summary, &source, &repo);
        let resumed = number(&summary, "resumed_files");
        assert!((FILES as u64 - 10..=FILES as u64 - 8).contains(&resumed), "{summary}");
    }

    fn after_another_boot_only_content_with_its_hash_counts(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        equal_files(&source);
        stopped(&source, &repo, FILES / 2 * SIZE);
        as_of_another_boot(&repo);
        let left = left(&repo, &source).join("0");
        tamper(&left.join("file-00"));
        tamper(&left.join("file-06"));
        let summary = snapshot(&source, &repo);
        let resumed = number(&summary, "resumed_files");
        assert_eq!(resumed, FILES as u64 / 2 - 2, "{summary}");
        let copied = number(&summary, "copied_bytes");
        assert_eq!(copied, (FILES as u64 - resumed) * SIZE as u64, "{summary}");
        // Each leftover file was read, two of them in vain.
        assert_eq!(number(&summary, "read_bytes"), copied + FILES as u64 / 2 * SIZE as u64, "{summary}");
        assert_whole(&source, &repo);
    }

    [xfs] fn after_another_boot_what_was_only_read_is_read_again(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        equal_files(&source);
        stopped(&source, &repo, FILES * SIZE);
        as_of_another_boot(&repo);
        let summary = snapshot(&source, &repo);
        assert_eq!(number(&summary, "resumed_files"), 0, "{summary}");
        assert_eq!(number(&summary, "read_bytes"), (FILES * SIZE) as u64, "{summary}");
        assert_whole(&source, &repo);
    }

    [xfs, btrfs] fn a_large_file_that_is_taken_over_keeps_its_list_of_hashes(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        write(source.join("a large one"), &bytes(1, 12 << 20));
        equal_files(&source);
        stopped(&source, &repo, (12 << 20) + 4 * SIZE);
        let summary = snapshot(&source, &repo);
        assert!(number(&summary, "resumed_bytes") > 12 << 20, "{summary}");
        assert_whole(&source, &repo);
        overwrite(&source.join("a large one"), 5 << 20, &bytes(2, 4096));
        let next = snapshot(&source, &repo);
        assert_eq!(number(&next, "copied_bytes"), 4096, "{next}");
        let read = number(&next, "read_bytes");
        assert!(read < 13 << 20, "the last version is not read: {next}");
    }

    fn a_list_that_is_damaged_or_missing_costs_time_only(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = other.dir("source");
        equal_files(&source);
        for damage in ["missing", "cut", "altered", "a pipe", "a link"] {
            let repo = fs.join(format!("repo {damage}"));
            stopped(&source, &repo, (FILES - 2) * SIZE);
            let list = repo.join(".pleach/partial/stopped/finished");
            let length = fs::metadata(&list).unwrap().len();
            match damage {
                "cut" => fs::File::options().write(true).open(&list).unwrap().set_len(length / 2).unwrap(),
                "altered" => overwrite(&list, length / 2, &[0x5a; 40]),
                _ => fs::remove_file(&list).unwrap(),
            }
            match damage {
                "a pipe" => {
                    rustix::fs::mknodat(rustix::fs::CWD, &list, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
                        .unwrap()
                }
                "a link" => symlink("/etc/passwd", &list).unwrap(),
                _ => {}
            }
            let summary = snapshot(&source, &repo);
            assert_resumed(&summary, &source, &repo);
            let resumed = number(&summary, "resumed_files");
            let some = matches!(damage, "cut" | "altered");
            assert!(if some { (1..FILES as u64 - 4).contains(&resumed) } else { resumed == 0 }, "{damage}: {summary}");
        }
    }

    fn every_kind_of_entry_is_whole_after_runs_that_were_stopped(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        tree::every_kind(&source);
        equal_files(&source);
        for megabytes in [1, 70, 75, 80] {
            stopped(&source, &repo, megabytes << 20);
        }
        let summary = snapshot(&source, &repo);
        assert!(number(&summary, "resumed_files") > 5, "{summary}");
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
        assert_no_leftovers(&repo);
    }

    [xfs, ext4] fn a_name_that_a_killed_run_had_is_free(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        equal_files(&source);
        stopped(&source, &repo, FILES / 2 * SIZE);
        let summary = pleach(snapshot_named("stopped", &source, &repo)).expect(0).summary();
        assert_resumed(&summary, &source, &repo);
        assert_eq!(published(&repo), ["stopped"]);
    }

    fn killed_at_several_moments_it_goes_on_where_it_was(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        for number in 0..40 {
            write(source.join(format!("file-{number:02}")), &bytes(number, 2 << 20));
        }
        tree::crowded(&source, 1000);
        settle();
        let mut kills = 0;
        for moment in 1..6_u64 {
            let mut run = command(snapshot_named("stopped", &source, &repo));
            let mut child = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            // When the list of finished files has grown to some length.
            let list = repo.join(".pleach/partial/stopped/finished");
            let deadline = Instant::now() + Duration::from_secs(20);
            while fs::metadata(&list).map_or(0, |meta| meta.len()) < moment * 40_000 && Instant::now() < deadline {
                if child.try_wait().unwrap().is_some() {
                    break;
                }
                thread::sleep(Duration::from_micros(200));
            }
            child.kill().unwrap();
            if child.wait().unwrap().success() {
                break;
            }
            kills += 1;
        }
        assert!(kills > 0, "a run could be killed");
        if published(&repo).is_empty() {
            let summary = snapshot(&source, &repo);
            assert!(number(&summary, "resumed_files") > 0, "{summary}");
            assert_eq!(
                number(&summary, "copied_bytes") + number(&summary, "resumed_bytes"),
                number(&summary, "bytes"),
                "{summary}"
            );
        }
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
        assert_whole(&source, &repo);
    }
}

/// The value of a stopped run's leftover on a filesystem of this kind that was remounted.
fn after_a_remount(kind: Kind, test: &str) {
    let (Some(mut fs), Ok(other)) = (Own::new(kind, test, 512, &[], ""), Filesystem::open(Kind::XfsOther, test)) else {
        return;
    };
    let (source, repo) = (other.dir("source"), fs.join("repo"));
    equal_files(&source);
    stopped(&source, &repo, FILES / 2 * SIZE);
    // Unchanged except for its ctime: in the session of the stopped run, that would be enough to reject it.
    let left_one = left(&repo, &source).join("0/file-00");
    fs::set_permissions(&left_one, fs::metadata(&left_one).unwrap().permissions()).unwrap();
    tamper(&left(&repo, &source).join("0/file-06"));
    fs.remount();
    let summary = snapshot(&source, &repo);
    assert_eq!(number(&summary, "resumed_files"), FILES as u64 / 2 - 1, "{summary}");
    let copied = number(&summary, "copied_bytes");
    assert_eq!(number(&summary, "read_bytes"), copied + (FILES / 2 * SIZE) as u64, "each was read: {summary}");
    assert_whole(&source, &repo);
    fs.assert_clean();
}

#[test]
fn after_a_remount_only_content_with_its_hash_counts_on_xfs() {
    after_a_remount(Kind::Xfs, concat!(module_path!(), "::after_a_remount_only_content_with_its_hash_counts_on_xfs"));
}

#[test]
fn after_a_remount_only_content_with_its_hash_counts_on_btrfs() {
    after_a_remount(
        Kind::Btrfs,
        concat!(module_path!(), "::after_a_remount_only_content_with_its_hash_counts_on_btrfs"),
    );
}

#[test]
fn after_a_remount_only_content_with_its_hash_counts_on_ext4() {
    after_a_remount(Kind::Ext4, concat!(module_path!(), "::after_a_remount_only_content_with_its_hash_counts_on_ext4"));
}

/// Two stopped runs; the second never reached the disk. The filesystem is shut down as in a power cut.
fn after_a_crash(kind: Kind, test: &str) {
    let (Some(mut fs), Ok(other)) = (Own::new(kind, test, 512, &[], ""), Filesystem::open(Kind::XfsOther, test)) else {
        return;
    };
    let (source, repo) = (other.dir("source"), fs.join("repo"));
    equal_files(&source);
    stopped(&source, &repo, 6 * SIZE);
    disk_space::free_bytes(fs.path());
    stopped(&source, &repo, 12 * SIZE);
    power::shut_down(fs.path(), power::Shutdown::AtOnce);
    fs.remount();
    let summary = snapshot(&source, &repo);
    let [copied, resumed] = ["copied_bytes", "resumed_bytes"].map(|field| number(&summary, field));
    assert_eq!(copied + resumed, (FILES * SIZE) as u64, "{summary}");
    assert!(resumed <= 6 * SIZE as u64, "what was not synced is not there: {summary}");
    assert_whole(&source, &repo);
    let again = snapshot(&source, &repo);
    assert_eq!(number(&again, "unchanged_files"), FILES as u64, "{again}");
    fs.assert_clean();
}

#[test]
fn what_a_crash_took_is_copied_again_on_xfs() {
    after_a_crash(Kind::Xfs, concat!(module_path!(), "::what_a_crash_took_is_copied_again_on_xfs"));
}

#[test]
fn what_a_crash_took_is_copied_again_on_ext4() {
    after_a_crash(Kind::Ext4, concat!(module_path!(), "::what_a_crash_took_is_copied_again_on_ext4"));
}
