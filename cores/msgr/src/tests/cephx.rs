//! cephx between messengers: all sides, both modes, and those who may not enter.

use super::net::Net;
use super::*;
use crate::auth::{ClientMethod, EntityKey, GlobalIds, Key, Method, RotatingKeys, ServiceAuth};
use crate::{Event, Mode, Policy};
use std::time::Duration;
use types::{EntityType, UTime};

const START: UTime = UTime { sec: 1_700_000_000, nsec: 0 };

fn key(n: u8) -> Key {
    Key::new(START, [n; 16])
}

fn rotating(n: u8) -> RotatingKeys {
    let mut keys = RotatingKeys::default();
    while keys.due(START) {
        let (id, key) = keys.successor(START, Duration::from_secs(3600), [n + keys.newest as u8; 16], n.is_multiple_of(2));
        keys.add(id, key);
    }
    keys
}

fn mon_auth() -> MonAuth {
    let mut mon = MonAuth::new(vec![Method::Cephx]);
    mon.global_ids = GlobalIds { next: 4100, end: 5000 };
    for (who, secret, mon_caps, osd_caps) in
        [("client.admin", 1, "allow *", "allow *"), ("osd.1", 2, "allow profile osd", "allow rw")]
    {
        let caps = [("mon".to_string(), mon_caps.to_string()), ("osd".to_string(), osd_caps.to_string())].into();
        mon.entities.insert(name(who), EntityKey { key: key(secret), caps });
    }
    mon.services.insert(EntityType::Auth, rotating(10));
    mon.services.insert(EntityType::Osd, rotating(20));
    mon
}

fn mon() -> (Messenger, std::net::SocketAddr) {
    daemon(1, "mon.a", 0, Auth { acceptor: Acceptor::Mon(mon_auth()), client: ClientAuth::none(name("mon.a")) })
}

fn osd(n: u8) -> (Messenger, std::net::SocketAddr) {
    let mut service = ServiceAuth::new(EntityType::Osd);
    service.keys = rotating(20);
    let client = ClientAuth::cephx(name("osd.1"), key(2));
    daemon(n, "osd.1", 1, Auth { acceptor: Acceptor::Service(service), client })
}

/// Two OSDs that insist on secure connections, and their monitor.
pub(super) fn secure_osds() -> Vec<(Messenger, std::net::SocketAddr)> {
    let secure = |n: u8| {
        let (osd, at) = osd(n);
        let mut config = osd.config().clone();
        config.modes.accept = vec![Mode::Secure];
        config.modes.connect = vec![Mode::Secure, Mode::Crc];
        (Messenger::new(config, osd.auth().clone(), [n + 100; 32]), at)
    };
    let (mon, _) = mon();
    let config = Config { addrs: EntityAddrVec(vec![addr(3)]), ..mon.config().clone() };
    vec![secure(1), secure(2), (Messenger::new(config, mon.auth().clone(), [9; 32]), socket(3))]
}

fn admin(secret: u8) -> (Messenger, std::net::SocketAddr) {
    client(3, "client.admin", Auth::client(ClientAuth::cephx(name("client.admin"), key(secret))))
}

fn peer(net: &Net, node: usize) -> std::sync::Arc<crate::Peer> {
    net.events[node]
        .iter()
        .find_map(|e| if let Event::Opened { peer, .. } = e { Some(peer.clone()) } else { None })
        .expect("a session is open")
}

fn talk(net: &mut Net, from: usize, to: usize, target: u8, kind: EntityType) -> types::SessionId {
    let session = net.act(from, |m, now, out| m.connect(now, addr(target), kind, Policy::Lossy, out));
    net.act(from, |m, _, _| m.send(session, message(1, 100, 70_000)));
    net.act(from, |m, _, _| m.send(session, message(2, 0, 0)));
    let count = |net: &Net, node: usize| net.events[node].iter().filter(|e| matches!(e, Event::Message { .. })).count();
    let before = count(net, to);
    assert!(net.run(100_000, |net| count(net, to) == before + 2), "{:?}", net.logs);
    session
}

