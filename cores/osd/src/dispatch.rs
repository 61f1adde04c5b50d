//! Messages that arrive, and what groups want done.

use crate::backlog::Waiting;
use crate::bench::Asker;
use crate::commands::{self, Answer, Dispatch, Told};
use crate::copies::OURSELVES;
use crate::doubts::Doubt;
use crate::groups::{Slot, addressed};
use crate::ops::{Arrival, Request, Wait};
use crate::{Early, Osd, Phase, admit};
use messages::internal::{OsdInstruct, ServiceKeys};
use messages::mon::{AuthReply, Command, CommandReply, ConfigMsg, MonGetVersionReply, MonMapMsg, OsdMapMsg, Ping};
use messages::osd::{Backoff, OpResult, OsdOp, OsdOpReply, code};
use msgr::Event;
use msgr::auth::{Acceptor, ExpiringKey, Key};
use node::{Level, Mono, Now, Output, Outputs};
use pg::{ClientOp, Effect, OpKey};
use std::collections::BTreeMap;
use types::{EntityType, Errno, Message, PgId, SessionId, SpgId};

/// Operations that may wait for a map; beyond that the session of which most wait is closed, and its client comes back.
/// So nobody who sends operations of maps that never come keeps others out.
const MAX_EARLY: usize = 4096;
/// Bytes of notifications that are not over, of all groups; no more is begun above it. Groups have bounds of their own.
const NOTICES: usize = 128 << 20;
/// Refusals of the own key at a start after which it is wrong, rather than the monitors not ready.
const REFUSALS: u32 = 4;

impl Osd {
    /// Takes what happened on sessions, as much as this round may.
    pub(crate) fn drain_messenger(&mut self, now: Now, out: &mut Outputs) {
        while self.rounds.goes_on(self.msgr.has_event())
            && let Some(event) = self.msgr.poll_event()
        {
            let before = self.effects.len();
            match event {
                Event::Opened { session, peer } if peer.outgoing => {
                    if self.mon.owns(session) {
                        self.monitor_opened(now, session);
                    } else {
                        self.peer_answers(now, session, &peer, out);
                    }
                }
                Event::Opened { session, peer } => {
                    if peer.kind == EntityType::Osd && !self.peer_calls(now, session, &peer, out) {
                        continue;
                    }
                    if let Some(complaint) = self.sessions.opened(session, &peer) {
                        out.log(Level::Warn, "osd", complaint);
                    }
                }
                Event::Message { session, message, bytes } => {
                    #[cfg(feature = "sim")]
                    if let Some(again) = self.echo(session, &message) {
                        self.message(now, session, again, 0, out);
                    }
                    self.message(now, session, message, bytes, out);
                }
                Event::Closed { session, refused: true, .. } if self.peer_lost(now, session, true) => {}
                Event::Reset { session } | Event::Closed { session, .. } => self.session_ended(now, session, out),
            }
            if self.effects.len() > before {
                self.rounds.note();
            }
            self.rounds.cost(self.ops.take_cost());
        }
    }

    pub(crate) fn session_ended(&mut self, now: Now, session: SessionId, out: &mut Outputs) {
        if self.mon.owns(session) {
            self.mon.closed(now);
            if !self.mon.was_open() && self.msgr.auth().client.refusals() >= REFUSALS {
                let name = self.config.name();
                return self.fail(
                    out,
                    format!(
                        "the monitors refuse the key in the keyring of {name}: it is wrong, or {name} was destroyed or purged. `nacre disk replace` \
                         puts a new disk under its number, `nacre disk rm` removes it from this host"
                    ),
                );
            }
            out.log(Level::Info, "osd", "lost the monitor");
        } else if self.peer_lost(now, session, false) {
            // What was asked on it is asked again on the next one.
        } else if let Some(mut waiting) = self.sessions.closed(session) {
            let outside = self.early.iter().chain(self.homeless.iter().map(|w| &w.early));
            waiting.extend(outside.filter(|e| e.session == session).map(|e| e.key));
            self.early.retain(|e| e.session != session);
            self.homeless.retain(|w| w.early.session != session);
            waiting.into_iter().for_each(|key| self.let_go(key));
            let begun = self.ops.orphan(session);
            self.msgr.done(session, begun);
            self.peers.hung_up(session);
            self.letters.forget_parts(session);
            self.doubts.forget(session);
            if self.bench.as_ref().is_some_and(|b| b.asker.session == session) {
                self.bench = None;
            }
            let (groups, mut world) = self.world(now);
            groups.call_all(&mut world, |pg, ctx| pg.session_closed(ctx, session));
        }
    }

