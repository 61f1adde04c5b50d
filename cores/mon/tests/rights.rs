//! Rights as they hold on sessions: keys, networks, tickets for hosts, lines in the log. The table of all commands against all profiles is
//! `cores/mon/src/server/rights/table.txt`.

mod common;

use common::{Disk, FSID, World, config};
use messages::internal::OsdInstruct;
use messages::mon::{
    LogEntry, LogMsg, MonGetVersion, MonGetVersionReply, MonMapMsg, OsdMapMsg, PoolOp, PoolOpReply, Statfs, StatfsReply, pool_op,
};
use mon::{AuthMode, Config, InitialKey};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use types::EntityAddr;

/// An entity: name, byte of its key, rights by service.
type Entity<'a> = (&'a str, u8, &'a [(&'a str, &'a str)]);

fn with_keys(keys: &[Entity<'_>]) -> Config {
    let mut config = config(AuthMode::Cephx);
    for (name, key, caps) in keys {
        let caps = caps.iter().map(|(service, text)| (service.to_string(), text.to_string())).collect();
        config.keys.push(InitialKey { name: name.parse().unwrap(), key: [*key; 16], caps });
    }
    config
}

fn world(keys: &[Entity<'_>]) -> World {
    World::with(with_keys(keys), Disk::default())
}

fn sample(p: &grammar::Param) -> Value {
    use grammar::Kind;
    let low = p.range.as_ref().and_then(|r| r.split('|').next().and_then(|x| x.parse::<f64>().ok())).unwrap_or(0.0);
    let one = match p.kind {
        Kind::Int => json!(low as i64),
        Kind::Float => json!(low),
        Kind::Bool => json!(true),
        Kind::Choices => json!(p.choices[0]),
        Kind::OsdName => json!("osd.0"),
        Kind::Pgid => json!("1.0"),
        Kind::EntityAddr | Kind::IPAddr => json!("10.0.0.1:0/1"),
        Kind::UUID => json!("c9b6a0b4-0e3a-4e49-9a45-1c2d3e4f5a6b"),
        _ if p.name == "entity" => json!("client.reader"),
        _ => json!(p.goodchars.as_ref().map_or("x", |class| &class[1..2])),
    };
    if p.many { json!([one]) } else { one }
}

/// Every command is given, with all of its arguments and with those that it needs. Those whose answers hold somebody's key are known, and are
/// those that the table's test knows (`KEYS` there).
#[test]
fn keys_are_in_the_answers_of_known_commands_only() {
    let mut known: BTreeSet<&str> = ["ls", "list", "get", "get-key", "print-key", "print_key", "export"].into();
    let names: BTreeSet<String> = known.iter().map(|word| format!("auth {word}")).collect();
    known.clear();
    let mut found = BTreeSet::new();
    for with_optional in [true, false] {
        for command in moncommands::mon_table() {
            let prefix = &command.signature.prefix;
            if prefix == "ready" {
                continue;
            }
            let mut config = with_keys(&[("mon.", 9, &[("mon", "allow *")])]);
            // A host that others reach, so that tokens are given.
            config.addrs.0[0].addr = Some(([10, 0, 0, 1], 3300).into());
            let mut world = World::with(config, Disk::default());
            let mut args: serde_json::Map<String, Value> = serde_json::Map::from_iter([("prefix".to_string(), json!(prefix))]);
            let params = command.signature.params.iter().filter(|p| with_optional || !p.optional);
            args.extend(params.map(|p| (p.name.clone(), sample(p))));
            let before: BTreeSet<String> = keys(&mut world);
            let (_, text) = world.call(&Value::Object(args).to_string());
            let after = keys(&mut world);
            if before.union(&after).any(|key| text.contains(key.as_str())) {
                found.insert(prefix.clone());
            }
        }
    }
    let made: BTreeSet<String> =
        ["auth get-or-create", "auth get-or-create-key", "auth rotate", "nacre token"].iter().map(ToString::to_string).collect();
    let wanted: BTreeSet<String> = names.union(&made).cloned().collect();
    assert_eq!(found, wanted);
}

/// The keys of all entities.
fn keys(world: &mut World) -> BTreeSet<String> {
    let all: Value = serde_json::from_str(&world.ok(r#"{"prefix":"auth ls","format":"json"}"#)).unwrap();
    all["auth_dump"].as_array().unwrap().iter().map(|e| e["key"].as_str().unwrap().to_string()).collect()
}

#[test]
fn who_may_write_at_the_monitors_makes_no_administrator() {
    let mut world = world(&[
        ("mon.", 9, &[("mon", "allow *")]),
        ("client.rgw.x", 10, &[("mon", "allow rw"), ("osd", "allow rwx")]),
        ("client.definer", 11, &[("mon", "allow rw, allow service auth rwx")]),
        ("client.bootstrap-osd", 12, &[("mon", "profile bootstrap-osd")]),
        ("client.bootstrap-rbd", 13, &[("mon", "profile bootstrap-rbd")]),
    ]);
    let rgw = world.connect("client.rgw.x", Some([10; 16]), 0);
    for command in [
        r#"{"prefix":"nacre token","secs":600}"#,
        r#"{"prefix":"nacre join","host":"evil"}"#,
        r#"{"prefix":"auth get","entity":"client.admin"}"#,
        r#"{"prefix":"config-key dump"}"#,
    ] {
        assert_eq!(world.command(rgw, command, b"").result, -13, "{command}");
        assert_eq!(world.tell(rgw, command).result, -13, "{command}");
    }
    // An OSD's key reads everything. Who makes one needs rights to keys; without one, an OSD is only a number.
    let secrets = br#"{"cephx_secret":"AQBmPwdrfEd4KBAA4ai7CK8V3LeofbwUCsd0sQ=="}"#;
    let new = r#"{"prefix":"osd new","uuid":"c9b6a0b4-0e3a-4e49-9a45-1c2d3e4f5a6b"}"#;
    assert_eq!(world.command(rgw, new, secrets).result, -13);
    assert_eq!(world.command(rgw, new, b" \n").result, 0);
    let osd = world.connect("client.bootstrap-osd", Some([12; 16]), 0);
    // (This cluster had the key of an osd.0 before.)
    assert_eq!(world.command(osd, new, secrets).result, -17);
    // The map that all clients have is made no longer than OSDs make it that begin to serve.
    let next = |id: i32| format!(r#"{{"prefix":"osd new","uuid":"c9b6a0b4-0e3a-4e49-9a45-1c2d3e4f{id:04}","id":{id}}}"#);
    assert_eq!(world.command(osd, &next(5_000), b"").result, -22, "a number far away");
    let many = (1..400).take_while(|id| world.command(osd, &next(*id), b"").result == 0).count();
    assert!((200..=256).contains(&many), "{many} OSDs that never booted");
    assert_eq!(world.command(rgw, &next(5_000), b"").result, 0, "who governs OSDs may");
    let definer = world.connect("client.definer", Some([11; 16]), 0);
    // On a loopback address nobody could join; that is said to those who may make tokens.
    assert_eq!(world.command(definer, r#"{"prefix":"nacre token"}"#, b"").result, -22);
    // A bootstrap key makes what it is for.
    let rbd = world.connect("client.bootstrap-rbd", Some([13; 16]), 0);
    let make = |name: &str, osd: &str, more: &str| {
        format!(r#"{{"prefix":"auth get-or-create","entity":"{name}","caps":["mon","profile rbd","osd","{osd}"{more}]}}"#)
    };
    assert_eq!(world.command(rbd, &make("client.vm", "profile rbd pool=a", ""), b"").result, 0);
    for (name, osd, more) in [
        ("client.vm1", "profile rbd pool=a; allow *", ""),
        ("client.vm1", "allow *", ""),
        ("client.vm1", "profile rbd", r#","mgr","allow *""#),
        ("client.vm1", "profile rbd", r#","osd","allow *""#),
        ("client.vm1", "profile rbd", r#","mon""#),
        ("osd.7", "profile rbd", ""),
    ] {
        assert_eq!(world.command(rbd, &make(name, osd, more), b"").result, -13, "{name} {osd} {more}");
    }
    assert_eq!(world.command(rbd, &make("client.admin", "profile rbd", ""), b"").result, -22, "it has other rights");
}

#[test]
fn lines_of_the_log_have_the_name_of_who_wrote_them() {
    let mut world = world(&[("mon.", 9, &[("mon", "allow *")]), ("client.rgw.x", 10, &[("mon", "allow rw")])]);
    let rgw = world.connect("client.rgw.x", Some([10; 16]), 0);
    let name = "client.admin".parse().expect("a name");
    let entry = LogEntry { name, channel: "audit".into(), level: 1, message: "it was him".into(), ..LogEntry::default() };
    world.send(rgw, LogMsg { fsid: FSID, entries: vec![entry], ..LogMsg::default() }.encode());
    // Lines are written with the next tick.
    world.pass(std::time::Duration::from_secs(2));
    let mut log =
        |channel: &str| world.ok(&format!(r#"{{"prefix":"log last","num":100,"level":"debug","channel":"{channel}"}}"#));
    assert!(!log("audit").contains("it was him"));
    let said = log("cluster");
    let line = said.lines().find(|line| line.contains("it was him")).expect("it is written");
    assert!(line.contains("client.rgw.x") && !line.contains("client.admin"), "{line}");
}

#[test]
fn who_may_set_options_shuts_nobody_out() {
    let mut world =
        world(&[("mon.", 9, &[("mon", "allow *")]), ("client.rgw.x", 10, &[("mon", "allow rw"), ("osd", "allow rwx")])]);
    let rgw = world.connect("client.rgw.x", Some([10; 16]), 0);
    let set = |who: &str, name: &str, value: &str| {
        format!(r#"{{"prefix":"config set","who":"{who}","name":"{name}","value":"{value}"}}"#)
    };
    for name in ["auth_supported", "auth_client_required", "auth cluster required", "auth_service_required"] {
        assert_eq!(world.command(rgw, &set("global", name, "none"), b"").result, -22, "{name}");
        assert_eq!(world.command(rgw, &set("client", name, "cephx, none"), b"").result, 0, "{name}");
    }
    let file = b"[global]\nauth_supported = none\n";
    let left = world.command(rgw, r#"{"prefix":"config assimilate-conf"}"#, file);
    assert!(
        left.result == 0 && String::from_utf8_lossy(&left.output.contiguous()).contains("auth_supported"),
        "it stays in the file"
    );
    let dump = world.ok(r#"{"prefix":"config dump"}"#);
    assert!(!dump.lines().any(|line| line.starts_with("global") && line.contains("auth_")), "{dump}");
}

#[test]
fn rights_of_a_network_hold_for_the_sockets_address() {
    let mut world = world(&[
        ("client.far", 10, &[("mon", "allow * network 10.9.0.0/16")]),
        ("client.near", 11, &[("mon", "allow * network 127.0.0.0/8")]),
    ]);
    let get = r#"{"prefix":"auth get","entity":"client.admin"}"#;
    // The world's sockets come from 127.0.0.1.
    for says in [None, Some(SocketAddr::from(([10, 9, 1, 2], 0)))] {
        let says = says.map(|addr| EntityAddr { nonce: 5, ..EntityAddr::msgr2(addr, 5) });
        let far = world.connect_as("client.far", Some([10; 16]), 0, says);
        assert_eq!(world.command(far, get, b"").result, -13, "{says:?}");
        let near = world.connect_as("client.near", Some([11; 16]), 0, says);
        assert_eq!(world.command(near, get, b"").result, 0, "{says:?}");
    }
}

#[test]
fn maps_and_figures_are_for_those_who_may_read() {
    let mut world = world(&[
        ("client.zzz", 10, &[("mon", "allow command \"zzz\"")]),
        ("client.vm", 11, &[("mon", "profile rbd")]),
        ("client.montor", 12, &[("mon", "allow service mon r")]),
    ]);
    let fsid = common::FSID;
    // Whether it gets: monitor map, OSD map, a version, the space.
    let gets = |world: &mut World, name: &str, key: u8| {
        let c = world.connect(name, Some([key; 16]), 0);
        for what in ["monmap", "config", "osdmap", "log-info"] {
            world.subscribe(c, what, 0, false);
        }
        world.send(c, MonGetVersion { handle: 1, what: "osdmap".into() }.encode());
        world.send(c, Statfs { fsid, ..Statfs::default() }.encode());
        [MonMapMsg::KIND, OsdMapMsg::KIND, MonGetVersionReply::KIND, StatfsReply::KIND]
            .map(|kind| !world.take(c, kind).is_empty())
    };
    assert_eq!(gets(&mut world, "client.zzz", 10), [true, false, false, false]);
    assert_eq!(gets(&mut world, "client.montor", 12), [true, false, true, false]);
    for (name, key) in [("client.vm", 11), ("client.reader", 2), ("client.admin", 1)] {
        assert_eq!(gets(&mut world, name, key), [true; 4], "{name}");
    }
    // Nor are they told what is new.
    let zzz = world.connect("client.zzz", Some([10; 16]), 0);
    world.subscribe(zzz, "osdmap", 0, false);
    world.ok(r#"{"prefix":"osd set","key":"noout"}"#);
    assert!(world.take(zzz, OsdMapMsg::KIND).is_empty());
    let op = PoolOp { fsid, pool: 1, op: pool_op::DELETE, ..PoolOp::default() };
    world.send(zzz, op.encode());
    let reply = PoolOpReply::decode(&world.take(zzz, PoolOpReply::KIND)[0]).unwrap();
    assert_eq!(reply.result, -1);
}

#[test]
fn denials_are_counted_and_the_log_stays_small() {
    let mut world = world(&[("client.zzz", 10, &[("mon", "allow command \"zzz\"")])]);
    let zzz = world.connect("client.zzz", Some([10; 16]), 0);
    let forged = r#"y\"}]: dispatch\n2026-11-28T11:00:00 mon.a (mon.0) 9 : audit [INF] entity='client.admin' cmd=["#;
    for n in 0..50 {
        let pool = if n == 0 { forged.to_string() } else { "x".repeat(200 << 10) };
        let command = format!(r#"{{"prefix":"osd pool create","pool":"{pool}"}}"#);
        assert_eq!(world.command(zzz, &command, b"").result, -13);
    }
    let large = format!(r#"{{"prefix":"osd pool create","pool":"{}"}}"#, "x".repeat(8 << 20));
    assert_eq!(world.command(zzz, &large, b"").result, -7, "too long for anybody");
    world.pass(std::time::Duration::from_secs(61));
    let log = world.ok(r#"{"prefix":"log last","num":1000,"channel":"audit"}"#);
    let mine: Vec<&str> = log.lines().filter(|line| line.contains("client.zzz") || line.contains("11:00:00")).collect();
    assert_eq!(mine.len(), 2, "{log}");
    assert!(mine[0].ends_with("]: access denied") && mine[0].contains(forged), "{}", mine[0]);
    assert!(mine[1].contains("entity='client.zzz': 49 more commands were denied"), "{}", mine[1]);
    assert!(world.disk.bytes.len() < 8 << 20, "{} bytes on disk", world.disk.bytes.len());
}

#[test]
fn removed_rights_end_what_is_open() {
    let mut world = world(&[
        ("client.gone", 10, &[("mon", "allow rw"), ("osd", "allow rw"), ("mgr", "allow r")]),
        ("client.less", 11, &[("mon", "allow rw"), ("osd", "allow rw")]),
        ("client.stays", 12, &[("mon", "allow rw")]),
    ]);
    let osd = world.boot_osd_with_key(0, 3);
    let set = r#"{"prefix":"osd set","key":"noout"}"#;
    let open: Vec<usize> = [("client.gone", 10), ("client.less", 11), ("client.stays", 12)]
        .map(|(n, key)| world.connect(n, Some([key; 16]), 0))
        .into();
    for peer in &open {
        assert_eq!(world.command(*peer, set, b"").result, 0);
    }
    let admin = world.connect("client.admin", Some([1; 16]), 0);
    let told = |world: &mut World| -> Vec<Value> {
        let all = world.take(osd, OsdInstruct::KIND);
        let json = all.iter().map(|m| serde_json::from_str::<Value>(&OsdInstruct::decode(m).unwrap().json).unwrap());
        json.filter(|v| v["prefix"] == "end sessions")
            .map(|v| serde_json::from_str(v["entities"].as_str().unwrap()).unwrap())
            .collect()
    };
    told(&mut world);
    let rm = r#"{"prefix":"auth rm","entity":"client.gone"}"#;
    assert_eq!(world.command(admin, rm, b"").result, 0);
    let caps = r#"{"prefix":"auth caps","entity":"client.less","caps":["mon","allow r","osd","allow r"]}"#;
    assert_eq!(world.command(admin, caps, b"").result, 0);
    // The rights are the new ones at once,
    assert_eq!(world.command(open[0], set, b"").result, -13);
    assert_eq!(world.command(open[1], set, b"").result, -13);
    assert_eq!(world.command(open[1], r#"{"prefix":"fsid"}"#, b"").result, 0);
    let list = told(&mut world).pop().expect("the OSD is told");
    let of = |name: &str| list.as_array().unwrap().iter().find(|e| e["entity"] == name).cloned().unwrap_or_default();
    assert_eq!((&of("client.gone")["caps"], &of("client.less")["caps"]), (&Value::Null, &json!("allow r")));
    assert!(of("client.gone")["before"].as_u64() >= Some(1_790_000_000 * 1_000_000_000) && of("client.stays").is_null());
    // and the sessions end.
    world.pass(std::time::Duration::from_secs(2));
    let closed: Vec<bool> = open.iter().map(|n| world.peers[*n].closed.is_some()).collect();
    assert_eq!(closed, [true, true, false]);
    assert!(world.peers[admin].closed.is_none() && world.peers[osd].closed.is_none());
    let again = world.connect("client.gone", Some([10; 16]), 0);
    assert!(world.peers[again].closed.is_some(), "its key opens nothing");
    // Who gets another key is another one, with the same rights too.
    let stays = world.command(admin, r#"{"prefix":"auth rm","entity":"client.stays"}"#, b"");
    assert_eq!(stays.result, 0);
    assert_eq!(world.command(admin, r#"{"prefix":"auth add","entity":"client.stays","caps":["mon","allow rw"]}"#, b"").result, 0);
    assert_eq!(world.command(open[2], set, b"").result, -13);
    world.pass(std::time::Duration::from_secs(2));
    assert!(world.peers[open[2]].closed.is_some());
    // Notes are forgotten when no ticket is old enough any more.
    let notes = |world: &mut World| world.ok(r#"{"prefix":"config-key ls"}"#).matches("nacre/revoked/").count();
    assert_eq!(notes(&mut world), 2);
    world.sleep(std::time::Duration::from_secs(7_000));
    world.pass(std::time::Duration::from_secs(1));
    assert_eq!(notes(&mut world), 2);
    world.sleep(std::time::Duration::from_secs(300));
    world.pass(std::time::Duration::from_secs(1));
    assert_eq!(notes(&mut world), 0);
}
