//! Messages that no recording holds, with every field and option filled, come back as they were.

use bytes::Bytes;
use messages::internal::{
    Beat, Failure, ImageFigures, OptionInForce, OsdAlive, OsdBoot, OsdDown, OsdFailures, OsdInstruct, OsdReport, PgReport,
    PgTempWish, ServiceKey, ServiceKeys, Space,
};
use messages::mgr::{CounterType, HealthMetric, MgrClose, MgrConfigure, MgrOpen, MgrReport, ServiceStatus};
use messages::mon::Statfs;
use messages::osd::{Backoff, backoff_op};
use messages::quorum::{Carried, FromLeader, MonClock, MonHello, MonRefused, Sender, SessionOver, ToLeader, VoterSays};
use messages::stats::ObjectStatSum;
use std::collections::BTreeMap;
use types::{EVersion, EntityAddr, EntityAddrVec, Fsid, HObject, Locator, PgId, Rope, SpgId, UTime};

macro_rules! comes_back {
    ($message:ty, $value:expr) => {
        let value: $message = $value;
        assert_eq!(<$message>::decode(&value.encode()), Ok(value));
    };
}

fn words(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

fn report() -> PgReport {
    PgReport {
        pg: PgId::new(3, 0x1f),
        state: types::PgState::ACTIVE.with(types::PgState::SCRUBBING),
        reported: EVersion::new(40, 7),
        version: EVersion::new(39, 1234),
        log_size: 99,
        last_scrub: EVersion::new(1, 2),
        last_scrub_stamp: UTime { sec: 5, nsec: 6 },
        last_deep_scrub: EVersion::new(3, 4),
        last_deep_scrub_stamp: UTime { sec: 7, nsec: 8 },
        created: 12,
        stats: ObjectStatSum { num_bytes: 1 << 40, num_omap_keys: -1, ..Default::default() },
        snap_trimq_len: 3,
        purged_snaps: vec![(1, 2), (9, 1)],
        last_change: UTime { sec: 9, nsec: 1 },
        last_active: UTime { sec: 10, nsec: 2 },
        last_epoch_clean: 9,
        blocked_by: vec![1, 2],
    }
}

#[test]
fn between_daemons() {
    let addr = EntityAddr::msgr2("10.0.0.1:6800".parse().expect("an address"), 77);
    comes_back!(
        OsdBoot,
        OsdBoot {
            fsid: Fsid([1; 16]),
            osd: 3,
            uuid: [2; 16],
            addrs: EntityAddrVec(vec![addr]),
            total_bytes: 1 << 42,
            metadata: words(&[("arch", "x86_64")]),
            newest_map: 40,
            cluster_addrs: EntityAddrVec(vec![EntityAddr::msgr2("10.1.0.0:6801".parse().expect("an address"), 77)]),
        }
    );
    let space = Space { total: 1, available: 2, data: 3, omap: 4, meta: 5 };
    let notes = vec![("OSD_SLOW".to_owned(), "a disk is slow".to_owned())];
    let pgs = vec![report(), PgReport::default()];
    let images = vec![ImageFigures {
        pool: 2,
        nspace: Bytes::from_static(b"ns"),
        image: Bytes::from_static(b"10226b8b4567"),
        write_ops: 1,
        read_ops: 2,
        write_bytes: 3,
        read_bytes: 4,
        write_nanos: 5,
        read_nanos: 6,
    }];
    let options = vec![OptionInForce { name: "osd_memory_target".into(), value: "1".into(), source: "host".into() }];
    comes_back!(
        OsdReport,
        OsdReport {
            osd: 3,
            epoch: 41,
            space,
            full: true,
            commit_latency_us: 5,
            apply_latency_us: 6,
            slow_ops: 7,
            slow_oldest: 31,
            notes,
            pgs,
            images,
            options
        }
    );
    let key = ServiceKey { secret_id: 9, key: [3; 16], created: UTime { sec: 1, nsec: 2 }, expires: UTime { sec: 3, nsec: 4 } };
    comes_back!(ServiceKeys, ServiceKeys { keys: vec![key; 3] });
    comes_back!(OsdDown, OsdDown { osd: 3, epoch: 41 });
    comes_back!(OsdAlive, OsdAlive { osd: 3, epoch: 41, want: 40 });
    let wishes = vec![(PgId::new(4, 7), vec![3, 1]), (PgId::new(4, 8), vec![])];
    comes_back!(PgTempWish, PgTempWish { osd: 3, epoch: 41, wishes });
    let failed = vec![Failure { osd: 2, up_from: 30, refused: true, silent_ms: 3500, recovered: false }];
    comes_back!(OsdFailures, OsdFailures { osd: 3, epoch: 41, failed });
    comes_back!(Beat, Beat { fsid: Fsid([7; 16]), osd: 2, epoch: 9, stamp: 123_456_789, lease: 2_000, answer: true });
    comes_back!(OsdInstruct, OsdInstruct { json: r#"{"prefix":"scrub","pgid":"1.0","deep":false}"#.into() });
}

#[test]
fn between_monitors() {
    let addr = EntityAddr::msgr2("10.0.0.1:6800".parse().expect("an address"), 77);
    let addrs = EntityAddrVec(vec![addr]);
    comes_back!(VoterSays, VoterSays { payload: Bytes::from_static(b"vote") });
    let front = Bytes::from_static(b"front");
    let head = Carried { kind: 50, tid: 7, priority: 127, version: 1, compat: 1, front };
    let mut name: types::EntityName = "client.admin".parse().expect("a name");
    for caps in [None, Some("allow r".to_owned())] {
        let sender = Sender { session: 9, name, kind: 8, global_id: 4123, addr, features: 5, caps };
        let data = Rope::from(Bytes::from_static(b"data"));
        comes_back!(ToLeader, ToLeader { sender: sender.clone(), head: head.clone(), data });
        name = sender.name;
    }
    comes_back!(FromLeader, FromLeader { session: 9, index: 10, head, data: Rope::new() });
    comes_back!(SessionOver, SessionOver { session: 9 });
    let hello = MonHello {
        fsid: Fsid([7; 16]),
        name: "b".into(),
        voter: 99,
        addrs: addrs.clone(),
        mgr_name: "b".into(),
        mgr_addrs: addrs,
        metadata: words(&[("hostname", "h")]),
        joins: true,
        life: 5,
        ids_end: 6,
    };
    comes_back!(MonHello, hello);
    comes_back!(MonRefused, MonRefused { why: "the name is taken".into() });
    comes_back!(MonClock, MonClock { round: 4, name: "b".into(), at: types::UTime { sec: 5, nsec: 6 } });
}

#[test]
fn with_the_manager() {
    let service = ServiceStatus { metadata: words(&[("id", "a")]), status: words(&[("state", "up")]) };
    let config = Bytes::from_static(b"config");
    comes_back!(
        MgrOpen,
        MgrOpen {
            daemon_name: "a".into(),
            service_name: "rbd-mirror".into(),
            service: Some(service),
            config: config.clone(),
            config_defaults: Bytes::new(),
        }
    );
    comes_back!(
        MgrConfigure,
        MgrConfigure { stats_period: 5, stats_threshold: 8, queries: Bytes::from_static(MgrConfigure::NO_QUERIES) }
    );
    let counter = CounterType {
        path: "osd.op".into(),
        description: "operations".into(),
        nick: "ops".into(),
        kind: 10,
        priority: 5,
        unit: 1,
    };
    comes_back!(
        MgrReport,
        MgrReport {
            daemon_name: "a".into(),
            declare: vec![counter],
            packed: Bytes::from_static(&[1, 2, 3]),
            undeclare: vec!["osd.old".into()],
            service_name: "rgw".into(),
            status: Some(words(&[("state", "up")])),
            health: vec![HealthMetric { kind: 1, value: 2 }],
            config,
            metrics: Bytes::from_static(&[0; 5]),
        }
    );
    comes_back!(MgrClose, MgrClose { daemon_name: "a".into(), service_name: "rgw".into() });
}

#[test]
fn the_rest() {
    comes_back!(Statfs, Statfs { version: 4, fsid: Fsid([7; 16]), pool: Some(12) });
    let begin = HObject::head(Bytes::from_static(b"o"), &Locator::pool(2));
    comes_back!(
        Backoff,
        Backoff { pg: SpgId::whole(PgId::new(2, 5)), epoch: 9, op: backoff_op::BLOCK, id: 1, begin, end: HObject::end() }
    );
}
