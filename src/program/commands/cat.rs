//! `pleach cat REPO ID PATH`.

use super::id::as_id;
use super::outcome::Ended;
use crate::error::{Error, Result};
use crate::program::cli;
use crate::program::exit_status::ExitStatus;
use crate::program::output::{Output, progress};
use crate::snapshot::cat::{Options, cat};

pub(crate) fn run(args: &cli::Cat, output: &Output) -> Result<Ended> {
    let (repo, snapshot, path) = args.repo_id_and_path();
    let snapshot = as_id(snapshot)?;
    progress::watch_listing(output, |monitor, make_room| {
        cat(repo, snapshot, path, &Options::default(), monitor, &mut |piece| {
            make_room();
            output.text(piece);
            if output.is_cancelled() { Err(Error::interrupted()) } else { Ok(()) }
        })
    })?;
    Ok(Ended::Listed(ExitStatus::Done))
}
