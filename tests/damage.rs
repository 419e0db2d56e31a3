//! Each kind of damage to each thing that pleach keeps or reads, and then each command: none panics, exhausts the
//! memory, hangs, or falsely claims success.
//!
//! The kinds are in `kinds`, the things in `objects`, the commands in `commands`; each says which combinations make no
//! sense, and why. `site` makes the repository, `judge` decides what a command may do.

mod commands;
mod judge;
mod kinds;
mod objects;
mod site;

use crate::harness::random::{Random, seed};
use crate::harness::*;
use crate::on_filesystems;
use commands::Command;
use judge::{Case, Trees, tree_file};
use kinds::Damage;
use objects::Object;
use site::Site;
use std::collections::{BTreeSet, HashMap};
use std::env;
use std::fs::File;
use std::path::PathBuf;
use std::process::{self, Stdio};

/// The limits on each run: seconds, and bytes of addresses.
const SECONDS: &str = "60";
const ADDRESSES: &str = "--as=2147483648";

/// Of this many kinds of damage to each thing, one is chosen, and another one in each run of the tests.
/// `PLEACH_TEST_DAMAGE=1` chooses all.
const PART: usize = 8;

/// The chosen kinds of damage to a thing.
fn chosen(object: Object, kind: Kind) -> Vec<Damage> {
    let part = env::var("PLEACH_TEST_DAMAGE").map_or(PART, |part| part.parse().expect("it is a number"));
    let first = Random(seed()).below(part) + object as usize;
    let possible = Damage::ALL.into_iter().filter(|damage| object.cannot_be(*damage, kind).is_none());
    possible.enumerate().filter(|(number, _)| (number + first).is_multiple_of(part)).map(|(_, damage)| damage).collect()
}

/// Runs a command within the limits.
fn run(command: Command, object: Object, damage: Option<Damage>, site: &Site) -> Run {
    let mut limited = process::Command::new("timeout");
    limited.args(["--signal=KILL", SECONDS, "prlimit", ADDRESSES]);
    if damage == Some(Damage::Unreadable) {
        // As root, but bound by permissions.
        limited.args(["setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search"]);
    }
    limited.arg(env!("CARGO_BIN_EXE_pleach")).args(command.arguments(site, &tree_file(object, site)));
    let input = command.input(site).and_then(|path| File::open(path).ok());
    limited.env_remove("PLEACH_REPO").stdin(input.map_or_else(Stdio::null, Stdio::from));
    finish(&mut limited)
}

/// All combinations with these objects.
#[track_caller]
fn assert_no_wrong_success(fs: &Filesystem, objects: &[Object]) {
    let site = Site::new(fs);
    let mut sound: HashMap<(Command, PathBuf), Run> = HashMap::new();
    let (mut count, mut faults) = (0, Vec::new());
    for &object in objects {
        let commands = Command::ALL.into_iter().filter(|command| command.is_harmless().is_none());
        let commands: Vec<_> = commands.filter(|command| object.is_no_matter_for(*command).is_none()).collect();
        site.renew_inputs();
        for &command in &commands {
            let key = (command, tree_file(object, &site));
            if sound.contains_key(&key) {
                continue;
            }
            site.renew();
            let run = run(command, object, None, &site);
            assert_eq!(run.status, 0, "{command:?} on a sound repository: {run:?}");
            sound.insert(key, run);
        }
        for damage in chosen(object, site.kind()) {
            let mut is_as_damaged = false;
            for &command in &commands {
                if !is_as_damaged {
                    site.renew();
                    site.renew_inputs();
                    object.inflict(damage, &site);
                }
                site.clear();
                let state = tools::inventory(&site.repo);
                let before = Trees::of(&site.repo);
                let run = run(command, object, Some(damage), &site);
                let sound = &sound[&(command, tree_file(object, &site))];
                let case = Case { site: &site, object, damage, command, run: &run, sound, before: &before };
                count += 1;
                let found = case.faults();
                is_as_damaged = command.only_reads() || tools::inventory(&site.repo) == state;
                if !found.is_empty() {
                    report(&format!("{object:?} {damage:?}: {command:?}: {found:#?}\n{run:?}"));
                    faults.push(format!("{object:?} {damage:?}: {command:?}"));
                }
            }
        }
    }
    counted(count, "combinations of damage and command");
    assert!(faults.is_empty(), "{} of {count}:\n{}", faults.len(), faults.join("\n"));
}

on_filesystems! {
    [xfs, btrfs] fn a_damaged_manifest_is_never_taken_for_a_sound_one(fs: &Filesystem) {
        assert_no_wrong_success(fs, &[Object::Manifest, Object::LastManifest]);
    }

    [xfs, btrfs] fn a_damaged_tree_is_never_taken_for_a_sound_one(fs: &Filesystem) {
        let trees: Vec<_> = Object::ALL.into_iter().filter(|object| object.is_in_tree()).collect();
        assert_no_wrong_success(fs, &trees);
    }

    [xfs] fn damaged_records_of_a_repository_change_no_result_without_a_word(fs: &Filesystem) {
        let objects = [Object::Format, Object::Lock, Object::Latest, Object::Marks, Object::Added];
        assert_no_wrong_success(fs, &objects);
    }

    [xfs, btrfs] fn damaged_records_that_only_save_time_change_no_result(fs: &Filesystem) {
        assert_no_wrong_success(fs, &[Object::BlockHashes, Object::Map, Object::Seen]);
    }

    [xfs, btrfs] fn damaged_remains_of_a_stopped_run_get_into_no_snapshot(fs: &Filesystem) {
        let objects = [Object::StagingArea, Object::StagedFile, Object::StagedManifest, Object::FinishedList];
        assert_no_wrong_success(fs, &objects);
    }

    [xfs] fn damaged_input_is_refused_or_ignored(fs: &Filesystem) {
        let objects = [Object::DedupeCache, Object::Stream, Object::BasedStream, Object::Profile];
        assert_no_wrong_success(fs, &objects);
    }
}

#[test]
fn every_command_meets_damage_or_says_why_not() {
    let help = pleach(["--help"]).expect(0).stdout;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let listed: BTreeSet<&str> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    let mut known: BTreeSet<&str> = Command::ALL.iter().map(|command| command.name()).collect();
    if cfg!(not(feature = "offsite")) {
        known.remove("offsite");
    }
    // Both are listed in the help of their own.
    let hidden = known.iter().filter(|name| !listed.contains(*name));
    let hidden: Vec<_> = hidden.filter(|name| pleach([**name, "--help"]).status != 0).collect();
    assert!(hidden.is_empty(), "no commands: {hidden:?}");
    let missing: Vec<_> = listed.difference(&known).collect();
    assert!(missing.is_empty(), "not in the matrix: {missing:?}");
}
