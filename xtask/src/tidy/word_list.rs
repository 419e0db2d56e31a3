//! The phrases that check `words` looks for, and what to write instead.

/// Phrases with the same replacement.
pub(crate) struct Entry {
    /// Words in lower case, separated by spaces.
    pub(crate) phrases: &'static [&'static str],
    pub(crate) instead: &'static str,
    pub(crate) place: Place,
}

/// Where a phrase counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Anywhere,
    /// Not in a question, nor at the beginning of a heading.
    Statement,
    /// Not before the words of [`NOUN_STARTS`]: "came in, and" counts, "came in the order" does not.
    Verb,
}

/// Words that begin the place or time which "in" may introduce.
pub(crate) const NOUN_STARTS: &[&str] =
    &["a", "all", "an", "any", "between", "each", "every", "full", "its", "no", "one", "that", "the", "their", "this"];

const fn entry(phrases: &'static [&'static str], instead: &'static str) -> Entry {
    Entry { phrases, instead, place: Place::Anywhere }
}

const fn verb(phrases: &'static [&'static str]) -> Entry {
    Entry { phrases, instead: "add, store, clone", place: Place::Verb }
}

/// All of them.
pub(crate) const ENTRIES: &[Entry] = &[
    entry(&["tell", "tells", "told", "telling"], "report, print, log, warn, show, know, distinguish"),
    Entry {
        phrases: &["what is", "what are", "what was", "what were"],
        instead: "the name of the thing, as \"the extents\" or \"unchanged files\"",
        place: Place::Statement,
    },
    entry(&["of which", "whose", "that which"], "the name of the thing"),
    entry(&["left as it is", "left as they are", "left as it was", "leave it as it is"], "skip, ignore"),
    entry(&["leave out", "leaves out", "left out", "leaving out"], "skip, ignore"),
    verb(&["come in", "comes in", "came in", "coming in"]),
    verb(&["bring in", "brings in", "brought in", "bringing in"]),
    verb(&["take in", "takes in", "took in", "taken in", "taking in"]),
    entry(&["is to be", "are to be", "was to be", "were to be", "is to become", "are to become"], "must, will"),
    entry(
        &["where that can be", "where it can", "where they can", "where that is possible"],
        "if possible, when supported",
    ),
    entry(&["stands in", "stand in", "stands for", "stand for", "stood in", "stood for"], "is in, replaces"),
    entry(&["a night", "each night", "every night"], "an incremental snapshot, a run"),
    entry(&["handed down", "hands down", "hand down"], "inherited"),
    entry(&["the second one", "the former", "the latter"], "the noun again"),
    entry(&["has the last word", "have the last word"], "the fact"),
];
