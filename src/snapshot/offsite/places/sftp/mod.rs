//! A store on a host with ssh, through its subsystem `sftp`. ssh is the user's own program, as for `replicate`.
//!
//! `wire` has requests and replies, `connection` a connection, over pipes that are `patient`. A file gets its name when
//! all of it is there.

mod connection;
#[cfg(feature = "testing")]
pub(super) mod fuzz;
mod patient;
mod wire;

use super::super::watched::Watch;
use super::error::{failed, too_long};
use super::layout;
use super::patience::repeat;
use crate::error::Result;
use crate::snapshot::ssh::{self, Host};
use crate::util::mutex::lock;
use bytes::Bytes;
use connection::{Connection, done, handle, refused};
use rustic_core::{ALL_FILE_TYPES, FileType, Id, ReadBackend, RusticResult, WriteBackend};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use wire::{Body, PIECE, READ_ONLY, Reply, WRITE_NEW, free_space, kind};

/// How many connections there are at most.
const MOST: usize = 4;

/// The attributes of a request are a mode.
const MODE: u32 = 4;
const RENAME: &[u8] = b"posix-rename@openssh.com";
const SYNC: &[u8] = b"fsync@openssh.com";
const STATVFS: &[u8] = b"statvfs@openssh.com";

/// The store.
#[derive(Debug)]
pub(super) struct Sftp {
    host: Host,
    root: String,
    location: String,
    watch: Arc<Watch>,
    pool: Mutex<Pool>,
    is_free: Condvar,
    /// Whether a connection succeeded: then a lost one is made again.
    was_connected: AtomicBool,
}

#[derive(Debug, Default)]
struct Pool {
    idle: Vec<Connection>,
    /// How many there are, idle or not.
    number: usize,
}

impl Sftp {
    /// The store in the directory `root` of a host.
    ///
    /// # Errors
    /// Kind `Usage` if PLEACH_SSH has an open quote.
    pub(super) fn new(host: &Host, root: &str, location: String, watch: Arc<Watch>) -> Result<Sftp> {
        ssh::check_program()?;
        let root = if root == "/" { root } else { root.trim_end_matches('/') };
        Ok(Sftp {
            host: host.clone(),
            root: root.into(),
            location,
            watch,
            pool: Mutex::default(),
            is_free: Condvar::new(),
            was_connected: AtomicBool::new(false),
        })
    }

    fn path(&self, below: &str) -> String {
        if self.root.ends_with('/') { format!("{}{below}", self.root) } else { format!("{}/{below}", self.root) }
    }

    fn path_of(&self, tpe: FileType, id: &Id) -> String {
        self.path(&layout::path(tpe, id))
    }

    /// Uses a connection. If it gets lost, makes another one, after the first success.
    fn with<T>(&self, action: &str, mut use_it: impl FnMut(&mut Connection) -> io::Result<T>) -> RusticResult<T> {
        use io::ErrorKind::{InvalidData, NotConnected, TimedOut};
        let is_temporary = |(error, is_known): &(io::Error, bool)| *is_known && error.kind() == NotConnected;
        let result = repeat(&self.watch, is_temporary, || {
            let (mut connection, is_known) = self.take()?;
            let result = use_it(&mut connection);
            let is_lost = |error: &io::Error| matches!(error.kind(), InvalidData | NotConnected | TimedOut);
            self.give(Some(connection).filter(|_| !result.as_ref().is_err_and(is_lost)));
            result.map_err(|error| (error, is_known))
        });
        result.map_err(|(error, _)| failed(action, error))
    }

    /// A connection, and whether there was one before. So many of them are used at once.
    fn take(&self) -> Result<(Connection, bool), (io::Error, bool)> {
        let mut pool = lock(&self.pool);
        loop {
            if let Some(connection) = pool.idle.pop() {
                return Ok((connection, true));
            }
            if pool.number < MOST {
                break;
            }
            pool = self.is_free.wait(pool).unwrap_or_else(PoisonError::into_inner);
        }
        pool.number += 1;
        drop(pool);
        let is_known = self.was_connected.load(Ordering::Relaxed);
        match Connection::open(&self.host) {
            Ok(connection) => {
                self.was_connected.store(true, Ordering::Relaxed);
                Ok((connection, is_known))
            }
            Err(error) => {
                self.give(None);
                Err((error, is_known))
            }
        }
    }

    fn give(&self, connection: Option<Connection>) {
        let mut pool = lock(&self.pool);
        match connection {
            Some(connection) => pool.idle.push(connection),
            None => pool.number -= 1,
        }
        self.is_free.notify_one();
    }

