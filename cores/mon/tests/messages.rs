//! Every kind of message against every profile and rights narrower than that. What a message asks for stands in
//! `docs/compatibility.md`, beside what a real cluster asks for; this test reads it there.

mod common;

use caps::MonCaps;
use common::{Disk, FSID, World, addr, config};
use messages::internal::{Failure, OsdAlive, OsdBoot, OsdDown, OsdFailures, OsdReport, PgTempWish};
use messages::mon::{
    Auth, AuthReply, ConfigMsg, GetPoolStats, GetPoolStatsReply, LogEntry, LogMsg, MgrMapMsg, MonGetMap, MonGetVersion,
    MonGetVersionReply, MonMapMsg, OsdMapMsg, Ping, PoolOp, PoolOpReply, Statfs, StatfsReply, pool_op,
};
use messages::quorum::{Carried, MonHello, Sender, SessionOver, ToLeader, VoterSays};
use mon::{AuthMode, InitialKey};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, Message};

/// An entity: its name, rights at monitors, manager, OSDs.
#[derive(Clone, Debug)]
struct Who {
    name: EntityName,
    mon: String,
    mgr: String,
    osd: &'static str,
}

/// The entities of the table of commands, and more: daemons whose keys may less than such keys do, and who may write in
/// a pool.
fn entities() -> Vec<Who> {
    let table = include_str!("../src/server/rights/table.txt");
    let of_commands = table.lines().filter(|line| line.contains(" mon '")).map(|line| {
        let (mon, mgr) = line.split_once(" mon '").and_then(|(_, rest)| rest.rsplit_once("' mgr '")).expect("rights");
        let name = line.split_whitespace().nth(2).expect("a name");
        (name.to_owned(), mon.to_owned(), mgr.trim_end_matches('\'').to_owned(), "")
    });
    let more = [
        ("osd.0", "allow *", "", ""),
        ("osd.0", "allow rwx", "", ""),
        ("osd.0", "allow rw", "", "allow *"),
        ("osd.0", "allow r", "", ""),
        ("osd.0", "allow service osd rw", "", ""),
        ("osd.0", "allow service osd x", "", ""),
        ("osd.0", "profile read-write", "", ""),
        ("osd.0", "profile mgr", "", ""),
        ("osd.1", "profile osd", "", ""),
        ("client.x", "profile osd", "", "allow *"),
        ("client.x", "profile mon", "", ""),
        ("mon.x", "allow *", "", ""),
        ("mon.x", "allow rw", "", ""),
        ("mon.x", "allow r", "", ""),
        ("mon.x", "profile osd", "", ""),
        ("mgr.x", "allow *", "", ""),
        ("mds.x", "allow rw", "", ""),
        ("client.x", "profile rbd", "", "profile rbd pool=p"),
        ("client.x", "allow r", "", "allow rw pool=p namespace=t"),
        ("client.x", "allow r", "", "allow rw pool=q"),
        ("client.x", "allow r", "", "allow r pool=p"),
        ("client.x", "allow command \"zzz\"", "", "allow rw"),
        ("client.x", "allow service pg r, allow service log w", "", ""),
    ];
    let more = more.map(|(name, mon, mgr, osd)| (name.to_owned(), mon.to_owned(), mgr.to_owned(), osd));
    let all = of_commands.chain(more);
    all.map(|(name, mon, mgr, osd)| Who { name: name.parse().expect("a name"), mon, mgr, osd }).collect()
}

/// A rule of the documents, as `mon` r, or a name of its own.
fn may(rule: &str, who: &Who) -> bool {
    let from = IpAddr::from([127, 0, 0, 1]);
    let caps = MonCaps::parse(&who.mon).unwrap_or_default().seen_from(from);
    let service = |text: &str| -> Option<bool> {
        let (service, bits) = text.strip_prefix('`')?.split_once("` ")?;
        let has = |bit: char| bits.contains(bit);
        assert!(!bits.is_empty() && bits.chars().all(|bit| "rwx".contains(bit)), "{rule}");
        Some(caps.allows(service, has('r'), has('w'), has('x')))
    };
    match rule {
        "anybody" => return true,
        "nobody" => return false,
        "`osd` w, or to write in the pool" => {
            let pool = BTreeMap::from([("poolname".to_owned(), "p".to_owned())]);
            let named = caps.allows_command(&who.name, "osd", "w", "osd pool op unmanaged-snap", &pool);
            return named || matches!(who.osd, "allow *" | "allow rw" | "profile rbd pool=p" | "allow rw pool=p namespace=t");
        }
        _ => {}
    }
    rule.split(", ").all(|part| match part {
        "OSD" => who.name.kind == EntityType::Osd && who.name.id == "0",
        "monitor" => who.name.kind == EntityType::Mon,
        text => service(text).unwrap_or_else(|| panic!("the rule '{rule}' is not known")),
    })
}

