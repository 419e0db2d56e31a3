//! Opens the place of a store with the keys of its host.

use super::fault::explain;
use super::objects::Objects;
use super::secrets::Credentials;
use super::sftp::Sftp;
use super::url::Url;
use crate::error::{Error, Result};
use opendal::services::{Azblob, S3};
use reqwest::StatusCode;
use reqwest::blocking::Client;
use rustic_backend::local::LocalBackend;
use rustic_backend::rest::RestBackend;
use rustic_core::{ErrorKind, RusticError, RusticResult, WriteBackend};
use serde::Deserialize;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Where Backblaze answers which of its hosts has a bucket.
const B2: &str = "https://api.backblazeb2.com/b2api/v3/b2_authorize_account";
/// How long the first answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The region of hosts that have none.
const REGION: &str = "us-east-1";

/// Opens it. Whether a store is there is not known yet.
pub(super) fn connect(url: &Url, credentials: &Credentials) -> Result<Arc<dyn WriteBackend>> {
    let fault = |error: Box<RusticError>| explain("open the store", url, &error);
    let location = url.to_string();
    Ok(match url {
        Url::Local(path) => {
            let text = path.to_str().ok_or_else(|| {
                let cause = io::Error::other("its path is not UTF-8");
                Error::failed("open the store").at(path).because(cause)
            })?;
            Arc::new(LocalBackend::new(text, []).map_err(fault)?)
        }
        Url::Rest(server) => {
            let user = credentials.get("RESTIC_REST_USERNAME");
            let password = credentials.get("RESTIC_REST_PASSWORD");
            find_server(server, user.as_deref(), password.as_deref()).map_err(fault)?;
            let address = with_user(server, user.as_deref(), password.as_deref()).map_err(fault)?;
            Arc::new(RestBackend::new(address, []).map_err(fault)?)
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
        Url::Sftp { host, path } => Arc::new(Sftp::new(host, path, location)?),
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

fn failed(error: reqwest::Error) -> Box<RusticError> {
    RusticError::with_source(ErrorKind::Backend, "no answer", error.without_url())
}

fn client() -> RusticResult<Client> {
    Client::builder().timeout(PATIENCE).build().map_err(failed)
}

/// The library takes a server that refuses for one without a store, and repeats what cannot succeed.
fn find_server(server: &str, user: Option<&str>, password: Option<&str>) -> RusticResult<()> {
    let mut request = client()?.head(format!("{server}config"));
    if let Some(user) = user {
        request = request.basic_auth(user, password);
    }
    let answer = request.send().map_err(failed)?;
    if answer.status() == StatusCode::NOT_FOUND {
        return Ok(());
    }
    answer.error_for_status().map(|_| ()).map_err(failed)
}

/// The address with the user and the password in it, as the library wants it.
fn with_user(server: &str, user: Option<&str>, password: Option<&str>) -> RusticResult<String> {
    let wrong = |_| RusticError::new(ErrorKind::InvalidInput, "the address is malformed");
    let mut address = reqwest::Url::parse(server)
        .map_err(|error| RusticError::with_source(ErrorKind::InvalidInput, "the address is malformed", error))?;
    if let Some(user) = user {
        address.set_username(user).map_err(wrong)?;
        address.set_password(password).map_err(wrong)?;
    }
    Ok(address.into())
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
    let answer = client()?.get(B2).basic_auth(id, Some(key)).send().map_err(failed)?;
    let text = answer.error_for_status().map_err(failed)?.text().map_err(failed)?;
    let answer: Answer = serde_json::from_str(&text)
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

    #[test]
    fn a_password_with_any_character_fits_into_an_address() {
        let address = with_user("https://nas:8000/web/", Some("ann"), Some("p@ss/w:rd")).unwrap();
        assert_eq!(address, "https://ann:p%40ss%2Fw%3Ard@nas:8000/web/");
    }
}
