//! Wrong command lines.

use super::*;

pub(super) const SCENARIOS: [Scenario; 5] = [
    ("only one path was given", |scene| scene.pleach("snapshot /home")),
    ("cannot take a snapshot of what lies inside the repository", forgotten_repository),
    ("/mnt/disk/new does not exist", another_repository_than_in_the_environment),
    ("the following required arguments", |scene| scene.pleach("restore /backup latest")),
    ("cannot prune without a rule", prune_without_a_rule),
];

fn forgotten_repository(scene: &Scene) -> Option<Run> {
    fs::create_dir_all(scene.path("/data/vm")).unwrap();
    fs::create_dir_all(scene.path("/data/photos")).unwrap();
    scene.pleach("snapshot /data/photos /data/vm /data/vm")
}

fn another_repository_than_in_the_environment(scene: &Scene) -> Option<Run> {
    scene.monday();
    scene.run(scene.command("snapshot /home/ann /mnt/disk/new").env("PLEACH_REPO", scene.path("/backup")))
}

fn prune_without_a_rule(scene: &Scene) -> Option<Run> {
    scene.monday();
    scene.pleach("prune /backup")
}
