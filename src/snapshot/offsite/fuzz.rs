//! Fuzz targets for what off-site copies parse: addresses and credentials here, the replies of SFTP in `sftp`.

pub(crate) use super::places::sftp;
use super::secrets;
use super::url::Url;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// The address of a store, and the same bytes as a file of credentials.
pub(crate) fn stores(bytes: &[u8]) {
    if let Ok(url) = Url::parse(OsStr::from_bytes(bytes)) {
        let shown = url.to_string();
        if !matches!(url, Url::Local(_)) {
            assert_eq!(Url::parse(shown.as_ref()).ok().as_ref(), Some(&url), "{shown}");
        }
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match secrets::parse(text) {
        Ok(values) => assert!(values.values().all(|value| !value.contains('\n'))),
        // A wrong line may have a secret in it.
        Err(error) => assert!(error.starts_with("line ")),
    }
}
