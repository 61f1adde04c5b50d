//! What the OSD knows of each session: who it is, what it may do, which map it has, what it waits for.

use crate::backlog::Backlog;
use crate::images::Memo;
use caps::OsdCaps;
use msgr::Peer;
use pg::OpKey;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use types::{EntityAddr, EntityType, Epoch, SessionId};

/// Rights of a peer here.
#[derive(Clone, Debug)]
pub(crate) enum Rights {
    /// Everything: the cluster does not authenticate, or it is one of our own daemons.
    All,
    /// Its capabilities.
    Caps(Box<OsdCaps>),
    /// Its capabilities do not parse, which allows nothing.
    Nothing,
}

/// One session.
pub(crate) struct Session {
    /// As the groups see it.
    pub(crate) peer: Arc<pg::Peer>,
    /// Its address with the IP address of its socket, if that is another one than it says. Who is fenced by an address
    /// or a range is fenced by this one as well.
    pub(crate) place: Option<EntityAddr>,
    /// Capabilities.
    pub(crate) rights: Rights,
    /// Newest map that it is known to have.
    pub(crate) epoch: Epoch,
    /// A write of it was dropped for want of room: it must see the map that says so, and the one that takes it back.
    pub(crate) turned_away: bool,
    /// Bytes that it will be sent, and what waits for them.
    pub(crate) backlog: Backlog,
    /// The block image that it used last.
    pub(crate) image: Memo,
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
        let place = placed(peer).filter(|place| *place != peer.addr);
        let kind = if peer.kind == EntityType::Osd { EntityType::Osd } else { EntityType::Client };
        let peer = pg::Peer { name: peer.name.clone(), kind, global_id: peer.global_id, addr: peer.addr };
        let session = Session {
            peer: Arc::new(peer),
            place,
            rights,
            epoch: 0,
            turned_away: false,
            backlog: Backlog::default(),
            image: Memo::default(),
        };
        self.all.insert(id, session);
        complaint
    }

    /// A session ended: its operations that waited for room, or `None` if it was not known.
    pub(crate) fn closed(&mut self, id: SessionId) -> Option<Vec<OpKey>> {
        let session = self.all.remove(&id)?;
        self.owed -= session.backlog.owed;
        Some(session.backlog.keys().collect())
    }

    /// Bytes of answers that are expected on all sessions.
    pub(crate) fn owed(&self) -> usize {
        self.owed
    }

    /// An answer to a session is expected to take `now` bytes, and not `before` as it was thought (0: it was not
    /// expected; 0: it has left). False if the session is gone.
    pub(crate) fn owe(&mut self, id: SessionId, before: usize, now: usize) -> bool {
        let Some(session) = self.all.get_mut(&id) else { return false };
        session.backlog.owed = session.backlog.owed + now - before;
        self.owed = self.owed + now - before;
        true
    }

    /// The sessions' numbers.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SessionId> {
        self.all.keys().copied()
    }

    /// All sessions.
    #[cfg(feature = "sim")]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.all.iter().map(|(id, session)| (*id, session))
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

/// The address of a peer with the IP address of its socket.
fn placed(peer: &Peer) -> Option<EntityAddr> {
    let (ip, port) = (peer.ip?, peer.addr.addr.map_or(0, |addr| addr.port()));
    Some(EntityAddr { addr: Some(SocketAddr::new(ip, port)), ..peer.addr })
}

/// Grants that hold only for clients of a network hold if this one is in it.
fn seen_from(caps: OsdCaps, peer: &Peer) -> OsdCaps {
    match peer.ip {
        Some(ip) => caps.seen_from(ip),
        None => caps,
    }
}
