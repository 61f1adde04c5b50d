//! Where this host is in the CRUSH map: `--location`.
//!
//! *A new host* gets its bucket when its first OSD boots: each OSD tells the monitors what `nacre.toml` says. *A host
//! that has a bucket* is moved only when `--location` is given, once the host serves; a start without it moves nothing,
//! wherever somebody put the bucket.

use crate::client::Failure;
use crate::state::State;
use crate::{host, rescue, token};
use anyhow::{Context, Result, bail};
use crush::{Location, Map};
use serde_json::{Value, json};
use std::path::Path;

/// Refuses a place that the cluster's CRUSH map does not allow. Changes nothing.
///
/// What was checked before is not asked again: a start must not fail because somebody moved buckets since.
pub(crate) fn check(state: &State, dir: &Path, place: &Location) -> Result<()> {
    if state.location.as_ref() == Some(&place.to_string()) {
        return Ok(());
    }
    let host = host::name();
    if place.0.values().any(|bucket| *bucket == host) {
        bail!("--location {place}: a host named {host} cannot be in a bucket of that name");
    }
    let allowed = match rescue::crush_map(state, dir) {
        Some(map) => map.check_host_place(place),
        None if state.around.is_some() => map_of_cluster(dir)?.check_host_place(place),
        None => first_map()?.check_host_place(place),
    };
    allowed.with_context(|| format!("--location {place}"))
}

/// Returns what a new cluster begins with.
fn first_map() -> Result<Map> {
    let mut map = Map::new();
    let root = map.type_id("root").context("a new map has roots")?;
    map.add_bucket(root, "default", map.default_alg())?;
    Ok(map)
}

/// The buckets that the monitors know.
fn map_of_cluster(dir: &Path) -> Result<Map> {
    let reply = token::administrator(dir)?.run(&json!({"prefix": "osd crush dump", "format": "json"}))?;
    let dump: Value = serde_json::from_str(&reply.output).context("the monitors' answer cannot be read")?;
    buckets(&dump).context("the monitors' answer is no CRUSH map")
}

/// Types, names and the tree of the buckets in a dump of a map; devices and weights do not matter here.
fn buckets(dump: &Value) -> Option<Map> {
    let mut map = Map::new();
    let types = dump["types"].as_array()?.iter();
    map.types = types.map(|t| Some((t["type_id"].as_i64()? as i32, t["name"].as_str()?.to_owned()))).collect::<Option<_>>()?;
    // Shadow buckets are made anew by whoever needs them.
    let all: Vec<&Value> =
        dump["buckets"].as_array()?.iter().filter(|b| b["name"].as_str().is_some_and(|n| !n.contains('~'))).collect();
    for bucket in &all {
        map.add_bucket(map.type_id(bucket["type_name"].as_str()?)?, bucket["name"].as_str()?, map.default_alg()).ok()?;
    }
    for bucket in &all {
        let place = Location([(bucket["type_name"].as_str()?.to_owned(), bucket["name"].as_str()?.to_owned())].into());
        for item in bucket["items"].as_array()? {
            if let Some(child) = all.iter().find(|b| b["id"] == item["id"]) {
                map.link_bucket(map.id_of(child["name"].as_str()?)?, &place).ok()?;
            }
        }
    }
    Some(map)
}

/// Moves this host's bucket, if it has one, to a place; what is missing above it is made.
pub(crate) fn move_host(dir: &Path, place: &Location) -> Result<()> {
    let args: Vec<String> = place.to_string().split(' ').map(str::to_owned).collect();
    let admin = token::administrator(dir)?;
    match admin.command(&json!({"prefix": "osd crush move", "name": host::name(), "args": args})) {
        Ok(_) => Ok(()),
        // Its first OSD makes it, at the right place.
        Err(Failure::Refused(_, why)) if why.contains(&format!("item '{}' does not exist", host::name())) => Ok(()),
        Err(failure) => bail!(failure.sentence(&admin)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_tells_what_is_below_what() {
        let dump = json!({
            "types": [{"type_id": 0, "name": "osd"}, {"type_id": 1, "name": "host"}, {"type_id": 3, "name": "shelf"},
                      {"type_id": 11, "name": "root"}],
            "buckets": [
                {"id": -1, "name": "default", "type_name": "root", "items": [{"id": -3}, {"id": -2}]},
                {"id": -2, "name": "h", "type_name": "host", "items": [{"id": 0}]},
                {"id": -3, "name": "s1", "type_name": "shelf", "items": []},
                {"id": -4, "name": "default~hdd", "type_name": "root", "items": []},
                {"id": -5, "name": "other", "type_name": "root", "items": []},
            ],
        });
        let map = buckets(&dump).unwrap();
        let check = |text: &str| map.check_host_place(&Location::of_host(text).unwrap()).map_err(|e| e.to_string());
        assert_eq!((check("shelf=s1"), check("shelf=s2,root=other"), check("root=new")), (Ok(()), Ok(()), Ok(())));
        assert!(check("shelf=s1,root=other").unwrap_err().contains("not below root 'other'"));
        assert!(check("rack=r1").unwrap_err().contains("'rack'"));
        assert!(buckets(&json!({})).is_none());
    }

    #[test]
    fn a_new_cluster_has_the_usual_types() {
        let (state, dir) = (State::new().unwrap(), tempfile::tempdir().unwrap());
        let check = |text: &str| check(&state, dir.path(), &Location::of_host(text).unwrap()).map_err(|e| format!("{e:#}"));
        assert_eq!(check("rack=r1 datacenter=d1"), Ok(()));
        let error = check("shelf=s1").unwrap_err();
        assert!(error.contains("--location") && error.contains("bucket type 'shelf' does not exist"), "{error}");
    }
}
