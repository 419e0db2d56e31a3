//! Answers to the questions of a probe. The questions are in `kind`, `mounted`, `machine`, `sharing`, `content`,
//! `metadata` and `subvolume`.

use rustix::io::Errno;

/// The answer to a question, in a form for scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// Yes or no.
    Flag(bool),
    /// A count.
    Number(u64),
    /// Bytes.
    Bytes(u64),
    /// Words.
    Text(String),
    /// It could not be tried.
    Open,
}

/// An answer, and its meaning.
pub(super) struct Answer {
    pub(super) value: Value,
    pub(super) means: String,
}

impl Answer {
    pub(super) fn new(value: Value, means: impl Into<String>) -> Self {
        Answer { value, means: means.into() }
    }

    /// An answer with one of two meanings.
    pub(super) fn flag(yes: bool, means_yes: &str, means_no: &str) -> Self {
        Answer::new(Value::Flag(yes), if yes { means_yes } else { means_no })
    }

    pub(super) fn text(text: &str, means: &str) -> Self {
        Answer::new(Value::Text(text.to_string()), means)
    }
}

/// `None`: the question makes no sense on this filesystem. An error: the test could not be run.
pub(super) type Reply = Result<Option<Answer>, Errno>;
