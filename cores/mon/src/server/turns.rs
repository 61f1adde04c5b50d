//! The share of one client: commands and pool operations that a session gives in a loop. Each pool operation makes a
//! map for all.
//!
//! A client that waits for an answer and asks again at once takes as much of the monitor as there is. So each session
//! of a client may give [`BURST`] commands as fast as it likes, and [`PER_SECOND`] in a second afterwards. Those beyond
//! wait, in their order, and the session's memory at the messenger stays taken meanwhile: so what waits is bounded as
//! all that a session has under way. Programs that give one command each, scripts of some hundred commands, and daemons
//! do not notice.
//!
//! - *Who opens many sessions* has the turns of one entity: [`OF_ENTITY`] times those of a session. Whoever may do everything at the monitors has
//!   no such bound: administrators get in.
//! - *Long answers* count: each [`PIECE`] bytes as one more command.
//! - *Other questions* (subscriptions, versions, figures, pings) count as a part of a command ([`LIGHT`]).
//!
//! What waits is lost with its session, as what was not dealt with yet. A monitor that does not lead counts for its own
//! sessions; the leader does not count what others pass on.

use super::Monitor;
use super::sessions::Side;
use messages::mon::{
    Auth, Command, GetPoolStats, MgrCommand, MonCommand, MonGetMap, MonGetVersion, MonSubscribe, Ping, PoolOp, Statfs,
};
use node::{Mono, Now, Outputs};
use std::collections::{BTreeMap, VecDeque};
use types::{EntityName, EntityType, Message, SessionId};

/// Commands of one session that may come at once.
const BURST: u64 = 1_000;
/// Commands of one session in a second afterwards.
const PER_SECOND: u64 = 100;
/// Nanoseconds for one of these.
const EACH: u64 = 1_000_000_000 / PER_SECOND;
/// Nanoseconds for another question.
const LIGHT: u64 = EACH / 10;
/// Turns that all sessions of one entity have together, in those of one session.
const OF_ENTITY: u64 = 4;
/// Bytes of an answer that count as one more command.
const PIECE: usize = 64 << 10;
/// Entities that are remembered before those are forgotten that used up nothing.
const ENTITIES: usize = 1_024;
/// Commands that wait of one session; one that sends more is closed.
const MOST: usize = 4_096;

type Key = (Side, SessionId);

/// A session that gave commands.
#[derive(Debug)]
struct Turn {
    /// The moment at which it would have used up nothing.
    rested: Mono,
    /// Name of the session's entity, if that has a bound of its own.
    entity: Option<EntityName>,
    /// Messages that wait, and the bytes that each holds at the messenger.
    waiting: VecDeque<(Message, usize)>,
}

/// The turns of all sessions.
#[derive(Debug, Default)]
pub(super) struct Turns {
    sessions: BTreeMap<Key, Turn>,
    /// The moment at which each entity would have used up nothing.
    entities: BTreeMap<EntityName, Mono>,
}

/// Verdict about a command.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// It is dealt with.
    Now(Message, usize),
    /// It waits.
    Later,
    /// Too many wait.
    TooMany,
}

/// Nanoseconds that a message takes of a turn; `None`: it is no matter of turns.
fn weight(kind: u16) -> Option<u64> {
    match kind {
        MonCommand::KIND | Command::KIND | MgrCommand::KIND | PoolOp::KIND => Some(EACH),
        MonSubscribe::KIND
        | MonGetVersion::KIND
        | MonGetMap::KIND
        | Statfs::KIND
        | GetPoolStats::KIND
        | Ping::KIND
        | Auth::KIND => Some(LIGHT),
        _ => None,
    }
}

/// Returns when one more may come of who would have used up nothing at `rested`.
fn next(rested: Mono) -> Mono {
    Mono(rested.0.saturating_sub((BURST - 1) * EACH))
}

impl Turns {
    fn take(&mut self, now: Mono, key: Key, entity: Option<&EntityName>, message: Message, bytes: usize) -> Verdict {
        let turn =
            self.sessions.entry(key).or_insert_with(|| Turn { rested: now, entity: entity.cloned(), waiting: VecDeque::new() });
        if turn.waiting.len() >= MOST {
            return Verdict::TooMany;
        }
        turn.waiting.push_back((message, bytes));
        if turn.waiting.len() > 1 {
            return Verdict::Later;
        }
        match turn.pop(now, &mut self.entities) {
            Some((message, bytes)) => Verdict::Now(message, bytes),
            None => Verdict::Later,
        }
    }

