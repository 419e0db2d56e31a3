//! A fuzz target for the rules by which snapshots are kept.

use super::calendar::Calendar;
use super::keep::{Keep, Reason};
use super::policy::{Candidate, reasons};
use crate::snapshot::manifest::Time;
use crate::util::fuzz::Source;
use std::sync::LazyLock;
use std::time::Duration;

static CALENDARS: LazyLock<Vec<Calendar>> = LazyLock::new(|| {
    let zones = ["UTC", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"];
    zones.iter().filter_map(|zone| Calendar::new(Some(zone), false).ok()).collect()
});

/// Rules and snapshots, from numbers. All times are those that a manifest can have.
pub(crate) fn retention(bytes: &[u8]) {
    let mut source = Source::new(bytes);
    let Some(calendar) = CALENDARS.get(usize::from(source.byte()) % CALENDARS.len().max(1)) else { return };
    let now = time(&mut source);
    let [last, hourly, daily, weekly, monthly, yearly] = [(); 6].map(|()| source.number());
    let within = Some(Duration::from_secs(source.number())).filter(|within| !within.is_zero());
    let keep =
        Keep { last, hourly, daily, weekly, monthly, yearly, tags: vec!["a".to_string()], within, ..Keep::default() };
    let mut candidates = Vec::new();
    while !source.is_empty() && candidates.len() < 200 {
        let marks = source.byte();
        let tags = if marks & 2 != 0 { vec!["a".to_string()] } else { Vec::new() };
        candidates.push(Candidate {
            name: format!("{:03}", candidates.len()),
            created: time(&mut source),
            is_complete: marks & 1 != 0,
            group: usize::from(marks >> 4 & 3),
            tags,
            pinned: marks & 4 != 0,
        });
    }
    let found = reasons(&candidates, &keep, now, calendar);
    assert_eq!(found.len(), candidates.len());
    for (candidate, reasons) in candidates.iter().zip(&found) {
        let must_stay = candidate.pinned || !candidate.tags.is_empty() || candidate.created > now;
        assert!(!must_stay || !reasons.is_empty());
        let is_new = |(at, reason): (usize, &Reason)| !reasons[..at].contains(reason);
        assert!(reasons.iter().enumerate().all(is_new), "a reason is there twice");
    }
    check_groups(&candidates, &found, &keep, now);
    // A rule less keeps no snapshot more.
    let fewer = reasons(&candidates, &Keep::default(), now, calendar);
    assert!(found.iter().zip(&fewer).all(|(with, without)| without.is_empty() || !with.is_empty()));
}

/// The newest snapshot of each group stays, and as many of the last ones as wanted.
fn check_groups(candidates: &[Candidate], found: &[Vec<Reason>], keep: &Keep, now: Time) {
    for group in 0..4 {
        let past = |candidate: &Candidate| candidate.group == group && candidate.created <= now;
        let of_group: Vec<_> = candidates.iter().zip(found).filter(|(candidate, _)| past(candidate)).collect();
        let kept = of_group.iter().filter(|(_, reasons)| !reasons.is_empty()).count() as u64;
        assert!(kept >= (of_group.len() as u64).min(keep.last.max(1)));
        let newest = of_group.iter().max_by_key(|(candidate, _)| (candidate.created, &candidate.name));
        assert!(newest.is_none_or(|(_, reasons)| !reasons.is_empty()));
        let complete = of_group.iter().filter(|(candidate, _)| candidate.is_complete);
        let newest = complete.max_by_key(|(candidate, _)| (candidate.created, &candidate.name));
        assert!(newest.is_none_or(|(_, reasons)| !reasons.is_empty()));
    }
}

fn time(source: &mut Source<'_>) -> Time {
    let seconds = source.number() % 253_402_300_800;
    Time { seconds: seconds.cast_signed(), nanos: (source.number() % 1_000_000_000) as u32 }
}
