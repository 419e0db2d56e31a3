//! `--dry-run` to another host, with ssh and a real sshd.

use super::{receive, repository, stream};
use crate::harness::sshd::{Sshd, url};
use crate::harness::*;
use crate::on_filesystems;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The plan with a configuration of ssh.
fn plan_with(sshd: &Sshd, config: &str, repo: &Path, to: &Path) -> Run {
    let words = ["replicate", "--dry-run", "--json"].map(OsStr::new);
    let mut plan = command(words.into_iter().chain([repo.as_os_str(), &url(to)]));
    finish(plan.env("PLEACH_SSH", sshd.program_with(config)))
}

fn plan(sshd: &Sshd, repo: &Path, to: &Path) -> Run {
    plan_with(sshd, "config", repo, to)
}

/// The snapshots of a plan, each with its base.
#[track_caller]
fn planned(run: &Run) -> Vec<(String, Value)> {
    let rows = run.lines_of_type("snapshot").into_iter();
    rows.map(|row| (row["name"].as_str().expect("a name").to_string(), row["base"].clone())).collect()
}

on_filesystems! {
    [xfs] fn a_host_without_a_repository_lacks_all_snapshots_and_gets_none(fs: &Filesystem) {
        let (repo, to, sshd) = (repository(fs), fs.join("to"), Sshd::start(fs.join("host")));
        for _ in 0..2 {
            let run = plan(&sshd, &repo, &to).expect(0);
            let name = |name: &str, base: Value| (name.to_string(), base);
            let all = [name("one", Value::Null), name("two", "one".into()), name("three", "two".into())];
            assert_eq!(planned(&run), all);
            assert!(run.stderr.contains(&format!("there is no repository in {}", to.display())), "{run:?}");
            // An empty directory becomes a repository as well.
            assert!(!to.exists() || names(&to).is_empty());
            let _ = fs::create_dir(&to);
        }
        write(to.join("photo"), b"precious");
        plan(&sshd, &repo, &to).expect(1).saying("Directory not empty");
        assert_eq!(names(&to), ["photo"]);
    }

    [xfs] fn a_plan_changes_nothing_over_there(fs: &Filesystem) {
        let (repo, to, sshd) = (repository(fs), fs.join("to"), Sshd::start(fs.join("host")));
        for (name, base) in [("one", None), ("two", Some("one"))] {
            receive(&to, &stream(&repo, name, base), &[]).expect(0);
        }
        // What a killed run leaves.
        fs::remove_file(to.join("latest")).unwrap();
        symlink("one", to.join("latest")).unwrap();
        fs::create_dir_all(to.join(".pleach/trash/old")).unwrap();
        fs::create_dir_all(to.join(".pleach/partial/begun")).unwrap();
        fs::create_dir_all(to.join(".pleach/incoming/three/tree")).unwrap();
        write(to.join(".pleach/incoming/three/position"), b"damaged");
        let before = tools::inventory(&to);
        // A key with a command of its own is not given the option, but learns that it was asked for.
        for (config, options) in [("config", ""), ("config-other", ""), ("config-other", "--restrict --append-only")] {
            sshd.accept_other_key(&format!("command=\"pleach receive --stdio {options} '{}'\",restrict", to.display()));
            let run = plan_with(&sshd, config, &repo, &to).expect(0);
            assert_eq!(planned(&run), [("three".to_string(), "two".into())], "{config} {options}");
            assert_same_lines(&tools::inventory(&to), &before);
        }
        assert_eq!(fs::read_link(to.join("latest")).unwrap(), Path::new("one"));
        // The second run clears what the first one had to put aside.
        (0..2).for_each(|_| drop(sshd.replicate(&repo, &to).expect(0)));
        assert_no_leftovers(&to);
    }

    [xfs] fn a_new_repository_is_announced_by_each_command_that_makes_it(fs: &Filesystem) {
        let (repo, sshd) = (repository(fs), Sshd::start(fs.join("host")));
        let announced = |run: &Run| run.stderr.matches("made a new repository in").count();
        let [init, local, host, file] = ["init", "local", "remote", "file"].map(|name| fs.join(name));
        for times in [1, 0] {
            let run = pleach(["receive".as_ref(), "--init".as_ref(), "--json".as_ref(), init.as_os_str()]).expect(0);
            assert_eq!(announced(&run), times, "{run:?}");
            let warnings = run.lines_of_type("warning");
            assert_eq!(warnings.iter().filter(|warning| warning["code"] == "repository-made").count(), times);
            assert_eq!(announced(&sshd.replicate(&repo, &host).expect(0)), times);
            let run = pleach(["replicate".as_ref(), repo.as_os_str(), local.as_os_str()]).expect(0);
            assert_eq!(announced(&run), times);
            assert_eq!(announced(&receive(&file, &stream(&repo, "one", None), &[]).expect(0)), times);
        }
    }
}
