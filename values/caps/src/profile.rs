//! The monitors' and the manager's profiles: names for sets of grants.

use crate::constraint::Constraint;
use crate::grant::{Grant, Scope, may};
use std::collections::BTreeMap;
use types::EntityName;

fn equal(value: &str) -> Constraint {
    Constraint::Equal(value.into())
}

fn prefix(value: &str) -> Constraint {
    Constraint::Prefix(value.into())
}

fn pattern(text: &str) -> Constraint {
    Constraint::pattern(text).expect("the profiles' own patterns are well formed")
}

/// Read permission for each of `services`.
fn read(services: &[&str]) -> Vec<Grant> {
    services.iter().map(|name| Grant::service(name, may::READ)).collect()
}

/// Returns what profile `name` gives `entity` at the monitors; nothing if there is no such profile.
pub(crate) fn mon(name: &str, entity: &EntityName) -> Vec<Grant> {
    match name {
        "read-only" => vec![Grant::everything(may::READ)],
        "read-write" => vec![Grant::everything(may::READ | may::WRITE)],
        "mon" | "osd" | "mds" | "mgr" => daemon(name, entity),
        _ if name.starts_with("bootstrap-") => bootstrap(name),
        "fs-client" => read(&["mon", "mds", "osd", "pg"]),
        "simple-rados-client" => read(&["mon", "osd", "pg"]),
        // It came after the command had its new name, and does not know the old one.
        "simple-rados-client-with-blocklist" => with(read(&["mon", "osd", "pg"]), [fence("osd blocklist", "blocklistop")]),
        "rbd-mirror" => with(blocklisting_client(), [Grant::command("config-key get", [("key", prefix("rbd/mirror/"))])]),
        "rbd-mirror-peer" => with(
            blocklisting_client(),
            [
                Grant::command("config-key get", [("key", pattern("rbd/mirror/[^/]+"))]),
                Grant::command("config-key set", [("key", prefix("rbd/mirror/peer/"))]),
            ],
        ),
        "cephfs-mirror" => {
            with(read(&["mon", "mds", "osd", "pg"]), [Grant::command("config-key get", [("key", prefix("cephfs/mirror/peer/"))])])
        }
        "crash" => read(&["mon"]),
        // All whose names begin so, as in Ceph: `rbd-read-only` among them, which is known at the other services.
        _ if name.starts_with("rbd") => blocklisting_client(),
        "role-definer" => with(read(&["mon"]), [Grant::service("auth", may::ALL)]),
        _ => Vec::new(),
    }
}

fn with(mut grants: Vec<Grant>, more: impl IntoIterator<Item = Grant>) -> Vec<Grant> {
    grants.extend(more);
    grants
}

/// A client that reads maps and may fence another client that died with a lock in its hand. One client at a time:
/// Ceph's own demand on the address lets ranges and whole hosts through.
fn blocklisting_client() -> Vec<Grant> {
    with(read(&["mon", "osd", "pg"]), [fence("osd blocklist", "blocklistop"), fence("osd blacklist", "blacklistop")])
}

fn fence(command: &str, op: &'static str) -> Grant {
    Grant::command(command, [(op, equal("add")), ("addr", Constraint::Client), ("range", Constraint::Absent)])
}

/// Daemons: their own service, what they need of others, and secrets of their own.
fn daemon(name: &str, entity: &EntityName) -> Vec<Grant> {
    let rw = may::READ | may::WRITE;
    let mut grants = match name {
        "mon" => vec![Grant::service("mon", may::ALL), Grant::service("log", may::ALL)],
        "osd" => vec![
            Grant::service("osd", may::ALL),
            Grant::service("mon", may::READ),
            Grant::service("pg", rw),
            Grant::service("log", may::WRITE),
            Grant::command("config set", [("name", pattern("osd_mclock_max_capacity_iops_(hdd|ssd)"))]),
        ],
        "mds" => vec![
            Grant::service("mds", may::ALL),
            Grant::service("mon", may::READ),
            Grant::service("osd", may::READ),
            Grant::command("osd pool rmsnap", []),
            Grant::command("osd blocklist", []),
            Grant::command("osd blacklist", []),
            Grant::service("log", may::WRITE),
        ],
        _ => with(
            ["log", "mon", "mds", "fs", "osd", "config-key", "config"].map(|s| Grant::service(s, rw)).to_vec(),
            [
                Grant::service("mgr", may::ALL),
                Grant::service("auth", may::READ | may::EXEC),
                Grant::command("auth get-or-create", []),
                Grant::command("auth caps", []),
                Grant::command("auth rm", []),
                Grant::command("smart", []),
            ],
        ),
    };
    let own = format!("daemon-private/{entity}/");
    for verb in ["get", "put", "set", "exists", "delete"] {
        grants.push(Grant::command(&format!("config-key {verb}"), [("key", prefix(&own))]));
    }
    grants
}

