//! Wrong command lines.

use super::*;

pub(super) const SCENARIOS: [Scenario; 7] = [
    ("only one path was given", |scene| scene.pleach("snapshot /home")),
    ("/data/vm is a source and also the last path", |scene| scene.pleach("snapshot /data/photos /data/vm /data/vm")),
    ("cannot take a snapshot of /backup/monday", source_inside_the_repository),
    ("/mnt/disk/new does not exist", another_repository_than_in_the_environment),
    ("name the repository, then the snapshot", |scene| scene.pleach("restore /backup")),
    ("the following required arguments", |scene| scene.pleach("restore /backup latest")),
    ("cannot prune without a rule", prune_without_a_rule),
];

fn source_inside_the_repository(scene: &Scene) -> Option<Run> {
    scene.monday();
    scene.pleach("snapshot /backup/monday /backup")
}

fn another_repository_than_in_the_environment(scene: &Scene) -> Option<Run> {
    scene.monday();
    scene.run(scene.command("snapshot /home/ann /mnt/disk/new").env("PLEACH_REPO", scene.path("/backup")))
}

fn prune_without_a_rule(scene: &Scene) -> Option<Run> {
    scene.monday();
    scene.pleach("prune /backup")
}
