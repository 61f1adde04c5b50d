//! How far work on images reaches.
//!
//! The manager's own client may do everything at the OSDs, and what leads it from object to object (headers, lists, stored tasks) was
//! written by those whose images they are. So it does nothing for anybody that this one could not do himself:
//!
//! - *A task* is done with the rights of who ordered it, at each attempt those that he has then. Who that was is kept in the monitors' state, since
//!   what is stored in the pool can be written by whoever may write there.
//! - *A task that was found stored, and that nobody is known to have ordered* (another manager took it, or it was forged), stays within
//!   its pool and namespace.
//! - *A schedule* is carried out with the rights of who set it; the same holds for one of which nobody knows who that was. Those of all pools are
//!   options of the cluster, and whoever may set those may do everything here.
//!
//! - *Clients are fenced* that died with the lock of an image, as the image says; so that needs the right to fence them (`profile rbd` at the
//!   monitors), and counts for who ordered the work.
//!
//! Rights behind a network count for none: it is the manager that comes.

use bytes::Bytes;
use caps::{MonCaps, OsdCaps, OsdNeed};
use images::{Place, Reach, Request};
use maps::OsdMap;
use messages::osd::{Op, code, flags};
use monstate::state::{AuthDb, Change};
use objecter::OpRequest;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use types::{EntityAddr, EntityName, Locator, PoolId};

/// Beginning of the keys of the monitors' state that say who ordered something.
const KEY: &str = "nacre/order/";
/// The value that stands for everybody: the cluster had no keys then.
const EVERYBODY: &str = "*";

/// The one who ordered work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// Whoever may do everything: there are no keys, or it is the cluster itself.
    Everybody,
    /// Somebody with a key.
    Entity(EntityName),
    /// That is not known.
    Nobody,
}

impl By {
    /// Reads what was kept.
    fn parse(text: &str) -> Self {
        match text {
            EVERYBODY => Self::Everybody,
            name => name.parse().map_or(Self::Nobody, Self::Entity),
        }
    }

    fn text(&self) -> Option<String> {
        match self {
            Self::Everybody => Some(EVERYBODY.into()),
            Self::Entity(name) => Some(name.to_string()),
            Self::Nobody => None,
        }
    }
}

/// Gives what is kept of who ordered something: `what` names it, `content` is what was ordered. Other content is another order.
pub(super) fn noted(keys: &BTreeMap<String, Bytes>, what: &str, content: &str) -> By {
    let Some(value) = keys.get(&format!("{KEY}{what}")).and_then(|value| std::str::from_utf8(value).ok()) else {
        return By::Nobody;
    };
    match value.split_once('\n') {
        Some((by, ordered)) if ordered == content => By::parse(by),
        _ => By::Nobody,
    }
}

/// Makes the change that keeps who ordered something.
pub(super) fn note(what: &str, by: &By, content: &str) -> Change {
    let value = by.text().map(|by| Bytes::from(format!("{by}\n{content}")));
    Change::Key { key: format!("{KEY}{what}"), value }
}

/// Makes the change that forgets it.
pub(super) fn forget(what: &str) -> Change {
    Change::Key { key: format!("{KEY}{what}"), value: None }
}

/// Names what is kept, of things whose names begin so.
pub(super) fn kept<'a>(keys: &'a BTreeMap<String, Bytes>, begin: &str) -> impl Iterator<Item = &'a str> {
    let from = format!("{KEY}{begin}");
    let begin = from.clone();
    keys.range(from..)
        .map(|(key, _)| key.as_str())
        .take_while(move |key| key.starts_with(&begin))
        .filter_map(|key| key.strip_prefix(KEY))
}

/// The reach of some work.
#[derive(Debug)]
pub(super) enum Within {
    /// No limit.
    All,
    /// Reach of these rights of an entity.
    Caps(EntityName, OsdCaps, MonCaps),
    /// A pool and namespace.
    Place(Place),
}

impl Within {
    /// Gives the reach of work in a place that somebody ordered. An entity that is gone may do nothing.
    pub(super) fn of(by: &By, auth: &AuthDb, home: &Place) -> Self {
        match by {
            By::Everybody => Self::All,
            By::Nobody => Self::Place(home.clone()),
            By::Entity(name) => {
                let text = |service: &str| auth.get(name).and_then(|entity| entity.caps.get(service));
                let osd = text("osd").and_then(|text| OsdCaps::parse(text).ok()).unwrap_or_default();
                let mon = text("mon").and_then(|text| MonCaps::parse(text).ok()).unwrap_or_default();
                // The manager is in none of the networks that they may be limited to.
                let here = Ipv4Addr::UNSPECIFIED.into();
                Self::Caps(name.clone(), osd.seen_from(here), mon.seen_from(here))
            }
        }
    }

