//! Removing, pruning, sharing, profiles and other hosts.

use super::*;

pub(super) const REMOVING: [Scenario; 2] =
    [("cannot remove the snapshot", pinned), ("cannot free enough space in", nothing_more_to_prune)];

pub(super) const DEDUPE: [Scenario; 2] = [
    ("cannot dedupe /home/ann: ext4", |_| Scene::on(Kind::Ext4)?.pleach("dedupe /home/ann")),
    ("cannot share the data of", of_another_user),
];

pub(super) const PROFILES: [Scenario; 6] = [
    ("cannot find the profile", no_profile),
    ("cannot run the profile as root", a_profile_that_others_can_write),
    ("cannot run the hook", a_hook_that_fails),
    ("cannot run nosuchprogram", a_hook_without_a_program),
    ("cannot connect to", no_host),
    ("interrupted", interrupted),
];

fn pinned(scene: &Scene) -> Option<Run> {
    scene.monday();
    scene.pleach("pin -q /backup monday")?.expect(0);
    scene.pleach("remove /backup monday")
}

fn nothing_more_to_prune(scene: &Scene) -> Option<Run> {
    scene.monday();
    scene.pleach("prune --keep-free 99.9% /backup")
}

fn of_another_user(_: &Scene) -> Option<Run> {
    let scene = Scene::on(Kind::Btrfs)?;
    write(scene.path("/home/ann/c"), &bytes(1, 200_000));
    scene.as_user("dedupe /home/ann")
}

fn no_profile(scene: &Scene) -> Option<Run> {
    scene.run(scene.command("run nosuch").env("HOME", scene.path("/root")).env_remove("XDG_CONFIG_HOME"))
}

/// Writes a profile with these hooks.
fn profile(scene: &Scene, hooks: &str, mode: u32) {
    let [repository, source] = ["/backup", "/home/ann"].map(|path| scene.path(path).display().to_string());
    let text = format!("repository = {repository:?}\n[snapshot]\nsources = [{source:?}]\n[hooks]\n{hooks}\n");
    write(scene.path("/data/p.toml"), text.as_bytes());
    fs::set_permissions(scene.path("/data/p.toml"), fs::Permissions::from_mode(mode)).unwrap();
}

fn a_profile_that_others_can_write(scene: &Scene) -> Option<Run> {
    profile(scene, "", 0o666);
    scene.pleach("run /data/p.toml")
}

fn a_hook_that_fails(scene: &Scene) -> Option<Run> {
    profile(scene, "before = [\"false\"]", 0o600);
    scene.pleach("run /data/p.toml")
}

fn a_hook_without_a_program(scene: &Scene) -> Option<Run> {
    profile(scene, "before = [\"nosuchprogram\"]", 0o600);
    scene.pleach("run /data/p.toml")
}

/// The reason depends on the machine's name servers, so none is used.
fn no_host(scene: &Scene) -> Option<Run> {
    scene.monday();
    write(scene.path("/data/nsswitch.conf"), b"hosts: files\npasswd: files\n");
    let mut alone = Command::new("unshare");
    alone.args(["--mount", "sh", "-c", "mount --bind \"$0\" /etc/nsswitch.conf && exec \"$@\""]);
    alone.arg(scene.path("/data/nsswitch.conf")).arg(env!("CARGO_BIN_EXE_pleach"));
    scene.run(alone.args(scene.words("replicate /backup ssh://nosuchhost.invalid/backup")))
}

fn interrupted(scene: &Scene) -> Option<Run> {
    for number in 0..40 {
        let dir = scene.path(&format!("/home/ann/{number}"));
        fs::create_dir(&dir).unwrap();
        write(dir.join("file"), b"x");
    }
    let words: Vec<_> = scene.words("snapshot -j1 /home/ann /backup").collect();
    Some(scene.documented(tools::interrupted_at("getdents64", 30, words.iter().map(OsString::as_os_str))))
}
