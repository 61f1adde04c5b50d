//! What always holds of a primary.

use super::Primary;
use super::lanes::Work;
use crate::api::number_of;
use crate::core::Core;
use crate::letter::Letter;
use crate::questions::{Open, Subject};
use crate::selfcheck::holds;
use std::collections::BTreeMap;

/// Bodies under way to a copy that is filled: what [`crate::Sizes::ahead_bodies`] allows with some hundred open operations beyond, of the
/// product's and of the simulator's size.
const MOST_BODIES: usize = if cfg!(feature = "sim") { 24 + 200 } else { 4096 + 4096 };

/// Returns true for work without a lane: what concerns the whole group, and what another OSD reads for a copy.
fn needs_no_lane(work: &Work) -> bool {
    match work {
        Work::Group(_) => true,
        Work::Client(op) => {
            op.peer.kind == types::EntityType::Osd && op.op.ops.iter().any(|o| o.code == messages::osd::code::COPY_READ)
        }
        _ => false,
    }
}

impl Primary {
    /// Looks at everything that a primary knows twice.
    ///
    /// # Errors
    /// A sentence that says what does not hold.
    pub(crate) fn self_check(&self, core: &Core) -> Result<(), String> {
        holds!(self.due.is_nothing(), "a call ended and left {:?} to be done", self.due);
        self.check_pending()?;
        self.check_lanes()?;
        self.check_jobs(core)?;
        self.check_trim()?;
        self.check_search(core)?;
        self.check_missing()?;
        self.check_questions()?;
        self.check_streams()
    }

    /// Changes wait in the order of their tickets.
    fn check_pending(&self) -> Result<(), String> {
        for (older, newer) in self.pending.iter().zip(self.pending.iter().skip(1)) {
            holds!(older.ticket < newer.ticket, "{:?} waits behind {:?}", older.ticket, newer.ticket);
        }
        Ok(())
    }

    /// Checks that what a member has of an object that it lacks is older than what is to come.
    fn check_missing(&self) -> Result<(), String> {
        for (object, lack) in self.members.all.values().flat_map(|member| &member.missing) {
            holds!(lack.is_sound(), "{object} is missing in version {}, and a newer one is there", lack.need);
        }
        Ok(())
    }

    /// A lane is there because a job holds it or its object is not durable; the group finds both again.
    fn check_lanes(&self) -> Result<(), String> {
        let newest: BTreeMap<_, _> = self.pending.iter().filter_map(|of| Some((of.head.as_ref()?, of.ticket))).collect();
        for (head, lane) in &self.lanes {
            let held = lane.held.is_none_or(|hold| self.jobs.get(&hold).is_some_and(|job| job.head == *head));
            holds!(held, "the lane of {head} is held by {:?}, which is no job of it", lane.held);
            holds!(lane.held.is_some() || lane.queue.is_empty(), "work waits for {head}, and nobody will begin it");
            holds!(lane.held.is_some() || lane.last.is_some(), "the lane of {head} is empty");
            let last = newest.get(head).copied();
            holds!(lane.last == last, "the newest commit of {head} is {last:?}, its lane says {:?}", lane.last);
        }
        match newest.keys().find(|head| !self.lanes.contains_key(**head)) {
            Some(head) => Err(format!("{head} is not durable and has no lane")),
            None => Ok(()),
        }
    }

