//! Some blocks of a file, kept while the scanner looks at them.

use crate::dedupe::ranges::form::{Data, Form};

/// Some blocks of a file.
pub(super) struct Window {
    form: Form,
    bytes: Vec<u8>,
    file: u32,
    start: u64,
}

impl Window {
    /// A window for blocks in this form, without any.
    pub(super) fn new(form: Form) -> Window {
        Window { form, bytes: Vec::new(), file: 0, start: 0 }
    }

    pub(super) fn forget(&mut self) {
        self.bytes.clear();
    }

    /// The blocks from an offset on, in their form: at least those of `least` bytes, unless the file ends before. If
    /// the window has fewer, those of `reach` bytes are read.
    pub(super) fn get(&mut self, data: &mut dyn Data, file: u32, at: u64, least: u64, reach: u64) -> &[u8] {
        let ahead = at.checked_sub(self.start).map(|ahead| self.form.length(ahead));
        let has = |ahead: usize| ahead.saturating_add(self.form.length(least)) <= self.bytes.len();
        match ahead.filter(|&ahead| self.file == file && has(ahead) && !self.bytes.is_empty()) {
            Some(ahead) => &self.bytes[ahead..],
            None => {
                self.bytes.resize(self.form.length(reach.max(least)), 0);
                let got = data.read(file, at, &mut self.bytes).unwrap_or(0);
                self.bytes.truncate(got);
                (self.file, self.start) = (file, at);
                &self.bytes
            }
        }
    }
}