    fn message(&mut self, now: Now, session: SessionId, message: Message, bytes: usize, out: &mut Outputs) {
        if message.kind == OsdOp::KIND {
            return self.operation(now, session, message, bytes, out);
        }
        self.msgr.done(session, bytes);
        if self.mon.owns(session) {
            return self.monitor_message(now, &message, out);
        }
        if self.peer_message(now, session, &message, out) {
            return;
        }
        match message.kind {
            Command::KIND => self.command(now, session, &message),
            // A client with a watch pings to keep the connection alive, and acknowledges backoffs; nobody answers.
            Ping::KIND | Backoff::KIND => {}
            kind => out.log(Level::Debug, "osd", format!("message of type {kind} ignored")),
        }
    }

    fn monitor_message(&mut self, now: Now, message: &Message, out: &mut Outputs) {
        let complaint = match message.kind {
            MonMapMsg::KIND | AuthReply::KIND => self.mon.message(now, message, &mut self.msgr, out).err(),
            OsdMapMsg::KIND => OsdMapMsg::decode(message).map(|m| self.take_maps(now, &m, out)).err(),
            ConfigMsg::KIND => ConfigMsg::decode(message).map(|m| self.configure(m, out)).err(),
            ServiceKeys::KIND => ServiceKeys::decode(message).map(|m| self.take_service_keys(&m)).err(),
            MonGetVersionReply::KIND => MonGetVersionReply::decode(message).map(|m| self.newest_map_is(now, &m, out)).err(),
            OsdInstruct::KIND => OsdInstruct::decode(message).map(|m| self.instruct(now, &m.json, out)).err(),
            _ => None,
        };
        if let Some(e) = complaint {
            out.log(Level::Error, "osd", format!("message of type {} from the monitor does not decode: {e}", message.kind));
        }
    }

    /// The keys that open clients' tickets, as the monitor rotates them.
    fn take_service_keys(&mut self, message: &ServiceKeys) {
        if let Acceptor::Service(service) = &mut self.msgr.auth_mut().acceptor {
            for k in &message.keys {
                let key = Key::new(k.created, k.key);
                service.keys.add(k.secret_id, ExpiringKey { key, expires: k.expires });
            }
        }
    }

    fn configure(&mut self, message: ConfigMsg, out: &mut Outputs) {
        self.central_options = message.config;
        for name in self.apply_options() {
            out.log(Level::Warn, "osd", format!("the configured value of {name} does not fit and is ignored"));
        }
    }

    fn instruct(&mut self, now: Now, json: &str, out: &mut Outputs) {
        if let Dispatch::Now(answer) = commands::run(self, now, json, None)
            && answer.result < 0
        {
            out.log(Level::Warn, "osd", format!("the monitor's instruction {json}: {}", answer.status));
        }
    }

    fn command(&mut self, now: Now, session: SessionId, message: &Message) {
        let Ok(command) = Command::decode(message) else {
            return self.answer_command(session, message.tid, Answer::error(Errno::EINVAL, "the command does not decode").into());
        };
        let allowed = self.sessions.get(session).is_some_and(|s| admit::may_command(&s.rights));
        if !allowed {
            return self.answer_command(session, message.tid, Answer::error(Errno::EACCES, "access denied").into());
        }
        let asker = Asker { session, tid: message.tid };
        let json = command.cmd.concat();
        match commands::run(self, now, &json, Some(asker)) {
            Dispatch::Now(answer) => self.answer_command(session, message.tid, answer),
            Dispatch::Bench(_) if self.bench.is_some() => {
                let busy = Answer::error(Errno::EBUSY, "another bench is running on this OSD");
                self.answer_command(session, message.tid, busy.into());
            }
            Dispatch::Bench(bench) => {
                self.bench = Some(bench);
                self.run_bench(now);
            }
        }
    }

