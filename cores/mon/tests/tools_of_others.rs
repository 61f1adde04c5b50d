//! What other people's tools send and read: commands, names and arguments as Ceph takes them.

mod common;

use common::{Disk, FSID, World, config};
use messages::mon::{LogMsg, PoolOp, PoolOpReply, pool_op};
use mon::{AuthMode, InitialKey};
use serde_json::{Value, json};

/// A user with all rights, and a monitor.
struct Admin {
    world: World,
    peer: usize,
}

impl Admin {
    fn new() -> Self {
        let mut world = World::new();
        let peer = world.connect("client.admin", None, 0);
        Self { world, peer }
    }

    /// A command with an input file: result, output, line for errors.
    fn told(&mut self, command: &Value, input: &[u8]) -> (i32, String, String) {
        let ack = self.world.command(self.peer, &command.to_string(), input);
        (ack.result, String::from_utf8(ack.output.to_vec()).unwrap(), ack.status)
    }

    fn ok(&mut self, command: Value) -> String {
        let (code, data, status) = self.told(&command, b"");
        assert_eq!(code, 0, "{command}: {status}");
        data
    }

    fn refused(&mut self, errno: i32, command: Value) -> String {
        let (code, data, status) = self.told(&command, b"");
        assert_eq!(code, errno, "{command}: {status} {data}");
        status
    }

    fn pool_op(&mut self, op: PoolOp) -> i32 {
        self.world.send(self.peer, op.encode());
        for _ in 0..20 {
            if let Some(m) = self.world.take(self.peer, PoolOpReply::KIND).first() {
                return PoolOpReply::decode(m).unwrap().result;
            }
            self.world.pass(std::time::Duration::from_millis(100));
        }
        panic!("no answer");
    }
}

/// 2026-09-21, some minutes before the world begins.
const LATE: &str = "2026-09-21 14:00:00.659679Z";

fn report(id: &str, time: &str, more: Value) -> Vec<u8> {
    let mut report = json!({"crash_id": id, "timestamp": time});
    report.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    report.to_string().into_bytes()
}

fn post(admin: &mut Admin, report: &[u8]) -> i32 {
    admin.told(&json!({"prefix": "crash post"}), report).0
}

