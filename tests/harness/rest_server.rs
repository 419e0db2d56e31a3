//! A REST server of restic over the files of a store in a directory, which can be made to misbehave. It ends with the
//! test.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

/// What a server does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// What it should.
    Usual,
    /// An answer with this status and no content.
    Status(u16),
    /// An answer that does not end.
    Endless,
    /// No answer.
    Silent,
    /// It does what it should, and closes the connection in place of an answer.
    Lost,
}

/// The judge of requests, by their method and path. It may count them.
pub(crate) type Judge = dyn Fn(&str, &str) -> Manner + Send + Sync;

/// Starts a server for the store in this directory, and returns its address.
pub(crate) fn serve(store: &Path, judge: Box<Judge>) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    let (store, judge) = (store.to_path_buf(), Arc::<Judge>::from(judge));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (store, judge) = (store.clone(), judge.clone());
            // A client that goes away is none of the test's business.
            thread::spawn(move || drop(answer(stream, &store, &*judge)));
        }
    });
    format!("rest:http://{address}/")
}

/// Answers one request.
fn answer(stream: TcpStream, store: &Path, judge: &Judge) -> io::Result<()> {
    let mut input = BufReader::new(stream.try_clone()?);
    let mut output = stream;
    let mut line = String::new();
    input.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(String::from);
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(()) };
    let (mut length, mut range) = (0, None);
    loop {
        let mut header = String::new();
        if input.read_line(&mut header)? <= 2 {
            break;
        }
        let Some((name, value)) = header.trim_end().split_once(": ") else { continue };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap_or(0),
            "range" => range = value.strip_prefix("bytes=").and_then(|range| range.split_once('-')).map(numbers),
            _ => {}
        }
    }
    let mut content = vec![0; length];
    input.read_exact(&mut content)?;
    let answer = |output: &mut TcpStream, status: u16, content: &[u8]| {
        write!(output, "HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", content.len())?;
        if method != "HEAD" { output.write_all(content) } else { Ok(()) }
    };
    let manner = judge(&method, &path);
    let answer = |output: &mut TcpStream, status: u16, content: &[u8]| match manner {
        Manner::Lost => Ok(()),
        _ => answer(output, status, content),
    };
    match manner {
        Manner::Status(status) => return answer(&mut output, status, b""),
        Manner::Silent => return input.read_to_end(&mut content).map(drop),
        Manner::Endless => {
            write!(output, "HTTP/1.1 200 x\r\nConnection: close\r\n\r\n")?;
            loop {
                output.write_all(&[b' '; 1 << 16])?;
            }
        }
        Manner::Usual | Manner::Lost => {}
    }
    let path = path.trim_start_matches('/');
    match method.as_str() {
        "GET" if path.ends_with('/') => answer(&mut output, 200, list(&store.join(path)).to_string().as_bytes()),
        "GET" | "HEAD" => match (fs::read(file(store, path)), range) {
            (Ok(found), Some((first, last))) => answer(&mut output, 206, &found[first..=last.min(found.len() - 1)]),
            (Ok(found), None) => answer(&mut output, 200, &found),
            (Err(_), _) => answer(&mut output, 404, b""),
        },
        // A file that is there is not written again.
        "POST" => match File::create_new(file(store, path)) {
            Ok(mut file) => {
                file.write_all(&content)?;
                answer(&mut output, 200, b"")
            }
            Err(_) => answer(&mut output, 403, b""),
        },
        "DELETE" => match fs::remove_file(file(store, path)) {
            Ok(()) => answer(&mut output, 200, b""),
            Err(_) => answer(&mut output, 404, b""),
        },
        _ => answer(&mut output, 405, b""),
    }
}

fn numbers((first, last): (&str, &str)) -> (usize, usize) {
    (first.parse().expect("a number"), last.parse().expect("a number"))
}

/// Where a file of the store is: packs are in directories with the first two digits of their names.
fn file(store: &Path, path: &str) -> PathBuf {
    match path.strip_prefix("data/") {
        Some(name) => store.join("data").join(&name[..2]).join(name),
        None => store.join(path),
    }
}

/// The files below a directory with their sizes.
fn list(dir: &Path) -> serde_json::Value {
    let entry = |path: PathBuf| {
        let name = path.file_name().expect("a file has a name").to_string_lossy();
        serde_json::json!({"name": name, "size": fs::metadata(&path).map_or(0, |found| found.len())})
    };
    super::tools::files(dir).into_iter().map(entry).collect()
}
