//! Sessions between messengers over a bad network.

use super::net::Net;
use super::*;
use crate::{Event, Limits, Mode, Policy};
use types::{EntityType, SessionId};

fn opened(events: &[Event]) -> Vec<SessionId> {
    events.iter().filter_map(|e| if let Event::Opened { session, .. } = e { Some(*session) } else { None }).collect()
}

fn tids(events: &[Event]) -> Vec<u64> {
    events.iter().filter_map(|e| if let Event::Message { message, .. } = e { Some(message.tid) } else { None }).collect()
}

fn osd(n: u8) -> (Messenger, std::net::SocketAddr) {
    let who = format!("osd.{n}");
    daemon(n, &who, n.into(), Auth::none(name(&who)))
}

#[test]
fn a_client_and_a_monitor_talk() {
    for (seed, grain) in [(1, 1), (2, 7), (3, 100_000)] {
        let mut net = Net::new(
            vec![
                daemon(1, "mon.a", 0, open_mon()),
                client(2, "client.admin", Auth::client(ClientAuth::none(name("client.admin")))),
            ],
            seed,
        );
        net.grain = grain;
        let session = net.act(1, |m, now, out| m.connect(now, addr(1), EntityType::Mon, Policy::Lossy, out));
        net.act(1, |m, _, _| m.send(session, message(5, 300, 3000)));
        assert!(net.run(100_000, |net| !tids(&net.events[0]).is_empty()));
        let Event::Opened { session: there, peer } = &net.events[0][0] else { panic!("{:?}", net.events[0]) };
        assert_eq!((peer.name.to_string().as_str(), peer.global_id, peer.mode), ("client.admin", 4100, Mode::Crc));
        assert_eq!(peer.addr.to_string(), "10.0.0.2:0/4660");
        assert_eq!((peer.features, peer.caps.clone()), (types::features::SUPPORTED, None));
        let there = *there;
        net.act(0, |m, _, _| m.send(there, message(5, 10, 40_000)));
        assert!(net.run(200_000, |net| !tids(&net.events[1]).is_empty()));
        let Event::Message { message: got, .. } = &net.events[1][1] else { panic!("{:?}", net.events[1]) };
        assert_eq!(*got, message(5, 10, 40_000));
        assert_eq!(net.nodes[1].auth().client.global_id, 4100);
        // The client goes; the monitor is told.
        net.act(1, |m, _, _| m.close(session));
        assert!(net.run(100_000, |net| matches!(net.events[0].last(), Some(Event::Closed { .. }))));
        assert_eq!(net.nodes[0].connections(), 0);
        assert_eq!(net.nodes[0].held(), 0);
    }
}

/// A daemon that clients reach elsewhere: who dials the further address finds that one, and it is the same daemon.
#[test]
fn a_further_address_is_found_by_who_dials_it() {
    let who = "osd.1";
    let mut config = Config::server(name(who), EntityAddrVec(vec![addr(8)]), 1);
    config.further = EntityAddrVec(vec![addr(1)]);
    let there = (Messenger::new(config, Auth::none(name(who)), [1; 32]), super::socket(1));
    let mut net = Net::new(vec![there, osd(2)], 3);
    net.act(1, |m, now, out| m.connect(now, addr(1), EntityType::Osd, Policy::Lossy, out));
    assert!(net.run(100_000, |net| !opened(&net.events[0]).is_empty() && !opened(&net.events[1]).is_empty()));
    let Event::Opened { peer, .. } = &net.events[1][0] else { panic!("{:?}", net.events[1]) };
    assert_eq!((peer.name.to_string().as_str(), peer.addr, &peer.addrs), (who, addr(1), &EntityAddrVec(vec![addr(1)])));
    // Another life at the same place is not it.
    let mut other = addr(1);
    other.nonce += 1;
    net.act(1, |m, now, out| m.connect(now, other, EntityType::Osd, Policy::Lossy, out));
    net.run(100_000, |_| false);
    assert_eq!(opened(&net.events[1]).len(), 1);
    assert!(net.logs.iter().any(|line| line.contains("which is not here")), "{:?}", net.logs);
}