#[test]
fn tickets_lead_from_the_monitor_to_an_osd() {
    for (seed, modes) in [(1, vec![Mode::Crc]), (2, vec![Mode::Secure, Mode::Crc])] {
        let mut config = Config::client(name("client.admin"), 99);
        config.modes.connect = modes.clone();
        config.modes.connect_mon = modes.clone();
        let auth = Auth::client(ClientAuth::cephx(name("client.admin"), key(1)));
        let client = (Messenger::new(config, auth, [3; 32]), socket(3));
        let mut net = Net::new(vec![mon(), osd(2), client], seed);
        net.grain = 3_000;
        talk(&mut net, 2, 0, 1, EntityType::Mon);
        let at_mon = peer(&net, 0);
        assert_eq!((at_mon.name.clone(), at_mon.global_id, at_mon.mode), (name("client.admin"), 4100, modes[0]));
        assert_eq!(at_mon.caps.as_deref(), Some("allow *"));
        talk(&mut net, 2, 1, 2, EntityType::Osd);
        let at_osd = peer(&net, 1);
        assert_eq!((at_osd.name.clone(), at_osd.global_id, at_osd.mode), (name("client.admin"), 4100, modes[0]));
        assert_eq!(at_osd.caps.as_deref(), Some("allow *"));
        // An OSD reaches the monitor and another OSD in the same way.
        talk(&mut net, 1, 0, 1, EntityType::Mon);
        assert!(net.nodes[1].auth().client.ready_for(EntityType::Osd));
    }
}

#[test]
fn a_connection_waits_for_its_ticket() {
    let mut net = Net::new(vec![mon(), osd(2), admin(1)], 5);
    let early = net.act(2, |m, now, out| m.connect(now, addr(2), EntityType::Osd, Policy::Lossy, out));
    assert_eq!(net.nodes[1].connections(), 0);
    talk(&mut net, 2, 0, 1, EntityType::Mon);
    assert!(net.run(1000, |net| net.nodes[2].peer(early).is_some()), "{:?}", net.logs);
}

#[test]
fn a_wrong_key_is_refused_as_by_ceph() {
    for auth in [ClientAuth::cephx(name("client.admin"), key(9)), ClientAuth::cephx(name("client.nobody"), key(1))] {
        let mut net = Net::new(vec![mon(), client(3, "client.admin", Auth::client(auth))], 5);
        net.act(1, |m, now, out| m.connect(now, addr(1), EntityType::Mon, Policy::Lossy, out));
        assert!(net.run(10_000, |net| !net.events[1].is_empty()));
        let Event::Closed { why, .. } = &net.events[1][0] else { panic!("{:?}", net.events[1]) };
        assert_eq!(why, "the peer refuses authentication method 2 with -13, it allows [2]");
        assert!(net.events[0].is_empty());
    }
    // Without a key at all.
    let nobody = ClientAuth::none(name("client.admin"));
    let mut net = Net::new(vec![mon(), client(3, "client.admin", Auth::client(nobody))], 5);
    net.act(1, |m, now, out| m.connect(now, addr(1), EntityType::Mon, Policy::Lossy, out));
    assert!(net.run(10_000, |net| !net.events[1].is_empty()));
    let Event::Closed { why, .. } = &net.events[1][0] else { panic!("{:?}", net.events[1]) };
    assert_eq!(why, "the peer refuses authentication method 1 with -95, it allows [2]");
}

