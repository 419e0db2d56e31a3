//! Servers that are not as usual: they keep what they have, they speak TLS, they serve below a path.

use super::lines::{PushSums, sums};
use super::stores::{Backend, KEY, Store};
use super::{in_store, take, two_nights};
use crate::harness::server::Server;
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

/// The start of the usual REST server's command line.
fn rclone(options: &str, fs: &Filesystem) -> String {
    let dir = fs.dir("store");
    format!("rclone --config=/dev/null serve restic --user=ann --pass={KEY} {options} {}", dir.display())
}

on_filesystems! {
    [xfs] fn a_server_that_only_appends_takes_pushes_and_forgets_nothing(fs: &Filesystem) {
        let (source, repo) = two_nights(fs);
        let mut store = Store::made(fs, Backend::Rest);
        store.server.take();
        let command = rclone("--addr=127.0.0.1:8000 --append-only", fs);
        store.serve(Server::start(fs.join("append.log"), 8000, &command));
        assert_eq!(sums::<PushSums>(&store.push(&repo)).snapshots, 2);
        take("three", &source, &repo);
        assert_eq!(sums::<PushSums>(&store.push(&repo)).snapshots, 1);
        store.run("check", &["--read-data".as_ref()]).expect(0);
        let run = store.run("prune", &["--keep-last".as_ref(), "1".as_ref()]).expect(1);
        assert!(!run.stderr.contains("panicked"), "{run:?}");
        run.saying(&store.url);
        assert_eq!(in_store(&store), ["one", "two", "three"]);
        store.run("check", &["--read-data".as_ref()]).expect(0);
    }

    [xfs] fn a_certificate_that_nobody_signed_is_refused_unless_it_is_known(fs: &Filesystem) {
        let (_, repo) = two_nights(fs);
        let (cert, key) = (fs.join("cert.pem"), fs.join("key.pem"));
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]);
        openssl.args(["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]);
        openssl.arg("-keyout").arg(&key).arg("-out").arg(&cert);
        finish(&mut openssl).expect(0);
        let mut store = Store::start(fs, Backend::Rest);
        let tls = format!("--addr=127.0.0.1:8443 --cert={} --key={}", cert.display(), key.display());
        store.serve(Server::start(fs.join("tls.log"), 8443, &rclone(&tls, fs)));
        store.url = "rest:https://127.0.0.1:8443/".into();
        let run = store.run("init", &[]).expect(1);
        assert!(!run.stderr.contains("panicked"), "{run:?}");
        run.saying("certificate").saying(&store.url);
        let trusting = |verb: &str, args: &[&OsStr]| finish(store.pleach(verb, args).env("SSL_CERT_FILE", &cert));
        trusting("init", &[]).expect(0);
        assert_eq!(sums::<PushSums>(&trusting("push", &[repo.as_ref()]).expect(0)).snapshots, 2);
    }

    [xfs] fn a_path_of_a_rest_server_is_a_store_of_its_own(fs: &Filesystem) {
        let (_, repo) = two_nights(fs);
        let mut store = Store::start(fs, Backend::Rest);
        for url in ["rest:http://127.0.0.1:8000/some/path/", "rest:http://127.0.0.1:8000/another"] {
            store.url = url.into();
            store.run("init", &[]).expect(0);
            assert_eq!(sums::<PushSums>(&store.push(&repo)).snapshots, 2);
            store.assert_sound();
        }
        assert_eq!(names(&fs.join("store")), ["another", "some"]);
        assert!(fs.join("store/some/path/config").exists());
    }

    [xfs] fn a_host_that_refuses_to_rename_keeps_no_temporary_file(fs: &Filesystem) {
        let (_, repo) = two_nights(fs);
        let mut store = Store::made(fs, Backend::Local);
        let (dir, script) = (fs.join("store"), fs.join("ssh"));
        store.url = format!("sftp:nas:{}", dir.display());
        let push = |options: &str| {
            // A program in the place of ssh. It knows no configuration.
            let serve = format!("exec /usr/lib/openssh/sftp-server {options}");
            write(&script, format!("#!/bin/sh\n[ \"$1\" = -G ] && exit 1\n{serve}\n").as_bytes());
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
            finish(store.pleach("push", [&repo]).env("PLEACH_SSH", &script))
        };
        let before = tools::files(&dir);
        // A run that ends may cut off another upload, but not always.
        let is_clean = (0..10).any(|_| {
            let run = push("-P posix-rename,rename").expect(1).saying("sftp:nas");
            assert!(!run.stderr.contains("panicked"), "{run:?}");
            let left = tools::files(&dir).into_iter().filter(|file| !before.contains(file));
            left.map(|file| fs::remove_file(file).unwrap()).count() == 0
        });
        assert!(is_clean, "each of ten runs left something");
        assert_eq!(sums::<PushSums>(&push("").expect(0)).snapshots, 2);
        store.url = dir.display().to_string();
        store.run("check", &["--read-data".as_ref()]).expect(0);
    }
}
