//! The runner of all benches: contenders take turns, round by round, each under the same conditions.

use crate::contender::{Contender, Figures, Role};
use crate::measure::measure;
use crate::stage::{Cache, Stage};
use crate::statistics::{Spread, median};
use anyhow::{Context, Result};
use std::collections::BTreeMap;

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The prefix of progress lines.
    pub(crate) label: String,
    pub(crate) rounds: u32,
    pub(crate) cache: Cache,
}

/// The figures of one contender.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) version: String,
    /// A value for each round.
    pub(crate) figures: BTreeMap<&'static str, Vec<f64>>,
    /// Why it no longer takes part.
    pub(crate) failure: Option<String>,
}

impl Measured {
    fn new(who: &dyn Contender) -> Measured {
        let (name, role, version) = (who.name(), who.role(), who.version());
        Measured { name, role, version, figures: BTreeMap::new(), failure: None }
    }

    fn add(&mut self, figures: Figures) {
        for (name, value) in figures {
            self.figures.entry(name).or_default().push(value);
        }
    }

    /// The values of a figure.
    pub(crate) fn values(&self, figure: &str) -> &[f64] {
        self.figures.get(figure).map_or(&[], Vec::as_slice)
    }

    /// The median of a figure.
    pub(crate) fn median(&self, figure: &str) -> f64 {
        median(self.values(figure))
    }

    /// The median and the range of each figure.
    pub(crate) fn spreads(&self) -> BTreeMap<String, Spread> {
        self.figures.iter().map(|(name, values)| ((*name).to_string(), Spread::of(values))).collect()
    }
}

/// Runs every contender once per round, in changing order.
pub(crate) fn run<C: Contender>(stage: &mut Stage, all: &[C], plan: &Plan) -> Result<Vec<Measured>> {
    run_rounds(stage, all, plan, &mut |_, _| Ok(()))
}

/// Like [`run`], with `begin` called at the beginning of each round.
pub(crate) fn run_rounds<C: Contender>(
    stage: &mut Stage,
    all: &[C],
    plan: &Plan,
    begin: &mut dyn FnMut(&mut Stage, u32) -> Result<()>,
) -> Result<Vec<Measured>> {
    let mut rows: Vec<_> = all.iter().map(|who| Measured::new(who)).collect();
    for round in 0..plan.rounds {
        begin(stage, round)?;
        for index in order(round, plan.rounds, all.len()) {
            let (who, row) = (&all[index], &mut rows[index]);
            if row.failure.is_some() {
                continue;
            }
            match once(stage, who, plan.cache).with_context(|| row.name.clone()) {
                Ok(figures) => {
                    println!("{} {}: {:.3} s", plan.label, row.name, figures["seconds"]);
                    row.add(figures);
                }
                // A peer that fails is reported, and no longer takes part.
                Err(error) if row.role == Role::Peer => {
                    println!("failed: {error:#}");
                    row.failure = Some(format!("{error:#}"));
                }
                Err(error) => return Err(error),
            }
        }
    }
    rows.retain(|row| row.failure.is_none());
    Ok(rows)
}

fn once(stage: &mut Stage, who: &dyn Contender, cache: Cache) -> Result<Figures> {
    who.prepare(stage)?;
    stage.set_cache(cache)?;
    // The cache is cold for the files, but not for the program itself.
    who.version();
    let before = stage.device_bytes()?;
    let (mut figures, said) = measure(&mut who.command(stage), stage.written(), who.is_heard())?;
    figures.insert("device_bytes", stage.device_bytes()?.saturating_sub(before) as f64);
    figures.extend(who.check(stage, &said)?);
    who.cleanup(stage)?;
    Ok(figures)
}

/// The order of a round. Every other round runs backwards, and each round begins with a different contender. So no
/// contender always follows the same one or runs twice in a row, and a disturbance of a minute does not hit the same
/// contender each time.
fn order(round: u32, rounds: u32, contenders: usize) -> Vec<usize> {
    let mut order: Vec<_> = (0..contenders).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    // Two contenders simply alternate.
    if contenders > 2 {
        order.rotate_left(contenders * round as usize / rounds as usize);
        let before = round.checked_sub(1).and_then(|round| self::order(round, rounds, contenders).pop());
        if order.first() == before.as_ref() {
            order.rotate_left(1);
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_runs_twice_in_a_row() {
        for (rounds, contenders) in [(2, 5), (3, 15), (3, 16), (5, 12), (4, 3)] {
            let all: Vec<_> = (0..rounds).flat_map(|round| order(round, rounds, contenders)).collect();
            assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{rounds} {contenders}: {all:?}");
            assert_eq!(all.iter().filter(|who| **who == 0).count(), rounds as usize);
        }
    }

    #[test]
    fn two_contenders_change_places() {
        assert_eq!([order(0, 4, 2), order(1, 4, 2), order(2, 4, 2)], [[0, 1], [1, 0], [0, 1]]);
    }
}
