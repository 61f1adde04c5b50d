//! What always holds of an OSD between two calls. The simulator asks after every turn; nobody else pays for it.

use crate::ops::Place;
use crate::{Osd, Phase};
use pg::{Effect, OpKey};
use types::PgId;

/// An answer to a client.
#[derive(Clone, Debug)]
pub struct Answered {
    /// The group that gave it.
    pub group: types::SpgId,
    /// OSDs that served when it was given, and the epoch since which the map has each of them up. The next map may come in the same turn.
    pub members: Vec<(types::OsdId, types::Epoch)>,
    /// The answer.
    pub message: types::Message,
}

impl Osd {
    /// Looks at the table of groups, at each group, and at the store. `thorough` is the store's.
    ///
    /// # Errors
    /// A sentence that says what does not hold.
    pub fn self_check(&self, thorough: bool) -> Result<(), String> {
        self.groups.self_check()?;
        self.copies.self_check()?;
        self.check_slots()?;
        self.check_letters()?;
        self.check_primary_since()?;
        self.groups.iter().try_for_each(|(_, pg)| pg.self_check())?;
        self.check_up()?;
        self.check_ops()?;
        self.store.self_check(thorough).map_err(|why| format!("store: {why}"))
    }

    /// Letters to other copies, and requests to be marked up, since it started.
    pub fn asked(&self) -> (u64, u64) {
        (self.perf.letters, self.perf.boots)
    }

