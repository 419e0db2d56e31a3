//! A fuzz target for profiles.

use super::Profile;
use std::path::Path;

/// The text of a profile. One without mistakes is written, and read again.
pub(crate) fn profile(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let path = Path::new("/p.toml");
    match Profile::read(text, "fuzz", path) {
        Ok(profile) => {
            let written = profile.toml();
            let again = Profile::read(&written, "fuzz", path);
            assert_eq!(again.ok().as_ref(), Some(&profile), "{written}");
            let paths = profile.snapshot.iter().flat_map(|snapshot| &snapshot.sources);
            assert!(paths.chain(&profile.repository).all(|path| path.is_absolute()));
            assert!(serde_json::to_string(&profile.object()).is_ok());
        }
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in errors {
                assert!(error.to_string().contains(": line "), "{error}");
            }
        }
    }
    if let Some(profile) = Profile::without_steps(text, "fuzz", path) {
        assert!(profile.snapshot.is_none() && profile.prune.is_none() && profile.dedupe.is_none());
    }
}
