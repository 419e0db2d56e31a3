//! `pleach offsite`: snapshots come into a store of restic's format, in a directory and behind servers of each kind.
//! restic itself is the witness.

mod changes;
mod damage;
mod exchanged;
mod faulty;
mod forged;
mod incomplete;
mod interrupted;
mod kept;
mod library;
mod lines;
mod links;
mod reads;
mod refused;
mod restores;
mod rights;
mod secrets;
mod servers;
pub(crate) mod stores;

use crate::harness::*;
use crate::on_filesystems;
use lines::*;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use stores::{Backend, Store};

/// Takes a snapshot with this name.
#[track_caller]
fn take(name: &str, source: &Path, repo: &Path) {
    settle();
    pleach(snapshot_named(name, source, repo)).expect(0);
}

/// What changes in a tree of a few files between two snapshots.
#[track_caller]
fn change(source: &Path) {
    overwrite(&source.join("a"), 100, b"changed");
    write(source.join("new"), &bytes(100, 30_000));
    fs::remove_file(source.join("c/one")).unwrap();
    fs::rename(source.join("c/two"), source.join("two")).unwrap();
}

/// A tree of a few files, and a repository with two snapshots of it. `two` is the tree as it is now.
fn two_nights(fs: &Filesystem) -> (PathBuf, PathBuf) {
    let (source, repo) = (fs.dir("source"), fs.join("repo"));
    tree::plain(&source);
    take("one", &source, &repo);
    change(&source);
    take("two", &source, &repo);
    (source, repo)
}

/// Where the copy of a path lies below the directory of a restore.
fn below(dir: &Path, path: &Path) -> PathBuf {
    dir.join(path.strip_prefix("/").expect("sources are absolute"))
}

/// The snapshots that restic sees.
#[track_caller]
fn seen_by_restic(store: &Store) -> Vec<serde_json::Value> {
    let run = store.restic(&["snapshots".as_ref(), "--json".as_ref()]).expect(0);
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"))
}

/// The names that `pleach offsite list` gives.
#[track_caller]
fn in_store(store: &Store) -> Vec<String> {
    store.run("list", &[]).expect(0).lines::<Listed>().into_iter().map(|snapshot| snapshot.name).collect()
}

/// Everything that a user does in a life of a store.
#[track_caller]
fn life_of_a_store(fs: &Filesystem, backend: Backend) {
    let (source, repo, store) = (fs.dir("source"), fs.join("repo"), Store::start(fs, backend));
    tree::plain(&source);
    store.run("init", &[]).expect(0);
    store.run("init", &[]).expect(1).saying("already");
    store.take_quick_key(&fs.join("store"));

    take("one", &source, &repo);
    let sent: PushSums = sums(&store.push(&repo));
    assert_eq!((sent.snapshots, sent.errors), (1, 0), "{sent:?}");
    let first = fs.dir("first");
    finish(std::process::Command::new("cp").arg("-a").arg(source.join(".")).arg(&first)).expect(0);
    change(&source);
    take("two", &source, &repo);
    let dry = store.run("push", &["--dry-run".as_ref(), repo.as_ref()]).expect(0);
    assert_eq!(dry.lines::<Pushed>().into_iter().map(|line| line.name).collect::<Vec<_>>(), ["two"]);
    assert_eq!(in_store(&store), ["one"]);
    let sent: PushSums = sums(&store.push(&repo));
    assert_eq!((sent.snapshots, sent.errors), (1, 0), "{sent:?}");
    assert_eq!(sums::<PushSums>(&store.push(&repo)).snapshots, 0);

    store.assert_sound();
    assert_eq!(in_store(&store), ["one", "two"]);
    let seen = seen_by_restic(&store);
    let paths = serde_json::json!([source]);
    assert!(seen.len() == 2 && seen.iter().all(|snapshot| snapshot["paths"] == paths), "{seen:?}");
    let check: CheckSums = sums(&store.run("check", &["--read-data".as_ref()]).expect(0));
    assert_eq!(check.damaged, 0);

    tools::assert_equal_trees(&source, &below(&store.restic_restores("latest", fs.join("by restic")), &source));
    tools::assert_equal_trees(&source, &below(&store.restores("latest", fs.join("by pleach")), &source));
    tools::assert_equal_trees(&first, &below(&store.restores("one", fs.join("the first")), &source));

    let policy = ["--keep-last".as_ref(), "1".as_ref(), "--dry-run".as_ref()];
    let dry: PruneSums = sums(&store.run("prune", &policy).expect(0));
    assert_eq!((dry.kept, dry.removed), (1, 1), "{dry:?}");
    assert_eq!(in_store(&store), ["one", "two"]);
    let done: PruneSums = sums(&store.run("prune", &policy[..2]).expect(0));
    assert_eq!((done.kept, done.removed, done.errors), (1, 1, 0), "{done:?}");
    assert_eq!(in_store(&store), ["two"]);
    store.assert_sound();
    tools::assert_equal_trees(&source, &below(&store.restores("two", fs.join("after prune")), &source));
}