    fn read(&self, path: &str, most: u64, range: Option<(u64, u64)>) -> RusticResult<Bytes> {
        self.with(&format!("read {path}"), |connection| {
            let open = Body::default().bytes(path.as_bytes()).number(READ_ONLY).number(0);
            let handle = handle(connection.call(kind::OPEN, open)?)?;
            let (start, length) = match range {
                Some(range) => range,
                None => match connection.call(kind::FSTAT, Body::default().bytes(&handle))? {
                    Reply::Attributes(Some(length)) if length <= most => (0, length),
                    Reply::Attributes(Some(_)) => return Err(too_long(most)),
                    reply => return Err(refused(reply)),
                },
            };
            let end = start + length;
            let pieces = (start..end).step_by(PIECE).map(|at| (at, (end - at).min(PIECE as u64) as u32));
            let requests =
                pieces.clone().map(|(at, length)| (kind::READ, Body::default().bytes(&handle).long(at).number(length)));
            let replies = connection.call_all(requests);
            let mut content = Vec::new();
            for ((at, length), reply) in pieces.zip(replies?) {
                match reply {
                    Reply::Data(data) if data.len() == length as usize => content.extend_from_slice(&data),
                    // A server may read less than it was asked for.
                    Reply::Data(data) if !data.is_empty() => {
                        content.extend_from_slice(&data);
                        read_rest(connection, &handle, at + data.len() as u64, at + u64::from(length), &mut content)?;
                    }
                    Reply::Data(_) | Reply::Status(wire::EOF, _) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    reply => return Err(refused(reply)),
                }
            }
            done(connection.call(kind::CLOSE, Body::default().bytes(&handle))?)?;
            Ok(content.into())
        })
    }

    fn write(&self, path: &str, content: &Bytes) -> RusticResult<()> {
        let temporary = format!("{path}-tmp-{}", std::process::id());
        self.with(&format!("write {path}"), |connection| {
            let written = write_file(connection, &temporary, content);
            let Err(error) = written.and_then(|()| give_name(connection, &temporary, path)) else { return Ok(()) };
            // No later run knows this name, so the file must not stay. A lost connection removes nothing.
            if !matches!(error.kind(), io::ErrorKind::NotConnected | io::ErrorKind::TimedOut) {
                let full = is_full(connection, &self.root);
                let _ = connection.call(kind::REMOVE, Body::default().bytes(temporary.as_bytes()))?;
                if full {
                    return Err(io::Error::from_raw_os_error(libc::ENOSPC));
                }
            }
            Err(error)
        })
    }
}

fn read_rest(
    connection: &mut Connection,
    handle: &[u8],
    start: u64,
    end: u64,
    content: &mut Vec<u8>,
) -> io::Result<()> {
    let mut at = start;
    while at < end {
        let read = Body::default().bytes(handle).long(at).number((end - at) as u32);
        match connection.call(kind::READ, read)? {
            Reply::Data(data) if !data.is_empty() && data.len() as u64 <= end - at => {
                at += data.len() as u64;
                content.extend_from_slice(&data);
            }
            Reply::Data(_) | Reply::Status(wire::EOF, _) => return Err(io::ErrorKind::UnexpectedEof.into()),
            reply => return Err(refused(reply)),
        }
    }
    Ok(())
}

/// Writes a new file. Its directory is made if it is missing.
fn write_file(connection: &mut Connection, path: &str, content: &Bytes) -> io::Result<()> {
    let open = || Body::default().bytes(path.as_bytes()).number(WRITE_NEW).number(0);
    let mut opened = handle(connection.call(kind::OPEN, open())?);
    if matches!(&opened, Err(error) if error.kind() == io::ErrorKind::NotFound)
        && let Some((above, _)) = path.rsplit_once('/')
    {
        make_dir(connection, above)?;
        opened = handle(connection.call(kind::OPEN, open())?);
    }
    let handle = opened?;
    let requests = content.chunks(PIECE).enumerate().map(|(number, piece)| {
        (kind::WRITE, Body::default().bytes(&handle).long((number * PIECE) as u64).bytes(piece))
    });
    let mut written = connection.call_all(requests)?.into_iter().try_for_each(done);
    if written.is_ok() && connection.has(SYNC) {
        written = done(connection.call(kind::EXTENDED, Body::default().bytes(SYNC).bytes(&handle))?);
    }
    let closed = done(connection.call(kind::CLOSE, Body::default().bytes(&handle))?);
    written.and(closed)
}

