//! Messages with their longest fields, from those who have no rights, a few, or a tenant's: what the monitor keeps of them has a bound.

mod common;

use common::{Disk, FSID, World, config};
use messages::internal::{Failure, OptionInForce, OsdAlive, OsdBoot, OsdDown, OsdFailures, OsdReport, PgReport, PgTempWish};
use messages::mgr::{CounterType, MgrClose, ServiceStatus};
use messages::mon::{
    Auth, Command, GetPoolStats, LogEntry, LogMsg, MgrCommand, MgrOpen, MgrReport, MonCommand, MonGetMap, MonGetVersion,
    MonSubscribe, Ping, PoolOp, Statfs, SubscribeItem, pool_op,
};
use messages::quorum::{Carried, FromLeader, MonClock, MonHello, MonRefused, SessionOver, ToLeader, VoterSays};
use mon::{AuthMode, InitialKey};
use peak_alloc::PeakAlloc;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use types::{Message, PgId};

/// Bytes of a long field. Fronts may have 16 MiB.
const LONG: usize = 2 << 20;
/// Times that each message is sent.
const TIMES: usize = 16;
/// Bytes by which what is in use may have grown after that. What was sent of each kind of message is 32 MiB, and the last of it may still be held.
const GROWTH: usize = 12 << 20;

/// Counts what is in use.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;
/// The memory is that of the process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn long(n: usize) -> String {
    format!("{n}{}", "x".repeat(LONG))
}

/// One of several fields that are long together.
fn part(n: usize) -> String {
    format!("{n}{}", "x".repeat(LONG / 6))
}

/// Returns what OSDs tell the monitors, in the name of osd.0.
fn of_an_osd(kind: &str, n: usize) -> Option<Message> {
    let texts = || BTreeMap::from([(part(n), part(n))]);
    Some(match kind {
        "OsdBoot" => OsdBoot { fsid: FSID, metadata: texts(), ..OsdBoot::default() }.encode(),
        "OsdReport" => {
            let option = OptionInForce { name: part(n), value: part(n), source: part(n) };
            let pgs = (0..2_000).map(|seed| PgReport { pg: PgId { pool: 1, seed }, ..PgReport::default() }).collect();
            OsdReport { notes: vec![(part(n), part(n))], options: vec![option], pgs, ..OsdReport::default() }.encode()
        }
        "OsdFailures" => OsdFailures { failed: vec![Failure::default(); 90_000], ..OsdFailures::default() }.encode(),
        "OsdDown" => OsdDown::default().encode(),
        "OsdAlive" => OsdAlive { want: u32::MAX, ..OsdAlive::default() }.encode(),
        "PgTempWish" => {
            let wishes = (0..20_000).map(|seed| (PgId { pool: 1, seed }, vec![0; 20])).collect();
            PgTempWish { wishes, ..PgTempWish::default() }.encode()
        }
        _ => return None,
    })
}

/// Returns what monitors say to each other.
fn of_a_monitor(kind: &str, n: usize) -> Option<Message> {
    let payload = || bytes::Bytes::from(long(n));
    let head = || Carried { kind: MonCommand::KIND, front: payload(), ..Carried::default() };
    Some(match kind {
        "VoterSays" => VoterSays { payload: payload() }.encode(),
        "ToLeader" => ToLeader { head: head(), ..ToLeader::default() }.encode(),
        "FromLeader" => FromLeader { session: n as u64, head: head(), ..FromLeader::default() }.encode(),
        "SessionOver" => SessionOver { session: n as u64 }.encode(),
        "MonHello" => MonHello {
            fsid: FSID,
            name: part(n),
            mgr_name: part(n),
            metadata: BTreeMap::from([(part(n), part(n))]),
            joins: true,
            ..MonHello::default()
        }
        .encode(),
        "MonClock" => MonClock { name: long(n), ..MonClock::default() }.encode(),
        "MonRefused" => MonRefused { why: long(n) }.encode(),
        _ => return None,
    })
}