    /// The part of this OSD that wants to be woken first.
    pub fn waits_for(&self) -> &'static str {
        let running = matches!(self.phase, Phase::Booting | Phase::Active);
        let never = node::Mono::NEVER;
        let parts = [
            ("the messenger's events", if self.msgr.has_event() { node::Mono(0) } else { never }),
            ("the messenger", self.msgr.deadline()),
            ("the store", self.store.deadline()),
            ("the monitors", if running { self.mon.deadline(&self.msgr) } else { never }),
            ("groups", if running { self.groups.deadline() } else { never }),
            ("the pace", if running { self.pace.deadline() } else { never }),
            ("copies", self.copies.deadline()),
            ("letters", self.letters.deadline()),
            ("the next report", if running { self.reporter.deadline() } else { never }),
            ("heartbeats", if running { self.beats.deadline(self.mon.session().is_some()) } else { never }),
            ("scrubs", if running { self.scrubs.deadline() } else { never }),
            ("its life", self.life_deadline()),
        ];
        parts.into_iter().min_by_key(|(_, at)| *at).map_or("nothing", |(name, _)| name)
    }

    /// Checks that groups with slots for recovery know of them, once those that were called have been asked.
    fn check_slots(&self) -> Result<(), String> {
        match self.groups.has_called() {
            true => Ok(()),
            false => self.slots.self_check(&self.groups, self.options.max_backfills),
        }
    }

    /// Checks that an OSD that is not up in its present life serves nothing.
    fn check_up(&self) -> Result<(), String> {
        let up = self.is_up_in(self.maps.current());
        if up != self.is_up {
            return Err(format!("it takes itself for up: {}, and map {} says {up}", self.is_up, self.maps.epoch()));
        }
        match self.groups.iter().find(|(_, pg)| !up && pg.is_active()) {
            Some((id, _)) => Err(format!("group {id} is active, and map {} does not have this OSD up", self.maps.epoch())),
            None => Ok(()),
        }
    }

    /// The groups whose beginning is known are those that this OSD leads by the newest map.
    fn check_primary_since(&self) -> Result<(), String> {
        let map = self.maps.current();
        let groups = map.pools.iter().flat_map(|(id, pool)| (0..pool.pg_num).map(|seed| PgId::new(*id, seed)));
        let led = groups.filter(|pg| map.placed(*pg).acting_primary == self.config.whoami);
        // A map of a level that this OSD does not know is not carried out.
        if self.phase != Phase::Failed && !led.eq(self.primary_since.groups()) {
            return Err(format!("this OSD leads others by map {} than {:?}", map.epoch, self.primary_since));
        }
        Ok(())
    }

    /// Each operation is kept once, and each session is owed what its operations owe it.
    fn check_ops(&self) -> Result<(), String> {
        let mut kept: Vec<(OpKey, Place)> = Vec::new();
        for (id, pg) in self.groups.iter() {
            let slot = self.groups.find(&id).unwrap_or(0);
            kept.extend(pg.ops().into_iter().map(|key| (key, Place::InGroup(slot))));
        }
        for (slot, effect) in &self.effects {
            if let Effect::Reply { op, .. } | Effect::Dropped { op, .. } = effect {
                kept.push((*op, Place::InGroup(*slot)));
            }
        }
        let outside = self.early.iter().chain(self.homeless.iter().map(|w| &w.early)).map(|early| early.key);
        let backlogs = self.sessions.iter().flat_map(|(_, session)| session.backlog.keys());
        kept.extend(outside.chain(backlogs).map(|key| (key, Place::Waiting)));
        self.ops.self_check(kept)?;
        for (id, session) in self.sessions.iter() {
            let (owed, sum) = (session.backlog.owed, self.ops.owed(id));
            if owed != sum {
                return Err(format!("{id:?} is owed {owed} bytes of answers, its operations owe it {sum}"));
            }
        }
        Ok(())
    }

    /// A mistake to be found: some group forgets an operation that it has not answered.
    pub fn forget_operation(&mut self) {
        let _ = self.groups.iter_mut().any(pg::Pg::forget_operation);
    }

    /// A mistake to be found: what another OSD did not answer before its session broke is never asked again.
    pub fn forget_resends(&mut self) {
        self.copies.objecter.forget_resends();
    }

    /// A mistake to be found: while it stops it answers reads as if nobody had been told.
    pub fn read_to_the_end(&mut self) {
        self.leases.promises.go_on();
    }

    /// A mistake to be found: what its former life promised is not known. To be called before the first turn.
    pub fn forget_promises(&mut self) {
        self.leases.forgets = true;
    }

    /// Changes of so many maps are kept from now on.
    pub fn keep_maps(&mut self, most: usize) {
        self.maps.kept = most;
    }

    /// All answers to clients are kept from now on, until [`Osd::take_answered`].
    pub fn keep_answers(&mut self) {
        self.answered = Some(Vec::new());
    }

    /// The epoch since which the map has this OSD up in its present life; `None` while it does not.
    pub fn life(&self) -> Option<types::Epoch> {
        self.is_up.then(|| self.maps.current().up_from(self.config.whoami))
    }

    /// The answers to clients since the last time.
    pub fn take_answered(&mut self) -> Vec<Answered> {
        self.answered.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(crate) fn note_answer(&mut self, slot: crate::groups::Slot, effect: &Effect) {
        if let (Some(answered), Effect::Reply { message, .. }) = (&mut self.answered, effect)
            && let Some(group) = self.groups.get(slot)
        {
            let map = self.maps.current();
            let members = map.placed(group.id().pg).acting.iter().map(|osd| (*osd, map.up_from(*osd))).collect();
            answered.push(Answered { group: group.id(), members, message: message.clone() });
        }
    }

    /// Objects and letters go in pieces of these sizes from now on.
    pub fn cut(&mut self, sizes: pg::Sizes) {
        self.options.pg.sizes = sizes;
    }

    /// Returns the letters that came since the last time, in words; from the first time on.
    pub fn heard_letters(&mut self) -> Vec<String> {
        self.letters.heard()
    }

    /// A mistake to be found: letters of a round go in one message, however long it gets.
    pub fn send_whole(&mut self) {
        self.letters.be_careless();
    }

    /// A mistake to be found: what came out of a split in this turn, and is not loaded yet, counts as not here.
    pub fn answer_before_loading(&mut self) {
        self.groups.forget_newborns();
    }

    /// Every third message of another OSD is heard twice from now on, as if it had been sent twice.
    pub fn hear_twice(&mut self) {
        self.echo = Some(0);
    }

    /// A message of another OSD that is to be heard once more.
    pub(crate) fn echo(&mut self, session: types::SessionId, message: &types::Message) -> Option<types::Message> {
        let count = self.echo.as_mut().filter(|_| self.peers.has(session))?;
        *count += 1;
        count.is_multiple_of(3).then(|| message.clone())
    }

    /// A mistake to be found: own lateness is not taken off what others were silent.
    pub fn accuse_carelessly(&mut self) {
        self.beats.be_careless();
    }

    /// A mistake to be found: a session for heartbeats that broke is never opened again.
    pub fn give_up_beats(&mut self) {
        self.peers.give_up_beats();
    }

    /// A mistake to be found: the monitors are to be told of silent OSDs, whether there are any or not.
    pub fn tell_nobody(&mut self) {
        self.beats.be_impatient();
    }

    /// A mistake to be found: it asks to be marked up ten times in a second.
    pub fn boot_again(&mut self, now: node::Now) {
        let again = |sent: node::Mono| now.mono.since(sent) >= std::time::Duration::from_millis(100);
        self.boot_sent = self.boot_sent.filter(|sent| !again(*sent));
    }

    /// A mistake to be found: groups say again what was not answered, whenever this is called.
    pub fn write_all_again(&mut self, now: node::Now) {
        if self.phase == Phase::Active {
            self.write_again(now);
        }
    }

    /// A mistake to be found: a monitor that refuses is tried again at once.
    pub fn hunt_at_once(&mut self) {
        self.mon.forget_failures();
    }

    /// A mistake to be found: all groups make it.
    pub fn copies_err(&mut self, mistake: pg::Mistake) {
        self.groups.iter_mut().for_each(|pg| pg.err(mistake));
    }

    /// A mistake to be found: some group forgets which job holds an object.
    pub fn forget_holder(&mut self) {
        let _ = self.groups.iter_mut().any(pg::Pg::forget_holder);
    }
}
