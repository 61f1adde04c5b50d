//! What capabilities allow.

use caps::{MgrCaps, MonCaps, OsdCaps, OsdNeed};
use std::collections::BTreeMap;
use types::EntityName;

fn osd(text: &str) -> OsdCaps {
    OsdCaps::parse(text).unwrap_or_else(|e| panic!("{e}"))
}

fn mon(text: &str) -> MonCaps {
    MonCaps::parse(text).unwrap_or_else(|e| panic!("{e}"))
}

fn object<'a>(pool_name: &'a str, namespace: &'a [u8], object: &'a [u8]) -> OsdNeed<'a> {
    OsdNeed { pool_name, namespace, object, ..OsdNeed::default() }
}

/// Read, write, class-read and class-write on an object in pool `p`, as letters.
fn on_p(caps: &str) -> String {
    let caps = osd(caps);
    let need = object("p", b"", b"o");
    let asks = [
        ('r', OsdNeed { read: true, ..need }),
        ('w', OsdNeed { write: true, ..need }),
        ('R', OsdNeed { classes: &[("c", "m", true, false)], ..need }),
        ('W', OsdNeed { classes: &[("c", "m", false, true)], ..need }),
        ('X', OsdNeed { classes: &[("c", "m", true, true)], read: true, write: true, ..need }),
    ];
    asks.iter().filter(|(_, ask)| caps.allows(ask)).map(|(letter, _)| letter).collect()
}

#[test]
fn letters_and_words() {
    for (caps, letters) in [
        ("allow *", "rwRWX"),
        ("allow all", "rwRWX"),
        ("allow rwx", "rwRWX"),
        ("allow r", "r"),
        ("allow w", "w"),
        ("allow rw", "rw"),
        ("allow x", "RW"),
        ("allow class-read", "R"),
        ("allow r class-read", "rR"),
        ("allow rw class-read class-write", "rwRWX"),
        ("allow rwx pool=p", "rwRWX"),
        ("allow pool p rwx", "rwRWX"),
        ("allow rwx pool=q", ""),
        ("allow r, allow w", "rw"),
        ("allow class c", "RW"),
        ("allow class c m", "RW"),
        ("allow class c other", ""),
        ("profile read-only", "r"),
        ("profile read-write", "rw"),
        ("profile nosuch", ""),
        ("profile rbd", "rwRWX"),
        ("profile rbd pool=p", "rwRWX"),
        ("profile rbd pool=q", ""),
        ("profile rbd-read-only", "rR"),
    ] {
        assert_eq!(on_p(caps), letters, "{caps}");
    }
}

#[test]
fn one_grant_must_cover_reads_and_writes_of_a_request() {
    let both = OsdNeed { read: true, write: true, ..object("p", b"", b"o") };
    assert!(osd("allow rw").allows(&both));
    assert!(!osd("allow r, allow w").allows(&both));
}

#[test]
fn several_grants_may_cover_the_class_calls_of_a_request() {
    let calls = [("a", "x", true, false), ("b", "y", false, true)];
    let need = OsdNeed { classes: &calls, ..object("p", b"", b"o") };
    assert!(osd("allow class a, allow class b y").allows(&need));
    assert!(!osd("allow class a, allow class b z").allows(&need));
    let many = vec![("a", "x", true, false); 100];
    assert!(osd("allow class a").allows(&OsdNeed { classes: &many, ..need }));
    assert!(!osd("allow class b").allows(&OsdNeed { classes: &many, ..need }));
}

#[test]
fn places() {
    let read = |caps: &str, need: OsdNeed<'_>| osd(caps).allows(&OsdNeed { read: true, ..need });
    let in_ns = object("p", b"tenant1", b"o");
    assert!(read("allow r", in_ns) && read("allow r namespace=tenant1", in_ns) && read("allow r namespace=ten*", in_ns));
    assert!(!read("allow r namespace=tenant2", in_ns) && !read("allow r namespace=\"\"", in_ns));
    assert!(read("allow r namespace=\"\"", object("p", b"", b"o")));
    assert!(!read("allow r pool=q namespace=tenant1", in_ns));
    assert!(read("allow r object_prefix rbd_", object("p", b"", b"rbd_info")));
    assert!(!read("allow r object_prefix rbd_", object("p", b"", b"rb")));
}

