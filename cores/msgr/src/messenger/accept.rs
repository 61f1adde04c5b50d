//! The accepting side of a handshake.

use super::conn::{Conn, Fault, Phase};
use super::handshake::unexpected;
use super::session::Session;
use super::{Event, Messenger};
use crate::auth::{AuthError, Ctx, Granted, Method, Progress, Step};
use crate::frame::{AuthBadMethod, AuthDone, AuthRequest, ClientIdent, FLAG_LOSSY, Hello, Reconnect, ServerIdent, Tag};
use crate::frame::{number, parse};
use crate::{Peer, Policy};
use denc::Encode as _;
use node::{ConnId, Level, Now, Output, Outputs};
use std::net::SocketAddr;
use std::sync::Arc;
use types::{EntityAddr, EntityAddrVec, EntityType, Errno, SessionId};

/// Returns true if a place is kept for somebody: a daemon of this cluster, or who may do everything and has proven to be that. Keys of other
/// kinds of daemons, which bootstrap keys make, are those of clients here.
fn is_privileged(granted: &Granted) -> bool {
    let proven = granted.keys.session.is_some();
    let daemon = matches!(granted.name.kind, EntityType::Mon | EntityType::Osd | EntityType::Mgr);
    proven && (daemon || granted.caps.as_deref().is_none_or(|caps| caps.trim() == "allow *"))
}

impl Messenger {
    /// Somebody connected.
    pub(super) fn accepted(&mut self, now: Now, id: ConnId, remote: SocketAddr, out: &mut Outputs) {
        let limits = &self.config.limits;
        if self.conns.len() >= limits.connections {
            self.gate.log(now.mono, Level::Warn, format!("too many connections, {remote} is turned away"), out);
            out.push(Output::Close { conn: id });
            return;
        }
        // Whoever means it is through in milliseconds: the oldest stranger makes room, so that those who say nothing keep nobody out.
        if self.strangers.len() >= limits.strangers
            && let Some(oldest) = self.strangers.first().copied().and_then(|oldest| self.take(oldest))
        {
            self.lost(now, oldest, Fault::peer("too many connections that do not finish their handshakes"), true, out);
        }
        let limits = &self.config.limits;
        let mut conn = Box::new(Conn::new(id, true, remote, now.mono, limits));
        let deadline = now.mono.plus(limits.handshake);
        self.strangers.insert(id);
        self.arm(&mut conn, deadline);
        conn.write_banner();
        self.put_back(now, conn, Ok(()), out);
    }

    pub(super) fn accept_hello(&mut self, conn: &mut Conn, hello: &Hello) -> Result<(), Fault> {
        conn.kind = EntityType::from_wire(hello.kind.into())?;
        conn.phase = Phase::Auth;
        Ok(())
    }

    pub(super) fn accept_auth(&mut self, now: Now, conn: &mut Conn, tag: Tag, payload: &[u8]) -> Result<(), Fault> {
        let modes = self.config.modes.accept.clone();
        let mut ctx = Ctx { now: now.wall, random: &mut self.random, modes: &modes };
        let (method, step) = match tag {
            Tag::AuthRequest => {
                let request: AuthRequest = parse(payload)?;
                request.check()?;
                conn.progress = Progress::Start;
                let step = match self.auth.acceptor.request(&mut ctx, &mut conn.progress, &request) {
                    // A client that found no key says nothing in its claim; it must be refused, or it tries for ever.
                    Err(AuthError::Garbage(_)) => Step::Bad { result: Errno::EACCES.wire(), methods: vec![Method::Cephx] },
                    step => step?,
                };
                (request.method, step)
            }
            Tag::AuthRequestMore => {
                let payload: bytes::Bytes = parse(payload)?;
                if let Progress::Challenged { challenge, name, .. } = &conn.progress {
                    conn.challenge = Some(*challenge);
                    conn.claimed = name.to_string();
                }
                (Method::Cephx as u32, self.auth.acceptor.more(&mut ctx, &mut conn.progress, &payload)?)
            }
            tag => return Err(unexpected(conn.phase, tag)),
        };
        match step {
            Step::Bad { result, methods } => {
                conn.refused = Some(format!("{} was refused ({result})", conn.claimed));
                let methods = methods.into_iter().map(|m| m as u32).collect();
                // Secure first, as release 16 lists them.
                let modes = modes.iter().rev().map(|m| *m as u32).collect();
                conn.control(Tag::AuthBadMethod, &AuthBadMethod { method, result, methods, modes }.to_vec());
            }
            Step::More(payload) => conn.control(Tag::AuthReplyMore, &payload.as_slice().to_bytes()),
            Step::Done(granted) => {
                if conn.kind != EntityType::Client && conn.kind != granted.name.kind {
                    let why = format!("{} says that it is a {}", granted.name, conn.kind.name());
                    return Err(Fault::peer(why));
                }
                conn.mode = granted.mode;
                let done =
                    AuthDone { global_id: granted.global_id, mode: granted.mode as u32, payload: granted.payload.clone().into() };
                conn.control(Tag::AuthDone, &done.to_vec());
                conn.authenticated(&granted.keys)?;
                conn.granted = Some(granted);
            }
        }
        Ok(())
    }

