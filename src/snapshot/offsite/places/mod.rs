//! The places of stores: `local` is a directory, `rest` a REST server, `objects` a bucket on S3 or Azure, `sftp` a
//! directory on a host with ssh. `layout` has the names of the files and limits for answers of hosts, `patience` how
//! long a host may take. `half_made` is a directory that is not a store yet.

mod error;
mod half_made;
mod layout;
pub(super) mod local;
mod objects;
mod patience;
mod rest;
mod sftp;

use super::fault::explain;
use super::secrets::Credentials;
use super::url::Url;
use super::watched::Watch;
use crate::error::Result;
use local::Local;
use objects::Objects;
use opendal::services::{Azblob, S3};
use patience::PATIENCE;
use rest::{Rest, answer, client};
use rustic_core::{ErrorKind, RusticError, RusticResult, WriteBackend};
use serde::Deserialize;
use sftp::Sftp;
use std::sync::Arc;

pub(super) use half_made::Place;
#[cfg(feature = "testing")]
pub(crate) use sftp::fuzz::sftp;

/// Where Backblaze answers which of its hosts has a bucket.
const B2: &str = "https://api.backblazeb2.com/b2api/v3/b2_authorize_account";
/// The most bytes of that answer.
const LONGEST: u64 = 1 << 20;
/// The region of hosts that have none.
const REGION: &str = "us-east-1";

/// Opens it. Whether a store is there is not known yet.
pub(super) fn connect(url: &Url, credentials: &Credentials, watch: Arc<Watch>) -> Result<Arc<dyn WriteBackend>> {
    // A program that uses this library may have chosen another one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let fault = |error: Box<RusticError>| explain("open the store", url, &error);
    let location = url.to_string();
    Ok(match url {
        Url::Local(path) => Arc::new(Local::new(path)),
        Url::Rest(server) => {
            let user = credentials.get("RESTIC_REST_USERNAME");
            let password = credentials.get("RESTIC_REST_PASSWORD");
            Arc::new(Rest::new(server, user, password, watch).map_err(fault)?)
        }
        Url::S3 { endpoint, bucket, prefix } => {
            let keys = (credentials.need("AWS_ACCESS_KEY_ID")?, credentials.need("AWS_SECRET_ACCESS_KEY")?);
            let region = credentials.get("AWS_DEFAULT_REGION").or_else(|| region(endpoint));
            let mut service = s3(endpoint, bucket, prefix, &keys, &region.unwrap_or_else(|| REGION.into()));
            if let Some(token) = credentials.get("AWS_SESSION_TOKEN") {
                service = service.session_token(&token);
            }
            Arc::new(Objects::new(service, location).map_err(fault)?)
        }
        Url::B2 { bucket, prefix } => {
            let keys = (credentials.need("B2_ACCOUNT_ID")?, credentials.need("B2_ACCOUNT_KEY")?);
            let endpoint = b2_endpoint(&keys).map_err(fault)?;
            let region = region(&endpoint).unwrap_or_else(|| REGION.into());
            let service = s3(&endpoint, bucket, prefix, &keys, &region);
            Arc::new(Objects::new(service, location).map_err(fault)?)
        }
        Url::Azure { container, prefix } => {
            Arc::new(Objects::new(azure(container, prefix, credentials)?, location).map_err(fault)?)
        }
        Url::Sftp { host, path } => Arc::new(Sftp::new(host, path, location, watch)?),
    })
}

fn s3(endpoint: &str, bucket: &str, prefix: &str, (id, key): &(String, String), region: &str) -> S3 {
    let service = S3::default().endpoint(endpoint).bucket(bucket).root(prefix).region(region);
    service.access_key_id(id).secret_access_key(key).disable_config_load().disable_ec2_metadata()
}

/// The region in a host's name: `s3.REGION.amazonaws.com`, `s3.REGION.backblazeb2.com`.
fn region(endpoint: &str) -> Option<String> {
    let host = endpoint.split_once("://").map_or(endpoint, |(_, host)| host);
    let rest = host.strip_prefix("s3.").or_else(|| host.strip_prefix("s3-"))?;
    let rest = rest.strip_prefix("dualstack.").unwrap_or(rest);
    let (region, domain) = rest.split_once('.')?;
    // s3.amazonaws.com has none.
    (domain.contains('.') && region != "amazonaws").then(|| region.to_string())
}

fn azure(container: &str, prefix: &str, credentials: &Credentials) -> Result<Azblob> {
    let account = credentials.need("AZURE_ACCOUNT_NAME")?;
    let suffix = credentials.get("AZURE_ENDPOINT_SUFFIX").unwrap_or_else(|| "core.windows.net".into());
    let endpoint = credentials.get("AZURE_ENDPOINT").unwrap_or_else(|| format!("https://{account}.blob.{suffix}"));
    let service = Azblob::default().container(container).root(prefix).endpoint(&endpoint).account_name(&account);
    match (credentials.get("AZURE_ACCOUNT_KEY"), credentials.get("AZURE_ACCOUNT_SAS")) {
        (Some(key), _) => Ok(service.account_key(&key)),
        (None, Some(token)) => Ok(service.sas_token(token.trim_start_matches('?'))),
        (None, None) => credentials.need("AZURE_ACCOUNT_KEY").map(|_| service),
    }
}

/// The host of the account's buckets that speaks S3's protocol.
fn b2_endpoint((id, key): &(String, String)) -> RusticResult<String> {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(rename = "apiInfo")]
        api: Api,
    }
    #[derive(Deserialize)]
    struct Api {
        #[serde(rename = "storageApi")]
        storage: Storage,
    }
    #[derive(Deserialize)]
    struct Storage {
        #[serde(rename = "s3ApiUrl")]
        s3: String,
    }
    let asked = client().and_then(|client| answer(client.get(B2).basic_auth(id, Some(key)), PATIENCE, LONGEST));
    let text = asked.map_err(|failed| failed.during("find the host of the bucket"))?;
    let answer: Answer = serde_json::from_slice(&text)
        .map_err(|error| RusticError::with_source(ErrorKind::Backend, "Backblaze gives an unknown answer", error))?;
    Ok(answer.api.storage.s3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_region_is_in_the_name_of_the_host() {
        let of = |host: &str| region(&format!("https://{host}"));
        assert_eq!(of("s3.eu-west-1.amazonaws.com").as_deref(), Some("eu-west-1"));
        assert_eq!(of("s3.dualstack.eu-west-1.amazonaws.com").as_deref(), Some("eu-west-1"));
        assert_eq!(of("s3.us-west-004.backblazeb2.com").as_deref(), Some("us-west-004"));
        assert_eq!(of("s3.amazonaws.com"), None);
        assert_eq!(of("127.0.0.1:8333"), None);
    }
}
