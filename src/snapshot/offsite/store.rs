//! An open store: the library's repository, with pleach's backend and progress.

use super::fault::{damage, explain, missing};
use super::library_log;
use super::places::{Place, connect};
use super::progress::{Bars, Counts, unless_cancelled};
use super::secrets::Secrets;
use super::url::{Url, local};
use super::watched::{Watch, Watched};
use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::snapshot::prune::calendar::Calendar;
use crate::util::time_zone;
use rustic_core::{
    ConfigOptions, Credentials, KeyOptions, OpenStatus, Repository, RepositoryBackends, RepositoryOptions, RusticError,
    RusticResult, WriteBackend,
};
use std::io;
use std::sync::Arc;

/// Where a store is, and how it is opened.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Access {
    /// Its address.
    pub url: Url,
    /// Its password, and the keys of its host.
    pub secrets: Secrets,
    /// Keep no copy of its index on this machine.
    pub no_cache: bool,
}

impl Access {
    /// Access to a store with these secrets.
    pub fn new(url: Url, secrets: Secrets) -> Access {
        Access { url, secrets, no_cache: false }
    }
}

/// An open store.
pub(super) struct Store {
    pub(super) url: Url,
    pub(super) repository: Repository<OpenStatus>,
    pub(super) watch: Arc<Watch>,
    pub(super) counts: Arc<Counts>,
    backends: RepositoryBackends,
    options: RepositoryOptions,
}

/// A store that is not open yet.
struct Closed {
    repository: Repository<()>,
    password: Credentials,
    watch: Arc<Watch>,
    counts: Arc<Counts>,
    backends: RepositoryBackends,
    options: RepositoryOptions,
}

impl Store {
    /// Opens it.
    ///
    /// # Errors
    /// If there is none, the password is wrong, or the host refuses.
    pub(super) fn open(access: &Access, monitor: &dyn Monitor) -> Result<Store> {
        let access = access.clone();
        unless_cancelled(monitor, move || {
            let Closed { repository, password, watch, counts, backends, options } = Closed::new(&access)?;
            let fault = |error: Box<RusticError>| known("open the store", &access.url, &watch, &error);
            if repository.config_id().map_err(fault)?.is_none() {
                return Err(missing(&access.url));
            }
            let repository = repository.open(&password).map_err(|error| {
                if watch.lacks_keys() {
                    return damage("open the store", &access.url, "it has no key file".into());
                }
                let error = fault(error);
                let odd = watch.odd_keys();
                odd.iter().take(3).fold(error, |error, key| error.hint_also(&format!("a key file was skipped: {key}")))
            })?;
            // One key was good. Others do not matter.
            drop(watch.read_failure());
            Ok(Store { url: access.url.clone(), repository, watch, counts, backends, options })
        })
    }

    /// Makes one.
    ///
    /// # Errors
    /// If there is one already, or the host refuses.
    pub(super) fn init(access: &Access, monitor: &dyn Monitor) -> Result<()> {
        let known_access = access.clone();
        let closed = unless_cancelled(monitor, move || {
            let closed = Closed::new(&known_access)?;
            let fault = |error: Box<RusticError>| known("make a store at", &known_access.url, &closed.watch, &error);
            match closed.repository.config_id().map_err(fault)? {
                None => Ok(closed),
                Some(_) => Err(Error::failed(format!("make a store at {}", known_access.url))
                    .because(io::Error::other("there is one already"))
                    .hint("use it with its own password, or choose another path")
                    .with_code("exists")),
            }
        })?;
        let Closed { repository, password, watch, .. } = closed;
        let place = local(&access.url).map(Place::take).transpose()?;
        repository.init(&password, &KeyOptions::default(), &ConfigOptions::default()).map(drop).map_err(|error| {
            // The next attempt needs an empty directory.
            if let Some(place) = &place {
                place.clear();
            }
            known("make a store at", &access.url, &watch, &error)
        })
    }

    /// The same store once more: one with an index cannot be used for anything else.
    pub(super) fn again(&self) -> RusticResult<Repository<OpenStatus>> {
        let repository = Repository::new_with_progress(&self.options, &self.backends, Bars(self.counts.clone()))?;
        repository.open(&Credentials::Masterkey(self.repository.key()))
    }

    /// Whether directories may come from this machine.
    pub(super) fn has_cache(&self) -> bool {
        !self.options.no_cache
    }

    /// The place of the store.
    pub(super) fn backend(&self) -> Arc<dyn WriteBackend> {
        self.backends.repository()
    }

    /// The first failure to write.
    pub(super) fn failure(&self) -> Option<Error> {
        self.watch.failure().map(|error| explain("write to the store", &self.url, &error))
    }

    /// The first failure to read.
    pub(super) fn read_failure(&self, action: &str) -> Option<Error> {
        self.watch.read_failure().map(|error| explain(action, &self.url, &error))
    }

    /// The error of an action on this store.
    pub(super) fn fault<'s>(&'s self, action: &'s str) -> impl Fn(Box<RusticError>) -> Error + 's {
        move |error| known(action, &self.url, &self.watch, &error)
    }
}

/// The library does not pass on why the store failed.
fn known(action: &str, url: &Url, watch: &Watch, error: &RusticError) -> Error {
    let inner = watch.failure().or_else(|| watch.read_failure());
    explain(action, url, inner.as_deref().unwrap_or(error))
}

impl Closed {
    fn new(access: &Access) -> Result<Closed> {
        if !time_zone::is_readable() {
            // The library looks for it too.
            Calendar::new(None, true)?;
        }
        library_log::listen();
        let credentials = access.secrets.read()?;
        let watch = Arc::new(Watch::default());
        let counts = Arc::new(Counts::default());
        let inner = connect(&access.url, &credentials, watch.clone())?;
        let backend = Watched { inner, watch: watch.clone() };
        let mut options = RepositoryOptions::default();
        options.no_cache = access.no_cache;
        let backends = RepositoryBackends::new(Arc::new(backend), None);
        let repository = Repository::new_with_progress(&options, &backends, Bars(counts.clone()))
            .map_err(|error| explain("open the store", &access.url, &error))?;
        let password = Credentials::Password(credentials.password);
        Ok(Closed { repository, password, watch, counts, backends, options })
    }
}