/// Two OSDs, each with a session to the other, both ends speaking on both sessions; connections break at any byte. What
/// each end gets is what the other sent, once and in order.
/// Gives how many open connections broke meanwhile.
fn lossless(mut net: Net, seed: u64, messages: u64) -> usize {
    let pace = seed as usize % 4;
    net.breaks = [100, 2_000, 10_000, 20_000][pace];
    net.grain = [3, 200, 5_000, 100_000][pace];
    let mine: Vec<SessionId> = (0..2)
        .map(|i| {
            let to = addr(2 - i as u8);
            net.act(i, |m, now, out| m.connect(now, to, EntityType::Osd, Policy::Lossless, out))
        })
        .collect();
    let mut sent = [0u64; 2];
    let mut answered = [0usize; 2];
    for _ in 0..400_000 {
        for i in 0..2 {
            if sent[i] < messages && net.dice.below(20) == 0 {
                let tid = sent[i];
                let (front, data) = (net.dice.below(400), [0, 10, 5_000, 90_000][net.dice.below(1 + pace)]);
                net.act(i, |m, _, _| m.send(mine[i], message(tid, front, data)));
                sent[i] += 1;
            }
            // Each request is answered on the session that it came on.
            let requests: Vec<_> = net.events[i][answered[i]..].to_vec_of_requests(mine[i]);
            answered[i] = net.events[i].len();
            for (session, tid) in requests {
                net.act(i, |m, _, _| m.send(session, message(tid + 1_000_000, 20, 3)));
            }
        }
        net.step();
        let all = |i: usize| net.events[i].iter().filter(|e| matches!(e, Event::Message { .. })).count() as u64 >= 2 * messages;
        if sent == [messages; 2] && all(0) && all(1) {
            break;
        }
    }
    for i in 0..2 {
        let requests: Vec<u64> = tids(&net.events[i]).into_iter().filter(|t| *t < 1_000_000).collect();
        let replies: Vec<u64> = tids(&net.events[i]).into_iter().filter(|t| *t >= 1_000_000).map(|t| t - 1_000_000).collect();
        let all: Vec<u64> = (0..messages).collect();
        assert_eq!(requests, all, "seed {seed} node {i}: requests; {:#?}", net.logs.last());
        assert_eq!(replies, all, "seed {seed} node {i}: replies");
        assert!(!net.events[i].iter().any(|e| matches!(e, Event::Reset { .. } | Event::Closed { .. })), "seed {seed}");
        assert_eq!(opened(&net.events[i]).len(), 2);
        let modes: Vec<_> = mine.iter().filter_map(|id| Some(net.nodes[i].peer(*id)?.mode)).collect();
        assert!(modes.iter().all(|m| (*m == Mode::Secure) == (net.nodes.len() == 3)), "{modes:?}");
        assert_eq!(net.nodes[i].held(), 0, "seed {seed}");
        for event in &net.events[i] {
            if let Event::Message { message: got, .. } = event {
                assert_eq!(*got, message(got.tid, got.front.len(), got.data.len()));
            }
        }
    }
    net.logs.iter().filter(|line| line.contains("connection with")).count()
}

trait Requests {
    fn to_vec_of_requests(&self, own: SessionId) -> Vec<(SessionId, u64)>;
}

impl Requests for [Event] {
    fn to_vec_of_requests(&self, own: SessionId) -> Vec<(SessionId, u64)> {
        let request = |e: &Event| match e {
            Event::Message { session, message, .. } if *session != own => Some((*session, message.tid)),
            _ => None,
        };
        self.iter().filter_map(request).collect()
    }
}

#[test]
fn lossless_sessions_deliver_each_message_once_and_in_order() {
    let broken: usize = (0..24).map(|seed| lossless(Net::new(vec![osd(1), osd(2)], seed), seed, 40)).sum();
    assert!(broken > 100, "{broken}");
}

#[test]
fn sealed_lossless_sessions_do_so_too() {
    for seed in 1..8 {
        let mut net = Net::new(super::cephx::secure_osds(), seed);
        for node in 0..2 {
            let mon = net.act(node, |m, now, out| m.connect(now, addr(3), EntityType::Mon, Policy::Lossy, out));
            assert!(net.run(10_000, |net| net.nodes[node].peer(mon).is_some()), "{:?}", net.logs);
            net.act(node, |m, _, _| m.close(mon));
        }
        net.run(1_000, |net| net.nodes[2].connections() == 0);
        net.events.iter_mut().for_each(Vec::clear);
        lossless(net, seed, 30);
    }
}

#[test]
fn a_peer_that_was_started_again_resets_the_session() {
    let mut net = Net::new(vec![osd(1), osd(2)], 9);
    let session = net.act(0, |m, now, out| m.connect(now, addr(2), EntityType::Osd, Policy::Lossless, out));
    net.act(0, |m, _, _| m.send(session, message(1, 5, 5)));
    assert!(net.run(10_000, |net| tids(&net.events[1]) == [1]));
    // A machine with the same address that knows nothing.
    net.nodes[1] = osd(2).0;
    net.break_all();
    assert!(net.run(10_000, |net| net.events[0].iter().any(|e| matches!(e, Event::Reset { .. }))));
    net.act(0, |m, _, _| m.send(session, message(2, 5, 5)));
    assert!(net.run(10_000, |net| tids(&net.events[1]) == [1, 2]));
    assert_eq!(opened(&net.events[0]), [session]);
}

