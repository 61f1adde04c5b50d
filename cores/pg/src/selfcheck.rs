//! What always holds of a group between two calls. The simulator asks after every turn; nobody else pays for it.

use crate::pg::{Pg, Phase, Work};
use std::collections::BTreeMap;

/// Bodies under way to a copy that is filled: what [`crate::Sizes::ahead_bodies`] allows with some hundred open operations beyond, of the
/// product's and of the simulator's size.
const MOST_BODIES: usize = if cfg!(feature = "sim") { 24 + 200 } else { 4096 + 4096 };

/// Refuses with a sentence unless `$holds`.
macro_rules! holds {
    ($holds:expr, $($text:tt)*) => {
        if !$holds {
            return Err(format!($($text)*));
        }
    };
}

/// What concerns the group as a whole has no lane; what another OSD reads for a copy passes it.
fn needs_no_lane(work: &Work) -> bool {
    match work {
        Work::Group(_) => true,
        Work::Client(op) => {
            op.peer.kind == types::EntityType::Osd && op.op.ops.iter().any(|o| o.code == messages::osd::code::COPY_READ)
        }
        _ => false,
    }
}

/// The version of an object's last change, as a store's record of the object says; `None` if it is no record.
#[cfg(feature = "sim")]
pub fn version_in(record: &[u8]) -> Option<types::EVersion> {
    crate::info::ObjectInfo::decode(record).ok().map(|info| info.version)
}

/// Whether an object is counted as having an omap, as a store's record of it says; `None` if it is no record.
#[cfg(feature = "sim")]
pub fn omap_in(record: &[u8]) -> Option<bool> {
    crate::info::ObjectInfo::decode(record).ok().map(|info| info.omap)
}

/// What a group of this pool notes with this key: which object's head it changed, by which version, and whether that removed it. `None` if
/// it notes something else.
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
    /// Which snapshots are trimmed is written down by the primary alone.
    PurgeAlone,
    /// A copy that knows nothing of the group proves that nothing was served, whatever became of the store that it had.
    TrustEmpty,
    /// A group that nobody has is new.
    BornAgain,
    /// A disk that took the place of one that was given up stands for it as soon as it holds something.
    CountReplaced,
    /// A group serves by the map that a former life remembered.
    ServeBeforeUp,
    /// Clients never wait for a copy that is filled, however much is under way to it.
    NeverHoldBack,
}

impl Pg {
    /// From now on this group makes a mistake. To be called after every turn.
    #[cfg(feature = "sim")]
    pub fn err(&mut self, mistake: Mistake) {
        self.core.mistake = Some(mistake);
        match mistake {
            Mistake::ForgetIntervals => self.core.history.forget_past(),
            Mistake::ForgetMissing => self.core.missing.clear(),
            Mistake::ForgetRanges => {
                let bases = self.core.missing.values_mut().filter_map(|lack| lack.base.as_mut());
                bases.for_each(|base| base.part.data = Default::default());
            }
            Mistake::AgelessSource => {
                let newest = types::EVersion::new(u32::MAX, u64::MAX);
                self.members.sources.values_mut().for_each(|source| source.head = newest);
            }
            Mistake::AckEarly
            | Mistake::GoHomeTwice
            | Mistake::WatchInVain
            | Mistake::PromiseEarly
            | Mistake::IgnoreDamage
            | Mistake::OtherInterval
            | Mistake::NoUpThru
            | Mistake::ReadWithoutLease
            | Mistake::ReadUnsettled
            | Mistake::ReadAsideWithoutLease
            | Mistake::IgnoreLevel
            | Mistake::IgnoreRests
            | Mistake::FirstLook
            | Mistake::TrustPrimary
            | Mistake::ForgetSourceDups
            | Mistake::ForgetSourceSnaps
            | Mistake::TakeAnySource
            | Mistake::ActivateEarly
            | Mistake::CollectAlone
            | Mistake::RepeatEarly
            | Mistake::TakePartEarly
            | Mistake::KeepGone
            | Mistake::PullEarly
            | Mistake::IgnoreGaps
            | Mistake::LeapGaps
            | Mistake::NeedAll
            | Mistake::TrustEmpty
            | Mistake::BornAgain
            | Mistake::CountReplaced
            | Mistake::ServeBeforeUp
            | Mistake::NeverHoldBack
            | Mistake::PurgeAlone => {}
        }
    }

