//! The time zone of the environment.

/// Whether `TZ` names a zone. Whoever names one there wants no other one.
pub(super) fn names_time_zone() -> bool {
    std::env::var_os("TZ").is_some_and(|zone| !zone.is_empty())
}
