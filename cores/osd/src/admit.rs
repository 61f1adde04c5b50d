//! Whether a client may have an operation done: fences, rights to its object, rights to what it copies.
//!
//! A copy (COPY_FROM) is a write to one object and a read of another, which may be in another namespace or pool. The
//! read is carried out with this OSD's rights, so the client's own are looked at here. Ceph does not look at them:
//! there, who may write anywhere may read everything.

use crate::sessions::{Rights, Session};
use ::maps::OsdMap;
use caps::{OsdCaps, OsdNeed};
use denc::Reader;
use messages::ops::CopySource;
use messages::osd::{OpArgs, OsdOp};
use pg::Needs;
use types::{Errno, PoolId};

/// Returns whether an operation may be done at all.
pub(crate) fn admit(map: &OsdMap, session: &Session, op: &OsdOp) -> Result<(), Errno> {
    let fenced = || map.is_blocklisted(&session.peer.addr) || session.place.is_some_and(|place| map.is_blocklisted(&place));
    if matches!(session.rights, Rights::All) {
        return if fenced() && !pg::needs(op).is_ok_and(|needs| needs.group) { Err(Errno::ESHUTDOWN) } else { Ok(()) };
    }
    // What cannot be done at all is said before what may not be done, as in Ceph.
    let needs = pg::needs(op)?;
    if fenced() && !needs.group {
        return Err(Errno::ESHUTDOWN);
    }
    let Rights::Caps(caps) = &session.rights else { return Err(Errno::EPERM) };
    if may_do(caps, map, op, &needs) && may_copy(caps, map, op)? { Ok(()) } else { Err(Errno::EPERM) }
}

/// Returns true if somebody may give commands to the OSD itself.
pub(crate) fn may_command(rights: &Rights) -> bool {
    match rights {
        Rights::All => true,
        Rights::Caps(caps) => caps.is_allow_all(),
        Rights::Nothing => false,
    }
}

fn may_do(caps: &OsdCaps, map: &OsdMap, op: &OsdOp, needs: &Needs) -> bool {
    let classes: Vec<(&str, &str, bool, bool)> = needs.classes.iter().map(|(c, m, r, w)| (&c[..], &m[..], *r, *w)).collect();
    in_pool(map, op.locator.pool, |at| {
        caps.allows(&OsdNeed {
            namespace: &op.locator.nspace,
            object: &op.oid,
            read: needs.read,
            write: needs.write,
            class_read: needs.class_read,
            class_write: needs.class_write,
            classes: &classes,
            ..*at
        })
    })
}

