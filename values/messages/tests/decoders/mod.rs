//! Decoders of all messages and payloads: a new one is added here, and is tried with random bytes by the tests beside
//! and with better ones by `tools/fuzz`.

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
    class::two_phase::AbortOp,
    class::two_phase::CommitOp,
    class::two_phase::ExpireOp,
    class::two_phase::ReservationsReply,
    class::two_phase::ReserveOp,
    class::two_phase::ReserveReply,
    class::two_phase::Reservation,
    class::two_phase::Urgent,
    class::queue::Entry,
    class::queue::CapacityReply,
    class::queue::Head,
    class::queue::InitOp,
    class::queue::ListOp,
    class::queue::ListReply,
    class::queue::Marker,
    class::queue::RemoveOp,
    class::rgw::gc::DeferOp,
    class::rgw::gc::ListOp,
    class::rgw::gc::ListReply,
    class::rgw::gc::Info,
    class::rgw_gc::InitOp,
    class::rgw::gc::RemoveOp,
    class::rgw::gc::SetOp,
    class::rgw_gc::Urgent,
    class::rgw::lc::Entry,
    class::rgw::lc::EntryOp,
    class::rgw::gc::Object,
    class::rgw::gc::Chain,
    class::rgw::reshard::AddOp,
    class::rgw::reshard::Entry,
    class::rgw::reshard::GetOp,
    class::rgw::reshard::ListOp,
    class::rgw::reshard::ListReply,
    class::rgw::reshard::RemoveOp,
    class::fifo::CreateMeta,
    class::fifo::EntryHeader,
    class::fifo::GetMeta,
    class::fifo::GetMetaReply,
    class::fifo::Info,
    class::fifo::Version,
    class::fifo::Params,
    class::rgw::usage::AddOp,
    class::rgw::usage::ReadOp,
    class::rgw::usage::ReadReply,
    class::rgw::usage::TrimOp,
    class::rgw::usage::Entry,
    class::rgw::usage::Entries,
    class::rgw::usage::UserBucket,
    class::queue::EnqueueOp,
    class::rgw_gc::DeferOp,
    class::rgw_gc::RemoveOp,
    class::rgw::lc::GetReply,
    class::rgw::lc::MarkerOp,
    class::rgw::lc::HeadOp,
    class::rgw::lc::ListOp,
    class::rgw::lc::ListReply,
    class::fifo::UpdateMeta,
    class::fifo::InitPart,
    class::fifo::PushPart,
    class::fifo::TrimPart,
    class::fifo::ListPart,
    class::fifo::ListPartReply,
    class::fifo::PartInfoReply,
    class::fifo::EntryPrefix,
    class::otp::SetOp,
    class::otp::CheckOp,
    class::otp::ResultReply,
    class::otp::RemoveOp,
    class::otp::GetOp,
    class::otp::GetReply,
    class::otp::TimeReply,
    class::otp::Header,
    class::otp::Instance,
    class::cmpomap::CompareOp,
    class::cmpomap::RemoveOp,
    class::rgw::index::Dir,
    class::rgw::index::DirEntry,
    class::rgw::index::DirHeader,
    class::rgw::index::EntryVer,
    class::rgw::index::LogEntry,
    class::rgw::index::Meta,
    class::rgw::index::ObjKey,
    class::rgw::index::OlhEntry,
    class::rgw::index::OlhLogEntry,
    class::rgw::index::Pending,
    class::rgw::index::RawEntry,
    class::rgw::index::Resharding,
    class::rgw::index::Stats,
    class::rgw::index::ZoneSet,
    class::rgw::index_ops::CheckAttrsOp,
    class::rgw::index_ops::CheckIndexReply,
    class::rgw::index_ops::CheckMtimeOp,
    class::rgw::index_ops::ClearOlhOp,
    class::rgw::index_ops::CompleteOp,
    class::rgw::index_ops::GuardOp,
    class::rgw::index_ops::LinkOlhOp,
    class::rgw::index_ops::ListOp,
    class::rgw::index_ops::ListReply,
    class::rgw::index_ops::LogListOp,
    class::rgw::index_ops::LogListReply,
    class::rgw::index_ops::LogTrimOp,
    class::rgw::index_ops::Nothing,
    class::rgw::index_ops::PrepareOp,
    class::rgw::index_ops::RawGetOp,
    class::rgw::index_ops::RawGetReply,
    class::rgw::index_ops::RawListOp,
    class::rgw::index_ops::RawListReply,
    class::rgw::index_ops::RawPutOp,
    class::rgw::index_ops::ReadOlhLogOp,
    class::rgw::index_ops::ReadOlhLogReply,
    class::rgw::index_ops::RemoveOp,
    class::rgw::index_ops::ReshardingStatus,
    class::rgw::index_ops::StorePgVerOp,
    class::rgw::index_ops::TagTimeoutOp,
    class::rgw::index_ops::TrimOlhLogOp,
    class::rgw::index_ops::UnlinkInstanceOp,
    class::rgw::upload_part::Manifest,
    class::rgw::upload_part::UpdatePartOp,
    class::rgw::upload_part::UploadPart,
    class::rgw::index_ops::UpdateStatsOp,
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