/// Renames a file. If the server can, it replaces a file with the new name.
fn give_name(connection: &mut Connection, from: &str, to: &str) -> io::Result<()> {
    let (kind, body) = match connection.has(RENAME) {
        true => (kind::EXTENDED, Body::default().bytes(RENAME)),
        false => (kind::RENAME, Body::default()),
    };
    done(connection.call(kind, body.bytes(from.as_bytes()).bytes(to.as_bytes()))?)
}

/// SFTP has no code for a full filesystem.
fn is_full(connection: &mut Connection, path: &str) -> bool {
    let ask = Body::default().bytes(STATVFS).bytes(path.as_bytes());
    match connection.has(STATVFS).then(|| connection.call(kind::EXTENDED, ask)) {
        Some(Ok(Reply::Extended(reply))) => free_space(&reply).is_some_and(|free| free < 16 << 20),
        _ => false,
    }
}

/// Makes a directory, unless it exists.
fn make_dir(connection: &mut Connection, path: &str) -> io::Result<()> {
    let made = done(connection.call(kind::MKDIR, Body::default().bytes(path.as_bytes()).number(MODE).number(0o700))?);
    match (made, connection.call(kind::STAT, Body::default().bytes(path.as_bytes()))?) {
        (Ok(()), _) | (Err(_), Reply::Attributes(_)) => Ok(()),
        (Err(error), _) => Err(error),
    }
}

impl ReadBackend for Sftp {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn list_with_size(&self, tpe: FileType) -> RusticResult<Vec<(Id, u32)>> {
        let action = format!("list {}", tpe.dirname());
        if tpe == FileType::Config {
            let path = self.path("config");
            let found = self.with("look for the store", |connection| {
                match connection.call(kind::STAT, Body::default().bytes(path.as_bytes()))? {
                    Reply::Attributes(found) => Ok(found),
                    reply => match refused(reply) {
                        error if error.kind() == io::ErrorKind::NotFound => Ok(None),
                        error => Err(error),
                    },
                }
            })?;
            let sized = |size| Ok((Id::default(), layout::length(size).map_err(|cause| failed(&action, cause))?));
            return found.map(sized).into_iter().collect();
        }
        let above = self.path(tpe.dirname());
        let paths = match tpe {
            FileType::Pack => (0..=u8::MAX).map(|first| format!("{above}/{first:02x}")).collect(),
            _ => vec![above],
        };
        Ok(self.with(&action, |connection| connection.list(&paths))?.all())
    }

    fn read_full(&self, tpe: FileType, id: &Id) -> RusticResult<Bytes> {
        self.read(&self.path_of(tpe, id), layout::longest(tpe), None)
    }

    fn read_partial(&self, tpe: FileType, id: &Id, _: bool, offset: u32, length: u32) -> RusticResult<Bytes> {
        let range = (offset.into(), length.into());
        self.read(&self.path_of(tpe, id), length.into(), Some(range))
    }

    fn warmup_path(&self, tpe: FileType, id: &Id) -> String {
        self.path_of(tpe, id)
    }
}

impl WriteBackend for Sftp {
    fn create(&self) -> RusticResult<()> {
        self.with("make the directories of the store", |connection| {
            let mut way = String::new();
            for part in self.root.split_inclusive('/') {
                way.push_str(part);
                if way != "/" {
                    make_dir(connection, way.trim_end_matches('/'))?;
                }
            }
            for tpe in ALL_FILE_TYPES {
                make_dir(connection, &self.path(tpe.dirname()))?;
            }
            let make = |first: u8| {
                let path = self.path(&format!("data/{first:02x}"));
                (kind::MKDIR, Body::default().bytes(path.as_bytes()).number(MODE).number(0o700))
            };
            // Those that cannot be made are missed when a file is written.
            connection.call_all((0..=u8::MAX).map(make)).map(|_| ())
        })
    }

    fn write_bytes(&self, tpe: FileType, id: &Id, _: bool, content: Bytes) -> RusticResult<()> {
        self.write(&self.path_of(tpe, id), &content)
    }

    fn remove(&self, tpe: FileType, id: &Id, _: bool) -> RusticResult<()> {
        let path = self.path_of(tpe, id);
        self.with(&format!("remove {path}"), |connection| {
            match done(connection.call(kind::REMOVE, Body::default().bytes(path.as_bytes()))?) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed,
            }
        })
    }
}
