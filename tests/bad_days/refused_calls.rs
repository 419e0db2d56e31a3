//! The filesystem turns read-only, or its device breaks, in the middle of a command: from some call on, each further
//! call that changes something fails.

use super::scene::Scene;
use crate::on_filesystems;

/// Calls that change a filesystem. Not those that open a file, since most only read, and not `write`, since the
/// messages need it.
const CALLS: &str = "mkdirat,linkat,symlinkat,renameat,renameat2,unlinkat,ftruncate,fallocate,pwrite64,copy_file_range,\
                     fchmod,fchown,utimensat";

on_filesystems! {
    [xfs] fn a_transfer_that_cannot_write_to_its_receiver_ends(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene = Scene::new(&fs.dir("here"), other.path());
        let job = scene.jobs(true).find(|job| job.name == "replicate").unwrap();
        for number in [6, 7, 8, 9, 10, 12, 15] {
            let inject = format!("inject=write:error=ENOMEM:when={number}");
            let timeout = ["timeout", "--signal=KILL", "60", "strace", "-f", "-qq", "-o", "/dev/null"];
            let run = scene.run(job, &[&timeout[..], &["-e", "trace=write", "-e", &inject]].concat());
            if scene.is_done(job, &run, &format!("without write {number}")) {
                std::fs::remove_dir_all(scene.at.join("replica")).unwrap();
            }
        }
        scene.run(job, &[]).expect(0);
        scene.assert_done(job, "with all writes");
    }

    fn from_some_call_on_nothing_can_be_changed_and_the_next_run_succeeds(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene = Scene::new(&fs.dir("here"), other.path());
        let mut failed = 0;
        for job in scene.jobs(fs.reflinks()) {
            job.prepare(&scene);
            let is_done = [("EIO", 3), ("EROFS", 12), ("ENOSPC", 40)].into_iter().any(|(errno, first)| {
                let trace = format!("trace={CALLS}");
                let inject = format!("inject={CALLS}:error={errno}:when={first}+");
                let strace = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"];
                let strace = [&strace[..], &["-e", &trace, "-e", &inject]].concat();
                let run = scene.run(job, &strace);
                failed += usize::from(run.status != 0);
                scene.is_done(job, &run, &format!("with {errno} from call {first} on"))
            });
            if !is_done {
                scene.run(job, &[]).expect(0);
                scene.assert_done(job, "with working calls");
            }
        }
        scene.assert_tidy();
        assert!(failed > 15, "only {failed} runs met a failing call");
    }
}
