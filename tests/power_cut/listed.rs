//! The snapshots of a repository after a power cut.

use super::trees;
use super::*;

/// Compares each listed snapshot with the state that its source had, and returns their names, sorted. Each directory
/// that a user sees in the repository must be a listed snapshot.
pub(super) fn check<'v>(
    repo: &Path,
    source: &Path,
    state: impl Fn(&str) -> &'v Path,
    faults: &mut Faults,
) -> Vec<String> {
    let run = finish(pleach_command(["list", "--json"]).arg(repo));
    if run.status != 0 {
        faults.push(format!("the snapshots cannot be listed: {}", run.stderr));
        return Vec::new();
    }
    let mut names: Vec<_> = run.lines::<json_lines::Snapshot>().into_iter().map(|snapshot| snapshot.name).collect();
    names.sort();
    if names != published(repo) {
        faults.push(format!("listed are {names:?}, there are {:?}", published(repo)));
    }
    for name in &names {
        let before = faults.len();
        trees::compare(state(name), &inside(repo, name, source), faults);
        if faults.len() > before {
            faults.push(format!("… in the snapshot {name}, which is listed"));
        }
    }
    names
}
