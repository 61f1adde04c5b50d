//! Messages that stock clients and a real 16.2 cluster exchanged decode completely and encode to the same bytes; so do
//! the inputs and outputs of the operations in them.

use bytes::Bytes;
use denc::{Decode, Encode};
use messages::osd::{OpResult, OsdOp, OsdOpReply};
use messages::{code, mgr, mon, ops, osd};
use recordings::Conversation;
use std::collections::BTreeMap;
use types::Message;

macro_rules! again {
    ($m:ident: $($message:ty),* $(,)?) => {
        match $m.kind {
            $(<$message>::KIND => Some(<$message>::decode($m).map(|decoded| decoded.encode())),)*
            _ => None,
        }
    };
}

/// Decodes and encodes a message; `None` if its kind is not known.
fn again(m: &Message) -> Option<denc::Result<Message>> {
    again!(m:
        mon::MonGetMap, mon::MonMapMsg, mon::MonSubscribe, mon::ConfigMsg, mon::MgrMapMsg, mon::OsdMapMsg, mon::MonCommand,
        mon::MonCommandAck, mon::Command, mon::CommandReply, mon::MgrCommand, mon::MgrCommandReply, mon::MonGetVersion,
        mon::MonGetVersionReply, mon::Statfs, mon::StatfsReply, mon::GetPoolStats, mon::GetPoolStatsReply, mon::PoolOp,
        mon::PoolOpReply, mon::Auth, mon::AuthReply, mon::Ping, mon::LogMsg, mgr::MgrOpen, mgr::MgrConfigure, mgr::MgrReport,
        mgr::MgrClose, osd::OsdOp, osd::OsdOpReply, osd::Backoff, osd::WatchNotify,
    )
}

#[derive(Default)]
struct Tally {
    by_kind: BTreeMap<u16, u32>,
    payloads: BTreeMap<String, u32>,
    foreign: BTreeMap<u16, u32>,
    group_versions: u32,
    wrong: Vec<String>,
}

/// Returns true if two replies that say -ENOENT differ in nothing but the version for very old clients: Ceph puts the
/// group's last version there, which no client of a supported release looks at.
fn differ_in_group_version(a: &Message, b: &Message) -> bool {
    let reply = OsdOpReply::decode(a).expect("decoded before");
    let at = 4 + reply.oid.len() + 17 + 8 + 4;
    let rest = |m: &Message| [&m.front[..at], &m.front[at + 12..]].concat();
    reply.result == types::Errno::ENOENT.wire() && rest(a) == rest(b) && a.data == b.data
}

impl Tally {
    fn message(&mut self, at: &str, m: &Message) {
        let Some(result) = again(m) else {
            *self.foreign.entry(m.kind).or_default() += 1;
            return;
        };
        let same = |n: &Message| {
            (n.version, n.compat, &n.front, &n.middle, &n.data) == (m.version, m.compat, &m.front, &m.middle, &m.data)
        };
        match result {
            Ok(n) if same(&n) => *self.by_kind.entry(m.kind).or_default() += 1,
            Ok(n) if m.kind == OsdOpReply::KIND && differ_in_group_version(m, &n) => self.group_versions += 1,
            Ok(n) => self.wrong.push(format!(
                "{at}: kind {:#x} v{}/{} -> v{}/{}\n  {:02x?}\n  {:02x?}",
                m.kind, m.version, m.compat, n.version, n.compat, m.front, n.front
            )),
            Err(e) => self.wrong.push(format!("{at}: kind {:#x} v{}: {e}: {:02x?}", m.kind, m.version, m.front)),
        }
    }

    fn payload<T: Decode + Encode>(&mut self, at: &str, what: &str, bytes: &[u8]) {
        match T::from_bytes(bytes) {
            Ok(value) if value.to_vec() == bytes => *self.payloads.entry(what.to_owned()).or_default() += 1,
            Ok(value) => self.wrong.push(format!("{at}: {what}: {:02x?} -> {:02x?}", bytes, value.to_vec())),
            Err(e) => self.wrong.push(format!("{at}: {what}: {e}: {bytes:02x?}")),
        }
    }

    fn input(&mut self, at: &str, op: &osd::Op) {
        use code::*;
        let (name, input) = (format!("{} in", op.name()), &op.input[..]);
        match op.code {
            OMAPGETKEYS => self.payload::<ops::OmapGetKeys>(at, &name, input),
            OMAPGETVALS => self.payload::<ops::OmapGetVals>(at, &name, input),
            OMAPSETVALS => self.payload::<ops::Pairs>(at, &name, input),
            OMAPGETVALSBYKEYS | OMAPRMKEYS => self.payload::<ops::Keys>(at, &name, input),
            NOTIFY => self.payload::<ops::Notify>(at, &name, input),
            NOTIFY_ACK => self.payload::<ops::NotifyAck>(at, &name, input),
            PGNLS => self.payload::<types::HObject>(at, &name, input),
            COPY_FROM | COPY_FROM2 => self.payload::<ops::CopySource>(at, &name, input),
            SCRUBLS => self.payload::<ops::ScrubList>(at, &name, input),
            GETXATTR | SETXATTR | CMPXATTR | RMXATTR => {
                let (key, value) = op.name_value().expect("an attribute's name and value");
                assert_eq!([key, value].concat(), op.input, "{at}: {name}");
                *self.payloads.entry(name).or_default() += 1;
            }
            CALL => self.call(at, op),
            _ => {}
        }
    }

