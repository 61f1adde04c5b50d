//! The monitor as its clients and OSDs see it: sessions, subscriptions, rights, the lives of OSDs, quotas, snapshots.

mod common;

use common::{Disk, FSID, World, config};
use denc::Decode;
use maps::{Incremental, MgrMap, MonMap, OsdMap};
use messages::internal::{ImageFigures, OsdDown, OsdInstruct, OsdReport, ServiceKeys};
use messages::mon::{
    ConfigMsg, GetPoolStats, GetPoolStatsReply, LogMsg, MgrCommand, MgrCommandReply, MgrMapMsg, MonGetMap, MonGetVersion,
    MonGetVersionReply, MonMapMsg, OsdMapMsg, Ping, PoolOp, PoolOpReply, Statfs, StatfsReply, pool_op,
};
use mon::AuthMode;
use serde_json::Value;
use std::time::Duration;

fn newest_full(messages: &[types::Message]) -> OsdMap {
    let last = OsdMapMsg::decode(messages.last().expect("a map")).unwrap();
    OsdMap::from_bytes(last.full.last_key_value().expect("a full map").1).unwrap()
}

#[test]
fn a_client_gets_its_maps_and_then_what_is_new() {
    let mut world = World::new();
    world.boot_osd(0);
    let c = world.connect("client.admin", None, 0);
    world.send(c, MonGetMap {}.encode());
    let maps = world.take(c, MonMapMsg::KIND);
    let map = MonMap::from_bytes(&MonMapMsg::decode(&maps[0]).unwrap().monmap).unwrap();
    assert_eq!((map.fsid, map.epoch, map.ranks), (FSID, 1, vec!["a".to_string()]));
    for what in ["config", "monmap", "mgrmap"] {
        world.subscribe(c, what, 0, false);
    }
    assert_eq!((world.take(c, ConfigMsg::KIND).len(), world.take(c, MonMapMsg::KIND).len()), (1, 1));
    let mgr = MgrMapMsg::decode(&world.take(c, MgrMapMsg::KIND)[0]).unwrap();
    assert!(MgrMap::from_bytes(&mgr.map).unwrap().available);
    world.subscribe(c, "osdmap", 0, true);
    let mut map = newest_full(&world.take(c, OsdMapMsg::KIND));
    // Once means once; the next is asked for by its number, and comes when it is there, as an increment whose bytes check out.
    world.ok(r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    assert!(world.take(c, OsdMapMsg::KIND).is_empty());
    world.ok(r#"{"prefix":"osd pool create","pool":"q","pg_num":8}"#);
    world.subscribe(c, "osdmap", u64::from(map.epoch) + 1, true);
    let m = OsdMapMsg::decode(&world.take(c, OsdMapMsg::KIND)[0]).unwrap();
    assert_eq!(m.incremental.len(), 2);
    for inc in m.incremental.values() {
        map = map.apply(&Incremental::from_bytes(inc).unwrap()).unwrap();
    }
    assert_eq!(map.pool_name.values().cloned().collect::<Vec<_>>(), ["p", "q"]);
    world.subscribe(c, "osdmap", u64::from(map.epoch) + 1, true);
    assert!(world.take(c, OsdMapMsg::KIND).is_empty());
    world.ok(r#"{"prefix":"osd set","key":"noout"}"#);
    assert_eq!(world.take(c, OsdMapMsg::KIND).len(), 1);
    // Options come as soon as they are set, and only if they concern the client.
    world.ok(r#"{"prefix":"config set","who":"client","name":"rbd_cache","value":"false"}"#);
    let config = ConfigMsg::decode(&world.take(c, ConfigMsg::KIND)[0]).unwrap();
    assert_eq!(config.config["rbd_cache"], "false");
    world.ok(r#"{"prefix":"config set","who":"osd","name":"osd_max_scrubs","value":"2"}"#);
    assert!(world.take(c, ConfigMsg::KIND).is_empty());
}

#[test]
fn an_old_epoch_is_served_from_history_and_a_too_old_one_from_the_oldest_full_map() {
    let mut world = World::new();
    world.boot_osd(0);
    for n in 0..600 {
        world.ok(&format!(r#"{{"prefix":"osd {}set","key":"noout"}}"#, if n % 2 == 0 { "" } else { "un" }));
    }
    let c = world.connect("client.admin", None, 0);
    world.subscribe(c, "osdmap", 1, true);
    let messages: Vec<OsdMapMsg> = world.take(c, OsdMapMsg::KIND).iter().map(|m| OsdMapMsg::decode(m).unwrap()).collect();
    assert!(messages.len() > 1, "a long way comes in pieces");
    let first = messages[0].full.last_key_value().unwrap();
    let mut map = OsdMap::from_bytes(first.1).unwrap();
    let incs: Vec<_> = messages.iter().flat_map(|m| m.incremental.values()).collect();
    assert!(incs.len() >= 500, "{} increments are kept", incs.len());
    for inc in incs {
        map = map.apply(&Incremental::from_bytes(inc).unwrap()).unwrap();
    }
    assert_eq!(map.epoch, messages[0].newest);
    // A map between two full ones is made from them.
    let c = world.connect("client.admin", None, 0);
    let some = map.epoch - 100;
    let got = world.command(c, &format!(r#"{{"prefix":"osd getmap","epoch":{some}}}"#), b"");
    assert_eq!(OsdMap::from_bytes(&got.output.contiguous()).unwrap().epoch, some);
    assert_eq!(world.command(c, r#"{"prefix":"osd getmap","epoch":1}"#, b"").result, -2);
}

#[test]
fn questions_are_answered() {
    let mut world = World::new();
    let osd = world.boot_osd(0);
    world.ok(r#"{"prefix":"osd pool create","pool":"p","pg_num":1}"#);
    let pg = world.clean_pg(1, 0, 7, 7 << 20);
    world.report(osd, 0, vec![pg]);
    let c = world.connect("client.admin", None, 0);
    world.send(c, MonGetVersion { handle: 42, what: "osdmap".into() }.encode());
    let v = MonGetVersionReply::decode(&world.take(c, MonGetVersionReply::KIND)[0]).unwrap();
    assert_eq!((v.handle, v.version > 2), (42, true));
    world.send(c, Statfs { fsid: FSID, ..Statfs::default() }.encode());
    let s = StatfsReply::decode(&world.take(c, StatfsReply::KIND)[0]).unwrap();
    assert_eq!((s.kb, s.num_objects), (20 << 20, 7));
    world.send(c, GetPoolStats { fsid: FSID, pools: vec!["p".into(), "none".into()], ..GetPoolStats::default() }.encode());
    let p = GetPoolStatsReply::decode(&world.take(c, GetPoolStatsReply::KIND)[0]).unwrap();
    assert_eq!((p.pools.len(), p.pools["p"].stats.sum.num_bytes), (1, 7 << 20));
    world.send(c, Ping::default().encode());
    let ping = Ping::decode(&world.take(c, Ping::KIND)[0]).unwrap();
    assert!(String::from_utf8_lossy(&ping.front).contains("mon_status"));
    assert!(String::from_utf8_lossy(&world.tell(c, r#"{"prefix":"version"}"#).output.contiguous()).contains("16.2.15"));
    // The manager understands the same commands.
    let m = world.connect("client.admin", None, 1);
    world.send(
        m,
        MgrCommand { fsid: FSID, cmd: vec![r#"{"prefix":"pg stat","target":["mon-mgr",""]}"#.into()], ..MgrCommand::default() }
            .encode(),
    );
    let r = MgrCommandReply::decode(&world.take(m, MgrCommandReply::KIND)[0]).unwrap();
    assert_eq!(r.result, 0);
    assert!(String::from_utf8_lossy(&r.output.contiguous()).starts_with("1 pgs: 1 active+clean"));
}

#[test]
fn garbage_closes_the_session_and_nothing_else() {
    let mut world = World::new();
    let c = world.connect("client.admin", None, 0);
    let d = world.connect("client.admin", None, 0);
    let mut bad = MonGetMap {}.encode();
    bad.kind = 50;
    bad.front = vec![0xff; 30].into();
    world.send(c, bad);
    assert!(world.peers[c].closed.is_some());
    assert!(world.log.iter().any(|l| l.contains("not understood")), "{:?}", world.log);
    assert_eq!(world.command(d, r#"{"prefix":"fsid"}"#, b"").result, 0);
    for (json, word) in [
        ("{", "JSON"),
        ("[1]", "object"),
        (r#"{"a":1}"#, "prefix"),
        (r#"{"prefix":"nonsense"}"#, "not known"),
        (r#"{"prefix":"osd find"}"#, "'id'"),
    ] {
        let ack = world.command(d, json, b"");
        assert_eq!(ack.result, -22, "{json}");
        assert!(ack.status.contains(word), "{json}: {}", ack.status);
    }
}

#[test]
fn with_cephx_only_keys_and_rights_open_doors() {
    let mut world = World::with(config(AuthMode::Cephx), Disk::default());
    let admin = world.connect("client.admin", Some([1; 16]), 0);
    assert_eq!(world.command(admin, r#"{"prefix":"osd pool ls"}"#, b"").result, 0);
    let wrong = world.connect("client.admin", Some([9; 16]), 0);
    assert!(world.peers[wrong].closed.is_some(), "a wrong key");
    let nobody = world.connect("client.nobody", Some([1; 16]), 0);
    assert!(world.peers[nobody].closed.is_some(), "an unknown name");
    let json = r#"{"prefix":"auth get-or-create-key","entity":"client.mute","caps":["osd","allow *"]}"#;
    let ack = world.command(admin, json, b"");
    let key = msgr::auth::Key::from_base64(String::from_utf8_lossy(&ack.output.contiguous()).trim()).unwrap();
    let mute = world.connect("client.mute", Some(key.secret), 0);
    assert!(world.peers[mute].closed.is_some(), "no rights at the monitor");
    let reader = world.connect("client.reader", Some([2; 16]), 0);
    assert_eq!(world.command(reader, r#"{"prefix":"status"}"#, b"").result, 0);
    for json in [
        r#"{"prefix":"osd set","key":"noout"}"#,
        r#"{"prefix":"auth ls"}"#,
        r#"{"prefix":"config set","who":"osd","name":"osd_max_scrubs","value":"2"}"#,
    ] {
        let ack = world.command(reader, json, b"");
        assert_eq!((ack.result, ack.status.as_str()), (-13, "access denied"), "{json}");
    }
    // A name that was just made may come in at once; one that was removed may not come again.
    let ack = world.command(admin, r#"{"prefix":"auth get-or-create-key","entity":"client.new","caps":["mon","allow r"]}"#, b"");
    let key = msgr::auth::Key::from_base64(String::from_utf8_lossy(&ack.output.contiguous()).trim()).unwrap();
    let new = world.connect("client.new", Some(key.secret), 0);
    assert_eq!(world.command(new, r#"{"prefix":"fsid"}"#, b"").result, 0);
    world.command(admin, r#"{"prefix":"auth rm","entity":"client.new"}"#, b"");
    let gone = world.connect("client.new", Some(key.secret), 0);
    assert!(world.peers[gone].closed.is_some());
}

#[test]
fn who_writes_in_a_pool_may_number_its_snapshots() {
    let mut world = World::with(config(AuthMode::Cephx), Disk::default());
    let osd = world.connect("osd.0", Some([3; 16]), 0);
    world.boot_on(osd, 0);
    let admin = world.connect("client.admin", Some([1; 16]), 0);
    for pool in ["p", "q"] {
        world.command(admin, &format!(r#"{{"prefix":"osd pool create","pool":"{pool}","pg_num":1}}"#), b"");
    }
    let client = |world: &mut World, name: &str, caps: &str| {
        let json = format!(r#"{{"prefix":"auth get-or-create-key","entity":"{name}","caps":[{caps}]}}"#);
        let ack = world.command(admin, &json, b"");
        let key = msgr::auth::Key::from_base64(String::from_utf8_lossy(&ack.output.contiguous()).trim()).unwrap();
        world.connect(name, Some(key.secret), 0)
    };
    let (create, delete) = (pool_op::CREATE_UNMANAGED_SNAP, pool_op::DELETE_UNMANAGED_SNAP);
    for (n, (caps, in_p, in_q)) in [
        (r#""mon","allow r""#, -1, -1),
        (r#""mon","allow r","osd","allow r""#, -1, -1),
        (r#""mon","allow r","osd","allow w""#, 0, 0),
        (r#""mon","profile rbd","osd","profile rbd pool=p, profile rbd-read-only pool=q""#, 0, -1),
        (r#""mon","allow r, allow command \"osd pool op unmanaged-snap\" with poolname=q""#, -1, 0),
        (r#""mon","allow rw""#, 0, 0),
    ]
    .into_iter()
    .enumerate()
    {
        let c = client(&mut world, &format!("client.c{n}"), caps);
        assert_eq!(
            [op(&mut world, c, 1, create, "", 0).result, op(&mut world, c, 2, create, "", 0).result],
            [in_p, in_q],
            "{caps}"
        );
        assert_eq!(op(&mut world, c, 1, delete, "", 1).result, in_p, "{caps}");
    }
    // Snapshots of the pool itself are the administrator's.
    let c = client(&mut world, "client.writer", r#""mon","allow r","osd","allow *""#);
    assert_eq!(op(&mut world, c, 1, pool_op::CREATE_SNAP, "s", 0).result, -1);
}

#[test]
fn osds_get_rotating_keys_and_nobody_boots_as_somebody_else() {
    let mut world = World::with(config(AuthMode::Cephx), Disk::default());
    let osd = world.connect("osd.0", Some([3; 16]), 0);
    world.boot_on(osd, 0);
    let keys = ServiceKeys::decode(world.take(osd, ServiceKeys::KIND).last().expect("keys")).unwrap();
    assert_eq!(keys.keys.len(), 3);
    world.boot_on(osd, 1);
    assert!(world.ok(r#"{"prefix":"osd stat"}"#).starts_with("1 osds: 1 up"));
    let client = world.connect("client.admin", Some([1; 16]), 0);
    world.boot_on(client, 2);
    assert!(world.ok(r#"{"prefix":"osd stat"}"#).starts_with("1 osds: 1 up"));
    // After their time the keys are replaced, and OSDs are told.
    for _ in 0..130 {
        world.pass(Duration::from_secs(60));
        world.report(osd, 0, Vec::new());
    }
    let newer = ServiceKeys::decode(world.take(osd, ServiceKeys::KIND).last().expect("newer keys")).unwrap();
    assert!(newer.keys.iter().map(|k| k.secret_id).max() > keys.keys.iter().map(|k| k.secret_id).max());
}

#[test]
fn osds_that_stop_vanish_or_fall_silent_go_down_and_in_time_out() {
    let mut world = World::new();
    let (a, b, c, d) = (world.boot_osd(0), world.boot_osd(1), world.boot_osd(2), world.boot_osd(3));
    let stat = |world: &mut World| world.ok(r#"{"prefix":"osd stat"}"#);
    assert!(stat(&mut world).starts_with("4 osds: 4 up"));
    world.send(a, OsdDown { osd: 0, epoch: 1 }.encode());
    assert!(stat(&mut world).starts_with("4 osds: 3 up"), "a clean stop counts at once");
    world.hang_up(b);
    world.pass(Duration::from_secs(2));
    assert!(stat(&mut world).starts_with("4 osds: 3 up"), "a broken connection may come back");
    world.pass(Duration::from_secs(3));
    assert!(stat(&mut world).starts_with("4 osds: 3 up"), "others are there to say whether it lives");
    for _ in 0..12 {
        world.pass(Duration::from_secs(2));
        world.report(d, 3, Vec::new());
    }
    assert!(stat(&mut world).starts_with("4 osds: 1 up"), "silence");
    let health = world.ok(r#"{"prefix":"health","detail":"detail"}"#);
    assert!(health.contains("[WRN] OSD_DOWN: 3 osds down\n    osd.0 (root=default,host=vm) is down"), "{health}");
    for _ in 0..310 {
        world.pass(Duration::from_secs(2));
        world.report(d, 3, Vec::new());
    }
    // Three quarters stay in whatever happens.
    assert!(stat(&mut world).contains("3 in"), "{}", stat(&mut world));
    world.boot_on(c, 2);
    world.boot_osd(0);
    world.boot_osd(1);
    world.report(d, 3, Vec::new());
    assert!(stat(&mut world).starts_with("4 osds: 4 up") && stat(&mut world).contains("4 in"), "{}", stat(&mut world));
    assert_eq!(world.ok(r#"{"prefix":"health"}"#), "HEALTH_OK\n");
}

#[test]
fn another_store_under_a_taken_number_stays_out() {
    let mut world = World::new();
    world.boot_osd(0);
    let before = world.ok(r#"{"prefix":"osd dump"}"#);
    let peer = world.connect("osd.0", None, 0);
    let addrs = types::EntityAddrVec(vec![types::EntityAddr::msgr2(common::addr(9999), 1)]);
    let boot =
        messages::internal::OsdBoot { fsid: FSID, osd: 0, uuid: [99; 16], addrs, total_bytes: 1 << 30, ..Default::default() };
    world.send(peer, boot.encode());
    assert_eq!(world.ok(r#"{"prefix":"osd dump"}"#), before);
    assert!(world.log.iter().any(|l| l.contains("another store")));
}

#[test]
fn a_pool_that_reaches_its_quota_is_full_until_it_is_below_again() {
    let mut world = World::new();
    let osd = world.boot_osd(0);
    world.ok(r#"{"prefix":"osd pool create","pool":"p","pg_num":1}"#);
    world.ok(r#"{"prefix":"osd pool set-quota","pool":"p","field":"max_bytes","val":"1M"}"#);
    let pg = world.clean_pg(1, 0, 1, 2 << 20);
    world.report(osd, 0, vec![pg]);
    world.pass(Duration::from_secs(1));
    assert!(world.ok(r#"{"prefix":"osd dump"}"#).contains("flags hashpspool,full,full_quota"));
    assert!(world.ok(r#"{"prefix":"health"}"#).contains("1 pool(s) full"));
    world.pass(Duration::from_secs(1));
    let pg = world.clean_pg(1, 0, 1, 1000);
    world.report(osd, 0, vec![pg]);
    world.pass(Duration::from_secs(1));
    assert!(!world.ok(r#"{"prefix":"osd dump"}"#).contains("full_quota"));
}

#[test]
fn what_was_full_is_full_after_a_restart_until_its_osd_says_otherwise() {
    let mut world = World::new();
    let osd = world.boot_osd(0);
    world.ok(r#"{"prefix":"osd pool create","pool":"p","pg_num":1}"#);
    world.all_active(&[osd], 1, 1);
    world.report_full(osd, 0, true);
    world.pass(Duration::from_secs(1));
    let full = "flags hashpspool,full ";
    assert!(world.ok(r#"{"prefix":"osd dump"}"#).contains(full));

    // Nothing was reported to this one yet.
    let mut again = World::with(config(AuthMode::None), world.disk.clone());
    again.pass(Duration::from_secs(2));
    assert!(again.ok(r#"{"prefix":"osd dump"}"#).contains(full), "{}", again.ok(r#"{"prefix":"osd dump"}"#));
    let osd = again.boot_osd(0);
    again.report_full(osd, 0, false);
    again.pass(Duration::from_secs(1));
    assert!(!again.ok(r#"{"prefix":"osd dump"}"#).contains(full));
}

fn op(world: &mut World, peer: usize, pool: u32, op: u32, name: &str, snapid: u64) -> PoolOpReply {
    let ask = PoolOp { fsid: FSID, pool, op, name: name.into(), snapid, crush_rule: -1, ..PoolOp::default() };
    world.send(peer, ask.encode());
    PoolOpReply::decode(&world.take(peer, PoolOpReply::KIND)[0]).unwrap()
}

#[test]
fn librados_makes_pools_and_snapshots() {
    let mut world = World::new();
    let osd = world.boot_osd(0);
    let c = world.connect("client.admin", None, 0);
    assert_eq!(op(&mut world, c, 0, pool_op::CREATE, "p", 0).result, 0);
    assert_eq!(op(&mut world, c, 1, pool_op::DELETE_UNMANAGED_SNAP, "", 4).result, -95, "no client has snapshots there");
    let snap = |r: PoolOpReply| u64::from_bytes(&r.data.expect("a number")).unwrap();
    let first = op(&mut world, c, 1, pool_op::CREATE_UNMANAGED_SNAP, "", 0);
    let epoch = first.epoch;
    let (a, b) = (snap(first), snap(op(&mut world, c, 1, pool_op::CREATE_UNMANAGED_SNAP, "", 0)));
    assert_eq!((a, b), (2, 3));
    assert!(epoch >= 3);
    assert_eq!(op(&mut world, c, 1, pool_op::CREATE_SNAP, "s", 0).result, -22, "a pool is of one kind");
    assert_eq!(op(&mut world, c, 1, pool_op::DELETE_UNMANAGED_SNAP, "", a).result, 0);
    assert_eq!(op(&mut world, c, 1, pool_op::DELETE_UNMANAGED_SNAP, "", a).result, 0, "twice does no harm");
    assert!(world.ok(r#"{"prefix":"osd dump"}"#).contains("removed_snaps_queue [2~1]"));
    // When every group has trimmed it, it leaves the queue.
    let mut reports = Vec::new();
    for seed in 0..32 {
        let mut pg = world.clean_pg(1, seed, 0, 0);
        pg.purged_snaps = vec![(2, 1)];
        reports.push(pg);
    }
    let last = reports.pop().unwrap();
    world.report(osd, 0, reports);
    world.pass(Duration::from_secs(1));
    assert!(world.ok(r#"{"prefix":"osd dump"}"#).contains("removed_snaps_queue"));
    world.report(osd, 0, vec![last]);
    world.pass(Duration::from_secs(1));
    assert!(!world.ok(r#"{"prefix":"osd dump"}"#).contains("removed_snaps_queue"));
    assert_eq!(op(&mut world, c, 1, pool_op::DELETE, "delete", 0).result, 0);
    assert_eq!(op(&mut world, c, 1, pool_op::DELETE, "delete", 0).result, -2);
}

#[test]
fn the_cluster_log_is_followed() {
    let mut world = World::new();
    let c = world.connect("client.admin", None, 0);
    world.subscribe(c, "log-info", 0, false);
    world.pass(Duration::from_secs(1));
    world.take(c, LogMsg::KIND);
    world.ok(r#"{"prefix":"log","logtext":["hello","world"]}"#);
    let lines: Vec<_> = world.take(c, LogMsg::KIND).iter().flat_map(|m| LogMsg::decode(m).unwrap().entries).collect();
    assert!(lines.iter().any(|l| l.message == "hello world" && l.channel == "cluster"), "{lines:?}");
    assert!(world.ok(r#"{"prefix":"log last","num":1}"#).ends_with("[INF] hello world\n"));
}

#[test]
fn a_crush_map_that_is_sent_again_is_no_error_and_no_change() {
    let mut world = World::new();
    world.boot_osd(0);
    let c = world.connect("client.admin", None, 0);
    let now = world.command(c, r#"{"prefix":"osd getcrushmap"}"#, b"");
    let (map, version): (_, i64) = (now.output.contiguous(), now.status.parse().expect("its version"));
    let mut set = |prior: i64, map: &[u8]| {
        let ack = world.command(c, &format!(r#"{{"prefix":"osd setcrushmap","prior_version":{prior}}}"#), map);
        (ack.result, ack.status)
    };
    assert_eq!(set(version, &map), (0, (version + 1).to_string()));
    assert_eq!(set(version, &map), (0, (version + 1).to_string()), "the answer was lost");
    assert_eq!(set(version, &map[..map.len() - 1]).0, -1, "another map");
    for prior in [version - 1, version + 2, i64::MAX, i64::MIN] {
        assert_eq!(set(prior, &map).0, -1, "{prior}");
    }
}

#[test]
fn a_session_follows_the_log_at_the_level_it_asked_for_last() {
    let mut world = World::new();
    let c = world.connect("client.admin", None, 0);
    for (level, text, heard) in [("log-info", "one", true), ("log-error", "two", false), ("log-info", "three", true)] {
        world.subscribe(c, level, 0, false);
        world.pass(Duration::from_secs(1));
        world.take(c, LogMsg::KIND);
        world.ok(&format!(r#"{{"prefix":"log","logtext":["{text}"]}}"#));
        let lines: Vec<_> = world.take(c, LogMsg::KIND).iter().flat_map(|m| LogMsg::decode(m).unwrap().entries).collect();
        assert_eq!(lines.iter().any(|l| l.message == text), heard, "{level}: {lines:?}");
    }
}

#[test]
fn a_new_follower_of_the_log_sees_the_last_line_before_audits() {
    let mut world = World::new();
    world.boot_osd(0);
    world.ok(r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    let epoch = world.ok(r#"{"prefix":"osd dump"}"#).lines().find_map(|l| l.strip_prefix("epoch ").map(String::from)).unwrap();
    world.ok(r#"{"prefix":"config-key set","key":"k","val":"v"}"#);
    let seen = |level: &str, world: &mut World| -> Vec<String> {
        let c = world.connect("client.admin", None, 0);
        world.subscribe(c, level, 0, false);
        world.take(c, LogMsg::KIND).iter().flat_map(|m| LogMsg::decode(m).unwrap().entries).map(|e| e.message).collect()
    };
    assert_eq!(seen("log-debug", &mut world), [format!("osdmap e{epoch}: 1 total, 1 up, 1 in")]);
    let lines = seen("log-info", &mut world);
    assert!(lines.len() == 1 && !lines[0].starts_with("osdmap"), "{lines:?}");
}

#[test]
fn a_scrub_is_passed_on_to_the_leader() {
    let mut world = World::new();
    let osd = world.boot_osd(0);
    world.ok(r#"{"prefix":"osd pool create","pool":"p","pg_num":4}"#);
    for (command, prefix) in [("pg scrub", "scrub"), ("pg deep-scrub", "deep_scrub"), ("pg repair", "repair")] {
        world.ok(&format!(r#"{{"prefix":"{command}","pgid":"1.2"}}"#));
        let told = OsdInstruct::decode(&world.take(osd, OsdInstruct::KIND)[0]).unwrap();
        let told: serde_json::Value = serde_json::from_str(&told.json).unwrap();
        assert_eq!((&told["prefix"], &told["pgid"]), (&prefix.into(), &"1.2".into()));
    }
    world.refused(2, r#"{"prefix":"pg scrub","pgid":"1.9"}"#);
}

#[test]
fn commands_refuse_with_their_reason() {
    let mut world = World::new();
    let osd = world.boot_osd(0);
    world.ok(r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    world.all_active(&[osd], 1, 8);
    let twice = r#"{"prefix":"auth add","entity":"client.twice","caps":["mon","allow r","osd","allow r"]}"#;
    (0..2).for_each(|_| drop(world.ok(twice)));
    let cases = [
        (
            22,
            r#"{"prefix":"auth add","entity":"client.twice","caps":["mon","allow r","osd","allow w"]}"#,
            "cap osd does not match",
        ),
        (22, r#"{"prefix":"auth add","entity":"client.twice","caps":["mon","allow r"]}"#, "caps do not match"),
        (95, r#"{"prefix":"osd pool create","pool":"e","pool_type":"erasure"}"#, "erasure"),
        (22, r#"{"prefix":"osd pool set","pool":"p","var":"size","val":"11"}"#, "between 1 and 10"),
        (1, r#"{"prefix":"osd pool delete","pool":"p","pool2":"p"}"#, "gone for good"),
        (1, r#"{"prefix":"osd pool delete","pool":"p","pool2":"q","yes_i_really_really_mean_it":true}"#, "twice"),
        (2, r#"{"prefix":"osd pool get","pool":"q","var":"size"}"#, "'q'"),
        (22, r#"{"prefix":"osd pool set","pool":"p","var":"pgp_num","val":"9"}"#, "pgp_num"),
        (34, r#"{"prefix":"osd pool set","pool":"p","var":"pg_num","val":"0"}"#, "at least one"),
        (7, r#"{"prefix":"osd pool set","pool":"p","var":"pg_num","val":"1024"}"#, "1024"),
        (22, r#"{"prefix":"config set","who":"osd","name":"nothing","value":"1"}"#, "unrecognized config option 'nothing'"),
        (22, r#"{"prefix":"config set","who":"osd","name":"osd_max_scrubs","value":"many"}"#, "'many'"),
        (22, r#"{"prefix":"config set","who":"who","name":"osd_max_scrubs","value":"1"}"#, "'who'"),
        (22, r#"{"prefix":"auth get-or-create","entity":"client.x","caps":["mon","nonsense"]}"#, "mon capability"),
        (22, r#"{"prefix":"auth get-or-create","entity":"x"}"#, "entity"),
        (2, r#"{"prefix":"auth get","entity":"client.x"}"#, "client.x"),
        (16, r#"{"prefix":"osd ok-to-stop","ids":["0"]}"#, "\"ok_to_stop\":false"),
        (16, r#"{"prefix":"osd rm","ids":["0"]}"#, "still up"),
        (22, r#"{"prefix":"osd out","ids":["nobody"]}"#, "nobody"),
        (22, r#"{"prefix":"osd tier add","pool":"p","tierpool":"p"}"#, "tier of itself"),
        (22, r#"{"prefix":"osd setcrushmap"}"#, "crushmap"),
        (22, r#"{"prefix":"osd crush add-bucket","name":"r","type":"shelf"}"#, "shelf"),
        (2, r#"{"prefix":"osd crush move","name":"nothing","args":["root=default"]}"#, "nothing"),
        (39, r#"{"prefix":"osd crush rm","name":"vm"}"#, "in use"),
    ];
    for (errno, json, word) in cases {
        let why = world.refused(errno, json);
        assert!(why.contains(word), "{json}: {why}");
    }
}

#[test]
fn osds_count_images_while_somebody_looks_and_are_asked_for_their_names() {
    let mut world = World::new();
    let osd = world.boot_osd(0);
    world.ok(r#"{"prefix":"osd pool create","pool":"images","pg_num":1}"#);
    world.ok(r#"{"prefix":"osd pool application enable","pool":"images","app":"rbd"}"#);
    world.pass(Duration::from_secs(2));
    let instructions = |world: &mut World| -> Vec<String> {
        world.take(osd, OsdInstruct::KIND).iter().map(|m| OsdInstruct::decode(m).unwrap().json).collect()
    };
    assert!(instructions(&mut world).is_empty() && world.dialed.is_empty());
    let stats = r#"{"prefix":"rbd perf image stats","format":"json"}"#;
    assert!(world.ok(stats).ends_with("\"stats\":[]}\n"));
    assert_eq!(instructions(&mut world), [r#"{"prefix":"count images"}"#]);
    let figures = ImageFigures { pool: 1, image: "10226b8b4567".into(), write_ops: 5, ..ImageFigures::default() };
    world.send(osd, OsdReport { osd: 0, epoch: 1, images: vec![figures], ..OsdReport::default() }.encode());
    // Its pool's group is led by this OSD, so there the name is looked up.
    for _ in 0..12 {
        world.pass(Duration::from_secs(5));
        world.report(osd, 0, Vec::new());
        world.ok(stats);
    }
    assert!(!world.dialed.is_empty() && world.dialed.iter().all(|to| *to == common::addr(6802)), "{:?}", world.dialed);
    let told = instructions(&mut world);
    assert!((3..=5).contains(&told.len()), "once in a quarter of a minute: {told:?}");
    // Nobody looks any more.
    for _ in 0..16 {
        world.pass(Duration::from_secs(5));
        world.report(osd, 0, Vec::new());
    }
    instructions(&mut world);
    world.pass(Duration::from_secs(20));
    assert!(instructions(&mut world).is_empty());
}

#[test]
fn the_monitor_tells_about_itself() {
    let mut world = World::new();
    world.connect("client.admin", None, 0);
    let mut json = |command: &str| serde_json::from_str::<serde_json::Value>(&world.ok(command)).unwrap();
    let dump = json(r#"{"prefix":"perf dump"}"#);
    let schema = json(r#"{"prefix":"perf schema"}"#);
    for (section, counters) in dump.as_object().unwrap() {
        for (name, value) in counters.as_object().unwrap() {
            // What is counted, and what is.
            let kind = if section == "reactor" || name.starts_with("election_") { 10 } else { 2 };
            assert!(value.is_number() && schema[section][name]["type"] == kind, "{section}.{name}: {schema}");
        }
    }
    assert_eq!(schema["cluster"]["osd_bytes"]["units"], "bytes");
    assert_eq!(json(r#"{"prefix":"perf reset","var":"all"}"#)["success"], "perf reset all");
    assert!(json(r#"{"prefix":"git_version"}"#)["git_version"].as_str().unwrap().starts_with("00000000"));
    assert_eq!(json(r#"{"prefix":"log flush"}"#), serde_json::json!({}));
    let sessions = json(r#"{"prefix":"sessions","format":"json"}"#);
    let session = &sessions.as_array().unwrap()[0];
    assert_eq!((&session["entity_name"], &session["con_type"]), (&"client.admin".into(), &"client".into()));
    assert_eq!((&session["caps"]["text"], session["addrs"]["addrvec"].as_array().unwrap().len()), (&"allow *".into(), 1));
    assert_eq!(session["socket_addr"], session["addrs"]["addrvec"][0]);
    world.refused(22, r#"{"prefix":"perf reset","var":"nothing"}"#);
}

#[test]
fn orders_for_images_are_answered_and_schedules_of_all_pools_survive_a_restart() {
    let mut world = World::new();
    assert_eq!(world.ok(r#"{"prefix":"rbd task list"}"#), "[]\n");
    let cases = [
        (2, r#"{"prefix":"rbd task list","task_id":"x"}"#, "No such task x"),
        (2, r#"{"prefix":"rbd task cancel","task_id":"x"}"#, "No such task x"),
        (2, r#"{"prefix":"rbd task add remove","image_spec":"nopool/i"}"#, "nopool"),
        (22, r#"{"prefix":"rbd task add flatten","image_spec":"a/b/c/d"}"#, "Invalid image spec: a/b/c/d"),
        (22, r#"{"prefix":"rbd trash purge schedule add","level_spec":"","interval":"1x"}"#, "Invalid interval (1x)"),
        (22, r#"{"prefix":"rbd trash purge schedule add","level_spec":"p/i","interval":"1d"}"#, "image level is not allowed"),
        (22, r#"{"prefix":"rbd mirror snapshot schedule add","level_spec":"nopool/","interval":"1d"}"#, "nopool does not exist"),
    ];
    for (errno, json, word) in cases {
        let why = world.refused(errno, json);
        assert!(why.contains(word), "{json}: {why}");
    }
    world.ok(r#"{"prefix":"rbd trash purge schedule add","level_spec":"","interval":"90m","start_time":"01:30"}"#);
    world.ok(r#"{"prefix":"rbd mirror snapshot schedule add","level_spec":"","interval":"1d"}"#);
    world.ok(r#"{"prefix":"rbd mirror snapshot schedule remove","level_spec":""}"#);
    let list = |world: &mut World, what: &str| world.ok(&format!(r#"{{"prefix":"rbd {what} schedule list"}}"#));
    let purges = list(&mut world, "trash purge");
    assert!(purges.contains(r#""interval": "90m""#) && purges.contains(r#""start_time": "01:30:00""#), "{purges}");
    assert_eq!(list(&mut world, "mirror snapshot"), "{}\n");
    // Only what is durable was answered, and nobody has to be asked for it.
    let mut again = World::with(config(AuthMode::None), world.disk.clone());
    assert_eq!(list(&mut again, "trash purge"), purges);
    assert_eq!(list(&mut again, "mirror snapshot"), "{}\n");
}

#[test]
fn a_monitor_takes_options_through_its_admin_socket() {
    let mut world = World::new();
    let descriptions: Value = serde_json::from_str(&world.ok(r#"{"prefix":"get_command_descriptions"}"#)).unwrap();
    let of = |words: &[&str]| {
        let begins = |sig: &Value| words.iter().enumerate().all(|(i, word)| sig[i] == *word);
        descriptions.as_object().unwrap().values().filter(|c| begins(&c["sig"])).map(|c| c["sig"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of(&["config", "set"]).len(), 1, "the monitor's own, which names nobody");
    assert_eq!(of(&["config", "set"])[0][2]["name"], "var");
    assert_eq!(of(&["osd", "tree"]).len(), 1, "the cluster's commands are there, too");
    let value = |world: &mut World| {
        let said = world.ok(r#"{"prefix":"config get","var":"mon_pg_warn_min_objects"}"#);
        serde_json::from_str::<Value>(&said).unwrap()["mon_pg_warn_min_objects"].clone()
    };
    for (set, kept) in [("10", "10"), ("10K", "10000"), ("1G", "1000000000")] {
        world.ok(&format!(r#"{{"prefix":"config set","var":"mon_pg_warn_min_objects","val":["{set}"]}}"#));
        assert_eq!(value(&mut world), kept);
    }
    world.ok(r#"{"prefix":"injectargs","injected_args":["--mon-pg-warn-min-objects 7 --mon_warn_on_too_few_osds"]}"#);
    assert_eq!(value(&mut world), "7");
    let wrong = world.refused(22, r#"{"prefix":"injectargs","injected_args":["--mon_pg_warn_min_objects 10F"]}"#);
    assert!(wrong.starts_with("Parse error setting mon_pg_warn_min_objects to '10F' using injectargs.\n"), "{wrong}");
    let wrong = world.refused(22, r#"{"prefix":"injectargs","injected_args":["--mon_pg_warn_min_objects"]}"#);
    assert_eq!(wrong, "Option --mon_pg_warn_min_objects requires an argument");
    assert_eq!(value(&mut world), "7", "what is refused changes nothing");
}

#[test]
fn features_and_modules_that_are_always_on_may_be_turned_on() {
    let mut world = World::new();
    let sure = r#""yes_i_really_mean_it":true"#;
    world.ok(&format!(r#"{{"prefix":"mon feature set","feature_name":"kraken",{sure}}}"#));
    world.refused(1, r#"{"prefix":"mon feature set","feature_name":"kraken"}"#);
    world.refused(2, &format!(r#"{{"prefix":"mon feature set","feature_name":"abcd",{sure}}}"#));
    world.ok(r#"{"prefix":"mgr module enable","module":"balancer"}"#);
    world.refused(2, r#"{"prefix":"mgr module enable","module":"restful"}"#);
    world.refused(22, r#"{"prefix":"mgr module disable","module":"balancer"}"#);
    world.ok(r#"{"prefix":"mgr module disable","module":"restful"}"#);
}

#[test]
fn secrets_of_an_osd_come_and_go_with_it() {
    const UUID: &str = "8a0a1c3e-5d5b-4c0e-9d67-0b6f3a1f2e11";
    let mut world = World::new();
    let c = world.connect("client.admin", None, 0);
    let (one, two) = ("AQBmPwdrfEd4KBAA4ai7CK8V3LeofbwUCsd0sQ==", "AQBmPwdr7ht5LRAAkIECtWI9/9nYkF3mei+nQw==");
    let lockbox = format!(r#""cephx_lockbox_secret":"{two}","dmcrypt_key":"{two}""#);
    let all = format!(r#"{{"cephx_secret":"{one}",{lockbox}}}"#);
    let new = |world: &mut World, input: &str| {
        world.command(c, &format!(r#"{{"prefix":"osd new","uuid":"{UUID}"}}"#), input.as_bytes()).result
    };
    assert_eq!(new(&mut world, &format!("{{{lockbox}}}")), -22, "a key of its own is needed");
    assert_eq!(new(&mut world, "asd: ; }"), -22);
    // This monitor has a key for the cluster's first OSD already.
    world.ok(r#"{"prefix":"auth rm","entity":"osd.0"}"#);
    assert_eq!(new(&mut world, &all), 0);
    assert_eq!(new(&mut world, &all), 0, "twice does no harm");
    assert_eq!(new(&mut world, ""), 0, "nor do no secrets at all");
    assert_eq!(new(&mut world, &all.replace(one, two)), -17, "others are refused");
    assert!(world.ok(r#"{"prefix":"auth get-key","entity":"osd.0"}"#).starts_with(one));
    let lockbox = format!(r#"{{"prefix":"auth get-key","entity":"client.osd-lockbox.{UUID}"}}"#);
    let luks = format!(r#"{{"prefix":"config-key get","key":"dm-crypt/osd/{UUID}/luks"}}"#);
    assert!(world.ok(&lockbox).starts_with(two) && world.ok(&luks).starts_with(two));
    world.ok(r#"{"prefix":"osd destroy","id":0,"yes_i_really_mean_it":true}"#);
    world.refused(2, r#"{"prefix":"auth get-key","entity":"osd.0"}"#);
    world.refused(2, &lockbox);
    world.refused(2, &luks);
}

#[test]
fn empty_capabilities_of_a_keyring_are_none() {
    let mut world = World::new();
    let c = world.connect("client.admin", None, 0);
    let key = "AQBmPwdrfEd4KBAA4ai7CK8V3LeofbwUCsd0sQ==";
    let keyring = |cap: &str| format!("[client.bug]\n\tkey = {key}\n\tcaps mon = \"{cap}\"\n");
    for command in [r#"{"prefix":"auth add","entity":"client.bug"}"#, r#"{"prefix":"auth import"}"#] {
        assert_eq!(world.command(c, command, keyring("").as_bytes()).result, 0);
        let told = world.ok(r#"{"prefix":"auth get","entity":"client.bug"}"#);
        assert!(told.contains(key) && !told.contains("caps"), "{told}");
        assert_eq!(world.command(c, command, keyring("this is wrong").as_bytes()).result, -22);
        world.ok(r#"{"prefix":"auth rm","entity":"client.bug"}"#);
    }
}

#[test]
fn an_osd_that_was_only_down_for_the_map_stays_where_it_was_moved() {
    let mut world = World::new();
    let (peer, vm) = (world.boot_osd(0), [("hostname", "vm")]);
    let is_far = |world: &mut World| world.ok(r#"{"prefix":"osd find","id":0,"format":"json"}"#).contains("\"far\"");
    assert!(!is_far(&mut world));
    world.ok(r#"{"prefix":"osd crush set","id":"osd.0","weight":1.0,"args":["root=default","host=far"]}"#);
    world.ok(r#"{"prefix":"osd down","ids":["0"]}"#);
    world.boot_on(peer, 0);
    assert!(world.ok(r#"{"prefix":"osd stat"}"#).contains("1 up"));
    assert!(is_far(&mut world), "the same process");
    world.boot_as(peer, 0, 77, &vm);
    world.pass(Duration::from_secs(1));
    assert!(!is_far(&mut world), "a new start tells where the host is");
}

#[test]
fn answers_have_the_forms_that_tools_read() {
    let mut world = World::new();
    world.boot_osd(0);
    let line = "ceph version 16.2.15 (0000000000000000000000000000000000000000) pacific (stable)";
    let c = world.connect("client.admin", None, 0);
    let mut version = |format: &str| {
        let ack = world.command(c, &format!(r#"{{"prefix":"version","format":"{format}"}}"#), b"");
        String::from_utf8(ack.output.contiguous().to_vec()).unwrap()
    };
    assert_eq!(version("plain"), line);
    assert_eq!(version("json"), format!("{{\"version\":\"{line}\"}}"));
    assert_eq!(version("xml"), format!("<version><version>{line}</version></version>"));
    // An unknown format is as good as none.
    assert_eq!(version("pretty"), line);
    assert!(world.ok(r#"{"prefix":"versions"}"#).contains(line));
    // Lists without rows.
    assert_eq!(world.ok(r#"{"prefix":"pg ls","states":["stale"],"format":"json"}"#), r#"{"pg_ready":true}"#);
    assert_eq!(world.ok(r#"{"prefix":"pg ls","states":["stale"]}"#), "");
    let blocked = r#"{"pg_ready":true,"osd_blocked_by":{"osd_blocked_by_infos":[]}}"#;
    let told: Value = serde_json::from_str(&world.ok(r#"{"prefix":"osd blocked-by","format":"json"}"#)).unwrap();
    assert_eq!(told, serde_json::from_str::<Value>(blocked).unwrap());
    let keys = |world: &mut World, what: &str| {
        let text = world.ok(&format!(r#"{{"prefix":"pg dump","dumpcontents":["{what}"],"format":"json"}}"#));
        let told: Value = serde_json::from_str(&text).unwrap();
        told.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ")
    };
    for (what, shape) in [
        ("sum", "pg_map pg_ready"),
        ("summary", "pg_map pg_ready"),
        ("all", "pg_map pg_ready"),
        ("delta", "delta pg_ready"),
        ("pools", "pg_ready pool_stats"),
        ("osds", "osd_stats pg_ready pool_statfs"),
        ("pgs", "pg_ready pg_stats"),
        ("pgs_brief", "pg_ready pg_stats"),
    ] {
        let mut sorted: Vec<String> = keys(&mut world, what).split(' ').map(String::from).collect();
        sorted.sort();
        assert_eq!(sorted.join(" "), shape, "{what}");
    }
    // Modules, file systems.
    assert!(
        world
            .refused(2, r#"{"prefix":"mgr module enable","module":"nosuch"}"#)
            .contains("all mgr daemons do not support module 'nosuch'")
    );
    world.ok(r#"{"prefix":"mgr module enable","module":"iostat"}"#);
    assert_eq!(world.ok(r#"{"prefix":"fs volume ls","format":"json"}"#), "[]");
    assert_eq!(world.ok(r#"{"prefix":"fs status","format":"json"}"#), "{}");
    assert_eq!(world.refused(2, r#"{"prefix":"fs subvolumegroup ls","vol_name":"x"}"#), "FS 'x' not found");
}

#[test]
fn a_command_that_the_manager_does_not_know_has_no_handler() {
    let mut world = World::new();
    let c = world.connect("client.admin", None, 1);
    world.send(c, MgrCommand { fsid: FSID, cmd: vec![r#"{"prefix":"no such"}"#.into()], input: types::Rope::new() }.encode());
    let reply = MgrCommandReply::decode(&world.take(c, MgrCommandReply::KIND)[0]).unwrap();
    assert_eq!((reply.result, reply.status.as_str()), (-22, "No handler found for 'no such'"));
}

#[test]
fn keyrings_of_other_tools_are_imported() {
    let mut world = World::new();
    let c = world.connect("client.admin", None, 0);
    let key = "key = AQDqKnRgDqB6EhAAWKQwMDAwMDAwMDAwMDAwMA==";
    let ring = format!("[client.rook]\n\t{key}\n\tcaps mon = 'allow r'\n");
    assert_eq!(world.command(c, r#"{"prefix":"auth import"}"#, ring.as_bytes()).result, 0);
    assert!(world.ok(r#"{"prefix":"auth get","entity":"client.rook"}"#).contains("caps mon = \"allow r\""));
    let ack = world.command(c, r#"{"prefix":"auth import"}"#, format!("[client.bare]\n{key}\n").as_bytes());
    assert_eq!(ack.result, -22, "without rights: {}", ack.status);
}
