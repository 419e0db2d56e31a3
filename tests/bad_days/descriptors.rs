//! Few open files.

use super::behind;
use super::scene::Scene;
use crate::harness::*;
use crate::on_filesystems;

on_filesystems! {
    fn with_64_descriptors_each_command_does_everything(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene = Scene::new(&fs.dir("here"), other.path());
        for job in scene.jobs(fs.reflinks()) {
            job.prepare(&scene);
            // Fewer may do, or not.
            let is_done = scene.is_done(job, &scene.run(job, &["prlimit", "--nofile=20:20"]), "with 20 descriptors");
            if !is_done {
                scene.run(job, &["prlimit", "--nofile=64:64"]).expect(0);
                scene.assert_done(job, "with 64 descriptors");
            }
        }
        scene.assert_tidy();
    }

    [xfs] fn a_source_that_cannot_be_opened_for_want_of_descriptors_is_not_left_out(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        for number in 0..30 {
            let dir = fs.dir(format!("source/{number}"));
            tree::crowded(&dir, 20);
        }
        pleach(snapshot_named("one", &source, &repo)).expect(0);
        let mut failed = 0;
        for limit in 14..40 {
            let (name, limit) = (format!("with {limit}"), format!("--nofile={limit}:{limit}"));
            settle();
            let run = behind(&["prlimit", &limit], &snapshot_named(&name, &source, &repo));
            match run.status {
                0 => tools::assert_equal_trees(&source, &inside(&repo, &name, &source)),
                _ => {
                    failed += 1;
                    let run = run.expect(1).saying("too many open files");
                    assert!(!listed(&repo).contains(&name), "{run:?}");
                }
            }
            let copy = fs.join(format!("copy {name}"));
            let words = ["copy".as_ref(), "-T".as_ref(), source.as_os_str(), copy.as_ref()];
            let run = behind(&["prlimit", &limit], &words);
            match run.status {
                0 => tools::assert_equal_trees(&source, &copy),
                _ => drop(run.expect(1).saying("too many open files")),
            }
        }
        assert!(failed > 3, "only {failed} snapshots met the limit");
    }
}