    pub(crate) fn answer_command(&mut self, session: SessionId, tid: u64, answer: Told) {
        let output = answer.output.into_bytes().into();
        let mut message = CommandReply { result: answer.result, status: answer.status, output }.encode();
        message.tid = tid;
        self.msgr.send(session, message);
    }

    /// A client's operation.
    fn operation(&mut self, now: Now, session: SessionId, message: Message, bytes: usize, out: &mut Outputs) {
        let Some(op) = self.decoded(now, session, &message, out) else { return self.msgr.done(session, bytes) };
        let (tid, received, payload, request) = (message.tid, now.mono, message.data.len(), Request::of(&op));
        let key = self.ops.begin(Arrival { session, tid, received, bytes, payload, request });
        self.route(now, Early { key, session, epoch: op.epoch, message }, op, out);
    }

    /// An operation goes on as far as the map allows it.
    fn route(&mut self, now: Now, early: Early, op: OsdOp, out: &mut Outputs) {
        if op.epoch > self.maps.epoch() || matches!(self.phase, Phase::Opening | Phase::Loading) {
            return self.wait_for_map(now, early, out);
        }
        match self.doubt(early.session, early.key, &op) {
            Doubt::None => {}
            Doubt::Open => return self.wait_for_map(now, early, out),
            Doubt::Certain => {
                self.let_go(early.key);
                return self.refuse(early.session, early.message.tid, &op, Errno::EINVAL);
            }
        }
        let owes = self.expected_answer(&op);
        if let Some(early) = self.fit(now, early, owes) {
            self.perform(now, early, op, owes, out);
        }
    }

    /// An operation that waited may be carried out.
    pub(crate) fn admitted(&mut self, now: Now, early: Early, owes: usize, out: &mut Outputs) {
        match OsdOp::decode(&early.message) {
            Ok(op) => self.perform(now, early, op, owes, out),
            // It did before.
            Err(_) => self.let_go(early.key),
        }
    }

    /// An operation is over without an answer, and holds nothing any more.
    pub(crate) fn let_go(&mut self, key: OpKey) {
        let op = self.ops.at(key);
        let (session, owes) = (op.session, op.owes);
        self.sessions.owe(session, owes, 0);
        let bytes = self.ops.end(key);
        if bytes > 0 {
            self.msgr.done(session, bytes);
        }
    }

    fn decoded(&mut self, now: Now, session: SessionId, message: &Message, out: &mut Outputs) -> Option<OsdOp> {
        match OsdOp::decode(message) {
            Ok(op) => Some(op),
            Err(e) => {
                self.msgr.refuse(now, session, &format!("an operation does not decode: {e}"), out);
                self.session_ended(now, session, out);
                None
            }
        }
    }

