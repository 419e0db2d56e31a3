//! Access control lists: each entry has exactly those of its source, whatever default ACL its directory has, and XFS's
//! second form of them stays on XFS.

use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// A directory with a default ACL, and entries that are older than that ACL.
fn entries_without_acls(dir: &Path) {
    fs::create_dir(dir.join("inner")).expect("a directory can be made");
    for (name, size) in [("small", 100), ("secret", 50_000), ("large", 3 << 20), ("inner/secret", 50_000)] {
        write(dir.join(name), &bytes(7, size));
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o640)).expect("a mode can be set");
    }
    fs::hard_link(dir.join("secret"), dir.join("other name")).expect("a link can be made");
    tools::tool("setfacl", &["-d", "-m", "u:1234:rwx,g:1235:rx"], dir);
    write(dir.join("heir"), &bytes(8, 5000));
}

const NAMES: [&str; 8] = [".", "inner", "small", "secret", "other name", "large", "inner/secret", "heir"];

#[track_caller]
fn assert_same_acls(original: &Path, copy: &Path, is_xfs: bool) {
    for name in NAMES {
        let (wanted, found) = (original.join(name), copy.join(name));
        assert_eq!(tools::acl(&found), tools::acl(&wanted), "{}", found.display());
        // XFS itself shows this attribute to root there.
        assert!(is_xfs || !tools::xattrs(&found).contains("SGI_ACL"), "{}", found.display());
    }
}

/// Gives a file or directory of an XFS a list that lets others in, and then closes its mode. XFS sets its own form of a
/// list as it is. Elsewhere this takes a mount without ACLs.
fn close_behind_an_open_list(path: &Path, mode: u32) {
    const NAME: &str = "trusted.SGI_ACL_FILE";
    tools::tool("setfacl", &["-m", "u:1234:rwx,o::rwx"], path);
    let mut list = [0; 4096];
    let length = rustix::fs::getxattr(path, NAME, &mut list).expect("XFS shows the list");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode can be set");
    rustix::fs::setxattr(path, NAME, &list[..length], rustix::fs::XattrFlags::empty()).expect("root sets the list");
    assert_eq!(path.metadata().unwrap().mode() & 0o7777, mode);
    assert!(tools::acl(path).contains("other::rwx"));
}

on_filesystems! {
    [xfs] fn a_list_that_contradicts_the_mode_opens_no_copy(fs: &Filesystem) {
        const MODES: [(&str, u32); 3] = [("secret", 0o640), ("inner/private", 0o600), ("inner", 0o700)];
        #[track_caller]
        fn assert_closed(copy: &Path, list: &str) {
            for (name, mode) in MODES {
                let found = copy.join(name);
                assert_eq!(found.metadata().unwrap().mode() & 0o7777, mode, "{}", found.display());
                let acl = tools::acl(&found);
                assert!(acl.contains("user:1234:rwx") && acl.contains(list), "{}: {acl}", found.display());
            }
        }
        let (source, elsewhere) = (fs.dir("source"), fs.elsewhere());
        fs::create_dir(source.join("inner")).unwrap();
        for (name, mode) in MODES {
            if name != "inner" {
                write(source.join(name), &bytes(1, 50_000));
            }
            close_behind_an_open_list(&source.join(name), mode);
        }
        settle();
        for (number, repo) in [fs.join("repo"), elsewhere.join("repo")].into_iter().enumerate() {
            for name in ["first", "second"] {
                pleach(snapshot_named(name, &source, &repo)).expect(0);
                assert_closed(&inside(&repo, name, &source), "other::---");
                write(source.join("another"), name.as_bytes());
            }
            pleach([OsStr::new("verify"), repo.as_ref()]).expect(0);
            // The manifest has the list of the source.
            let target = fs.dir(format!("target {number}"));
            let args = [OsStr::new("restore"), "--target".as_ref(), target.as_ref(), repo.as_ref(), "latest".as_ref()];
            let run = pleach(args);
            assert!(run.status == 3 && run.stderr.contains("contradicts its mode"), "{run:?}");
            assert_closed(&target.join(source.strip_prefix("/").unwrap()), "other::---");
            let to = elsewhere.join(format!("replica {number}"));
            pleach([OsStr::new("replicate"), repo.as_ref(), to.as_ref()]).expect(0);
            pleach([OsStr::new("verify"), to.as_ref()]).expect(0);
            for name in ["first", "second"] {
                assert_closed(&inside(&to, name, &source), "other::---");
            }
        }
        for copy in [fs.join("copy"), elsewhere.join("copy")] {
            let run = pleach([OsStr::new("copy"), "-T".as_ref(), source.as_ref(), copy.as_ref()]);
            assert!(run.status == 3 && run.stderr.contains("contradicts the mode"), "{run:?}");
            assert_closed(&copy, "other::---");
        }
    }

    fn a_default_acl_reaches_no_file_that_was_there_before_it(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        let is_xfs = fs.kind == Kind::Xfs;
        for (number, source) in [fs.dir("source"), elsewhere.dir("source")].into_iter().enumerate() {
            entries_without_acls(&source);
            let (repo, target, copy) = (
                fs.join(format!("repo {number}")),
                fs.dir(format!("target {number}")),
                fs.dir(format!("copy {number}")),
            );
            settle();
            snapshot(&source, &repo);
            // The second snapshot starts from the first.
            snapshot(&source, &repo);
            for name in published(&repo) {
                assert_same_acls(&source, &inside(&repo, &name, &source), is_xfs);
            }
            let args = [OsStr::new("restore"), "--target".as_ref(), target.as_ref(), repo.as_ref(), "latest".as_ref()];
            pleach(args).expect(0);
            assert_same_acls(&source, &target.join(source.strip_prefix("/").expect("it is absolute")), is_xfs);
            pleach([OsStr::new("copy"), "-T".as_ref(), source.as_ref(), copy.as_ref()]).expect(0);
            assert_same_acls(&source, &copy, is_xfs);
        }
    }
}
