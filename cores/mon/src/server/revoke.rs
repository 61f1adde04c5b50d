//! The end of rights: an entity is removed, or gets another key or other rights, and what is open under the old ones ends.
//!
//! | where | how | when |
//! |---|---|---|
//! | sessions with monitors and the manager | each voter compares the entities after each entry that it applies. The session's rights are the new ones at once; [`LAST_WORD`] later it is closed, so that the answer to the command that did it arrives | 1 to 2 s |
//! | sessions with OSDs | the leader notes *when* the rights ended, beside the change and in the same entry (`config-key` [`NOTES`]`NAME`), and tells all OSDs the whole list, with the rights of now. An OSD closes sessions and refuses tickets that are older than the note or say other rights | as soon as the OSD hears it |
//! | an OSD that hears nothing | it gets the list with the service's keys when it finds a monitor again | until then the ticket holds: `auth_service_ticket_ttl` and an hour of tolerance for clocks |
//!
//! - Notes are kept as long as a ticket of before may be taken ([`kept`]); then nothing of it is left.
//! - The clock that is compared is the monitors': a ticket says when a monitor made it. A monitor whose clock is behind may make a ticket
//!   that is refused; the client asks for another one, as for any that is refused.
//! - Managers and monitors are no entities to be noted: they run in one process with what would judge them.

use super::Monitor;
use super::rights::Rights;
use super::sessions::Side;
use monstate::effective;
use monstate::state::{Change, State};
use msgr::Peer;
use msgr::auth::{Acceptor, EntityKey, Revoked};
use node::{Mono, Now};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use types::level::Feature;
use types::{EntityName, EntityType, OsdId, SessionId, UTime};

/// Stored values that note since when old rights do not hold begin with this; the entity's name follows.
const NOTES: &str = "nacre/revoked/";
/// Time for which a session stays whose rights have ended.
const LAST_WORD: Duration = Duration::from_secs(1);
/// Notes that are kept. An administrator who changes more in two hours restarts OSDs, or waits.
const MOST: usize = 10_000;
/// Those of them that are for OSDs' keys. Whoever may make OSDs may remove them, again and again; that must not take the places of others.
const OF_OSDS: usize = 1_000;
/// Longest that services take tickets beyond their time ([`msgr::auth::ServiceAuth`]), and a minute.
const BEYOND: Duration = Duration::from_secs(3600 + 60);

/// Entities whose sessions here are about to end, and when.
pub(super) type Ending = BTreeMap<EntityName, Mono>;

/// Returns true if rights at services have changed.
fn differs(old: &EntityKey, new: Option<&EntityKey>) -> bool {
    let at = |entity: &EntityKey, service: &str| entity.caps.get(service).cloned();
    new.is_none_or(|new| new.key != old.key || ["osd", "mgr", "mds"].iter().any(|service| at(old, service) != at(new, service)))
}

/// Returns what must be noted beside changes that were made of this state.
pub(super) fn notes(base: &State, changes: &[Change], now: UTime) -> Vec<Change> {
    let ended = changes.iter().filter_map(|change| match change {
        Change::Auth { name, entity } if !matches!(name.kind, EntityType::Mon | EntityType::Mgr) => {
            let old = base.auth.get(name).filter(|old| old.caps.contains_key("osd") || old.caps.contains_key("mgr"))?;
            differs(old, entity.as_ref()).then_some(name)
        }
        _ => None,
    });
    let is_osd = |name: &EntityName| name.kind == EntityType::Osd;
    let osds = noted(base).filter(|(name, _)| is_osd(name)).count();
    let others = noted(base).count() - osds;
    let mut room = [(MOST - OF_OSDS).saturating_sub(others), OF_OSDS.saturating_sub(osds)];
    let ended = ended.filter(|name| {
        let room = &mut room[usize::from(is_osd(name))];
        let any = *room > 0;
        *room = room.saturating_sub(1);
        any
    });
    let note = |name: &EntityName| Change::Key { key: format!("{NOTES}{name}"), value: Some(now.as_nanos().to_string().into()) };
    ended.map(note).collect()
}

/// Entities with notes, and since when their old rights do not hold.
fn noted(state: &State) -> impl Iterator<Item = (EntityName, UTime)> {
    let notes = state.keys.range(NOTES.to_owned()..).take_while(|(key, _)| key.starts_with(NOTES));
    notes.filter_map(|(key, value)| {
        let nanos: u64 = std::str::from_utf8(value).ok()?.parse().ok()?;
        Some((key[NOTES.len()..].parse().ok()?, UTime::from_nanos(nanos)))
    })
}

