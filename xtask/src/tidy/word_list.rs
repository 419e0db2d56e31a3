//! The phrases that check `words` looks for, and what to write instead.

/// Phrases with the same replacement.
pub(crate) struct Entry {
    /// Words in lower case, separated by spaces.
    pub(crate) phrases: &'static [&'static str],
    pub(crate) instead: &'static str,
    /// Only inside a sentence that is no question: "what is" may begin one.
    pub(crate) is_relative: bool,
}

const fn entry(phrases: &'static [&'static str], instead: &'static str) -> Entry {
    Entry { phrases, instead, is_relative: false }
}

/// All of them.
pub(crate) const ENTRIES: &[Entry] = &[
    entry(&["tell", "tells", "told", "telling"], "report, print, log, warn, show, know, distinguish"),
    Entry {
        phrases: &["what is", "what are", "what was", "what were"],
        instead: "the name of the thing, as \"the extents\" or \"unchanged files\"",
        is_relative: true,
    },
    entry(&["of which", "whose", "that which"], "the name of the thing"),
    entry(&["left as it is", "left as they are", "left as it was", "leave it as it is"], "skip, ignore"),
    entry(&["leave out", "leaves out", "left out", "leaving out"], "skip, ignore"),
    entry(&["come in", "comes in", "came in", "coming in"], "add, store, clone"),
    entry(&["bring in", "brings in", "brought in", "bringing in"], "add, store, clone"),
    entry(&["take in", "takes in", "took in", "taken in", "taking in"], "add, store, clone"),
    entry(&["is to be", "are to be", "was to be", "were to be", "is to become", "are to become"], "must, will"),
    entry(
        &["where that can be", "where it can", "where they can", "where that is possible"],
        "if possible, when supported",
    ),
    entry(&["stands in", "stand in", "stands for", "stand for", "stood in", "stood for"], "is in, replaces"),
    entry(&["a night", "each night", "every night"], "an incremental snapshot, a run"),
    entry(&["handed down", "hands down", "hand down"], "inherited"),
    entry(&["the second one", "the former", "the latter"], "the noun again"),
    entry(&["the last word"], "the fact"),
];
