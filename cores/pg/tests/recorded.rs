//! What a real release 16.2 OSD answered to stock clients is what these groups answer: the recorded requests, in the
//! order in which they were sent, with the maps of then. Versions are not compared, because the cluster also served requests
//! that were not recorded; results, outputs, flags and arguments are, to the last byte.

mod bench;

use bench::Bench;
use bytes::Bytes;
use denc::Decode;
use maps::{Incremental, OsdMap};
use messages::mon::OsdMapMsg;
use messages::osd::{OpArgs, OsdOp, OsdOpReply, code};
use pg::Peer;
use recordings::{Client, Recording, Seen};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use types::{EntityName, EntityType, Fsid, PoolId, SessionId, UTime};

/// Replies that must be the same, at least. It grows when classes are added.
const SAME: usize = 5_500;

/// Recordings with differences that are not ours, and why.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("watch_kill", "the watched object was made before the recording"),
    ("rados_ls", "the object `big` was made by a command whose recording is too large to be kept"),
    ("rados_ls_all", "the same"),
    ("rados_rm_force", "the same"),
    ("rados_cleanup", "the benchmark whose objects it removes is too large to be kept"),
    ("rados_purge", "objects were made before the recording"),
    ("rados_stat2", "an earlier write is not recorded"),
    ("rados_watch_notify", "the number of a notification is the OSD's own"),
    ("rbd_clone_read", "objects were filled by the class `rbd`"),
    ("rbd_rm_clone", "the same"),
    ("rbd_rename", "the image was made by a command whose recording is too large to be kept"),
    ("fio_rbd_write", "the same"),
    ("fio_rbd_fsync", "the same"),
    ("fio_rbd_trim", "the same"),
    ("rbd_export_v2", "the real OSD was in the middle of trimming"),
    ("py_rbd", "the time of a snapshot is that of our clock"),
    ("qemu_io", "the same"),
    ("rbd_snap_ls", "the same"),
    ("ec_rbd_create", "the replay has no groups for its pool: what it asks gets no answer"),
    ("ec_rbd_rd", "the image was written by a command whose recording is too large to be kept"),
    ("rbd_pool_stats", "one of the images was made by such a command"),
    ("ceph_auth_gok", "it has no map of its own, and the map of the recording before lacks its pool"),
];

fn fsid(recording: &Recording) -> Option<Fsid> {
    let maps = recording.messages.iter().find(|seen| seen.message.kind == OsdMapMsg::KIND)?;
    Some(OsdMapMsg::decode(&maps.message).expect("a map message").fsid)
}

/// The recordings with OSD maps, by cluster and in the order in which the clients got their numbers.
fn in_order() -> Vec<(String, Recording)> {
    let mut all: Vec<(String, Recording)> =
        recordings::recordings().into_iter().map(|(name, bytes)| (name, recordings::parse(&bytes))).collect();
    all.retain(|(_, r)| fsid(r).is_some());
    all.sort_by_key(|(_, r)| (fsid(r), r.clients.iter().map(|c| c.global_id).max()));
    all
}

/// The map as a bench without peers can serve it.
fn alone(map: &OsdMap) -> OsdMap {
    let mut map = map.clone();
    map.set_max_osd(0);
    map.pg_temp.clear();
    map.primary_temp.clear();
    map.pg_upmap.clear();
    map.pg_upmap_items.clear();
    for pool in map.pools.values_mut() {
        (pool.size, pool.min_size) = (1, 0);
    }
    map.forget_placements();
    map
}

#[derive(Default)]
struct Replay {
    bench: Option<Bench>,
    /// The map of then. The bench has it as if it had one OSD of no number and everything lay there.
    map: OsdMap,
    fsid: Option<Fsid>,
    sessions: u64,
    /// Objects that are not what they were: a class that is not built in changed them.
    unknown: BTreeSet<(PoolId, Bytes)>,
    same: usize,
    differences: BTreeMap<String, Vec<String>>,
}

impl Replay {
    fn take_maps(&mut self, seen: &Seen) {
        let message = OsdMapMsg::decode(&seen.message).expect("a map message");
        let full = message.full.values().next_back().map(|bytes| OsdMap::from_bytes(bytes).expect("a map"));
        if self.fsid != Some(message.fsid) {
            let Some(map) = full else { return };
            let mut bench = Bench::empty(alone(&map));
            self.map = map;
            bench.create_all();
            (self.bench, self.fsid) = (Some(bench), Some(message.fsid));
            self.unknown.clear();
            return;
        }
        let Some(bench) = &mut self.bench else { return };
        let mut map = full.unwrap_or_else(|| self.map.clone());
        for (epoch, bytes) in &message.incremental {
            if *epoch == map.epoch + 1 {
                let step = Incremental::from_bytes(bytes).expect("an incremental");
                map = map.apply(&step).unwrap_or(map);
            }
        }
        if map.epoch > bench.map.epoch {
            bench.map = Arc::new(alone(&map));
            self.map = map;
            bench.announce_map();
            bench.create_all();
        }
    }