    /// Carries an operation out: rights, fullness, its group.
    fn perform(&mut self, now: Now, early: Early, op: OsdOp, owes: usize, out: &mut Outputs) {
        let Early { key, session, message, .. } = early;
        if !self.heeds(now, session, op.epoch, out) {
            return self.let_go(key);
        }
        self.share_maps(session, op.epoch);
        let pg = addressed(self.maps.current(), &op);
        let Some(known) = self.sessions.get(session) else { return self.let_go(key) };
        if let Err(refusal) = admit::admit(&self.maps.current().clone(), known, &op) {
            self.perf.denied += 1;
            self.let_go(key);
            return self.refuse(session, message.tid, &op, refusal);
        }
        if op.ops.iter().any(|single| single.code == code::NOTIFY) && self.groups.notices() > NOTICES {
            self.let_go(key);
            return self.refuse(session, message.tid, &op, Errno::EDQUOT);
        }
        if self.primary_since.is_before(op.epoch, pg.pg) {
            // Its client asked for more by that map, which was dropped, and sends all of it again in order.
            self.perf.dropped += 1;
            return self.let_go(key);
        }
        if self.full.drops(&op) {
            known.turned_away = true;
            self.perf.dropped += 1;
            return self.let_go(key);
        }
        let Some(slot) = self.groups.find(&pg).filter(|slot| self.groups.get(*slot).is_none_or(|pg| !pg.is_going())) else {
            if pg::is_aside(&op) && self.maps.current().placed(pg.pg).acting_primary != self.config.whoami {
                // A member that has nothing of the group yet: no map would tell the client to ask elsewhere.
                self.ops.sub_ops.read_aside(false);
                self.let_go(key);
                return self.refuse(session, message.tid, &op, Errno::EAGAIN);
            }
            let early = Early { key, session, epoch: op.epoch, message };
            return self.homeless(now, Waiting { early, owes }, pg, out);
        };
        let peer = known.peer.clone();
        let image = self.images.place(now.mono, &mut known.image, &op.locator, &op.oid);
        let record = self.ops.at(key);
        record.image = image;
        record.reach(now.mono, slot, &peer);
        record.owes = owes;
        let client = ClientOp { key, session, peer, tid: message.tid, received: record.received, op };
        self.sessions.owe(session, 0, owes);
        let first = self.effects.len();
        let (groups, mut world) = self.world(now);
        groups.call(slot, &mut world, |pg, ctx| pg.handle_op(ctx, client));
        self.count_answers(first);
    }

    fn wait_for_map(&mut self, now: Now, early: Early, out: &mut Outputs) {
        if self.too_early(now, &early, out) {
            return;
        }
        if early.epoch > self.maps.epoch() {
            self.ask_for_maps();
        }
        self.ops.at(early.key).wait(now.mono, Wait::ForMap);
        self.early.push_back(early);
    }

    /// Returns true if an operation may not wait for maps and groups, since too many of its session do: that is
    /// closed, and the client comes back.
    fn too_early(&mut self, now: Now, early: &Early, out: &mut Outputs) -> bool {
        if self.early.len() + self.homeless.len() < MAX_EARLY {
            return false;
        }
        let waiting = self.early.iter().chain(self.homeless.iter().map(|w| &w.early)).chain([early]);
        let most = largest(waiting.map(|early| early.session)).unwrap_or(early.session);
        let own = most == early.session;
        if own {
            self.let_go(early.key);
        }
        self.msgr.close(most);
        self.session_ended(now, most, out);
        own
    }

    /// An operation for a group that is not here, or is just going. If this OSD leads it by the map, and the group is about to come out of a
    /// split, or what it takes in, or what was here of it, is still being removed, the operation waits for it: no other map may come
    /// that would have the client send it again. Otherwise it was sent by an older map, or nobody serves the group: the client
    /// sends it again when the map changes.
    fn homeless(&mut self, now: Now, waiting: Waiting, id: SpgId, out: &mut Outputs) {
        let groups = &self.groups;
        let to_come = groups.find(&id).is_some() || groups.has_ancestor(&id) || groups.is_blocked(&id, self.maps.current());
        if to_come && self.maps.current().placed(id.pg).acting_primary == self.config.whoami {
            if !self.too_early(now, &waiting.early, out) {
                self.ops.at(waiting.early.key).wait(now.mono, Wait::ForGroup);
                self.homeless.push_back(waiting);
            }
            return;
        }
        self.perf.dropped += 1;
        self.let_go(waiting.early.key);
    }

    /// Operations that waited for a map that has come.
    pub(crate) fn early_operations(&mut self, now: Now, out: &mut Outputs) {
        for early in std::mem::take(&mut self.early) {
            if early.epoch > self.maps.epoch() {
                self.early.push_back(early);
            } else if let Ok(op) = OsdOp::decode(&early.message) {
                self.route(now, early, op, out);
            } else {
                self.let_go(early.key);
            }
        }
    }