/// Returns what a service must know: whose old tickets it must not take, and which rights they have now.
fn revoked(state: &State, service: EntityType) -> BTreeMap<EntityName, Revoked> {
    let of = |(name, before): (EntityName, UTime)| {
        let entity = state.auth.get(&name);
        let caps = entity.map(|entity| entity.caps.get(service.name()).cloned().unwrap_or_default());
        (name, Revoked { before, caps })
    };
    noted(state).map(of).collect()
}

impl Monitor {
    /// Notes whose sessions here must end: `old` and `new` are what this monitor knew of entities before and now.
    pub(super) fn note_changed(
        &mut self,
        now: Now,
        old: &BTreeMap<EntityName, EntityKey>,
        new: &BTreeMap<EntityName, EntityKey>,
    ) {
        let changed = old.iter().filter(|(name, entity)| new.get(*name) != Some(*entity)).map(|(name, _)| name);
        let open: Vec<(Side, SessionId, EntityName)> = {
            let changed: std::collections::BTreeSet<&EntityName> = changed.filter(|name| name.kind != EntityType::Mon).collect();
            let here = self.sessions.0.iter().filter(|((_, id), s)| !self.remote.has(*id) && changed.contains(&s.peer.name));
            here.map(|((side, id), s)| (*side, *id, s.peer.name.clone())).collect()
        };
        for (side, session, name) in open {
            // Another key is another entity, whatever it may do.
            let same = new.get(&name).filter(|entity| old.get(&name).is_some_and(|old| old.key == entity.key));
            let of = |service: &str| same.and_then(|entity| entity.caps.get(service)).cloned().unwrap_or_default();
            let (mon, mgr) = (of("mon"), of("mgr"));
            let Some(entry) = self.sessions.0.get_mut(&(side, session)) else { continue };
            let from = entry.peer.ip;
            let (rights, own) = match side {
                Side::Mon => (Rights::at_monitor(Some(&mon), from), mon),
                Side::Mgr => (Rights::at_manager(Some(&mgr), Some(&mon), from), mgr),
            };
            entry.rights = rights;
            // What is carried to the leader says it as well.
            entry.peer = Arc::new(Peer { caps: Some(own), ..Peer::clone(&entry.peer) });
            self.ending.insert(name, now.mono.plus(LAST_WORD));
        }
    }

    /// Ends the sessions whose time has come.
    pub(super) fn end_revoked(&mut self, now: Now) {
        let due: Vec<EntityName> = self.ending.iter().filter(|(_, at)| **at <= now.mono).map(|(name, _)| name.clone()).collect();
        for name in due {
            self.ending.remove(&name);
            let mine = self.sessions.0.iter().filter(|((_, id), s)| s.peer.name == name && !self.remote.has(*id));
            let open: Vec<(Side, SessionId)> = mine.map(|(key, _)| *key).collect();
            open.into_iter().for_each(|(side, session)| self.turn_away(now, side, session));
        }
    }

    /// Tells the manager's door, and all OSDs, whose old tickets count no more.
    pub(super) fn tell_revoked(&mut self) {
        let state = self.replica.applied.clone();
        if let Acceptor::Service(service) = &mut self.mgr.auth_mut().acceptor {
            service.revoked = revoked(&state, EntityType::Mgr);
        }
        let osds: Vec<(OsdId, SessionId)> =
            self.leader.soft.osds.iter().filter_map(|(osd, o)| Some((*osd, o.session?))).collect();
        osds.into_iter().for_each(|(_, session)| self.tell_osd_revoked(&state, session));
    }

    /// Tells one OSD, which gets the keys as well.
    pub(super) fn tell_osd_revoked(&mut self, state: &State, session: SessionId) {
        if !state.osdmap.level.has(Feature::Revocations) || noted(state).next().is_none() {
            return;
        }
        let one =
            |(name, r): (EntityName, Revoked)| json!({"entity": name.to_string(), "before": r.before.as_nanos(), "caps": r.caps});
        let list: Vec<_> = revoked(state, EntityType::Osd).into_iter().map(one).collect();
        let json = json!({"prefix": "end sessions", "entities": json!(list).to_string()}).to_string();
        self.tell(Side::Mon, session, messages::internal::OsdInstruct { json }.encode());
    }

