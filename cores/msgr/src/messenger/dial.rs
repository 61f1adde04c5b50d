//! The connecting side of a handshake.

use super::conn::{Conn, Fault, Phase};
use super::handshake::unexpected;
use super::{Event, Messenger};
use crate::auth::Method;
use crate::frame::parse;
use crate::frame::{AuthBadMethod, AuthDone, AuthRequest, ClientIdent, FLAG_LOSSY, Hello, Reconnect, ServerIdent, Tag};
use crate::{Mode, Peer, Policy};
use denc::Encode as _;
use node::{ConnId, Now, Output, Outputs};
use std::sync::Arc;
use std::time::Duration;
use types::{AddrType, EntityAddr, EntityAddrVec, EntityName, EntityType, SessionId};

/// Interval at which it is checked whether a missing ticket came.
const TICKET_POLL: Duration = Duration::from_millis(50);

impl Messenger {
    /// Opens a connection for a session, as soon as there is a ticket for it.
    pub(super) fn dial(&mut self, now: Now, id: SessionId, out: &mut Outputs) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Some(target) = session.target else { return };
        if !self.auth.client.ready_for(session.kind) {
            self.arm_session(id, now.mono.plus(TICKET_POLL));
            return;
        }
        let Some(remote) = target.addr else {
            self.forget(id);
            self.events.push_back(Event::Closed { session: id, refused: false, why: "a blank address".into() });
            return;
        };
        let conn_id = ConnId(self.next_conn);
        self.next_conn += 2;
        let mut conn = Box::new(Conn::new(conn_id, false, remote, now.mono, &self.config.limits));
        conn.session = Some(id);
        conn.kind = session.kind;
        session.conn = Some(conn_id);
        let deadline = now.mono.plus(self.config.limits.handshake);
        self.arm(&mut conn, deadline);
        self.conns.insert(conn_id, conn);
        out.push(Output::Connect { conn: conn_id, to: remote });
    }

    /// TCP stands.
    pub(super) fn connected(&mut self, now: Now, id: ConnId, out: &mut Outputs) {
        let Some(mut conn) = self.take(id) else { return };
        if conn.phase == Phase::Opening {
            conn.phase = Phase::Banner;
            conn.write_banner();
        }
        self.put_back(now, conn, Ok(()), out);
    }

    pub(super) fn dial_hello(&mut self, conn: &mut Conn, hello: &Hello) -> Result<(), Fault> {
        if u32::from(hello.kind) != conn.kind as u32 {
            return Err(Fault::peer(format_args!("the peer is of kind {}, not a {}", hello.kind, conn.kind.name())));
        }
        if let Some(mut addr) = hello.peer.addr {
            addr.set_port(0);
            self.learned = Some(EntityAddr { kind: AddrType::Any, nonce: self.config.nonce, addr: Some(addr) });
        }
        let (method, payload, progress) = self.auth.client.start(&mut self.random, conn.kind)?;
        conn.client = Some(progress);
        let to_mon = matches!(conn.kind, EntityType::Mon | EntityType::Mgr);
        let modes = match method {
            Method::None => vec![Mode::Crc as u32],
            Method::Cephx if to_mon => self.config.modes.connect_mon.iter().map(|m| *m as u32).collect(),
            Method::Cephx => self.config.modes.connect.iter().map(|m| *m as u32).collect(),
        };
        let request = AuthRequest { method: method as u32, modes, payload: payload.into() };
        conn.control(Tag::AuthRequest, &request.to_vec());
        conn.phase = Phase::Auth;
        Ok(())
    }

    pub(super) fn dial_auth(&mut self, now: Now, conn: &mut Conn, tag: Tag, payload: &[u8]) -> Result<(), Fault> {
        let Some(mut progress) = conn.client.take() else { return Err(unexpected(conn.phase, tag)) };
        match tag {
            Tag::AuthBadMethod => {
                let bad: AuthBadMethod = parse(payload)?;
                self.auth.client.refused(&progress);
                let why = format!(
                    "the peer refuses authentication method {} with {}, it allows {:?}",
                    bad.method, bad.result, bad.methods
                );
                Err(Fault::peer(why))
            }
            Tag::AuthReplyMore => {
                let payload: bytes::Bytes = parse(payload)?;
                let answer = self.auth.client.more(&mut self.random, &mut progress, &payload)?;
                conn.client = Some(progress);
                conn.control(Tag::AuthRequestMore, &answer.as_slice().to_bytes());
                Ok(())
            }
            Tag::AuthDone => {
                let done: AuthDone = parse(payload)?;
                let mode = Mode::from_wire(done.mode).ok_or(Fault::peer("unknown connection mode"))?;
                let keys = self.auth.client.done(now.mono, &progress, done.global_id, mode, &done.payload)?;
                conn.mode = mode;
                conn.authenticated(&keys)
            }
            tag => Err(unexpected(conn.phase, tag)),
        }
    }

    /// Says who this side is: a new session, or one that stood before.
    pub(super) fn identify(&mut self, conn: &mut Conn) -> Result<(), Fault> {
        self.global_seq = self.global_seq.wrapping_add(1);
        let addrs = match (&self.config.addrs.0[..], self.learned) {
            ([], Some(learned)) => EntityAddrVec(vec![learned]),
            ([], None) => return Err(Fault::peer("the peer does not tell this side's address")),
            _ => self.config.addrs.clone(),
        };
        let session = conn.session.and_then(|id| self.sessions.get_mut(&id)).ok_or(Fault::usual("session closed"))?;
        let target = session.target.ok_or(Fault::usual("session without a target"))?;
        if session.policy == Policy::Lossless && session.server_cookie != 0 {
            session.connect_seq = session.connect_seq.wrapping_add(1);
            let again = Reconnect {
                addrs,
                client_cookie: session.client_cookie,
                server_cookie: session.server_cookie,
                global_seq: self.global_seq,
                connect_seq: session.connect_seq,
                msg_seq: session.in_seq,
            };
            session.told_seq = session.in_seq;
            conn.control(Tag::SessionReconnect, &again.to_vec());
            return Ok(());
        }
        let gid = match (self.config.id, self.auth.client.global_id) {
            (id @ 0.., _) => id,
            (_, 0) => -1,
            (_, global_id) => global_id as i64,
        };
        let ident = ClientIdent {
            addrs,
            target,
            gid,
            global_seq: self.global_seq,
            supported: self.config.features,
            required: self.config.required,
            flags: if session.policy == Policy::Lossy { FLAG_LOSSY } else { 0 },
            cookie: session.client_cookie,
        };
        conn.control(Tag::ClientIdent, &ident.to_vec());
        Ok(())
    }

    pub(super) fn dial_ident(&mut self, _now: Now, conn: &mut Conn, tag: Tag, payload: &[u8]) -> Result<(), Fault> {
        let Some(id) = conn.session else { return Err(unexpected(conn.phase, tag)) };
        match tag {
            Tag::ServerIdent => self.opened(conn, id, &parse(payload)?),
            Tag::IdentMissingFeatures => {
                let missing: u64 = parse(payload)?;
                Err(Fault::peer(format_args!("the peer requires features {missing:#x}")))
            }
            Tag::SessionReset => {
                let cookie = self.cookie();
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.reset();
                    session.client_cookie = cookie;
                    self.events.push_back(Event::Reset { session: id });
                }
                self.identify(conn)
            }
            Tag::SessionRetry => {
                let seq: u64 = parse(payload)?;
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.connect_seq = seq;
                }
                self.identify(conn)
            }
            Tag::SessionRetryGlobal => {
                self.global_seq = self.global_seq.max(parse(payload)?);
                self.identify(conn)
            }
            Tag::SessionReconnectOk => {
                let seq: u64 = parse(payload)?;
                let Some(session) = self.sessions.get_mut(&id) else { return Err(unexpected(conn.phase, tag)) };
                if session.server_cookie == 0 || !session.replay(seq) {
                    return Err(Fault::peer("acknowledgement of a message that was never sent"));
                }
                session.pause = Duration::ZERO;
                self.ready(conn);
                Ok(())
            }
            Tag::Wait => Err(Fault::usual("the peer asks to wait")),
            tag => Err(unexpected(conn.phase, tag)),
        }
    }

    /// The peer accepted a new session.
    fn opened(&mut self, conn: &mut Conn, id: SessionId, ident: &ServerIdent) -> Result<(), Fault> {
        let Some(session) = self.sessions.get_mut(&id) else { return Err(Fault::usual("session closed")) };
        if session.target.is_none_or(|target| !ident.addrs.0.contains(&target)) {
            return Err(Fault::peer(format_args!("the peer is {}, somebody else", ident.addrs)));
        }
        let missing = self.config.required & !ident.supported;
        if missing != 0 {
            return Err(Fault::peer(format_args!("the peer lacks required features {missing:#x}")));
        }
        if ident.flags & FLAG_LOSSY != 0 {
            session.policy = Policy::Lossy;
        } else if session.policy == Policy::Lossless && ident.cookie == 0 {
            return Err(Fault::peer("a lossless session without a cookie"));
        }
        session.server_cookie = ident.cookie;
        session.pause = Duration::ZERO;
        session.replay(0);
        let peer = Arc::new(Peer {
            name: EntityName::new(session.kind, if ident.gid >= 0 { ident.gid.to_string() } else { String::new() }),
            kind: session.kind,
            global_id: ident.gid.max(0) as u64,
            addr: session.target.unwrap_or_default(),
            addrs: ident.addrs.clone(),
            ip: Some(conn.remote.ip()),
            ticket: types::UTime::ZERO,
            features: ident.supported & self.config.features,
            caps: None,
            mode: conn.mode,
            outgoing: true,
        });
        let first = session.peer.replace(peer.clone()).is_none();
        self.ready(conn);
        if first {
            self.events.push_back(Event::Opened { session: id, peer });
        }
        Ok(())
    }
}
