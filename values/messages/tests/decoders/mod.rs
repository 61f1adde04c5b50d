//! Decoders of all messages and payloads: a new one is added here, and is tried with random bytes by the tests beside and with
//! better ones by `tools/fuzz`.

#![allow(dead_code)]

use denc::Decode;
use messages::{class, internal, mgr, mon, ops, osd, quorum, scrub, stats};
use types::Message;

macro_rules! decoders {
    ($($message:ty),* $(,)?) => {
        /// Kind, newest version and decoder of every message.
        #[allow(clippy::type_complexity)]
        pub(crate) const MESSAGES: &[(u16, u16, fn(&Message) -> Option<Message>)] =
            &[$((<$message>::KIND, <$message>::VERSION, |m| <$message>::decode(m).ok().map(|decoded| decoded.encode()))),*];

        /// The empty message of every kind, as encoded.
        pub(crate) fn empty() -> Vec<Message> {
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
    internal::Beat,
    internal::OsdInstruct,
    quorum::VoterSays,
    quorum::ToLeader,
    quorum::FromLeader,
    quorum::SessionOver,
    quorum::MonHello,
    quorum::MonRefused,
    quorum::MonClock,
);

macro_rules! payloads {
    ($($payload:ty),* $(,)?) => {
        /// Decodes bytes as every kind of payload.
        pub(crate) fn decode_payloads(bytes: &[u8]) {
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
    scrub::InconsistentObject,
    scrub::InconsistentSnapset,
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
pub(crate) fn exercise(m: &Message) {
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
