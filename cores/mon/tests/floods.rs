//! Messages with their longest fields, from those who have no rights, a few, or a tenant's: what the monitor keeps of them has a bound.

mod common;

use common::{Disk, FSID, World, config};
use messages::mgr::ServiceStatus;
use messages::mon::{
    Auth, Command, GetPoolStats, LogEntry, LogMsg, MgrOpen, MgrReport, MonCommand, MonGetVersion, MonSubscribe, Ping, PoolOp,
    Statfs, SubscribeItem, pool_op,
};
use mon::{AuthMode, InitialKey};
use peak_alloc::PeakAlloc;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use types::Message;

/// Bytes of a long field. Fronts may have 16 MiB.
const LONG: usize = 2 << 20;
/// Times that each message is sent.
const TIMES: usize = 32;
/// Bytes by which what is in use may have grown after that. What was sent of each kind of message is 64 MiB, and the last of it may still be held.
const GROWTH: usize = 12 << 20;

/// Counts what is in use.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;
/// The memory is that of the process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn long(n: usize) -> String {
    format!("{n}{}", "x".repeat(LONG))
}

/// The message of a name, the nth time.
fn message(kind: &str, n: usize) -> Message {
    let sub = |name: String, host: String| {
        MonSubscribe { what: BTreeMap::from([(name, SubscribeItem::default())]), hostname: host }.encode()
    };
    let json = |prefix: &str, arg: &str| format!(r#"{{"prefix":"{prefix}","{arg}":"{}"}}"#, long(n));
    let command = |text: String, input: &str| {
        MonCommand { fsid: FSID, cmd: vec![text], input: bytes::Bytes::from(input.to_owned()).into() }.encode()
    };
    match kind {
        "subscription" => sub(long(n), "h".into()),
        "subscriptions" => {
            let what = (0..100_000).map(|i| (format!("{n}/{i}"), SubscribeItem::default())).collect();
            MonSubscribe { what, hostname: "h".into() }.encode()
        }
        "log subscription" => sub(format!("log-{}", long(n)), "h".into()),
        "host" => sub("monmap".into(), long(n)),
        "version" => MonGetVersion { handle: n as u64, what: long(n) }.encode(),
        "denied command" => command(json("osd pool create", "pool"), ""),
        "unknown command" => command(json(&"y".repeat(100), "pool"), ""),
        "no command" => command(long(n), ""),
        "read" => command(json("osd pool get", "pool"), ""),
        "input" => command(r#"{"prefix":"status"}"#.into(), &long(n)),
        "told" => Command { fsid: FSID, cmd: vec![json("config get", "var")], ..Command::default() }.encode(),
        "log" => {
            let entry = || LogEntry { message: long(n), channel: "c".repeat(1 << 20), ..LogEntry::default() };
            LogMsg { fsid: FSID, entries: vec![entry()], ..LogMsg::default() }.encode()
        }
        "logs" => LogMsg { fsid: FSID, entries: vec![LogEntry::default(); 50_000], ..LogMsg::default() }.encode(),
        "pool" => PoolOp { fsid: FSID, op: pool_op::CREATE, name: long(n), ..PoolOp::default() }.encode(),
        "pools" => GetPoolStats { fsid: FSID, pools: vec!["p".into(); 500_000], ..GetPoolStats::default() }.encode(),
        "space" => Statfs { fsid: FSID, ..Statfs::default() }.encode(),
        "ping" => Ping { front: bytes::Bytes::from(long(n)) }.encode(),
        "auth" => Auth { protocol: 2, payload: bytes::Bytes::from(long(n)), ..Auth::default() }.encode(),
        other => panic!("{other}"),
    }
}

const KINDS: [&str; 18] = [
    "subscription",
    "subscriptions",
    "log subscription",
    "host",
    "version",
    "denied command",
    "unknown command",
    "no command",
    "read",
    "input",
    "told",
    "log",
    "logs",
    "pool",
    "pools",
    "space",
    "ping",
    "auth",
];

/// An entity: name, byte of its key, rights by service.
type Entity<'a> = (&'a str, u8, &'a [(&'a str, &'a str)]);

#[test]
fn what_is_kept_of_long_messages_has_a_bound() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut config = config(AuthMode::Cephx);
    let keys: [Entity<'_>; 3] = [
        ("client.zzz", 10, &[("mon", "allow command \"zzz\"")]),
        ("client.reads", 11, &[("mon", "allow r")]),
        ("client.tenant", 12, &[("mon", "profile rbd"), ("osd", "profile rbd pool=p"), ("mgr", "profile rbd pool=p")]),
    ];
    for (name, key, caps) in keys {
        let caps = caps.iter().map(|(service, text)| (service.to_string(), text.to_string())).collect();
        config.keys.push(InitialKey { name: name.parse().unwrap(), key: [key; 16], caps });
    }
    let mut world = World::with(config, Disk::default());
    // Whoever has no key gets in with nothing at all.
    let stranger = world.connect("client.admin", Some([99; 16]), 0);
    assert!(world.peers[stranger].closed.is_some());
    for (name, key, _) in keys {
        for kind in KINDS {
            let (before, disk) = (MEMORY.current_usage(), world.disk.bytes.len());
            let mut peer = world.connect(name, Some([key; 16]), 0);
            for n in 0..TIMES {
                if world.peers[peer].closed.is_some() {
                    world.peers[peer].inbox.clear();
                    peer = world.connect(name, Some([key; 16]), 0);
                }
                world.send(peer, message(kind, n));
                world.peers[peer].inbox.clear();
            }
            world.pass(std::time::Duration::from_secs(1));
            let grown = MEMORY.current_usage().saturating_sub(before);
            assert!(grown < GROWTH, "{name} {kind}: {} MiB more", grown >> 20);
            assert!(
                world.disk.bytes.len() < disk + (4 << 20),
                "{name} {kind}: the store grew by {}",
                world.disk.bytes.len() - disk
            );
        }
    }
    // It still serves others.
    let admin = world.connect("client.admin", Some([1; 16]), 0);
    assert_eq!(world.command(admin, r#"{"prefix":"status"}"#, b"").result, 0);
}

/// Services that show themselves at the manager: bounded in bytes, one for each session, and nobody takes another one's name.
#[test]
fn what_services_say_of_themselves_has_a_bound() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut world = World::with(config(AuthMode::None), Disk::default());
    let open = |name: &str, size: usize| {
        let metadata = BTreeMap::from([("hostname".to_owned(), "h".repeat(size))]);
        MgrOpen {
            daemon_name: name.into(),
            service_name: "rgw".into(),
            service: Some(ServiceStatus { metadata, status: BTreeMap::new() }),
            ..MgrOpen::default()
        }
    };
    let shown = |world: &mut World| -> Vec<(String, usize)> {
        let all: serde_json::Value = serde_json::from_str(&world.ok(r#"{"prefix":"service dump"}"#)).unwrap();
        let Some(daemons) = all["services"]["rgw"]["daemons"].as_object() else { return Vec::new() };
        let size = |d: &serde_json::Value| d["metadata"]["hostname"].as_str().unwrap_or_default().len();
        daemons.iter().filter(|(name, _)| *name != "summary").map(|(name, d)| (name.clone(), size(d))).collect()
    };
    let a = world.connect("client.rgw.a", None, 1);
    world.send(a, open("a", 10).encode());
    assert_eq!(shown(&mut world), [("a".to_owned(), 10)]);
    // Too large, or with too long a name: what was before is gone, nothing is kept.
    for large in [open("a", 1 << 20), open(&"n".repeat(1_000), 1)] {
        world.send(a, large.encode());
        assert_eq!(shown(&mut world), []);
    }
    for n in 0..100 {
        world.send(a, open(&format!("a{n}"), 60_000).encode());
    }
    assert_eq!(shown(&mut world), [("a99".to_owned(), 60_000)], "a session is one daemon");
    let report = MgrReport { status: Some(BTreeMap::from([("s".to_owned(), "t".repeat(10_000))])), ..MgrReport::default() };
    world.send(a, report.encode());
    let b = world.connect("client.rgw.b", None, 1);
    world.send(b, open("a99", 5).encode());
    assert_eq!(shown(&mut world), [("a99".to_owned(), 60_000)], "another one's name");
    // All together.
    for n in 0..200 {
        let c = world.connect(&format!("client.rgw.c{n}"), None, 1);
        world.send(c, open(&format!("c{n}"), 60_000).encode());
    }
    let all = shown(&mut world);
    assert_eq!((all.len(), all.iter().map(|(_, size)| size).sum::<usize>() <= 8 << 20), (139, true));
}
