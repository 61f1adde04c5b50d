//! Bytes in and out: receiving with the throttle, frames of open sessions, writing.

use super::conn::{Conn, Fault, Phase};
use super::session::{ACK_MESSAGES, Class};
use super::{Event, Messenger};
use crate::Policy;
use crate::frame::{Frame, Header, Tag, number, parse};
use node::{Buf, ConnId, Mono, Now, Outputs};
use std::time::Duration;
use types::{Message, SessionId};

/// Time for which an acknowledgement waits for a message that could carry it.
const ACK_DELAY: Duration = Duration::from_millis(50);

/// Bytes that wait to be sent on a connection from which on they count together with the others'.
const WORTH_NOTING: usize = 64 << 10;

/// Bytes of a message from which on it is looked at while it comes.
const LARGE: usize = 1 << 20;

/// Verdict on whether a message may come in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Admission {
    Yes,
    /// Not while this session holds so much.
    SessionFull,
    /// Not while all sessions of the class hold so much.
    ClassFull,
}

/// Returns true if so many bytes may come beside those that are held. One message always fits, however large it is allowed to be.
fn fits(held: usize, bytes: usize, limit: usize) -> bool {
    held == 0 || held.saturating_add(bytes) <= limit
}

impl Messenger {
    /// Bytes arrived.
    pub(super) fn received(&mut self, now: Now, id: ConnId, buf: Buf, len: usize, out: &mut Outputs) {
        let Some(mut conn) = self.take(id) else { return };
        conn.last_received = now.mono;
        let result = match conn.receiving.take() {
            None => Err(Fault::peer("bytes that were not asked for")),
            Some(true) => conn.direct(buf, len).map_err(Fault::from).and_then(|frame| match frame {
                Some(frame) => self.frame(now, &mut conn, frame),
                None => Ok(()),
            }),
            Some(false) => {
                let len = len.min(buf.len());
                self.feed(now, &mut conn, buf, 0, len)
            }
        };
        self.put_back(now, conn, result, out);
    }

    /// After work on a connection: it goes on, or ends.
    pub(super) fn put_back(&mut self, now: Now, mut conn: Box<Conn>, result: Result<(), Fault>, out: &mut Outputs) {
        match result {
            Err(fault) => self.lost(now, conn, fault, true, out),
            Ok(()) => {
                conn.ask(out);
                if !conn.out.is_empty() {
                    self.dirty.insert(conn.id);
                }
                if conn.ack_at < conn.timer {
                    let at = conn.ack_at;
                    self.arm(&mut conn, at);
                }
                self.conns.insert(conn.id, conn);
            }
        }
    }

    /// Reads frames from bytes `from..to` of `buf`, until they end or the throttle shuts.
    fn feed(&mut self, now: Now, conn: &mut Conn, buf: Buf, from: usize, to: usize) -> Result<(), Fault> {
        let mut input = &buf[from..to];
        while let Some(frame) = conn.reader.feed(&mut input)? {
            match frame {
                Frame::Announce { bytes } if !self.admit(conn, bytes) => {
                    let rest = to - input.len();
                    conn.parked = Some((buf, rest, to));
                    self.parked[Class::of(conn.kind) as usize].push_back(conn.id);
                    return Ok(());
                }
                Frame::Announce { bytes } => {
                    if bytes > LARGE {
                        self.arm(conn, now.mono.plus(self.config.limits.stall_crowded));
                    }
                    if let Some(frame) = conn.reader.grant() {
                        self.frame(now, conn, frame)?;
                    }
                }
                frame => self.frame(now, conn, frame)?,
            }
        }
        conn.give_back(buf, to);
        Ok(())
    }

    /// Returns true if a message of so many bytes may be received now; if so they are accounted.
    fn admit(&mut self, conn: &Conn, bytes: usize) -> bool {
        let class = Class::of(conn.kind) as usize;
        // Those who wait for the common limit are served in their order, or large messages would never fit.
        let admission = if self.full[class] { Admission::ClassFull } else { self.admit_now(conn, bytes) };
        self.full[class] |= admission == Admission::ClassFull;
        admission == Admission::Yes || admission == Admission::ClassFull && self.admit_beside(conn, bytes)
    }

    /// Returns true if a client's message may come in beside the common limit; if so it is accounted.
    fn admit_beside(&mut self, conn: &Conn, bytes: usize) -> bool {
        let Some(id) = conn.session.filter(|_| Class::of(conn.kind) == Class::Clients) else { return false };
        if !self.session_takes(conn, bytes) {
            return false;
        }
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        let Some(peer) = &session.peer else { return false };
        if !self.spare.take(self.config.limits.clients, id, &peer.name, bytes) {
            return false;
        }
        session.received += bytes;
        true
    }