    /// Looks at everything that the group knows of itself twice.
    ///
    /// # Errors
    /// A sentence that says what does not hold.
    pub fn self_check(&self) -> Result<(), String> {
        let all = [
            Self::check_commits,
            Self::check_lanes,
            Self::check_jobs,
            Self::check_log,
            Self::check_waiting,
            Self::check_trim,
            Self::check_search,
            Self::check_missing,
            Self::check_share,
            Self::check_aside,
            Self::check_streams,
        ];
        all.iter().try_for_each(|check| check(self)).map_err(|why| format!("pg {}: {why}", self.core.id))
    }

    /// Commits come in the order of their tickets, and versions only rise.
    fn check_commits(&self) -> Result<(), String> {
        for (older, newer) in self.core.commits.iter().zip(self.core.commits.iter().skip(1)) {
            holds!(older.ticket < newer.ticket, "{:?} was submitted before {:?}", older.ticket, newer.ticket);
            holds!(older.version <= newer.version, "version {} was submitted before {}", older.version, newer.version);
            let entries = newer.first.is_none_or(|first| older.version < first);
            holds!(entries, "the entries of {} begin before those of {} end", newer.version, older.version);
        }
        let pending = &self.serving.pending;
        for (older, newer) in pending.iter().zip(pending.iter().skip(1)) {
            holds!(older.ticket < newer.ticket, "{:?} waits behind {:?}", older.ticket, newer.ticket);
        }
        for commit in &self.core.commits {
            let (number, first) = (crate::api::number_of(commit.ticket.0), commit.first.unwrap_or(commit.version));
            holds!(number <= self.core.tickets, "{:?} was never given out", commit.ticket);
            holds!(!self.core.loose.contains(&commit.ticket), "{:?} is both a commit and loose", commit.ticket);
            holds!(first <= commit.version, "a commit's entries begin at {first} and end at {}", commit.version);
        }
        match self.core.commits.back() {
            Some(last) => {
                holds!(last.version <= self.core.info.last_update, "{} is newer than the group", last.version);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// A lane is there because a job holds it or its object is not durable; the group finds both again.
    fn check_lanes(&self) -> Result<(), String> {
        let newest: BTreeMap<_, _> = self.serving.pending.iter().filter_map(|of| Some((of.head.as_ref()?, of.ticket))).collect();
        for (head, lane) in &self.serving.lanes {
            let held = lane.held.is_none_or(|hold| self.serving.jobs.get(&hold).is_some_and(|job| job.head == *head));
            holds!(held, "the lane of {head} is held by {:?}, which is no job of it", lane.held);
            holds!(lane.held.is_some() || lane.queue.is_empty(), "work waits for {head}, and nobody will begin it");
            holds!(lane.held.is_some() || lane.last.is_some(), "the lane of {head} is empty");
            let last = newest.get(head).copied();
            holds!(lane.last == last, "the newest commit of {head} is {last:?}, its lane says {:?}", lane.last);
        }
        match newest.keys().find(|head| !self.serving.lanes.contains_key(**head)) {
            Some(head) => Err(format!("{head} is not durable and has no lane")),
            None => Ok(()),
        }
    }

    /// A job that was begun waits under its own hold, and its object's lane knows that somebody is at work.
    fn check_jobs(&self) -> Result<(), String> {
        for (hold, job) in &self.serving.jobs {
            holds!(*hold == job.hold, "job {:?} is filed under {hold:?}", job.hold);
            holds!(crate::api::number_of(hold.0) <= self.core.holds, "{hold:?} was never given out");
            let lane = needs_no_lane(&job.work) || self.serving.lanes.get(&job.head).is_some_and(|lane| lane.held.is_some());
            holds!(lane, "{hold:?} works on {}, whose lane is free", job.head);
            holds!(job.fetched || job.waited, "{hold:?} waits for nothing");
        }
        Ok(())
    }

    /// The log ends where the group is, and begins behind its tail.
    fn check_log(&self) -> Result<(), String> {
        let (oldest, newest) = (self.core.log.oldest(1).next(), self.core.log.newest());
        if let (Some(oldest), Some(newest)) = (oldest, newest) {
            let (tail, head) = (self.core.info.log_tail, self.core.info.last_update);
            holds!(tail < oldest.version, "the log's tail {tail} is not before its oldest entry {}", oldest.version);
            holds!(newest.version <= head, "the log's newest entry {} is newer than the group's {head}", newest.version);
        }
        holds!(self.core.pages.iter().is_sorted(), "pages of duplicates are out of order: {:?}", self.core.pages);
        Ok(())
    }

    /// What a copy has of an object that it lacks is older than what is to come.
    fn check_missing(&self) -> Result<(), String> {
        let lists = std::iter::once(&self.core.missing).chain(self.members.all.values().map(|member| &member.missing));
        for (object, lack) in lists.flatten() {
            holds!(lack.is_sound(), "{object} is missing in version {}, and a newer one is here", lack.need);
        }
        Ok(())
    }

    /// Only a group that does not serve lets clients wait.
    fn check_waiting(&self) -> Result<(), String> {
        if !self.is_active() {
            return Ok(());
        }
        holds!(
            self.serving.waiting.is_empty(),
            "{} operations wait for an active group to become active",
            self.serving.waiting.len()
        );
        holds!(self.serving.backoffs.is_empty(), "{} sessions hold back from an active group", self.serving.backoffs.len());
        Ok(())
    }

    /// A copy that plays its part has the share that its interval says, and no union is left; one that is to be merged does not serve.
    fn check_share(&self) -> Result<(), String> {
        if !self.is_settled() && !matches!(self.phase, Phase::Peering(_)) || self.core.history.created == 0 {
            return Ok(());
        }
        let (share, wanted) = (self.core.history.pg_num, self.core.history.interval.pg_num);
        holds!(share == wanted, "its share is one of {share}, its interval says one of {wanted}");
        holds!(self.core.history.unions.is_empty() && self.core.history.taken.is_empty(), "a union is not carried out");
        holds!(!self.core.history.interval.is_premerge() || !self.is_active(), "it serves, and is about to be merged");
        Ok(())
    }

    /// A copy that does not lead knows of no change that it does not have.
    fn check_aside(&self) -> Result<(), String> {
        match &self.phase {
            Phase::Replica(replica) => replica.aside.self_check(self.core.info.last_update.version),
            _ => Ok(()),
        }
    }

    /// What is under way to a copy that does not serve has a bound: clients wait beyond it, and each has few operations open.
    fn check_streams(&self) -> Result<(), String> {
        for (osd, member) in self.members.all.iter().filter(|(_, member)| !member.acting) {
            let bodies = member.stream.bodies();
            holds!(bodies <= MOST_BODIES, "{bodies} bodies are under way to osd.{osd}, which is being filled");
        }
        Ok(())
    }

    /// Objects that a trim handed out are in lanes or jobs.
    fn check_trim(&self) -> Result<(), String> {
        if !matches!(self.phase, Phase::Active) {
            return Ok(());
        }
        let queued =
            self.serving.lanes.values().flat_map(|lane| &lane.queue).filter(|work| matches!(work, Work::Trim { .. })).count();
        let begun = self.serving.jobs.values().filter(|job| matches!(job.work, Work::Trim { .. })).count();
        let outstanding = self.serving.trim.outstanding;
        holds!(queued + begun == outstanding, "{outstanding} objects are to be trimmed, {queued} wait and {begun} are begun");
        Ok(())
    }

    /// A mistake to be found: an operation whose change is under way is forgotten, and never answered. False if there is none.
    pub fn forget_operation(&mut self) -> bool {
        let mut releases = self.serving.pending.iter_mut().flat_map(|pending| &mut pending.releases);
        let found = releases.find(|release| release.op.is_some());
        found.is_some_and(|release| (release.op.take(), release.message.take()).0.is_some())
    }

    /// A mistake to be found: the lane of some object forgets who works on it. False if nobody does.
    pub fn forget_holder(&mut self) -> bool {
        let held = self.serving.lanes.values_mut().find(|lane| lane.held.is_some());
        held.is_some_and(|lane| lane.held.take().is_some())
    }
}
