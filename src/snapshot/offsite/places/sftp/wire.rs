//! Requests and replies of SFTP, version 3, the one that OpenSSH speaks: draft-ietf-secsh-filexfer-02.

use std::io::{self, Read};

/// How many bytes a request reads or writes. Every server can do this.
pub(super) const PIECE: usize = 32 << 10;
/// The longest packet that is read.
const LONGEST: u32 = 256 << 10;

/// Kinds of requests.
pub(super) mod kind {
    pub(in super::super) const INIT: u8 = 1;
    pub(in super::super) const OPEN: u8 = 3;
    pub(in super::super) const CLOSE: u8 = 4;
    pub(in super::super) const READ: u8 = 5;
    pub(in super::super) const WRITE: u8 = 6;
    pub(in super::super) const FSTAT: u8 = 8;
    pub(in super::super) const OPENDIR: u8 = 11;
    pub(in super::super) const READDIR: u8 = 12;
    pub(in super::super) const REMOVE: u8 = 13;
    pub(in super::super) const MKDIR: u8 = 14;
    pub(in super::super) const STAT: u8 = 17;
    pub(in super::super) const RENAME: u8 = 18;
    pub(in super::super) const EXTENDED: u8 = 200;
}

/// Flags of an open file.
pub(super) const READ_ONLY: u32 = 1;
pub(super) const WRITE_NEW: u32 = 2 | 8 | 16;

/// The end of a file or directory.
pub(super) const EOF: u32 = 1;

/// The part of a request behind its ID.
#[derive(Clone, Debug, Default)]
pub(super) struct Body(pub(super) Vec<u8>);

impl Body {
    pub(super) fn number(mut self, number: u32) -> Body {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    pub(super) fn long(mut self, number: u64) -> Body {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    /// A name, a handle or data. No request of ours is as long as 4 GiB.
    pub(super) fn bytes(self, bytes: &[u8]) -> Body {
        let mut body = self.number(bytes.len() as u32);
        body.0.extend_from_slice(bytes);
        body
    }
}

/// A name in a directory, and the size of a regular file.
pub(super) type Name = (Vec<u8>, Option<u64>);

/// A reply.
#[derive(Debug)]
pub(super) enum Reply {
    /// The extensions that the server has.
    Version(Vec<Vec<u8>>),
    Status(u32, String),
    Handle(Vec<u8>),
    Data(Vec<u8>),
    Names(Vec<Name>),
    /// The size, if it is a regular file.
    Attributes(Option<u64>),
    /// The reply to an extension.
    Extended(Vec<u8>),
}

impl Reply {
    /// Reads a reply, and the ID of its request.
    pub(super) fn read(input: &mut impl Read) -> io::Result<(u32, Reply)> {
        let mut length = [0; 4];
        input.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length);
        if !(1..=LONGEST).contains(&length) {
            return Err(strange("a packet of a wrong length"));
        }
        let mut packet = vec![0; length as usize];
        input.read_exact(&mut packet)?;
        parse(&packet).ok_or_else(|| strange("a malformed packet"))
    }
}

/// Something that SFTP does not have, as from a startup file that prints something.
fn strange(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the host answers with {what}, not with SFTP"))
}

fn parse(packet: &[u8]) -> Option<(u32, Reply)> {
    let (kind, rest) = packet.split_first()?;
    let mut rest = Rest(rest);
    if *kind == 2 {
        let _version = rest.number()?;
        let mut extensions = Vec::new();
        while !rest.0.is_empty() {
            extensions.push(rest.bytes()?.to_vec());
            rest.bytes()?;
        }
        return Some((0, Reply::Version(extensions)));
    }
    let id = rest.number()?;
    let reply = match kind {
        101 => {
            let code = rest.number()?;
            Reply::Status(code, rest.bytes().map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default())
        }
        102 => Reply::Handle(rest.bytes()?.to_vec()),
        103 => Reply::Data(rest.bytes().filter(|data| data.len() <= PIECE)?.to_vec()),
        104 => {
            let mut names = Vec::new();
            for _ in 0..rest.number()? {
                let name = rest.bytes()?.to_vec();
                rest.bytes()?;
                names.push((name, rest.attributes()?));
            }
            Reply::Names(names)
        }
        105 => Reply::Attributes(rest.attributes()?),
        201 => Reply::Extended(rest.0.to_vec()),
        _ => return None,
    };
    Some((id, reply))
}

struct Rest<'p>(&'p [u8]);

impl<'p> Rest<'p> {
    fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*number))
    }

    fn long(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*number))
    }

    fn bytes(&mut self) -> Option<&'p [u8]> {
        let length = self.number()? as usize;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// The size, if these are the attributes of a regular file.
    fn attributes(&mut self) -> Option<Option<u64>> {
        let flags = self.number()?;
        let size = if flags & 1 != 0 { Some(self.long()?) } else { None };
        if flags & 2 != 0 {
            self.long()?;
        }
        let mode = if flags & 4 != 0 { self.number()? } else { 0 };
        if flags & 8 != 0 {
            self.long()?;
        }
        if flags & 0x8000_0000 != 0 {
            for _ in 0..self.number()? {
                self.bytes()?;
                self.bytes()?;
            }
        }
        Some(size.filter(|_| mode & 0o170_000 == 0o100_000))
    }
}

/// The free space for others than root, in bytes, from the reply of `statvfs@openssh.com`.
pub(super) fn free_space(reply: &[u8]) -> Option<u64> {
    let number = |at: usize| Some(u64::from_be_bytes(*reply.get(at * 8..)?.first_chunk()?));
    Some(number(1)?.saturating_mul(number(4)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(kind: u8, id: u32, body: Body) -> Vec<u8> {
        let length = body.0.len() as u32 + 5;
        [&length.to_be_bytes()[..], &[kind], &id.to_be_bytes(), &body.0].concat()
    }

    #[test]
    fn replies_are_read_with_the_id_of_their_request() {
        let attributes = |body: Body| body.number(1 | 4).long(12).number(0o100_600);
        let names = attributes(Body::default().number(1).bytes(b"a").bytes(b"-rw a"));
        match Reply::read(&mut &packet(104, 7, names)[..]).unwrap() {
            (7, Reply::Names(names)) => assert_eq!(names, [(b"a".to_vec(), Some(12))]),
            other => panic!("{other:?}"),
        }
        let status = Body::default().number(EOF).bytes(b"End of file").bytes(b"");
        assert!(matches!(Reply::read(&mut &packet(101, 8, status)[..]), Ok((8, Reply::Status(EOF, _)))));
    }

    #[test]
    fn a_malformed_reply_is_an_error() {
        for text in [&b"Welcome to nas!\n"[..], &[0, 0, 0, 5, 104, 0, 0, 0, 1], &[0, 0, 0, 0], &[255; 40]] {
            assert!(Reply::read(&mut &text[..]).is_err());
        }
        // A number of names that are not there.
        let names = packet(104, 1, Body::default().number(u32::MAX));
        assert!(Reply::read(&mut &names[..]).is_err());
    }
}
