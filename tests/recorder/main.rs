//! The server of `tests/harness/recorder.rs`: a FUSE filesystem with the image of a disk as its only file. It records
//! all writes to the image, in their order.
//!
//! A process of its own, because the kernel cannot end a process that waits for a filesystem which the process itself
//! serves. It ends with the test that started it, and the waiting calls fail then.

mod event;

use event::{Event, IMAGE, punch};
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig,
    LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, Session, WriteFlags,
};
use rustix::fs::FallocateFlags;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

/// The number of the image.
const IMAGE_INODE: INodeNo = INodeNo(2);
/// The kernel may keep names and attributes for as long as it likes.
const FOREVER: Duration = Duration::from_secs(1 << 20);

/// Serves until it is unmounted. Without arguments, as `cargo test` may run it, it does nothing.
fn main() -> io::Result<()> {
    let mut args = env::args_os().skip(1);
    let Some(parent) = args.next() else { return Ok(()) };
    let mut path = || args.next().map(PathBuf::from).ok_or_else(|| io::Error::other("an argument is missing"));
    let (image, place, data, events) = (path()?, path()?, path()?, path()?);
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let is_orphan = parent.to_str() != getppid().map(Pid::as_raw_pid).map(|pid| pid.to_string()).as_deref();
    if is_orphan {
        return Ok(());
    }
    let image = File::options().read(true).write(true).open(image)?;
    let length = image.metadata()?.len();
    let (data, events) = (File::options().write(true).open(data)?, File::options().append(true).open(events)?);
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("recorder".into())];
    let filesystem = Recording { image, length, journal: Mutex::new(Journal { data, events, kept: 0 }) };
    let session = Session::new(filesystem, &place, &config)?;
    writeln!(io::stdout(), "mounted")?;
    match session.spawn()?.join() {
        // The kernel may end a waiting read with an error when it unmounts.
        Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(()),
        ended => ended,
    }
}

/// Where the requests are recorded.
struct Journal {
    data: File,
    /// The length of the data.
    kept: u64,
    events: File,
}

impl Journal {
    fn add_write(&mut self, at: u64, content: &[u8]) -> io::Result<()> {
        self.data.write_all_at(content, self.kept)?;
        let length = content.len() as u64;
        self.add(Event::Write { at, length, kept: self.kept })?;
        self.kept += length;
        Ok(())
    }

    fn add(&mut self, event: Event) -> io::Result<()> {
        self.events.write_all(&event.encode())
    }
}

/// The filesystem: its root directory and the image.
struct Recording {
    image: File,
    length: u64,
    journal: Mutex<Journal>,
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
        self.record(|journal| journal.add(Event::Zeros { at, length }))
    }

    fn write_at(&self, at: u64, content: &[u8]) -> io::Result<()> {
        self.image.write_all_at(content, at)?;
        self.record(|journal| journal.add_write(at, content))
    }

    fn record(&self, add: impl FnOnce(&mut Journal) -> io::Result<()>) -> io::Result<()> {
        add(&mut self.journal.lock().unwrap_or_else(PoisonError::into_inner))
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
        match self.record(|journal| journal.add(Event::Flush)) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error.into()),
        }
    }
}
