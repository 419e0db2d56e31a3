//! Physical addresses prove equal content within one filesystem only.

use super::{copy, run};
use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The positions of a file's extents, in the file and on the device.
fn places(path: &Path) -> Vec<(u64, u64, u64)> {
    tools::extents(path).iter().map(|extent| (extent.logical, extent.physical, extent.length)).collect()
}

on_filesystems! {
    fn equal_addresses_on_two_filesystems_prove_nothing(fs: &Filesystem) {
        let test = "copy::addresses";
        let fresh = || Own::new(fs.kind, test, 512, &[], "");
        let (Some(one), Some(other)) = (fresh(), fresh()) else { return };
        let (source, copied) = (one.join("source"), other.join("copied"));
        // The same writes on fresh filesystems usually get the same addresses; here the content differs.
        for (dir, seed) in [(&source, 0), (&copied, 100)] {
            fs::create_dir(dir).unwrap();
            for number in 0..8 {
                write(dir.join(format!("file-{number}")), &bytes(seed + number, 8 << 20));
                rustix::fs::syncfs(File::open(dir).unwrap()).unwrap();
            }
        }
        for path in tools::files(&copied) {
            let original = source.join(path.file_name().unwrap());
            let time = original.metadata().unwrap().modified().unwrap();
            File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        }
        if fs.kind != Kind::Btrfs {
            let collide = |path: &&std::path::PathBuf| places(path) == places(&source.join(path.file_name().unwrap()));
            let files = tools::files(&copied);
            assert!(files.iter().filter(collide).count() > 0, "no addresses of {:?} collide", fs.kind);
        }
        settle();
        // The sources have the newest changes, so their content is compared.
        for path in tools::files(&source) {
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        }
        settle();
        run([OsStr::new("-T"), source.as_ref(), copied.as_ref()]).expect(0);
        tools::assert_equal_trees(&source, &copied);
    }

    [xfs, btrfs] fn equal_addresses_on_one_filesystem_spare_the_reading(fs: &Filesystem) {
        let (source, copied) = (fs.dir("source"), fs.join("copied"));
        tools::write_in_one_extent(&source.join("file"), &bytes(1, 8 << 20));
        copy(&source, &copied);
        settle();
        fs::set_permissions(source.join("file"), Permissions::from_mode(0o600)).unwrap();
        settle();
        tools::forget(&source.join("file"));
        tools::forget(&copied.join("file"));
        let args = ["copy", "--json", "-T"].map(OsStr::new);
        let read = tools::bytes_from_disk(&[args[0], args[1], args[2], source.as_ref(), copied.as_ref()]);
        assert!(read < 4 << 20, "{read} bytes were read");
        tools::assert_equal_trees(&source, &copied);
    }
}
