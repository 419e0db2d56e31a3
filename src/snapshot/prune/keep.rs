//! The rules by which snapshots are kept, and the reasons that they give.

use std::time::Duration;

/// The rules. A snapshot is kept if any rule keeps it. 0 disables a rule.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Keep {
    /// The newest snapshots of each group: this many.
    pub last: u64,
    /// The newest snapshot of each hour that has snapshots, for this many hours.
    pub hourly: u64,
    /// The same for days.
    pub daily: u64,
    /// The same for ISO weeks, which begin on Monday.
    pub weekly: u64,
    /// The same for months.
    pub monthly: u64,
    /// The same for years.
    pub yearly: u64,
    /// Snapshots that have one of these tags.
    pub tags: Vec<String>,
    /// Snapshots that are at most this much older than the newest snapshot of their group.
    pub within: Option<Duration>,
    /// Of the snapshots that no other rule keeps, only the oldest are removed, until this much space is free.
    pub free: Option<Free>,
}

impl Keep {
    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        let Keep { last, hourly, daily, weekly, monthly, yearly, tags, within, free } = self;
        let counts = [last, hourly, daily, weekly, monthly, yearly];
        counts.into_iter().all(|count| *count == 0)
            && tags.is_empty()
            && within.is_none_or(|within| within.is_zero())
            && free.is_none_or(|free| free.is_none())
    }
}

/// Space that should be free.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Free {
    /// Bytes.
    Bytes(u64),
    /// A part of the whole filesystem, from 0 to 100.
    Percent(f64),
}

impl Free {
    /// Whether this is no space at all.
    pub(super) fn is_none(self) -> bool {
        match self {
            Free::Bytes(bytes) => bytes == 0,
            Free::Percent(percent) => percent <= 0.0,
        }
    }
}

/// Why a snapshot is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It is the newest of its group.
    Newest,
    /// It is the newest of its group that was made without skipping anything.
    NewestComplete,
    /// It is one of the last.
    Last,
    /// It is the newest of its hour.
    Hourly,
    /// It is the newest of its day.
    Daily,
    /// It is the newest of its week.
    Weekly,
    /// It is the newest of its month.
    Monthly,
    /// It is the newest of its year.
    Yearly,
    /// It is recent enough.
    Within,
    /// It has this tag.
    Tag(String),
    /// It is pinned.
    Pinned,
    /// Its time is in the future.
    Future,
    /// Enough space is free without removing it.
    Free,
    /// Another process reads it.
    InUse,
    /// Its manifest is damaged or cannot be read.
    Damaged,
    /// It could not be removed.
    Failed,
}

impl Reason {
    /// The word by which programs recognize the reason. It is part of the output format: do not change it later.
    pub fn code(&self) -> &'static str {
        match self {
            Reason::Newest => "newest",
            Reason::NewestComplete => "newest-complete",
            Reason::Last => "last",
            Reason::Hourly => "hourly",
            Reason::Daily => "daily",
            Reason::Weekly => "weekly",
            Reason::Monthly => "monthly",
            Reason::Yearly => "yearly",
            Reason::Within => "within",
            Reason::Tag(_) => "tag",
            Reason::Pinned => "pinned",
            Reason::Future => "future",
            Reason::Free => "free",
            Reason::InUse => "in-use",
            Reason::Damaged => "damaged",
            Reason::Failed => "failed",
        }
    }
}
