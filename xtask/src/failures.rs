//! What failed tests said, in a few lines each: a log that keeps only its end must name the cause.

/// As many lines of each failed test are kept.
const LINES: usize = 8;

/// As many characters of each line are kept.
const CHARACTERS: usize = 600;

/// Lines of failed tests, from the output of Rust's runner.
#[derive(Default)]
pub(crate) struct Failures {
    pub(crate) lines: Vec<String>,
    place: Place,
}

/// The place of a line in the output.
#[derive(Clone, Copy, Default)]
enum Place {
    /// Not in the output of a failed test.
    #[default]
    Outside,
    /// In the output of a failed test, before it failed.
    Test,
    /// Behind its failure: this many lines are still kept.
    Failure(usize),
    /// In a backtrace, before this many lines.
    Backtrace(usize),
}

impl Failures {
    /// Reads the next line of the output.
    pub(crate) fn read(&mut self, line: &str) {
        let is_header = line.starts_with("---- ") && line.ends_with(" ----");
        if is_header {
            self.lines.push(line.into());
        }
        self.place = match self.place {
            _ if is_header => Place::Test,
            // The list of the names follows.
            _ if line == "failures:" => Place::Outside,
            Place::Test if line.contains("panicked at") => Place::Failure(LINES),
            Place::Failure(left) if line == "stack backtrace:" => Place::Backtrace(left),
            Place::Backtrace(left) if line.starts_with("note: ") => Place::Failure(left),
            place => place,
        };
        if let Place::Failure(left @ 1..) = self.place
            && !line.is_empty()
            && !line.starts_with("note: ")
        {
            self.lines.push(line.chars().take(CHARACTERS).collect());
            self.place = Place::Failure(left - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PANIC: &str = "thread 'a' panicked at tests/a.rs:1:1:";

    fn lines(output: &[&str]) -> Vec<String> {
        let mut failures = Failures::default();
        output.iter().for_each(|line| failures.read(line));
        failures.lines
    }

    #[test]
    fn what_failed_tests_printed_ends_at_the_list_of_their_names() {
        let output =
            ["test a ... ok", "failures:", "", "---- a::b stdout ----", "report", PANIC, "", "failures:", "    a::b"];
        assert_eq!(lines(&output), ["---- a::b stdout ----", PANIC]);
    }

    #[test]
    fn backtraces_are_dropped_and_what_follows_them_is_kept() {
        let trace = ["stack backtrace:", "   0: main", "note: Some details are omitted, run with more."];
        let output = [&["---- a stdout ----", PANIC][..], &trace, &["again", "---- b stdout ----", PANIC]];
        assert_eq!(lines(&output.concat()), ["---- a stdout ----", PANIC, "again", "---- b stdout ----", PANIC]);
    }

    #[test]
    fn long_output_of_a_test_hides_no_other() {
        let long = "x".repeat(10_000);
        let output =
            [&["---- a stdout ----", PANIC][..], &[long.as_str(); 100], &["---- b stdout ----", PANIC]].concat();
        let kept = lines(&output);
        assert_eq!(kept.len(), LINES + 3);
        assert!(kept[2].len() == CHARACTERS && kept[LINES + 1..] == ["---- b stdout ----", PANIC], "{kept:?}");
    }
}
