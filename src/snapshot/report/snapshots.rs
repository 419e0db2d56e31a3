//! The snapshots of a report: listed, grouped, and measured.

use super::stats::{Group, Pruning, Row, Stats};
use super::work::Work;
use crate::error::{Error, Result};
use crate::snapshot::prune::{self, Keep};
use crate::snapshot::{du, list, repository};
use std::collections::HashMap;
use std::path::PathBuf;

/// Lists the snapshots, and groups them.
pub(super) fn list(work: &Work<'_>, stats: &mut Stats) -> Result<()> {
    let options = list::Options { exclusive: false, threads: work.options.threads };
    let listed = list::list(work.repo, &options, work.monitor)?;
    let mut groups: Vec<Group> = Vec::new();
    let mut known: HashMap<(String, Vec<PathBuf>), usize> = HashMap::new();
    for (number, row) in listed.rows.into_iter().enumerate() {
        let list::Row { name, created, host, mut sources, tags, pinned, totals, added, .. } = row;
        sources.sort();
        let group = *known.entry((host, sources)).or_insert_with_key(|(host, sources)| {
            groups.push(Group { host: host.clone(), sources: sources.clone(), snapshots: Vec::new() });
            groups.len() - 1
        });
        groups[group].snapshots.push(number);
        stats.snapshots.push(Row {
            local: work.calendar.local(created),
            problems: repository::problems(work.repository, &name),
            name,
            created,
            group,
            tags,
            pinned,
            files: totals.files,
            bytes: totals.bytes,
            added,
            errors: totals.errors,
            freed: None,
            kept: None,
        });
    }
    sort(groups, stats);
    let names = work.repository.snapshot_names()?;
    let is_listed = |name: &String| stats.snapshots.iter().any(|row| row.name == *name);
    stats.unlisted = names.into_iter().filter(|name| !is_listed(name)).collect();
    Ok(())
}

/// Puts the group of the newest snapshot first.
fn sort(groups: Vec<Group>, stats: &mut Stats) {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|group| std::cmp::Reverse(groups[*group].snapshots.last().copied()));
    let mut places = vec![0; groups.len()];
    for (place, group) in order.iter().enumerate() {
        places[*group] = place;
    }
    for row in &mut stats.snapshots {
        row.group = places[row.group];
    }
    let mut groups: Vec<_> = groups.into_iter().zip(places).collect();
    groups.sort_by_key(|(_, place)| *place);
    stats.groups = groups.into_iter().map(|(group, _)| group).collect();
}

/// Measures what removing each snapshot would free, and what a prune would do.
pub(super) fn measure(work: &Work<'_>, stats: &mut Stats) -> Result<()> {
    let keep = &work.options.keep;
    if stats.snapshots.is_empty() || !work.options.measure {
        return Ok(());
    }
    let options = du::Options { threads: work.options.threads, ..du::Options::default() };
    let measured = work.or_report(du::du(work.repo, &[], &options, work.monitor))?;
    let freed: HashMap<String, du::Freed> =
        measured.into_iter().flat_map(|measured| measured.rows).map(|row| (row.name, row.freed)).collect();
    for row in &mut stats.snapshots {
        row.freed = freed.get(&row.name).copied();
    }
    let is_given = !keep.is_empty();
    let options = prune::Options {
        keep: if is_given { keep.clone() } else { Keep { last: 1, ..Keep::default() } },
        dry_run: true,
        no_wait: false,
        time_zone: work.options.time_zone.clone(),
        require_local_time: work.options.require_local_time,
        threads: work.options.threads,
    };
    let pruned = prune::prune(work.repo, &options, work.monitor).map_err(Error::from);
    let Some(pruned) = work.or_report(pruned)? else { return Ok(()) };
    let prune::Stats { rows, kept, removed, removed_bound, freed, .. } = pruned;
    let mut reasons: HashMap<String, Vec<prune::Reason>> =
        rows.into_iter().map(|row| (row.name, row.reasons)).collect();
    for row in &mut stats.snapshots {
        row.kept = reasons.remove(&row.name);
    }
    stats.pruning = Some(Pruning { is_given, kept, removed, removed_bound, freed });
    Ok(())
}