#[test]
fn an_osd_without_the_keys_of_a_ticket_refuses_it_and_the_client_asks_for_another() {
    let (mut osd, at) = osd(2);
    if let Acceptor::Service(service) = &mut osd.auth_mut().acceptor {
        service.keys = rotating(77);
    }
    let mut net = Net::new(vec![mon(), (osd, at), admin(1)], 5);
    talk(&mut net, 2, 0, 1, EntityType::Mon);
    assert!(net.nodes[2].auth().client.ready_for(EntityType::Osd));
    net.act(2, |m, now, out| m.connect(now, addr(2), EntityType::Osd, Policy::Lossy, out));
    assert!(net.run(10_000, |net| matches!(net.events[2].last(), Some(Event::Closed { .. }))));
    // Others may take it; it asks for a new one all the same.
    assert!(net.nodes[2].auth().client.ready_for(EntityType::Osd) && net.nodes[2].auth().client.lacks(EntityType::Osd));
    let now = net.time();
    let payload = net.nodes[2].renew_tickets(now).expect("a renewal is due");
    let session = net.events[0][0].session();
    let (result, reply) = net.nodes[0].renew(now, session, &payload);
    assert_eq!(result, 0);
    net.nodes[2].auth_mut().client.renew_reply(now.mono, result, &reply).unwrap();
    assert!(!net.nodes[2].auth().client.lacks(EntityType::Osd));
    assert_eq!(net.nodes[2].renew_tickets(now), None);
}

/// One key cannot take all places; a daemon and an administrator find one.
#[test]
fn a_crowd_of_clients_leaves_room() {
    let (server, at) = mon();
    let mut config = server.config().clone();
    config.limits.connections = 24;
    config.limits.strangers = 6;
    config.limits.reserve = 6;
    let mut auth = mon_auth();
    for n in 0..4 {
        let caps = [("mon".to_string(), "allow r".to_string())].into();
        auth.entities.insert(name(&format!("client.c{n}")), EntityKey { key: key(50 + n), caps });
    }
    let auth = Auth { acceptor: Acceptor::Mon(auth), client: ClientAuth::none(name("mon.a")) };
    let crowd = (0..4).map(|n| {
        let who = format!("client.c{n}");
        client(10 + n, &who, Auth::client(ClientAuth::cephx(name(&who), key(50 + n))))
    });
    let server = (Messenger::new(config, auth, [7; 32]), at);
    let mut net = Net::new(std::iter::once(server).chain(crowd).chain([admin(1), osd(2)]).collect(), 5);
    let open = |net: &mut Net, node: usize, times: usize| {
        let standing = |net: &Net| net.nodes[0].connections();
        let before = standing(net);
        for _ in 0..times {
            net.act(node, |m, now, out| m.connect(now, addr(1), EntityType::Mon, Policy::Lossy, out));
            net.run(2_000, |_| false);
        }
        standing(net) - before
    };
    assert_eq!(open(&mut net, 1, 10), 6, "a quarter of all, from one address");
    assert_eq!(open(&mut net, 2, 10), 6);
    assert_eq!(open(&mut net, 3, 10), 0, "the rest is kept");
    let now = net.time().mono;
    assert!(net.nodes[0].turned_away(now).contains(&(name("client.c2"), 10)));
    assert_eq!((open(&mut net, 5, 1), open(&mut net, 6, 1)), (1, 1), "an administrator and a daemon");
}

/// Whose rights have ended is refused with an older ticket, and with one that says other rights; a new one is taken.
#[test]
fn tickets_of_ended_rights_are_refused() {
    use crate::auth::Revoked;
    let now_caps = |net: &Net| net.nodes[0].auth().clone();
    let mut net = Net::new(vec![mon(), osd(2), admin(1)], 5);
    talk(&mut net, 2, 0, 1, EntityType::Mon);
    let Acceptor::Mon(known) = &now_caps(&net).acceptor else { panic!("a monitor") };
    let name = net.nodes[2].config().name.clone();
    let caps = known.entities[&name].caps.get("osd").cloned().expect("rights at OSDs");
    let made = net.time().wall;
    let later = made.plus(std::time::Duration::from_secs(5));
    for (before, caps, taken) in [
        (UTime::ZERO, Some(caps.clone()), true),
        (later, Some(caps.clone()), false),
        (UTime::ZERO, Some("allow r".to_owned()), false),
        (UTime::ZERO, Some(String::new()), false),
        (UTime::ZERO, None, false),
    ] {
        let mut net = Net::new(vec![mon(), osd(2), admin(1)], 5);
        talk(&mut net, 2, 0, 1, EntityType::Mon);
        if let Acceptor::Service(service) = &mut net.nodes[1].auth_mut().acceptor {
            service.revoked.insert(name.clone(), Revoked { before, caps: caps.clone() });
        }
        net.act(2, |m, now, out| m.connect(now, addr(2), EntityType::Osd, Policy::Lossy, out));
        net.run(10_000, |net| matches!(net.events[2].last(), Some(Event::Closed { .. })));
        let opened = net.events[1].iter().any(|event| matches!(event, Event::Opened { .. }));
        assert_eq!(opened, taken, "{before:?} {caps:?}");
    }
}

