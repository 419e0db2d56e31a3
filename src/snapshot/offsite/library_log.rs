//! What the library logs. It reports some failures nowhere else, so its warnings become problems of the run.

use super::fault::without_kind;
use crate::util::mutex::lock;
use log::{LevelFilter, Log, Metadata, Record};
use std::sync::Mutex;

/// The beginning of a message that is not a problem: nothing is lost if a copy in the cache is gone already, or stays.
const HARMLESS: &str = "Error in cache backend removing";

/// How many messages are kept between two looks.
const MOST: usize = 1000;

static MESSAGES: Messages = Messages(Mutex::new(Vec::new()));

/// The messages since the last look.
struct Messages(Mutex<Vec<String>>);

impl Log for Messages {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= LevelFilter::Warn && metadata.target().starts_with("rustic")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let text = record.args().to_string();
            let mut messages = lock(&self.0);
            if messages.len() < MOST && !text.starts_with(HARMLESS) {
                messages.push(without_kind(&text.split_whitespace().collect::<Vec<_>>().join(" ")));
            }
        }
    }

    fn flush(&self) {}
}

/// Begins to listen, unless the program has a logger of its own, which then gets the messages.
pub(super) fn listen() {
    if log::set_logger(&MESSAGES).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
    take();
}

/// The messages since the last look.
pub(super) fn take() -> Vec<String> {
    std::mem::take(&mut lock(&MESSAGES.0))
}
