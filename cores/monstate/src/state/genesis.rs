//! The first state of a new cluster.

use super::{AuthDb, ConfigDb, History, State};
use crate::config::Config;
use crate::context::{MGR_GID, RELEASE_NUMBER};
use crate::options;
use bytes::Bytes;
use denc::Encode;
use maps::{ALL_MON_FEATURES, Incremental, MgrMap, MonInfo, MonMap, OsdMap, StandbyInfo, flags, pool_type};
use msgr::auth::{EntityKey, Key};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use types::level::Level;
use types::{Fsid, UTime};

/// The stored key that says that pools of one copy move like all others. Clusters without it are older.
pub const ONE_COPY_MOVES: &str = "nacre/one-copy-moves";
/// The stored key that says that the defaults of pools follow the hardware, with the number of copies that was set
/// last. Clusters without it are older, or were made with defaults of their own.
pub const DEFAULTS_FOLLOW: &str = "nacre/default-size";
/// Flag bits of every OSD map of this release.
const FLAGS: u32 = flags::SORTBITWISE | flags::RECOVERY_DELETES | flags::PURGED_SNAPDIRS | flags::PGLOG_HARDLIMIT;
/// The oldest release whose clients are let in: it knows all encodings that are sent.
const OLDEST_CLIENT: u8 = 12;

/// Makes the first state.
pub fn state(config: &Config, now: UTime) -> State {
    let (osdmap, full) = first_osdmap(config, now);
    let monmap = monmap(config, 1, now, now);
    let mgrmap = mgrmap(config, 1, now);
    let mut auth = AuthDb { global_id_limit: MGR_GID + 1, ..AuthDb::default() };
    for initial in &config.keys {
        let entity = EntityKey { key: Key::new(now, initial.key), caps: initial.caps.clone() };
        auth.set(&initial.name, Some(entity));
    }
    State {
        index: 0,
        fsid: config.fsid,
        history: Arc::new(History::new(osdmap.epoch, full)),
        osdmap: Arc::new(osdmap),
        monmap_bytes: monmap.to_bytes(),
        monmap: Arc::new(monmap),
        mgrmap_bytes: mgrmap.to_bytes(),
        mgrmap: Arc::new(mgrmap),
        config: Arc::new(ConfigDb::default()),
        keys: Arc::new(keys(config)),
        auth: Arc::new(auth),
        mutes: Arc::new(BTreeMap::new()),
        log: Arc::new(VecDeque::new()),
        log_version: 0,
        osd_metadata: Arc::new(BTreeMap::new()),
        quorum: Arc::new(super::Quorum::default()),
    }
}

/// Makes the first stored keys: what this release remembers of itself.
fn keys(config: &Config) -> BTreeMap<String, Bytes> {
    let one = || Bytes::from_static(b"1");
    let mut keys = BTreeMap::from([(ONE_COPY_MOVES.to_string(), one())]);
    if config.defaults_follow {
        keys.insert(DEFAULTS_FOLLOW.into(), one());
    }
    keys
}

fn first_osdmap(config: &Config, now: UTime) -> (OsdMap, Bytes) {
    let empty = OsdMap { fsid: config.fsid, created: now, ..OsdMap::default() };
    let mut inc = Incremental::new(1, config.fsid, now);
    inc.new_flags = FLAGS as i32;
    inc.crush = first_crush(config).to_bytes();
    inc.new_max_osd = 0;
    inc.new_nearfull_ratio = options::float(config, "mon_osd_nearfull_ratio") as f32;
    inc.new_backfillfull_ratio = options::float(config, "mon_osd_backfillfull_ratio") as f32;
    inc.new_full_ratio = options::float(config, "mon_osd_full_ratio") as f32;
    inc.new_require_min_compat_client = OLDEST_CLIENT;
    inc.new_require_osd_release = RELEASE_NUMBER;
    // Who joins learns the level of those that it joins.
    inc.new_level = Some(config.levels.newest).filter(|level| *level > Level::FIRST && config.join.is_empty());
    let profile = [("k", "2"), ("m", "2"), ("plugin", "jerasure"), ("technique", "reed_sol_van")];
    let profile = profile.into_iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    inc.new_erasure_code_profiles.insert("default".into(), profile);
    let sealed = inc.seal(&empty).expect("the first increment fits the empty map");
    (sealed.map, sealed.full)
}

/// Makes the first CRUSH map: one root, and the rule that every replicated pool takes. Copies are spread over OSDs,
/// because a new cluster is one host.
fn first_crush(config: &Config) -> crush::Map {
    let mut map = crush::Map::new();
    let root = map.type_id("root").expect("a new map knows its types");
    map.add_bucket(root, "default", crush::Alg::Straw2).expect("the first bucket of a map");
    let domain = if options::uint(config, "osd_crush_chooseleaf_type") == 0 { "osd" } else { "host" };
    let spec = crush::RuleSpec {
        name: "replicated_rule".into(),
        root: "default".into(),
        failure_domain: domain.into(),
        kind: pool_type::REPLICATED,
        ..crush::RuleSpec::default()
    };
    map.add_simple_rule(&spec).expect("the first rule of a map");
    map
}

/// Makes the map of one monitor.
pub fn monmap(config: &Config, epoch: u32, created: UTime, changed: UTime) -> MonMap {
    let info = MonInfo { name: config.name.clone(), public_addrs: config.addrs.clone(), ..MonInfo::default() };
    MonMap {
        fsid: config.fsid,
        epoch,
        last_changed: changed,
        created,
        mon_info: [(config.name.clone(), info)].into(),
        ranks: vec![config.name.clone()],
        persistent_features: ALL_MON_FEATURES,
        min_mon_release: RELEASE_NUMBER,
        strategy: 1,
        ..MonMap::default()
    }
}

/// Makes the map of the one manager, which is always active.
pub fn mgrmap(config: &Config, epoch: u32, now: UTime) -> MgrMap {
    let always = [
        "balancer",
        "crash",
        "devicehealth",
        "orchestrator",
        "pg_autoscaler",
        "progress",
        "rbd_support",
        "status",
        "telemetry",
        "volumes",
    ];
    let mut map = MgrMap {
        epoch,
        active_addrs: config.mgr_addrs.clone(),
        active_gid: MGR_GID,
        available: true,
        active_name: config.mgr_name.clone(),
        active_change: now,
        active_mgr_features: types::features::SUPPORTED,
        services: config.services.clone(),
        ..MgrMap::default()
    };
    for release in 14..=u32::from(RELEASE_NUMBER) {
        map.always_on_modules.insert(release, always.into_iter().map(String::from).collect());
    }
    map
}

/// Lists managers that wait. Their numbers follow the active one's.
pub fn add_standbys<'a>(map: &mut MgrMap, names: impl IntoIterator<Item = &'a str>) {
    for (n, name) in (1..).zip(names) {
        let mgr_features = types::features::SUPPORTED;
        map.standbys.insert(MGR_GID + n, StandbyInfo { gid: MGR_GID + n, name: name.into(), mgr_features, ..Default::default() });
    }
}

/// Says whether this id stands for "no cluster".
pub fn is_nobody(fsid: &Fsid) -> bool {
    fsid.0 == [0; 16]
}