    /// A job that was begun waits under its own hold, and its object's lane knows that somebody is at work.
    fn check_jobs(&self, core: &Core) -> Result<(), String> {
        let stray = self.questions.iter().find(|(.., open)| open.job.is_some_and(|hold| !self.jobs.contains_key(&hold)));
        holds!(stray.is_none(), "{:?} is asked for a job that is over", stray.map(|(to, subject, _)| (to, subject)));
        for (hold, job) in &self.jobs {
            holds!(*hold == job.hold, "job {:?} is filed under {hold:?}", job.hold);
            holds!(number_of(hold.0) <= core.holds, "{hold:?} was never given out");
            let lane = needs_no_lane(&job.work) || self.lanes.get(&job.head).is_some_and(|lane| lane.held.is_some());
            holds!(lane, "{hold:?} works on {}, whose lane is free", job.head);
            holds!(job.fetched || job.waited, "{hold:?} waits for nothing");
            let of_job =
                |(_, subject, open): &(_, &Subject, &Open)| matches!(subject, Subject::Shard(_)) && open.job == Some(*hold);
            let asked = self.questions.iter().filter(of_job).count();
            let open = job.asking.as_ref().map_or(0, |asking| asking.open);
            holds!(asked == open, "{hold:?} waits for {open} other shards, and {asked} were asked");
        }
        Ok(())
    }

    /// Checks that what waits for an answer has asked for it, and that nobody else has.
    fn check_questions(&self) -> Result<(), String> {
        for (copy, member) in &self.members.all {
            let asked = |subject| self.questions.is_open(*copy, subject);
            let activates = asked(Subject::Activation);
            holds!(activates != member.activated, "osd.{copy} has taken up the log, or was not asked to: {activates}");
            let compares = member.backfill.as_ref().is_some_and(|backfill| backfill.compares());
            holds!(asked(Subject::Range) == compares, "osd.{copy} is compared ({compares}), or was asked what it has");
        }
        for (copy, subject, open) in self.questions.iter() {
            let wanted = match (subject, &open.letter) {
                (Subject::Slot, Letter::Reserve(number, ..)) => self.reserve.asks(copy, *number),
                (Subject::Slot, _) => !self.reserve.asks_of(copy),
                (Subject::Lost, _) => self.search.asks(copy),
                (Subject::Survey, _) => self.scrub.is_some(),
                (Subject::Activation | Subject::Range, _) => self.members.all.contains_key(&copy),
                _ => true,
            };
            holds!(wanted, "nobody wants to know what osd.{copy} was asked: {subject:?}");
        }
        Ok(())
    }

    /// Checks the bound of what is under way to a copy that does not serve: clients wait beyond it, and each has few
    /// operations open.
    fn check_streams(&self) -> Result<(), String> {
        for (copy, member) in self.members.all.iter().filter(|(_, member)| !member.acting) {
            let bodies = member.stream.bodies();
            holds!(bodies <= MOST_BODIES, "{bodies} bodies are under way to osd.{copy}, which is being filled");
        }
        Ok(())
    }

    /// Objects that a trim handed out are in lanes or jobs.
    fn check_trim(&self) -> Result<(), String> {
        if !self.has_begun() {
            return Ok(());
        }
        let queued = self.lanes.values().flat_map(|lane| &lane.queue).filter(|work| matches!(work, Work::Trim { .. })).count();
        let begun = self.jobs.values().filter(|job| matches!(job.work, Work::Trim { .. })).count();
        let outstanding = self.trim.outstanding;
        holds!(queued + begun == outstanding, "{outstanding} objects are to be trimmed, {queued} wait and {begun} are begun");
        Ok(())
    }

    /// A mistake to be found: an operation whose change is under way is forgotten, and never answered. False if there is none.
    #[cfg(feature = "sim")]
    pub(crate) fn forget_operation(&mut self) -> bool {
        let mut releases = self.pending.iter_mut().flat_map(|pending| &mut pending.releases);
        let found = releases.find(|release| release.op.is_some());
        found.is_some_and(|release| (release.op.take(), release.message.take()).0.is_some())
    }

    /// A mistake to be found: the lane of some object forgets who works on it. False if nobody does.
    #[cfg(feature = "sim")]
    pub(crate) fn forget_holder(&mut self) -> bool {
        let held = self.lanes.values_mut().find(|lane| lane.held.is_some());
        held.is_some_and(|lane| lane.held.take().is_some())
    }
}
