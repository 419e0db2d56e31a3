//! A push that is interrupted, killed, cut off or out of space: the store stays sound, and the next run continues.

use super::lines::{Judged, Listed, PruneSums, PushSums, Pushed, sums};
use super::stores::{Backend, Store, take_quick_key};
use super::{below, in_store, take, two_nights};
use crate::harness::own::Own;
use crate::harness::random::{Random, seed};
use crate::harness::*;
use crate::on_filesystems;
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

/// The number and the size of large files.
const IMAGES: u64 = 4;
const IMAGE: usize = 40 << 20;
/// The size of all of them: many packs.
const SIZE: u64 = IMAGES * IMAGE as u64;

/// Makes the large files in a directory.
fn write_images(source: &Path) {
    (0..IMAGES).for_each(|number| write(source.join(format!("image-{number}")), &bytes(number, IMAGE)));
}

/// A repository with a snapshot of a tree of the large files.
fn large(fs: &Filesystem) -> (PathBuf, PathBuf) {
    let (source, repo) = (fs.dir("source"), fs.join("repo"));
    write_images(&source);
    take("one", &source, &repo);
    (source, repo)
}

fn begin(store: &Store, repo: &Path) -> Child {
    running::begin(&mut store.pleach("push", [repo]))
}

/// The size of all packs on disk.
fn packed(dir: &Path) -> u64 {
    let packs = if dir.join("data").exists() { tools::files(&dir.join("data")) } else { Vec::new() };
    packs.iter().filter_map(|pack| fs::metadata(pack).ok()).map(|meta| meta.len()).sum()
}

/// Waits until the store has this many bytes.
#[track_caller]
fn await_packs(child: &mut Child, dir: &Path, bytes: u64) {
    running::await_that("packs arrive", || {
        assert!(child.try_wait().unwrap().is_none(), "the push ended before {bytes} bytes were stored");
        packed(dir) >= bytes
    });
}

/// After a run that did not end well: nothing is visible, the store is sound, and the next run completes it.
#[track_caller]
fn assert_goes_on(fs: &Filesystem, store: &Store, repo: &Path, source: &Path) -> PushSums {
    assert_eq!(in_store(store), [""; 0]);
    store.assert_sound();
    let sent: PushSums = sums(&store.push(repo));
    assert_eq!((sent.snapshots, sent.errors), (1, 0), "{sent:?}");
    store.assert_sound();
    tools::assert_equal_trees(source, &below(&store.restores("one", fs.join("to")), source));
    sent
}

