//! Sources that change meanwhile, full destinations, and files that misreport their size.

use super::*;
use crate::on_filesystems;
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;
use std::thread;
use std::time::Duration;

on_filesystems! {
    fn a_source_that_is_truncated_meanwhile_gives_a_shorter_copy(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = other.join("source");
        let content = bytes(1, 40 * MIB as usize);
        let end = 25 * MIB + 123;
        let truncate =
            || File::options().write(true).open(&source).and_then(|file| file.set_len(end)).expect("truncated");
        for engine in copying() {
            write(&source, &content);
            let listening = Listening { then: Some((MIB, &truncate)), ..Listening::default() };
            let ladder = Strategy::new();
            let copy = Copy::of(&source, fs.join("copy"), &ladder).by(engine).told(&listening);
            let copied = copy.run().expect("what is left is copied");
            let present = fs::read(fs.join("copy")).expect("the copy can be read");
            assert_eq!(copied.size(), present.len() as u64, "{engine:?}");
            assert!(present[..end as usize] == content[..end as usize], "{engine:?}: the part that is left is copied");
            // An engine that copies everything in one call has finished before the file was truncated.
            if !matches!(engine, Some(Engine::CopyFileRange | Engine::Uring | Engine::Sendfile)) {
                assert!(copied.size() <= end.next_multiple_of(BLOCK), "{engine:?}: {copied:?}");
            }
            fs::remove_file(fs.join("copy")).expect("a copy can be removed");
        }
    }

    fn a_source_that_is_truncated_at_any_moment_harms_no_engine(fs: &Filesystem) {
        let source = fs.join("source");
        let content = bytes(1, 24 * MIB as usize);
        let end = 5 * MIB as usize + 123;
        for engine in copying().flatten() {
            for delay in [0, 1, 3, 6, 10] {
                write(&source, &content);
                thread::scope(|scope| {
                    scope.spawn(|| {
                        thread::sleep(Duration::from_millis(delay));
                        let file = File::options().write(true).open(&source).expect("it opens");
                        file.set_len(end as u64).expect("it can be truncated");
                    });
                    let copied = Copy::of(&source, fs.join("copy"), &Strategy::new()).by(Some(engine)).run();
                    let copied = copied.unwrap_or_else(|error| panic!("{engine} after {delay} ms: {error:?}"));
                    let present = fs::read(fs.join("copy")).expect("the copy can be read");
                    assert_eq!(copied.size(), present.len() as u64, "{engine} after {delay} ms");
                    assert!(present[..end] == content[..end], "{engine} after {delay} ms");
                });
                fs::remove_file(fs.join("copy")).expect("a copy can be removed");
            }
        }
    }

    [xfs_small] fn a_full_destination_is_told_as_such_by_every_engine(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = other.join("source");
        write(&source, &bytes(1, 48 * MIB as usize));
        let filler = File::create(fs.join("filler")).expect("a file can be made");
        let free = fstatvfs(&filler).map(|vfs| vfs.f_bavail * vfs.f_frsize).expect("there is a filesystem");
        fallocate(&filler, FallocateFlags::empty(), 0, free - 16 * MIB).expect("space can be reserved");
        for engine in copying() {
            for hashed in [false, true] {
                let ladder = Strategy::new();
                let copy = Copy::of(&source, fs.join("copy"), &ladder).by(engine);
                let copied = if hashed { copy.hashed() } else { copy }.run();
                assert_eq!(copied, Err(CopyError::Destination(Errno::NOSPC)), "{engine:?}");
                fs::remove_file(fs.join("copy")).expect("a copy can be removed");
            }
        }
    }

    fn files_that_are_made_as_they_are_read_are_copied_whole(fs: &Filesystem) {
        // One reports that it is empty, the other that it is longer than it is.
        for (number, source) in ["/proc/version", "/sys/devices/system/cpu/possible"].iter().enumerate() {
            let source = Path::new(source);
            for engine in copying() {
                let copy = fs.join(format!("{number}-{engine:?}"));
                let copied = Copy::of(source, &copy, &Strategy::new()).by(engine).hashed().run().expect("it is copied");
                let content = fs::read(source).expect("it can be read");
                assert_eq!(fs::read(&copy).expect("it can be read"), content, "{} by {engine:?}", source.display());
                assert_eq!(copied.size(), content.len() as u64);
                assert_eq!(copied.hash, Some(*blake3::hash(&content).as_bytes()), "{} by {engine:?}", source.display());
            }
        }
    }

    fn a_copy_that_is_to_stop_stops(fs: &Filesystem) {
        struct Stop;
        impl Monitor for Stop {
            fn is_cancelled(&self) -> bool {
                true
            }
        }
        let other = fs.elsewhere();
        let source = other.join("source");
        write(&source, &bytes(1, 6 * MIB as usize));
        for engine in copying() {
            let copied =
                Copy::of(&source, fs.join(format!("{engine:?}")), &Strategy::new()).by(engine).told(&Stop).run();
            assert_eq!(copied, Err(CopyError::Source(Errno::CANCELED)), "{engine:?}");
        }
    }
}
