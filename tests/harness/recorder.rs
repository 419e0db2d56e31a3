//! Records all writes to the device of a mounted disk, in their order, and replays them on a copy of the disk.
//!
//! The device is a loop device on the only file of a FUSE filesystem. The kernel writes to that file in the order in
//! which the device gets its requests, and syncs it when a filesystem flushes the device.

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, Session, WriteFlags,
};
use rustix::fs::{FallocateFlags, fallocate};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

/// The only file of the filesystem.
const IMAGE: &str = "image";
const IMAGE_INODE: INodeNo = INodeNo(2);
/// The kernel may keep names and attributes for as long as it likes.
const FOREVER: Duration = Duration::from_secs(1 << 20);

/// A request that the device has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Data was written at an offset of the device. The data are in the journal at `kept`.
    Write { at: u64, length: u64, kept: u64 },
    /// A range was discarded, or set to zeros.
    Zeros { at: u64, length: u64 },
    /// All earlier requests are on the disk.
    Flush,
}

/// The requests to a device, in their order. Their data are in a file.
pub(crate) struct Journal {
    events: Mutex<Vec<Event>>,
    data: File,
}

impl Journal {
    /// A copy of the list of requests.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.lock().clone()
    }

    /// The number of requests so far.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
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

    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_write(&self, at: u64, content: &[u8]) -> io::Result<()> {
        let mut events = self.lock();
        let end = |event: &Event| match event {
            Event::Write { length, kept, .. } => Some(kept + length),
            Event::Zeros { .. } | Event::Flush => None,
        };
        let kept = events.iter().rev().find_map(end).unwrap_or(0);
        self.data.write_all_at(content, kept)?;
        events.push(Event::Write { at, length: content.len() as u64, kept });
        Ok(())
    }

    fn add(&self, event: Event) {
        self.lock().push(event);
    }
}

/// A FUSE filesystem with the image of a disk as its only file. It is unmounted on drop.
pub(crate) struct Recorder {
    session: Option<BackgroundSession>,
    place: PathBuf,
    journal: Arc<Journal>,
}

impl Recorder {
    /// Records the writes to an image. The journal and the mount point are next to it.
    #[track_caller]
    pub(crate) fn begin(image: &Path) -> Recorder {
        let (place, data) = (image.with_extension("recorded"), image.with_extension("journal"));
        fs::create_dir(&place).expect("a mount point can be made");
        let data_file = File::options().read(true).write(true).create_new(true).open(&data);
        let journal = Journal { events: Mutex::default(), data: data_file.expect("a file can be made") };
        // Without a name, so that nothing is left if the test is killed.
        fs::remove_file(&data).expect("a file can be removed");
        let journal = Arc::new(journal);
        let image = File::options().read(true).write(true).open(image).expect("an image can be opened");
        let length = image.metadata().expect("an image has a size").len();
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("recorder".into())];
        let filesystem = Recording { image, length, journal: Arc::clone(&journal) };
        let session = Session::new(filesystem, &place, &config).and_then(Session::spawn);
        Recorder { session: Some(session.expect("a FUSE filesystem can be mounted")), place, journal }
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

impl Drop for Recorder {
    fn drop(&mut self) {
        let ended = self.session.take().map(BackgroundSession::umount_and_join);
        // Impossible while it is mounted.
        let removed = fs::remove_dir(&self.place);
        if !std::thread::panicking() {
            // The kernel may end a waiting read with an error when it unmounts.
            let is_ended = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionAborted;
            let ended = ended.expect("it is unmounted once");
            assert!(ended.as_ref().err().is_none_or(is_ended), "the recorder can be unmounted: {ended:?}");
            removed.expect("the recorder's mount point can be removed");
        }
    }
}

/// The filesystem: its root directory and the image.
struct Recording {
    image: File,
    length: u64,
    journal: Arc<Journal>,
}

impl Recording {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let is_image = inode == IMAGE_INODE;
        FileAttr {
            ino: inode,
            size: if is_image { self.length } else { 0 },
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_image { FileType::RegularFile } else { FileType::Directory },
            perm: if is_image { 0o600 } else { 0o700 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    fn zero(&self, at: u64, length: u64) -> io::Result<()> {
        punch(&self.image, at, length)?;
        self.journal.add(Event::Zeros { at, length });
        Ok(())
    }

    fn write_at(&self, at: u64, content: &[u8]) -> io::Result<()> {
        self.image.write_all_at(content, at)?;
        self.journal.add_write(at, content)
    }

    fn read_at(&self, at: u64, length: u32) -> io::Result<Vec<u8>> {
        let length = u64::from(length).min(self.length.saturating_sub(at));
        let mut content = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.image.read_exact_at(&mut content, at)?;
        Ok(content)
    }
}

impl Filesystem for Recording {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // One request of the device is not split.
        config.set_max_write(1 << 20).map(drop).map_err(|most| io::Error::other(format!("at most {most}")))
    }

    fn lookup(&self, _request: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == IMAGE {
            reply.entry(&FOREVER, &self.attributes(IMAGE_INODE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attributes(inode));
    }

    fn statfs(&self, _request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        reply.statfs(0, 0, 0, 0, 0, 4096, 255, 4096);
    }

    fn open(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn read(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.read_at(offset, size) {
            Ok(content) => reply.data(&content),
            Err(error) => reply.error(error.into()),
        }
    }

    fn write(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match (self.write_at(offset, data), u32::try_from(data.len())) {
            (Ok(()), Ok(length)) => reply.written(length),
            (Err(error), _) => reply.error(error.into()),
            (Ok(()), Err(_)) => reply.error(Errno::EINVAL),
        }
    }

    fn fallocate(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let zeroing = FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
        let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        if !mode.intersects(zeroing) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        match self.zero(offset, length) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error.into()),
        }
    }

    fn flush(&self, _request: &Request, _inode: INodeNo, _handle: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _request: &Request, _inode: INodeNo, _handle: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        self.journal.add(Event::Flush);
        reply.ok();
    }
}

fn punch(image: &File, at: u64, length: u64) -> io::Result<()> {
    fallocate(image, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, length)?;
    Ok(())
}
