//! Temporary names: `PREFIX` BOOT `.` RANDOM, both hexadecimal. BOOT is the beginning of the kernel's boot id, so that
//! a run distinguishes the names of its own kernel from those of another host.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::BuildHasher as _;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of characters of the boot id in a name. Names of earlier versions have a shorter process id instead.
const BOOT: usize = 10;

/// A name that nobody can predict and nobody has used.
pub(super) fn new(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let random = KEYS.hash_one((std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    format!("{prefix}{}.{random:016x}", boot())
}

/// Whether this is a temporary name.
pub(super) fn is_one(name: &[u8], prefix: &str) -> bool {
    parts(name, prefix).is_some()
}

/// Whether this is a temporary name from the current boot of this kernel.
pub(super) fn is_of_this_boot(name: &[u8], prefix: &str) -> bool {
    parts(name, prefix).is_some_and(|(made_in, _)| made_in == boot())
}

/// Whether an earlier version created this temporary name. Runs of that version held no locks.
pub(super) fn is_of_earlier_version(name: &[u8], prefix: &str) -> bool {
    parts(name, prefix).is_some_and(|(made_in, _)| made_in.len() < BOOT)
}

fn parts<'n>(name: &'n [u8], prefix: &str) -> Option<(&'n str, &'n str)> {
    let rest = std::str::from_utf8(name.strip_prefix(prefix.as_bytes())?).ok()?;
    let (boot, random) = rest.split_once('.')?;
    let is_hexadecimal = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hexadecimal(boot) && is_hexadecimal(random)).then_some((boot, random))
}

fn boot() -> &'static str {
    static OWN: LazyLock<String> = LazyLock::new(|| {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(BOOT).collect();
        format!("{digits:0<BOOT$}")
    });
    &OWN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_known_by_its_parts() {
        let prefix = ".pleach-x.";
        let (one, other) = (new(prefix), new(prefix));
        assert_ne!(one, other);
        for name in [&one, &other] {
            assert!(is_of_this_boot(name.as_bytes(), prefix) && !is_of_earlier_version(name.as_bytes(), prefix));
            assert!(!is_one(name.as_bytes(), ".pleach-y."));
        }
        assert!(is_of_earlier_version(b".pleach-x.1f.0", prefix));
        assert!(is_one(b".pleach-x.0123456789.0", prefix) && !is_of_this_boot(b".pleach-x.0123456789.0", prefix));
        for name in [".pleach-x.", ".pleach-x.1f", ".pleach-x..0", ".pleach-x.zz.0", "pleach-x.1f.0", ".pleach-x.1f.0x"]
        {
            assert!(!is_one(name.as_bytes(), prefix), "{name}");
        }
    }
}
