//! Which snapshots are kept, and why: rules applied to names, times, groups, tags and pins. Pure, no I/O.
//!
//! Each rule counts on its own and for each group on its own: once all snapshots of the group, and once only those that
//! are complete. So incomplete ones never push out a complete one. Snapshots from the future are kept, and no rule
//! counts them.

use super::calendar::{Calendar, Unit};
use super::keep::{Keep, Reason};
use crate::snapshot::manifest::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

/// What the rules look at in a snapshot.
#[derive(Clone, Debug)]
pub(in crate::snapshot) struct Candidate {
    pub(in crate::snapshot) name: String,
    pub(in crate::snapshot) created: Time,
    /// Whether no entry was skipped when it was made.
    pub(in crate::snapshot) is_complete: bool,
    /// Snapshots of the same machine and sources have the same number.
    pub(in crate::snapshot) group: usize,
    pub(in crate::snapshot) tags: Vec<String>,
    pub(in crate::snapshot) pinned: bool,
}

/// The reasons to keep each of the snapshots, in their order. A snapshot without a reason may go. `keep.free` is not
/// applied.
pub(in crate::snapshot) fn reasons(
    candidates: &[Candidate],
    keep: &Keep,
    now: Time,
    calendar: &Calendar,
) -> Vec<Vec<Reason>> {
    let mut reasons = vec![Vec::new(); candidates.len()];
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, candidate) in candidates.iter().enumerate() {
        if candidate.created > now {
            reasons[index].push(Reason::Future);
        } else {
            groups.entry(candidate.group).or_default().push(index);
        }
    }
    for group in groups.values_mut() {
        group.sort_by_key(|index| Reverse((candidates[*index].created, &candidates[*index].name)));
        apply(group, candidates, keep, calendar, &mut reasons);
    }
    for (candidate, reasons) in candidates.iter().zip(&mut reasons) {
        let tag = keep.tags.iter().find(|tag| candidate.tags.contains(tag));
        reasons.extend(tag.map(|tag| Reason::Tag(tag.clone())));
        reasons.extend(candidate.pinned.then_some(Reason::Pinned));
    }
    // These only matter if nothing else keeps the snapshot.
    for reasons in &mut reasons {
        for reason in [Reason::NewestComplete, Reason::Newest] {
            if reasons.len() > 1 {
                reasons.retain(|found| *found != reason);
            }
        }
    }
    reasons
}

/// Applies the rules of one group to its snapshots, newest first.
fn apply(group: &[usize], candidates: &[Candidate], keep: &Keep, calendar: &Calendar, reasons: &mut [Vec<Reason>]) {
    let Some(newest) = group.first() else { return };
    reasons[*newest].push(Reason::Newest);
    let complete: Vec<usize> = group.iter().copied().filter(|index| candidates[*index].is_complete).collect();
    if let Some(newest) = complete.first() {
        reasons[*newest].push(Reason::NewestComplete);
    }
    for group in [group, &complete] {
        for (index, reason) in kept(group, candidates, keep, calendar) {
            if !reasons[index].contains(&reason) {
                reasons[index].push(reason);
            }
        }
    }
}