#[test]
fn application_tags() {
    let metadata = [("rgw", "", ""), ("cephfs", "data", "a"), ("cephfs", "metadata", "b")];
    let need = OsdNeed { read: true, pool_application: &metadata, ..object("p", b"", b"o") };
    for (tag, holds) in [
        ("cephfs data=a", true),
        ("cephfs data=b", false),
        ("cephfs data=*", true),
        ("cephfs *=b", true),
        ("cephfs *=c", false),
        ("cephfs *=*", true),
        ("cephfs other=*", false),
        ("rgw *=*", true),
        ("rgw data=*", false),
        ("rbd *=*", false),
    ] {
        assert_eq!(osd(&format!("allow r tag {tag}")).allows(&need), holds, "{tag}");
    }
}

#[test]
fn an_rbd_user_sees_what_parents_in_other_pools_need_and_no_more() {
    let caps = osd("profile rbd pool=vms");
    let method = |pool, name: &'static [u8], calls| OsdNeed { classes: calls, ..object(pool, b"", name) };
    let reads: &[(&str, &str, bool, bool)] = &[("rbd", "get_children", true, false)];
    let writes: &[(&str, &str, bool, bool)] = &[("rbd", "add_child", true, true)];
    assert!(caps.allows(&method("images", b"rbd_children", reads)) && !caps.allows(&method("images", b"rbd_children", writes)));
    assert!(caps.allows(&OsdNeed { read: true, ..object("images", b"", b"rbd_info") }));
    assert!(!caps.allows(&OsdNeed { write: true, ..object("images", b"", b"rbd_info") }));
    assert!(!caps.allows(&OsdNeed { read: true, ..object("images", b"", b"rbd_header.1") }));
    assert!(caps.allows(&OsdNeed { read: true, write: true, classes: writes, ..object("vms", b"any", b"rbd_children") }));

    // Limited to a namespace, the pool's settings in its default namespace can still be listed.
    let caps = osd("profile rbd pool=vms namespace=t");
    let list: &[(&str, &str, bool, bool)] = &[("rbd", "metadata_list", true, false)];
    assert!(caps.allows(&method("vms", b"rbd_info", list)) && !caps.allows(&method("vms", b"rbd_directory", list)));

    // A reader registers a clone with its parent.
    let caps = osd("profile rbd-read-only pool=images");
    let attach: &[(&str, &str, bool, bool)] = &[("rbd", "child_attach", true, true)];
    assert!(caps.allows(&method("images", b"rbd_header.1", attach)) && !caps.allows(&method("images", b"rbd_data.1", attach)));
}

#[test]
fn networks() {
    let caps = osd("allow r, allow rw network 10.0.0.0/8");
    let write = OsdNeed { write: true, ..object("p", b"", b"o") };
    let from = |addr: &str| caps.seen_from(addr.parse().expect("an address"));
    assert!(from("10.2.3.4").allows(&write) && !from("11.2.3.4").allows(&write));
    assert!(from("11.2.3.4").allows(&OsdNeed { read: true, ..write_less(write) }));
    // Without an address, limited grants do not count.
    assert!(!caps.allows(&write) && !osd("allow * network 0.0.0.0/0").is_allow_all());
    let caps = mon("allow * network fd00::/8");
    assert!(caps.seen_from("fd00::1".parse().expect("an address")).is_allow_all() && !caps.is_allow_all());
    assert!(!caps.allows("mon", true, false, false));
}

