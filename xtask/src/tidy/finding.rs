//! One thing that a check found wrong, and how it is printed.

use std::fmt;

/// Something wrong in one place of the repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) line: usize,
    /// The problem, a colon, and what to do.
    pub(crate) message: String,
    /// Lines to print below, indented.
    pub(crate) details: Vec<String>,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, message: message.into(), details: Vec::new() }
    }

    pub(crate) fn with_details(self, details: Vec<String>) -> Finding {
        Finding { details, ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)?;
        for detail in &self.details {
            write!(f, "\n    {detail}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_with_its_details_indented_below() {
        let finding = Finding::new("src/a.rs", 3, "too long: split it").with_details(vec!["a -> b: x".into()]);
        assert_eq!(finding.to_string(), "src/a.rs:3: too long: split it\n    a -> b: x");
    }
}
