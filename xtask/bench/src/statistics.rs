//! Medians, spreads and ratios of measured values. Pure arithmetic: nothing here knows the source of a number.

use serde::{Deserialize, Serialize};

/// The median of some values, and their range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    /// Missing if only the median was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) min: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max: Option<f64>,
}

impl Spread {
    /// The spread of these values, with four digits after the point.
    pub(crate) fn of(values: &[f64]) -> Spread {
        let short = |value: f64| (value * 1e4).round() / 1e4;
        let edge = |least: fn(f64, f64) -> f64| values.iter().copied().reduce(least).map(short);
        Spread { median: short(median(values)), min: edge(f64::min), max: edge(f64::max) }
    }
}

/// The middle value, or the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => values[length / 2],
        length => f64::midpoint(values[length / 2 - 1], values[length / 2]),
    }
}

/// The median of the ratios of `values` to `base`, round by round: a disturbance of a whole round cancels out.
pub(crate) fn paired_ratio(values: &[f64], base: &[f64]) -> f64 {
    median(&values.iter().zip(base).map(|(value, base)| value / base).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < f64::EPSILON);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_spread_has_the_least_and_the_most() {
        let spread = Spread::of(&[3.0, 1.000_04, 2.0]);
        assert_eq!(spread, Spread { median: 2.0, min: Some(1.0), max: Some(3.0) });
    }

    #[test]
    fn paired_ratios_ignore_a_slow_round() {
        let (old, new) = ([1.0, 10.0, 1.0], [1.1, 11.0, 1.2]);
        assert!((paired_ratio(&new, &old) - 1.1).abs() < 1e-9);
    }
}
