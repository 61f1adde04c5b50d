//! Deadlines of connections and sessions. A timer that fires looks at what is really due and is set again; so the
//! frequent case, a deadline that moves away, costs nothing.

use super::conn::{Conn, Fault, Phase};
use super::session::Class;
use super::{Event, Messenger};
use crate::Policy;
use crate::frame::Tag;
use denc::Encode as _;
use node::{ConnId, Mono, Now, Outputs};
use types::{EntityType, SessionId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Conn(ConnId),
    Session(SessionId),
}

impl Messenger {
    pub(super) fn fire(&mut self, now: Now, out: &mut Outputs) {
        while let Some((at, timer)) = self.timers.first().copied()
            && at <= now.mono
        {
            self.timers.pop_first();
            match timer {
                Timer::Conn(id) => {
                    if let Some(conn) = self.take(id) {
                        self.conn_timer(now, conn, out);
                    }
                }
                Timer::Session(id) => self.session_timer(now, id, out),
            }
        }
    }

    /// Sets a connection's timer if it is not set earlier already.
    pub(super) fn arm(&mut self, conn: &mut Conn, at: Mono) {
        if at < conn.timer {
            self.timers.remove(&(conn.timer, Timer::Conn(conn.id)));
            self.timers.insert((at, Timer::Conn(conn.id)));
            conn.timer = at;
        }
    }

    /// Sets a session's timer, whatever it was.
    pub(super) fn arm_session(&mut self, id: SessionId, at: Mono) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        self.timers.remove(&(session.timer, Timer::Session(id)));
        session.timer = at;
        if at < Mono::NEVER {
            self.timers.insert((at, Timer::Session(id)));
        }
    }

    fn conn_timer(&mut self, now: Now, mut conn: Box<Conn>, out: &mut Outputs) {
        conn.timer = Mono::NEVER;
        match self.conn_due(now, &mut conn) {
            Err(fault) => self.lost(now, conn, fault, true, out),
            Ok(next) => {
                // Never in the past: a deadline that was just met is not met again in this round.
                self.arm(&mut conn, next.max(Mono(now.mono.0 + 1)));
                self.conns.insert(conn.id, conn);
            }
        }
    }

    /// Does what is due; says when to look again.
    fn conn_due(&mut self, now: Now, conn: &mut Conn) -> Result<Mono, Fault> {
        let limits = &self.config.limits;
        if conn.phase != Phase::Ready {
            let end = conn.opened.plus(limits.handshake);
            return if end <= now.mono { Err(Fault::notable("it took too long")) } else { Ok(end) };
        }
        let mut next = Mono::NEVER;
        if conn.ack_at <= now.mono {
            self.dirty.insert(conn.id);
        } else {
            next = conn.ack_at;
        }
        if conn.parked.is_some() {
            // It is this side that does not receive; silence means nothing.
            conn.last_received = now.mono;
        }
        // Who stops while others wait for the room that he has stops for a shorter time.
        let waited_for = conn.accepted && self.full[Class::of(conn.kind) as usize];
        let stall = conn.last_received.plus(if waited_for { limits.stall_crowded } else { limits.stall });
        if conn.reader.mid_frame() && stall <= now.mono {
            return Err(Fault::peer("the peer stopped in the middle of a frame"));
        }
        if !(waited_for && conn.reader.mid_frame()) {
            conn.pace = None;
        } else if conn.is_too_slow(now.mono, limits) {
            return Err(Fault::peer("the peer sends a message too slowly while others wait"));
        }
        if conn.accepted {
            let idle = conn.last_received.plus(limits.idle);
            if idle <= now.mono {
                return Err(Fault::usual("idle"));
            }
            let look = if conn.reader.mid_frame() { limits.stall_crowded } else { limits.stall };
            return Ok(next.min(idle).min(now.mono.plus(look)));
        }
        let keepalive = if self.config.name.kind != EntityType::Mon && conn.kind == EntityType::Mon {
            limits.monitor_keepalive
        } else {
            limits.keepalive
        };
        // Who was late itself has not heard, nor probed: it asks first.
        let probed = conn.last_probe > conn.last_received && conn.last_probe.plus(keepalive) <= now.mono;
        if probed && conn.last_received.plus(keepalive * 3) <= now.mono {
            return Err(Fault::usual("the peer does not answer"));
        }
        // Who was heard needs no probe.
        if conn.last_received.max(conn.last_probe).plus(keepalive) <= now.mono {
            conn.last_probe = now.mono;
            conn.control(Tag::Keepalive2, &now.wall.to_vec());
            self.dirty.insert(conn.id);
        }
        Ok(next.min(conn.last_received.max(conn.last_probe).plus(keepalive)))
    }

    /// A session without a connection: connect again, or give up.
    fn session_timer(&mut self, now: Now, id: SessionId, out: &mut Outputs) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.timer = Mono::NEVER;
        if session.conn.is_some() {
            return;
        }
        let waited = now.mono.since(session.since);
        match (session.target, session.policy) {
            (Some(_), Policy::Lossy) if waited >= self.config.limits.handshake => {
                self.forget(id);
                self.events.push_back(Event::Closed {
                    session: id,
                    refused: false,
                    why: "no ticket for the peer's service".into(),
                });
            }
            (Some(_), _) => self.dial(now, id, out),
            (None, _) => {
                self.forget(id);
                self.events.push_back(Event::Closed { session: id, refused: false, why: "the peer did not come back".into() });
            }
        }
    }
}
