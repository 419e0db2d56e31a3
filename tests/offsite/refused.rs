//! Bad input and bad surroundings: each is an error that names the action, the store, the cause and the cure.

use super::stores::{Backend, KEY, PASSWORD, Store};
use super::{in_store, two_nights};
use crate::harness::server::nobody;
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Runs `list` with other variables.
fn list_with(store: &Store, variables: &[(&str, &str)]) -> Run {
    finish(store.pleach("list", [""; 0]).envs(variables.iter().copied()))
}

/// Writes a file with this mode.
fn secret_file(path: PathBuf, content: &str, mode: u32) -> PathBuf {
    write(&path, content.as_bytes());
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

/// An error without the traces of a crash, and without secrets.
#[track_caller]
fn assert_plain(run: &Run) {
    for word in ["panicked", "backtrace", "RUST_", PASSWORD, KEY, "rustic_core", "src/"] {
        assert!(!run.stderr.contains(word) && !run.stdout.contains(word), "{word:?} in {run:?}");
    }
    assert!(run.stderr.lines().count() <= 8 && !run.stderr.trim().is_empty(), "{run:?}");
}

on_filesystems! {
    [xfs] fn a_wrong_password_is_said_to_be_wrong(fs: &Filesystem) {
        for backend in [Backend::Local, Backend::Rest] {
            let fs = Filesystem::open(fs.kind, "offsite::wrong::password").expect("it is mounted");
            let store = Store::made(&fs, backend);
            let run = list_with(&store, &[("RESTIC_PASSWORD", "not it")]).expect(1);
            assert_plain(&run);
            run.saying("password").saying(&store.url);
        }
    }

    [xfs] fn without_a_password_all_ways_to_give_one_are_named(fs: &Filesystem) {
        let store = Store::made(fs, Backend::Local);
        let run = finish(store.pleach("list", [""; 0]).env_remove("RESTIC_PASSWORD"));
        assert!([1, 2].contains(&run.status), "{run:?}");
        assert_plain(&run);
        run.saying("--password-file").saying("RESTIC_PASSWORD");
        let empty = list_with(&store, &[("RESTIC_PASSWORD", "")]);
        assert!([1, 2].contains(&empty.status), "{empty:?}");
    }

    [xfs] fn a_password_comes_from_a_file_that_only_its_owner_reads(fs: &Filesystem) {
        let store = Store::made(fs, Backend::Local);
        let file = secret_file(fs.join("password"), &format!("{PASSWORD}\n"), 0o600);
        let by_option = |file: &Path| {
            let args = [OsStr::new("--password-file"), file.as_ref()];
            finish(store.pleach("list", args).env_remove("RESTIC_PASSWORD"))
        };
        let by_variable = |file: &Path| {
            finish(store.pleach("list", [""; 0]).env_remove("RESTIC_PASSWORD").env("RESTIC_PASSWORD_FILE", file))
        };
        by_option(&file).expect(0);
        by_variable(&file).expect(0);
        // The option wins over the variable.
        let other = secret_file(fs.join("other"), "not it", 0o600);
        let args = [OsStr::new("--password-file"), other.as_ref()];
        finish(store.pleach("list", args).env("RESTIC_PASSWORD", PASSWORD)).expect(1).saying("password");
        for mode in [0o640, 0o604, 0o660, 0o644] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            for run in [by_option(&file), by_variable(&file)] {
                assert!([1, 2].contains(&run.status), "{mode:o}: {run:?}");
                assert_plain(&run);
                run.saying("chmod 600").saying(file.to_str().unwrap());
            }
        }
        let run = by_option(&fs.join("nowhere"));
        assert!([1, 2].contains(&run.status), "{run:?}");
        run.saying("nowhere");
        let run = by_option(fs.path());
        assert!([1, 2].contains(&run.status), "{run:?}");
        let endless = by_option(Path::new("/dev/zero"));
        assert!([1, 2].contains(&endless.status), "{endless:?}");
    }

    [xfs] fn keys_come_from_a_file_that_only_its_owner_reads(fs: &Filesystem) {
        let store = Store::made(fs, Backend::Rest);
        let lines = format!(
            "# the store\n\nRESTIC_PASSWORD={PASSWORD}\nRESTIC_REST_USERNAME=ann\nRESTIC_REST_PASSWORD={KEY}\n"
        );
        let file = secret_file(fs.join("keys"), &lines, 0o600);
        let run = |file: &Path| {
            let mut list = store.pleach("list", [OsStr::new("--credentials-file"), file.as_ref()]);
            for name in ["RESTIC_PASSWORD", "RESTIC_REST_USERNAME", "RESTIC_REST_PASSWORD"] {
                list.env_remove(name);
            }
            finish(&mut list)
        };
        run(&file).expect(0);
        // Each word of the file counts before any word of the environment.
        let password = secret_file(fs.join("password"), PASSWORD, 0o600);
        let (text, path) = (format!("RESTIC_PASSWORD={PASSWORD}"), password.display());
        let named = lines.replace(&text, &format!("RESTIC_PASSWORD_FILE={path}"));
        let file_of_a_name = secret_file(fs.join("keys of a name"), &named, 0o600);
        let mut list = store.pleach("list", [OsStr::new("--credentials-file"), file_of_a_name.as_ref()]);
        finish(list.env("RESTIC_PASSWORD", "another one")).expect(0);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let open = run(&file);
        assert!([1, 2].contains(&open.status), "{open:?}");
        assert_plain(&open);
        open.saying("chmod 600");
        for (content, word) in [("RESTIC_PASSWORD", "NAME=VALUE"), ("LD_PRELOAD=/tmp/x\n", "LD_PRELOAD")] {
            let bad = run(&secret_file(fs.join(format!("bad {word}")), content, 0o600));
            assert!([1, 2].contains(&bad.status), "{bad:?}");
            bad.saying(word);
        }
    }

    [xfs] fn a_secret_in_a_url_is_refused(fs: &Filesystem) {
        let mut store = Store::start(fs, Backend::Local);
        for url in [
            format!("rest:http://ann:{KEY}@127.0.0.1:8000/"),
            format!("s3:http://ANN:{KEY}@127.0.0.1:8333/bucket"),
            format!("sftp://ann:{KEY}@nas/srv"),
            format!("sftp:ann:{KEY}@nas:/srv"),
        ] {
            store.url = url;
            let run = store.run("list", &[]);
            assert!([1, 2].contains(&run.status), "{run:?}");
            assert_plain(&run);
            run.saying("password");
        }
    }

    [xfs] fn an_unknown_scheme_is_refused_with_the_list(fs: &Filesystem) {
        let mut store = Store::start(fs, Backend::Local);
        for url in ["ftp://nas/x", "gs:bucket:/", "swift:container:/x", "https://nas/x", "rclone:remote:path"] {
            store.url = url.into();
            let run = store.run("init", &[]).expect(2);
            assert_plain_usage(&run);
            for scheme in ["sftp:", "rest:", "s3:", "b2:", "azure:"] {
                assert!(run.stderr.contains(scheme), "{scheme} in {run:?}");
            }
        }
        for url in ["rest:", "s3:", "s3:http://127.0.0.1:1", "azure:", "b2:", "sftp:", "sftp:nas", "rest:nas", ""] {
            store.url = url.into();
            let run = store.run("init", &[]);
            assert_eq!(run.status, 2, "{url:?}: {run:?}");
        }
        // Nothing was made of any of those names.
        assert!(names(fs.path()).is_empty(), "{:?}", names(fs.path()));
    }

    [xfs] fn a_missing_store_is_not_made_by_a_push(fs: &Filesystem) {
        let (_, repo) = two_nights(fs);
        for backend in [Backend::Local, Backend::Rest, Backend::Sftp] {
            let scratch = Filesystem::open(fs.kind, "offsite::missing::store").expect("it is mounted");
            let store = Store::start(&scratch, backend);
            for (verb, args) in [("push", vec![repo.as_os_str()]), ("list", vec![]), ("check", vec![])] {
                let run = store.run(verb, &args).expect(1);
                assert_plain(&run);
                run.saying("offsite init").saying(&store.url);
            }
            assert!(!scratch.join("store/config").exists(), "{backend:?}");
        }
    }

    [xfs] fn a_missing_bucket_and_wrong_keys_are_named(fs: &Filesystem) {
        let mut store = Store::made(fs, Backend::S3);
        let run = list_with(&store, &[("AWS_SECRET_ACCESS_KEY", "wrong")]).expect(1);
        assert_plain(&run);
        run.saying("AWS_SECRET_ACCESS_KEY").saying(&store.url);
        let run = finish(store.pleach("list", [""; 0]).env_remove("AWS_SECRET_ACCESS_KEY"));
        assert!([1, 2].contains(&run.status), "{run:?}");
        run.saying("AWS_SECRET_ACCESS_KEY");
        store.url = "s3:http://127.0.0.1:8333/nobucket/x".into();
        for verb in ["list", "init"] {
            let run = store.run(verb, &[]);
            // SeaweedFS makes a bucket when something is put into it.
            if verb == "list" {
                assert_eq!(run.status, 1, "{run:?}");
                assert_plain(&run);
                run.saying("nobucket");
            }
        }
    }

    [xfs] fn a_missing_container_and_a_wrong_key_of_azure_are_named(fs: &Filesystem) {
        let mut store = Store::made(fs, Backend::Azure);
        let key = "d3JvbmcgKGtleSkgd3JvbmcgKGtleSkgd3JvbmcgKGtleSk=";
        let run = list_with(&store, &[("AZURE_ACCOUNT_KEY", key)]).expect(1);
        assert_plain(&run);
        run.saying("AZURE_ACCOUNT_KEY").saying(&store.url);
        store.url = "azure:nocontainer:/x".into();
        for verb in ["list", "init"] {
            let run = store.run(verb, &[]).expect(1);
            assert_plain(&run);
            run.saying("nocontainer");
        }
    }

    [xfs] fn a_wrong_login_of_a_rest_server_is_named(fs: &Filesystem) {
        let store = Store::made(fs, Backend::Rest);
        let run = list_with(&store, &[("RESTIC_REST_PASSWORD", "wrong")]).expect(1);
        assert_plain(&run);
        run.saying("RESTIC_REST_PASSWORD").saying(&store.url);
    }

    [xfs] fn a_server_that_is_not_reached_is_an_error_in_time(fs: &Filesystem) {
        let (_, repo) = two_nights(fs);
        for backend in [Backend::Rest, Backend::S3, Backend::Azure] {
            let scratch = Filesystem::open(fs.kind, "offsite::no::server").expect("it is mounted");
            let mut store = Store::made(&scratch, backend);
            store.serve(nobody(scratch.join("log")));
            let begun = std::time::Instant::now();
            let run = store.run("push", &[repo.as_ref()]).expect(1);
            assert!(begun.elapsed().as_secs() < 90, "{backend:?}: {:?}", begun.elapsed());
            assert_plain(&run);
            run.saying(&store.url);
        }
    }

    [xfs] fn a_wrong_host_key_is_refused(fs: &Filesystem) {
        let (_, repo) = two_nights(fs);
        let mut store = Store::made(fs, Backend::Sftp);
        let sshd = store.sshd.as_ref().unwrap();
        let other = fs::read_to_string(sshd.file("other.pub")).unwrap();
        fs::write(sshd.file("known_hosts"), format!("nas {other}")).unwrap();
        let run = store.run("push", &[repo.as_ref()]).expect(1);
        assert!(!run.stderr.contains("panicked"), "{run:?}");
        run.saying("host key").saying(&store.url);
        store.url = "sftp:nowhere.invalid:/srv/x".into();
        let run = store.run("push", &[repo.as_ref()]).expect(1);
        assert!(!run.stderr.contains("panicked"), "{run:?}");
        run.saying("nowhere.invalid");
    }

    [xfs] fn an_unknown_snapshot_or_repository_is_named(fs: &Filesystem) {
        let (_, repo) = two_nights(fs);
        let (store, to) = (Store::made(fs, Backend::Local), fs.join("to"));
        let target = [OsStr::new("--target"), to.as_ref()];
        store.run("restore", &target).expect(1).saying("snapshot");
        store.push(&repo);
        let run = store.run("restore", &[&target[..], &["nosuch".as_ref()]].concat()).expect(1);
        assert_plain(&run);
        run.saying("nosuch").saying("offsite list");
        // The beginning of two names.
        store.run("restore", &[&target[..], &["".as_ref()]].concat());
        assert!(!to.exists(), "nothing was restored");
        let nowhere = fs.join("nowhere");
        store.run("push", &[nowhere.as_ref()]).expect(1).saying("nowhere");
        let run = finish(store.pleach("push", [""; 0]).env_remove("PLEACH_REPO")).expect(2);
        run.saying("PLEACH_REPO");
        finish(store.pleach("push", [""; 0]).env("PLEACH_REPO", &repo)).expect(0);
    }

    [xfs] fn a_repository_of_pleach_is_no_store_and_a_directory_with_files_neither(fs: &Filesystem) {
        let (source, repo) = two_nights(fs);
        let mut store = Store::start(fs, Backend::Local);
        for (dir, status) in [(&repo, 2), (&source, 1)] {
            store.url = dir.display().to_string();
            let before = tools::inventory(dir);
            assert_ne!(store.run("init", &[]).status, 0, "{}", dir.display());
            store.run("push", &[repo.as_ref()]).expect(status);
            assert_same_lines(&tools::inventory(dir), &before);
        }
    }

    [xfs] fn options_that_contradict_are_refused(fs: &Filesystem) {
        let (_, repo) = two_nights(fs);
        let store = Store::made(fs, Backend::Local);
        for (verb, args) in [
            ("push", vec!["--last", "1", repo.to_str().unwrap(), "one"]),
            ("push", vec!["--last", "0", repo.to_str().unwrap()]),
            ("check", vec!["--read-data=0%"]),
            ("check", vec!["--read-data=200%"]),
            ("check", vec!["--read-data=-5%"]),
            ("restore", vec!["one"]),
            ("restore", vec!["--target", "/tmp/x", "one", "relative/path"]),
            ("prune", vec!["--keep-last", "x"]),
            ("prune", vec!["--keep-free", "5%"]),
            ("frobnicate", vec![]),
        ] {
            assert_eq!(finish(&mut store.pleach(verb, &args)).status, 2, "{verb} {args:?}");
        }
        let mut push = store.program(env!("CARGO_BIN_EXE_pleach"));
        finish(push.args(["offsite", "push"]).arg(&repo)).expect(2).saying("--to");
    }

    [xfs] fn a_thread_that_cannot_be_started_is_an_error_and_no_bug(fs: &Filesystem) {
        let (_, repo) = two_nights(fs);
        let store = Store::made(fs, Backend::Local);
        store.push(&repo);
        for number in 1..=10 {
            let mut check = store.program("strace");
            check.args(["-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace=clone3,clone", "-e"]);
            check.arg(format!("inject=clone3,clone:error=EAGAIN:when={number}"));
            check.arg(env!("CARGO_BIN_EXE_pleach")).args(["offsite", "check", "--to", &store.url]);
            let run = finish(&mut check);
            assert!([0, 1].contains(&run.status), "without thread {number}: {run:?}");
            assert!(!run.stderr.contains("a bug in pleach"), "without thread {number}: {run:?}");
        }
    }

    [xfs] fn a_plan_that_cannot_be_written_has_failed_and_work_is_done(fs: &Filesystem) {
        let (_, repo) = two_nights(fs);
        let (store, to) = (Store::made(fs, Backend::Local), fs.join("to"));
        store.push(&repo);
        let unwritten = |verb: &str, args: &[&OsStr]| {
            let full = File::options().write(true).open("/dev/full").unwrap();
            finish(store.pleach(verb, args).stdout(full)).saying("cannot write the output: No space left")
        };
        let plan: &OsStr = "--dry-run".as_ref();
        let rule: [&OsStr; 2] = ["--keep-last".as_ref(), "1".as_ref()];
        unwritten("push", &[repo.as_ref(), plan]).expect(1);
        unwritten("restore", &["--target".as_ref(), to.as_ref(), plan]).expect(1);
        unwritten("prune", &[rule[0], rule[1], plan]).expect(1);
        assert_eq!(in_store(&store), ["one", "two"]);
        unwritten("prune", &rule).expect(3);
        assert_eq!(in_store(&store), ["two"]);
    }

    [xfs] fn threads_are_limited_to_so_many_processors(fs: &Filesystem) {
        let (_, repo) = two_nights(fs);
        let (script, seen) = (fs.join("ssh"), fs.join("seen"));
        write(&script, format!("#!/bin/sh\nnproc > '{}'; exit 255\n", seen.display()).as_bytes());
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let processors = |args: &[&str]| -> u32 {
            let mut push = command(["offsite", "push", "--to", "sftp:nas:/store"]);
            finish(push.args(args).arg(&repo).env("PLEACH_SSH", &script).env("RESTIC_PASSWORD", PASSWORD)).expect(1);
            fs::read_to_string(&seen).unwrap().trim().parse().unwrap()
        };
        let all = processors(&[]);
        assert_eq!((processors(&["-j1"]), processors(&["-j", "4096"])), (1, all));
    }
}

#[test]
fn the_program_that_connects_must_be_one_and_a_user_can_try_it() {
    let run = |ssh: &str| {
        let mut list = command(["offsite", "list", "--to", "sftp://ann@[::1]:22/store"]);
        finish(list.env("PLEACH_SSH", ssh).env("RESTIC_PASSWORD", PASSWORD))
    };
    run("ssh -F \"/path").expect(2).saying("PLEACH_SSH: the quote \" is open").saying("ssh -F \"/path");
    run("false").expect(1).saying("'ssh -p 22 -l ann ::1 true' must succeed without prompting");
}

/// A usage error, which may also show the usage and the list of URLs.
#[track_caller]
fn assert_plain_usage(run: &Run) {
    assert!(!run.stderr.contains("panicked") && run.stderr.lines().count() <= 25, "{run:?}");
}
