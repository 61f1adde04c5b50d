//! Whatever bytes arrive, decoding ends with a value or an error; never with a panic or much memory.

use bytes::Bytes;
use denc::Decode;
use messages::{class, internal, mgr, mon, ops, osd, stats};
use proptest::prelude::*;
use types::{Message, Rope};

macro_rules! decoders {
    ($($message:ty),* $(,)?) => {
        /// Kind, newest version and decoder of every message.
        #[allow(clippy::type_complexity)]
        const MESSAGES: &[(u16, u16, fn(&Message) -> Option<Message>)] =
            &[$((<$message>::KIND, <$message>::VERSION, |m| <$message>::decode(m).ok().map(|decoded| decoded.encode()))),*];

        /// The empty message of every kind, as encoded.
        fn empty() -> Vec<Message> {
            vec![$(<$message>::default().encode()),*]
        }
    };
}

decoders!(
    mon::MonGetMap,
    mon::MonMapMsg,
    mon::MonSubscribe,
    mon::ConfigMsg,
    mon::MgrMapMsg,
    mon::OsdMapMsg,
    mon::MonCommand,
    mon::MonCommandAck,
    mon::Command,
    mon::CommandReply,
    mon::MgrCommand,
    mon::MgrCommandReply,
    mon::MonGetVersion,
    mon::MonGetVersionReply,
    mon::Statfs,
    mon::StatfsReply,
    mon::GetPoolStats,
    mon::GetPoolStatsReply,
    mon::PoolOp,
    mon::PoolOpReply,
    mon::Auth,
    mon::AuthReply,
    mon::Ping,
    mon::LogMsg,
    mgr::MgrOpen,
    mgr::MgrConfigure,
    mgr::MgrReport,
    mgr::MgrClose,
    osd::OsdOp,
    osd::OsdOpReply,
    osd::Backoff,
    osd::WatchNotify,
    internal::OsdBoot,
    internal::OsdReport,
    internal::ServiceKeys,
    internal::OsdDown,
    internal::OsdInstruct,
);

macro_rules! payloads {
    ($($payload:ty),* $(,)?) => {
        /// Decodes bytes as every kind of payload.
        fn decode_payloads(bytes: &[u8]) {
            $(let _ = <$payload>::from_bytes(bytes);)*
        }
    };
}

payloads!(
    ops::Stat,
    ops::Pairs,
    ops::Extents,
    ops::OmapGetKeys,
    ops::OmapKeys,
    ops::OmapGetVals,
    ops::OmapVals,
    ops::Keys,
    ops::OmapRange,
    ops::OmapAssertions,
    ops::Notify,
    ops::NotifyAck,
    ops::NotifyReplies,
    ops::WatchList,
    ops::SnapList,
    ops::ListPage,
    ops::OldListPage,
    ops::ListFilter,
    ops::CopySource,
    ops::SnapContext,
    ops::ScrubList,
    ops::ScrubPage,
    stats::PoolStat,
    class::lock::LockOp,
    class::lock::UnlockOp,
    class::lock::BreakOp,
    class::lock::GetInfoOp,
    class::lock::LockInfo,
    class::lock::ListLocksReply,
    class::lock::AssertOp,
    class::lock::SetCookieOp,
    class::version::SetOp,
    class::version::IncOp,
    class::version::CheckOp,
    class::version::ReadReply,
    class::refcount::Refs,
    class::refcount::GetOp,
    class::refcount::PutOp,
    class::refcount::SetOp,
    class::refcount::ReadOp,
    class::refcount::ReadReply,
);

/// Decodes `m` as what it says it is; what decodes must encode and decode to the same again.
fn exercise(m: &Message) {
    let (_, _, decode) = MESSAGES.iter().find(|(kind, ..)| *kind == m.kind).expect("a known kind");
    if let Some(again) = decode(m) {
        let twice = decode(&again).expect("what was encoded here decodes here");
        assert_eq!((&again.front, &again.data), (&twice.front, &twice.data), "kind {:#x}", m.kind);
    }
    if let Ok(request) = osd::OsdOp::decode(&Message { kind: osd::OsdOp::KIND, ..m.clone() }) {
        for op in &request.ops {
            let _ = (op.name_value(), op.class_call());
            decode_payloads(&op.input);
        }
    }
}

/// A request with all that can be in one.
fn rich_request() -> Message {
    let mut op = osd::OsdOp { oid: Bytes::from_static(b"object"), snaps: vec![3, 2, 1], ..osd::OsdOp::default() };
    op.locator.nspace = Bytes::from_static(b"space");
    op.ops = vec![
        osd::Op::call("lock", "lock", &[1, 1, 0, 0, 0, 0]),
        osd::Op::xattr(osd::code::SETXATTR, b"name", b"value"),
        osd::Op::extent(osd::code::WRITE, 0, 3, &b"abc"[..]),
    ];
    op.encode()
}

#[test]
fn empty_messages_round_trip() {
    for m in empty() {
        let (kind, version, decode) = MESSAGES.iter().find(|(kind, ..)| *kind == m.kind).expect("a known kind");
        assert_eq!(m.version, *version, "kind {kind:#x}");
        assert_eq!(decode(&m).as_ref(), Some(&m), "kind {kind:#x}");
        assert!(messages::kind_name(*kind).is_some(), "kind {kind:#x} has no name");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_bytes(front in prop::collection::vec(any::<u8>(), 0..300), data in prop::collection::vec(any::<u8>(), 0..80)) {
        for (kind, version, _) in MESSAGES {
            let m = Message { kind: *kind, version: *version, compat: 1, front: front.clone().into(), data: Rope::from(data.clone()), ..Message::default() };
            exercise(&m);
        }
        decode_payloads(&front);
    }

    #[test]
    fn cut_and_flipped(which in 0..38usize, cut in any::<prop::sample::Index>(), flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)) {
        let mut all = empty();
        all.push(rich_request());
        let mut m = all[which].clone();
        let mut front = m.front.to_vec();
        if !front.is_empty() {
            for (at, value) in flips {
                let at = at.index(front.len());
                front[at] ^= value;
            }
            front.truncate(cut.index(front.len() * 2));
        }
        m.front = front.into();
        exercise(&m);
    }
}
