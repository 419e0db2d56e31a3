//! The arguments of `pleach offsite` and of its verbs.

use super::help;
use super::prune::KeepRules;
use super::repo_first::{is_path, with_repo_before_ids};
use super::values;
use crate::util::text;
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  pleach offsite init --to sftp:ann@nas:/srv/restic
  pleach offsite push --to sftp:ann@nas:/srv/restic /backup
  pleach offsite push --to s3:https://s3.eu-west-1.amazonaws.com/bucket/web --last 1 /backup
  pleach offsite list --to rest:https://nas:8000/web
  pleach offsite restore --to b2:bucket:web latest /home/ann --target /tmp/ann

The store is a repository in restic's format: encrypted, deduplicated, and readable by restic and rustic
without pleach. Only what changed since the last snapshot in the store is read and sent.

URL, as restic writes it:
  PATH or local:PATH                    a directory
  sftp:[USER@]HOST:PATH                 a host that ssh reaches, with your configuration and keys
  sftp://[USER@]HOST[:PORT]/PATH        the same
  rest:http[s]://HOST[:PORT]/PATH       a REST server of restic, or 'rclone serve restic'
  s3:http[s]://HOST[:PORT]/BUCKET/PATH  S3, and stores with its protocol
  s3:HOST/BUCKET/PATH                   the same
  b2:BUCKET:PATH                        Backblaze B2
  azure:CONTAINER:/PATH                 Azure Blob Storage

Environment, or lines NAME=VALUE of the credentials file:
  RESTIC_PASSWORD, RESTIC_PASSWORD_FILE            the password, unless --password-file is given
  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_DEFAULT_REGION
  B2_ACCOUNT_ID, B2_ACCOUNT_KEY
  AZURE_ACCOUNT_NAME, AZURE_ACCOUNT_KEY, AZURE_ACCOUNT_SAS, AZURE_ENDPOINT_SUFFIX
  RESTIC_REST_USERNAME, RESTIC_REST_PASSWORD
A secret is never an argument. A file with secrets must have mode 0600: docs/guide/offsite.md.";

const INIT_EXAMPLES: &str = "\
Examples:
  pleach offsite init --to sftp:ann@nas:/srv/restic
  pleach offsite init --to s3:s3.amazonaws.com/bucket --password-file ~/key";

const PUSH_EXAMPLES: &str = "\
Examples:
  pleach offsite push --to sftp:ann@nas:/srv/restic /backup
  pleach offsite push --to sftp:ann@nas:/srv/restic --last 1 /backup";

const LIST_EXAMPLES: &str = "\
Examples:
  pleach offsite list --to rest:https://nas:8000/web";

const RESTORE_EXAMPLES: &str = "\
Examples:
  pleach offsite restore --to b2:bucket:web latest /home/ann --target /tmp/ann";

const CHECK_EXAMPLES: &str = "\
Examples:
  pleach offsite check --to sftp:ann@nas:/srv/restic
  pleach offsite check --to sftp:ann@nas:/srv/restic --read-data=5%";

const PRUNE_EXAMPLES: &str = "\
Examples:
  pleach offsite prune --to sftp:ann@nas:/srv/restic --keep-daily 7 --keep-monthly 12";

#[derive(Args, Debug)]
#[command(subcommand_value_name = "VERB", subcommand_help_heading = "Verbs")]
pub(crate) struct Offsite {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Make the store
    #[command(after_help = help::MORE, after_long_help = help::long(INIT_EXAMPLES))]
    Init(Init),
    /// Send the snapshots of a repository that the store lacks
    #[command(after_help = help::MORE, after_long_help = help::long(PUSH_EXAMPLES))]
    #[command(override_usage = "pleach offsite push [OPTIONS] --to <URL> REPO [ID]...")]
    Push(Push),
    /// List the snapshots in the store
    #[command(after_help = help::MORE, after_long_help = help::long(LIST_EXAMPLES))]
    List(List),
    /// Restore a snapshot from the store, or parts of it, below a directory
    #[command(after_help = help::MORE, after_long_help = help::long(RESTORE_EXAMPLES))]
    #[command(override_usage = "pleach offsite restore [OPTIONS] --to <URL> --target <DIR> [ID] [PATH]...")]
    Restore(Restore),
    /// Check the store
    #[command(after_help = help::MORE, after_long_help = help::long(CHECK_EXAMPLES))]
    Check(Check),
    /// Remove the snapshots that no rule keeps, and the data that only they used
    #[command(after_help = help::MORE, after_long_help = help::long(PRUNE_EXAMPLES))]
    Prune(Prune),
}

