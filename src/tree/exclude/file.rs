//! Patterns from a file (`--exclude-from`), one per line.

use super::pattern::Line;
use crate::error::{Error, Result};
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The longest file that is read, enough for hundreds of thousands of lines. A longer file is not a list of patterns.
const LONGEST: u64 = 64 << 20;

/// The filesystem of pipes without a name (`PIPEFS_MAGIC` of `linux/magic.h`).
const PIPEFS: u64 = 0x5049_5045;

/// Reads patterns from a file, or from stdin for `-`: one per line. Trailing blanks are removed. Empty lines and lines
/// that begin with `#` are skipped.
///
/// # Errors
/// A file that cannot be read, is not text, or is longer than 64 MiB.
pub fn read(path: &Path) -> Result<Vec<Line>> {
    let failed = |cause: io::Error| Error::io("read the patterns in", path, cause);
    let mut content = Vec::new();
    let read = if path == Path::new("-") {
        io::stdin().lock().take(LONGEST + 1).read_to_end(&mut content)
    } else {
        open(path).map_err(failed)?.take(LONGEST + 1).read_to_end(&mut content)
    };
    if read.map_err(failed)? as u64 > LONGEST {
        return Err(failed(io::Error::other("more than 64 MiB")).hint("is it a list of patterns?"));
    }
    lines(&content, path)
}

/// Opens the file. A named pipe is refused, because nobody may ever write to it. Other pipes are not: a shell makes one
/// for `--exclude-from <(command)`.
fn open(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
    if file.metadata()?.file_type().is_fifo() {
        if rustix::fs::fstatfs(&file)?.f_type as u64 != PIPEFS {
            return Err(io::Error::other("it is a named pipe"));
        }
        rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    }
    Ok(file)
}

pub(super) fn lines(content: &[u8], path: &Path) -> Result<Vec<Line>> {
    // Some editors start a UTF-8 file with this mark.
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    let mut lines = Vec::new();
    for (number, line) in content.split(|byte| *byte == b'\n').enumerate() {
        let place = Some((path.to_path_buf(), number + 1));
        let Ok(text) = std::str::from_utf8(line) else {
            let text = String::from_utf8_lossy(line).into_owned();
            return Err(Line { text, place }.refused("it is not UTF-8; '?' matches any byte"));
        };
        let text = trim(text);
        if !text.is_empty() && !text.starts_with('#') {
            lines.push(Line { text: text.to_string(), place });
        }
    }
    Ok(lines)
}

/// Removes trailing blanks, but keeps one that follows a backslash.
fn trim(text: &str) -> &str {
    let trimmed = text.trim_end();
    let backslashes = trimmed.bytes().rev().take_while(|byte| *byte == b'\\').count();
    match text[trimmed.len()..].chars().next() {
        Some(blank) if backslashes % 2 == 1 => &text[..trimmed.len() + blank.len_utf8()],
        _ => trimmed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_patterns_but_for_blanks_and_comments() {
        let content = b"\xef\xbb\xbf# caches\r\n*.o  \n\n   \n!keep.o\r\n\\#a\nb\\ \nc\\\\ ";
        let lines = lines(content, Path::new("list")).unwrap();
        let shown: Vec<_> = lines.iter().map(|line| (line.text.as_str(), line.place.clone().unwrap().1)).collect();
        assert_eq!(shown, [("*.o", 2), ("!keep.o", 5), ("\\#a", 6), ("b\\ ", 7), ("c\\\\", 8)]);
    }

    #[test]
    fn what_is_no_text_is_refused_with_its_line() {
        let message = lines(b"a\n\xff\n", Path::new("list")).unwrap_err().to_string();
        assert!(message.contains("UTF-8") && message.contains("line 2 of list"), "{message}");
    }

    #[test]
    fn a_named_pipe_is_refused_and_a_pipe_of_the_shell_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        let message = read(&path).unwrap_err().to_string();
        assert!(message.contains("named pipe"), "{message}");
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        let writing = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            rustix::io::write(&writer, b"*.o\n").unwrap();
        });
        assert_eq!(read(Path::new(&path)).unwrap()[0].text, "*.o");
        writing.join().unwrap();
    }
}