#[test]
fn who_is_called_a_daemon_gets_the_keys_of_its_service_and_a_client_gets_none() {
    use denc::{Decode as _, Encode as _};
    let mut net = Net::new(vec![mon(), osd(2), admin(1)], 5);
    for (node, who) in [(1, Some((key(2), rotating(20)))), (2, None)] {
        talk(&mut net, node, 0, 1, EntityType::Mon);
        let (now, session) = (net.time(), net.events[0].last().unwrap().session());
        let (result, reply) = net.nodes[0].renew(now, session, &0x0400u16.to_vec());
        let Some((own, keys)) = who else {
            assert_eq!((result, reply.len()), (-13, 0));
            continue;
        };
        let mut r = denc::Reader::new(&reply);
        assert_eq!((result, r.u16().unwrap(), r.u32().unwrap()), (0, 0x0400, 0));
        assert_eq!(own.open::<RotatingKeys>(&Vec::<u8>::decode(&mut r).unwrap()), Ok(keys));
        assert!(r.is_empty());
    }
}

#[test]
fn tickets_are_renewed_over_the_monitor_session() {
    let mut net = Net::new(vec![mon(), osd(2), admin(1)], 5);
    talk(&mut net, 2, 0, 1, EntityType::Mon);
    let session = net.events[0][0].session();
    // Service tickets first, after three quarters of an hour; the authentication ticket after 54 hours.
    for hours in [1, 55, 110] {
        net.now = hours * 3_600_000_000_000;
        let now = net.time();
        for (kind, keys) in [(EntityType::Auth, 10), (EntityType::Osd, 20)] {
            let Acceptor::Mon(mon) = &mut net.nodes[0].auth_mut().acceptor else { panic!("a monitor") };
            let keyring = mon.services.get_mut(&kind).unwrap();
            while kind == EntityType::Osd && keyring.due(now.wall) {
                let (id, key) = keyring.successor(now.wall, Duration::from_secs(3600), [keys + keyring.newest as u8; 16], true);
                keyring.add(id, key);
            }
        }
        let mut rounds = 0;
        while let Some(payload) = net.nodes[2].renew_tickets(now) {
            let (result, reply) = net.nodes[0].renew(now, session, &payload);
            net.nodes[2].auth_mut().client.renew_reply(now.mono, result, &reply).unwrap();
            net.now += 11_000_000_000;
            rounds += 1;
            assert!(rounds < 3);
        }
        assert!(rounds > 0, "{hours} hours");
    }
    // What the client holds now is good at an OSD with the present keys.
    let Acceptor::Mon(mon) = &net.nodes[0].auth().acceptor else { panic!("a monitor") };
    let keys = mon.services[&EntityType::Osd].clone();
    let Acceptor::Service(service) = &mut net.nodes[1].auth_mut().acceptor else { panic!("a service") };
    service.keys = keys;
    talk(&mut net, 2, 1, 2, EntityType::Osd);
}

