//! Access control lists: each entry has exactly those of its source, whatever default ACL its directory has, and XFS's
//! second form of them stays on XFS.

use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
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

on_filesystems! {
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
