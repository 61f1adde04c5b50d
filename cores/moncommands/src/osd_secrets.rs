//! Secrets that come with `osd new`: the OSD's key, and what unlocks its disk. Names and formats are Ceph's;
//! `ceph-volume` sends them.
//!
//! | field of the JSON object | becomes |
//! |---|---|
//! | `cephx_secret` | the key of `osd.N` |
//! | `cephx_lockbox_secret` | the key of `client.osd-lockbox.UUID`, who may read the next one and nothing else |
//! | `dmcrypt_key` | the stored value `dm-crypt/osd/UUID/luks` |
//!
//! No input and an empty object mean no secrets. The first is needed with any of them; the others come together. They
//! go when the OSD is destroyed or purged.

use super::Cx;
use bytes::Bytes;
use grammar::{Refusal, refuse};
use monstate::state::Change;
use msgr::auth::{EntityKey, Key};
use serde_json::Value;
use std::collections::BTreeMap;
use types::{EntityName, EntityType, Fsid, OsdId};

/// Secrets that `osd new` was given.
pub(super) struct Secrets {
    osd: Key,
    /// The lockbox's key, and what it keeps.
    disk: Option<(Key, Bytes)>,
}

fn lockbox(uuid: Fsid) -> EntityName {
    EntityName::new(EntityType::Client, format!("osd-lockbox.{uuid}"))
}

fn stored(uuid: Fsid) -> String {
    format!("dm-crypt/osd/{uuid}/")
}

fn luks(uuid: Fsid) -> String {
    stored(uuid) + "luks"
}

fn caps(pairs: &[(&str, String)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(service, cap)| ((*service).to_owned(), cap.clone())).collect()
}

fn key(name: &str, text: &str) -> Result<Key, Refusal> {
    match Key::from_base64(text) {
        Ok(key) => Ok(key),
        Err(_) => refuse!(EINVAL, "'{name}' is not a cephx key"),
    }
}

impl Secrets {
    /// Reads the input of `osd new`; none if it brings no secrets.
    pub(super) fn parse(input: &[u8]) -> Result<Option<Self>, Refusal> {
        if input.trim_ascii().is_empty() {
            return Ok(None);
        }
        let Ok(Value::Object(given)) = serde_json::from_slice::<Value>(input) else {
            refuse!(EINVAL, "the secrets are not a JSON object")
        };
        let text = |name: &str| match given.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => refuse!(EINVAL, "'{name}' is not a string"),
        };
        let (osd, lockbox, luks) = (text("cephx_secret")?, text("cephx_lockbox_secret")?, text("dmcrypt_key")?);
        let disk = match (lockbox, luks) {
            (None, None) => None,
            (Some(lockbox), Some(luks)) => Some((key("cephx_lockbox_secret", lockbox)?, luks.to_owned().into())),
            _ => refuse!(EINVAL, "'cephx_lockbox_secret' and 'dmcrypt_key' must come together"),
        };
        match osd {
            Some(osd) => Ok(Some(Self { osd: key("cephx_secret", osd)?, disk })),
            None if given.is_empty() => Ok(None),
            None => refuse!(EINVAL, "requires a cephx secret: 'cephx_secret' is missing"),
        }
    }

    /// Entities with these keys.
    fn entities(&self, osd: OsdId, uuid: Fsid) -> Vec<(EntityName, EntityKey)> {
        let own =
            [("osd", "allow *"), ("mon", "allow profile osd"), ("mgr", "allow profile osd")].map(|(s, c)| (s, c.to_owned()));
        let own = (EntityName::new(EntityType::Osd, osd.to_string()), EntityKey { key: self.osd, caps: caps(&own) });
        let reader = self.disk.as_ref().map(|(key, _)| {
            let may = format!("allow command \"config-key get\" with key=\"{}\"", luks(uuid));
            (lockbox(uuid), EntityKey { key: *key, caps: caps(&[("mon", may)]) })
        });
        std::iter::once(own).chain(reader).collect()
    }

    /// Changes that make them known.
    ///
    /// # Errors
    /// EEXIST: an entity or a value is there and is another one.
    pub(super) fn changes(&self, cx: &Cx<'_>, osd: OsdId, uuid: Fsid) -> Result<Vec<Change>, Refusal> {
        let mut changes = Vec::new();
        for (name, entity) in self.entities(osd, uuid) {
            match cx.state.auth.get(&name) {
                None => changes.push(Change::Auth { name, entity: Some(entity) }),
                Some(old) if old.key == entity.key && old.caps == entity.caps => {}
                Some(_) => refuse!(EEXIST, "entity {name} exists with another key or other caps"),
            }
        }
        if let Some((_, value)) = &self.disk {
            let key = luks(uuid);
            match cx.state.keys.get(&key) {
                None => changes.push(Change::Key { key, value: Some(value.clone()) }),
                Some(old) if old == value => {}
                Some(_) => refuse!(EEXIST, "'{key}' is stored already and differs"),
            }
        }
        Ok(changes)
    }
}

/// Changes that forget the secrets of an OSD's disk. Its own key is not among them.
pub(super) fn forget(cx: &Cx<'_>, osd: OsdId) -> Vec<Change> {
    let uuid = usize::try_from(osd).ok().and_then(|at| cx.state.osdmap.osd_uuid.get(at)).copied().unwrap_or_default();
    if uuid == Fsid::default() {
        return Vec::new();
    }
    let name = lockbox(uuid);
    let entity = cx.state.auth.get(&name).is_some().then_some(Change::Auth { name, entity: None });
    let prefix = stored(uuid);
    let keys = cx.state.keys.range(prefix.clone()..).map(|(key, _)| key).take_while(|key| key.starts_with(&prefix));
    entity.into_iter().chain(keys.map(|key| Change::Key { key: key.clone(), value: None })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AQBmPwdrfEd4KBAA4ai7CK8V3LeofbwUCsd0sQ==";

    #[test]
    fn secrets_are_whole_or_refused() {
        for none in ["", " \n", "{}", "{ }"] {
            assert!(matches!(Secrets::parse(none.as_bytes()), Ok(None)), "{none}");
        }
        let with = |fields: &[&str]| {
            let fields: Vec<String> = fields.iter().map(|name| format!("\"{name}\": \"{KEY}\"")).collect();
            Secrets::parse(format!("{{{}}}", fields.join(",")).as_bytes())
        };
        assert!(with(&["cephx_secret"]).unwrap().unwrap().disk.is_none());
        assert!(with(&["cephx_secret", "cephx_lockbox_secret", "dmcrypt_key"]).unwrap().unwrap().disk.is_some());
        for wrong in [
            &["cephx_lockbox_secret", "dmcrypt_key"][..],
            &["cephx_secret", "dmcrypt_key"],
            &["cephx_secret", "cephx_lockbox_secret"],
            &["other"],
        ] {
            assert!(with(wrong).is_err(), "{wrong:?}");
        }
        for bad in ["{ asd: ; }", "[]", "7", "{\"cephx_secret\": 7}", "{\"cephx_secret\": \"x\"}"] {
            assert!(Secrets::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