/// Clocks that jump make monitors let go of keys before the tickets' time by the client's clock.
#[test]
fn who_holds_an_authentication_ticket_whose_key_is_gone_proves_its_key_again() {
    let mut net = Net::new(vec![mon(), osd(2), admin(1)], 5);
    talk(&mut net, 2, 0, 1, EntityType::Mon);
    let session = net.events[0][0].session();
    if let Acceptor::Mon(mon) = &mut net.nodes[0].auth_mut().acceptor {
        mon.services = [(EntityType::Auth, rotating(110)), (EntityType::Osd, rotating(120))].into();
    }
    if let Acceptor::Service(service) = &mut net.nodes[1].auth_mut().acceptor {
        service.keys = rotating(120);
    }
    net.act(2, |m, now, out| m.connect(now, addr(2), EntityType::Osd, Policy::Lossy, out));
    assert!(net.run(10_000, |net| matches!(net.events[2].last(), Some(Event::Closed { .. }))));
    let now = net.time();
    let results: Vec<i32> = std::iter::from_fn(|| {
        let payload = net.nodes[2].renew_tickets(now)?;
        let (result, reply) = net.nodes[0].renew(now, session, &payload);
        let taken = net.nodes[2].auth_mut().client.renew_reply(now.mono, result, &reply);
        assert_eq!(taken.is_ok(), result == 0);
        Some(result)
    })
    .take(5)
    .collect();
    assert_eq!(results.len(), 2, "{results:?}");
    assert!(results[0] < 0 && results[1] == 0, "{results:?}");
    talk(&mut net, 2, 1, 2, EntityType::Osd);
}

#[test]
fn a_global_id_is_kept_only_with_its_ticket() {
    let mut net = Net::new(vec![mon(), admin(1)], 6);
    let first = talk(&mut net, 1, 0, 1, EntityType::Mon);
    net.act(1, |m, _, _| m.close(first));
    net.run(10_000, |net| net.nodes[0].connections() == 0);
    talk(&mut net, 1, 0, 1, EntityType::Mon);
    let ids: Vec<u64> = net.events[0]
        .iter()
        .filter_map(|e| if let Event::Opened { peer, .. } = e { Some(peer.global_id) } else { None })
        .collect();
    assert_eq!(ids, [4100, 4100]);
    // Somebody with the right key who claims another's id.
    let mut thief = ClientAuth::cephx(name("client.admin"), key(1));
    thief.global_id = 4100;
    let mut net = Net::new(vec![mon(), client(3, "client.admin", Auth::client(thief))], 6);
    net.act(1, |m, now, out| m.connect(now, addr(1), EntityType::Mon, Policy::Lossy, out));
    assert!(net.run(10_000, |net| !net.events[1].is_empty()));
    assert!(matches!(&net.events[1][0], Event::Closed { why, .. } if why.contains("-13")));
}

#[test]
fn tickets_end_with_their_time_but_not_at_once() {
    for (hours, good) in [(1, true), (3, false)] {
        let mut net = Net::new(vec![mon(), osd(2), admin(1)], 5);
        talk(&mut net, 2, 0, 1, EntityType::Mon);
        net.now += hours * 3_600_000_000_000 + 60_000_000_000;
        let late = net.act(2, |m, now, out| m.connect(now, addr(2), EntityType::Osd, Policy::Lossy, out));
        let over = |e: &Event| matches!(e, Event::Closed { session, .. } if *session == late);
        assert!(net.run(10_000, |net| !net.events[1].is_empty() || net.events[2].iter().any(over)));
        assert_eq!(!net.events[1].is_empty(), good, "after {hours} hours");
    }
}

#[test]
fn daemons_are_who_they_say() {
    // A client's key does not make an OSD.
    let config = Config::server(name("osd.5"), EntityAddrVec(vec![addr(3)]), 5);
    let auth = Auth { acceptor: Acceptor::Nobody, client: ClientAuth::cephx(name("client.admin"), key(1)) };
    let mut net = Net::new(vec![mon(), (Messenger::new(config, auth, [3; 32]), socket(3))], 5);
    net.act(1, |m, now, out| m.connect(now, addr(1), EntityType::Mon, Policy::Lossy, out));
    assert!(net.run(10_000, |net| !net.events[1].is_empty()));
    assert!(net.events[0].is_empty());
    assert!(net.logs.iter().any(|l| l.contains("client.admin says that it is a osd")), "{:?}", net.logs);
    assert!(matches!(net.nodes[1].auth().client.method, ClientMethod::Cephx(_)));
}
