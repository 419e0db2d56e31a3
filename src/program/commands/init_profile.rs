//! `pleach init-profile FILE`.

use super::outcome::Ended;
use crate::error::{Error, Result};
use crate::program::cli;
use crate::program::exit_status::ExitStatus;
use crate::program::output::{Output, run as show};
use crate::program::profile::TEMPLATE;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

pub(crate) fn run(args: &cli::InitProfile, output: &Output) -> Result<Ended> {
    let path = &args.file;
    let failed = |cause: std::io::Error| Error::io("write the profile", path, cause);
    // The first profile of a machine or user needs its directory. No further directory is made.
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty() && !dir.exists()) {
        fs::create_dir(dir).map_err(|cause| Error::io("create the directory", dir, cause))?;
    }
    // Only its owner may read it: it can contain commands with passwords.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|cause| {
        let exists = cause.kind() == ErrorKind::AlreadyExists;
        let error = failed(cause);
        if exists { error.hint("it was not changed; name another file") } else { error }
    })?;
    file.write_all(TEMPLATE.as_bytes()).and_then(|()| file.sync_all()).map_err(|cause| {
        let _ = fs::remove_file(path);
        failed(cause)
    })?;
    show::show_new_profile(output, &std::path::absolute(path).unwrap_or_else(|_| Path::new(path).to_path_buf()));
    Ok(Ended::Worked(ExitStatus::Done))
}