/// Returns what the manager hears.
fn of_the_manager(kind: &str, n: usize) -> Option<Message> {
    let texts = || BTreeMap::from([(part(n), part(n))]);
    let counter = || CounterType { path: part(n), description: part(n), ..CounterType::default() };
    let command = |prefix: &str| format!(r#"{{"prefix":"{prefix}","x":"{}"}}"#, part(n));
    Some(match kind {
        "MgrCommand" => {
            MgrCommand { fsid: FSID, cmd: vec![command("osd df")], input: bytes::Bytes::from(part(n)).into() }.encode()
        }
        "Command" => Command { fsid: FSID, cmd: vec![command("config get")], ..Command::default() }.encode(),
        "MgrOpen" => {
            let service = Some(ServiceStatus { metadata: texts(), status: texts() });
            let (config, defaults) = (part(n).into(), part(n).into());
            let daemon_name = part(n);
            MgrOpen { daemon_name, service_name: "rgw".into(), service, config, config_defaults: defaults }.encode()
        }
        "MgrReport" => MgrReport {
            daemon_name: "a".into(),
            declare: vec![counter()],
            undeclare: vec![part(n)],
            status: Some(texts()),
            config: part(n).into(),
            ..MgrReport::default()
        }
        .encode(),
        "MgrClose" => MgrClose { daemon_name: part(n), service_name: part(n) }.encode(),
        _ => return None,
    })
}

/// The message of a name, the nth time.
fn message(kind: &str, n: usize) -> Message {
    if let Some(message) = of_an_osd(kind, n).or_else(|| of_a_monitor(kind, n)) {
        return message;
    }
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
        "MonGetMap" => MonGetMap {}.encode(),
        "ping" => Ping { front: bytes::Bytes::from(long(n)) }.encode(),
        "auth" => Auth { protocol: 2, payload: bytes::Bytes::from(long(n)), ..Auth::default() }.encode(),
        other => panic!("{other}"),
    }
}

/// What is sent to the monitor: a word for it, and the type of the message.
const KINDS: &[(&str, &str)] = &[
    ("subscription", "MonSubscribe"),
    ("subscriptions", "MonSubscribe"),
    ("log subscription", "MonSubscribe"),
    ("host", "MonSubscribe"),
    ("version", "MonGetVersion"),
    ("denied command", "MonCommand"),
    ("unknown command", "MonCommand"),
    ("no command", "MonCommand"),
    ("read", "MonCommand"),
    ("input", "MonCommand"),
    ("told", "Command"),
    ("log", "LogMsg"),
    ("logs", "LogMsg"),
    ("pool", "PoolOp"),
    ("pools", "GetPoolStats"),
    ("space", "Statfs"),
    ("ping", "Ping"),
    ("auth", "Auth"),
    ("MonGetMap", "MonGetMap"),
    ("OsdBoot", "OsdBoot"),
    ("OsdReport", "OsdReport"),
    ("OsdFailures", "OsdFailures"),
    ("OsdDown", "OsdDown"),
    ("OsdAlive", "OsdAlive"),
    ("PgTempWish", "PgTempWish"),
    ("VoterSays", "VoterSays"),
    ("ToLeader", "ToLeader"),
    ("FromLeader", "FromLeader"),
    ("SessionOver", "SessionOver"),
    ("MonHello", "MonHello"),
    ("MonClock", "MonClock"),
    ("MonRefused", "MonRefused"),
];
/// The same for the manager.
const TO_THE_MANAGER: &[&str] = &["MgrCommand", "Command", "MgrOpen", "MgrReport", "MgrClose"];

/// Every message that the monitor or its manager reads is among those above: what they read stands in these sources.
#[test]
fn no_message_is_left_out() {
    let sources = [include_str!("../src/server/dispatch.rs"), include_str!("../src/server/peers.rs")];
    let words = sources.iter().flat_map(|text| text.split(|c: char| !c.is_alphanumeric() && c != ':'));
    let read: std::collections::BTreeSet<&str> = words.filter_map(|word| word.strip_suffix("::KIND")).collect();
    assert!(read.len() > 25, "{read:?}");
    let sent = |kind: &&str| KINDS.iter().any(|(_, name)| name == kind) || TO_THE_MANAGER.contains(kind);
    let left_out: Vec<&str> = read.into_iter().filter(|kind| !sent(kind)).collect();
    assert!(left_out.is_empty(), "nobody floods a monitor with {left_out:?}");
}

