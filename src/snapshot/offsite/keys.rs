//! The key files of a store. Whoever can write there can add one, and needs no password for that. The library stops at
//! the first one that it cannot read, and lets a file choose how much memory and time its key takes. So it sees only
//! those that another program of this format may have made.

use rustic_core::repofile::KeyFile;

/// The most bytes of a key file. They have about 500.
pub(super) const LONGEST: u32 = 64 << 10;
/// The limits of scrypt's parameters. restic makes keys with an N of 2^15, an r of 8 and a p that takes half a second,
/// and rustic with 2^17, 8 and 1.
const MOST_N: u32 = 1 << 20;
const MOST_R: u32 = 32;
const MOST_P: u32 = 16;
/// The most bytes of memory that a key may take: twice as many as one of rustic.
const MOST_MEMORY: u64 = 256 << 20;
/// The most work: as many bytes are written and read.
const MOST_WORK: u64 = 1 << 30;
/// The nonce and the code of an encrypted key.
const SHORTEST: usize = 32;

/// Why this content of a key file is not for the library; none if it is.
pub(super) fn fault(content: &[u8]) -> Option<String> {
    if content.len() > LONGEST as usize {
        return Some("it is too long".into());
    }
    let Ok(KeyFile { kdf, n, r, p, data, .. }) = serde_json::from_slice(content) else {
        return Some("it is malformed".into());
    };
    if kdf != "scrypt" || data.len() < SHORTEST {
        return Some("it has no key by scrypt".into());
    }
    let is_usual = n.is_power_of_two() && (2..=MOST_N).contains(&n) && (1..=MOST_R).contains(&r);
    // scrypt itself wants N to be less than 2^(16 r).
    let is_usual = is_usual && (1..=MOST_P).contains(&p) && n.ilog2() < 16 * r;
    let memory = 128 * u64::from(n) * u64::from(r);
    (!is_usual || memory > MOST_MEMORY || memory * u64::from(p) > MOST_WORK)
        .then(|| format!("scrypt with N={n}, r={r}, p={p} is too much work, or impossible"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faulty(n: u64, r: u64, p: u64) -> bool {
        let data = "A".repeat(80);
        let file = format!(r#"{{"kdf":"scrypt","N":{n},"r":{r},"p":{p},"data":"{data}","salt":"AAAA"}}"#);
        fault(file.as_bytes()).is_some()
    }

    #[test]
    fn keys_of_known_programs_are_taken() {
        for (n, r, p) in
            [(1 << 15, 8, 1), (1 << 15, 8, 16), (1 << 17, 8, 1), (1 << 18, 8, 4), (1 << 14, 8, 1), (2, 8, 1)]
        {
            assert!(!faulty(n, r, p), "{n} {r} {p}");
        }
    }

    #[test]
    fn keys_that_stop_or_stall_the_library_are_not() {
        for (n, r, p) in [
            (0, 8, 1),
            (1, 8, 1),
            (3, 8, 1),
            (1024, 0, 1),
            (1024, 8, 0),
            (1 << 31, 8, 1),
            (1 << 21, 1, 1),
            (1 << 20, 32, 1),
            (1 << 16, 1, 1),
            (1 << 18, 8, 16),
            (1024, u64::from(u32::MAX), 1),
            (2, 1_000_000, 1),
            (1024, 8, 100_000_000),
            (u64::MAX, 8, 1),
        ] {
            assert!(faulty(n, r, p), "{n} {r} {p}");
        }
        for text in ["", "hello", "{}", "[1", &"[".repeat(50_000), &" ".repeat(100_000)] {
            assert!(fault(text.as_bytes()).is_some());
        }
    }
}