#[test]
fn a_lossless_peer_that_stays_away_is_given_up() {
    let mut net = Net::new(vec![osd(1), osd(2)], 9);
    let session = net.act(0, |m, now, out| m.connect(now, addr(2), EntityType::Osd, Policy::Lossless, out));
    assert!(net.run(10_000, |net| opened(&net.events[1]).len() == 1));
    net.act(0, |m, _, _| m.close(session));
    assert!(net.run(10_000, |net| net.nodes[1].connections() == 0));
    assert!(net.events[1].iter().all(|e| !matches!(e, Event::Closed { .. })), "it may come back");
    net.now += 121_000_000_000;
    net.act(1, |_, _, _| ());
    assert!(matches!(net.events[1].last(), Some(Event::Closed { .. })));
}

#[test]
fn an_address_without_anyone_closes_a_lossy_session_and_a_lossless_one_tries_on() {
    let mut net = Net::new(vec![osd(1)], 3);
    let lossy = net.act(0, |m, now, out| m.connect(now, addr(9), EntityType::Osd, Policy::Lossy, out));
    let lossless = net.act(0, |m, now, out| m.connect(now, addr(9), EntityType::Osd, Policy::Lossless, out));
    for _ in 0..200 {
        net.break_all();
        net.step();
    }
    assert!(matches!(&net.events[0][..], [Event::Closed { session, .. }] if *session == lossy), "{:?}", net.events[0]);
    assert!(net.nodes[0].peer(lossless).is_none());
    assert!(net.logs.len() > 5, "each attempt leaves a line: {:?}", net.logs);
}

#[test]
fn clients_are_throttled_by_what_is_not_given_back() {
    let (mut server, at) = osd(1);
    let mut limits = server.config().limits.clone();
    limits.clients = 50_000;
    let mut config = server.config().clone();
    config.limits = limits;
    server = Messenger::new(config, Auth::none(name("osd.1")), [1; 32]);
    let mut net = Net::new(vec![(server, at), client(2, "client.a", Auth::client(ClientAuth::none(name("client.a"))))], 4);
    let session = net.act(1, |m, now, out| m.connect(now, addr(1), EntityType::Osd, Policy::Lossy, out));
    assert!(net.run(10_000, |net| !net.events[1].is_empty()));
    for tid in 0..20 {
        net.act(1, |m, _, _| m.send(session, message(tid, 100, 10_000)));
    }
    net.still = true;
    net.held = Some((0, Default::default()));
    let mut most = 0;
    let mut delivered = Vec::new();
    for round in 0..200_000 {
        net.step();
        most = most.max(net.nodes[0].held());
        if round % 50 == 49
            && let Some((session, bytes, tid)) = net.held.as_mut().and_then(|(_, held)| held.pop_front())
        {
            delivered.push(tid);
            net.act(0, |m, _, _| m.done(session, bytes));
        }
        if delivered.len() == 20 {
            break;
        }
    }
    assert!(most > 40_000 && most <= 50_000, "{most}");
    assert_eq!(delivered, (0..20).collect::<Vec<_>>());
    assert_eq!(net.nodes[0].held(), 0);
}

#[test]
fn small_messages_come_in_while_another_client_has_all_room() {
    let (server, at) = osd(1);
    let mut config = server.config().clone();
    (config.limits.clients, config.limits.session) = (100_000, 100_000);
    let server = Messenger::new(config, Auth::none(name("osd.1")), [1; 32]);
    let make = |n: u8, who: &str| client(n, who, Auth::client(ClientAuth::none(name(who))));
    let mut net = Net::new(vec![(server, at), make(2, "client.greedy"), make(3, "client.b")], 4);
    let greedy = net.act(1, |m, now, out| m.connect(now, addr(1), EntityType::Osd, Policy::Lossy, out));
    let good = net.act(2, |m, now, out| m.connect(now, addr(1), EntityType::Osd, Policy::Lossy, out));
    assert!(net.run(10_000, |net| net.nodes[1].peer(greedy).is_some() && net.nodes[2].peer(good).is_some()));
    net.still = true;
    net.held = Some((0, Default::default()));
    let taken = |net: &Net| net.held.as_ref().map_or(0, |(_, held)| held.len());
    // One takes all room, and two more of his wait for it.
    (0..3).for_each(|tid| net.act(1, |m, _, _| m.send(greedy, message(tid, 100, 95_000))));
    net.run(100_000, |_| false);
    assert_eq!(taken(&net), 1);
    net.act(2, |m, _, _| m.send(good, message(7, 100, 10_000)));
    net.run(100_000, |_| false);
    let last = net.held.as_ref().and_then(|(_, held)| held.back()).map(|(_, _, tid)| *tid);
    assert_eq!((taken(&net), last), (2, Some(7)), "the small one came in");
    // Given back, it leaves the room that it had; the large ones come when theirs is free.
    for more in [1, 2] {
        for (session, bytes, _) in std::mem::take(&mut net.held.as_mut().expect("held").1) {
            net.act(0, |m, _, _| m.done(session, bytes));
        }
        net.run(100_000, |_| false);
        assert_eq!(taken(&net), 1, "{more}");
    }
}

