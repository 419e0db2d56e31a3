//! The new file keeps the metadata of the replaced file.

use super::*;
use crate::on_filesystems;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

/// Owner, mode, attributes, ACL and flags, as other programs report them.
#[track_caller]
fn metadata(path: &Path) -> String {
    let meta = fs::metadata(path).expect("the file is there");
    let flags = tools::tool("lsattr", &["-d", "-p"], path).stdout;
    let flags = flags.rsplit_once(' ').map_or("", |(flags, _)| flags).to_string();
    let owner = format!("{:o} {}:{}", meta.mode(), meta.uid(), meta.gid());
    [owner, tools::xattrs(path), tools::acl(path), flags].join("\n")
}

on_filesystems! {
    fn owner_mode_attributes_acl_and_flags_are_kept_and_times_are_new(fs: &Filesystem) {
        let dest = fs.join("file");
        write_synced(&dest, &bytes(1, MIB));
        std::os::unix::fs::chown(&dest, Some(1234), Some(2345)).expect("root may");
        fs::set_permissions(&dest, fs::Permissions::from_mode(0o4750)).expect("root may");
        tools::tool("setfattr", &["-n", "user.note", "-v", "kept"], &dest);
        tools::tool("setfacl", &["-m", "u:77:rw,g:88:r"], &dest);
        tools::tool("chattr", &["+Ad"], &dest);
        let time = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
        File::options().write(true).open(&dest).and_then(|file| file.set_times(time)).expect("root may");
        let before = metadata(&dest);
        put_well(&dest, &[], &bytes(2, MIB));
        assert_eq!(metadata(&dest), before);
        assert!(fs::metadata(&dest).expect("the file is there").mtime() > 1_000_000_000);
    }

    [btrfs] fn a_file_that_is_written_in_place_stays_one_and_shares(fs: &Filesystem) {
        let dest = fs.join("nocow");
        write(&dest, b"");
        tools::tool("chattr", &["+C"], &dest);
        let old = bytes(1, 2 * MIB);
        write_synced(&dest, &old);
        let (before, was) = (places(&dest), metadata(&dest));
        let summary = put_well(&dest, &[], &with_blocks(&old, &[9]));
        assert_shared(&dest, &summary, &before, 2 * MIB / BLOCK - 1);
        assert_eq!(metadata(&dest), was);
        // A copy-on-write base cannot be shared with, and the file stays unchanged.
        let base = fs.join("base");
        write_synced(&base, &old);
        put(&dest, &["--base", base.to_str().expect("a plain path")], &old).expect(0).saying("is not copy-on-write");
        assert_content(&dest, &old);
        assert_eq!(metadata(&dest), was);
    }

    [btrfs] fn a_compressed_file_stays_compressed_and_shares(fs: &Filesystem) {
        let dest = fs.join("compressed");
        write(&dest, b"");
        let flag = "zstd".as_bytes();
        rustix::fs::setxattr(&dest, "btrfs.compression", flag, rustix::fs::XattrFlags::empty()).expect("a property");
        let old = bytes(1, BLOCK / 2).repeat(2 * 4 * MIB / BLOCK);
        write_synced(&dest, &old);
        let summary = put_well(&dest, &[], &with_blocks(&old, &[9, 600]));
        assert_eq!(number(&summary, "written_bytes"), 2 * BLOCK as u64, "{summary}");
        let new = bytes(2, BLOCK / 2).repeat(2 * 4 * MIB / BLOCK);
        put_well(&dest, &[], &new);
        let extents = tools::extents(&dest);
        assert!(!extents.is_empty() && extents.iter().all(|extent| extent.flags & 8 != 0), "all is compressed");
    }

    fn a_new_file_is_made_as_any_other(fs: &Filesystem) {
        for (name, umask, acl) in [("plain", "027", false), ("open", "0", false), ("acl", "077", true)] {
            let dir = fs.dir(name);
            if acl {
                tools::tool("setfacl", &["-d", "-m", "u:77:rw,g:88:r,o:-"], &dir);
            }
            let (dest, other) = (dir.join("put"), dir.join("cat"));
            in_shell(&format!("umask {umask}; echo x | $PUT put \"$1\""), &dest).expect(0);
            in_shell(&format!("umask {umask}; echo x | cat > \"$1\""), &other).expect(0);
            assert_eq!(metadata(&dest), metadata(&other));
        }
        // A replacement has the metadata of the old file, whatever its directory would pass on.
        let dest = fs.join("acl/put");
        tools::tool("setfacl", &["-b"], &dest);
        let before = metadata(&dest);
        put_well(&dest, &[], b"y");
        assert_eq!(metadata(&dest), before);
    }

    fn a_symbolic_link_stays_and_what_it_leads_to_is_replaced(fs: &Filesystem) {
        let (file, link) = (fs.dir("inner").join("file"), fs.join("link"));
        write(&file, b"old");
        symlink("inner/file", &link).expect("a link can be made");
        put(&link, &[], b"new").expect(0).saying("is a symbolic link; replacing the file behind it");
        assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
        assert_content(&file, b"new");
        assert_no_temporary(&file);
        assert_no_temporary(&link);
    }

    fn other_names_of_the_file_keep_the_old_content(fs: &Filesystem) {
        let (dest, other) = (fs.join("file"), fs.join("other"));
        write(&dest, b"old");
        fs::hard_link(&dest, &other).expect("a link can be made");
        put(&dest, &[], b"new").expect(0).saying("1 other name (hard links)");
        assert_content(&dest, b"new");
        assert_content(&other, b"old");
    }

    fn what_a_user_may_not_give_is_told(fs: &Filesystem) {
        let dest = fs.dir("open").join("file");
        write(&dest, b"old");
        std::os::unix::fs::chown(&dest, Some(1234), Some(2345)).expect("root may");
        fs::set_permissions(&dest, fs::Permissions::from_mode(0o666)).expect("root may");
        fs::set_permissions(fs.join("open"), fs::Permissions::from_mode(0o777)).expect("root may");
        let mut bound = Command::new("setpriv");
        bound.args(["--inh-caps=-all", "--bounding-set=-chown,-fowner", env!("CARGO_BIN_EXE_pleach"), "put"]);
        let child = bound.arg(&dest).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let run = feed(child.expect("setpriv can be started"), b"new");
        run.expect(3).saying("cannot keep all metadata (owner or mode)");
        assert_content(&dest, b"new");
    }
}