/// Returns what Ceph's rule and ours say of each message, as the documents have it: place and message, both rules.
fn rules() -> BTreeMap<(String, String), (String, String)> {
    let docs = include_str!("../../../docs/compatibility.md");
    let section = docs.split("## Which messages need which rights").nth(1).and_then(|rest| rest.split("\n## ").next());
    let rows = section.expect("a section").lines().filter(|line| line.starts_with("| ") && !line.starts_with("| message"));
    rows.map(|row| {
        let cells: Vec<String> = row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        let [what, place, theirs, ours] = cells.try_into().expect("four columns");
        ((place, what), (theirs, ours))
    })
    .collect()
}

/// A cluster with a pool `p` (1) that clients may number snapshots of, one (2) that has snapshots of its own, and an
/// entity.
fn world(who: &Who) -> World {
    let mut config = config(AuthMode::Cephx);
    config.keys.retain(|key| key.name != who.name);
    let caps = [("mon", who.mon.as_str()), ("mgr", &who.mgr), ("osd", who.osd)];
    let caps = caps.iter().filter(|(_, text)| !text.is_empty()).map(|(service, text)| (service.to_string(), text.to_string()));
    config.keys.push(InitialKey { name: who.name.clone(), key: [42; 16], caps: caps.collect() });
    let caps = [("mon", "profile osd"), ("osd", "allow *")].map(|(service, text)| (service.to_owned(), text.to_owned())).into();
    config.keys.push(InitialKey { name: "osd.2".parse().expect("a name"), key: [43; 16], caps });
    let mut world = World::with(config, Disk::default());
    // Somebody who could hold the pools, and is none of those who are asked.
    world.boot_osd_with_key(2, 43);
    world.ok(r#"{"prefix":"config set","who":"mon","name":"mon_osd_min_down_reporters","value":"1"}"#);
    for pool in ["p", "snaps"] {
        world.ok(&format!(r#"{{"prefix":"osd pool create","pool":"{pool}","pg_num":8}}"#));
    }
    world.ok(r#"{"prefix":"osd pool mksnap","pool":"snaps","snap":"s"}"#);
    world.ok(r#"{"prefix":"config set","who":"mon","name":"mon_allow_pool_delete","value":"true"}"#);
    world
}

/// Returns true if an answer of this kind came; for pool operations, one that says that it was allowed.
fn answered(world: &mut World, peer: usize, kind: u16) -> bool {
    let all = world.take(peer, kind);
    match kind {
        PoolOpReply::KIND => all.iter().any(|m| PoolOpReply::decode(m).expect("a reply").result != -1),
        _ => !all.is_empty(),
    }
}

/// Returns what all see of a cluster.
fn seen(world: &mut World) -> String {
    let mut all = String::new();
    for prefix in ["osd dump", "osd metadata", "service dump", "mon dump", "config dump", "auth ls", "df"] {
        all += &world.call(&format!(r#"{{"prefix":"{prefix}","format":"json"}}"#)).1;
    }
    all
}

/// Sends a message; whether it had an effect.
fn has_effect(who: &Who, what: &str) -> bool {
    let mut world = world(who);
    let pool = |op: u32, pool: u32, name: &str| PoolOp { fsid: FSID, pool, op, name: name.into(), ..PoolOp::default() };
    // What concerns an OSD that is up.
    let up = ["an OSD stops", "an OSD is alive", "an OSD reports", "an OSD accuses another one"];
    if up.contains(&what) {
        for (osd, key) in [(0, 3), (1, 4)] {
            if who.name.to_string() == format!("osd.{osd}") {
                // Its key may all that an OSD's may, for as long as it boots.
                let caps =
                    |mon: &str| serde_json::json!({"prefix": "auth caps", "entity": format!("osd.{osd}"), "caps": ["mon", mon]});
                world.ok(&caps("profile osd").to_string());
                world.boot_osd_with_key(osd, 42);
                // What it may then, it may on a session of its own.
                for mon in ["allow r", &who.mon] {
                    world.ok(&caps(mon).to_string());
                    world.pass(std::time::Duration::from_secs(2));
                }
            } else {
                world.boot_osd_with_key(osd, key);
            }
        }
    }
    let peer = world.connect(&who.name.to_string(), Some([42; 16]), 0);
    let map: serde_json::Value = serde_json::from_str(&world.ok(r#"{"prefix":"osd dump","format":"json"}"#)).expect("JSON");
    let number = |value: &serde_json::Value| value.as_u64().unwrap_or(0) as u32;
    let epoch = number(&map["epoch"]);
    let up_from = map["osds"].as_array().and_then(|osds| osds.get(1)).map_or(0, |osd| number(&osd["up_from"]));
    let entry = || LogEntry { channel: "cluster".into(), level: 1, message: "somebody was here".into(), ..LogEntry::default() };
    let head = Carried::of(&pool(pool_op::CREATE, 0, "evil").encode());
    let sender = Sender {
        session: 5,
        name: "client.admin".parse().expect("a name"),
        kind: 8,
        global_id: 9,
        addr: EntityAddr::default(),
        features: u64::MAX,
        caps: None,
    };
    let (message, answer): (Message, u16) = match what {
        "monitor map" => (MonGetMap {}.encode(), MonMapMsg::KIND),
        "own options" => return subscribed(&mut world, peer, "config", ConfigMsg::KIND),
        "follow the OSD map" => return subscribed(&mut world, peer, "osdmap", OsdMapMsg::KIND),
        "follow the manager's map" => return subscribed(&mut world, peer, "mgrmap", MgrMapMsg::KIND),
        "follow the log" => return subscribed(&mut world, peer, "log-info", LogMsg::KIND),
        "version of a map" => (MonGetVersion { handle: 1, what: "osdmap".into() }.encode(), MonGetVersionReply::KIND),
        "space" => (Statfs { fsid: FSID, ..Statfs::default() }.encode(), StatfsReply::KIND),
        "figures of pools" => {
            (GetPoolStats { fsid: FSID, pools: vec!["p".into()], ..GetPoolStats::default() }.encode(), GetPoolStatsReply::KIND)
        }
        "ping" => (Ping::default().encode(), Ping::KIND),
        "new tickets" => (Auth { protocol: 2, ..Auth::default() }.encode(), AuthReply::KIND),
        "lines for the log" => {
            world.send(peer, LogMsg { fsid: FSID, entries: vec![entry()], ..LogMsg::default() }.encode());
            world.pass(std::time::Duration::from_secs(2));
            return world.ok(r#"{"prefix":"log last","num":100}"#).contains("somebody was here");
        }
        "make a pool" => (pool(pool_op::CREATE, 0, "n").encode(), PoolOpReply::KIND),
        "remove a pool" => (pool(pool_op::DELETE, 1, "").encode(), PoolOpReply::KIND),
        "make a pool's snapshot" => (pool(pool_op::CREATE_SNAP, 2, "s2").encode(), PoolOpReply::KIND),
        "remove a pool's snapshot" => (pool(pool_op::DELETE_SNAP, 2, "s").encode(), PoolOpReply::KIND),
        "number a snapshot" => (pool(pool_op::CREATE_UNMANAGED_SNAP, 1, "").encode(), PoolOpReply::KIND),
        "remove a numbered snapshot" => (pool(pool_op::DELETE_UNMANAGED_SNAP, 1, "").encode(), PoolOpReply::KIND),
        "an OSD boots" => {
            let addrs = EntityAddrVec(vec![EntityAddr::msgr2(addr(6802), 500)]);
            let levels = types::Levels::OWN.to_string();
            let metadata = [("hostname", "vm"), ("ceph_version", "t"), (types::Levels::KEY, levels.as_str())];
            let metadata = metadata.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
            (OsdBoot { fsid: FSID, uuid: [1; 16], addrs, total_bytes: 20 << 30, metadata, ..OsdBoot::default() }.encode(), 0)
        }
        "an OSD stops" => (OsdDown { osd: 0, epoch }.encode(), 0),
        "an OSD is alive" => (OsdAlive { osd: 0, epoch, want: epoch }.encode(), 0),
        "an OSD reports" => (
            OsdReport { osd: 0, space: common::SPACE, pgs: vec![world.clean_pg(1, 0, 77, 7_777)], ..OsdReport::default() }
                .encode(),
            0,
        ),
        "an OSD accuses another one" => (
            OsdFailures {
                osd: 0,
                epoch,
                failed: vec![Failure { osd: 1, up_from, refused: true, silent_ms: 60_000, recovered: false }],
            }
            .encode(),
            0,
        ),
        "what monitors say to each other" => (ToLeader { sender, head, ..ToLeader::default() }.encode(), 0),
        "all other numbers of messages" => {
            let before = seen(&mut world);
            let known = known();
            for kind in (1..2_048).filter(|kind| !known.contains(kind)) {
                let front = vec![1; 64].into();
                world.send(peer, Message { kind, front, ..Message::default() });
            }
            // Those of other monitors and of OSDs come with what they might say.
            for message in [
                VoterSays { payload: vec![1; 99].into() }.encode(),
                SessionOver { session: 1 }.encode(),
                MonHello { fsid: FSID, name: "evil".into(), joins: true, ..MonHello::default() }.encode(),
            ] {
                if who.name.kind != EntityType::Mon {
                    world.send(peer, message);
                }
            }
            let heard = !world.peers[peer].inbox.is_empty();
            return heard || seen(&mut world) != before;
        }
        other => panic!("nobody sends '{other}'"),
    };
    if what == "new tickets" {
        let ask = Auth { protocol: 2, payload: vec![0, 2].into(), ..Auth::default() };
        world.send(peer, ask.encode());
        return answered(&mut world, peer, answer);
    }
    if answer != 0 {
        world.send(peer, message);
        return answered(&mut world, peer, answer);
    }
    let before = seen(&mut world);
    world.send(peer, message);
    world.pass(std::time::Duration::from_secs(1));
    seen(&mut world) != before
}

fn subscribed(world: &mut World, peer: usize, what: &str, kind: u16) -> bool {
    world.peers[peer].inbox.clear();
    world.subscribe(peer, what, 0, false);
    !world.take(peer, kind).is_empty()
}

/// Numbers of the messages that stand in the table.
fn known() -> BTreeSet<u16> {
    use messages::mon::{Command, MgrCommand, MgrOpen, MgrReport, MonCommand, MonSubscribe};
    [
        MonGetMap::KIND,
        MonSubscribe::KIND,
        MonGetVersion::KIND,
        MonCommand::KIND,
        Command::KIND,
        Ping::KIND,
        Statfs::KIND,
        GetPoolStats::KIND,
        PoolOp::KIND,
        Auth::KIND,
        LogMsg::KIND,
        OsdBoot::KIND,
        OsdReport::KIND,
        OsdFailures::KIND,
        OsdDown::KIND,
        OsdAlive::KIND,
        PgTempWish::KIND,
        MgrCommand::KIND,
        MgrOpen::KIND,
        MgrReport::KIND,
        messages::mgr::MgrClose::KIND,
    ]
    .into()
}

#[test]
fn what_each_message_may_do_is_what_the_documents_say_and_never_more_than_at_a_real_cluster() {
    let rules = rules();
    assert!(rules.len() > 20, "{rules:?}");
    let entities = entities();
    assert!(entities.len() > 50);
    let (mut wrong, mut let_through) = (Vec::new(), BTreeMap::<&str, usize>::new());
    // What the manager's door asks for is tested with floods. Who may wish for other members is who may
    // say to be alive: both ask `speaks_in_this_life`.
    for ((_, what), (theirs, ours)) in
        rules.iter().filter(|((place, what), _)| place == "monitor" && what != "other members for a time")
    {
        // Of what nobody may say, those are asked who may most.
        let asked = |who: &&Who| !what.starts_with("all other") || who.mon == "allow *";
        for who in entities.iter().filter(asked) {
            // Who speaks as a monitor is heard as one, and as nothing else.
            let monitor = may("`mon` rwx, monitor", who) && !ours.ends_with("monitor");
            let (wanted, limit) = (may(ours, who) && !monitor, may(theirs, who));
            assert!(limit || !wanted, "{what}: {who:?} would do more than at a real cluster");
            let found = has_effect(who, what);
            *let_through.entry(what).or_default() += usize::from(found);
            if found != wanted {
                wrong.push(format!("{what}: {who:?}: {found}, the documents say {wanted}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let none = |what: &&str| let_through[what] == 0 && !what.starts_with("all other");
    let none: Vec<&&str> = let_through.keys().filter(|what| none(what)).collect();
    assert!(none.is_empty(), "nobody's message has an effect, so the test shows nothing: {none:?}");
}