/// A server with these limits, and the sessions of two clients there: node 1, that will take nothing, and node 2.
fn deaf_and_good(limits: impl FnOnce(&mut Limits)) -> (Net, SessionId, SessionId) {
    let (server, at) = osd(1);
    let mut config = server.config().clone();
    limits(&mut config.limits);
    config.limits.keepalive = std::time::Duration::from_secs(1000);
    let server = Messenger::new(config, Auth::none(name("osd.1")), [1; 32]);
    let make = |n: u8, who: &str| client(n, who, Auth::client(ClientAuth::none(name(who))));
    let mut net = Net::new(vec![(server, at), make(2, "client.deaf"), make(3, "client.b")], 4);
    let deaf = net.act(1, |m, now, out| m.connect(now, addr(1), EntityType::Osd, Policy::Lossy, out));
    let good = net.act(2, |m, now, out| m.connect(now, addr(1), EntityType::Osd, Policy::Lossy, out));
    assert!(net.run(10_000, |net| net.nodes[1].peer(deaf).is_some() && net.nodes[2].peer(good).is_some()));
    (net, deaf, good)
}

#[test]
fn a_client_that_takes_no_replies_is_not_served_and_others_are() {
    let (mut net, deaf, good) = deaf_and_good(|limits| (limits.send_pause, limits.send_window) = (100_000, 50_000));
    net.deaf = Some(1);
    net.still = true;
    for tid in 0..300 {
        net.act(1, |m, _, _| m.send(deaf, message(tid, 100, 0)));
        net.act(2, |m, _, _| m.send(good, message(tid, 100, 0)));
    }
    // Each request is answered with much more than was asked.
    let mut seen = 0;
    let mut served = std::collections::BTreeMap::new();
    loop {
        for event in net.events[0][seen..].to_vec_of_requests(SessionId(0)) {
            *served.entry(event.0).or_insert(0) += 1;
            net.act(0, |m, _, _| m.send(event.0, message(event.1, 10, 5_000)));
        }
        seen = net.events[0].len();
        if !net.step() {
            break;
        }
    }
    let mut counts: Vec<i32> = served.into_values().collect();
    counts.sort();
    assert_eq!(counts[1], 300);
    assert!(counts[0] > 10 && counts[0] < 100, "{counts:?}");
    assert_eq!(tids(&net.events[2]).len(), 300);
}

#[test]
fn what_waits_for_all_clients_together_has_a_bound() {
    let (mut net, _, _) = deaf_and_good(|limits| (limits.send_most, limits.send_window) = (200_000, 10_000));
    let who = |net: &Net, id: &str| {
        let named = |event: &Event| matches!(event, Event::Opened { peer, .. } if peer.name == name(id));
        net.events[0].iter().find(|event| named(event)).expect("it is open").session()
    };
    let (deaf_there, good_there) = (who(&net, "client.deaf"), who(&net, "client.b"));
    net.deaf = Some(1);
    net.still = true;
    for tid in 0..100 {
        net.act(0, |m, _, _| m.send(deaf_there, message(tid, 10, 5_000)));
        net.act(0, |m, _, _| m.send(good_there, message(tid, 10, 100)));
        net.run(1_000, |_| false);
    }
    let closed = net.events[0].iter().filter(|event| matches!(event, Event::Closed { session, .. } if *session == deaf_there));
    assert_eq!(closed.count(), 1, "it takes nothing");
    assert_eq!(tids(&net.events[2]).len(), 100, "others go on");
}

