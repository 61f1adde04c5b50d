//! Answers against those of a real cluster of release 16.2.15: the same keys in structures, the same columns in tables,
//! the same sentences where clients and scripts look at them.

mod common;

use common::World;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

/// Returns what a recorded command printed, by the recording's name: (command, output, errors).
#[allow(clippy::disallowed_methods, reason = "a test reads its data")]
fn recordings() -> BTreeMap<String, (String, String, String)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/recordings.tar.xz");
    let file = std::fs::File::open(path).expect("the recordings are in the repository");
    let mut archive = tar::Archive::new(liblzma::read::XzDecoder::new(file));
    let mut parts: BTreeMap<(String, String), String> = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_string_lossy().into_owned();
        let Some((name, kind)) = path.rsplit('/').next().and_then(|f| f.rsplit_once('.')) else { continue };
        if name.starts_with("ceph_") && ["cmd", "out", "err"].contains(&kind) {
            let key = (name.to_string(), kind.to_string());
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            parts.insert(key, String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    let get = |name: &str, kind: &str| parts.get(&(name.to_string(), kind.to_string())).cloned().unwrap_or_default();
    let names: BTreeSet<String> = parts.keys().map(|(n, _)| n.clone()).collect();
    names.into_iter().map(|n| (n.clone(), (get(&n, "cmd"), get(&n, "out"), get(&n, "err")))).collect()
}

/// One host, one OSD, the pools and settings that the real cluster had, all groups clean.
fn world() -> (World, usize) {
    let mut world = World::new();
    let osd = world.boot_osd(0);
    for pool in ["device_health_metrics", "p", "p2"] {
        world.ok(&format!(r#"{{"prefix":"osd pool create","pool":"{pool}","pg_num":8}}"#));
    }
    world.ok(r#"{"prefix":"osd pool application enable","pool":"device_health_metrics","app":"mgr_devicehealth"}"#);
    world.ok(r#"{"prefix":"osd pool set","pool":"device_health_metrics","var":"pg_num_max","val":"32"}"#);
    world.ok(r#"{"prefix":"osd pool set","pool":"device_health_metrics","var":"pg_num_min","val":"1"}"#);
    world.ok(r#"{"prefix":"osd pool application enable","pool":"p","app":"rados"}"#);
    world.ok(r#"{"prefix":"auth get-or-create","entity":"client.foo","caps":["mon","allow r","osd","allow rw pool=p"]}"#);
    world.ok(r#"{"prefix":"config set","who":"osd","name":"osd_max_backfills","value":"3"}"#);
    let reports = (1..=3).flat_map(|pool| (0..8).map(move |seed| (pool, seed)));
    let reports = reports.map(|(pool, seed)| world.clean_pg(pool, seed, 0, 0)).collect();
    world.report(osd, 0, reports);
    let admin = world.connect("client.admin", None, 0);
    (world, admin)
}

fn run(world: &mut World, admin: usize, json: &str) -> (i32, String, String) {
    let ack = world.command(admin, json, b"");
    (ack.result, String::from_utf8_lossy(&ack.output.contiguous()).into_owned(), ack.status)
}

fn keys(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                let path = format!("{path}/{name}");
                keys(inner, &path, into);
                into.insert(path);
            }
        }
        Value::Array(items) => items.iter().take(1).for_each(|v| keys(v, &format!("{path}[]"), into)),
        _ => {}
    }
}

/// Keys that name things which this cluster does not have, or that are names of things themselves.
const FOREIGN: &[&str] = &[
    "/checks/",
    "available_modules[]",
    "active_clients[]",
    "disabled_modules[]",
    "ceph version",
    "feature_",
    "container_name",
    "/module_options",
    "myp",
    "/osd_metadata[]/",
    "application_metadata/",
];

#[test]
fn structures_have_the_recorded_keys() {
    let recorded = recordings();
    let (mut world, admin) = world();
    let cases = [
        ("ceph_s_json", r#"{"prefix":"status","format":"json"}"#),
        ("ceph_osd_dump_json", r#"{"prefix":"osd dump","format":"json"}"#),
        ("ceph_pg_dump_json", r#"{"prefix":"pg dump","format":"json"}"#),
        ("ceph_osd_crush_dump", r#"{"prefix":"osd crush dump"}"#),
        ("ceph_osd_crush_rule_dump", r#"{"prefix":"osd crush rule dump"}"#),
        ("ceph_osd_find", r#"{"prefix":"osd find","id":"0"}"#),
        ("ceph_mgr_dump", r#"{"prefix":"mgr dump"}"#),
        ("ceph_mgr_module_ls", r#"{"prefix":"mgr module ls"}"#),
        ("ceph_mgr_services", r#"{"prefix":"mgr services"}"#),
        ("ceph_quorum_status", r#"{"prefix":"quorum_status"}"#),
        ("ceph_features", r#"{"prefix":"features"}"#),
        ("ceph_versions", r#"{"prefix":"versions"}"#),
        ("ceph_node_ls", r#"{"prefix":"node ls"}"#),
        ("ceph_balancer_status", r#"{"prefix":"balancer status"}"#),
        ("ceph_insights", r#"{"prefix":"service dump"}"#),
        ("ceph_pool_app_get", r#"{"prefix":"osd pool application get","pool":"p"}"#),
        ("ceph_osd_oktostop", r#"{"prefix":"osd ok-to-stop","ids":["0"]}"#),
        ("ceph_report", r#"{"prefix":"report"}"#),
    ];
    for (name, json) in cases {
        let (_, want, _) = &recorded[name];
        let (_, got, _) = run(&mut world, admin, json);
        let parse = |text: &str| serde_json::from_str::<Value>(text.trim()).unwrap_or_else(|e| panic!("{name}: {e}: {text}"));
        let (mut wanted, mut found) = (BTreeSet::new(), BTreeSet::new());
        keys(&parse(want), "", &mut wanted);
        keys(&parse(&got), "", &mut found);
        let own = |k: &&String| !FOREIGN.iter().any(|f| k.contains(f));
        let missing: Vec<&String> = wanted.difference(&found).filter(own).collect();
        let extra: Vec<&String> = found.difference(&wanted).filter(own).collect();
        assert!(missing.is_empty(), "{name} lacks {missing:?}");
        assert!(extra.is_empty(), "{name} has {extra:?} that a real cluster has not");
    }
}

#[test]
fn tables_have_the_recorded_columns() {
    let recorded = recordings();
    let (mut world, admin) = world();
    let cases = [
        ("ceph_osd_tree", r#"{"prefix":"osd tree"}"#, "ID"),
        ("ceph_osd_df", r#"{"prefix":"osd df"}"#, "ID"),
        ("ceph_osd_df_tree", r#"{"prefix":"osd df","output_method":"tree"}"#, "ID"),
        ("ceph_osd_perf", r#"{"prefix":"osd perf"}"#, "osd"),
        ("ceph_df", r#"{"prefix":"df"}"#, "CLASS"),
        ("ceph_df", r#"{"prefix":"df"}"#, "POOL "),
        ("ceph_df_detail", r#"{"prefix":"df","detail":"detail"}"#, "POOL "),
        ("ceph_pg_dump", r#"{"prefix":"pg dump"}"#, "PG_STAT"),
        ("ceph_pg_dump", r#"{"prefix":"pg dump"}"#, "OSD_STAT"),
        ("ceph_pg_ls", r#"{"prefix":"pg ls"}"#, "PG "),
        ("ceph_pg_lsbypool", r#"{"prefix":"pg ls-by-pool","poolstr":"p"}"#, "PG "),
        ("ceph_config_dump", r#"{"prefix":"config dump"}"#, "WHO"),
        ("ceph_config_show", r#"{"prefix":"config show","who":"osd.0"}"#, "NAME"),
        ("ceph_pool_autoscale", r#"{"prefix":"osd pool autoscale-status"}"#, "POOL"),
    ];
    for (name, json, head) in cases {
        let (_, want, _) = &recorded[name];
        let (result, got, _) = run(&mut world, admin, json);
        assert_eq!(result, 0, "{name}");
        let columns = |text: &str| -> Vec<String> {
            let line =
                text.lines().find(|l| l.starts_with(head)).unwrap_or_else(|| panic!("{name}: no line with {head}: {text}"));
            line.split("  ").map(str::trim).filter(|c| !c.is_empty()).map(String::from).collect()
        };
        assert_eq!(columns(want), columns(&got), "{name}");
    }
}

/// Digits, times and sizes are not compared.
fn words(text: &str) -> Vec<String> {
    let plain: String = text.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
    let mut all: Vec<String> = plain.split_whitespace().map(|w| w.trim_end_matches('#').to_string()).collect();
    all.retain(|w| !w.is_empty());
    all
}

#[test]
fn sentences_are_the_recorded_ones() {
    let recorded = recordings();
    let (mut world, admin) = world();
    let cases = [
        ("ceph_osd_set_noout", r#"{"prefix":"osd set","key":"noout"}"#),
        ("ceph_osd_unset_noout", r#"{"prefix":"osd unset","key":"noout"}"#),
        ("ceph_osd_out", r#"{"prefix":"osd out","ids":["0"]}"#),
        ("ceph_osd_in", r#"{"prefix":"osd in","ids":["0"]}"#),
        ("ceph_osd_reweight", r#"{"prefix":"osd reweight","id":"0","weight":1.0}"#),
        ("ceph_osd_crush_reweight", r#"{"prefix":"osd crush reweight","name":"osd.0","weight":0.02}"#),
        ("ceph_osd_crush_add_bucket", r#"{"prefix":"osd crush add-bucket","name":"h2","type":"host"}"#),
        ("ceph_osd_crush_rm", r#"{"prefix":"osd crush rm","name":"h2"}"#),
        ("ceph_osd_blocklist_add", r#"{"prefix":"osd blocklist","blocklistop":"add","addr":"10.1.1.1:0/123"}"#),
        ("ceph_osd_blocklist_ls", r#"{"prefix":"osd blocklist ls"}"#),
        ("ceph_osd_blocklist_rm", r#"{"prefix":"osd blocklist","blocklistop":"rm","addr":"10.1.1.1:0/123"}"#),
        ("ceph_osd_safe_to_destroy", r#"{"prefix":"osd safe-to-destroy","ids":["0"]}"#),
        ("ceph_osd_require_min_compat", r#"{"prefix":"osd set-require-min-compat-client","version":"luminous"}"#),
        ("ceph_pool_app_enable", r#"{"prefix":"osd pool application enable","pool":"p","app":"rados"}"#),
        ("ceph_pool_set_pgnum", r#"{"prefix":"osd pool set","pool":"p2","var":"pg_num","val":"16"}"#),
        ("ceph_pool_rename", r#"{"prefix":"osd pool rename","srcpool":"p2","destpool":"p2b"}"#),
        ("ceph_pool_quota", r#"{"prefix":"osd pool set-quota","pool":"p2b","field":"max_objects","val":"1000"}"#),
        ("ceph_pool_get_quota", r#"{"prefix":"osd pool get-quota","pool":"p2b"}"#),
        ("ceph_pool_mksnap", r#"{"prefix":"osd pool mksnap","pool":"p2b","snap":"s1"}"#),
        ("ceph_pool_rmsnap", r#"{"prefix":"osd pool rmsnap","pool":"p2b","snap":"s1"}"#),
        ("ceph_pool_get1", r#"{"prefix":"osd pool get","pool":"p","var":"size"}"#),
        ("ceph_pool_delete", r#"{"prefix":"osd pool delete","pool":"p2b","pool2":"p2b","yes_i_really_really_mean_it":true}"#),
        ("ceph_pg_scrub", r#"{"prefix":"pg scrub","pgid":"1.0"}"#),
        ("ceph_pg_map", r#"{"prefix":"pg map","pgid":"1.0"}"#),
        ("ceph_auth_get", r#"{"prefix":"auth get","entity":"client.foo"}"#),
        ("ceph_auth_caps", r#"{"prefix":"auth caps","entity":"client.foo","caps":["mon","allow r","osd","allow rwx pool=p"]}"#),
        ("ceph_auth_rm", r#"{"prefix":"auth rm","entity":"client.foo"}"#),
        ("ceph_configkey_set", r#"{"prefix":"config-key set","key":"k1","val":"v1"}"#),
        ("ceph_config_get", r#"{"prefix":"config get","who":"osd.0","key":"osd_max_backfills"}"#),
        ("ceph_mon_dump", r#"{"prefix":"mon dump"}"#),
        ("ceph_fs_ls", r#"{"prefix":"fs ls"}"#),
        ("ceph_pg_stat", r#"{"prefix":"pg stat"}"#),
    ];
    let free = |w: &String| {
        w.contains("key")
            || w.contains('=') && w.contains('#')
            || w.contains("v#:")
            || w.contains('-') && w.contains("##")
            || w.ends_with("==")
    };
    for (name, json) in cases {
        let (_, out, err) = &recorded[name];
        let (_, got, status) = run(&mut world, admin, json);
        let asked = |text: &str| {
            // What a client prints around the server's sentence is not the server's.
            let text: String = text
                .lines()
                .filter(|l| !l.contains("asok"))
                .map(|l| l.split_once(": ").filter(|(h, _)| h.starts_with("Error")).map_or(l, |(_, t)| t))
                .collect::<Vec<_>>()
                .join("\n");
            words(&text).into_iter().filter(|w| !free(w) && !w.chars().all(|c| "#.,GMiBKk/".contains(c))).collect::<Vec<_>>()
        };
        assert_eq!(asked(out), asked(&got), "{name}: output {got}");
        assert_eq!(asked(err), asked(&status), "{name}: status {status}");
    }
}

#[test]
fn the_status_page_has_the_recorded_lines() {
    let recorded = recordings();
    let (mut world, admin) = world();
    let (_, got, _) = run(&mut world, admin, r#"{"prefix":"status"}"#);
    let heads = |text: &str| -> Vec<String> {
        let fields = text.lines().filter_map(|l| l.split_once(':').map(|(h, _)| h.to_string()));
        fields.filter(|h| !h.trim().contains(' ')).collect()
    };
    assert_eq!(heads(&recorded["ceph_s"].1), heads(&got), "{got}");
    assert!(got.contains("    pgs:     24 active+clean\n"), "{got}");
}