    pub(super) fn accept_ident(&mut self, now: Now, conn: &mut Conn, tag: Tag, payload: &[u8]) -> Result<(), Fault> {
        match tag {
            Tag::ClientIdent => self.client_ident(now, conn, &parse(payload)?),
            Tag::SessionReconnect => self.reconnect(conn, &parse(payload)?),
            tag => Err(unexpected(conn.phase, tag)),
        }
    }

    fn client_ident(&mut self, now: Now, conn: &mut Conn, ident: &ClientIdent) -> Result<(), Fault> {
        let found = self.dialled(ident.target);
        if found.0.is_empty() {
            return Err(Fault::usual(format_args!("the peer looks for {}, which is not here", ident.target)));
        }
        let missing = self.config.required & !ident.supported;
        if missing != 0 {
            conn.control(Tag::IdentMissingFeatures, &number(missing));
            return Err(Fault::peer(format_args!("the peer lacks required features {missing:#x}")));
        }
        let wants_lossy = ident.flags & FLAG_LOSSY != 0 || ident.cookie == 0;
        let policy =
            if wants_lossy || !self.config.lossless_from.contains(&conn.kind) { Policy::Lossy } else { Policy::Lossless };
        let privileged = conn.granted.as_ref().is_some_and(|granted| is_privileged(granted));
        let peer = self.peer_of(conn, &ident.addrs, ident.supported)?;
        if policy == Policy::Lossless
            && let Some(id) = self.lossless_again(&peer, ident)?
        {
            return self.attach_again(conn, id, ident);
        }
        if !privileged {
            self.crowd.enter(now.mono, &self.config.limits, &peer).map_err(Fault::peer)?;
        }
        let id = self.new_session_id(conn.kind);
        let mut session = Session::new(id, policy, conn.kind, None, now.mono);
        session.counted = !privileged;
        session.peer_global_seq = ident.global_seq;
        session.challenge = conn.challenge;
        if policy == Policy::Lossless {
            session.client_cookie = ident.cookie;
            session.server_cookie = self.cookie();
            self.by_cookie.insert(session.server_cookie, id);
        }
        self.server_ident(conn, found, policy, session.server_cookie);
        session.peer = Some(peer.clone());
        session.conn = Some(conn.id);
        conn.session = Some(id);
        self.sessions.insert(id, session);
        self.ready(conn);
        self.events.push_back(Event::Opened { session: id, peer });
        Ok(())
    }

    /// The own addresses as who dialled `target` is told them; empty: that is none of them.
    fn dialled(&self, target: EntityAddr) -> EntityAddrVec {
        match &self.config {
            config if config.addrs.0.contains(&target) => config.addrs.clone(),
            config if config.further.0.contains(&target) => EntityAddrVec(vec![target]),
            _ => EntityAddrVec::default(),
        }
    }

    fn server_ident(&mut self, conn: &mut Conn, addrs: EntityAddrVec, policy: Policy, cookie: u64) {
        self.global_seq = self.global_seq.wrapping_add(1);
        let ident = ServerIdent {
            addrs,
            gid: self.config.id,
            global_seq: self.global_seq,
            supported: self.config.features,
            required: self.config.required,
            flags: if policy == Policy::Lossy { FLAG_LOSSY } else { 0 },
            cookie,
        };
        conn.control(Tag::ServerIdent, &ident.to_vec());
    }

    fn peer_of(&self, conn: &mut Conn, addrs: &EntityAddrVec, supported: u64) -> Result<Arc<Peer>, Fault> {
        let granted = conn.granted.take().ok_or(Fault::peer("identification before authentication"))?;
        let addr = *addrs.0.first().ok_or(Fault::peer("the peer has no address"))?;
        Ok(Arc::new(Peer {
            name: granted.name,
            kind: conn.kind,
            global_id: granted.global_id,
            addr,
            addrs: addrs.clone(),
            ip: Some(conn.remote.ip()),
            ticket: granted.made,
            features: supported & self.config.features,
            caps: granted.caps,
            mode: conn.mode,
            outgoing: false,
        }))
    }

