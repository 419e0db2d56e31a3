//! A store on S3 or Azure, through OpenDAL.
//!
//! An answer has a limit, also where OpenDAL has none.

use super::error::{failed, silent, too_long};
use super::layout::{Found, length, path};
use super::patience::{LONG_PATIENCE, PATIENCE, REPETITIONS, runtime};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::header::{HeaderValue, RANGE};
use http::{Request, Response};
use opendal::Buffer;
use opendal::blocking::Operator;
use opendal::layers::{HttpClientLayer, RetryLayer, TimeoutLayer};
use opendal::options::{ListOptions, ReadOptions};
use opendal::raw::{HttpBody, HttpClient, HttpFetch};
use rustic_core::{FileType, Id, ReadBackend, RusticResult, WriteBackend};
use tokio::time::timeout;

/// The most bytes of an answer, unless the request is for less: a pack's, or those of a page of a list.
const LONGEST: u64 = 1 << 30;

/// The store.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    operator: Operator,
    /// Without repetitions, for the first contact.
    once: Operator,
    location: String,
}

impl Objects {
    /// A store that this service has.
    pub(super) fn new(service: impl opendal::Builder, location: String) -> RusticResult<Self> {
        let connect = |error| failed("use the service", error);
        let operator = opendal::Operator::new(service).map_err(connect)?.finish();
        let limited = HttpClient::with(Limited(HttpClient::new().map_err(connect)?));
        let operator = operator.layer(HttpClientLayer::new(limited));
        let operator = operator.layer(TimeoutLayer::new().with_timeout(PATIENCE).with_io_timeout(LONG_PATIENCE));
        let patient = operator.clone().layer(RetryLayer::new().with_max_times(REPETITIONS).with_jitter());
        let _guard = runtime()?.enter();
        let blocking = |operator| Operator::new(operator).map_err(connect);
        Ok(Objects { operator: blocking(patient)?, once: blocking(operator)?, location })
    }

    fn config(&self) -> RusticResult<Vec<(Id, u32)>> {
        let error = match self.once.stat("config") {
            Ok(found) => {
                let size = length(found.content_length()).map_err(|cause| failed("look for the store", cause))?;
                return Ok(vec![(Id::default(), size)]);
            }
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

/// Ends an answer that is longer than it may be. Otherwise a host could fill the memory.
struct Limited(HttpClient);

impl HttpFetch for Limited {
    async fn fetch(&self, request: Request<Buffer>) -> opendal::Result<Response<HttpBody>> {
        let most = request.headers().get(RANGE).and_then(length_of).unwrap_or(LONGEST);
        let response = self.0.fetch(request).await?;
        let mut rest = Some(most);
        let limited = move |part: opendal::Result<Buffer>| {
            let part = part?;
            rest = rest.and_then(|rest| rest.checked_sub(part.len() as u64));
            let error = || opendal::Error::new(opendal::ErrorKind::Unexpected, too_long(most).to_string());
            rest.map(|_| part).ok_or_else(error)
        };
        Ok(response.map(|body| body.map_inner(|stream| Box::new(stream.map(limited)))))
    }
}

/// How many bytes a header `Range: bytes=FIRST-LAST` asks for.
fn length_of(range: &HeaderValue) -> Option<u64> {
    let (first, last) = range.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    last.checked_sub(first)?.checked_add(1)
}

impl ReadBackend for Objects {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn list_with_size(&self, tpe: FileType) -> RusticResult<Vec<(Id, u32)>> {
        if tpe == FileType::Config {
            return self.config();
        }
        let action = format!("list {}", tpe.dirname());
        let list = |error| failed(&action, error);
        let options = ListOptions { recursive: tpe == FileType::Pack, ..ListOptions::default() };
        let path = format!("{}/", tpe.dirname());
        let (runtime, operator) = (runtime()?, opendal::Operator::from(self.operator.clone()));
        let mut lister = runtime.block_on(operator.lister_options(&path, options)).map_err(list)?;
        let mut found = Found::default();
        // A host can send pages without entries for ever, so each step has a limit.
        while let Some(entry) = runtime
            .block_on(async { timeout(LONG_PATIENCE, lister.next()).await })
            .map_err(|_| failed(&action, silent()))?
        {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) if error.kind() == opendal::ErrorKind::NotFound && found.is_empty() => break,
                Err(error) => return Err(list(error)),
            };
            let size = entry.metadata().is_file().then(|| entry.metadata().content_length());
            found.add(entry.name(), size).map_err(|cause| failed(&action, cause))?;
        }
        Ok(found.all())
    }

    fn read_full(&self, tpe: FileType, id: &Id) -> RusticResult<Bytes> {
        let path = path(tpe, id);
        let read = self.operator.read(&path).map_err(|error| failed(&format!("read {path}"), error))?;
        Ok(read.to_bytes())
    }

    fn read_partial(&self, tpe: FileType, id: &Id, _: bool, offset: u32, length: u32) -> RusticResult<Bytes> {
        let path = path(tpe, id);
        let range = (u64::from(offset)..u64::from(offset) + u64::from(length)).into();
        let options = ReadOptions { range, ..ReadOptions::default() };
        let read =
            self.operator.read_options(&path, options).map_err(|error| failed(&format!("read {path}"), error))?;
        Ok(read.to_bytes())
    }

    fn warmup_path(&self, tpe: FileType, id: &Id) -> String {
        path(tpe, id)
    }
}

impl WriteBackend for Objects {
    fn create(&self) -> RusticResult<()> {
        Ok(())
    }

    fn write_bytes(&self, tpe: FileType, id: &Id, _: bool, content: Bytes) -> RusticResult<()> {
        let path = path(tpe, id);
        let written = self.operator.write(&path, content);
        written.map(|_| ()).map_err(|error| failed(&format!("write {path}"), error))
    }

    fn remove(&self, tpe: FileType, id: &Id, _: bool) -> RusticResult<()> {
        let path = path(tpe, id);
        self.operator.delete(&path).map_err(|error| failed(&format!("remove {path}"), error))
    }
}