fn write_less(need: OsdNeed<'_>) -> OsdNeed<'_> {
    OsdNeed { write: false, ..need }
}

/// Returns true if `entity` may run a command that is described by module, permission and prefix.
fn may(caps: &str, entity: &str, (module, perm, prefix): (&str, &str, &str), args: &[(&str, &str)]) -> bool {
    let entity: EntityName = entity.parse().expect("a name");
    let args: BTreeMap<String, String> = args.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    mon(caps).allows_command(&entity, module, perm, prefix, &args)
}

const STATUS: (&str, &str, &str) = ("mon", "r", "status");
const POOL_CREATE: (&str, &str, &str) = ("osd", "rw", "osd pool create");
const AUTH_ADD: (&str, &str, &str) = ("auth", "rwx", "auth add");
const AUTH_CREATE: (&str, &str, &str) = ("auth", "rwx", "auth get-or-create");
const BLOCKLIST: (&str, &str, &str) = ("osd", "rw", "osd blocklist");
const KEY_GET: (&str, &str, &str) = ("config-key", "r", "config-key get");

#[test]
fn commands_of_services() {
    let admin = "client.admin";
    assert!(may("allow *", admin, AUTH_ADD, &[]) && may("allow rwx", admin, AUTH_ADD, &[]));
    assert!(
        may("allow r", admin, STATUS, &[]) && !may("allow r", admin, POOL_CREATE, &[]) && !may("allow rw", admin, AUTH_ADD, &[])
    );
    assert!(may("allow r, allow w", admin, POOL_CREATE, &[]), "permissions of several grants add up");
    assert!(may("allow service osd rw", admin, POOL_CREATE, &[]) && !may("allow service osd rw", admin, STATUS, &[]));
    assert!(MonCaps::parse("").is_err() && !MonCaps::default().allows("mon", true, false, false));
    // Secrets need more than a blanket.
    assert!(!may("allow rwx", admin, KEY_GET, &[]) && may("allow *", admin, KEY_GET, &[]));
    assert!(may("allow service config-key r", admin, KEY_GET, &[]));
}

#[test]
fn single_commands() {
    let who = "client.x";
    assert!(may("allow command \"osd pool create\"", who, POOL_CREATE, &[]));
    assert!(!may("allow command \"osd pool delete\"", who, POOL_CREATE, &[]));
    let caps = "allow command \"config-key get\" with key prefix rbd/ , allow command status with a=b c regex 'd+'";
    assert!(may(caps, who, KEY_GET, &[("key", "rbd/x")]) && !may(caps, who, KEY_GET, &[("key", "rgw/x")]));
    assert!(!may(caps, who, KEY_GET, &[]), "a demand without its argument does not hold");
    assert!(may(caps, who, STATUS, &[("a", "b"), ("c", "ddd")]));
    assert!(!may(caps, who, STATUS, &[("a", "b"), ("c", "xddd")]), "a pattern must match the whole argument");
    assert!(!may(caps, who, STATUS, &[("c", "ddd")]));
}

#[test]
fn a_client_may_fence_an_instance_but_not_a_host() {
    for profile in ["rbd", "rbd-mirror", "rbd-mirror-peer", "simple-rados-client-with-blocklist"] {
        let caps = format!("profile {profile}");
        let fence = |op, addr| may(&caps, "client.x", BLOCKLIST, &[("blocklistop", op), ("addr", addr)]);
        assert!(fence("add", "10.0.0.1:0/1234"), "{profile}");
        assert!(!fence("rm", "10.0.0.1:0/1234") && !fence("add", "10.0.0.1"), "{profile}");
        for more in ["127.0.0.0/8", "10.0.0.1/32", "10.0.0.1:0/0", "10.0.0.1:6800/77", "0.0.0.0:0/1", "[::]:0/1"] {
            assert!(!fence("add", more), "{profile}: {more}");
        }
        let range = [("blocklistop", "add"), ("addr", "10.0.0.1:0/1234"), ("range", "range")];
        assert!(!may(&caps, "client.x", BLOCKLIST, &range), "{profile}");
        assert!(may(&caps, "client.x", STATUS, &[]) && !may(&caps, "client.x", POOL_CREATE, &[]), "{profile}");
    }
    assert!(!may("profile simple-rados-client", "client.x", BLOCKLIST, &[("blocklistop", "add"), ("addr", "a/1")]));
    assert!(may("profile rbd-mirror", "client.x", KEY_GET, &[("key", "rbd/mirror/peer/2")]));
    assert!(!may("profile rbd", "client.x", KEY_GET, &[("key", "rbd/mirror/peer/2")]));
    assert!(may("profile rbd-mirror-peer", "client.x", KEY_GET, &[("key", "rbd/mirror/site_name")]));
    assert!(!may("profile rbd-mirror-peer", "client.x", KEY_GET, &[("key", "rbd/mirror/peer/2")]));
}

#[test]
fn daemons() {
    let own = [("key", "daemon-private/osd.3/x")];
    assert!(may("allow profile osd", "osd.3", KEY_GET, &own) && !may("allow profile osd", "osd.4", KEY_GET, &own));
    let caps = mon("allow profile osd");
    assert!(
        caps.allows("osd", true, true, true) && caps.allows("pg", true, true, false) && !caps.allows("auth", true, false, false)
    );
    assert!(mon("profile mgr").allows("config-key", true, true, false) && mon("profile mon").allows("log", true, true, true));
    assert!(may("profile mgr", "mgr.x", AUTH_CREATE, &[]) && !may("profile osd", "osd.0", AUTH_CREATE, &[]));
    let set = ("config", "rw", "config set");
    assert!(may("profile osd", "osd.0", set, &[("name", "osd_mclock_max_capacity_iops_ssd")]));
    assert!(!may("profile osd", "osd.0", set, &[("name", "osd_mclock_max_capacity_iops")]));
}

#[test]
fn bootstrap_keys_make_keys_of_one_kind() {
    let create = |profile: &str, args: &[(&str, &str)]| {
        may(&format!("allow profile bootstrap-{profile}"), "client.bootstrap", AUTH_CREATE, args)
    };
    fn user<'a>(entity: &'a str, mon: &'a str, osd: &'a str) -> [(&'a str, &'a str); 3] {
        [("entity", entity), ("caps_mon", mon), ("caps_osd", osd)]
    }
    let mgr = [("entity", "mgr.x"), ("caps_mon", "allow profile mgr")];
    assert!(create("mgr", &mgr) && !create("mds", &mgr) && !create("osd", &mgr));
    assert!(create("mgr", &[&mgr[..], &[("caps_osd", "allow *"), ("caps_mds", "allow *")]].concat()));
    let mds = [&user("mds.a", "allow profile mds", "allow rwx")[..], &[("caps_mds", "allow")]].concat();
    assert!(create("mds", &mds) && create("mds", &[&mds[..], &[("caps_mgr", "profile mds")]].concat()));
    assert!(create("rgw", &user("client.rgw.a", "allow rw", "allow rwx")));
    assert!(
        !create("rgw", &user("client.rgw.a", "allow *", "allow rwx"))
            && !create("rgw", &user("client.a", "allow rw", "allow rwx"))
    );
    let rbd = |osd: &str| create("rbd", &user("client.vm", "profile rbd", osd));
    assert!(rbd("profile rbd") && rbd("profile rbd pool=a, profile rbd-read-only pool 'b'"));
    assert!(!rbd("allow *") && !rbd("profile rbd, allow rwx") && !rbd("profile rgw"));
    assert!(!rbd("profile rbd; allow *") && !rbd("profile rbd pool=a; allow *") && !rbd("profile rbd pool='a'; allow *"));
    let rbd_with =
        |mgr: &str| create("rbd", &[&user("client.vm", "profile rbd", "profile rbd")[..], &[("caps_mgr", mgr)]].concat());
    assert!(rbd_with("profile rbd pool=a") && !rbd_with("allow *") && !rbd_with("profile rbd, allow rw"));
    // Rights at services that are not the profile's, and a list that is no pairs.
    for (profile, asked) in [
        ("mgr", mgr.to_vec()),
        ("mds", mds),
        ("rgw", user("client.rgw.a", "allow rw", "allow rwx").to_vec()),
        ("rbd", user("client.vm", "profile rbd", "profile rbd").to_vec()),
        ("rbd-mirror", user("client.m", "profile rbd-mirror", "profile rbd").to_vec()),
    ] {
        assert!(create(profile, &asked), "{profile}");
        for more in [("caps_mgr", "allow *"), ("caps", "mon allow *")] {
            assert!(!create(profile, &[&asked[..], &[more]].concat()), "{profile}: {more:?}");
        }
        if profile != "mds" && profile != "mgr" {
            assert!(!create(profile, &[&asked[..], &[("caps_mds", "allow *")]].concat()), "{profile}");
        }
    }
    assert!(may("allow profile bootstrap-osd", "client.bootstrap-osd", ("osd", "rw", "osd new"), &[]));
    assert!(!may("allow profile bootstrap-osd", "client.bootstrap-osd", POOL_CREATE, &[]));
}

