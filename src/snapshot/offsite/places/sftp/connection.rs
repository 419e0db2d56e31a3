//! One connection: ssh with the subsystem `sftp` at its other end. Many requests are on the way at once.

use super::super::error::silent;
use super::super::layout::Found;
use super::super::patience::PATIENCE;
use super::patient::Patient;
use super::wire::{Body, EOF, PIECE, Reply, kind};
use crate::snapshot::ssh::{self, Host};
use crate::util::mutex::lock;
use crate::util::text;
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How many requests may be without a reply.
const WINDOW: usize = 64;
/// How long a server may work on a request without a word: to sync a file on a busy disk, say.
const SERVER_PATIENCE: Duration = Duration::from_secs(5 * 60);
/// How long the program may take to end.
const GRACE: Duration = Duration::from_secs(2);

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    child: Child,
    input: Option<BufWriter<Patient<ChildStdin>>>,
    output: BufReader<Patient<ChildStdout>>,
    /// The last message of ssh.
    message: Arc<Mutex<String>>,
    /// Ends with ssh's messages.
    messages: Receiver<()>,
    next: u32,
    extensions: Vec<Vec<u8>>,
}

/// The result of a request. `Err`: the connection is lost.
pub(super) type Answer = io::Result<Reply>;

impl Connection {
    /// Connects to the subsystem of a host.
    pub(super) fn open(host: &Host) -> io::Result<Connection> {
        let mut command = ssh::connecting(host);
        command
            .arg("-s")
            .args(host.words())
            .arg("sftp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|cause| {
            let program = text::escape(command.get_program());
            io::Error::new(io::ErrorKind::NotConnected, format!("cannot run {program}: {}", text::cause(&cause)))
        })?;
        let message = Arc::new(Mutex::new(String::new()));
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let kept = message.clone();
        let (ended, messages) = mpsc::channel();
        thread::Builder::new().name("ssh messages".into()).spawn(move || {
            let _ended: Sender<()> = ended;
            keep_last(errors, &kept);
        })?;
        let (input, output) = (Patient::new(input, PATIENCE)?, Patient::new(output, PATIENCE)?);
        let (input, output) = (Some(BufWriter::with_capacity(PIECE * 2, input)), BufReader::new(output));
        let mut connection = Connection { child, input, output, message, messages, next: 0, extensions: Vec::new() };
        let version = connection.write(kind::INIT, None, &Body::default().number(3));
        match version.and_then(|()| connection.flush()).and_then(|()| connection.read()) {
            Ok((_, Reply::Version(extensions))) => {
                connection.extensions = extensions;
                connection.output.get_mut().set_patience(SERVER_PATIENCE);
                connection.input.iter_mut().for_each(|input| input.get_mut().set_patience(SERVER_PATIENCE));
            }
            Ok(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, "the host does not begin with SFTP")),
            Err(error) => return Err(error),
        }
        Ok(connection)
    }

    /// Whether the server has an extension.
    pub(super) fn has(&self, extension: &[u8]) -> bool {
        self.extensions.iter().any(|known| known == extension)
    }

    /// Sends a request and waits for the reply.
    pub(super) fn call(&mut self, kind: u8, body: Body) -> Answer {
        let mut replies = self.call_all([(kind, body)])?;
        replies.pop().ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Sends requests without waiting for each reply. The replies are in the order of the requests.
    pub(super) fn call_all(&mut self, requests: impl IntoIterator<Item = (u8, Body)>) -> io::Result<Vec<Reply>> {
        let mut numbers: HashMap<u32, usize> = HashMap::new();
        let mut replies: Vec<Option<Reply>> = Vec::new();
        let mut requests = requests.into_iter();
        loop {
            let mut sent = false;
            while numbers.len() < WINDOW
                && let Some((kind, body)) = requests.next()
            {
                let id = self.next;
                self.next = self.next.wrapping_add(1);
                self.write(kind, Some(id), &body)?;
                numbers.insert(id, replies.len());
                replies.push(None);
                sent = true;
            }
            if numbers.is_empty() {
                break;
            }
            if sent {
                self.flush()?;
            }
            let (id, reply) = self.read()?;
            let Some(number) = numbers.remove(&id) else {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the host answers with another kind of reply"));
            };
            replies[number] = Some(reply);
        }
        Ok(replies.into_iter().flatten().collect())
    }

    /// Lists the files in directories, so far as these exist.
    pub(super) fn list(&mut self, paths: &[String]) -> io::Result<Found> {
        let mut found = Found::default();
        for paths in paths.chunks(WINDOW) {
            self.list_some(paths, &mut found)?;
        }
        Ok(found)
    }

    fn list_some(&mut self, paths: &[String], found: &mut Found) -> io::Result<()> {
        let open = paths.iter().map(|path| (kind::OPENDIR, Body::default().bytes(path.as_bytes())));
        let mut handles = Vec::new();
        for reply in self.call_all(open)? {
            match handle(reply) {
                Ok(handle) => handles.push(handle),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let mut unread = handles.clone();
        while !unread.is_empty() {
            let read = unread.iter().map(|handle| (kind::READDIR, Body::default().bytes(handle)));
            let replies = self.call_all(read.collect::<Vec<_>>())?;
            let mut rest = Vec::new();
            for (handle, reply) in unread.into_iter().zip(replies) {
                match reply {
                    Reply::Names(names) if !names.is_empty() => {
                        for (name, size) in names {
                            found.add(&String::from_utf8_lossy(&name), size)?;
                        }
                        rest.push(handle);
                    }
                    Reply::Status(EOF, _) => {}
                    reply => return Err(refused(reply)),
                }
            }
            unread = rest;
        }
        let close = handles.iter().map(|handle| (kind::CLOSE, Body::default().bytes(handle)));
        self.call_all(close).map(drop)
    }

    fn write(&mut self, kind: u8, id: Option<u32>, body: &Body) -> io::Result<()> {
        let Some(input) = &mut self.input else { return Err(io::ErrorKind::NotConnected.into()) };
        let length = 1 + id.map_or(0, |_| 4) + body.0.len();
        let write = |input: &mut BufWriter<Patient<ChildStdin>>| {
            input.write_all(&(length as u32).to_be_bytes())?;
            input.write_all(&[kind])?;
            if let Some(id) = id {
                input.write_all(&id.to_be_bytes())?;
            }
            input.write_all(&body.0)
        };
        let written = write(input);
        written.map_err(|cause| self.lost(&cause))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.input.as_mut().map_or(Ok(()), Write::flush);
        flushed.map_err(|cause| self.lost(&cause))
    }

    fn read(&mut self) -> io::Result<(u32, Reply)> {
        Reply::read(&mut self.output).map_err(|cause| match cause.kind() {
            io::ErrorKind::InvalidData => cause,
            _ => self.lost(&cause),
        })
    }

    /// The connection ended: ssh says why.
    fn lost(&mut self, cause: &io::Error) -> io::Error {
        self.end();
        // Another process may still hold ssh's output open.
        let _ = self.messages.recv_timeout(GRACE);
        let message = lock(&self.message).clone();
        let why = match cause.kind() {
            _ if !message.is_empty() => message,
            io::ErrorKind::UnexpectedEof => "the host ended the connection".into(),
            _ => text::cause(cause),
        };
        match cause.kind() {
            io::ErrorKind::TimedOut => silent(),
            _ => io::Error::new(io::ErrorKind::NotConnected, why),
        }
    }

    fn end(&mut self) {
        // Requests that are still in the buffer need not arrive.
        self.input.iter_mut().for_each(|input| input.get_mut().set_patience(Duration::ZERO));
        self.input = None;
        let begun = Instant::now();
        while begun.elapsed() < GRACE && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(5));
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.end();
    }
}

/// Keeps the last line of ssh's messages.
fn keep_last(errors: ChildStderr, kept: &Mutex<String>) {
    let mut errors = BufReader::new(io::Read::take(errors, 1 << 20));
    let mut line = Vec::new();
    while matches!(errors.read_until(b'\n', &mut line), Ok(length) if length > 0) {
        let shown = text::escape_output(String::from_utf8_lossy(&line).trim_end());
        if !shown.is_empty() {
            *lock(kept) = shown;
        }
        line.clear();
    }
}

/// A handle, or why there is none.
pub(super) fn handle(reply: Reply) -> io::Result<Vec<u8>> {
    match reply {
        Reply::Handle(handle) => Ok(handle),
        reply => Err(refused(reply)),
    }
}

/// The error of a reply that is not the expected one.
pub(super) fn refused(reply: Reply) -> io::Error {
    let (code, message) = match reply {
        Reply::Status(code, message) => (code, message),
        _ => return io::Error::new(io::ErrorKind::InvalidData, "the host answers with another kind of reply"),
    };
    match code {
        2 => io::Error::from_raw_os_error(libc::ENOENT),
        3 => io::Error::from_raw_os_error(libc::EACCES),
        _ => io::Error::other(format!("the host answers '{}'", text::escape_output(&message))),
    }
}

/// Nothing, or why not.
pub(super) fn done(reply: Reply) -> io::Result<()> {
    match reply {
        Reply::Status(0, _) => Ok(()),
        reply => Err(refused(reply)),
    }
}
