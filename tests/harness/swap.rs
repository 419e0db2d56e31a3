//! A file in use as swap, and an equal one that is not.

use super::{Kind, finish, shapes, skip, write};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// A swap file, in use until the end of the test, even a failed one: otherwise its filesystem could not be unmounted.
pub(crate) struct Swap {
    path: PathBuf,
    copy: PathBuf,
}

impl Swap {
    /// Makes the files `swap` and `copy`, and has the kernel use the first. `None`, and recorded as skipped, if the
    /// kernel refuses.
    #[track_caller]
    pub(crate) fn begin(kind: Kind, dir: &Path, test: &str) -> Option<Swap> {
        let [path, copy] = ["swap", "copy"].map(|name| dir.join(name));
        for file in [&path, &copy] {
            File::create_new(file).expect("a file can be made");
            // Only an empty file can get this flag, and only such files may be swap.
            if kind == Kind::Btrfs {
                finish(Command::new("chattr").arg("+C").arg(file)).expect(0);
            }
        }
        write(&path, &vec![0; 512 << 10]);
        finish(Command::new("chmod").arg("600").arg(&path)).expect(0);
        finish(Command::new("mkswap").arg(&path)).expect(0);
        write(&copy, &fs::read(&path).expect("a file can be read"));
        shapes::settle(dir);
        let on = finish(Command::new("swapon").arg(&path));
        if on.status != 0 {
            skip(test, &on.stderr);
            return None;
        }
        Some(Swap { path, copy })
    }

    /// The file in use.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The equal file, which is an ordinary one.
    pub(crate) fn copy(&self) -> &Path {
        &self.copy
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let off = Command::new("swapoff").arg(&self.path).status();
        if !thread::panicking() {
            assert!(off.is_ok_and(|status| status.success()), "swap can be switched off");
        }
    }
}