    fn allows_at(&self, map: &OsdMap, at: &Locator, need: OsdNeed<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Place(home) => at.pool == home.pool && at.nspace == home.nspace.as_bytes(),
            Self::Caps(_, caps, _) => {
                let mut applications: Vec<(&str, &str, &str)> = Vec::new();
                for (application, pairs) in map.pool(at.pool).iter().flat_map(|pool| &pool.application_metadata) {
                    applications.push((application, "", ""));
                    applications.extend(pairs.iter().map(|(k, v)| (application.as_str(), k.as_str(), v.as_str())));
                }
                let pool_name = map.pool_name.get(&at.pool).map(String::as_str).unwrap_or_default();
                caps.allows(&OsdNeed { pool_name, pool_application: &applications, namespace: &at.nspace, ..need })
            }
        }
    }

    fn allows_op(&self, map: &OsdMap, op: &OpRequest) -> bool {
        let calls: Vec<_> = op.ops.iter().filter(|op| op.code == code::CALL).map(Op::class_call).collect();
        let Ok(calls) = calls.into_iter().collect::<Result<Vec<_>, _>>() else { return false };
        let texts: Option<Vec<(&str, &str)>> = calls
            .iter()
            .map(|call| Some((std::str::from_utf8(call.class).ok()?, std::str::from_utf8(call.method).ok()?)))
            .collect();
        let Some(texts) = texts else { return false };
        // Which methods write is the OSDs' business: in a request that writes, all may.
        let writes = op.flags & flags::WRITE != 0;
        let classes: Vec<_> = texts.into_iter().map(|(class, method)| (class, method, true, writes)).collect();
        let others = || op.ops.iter().filter(|op| op.code != code::CALL);
        let need = OsdNeed {
            object: &op.oid,
            read: others().any(|op| code::reads(op.code)),
            write: others().any(|op| code::writes(op.code)),
            class_read: !classes.is_empty(),
            class_write: !classes.is_empty() && writes,
            classes: &classes,
            ..OsdNeed::default()
        };
        self.allows_at(map, &op.locator, need)
    }

    /// Returns true if snapshots of a pool may be numbered, and their numbers given back.
    fn may_number(&self, map: &OsdMap, pool: PoolId) -> bool {
        match self {
            Self::All => true,
            Self::Place(home) => pool == home.pool,
            Self::Caps(_, caps, _) => caps.may_write_in(map.pool_name.get(&pool).map(String::as_str)),
        }
    }
}

impl Within {
    /// Returns true if this client may be fenced, as with the command for it.
    fn may_fence(&self, addr: &EntityAddr) -> bool {
        match self {
            Self::All => true,
            Self::Place(_) => false,
            Self::Caps(name, _, caps) => {
                let args = [("blocklistop", "add".to_owned()), ("addr", addr.legacy_str())];
                let args = args.map(|(name, value)| (name.to_owned(), value)).into();
                caps.allows_command(name, "osd", "rw", "osd blocklist", &args)
            }
        }
    }
}

impl Reach for Within {
    fn who(&self) -> Option<EntityName> {
        match self {
            Self::Caps(name, ..) => Some(name.clone()),
            Self::All | Self::Place(_) => None,
        }
    }

