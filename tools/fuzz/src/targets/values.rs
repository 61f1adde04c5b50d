//! Messages, payloads, maps, capabilities.

#[path = "../../../../values/messages/tests/decoders/mod.rs"]
mod decoders;

use super::{PLAIN, samples};
use crate::Target;
use bytes::Bytes;
use denc::{Decode, Encode};
use maps::{Incremental, MgrMap, MonMap, OsdMap};
use messages::mon::OsdMapMsg;
use std::collections::BTreeSet;
use std::sync::OnceLock;
use types::{Message, PgId, Rope};

pub(super) fn targets() -> Vec<Target> {
    vec![
        Target { name: "message", run: message, seeds: message_seeds, slack: PLAIN },
        Target { name: "payload", run: decoders::decode_payloads, seeds: payload_seeds, slack: PLAIN },
        Target { name: "osdmap", run: osdmap, seeds: || map_seeds().0, slack: PLAIN },
        Target { name: "incremental", run: incremental, seeds: || map_seeds().1, slack: PLAIN },
        Target { name: "monmap", run: round::<MonMap>, seeds: || samples(|k| k == "MonMap"), slack: PLAIN },
        Target { name: "mgrmap", run: round::<MgrMap>, seeds: || samples(|k| k == "MgrMap"), slack: PLAIN },
        Target { name: "crush", run: crush, seeds: crush_seeds, slack: PLAIN },
        Target { name: "caps", run: caps, seeds: caps_seeds, slack: PLAIN },
        Target { name: "profile", run: profile, seeds: profile_seeds, slack: PLAIN },
    ]
}

/// Kind of a message by its place in the table, length of its front, bytes of front and data.
fn message(bytes: &[u8]) {
    let Some(([which, low, high], rest)) = bytes.split_first_chunk() else { return };
    let (kind, version, _) = decoders::MESSAGES[usize::from(*which) % decoders::MESSAGES.len()];
    let (front, data) = rest.split_at(usize::from(u16::from_le_bytes([*low, *high])).min(rest.len()));
    let (front, data) = (Bytes::copy_from_slice(front), Rope::from(Bytes::copy_from_slice(data)));
    decoders::exercise(&Message { kind, version, compat: 1, front, data, ..Message::default() });
}

/// As [`message`] reads it; `None` if its kind is not known.
fn as_input(m: &Message) -> Option<Vec<u8>> {
    let which = decoders::MESSAGES.iter().position(|(kind, ..)| *kind == m.kind)?;
    let len = u16::try_from(m.front.len()).ok()?.to_le_bytes();
    Some([&[which as u8][..], &len, &m.front, &m.data.to_vec()].concat())
}

/// Recorded messages: a few of each kind and length.
fn recorded() -> &'static [Message] {
    static ALL: OnceLock<Vec<Message>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut seen = BTreeSet::new();
        let mut all = Vec::new();
        for (_, bytes) in recordings::recordings() {
            for m in recordings::parse(&bytes).messages.into_iter().map(|seen| seen.message) {
                if m.front.len() + m.data.len() < 20_000 && seen.insert((m.kind, m.front.len() / 16, m.data.len().min(64) / 16)) {
                    all.push(m);
                }
            }
        }
        all
    })
}

fn message_seeds() -> Vec<Vec<u8>> {
    let empty = decoders::empty();
    recorded().iter().chain(&empty).filter_map(as_input).collect()
}

fn payload_seeds() -> Vec<Vec<u8>> {
    let mut all =
        samples(|kind| ["cls_", "obj_", "object_", "pg_", "lock", "watch", "rados", "Snap"].iter().any(|p| kind.starts_with(p)));
    for m in recorded().iter().filter(|m| m.kind == messages::osd::OsdOp::KIND) {
        if let Ok(op) = messages::osd::OsdOp::decode(m) {
            all.extend(op.ops.iter().filter(|op| !op.input.is_empty() && op.input.len() < 5000).map(|op| op.input.to_vec()));
        }
    }
    all
}

/// What decodes must encode and decode to the same bytes again.
fn round<T: Decode + Encode>(bytes: &[u8]) {
    if let Ok(value) = T::from_bytes(bytes) {
        let again = value.to_vec();
        let twice = T::from_bytes(&again).expect("what was encoded here decodes here");
        assert!(twice.to_vec() == again, "an encoding that changes");
    }
}

fn osdmap(bytes: &[u8]) {
    round::<OsdMap>(bytes);
    let Ok(map) = OsdMap::from_bytes(bytes) else { return };
    for (id, pool) in map.pools.iter().take(3) {
        for seed in 0..pool.pg_num.min(2) {
            let placed = map.compute_up_acting(PgId::new(*id, seed));
            assert!(placed.acting.len() <= 1000);
        }
    }
}

