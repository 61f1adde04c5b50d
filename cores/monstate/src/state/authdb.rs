//! The auth database: entities with keys and rights, rotating keys of services, ids given to clients.

use denc::{Decode, Encode, Reader, Result};
use msgr::auth::{EntityKey, ExpiringKey, Key, Keyring, RotatingKeys};
use std::collections::BTreeMap;
use types::EntityName;

/// The auth database.
#[derive(Clone, Debug, Default)]
pub struct AuthDb {
    /// Entities with their keys and rights.
    pub keyring: Keyring,
    /// Rotating keys by service; a service is the number of its entity type.
    pub rotating: BTreeMap<u32, RotatingKeys>,
    /// Ids below this one may have been given to clients.
    pub global_id_limit: u64,
    /// Number of changes so far.
    pub version: u64,
}

impl AuthDb {
    /// Gives an entity.
    pub fn get(&self, name: &EntityName) -> Option<&EntityKey> {
        self.keyring.entities.get(name)
    }

    /// Sets or removes an entity.
    pub fn set(&mut self, name: &EntityName, entity: Option<EntityKey>) {
        self.version += 1;
        match entity {
            Some(entity) => self.keyring.entities.insert(name.clone(), entity),
            None => self.keyring.entities.remove(name),
        };
    }

    /// Adds a service's next key.
    pub(crate) fn add_key(&mut self, service: u32, id: u64, key: ExpiringKey) {
        self.version += 1;
        self.rotating.entry(service).or_default().add(id, key);
    }
}

impl Encode for AuthDb {
    fn encode(&self, out: &mut Vec<u8>) {
        denc::put_count(out, self.keyring.entities.len());
        for (name, entity) in &self.keyring.entities {
            name.encode(out);
            entity.key.encode(out);
            entity.caps.encode(out);
        }
        self.rotating.encode(out);
        self.global_id_limit.encode(out);
        self.version.encode(out);
    }
}

impl Decode for AuthDb {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let n = r.count(24)?;
        let mut keyring = Keyring::default();
        for _ in 0..n {
            let (name, key, caps): (EntityName, Key, BTreeMap<String, String>) = (r.get()?, r.get()?, r.get()?);
            keyring.entities.insert(name, EntityKey { key, caps });
        }
        Ok(Self { keyring, rotating: r.get()?, global_id_limit: r.get()?, version: r.get()? })
    }
}