    /// A command whose time has come.
    fn due(&mut self, now: Mono) -> Option<(Key, Message, usize)> {
        let entities = &mut self.entities;
        self.sessions.iter_mut().find_map(|(key, turn)| turn.pop(now, entities).map(|(message, bytes)| (*key, message, bytes)))
    }

    /// Counts what a session was answered.
    pub(super) fn answered(&mut self, now: Mono, side: Side, session: SessionId, bytes: usize) {
        let more = (bytes / PIECE) as u64 * EACH;
        if more > 0
            && let Some(turn) = self.sessions.get_mut(&(side, session))
        {
            turn.count(now, more, &mut self.entities);
        }
    }

    /// Returns when [`Monitor::deal_with_late`] has something to do.
    pub(super) fn deadline(&self) -> Mono {
        let waiting = self.sessions.values().filter(|turn| !turn.waiting.is_empty());
        waiting.map(|turn| turn.next(&self.entities)).min().unwrap_or(Mono::NEVER)
    }

    /// A session is over.
    pub(super) fn forget(&mut self, side: Side, session: SessionId) {
        self.sessions.remove(&(side, session));
    }
}

impl Turn {
    /// Returns when one more may come.
    fn next(&self, entities: &BTreeMap<EntityName, Mono>) -> Mono {
        let of_all = self.entity.as_ref().and_then(|name| entities.get(name)).map_or(Mono(0), |rested| next(*rested));
        next(self.rested).max(of_all)
    }

    /// Takes what waits first, if its time has come; it counts then.
    fn pop(&mut self, now: Mono, entities: &mut BTreeMap<EntityName, Mono>) -> Option<(Message, usize)> {
        if self.waiting.is_empty() || self.next(entities) > now {
            return None;
        }
        let (message, bytes) = self.waiting.pop_front()?;
        self.count(now, weight(message.kind).unwrap_or(EACH), entities);
        Some((message, bytes))
    }

    /// Counts so many nanoseconds of the session's turn, and of its entity's.
    fn count(&mut self, now: Mono, nanos: u64, entities: &mut BTreeMap<EntityName, Mono>) {
        let later = |rested: Mono, nanos: u64| Mono(rested.max(now).0.saturating_add(nanos));
        self.rested = later(self.rested, nanos);
        let Some(name) = &self.entity else { return };
        if entities.len() >= ENTITIES && !entities.contains_key(name) {
            entities.retain(|_, rested| *rested > now);
        }
        let rested = entities.entry(name.clone()).or_insert(now);
        *rested = later(*rested, nanos / OF_ENTITY);
    }
}

impl Monitor {
    /// Takes a client's command in, now or when its session's turn comes; gives other messages back at once.
    pub(super) fn in_turn(
        &mut self,
        now: Now,
        side: Side,
        session: SessionId,
        message: Message,
        bytes: usize,
        out: &mut Outputs,
    ) -> Option<(Message, usize)> {
        let known = self.sessions.0.get(&(side, session)).filter(|known| known.peer.name.kind == EntityType::Client);
        let (Some(known), Some(_)) = (known, weight(message.kind)) else { return Some((message, bytes)) };
        let entity = Some(&known.peer.name).filter(|_| !known.rights.may_do_all());
        match self.turns.take(now.mono, (side, session), entity, message, bytes) {
            Verdict::Now(message, bytes) => Some((message, bytes)),
            Verdict::Later => None,
            Verdict::TooMany => {
                self.messenger(side).refuse(now, session, "thousands of commands at once", out);
                self.closed(now, side, session);
                None
            }
        }
    }

