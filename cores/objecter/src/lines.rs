//! Sessions that are kept by name: opened when they are needed, and opened again after they broke, ever more slowly.

use msgr::{Messenger, Policy};
use node::{Mono, Now, Outputs};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityAddr, EntityType, SessionId};

/// Failures in a row after which [`Lines::hasten`] does not hasten any more.
const HASTY: u32 = 5;
/// The pause after the second to that failure, when hastened.
const SOON: Duration = Duration::from_millis(20);

/// A session that stood for less time has failed like one that never did: whoever is let in and refused at once would
/// come back at once, for ever.
pub(crate) const STOOD: Duration = Duration::from_secs(1);

/// A pause that doubles with each failure.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    /// After the first failure.
    pub first: Duration,
    /// After many.
    pub most: Duration,
}

impl Pause {
    /// Up to 16 times the first.
    pub fn of(first: Duration) -> Self {
        Self { first, most: first * 16 }
    }

    /// Returns how long to wait after so many failures in a row.
    pub fn after(self, failures: u32) -> Duration {
        (self.first * (1 << failures.saturating_sub(1).min(16))).min(self.most)
    }
}

#[derive(Debug)]
struct Line {
    addr: EntityAddr,
    session: Option<SessionId>,
    failures: u32,
    /// Since when the session stands.
    opened: Option<Mono>,
    retry_at: Mono,
}

/// Lossy sessions by name. Each name has one session at a time, at one address.
#[derive(Debug)]
pub struct Lines<K> {
    lines: BTreeMap<K, Line>,
    names: BTreeMap<SessionId, K>,
    pause: Pause,
    kind: EntityType,
}

impl<K: Copy + Ord> Lines<K> {
    /// A table without sessions, for sessions with OSDs.
    pub fn new(pause: Pause) -> Self {
        Self::to(EntityType::Osd, pause)
    }

    /// A table without sessions, for sessions with daemons of this kind.
    pub fn to(kind: EntityType, pause: Pause) -> Self {
        Self { lines: BTreeMap::new(), names: BTreeMap::new(), pause, kind }
    }

    /// The session of `name`; one is opened to the daemon at `addr` if there is none. Messages may be queued on it
    /// before it stands.
    ///
    /// # Errors
    /// The moment before which nothing is opened, because the session broke.
    pub fn reach(
        &mut self,
        now: Now,
        name: K,
        addr: EntityAddr,
        messenger: &mut Messenger,
        out: &mut Outputs,
    ) -> Result<SessionId, Mono> {
        let fresh = || Line { addr, session: None, failures: 0, opened: None, retry_at: Mono(0) };
        let line = self.lines.entry(name).or_insert_with(fresh);
        if let Some(session) = line.session {
            return Ok(session);
        }
        if line.addr != addr {
            *line = fresh();
        }
        if now.mono < line.retry_at {
            return Err(line.retry_at);
        }
        let session = messenger.connect(now, addr, self.kind, Policy::Lossy, out);
        line.session = Some(session);
        self.names.insert(session, name);
        Ok(session)
    }

    /// Returns whose session this is; `None` if it is none of these.
    pub fn name(&self, session: SessionId) -> Option<K> {
        self.names.get(&session).copied()
    }

    /// The session of `name`, standing or being opened.
    pub fn session(&self, name: K) -> Option<SessionId> {
        self.lines.get(&name)?.session
    }

    /// A session stands.
    pub fn opened(&mut self, now: Now, session: SessionId) {
        if let Some(line) = self.names.get(&session).and_then(|name| self.lines.get_mut(name)) {
            line.opened = Some(now.mono);
        }
    }

    /// A session broke. Gives its name, and the moment before which no other is opened; `None` if it is none of these.
    pub fn closed(&mut self, now: Now, session: SessionId) -> Option<(K, Mono)> {
        let name = self.names.remove(&session)?;
        let line = self.lines.get_mut(&name)?;
        line.session = None;
        let stood = line.opened.take().is_some_and(|since| now.mono.since(since) >= STOOD);
        line.failures = if stood { 1 } else { line.failures + 1 };
        line.retry_at = now.mono.plus(self.pause.after(line.failures));
        Some((name, line.retry_at))
    }

    /// The session of `name` broke and is missed: it may be opened again now if it stood, and after a few milliseconds
    /// the next times. Gives that moment; `None` if there is no such name, or it has a session.
    pub fn hasten(&mut self, now: Now, name: K) -> Option<Mono> {
        let line = self.lines.get_mut(&name).filter(|line| line.session.is_none())?;
        let wait = match line.failures {
            0 | 1 => Duration::ZERO,
            2..=HASTY => SOON,
            _ => return Some(line.retry_at),
        };
        line.retry_at = line.retry_at.min(now.mono.plus(wait));
        Some(line.retry_at)
    }

    /// Forgets the names that lead nowhere any more, and closes their sessions. `stays` is asked with each name and its
    /// address. Gives the names whose sessions were closed.
    pub fn retain(&mut self, messenger: &mut Messenger, stays: impl Fn(K, &EntityAddr) -> bool) -> Vec<K> {
        let mut closed = Vec::new();
        for (name, line) in self.lines.extract_if(.., |name, line| !stays(*name, &line.addr)) {
            if let Some(session) = line.session {
                self.names.remove(&session);
                messenger.close(session);
                closed.push(name);
            }
        }
        closed
    }

