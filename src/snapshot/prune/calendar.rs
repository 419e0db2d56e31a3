//! Calendar periods: the hour, day, week, month or year of a moment in a time zone. Pure, apart from reading the zone.
//!
//! A period carries everything that distinguishes it: a month its year, a week its ISO year (1 January may be in week
//! 53 of the year before), an hour its offset from UTC, because an hour occurs twice when clocks are set back.

use crate::error::{Error, Result};
use crate::snapshot::manifest::Time;
use crate::util::{text, time_zone};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// A kind of period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Hour,
    Day,
    Week,
    Month,
    Year,
}

/// One period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Period {
    /// Year, month, day, hour, and the offset from UTC in seconds.
    Hour(i16, i8, i8, i8, i32),
    /// Year, month, day.
    Day(i16, i8, i8),
    /// ISO year and week.
    Week(i16, i8),
    /// Year and month.
    Month(i16, i8),
    /// The year.
    Year(i16),
}

/// A moment in a time zone, to the minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Local {
    /// The year.
    pub year: i16,
    /// The month, from 1.
    pub month: i8,
    /// The day of the month, from 1.
    pub day: i8,
    /// The hour, from 0 to 23.
    pub hour: i8,
    /// The minute.
    pub minute: i8,
}

/// The error for a zone that cannot be found.
fn unknown(zone: &str) -> Error {
    let hint = "names are as Europe/Berlin or UTC, those in /usr/share/zoneinfo; nothing was changed";
    Error::failed(format!("find the time zone {zone}")).hint(hint)
}

/// A time zone.
#[derive(Clone, Debug)]
pub(in crate::snapshot) struct Calendar(TimeZone);

impl Calendar {
    /// The zone with this name, as `Europe/Berlin`; without a name the local one. If it cannot be found, UTC, unless it
    /// is required.
    ///
    /// # Errors
    /// If there is no such zone, or the local one is required and cannot be found.
    pub(in crate::snapshot) fn new(name: Option<&str>, is_required: bool) -> Result<Calendar> {
        let zone = match name {
            Some(name) => TimeZone::get(name).map_err(|_| unknown(&format!("'{name}'")))?,
            None if is_required => time_zone::local().ok_or_else(|| {
                let set = std::env::var_os("TZ").map(|zone| text::escape(&zone));
                set.map_or_else(|| unknown("of this machine"), |zone| unknown(&format!("'{zone}' that TZ names")))
            })?,
            None => time_zone::local_or_utc(),
        };
        Ok(Calendar(zone))
    }

    /// The period of this kind that contains a moment.
    pub(super) fn period(&self, unit: Unit, time: Time) -> Period {
        let local = self.zoned(time);
        let (year, month, day) = (local.year(), local.month(), local.day());
        match unit {
            Unit::Hour => Period::Hour(year, month, day, local.hour(), local.offset().seconds()),
            Unit::Day => Period::Day(year, month, day),
            Unit::Week => {
                let week = local.date().iso_week_date();
                Period::Week(week.year(), week.week())
            }
            Unit::Month => Period::Month(year, month),
            Unit::Year => Period::Year(year),
        }
    }

    /// The moment as the clocks of this zone show it.
    pub(in crate::snapshot) fn local(&self, time: Time) -> Local {
        let local = self.zoned(time);
        let (year, month, day) = (local.year(), local.month(), local.day());
        Local { year, month, day, hour: local.hour(), minute: local.minute() }
    }

    /// The zone's name, as `Europe/Berlin`; without one, its offset from UTC now.
    pub(in crate::snapshot) fn name(&self) -> String {
        let offset = || Timestamp::now().to_zoned(self.0.clone()).offset().to_string();
        self.0.iana_name().map_or_else(offset, str::to_string)
    }