    fn allows(&self, map: &OsdMap, request: &Request) -> bool {
        match request {
            Request::Op(op) => self.allows_op(map, op),
            Request::Watch(at, oid) => {
                self.allows_at(map, at, OsdNeed { object: oid, read: true, write: true, ..OsdNeed::default() })
            }
            Request::Notify(at, oid, _) => self.allows_at(map, at, OsdNeed { object: oid, read: true, ..OsdNeed::default() }),
            Request::NewSnap(pool) | Request::FreeSnap(pool, _) => self.may_number(map, *pool),
            // Whose lock is on an image within reach; but who may write there may have written the lock.
            Request::Fence(addr, _) => self.may_fence(addr),
            Request::Unwatch(_) | Request::Sleep(_) | Request::Listen(..) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use messages::osd::OpArgs;
    use types::{EntityAddr, UTime};

    /// Pools `rbd` (1) and `secret` (2).
    fn map() -> OsdMap {
        let mut map = OsdMap::default();
        for (id, name) in [(1, "rbd"), (2, "secret")] {
            map.pools.insert(id, maps::Pool::default());
            map.pool_name.insert(id, name.into());
        }
        map
    }

    fn at(pool: PoolId, nspace: &str) -> Locator {
        Locator { nspace: Bytes::copy_from_slice(nspace.as_bytes()), ..Locator::pool(pool) }
    }

    fn op(locator: Locator, op: Op, flags: u32) -> Request {
        Request::Op(OpRequest { locator, oid: Bytes::from_static(b"rbd_header.1"), ops: vec![op], flags, ..OpRequest::default() })
    }

    /// Returns what work may ask for in a place.
    fn asked(pool: PoolId, nspace: &str) -> Vec<(&'static str, Request)> {
        let at = || at(pool, nspace);
        let name = || Bytes::from_static(b"rbd_header.1");
        vec![
            ("read", op(at(), Op::new(code::STAT, OpArgs::None), flags::READ)),
            ("write", op(at(), Op::new(code::DELETE, OpArgs::None), flags::WRITE)),
            ("look", op(at(), Op::call("rbd", "get_size", b""), flags::READ)),
            ("detach", op(at(), Op::call("rbd", "child_detach", b""), flags::WRITE)),
            ("set", op(at(), Op::call("rbd", "set_size", b""), flags::WRITE)),
            ("watch", Request::Watch(at(), name())),
            ("notify", Request::Notify(at(), name(), Bytes::new())),
            ("number", Request::NewSnap(pool)),
            ("free", Request::FreeSnap(pool, 3)),
        ]
    }

    fn may(within: &Within, pool: PoolId, nspace: &str) -> String {
        let map = map();
        let all = asked(pool, nspace);
        all.iter().filter(|(_, request)| within.allows(&map, request)).map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
    }

    const ALL: &str = "read write look detach set watch notify number free";

    #[test]
    fn work_reaches_as_far_as_the_rights_of_who_ordered_it() {
        let mut auth = AuthDb::default();
        let name: EntityName = "client.vm".parse().expect("a name");
        let by = By::Entity(name.clone());
        let home = Place::new(1, "n1");
        let mut with_both = |mon: &str, osd: &str| {
            let key = msgr::auth::Key::new(UTime::ZERO, [1; 16]);
            let caps = BTreeMap::from([("osd", osd), ("mon", mon)].map(|(service, caps)| (service.to_owned(), caps.to_owned())));
            auth.set(&name, Some(msgr::auth::EntityKey { key, caps }));
            Within::of(&by, &auth, &home)
        };
        let fences = |within: &Within, addr: &str| {
            let addr = grammar::parse_addr(addr).expect("an address");
            within.allows(&map(), &Request::Fence(EntityAddr { kind: types::AddrType::Any, ..addr }, None))
        };
        // Who could not fence a client has none fenced by the lock that he wrote on his image.
        for (mon, may) in [
            ("profile rbd", true),
            ("allow rw", true),
            ("allow r", false),
            ("", false),
            ("profile rbd network 10.9.0.0/16", false),
        ] {
            let within = with_both(mon, "profile rbd pool=rbd");
            assert_eq!(fences(&within, "10.0.0.1:0/77"), may, "{mon}");
            assert_eq!((fences(&within, "10.0.0.1:0/0"), within.who()), (mon == "allow rw", Some(name.clone())), "{mon}");
        }
        assert!(fences(&Within::of(&By::Everybody, &AuthDb::default(), &home), "10.0.0.1:0/77"));
        assert!(!fences(&Within::of(&By::Nobody, &AuthDb::default(), &home), "10.0.0.1:0/77"));
        let mut with = |osd: &str| with_both("", osd);
        let vm = with("profile rbd pool=rbd namespace=n1");
        assert_eq!((may(&vm, 1, "n1").as_str(), may(&vm, 1, "n2").as_str()), (ALL, "number free"));
        assert_eq!((may(&vm, 2, "n1").as_str(), may(&vm, 2, "").as_str()), ("", ""));
        let clones = with("profile rbd pool=rbd, profile rbd-read-only pool=secret");
        assert_eq!((may(&clones, 1, "").as_str(), may(&clones, 2, "").as_str()), (ALL, "read look detach notify"));
        for nothing in ["", "allow", "profile nosuch", "allow * network 10.9.0.0/16", "not a right"] {
            assert_eq!(may(&with(nothing), 1, "n1"), "", "{nothing}");
        }
        assert_eq!(may(&with("allow *"), 2, ""), ALL);
        assert_eq!(may(&Within::of(&By::Entity("client.gone".parse().expect("a name")), &auth, &home), 1, "n1"), "");
        assert_eq!(may(&Within::of(&By::Everybody, &auth, &home), 2, "x"), ALL);
        let nobody = Within::of(&By::Nobody, &auth, &home);
        assert_eq!((may(&nobody, 1, "n1").as_str(), may(&nobody, 1, "").as_str()), (ALL, "number free"));
        assert_eq!(may(&nobody, 2, "n1"), "");
    }
}
