//! One session: what is queued, what is unacknowledged, and how far the peer is.

use super::conn::Conn;
use crate::frame::{Header, wire_size};
use crate::{Peer, Policy};
use node::{ConnId, Mono};
use std::collections::VecDeque;
use std::sync::Arc;
use types::{EntityAddr, EntityType, Message, SessionId};

/// Sessions with clients, and those with daemons: they are throttled apart. The class is the lowest bit of a session's number, so
/// that bytes can be given back for sessions that are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Clients = 0,
    Daemons = 1,
}

impl Class {
    pub(super) fn of(kind: EntityType) -> Self {
        if kind == EntityType::Client { Class::Clients } else { Class::Daemons }
    }

    pub(super) fn of_session(id: SessionId) -> Self {
        if id.0 & 1 == 0 { Class::Clients } else { Class::Daemons }
    }
}

struct Queued {
    seq: u64,
    message: Message,
    size: usize,
}

pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) policy: Policy,
    pub(super) kind: EntityType,
    /// Place to connect to; `None` if the peer connects.
    pub(super) target: Option<EntityAddr>,
    pub(super) peer: Option<Arc<Peer>>,
    pub(super) conn: Option<ConnId>,
    /// Messages that are not acknowledged (lossless) or not written (lossy), oldest first.
    queue: VecDeque<Queued>,
    /// Number of them that are written on the present connection.
    written: usize,
    /// Bytes of those that are not.
    waiting: usize,
    out_seq: u64,
    /// Last message received.
    pub(super) in_seq: u64,
    /// Last message that the peer was told to have been received.
    pub(super) told_seq: u64,
    pub(super) client_cookie: u64,
    pub(super) server_cookie: u64,
    /// The peer's, of its last connection.
    pub(super) peer_global_seq: u64,
    pub(super) connect_seq: u64,
    /// Bytes of messages received and not given back.
    pub(super) received: usize,
    /// The owner takes no more requests of it for now.
    pub(super) held: bool,
    /// It counts as a client's.
    pub(super) counted: bool,
    /// A monitor's challenge of the present connection.
    pub(super) challenge: Option<u64>,
    pub(super) pause: std::time::Duration,
    pub(super) since: Mono,
    pub(super) timer: Mono,
}

/// Unacknowledged messages from which on an acknowledgement is not put off.
pub(super) const ACK_MESSAGES: u64 = 16;

impl Session {
    pub(super) fn new(id: SessionId, policy: Policy, kind: EntityType, target: Option<EntityAddr>, now: Mono) -> Self {
        Self {
            id,
            policy,
            kind,
            target,
            peer: None,
            conn: None,
            queue: VecDeque::new(),
            written: 0,
            waiting: 0,
            out_seq: 0,
            in_seq: 0,
            told_seq: 0,
            client_cookie: 0,
            server_cookie: 0,
            peer_global_seq: 0,
            connect_seq: 0,
            received: 0,
            held: false,
            counted: false,
            challenge: None,
            pause: std::time::Duration::ZERO,
            since: now,
            timer: Mono::NEVER,
        }
    }

    pub(super) fn push(&mut self, message: Message) {
        self.out_seq += 1;
        let size = wire_size(&message);
        self.waiting += size;
        self.queue.push_back(Queued { seq: self.out_seq, message, size });
    }

    /// Forgets what is not yet written.
    pub(super) fn drop_waiting(&mut self) {
        self.queue.truncate(self.written);
        self.waiting = 0;
    }

    /// Bytes not yet written on a connection.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    pub(super) fn has_more(&self) -> bool {
        self.written < self.queue.len()
    }

    /// Writes queued messages until the connection holds `window` bytes.
    pub(super) fn write(&mut self, conn: &mut Conn, window: usize) {
        while self.has_more() && conn.unsent() < window {
            let queued = &self.queue[self.written];
            let m = &queued.message;
            let header = Header {
                seq: queued.seq,
                tid: m.tid,
                kind: m.kind,
                priority: m.priority,
                version: m.version,
                ack: self.in_seq,
                compat: m.compat,
            };
            conn.writer.message(&header, m, &mut conn.out);
            self.told_seq = self.in_seq;
            self.waiting -= queued.size;
            match self.policy {
                Policy::Lossy => drop(self.queue.pop_front()),
                Policy::Lossless => self.written += 1,
            }
        }
        if self.told_seq == self.in_seq {
            conn.ack_at = Mono::NEVER;
        }
    }

    /// The peer has all up to `seq`. False if it cannot have.
    pub(super) fn acknowledged(&mut self, seq: u64) -> bool {
        if self.policy == Policy::Lossy {
            return true;
        }
        while self.written > 0 && self.queue.front().is_some_and(|q| q.seq <= seq) {
            self.queue.pop_front();
            self.written -= 1;
        }
        seq <= self.out_seq
    }

    /// A new connection: what the peer does not have (beyond `seq`) is written again. False if it claims what was never sent.
    pub(super) fn replay(&mut self, seq: u64) -> bool {
        if seq > self.out_seq {
            return false;
        }
        while self.queue.front().is_some_and(|q| q.seq <= seq) {
            self.queue.pop_front();
        }
        self.written = 0;
        self.waiting = self.queue.iter().map(|q| q.size).sum();
        true
    }

    /// The peer knows nothing of this session: it starts anew, empty.
    pub(super) fn reset(&mut self) {
        self.queue.clear();
        self.written = 0;
        self.waiting = 0;
        self.out_seq = 0;
        self.in_seq = 0;
        self.told_seq = 0;
        self.server_cookie = 0;
        self.connect_seq = 0;
    }
}
