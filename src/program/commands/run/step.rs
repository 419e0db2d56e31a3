//! The steps of a run: their order, which steps they need, and how each is done.
//!
//! To add a step, add it to [`Step`] and its functions, and add its section in `profile`.

use super::super::{dedupe, prune, replicate, snapshot, verify};
use crate::error::{ErrorKind, Result};
use crate::program::exit_status::ExitStatus;
use crate::program::output::Output;
use crate::program::output::run::Figure;
use crate::program::profile::Profile;
use crate::snapshot::Repository;
use std::path::PathBuf;

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Snapshot,
    Verify,
    Prune,
    Replicate,
    Dedupe,
}

/// A step that another one needs, and the reasons to skip the other one.
pub(super) struct Need {
    pub(super) step: Step,
    /// If the step was not done.
    pub(super) failed: &'static str,
    /// If it failed, but there is a new snapshot.
    pub(super) volatile: Option<&'static str>,
    /// If it was done, but skipped entries and this matters.
    pub(super) partial: Option<&'static str>,
}

/// The result of a step that did its work.
pub(super) struct Done {
    pub(super) status: ExitStatus,
    pub(super) errors: u64,
    pub(super) figures: Vec<Figure>,
    /// The name of the snapshot that it took.
    pub(super) snapshot: Option<String>,
    /// Its first failure, if the status does not explain it.
    pub(super) error: Option<String>,
}

/// The settings of all steps.
pub(super) struct Context<'a> {
    pub(super) profile: &'a Profile,
    pub(super) threads: Option<usize>,
    pub(super) dry_run: bool,
    pub(super) output: &'a Output,
}

impl Step {
    /// All steps in their order. Verify precedes prune, because the only sound copy of a damaged file may be in a
    /// snapshot that prune would remove. Replicate follows prune, because it would send what prune removes.
    pub(super) const ALL: &'static [Step] = &[Step::Snapshot, Step::Verify, Step::Prune, Step::Replicate, Step::Dedupe];

    /// The name of the step and of its section.
    pub(super) fn name(self) -> &'static str {
        match self {
            Step::Snapshot => "snapshot",
            Step::Verify => "verify",
            Step::Prune => "prune",
            Step::Replicate => "replicate",
            Step::Dedupe => "dedupe",
        }
    }

    /// What must have been done before this step. A step that deletes snapshots needs a new one, and a verification
    /// that found all of them sound: otherwise runs with problems would delete the good snapshots one after the other.
    /// The new snapshot may be incomplete, because the rules never count it instead of a complete one.
    pub(super) fn needs(self, profile: &Profile) -> &'static [Need] {
        const SNAPSHOT: Need = Need {
            step: Step::Snapshot,
            failed: "there is no new snapshot",
            volatile: Some("the new snapshot may not survive a power cut"),
            partial: None,
        };
        const VERIFY: Need = Need {
            step: Step::Verify,
            failed: "verify found damage or failed",
            volatile: None,
            partial: Some("verify skipped files"),
        };
        match self {
            Step::Prune if Step::Verify.is_in(profile) => &[SNAPSHOT, VERIFY],
            Step::Prune => &[SNAPSHOT],
            // If anything is wrong here, a copy elsewhere is needed most of all.
            Step::Snapshot | Step::Verify | Step::Replicate | Step::Dedupe => &[],
        }
    }

    /// Why a dry run skips the step.
    pub(super) fn undone_in_dry_run(self, profile: &Profile) -> Option<&'static str> {
        // If the repository cannot be opened for another reason, the snapshot has failed.
        let is_missing = |repository: &PathBuf| Repository::open(repository).is_err();
        match self {
            Step::Verify => Some("a dry run verifies nothing"),
            Step::Prune | Step::Replicate if profile.repository.as_ref().is_some_and(is_missing) => {
                Some("there is no repository yet")
            }
            Step::Snapshot | Step::Prune | Step::Replicate | Step::Dedupe => None,
        }
    }

    /// Whether a profile has the step.
    pub(super) fn is_in(self, profile: &Profile) -> bool {
        match self {
            Step::Snapshot => profile.snapshot.is_some(),
            Step::Verify => profile.verify.is_some(),
            Step::Prune => profile.prune.is_some(),
            Step::Replicate => profile.replicate.is_some(),
            Step::Dedupe => profile.dedupe.is_some(),
        }
    }

    /// Does the step, and prints its results as its own command does. `None` if the profile does not have it.
    ///
    /// # Errors
    /// If no result of the step can be relied on.
    pub(super) fn run(self, context: &Context<'_>) -> Result<Option<Done>> {
        let (result, state) = match self {
            Step::Snapshot => (take_snapshot(context), snapshot::INTERRUPTED),
            Step::Verify => (check(context), verify::INTERRUPTED),
            Step::Prune => (rotate(context), prune::INTERRUPTED),
            Step::Replicate => (send(context), replicate::INTERRUPTED),
            Step::Dedupe => (share(context), dedupe::INTERRUPTED),
        };
        let state = if context.dry_run { verify::INTERRUPTED } else { state };
        result.map_err(|error| if error.kind() == ErrorKind::Interrupted { error.or_hint(state) } else { error })
    }
}

