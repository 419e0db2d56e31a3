//! Random sequences of edits and commands on one filesystem, compared with a model after each step. The model is the
//! state of each tree when it was made: see `world`.
//!
//! A sequence that fails is cut down to the steps that still make it fail. The number of steps and the seed can be
//! set: see docs/testing.md.

mod world;

use crate::harness::random::{Random, seed};
use crate::harness::*;
use crate::on_filesystems;
use std::env;
use std::panic::{self, AssertUnwindSafe};
use world::World;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// Some changes of the source.
    Edit,
    Snapshot,
    Dedupe,
    Put,
    Copy,
    Prune,
    Remove,
    Restore,
    Replicate,
    Verify,
}

/// The choice is among these. Changes and snapshots are needed most often.
const ACTIONS: [Action; 14] = [
    Action::Edit,
    Action::Edit,
    Action::Edit,
    Action::Snapshot,
    Action::Snapshot,
    Action::Snapshot,
    Action::Dedupe,
    Action::Put,
    Action::Copy,
    Action::Prune,
    Action::Remove,
    Action::Restore,
    Action::Replicate,
    Action::Verify,
];

/// An action, with the seed for its own choices. So the other steps of a sequence can be omitted.
type Step = (Action, u64);

/// The length of a sequence.
const STEPS: usize = 40;

/// The most runs that cut a failed sequence down.
const CUTS: usize = 60;

on_filesystems! {
    fn random_sequences_give_the_trees_and_the_space_of_the_model(fs: &Filesystem) {
        random_sequences(fs.kind);
    }
}

fn random_sequences(kind: Kind) {
    let wanted = env::var("PLEACH_TEST_STEPS").map_or(STEPS, |steps| steps.parse().expect("it is a number"));
    let seed = seed();
    let mut random = Random(seed);
    for begun in (0..wanted).step_by(STEPS) {
        let steps: Vec<Step> =
            (0..STEPS.min(wanted - begun)).map(|_| (*random.of(&ACTIONS), random.below(1 << 40) as u64)).collect();
        if let Some(fault) = fault_of(kind, &steps) {
            let (steps, fault) = cut_down(kind, steps, fault);
            panic!("PLEACH_TEST_SEED={seed}, cut down to {steps:?}\n{fault}");
        }
    }
    counted(wanted, &format!("steps on {}", kind.name()));
}

/// Runs a sequence in a world of its own. Returns the message of the first failed check.
fn fault_of(kind: Kind, steps: &[Step]) -> Option<String> {
    let test = concat!(module_path!(), "::random_sequences");
    let run = || {
        let Some(mut world) = World::new(kind, test) else { return };
        for (number, (action, seed)) in steps.iter().enumerate() {
            world.take(number, *action, Random(*seed));
        }
        world.end();
    };
    let failure = panic::catch_unwind(AssertUnwindSafe(run)).err()?;
    let message = failure.downcast_ref::<String>().cloned();
    Some(message.or_else(|| failure.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default())
}

/// Omits as many steps as possible while the sequence still fails.
fn cut_down(kind: Kind, mut steps: Vec<Step>, mut fault: String) -> (Vec<Step>, String) {
    let mut runs = 0;
    let mut length = steps.len() / 2;
    while length > 0 {
        let mut at = 0;
        while at < steps.len() && runs < CUTS {
            let rest: Vec<Step> = steps.iter().take(at).chain(steps.iter().skip(at + length)).copied().collect();
            runs += 1;
            match fault_of(kind, &rest) {
                Some(other) => (steps, fault) = (rest, other),
                None => at += length,
            }
        }
        length /= 2;
    }
    (steps, fault)
}