    fn recording(&mut self, name: &str, recording: &Recording) {
        let replies = recording.messages.iter().filter(|m| !m.from_client && m.message.kind == OsdOpReply::KIND);
        let replies: BTreeMap<(usize, u64), OsdOpReply> = replies
            .map(|seen| ((seen.connection, seen.message.tid), OsdOpReply::decode(&seen.message).expect("a reply")))
            .collect();
        let first = self.sessions;
        self.sessions += recording.clients.len() as u64;
        for seen in &recording.messages {
            match seen.message.kind {
                OsdMapMsg::KIND => self.take_maps(seen),
                OsdOp::KIND => {
                    let Some(wanted) = replies.get(&(seen.connection, seen.message.tid)) else { continue };
                    let session = SessionId(100 + first + seen.connection as u64);
                    self.request(name, seen, recording.clients[seen.connection], session, wanted);
                }
                _ => {}
            }
        }
        let Some(bench) = &mut self.bench else { return };
        for id in bench.pgs.keys().copied().collect::<Vec<_>>() {
            for session in first..self.sessions {
                bench.with(id, |pg, ctx| pg.session_closed(ctx, SessionId(100 + session)));
            }
        }
        // Time for trimming.
        bench.pass(std::time::Duration::from_millis(500));
    }

    fn request(&mut self, name: &str, seen: &Seen, client: Client, session: SessionId, wanted: &OsdOpReply) {
        let Some(bench) = &mut self.bench else { return };
        let op = OsdOp::decode(&seen.message).expect("a request");
        if bench.map.pool(op.locator.pool).is_none_or(|pool| pool.is_erasure()) {
            return;
        }
        let (kind, global_id) = (EntityType::Client, client.global_id);
        let peer = Peer { name: EntityName::new(kind, "admin"), kind, global_id, addr: client.addr };
        bench.now.wall = UTime::from_nanos((seen.time * 1e9) as u64);
        let from = bench.sent.len();
        bench.deliver(session, Arc::new(peer), seen.message.tid, op.clone());
        bench.settle();
        let object = (op.locator.pool, op.oid.clone());
        if !known_classes(&op) {
            if needs_unknown_write(&op) {
                self.unknown.insert(object);
            }
            return;
        }
        if self.unknown.contains(&object) {
            return;
        }
        let mut replies = bench.sent[from..].iter().rev().filter(|(s, m)| *s == session && m.kind == OsdOpReply::KIND);
        let got = replies.find(|(_, m)| m.tid == seen.message.tid).map(|(_, m)| OsdOpReply::decode(m).expect("a reply"));
        if got.as_ref().is_some_and(|got| comparable(got) == comparable(wanted)) {
            self.same += 1;
            return;
        }
        let text = format!("{}\n  got  {got:?}\n  want {wanted:?}", op.oid.escape_ascii());
        self.differences.entry(name.into()).or_default().push(text);
        // One difference is told once, not again with everything that follows from it.
        self.unknown.insert(object);
    }
}

fn known_classes(op: &OsdOp) -> bool {
    op.ops.iter().filter(|o| o.code == code::CALL).all(|o| {
        let call = o.class_call().expect("a call");
        matches!(classes::find(call.class, call.method), classes::Lookup::Found(_))
    })
}

fn needs_unknown_write(op: &OsdOp) -> bool {
    op.flags & code::flags::WRITE != 0 || op.ops.iter().any(|o| code::writes(o.code))
}

/// Without what depends on requests that were not recorded, and on fields of calls that no client reads.
fn comparable(reply: &OsdOpReply) -> OsdOpReply {
    let mut reply = OsdOpReply { replay_version: Default::default(), user_version: 0, epoch: 0, ..reply.clone() };
    // A notification's number is the OSD's own.
    reply.ops.iter_mut().filter(|op| op.code == code::NOTIFY).for_each(|op| op.output = types::Rope::new());
    for op in reply.ops.iter_mut().filter(|op| op.code == code::CALL) {
        // An image's three times, whose methods have names of one length, are those of our clock.
        let time = match &op.args {
            OpArgs::Call { class_len, method_len, .. } => (*class_len, *method_len) == (3, 20),
            OpArgs::Raw(raw) => raw[..2] == [3, 20],
            _ => false,
        };
        if time {
            op.output = types::Rope::new();
        }
        op.args = OpArgs::None;
    }
    reply
}

#[test]
fn recorded_requests_get_the_recorded_answers() {
    let mut replay = Replay::default();
    for (name, recording) in in_order() {
        replay.recording(&name, &recording);
    }
    for (name, _) in EXCEPTIONS {
        replay.differences.remove(*name);
    }
    for (name, texts) in &replay.differences {
        println!("{name}: {} differences, first: {}", texts.len(), texts[0]);
    }
    assert!(replay.differences.is_empty(), "{} recordings differ", replay.differences.len());
    println!("{} replies are the same", replay.same);
    assert!(replay.same >= SAME, "only {} replies were compared and the same", replay.same);
}