    /// A client that is behind is sent what it lacks, once.
    pub(crate) fn share_maps(&mut self, session: SessionId, epoch: types::Epoch) {
        let newest = self.maps.epoch();
        let Some(known) = self.sessions.get(session) else { return };
        known.epoch = known.epoch.max(epoch);
        while let Some((message, reached)) = self.sessions.get(session).and_then(|s| self.maps.share(s.epoch)) {
            self.perf.maps_shared += 1;
            self.msgr.send(session, message);
            if let Some(known) = self.sessions.get(session) {
                known.epoch = reached.min(newest);
            }
        }
    }

    fn refuse(&mut self, session: SessionId, tid: u64, op: &OsdOp, errno: Errno) {
        let mut message = refusal(op, errno, self.maps.epoch()).encode();
        message.tid = tid;
        self.msgr.send(session, message);
    }

    /// Carries out what groups want.
    pub(crate) fn carry_out(&mut self, now: Now, out: &mut Outputs) {
        let mut slow = Vec::new();
        for (slot, effect) in std::mem::take(&mut self.effects) {
            #[cfg(feature = "sim")]
            self.note_answer(slot, &effect);
            match effect {
                Effect::Reply { op, session, message, .. } if session == OURSELVES => {
                    self.ops.end(op);
                    self.read_was_answered(now, &message);
                }
                Effect::Send { session, message } if session == OURSELVES => self.told_ourselves(now, &message, out),
                Effect::Reply { op, session, .. } if self.answers_no_more(session) => self.dropped(op, session),
                Effect::Reply { op, session, message, executed } => self.reply(now, op, session, message, executed),
                Effect::Dropped { op, session, .. } => self.dropped(op, session),
                Effect::NoSpace { session, pool, epoch } => self.overran(session, pool, epoch),
                Effect::Send { session, message } => slow.extend(self.tell_client(session, message)),
                Effect::ClusterLog { level, text } => {
                    out.log(Level::Info, "cluster", text.clone());
                    self.cluster_log(now, level, text);
                }
                Effect::Log(line) => out.push(Output::Log(line)),
                Effect::Fetch { id, op } => {
                    self.copies.begin(slot, id, *op);
                }
                Effect::Tell { to, letter } => self.letters.post(to.osd, letter),
                Effect::WantUpThru(epoch) => self.letters.want_up_thru(epoch),
                Effect::WantLease => self.leases.want(),
                Effect::WantActing(acting) => {
                    if let Some(pg) = self.groups.get(slot) {
                        self.letters.want_acting(pg.id().pg, acting);
                    }
                }
                Effect::Split { children } => self.split(now, children, out),
                Effect::Unite => self.unite = true,
                Effect::United { sources } => {
                    if let Some(into) = self.groups.get(slot).map(pg::Pg::id) {
                        self.united(now, into, sources, out);
                    }
                }
                Effect::Ready => self.reporter.hurry(),
                Effect::Removed => self.removed(now, slot, out),
                Effect::StoreStopped => {
                    self.store_stopped = true;
                    out.log(Level::Info, "osd", "the store has stopped taking writes");
                }
            }
        }
        if std::mem::take(&mut self.unite) {
            self.unite(now);
        }
        if !slow.is_empty() {
            let others = std::mem::replace(&mut self.ending, slow);
            self.end_sessions(now, "it does not take what it is told", out);
            self.ending = others;
        }
        self.run_copies(now, out);
    }

    /// Tells a client something that it did not just ask for: notifications come from others. Gives one back that takes
    /// nothing of it. Its session is to end: it connects again, and watches anew.
    fn tell_client(&mut self, session: SessionId, message: Message) -> Option<SessionId> {
        let limits = &self.msgr.config().limits;
        let (pause, total) = (limits.send_pause, limits.send_total);
        let client = self.sessions.get(session).is_some_and(|known| known.peer.kind == EntityType::Client);
        let queued = self.msgr.queued(session);
        let much = queued > pause || (queued > pause / 16 && self.msgr.lag() > total);
        if client && much {
            return Some(session);
        }
        self.msgr.send(session, message);
        None
    }