    /// Deals with commands that waited for their turn.
    pub(super) fn deal_with_late(&mut self, now: Now, out: &mut Outputs) -> bool {
        let mut progress = false;
        while let Some(((side, session), message, bytes)) = self.turns.due(now.mono) {
            progress = true;
            self.message(now, side, session, message, out);
            self.messenger(side).done(session, bytes);
        }
        progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(n: u64) -> Message {
        Message { tid: n, kind: MonCommand::KIND, ..Message::default() }
    }

    fn at(ms: u64) -> Mono {
        Mono(1 + ms * 1_000_000)
    }

    const KEY: Key = (Side::Mon, SessionId(4));

    #[test]
    fn a_session_that_asks_in_a_loop_gets_a_share_and_others_do_not_wait() {
        let mut turns = Turns::default();
        let (mut done, mut n) = (0, 0);
        // It asks again as soon as it was answered, for ten seconds.
        for ms in 0..10_000 {
            for _ in 0..50 {
                if turns.sessions.get(&KEY).is_none_or(|turn| turn.waiting.is_empty()) {
                    n += 1;
                    done += u64::from(matches!(turns.take(at(ms), KEY, None, command(n), 10), Verdict::Now(..)));
                }
                done += u64::from(turns.due(at(ms)).is_some());
            }
            if ms == 9_000 {
                let other = (Side::Mon, SessionId(6));
                assert!(matches!(turns.take(at(ms), other, None, command(1), 10), Verdict::Now(..)));
            }
        }
        assert!((BURST + 900..BURST + 1_100).contains(&done), "{done} commands in ten seconds");
        assert!(turns.deadline() > at(9_990) && turns.deadline() < at(10_020));
    }

    #[test]
    fn what_waits_keeps_its_order_and_goes_with_its_session() {
        let mut turns = Turns::default();
        for n in 0..BURST {
            assert!(matches!(turns.take(at(0), KEY, None, command(n), 10), Verdict::Now(..)));
        }
        for n in 0..MOST as u64 {
            assert_eq!(turns.take(at(0), KEY, None, command(n), 10), Verdict::Later);
        }
        assert_eq!(turns.take(at(0), KEY, None, command(0), 10), Verdict::TooMany);
        let tids: Vec<u64> = std::iter::from_fn(|| turns.due(at(100))).map(|(_, message, _)| message.tid).collect();
        assert_eq!(tids, (0..10).collect::<Vec<_>>());
        assert_eq!(turns.due(turns.deadline()).map(|(_, message, _)| message.tid), Some(10));
        turns.forget(KEY.0, KEY.1);
        assert_eq!(turns.deadline(), Mono::NEVER);
    }

    #[test]
    fn many_sessions_of_an_entity_have_the_turns_of_four() {
        let mut turns = Turns::default();
        let (one, other) = (EntityName::new(EntityType::Client, "a"), EntityName::new(EntityType::Client, "b"));
        let done = |turns: &mut Turns, entity: Option<&EntityName>, first: u64| {
            let take =
                |turns: &mut Turns, n: u64| turns.take(at(0), (Side::Mon, SessionId(first + n % 100)), entity, command(n), 10);
            (0..20_000).filter(|n| matches!(take(turns, *n), Verdict::Now(..))).count() as u64
        };
        let share = OF_ENTITY * BURST;
        let had = done(&mut turns, Some(&one), 0);
        assert!((share - 10..=share + 10).contains(&had), "{had} commands at once");
        assert!(done(&mut turns, Some(&other), 1_000) >= share - 10, "others have theirs");
        assert_eq!(done(&mut turns, None, 2_000), 20_000, "an administrator has those of each session");
        let later = std::iter::from_fn(|| turns.due(at(1_000))).filter(|((_, session), ..)| session.0 < 1_000).count();
        assert!((350..450).contains(&later), "{later} in the second after that");
    }

    #[test]
    fn long_answers_and_small_questions_count() {
        let mut turns = Turns::default();
        assert!(matches!(turns.take(at(0), KEY, None, command(0), 10), Verdict::Now(..)));
        turns.answered(at(0), KEY.0, KEY.1, PIECE * BURST as usize);
        assert_eq!(turns.take(at(0), KEY, None, command(1), 10), Verdict::Later, "the answer took the turn");
        let (light, mut done) = ((Side::Mon, SessionId(8)), 0);
        while let Verdict::Now(..) = turns.take(at(0), light, None, Message { kind: Ping::KIND, ..command(0) }, 10) {
            done += 1;
        }
        assert!((10 * BURST - 20..=10 * BURST).contains(&done), "{done} pings at once");
    }
}
