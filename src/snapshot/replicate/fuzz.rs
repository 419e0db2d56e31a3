//! A fuzz target for addresses of other hosts, and for the first bytes of their replies.

use super::destination::Destination;
use super::replies::{First, Replies};
use std::ffi::OsStr;
use std::io::{BufReader, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Mutex;

/// An address, and the same bytes as a reply.
pub(crate) fn addresses(bytes: &[u8]) {
    if let Ok(found) = Destination::parse(OsStr::from_bytes(bytes)) {
        let shown = found.shown();
        assert_eq!(Destination::parse(&shown).as_ref(), Ok(&found), "an address is read as it was shown");
        if let Destination::Remote(remote) = found {
            let words = remote.host.words();
            let options = words.iter().take_while(|word| *word != "--").count();
            assert_eq!(words.len(), options + 2, "one word follows the options");
            assert!(words.iter().all(|word| !word.is_empty()) && !words[options + 1].starts_with('-'));
            assert!(remote.path.as_bytes().starts_with(b"/"));
        }
    }
    // The other host decides how much arrives at once.
    for at_once in [1, 13, 4096] {
        let first = Mutex::default();
        let mut passed = Vec::new();
        let result = Replies::new(BufReader::with_capacity(at_once, bytes), &first).read_to_end(&mut passed);
        match first.into_inner().expect("no panic") {
            First::Replies => assert_eq!((result.ok(), &*passed), (Some(bytes.len()), bytes)),
            First::Other(start) => assert!(passed.is_empty() && bytes.starts_with(&start) && start.len() <= 220),
            First::Nothing | First::Version(_) => assert!(passed.is_empty() && result.is_err()),
        }
    }
}
