//! Records all writes to the device of a mounted disk, in their order, and replays them on a copy of the disk.
//!
//! The device is a loop device on the only file of a FUSE filesystem. The kernel writes to that file in the order in
//! which the device gets its requests, and syncs it when a filesystem flushes the device. The filesystem is served by a
//! process of its own, `tests/recorder`.

#[path = "../recorder/event.rs"]
mod event;

use super::run::succeeds;
pub(crate) use event::Event;
use event::{ENCODED, IMAGE, punch};
use std::env;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The requests to a device, in their order, in two files without names.
pub(crate) struct Journal {
    events: File,
    data: File,
}

impl Journal {
    /// The requests so far.
    pub(crate) fn events(&self) -> Vec<Event> {
        let mut encoded = vec![[0; ENCODED]; self.len()];
        self.events.read_exact_at(encoded.as_flattened_mut(), 0).expect("the requests can be read");
        encoded.iter().map(decode).collect()
    }

    /// The number of requests so far.
    pub(crate) fn len(&self) -> usize {
        let length = self.events.metadata().expect("a file has a length").len();
        usize::try_from(length).expect("the requests fit into memory") / ENCODED
    }

    /// Repeats a request on an image.
    pub(crate) fn replay(&self, event: Event, image: &File) -> io::Result<()> {
        match event {
            Event::Write { at, length, kept } => {
                let mut content = vec![0; usize::try_from(length).map_err(io::Error::other)?];
                self.data.read_exact_at(&mut content, kept)?;
                image.write_all_at(&content, at)
            }
            Event::Zeros { at, length } => punch(image, at, length),
            Event::Flush => Ok(()),
        }
    }
}

/// A request from its form in a file.
fn decode(encoded: &[u8; ENCODED]) -> Event {
    let number = |index: usize| {
        let bytes = &encoded[1 + 8 * index..][..8];
        u64::from_le_bytes(bytes.try_into().expect("a number has eight bytes"))
    };
    match encoded[0] {
        b'w' => Event::Write { at: number(0), length: number(1), kept: number(2) },
        b'z' => Event::Zeros { at: number(0), length: number(1) },
        b'f' => Event::Flush,
        other => panic!("no request begins with {other}"),
    }
}

/// A mounted filesystem with the image of a disk as its only file. It is unmounted on drop.
pub(crate) struct Recorder {
    server: Child,
    place: PathBuf,
    journal: Arc<Journal>,
}

impl Recorder {
    /// Records the writes to an image. The mount point is next to it.
    #[track_caller]
    pub(crate) fn begin(image: &Path) -> Recorder {
        let place = image.with_extension("recorded");
        fs::create_dir(&place).expect("a mount point can be made");
        let (data, events) = (image.with_extension("data"), image.with_extension("events"));
        let create = |path| File::options().read(true).write(true).create_new(true).open(path);
        let journal = Journal {
            events: create(&events).expect("a file can be made"),
            data: create(&data).expect("a file can be made"),
        };
        let mut server = Command::new(server_path());
        server.arg(process::id().to_string()).args([image, &place, &data, &events]);
        let mut server = server.stdout(Stdio::piped()).spawn().expect("the recorder can be started");
        let mut line = String::new();
        let stdout = server.stdout.take().expect("stdout is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("the recorder reports");
        assert_eq!(line, "mounted\n", "the recorder can mount its filesystem");
        // Nothing is left if the test is killed.
        for path in [data, events] {
            fs::remove_file(path).expect("a file can be removed");
        }
        Recorder { server, place, journal: Arc::new(journal) }
    }

    /// The file to attach a loop device to.
    pub(crate) fn image(&self) -> PathBuf {
        self.place.join(IMAGE)
    }

    /// The requests so far; more are added while the disk is mounted.
    pub(crate) fn journal(&self) -> Arc<Journal> {
        Arc::clone(&self.journal)
    }
}

/// Cargo builds it as an example, because only these have a path that is known.
fn server_path() -> PathBuf {
    let tests = env::current_exe().expect("a test has a path");
    let target = tests.ancestors().nth(2).expect("a test is in a directory of the target directory");
    target.join("examples/recorder")
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let is_busy = || !succeeds(Command::new("umount").arg(&self.place));
        let tries = (0..50).take_while(|_| is_busy()).map(|_| thread::sleep(Duration::from_millis(100))).count();
        if tries == 50 {
            let _ = self.server.kill();
        }
        let ended = self.server.wait();
        // Impossible while it is mounted.
        let removed = fs::remove_dir(&self.place);
        if !thread::panicking() {
            assert!(ended.is_ok_and(|status| status.success()), "the recorder can be unmounted");
            removed.expect("the recorder's mount point can be removed");
        }
    }
}