/// Sends a message many times, and judges what is in use afterwards.
fn flood(world: &mut World, who: (&str, Option<[u8; 16]>, u32), kind: &str, message: impl Fn(usize) -> Message) {
    let (name, key, listener) = who;
    let (before, disk) = (MEMORY.current_usage(), world.disk.bytes.len());
    let mut peer = world.connect(name, key, listener);
    for n in 0..TIMES {
        if world.peers[peer].closed.is_some() {
            world.peers[peer].inbox.clear();
            peer = world.connect(name, key, listener);
        }
        world.send(peer, message(n));
        world.peers[peer].inbox.clear();
    }
    world.pass(std::time::Duration::from_secs(1));
    world.peers[peer].inbox.clear();
    let grown = MEMORY.current_usage().saturating_sub(before);
    assert!(grown < GROWTH, "{name} {kind}: {} MiB more", grown >> 20);
    let written = world.disk.bytes.len() - disk;
    assert!(written < 4 << 20, "{name} {kind}: the store grew by {written}");
}

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
        for (kind, _) in KINDS {
            flood(&mut world, (name, Some([key; 16]), 0), kind, |n| message(kind, n));
        }
    }
    // It still serves others.
    let admin = world.connect("client.admin", Some([1; 16]), 0);
    assert_eq!(world.command(admin, r#"{"prefix":"status"}"#, b"").result, 0);
}

/// A text in millions of empty parts is short, and takes much memory.
#[test]
fn the_parts_of_a_command_have_a_bound() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut world = World::with(config(AuthMode::None), Disk::default());
    let client = world.connect("client.admin", None, 0);
    let mut ask = |parts: usize| {
        let cmd = std::iter::once(r#"{"prefix":"fsid"}"#.to_owned()).chain(std::iter::repeat_n(String::new(), parts)).collect();
        world.send(client, MonCommand { fsid: FSID, cmd, input: types::Rope::new() }.encode());
        let ack = world.take(client, messages::mon::MonCommandAck::KIND).pop().expect("an answer");
        (messages::mon::MonCommandAck::decode(&ack).expect("an answer").result, ack.front.len() < 10_000)
    };
    assert_eq!((ask(10), ask(1_000_000)), ((0, true), (-7, true)));
}

/// The manager, where everybody may do everything: with authentication fewer get so far.
#[test]
fn what_is_kept_of_long_messages_to_the_manager_has_a_bound() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut world = World::with(config(AuthMode::None), Disk::default());
    for kind in TO_THE_MANAGER {
        flood(&mut world, ("client.zzz", None, 1), kind, |n| of_the_manager(kind, n).expect("a message"));
    }
    assert_eq!(world.ok(r#"{"prefix":"service dump","format":"json"}"#).matches("xxxx").count(), 0);
    let admin = world.connect("client.admin", None, 0);
    assert_eq!(world.command(admin, r#"{"prefix":"status"}"#, b"").result, 0);
}

/// Services that show themselves at the manager: bounded in bytes, one for each session, and nobody takes another one's name.
#[test]
fn what_services_say_of_themselves_has_a_bound() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut world = World::with(config(AuthMode::None), Disk::default());
    let open_as = |service: &str, name: &str, size: usize| {
        let metadata = BTreeMap::from([("hostname".to_owned(), "h".repeat(size))]);
        MgrOpen {
            daemon_name: name.into(),
            service_name: service.into(),
            service: Some(ServiceStatus { metadata, status: BTreeMap::new() }),
            ..MgrOpen::default()
        }
    };
    let open = |name: &str, size: usize| open_as("rgw", name, size);
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
    // Nor is a name that a terminal obeys, or that begins a line of its own.
    for (service, name) in [("rgw\u{1b}[2J", "a"), ("rgw\n  health: HEALTH_OK", "a"), ("rgw", "\u{9b}31m")] {
        world.send(a, open_as(service, name, 1).encode());
        assert!(world.ok(r#"{"prefix":"service dump"}"#).contains("\"services\": {}"), "{service:?} {name:?}");
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