    fn zoned(&self, time: Time) -> Zoned {
        let nanos = i32::try_from(time.nanos).unwrap_or(0);
        Timestamp::new(time.seconds, nanos).unwrap_or(Timestamp::MAX).to_zoned(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn periods(unit: Unit, zone: &str, moments: &[&str]) -> Vec<Period> {
        let calendar = Calendar::new(Some(zone), false).unwrap();
        let time = |text: &&str| {
            let moment: Timestamp = text.parse().unwrap();
            Time { seconds: moment.as_second(), nanos: 0 }
        };
        moments.iter().map(|moment| calendar.period(unit, time(moment))).collect()
    }

    #[test]
    fn a_week_at_the_end_of_a_year_is_one_week() {
        // 2026 has 53 ISO weeks; the last contains 1 January 2027.
        let weeks = periods(
            Unit::Week,
            "Europe/Berlin",
            &["2026-12-27T22:59:59Z", "2026-12-27T23:00:00Z", "2026-12-31T12:00:00Z", "2027-01-01T12:00:00Z"],
        );
        assert_eq!(
            weeks,
            [(2026, 52), (2026, 53), (2026, 53), (2026, 53)].map(|(year, week)| Period::Week(year, week))
        );
        let weeks =
            periods(Unit::Week, "UTC", &["2027-01-03T23:59:59Z", "2027-01-04T00:00:00Z", "2024-12-30T00:00:00Z"]);
        assert_eq!(weeks, [(2026, 53), (2027, 1), (2025, 1)].map(|(year, week)| Period::Week(year, week)));
    }

    #[test]
    fn equal_weeks_and_months_of_two_years_differ() {
        let dates = ["2025-03-10T12:00:00Z", "2026-03-09T12:00:00Z"];
        for unit in [Unit::Week, Unit::Month, Unit::Year] {
            let found = periods(unit, "UTC", &dates);
            assert_ne!(found[0], found[1]);
        }
    }

    #[test]
    fn an_hour_that_occurs_twice_is_two_hours_of_one_day() {
        // Clocks are set back from 03:00 to 02:00 at 01:00 UTC.
        let twice = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"];
        let hours = periods(Unit::Hour, "Europe/Berlin", &twice);
        assert_eq!(hours, [7200, 3600].map(|offset| Period::Hour(2026, 10, 25, 2, offset)));
        let days = periods(Unit::Day, "Europe/Berlin", &twice);
        assert_eq!(days[0], days[1]);
        // Half an hour occurs twice on Lord Howe Island.
        let hours = periods(Unit::Hour, "Australia/Lord_Howe", &["2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z"]);
        assert_eq!(hours, [39600, 37800].map(|offset| Period::Hour(2026, 4, 5, 1, offset)));
    }

    #[test]
    fn an_hour_that_never_occurs_is_no_period() {
        // Clocks are set forward from 02:00 to 03:00 at 01:00 UTC.
        let hours = periods(Unit::Hour, "Europe/Berlin", &["2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z"]);
        assert_eq!(hours, [(1, 3600), (3, 7200)].map(|(hour, offset)| Period::Hour(2026, 3, 29, hour, offset)));
        // Samoa skipped 30 December 2011.
        let days = periods(Unit::Day, "Pacific/Apia", &["2011-12-30T09:59:59Z", "2011-12-30T10:00:00Z"]);
        assert_eq!(days, [Period::Day(2011, 12, 29), Period::Day(2011, 12, 31)]);
    }

    #[test]
    fn the_day_is_that_of_the_zone() {
        let at = ["2026-01-01T04:00:00Z"];
        assert_eq!(periods(Unit::Day, "America/New_York", &at), [Period::Day(2025, 12, 31)]);
        assert_eq!(periods(Unit::Year, "America/New_York", &at), [Period::Year(2025)]);
        assert_eq!(periods(Unit::Day, "Asia/Kathmandu", &["2026-01-01T18:20:00Z"]), [Period::Day(2026, 1, 2)]);
    }

    #[test]
    fn a_local_time_has_the_parts_of_its_zone() {
        let moment: Timestamp = "2026-12-31T23:30:00Z".parse().unwrap();
        let calendar = Calendar::new(Some("Asia/Kathmandu"), false).unwrap();
        let local = calendar.local(Time { seconds: moment.as_second(), nanos: 0 });
        assert_eq!(local, Local { year: 2027, month: 1, day: 1, hour: 5, minute: 15 });
        assert_eq!(calendar.name(), "Asia/Kathmandu");
    }

    #[test]
    fn an_unknown_zone_is_refused() {
        assert!(Calendar::new(Some("Europe/Nowhere"), false).is_err());
    }
}
