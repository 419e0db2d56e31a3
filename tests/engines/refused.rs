//! If an engine refuses a copy, the next engine makes it, and the first one is not tried again.

use super::*;
use crate::on_filesystems;
use pleach::testing::copy::{Reason, Refusal, engines::uring};
use rustix::io::Errno;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// io_uring_setup(2), which has the same number everywhere.
const IO_URING_SETUP: i64 = 425;

/// Runs this in a thread that may not create a ring, as in a container with a filter against io_uring.
fn without_io_uring<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    let arch = std::env::consts::ARCH.try_into().expect("a filter can be had on this machine");
    let rules = [(IO_URING_SETUP, Vec::new())].into_iter().collect();
    let forbid = SeccompAction::Errno(Errno::PERM.raw_os_error() as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, forbid, arch).expect("the filter is valid");
    let program: BpfProgram = filter.try_into().expect("the filter compiles");
    std::thread::scope(|scope| {
        let forbidden = move || {
            seccompiler::apply_filter(&program).expect("a thread can forbid itself something");
            run()
        };
        scope.spawn(forbidden).join().expect("the thread ends")
    })
}

on_filesystems! {
    fn where_io_uring_is_forbidden_the_next_engine_serves_and_that_is_told_once(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = other.join("source");
        write(&source, &bytes(1, 3 * MIB as usize + 1));
        let (ladder, listening) = (Strategy::new(), Listening::default());
        without_io_uring(|| {
            assert_eq!(uring::available(), Err(Errno::PERM));
            for name in ["one", "two"] {
                let copy = Copy::of(&source, fs.join(name), &ladder).by(Some(Engine::Uring)).told(&listening);
                let copied = copy.run().expect("it is copied");
                assert_eq!(copied.engine, Engine::Sendfile);
                assert_same(&source, &copy.copy, &copied, name);
            }
        });
        assert_eq!(ladder.refusals(), [Refusal { engine: Engine::Uring, errno: Errno::PERM, files: 1 }]);
        let events = listening.events.into_inner().expect("nobody panicked");
        assert_eq!(events.len(), 1, "{events:?}");
        assert!(events[0].contains("RingForbidden"), "{events:?}");
        // Nothing is forbidden for this thread.
        assert_eq!(uring::available(), Ok(()));
    }

    fn what_a_pair_of_filesystems_refuses_is_asked_once(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = other.join("source");
        write(&source, &bytes(1, 100_000));
        let ladder = Strategy::new();
        for number in 0..5 {
            let copy = Copy::of(&source, fs.join(number.to_string()), &ladder).by(Some(Engine::CopyFileRange));
            let copied = copy.run().expect("it is copied");
            assert_ne!(copied.engine, Engine::CopyFileRange);
            assert_same(&source, &copy.copy, &copied, "one of five");
        }
        assert_eq!(ladder.refusals(), [Refusal { engine: Engine::CopyFileRange, errno: Errno::XDEV, files: 1 }]);
    }

    fn a_clone_that_was_asked_for_by_name_is_a_clone_or_nothing(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (here, there) = (fs.join("here"), other.join("there"));
        for source in [&here, &there] {
            write(source, &bytes(1, 100_000));
        }
        let clone = |source, name| Copy::of(source, fs.join(name), &Strategy::new()).by(Some(Engine::Clone)).run();
        let refused = if fs.reflinks() { Reason::OtherFilesystem } else { Reason::NoReflink };
        let across = clone(&there, "across");
        assert!(
            matches!(across, Err(CopyError::Refused(reason)) if reason == refused || reason == Reason::OtherFilesystem),
            "{across:?}"
        );
        assert_eq!(fs::metadata(fs.join("across")).expect("it is there").len(), 0, "nothing was copied");
        match clone(&here, "beside") {
            Ok(copied) => {
                assert!(fs.reflinks());
                assert_eq!((copied.engine, copied.cloned, copied.data, copied.read), (Engine::Clone, 100_000, 0, 0));
                assert!(tools::assert_same_blocks(&here, &fs.join("beside")));
            }
            Err(error) => assert_eq!((fs.reflinks(), error), (false, CopyError::Refused(Reason::NoReflink))),
        }
    }

    fn what_is_not_cloned_has_its_reason(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = other.join("source");
        write(&source, &bytes(1, 100_000));
        let copied = Copy::of(&source, fs.join("copy"), &Strategy::new()).run().expect("it is copied");
        assert!(copied.reason.is_some(), "{copied:?}");
        assert_eq!((copied.cloned, copied.data, copied.read), (0, 100_000, 100_000), "{copied:?}");
    }

    [btrfs] fn a_file_that_lies_beside_its_metadata_is_not_said_to_be_shared(fs: &Filesystem) {
        let source = fs.join("source");
        write(&source, &bytes(1, 1000));
        File::open(&source).and_then(|file| file.sync_all()).expect("a file can be synced");
        let copied = Copy::of(&source, fs.join("copy"), &Strategy::new()).run().expect("it is cloned");
        assert_eq!((copied.engine, copied.cloned, copied.data), (Engine::Clone, 0, 1000), "{copied:?}");
    }
}
