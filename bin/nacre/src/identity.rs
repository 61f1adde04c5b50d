//! Certificates of the page: the cluster's authority, and what this host shows.
//!
//! | what | where | made |
//! |---|---|---|
//! | the authority and its key | the monitors' store, `config-key` [`AUTHORITY`] | by the first `nacre page`: a cluster whose page nobody wants from elsewhere has none |
//! | this host's certificate and key | DIR/page/identity.json, for the administrator alone | when it is first shown; anew when the authority or the host's names are others, or after [`RENEW`] |
//! | a certificate of somebody else's | `config-key` `mgr/dashboard/HOST/crt` and `key`, or `mgr/dashboard/crt` and `key`, as with Ceph | by the operator; it goes before the host's own |
//!
//! Two hosts may make an authority in the same moment. The later one counts; the other host signs again when it looks next.

use crate::client::{Client, Failure};
use crate::{host, keys, state};
use anyhow::{Context, Result};
use httpd::Pair;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Key of the authority in the monitors' store.
const AUTHORITY: &str = "nacre/page/authority";
/// Time that monitors may take for one question.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
/// Seconds after which a host's certificate is made anew: it is good for [`httpd::HOST_DAYS`].
const RENEW: u64 = 300 * 86_400;

/// The folder of the page's files in DIR.
pub(crate) fn folder(dir: &Path) -> PathBuf {
    dir.join("page")
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Names and addresses by which this host is asked for its page.
pub(crate) fn names(bind: IpAddr) -> Vec<String> {
    let at = host::reached(SocketAddr::new(bind, 0)).ip().to_string();
    vec![host::name(), at, "localhost".into()]
}

/// Gives a stored value; none if there is none.
pub(crate) fn stored(client: &Client, key: &str) -> Result<Option<String>, Failure> {
    match client.command_within(&json!({"prefix": "config-key get", "key": key}), PATIENCE) {
        Ok(reply) => Ok(Some(reply.output)),
        Err(Failure::Refused(2, _)) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// The cluster's authority: a pair, and its name.
pub(crate) struct Authority {
    pub(crate) pair: Pair,
    name: String,
}

impl Authority {
    /// Asks the monitors for it; none if nobody made one yet.
    pub(crate) fn known(client: &Client) -> Result<Option<Self>, Failure> {
        Ok(stored(client, AUTHORITY)?.and_then(|text| {
            let told: Value = serde_json::from_str(&text).ok()?;
            Some(Self { pair: pair(&told)?, name: told["name"].as_str()?.to_owned() })
        }))
    }

    /// Asks the monitors for it, and makes it if there is none.
    pub(crate) fn known_or_made(client: &Client) -> Result<Self> {
        if let Some(known) = Self::known(client).map_err(|failure| failure.sentence(client))? {
            return Ok(known);
        }
        let fsid = client.run(&json!({"prefix": "fsid"}))?.output;
        let name = format!("nacre {}", fsid.trim().get(..8).unwrap_or("cluster"));
        let Pair { certificate, key } = httpd::authority(&name, now()).map_err(anyhow::Error::msg)?;
        let value = json!({"name": name, "certificate": certificate, "key": key}).to_string();
        client.run(&json!({"prefix": "config-key set", "key": AUTHORITY, "val": value}))?;
        // That of another host, if it came later.
        let known = Self::known(client).map_err(|failure| failure.sentence(client))?;
        known.context("the monitors do not keep the page's authority")
    }
}

fn pair(value: &Value) -> Option<Pair> {
    Some(Pair { certificate: value["certificate"].as_str()?.into(), key: value["key"].as_str()?.into() })
}

/// Returns a certificate of somebody else's for this host, if the operator gave one.
pub(crate) fn given(client: &Client) -> Result<Option<Pair>, Failure> {
    for place in [format!("mgr/dashboard/{}/", host::name()), "mgr/dashboard/".to_owned()] {
        if let Some(certificate) = stored(client, &format!("{place}crt"))?
            && let Some(key) = stored(client, &format!("{place}key"))?
        {
            return Ok(Some(Pair { certificate, key }));
        }
    }
    Ok(None)
}

fn file(dir: &Path) -> PathBuf {
    folder(dir).join("identity.json")
}

fn read(dir: &Path) -> Option<Value> {
    serde_json::from_str(&std::fs::read_to_string(file(dir)).ok()?).ok()
}

/// Returns what this host showed last.
pub(crate) fn last(dir: &Path) -> Option<Pair> {
    pair(&read(dir)?)
}

/// Returns what this host shows: what it has, or a new certificate, which is kept.
pub(crate) fn own(dir: &Path, authority: &Authority, names: &[String]) -> Result<Pair> {
    let (of, at) = (httpd::fingerprint(&authority.pair.certificate), now());
    if let Some(kept) = read(dir)
        && kept["authority"] == json!(of)
        && kept["names"] == json!(names)
        && kept["made"].as_u64().is_some_and(|made| at < made.saturating_add(RENEW))
        && let Some(pair) = pair(&kept)
    {
        return Ok(pair);
    }
    let pair = httpd::sign(&authority.pair, &authority.name, names, at).map_err(anyhow::Error::msg)?;
    let value = json!({"authority": of, "names": names, "made": at, "certificate": pair.certificate, "key": pair.key});
    state::make_folder(&folder(dir))?;
    keys::write_private(&file(dir), &value.to_string())?;
    Ok(pair)
}