/// Keys that can only make keys of one kind. What Ceph does not look at (rights at services that the profile does not
/// name) must not be asked for.
fn bootstrap(name: &str) -> Vec<Grant> {
    let maps = || with(read(&["mon", "osd"]), [Grant::command("mon getmap", [])]);
    // The demands on `entity` and on rights at `mon`, `osd`, `mds`, `mgr`.
    let create = |entity, mon, osd, mds, mgr| {
        let demands = [("entity", entity), ("caps_mon", mon), ("caps_osd", osd), ("caps_mds", mds), ("caps_mgr", mgr)];
        // Arguments that are no pairs are kept as they came: a list with an odd end would hide rights from the demands above.
        Grant::command("auth get-or-create", demands.into_iter().chain([("caps", Constraint::Absent)]))
    };
    let none = || Constraint::Absent;
    match name {
        "bootstrap-osd" => with(maps(), [Grant::command("osd new", []), Grant::command("osd purge-new", [])]),
        "bootstrap-mds" => {
            let grant = |mgr| create(prefix("mds."), equal("allow profile mds"), equal("allow rwx"), equal("allow"), mgr);
            with(maps(), [grant(none()), grant(equal("profile mds"))])
        }
        "bootstrap-mgr" => {
            let grant = |osd, mds| create(prefix("mgr."), equal("allow profile mgr"), osd, mds, none());
            with(maps(), [grant(none(), none()), grant(equal("allow *"), equal("allow *")), grant(equal("allow *"), none())])
        }
        "bootstrap-rgw" => with(maps(), [create(prefix("client.rgw."), equal("allow rw"), equal("allow rwx"), none(), none())]),
        "bootstrap-rbd" | "bootstrap-rbd-mirror" => {
            let mon = if name == "bootstrap-rbd" { "profile rbd" } else { "profile rbd-mirror" };
            let (osd, mgr) = (Constraint::RbdProfiles, Constraint::RbdProfilesOrAbsent);
            with(read(&["mon"]), [create(prefix("client."), equal(mon), osd, none(), mgr)])
        }
        _ => Vec::new(),
    }
}

/// Returns what profile `name` gives at the manager, under the profile's own arguments.
pub(crate) fn mgr(name: &str, args: &BTreeMap<String, Constraint>) -> Vec<Grant> {
    let rw = may::READ | may::WRITE;
    let module = |bits| Grant { scope: Scope::Module("rbd_support".into(), args.clone()), bits, network: None };
    match name {
        "read-only" => vec![Grant::everything(may::READ)],
        "read-write" => vec![Grant::everything(rw)],
        "crash" => vec![Grant::command("crash post", [])],
        // Documented, and without effect.
        "osd" | "mds" => Vec::new(),
        "rbd" => vec![module(rw)],
        "rbd-read-only" => vec![module(may::READ)],
        _ => Vec::new(),
    }
}

/// Returns true if the manager has a profile `name` and it takes these arguments.
pub(crate) fn mgr_accepts(name: &str, args: &BTreeMap<String, Constraint>) -> bool {
    match name {
        "read-only" | "read-write" | "crash" | "osd" | "mds" => true,
        "rbd" | "rbd-read-only" => args.keys().all(|key| key == "pool" || key == "namespace"),
        _ => false,
    }
}
