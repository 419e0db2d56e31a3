//! Restores that fail, or lack something.

use super::*;
use crate::harness::mounted::Mounted;

pub(super) const SCENARIOS: [Scenario; 9] = [
    ("cannot find a snapshot 'tuesday'", |scene| restore(scene, "tuesday --target /data/out")),
    ("cannot find a snapshot 'before'", |scene| {
        scene.pleach("snapshot -q --name monday --tag before /home/ann /backup")?.expect(0);
        scene.pleach("restore /backup before --target /data/out")
    }),
    ("cannot choose a snapshot for", ambiguous),
    ("cannot find /home/ann/letter", |scene| restore(scene, "latest /home/ann/letter --target /data/out")),
    ("cannot restore the path letter", |scene| restore(scene, "latest letter --target /data/out")),
    ("cannot make the target", to_a_read_only_filesystem),
    ("cannot restore /data/out/home/ann/b: Is a directory", over_a_directory),
    ("cannot restore all metadata", without_rights),
    ("cannot restore /data/out/home/ann/b (the snapshot's content", of_damage),
];

fn restore(scene: &Scene, rest: &str) -> Option<Run> {
    scene.monday();
    scene.pleach(&format!("restore /backup {rest}"))
}

fn ambiguous(scene: &Scene) -> Option<Run> {
    for name in ["2026-11-20", "2026-11-21"] {
        scene.pleach(&format!("snapshot -q --name {name} /home/ann /backup"))?.expect(0);
    }
    scene.pleach("restore /backup 2026-11 --target /data/out")
}

fn to_a_read_only_filesystem(scene: &Scene) -> Option<Run> {
    let disk = Mounted::tmpfs(&scene.path("/mnt/disk"));
    finish(Command::new("mount").args(["-o", "remount,ro"]).arg(disk.path())).expect(0);
    restore(scene, "latest --target /mnt/disk/out")
}

/// The place of a path below `/data/out`.
fn restored(scene: &Scene, documented: &str) -> PathBuf {
    scene.path("/data/out").join(scene.path(documented).strip_prefix("/").unwrap())
}

fn over_a_directory(scene: &Scene) -> Option<Run> {
    let place = restored(scene, "/home/ann/b");
    fs::create_dir_all(&place).unwrap();
    write(place.join("file"), b"x");
    restore(scene, "monday --target /data/out")
}

fn without_rights(scene: &Scene) -> Option<Run> {
    scene.monday();
    finish(Command::new("chmod").args(["-R", "a+rX"]).arg(scene.path("/backup"))).expect(0);
    scene.as_user("restore /backup latest --target /data/out")
}

fn of_damage(scene: &Scene) -> Option<Run> {
    scene.monday();
    overwrite(&scene.in_monday("/home/ann/b"), 5000, b"damage");
    scene.pleach("restore --verify /backup monday --target /data/out")
}
