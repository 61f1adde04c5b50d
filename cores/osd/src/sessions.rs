//! What the OSD knows of each session: who it is, what it may do, which map it has, what it waits for.

use crate::backlog::Backlog;
use crate::images::Image;
use crate::perf::Kind;
use bytes::Bytes;
use caps::OsdCaps;
use msgr::Peer;
use node::Mono;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{EntityType, Epoch, SessionId};

/// What a peer may do here.
#[derive(Clone, Debug)]
pub(crate) enum Rights {
    /// Everything: the cluster does not authenticate, or it is one of our own daemons.
    All,
    /// What its capabilities say.
    Caps(Box<OsdCaps>),
    /// Its capabilities do not parse, which allows nothing.
    Nothing,
}

/// One session.
pub(crate) struct Session {
    /// As the groups see it.
    pub(crate) peer: Arc<pg::Peer>,
    /// Capabilities.
    pub(crate) rights: Rights,
    /// Newest map that it is known to have.
    pub(crate) epoch: Epoch,
    /// A write of it was dropped for want of room: it must see the map that says so, and the one that takes it back.
    pub(crate) turned_away: bool,
    /// The operations under way, by transaction id.
    held: BTreeMap<u64, Held>,
    /// What it will be sent, and what waits for that.
    pub(crate) backlog: Backlog,
}

/// An operation that is not answered yet.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// Received bytes that count against the messenger's limits until the answer.
    pub(crate) bytes: usize,
    /// Bytes that its answer is expected to take.
    pub(crate) owes: usize,
    /// Bytes of its data.
    pub(crate) payload: usize,
    /// When it arrived.
    pub(crate) received: Mono,
    /// What the client sent it as.
    pub(crate) kind: Kind,
    /// Which object, for the list of slow operations.
    pub(crate) object: Bytes,
    /// Code of its first operation.
    pub(crate) code: u16,
    /// The block image that it belongs to, while images are counted.
    pub(crate) image: Option<Box<Image>>,
}

/// All sessions of clients (and of OSDs that read here to copy).
#[derive(Default)]
pub(crate) struct Sessions {
    all: BTreeMap<SessionId, Session>,
    /// Bytes of answers that are expected on all of them.
    owed: usize,
}

impl Sessions {
    /// A peer connected. Returns why its capabilities were not understood, if so.
    pub(crate) fn opened(&mut self, id: SessionId, peer: &Peer) -> Option<String> {
        let mut complaint = None;
        let rights = match (&peer.caps, peer.kind) {
            (None, _) => Rights::All,
            (Some(text), _) => match OsdCaps::parse(text).map(|caps| seen_from(caps, peer)) {
                Ok(caps) => Rights::Caps(Box::new(caps)),
                Err(e) => {
                    complaint = Some(format!("capabilities of {} do not parse: {e}", peer.name));
                    Rights::Nothing
                }
            },
        };
        // Whoever uses an OSD's key without being one is a client.
        let kind = if peer.kind == EntityType::Osd { EntityType::Osd } else { EntityType::Client };
        let peer = pg::Peer { name: peer.name.clone(), kind, global_id: peer.global_id, addr: peer.addr };
        let session = Session {
            peer: Arc::new(peer),
            rights,
            epoch: 0,
            turned_away: false,
            held: BTreeMap::new(),
            backlog: Backlog::default(),
        };
        self.all.insert(id, session);
        complaint
    }

    /// A session ended: the bytes that its operations held, waiting ones included, or `None` if it was not known.
    pub(crate) fn closed(&mut self, id: SessionId) -> Option<usize> {
        let session = self.all.remove(&id)?;
        self.owed -= session.backlog.owed;
        Some(session.backlog.bytes() + session.held.values().map(|held| held.bytes).sum::<usize>())
    }

    /// Operations of all sessions that are not answered yet.
    pub(crate) fn in_progress(&self) -> usize {
        self.all.values().map(Session::in_progress).sum()
    }

    /// Bytes of answers that are expected on all sessions.
    pub(crate) fn owed(&self) -> usize {
        self.owed
    }

    /// An operation came in; it counts until [`Sessions::answered`]. Returns the bytes of the one that it replaces, if it was resent.
    pub(crate) fn received(&mut self, id: SessionId, tid: u64, held: Held) -> usize {
        let Some(session) = self.all.get_mut(&id) else { return held.bytes };
        let owes = held.owes;
        let old = session.held.insert(tid, held);
        let (bytes, owed) = old.map_or((0, 0), |old| (old.bytes, old.owes));
        session.backlog.owed = session.backlog.owed + owes - owed;
        self.owed = self.owed + owes - owed;
        bytes
    }

    /// The answer to an operation takes so many bytes, and not what was expected.
    pub(crate) fn owes(&mut self, id: SessionId, tid: u64, bytes: usize) {
        let Some(session) = self.all.get_mut(&id) else { return };
        let Some(held) = session.held.get_mut(&tid) else { return };
        let owed = std::mem::replace(&mut held.owes, bytes);
        session.backlog.owed = session.backlog.owed + bytes - owed;
        self.owed = self.owed + bytes - owed;
    }

    /// An operation was answered.
    pub(crate) fn answered(&mut self, id: SessionId, tid: u64) -> Option<Held> {
        let session = self.all.get_mut(&id)?;
        let held = session.held.remove(&tid)?;
        session.backlog.owed -= held.owes;
        self.owed -= held.owes;
        Some(held)
    }

    /// The sessions whose writes were dropped for want of room.
    pub(crate) fn turned_away(&self) -> Vec<SessionId> {
        self.all.iter().filter(|(_, session)| session.turned_away).map(|(id, _)| *id).collect()
    }

    /// A session.
    pub(crate) fn get(&mut self, id: SessionId) -> Option<&mut Session> {
        self.all.get_mut(&id)
    }
}

impl Session {
    /// Operations under way.
    pub(crate) fn in_progress(&self) -> usize {
        self.held.len() + self.backlog.len()
    }
}

/// Grants that hold only for clients of a network hold if this one is in it.
fn seen_from(caps: OsdCaps, peer: &Peer) -> OsdCaps {
    match peer.addr.addr {
        Some(addr) => caps.seen_from(addr.ip()),
        None => caps,
    }
}
