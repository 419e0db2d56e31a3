//! Whatever others write to the base meanwhile, the file becomes the stream, unless they save something at its path.

use super::refusal::wait_for_temporaries;
use super::*;
use crate::harness::meddler::Stop;
use crate::on_filesystems;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ways to save a file.
const SAVES: [fn(&Path); 2] = [
    |path| overwrite(path, 0, b"theirs"),
    |path| {
        write(path.with_extension("theirs"), b"theirs");
        fs::rename(path.with_extension("theirs"), path).expect("a file can be renamed");
    },
];

on_filesystems! {
    fn what_somebody_else_saves_meanwhile_is_kept(fs: &Filesystem) {
        let (dest, link) = (fs.dir("inner").join("file"), fs.join("link"));
        std::os::unix::fs::symlink("inner/file", &link).expect("a link can be made");
        for named in [&dest, &link] {
            for save in SAVES {
                write_synced(&dest, b"the old content");
                settle();
                let child = begin(named, &[]);
                wait_for_temporaries(&fs.join("inner"), 1);
                save(&dest);
                let theirs = fs::read(&dest).expect("it is there");
                feed(child, b"ours").expect(1).saying("it was kept");
                assert_content(&dest, &theirs);
                assert_no_temporary(&dest);
            }
        }
        // If the file got another name, or was removed, nothing can be lost.
        let changes: [fn(&Path); 2] = [
            |path| fs::hard_link(path, path.with_extension("other")).expect("a link can be made"),
            |path| fs::remove_file(path).expect("a file can be removed"),
        ];
        for change in changes {
            let child = begin(&dest, &[]);
            wait_for_temporaries(&fs.join("inner"), 1);
            change(&dest);
            feed(child, b"ours").expect(0);
            assert_content(&dest, b"ours");
        }
    }

    [xfs, btrfs] fn a_writer_of_the_base_cannot_change_what_is_shared(fs: &Filesystem) {
        let (base, dest) = (fs.join("base"), fs.join("dest"));
        // At any time, a block of the base is equal to the stream or different: it may change between comparing and
        // sharing.
        let content = bytes(1, MIB);
        let other = bytes(2, MIB);
        write_synced(&base, &content);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let file = File::options().write(true).open(&base).expect("a file can be opened");
                for round in 0_usize.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    let from = if round % 2 == 0 { &other } else { &content };
                    for block in 0..from.len() / BLOCK {
                        let at = block * BLOCK;
                        file.write_all_at(&from[at..at + BLOCK], at as u64).expect("a file can be written");
                    }
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            });
            let _stop = Stop(&done);
            for _ in 0..5 {
                put_well(&dest, &["--base", base.to_str().expect("a plain path")], &content);
                // The same with the blocks at other offsets.
                let shifted = [&bytes(3, BLOCK), &content[..]].concat();
                put_well(&dest, &["--base", base.to_str().expect("a plain path")], &shifted);
                // The same from a file: only data that the kernel finds equal may be shared.
                let source = fs.join("source");
                write(&source, &content);
                in_shell(&format!("$PUT put --base {} \"$1\" < {}", base.display(), source.display()), &dest).expect(0);
                assert_content(&dest, &content);
            }
        });
    }

    [xfs, btrfs] fn a_block_that_becomes_equal_after_the_base_was_frozen_is_written(fs: &Filesystem) {
        let (base, dest) = (fs.join("base"), fs.join("file"));
        let content = bytes(1, 8 * MIB);
        write_synced(&base, &with_blocks(&content, &[1000]));
        settle();
        let before = places(&base);
        let mut child = begin(&dest, &["--json", "--base", base.to_str().expect("a plain path")]);
        let mut pipe = child.stdin.take().expect("stdin is a pipe");
        pipe.write_all(&content[..2 * MIB]).expect("the command reads");
        std::thread::sleep(std::time::Duration::from_millis(300));
        // The base now equals the stream, but the frozen copy of it does not.
        overwrite(&base, 1000 * BLOCK as u64, &content[1000 * BLOCK..1001 * BLOCK]);
        pipe.write_all(&content[2 * MIB..]).expect("the command reads");
        drop(pipe);
        let run = Run::new(child.wait_with_output().expect("a child can be waited for"), "put".into()).expect(0);
        assert_content(&dest, &content);
        assert_shared(&dest, &run.summary(), &before, 8 * MIB / BLOCK - 1);
    }

    [xfs, btrfs] fn a_base_that_shrinks_meanwhile_does_no_harm(fs: &Filesystem) {
        let (base, dest) = (fs.join("base"), fs.join("file"));
        let content = bytes(1, 8 * MIB);
        write_synced(&base, &content);
        let before = places(&base);
        let mut child = begin(&dest, &["--json", "--base", base.to_str().expect("a plain path")]);
        let mut pipe = child.stdin.take().expect("stdin is a pipe");
        pipe.write_all(&content[..2 * MIB]).expect("the command reads");
        std::thread::sleep(std::time::Duration::from_millis(100));
        File::options().write(true).open(&base).and_then(|file| file.set_len(1000)).expect("a file can be cut");
        pipe.write_all(&content[2 * MIB..]).expect("the command reads");
        drop(pipe);
        let run = Run::new(child.wait_with_output().expect("a child can be waited for"), "put".into()).expect(0);
        assert_content(&dest, &content);
        assert_shared(&dest, &run.summary(), &before, 8 * MIB / BLOCK);
    }

    [xfs, btrfs] fn the_base_is_read_where_it_is_in_memory_as_long_as_it_is_the_same(fs: &Filesystem) {
        let dest = fs.join("file");
        let content = bytes(1, 8 * MIB);
        write_synced(&dest, &content);
        settle();
        let trace = fs.join("trace");
        let script = format!(
            "head -c 99999999 \"$1\" | strace {} -e trace=pread64 -o {} $PUT put --json \"$1\"",
            tools::TRACE.join(" "),
            trace.display()
        );
        in_shell(&script, &dest).expect(0);
        let trace = tools::take_trace(&trace);
        let reads = trace.iter().filter(|line| line.contains(" = 1048576")).collect::<Vec<_>>();
        assert!(reads.len() == 8 && reads.iter().all(|line| line.contains("/file>")), "{reads:#?}");
    }
}