    /// A mistake to be found: what broke is never opened again.
    #[cfg(feature = "sim")]
    pub fn give_up(&mut self, those: impl Fn(K) -> bool) {
        for (_, line) in self.lines.iter_mut().filter(|(name, line)| line.failures > 0 && line.session.is_none() && those(**name))
        {
            line.retry_at = Mono::NEVER;
        }
    }

    /// Number of sessions, standing or being opened.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns true if there is no session.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgr::auth::Auth;
    use node::Output;
    use types::{EntityName, UTime};

    fn now(ms: u64) -> Now {
        Now { mono: Mono(ms * 1_000_000), wall: UTime::ZERO }
    }

    fn at(port: u16, nonce: u32) -> EntityAddr {
        EntityAddr::msgr2(([10, 0, 0, 1], port).into(), nonce)
    }

    fn world() -> (Lines<i32>, Messenger, Outputs) {
        let pause = Pause { first: Duration::from_millis(50), most: Duration::from_millis(800) };
        let name = EntityName::new(EntityType::Client, "x");
        let messenger = Messenger::new(msgr::Config::client(name.clone(), 1), Auth::none(name), [1; 32]);
        (Lines::new(pause), messenger, Outputs::default())
    }

    #[test]
    fn a_name_has_one_session_and_a_broken_one_is_left_alone_ever_longer() {
        let (mut lines, mut messenger, mut out) = world();
        let mut pauses = Vec::new();
        let mut ms = 1;
        for _ in 0..7 {
            let session = lines.reach(now(ms), 1, at(1, 1), &mut messenger, &mut out).expect("it may be tried");
            assert_eq!(lines.reach(now(ms), 1, at(1, 1), &mut messenger, &mut out), Ok(session));
            assert_eq!((lines.name(session), lines.session(1), lines.len()), (Some(1), Some(session), 1));
            let (name, retry) = lines.closed(now(ms), session).expect("it is known");
            assert_eq!((name, lines.closed(now(ms), session), lines.is_empty()), (1, None, true));
            assert_eq!(lines.reach(now(ms), 1, at(1, 1), &mut messenger, &mut out), Err(retry));
            pauses.push(retry.0 / 1_000_000 - ms);
            ms += pauses.last().unwrap_or(&0);
        }
        assert_eq!(pauses, [50, 100, 200, 400, 800, 800, 800]);
        let dials = out.0.iter().filter(|o| matches!(o, Output::Connect { .. })).count();
        assert_eq!(dials, 7);
    }

    #[test]
    fn a_session_that_stood_is_tried_again_soon() {
        let (mut lines, mut messenger, mut out) = world();
        for _ in 0..3 {
            let session = lines.reach(now(10_000), 1, at(1, 1), &mut messenger, &mut out).unwrap_or(SessionId(0));
            lines.closed(now(0), session);
        }
        let session = lines.reach(now(10_000), 1, at(1, 1), &mut messenger, &mut out).expect("the pause is over");
        lines.opened(now(8_000), session);
        assert_eq!(lines.closed(now(10_000), session), Some((1, now(10_050).mono)));
    }

    #[test]
    fn a_session_that_is_missed_is_tried_at_once_and_soon_again_a_few_times() {
        let (mut lines, mut messenger, mut out) = world();
        let mut waits = Vec::new();
        let mut ms = 1;
        for _ in 0..7 {
            let session = lines.reach(now(ms), 1, at(1, 1), &mut messenger, &mut out).expect("it may be tried");
            assert_eq!(lines.hasten(now(ms), 1), None, "there is a session");
            lines.closed(now(ms), session);
            waits.push(lines.hasten(now(ms), 1).expect("it broke").0 / 1_000_000 - ms);
            ms += waits.last().unwrap_or(&0);
        }
        assert_eq!(waits, [0, 20, 20, 20, 20, 800, 800]);
        assert_eq!(lines.hasten(now(ms), 2), None);
    }

    #[test]
    fn another_address_is_another_peer() {
        let (mut lines, mut messenger, mut out) = world();
        let first = lines.reach(now(1), 1, at(1, 1), &mut messenger, &mut out).expect("nothing broke");
        let other = lines.reach(now(1), 2, at(2, 1), &mut messenger, &mut out).expect("nothing broke");
        assert_eq!(lines.retain(&mut messenger, |name, addr| name == 2 || *addr == at(1, 2)), [1]);
        assert_eq!((lines.name(first), lines.name(other), lines.len()), (None, Some(2), 1));
        // What broke at an address tells nothing of the next one.
        let session = lines.reach(now(1), 1, at(1, 2), &mut messenger, &mut out).expect("it is a new one");
        lines.closed(now(1), session);
        assert!(lines.reach(now(1), 1, at(1, 2), &mut messenger, &mut out).is_err());
        assert!(lines.reach(now(1), 1, at(1, 3), &mut messenger, &mut out).is_ok());
    }
}
