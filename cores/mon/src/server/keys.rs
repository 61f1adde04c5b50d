//! What the messengers must know to judge peers: kept in step with the auth database.

use super::sessions::Side;
use super::{Monitor, peers};
use messages::internal::{ServiceKey, ServiceKeys};
use monstate::config::{AuthMode, Config};
use monstate::context::MGR_GID;
use monstate::effective;
use monstate::state::Change;
use msgr::Messenger;
use msgr::auth::{Acceptor, Auth, ClientAuth, Key, Method, MonAuth, RotatingKeys, ServiceAuth};
use node::{Now, Outputs};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityName, EntityType, Feature};

/// Ids that are taken out of the log at once.
const ID_STEP: u64 = 10_000;
/// Ids left at which the next ones are taken.
const ID_RESERVE: u64 = 2_000;
/// Services whose tickets are given. No metadata server is here, but the Linux kernel wants a ticket for one, and gives up when it
/// does not get all that it asked for.
const SERVICES: [EntityType; 5] = [EntityType::Auth, EntityType::Mon, EntityType::Mgr, EntityType::Osd, EntityType::Mds];

/// The two messengers, before the database is known.
pub(super) fn messengers(config: &Config, mon_seed: [u8; 32], mgr_seed: [u8; 32]) -> (Messenger, Messenger) {
    let mon_name = EntityName::new(EntityType::Mon, config.name.clone());
    let mgr_name = EntityName::new(EntityType::Mgr, config.mgr_name.clone());
    let mgr_client = ClientAuth::with_tickets(mgr_name.clone());
    let methods = match config.auth {
        AuthMode::None => vec![Method::None],
        AuthMode::Cephx => vec![Method::Cephx],
    };
    let key = config.keys.iter().find(|k| k.name.kind == EntityType::Mon).map(|k| Key::new(types::UTime::ZERO, k.key));
    let to_monitors = ClientAuth::monitor(key.filter(|_| config.auth == AuthMode::Cephx));
    let mon_auth = Auth { acceptor: Acceptor::Mon(MonAuth::new(methods)), client: to_monitors };
    let mgr_auth = match config.auth {
        AuthMode::None => Auth::none(mgr_name.clone()),
        AuthMode::Cephx => Auth { acceptor: Acceptor::Service(ServiceAuth::new(EntityType::Mgr)), client: mgr_client },
    };
    let mut mon = msgr::Config::server(mon_name, config.addrs.clone(), 0);
    mon.first_conn = peers::FIRST_CONN;
    mon.limits.keepalive = peers::PROBE;
    let mut mgr = msgr::Config::server(mgr_name, config.mgr_addrs.clone(), MGR_GID as i64);
    mgr.required = types::features::REQUIRED_BY_MANAGER;
    (Messenger::new(mon, mon_auth, mon_seed), Messenger::new(mgr, mgr_auth, mgr_seed))
}

impl Monitor {
    /// Tells the messengers what the durable database says, and OSDs their keys.
    pub(super) fn refresh_keys(&mut self, now: Now, _out: &mut Outputs) {
        let state = self.replica.applied.clone();
        if !state.quorum.is_empty() {
            self.take_ids();
        } else if let (Acceptor::Mon(mon), true) = (&mut self.mon.auth_mut().acceptor, self.leader.reigns()) {
            // Ids are only ever given from below the durable limit; a reign begins where the last range ended.
            if mon.global_ids.end == 0 {
                mon.global_ids.next = state.auth.global_id_limit;
            }
            mon.global_ids.end = state.auth.global_id_limit;
        }
        if self.keys_version == state.auth.version {
            return;
        }
        self.keys_version = state.auth.version;
        let ttl = |name| Duration::from_secs_f64(effective::monitor_number(&state, &self.env, name).clamp(10.0, 1e8));
        let (auth_ttl, service_ttl) = (ttl("auth_mon_ticket_ttl"), ttl("auth_service_ticket_ttl"));
        let reclaim = effective::monitor_flag(&state, &self.env, "auth_allow_insecure_global_id_reclaim");
        let keys: BTreeMap<EntityType, RotatingKeys> =
            SERVICES.into_iter().filter_map(|s| Some((s, state.auth.rotating.get(&(s as u32))?.clone()))).collect();
        if let Acceptor::Service(service) = &mut self.mgr.auth_mut().acceptor {
            service.keys = keys.get(&EntityType::Mgr).cloned().unwrap_or_default();
        }
        let mut known = BTreeMap::new();
        if let Acceptor::Mon(mon) = &mut self.mon.auth_mut().acceptor {
            known = std::mem::replace(&mut mon.entities, state.auth.keyring.entities.clone());
            mon.services = keys;
            mon.auth_lifetime = auth_ttl;
            mon.service_lifetime = service_ttl;
            mon.insecure_reclaim = reclaim;
        }
        if self.env.cephx() {
            self.note_changed(now, &known, &state.auth.keyring.entities);
        }
        let osds: Vec<_> = self.leader.soft.osds.values().filter_map(|o| o.session).collect();
        let message = self.service_keys().encode();
        osds.into_iter().for_each(|session| self.tell(Side::Mon, session, message.clone()));
        self.tell_revoked();
    }

    /// The OSDs' keys, for them.
    pub(super) fn service_keys(&self) -> ServiceKeys {
        let rotating = self.replica.applied.auth.rotating.get(&(EntityType::Osd as u32));
        let keys = rotating.into_iter().flat_map(|r| &r.keys).map(|(id, key)| ServiceKey {
            secret_id: *id,
            key: key.key.secret,
            created: key.key.created,
            expires: key.expires,
        });
        ServiceKeys { keys: keys.collect() }
    }

    /// Changes that keys and ids need by now.
    pub(super) fn key_changes(&mut self, now: Now) -> Vec<Change> {
        let state = self.newest().clone();
        let mut changes = Vec::new();
        if self.env.cephx() {
            let ttl = |name: &str| Duration::from_secs_f64(effective::monitor_number(&state, &self.env, name).clamp(10.0, 1e8));
            let signs = state.osdmap.level.has(Feature::SignedTickets);
            let (auth, service) = (ttl("auth_mon_ticket_ttl"), ttl("auth_service_ticket_ttl"));
            for kind in SERVICES {
                let mut keys = state.auth.rotating.get(&(kind as u32)).cloned().unwrap_or_default();
                let lifetime = if kind == EntityType::Auth { auth } else { service };
                while keys.due(now.wall) {
                    let (id, key) = keys.successor(now.wall, lifetime, self.random.key(), signs);
                    keys.add(id, key);
                    changes.push(Change::ServiceKey { service: kind as u32, id, key });
                }
            }
        }
        if let Acceptor::Mon(mon) = &self.mon.auth().acceptor {
            let limit = state.auth.global_id_limit;
            // With several monitors, each has ranges of its own.
            if state.quorum.is_empty() && mon.global_ids.next + ID_RESERVE >= limit {
                changes.push(Change::GlobalIds { limit: limit + ID_STEP });
            }
        }
        changes
    }
}
