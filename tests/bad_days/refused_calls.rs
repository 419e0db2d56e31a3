//! The filesystem turns read-only, or its device breaks, in the middle of a command: from some call on, each further
//! call that changes something fails.

use super::behind;
use super::scene::Scene;
use crate::harness::*;
use crate::on_filesystems;
use std::path::Path;

/// Calls that change a filesystem. Not those that open a file, since most only read, and not `write`, since the
/// messages need it.
const CALLS: &str = "mkdirat,linkat,symlinkat,renameat,renameat2,unlinkat,ftruncate,fallocate,pwrite64,copy_file_range,\
                     fchmod,fchown,utimensat";

/// The arguments of strace that let each sync of a directory fail.
fn sync_of(dir: &Path, errno: &str) -> [String; 4] {
    let inject = format!("inject=fsync:error={errno}");
    ["-e".into(), inject, "-P".into(), dir.to_str().unwrap().into()]
}

/// Puts a line into a file, while strace tampers with calls.
fn behind_strace(tampering: &[String], trace: &Path, dest: &Path, line: &str) -> Run {
    let mut program = vec!["strace", "-f", "-qq", "-e", "trace=fsync,syncfs", "-o", trace.to_str().unwrap()];
    program.extend(tampering.iter().map(String::as_str));
    behind(&program, &["put", dest.to_str().unwrap(), "--", "echo", line])
}

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

    fn a_filesystem_that_cannot_sync_a_directory_is_synced_as_a_whole(fs: &Filesystem) {
        let (dest, trace) = (fs.join("file"), fs.join("trace"));
        for errno in ["EINVAL", "ENOSYS", "EOPNOTSUPP"] {
            behind_strace(&sync_of(fs.path(), errno), &trace, &dest, errno).expect(0);
            assert_eq!(std::fs::read_to_string(&dest).unwrap(), format!("{errno}\n"));
            let trace = std::fs::read_to_string(&trace).unwrap();
            assert!(trace.contains("(INJECTED)") && trace.contains("syncfs("), "{trace}");
        }
    }

    fn a_directory_that_cannot_be_synced_is_a_failure_that_names_the_state_of_the_file(fs: &Filesystem) {
        let (dest, trace) = (fs.join("file"), fs.join("trace"));
        write(&dest, b"old");
        let run = behind_strace(&sync_of(fs.path(), "EIO"), &trace, &dest, "new").expect(1);
        run.saying("the file has its new content").saying("power cut");
        assert_eq!(std::fs::read_to_string(&dest).unwrap(), "new\n");
        assert_eq!(names(fs.path()), ["file", "trace"]);
        pleach(["put".as_ref(), dest.as_os_str(), "--".as_ref(), "echo".as_ref(), "newer".as_ref()]).expect(0);
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