/// The store, and the secrets to open it.
#[derive(Args, Clone, Debug)]
pub(crate) struct Store {
    /// The store: --help of 'pleach offsite' lists the forms
    #[arg(long, value_name = "URL", env = "PLEACH_OFFSITE", hide_env_values = true)]
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub(crate) to: OsString,
    /// Read the password from FILE
    ///
    /// Blanks and line breaks at its ends do not count. Its mode must be 0600 or stricter. Without it, the password is
    /// in RESTIC_PASSWORD, or in the file that RESTIC_PASSWORD_FILE names.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) password_file: Option<PathBuf>,
    /// Read keys from the lines NAME=VALUE of FILE
    ///
    /// The names are those of the environment, which these lines override. Its mode must be 0600 or stricter.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) credentials_file: Option<PathBuf>,
    /// Keep no copy of the store's index on this machine
    ///
    /// By default it is in ~/.cache/rustic, as rustic does.
    #[arg(long)]
    pub(crate) no_cache: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Init {
    #[command(flatten)]
    pub(crate) store: Store,
}

#[derive(Args, Debug)]
pub(crate) struct Push {
    /// The repository, and the snapshots
    ///
    /// Without a repository, $PLEACH_REPO. Without snapshots, all that the store lacks, oldest first.
    #[arg(value_name = "REPO [ID]", num_args = 0.., value_hint = clap::ValueHint::AnyPath)]
    words: Vec<OsString>,
    /// Send only the N newest snapshots
    #[arg(long, value_name = "N", value_parser = values::whole::<usize>(1..=u64::MAX))]
    pub(crate) last: Option<usize>,
    /// Only list the snapshots that would be sent
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) store: Store,
    #[arg(skip)]
    pub(crate) repo: PathBuf,
    #[arg(skip)]
    pub(crate) ids: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) store: Store,
}

#[derive(Args, Debug)]
pub(crate) struct Restore {
    /// The snapshot, and the paths to restore
    ///
    /// A name as in 'pleach offsite list', an unambiguous beginning of one, restic's ID, or 'latest', which is the
    /// default. Without paths, everything.
    #[arg(value_name = "ID [PATH]", num_args = 0.., value_hint = clap::ValueHint::AnyPath)]
    words: Vec<OsString>,
    /// Restore below DIR, which is made if it does not exist
    ///
    /// /home/ann/a is restored to DIR/home/ann/a.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) target: PathBuf,
    /// Read existing files even if size and time match
    #[arg(long)]
    pub(crate) verify: bool,
    /// Only count what would be restored
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) store: Store,
    #[arg(skip)]
    pub(crate) id: String,
    #[arg(skip)]
    pub(crate) paths: Vec<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Check {
    /// Read the data too, or this part of it, and check it
    ///
    /// Each run reads another part, at random.
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, require_equals = true, default_missing_value = "100%")]
    #[arg(value_parser = values::part)]
    pub(crate) read_data: Option<f64>,
    #[command(flatten)]
    pub(crate) store: Store,
}

#[derive(Args, Debug)]
pub(crate) struct Prune {
    #[command(flatten)]
    pub(crate) keep: KeepRules,
    /// Only show what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Free the space at once, not in a run after 23 hours
    ///
    /// Nothing else may use the store meanwhile: no push, no restic.
    #[arg(long)]
    pub(crate) now: bool,
    #[command(flatten)]
    pub(crate) store: Store,
}

impl Offsite {
    /// Settles which words are the repository, snapshots and paths. On a mistake, the verb is named too.
    pub(super) fn settle(&mut self, environment: Option<PathBuf>) -> Result<(), (&'static str, String)> {
        match &mut self.verb {
            Verb::Push(push) => push.settle(environment).map_err(|message| ("push", message)),
            Verb::Restore(restore) => restore.settle().map_err(|message| ("restore", message)),
            Verb::Init(_) | Verb::List(_) | Verb::Check(_) | Verb::Prune(_) => Ok(()),
        }
    }
}

impl Push {
    /// Settles which words are the repository and snapshots.
    fn settle(&mut self, environment: Option<PathBuf>) -> Result<(), String> {
        let mut words = with_repo_before_ids(std::mem::take(&mut self.words), environment, 0)?.into_iter();
        self.repo = words.next().unwrap_or_default().into();
        self.ids = words.map(name).collect::<Result<_, _>>()?;
        match (&self.ids[..], self.last) {
            ([_, ..], Some(_)) => Err("name snapshots, or use --last".into()),
            _ => Ok(()),
        }
    }
}

impl Restore {
    /// Settles which word is the snapshot: the first one, unless it is a path.
    fn settle(&mut self) -> Result<(), String> {
        let mut words = std::mem::take(&mut self.words).into_iter().peekable();
        self.id = match words.next_if(|word| !is_path(word)) {
            Some(id) => name(id)?,
            None => "latest".into(),
        };
        self.paths = words.map(PathBuf::from).collect();
        match self.paths.iter().find(|path| !path.is_absolute()) {
            Some(path) => Err(format!("the path {} is not absolute, as those in a snapshot are", text::path(path))),
            None => Ok(()),
        }
    }
}

fn name(word: OsString) -> Result<String, String> {
    word.into_string().map_err(|_| "the name of a snapshot is UTF-8".to_string())
}