#[test]
fn closing_gives_back_what_was_not_taken() {
    let mut net = Net::new(vec![osd(1), client(2, "client.a", Auth::client(ClientAuth::none(name("client.a"))))], 7);
    let session = net.act(1, |m, now, out| m.connect(now, addr(1), EntityType::Osd, Policy::Lossy, out));
    net.held = Some((0, Default::default()));
    net.act(1, |m, _, _| m.send(session, message(1, 10, 70_000)));
    net.act(1, |m, _, _| m.send(session, message(2, 10, 70_000)));
    // In the middle of the second message.
    assert!(net.run(100_000, |net| net.nodes[0].held() > 140_000));
    let there = net.events[0][0].session();
    net.act(0, |m, _, _| m.close(there));
    let unreturned: usize = net.held.iter().flat_map(|(_, held)| held).map(|(_, bytes, _)| bytes).sum();
    assert_eq!(net.nodes[0].held(), unreturned);
    for (session, bytes, _) in net.held.take().unwrap().1 {
        net.nodes[0].done(session, bytes);
    }
    assert_eq!((net.nodes[0].held(), net.nodes[0].connections()), (0, 0));
    assert!(net.run(100_000, |net| matches!(net.events[1].last(), Some(Event::Closed { .. }))));
}

#[test]
fn a_client_that_is_refused_and_returns_at_once_is_not_read_for_longer_each_time() {
    let make = |n: u8, who: &str| client(n, who, Auth::client(ClientAuth::none(name(who))));
    let mut net = Net::new(vec![osd(1), make(2, "client.odd"), make(3, "client.b")], 4);
    let mut refused = Vec::new();
    while net.now < 60_000_000_000 {
        let session = net.act(1, |m, now, out| m.connect(now, addr(1), EntityType::Osd, Policy::Lossy, out));
        (0..3).for_each(|tid| net.act(1, |m, _, _| m.send(session, message(tid, 100, 0))));
        let seen = net.events[0].len();
        let arrived =
            |net: &Net| net.events[0][seen..].iter().find_map(|e| matches!(e, Event::Message { .. }).then(|| e.session()));
        assert!(net.run(100_000, |net| arrived(net).is_some()));
        let there = arrived(&net).expect("a message");
        net.act(0, |m, now, out| m.refuse(now, there, "not understood", out));
        refused.push(net.now);
        let gone = |e: &Event| matches!(e, Event::Closed { session: closed, .. } if *closed == session);
        assert!(net.run(1_000_000, |net| net.events[1].iter().any(gone)), "it is closed in the end");
        let after = net.events[0].iter().filter(|e| matches!(e, Event::Message { .. }) && e.session() == there).count();
        assert!(after <= 3 && net.nodes[0].held() == 0, "nothing of it is held");
    }
    let gaps: Vec<u64> = refused.windows(2).map(|w| (w[1] - w[0]) / 1_000_000).collect();
    assert!(gaps.len() < 15, "{gaps:?}");
    assert!(gaps.windows(2).skip(1).all(|w| w[1] >= w[0] + w[0] / 2 || w[1] >= 19_000), "{gaps:?}");
    let good = net.act(2, |m, now, out| m.connect(now, addr(1), EntityType::Osd, Policy::Lossy, out));
    assert!(net.run(100_000, |net| net.nodes[2].peer(good).is_some()), "others are served as ever");
    assert_eq!(net.logs.iter().filter(|line| line.contains("not understood")).count(), refused.len());
}

/// A message that the receiver would refuse would end the session, and whoever sends it again ends the next one.
#[test]
fn what_no_daemon_takes_is_not_sent_to_one_and_said() {
    let (front, data) = (1_000, 2_000);
    let mut net = Net::new(vec![osd(0), osd(1)], 3);
    for node in &mut net.nodes {
        let limits = crate::Limits { front, data, ..node.config().limits.clone() };
        node.set_limits(limits);
    }
    let to = net.nodes[1].config().addrs.0[0];
    let session = net.act(0, |m, now, out| m.connect(now, to, EntityType::Osd, Policy::Lossy, out));
    net.act(0, |m, _, _| {
        for (tid, front, data) in [(1, front, 5), (2, front + 1, 0), (3, 0, data + 1), (4, 3, data)] {
            m.send(session, message(tid, front, data));
        }
    });
    net.run(1_000, |net| tids(&net.events[1]).contains(&4));
    assert_eq!(tids(&net.events[1]), [1, 4]);
    assert_eq!((net.nodes[0].unsendable(), opened(&net.events[0]).len(), opened(&net.events[1]).len()), (2, 1, 1));
    let said: Vec<_> = net.logs.iter().filter(|line| line.contains("is not sent to osd")).collect();
    assert!(said.len() == 1 && said[0].contains(&format!("its front has {} bytes", front + 1)), "{said:?}");
}