#[test]
fn readers_and_definers() {
    for (profile, services) in [
        ("fs-client", &["mon", "mds", "osd", "pg"][..]),
        ("simple-rados-client", &["mon", "osd", "pg"]),
        ("crash", &["mon"]),
        ("read-only", &["mon", "osd", "anything"]),
        ("rbd-read-only", &["mon", "osd", "pg"]),
        ("cephfs-mirror", &["mon", "mds", "osd", "pg"]),
    ] {
        let caps = mon(&format!("profile {profile}"));
        for service in services {
            assert!(caps.allows(service, true, false, false) && !caps.allows(service, true, true, false), "{profile} {service}");
        }
        assert!(!caps.allows("auth", true, false, true), "{profile}");
    }
    assert!(may("profile role-definer", "client.x", AUTH_ADD, &[]) && !may("profile role-definer", "client.x", POOL_CREATE, &[]));
}

#[test]
fn who_may_write_somewhere_in_a_pool() {
    let may = |caps: &str, pool: Option<&str>| OsdCaps::parse(caps).unwrap_or_else(|e| panic!("{e}")).may_write_in(pool);
    for all in ["allow w", "allow *", "profile rbd", "allow r pool=q, allow rw network 10.0.0.0/8"] {
        assert!(may(all, None) && may(all, Some("p")), "{all}");
    }
    for one in ["allow w pool=p", "profile rbd pool=p", "profile rbd pool=p namespace=n", "allow rw pool=p object_prefix o"] {
        assert!(may(one, Some("p")) && !may(one, Some("q")) && !may(one, None), "{one}");
    }
    for none in [
        "allow r",
        "allow rx pool=p",
        "profile rbd-read-only pool=p",
        "allow rw tag rbd a=b",
        "allow rw namespace=n",
        "allow w object_prefix o",
    ] {
        assert!(!may(none, Some("p")) && !may(none, None), "{none}");
    }
}