    /// Removes notes that no ticket is old enough for any more.
    pub(super) fn old_notes(&self, now: Now) -> Vec<Change> {
        let state = self.newest();
        let kept = kept(effective::monitor_number(state, &self.env, "auth_service_ticket_ttl"));
        let over = noted(state).filter(|(_, before)| now.wall > before.plus(kept));
        over.map(|(name, _)| Change::Key { key: format!("{NOTES}{name}"), value: None }).collect()
    }
}

/// Returns how long a ticket may be taken after it was made. The lifetime may have been longer before.
fn kept(lifetime: f64) -> Duration {
    Duration::from_secs_f64(lifetime.clamp(3600.0, 1e8)) + BEYOND
}

#[cfg(test)]
mod tests {
    use super::*;
    use monstate::state::genesis;
    use msgr::auth::Key;

    fn entity(key: u8, caps: &[(&str, &str)]) -> EntityKey {
        let caps = caps.iter().map(|(service, text)| (service.to_string(), text.to_string())).collect();
        EntityKey { key: Key::new(UTime::ZERO, [key; 16]), caps }
    }

    #[test]
    fn notes_of_osds_leave_room_for_others() {
        let mut state = genesis::state(&monstate::config::Config::bare(types::Fsid([1; 16]), "a"), UTime::ZERO);
        let name = |text: &str| text.parse::<EntityName>().expect("a name");
        let keys = Arc::make_mut(&mut state.keys);
        keys.extend((0..OF_OSDS).map(|n| (format!("{NOTES}osd.{n}"), "5".into())));
        let auth = Arc::make_mut(&mut state.auth);
        for who in ["osd.5000", "client.a"] {
            auth.set(&name(who), Some(entity(1, &[("osd", "allow *")])));
        }
        let made = |who: &str| notes(&state, &[Change::Auth { name: name(who), entity: None }], UTime { sec: 7, nsec: 0 }).len();
        assert_eq!((made("osd.5000"), made("client.a")), (0, 1));
    }

    #[test]
    fn only_rights_that_ended_are_noted() {
        let config = monstate::config::Config {
            auth: monstate::config::AuthMode::Cephx,
            ..monstate::config::Config::bare(types::Fsid([1; 16]), "a")
        };
        let mut state = genesis::state(&config, UTime::ZERO);
        let name = |text: &str| text.parse::<EntityName>().expect("a name");
        let osd: &[(&str, &str)] = &[("mon", "allow r"), ("osd", "allow rw")];
        for (who, caps) in [("client.a", osd), ("client.b", &[("mon", "allow r")][..]), ("mgr.x", osd)] {
            Arc::make_mut(&mut state.auth).set(&name(who), Some(entity(1, caps)));
        }
        let at = UTime { sec: 77, nsec: 5 };
        let mut noted_for = |who: &str, new: Option<EntityKey>| {
            let change = Change::Auth { name: name(who), entity: new };
            let made = notes(&state, std::slice::from_ref(&change), at);
            for change in std::iter::once(change).chain(made.clone()) {
                if let Change::Key { key, value: Some(value) } = change {
                    Arc::make_mut(&mut state.keys).insert(key, value);
                }
            }
            made.len()
        };
        assert_eq!(noted_for("client.a", Some(entity(1, osd))), 0, "nothing changed");
        assert_eq!(
            noted_for("client.a", Some(entity(1, &[("mon", "allow *"), ("osd", "allow rw")]))),
            0,
            "monitors see that themselves"
        );
        assert_eq!(noted_for("client.b", None), 0, "no service ever knew it");
        assert_eq!(noted_for("client.new", Some(entity(1, osd))), 0);
        assert_eq!(noted_for("mgr.x", None), 0);
        assert_eq!(noted_for("client.a", Some(entity(2, osd))), 1, "another key");
        assert_eq!(noted_for("client.a", Some(entity(1, &[("mon", "allow r"), ("osd", "allow r")]))), 1);
        assert_eq!(noted_for("client.a", None), 1);
        assert_eq!(noted(&state).collect::<Vec<_>>(), [(name("client.a"), at)]);
        let told = revoked(&state, EntityType::Osd);
        assert_eq!(told[&name("client.a")], Revoked { before: at, caps: Some("allow rw".into()) });
        assert!(kept(10.0) >= Duration::from_secs(7200) && kept(1e5) > Duration::from_secs(100_000));
    }
}
