//! The time of a snapshot: when its scan began by the clock, and the time that orders it among the other snapshots.
//!
//! The two differ only if the clock was set back. Then the snapshot is ordered one second after the newest snapshot, so
//! that names never collide and the order stays that of the runs.

use crate::monitor::{Event, Monitor};
use crate::snapshot::manifest::Time;
use crate::util::text;

/// When a snapshot was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timestamp {
    /// By the clock.
    pub(super) begun: Time,
    /// The time that orders it; never before `begun`.
    pub(super) created: Time,
}

impl Timestamp {
    /// The time of a snapshot begun at `begun`, ordered after the `newest` snapshot.
    pub(super) fn behind(newest: Option<Time>, begun: Time) -> Timestamp {
        let created = match newest {
            Some(newest) if newest >= begun => Time { seconds: newest.seconds.saturating_add(1), nanos: 0 },
            _ => begun,
        };
        Timestamp { begun, created }
    }

    /// Reports a clock that is behind the newest snapshot.
    pub(super) fn report(&self, monitor: &dyn Monitor) {
        if self.created != self.begun {
            let [clock, given] = [self.begun, self.created].map(|time| text::rfc3339(time.seconds, 0));
            monitor.event(Event::ClockBehind { clock: &clock, given: &given });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Recording;

    fn at(seconds: i64) -> Time {
        Time { seconds, nanos: 7 }
    }

    #[test]
    fn a_clock_that_was_set_back_changes_no_order() {
        let usual = Timestamp::behind(Some(at(99)), at(100));
        assert_eq!((usual.begun, usual.created), (at(100), at(100)));
        let back = Timestamp::behind(Some(at(200)), at(100));
        assert_eq!(back.created, Time { seconds: 201, nanos: 0 });
        assert_eq!(Timestamp::behind(Some(back.created), at(100)).created.seconds, 202);
        let monitor = Recording::default();
        usual.report(&monitor);
        back.report(&monitor);
        let events = monitor.events.into_inner().unwrap();
        assert_eq!(events.len(), 1);
        assert!(events[0].contains("1970-01-01T00:01:40Z") && events[0].contains("00:03:21Z"), "{events:?}");
    }
}
