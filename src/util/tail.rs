//! The last lines of a text of any length, in bounded memory.

use std::collections::VecDeque;

/// The most bytes that are kept.
const MOST: usize = 64 << 10;

/// The last lines of a text: at most 64 KiB.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail {
    lines: VecDeque<String>,
    bytes: usize,
    dropped: u64,
}

impl Tail {
    /// Adds a line. The oldest lines are dropped if there is no room.
    pub(crate) fn push(&mut self, mut line: String) {
        if line.len() >= MOST {
            let end = (0..MOST).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
            line.truncate(end);
        }
        self.bytes += line.len() + 1;
        self.lines.push_back(line);
        while self.bytes > MOST {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.len() + 1;
            self.dropped += 1;
        }
    }

    /// The text, with a first line that counts the dropped ones.
    pub(crate) fn text(&self) -> String {
        let mut text = String::with_capacity(self.bytes);
        if self.dropped > 0 {
            text += &format!("({} before)\n", super::text::counted(self.dropped, "line"));
        }
        for line in &self.lines {
            text += line;
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_in_bounded_memory() {
        let mut tail = Tail::default();
        assert_eq!(tail.text(), "");
        (0..100_000).for_each(|number| tail.push(format!("line {number}")));
        let text = tail.text();
        assert!(text.ends_with("line 99998\nline 99999\n") && text.starts_with('(') && text.len() < MOST + 40);
        tail.push("ä".repeat(MOST));
        assert!(tail.text().len() < MOST + 40 && tail.lines.len() == 1);
    }
}
