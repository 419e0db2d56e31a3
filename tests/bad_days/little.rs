//! Little memory, small files only, and threads that cannot be started.

use super::behind;
use super::scene::Scene;
use crate::harness::*;
use crate::on_filesystems;
use std::fs;

on_filesystems! {
    [xfs, btrfs] fn with_96_mib_of_memory_each_command_does_everything(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene = Scene::new(&fs.dir("here"), other.path());
        // The key of a store takes 128 MiB to derive.
        for job in scene.jobs(fs.reflinks()).filter(|job| !job.name.starts_with("offsite")) {
            scene.run(job, &["prlimit", "--data=100663296"]).expect(0);
            scene.assert_done(job, "with 96 MiB");
        }
        scene.assert_tidy();
    }

    [xfs] fn a_command_that_runs_out_of_memory_says_so_and_loses_nothing(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene = Scene::new(&fs.dir("here"), other.path());
        let mut stopped = 0;
        // The key of a store takes 128 MiB to derive.
        for job in scene.jobs(fs.reflinks()).filter(|job| !job.name.starts_with("offsite")) {
            // On the way from too little for anything to enough.
            let is_done = (1..=5).any(|step| {
                let limit = format!("--data={}", (3 + 2 * step) << 20);
                let run = scene.run(job, &["prlimit", &limit]);
                assert!(run.status < 128, "{} with {limit}: {run:?}", job.name);
                assert!(!run.stderr.contains("a bug in pleach"), "{} with {limit}: {run:?}", job.name);
                stopped += u32::from(run.stderr.contains("out of memory or stack"));
                scene.is_done(job, &run, &format!("with {limit}"))
            });
            if !is_done {
                scene.run(job, &[]).expect(0);
                scene.assert_done(job, "without a limit");
            }
        }
        assert!(stopped > 0, "some command was stopped");
        scene.assert_tidy();
    }

    [xfs] fn no_limit_of_memory_is_taken_for_a_bug(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        (0..40).for_each(|number| write(source.join(format!("file {number}")), &bytes(number, 9000)));
        pleach(snapshot_named("0", &source, &repo)).expect(0);
        let mut stopped = 0;
        // From too little for anything to enough.
        for kibibytes in (3000..12_000).step_by(100) {
            let to = fs.join("to");
            for words in ["verify {repo}", "replicate -q {repo} {to}", "restore -q --target {to} {repo} 0"] {
                let words = words.replace("{repo}", repo.to_str().unwrap()).replace("{to}", to.to_str().unwrap());
                let words: Vec<_> = words.split(' ').collect();
                let run = behind(&["prlimit", &format!("--data={}", kibibytes * 1024)], &words);
                assert!([0, 1, 3].contains(&run.status), "with {kibibytes} KiB: {run:?}");
                assert!(!run.stderr.contains("a bug in pleach"), "with {kibibytes} KiB: {run:?}");
                stopped += u32::from(run.stderr.contains("out of memory or stack"));
                if to.exists() {
                    fs::remove_dir_all(&to).unwrap();
                }
            }
        }
        assert!(stopped > 0, "some command was stopped");
        pleach(["verify".as_ref(), repo.as_os_str()]).expect(0);
    }

    [xfs] fn a_command_with_too_little_stack_says_so_and_loses_nothing(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene = Scene::new(&fs.dir("here"), other.path());
        for job in scene.jobs(fs.reflinks()).filter(|job| !job.name.starts_with("offsite")) {
            let run = scene.run(job, &["prlimit", "--stack=60000:60000"]).saying("out of memory or stack");
            assert!(!scene.is_done(job, &run, "with little stack"), "{}: {run:?}", job.name);
            scene.run(job, &[]).expect(0);
            scene.assert_done(job, "without a limit");
        }
        scene.assert_tidy();
    }

    [xfs] fn files_above_the_limit_of_the_process_are_reported(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene = Scene::new(&fs.dir("here"), other.path());
        // A snapshot without the large files is complete in its own way.
        let names = ["restore from elsewhere", "copy", "put", "replicate"];
        for job in scene.jobs(true).filter(|job| names.contains(&job.name)) {
            let run = scene.run(job, &["prlimit", "--fsize=90000"]).saying("file too large");
            assert!(!scene.is_done(job, &run, "with a limit"), "{} with a limit: {run:?}", job.name);
            scene.run(job, &[]).expect(0);
            scene.assert_done(job, "without a limit");
        }
        scene.assert_tidy();
    }

    [xfs] fn a_command_that_cannot_start_its_threads_says_so(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene = Scene::new(&fs.dir("here"), other.path());
        // The library for stores panics.
        for job in scene.jobs(fs.reflinks()).filter(|job| !job.name.starts_with("offsite")) {
            let is_done = [1, 4].into_iter().any(|first| {
                let inject = format!("inject=clone3,clone:error=EAGAIN:when={first}+");
                let strace = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"];
                let run = scene.run(job, &[&strace[..], &["-e", "trace=clone3,clone", "-e", &inject]].concat());
                assert!(!run.stderr.contains("a bug in pleach"), "{} from thread {first} on: {run:?}", job.name);
                scene.is_done(job, &run, &format!("without thread {first}"))
            });
            if !is_done {
                scene.run(job, &[]).expect(0);
                scene.assert_done(job, "with all threads");
            }
        }
        scene.assert_tidy();
    }

    [btrfs] fn directories_are_deleted_even_if_no_thread_can_be_started(fs: &Filesystem) {
        let (source, repo, to) = (fs.dir("source"), fs.join("repo"), fs.join("to"));
        write(source.join("file"), &bytes(1, 5000));
        pleach(snapshot_named("0", &source, &repo)).expect(0);
        let strace = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace=clone3,clone", "-e"];
        for first in 1..=9 {
            // The new tree begins as the last one, so what the source lacks is deleted.
            let (gone, with, without) = (source.join("gone"), format!("{first}-with"), format!("{first}-without"));
            fs::create_dir_all(gone.join("deep/deeper")).unwrap();
            write(gone.join("deep/file"), &bytes(2, 5000));
            settle();
            pleach(snapshot_named(&with, &source, &repo)).expect(0);
            pleach(["replicate".as_ref(), "-q".as_ref(), repo.as_os_str(), to.as_os_str()]).expect(0);
            fs::remove_dir_all(&gone).unwrap();
            settle();
            let inject = format!("inject=clone3,clone:error=EAGAIN:when={first}+");
            let strace = [&strace[..], &[inject.as_str()]].concat();
            let run = behind(&strace, &snapshot_named(&without, &source, &repo));
            assert!(!run.stderr.contains("a bug in pleach"), "from thread {first} on: {run:?}");
            if !published(&repo).contains(&without) {
                pleach(snapshot_named(&without, &source, &repo)).expect(0);
            }
            let words = ["replicate".as_ref(), "-q".as_ref(), repo.as_os_str(), to.as_os_str()];
            let run = behind(&strace, &words);
            assert!(!run.stderr.contains("a bug in pleach"), "from thread {first} on: {run:?}");
            pleach(words).expect(0);
            tools::assert_equal_trees(&repo.join(&without), &to.join(&without));
        }
    }
}

#[test]
fn the_report_of_a_bug_ends_without_memory_for_its_backtrace() {
    // The standard library panics without random numbers. A backtrace takes more than 20 MiB and less than 500.
    let strace =
        ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=getrandom", "-e", "inject=getrandom:error=EIO"];
    let with = |mebibytes: u64| {
        let limit = format!("--data={}", mebibytes << 20);
        let program =
            [&strace[..], &["env", "RUST_BACKTRACE=1", "timeout", "-s", "KILL", "60", "prlimit", &limit]].concat();
        behind(&program, &["du", "/proc/self"]).saying("a bug in pleach").expect(1)
    };
    with(20).saying("the backtrace cannot be completed");
    assert!(with(500).stderr.contains("report_panic"));
}
