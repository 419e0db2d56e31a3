//! A store on S3 or Azure, through OpenDAL.
//!
//! rustic_backend has such a backend too. It needs all of OpenDAL's services, and passes over entries that it cannot
//! list.

use bytes::Bytes;
use opendal::blocking::Operator;
use opendal::layers::{RetryLayer, TimeoutLayer};
use opendal::options::{ListOptions, ReadOptions};
use rustic_core::{ErrorKind, FileType, Id, ReadBackend, RusticError, RusticResult, WriteBackend};
use std::sync::OnceLock;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// How long a request without data may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a request with data may take: a pack has up to some hundred megabytes.
const LONG_PATIENCE: Duration = Duration::from_secs(30 * 60);
/// How often a request is repeated, after 1, 2, 4, 8, 16 and 32 seconds.
const RETRIES: usize = 6;

/// The store.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    operator: Operator,
    /// Without repetitions, for the first contact.
    once: Operator,
    location: String,
}

/// The threads on which requests run.
fn runtime() -> RusticResult<&'static Runtime> {
    static RUNTIME: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    let made = RUNTIME.get_or_init(|| Builder::new_multi_thread().worker_threads(2).enable_all().build());
    made.as_ref().map_err(|error| failed("start the threads for requests", std::io::Error::from(error.kind())))
}

fn failed(action: &str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Box<RusticError> {
    RusticError::with_source(ErrorKind::Backend, format!("cannot {action}"), error)
}

impl Objects {
    /// A store that this service has.
    pub(super) fn new(service: impl opendal::Builder, location: String) -> RusticResult<Self> {
        let connect = |error| failed("use the service", error);
        let operator = opendal::Operator::new(service).map_err(connect)?.finish();
        let operator = operator.layer(TimeoutLayer::new().with_timeout(PATIENCE).with_io_timeout(LONG_PATIENCE));
        let patient = operator.clone().layer(RetryLayer::new().with_max_times(RETRIES).with_jitter());
        let _guard = runtime()?.enter();
        let blocking = |operator| Operator::new(operator).map_err(connect);
        Ok(Objects { operator: blocking(patient)?, once: blocking(operator)?, location })
    }

    fn path(tpe: FileType, id: &Id) -> String {
        let name = id.to_hex();
        match tpe {
            FileType::Config => "config".to_string(),
            FileType::Pack => format!("{}/{}/{}", tpe.dirname(), &name[..2], &name[..]),
            _ => format!("{}/{}", tpe.dirname(), &name[..]),
        }
    }

    fn config(&self) -> RusticResult<Vec<(Id, u32)>> {
        let error = match self.once.stat("config") {
            Ok(found) => return Ok(vec![(Id::default(), length(found.content_length())?)]),
            Err(error) if error.kind() == opendal::ErrorKind::NotFound => None,
            Err(error) => Some(failed("look for the store", error)),
        };
        // The answer to this request has no text. One to a list shows whether the bucket is missing.
        let listed = self.once.list_options("keys/", ListOptions { limit: Some(1), ..ListOptions::default() });
        match (listed, error) {
            (Err(error), _) if error.kind() != opendal::ErrorKind::NotFound => Err(failed("look for the store", error)),
            (_, Some(error)) => Err(error),
            _ => Ok(Vec::new()),
        }
    }
}

fn length(length: u64) -> RusticResult<u32> {
    u32::try_from(length).map_err(|error| failed("use a file of more than 4 GiB", error))
}

impl ReadBackend for Objects {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn list_with_size(&self, tpe: FileType) -> RusticResult<Vec<(Id, u32)>> {
        if tpe == FileType::Config {
            return self.config();
        }
        let list = |error| failed(&format!("list {}", tpe.dirname()), error);
        let options = ListOptions { recursive: tpe == FileType::Pack, ..ListOptions::default() };
        let lister = self.operator.lister_options(&format!("{}/", tpe.dirname()), options).map_err(list)?;
        let mut found = Vec::new();
        for entry in lister {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) if error.kind() == opendal::ErrorKind::NotFound && found.is_empty() => break,
                Err(error) => return Err(list(error)),
            };
            // Names that are no IDs are from others, or unfinished.
            let Ok(id) = entry.name().parse::<Id>() else { continue };
            if entry.metadata().is_file() {
                found.push((id, length(entry.metadata().content_length())?));
            }
        }
        Ok(found)
    }

    fn read_full(&self, tpe: FileType, id: &Id) -> RusticResult<Bytes> {
        let path = Self::path(tpe, id);
        let read = self.operator.read(&path).map_err(|error| failed(&format!("read {path}"), error))?;
        Ok(read.to_bytes())
    }

    fn read_partial(&self, tpe: FileType, id: &Id, _: bool, offset: u32, length: u32) -> RusticResult<Bytes> {
        let path = Self::path(tpe, id);
        let range = (u64::from(offset)..u64::from(offset) + u64::from(length)).into();
        let options = ReadOptions { range, ..ReadOptions::default() };
        let read =
            self.operator.read_options(&path, options).map_err(|error| failed(&format!("read {path}"), error))?;
        Ok(read.to_bytes())
    }

    fn warmup_path(&self, tpe: FileType, id: &Id) -> String {
        Self::path(tpe, id)
    }
}

impl WriteBackend for Objects {
    fn create(&self) -> RusticResult<()> {
        Ok(())
    }

    fn write_bytes(&self, tpe: FileType, id: &Id, _: bool, content: Bytes) -> RusticResult<()> {
        let path = Self::path(tpe, id);
        let written = self.operator.write(&path, content);
        written.map(|_| ()).map_err(|error| failed(&format!("write {path}"), error))
    }

    fn remove(&self, tpe: FileType, id: &Id, _: bool) -> RusticResult<()> {
        let path = Self::path(tpe, id);
        self.operator.delete(&path).map_err(|error| failed(&format!("remove {path}"), error))
    }
}
