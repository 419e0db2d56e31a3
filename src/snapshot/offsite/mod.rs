//! `pleach offsite`: a store on another host or an object store, encrypted, in restic's format.
//!
//! rustic_core reads and writes the format. This module feeds it from snapshots, and chooses what it does.
//!
//! - `url`, `secrets`: where a store is, and how it is opened. `places` are the kinds of hosts. `watched` counts, ends
//!   a run that cannot write, hides `keys` that are not sane, and compares content with names by `named`.
//! - `store`: an open store. `held`: the snapshots in it, each `stored`. `verified`: blobs that have their hashes.
//!   `fault`, `guard`, `library_log`, `progress`: what the library reports.
//! - `push`, `list`, `restore`, `check`, `prune`: the verbs.

mod check;
mod fault;
#[cfg(feature = "testing")]
pub(crate) mod fuzz;
mod guard;
mod held;
mod keys;
mod library_log;
mod list;
mod named;
mod places;
mod progress;
mod prune;
mod push;
mod restore;
mod secrets;
mod store;
mod stored;
mod url;
mod verified;
mod watched;

use crate::error::Result;
use crate::monitor::Monitor;

pub use check::{CheckOptions, CheckStats, check};
pub(crate) use guard::catches;
pub use list::{ListStats, list};
#[cfg(feature = "testing")]
pub use places::local::Local;
pub use prune::{PruneOptions, PruneStats, PruneStopped, Row, prune};
pub use push::{PushOptions, PushStats, PushStopped, Pushed, push};
pub use restore::{RestoreOptions, RestoreStats, restore};
pub use secrets::Secrets;
pub use store::Access;
pub use stored::Snapshot;
pub use url::Url;

/// Makes a store.
///
/// # Errors
/// If there is one already, or the host refuses.
pub fn init(access: &Access, monitor: &dyn Monitor) -> Result<()> {
    store::Store::init(access, monitor)
}
