//! Repositories that cannot be used.

use super::*;
use crate::harness::mounted::Mounted;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;

pub(super) const SCENARIOS: [Scenario; 9] = [
    ("cannot make a repository of", other_things),
    ("cannot find a pleach repository in", |scene| scene.pleach("list /home/ann")),
    ("cannot find a repository at", |scene| scene.pleach("list /backup")),
    ("cannot find a repository at latest", |scene| scene.pleach("restore latest /backup --target /data/out")),
    ("cannot open the repository", of_another_user),
    ("cannot lock the repository", locked),
    ("cannot open /backup/.pleach/lock", read_only),
    ("cannot use format 2", of_a_later_format),
    ("cannot read the header, totals or end of the manifest", damaged),
];

fn other_things(scene: &Scene) -> Option<Run> {
    fs::create_dir(scene.path("/data/docs")).unwrap();
    write(scene.path("/data/docs/letter"), b"precious");
    scene.pleach("snapshot /home/ann /data/docs")
}

fn of_another_user(scene: &Scene) -> Option<Run> {
    scene.monday();
    scene.as_user("list /backup")
}

fn locked(scene: &Scene) -> Option<Run> {
    scene.monday();
    let lock = File::open(scene.path("/backup/.pleach/lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    scene.pleach("snapshot /home/ann /backup")
}

fn read_only(scene: &Scene) -> Option<Run> {
    scene.monday();
    let backup = scene.path("/backup");
    let _mounted = Mounted::bind(&backup, &backup);
    finish(Command::new("mount").args(["-o", "remount,bind,ro"]).arg(&backup)).expect(0);
    scene.pleach("snapshot /home/ann /backup")
}

fn of_a_later_format(scene: &Scene) -> Option<Run> {
    scene.monday();
    let path = scene.path("/backup/.pleach/format");
    let format = fs::read_to_string(&path).unwrap();
    write(path, format.replace('1', "2").as_bytes());
    scene.pleach("list /backup")
}

fn damaged(scene: &Scene) -> Option<Run> {
    scene.monday();
    overwrite(&scene.path("/backup/.pleach/manifests/monday"), 60, b"XXXX");
    scene.pleach("restore /backup monday --target /data/out")
}
