//! What only a leader has: made when its reign begins, dropped when it ends.

use super::failures::Failures;
use super::peering::Asked;
use super::sessions::{Outgoing, Side};
use super::{Monitor, run};
use images::JobId;
use manager::client::Manager;
use manager::duties::Duties;
use manager::soft::Soft;
use maps::OsdMap;
use messages::mon::LogEntry;
use messages::mon::{Auth, Command, MonGetMap, MonSubscribe, Ping};
use monstate::config::Config;
use monstate::state::{Change, State};
use msgr::auth::{Acceptor, EntityKey, Key};
use node::{CallId, Level, Now, Output, Outputs};
use quorum::{Entry, Index, Term, VoterId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use types::{EntityType, Errno, SessionId};

/// Answer to askers whose leader was lost.
const ASK_AGAIN: &str = "the monitors have a new leader; what was asked for may be done or not: ask again";

/// One reign.
pub(super) struct Leader {
    /// Its term; 0 while this monitor does not lead.
    term: Term,
    /// States after proposals that are not committed yet.
    pub(super) ahead: VecDeque<(Index, Arc<State>)>,
    pub(super) soft: Soft,
    /// Memory of the manager between its rounds.
    pub(super) duties: Duties,
    pub(super) manager: Manager,
    /// Reports of OSDs about each other.
    pub(super) failures: Failures,
    /// Orders to the manager, and who waits for their answers.
    pub(super) orders: BTreeMap<JobId, run::To>,
    /// Messages that are sent once an entry is committed.
    pub(super) waiting: VecDeque<(Index, Vec<Outgoing>)>,
    /// Commands that read, until the log lets them.
    pub(super) reads: run::Reads,
    pub(super) next_read: u64,
    /// Another monitor shall lead, when what was begun is done.
    pub(super) hands_over: bool,
    /// Lines for the cluster log that go with the next proposal.
    pub(super) lines: Vec<LogEntry>,
    /// Commands that were denied and are not told yet.
    pub(super) denials: super::lines::Denials,
    /// Wishes of OSDs that peer, in this round.
    pub(super) asked: Asked,
    /// The newest entry when a tick last decided something.
    pub(super) decided: Index,
    /// The newest durable maps, oldest first.
    pub(super) recent: VecDeque<Arc<OsdMap>>,
    /// Lost monitors, and seats that wait.
    pub(super) waits: super::seats::Waits,
}

impl Leader {
    /// A reign in this term, or none. `seed` is secret and never used twice. Reads count on from `next_read`.
    pub(super) fn new(term: Term, seed: [u8; 16], next_read: u64) -> Self {
        Self {
            term,
            ahead: VecDeque::new(),
            soft: Soft::default(),
            duties: Duties::default(),
            manager: Manager::new(seed),
            failures: Failures::default(),
            orders: BTreeMap::new(),
            waiting: VecDeque::new(),
            reads: run::Reads::default(),
            next_read,
            hands_over: false,
            lines: Vec::new(),
            denials: super::lines::Denials::default(),
            asked: Asked::default(),
            decided: 0,
            recent: VecDeque::new(),
            waits: super::seats::Waits::default(),
        }
    }

    /// Returns true if it is one.
    pub(super) fn reigns(&self) -> bool {
        self.term != 0
    }

    /// The newest entry that is on its way; 0 if none is.
    pub(super) fn last_ahead(&self) -> Index {
        self.ahead.back().map_or(0, |(index, _)| *index)
    }

    /// Returns true if this entry, and so each before it, is on its way no more. Others may be: clients can keep the
    /// log busy all the time, and who waited until nothing is on its way would wait as long as they go on.
    pub(super) fn is_past(&self, entry: Index) -> bool {
        self.ahead.front().is_none_or(|(index, _)| *index > entry)
    }

    /// The state after this entry, if it was proposed in this reign.
    pub(super) fn take_ahead(&mut self, entry: &Entry) -> Option<Arc<State>> {
        let (index, _) = self.ahead.front()?;
        if *index != entry.index || self.term != entry.term {
            return None;
        }
        self.ahead.pop_front().map(|(_, state)| state)
    }

    /// Returns true if an entry that is committed now was proposed in another reign.
    fn is_foreign(&self, entry: &Entry) -> bool {
        self.reigns() && entry.term != self.term
    }

    /// Returns who waits for something in this process.
    fn calls(self) -> Vec<CallId> {
        let mut waiting: Vec<Outgoing> = self.waiting.into_iter().flat_map(|(_, after)| after).collect();
        let mut asked: Vec<run::To> = self.orders.into_values().collect();
        for read in self.reads.into_values() {
            match read {
                run::Read::Found(after) => waiting.extend(after),
                read => asked.extend(read.to()),
            }
        }
        let answers = waiting.into_iter().filter_map(|o| if let Outgoing::Answer(call, ..) = o { Some(call) } else { None });
        let calls = asked.into_iter().filter_map(|to| if let run::To::Call(call) = to { Some(call) } else { None });
        answers.chain(calls).collect()
    }
}

/// Returns true if a message of this kind can be dealt with by a monitor that does not lead, from what it has applied.
pub(super) fn anybody_answers(side: Side, kind: u16) -> bool {
    side == Side::Mon && matches!(kind, MonGetMap::KIND | MonSubscribe::KIND | Auth::KIND | Command::KIND | Ping::KIND)
}

impl Monitor {
    /// The log has elected this monitor, and all that was committed before is applied.
    pub(super) fn become_leader(&mut self, now: Now, term: Term, out: &mut Outputs) {
        self.leader = Leader::new(term, self.random.key(), self.leader.next_read);
        self.leader.failures = Failures::new(now.mono);
        for ((side, session), entry) in &self.sessions.0 {
            if *side == Side::Mon {
                self.leader.soft.connected.insert(*session, super::sessions::connected(&entry.peer));
            }
        }
        self.leader.soft.note_outs(&self.replica.applied);
        self.standing_changed(now);
        for osd in 0..self.replica.applied.osdmap.max_osd {
            if self.replica.applied.osdmap.is_up(osd) {
                self.leader.soft.osds.entry(osd).or_default().last_seen = now.mono;
            }
        }
        self.tick_soon(now);
        self.take_up_config(now, out);
        self.let_one_copy_move(now, out);
        self.refresh_keys(now, out);
        self.map_for_manager();
        self.begin_manager();
        // What another leader proposed meanwhile was not counted here.
        self.room = super::room::Room::default();
        self.measure_room();
        for (call, command) in std::mem::take(&mut self.held_calls) {
            self.call(now, call, &command, out);
        }
    }

    /// Another leader came, or may have come: what was proposed here and is not committed may be lost. Nobody was told
    /// that it is done; whoever waits is told to ask again, clients by the end of their sessions, after which they send
    /// again what was not answered.
    pub(super) fn step_down(&mut self, now: Now, out: &mut Outputs) {
        let nobody = Leader::new(0, self.random.key(), self.leader.next_read);
        let mut ended = std::mem::replace(&mut self.leader, nobody);
        out.log(Level::Warn, "mon", format!("leads no more after term {}", ended.term));
        ended.manager.objecter.hang_up(&mut self.mgr);
        for call in ended.calls() {
            out.push(Output::Answer { call, result: Errno::EAGAIN.wire(), text: ASK_AGAIN.into() });
        }
        self.forget_remote();
        if self.asks_any() {
            // Requests go to the next leader; the manager is where that is.
            return self.close_manager_sessions(now);
        }
        for (side, session) in std::mem::take(&mut self.sessions.0).into_keys() {
            self.messenger(side).close(session);
        }
        // Other leaders give ids to clients, too.
        if let Acceptor::Mon(mon) = &mut self.mon.auth_mut().acceptor {
            mon.global_ids.end = 0;
        }
    }

    /// Hands the leadership to a voter that is heard, if that is wanted and nothing waits. Whether it began. While this
    /// one votes alone, a monitor that only learns becomes a voter first ([`Self::tick_members`]).
    pub(super) fn hand_over(&mut self) -> bool {
        if !self.leader.hands_over || !self.leader.waiting.is_empty() || !self.leader.ahead.is_empty() {
            return false;
        }
        let log = &mut self.replica.log;
        let own = log.id();
        let learner = |id: &VoterId| *id != own && log.membership().learners.contains(id) && log.is_close(*id);
        if log.membership().voters.len() == 1 && log.heard().iter().any(learner) {
            return false;
        }
        self.leader.hands_over = false;
        let transferee =
            log.heard().into_iter().find(|id| *id != own && log.membership().voters.contains(id) && log.is_close(*id));
        transferee.is_some_and(|transferee| log.transfer(transferee).is_ok())
    }

    /// Nobody here can deal with what a session wants: it asks again, elsewhere or later.
    pub(super) fn turn_away(&mut self, now: Now, side: Side, session: SessionId) {
        if !self.end_remote(session) {
            self.messenger(side).close(session);
        }
        self.closed(now, side, session);
    }

    /// Answers what was to be answered when a proposal is committed, and is proposed by nobody.
    pub(super) fn not_proposed(&mut self, now: Now, after: Vec<Outgoing>, out: &mut Outputs) {
        for outgoing in after {
            match outgoing {
                Outgoing::Message(Side::Mon, session, answer) if self.keep_ask(session, &answer) => {}
                Outgoing::Message(side, session, _) => self.turn_away(now, side, session),
                Outgoing::Answer(call, ..) => {
                    out.push(Output::Answer { call, result: Errno::EAGAIN.wire(), text: ASK_AGAIN.into() });
                }
                Outgoing::Instruct(..) => {}
                Outgoing::Granted(id, _) => self.granted(id, Err(Errno::EAGAIN)),
            }
        }
    }

    /// Another leader's entry is committed while this monitor believes that it leads: what it proposed at that place or
    /// later is lost.
    pub(super) fn look_at_term(&mut self, now: Now, entry: &Entry, out: &mut Outputs) {
        if self.leader.is_foreign(entry) {
            self.lose_waiting(now, out);
        }
    }

    /// Nothing that waits for an entry will hear of it.
    pub(super) fn lose_waiting(&mut self, now: Now, out: &mut Outputs) {
        for (_, after) in std::mem::take(&mut self.leader.waiting) {
            self.not_proposed(now, after, out);
        }
    }

    /// Proposes what is configured now and differs from what is stored: addresses, and entities that are missing.
    fn take_up_config(&mut self, now: Now, out: &mut Outputs) {
        let (state, config) = (self.replica.applied.clone(), self.env.config.clone());
        let mut changes = self.own_place(&state, now);
        changes.extend(missing_keys(&state, &config, now));
        changes.extend(self.key_changes(now));
        if !changes.is_empty() {
            self.propose(now, changes, None, Vec::new(), out);
        }
    }

    /// Takes the leadership away, as another monitor's election would. With `lose`, what is not committed is lost with
    /// it. For tests.
    #[cfg(feature = "sim")]
    pub fn depose(&mut self, now: Now, lose: bool) {
        if self.leader.reigns() {
            self.replica.log.depose(now.mono, lose);
        }
    }
}

fn missing_keys(state: &State, config: &Config, now: Now) -> Vec<Change> {
    let mut changes = Vec::new();
    for key in &config.keys {
        let admin = key.name.kind == EntityType::Client && key.name.id == "admin";
        let daemon = matches!(key.name.kind, EntityType::Mon | EntityType::Mgr | EntityType::Osd);
        if (admin || daemon) && state.auth.get(&key.name).is_none() {
            let entity = EntityKey { key: Key::new(now.wall, key.key), caps: key.caps.clone() };
            changes.push(Change::Auth { name: key.name.clone(), entity: Some(entity) });
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorum::Kind;

    #[test]
    fn an_entry_of_another_term_answers_nobody() {
        let mut monitor = Monitor::new(crate::server::seats::tests::config(), [1; 32]);
        let entry = |term| Entry { index: 7, term, kind: Kind::Command, data: bytes::Bytes::new() };
        monitor.leader = Leader::new(3, [2; 16], 0);
        monitor.leader.waiting.push_back((7, vec![Outgoing::Answer(CallId(1), 0, "done".into())]));
        let mut out = Outputs::default();
        monitor.look_at_term(Now::default(), &entry(3), &mut out);
        assert!(out.0.is_empty() && monitor.leader.waiting.len() == 1);
        monitor.look_at_term(Now::default(), &entry(4), &mut out);
        let [Output::Answer { call: CallId(1), result, .. }] = &out.0[..] else { panic!("{:?}", out.0) };
        assert_eq!((*result, monitor.leader.waiting.len()), (Errno::EAGAIN.wire(), 0));
    }
}