on_filesystems! {
    [xfs, btrfs] fn a_store_in_a_directory_has_a_whole_life(fs: &Filesystem) {
        life_of_a_store(fs, Backend::Local);
    }

    [xfs] fn a_store_behind_ssh_has_a_whole_life(fs: &Filesystem) {
        life_of_a_store(fs, Backend::Sftp);
    }

    [xfs] fn a_store_behind_rest_has_a_whole_life(fs: &Filesystem) {
        life_of_a_store(fs, Backend::Rest);
    }

    [xfs] fn a_store_in_s3_has_a_whole_life(fs: &Filesystem) {
        life_of_a_store(fs, Backend::S3);
    }

    [xfs] fn a_store_in_azure_has_a_whole_life(fs: &Filesystem) {
        life_of_a_store(fs, Backend::Azure);
    }

    [xfs] fn the_forms_of_a_url_reach_the_same_store(fs: &Filesystem) {
        let (_, repo) = two_nights(fs);
        let mut store = Store::made(fs, Backend::Sftp);
        store.push(&repo);
        let dir = fs.join("store").display().to_string();
        for url in [format!("sftp://nas/{dir}"), format!("sftp://root@nas:22/{dir}"), format!("sftp:root@nas:{dir}")] {
            store.url = url;
            assert_eq!(in_store(&store), ["one", "two"], "{}", store.url);
        }
        store.url = format!("local:{dir}");
        assert_eq!(in_store(&store), ["one", "two"]);
        let mut list = store.program(env!("CARGO_BIN_EXE_pleach"));
        list.args(["offsite", "list", "--json"]).env("PLEACH_OFFSITE", &dir);
        assert_eq!(finish(&mut list).expect(0).lines::<Listed>().len(), 2);
    }

    [xfs, btrfs] fn entries_of_every_kind_come_back(fs: &Filesystem) {
        let (source, repo, store) = (fs.dir("source"), fs.join("repo"), Store::made(fs, Backend::Local));
        tree::every_kind(&source);
        take("one", &source, &repo);
        store.push(&repo);
        store.assert_sound();
        assert_equal_for_restic(&source, &below(&store.restores("latest", fs.join("by pleach")), &source));
        assert_equal_for_restic(&source, &below(&store.restic_restores("latest", fs.join("by restic")), &source));
    }

    [xfs] fn several_sources_and_paths_of_the_root_come_back(fs: &Filesystem) {
        let (repo, store) = (fs.join("repo"), Store::made(fs, Backend::Local));
        let sources = [fs.dir("x/one"), fs.dir("x/two"), fs.dir("y")];
        sources.iter().for_each(|source| tree::plain(source));
        settle();
        let words = [OsStr::new("snapshot"), "-q".as_ref()].into_iter();
        pleach(words.chain(sources.iter().map(|source| source.as_os_str())).chain([repo.as_ref()])).expect(0);
        store.push(&repo);
        store.assert_sound();
        let (ours, theirs) =
            (store.restores("latest", fs.join("ours")), store.restic_restores("latest", fs.join("theirs")));
        for source in &sources {
            tools::assert_equal_trees(source, &below(&ours, source));
            tools::assert_equal_trees(source, &below(&theirs, source));
        }
        let mut paths: Vec<_> = sources.iter().map(|source| source.display().to_string()).collect();
        paths.sort();
        assert_eq!(store.run("list", &[]).expect(0).lines::<Listed>()[0].paths(), paths);
        assert_eq!(seen_by_restic(&store)[0]["paths"], serde_json::json!(paths));
    }

    [xfs] fn the_root_of_a_filesystem_tree_is_a_source(fs: &Filesystem) {
        let (root, store) = (fs.dir("root"), Store::made(fs, Backend::Local));
        for dir in ["etc", "data", "proc", "dev", "tmp"] {
            fs::create_dir(root.join(dir)).unwrap();
        }
        tree::plain(&root.join("data"));
        write(root.join("etc/hosts"), b"127.0.0.1 localhost\n");
        fs::copy(env!("CARGO_BIN_EXE_pleach"), root.join("pleach")).unwrap();
        for dir in ["lib", "lib64", "usr"] {
            let _ = std::os::unix::fs::symlink(Path::new("/host").join(dir), root.join(dir));
        }
        // In a root of its own, where / is small. The host's libraries are on another filesystem, which is not crossed.
        let script = format!(
            "mkdir -p '{0}/host' && mount --rbind / '{0}/host' && mount -t proc proc '{0}/proc' && \
             exec chroot '{0}' /pleach snapshot -q --name root --one-file-system --exclude /repo / /repo",
            root.display()
        );
        let mut unshare = std::process::Command::new("unshare");
        settle();
        finish(unshare.args(["--mount", "sh", "-c", &script])).expect(0);
        let repo = root.join("repo");
        store.push(&repo);
        store.assert_sound();
        assert_eq!(seen_by_restic(&store)[0]["paths"], serde_json::json!(["/"]));
        let restored = store.restores("latest", fs.join("to"));
        tools::assert_equal_trees(&root.join("data"), &restored.join("data"));
        tools::assert_equal_trees(&root.join("etc"), &restored.join("etc"));
        let theirs = store.restic_restores("latest", fs.join("theirs"));
        tools::assert_equal_trees(&root.join("data"), &theirs.join("data"));
    }

    [xfs] fn the_store_knows_host_time_sources_and_tags(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        let store = Store::made(fs, Backend::Local);
        settle();
        let tags = ["--tag".as_ref(), "monthly".as_ref(), "--tag".as_ref(), "before-upgrade".as_ref()];
        pleach(snapshot_named("one", &source, &repo).into_iter().chain(tags)).expect(0);
        let pushed = store.push(&repo).lines::<Pushed>();
        let [listed]: [Listed; 1] = store.run("list", &[]).expect(0).lines().try_into().expect("one line");
        let seen = &seen_by_restic(&store)[0];
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        assert_eq!((&listed.host, seen["hostname"].as_str().unwrap()), (&host, host.as_str()));
        assert_eq!(listed.paths(), [source.display().to_string()]);
        let local = pleach([OsStr::new("list"), "--json".as_ref(), repo.as_ref()]).expect(0).lines_of_type("snapshot");
        assert_eq!(listed.created, local[0]["created"].as_str().unwrap());
        let second = |time: &str| time.parse::<jiff::Timestamp>().unwrap().as_second();
        assert_eq!(second(seen["time"].as_str().unwrap()), second(&listed.created));
        let mut tags = listed.tags.clone();
        tags.retain(|tag| !tag.starts_with("pleach:"));
        tags.sort();
        assert_eq!(tags, ["before-upgrade", "monthly"]);
        assert!(seen["tags"].as_array().unwrap().iter().any(|tag| tag == "pleach:one"), "{seen}");
        assert_eq!(listed.files, 5);
        assert_eq!(listed.bytes, (0..5).map(|number| 10_000 + number * 50_000).sum::<u64>());
        assert_eq!(Some(&listed.id), pushed[0].id.as_ref());
        assert!(seen["id"].as_str().unwrap().starts_with(&listed.id), "{seen}");
    }

    [xfs] fn what_was_excluded_stays_out(fs: &Filesystem) {
        let (source, repo, store) = (fs.dir("source"), fs.join("repo"), Store::made(fs, Backend::Local));
        tree::plain(&source);
        settle();
        let exclude = ["--exclude".as_ref(), "c/d".as_ref()];
        pleach(snapshot_named("one", &source, &repo).into_iter().chain(exclude)).expect(0);
        store.push(&repo);
        let restored = below(&store.restic_restores("latest", fs.join("to")), &source);
        assert_eq!(names(&restored.join("c")), ["one", "two"]);
    }

    [xfs] fn chosen_snapshots_are_pushed_alone(fs: &Filesystem) {
        let (source, repo) = two_nights(fs);
        for name in ["three", "four"] {
            write(source.join(name), &bytes(7, 9000));
            take(name, &source, &repo);
        }
        let store = Store::made(fs, Backend::Local);
        store.run("push", &[repo.as_ref(), "two".as_ref()]).expect(0);
        assert_eq!(in_store(&store), ["two"]);
        store.run("push", &["--last".as_ref(), "1".as_ref(), repo.as_ref()]).expect(0);
        assert_eq!(in_store(&store), ["two", "four"]);
        store.run("push", &[repo.as_ref(), "nowhere".as_ref()]).expect(1).saying("nowhere");
        store.push(&repo);
        assert_eq!(in_store(&store), ["one", "two", "three", "four"]);
        store.assert_sound();
        for name in ["one", "two", "three", "four"] {
            let restored = below(&store.restores(name, fs.join(name)), &source);
            tools::assert_equal_trees(&inside(&repo, name, &source), &restored);
        }
    }

    [xfs] fn a_part_of_a_snapshot_is_restored(fs: &Filesystem) {
        let (source, repo) = two_nights(fs);
        let store = Store::made(fs, Backend::Local);
        store.push(&repo);
        let (to, dir, file) = (fs.join("to"), source.join("c/d"), source.join("b"));
        let args = [OsStr::new("--target"), to.as_ref(), "one".as_ref(), dir.as_ref(), file.as_ref()];
        let dry: RestoreSums = sums(&store.run("restore", &[&["--dry-run".as_ref()], &args[..]].concat()).expect(0));
        assert!(!to.exists() || names(&to).is_empty(), "a dry run writes nothing");
        let done: RestoreSums = sums(&store.run("restore", &args).expect(0));
        assert_eq!((done.files, done.restored_bytes), (2, 10_000 + 4 * 50_000 + 60_000), "{done:?}");
        assert_eq!((dry.files, dry.restored_bytes), (done.files, done.restored_bytes));
        assert_eq!(names(&below(&to, &source)), ["b", "c"]);
        assert_eq!(names(&below(&to, &source).join("c")), ["d"]);
        tools::assert_equal_trees(&dir, &below(&to, &dir));
        assert_eq!(fs::read(&file).unwrap(), fs::read(below(&to, &file)).unwrap());
        let args = [OsStr::new("--target"), to.as_ref(), "one".as_ref(), "/no/such/path".as_ref()];
        store.run("restore", &args).expect(1).saying("/no/such/path");
    }

    [xfs] fn a_restore_into_a_tree_changes_what_differs(fs: &Filesystem) {
        let (source, repo) = two_nights(fs);
        let store = Store::made(fs, Backend::Local);
        store.push(&repo);
        let to = store.restores("one", fs.join("to"));
        let restored = below(&to, &source);
        write(restored.join("extra"), b"not in the snapshot");
        let same = ["--target".as_ref(), to.as_os_str(), "two".as_ref()];
        store.run("restore", &same).expect(0);
        assert!(restored.join("extra").exists() && restored.join("c/one").exists());
        for extra in ["extra", "c/one", "c/two"] {
            let _ = fs::remove_file(restored.join(extra));
        }
        // Equal files are not written again.
        let done: RestoreSums = sums(&store.run("restore", &same).expect(0));
        assert_eq!(done.restored_bytes, 0, "{done:?}");
        tools::assert_equal_trees(&source, &restored);
        // Equal size and time, other content.
        let time = fs::metadata(restored.join("b")).unwrap().modified().unwrap();
        overwrite(&restored.join("b"), 5, b"rotten");
        fs::File::options().write(true).open(restored.join("b")).unwrap().set_modified(time).unwrap();
        store.run("restore", &same).expect(0);
        store.run("restore", &[&same[..], &["--verify".as_ref()]].concat()).expect(0);
        tools::assert_equal_trees(&source, &restored);
    }

    [xfs] fn a_whole_run_in_json_has_typed_fields(fs: &Filesystem) {
        let (_, repo) = two_nights(fs);
        let store = Store::start(fs, Backend::Local);
        let init = store.run("init", &[]).expect(0).summary();
        assert_eq!((init["command"].as_str(), init["errors"].as_u64()), (Some("offsite init"), Some(0)));
        assert!(init["seconds"].is_number() && init["url"].is_string(), "{init}");
        store.take_quick_key(&fs.join("store"));
        let push = store.push(&repo);
        let (lines, sent) = (push.lines::<Pushed>(), sums::<PushSums>(&push));
        assert_eq!(sent.command, "offsite push");
        assert!(sent.seconds >= 0.0 && sent.errors == 0);
        let sum = |field: fn(&Pushed) -> Option<u64>| lines.iter().map(|line| field(line).unwrap()).sum::<u64>();
        assert_eq!(sum(|line| line.files), sent.files);
        assert_eq!(sum(|line| line.read_bytes), sent.read_bytes);
        assert_eq!(sum(|line| line.stored_bytes), sent.stored_bytes);
        assert_eq!((&lines[0].parent, &lines[1].parent), (&None, &lines[0].id));
        let list: ListSums = sums(&store.run("list", &[]).expect(0));
        assert_eq!((list.command.as_str(), list.snapshots, list.errors), ("offsite list", 2, 0));
        let check: CheckSums = sums(&store.run("check", &[]).expect(0));
        assert_eq!((check.command.as_str(), check.read_data, check.errors), ("offsite check", 0.0, 0));
        let check: CheckSums = sums(&store.run("check", &["--read-data=50%".as_ref()]).expect(0));
        assert_eq!(check.read_data, 50.0);
        let to = fs.join("to");
        let restore: RestoreSums = sums(&store.run("restore", &["--target".as_ref(), to.as_ref()]).expect(0));
        assert_eq!((restore.command.as_str(), restore.errors, restore.files), ("offsite restore", 0, 5));
        assert!(restore.dirs >= 3 && restore.snapshot == "two", "{restore:?}");
        let prune = store.run("prune", &["--keep-last".as_ref(), "1".as_ref()]).expect(0);
        let (judged, sums) = (prune.lines::<Judged>(), sums::<PruneSums>(&prune));
        assert_eq!((sums.command.as_str(), sums.kept, sums.removed), ("offsite prune", 1, 1));
        assert!(list.seconds + check.seconds + restore.seconds + sums.seconds > 0.0);
        let [one, two] = &judged[..] else { panic!("{judged:?}") };
        assert!(one.name == "one" && !one.kept && two.name == "two" && two.kept && !two.reasons.is_empty());
        assert!(one.created < two.created && one.id != two.id);
    }

    [xfs] fn without_json_people_read_sentences(fs: &Filesystem) {
        let (_, repo) = two_nights(fs);
        let store = Store::start(fs, Backend::Local);
        let run = |verb: &str, args: &[&OsStr]| {
            let mut command = store.program(env!("CARGO_BIN_EXE_pleach"));
            finish(command.args(["offsite", verb, "--to", &store.url]).args(args)).expect(0)
        };
        let to = fs.join("to");
        for (verb, args, text) in [
            ("init", &[][..], store.url.as_str()),
            ("push", &[repo.as_ref()], "two"),
            ("push", &[repo.as_ref()], "lacks no snapshot"),
            ("list", &[], "two"),
            ("check", &["--read-data".as_ref()], "no damage"),
            ("restore", &["--target".as_ref(), to.as_ref()], "restored"),
            ("prune", &["--keep-last".as_ref(), "1".as_ref()], "removed"),
        ] {
            let out = run(verb, args).stdout;
            assert!(out.to_lowercase().contains(text), "{verb} should say {text:?}:\n{out}");
            assert!(!out.contains('{'), "{verb}: {out}");
            if verb == "init" {
                store.take_quick_key(&fs.join("store"));
            }
        }
        let quiet = run("push", &["-q".as_ref(), repo.as_ref()]);
        assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
    }
}

/// Asserts that two trees are equal, except for what restic neither stores nor restores: sockets, and links and
/// attributes of symlinks.
#[track_caller]
fn assert_equal_for_restic(original: &Path, copy: &Path) {
    let differences = tools::differences(original, copy);
    let is_known = |line: &&str| ["cS", ".L........x ", "hL "].iter().any(|start| line.starts_with(start));
    let others: Vec<_> = differences.lines().filter(|line| !is_known(line)).collect();
    assert!(others.is_empty(), "{} differs from {}:\n{}", copy.display(), original.display(), others.join("\n"));
}
