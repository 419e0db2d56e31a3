//! Recorded results: one JSON file per question in `xtask/bench/results`.

use crate::contender::Role;
use crate::machine::Machine;
use crate::statistics::Spread;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// All recorded figures for a question.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) cases: Vec<Case>,
}

/// One table of comparable figures: the contenders took turns in one run, on one filesystem.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Case {
    /// The difference from the other cases of its question, such as `XFS, cold cache`.
    pub(crate) title: String,
    pub(crate) date: String,
    pub(crate) machine: Machine,
    /// The measured data, such as a tree and its size.
    pub(crate) sizes: String,
    pub(crate) rounds: u32,
    /// The checks of each round.
    pub(crate) checked: String,
    /// The others are compared with the first contender.
    pub(crate) contenders: Vec<Row>,
}

/// The figures of one contender.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) role: Role,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) version: String,
    pub(crate) figures: BTreeMap<String, Spread>,
}

/// Adds a case to the answer to a question, and returns the file.
pub(crate) fn save(question: &str, case: Case) -> Result<PathBuf> {
    let mut answer = load(question)?;
    answer.put(case);
    let path = path(question);
    fs::create_dir_all(path.parent().expect("it has a parent"))?;
    let text = serde_json::to_string_pretty(&answer)? + "\n";
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

impl Answer {
    /// Adds a case. It replaces an earlier case with the same title.
    fn put(&mut self, case: Case) {
        match self.cases.iter_mut().find(|known| known.title == case.title) {
            Some(known) => *known = case,
            None => self.cases.push(case),
        }
    }
}

/// The recorded answer to a question; an empty one if there is none.
pub(crate) fn load(question: &str) -> Result<Answer> {
    let path = path(question);
    if !path.exists() {
        return Ok(Answer::default());
    }
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not as expected", path.display()))
}

fn path(question: &str) -> PathBuf {
    xtask::command::root().join("xtask/bench/results").join(format!("{question}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_replaces_the_one_of_the_same_title() {
        let case = |title: &str, rounds| Case {
            title: title.into(),
            date: String::new(),
            machine: Machine::default(),
            sizes: String::new(),
            rounds,
            checked: String::new(),
            contenders: Vec::new(),
        };
        let mut answer = Answer::default();
        [case("a", 1), case("b", 2), case("a", 3)].into_iter().for_each(|case| answer.put(case));
        let known: Vec<_> = answer.cases.iter().map(|case| (case.title.as_str(), case.rounds)).collect();
        assert_eq!(known, [("a", 3), ("b", 2)]);
    }
}