fn take_snapshot(context: &Context<'_>) -> Result<Option<Done>> {
    let profile = context.profile;
    let (Some(section), Some(repository)) = (&profile.snapshot, &profile.repository) else { return Ok(None) };
    let options = section.options(context.threads, context.dry_run)?;
    let required = section.require_sharing.filter(|_| !context.dry_run);
    let (stats, status) = snapshot::take(&section.sources, repository, &options, required, context.output)?;
    let added = stats.added.unwrap_or_default();
    let figures = vec![
        ("files", "Files in the last snapshot.", stats.files),
        ("size_bytes", "Sum of the file sizes in the last snapshot.", stats.bytes),
        ("new_files", "Files that the snapshot before did not have.", stats.new_files),
        ("changed_files", "Files that differ from the snapshot before.", stats.changed_files),
        ("read_bytes", "Data read for the last snapshot.", stats.read_bytes),
        ("copied_bytes", "Data copied instead of shared.", stats.copied_bytes),
        ("added_data_bytes", "Space that the data of the last snapshot took on the disk.", added.data_bytes),
        ("added_metadata_bytes", "Space that its metadata took, approximately.", added.metadata_bytes),
        ("free_bytes", "Space that was free afterwards.", stats.free_bytes),
    ];
    let error = stats.is_volatile.then(|| format!("snapshot: {} may not survive a power cut", stats.name));
    let name = Some(stats.name).filter(|_| !context.dry_run);
    Ok(Some(Done { status, errors: stats.errors, figures, snapshot: name, error }))
}

fn check(context: &Context<'_>) -> Result<Option<Done>> {
    let (Some(section), Some(repository)) = (&context.profile.verify, &context.profile.repository) else {
        return Ok(None);
    };
    let options = section.options(context.threads);
    let (stats, status) = verify::check(repository, &[], &options, context.output)?;
    let mut figures = vec![
        ("snapshots", "Snapshots that the last verification looked at.", stats.rows.len() as u64),
        ("files", "Files in them.", stats.files),
        ("checked_bytes", "Size of the files that it compared with their hashes.", stats.checked_bytes),
        ("read_bytes", "Data that it read.", stats.read_bytes),
        ("damaged", "Damaged entries and manifests that it found.", stats.damaged),
    ];
    if options.sharing {
        figures.push(("unshared_bytes", "Data that is stored twice although it was shared.", stats.unshared_bytes));
    }
    Ok(Some(Done { status, errors: stats.errors + stats.damaged, figures, snapshot: None, error: None }))
}

fn rotate(context: &Context<'_>) -> Result<Option<Done>> {
    let (Some(section), Some(repository)) = (&context.profile.prune, &context.profile.repository) else {
        return Ok(None);
    };
    if context.dry_run {
        context.output.info("prune: these are the snapshots of now; a run also counts the one that it takes");
    }
    let options = section.options(context.threads, context.dry_run);
    let (stats, status) = prune::rotate(repository, options, context.output)?;
    let figures = vec![
        ("kept", "Snapshots that the last pruning kept.", stats.kept),
        ("removed", "Snapshots that it removed.", stats.removed),
        ("freed_bytes", "Space that it freed.", stats.freed.bytes),
    ];
    Ok(Some(Done { status, errors: stats.errors, figures, snapshot: None, error: None }))
}

fn send(context: &Context<'_>) -> Result<Option<Done>> {
    let (Some(section), Some(repository)) = (&context.profile.replicate, &context.profile.repository) else {
        return Ok(None);
    };
    if context.dry_run {
        context.output.info("replicate: these are the snapshots of now; a run also sends the one that it takes");
    }
    let options = section.options(context.threads, context.dry_run);
    let sums = replicate::transfer_to_all(
        repository,
        &section.destinations(),
        section.skip_missing,
        &options,
        context.output,
    )?;
    let figures = vec![
        ("snapshots", "Snapshots that the last replication sent, to all destinations.", sums.snapshots),
        ("sent_bytes", "Content that it sent.", sums.sent_bytes),
        ("wire_bytes", "Data that it transferred, compressed.", sums.wire_bytes),
        ("destinations", "Destinations that have all the snapshots now.", sums.complete),
    ];
    Ok(Some(Done { status: sums.status, errors: sums.errors, figures, snapshot: None, error: sums.error }))
}

fn share(context: &Context<'_>) -> Result<Option<Done>> {
    let Some(section) = &context.profile.dedupe else { return Ok(None) };
    let options = section.options(context.threads, context.dry_run)?;
    let (stats, status) = dedupe::share(&section.paths, &options, context.output)?;
    let figures = vec![
        ("files", "Files that the last dedupe looked at.", stats.files),
        ("read_bytes", "Data read by the last dedupe.", stats.read_bytes),
        ("freed_bytes", "Space freed by the last dedupe.", stats.freed_bytes),
    ];
    Ok(Some(Done { status, errors: stats.errors, figures, snapshot: None, error: None }))
}