    /// Nothing of a group is left in the store. Others may have waited for that; and this OSD may lead the group by a map that came while it
    /// went.
    fn removed(&mut self, now: Now, slot: Slot, out: &mut Outputs) {
        let id = self.groups.get(slot).map(|pg| pg.id().pg);
        self.group_is_gone(slot);
        let map = self.maps.current().clone();
        let was_taken_in = |pg: PgId| map.pool(pg.pool).is_some_and(|pool| pg.seed >= pool.pg_num);
        let comes_back = |pg: PgId| map.placed(pg).acting_primary == self.config.whoami;
        if id.is_some_and(|pg| was_taken_in(pg) || comes_back(pg)) {
            self.unite = true;
            self.lead_unknown(now, &map, &map);
            self.rehouse();
            self.deliver_held(now, out);
        }
    }

    fn split(&mut self, now: Now, children: Vec<SpgId>, out: &mut Outputs) {
        for id in children {
            let (groups, mut world) = self.world(now);
            groups.load(id, &mut world);
        }
        self.scale_logs();
        self.reporter.hurry();
        self.rehouse();
        self.deliver_held(now, out);
    }

    fn reply(&mut self, now: Now, op: OpKey, session: SessionId, message: Message, executed: Mono) {
        let owes = self.ops.at(op).owes;
        if !self.sessions.owe(session, owes, 0) {
            // The session is gone, and with it what the operation held.
            self.ops.end(op);
            return;
        }
        let bytes = self.ops.answer(op, executed, now.mono, message.data.len());
        self.msgr.done(session, bytes);
        self.msgr.send(session, message);
    }

    /// Returns true once a write of the session was dropped since the store takes no more. What it asked for after that
    /// is dropped, too: a read that passed the write would show what was before it.
    fn answers_no_more(&mut self, session: SessionId) -> bool {
        self.store_stopped || self.away.is_some() && self.sessions.get(session).is_some_and(|known| known.turned_away)
    }

    /// An operation gets no answer: the client sends it again when the map tells it to.
    fn dropped(&mut self, op: OpKey, session: SessionId) {
        let away = self.away.is_some();
        if let Some(known) = self.sessions.get(session) {
            // The map that marks this OSD down is the one that tells it.
            known.turned_away |= away;
            self.perf.dropped += 1;
            // The map that it is dropped for may have come after it: only who sees that map knows to send it again.
            self.share_maps(session, 0);
        }
        self.let_go(op);
    }

    /// Nothing of a group is left. What came to it since then goes with it, and comes again.
    pub(crate) fn group_is_gone(&mut self, slot: Slot) {
        for op in self.groups.get(slot).map(pg::Pg::ops).unwrap_or_default() {
            let session = self.ops.at(op).session;
            self.dropped(op, session);
        }
        self.groups.removed(slot);
    }
}

/// The session that comes most often; of several the newest.
fn largest(sessions: impl Iterator<Item = SessionId>) -> Option<SessionId> {
    let mut counts: BTreeMap<SessionId, usize> = BTreeMap::new();
    sessions.for_each(|session| *counts.entry(session).or_default() += 1);
    counts.into_iter().max_by_key(|(session, count)| (*count, *session)).map(|(session, _)| session)
}

/// The answer to an operation that never reached its group.
fn refusal(op: &OsdOp, errno: Errno, epoch: types::Epoch) -> OsdOpReply {
    OsdOpReply {
        oid: op.oid.clone(),
        pg: op.pg.pg,
        flags: i64::from(op.flags),
        result: errno.wire(),
        epoch,
        ops: op.ops.iter().map(OpResult::of).collect(),
        retry: op.retry,
        ..OsdOpReply::default()
    }
}