    /// Returns true if a client's session may send so much more, whatever others have.
    fn session_takes(&self, conn: &Conn, bytes: usize) -> bool {
        let limits = &self.config.limits;
        let Some(session) = conn.session.and_then(|id| self.sessions.get(&id)) else { return false };
        let backlog = session.waiting() + conn.unsent();
        let lags = self.held_back || session.held || (backlog > 0 && self.lag > limits.send_total);
        !lags && fits(session.received, bytes, limits.session) && backlog <= limits.send_pause
    }

    fn admit_now(&mut self, conn: &Conn, bytes: usize) -> Admission {
        let class = Class::of(conn.kind);
        if class == Class::Clients && !self.session_takes(conn, bytes) {
            return Admission::SessionFull;
        }
        let limits = &self.config.limits;
        let Some(session) = conn.session.and_then(|id| self.sessions.get_mut(&id)) else { return Admission::SessionFull };
        let limit = if class == Class::Clients { limits.clients } else { limits.daemons };
        if !fits(self.received[class as usize], bytes, limit) {
            return Admission::ClassFull;
        }
        self.received[class as usize] += bytes;
        session.received += bytes;
        Admission::Yes
    }

    /// Lets parked connections go on, oldest first.
    pub(super) fn unpark(&mut self, now: Now, out: &mut Outputs) {
        if !std::mem::take(&mut self.relieved) {
            return;
        }
        for class in 0..self.parked.len() {
            let waiting = std::mem::take(&mut self.parked[class]);
            self.full[class] = false;
            for id in waiting {
                let Some(mut conn) = self.take(id) else { continue };
                let bytes = conn.reader.announced();
                if !self.admit(&conn, bytes) {
                    self.parked[class].push_back(id);
                    self.conns.insert(id, conn);
                    continue;
                }
                let result = self.resume(now, &mut conn);
                self.put_back(now, conn, result, out);
            }
        }
    }

    fn resume(&mut self, now: Now, conn: &mut Conn) -> Result<(), Fault> {
        conn.last_received = now.mono;
        let rest = conn.parked.take();
        if let Some(frame) = conn.reader.grant() {
            self.frame(now, conn, frame)?;
        }
        match rest {
            Some((buf, from, to)) => self.feed(now, conn, buf, from, to),
            None => Ok(()),
        }
    }

    /// A whole frame.
    fn frame(&mut self, now: Now, conn: &mut Conn, frame: Frame) -> Result<(), Fault> {
        match frame {
            Frame::Banner { required } => self.banner(conn, required),
            Frame::Announce { .. } => Ok(()),
            Frame::Message { header, message, bytes } => self.message(now, conn, header, message, bytes),
            Frame::Aborted { bytes } => {
                if let Some(session) = conn.session {
                    self.done(session, bytes);
                }
                Ok(())
            }
            Frame::Control { tag, payload } if conn.phase == Phase::Ready => self.control(now, conn, tag, &payload),
            Frame::Control { tag, payload } => self.handshake(now, conn, tag, &payload),
        }
    }

    fn message(&mut self, now: Now, conn: &mut Conn, header: Header, message: Message, bytes: usize) -> Result<(), Fault> {
        let Some(id) = conn.session else { return Err(Fault::peer("message without a session")) };
        let Some(session) = self.sessions.get_mut(&id) else { return Err(Fault::peer("message without a session")) };
        if header.seq <= session.in_seq && session.policy == Policy::Lossless {
            // Sent again because the peer missed an acknowledgement.
            self.done(id, bytes);
            return Ok(());
        }
        if header.seq != session.in_seq + 1 {
            let why = format_args!("message {} after message {}", header.seq, session.in_seq).to_string();
            self.done(id, bytes);
            return Err(Fault::peer(why));
        }
        session.in_seq = header.seq;
        if !session.acknowledged(header.ack) {
            self.done(id, bytes);
            return Err(Fault::peer("acknowledgement of a message that was never sent"));
        }
        if session.policy == Policy::Lossless {
            let owed = session.in_seq - session.told_seq;
            let due = if owed >= ACK_MESSAGES { now.mono } else { now.mono.plus(ACK_DELAY) };
            conn.ack_at = conn.ack_at.min(due);
            if owed >= ACK_MESSAGES {
                self.dirty.insert(conn.id);
            }
        }
        self.events.push_back(Event::Message { session: id, message, bytes });
        Ok(())
    }

