//! A store on a REST server of restic: <https://restic.readthedocs.io/en/stable/REST_backend.html>.

use super::super::watched::Watch;
use super::error::{failed, silent, too_long};
use super::layout::{Found, longest};
use super::patience::{LONG_PATIENCE, PATIENCE, repeat, runtime};
use bytes::Bytes;
use reqwest::header::{ACCEPT, RANGE};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use rustic_core::{FileType, Id, ReadBackend, RusticError, RusticResult, WriteBackend};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The kind of lists with sizes.
const LIST: &str = "application/vnd.x.restic.rest.v2";
/// The most bytes of a list: those of as many files as a store may have.
const LONGEST_LIST: u64 = 1 << 30;
/// The most bytes of the answer to a request that asks for no data.
const LONGEST_NOTE: u64 = 1 << 20;

/// The store.
#[derive(Clone, Debug)]
pub(super) struct Rest {
    client: Client,
    /// Its address, with a slash at its end.
    address: String,
    user: Option<(String, Option<String>)>,
    watch: Arc<Watch>,
}

/// Why a request failed.
#[derive(Debug)]
pub(super) struct Failed {
    cause: Box<dyn StdError + Send + Sync>,
    is_temporary: bool,
    /// Whether the server has no such file.
    is_missing: bool,
    /// Whether it was not the first attempt. The answer to an earlier one may have been lost.
    is_repeated: bool,
}

impl From<reqwest::Error> for Failed {
    fn from(error: reqwest::Error) -> Failed {
        let is_temporary = match error.status() {
            Some(StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS) => true,
            Some(status) => status.is_server_error() && status != StatusCode::INSUFFICIENT_STORAGE,
            None => !error.is_builder(),
        };
        let is_missing = error.status() == Some(StatusCode::NOT_FOUND);
        Failed { is_temporary, is_missing, ..Failed::lasting(error.without_url()) }
    }
}

impl Failed {
    fn silent() -> Failed {
        Failed { is_temporary: true, ..Failed::lasting(silent()) }
    }

    fn lasting(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Failed {
        Failed { cause: cause.into(), is_temporary: false, is_missing: false, is_repeated: false }
    }

    /// The error of this action.
    pub(super) fn during(self, action: &str) -> Box<RusticError> {
        failed(action, self.cause)
    }
}

/// Connects to servers.
pub(super) fn client() -> Result<Client, Failed> {
    let agent = concat!("pleach/", env!("CARGO_PKG_VERSION"));
    Ok(Client::builder().user_agent(agent).connect_timeout(PATIENCE).build()?)
}

/// Sends a request, and reads the body of a successful answer, of at most this many bytes. `patience` is the time until
/// it begins.
pub(super) fn answer(request: RequestBuilder, patience: Duration, most: u64) -> Result<Bytes, Failed> {
    let all = async {
        let response = timeout(patience, request.send()).await.map_err(|_| Failed::silent())??;
        body(response.error_for_status()?, most).await
    };
    let runtime = runtime().map_err(Failed::lasting)?;
    runtime.block_on(async { timeout(LONG_PATIENCE, all).await.map_err(|_| Failed::silent())? })
}

async fn body(mut response: Response, most: u64) -> Result<Bytes, Failed> {
    let mut content = Vec::new();
    while let Some(chunk) = timeout(PATIENCE, response.chunk()).await.map_err(|_| Failed::silent())?? {
        if content.len() as u64 + chunk.len() as u64 > most {
            return Err(Failed::lasting(too_long(most)));
        }
        content.extend_from_slice(&chunk);
    }
    Ok(content.into())
}

impl Rest {
    /// The store at an address that ends with a slash.
    pub(super) fn new(
        address: &str,
        user: Option<String>,
        password: Option<String>,
        watch: Arc<Watch>,
    ) -> RusticResult<Rest> {
        let client = client().map_err(|failed| failed.during("use the network"))?;
        Ok(Rest { client, address: address.into(), user: user.map(|user| (user, password)), watch })
    }

    fn path(tpe: FileType, id: &Id) -> String {
        match tpe {
            FileType::Config => "config".to_string(),
            _ => format!("{}/{}", tpe.dirname(), id.to_hex().as_str()),
        }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.address));
        match &self.user {
            Some((user, password)) => request.basic_auth(user, password.as_ref()),
            None => request,
        }
    }

    /// Sends a request, and again if that may help.
    fn send(
        &self,
        action: &str,
        patience: Duration,
        most: u64,
        request: impl Fn() -> RequestBuilder,
    ) -> RusticResult<Bytes> {
        self.attempt(patience, most, request).map_err(|failed| failed.during(action))
    }

    fn attempt(&self, patience: Duration, most: u64, request: impl Fn() -> RequestBuilder) -> Result<Bytes, Failed> {
        let mut attempts = 0;
        let is_temporary = |failed: &Failed| failed.is_temporary;
        let sent = repeat(&self.watch, is_temporary, || {
            attempts += 1;
            answer(request(), patience, most)
        });
        sent.map_err(|failed| Failed { is_repeated: attempts > 1, ..failed })
    }

    /// Whether there is a store. This is the first request, and not repeated, so that a mistake shows at once.
    fn config(&self) -> RusticResult<Vec<(Id, u32)>> {
        match answer(self.request(Method::HEAD, "config"), PATIENCE, 0) {
            Ok(_) => Ok(vec![(Id::default(), 0)]),
            Err(failed) if failed.is_missing => Ok(Vec::new()),
            Err(failed) => Err(failed.during("look for the store")),
        }
    }
}