fn ids(admin: &mut Admin, command: &str) -> Vec<String> {
    let text = admin.ok(json!({"prefix": command, "format": "json"}));
    let all: Vec<Value> = serde_json::from_str(&text).unwrap();
    all.iter().map(|r| r["crash_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn reports_of_crashes_are_kept_shown_archived_and_removed() {
    let mut admin = Admin::new();
    assert_eq!(ids(&mut admin, "crash ls"), [""; 0]);
    assert_eq!(admin.ok(json!({"prefix": "crash ls"})), "", "nothing to show is nothing");
    let osd = json!({"entity_name": "osd.1", "utsname_hostname": "h", "process_name": "ceph-osd", "backtrace": ["a", "b"]});
    assert_eq!(post(&mut admin, &report("2026-09-21T14:00:00.659679Z_b", LATE, osd)), 0);
    assert_eq!(post(&mut admin, &report("2020-04-10T15:08:34.659679Z_a", "2020-04-10T15:08:34.659679Z", json!({}))), 0);
    assert_eq!(ids(&mut admin, "crash ls"), ["2020-04-10T15:08:34.659679Z_a", "2026-09-21T14:00:00.659679Z_b"]);
    let text = admin.ok(json!({"prefix": "crash ls"}));
    let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["ID", "ENTITY", "NEW"]);
    assert_eq!(lines[1], ["2020-04-10T15:08:34.659679Z_a", "unknown", "*"]);
    assert_eq!(lines[2], ["2026-09-21T14:00:00.659679Z_b", "osd.1", "*"]);
    // Ceph's place for it, so that what reads the store finds it.
    let keys = admin.ok(json!({"prefix": "config-key ls"}));
    assert!(keys.contains("mgr/crash/crash/2026-09-21T14:00:00.659679Z_b"), "{keys}");
    let stat = admin.ok(json!({"prefix": "crash stat"}));
    let old: String = [1, 3, 7].map(|d| format!("1 older than {d} days old:\n2020-04-10T15:08:34.659679Z_a\n")).concat();
    assert_eq!(stat, format!("2 crashes recorded\n{old}"));
    let (code, _, counts) = admin.told(&json!({"prefix": "crash json_report", "hours": "24"}), b"");
    assert_eq!((code, counts.as_str()), (0, r#"{"ceph-osd":1}"#));

    // A warning until somebody says that it was seen; what is old is none.
    let health = admin.ok(json!({"prefix": "health", "detail": "detail"}));
    assert!(health.contains("[WRN] RECENT_CRASH: 1 daemons have recently crashed\n"), "{health}");
    assert!(health.contains(&format!("    osd.1 crashed on host h at {LATE}\n")), "{health}");
    admin.ok(json!({"prefix": "config set", "who": "mgr", "name": "mgr/crash/warn_recent_interval", "value": "60"}));
    assert!(!admin.ok(json!({"prefix": "health"})).contains("recently crashed"));
    admin.ok(json!({"prefix": "config rm", "who": "mgr", "name": "mgr/crash/warn_recent_interval"}));
    assert!(admin.ok(json!({"prefix": "health"})).contains("recently crashed"));
    admin.ok(json!({"prefix": "crash archive", "id": "2026-09-21T14:00:00.659679Z_b"}));
    assert!(!admin.ok(json!({"prefix": "health"})).contains("recently crashed"));
    assert_eq!(ids(&mut admin, "crash ls-new"), ["2020-04-10T15:08:34.659679Z_a"]);
    let info: Value =
        serde_json::from_str(&admin.ok(json!({"prefix": "crash info", "id": "2026-09-21T14:00:00.659679Z_b"}))).unwrap();
    assert_eq!((&info["backtrace"], &info["entity_name"]), (&json!(["a", "b"]), &json!("osd.1")));
    assert!(info["archived"].as_str().unwrap().starts_with("2026-09-21 14:"), "{info}");
    admin.ok(json!({"prefix": "crash archive-all"}));
    assert_eq!(ids(&mut admin, "crash ls-new"), [""; 0]);

    admin.ok(json!({"prefix": "crash prune", "keep": "5"}));
    assert_eq!(ids(&mut admin, "crash ls"), ["2026-09-21T14:00:00.659679Z_b"]);
    admin.ok(json!({"prefix": "crash rm", "id": "never was"}));
    admin.ok(json!({"prefix": "crash rm", "id": "2026-09-21T14:00:00.659679Z_b"}));
    assert_eq!(ids(&mut admin, "crash ls"), [""; 0]);
    assert_eq!(admin.refused(-22, json!({"prefix": "crash info", "id": "x"})), "crash info: x not found");
    assert_eq!(admin.refused(-22, json!({"prefix": "crash archive", "id": "x"})), "crash info: x not found");
}

/// The user of `ceph-crash`, as Ceph's documents make it: it may post at the manager, and nothing else.
#[test]
fn the_user_of_ceph_crash_posts_at_the_manager() {
    let caps = [("mon", "profile crash"), ("mgr", "profile crash")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let mut config = config(AuthMode::Cephx);
    config.keys.push(InitialKey { name: "client.crash".parse().unwrap(), key: [7; 16], caps });
    let mut world = World::with(config, Disk::default());
    let descriptions = world.ok(r#"{"prefix":"get_command_descriptions"}"#);
    let all: std::collections::BTreeMap<String, Value> = serde_json::from_str(&descriptions).unwrap();
    let posts = all.values().find(|d| d["sig"] == json!(["crash", "post"])).unwrap();
    assert_eq!(posts["flags"], json!(8), "ceph sends it to the manager");
    let crash = world.connect("client.crash", Some([7; 16]), 0);
    let text = report("r", LATE, json!({}));
    assert_eq!(world.command(crash, r#"{"prefix":"crash post"}"#, &text).result, -13);
}

#[test]
fn a_report_that_is_none_is_refused_and_all_of_them_have_a_bound() {
    let mut admin = Admin::new();
    for (bad, why) in [
        (&b"not json"[..], "malformed crash metadata: "),
        (b"[]", "malformed crash metadata: "),
        (br#"{"crash_id":"x"}"#, "malformed crash metadata: missing 'timestamp' field"),
        (br#"{"timestamp":"2020-04-10 15:08:34.659679Z"}"#, "malformed crash metadata: missing 'crash_id' field"),
        (br#"{"crash_id":"x","timestamp":"garbage"}"#, "malformed crash metadata: time data 'garbage' does not match format"),
    ] {
        let (code, _, status) = admin.told(&json!({"prefix": "crash post"}), bad);
        assert!(code == -22 && status.starts_with(why), "{code} {status}");
    }
    let large = "x".repeat(60 << 10);
    for n in 0..40 {
        let time = format!("2026-09-21 13:{n:02}:00.000000Z");
        assert_eq!(post(&mut admin, &report(&format!("r{n:02}"), &time, json!({"backtrace": [large]}))), 0);
    }
    let kept = ids(&mut admin, "crash ls");
    assert_eq!(kept.last().map(String::as_str), Some("r39"));
    assert_eq!(kept.len(), (1 << 20) / (60 << 10), "the newest that fit into the bound");
    // What is posted twice is there once, and what somebody archived stays so.
    admin.ok(json!({"prefix": "crash archive", "id": "r39"}));
    assert_eq!(post(&mut admin, &report("r39", LATE, json!({}))), 0);
    assert!(!ids(&mut admin, "crash ls-new").contains(&"r39".to_owned()));
}

#[test]
fn names_that_ceph_takes() {
    let mut admin = Admin::new();
    for osd in 0..2 {
        admin.world.boot_osd(osd);
    }
    for name in ["a/b".to_owned(), "a@b".into(), "p".repeat(3000), "ä ö".into()] {
        admin.ok(json!({"prefix": "osd pool create", "pool": name, "pg_num": 1, "size": 1}));
        assert!(admin.ok(json!({"prefix": "osd pool ls"})).lines().any(|l| l == name), "{name}");
        admin.ok(json!({"prefix": "osd pool rename", "srcpool": name, "destpool": format!("{name}/@2")}));
    }
    for none in [String::new(), "p".repeat(4097)] {
        admin.refused(-22, json!({"prefix": "osd pool create", "pool": none, "pg_num": 1}));
    }
    // Snapshots of a pool: the empty name, and long ones.
    let pool = 1;
    for name in [String::new(), "s".repeat(4096)] {
        let make = || PoolOp { fsid: FSID, pool, op: pool_op::CREATE_SNAP, name: name.clone(), ..PoolOp::default() };
        assert_eq!(admin.pool_op(make()), 0, "{} bytes", name.len());
        let snaps = admin.ok(json!({"prefix": "osd dump", "format": "json"}));
        let dump: Value = serde_json::from_str(&snaps).unwrap();
        let names = dump["pools"][0]["pool_snaps"].as_array().unwrap().clone();
        assert!(names.iter().any(|s| s["name"] == name.as_str()), "{} bytes", name.len());
        let gone = PoolOp { fsid: FSID, pool, op: pool_op::DELETE_SNAP, name: name.clone(), ..PoolOp::default() };
        assert_eq!(admin.pool_op(gone), 0);
    }
    let long = PoolOp { fsid: FSID, pool, op: pool_op::CREATE_SNAP, name: "s".repeat(4097), ..PoolOp::default() };
    assert_eq!(admin.pool_op(long), -22);
    // Stored values.
    for key in [String::new(), "x".repeat(2000), "a b\n/".into()] {
        admin.ok(json!({"prefix": "config-key set", "key": key, "val": "v"}));
        assert_eq!(admin.ok(json!({"prefix": "config-key get", "key": key})), "v");
        admin.ok(json!({"prefix": "config-key rm", "key": key}));
    }
    admin.refused(-22, json!({"prefix": "config-key set", "key": "x".repeat(4097), "val": "v"}));
}

#[test]
fn modules_that_are_not_there_and_their_commands() {
    let mut admin = Admin::new();
    let list: Value = serde_json::from_str(&admin.ok(json!({"prefix": "mgr module ls", "format": "json"}))).unwrap();
    assert!(list["enabled_modules"].as_array().unwrap().contains(&json!("iostat")));
    let off = list["disabled_modules"].as_array().unwrap();
    let zabbix = off.iter().find(|m| m["name"] == "zabbix").unwrap();
    assert_eq!((&zabbix["can_run"], zabbix["module_options"].is_object()), (&json!(false), true));
    assert!(!zabbix["error_string"].as_str().unwrap().is_empty());
    let enable = |module: &str| json!({"prefix": "mgr module enable", "module": module});
    let told = admin.refused(-2, enable("nosuch"));
    assert_eq!(told, "all mgr daemons do not support module 'nosuch', pass --force to force enablement");
    assert!(admin.told(&enable("prometheus"), b"").2.ends_with("already enabled"));
    let told = admin.refused(-2, enable("zabbix"));
    assert!(told.starts_with("module 'zabbix' reports that it cannot run on the active manager daemon: "), "{told}");
    assert!(admin.told(&enable("crash"), b"").2.ends_with("already enabled (always-on)"));
    for (command, module) in [
        ("insights", "insights"),
        ("influx send", "influx"),
        ("zabbix config-show", "zabbix"),
        ("alerts send", "alerts"),
        ("test_orchestrator load_data", "test_orchestrator"),
        ("mgr self-test run", "selftest"),
    ] {
        let told = admin.refused(-95, json!({"prefix": command}));
        assert!(
            told.starts_with(&format!("Module '{module}' is not enabled/loaded (required by command '{command}')")),
            "{told}"
        );
    }
    let status: Value = serde_json::from_str(&admin.ok(json!({"prefix": "telemetry status"}))).unwrap();
    assert_eq!((&status["enabled"], status.as_object().unwrap().len()), (&json!(false), 19));
    assert_eq!(admin.ok(json!({"prefix": "restful list-keys", "format": "json"})), "{}");
}

#[test]
fn shapes_of_answers_are_those_of_ceph() {
    let mut admin = Admin::new();
    let peer = admin.world.boot_osd(0);
    admin.ok(json!({"prefix": "osd pool create", "pool": "p", "pg_num": 1, "size": 1}));
    admin.world.all_active(&[peer], 1, 1);
    let json_of = |admin: &mut Admin, mut command: Value| -> Value {
        command["format"] = json!("json");
        serde_json::from_str(&admin.ok(command)).unwrap()
    };
    assert!(json_of(&mut admin, json!({"prefix": "osd numa-status"})).is_array());
    let all = json_of(&mut admin, json!({"prefix": "osd pool get", "pool": "p", "var": "all"}));
    assert_eq!(all["use_gmt_hitset"], json!(true));
    let help = json_of(&mut admin, json!({"prefix": "config help", "key": "osd_max_backfills"}));
    assert_eq!(help["default"], json!(1));
    assert!(json_of(&mut admin, json!({"prefix": "config help", "key": "osd_op_queue"}))["default"].is_string());
    let fsmap = json_of(&mut admin, json!({"prefix": "fs dump"}));
    assert_eq!(fsmap["compat"]["incompat"].as_object().unwrap().len(), 9);
    assert_eq!(json_of(&mut admin, json!({"prefix": "mds stat"}))["fsmap"], fsmap);
    admin.refused(-2, json!({"prefix": "fs dump", "epoch": 99}));
    // Groups of an OSD that is not up.
    for command in ["pg ls-by-osd", "pg ls-by-primary"] {
        assert_eq!(admin.refused(-11, json!({"prefix": command, "osd": 99})), "osd 99 is not up");
        admin.ok(json!({"prefix": command, "osd": 0}));
    }
    // Roots and elements of XML.
    for (command, begins) in [
        (json!({"prefix": "pg stat"}), "<pg_info><pg_ready>"),
        (json!({"prefix": "osd perf"}), "<pg_info>"),
        (json!({"prefix": "osd tree"}), "<tree><nodes><item><id>"),
        (json!({"prefix": "osd crush rule dump"}), "<rules><rule><rule_id>"),
        (json!({"prefix": "osd crush rule ls"}), "<rules><name>"),
        (json!({"prefix": "osd numa-status"}), "<osds><osd><osd>0</osd>"),
        (json!({"prefix": "auth ls"}), "<auth><auth_dump><auth_entities><entity>"),
        (json!({"prefix": "osd metadata"}), "<osd_metadata><osd><id>"),
        (json!({"prefix": "mgr stat"}), "<stat><epoch>"),
        (json!({"prefix": "log last"}), "<tail><entry>"),
        (json!({"prefix": "features"}), "<features><mon><group>"),
        (json!({"prefix": "node ls", "type": "mgr"}), "<mgr><vm><mgr>x</mgr>"),
    ] {
        let mut command = command;
        command["format"] = json!("xml");
        let text = admin.ok(command.clone());
        assert!(text.starts_with(begins), "{command}: {text}");
    }
}

#[test]
fn arguments_that_only_look_are_read_as_loosely_as_by_ceph() {
    let mut admin = Admin::new();
    admin.world.boot_osd(0);
    for (command, name) in [("mgr count-metadata", "x"), ("osd count-metadata", "x"), ("mon count-metadata", "x")] {
        let text = admin.ok(json!({"prefix": command, "name": name}));
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({"unknown": 1}), "{command}");
    }
    for command in [
        json!({"prefix": "df", "detail": "bogus"}),
        json!({"prefix": "osd df", "output_method": "bogus"}),
        json!({"prefix": "health", "detail": "bogus"}),
        json!({"prefix": "osd pool ls", "detail": "bogus"}),
    ] {
        let mut plain = command.clone();
        plain.as_object_mut().unwrap().retain(|k, _| k == "prefix");
        assert_eq!(admin.ok(command), admin.ok(plain));
    }
    for command in [
        json!({"prefix": "osd map", "pool": "nosuch"}),
        json!({"prefix": "config-key get"}),
        json!({"prefix": "config-key exists"}),
    ] {
        admin.refused(-2, command);
    }
    // What changes something is read as strictly as before.
    admin.refused(-22, json!({"prefix": "osd pool create"}));
    admin.refused(-22, json!({"prefix": "config-key rm"}));
}

#[test]
fn metadata_have_the_keys_that_readers_expect() {
    let mut admin = Admin::new();
    let peer = admin.world.boot_osd(0);
    let of =
        |admin: &mut Admin| -> Value { serde_json::from_str(&admin.ok(json!({"prefix": "osd metadata", "id": 0}))).unwrap() };
    let first = of(&mut admin);
    for key in ["device_ids", "device_paths", "devices", "front_iface", "back_iface", "rotational", "journal_rotational"] {
        assert!(first[key].is_string(), "{key}");
    }
    assert!(first["created_at"].as_str().unwrap().starts_with("2026-09-21T"), "{first}");
    assert!(first["ceph_version_when_created"].as_str().unwrap().starts_with("ceph version 16.2.15 ("), "{first}");
    // A later start does not make it younger.
    admin.world.pass(std::time::Duration::from_secs(60));
    admin.world.hang_up(peer);
    admin.world.boot_osd(0);
    assert_eq!(of(&mut admin)["created_at"], first["created_at"]);
    let text = admin.ok(json!({"prefix": "mon metadata", "id": "a"}));
    let mon: Value = serde_json::from_str(&text).unwrap();
    assert!(["device_ids", "device_paths", "devices"].iter().all(|key| mon[key].is_string()), "{mon}");
}

#[test]
fn devices_are_listed_by_host_and_by_daemon() {
    let mut admin = Admin::new();
    let peer = admin.world.connect("osd.0", None, 0);
    let told =
        [("devices", "sda,sdb"), ("device_ids", "sda=ACME_1"), ("device_paths", "sdb=/dev/disk/by-path/p"), ("hostname", "h")];
    admin.world.boot_at(peer, 0, &told);
    for (command, name, value) in
        [("device ls-by-daemon", "who", "osd.0"), ("device ls-by-host", "host", "h"), ("device ls", "x", "")]
    {
        let text = admin.ok(json!({"prefix": command, name: value, "format": "json"}));
        let all: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&all[0]["devid"], &all[1]["devid"]), (&json!("ACME_1"), &json!("sdb")), "{command}: {text}");
        assert_eq!(all[1]["location"][0], json!({"host": "h", "dev": "sdb", "path": "/dev/disk/by-path/p"}));
    }
    assert_eq!(admin.ok(json!({"prefix": "device ls-by-host", "host": "nosuch", "format": "json"})), "[]");
    assert_eq!(admin.refused(-2, json!({"prefix": "device ls-by-daemon", "who": "osd.9"})), "daemon osd.9 not found");
}

#[test]
fn who_follows_the_log_gets_the_audits_too() {
    let mut admin = Admin::new();
    let watcher = admin.world.connect("client.admin", None, 0);
    admin.world.subscribe(watcher, "log-info", 0, false);
    admin.world.pass(std::time::Duration::from_secs(2));
    admin.world.take(watcher, LogMsg::KIND);
    admin.ok(json!({"prefix": "osd set", "key": "nodown"}));
    admin.world.pass(std::time::Duration::from_secs(3));
    let lines = admin.world.take(watcher, LogMsg::KIND).into_iter().flat_map(|m| LogMsg::decode(&m).unwrap().entries);
    let lines: Vec<_> = lines.collect();
    let audit = lines.iter().find(|l| l.channel == "audit" && l.message.contains("osd set"));
    assert!(audit.is_some_and(|l| l.message.contains("nodown")), "{lines:?}");
}

/// The value of a column in a table's first row.
fn cell(table: &str, heading: &str, column: &str) -> String {
    let mut lines = table.lines().skip_while(|l| !l.trim_start().starts_with(heading));
    let heads = lines.next().unwrap();
    let end = heads.find(column).unwrap() + column.len();
    let row = lines.next().unwrap();
    row[..end.min(row.len())].split_whitespace().next_back().unwrap().to_owned()
}

#[test]
fn columns_that_scripts_read_as_numbers_are_numbers() {
    let mut admin = Admin::new();
    let osd = admin.world.boot_osd(0);
    admin.ok(json!({"prefix": "osd pool create", "pool": "p", "pg_num": 1}));
    let report = admin.world.clean_pg(1, 0, 1, 2);
    admin.world.report(osd, 0, vec![report]);
    admin.world.run();
    // check_ceph_df: two bytes of a large disk.
    let df = admin.ok(json!({"prefix": "df"}));
    assert_eq!(cell(&df, "POOL ", "%USED"), "0", "{df}");
    let detail = admin.ok(json!({"prefix": "df", "detail": "detail"}));
    assert_eq!(cell(&detail, "POOL ", "%USED"), "0", "{detail}");
}

#[test]
fn older_names_of_counters_answer_as_the_newer_ones() {
    let mut world = World::new();
    let parse = |text: String| -> Value { serde_json::from_str(&text).unwrap() };
    for (old, new) in [("perfcounters_dump", "perf dump"), ("perfcounters_schema", "perf schema")] {
        // At the monitor's own socket, as telegraf asks.
        let [old, new] = [old, new].map(|c| parse(world.ok(&json!({"prefix": c, "format": "json"}).to_string())));
        let keys =
            |v: &Value| v.as_object().unwrap().iter().map(|(s, c)| (s.clone(), c.as_object().unwrap().len())).collect::<Vec<_>>();
        assert!(!keys(&old).is_empty());
        assert_eq!(keys(&old), keys(&new));
    }
    let schema = parse(world.ok(r#"{"prefix":"perf schema","format":"json"}"#));
    let dump = parse(world.ok(r#"{"prefix":"perf dump","format":"json"}"#));
    for (section, counters) in dump.as_object().unwrap() {
        for (name, value) in counters.as_object().unwrap() {
            assert!(value.is_number() && schema[section][name]["type"].is_number(), "{section}.{name}: {value}");
        }
    }
    // As a real monitor of release 16.2.15 tells them.
    for (name, kind, priority, nick) in
        [("num_sessions", 2, 5, "sess"), ("election_call", 10, 8, "estt"), ("election_win", 10, 8, "ewon")]
    {
        let of = &schema["mon"][name];
        assert_eq!((&of["type"], &of["priority"], &of["nick"]), (&json!(kind), &json!(priority), &json!(nick)), "{name}");
    }
}

#[test]
fn of_masks_the_nearer_place_counts_in_whatever_order_they_were_set() {
    for order in [["root:default", "host:vm"], ["host:vm", "root:default"]] {
        let mut admin = Admin::new();
        admin.world.boot_osd(0);
        for mask in order {
            let value = if mask.starts_with("root") { "9" } else { "7" };
            admin.ok(json!({"prefix": "config set", "who": format!("osd/{mask}"), "name": "osd_max_scrubs", "value": value}));
        }
        let get = json!({"prefix": "config get", "who": "osd.0", "key": "osd_max_scrubs"});
        assert_eq!(admin.ok(get.clone()), "7\n", "{order:?}");
        // What is set for the OSD itself counts more than any place.
        admin.ok(json!({"prefix": "config set", "who": "osd.0", "name": "osd_max_scrubs", "value": "5"}));
        assert_eq!(admin.ok(get), "5\n", "{order:?}");
    }
}

#[test]
fn modules_are_switched_or_it_is_said_that_nothing_of_them_runs() {
    let mut admin = Admin::new();
    let lists = |admin: &mut Admin| -> (Vec<Value>, Vec<Value>) {
        let all: Value = serde_json::from_str(&admin.ok(json!({"prefix": "mgr module ls", "format": "json"}))).unwrap();
        let names = all["disabled_modules"].as_array().unwrap().iter().map(|m| m["name"].clone()).collect();
        (all["enabled_modules"].as_array().unwrap().clone(), names)
    };
    let module = |what: &str, name: &str| json!({"prefix": format!("mgr module {what}"), "module": name});
    // A duty that is built in ends with its module, and comes back with it.
    admin.ok(json!({"prefix": "iostat"}));
    assert_eq!(admin.ok(module("disable", "iostat")), "");
    assert_eq!(lists(&mut admin).0, [json!("prometheus")]);
    assert!(lists(&mut admin).1.contains(&json!("iostat")));
    let why = admin.refused(-95, json!({"prefix": "iostat"}));
    assert!(why.starts_with("Module 'iostat' is not enabled/loaded (required by command 'iostat')"), "{why}");
    let (code, _, status) = admin.told(&module("disable", "iostat"), b"");
    assert_eq!((code, status.as_str()), (0, "module 'iostat' is already disabled"));
    admin.ok(module("enable", "iostat"));
    admin.ok(json!({"prefix": "iostat"}));
    assert_eq!(lists(&mut admin).0, [json!("iostat"), json!("prometheus")]);
    // What is not here is refused as Ceph refuses what cannot run; by force it is noted, and health says that nothing of it runs.
    admin.refused(-2, module("enable", "zabbix"));
    let mut force = module("enable", "zabbix");
    force["force"] = json!("--force");
    let (code, _, status) = admin.told(&force, b"");
    assert_eq!((code, status.contains("has no effect")), (0, true), "{status}");
    assert_eq!(lists(&mut admin).0, [json!("iostat"), json!("prometheus"), json!("zabbix")]);
    assert!(!lists(&mut admin).1.contains(&json!("zabbix")));
    let health = admin.ok(json!({"prefix": "health", "detail": "detail"}));
    assert!(health.contains("MGR_MODULE_DEPENDENCY: Module 'zabbix' has failed dependency: "), "{health}");
    admin.refused(-95, json!({"prefix": "zabbix send"}));
    admin.ok(module("disable", "zabbix"));
    assert!(!admin.ok(json!({"prefix": "health", "detail": "detail"})).contains("MGR_MODULE_DEPENDENCY"));
    assert_eq!(lists(&mut admin).0, [json!("iostat"), json!("prometheus")]);
    force["module"] = json!("nosuch");
    admin.refused(-2, force);
    admin.refused(-22, module("disable", "balancer"));
}

#[test]
fn commands_on_parts_that_are_not_here_say_what_is_missing() {
    let mut admin = Admin::new();
    // Numbers as a real cluster of release 16.2.15 without file systems gives them.
    for (errno, command) in [
        (-2, json!({"prefix": "fs get", "fs_name": "x"})),
        (-2, json!({"prefix": "fs set", "fs_name": "x", "var": "max_mds", "val": "2"})),
        (-2, json!({"prefix": "fs subvolume create", "vol_name": "x", "sub_name": "y"})),
        (-2, json!({"prefix": "fs volume info", "vol_name": "x"})),
        (-95, json!({"prefix": "fs snap-schedule status", "path": "/"})),
        (-95, json!({"prefix": "mds newfs", "metadata": 1, "data": 2})),
        (-95, json!({"prefix": "mgr self-test config get", "key": "k"})),
        (-2, json!({"prefix": "orch apply rgw", "svc_id": "x"})),
        (-2, json!({"prefix": "orch upgrade start", "image": "x"})),
        (-2, json!({"prefix": "device info", "devid": "x"})),
        (-22, json!({"prefix": "osd tree", "states": ["nosuch"]})),
        (-22, json!({"prefix": "osd info", "id": 99})),
        (-2, json!({"prefix": "mgr dump", "epoch": 99999})),
        (-2, json!({"prefix": "auth get-key", "entity": "client.nosuch"})),
        (-2, json!({"prefix": "config show-with-defaults", "who": "nosuch.who"})),
    ] {
        assert!(!admin.refused(errno, command).is_empty());
    }
}

#[test]
fn a_rotated_key_is_another_one_with_the_same_rights() {
    let mut admin = Admin::new();
    admin.ok(json!({"prefix": "auth get-or-create", "entity": "client.a", "caps": ["mon", "allow r"]}));
    let key = |admin: &mut Admin| admin.ok(json!({"prefix": "auth get-key", "entity": "client.a"}));
    let before = key(&mut admin);
    let told = admin.ok(json!({"prefix": "auth rotate", "entity": "client.a"}));
    let after = key(&mut admin);
    assert_ne!(before, after);
    assert!(told.starts_with("[client.a]\n") && told.contains(&after) && told.contains("caps mon = \"allow r\""), "{told}");
    admin.refused(-2, json!({"prefix": "auth rotate", "entity": "client.nobody"}));
    admin.refused(-22, json!({"prefix": "auth rotate", "entity": "nobody"}));
}

#[test]
fn the_picture_has_what_metrics_need_and_says_where_hosts_are() {
    let mut admin = Admin::new();
    admin.world.boot_osd(0);
    let picture: Value = serde_json::from_str(&admin.ok(json!({"prefix": "nacre picture", "format": "json"}))).unwrap();
    let health: Value = serde_json::from_str(&admin.ok(json!({"prefix": "health", "format": "json"}))).unwrap();
    assert_eq!((&picture["health"]["status"], &picture["leads"]), (&health["status"], &json!(true)));
    let df: Value = serde_json::from_str(&admin.ok(json!({"prefix": "df", "detail": "detail", "format": "json"}))).unwrap();
    assert_eq!(picture["df"], df);
    assert_eq!((&picture["osds"][0]["up"], picture["mons"].as_array().map(Vec::len)), (&json!(true), Some(1)));
    for code in picture["health"]["checks"].as_object().unwrap().keys() {
        assert!(picture["codes"].get(code).is_some(), "{code} is told from the beginning");
    }
    assert_eq!(picture["modules"]["prometheus"], json!({"can_run": true, "status": 1}));
    let targets: Value = serde_json::from_str(&admin.ok(json!({"prefix": "prometheus file_sd_config"}))).unwrap();
    let targets = targets[0]["targets"].as_array().unwrap();
    assert!(!targets.is_empty() && targets.iter().all(|t| t.as_str().unwrap().ends_with(":9283")), "{targets:?}");
}