/// Returns whether the objects that an operation copies from may be read.
fn may_copy(caps: &OsdCaps, map: &OsdMap, op: &OsdOp) -> Result<bool, Errno> {
    for single in op.ops.iter().filter(|single| matches!(single.args, OpArgs::CopyFrom { .. })) {
        let source: CopySource = Reader::new(&single.input).get().map_err(|_| Errno::EINVAL)?;
        let place = &source.locator;
        let may = in_pool(map, place.pool, |at| {
            caps.allows(&OsdNeed { namespace: &place.nspace, object: &source.name, read: true, ..*at })
        });
        if !may {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Asks about a pool: its name and its applications are in what `ask` is given.
fn in_pool(map: &OsdMap, id: PoolId, ask: impl FnOnce(&OsdNeed<'_>) -> bool) -> bool {
    let mut applications: Vec<(&str, &str, &str)> = Vec::new();
    if let Some(pool) = map.pool(id) {
        for (application, pairs) in &pool.application_metadata {
            applications.push((application, "", ""));
            applications.extend(pairs.iter().map(|(k, v)| (application.as_str(), k.as_str(), v.as_str())));
        }
    }
    let pool_name = map.pool_name.get(&id).map(String::as_str).unwrap_or_default();
    ask(&OsdNeed { pool_name, pool_application: &applications, ..OsdNeed::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::Sessions;
    use ::maps::{Incremental, Pool};
    use denc::Encode as _;
    use messages::osd::{Op, code};
    use std::collections::BTreeMap;
    use types::{AddrType, EntityAddr, EntityAddrVec, EntityName, EntityType, Fsid, Locator, SessionId, SnapId, UTime};

    /// Pools `a` (1) and `secret` (2), the second with an application.
    fn map() -> OsdMap {
        let mut change = Incremental::new(1, Fsid::default(), UTime::ZERO);
        for (id, name) in [(1, "a"), (2, "secret")] {
            let mut pool = Pool { pg_num: 1, pgp_num: 1, size: 1, ..Pool::default() };
            if id == 2 {
                pool.application_metadata.insert("rgw".into(), BTreeMap::from([("zone".to_owned(), "z".to_owned())]));
            }
            change.new_pools.insert(id, pool);
            change.new_pool_names.insert(id, name.into());
        }
        OsdMap::default().apply(&change).expect("a first map")
    }

    fn at(addr: [u8; 4], nonce: u32) -> EntityAddr {
        EntityAddr { kind: AddrType::Any, nonce, addr: Some((addr, 0).into()) }
    }

    /// A session of somebody with these rights, who connects from 127.0.0.1.
    fn session(caps: &str, says: EntityAddr) -> Sessions {
        let mut sessions = Sessions::default();
        let peer = msgr::Peer {
            name: EntityName::new(EntityType::Client, "tenant"),
            kind: EntityType::Client,
            global_id: 4,
            addr: says,
            addrs: EntityAddrVec(vec![says]),
            ip: Some([127, 0, 0, 1].into()),
            ticket: types::UTime::ZERO,
            features: 0,
            caps: Some(caps.into()),
            mode: msgr::Mode::Crc,
            outgoing: false,
        };
        assert_eq!(sessions.opened(SessionId(1), &peer), None);
        sessions
    }

    fn place(pool: PoolId, nspace: &str) -> Locator {
        Locator { pool, nspace: nspace.as_bytes().to_vec().into(), ..Locator::default() }
    }

    fn ask(sessions: &mut Sessions, map: &OsdMap, ops: Vec<Op>) -> Result<(), Errno> {
        let op = OsdOp { oid: b"o".to_vec().into(), locator: place(1, "t1"), ops, ..OsdOp::default() };
        admit(map, sessions.get(SessionId(1)).expect("a session"), &op)
    }

    fn copy(pool: PoolId, nspace: &str, name: &str, code: u16) -> Op {
        let source = CopySource { name: name.as_bytes().to_vec().into(), locator: place(pool, nspace), truncate: None };
        let args = OpArgs::CopyFrom { snap: SnapId::HEAD, src_version: 0, flags: 0, src_fadvise: 0 };
        Op { input: source.to_bytes(), ..Op::new(code, args) }
    }

    #[test]
    fn who_copies_must_be_allowed_to_read_what_is_copied() {
        let map = map();
        let cases: &[(&str, (PoolId, &str, &str), bool)] = &[
            ("allow rw pool=a namespace=t1", (1, "t1", "x"), true),
            ("allow rw pool=a namespace=t1", (1, "t2", "x"), false),
            ("allow rw pool=a namespace=t1", (1, "", "x"), false),
            ("allow rw pool=a namespace=t1", (2, "t1", "x"), false),
            ("allow rw pool=a namespace=t1", (2, "", "x"), false),
            ("allow rw pool=a namespace=t1", (9, "t1", "x"), false),
            ("allow rw pool=a", (2, "", "x"), false),
            ("allow rw pool=a, allow r pool=secret", (2, "", "x"), true),
            ("allow rw pool=a, allow r pool=secret object_prefix pub", (2, "", "pub1"), true),
            ("allow rw pool=a, allow r pool=secret object_prefix pub", (2, "", "x"), false),
            ("allow rw pool=a, allow r tag rgw zone=z", (2, "", "x"), true),
            ("allow rw pool=a, allow r tag rgw zone=y", (2, "", "x"), false),
            ("allow rw pool=a, allow w pool=secret", (2, "", "x"), false),
            ("allow w pool=a", (1, "t1", "x"), false),
            ("allow *", (2, "ns1", "x"), true),
        ];
        for (caps, (pool, nspace, name), may) in cases {
            let mut sessions = session(caps, at([127, 0, 0, 1], 7));
            for code in [code::COPY_FROM, code::COPY_FROM2] {
                let got = ask(&mut sessions, &map, vec![copy(*pool, nspace, name, code)]);
                assert_eq!(got.is_ok(), *may, "{caps}: {pool}/{nspace}/{name}: {got:?}");
            }
            // Among others, and as the second of two.
            let own = copy(1, "t1", "own", code::COPY_FROM);
            let got = ask(&mut sessions, &map, vec![own, copy(*pool, nspace, name, code::COPY_FROM2)]);
            assert_eq!(got.is_ok(), *may, "{caps}: {got:?}");
        }
        let mut garbage = copy(1, "t1", "x", code::COPY_FROM);
        garbage.input = b"x".to_vec().into();
        assert_eq!(ask(&mut session("allow rw", at([127, 0, 0, 1], 7)), &map, vec![garbage]), Err(Errno::EINVAL));
    }

    #[test]
    fn networks_and_fences_are_about_where_the_socket_comes_from() {
        let map = map();
        let write = || vec![Op::new(code::DELETE, OpArgs::None)];
        let (honest, liar) = (at([127, 0, 0, 1], 7), at([10, 9, 1, 2], 7));
        for says in [honest, liar] {
            assert_eq!(ask(&mut session("allow * network 10.9.0.0/16", says), &map, write()), Err(Errno::EPERM), "{says}");
            let mut sessions = session("allow * network 127.0.0.0/8", says);
            assert_eq!(ask(&mut sessions, &map, write()), Ok(()), "{says}");
            assert!(may_command(&sessions.get(SessionId(1)).expect("a session").rights));
            assert!(!may_command(&session("allow * network 10.9.0.0/16", says).get(SessionId(1)).expect("a session").rights));
        }
        let fence = |listed: EntityAddr, range: bool| {
            let mut change = Incremental::new(2, Fsid::default(), UTime::ZERO);
            if range { &mut change.new_range_blocklist } else { &mut change.new_blocklist }.insert(listed, UTime::ZERO);
            map.apply(&change).expect("a second map")
        };
        let host = fence(at([127, 0, 0, 1], 0), false);
        let range = fence(EntityAddr { kind: AddrType::Cidr, ..at([127, 0, 0, 0], 8) }, true);
        let says = fence(liar, false);
        for (map, who) in [(&host, honest), (&host, liar), (&range, liar), (&says, liar)] {
            assert_eq!(ask(&mut session("allow *", who), map, write()), Err(Errno::ESHUTDOWN), "{who}");
        }
        assert_eq!(ask(&mut session("allow *", honest), &says, write()), Ok(()));
    }

    #[test]
    fn commands_to_the_osd_need_all_rights() {
        for (caps, may) in [
            ("allow *", true),
            ("allow all", true),
            ("allow rwx", false),
            ("allow * pool=a", false),
            ("allow * namespace=t1", false),
            ("profile rbd", false),
            ("profile read-write", false),
            ("profile osd", false),
            ("allow * network 10.9.0.0/16", false),
        ] {
            let mut sessions = session(caps, at([127, 0, 0, 1], 7));
            assert_eq!(may_command(&sessions.get(SessionId(1)).expect("a session").rights), may, "{caps}");
        }
    }
}
