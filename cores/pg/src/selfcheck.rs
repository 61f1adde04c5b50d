//! What the simulator looks at: the words for "this does not hold", what a store's records say, and mistakes that are
//! put in on purpose.
//!
//! What always holds is said by each owner: `core/invariants.rs`, `primary/invariants.rs`, `pg/invariants.rs`. The
//! simulator asks after every turn; nobody else pays for it.

/// Refuses with a sentence unless `$holds`.
macro_rules! holds {
    ($holds:expr, $($text:tt)*) => {
        if !$holds {
            return Err(format!($($text)*));
        }
    };
}
pub(crate) use holds;

/// The version of an object's last change, as a store's record of the object says; `None` if it is no record.
#[cfg(feature = "sim")]
pub fn version_in(record: &[u8]) -> Option<types::EVersion> {
    crate::info::ObjectInfo::decode(record).ok().map(|info| info.version)
}

/// Returns whether an object is counted as having an omap, as a store's record of it says; `None` if it is no record.
#[cfg(feature = "sim")]
pub fn omap_in(record: &[u8]) -> Option<bool> {
    crate::info::ObjectInfo::decode(record).ok().map(|info| info.omap)
}

/// Returns what a store's record of an object in shards says of it: version, bytes of the object, bytes of a chunk; `None` if it is no such
/// record.
#[cfg(feature = "sim")]
pub fn shards_in(record: &[u8]) -> Option<(types::EVersion, u64, u64)> {
    let info = crate::info::ObjectInfo::decode(record).ok()?;
    Some((info.version, info.size?, info.layout?.chunk))
}

/// Returns what a group of this pool notes with this key: which object's head it changed, by which version, and
/// whether that removed it. `None` if it notes something else.
#[cfg(feature = "sim")]
pub fn change_in(pool: types::PoolId, key: &[u8], value: &[u8]) -> Option<(types::HObject, types::EVersion, bool)> {
    if key.first() != Some(&crate::meta::LOG) {
        return None;
    }
    let entry = crate::entry::LogEntry::decode(value, pool).ok()?;
    let removed = match entry.kind {
        crate::entry::Kind::Delete => true,
        crate::entry::Kind::Modify => false,
        _ => return None,
    };
    Some(((*entry.object).clone(), entry.done.version, removed))
}

/// A mistake of a group's copies that the simulator must find.
#[cfg(feature = "sim")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A group whose place names an OSD twice is sent home, though it cannot stay there.
    GoHomeTwice,
    /// A group that has too few members to serve wants to be woken for watches that it does not look at.
    WatchInVain,
    /// A write is acknowledged when it is durable at the primary.
    AckEarly,
    /// A copy promises a change when its store has taken it, not when it is durable.
    PromiseEarly,
    /// Of what changed of an object that a copy lacks, the data are forgotten.
    ForgetRanges,
    /// Damage that the store meets under a change is not looked at.
    IgnoreDamage,
    /// A letter of another interval is read.
    OtherInterval,
    /// A primary serves before the map knows that it was up in the interval.
    NoUpThru,
    /// Earlier intervals are forgotten, so nobody who may know more is asked.
    ForgetIntervals,
    /// What a copy lacks is thought to be there.
    ForgetMissing,
    /// A primary reads though it does not know that it still leads.
    ReadWithoutLease,
    /// A new primary does not wait until the promises to readers of earlier intervals are over.
    IgnoreRests,
    /// A copy that does not lead answers reads, whatever other copies have of what they see.
    ReadUnsettled,
    /// A copy that does not lead answers reads though it does not know whether its interval lasts.
    ReadAsideWithoutLease,
    /// What a scrub sees at first counts, whatever is written meanwhile.
    FirstLook,
    /// A repair takes the primary's copy for right, whatever the others hold.
    TrustPrimary,
    /// A copy says what came with a level before the cluster has that level.
    IgnoreLevel,
    /// What a group remembers of requests is forgotten when another one takes it in.
    ForgetSourceDups,
    /// Which objects have clones, and are watched, is forgotten when another group takes them in.
    ForgetSourceSnaps,
    /// A copy takes any copy of another group in, and passes for up to date.
    TakeAnySource,
    /// A copy that is asked again says that it has taken the log up before that is durable.
    ActivateEarly,
    /// What is collected of a large copy from another object is collected by the primary alone.
    CollectAlone,
    /// A repeated request is answered from the log before all members have its object.
    RepeatEarly,
    /// A change does not wait until a part of its object that was brought here is durable.
    TakePartEarly,
    /// What copies told that are gone counts on.
    KeepGone,
    /// An object is pulled from a copy that may not have carried out an earlier change of it.
    PullEarly,
    /// A copy that skipped maps believes that it knows all earlier intervals.
    IgnoreGaps,
    /// A copy that skipped maps, and hears nobody who knows what was in them, goes on.
    LeapGaps,
    /// Everybody who is down and was a member once is waited for, whoever else has what was written.
    NeedAll,
    /// A copy that is no member passes for one that has what was written since.
    AgelessSource,
    /// A copy that does not give what it said it holds is asked for it again at once.
    SeekAtOnce,
    /// What a group did is forgotten when it leaves the log.
    ForgetRecords,
    /// A copy tells what it holds before that is durable.
    VolunteerEarly,
    /// Which snapshots are trimmed is written down by the primary alone.
    PurgeAlone,
    /// A copy that knows nothing of the group proves that nothing was served, whatever became of the store that it
    /// had.
    TrustEmpty,
    /// A group that nobody has is new.
    BornAgain,
    /// A disk that took the place of one that was given up stands for it as soon as it holds something.
    CountReplaced,
    /// A group serves by the map that a former life remembered.
    ServeBeforeUp,
    /// Backfill passes what is missing at the primary: the copy counts as having it, and is believed that it is gone.
    PassMissing,
    /// Clients never wait for a copy that is filled, however much is under way to it.
    NeverHoldBack,
    /// Shards that are kept to undo a change go before the change is durable on all of them.
    StableEarly,
    /// Shards that are kept to undo changes are forgotten, and so never go.
    ForgetKept,
    /// A primary of shards lets others undo what does not count, and undoes nothing itself.
    UndoElsewhere,
    /// Of shards the longest log counts.
    LongestLog,
    /// Of shards what all have counts that are heard, those too that were away.
    LowestOfAll,
    /// A change of shards is acknowledged when all but one of them have it durably.
    AckByMost,
}