#[test]
fn the_managers_caps() {
    let entity = EntityName::default();
    let may = |caps: &str, (service, module, perm, prefix): (&str, &str, &str, &str), args: &[(&str, &str)]| {
        let args: BTreeMap<String, String> = args.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let caps = MgrCaps::parse(caps).unwrap_or_else(|e| panic!("{e}"));
        caps.allows_command(&entity, service, module, perm, prefix, &args)
    };
    let dump = ("pg", "", "r", "pg dump");
    let iostat = ("mgr", "rbd_support", "r", "rbd perf image stats");
    assert!(may("allow r", dump, &[]) && may("allow *", dump, &[]) && !may("profile rbd", dump, &[]));
    assert!(may("profile rbd", iostat, &[]) && may("profile rbd-read-only pool=p", iostat, &[]));
    assert!(may("allow module rbd_support r", iostat, &[]) && !may("allow module other r", iostat, &[]));
    assert!(may("allow command \"pg dump\" with x = y", dump, &[("x", "y")]) && !may("profile osd", dump, &[]));
    let limited = MgrCaps::parse("profile rbd pool=p").expect("well formed");
    let about = |pool: &str| BTreeMap::from([("pool".to_owned(), pool.to_owned())]);
    assert!(limited.allows_module(&entity, "rbd_support", "rw", &about("p")));
    assert!(!limited.allows_module(&entity, "rbd_support", "rw", &about("q")));
}

#[test]
fn errors_say_what_was_wanted_and_where() {
    let error = |text| OsdCaps::parse(text).expect_err("refused");
    assert_eq!((error("allow read").at, error("allow rw pool=").at, error("alow r").at), (7, 14, 0));
    assert_eq!(error("allow rw pool=").to_string(), "expected a pool at the end of 'allow rw pool='");
    assert!(error("alow r").to_string().contains("expected allow or profile at 'alow r'"), "{}", error("alow r"));
    let network = MonCaps::parse("allow r network 10.0.0.0/33").expect_err("refused");
    assert_eq!((network.at, &network.wanted[..]), (16, &["a network (ADDRESS/BITS)"][..]));
    assert!(MonCaps::parse("allow command \"osd").expect_err("refused").to_string().contains("closing quote"));
}

mod hostile {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// No text makes the parser panic, and an error points into the text.
        #[test]
        fn any_text(text in "(allow|profile| |=|,|pool|namespace|with|regex|network|['\"*]|\\PC){0,12}") {
            for error in [OsdCaps::parse(&text).err(), MonCaps::parse(&text).err(), MgrCaps::parse(&text).err()].into_iter().flatten() {
                prop_assert!(error.at <= text.len() && text.is_char_boundary(error.at), "{error}");
                prop_assert!(error.to_string().contains(&text));
            }
        }
    }
}