    /// The session that the peer believes not to have opened yet, because it missed the answer. Ends the sessions of
    /// its earlier lives: the same name at another address.
    fn lossless_again(&mut self, peer: &Peer, ident: &ClientIdent) -> Result<Option<SessionId>, Fault> {
        let mut again = None;
        let mut dead = Vec::new();
        for id in self.by_cookie.values() {
            let Some((session, known)) = self.sessions.get(id).and_then(|s| Some((s, s.peer.as_ref()?))) else { continue };
            if known.name != peer.name {
                continue;
            }
            if known.addrs != peer.addrs {
                dead.push(*id);
            } else if session.client_cookie == ident.cookie {
                if ident.global_seq <= session.peer_global_seq {
                    return Err(Fault::usual("a connection that the peer gave up before"));
                }
                again = Some(*id);
            }
        }
        for id in dead {
            self.bury(id, "the peer was started again");
        }
        match again {
            // It got messages through, so it knows the session: this is another life with the same numbers.
            Some(id) if self.sessions.get(&id).is_some_and(|s| s.in_seq > 0) => {
                self.bury(id, "the peer forgot the session");
                Ok(None)
            }
            again => Ok(again),
        }
    }

    /// Ends an accepted session with its connection.
    fn bury(&mut self, id: SessionId, why: &str) {
        let Some(session) = self.forget(id) else { return };
        if let Some(conn) = session.conn.and_then(|id| self.take(id)) {
            let conn = self.release(conn);
            self.closing.push(conn);
        }
        self.events.push_back(Event::Closed { session: id, refused: false, why: why.into() });
    }

    /// Answers the repeated opening of a lossless session.
    fn attach_again(&mut self, conn: &mut Conn, id: SessionId, ident: &ClientIdent) -> Result<(), Fault> {
        self.replace_conn(conn, id, ident.global_seq);
        let Some(session) = self.sessions.get_mut(&id) else { return Ok(()) };
        session.replay(0);
        let cookie = session.server_cookie;
        let found = self.dialled(ident.target);
        self.server_ident(conn, found, Policy::Lossless, cookie);
        self.ready(conn);
        Ok(())
    }

    /// Puts a session onto a new connection; the old one, if there still is one, is closed without a word.
    fn replace_conn(&mut self, conn: &mut Conn, id: SessionId, global_seq: u64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.peer_global_seq = global_seq;
        session.challenge = conn.challenge;
        let old = session.conn.replace(conn.id);
        conn.session = Some(id);
        if let Some(old) = old.and_then(|old| self.take(old)) {
            let old = self.release(old);
            self.closing.push(old);
        }
        self.arm_session(id, node::Mono::NEVER);
    }

    fn reconnect(&mut self, conn: &mut Conn, ask: &Reconnect) -> Result<(), Fault> {
        let found = self.by_cookie.get(&ask.server_cookie).and_then(|id| self.sessions.get_mut(id));
        let Some(session) = found.filter(|s| s.client_cookie == ask.client_cookie) else {
            conn.control(Tag::SessionReset, &[1]);
            return Ok(());
        };
        let granted = conn.granted.as_ref().ok_or(Fault::peer("reconnection before authentication"))?;
        if session.peer.as_ref().is_none_or(|peer| peer.name != granted.name || peer.addrs != ask.addrs) {
            return Err(Fault::peer("reconnection to somebody else's session"));
        }
        if ask.global_seq < session.peer_global_seq {
            conn.control(Tag::SessionRetryGlobal, &number(session.peer_global_seq));
            return Ok(());
        }
        if ask.connect_seq < session.connect_seq {
            conn.control(Tag::SessionRetry, &number(session.connect_seq));
            return Ok(());
        }
        if !session.replay(ask.msg_seq) {
            let id = session.id;
            self.bury(id, "the peer acknowledges what was never sent");
            conn.control(Tag::SessionReset, &[1]);
            return Ok(());
        }
        session.connect_seq = ask.connect_seq;
        session.told_seq = session.in_seq;
        if let Some(peer) = &session.peer {
            // Rights may have changed since.
            if session.counted {
                self.crowd.leave(peer);
                session.counted = false;
            }
            let ip = Some(conn.remote.ip());
            let renewed = Peer { ip, ticket: granted.made, caps: granted.caps.clone(), mode: conn.mode, ..Peer::clone(peer) };
            session.peer = Some(Arc::new(renewed));
        }
        let (id, in_seq) = (session.id, session.in_seq);
        self.replace_conn(conn, id, ask.global_seq);
        conn.control(Tag::SessionReconnectOk, &number(in_seq));
        self.ready(conn);
        Ok(())
    }
}