    fn call(&mut self, at: &str, op: &osd::Op) {
        use messages::class::lock;
        let call = op.class_call().expect("class, method and input");
        let name = format!("{}.{} in", call.class.escape_ascii(), call.method.escape_ascii());
        match (call.class, call.method) {
            (b"lock", b"lock") => self.payload::<lock::LockOp>(at, &name, &call.input),
            (b"lock", b"unlock") => self.payload::<lock::UnlockOp>(at, &name, &call.input),
            (b"lock", b"break_lock") => self.payload::<lock::BreakOp>(at, &name, &call.input),
            (b"lock", b"get_info") => self.payload::<lock::GetInfoOp>(at, &name, &call.input),
            (b"lock", b"assert_locked") => self.payload::<lock::AssertOp>(at, &name, &call.input),
            (b"lock", b"set_cookie") => self.payload::<lock::SetCookieOp>(at, &name, &call.input),
            _ => *self.payloads.entry("call in".into()).or_default() += 1,
        }
    }

    fn output(&mut self, at: &str, request: &osd::Op, result: &OpResult) {
        use code::*;
        let output: Bytes = result.output.contiguous();
        let name = format!("{} out", request.name());
        if result.rval < 0 || output.is_empty() {
            return;
        }
        match result.code {
            STAT => self.payload::<ops::Stat>(at, &name, &output),
            GETXATTRS | OMAPGETVALSBYKEYS => self.payload::<ops::Pairs>(at, &name, &output),
            OMAPGETVALS => self.payload::<ops::OmapVals>(at, &name, &output),
            OMAPGETKEYS => self.payload::<ops::OmapKeys>(at, &name, &output),
            MAPEXT => self.payload::<ops::Extents>(at, &name, &output),
            LIST_WATCHERS => self.payload::<ops::WatchList>(at, &name, &output),
            LIST_SNAPS => self.payload::<ops::SnapList>(at, &name, &output),
            PGNLS => self.payload::<ops::ListPage>(at, &name, &output),
            SCRUBLS => self.payload::<ops::ScrubPage>(at, &name, &output),
            NOTIFY => self.payload::<u64>(at, &name, &output),
            SPARSE_READ => {
                let (extents, data) = ops::parse_sparse_read(&output).expect("extents and data");
                assert_eq!(ops::sparse_read(&extents, data.into()).to_vec(), output, "{at}: {name}");
                *self.payloads.entry(name).or_default() += 1;
            }
            CALL => {
                let call = request.class_call().expect("class, method and input");
                match (call.class, call.method) {
                    (b"lock", b"get_info") => {
                        self.payload::<messages::class::lock::GetInfoReply>(at, "lock.get_info out", &output);
                    }
                    (b"lock", b"list_locks") => {
                        self.payload::<messages::class::lock::ListLocksReply>(at, "lock.list_locks out", &output);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Inputs of the requests, and outputs of the answers to them.
    fn operations(&mut self, at: &str, talk: &Conversation) {
        let requests: BTreeMap<u64, OsdOp> = (talk.to_server.iter())
            .filter(|m| m.kind == OsdOp::KIND)
            .filter_map(|m| Some((m.tid, OsdOp::decode(m).ok()?)))
            .collect();
        for op in requests.values().flat_map(|request| &request.ops) {
            self.input(at, op);
        }
        for m in talk.to_client.iter().filter(|m| m.kind == OsdOpReply::KIND) {
            let (Ok(reply), Some(request)) = (OsdOpReply::decode(m), requests.get(&m.tid)) else { continue };
            for (op, result) in request.ops.iter().zip(&reply.ops) {
                self.output(at, op, result);
            }
        }
        for m in talk.to_client.iter().filter(|m| m.kind == osd::WatchNotify::KIND) {
            let Ok(event) = osd::WatchNotify::decode(m) else { continue };
            if event.event == code::watch_event::NOTIFY_COMPLETE {
                self.payload::<ops::NotifyReplies>(at, "notify complete", &event.replies.contiguous());
            }
        }
    }
}

#[test]
fn recorded_messages_round_trip() {
    let mut tally = Tally::default();
    for (name, recording) in recordings::recordings() {
        for talk in recordings::parse(&recording).conversations() {
            for m in talk.to_server.iter().chain(&talk.to_client) {
                tally.message(&name, m);
            }
            tally.operations(&name, &talk);
        }
    }
    let Tally { by_kind, payloads, foreign, group_versions, wrong } = tally;
    assert!(wrong.is_empty(), "{} differ, the first:\n{}", wrong.len(), wrong[..wrong.len().min(8)].join("\n"));
    assert!(foreign.is_empty(), "kinds that are not known: {foreign:x?}");
    // What the recordings hold: fewer means that they were not read.
    let least = [(4, 1484), (15, 1440), (41, 361), (42, 7729), (44, 409), (50, 234), (51, 234), (0x704, 337)];
    for (kind, n) in least {
        assert!(by_kind.get(&kind) >= Some(&n), "kind {kind:#x}: {:?} of {n} seen", by_kind.get(&kind));
    }
    assert!(by_kind.len() >= 25, "{by_kind:?}");
    assert!(by_kind.get(&OsdOpReply::KIND) >= Some(&7693) && group_versions == 27, "{by_kind:?}, {group_versions}");
    assert!(payloads.len() >= 32 && payloads.values().sum::<u32>() >= 5000, "{payloads:?}");
}