fn incremental(bytes: &[u8]) {
    round::<Incremental>(bytes);
    static BASE: OnceLock<Vec<OsdMap>> = OnceLock::new();
    let bases = BASE.get_or_init(|| map_seeds().0.iter().filter_map(|b| OsdMap::from_bytes(b).ok()).take(3).collect());
    let Ok(inc) = Incremental::from_bytes(bytes) else { return };
    for base in bases {
        // Whatever the increment was made for: here it comes next.
        let inc = Incremental { epoch: base.epoch + 1, fsid: base.fsid, ..inc.clone() };
        let _ = base.apply(&inc);
    }
}

/// Full maps and increments, recorded and sampled.
fn map_seeds() -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let mut full = samples(|kind| kind == "OSDMap");
    let mut changes = samples(|kind| kind == "OSDMap::Incremental");
    for m in recorded().iter().filter(|m| m.kind == OsdMapMsg::KIND) {
        let Ok(maps) = OsdMapMsg::decode(m) else { continue };
        full.extend(maps.full.values().map(|b| b.to_vec()));
        changes.extend(maps.incremental.values().map(|b| b.to_vec()));
    }
    for all in [&mut full, &mut changes] {
        all.sort_by_key(Vec::len);
        all.dedup();
        all.truncate(60);
    }
    (full, changes)
}

fn crush(bytes: &[u8]) {
    round::<crush::Map>(bytes);
    let Ok(map) = crush::Map::from_bytes(bytes) else { return };
    let weights = vec![0x1_0000; 16];
    if let Some(rule) = map.rules.iter().position(Option::is_some) {
        assert!(map.place(rule as u32, 7, 3, &weights, None).len() <= 3);
    }
}

fn crush_seeds() -> Vec<Vec<u8>> {
    let mut all = samples(|kind| kind == "CrushWrapper");
    all.extend(map_seeds().0.iter().filter_map(|b| OsdMap::from_bytes(b).ok()).map(|map| map.crush.to_vec()).take(5));
    all
}

fn caps(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(caps) = caps::MonCaps::parse(text) {
        let _ = (caps.is_allow_all(), caps.allows("osd", true, true, false));
    }
    let _ = caps::MgrCaps::parse(text);
    if let Ok(caps) = caps::OsdCaps::parse(text) {
        let _ = caps.is_allow_all();
    }
}

fn caps_seeds() -> Vec<Vec<u8>> {
    let texts = [
        "allow *",
        "allow rw pool=p",
        "allow r, allow command \"osd pool create\" with pool=x pool_type regex \"re.*\"",
        "profile rbd pool=a namespace=b, profile osd",
        "allow class-read object_prefix rbd_children, allow rwx tag rbd *=*",
        "allow r network 10.0.0.0/8, deny w",
        "allow class rbd method x pool=\"quoted name\"",
        "allow service mon rwx",
    ];
    texts.map(|t| t.as_bytes().to_vec()).into()
}

/// Words of an erasure code's profile, as somebody types them; the first byte says whether they are forced. What is
/// taken reads as itself again, and has a code that encodes and decodes.
fn profile(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    let defaults = "plugin=jerasure technique=reed_sol_van k=2 m=2";
    let parsed = ec::merge(defaults, text.split(' ')).and_then(|pairs| ec::Profile::parse(pairs, first & 1 != 0));
    let Ok(profile) = parsed else { return };
    assert_eq!(ec::Profile::parse(profile.pairs.clone(), true).as_ref(), Ok(&profile));
    let row = profile.stripe_width(4096);
    assert!(row >= profile.k as u64 && profile.min_size() <= profile.k + profile.m);
    assert!(ec::chunk_for(Some(row), profile.k, 64 << 10, profile.chunk_step().expect("it was checked")).is_multiple_of(4096));
    let code = profile.code();
    if code.grain() > 4096 {
        return;
    }
    let data = vec![vec![*first; code.grain()]; code.k()];
    let inputs: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let mut space = vec![vec![0; code.grain()]; code.m()];
    code.encode(&inputs, &mut space.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
    let have: Vec<usize> = (1..=code.k()).collect();
    let inputs: Vec<&[u8]> = data.iter().chain(&space).skip(1).take(code.k()).map(Vec::as_slice).collect();
    let mut back = vec![0; code.grain()];
    code.recover(&have, &[0]).expect("enough").apply(&inputs, &mut [&mut back], false);
    assert_eq!(back, data[0]);
}

fn profile_seeds() -> Vec<Vec<u8>> {
    let recorded = include_str!("../../../../values/ec/testdata/profiles.txt").lines();
    recorded.filter_map(|line| line.split('\t').next()).map(|words| [b"\0", words.as_bytes()].concat()).collect()
}
