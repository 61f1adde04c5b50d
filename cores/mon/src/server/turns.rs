//! The share of one client: commands and pool operations that a session gives in a loop. Each pool operation makes a
//! map for all.
//!
//! A client that waits for an answer and asks again at once takes as much of the monitor as there is. So each session
//! of a client may give [`BURST`] commands as fast as it likes, and [`PER_SECOND`] in a second afterwards. Those beyond
//! wait, in their order, and the session's memory at the messenger stays taken meanwhile: so what waits is bounded as
//! all that a session has under way. Programs that give one command each, scripts of some hundred commands, and daemons
//! do not notice.
//!
//! What waits is lost with its session, as what was not dealt with yet. A monitor that does not lead counts for its own
//! sessions; the leader does not count what others pass on.

use super::Monitor;
use super::sessions::Side;
use messages::mon::{Command, MgrCommand, MonCommand, PoolOp};
use node::{Mono, Now, Outputs};
use std::collections::{BTreeMap, VecDeque};
use types::{EntityType, Message, SessionId};

/// Commands of one session that may come at once.
const BURST: u64 = 1_000;
/// Commands of one session in a second afterwards.
const PER_SECOND: u64 = 100;
/// Nanoseconds for one of these.
const EACH: u64 = 1_000_000_000 / PER_SECOND;
/// Commands that wait of one session; one that sends more is closed.
const MOST: usize = 4_096;

type Key = (Side, SessionId);

/// A session that gave commands.
#[derive(Debug)]
struct Turn {
    /// The moment at which it would have used up nothing.
    rested: Mono,
    /// Messages that wait, and the bytes that each holds at the messenger.
    waiting: VecDeque<(Message, usize)>,
}

/// The turns of all sessions.
#[derive(Debug, Default)]
pub(super) struct Turns(BTreeMap<Key, Turn>);

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

impl Turns {
    fn take(&mut self, now: Mono, key: Key, message: Message, bytes: usize) -> Verdict {
        let turn = self.0.entry(key).or_insert_with(|| Turn { rested: now, waiting: VecDeque::new() });
        if turn.waiting.is_empty() && turn.may(now) {
            return Verdict::Now(message, bytes);
        }
        if turn.waiting.len() >= MOST {
            return Verdict::TooMany;
        }
        turn.waiting.push_back((message, bytes));
        Verdict::Later
    }

    /// A command whose time has come.
    fn due(&mut self, now: Mono) -> Option<(Key, Message, usize)> {
        self.0.iter_mut().find_map(|(key, turn)| {
            if turn.waiting.is_empty() || !turn.may(now) {
                return None;
            }
            turn.waiting.pop_front().map(|(message, bytes)| (*key, message, bytes))
        })
    }

    /// Returns when [`Monitor::deal_with_late`] has something to do.
    pub(super) fn deadline(&self) -> Mono {
        self.0.values().filter(|turn| !turn.waiting.is_empty()).map(Turn::next).min().unwrap_or(Mono::NEVER)
    }

    /// A session is over.
    pub(super) fn forget(&mut self, side: Side, session: SessionId) {
        self.0.remove(&(side, session));
    }
}

impl Turn {
    /// Returns when one more may come.
    fn next(&self) -> Mono {
        Mono(self.rested.0.saturating_sub((BURST - 1) * EACH))
    }

    /// Returns true if one more may come now; if so it is counted.
    fn may(&mut self, now: Mono) -> bool {
        if self.next() > now {
            return false;
        }
        self.rested = Mono(self.rested.max(now).0 + EACH);
        true
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
        let command = [MonCommand::KIND, Command::KIND, MgrCommand::KIND, PoolOp::KIND].contains(&message.kind);
        let client = |known: &super::sessions::Session| known.peer.name.kind == EntityType::Client;
        if !command || !self.sessions.0.get(&(side, session)).is_some_and(client) {
            return Some((message, bytes));
        }
        match self.turns.take(now.mono, (side, session), message, bytes) {
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
                if turns.0.get(&KEY).is_none_or(|turn| turn.waiting.is_empty()) {
                    n += 1;
                    done += u64::from(matches!(turns.take(at(ms), KEY, command(n), 10), Verdict::Now(..)));
                }
                done += u64::from(turns.due(at(ms)).is_some());
            }
            if ms == 9_000 {
                let other = (Side::Mon, SessionId(6));
                assert!(matches!(turns.take(at(ms), other, command(1), 10), Verdict::Now(..)));
            }
        }
        assert!((BURST + 900..BURST + 1_100).contains(&done), "{done} commands in ten seconds");
        assert!(turns.deadline() > at(9_990) && turns.deadline() < at(10_020));
    }

    #[test]
    fn what_waits_keeps_its_order_and_goes_with_its_session() {
        let mut turns = Turns::default();
        for n in 0..BURST {
            assert!(matches!(turns.take(at(0), KEY, command(n), 10), Verdict::Now(..)));
        }
        for n in 0..MOST as u64 {
            assert_eq!(turns.take(at(0), KEY, command(n), 10), Verdict::Later);
        }
        assert_eq!(turns.take(at(0), KEY, command(0), 10), Verdict::TooMany);
        let tids: Vec<u64> = std::iter::from_fn(|| turns.due(at(100))).map(|(_, message, _)| message.tid).collect();
        assert_eq!(tids, (0..10).collect::<Vec<_>>());
        assert_eq!(turns.due(turns.deadline()).map(|(_, message, _)| message.tid), Some(10));
        turns.forget(KEY.0, KEY.1);
        assert_eq!(turns.deadline(), Mono::NEVER);
    }
}
