//! `cargo xtask torture`: the tests with random choices, many of these in each, until the time is over.
//!
//! Each round makes new choices. A failed test prints the seed that repeats it. `test` lists the tests.

use crate::image::Kind;
use crate::test::{self, Outcome, Variables};
use anyhow::{Result, bail};
use clap::Args;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The options of `cargo xtask torture`.
#[derive(Args)]
pub(crate) struct Options {
    /// Begin no further round that would end later than this; with less than 30 minutes, rounds are small
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Run only tests with one of these in their name
    filters: Vec<String>,
    /// On these filesystems only
    #[arg(long = "fs", value_delimiter = ',', default_value = "xfs,btrfs,ext4")]
    kinds: Vec<Kind>,
}

/// With less time than this, rounds make only as many choices as `cargo xtask test`.
const SMALL_MINUTES: u64 = 30;

/// How many choices each test makes in a larger round: docs/testing.md describes the variables.
const SCALE: &[(&str, &str)] = &[
    ("PLEACH_TEST_STEPS", "200"),
    ("PLEACH_TEST_KILLS", "40"),
    ("PLEACH_TEST_POWER_CUTS", "10"),
    ("PLEACH_TEST_SEQUENCES", "30"),
    ("PLEACH_TEST_MUTATIONS", "300"),
    ("PLEACH_TEST_DAMAGE", "2"),
];

/// Runs the chore.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    test::enter(
        test::build,
        |dir| {
            let outcome = test::with_filesystems(dir, &options.kinds, |variables| rounds(dir, options, variables))?;
            for (what, number) in &outcome.counted {
                println!("in all {number} {what}");
            }
            Ok(outcome.close())
        },
        |_, reason| bail!("filesystems cannot be mounted here: {reason}"),
    )
}

/// Runs the tests until the time is over, or until one fails.
fn rounds(dir: &Path, options: &Options, variables: &Variables) -> Result<Outcome> {
    let numbers: &[(&'static str, &'static str)] = if options.minutes < SMALL_MINUTES { &[] } else { SCALE };
    let scale = numbers.iter().filter(|(name, _)| std::env::var_os(name).is_none());
    let scale = scale.map(|(name, number)| (*name, number.into())).chain([("RUST_TEST_NOCAPTURE", "1".into())]);
    let variables: Variables = variables.iter().cloned().chain(scale).collect();
    let filters = match &options.filters[..] {
        [] => test::RANDOM.iter().map(ToString::to_string).collect(),
        named => named.to_vec(),
    };
    let (begun, limit) = (Instant::now(), Duration::from_secs(options.minutes.saturating_mul(60)));
    let round = || -> Result<(Outcome, Duration)> {
        let begun = Instant::now();
        let outcome = test::cargo_test(dir, &filters, &[], &options.kinds, &variables)?;
        Ok((outcome, begun.elapsed()))
    };
    let (mut sum, mut length) = round()?;
    // The next round takes about as long as the last one.
    while sum.success && begun.elapsed() + length <= limit {
        println!("another round, after {} s", begun.elapsed().as_secs());
        let (outcome, last) = round()?;
        (sum, length) = (sum.and(outcome), last);
    }
    Ok(sum)
}