/// The snapshots that the rules keep of these, newest first, as if there were no others.
fn kept(group: &[usize], candidates: &[Candidate], keep: &Keep, calendar: &Calendar) -> Vec<(usize, Reason)> {
    let Some(newest) = group.first() else { return Vec::new() };
    let last = group.iter().take(usize::try_from(keep.last).unwrap_or(usize::MAX));
    let mut found: Vec<_> = last.map(|index| (*index, Reason::Last)).collect();
    let rules = [
        (Unit::Hour, keep.hourly, Reason::Hourly),
        (Unit::Day, keep.daily, Reason::Daily),
        (Unit::Week, keep.weekly, Reason::Weekly),
        (Unit::Month, keep.monthly, Reason::Monthly),
        (Unit::Year, keep.yearly, Reason::Yearly),
    ];
    for (unit, most, reason) in rules {
        let mut seen = HashSet::new();
        for index in group {
            if seen.len() as u64 >= most {
                break;
            }
            if seen.insert(calendar.period(unit, candidates[*index].created)) {
                found.push((*index, reason.clone()));
            }
        }
    }
    if let Some(within) = keep.within.filter(|within| !within.is_zero()) {
        let Time { seconds, nanos } = candidates[*newest].created;
        let seconds = seconds.saturating_sub(i64::try_from(within.as_secs()).unwrap_or(i64::MAX));
        let oldest = Time { seconds, nanos };
        let recent = group.iter().filter(|index| candidates[**index].created >= oldest);
        found.extend(recent.map(|index| (*index, Reason::Within)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::{Timestamp, tz::TimeZone};
    use proptest::prelude::*;
    use std::time::Duration;

    const ZONES: [&str; 6] =
        ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia"];

    /// Days from 1970-01-01 to the first day of a year, by counting.
    fn first_day(year: i64) -> i64 {
        (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum()
    }

    fn is_leap(year: i64) -> bool {
        year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    }

    /// The local period of a moment, without a calendar library: from the offset alone.
    fn period(unit: Unit, time: Time, zone: &TimeZone) -> (i64, i64) {
        let offset = i64::from(zone.to_offset(Timestamp::new(time.seconds, 0).unwrap()).seconds());
        let local = time.seconds + offset;
        let day = local.div_euclid(86_400);
        let year_of = |day: i64| (1970..).find(|year| first_day(year + 1) > day).unwrap();
        match unit {
            // The offset separates the two passes through an hour.
            Unit::Hour => (local.div_euclid(3600), offset),
            Unit::Day => (day, 0),
            Unit::Week => {
                // 1970-01-01 was a Thursday, and a week belongs to the year of its Thursday.
                let thursday = day - (day + 3).rem_euclid(7) + 3;
                let year = year_of(thursday);
                (year, (thursday - first_day(year)) / 7 + 1)
            }
            Unit::Month => {
                let year = year_of(day);
                let feb = if is_leap(year) { 29 } else { 28 };
                let mut rest = day - first_day(year);
                let lengths = [31, feb, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
                let month = lengths.iter().take_while(|length| {
                    let is_over = rest >= **length;
                    rest -= if is_over { **length } else { 0 };
                    is_over
                });
                (year, month.count() as i64)
            }
            Unit::Year => (year_of(day), 0),
        }
    }

    /// The same decision, made for each snapshot by looking at all others.
    fn oracle(candidates: &[Candidate], keep: &Keep, now: Time, zone: &TimeZone, index: usize) -> bool {
        let this = &candidates[index];
        let complete: Vec<_> = candidates.iter().filter(|other| other.is_complete).cloned().collect();
        let all: Vec<_> = candidates.to_vec();
        is_kept(&all, keep, now, zone, this) || this.is_complete && is_kept(&complete, keep, now, zone, this)
    }

    /// The same among these candidates alone.
    fn is_kept(candidates: &[Candidate], keep: &Keep, now: Time, zone: &TimeZone, this: &Candidate) -> bool {
        if this.created > now || this.pinned || this.tags.iter().any(|tag| keep.tags.contains(tag)) {
            return true;
        }
        let others: Vec<_> =
            candidates.iter().filter(|other| other.group == this.group && other.created <= now).collect();
        let newer: Vec<_> =
            others.iter().filter(|other| (other.created, &other.name) > (this.created, &this.name)).collect();
        if newer.is_empty() || (newer.len() as u64) < keep.last {
            return true;
        }
        let newest = others.iter().map(|other| other.created).max().unwrap();
        if keep.within.is_some_and(|within| {
            let age = (newest.seconds - this.created.seconds) as i128 * 1_000_000_000 + i128::from(newest.nanos)
                - i128::from(this.created.nanos);
            !within.is_zero() && age <= within.as_nanos() as i128
        }) {
            return true;
        }
        let rules = [
            (Unit::Hour, keep.hourly),
            (Unit::Day, keep.daily),
            (Unit::Week, keep.weekly),
            (Unit::Month, keep.monthly),
            (Unit::Year, keep.yearly),
        ];
        rules.into_iter().any(|(unit, most)| {
            let own = period(unit, this.created, zone);
            let mut later: Vec<_> = newer.iter().map(|other| period(unit, other.created, zone)).collect();
            later.sort_unstable();
            later.dedup();
            !later.contains(&own) && (later.len() as u64) < most
        })
    }

    fn time(text: &str) -> Time {
        let moment: Timestamp = text.parse().unwrap();
        Time { seconds: moment.as_second(), nanos: 0 }
    }

    fn candidate(name: &str, created: Time) -> Candidate {
        Candidate { name: name.into(), created, is_complete: true, group: 0, tags: Vec::new(), pinned: false }
    }

    /// Moments that are close to each other and to year ends and clock changes.
    fn moments() -> impl Strategy<Value = (i64, u32)> {
        let anchors = prop::sample::select(vec![
            "2026-12-31T23:00:00Z",
            "2027-01-04T00:00:00Z",
            "2026-10-25T01:00:00Z",
            "2026-03-29T01:00:00Z",
            "2026-11-01T06:00:00Z",
            "2026-04-04T15:00:00Z",
            "2028-02-29T12:00:00Z",
            "2011-12-30T10:00:00Z",
        ]);
        let spread = prop_oneof![-7200_i64..7200, -86_400_i64 * 9..86_400 * 9, -86_400_i64 * 800..86_400 * 800];
        (anchors, spread, prop_oneof![Just(0_u32), 0_u32..1_000_000_000])
            .prop_map(|(anchor, spread, nanos)| (time(anchor).seconds + spread, nanos))
    }

    fn keeps() -> impl Strategy<Value = Keep> {
        let count = || prop_oneof![Just(0_u64), 1_u64..5, Just(u64::MAX)];
        let within = prop::option::of((0_u64..86_400 * 40).prop_map(Duration::from_secs));
        let tags = prop::collection::vec(prop::sample::select(vec!["a".to_string(), "b".into()]), 0..2);
        (count(), count(), count(), count(), count(), count(), tags, within).prop_map(
            |(last, hourly, daily, weekly, monthly, yearly, tags, within)| Keep {
                last,
                hourly,
                daily,
                weekly,
                monthly,
                yearly,
                tags,
                within,
                free: None,
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1500))]

        #[test]
        fn the_survivors_are_those_of_the_oracle(
            moments in prop::collection::vec((moments(), 0_usize..3, 0_u8..8, 0_u8..12), 0..40),
            keep in keeps(),
            now in moments(),
            zone in prop::sample::select(ZONES.to_vec()),
        ) {
            let candidates = moments.into_iter().enumerate();
            let candidates: Vec<_> = candidates.map(|(number, ((seconds, nanos), group, tag, pin))| {
                let tags = match tag { 0 => vec!["a".into()], 1 => vec!["b".into(), "c".into()], _ => Vec::new() };
                let created = Time { seconds, nanos };
                let is_complete = pin % 3 > 0;
                Candidate { name: format!("{number:03}"), created, is_complete, group, tags, pinned: pin == 0 }
            }).collect();
            let now = Time { seconds: now.0, nanos: now.1 };
            let found = reasons(&candidates, &keep, now, &Calendar::new(Some(zone), false).unwrap());
            let zone = TimeZone::get(zone).unwrap();
            for (index, reasons) in found.iter().enumerate() {
                let expected = oracle(&candidates, &keep, now, &zone, index);
                prop_assert_eq!(!reasons.is_empty(), expected, "{:?} {:?}", candidates[index], reasons);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn incomplete_snapshots_take_no_reason_from_a_complete_one(
            moments in prop::collection::vec((moments(), 0_usize..2, any::<bool>()), 0..40),
            keep in keeps(),
            now in moments(),
            zone in prop::sample::select(ZONES.to_vec()),
        ) {
            let candidates: Vec<_> = moments.into_iter().enumerate().map(|(number, ((seconds, nanos), group, whole))| {
                let created = Time { seconds, nanos };
                Candidate { is_complete: whole, group, ..candidate(&format!("{number:03}"), created) }
            }).collect();
            let complete: Vec<_> = candidates.iter().filter(|candidate| candidate.is_complete).cloned().collect();
            let (now, calendar) = (Time { seconds: now.0, nanos: now.1 }, Calendar::new(Some(zone), false).unwrap());
            let with = reasons(&candidates, &keep, now, &calendar);
            let with = candidates.iter().zip(&with).filter(|(candidate, _)| candidate.is_complete);
            for ((candidate, with), without) in with.zip(reasons(&complete, &keep, now, &calendar)) {
                // The newest of all may become the newest that is complete.
                let mut rules = without.iter().filter(|reason| **reason != Reason::Newest);
                prop_assert!(rules.all(|reason| with.contains(reason)), "{:?}: {:?}", candidate, with);
                prop_assert!(without.is_empty() || !with.is_empty(), "{:?} {:?}", candidate, without);
            }
        }
    }

    #[test]
    fn each_survivor_has_its_reasons() {
        let names = ["2026-12-30T10:00:00Z", "2026-12-31T10:00:00Z", "2027-01-01T10:00:00Z", "2027-01-01T11:00:00Z"];
        let candidates: Vec<_> = names.iter().map(|name| candidate(name, time(name))).collect();
        let keep = Keep { daily: 2, weekly: 2, monthly: 2, ..Keep::default() };
        let now = time("2027-01-02T00:00:00Z");
        let found = reasons(&candidates, &keep, now, &Calendar::new(Some("UTC"), false).unwrap());
        let newest = vec![Reason::Daily, Reason::Weekly, Reason::Monthly];
        // All four are in one ISO week.
        assert_eq!(found, [vec![], vec![Reason::Daily, Reason::Monthly], vec![], newest]);
    }

    #[test]
    fn snapshots_of_the_future_and_pinned_ones_stay_and_the_newest_too() {
        let now = time("2026-06-01T00:00:00Z");
        let mut candidates = vec![
            candidate("pinned", time("2026-01-01T00:00:00Z")),
            candidate("old", time("2026-02-01T00:00:00Z")),
            candidate("newest", time("2026-05-01T00:00:00Z")),
            candidate("future", time("2030-01-01T00:00:00Z")),
        ];
        candidates[0].pinned = true;
        let keep = Keep { tags: vec!["none".into()], ..Keep::default() };
        let found = reasons(&candidates, &keep, now, &Calendar::new(Some("UTC"), false).unwrap());
        assert_eq!(found, [vec![Reason::Pinned], vec![], vec![Reason::Newest], vec![Reason::Future]]);
    }

    #[test]
    fn a_snapshot_of_this_moment_is_not_from_the_future() {
        let now = time("2026-06-01T00:00:00Z");
        let keep = Keep { tags: vec!["none".into()], ..Keep::default() };
        let found = reasons(&[candidate("now", now)], &keep, now, &Calendar::new(Some("UTC"), false).unwrap());
        assert_eq!(found, [[Reason::Newest]]);
    }

    #[test]
    fn incomplete_snapshots_do_not_push_out_complete_ones() {
        let times = ["2026-05-01T00:00:00Z", "2026-05-02T00:00:00Z", "2026-05-03T00:00:00Z", "2026-05-04T00:00:00Z"];
        let mut candidates: Vec<_> = times.iter().map(|name| candidate(name, time(name))).collect();
        candidates[2].is_complete = false;
        candidates[3].is_complete = false;
        let keep = Keep { last: 2, ..Keep::default() };
        let now = time("2026-06-01T00:00:00Z");
        let found = reasons(&candidates, &keep, now, &Calendar::new(Some("UTC"), false).unwrap());
        assert_eq!(found, [[Reason::Last], [Reason::Last], [Reason::Last], [Reason::Last]]);
        let keep = Keep { tags: vec!["none".into()], ..Keep::default() };
        let found = reasons(&candidates, &keep, now, &Calendar::new(Some("UTC"), false).unwrap());
        assert_eq!(found, [vec![], vec![Reason::NewestComplete], vec![], vec![Reason::Newest]]);
    }

    #[test]
    fn a_policy_without_rules_is_empty() {
        assert!(Keep::default().is_empty());
        assert!(Keep { within: Some(Duration::ZERO), ..Keep::default() }.is_empty());
        assert!(!Keep { yearly: 1, ..Keep::default() }.is_empty());
    }
}