on_filesystems! {
    [xfs, btrfs] fn an_interrupted_push_goes_on_with_what_is_stored(fs: &Filesystem) {
        let (source, repo) = large(fs);
        let store = Store::made(fs, Backend::Local);
        let mut push = begin(&store, &repo);
        await_packs(&mut push, &fs.join("store"), SIZE / 3);
        running::signal(&push, Signal::INT);
        running::end(push).expect(130).saying("interrupted");
        let sent = assert_goes_on(fs, &store, &repo, &source);
        assert!(sent.stored_bytes < SIZE * 3 / 4, "{sent:?}");
    }

    [xfs] fn an_interrupted_push_over_http_goes_on_with_what_is_stored(fs: &Filesystem) {
        let (source, repo) = large(fs);
        let store = Store::made(fs, Backend::Rest);
        let mut push = begin(&store, &repo);
        await_packs(&mut push, &fs.join("store"), SIZE / 3);
        running::signal(&push, Signal::TERM);
        let run = running::end(push);
        assert!([130, 143].contains(&run.status), "{run:?}");
        let sent = assert_goes_on(fs, &store, &repo, &source);
        assert!(sent.stored_bytes < SIZE * 3 / 4, "{sent:?}");
    }

    [xfs, btrfs] fn a_killed_push_goes_on_with_what_is_stored(fs: &Filesystem) {
        let (source, repo) = large(fs);
        let store = Store::made(fs, Backend::Local);
        let mut push = begin(&store, &repo);
        await_packs(&mut push, &fs.join("store"), SIZE / 2);
        push.kill().unwrap();
        assert_eq!(running::end(push).status, 128 + 9);
        let sent = assert_goes_on(fs, &store, &repo, &source);
        assert!(sent.stored_bytes < SIZE * 3 / 4, "{sent:?}");
    }

    [xfs] fn a_store_whose_making_was_killed_is_made_in_the_same_place(fs: &Filesystem) {
        let mut killed = 0;
        for (call, nth) in [("mkdir", 3), ("mkdir", 200), ("write", 1), ("fsync", 1), ("write", 2), ("rename", 2)] {
            let mut store = Store::start(fs, Backend::Local);
            store.url = fs.join(format!("store {call} {nth}")).display().to_string();
            let mut strace = store.program("strace");
            strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
            strace.args(["-e", &format!("inject={call}:signal=KILL:when={nth}")]);
            strace.args([env!("CARGO_BIN_EXE_pleach"), "offsite", "init", "--to", &store.url]);
            let is_killed = finish(&mut strace).status == 128 + 9;
            killed += u32::from(is_killed);
            let is_complete = Path::new(&store.url).join("config").exists();
            store.run("init", &[]).expect(i32::from(is_complete));
            store.assert_sound();
        }
        assert!(killed >= 5, "{killed} runs were killed");
        let other = fs.dir("other");
        fs::create_dir(other.join("keys")).unwrap();
        write(other.join("keys/id_rsa"), b"a key of somebody else");
        let mut store = Store::start(fs, Backend::Local);
        store.url = other.display().to_string();
        store.run("init", &[]).expect(1).saying("the directory is not empty");
        assert!(other.join("keys/id_rsa").exists());
    }

    [xfs] fn a_push_killed_at_random_moments_leaves_a_sound_store(fs: &Filesystem) {
        let (source, repo) = large(fs);
        let mut store = Store::made(fs, Backend::Local);
        let seed = seed();
        let mut random = Random(seed);
        let begun = Instant::now();
        running::end(begin(&store, &repo)).expect(0);
        let time = begun.elapsed();
        let other = fs.join("other store").display().to_string();
        store.url = other;
        store.run("init", &[]).expect(0);
        take_quick_key(&fs.join("other store"));
        let mut completed = 0;
        for kill in 0..5 {
            let mut push = begin(&store, &repo);
            thread::sleep(time.mul_f64(random.fraction()));
            let _ = push.kill();
            completed += u32::from(running::end(push).status == 0);
            let context = format!("kill {kill} of PLEACH_TEST_SEED={seed}");
            let run = store.restic(&["check".as_ref(), "--read-data".as_ref()]);
            assert_eq!(run.status, 0, "{context}: {run:?}");
            assert!(in_store(&store).is_empty() || completed > 0, "{context}");
        }
        report(&format!("5 kills, {completed} complete"));
        store.push(&repo);
        store.assert_sound();
        tools::assert_equal_trees(&source, &below(&store.restores("one", fs.join("to")), &source));
    }

    [xfs] fn a_server_that_dies_is_an_error_and_the_next_run_goes_on(fs: &Filesystem) {
        let (source, repo) = large(fs);
        let mut store = Store::made(fs, Backend::Rest);
        let mut push = begin(&store, &repo);
        await_packs(&mut push, &fs.join("store"), SIZE / 4);
        store.server.as_mut().unwrap().kill();
        let begun = Instant::now();
        let run = running::end(push).expect(1).saying("rest:http://127.0.0.1:8000/");
        assert!(!run.stderr.contains("panicked"), "{run:?}");
        assert!(begun.elapsed() < Duration::from_secs(120), "it gives up in time");
        let store = Store::start(fs, Backend::Rest);
        assert_goes_on(fs, &store, &repo, &source);
    }

    [xfs] fn a_full_store_is_an_error_and_more_space_lets_it_go_on(fs: &Filesystem) {
        for backend in [Backend::Local, Backend::Rest] {
            let fs = Filesystem::open(fs.kind, "offsite::full::store").expect("it is mounted");
            let (source, repo) = large(&fs);
            let Some(own) = Own::new(Kind::Xfs, "a_full_store", 400, &[], "") else { return };
            let (filler, dir) = (own.join("filler"), own.join("store"));
            let free = disk_space::free_bytes(own.path());
            let file = fs::File::create(&filler).unwrap();
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, free - (100 << 20)).unwrap();
            drop(file);
            let store = Store::start_in(&fs, &dir, backend);
            store.run("init", &[]).expect(0);
            take_quick_key(&dir);
            let run = store.run("push", &[repo.as_ref()]).expect(1);
            assert!(run.stderr.contains(&store.url) && !run.stderr.contains("panicked"), "{backend:?}: {run:?}");
            if backend == Backend::Local {
                run.saying("no space left");
            }
            disk_space::give_back(&filler);
            assert_goes_on(&fs, &store, &repo, &source);
            drop(store);
        }
    }

    [xfs] fn an_interrupted_restore_ends_at_once_and_can_be_repeated(fs: &Filesystem) {
        let (source, repo) = large(fs);
        let (store, to) = (Store::made(fs, Backend::Local), fs.join("to"));
        store.push(&repo);
        let args = ["--target".as_ref(), to.as_os_str()];
        let restore = running::begin(&mut store.pleach("restore", args));
        running::await_that("a file is restored", || to.exists() && !tools::files(&to).is_empty());
        running::signal(&restore, Signal::INT);
        let run = running::end(restore);
        assert!([0, 130].contains(&run.status), "{run:?}");
        store.run("restore", &args).expect(0);
        tools::assert_equal_trees(&source, &below(&to, &source));
    }

    [xfs] fn two_pushes_at_once_both_end_well(fs: &Filesystem) {
        let (source, repo) = two_nights(fs);
        let store = Store::made(fs, Backend::Local);
        let runs = [begin(&store, &repo), begin(&store, &repo)].map(running::end);
        for run in &runs {
            assert!([0, 11].contains(&run.status), "{run:?}");
        }
        assert!(runs.iter().any(|run| run.status == 0));
        store.assert_sound();
        store.push(&repo);
        tools::assert_equal_trees(&source, &below(&store.restores("two", fs.join("to")), &source));
    }

    [xfs] fn an_interrupted_push_counts_the_snapshots_that_it_sent(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        take("small", &source, &repo);
        write_images(&source);
        take("large", &source, &repo);
        let store = Store::made(fs, Backend::Local);
        let mut push = begin(&store, &repo);
        let snapshots = fs.join("store/snapshots");
        running::await_that("the first one is there", || {
            push.try_wait().unwrap().is_some() || !names(&snapshots).is_empty()
        });
        running::signal(&push, Signal::INT);
        let run = running::end(push).expect(130).saying("interrupted");
        let sent: Vec<_> = run.lines::<Pushed>().into_iter().map(|pushed| pushed.name).collect();
        assert_eq!((sent, in_store(&store)), (vec!["small".to_string()], vec!["small".to_string()]));
        let summary = run.summary();
        assert_eq!((number(&summary, "snapshots"), number(&summary, "errors")), (1, 1));
        assert_eq!(summary["complete"], false);
        let run = store.push(&repo);
        assert_eq!((sums::<PushSums>(&run).snapshots, &run.summary()["complete"]), (1, &true.into()));
    }

    [xfs] fn a_push_to_a_store_that_fails_counts_the_snapshots_that_it_sent(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        take("small", &source, &repo);
        write(source.join("image"), &bytes(7, 40 << 20));
        take("large", &source, &repo);
        let store = Store::made(fs, Backend::Local);
        let mut limited = store.program("prlimit");
        limited.args(["--fsize=2000000", env!("CARGO_BIN_EXE_pleach"), "offsite", "push", "--json", "--to"]);
        let run = finish(limited.arg(&store.url).arg(&repo)).expect(1).saying("too large");
        let sent: Vec<_> = run.lines::<Pushed>().into_iter().map(|pushed| pushed.name).collect();
        assert_eq!((sent, in_store(&store)), (vec!["small".to_string()], vec!["small".to_string()]));
        let summary = run.summary();
        assert_eq!((number(&summary, "errors"), &summary["complete"]), (1, &false.into()), "{summary}");
        assert_eq!(sums::<PushSums>(&store.push(&repo)).snapshots, 1);
        store.assert_sound();
    }

    [xfs] fn a_prune_that_removed_only_some_snapshots_shows_which(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        for name in ["one", "two", "three", "four"] {
            write(source.join(name), &bytes(1, 30_000));
            take(name, &source, &repo);
        }
        let store = Store::made(fs, Backend::Local);
        store.push(&repo);
        let listed = store.run("list", &[]).expect(0).lines::<Listed>();
        let two = listed.into_iter().find(|snapshot| snapshot.name == "two").unwrap();
        let file = fs.join("store/snapshots").join(two.id);
        tools::tool("chattr", &["+i"], &file);
        // One thread removes them in their order.
        let rule = ["-j1".as_ref(), "--keep-last".as_ref(), "1".as_ref()];
        let run = store.run("prune", &rule).expect(1).saying("some snapshots were not removed");
        let (gone, kept): (Vec<_>, Vec<_>) = run.lines::<Judged>().into_iter().partition(|row| !row.kept);
        assert_eq!(gone.into_iter().map(|row| row.name).collect::<Vec<_>>(), ["one"]);
        let reasons: Vec<_> = kept.iter().map(|row| (row.name.as_str(), row.reasons.join(" "))).collect();
        let expected = [("two", "failed"), ("three", "failed"), ("four", "last")];
        assert_eq!(reasons, expected.map(|(name, reasons)| (name, reasons.to_string())));
        let pruned: PruneSums = sums(&run);
        assert_eq!((pruned.kept, pruned.removed, pruned.errors), (3, 1, 1), "{pruned:?}");
        assert_eq!(run.summary()["complete"], false);
        assert_eq!(in_store(&store), ["two", "three", "four"]);
        tools::tool("chattr", &["-i"], &file);
        let again: PruneSums = sums(&store.run("prune", &rule).expect(0));
        assert_eq!((again.kept, again.removed, again.errors), (1, 2, 0), "{again:?}");
        assert_eq!(in_store(&store), ["four"]);
        store.assert_sound();
    }
}