/// The files in the answer to a request for a list, which may be `null`.
struct Listed(Found);

impl<'de> Deserialize<'de> for Listed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Listed, D::Error> {
        deserializer.deserialize_any(Listing)
    }
}

struct Listing;

impl<'de> Visitor<'de> for Listing {
    type Value = Listed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of files")
    }

    fn visit_unit<E>(self) -> Result<Listed, E> {
        Ok(Listed(Found::default()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut files: A) -> Result<Listed, A::Error> {
        #[derive(Deserialize)]
        struct File<'n> {
            #[serde(borrow)]
            name: Cow<'n, str>,
            size: u64,
        }
        let mut found = Found::default();
        while let Some(File { name, size }) = files.next_element()? {
            found.add(&name, Some(size)).map_err(A::Error::custom)?;
        }
        Ok(Listed(found))
    }
}

impl ReadBackend for Rest {
    fn location(&self) -> String {
        format!("rest:{}", self.address)
    }

    fn list_with_size(&self, tpe: FileType) -> RusticResult<Vec<(Id, u32)>> {
        if tpe == FileType::Config {
            return self.config();
        }
        let action = format!("list {}", tpe.dirname());
        let path = format!("{}/", tpe.dirname());
        let request = || self.request(Method::GET, &path).header(ACCEPT, LIST);
        let list = self.send(&action, LONG_PATIENCE, LONGEST_LIST, request)?;
        match serde_json::from_slice(&list) {
            Ok(Listed(found)) => Ok(found.all()),
            Err(cause) => Err(Failed::lasting(cause).during(&action)),
        }
    }

    fn read_full(&self, tpe: FileType, id: &Id) -> RusticResult<Bytes> {
        let path = Self::path(tpe, id);
        self.send(&format!("read {path}"), PATIENCE, longest(tpe), || self.request(Method::GET, &path))
    }

    fn read_partial(&self, tpe: FileType, id: &Id, _: bool, offset: u32, length: u32) -> RusticResult<Bytes> {
        let Some(last) = length.checked_sub(1).map(|last| u64::from(offset) + u64::from(last)) else {
            return Ok(Bytes::new());
        };
        let path = Self::path(tpe, id);
        let action = format!("read {path}");
        let request = || self.request(Method::GET, &path).header(RANGE, format!("bytes={offset}-{last}"));
        let content = self.send(&action, PATIENCE, length.into(), request)?;
        match content.len() == length as usize {
            true => Ok(content),
            false => Err(Failed::lasting(io::Error::from(io::ErrorKind::UnexpectedEof)).during(&action)),
        }
    }

    fn warmup_path(&self, tpe: FileType, id: &Id) -> String {
        Self::path(tpe, id)
    }
}

impl WriteBackend for Rest {
    fn create(&self) -> RusticResult<()> {
        let request = || self.request(Method::POST, "?create=true");
        self.send("make the store", PATIENCE, LONGEST_NOTE, request).map(drop)
    }

    fn write_bytes(&self, tpe: FileType, id: &Id, _: bool, content: Bytes) -> RusticResult<()> {
        let path = Self::path(tpe, id);
        let request = || self.request(Method::POST, &path).body(content.clone());
        let is_there = || {
            let found = self.attempt(PATIENCE, content.len() as u64, || self.request(Method::GET, &path));
            found.is_ok_and(|found| found == content)
        };
        match self.attempt(LONG_PATIENCE, LONGEST_NOTE, request) {
            Ok(_) => Ok(()),
            // A server that only adds files refuses to write one again.
            Err(failed) if failed.is_repeated && !failed.is_temporary && is_there() => Ok(()),
            Err(failed) => Err(failed.during(&format!("write {path}"))),
        }
    }

    fn remove(&self, tpe: FileType, id: &Id, _: bool) -> RusticResult<()> {
        let path = Self::path(tpe, id);
        match self.attempt(PATIENCE, LONGEST_NOTE, || self.request(Method::DELETE, &path)) {
            Err(failed) if !failed.is_missing => Err(failed.during(&format!("remove {path}"))),
            _ => Ok(()),
        }
    }
}