    /// A control frame on an open session.
    fn control(&mut self, _now: Now, conn: &mut Conn, tag: Tag, payload: &[u8]) -> Result<(), Fault> {
        match tag {
            Tag::Keepalive2 => {
                // The answer carries the sender's clock back to it.
                let stamp: types::UTime = parse(payload)?;
                if conn.unsent() > self.config.limits.send_pause {
                    return Err(Fault::peer("keepalives without taking their answers"));
                }
                conn.control(Tag::Keepalive2Ack, &denc::Encode::to_vec(&stamp));
                Ok(())
            }
            Tag::Keepalive2Ack => Ok(()),
            Tag::Ack => {
                let seq: u64 = parse(payload)?;
                let session = conn.session.and_then(|id| self.sessions.get_mut(&id));
                match session.is_none_or(|session| session.acknowledged(seq)) {
                    true => Ok(()),
                    false => Err(Fault::peer("acknowledgement of a message that was never sent")),
                }
            }
            tag => Err(Fault::peer(format_args!("{tag:?} on an open session"))),
        }
    }

    /// The kernel took bytes.
    pub(super) fn sent(&mut self, id: ConnId, bytes: usize) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.in_flight = conn.in_flight.saturating_sub(bytes);
        self.relieved |= conn.parked.is_some();
        let session = conn.session.and_then(|id| self.sessions.get(&id));
        if session.is_some_and(|session| session.has_more()) {
            self.dirty.insert(id);
        }
        self.note_lag(id);
    }

    /// Receives nothing more from clients while `hold`; what is received already is not affected.
    pub fn hold_clients(&mut self, hold: bool) {
        self.relieved |= self.held_back && !hold;
        self.held_back = hold;
    }

    /// Receives no more messages from one client while `hold`: the owner has requests of it in hand that it cannot answer yet.
    pub fn hold_session(&mut self, session: SessionId, hold: bool) {
        if let Some(state) = self.sessions.get_mut(&session) {
            self.relieved |= state.held && !hold;
            state.held = hold;
        }
    }

    /// Bytes that wait to be sent to all clients together; little ones are not counted.
    pub fn lag(&self) -> usize {
        self.lag
    }

    /// Notes how much a client's connection has to send.
    fn note_lag(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get(&id).filter(|c| Class::of(c.kind) == Class::Clients) else { return };
        let waiting = conn.session.and_then(|id| self.sessions.get(&id)).map_or(0, |s| s.waiting());
        self.set_lag(id, conn.unsent() + waiting);
    }

    fn set_lag(&mut self, id: ConnId, bytes: usize) {
        // What is on its way anyway is not worth the bookkeeping.
        let bytes = if bytes < WORTH_NOTING { 0 } else { bytes };
        let before = if bytes > 0 { self.lagging.insert(id, bytes) } else { self.lagging.remove(&id) };
        let was_over = self.lag > self.config.limits.send_total;
        self.lag = self.lag + bytes - before.unwrap_or(0);
        self.relieved |= was_over && self.lag <= self.config.limits.send_total;
    }

    /// Connections that are gone have nothing to send.
    pub(super) fn forget_lag(&mut self) {
        let gone: Vec<ConnId> = self.lagging.keys().filter(|id| !self.conns.contains_key(id)).copied().collect();
        gone.into_iter().for_each(|id| self.set_lag(id, 0));
    }

    /// Closes sessions of clients that do not take what is sent to them, those that have most of it first, while too much waits for all
    /// clients together. Each alone may be within its bound, and there may be thousands.
    pub(super) fn shed(&mut self) {
        while self.lag > self.config.limits.send_most {
            let most = self.lagging.iter().max_by_key(|(_, bytes)| **bytes).map(|(id, _)| *id);
            let Some(id) = most else { return };
            self.set_lag(id, 0);
            let Some(session) = self.conns.get(&id).and_then(|conn| conn.session) else { continue };
            if let Some(state) = self.sessions.get_mut(&session) {
                state.drop_waiting();
            }
            self.close(session);
            let why = "the peer does not take what is sent to it, and others wait".into();
            self.events.push_back(Event::Closed { session, refused: false, why });
        }
    }

    /// Writes what a connection has to say, as one rope.
    pub(super) fn write(&mut self, id: ConnId, now: Now, out: &mut Outputs) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if conn.phase == Phase::Ready
            && let Some(session) = conn.session.and_then(|id| self.sessions.get_mut(&id))
        {
            session.write(conn, self.config.limits.send_window);
            if conn.ack_at <= now.mono {
                session.told_seq = session.in_seq;
                conn.ack_at = Mono::NEVER;
                conn.control(Tag::Ack, &number(session.in_seq));
            }
        }
        if conn.phase != Phase::Opening {
            conn.flush(out);
        }
        self.note_lag(id);
    }
}
