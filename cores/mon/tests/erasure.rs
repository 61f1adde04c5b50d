//! Profiles of erasure codes, rules of such pools, and pools that are refused.

mod common;
#[path = "common/recorded.rs"]
mod recorded;

use common::World;
use serde_json::json;

/// The story that `tools/conformance/foreign/erasure_codes.py commands` tells a monitor of 16.2.15: the same numbers,
/// sentences and output. Line ends behind a structure do not count: Ceph's commands end with none, one or two, as each
/// likes.
#[test]
fn commands_answer_as_cephs_monitor_does() {
    let mut world = World::new();
    let peer = world.connect("client.admin", None, 0);
    recorded::compare(&mut world, peer, include_str!("../testdata/erasure.jsonl"), str::to_owned, 60);
}

#[test]
fn a_pool_of_shards_is_refused_and_what_is_wrong_with_its_profile_comes_first() {
    let mut world = World::new();
    world.boot_osd(0);
    let create = |profile: &str| {
        json!({"prefix": "osd pool create", "pool": "e", "pg_num": 1, "pool_type": "erasure", "erasure_code_profile": profile})
            .to_string()
    };
    world.ok(r#"{"prefix":"osd erasure-code-profile set","name":"p","profile":["k=4","m=2"]}"#);
    let told = world.refused(95, &create("p"));
    assert!(told.contains("not supported yet") && told.contains("k=4 m=2"), "{told}");
    assert!(world.refused(95, &create("")).contains("k=2 m=2"));
    assert!(world.refused(22, &create("unheard")).contains("no 'plugin' entry"));
    // Nothing was left behind: neither a pool nor a rule.
    assert_eq!(world.ok(r#"{"prefix":"osd crush rule ls"}"#), "replicated_rule\n");
    assert!(!world.ok(r#"{"prefix":"osd pool ls"}"#).contains('e'));
    world.ok(r#"{"prefix":"osd pool create","pool":"e","pg_num":1}"#);
    assert!(world.refused(22, &create("unheard")).contains("pool 'e' cannot change to type erasure"));
}

/// The sentence is that of 16.2.15.
#[test]
fn a_class_that_a_profile_names_stays() {
    let mut world = World::new();
    world.boot_osd(0);
    world.call(r#"{"prefix":"osd crush rm-device-class","ids":["0"]}"#);
    world.ok(r#"{"prefix":"osd crush set-device-class","class":"ssd","ids":["0"]}"#);
    world.ok(r#"{"prefix":"osd erasure-code-profile set","name":"classy","profile":["crush-device-class=ssd"]}"#);
    let rm = r#"{"prefix":"osd crush class rm","class":"ssd"}"#;
    assert_eq!(world.refused(16, rm), "class 'ssd' is still referenced by erasure-code-profile(s): classy");
    world.ok(r#"{"prefix":"osd erasure-code-profile rm","name":"classy"}"#);
    world.ok(rm);
}

#[test]
fn what_is_not_here_is_refused_with_what_serves() {
    let mut world = World::new();
    for (words, serves) in [
        (json!(["plugin=lrc", "k=4", "m=2", "l=3"]), "use plugin=jerasure"),
        (json!(["plugin=shec"]), "use plugin=jerasure"),
        (json!(["technique=liberation"]), "reed_sol_r6_op"),
        (json!(["w=16"]), "use w=8"),
    ] {
        let set = json!({"prefix": "osd erasure-code-profile set", "name": "x", "profile": words, "force": true});
        let told = world.refused(95, &set.to_string());
        assert!(told.contains("is not supported") && told.contains(serves), "{told}");
    }
    assert_eq!(world.ok(r#"{"prefix":"osd erasure-code-profile ls"}"#), "default\n");
}

#[test]
fn an_option_has_the_words_of_new_profiles() {
    let mut world = World::new();
    let option = |words: &str| {
        json!({"prefix": "config set", "who": "mon", "name": "osd_pool_default_erasure_code_profile", "value": words}).to_string()
    };
    let set = |name: &str| json!({"prefix": "osd erasure-code-profile set", "name": name, "profile": ["m=3"]}).to_string();
    world.ok(&option("plugin=isa technique=cauchy k=5 m=2"));
    world.ok(&set("a"));
    let got = world.ok(r#"{"prefix":"osd erasure-code-profile get","name":"a"}"#);
    assert!(got.ends_with("k=5\nm=3\nplugin=isa\ntechnique=cauchy\n"), "{got}");
    // One without a plugin makes no profile, and ends nobody.
    world.ok(&option("k=2"));
    assert!(world.refused(22, &set("b")).contains("must contain a plugin entry"));
}
