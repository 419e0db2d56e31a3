//! `pleach offsite restore` over an older version of the tree.

use super::replaced::Manner;
use super::restore::Restore;
use super::trees::Versions;
use super::*;
use crate::offsite::stores::{PASSWORD, take_quick_key};

cut_between_requests!(restored);

fn restored(fs: &Filesystem, way: Way) {
    let other = fs.elsewhere();
    let Some(shelf) = shelf(fs) else { return };
    let versions = Versions::make(&other.dir("source"));
    let (repo, store, home) = (other.join("repo"), other.join("store"), other.join("home"));
    settle();
    finish(pleach_command(["snapshot", "--quiet"]).args([&versions.new, &repo])).expect(0);
    let offsite = |verb| {
        let mut command = pleach_command(["offsite", verb, "--to"]);
        command.arg(&store).env("RESTIC_PASSWORD", PASSWORD);
        // For the cache.
        command.env("HOME", &home).env_remove("XDG_CACHE_HOME");
        command
    };
    finish(&mut offsite("init")).expect(0);
    take_quick_key(&store);
    finish(offsite("push").arg(&repo)).expect(0);
    let target = shelf.mount_point().join("target");
    let command = || {
        let mut command = offsite("restore");
        command.arg("--target").arg(&target);
        command
    };
    cut(&shelf, way, &Restore::new(versions, &target, Manner::InPlace, &command));
}
