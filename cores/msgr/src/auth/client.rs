//! The connecting side: proofs to monitors, tickets, authorizers to services, renewal.

use super::proto::{self, *};
use super::{AuthError, Key, Method, SessionKeys};
use crate::Mode;
use crate::random::Random;
use bytes::Bytes;
use denc::{Encode as _, Reader};
use node::Mono;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityName, EntityType};

/// Method by which this side shows who it is.
#[derive(Clone, Debug)]
pub enum ClientMethod {
    /// It just says it.
    None,
    /// With the key that it shares with the monitors.
    Cephx(Key),
    /// With tickets that are handed in ([`ClientAuth::hold`]): monitors of its own process know it.
    Tickets,
}

/// A ticket that a monitor made for somebody in its own process, who needs no proof.
#[derive(Clone, Debug)]
pub struct HandedTicket {
    pub(crate) service: EntityType,
    pub(crate) session: Key,
    pub(crate) blob: TicketBlob,
    pub(crate) lifetime: Duration,
}

/// A ticket as its holder has it.
#[derive(Clone, Debug)]
struct Ticket {
    session: Key,
    blob: TicketBlob,
    /// Time when three quarters of its time are over.
    renew: Mono,
}

/// Identity of this side to those that it connects to, and the tickets that it got.
#[derive(Clone, Debug)]
pub struct ClientAuth {
    /// Own name.
    pub name: EntityName,
    /// Method by which it is shown.
    pub method: ClientMethod,
    /// Given by the monitors at the first connection; 0 before.
    pub global_id: u64,
    /// Services (bits of [`EntityType`]) for which tickets are asked.
    pub wanted: u32,
    auth: Option<Ticket>,
    services: BTreeMap<u32, Ticket>,
    /// Challenge of the last monitor session, for renewals on it.
    challenge: Option<u64>,
    /// Services (bits) of which somebody refused the ticket.
    lost: u32,
    /// A renewal was asked for at this moment.
    asked: Option<Mono>,
    /// The monitor did not take the authentication ticket: the key must be proven again.
    denied: bool,
    /// Number of times that a monitor refused the own key since one took it last.
    refusals: u32,
}

/// After so long an unanswered renewal is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// Progress of an outgoing connection's authentication.
#[derive(Debug)]
pub(crate) enum ClientProgress {
    Plain,
    Proof { challenge: Option<u64> },
    Authorizer { session: Key, service: u32, nonce: u64 },
}

impl ClientAuth {
    fn new(name: EntityName, method: ClientMethod) -> Self {
        let wanted = EntityType::Mon as u32 | EntityType::Osd as u32 | EntityType::Mgr as u32;
        Self {
            name,
            method,
            global_id: 0,
            wanted,
            auth: None,
            services: BTreeMap::new(),
            challenge: None,
            lost: 0,
            asked: None,
            denied: false,
            refusals: 0,
        }
    }

    /// Without authentication.
    pub fn none(name: EntityName) -> Self {
        Self::new(name, ClientMethod::None)
    }

    /// With cephx; asks for tickets to monitors, OSDs and the manager.
    pub fn cephx(name: EntityName, key: Key) -> Self {
        Self::new(name, ClientMethod::Cephx(key))
    }

    /// A monitor to other monitors, with the key that all of them share; it asks for no tickets. Without a key: just by
    /// name.
    pub fn monitor(key: Option<Key>) -> Self {
        let method = key.map_or(ClientMethod::None, ClientMethod::Cephx);
        let name = EntityName::new(EntityType::Mon, "");
        Self { global_id: super::MONITOR_ID, wanted: 0, ..Self::new(name, method) }
    }

    /// With tickets that are handed in; it connects to no monitor.
    pub fn with_tickets(name: EntityName) -> Self {
        Self::new(name, ClientMethod::Tickets)
    }

    /// Takes a ticket in, in place of an older one. Returns when the next should come.
    pub fn hold(&mut self, now: Mono, ticket: HandedTicket) -> Mono {
        let renew = now.plus(ticket.lifetime / 4 * 3);
        let service = ticket.service as u32;
        self.services.insert(service, Ticket { session: ticket.session, blob: ticket.blob, renew });
        self.lost &= !service;
        renew
    }

    /// Returns true if another ticket for a service of this kind is needed: there is none, or somebody refused it.
    pub fn lacks(&self, kind: EntityType) -> bool {
        !self.ready_for(kind) || self.lost & kind as u32 != 0
    }

    /// Returns true if a connection to a service of this kind can be authenticated now.
    pub fn ready_for(&self, kind: EntityType) -> bool {
        matches!(self.method, ClientMethod::None) || kind == EntityType::Mon || self.services.contains_key(&(kind as u32))
    }

    /// The payload of AUTH_REQUEST, and its method.
    pub(crate) fn start(&self, random: &mut Random, kind: EntityType) -> Result<(Method, Vec<u8>, ClientProgress), AuthError> {
        let to_mon = kind == EntityType::Mon;
        let claim =
            Claim { kind: if to_mon { TO_MONITOR } else { TO_SERVICE }, name: self.name.clone(), global_id: self.global_id };
        match (&self.method, to_mon) {
            (ClientMethod::None, _) => Ok((Method::None, claim.to_vec(), ClientProgress::Plain)),
            (ClientMethod::Cephx(_), true) => Ok((Method::Cephx, claim.to_vec(), ClientProgress::Proof { challenge: None })),
            (ClientMethod::Tickets, true) => Err(AuthError::NotReady("it has no key to show to monitors")),
            (ClientMethod::Cephx(_) | ClientMethod::Tickets, false) => {
                let service = kind as u32;
                let ticket = self.services.get(&service).ok_or(AuthError::NotReady("no ticket for this service yet"))?;
                let nonce = random.u64();
                let authorizer = self.authorizer(ticket, service, nonce, None);
                Ok((Method::Cephx, authorizer, ClientProgress::Authorizer { session: ticket.session, service, nonce }))
            }
        }
    }

    fn authorizer(&self, ticket: &Ticket, service: u32, nonce: u64, challenge: Option<u64>) -> Vec<u8> {
        let inner = Authorize {
            nonce,
            have_challenge: challenge.is_some(),
            challenge_plus_one: challenge.map_or(0, |c| c.wrapping_add(1)),
        };
        let sealed = ticket.session.seal(&inner).into();
        Authorizer { global_id: self.global_id, service, ticket: ticket.blob.clone(), sealed }.to_vec()
    }

    /// Answers AUTH_REPLY_MORE with the payload of AUTH_REQUEST_MORE.
    pub(crate) fn more(&self, random: &mut Random, progress: &mut ClientProgress, payload: &[u8]) -> Result<Vec<u8>, AuthError> {
        match progress {
            ClientProgress::Plain => Err(AuthError::Refused("the peer asks for more than a name")),
            ClientProgress::Proof { challenge } => {
                if challenge.is_some() {
                    return Err(AuthError::Refused("the monitor sent a second challenge"));
                }
                let server = Reader::new(payload).get::<ServerChallenge>()?.challenge;
                *challenge = Some(server);
                self.proof(random, server)
            }
            ClientProgress::Authorizer { session, service, nonce } => {
                let challenge = session.open::<ServerChallenge>(payload)?.challenge;
                let ticket = self.services.get(service).ok_or(AuthError::NotReady("the ticket is gone"))?;
                if ticket.session != *session {
                    return Err(AuthError::NotReady("the ticket was renewed meanwhile"));
                }
                Ok(self.authorizer(ticket, *service, *nonce, Some(challenge)))
            }
        }
    }

    fn proof(&self, random: &mut Random, server: u64) -> Result<Vec<u8>, AuthError> {
        let ClientMethod::Cephx(key) = &self.method else { return Err(AuthError::Refused("no key to prove")) };
        let client_challenge = random.u64();
        let mut out = GET_AUTH_SESSION_KEY.to_vec();
        Authenticate {
            version: 3,
            client_challenge,
            proof: proto::proof(key, server, client_challenge),
            old_ticket: self.auth.as_ref().map(|t| t.blob.clone()).unwrap_or_default(),
            other_keys: self.wanted | EntityType::Auth as u32,
        }
        .encode(&mut out);
        Ok(out)
    }

    /// Takes AUTH_DONE in.
    pub(crate) fn done(
        &mut self,
        now: Mono,
        progress: &ClientProgress,
        global_id: u64,
        mode: Mode,
        payload: &[u8],
    ) -> Result<SessionKeys, AuthError> {
        let keys = match progress {
            ClientProgress::Plain => SessionKeys::default(),
            ClientProgress::Proof { challenge } => {
                let challenge = challenge.ok_or(AuthError::Refused("the monitor asked for no proof"))?;
                let secret = self.session_reply(now, payload)?;
                self.challenge = Some(challenge);
                self.refusals = 0;
                self.global_id = global_id;
                let session = self.auth.as_ref().map(|t| t.session.secret);
                return checked(SessionKeys { session, secret }, mode);
            }
            ClientProgress::Authorizer { session, nonce, .. } => {
                let sealed = Reader::new(payload).blob()?;
                let reply: AuthorizeReply = session.open(sealed)?;
                if reply.nonce_plus_one != nonce.wrapping_add(1) {
                    return Err(AuthError::Refused("the service does not know the session key"));
                }
                SessionKeys { session: Some(session.secret), secret: reply.secret.into() }
            }
        };
        if self.global_id == 0 {
            self.global_id = global_id;
        }
        checked(keys, mode)
    }

    /// Takes the monitor's answer to a proof in; gives the connection secret.
    fn session_reply(&mut self, now: Mono, payload: &[u8]) -> Result<Vec<u8>, AuthError> {
        let ClientMethod::Cephx(key) = &self.method else { return Err(AuthError::Refused("no key")) };
        let key = *key;
        let mut r = Reader::new(payload);
        let header: ResponseHeader = r.get()?;
        if header.request != GET_AUTH_SESSION_KEY || header.status != 0 {
            return Err(AuthError::Refused("the monitor refused the proof"));
        }
        let old = self.auth.as_ref().map(|t| t.session);
        self.tickets(now, &mut r, &key, old.as_ref())?;
        let session = self.auth.as_ref().ok_or(AuthError::Refused("the monitor gave no ticket"))?.session;
        let mut secret = Vec::new();
        if !r.is_empty() {
            let mut outer = Reader::new(r.blob()?);
            if !outer.is_empty() {
                secret = session.open::<Bytes>(outer.blob()?)?.into();
            }
            let mut extra = Reader::new(r.blob()?);
            if !extra.is_empty() {
                self.tickets(now, &mut extra, &session, None)?;
            }
        }
        Ok(secret)
    }

    fn tickets(&mut self, now: Mono, r: &mut Reader<'_>, key: &Key, old: Option<&Key>) -> Result<(), AuthError> {
        for entry in r.get::<TicketList>()?.tickets {
            let mine: ServiceTicket = key.open(&entry.sealed)?;
            let blob = match (entry.blob_sealed, old) {
                (false, _) => Reader::new(&entry.blob).get()?,
                (true, Some(old)) => {
                    let inner: Bytes = old.open(&entry.blob)?;
                    Reader::new(&inner).get()?
                }
                (true, None) => return Err(AuthError::Refused("a ticket sealed for an older session")),
            };
            let renew = now.plus(Duration::from_nanos(mine.validity.as_nanos() / 4 * 3));
            let ticket = Ticket { session: mine.session, blob, renew };
            if entry.service == EntityType::Auth as u32 {
                self.auth = Some(ticket);
                self.denied = false;
            } else if entry.service & self.wanted != 0 {
                self.services.insert(entry.service, ticket);
                self.lost &= !entry.service;
            }
        }
        Ok(())
    }

    /// Returns how often a monitor refused the own key since one took it last.
    pub fn refusals(&self) -> u32 {
        self.refusals
    }

    /// A monitor refused the key, or somebody of a service the ticket. The ticket stays until another comes: a daemon
    /// that has just started has no keys yet and refuses all, which says nothing of the others; and while no monitor
    /// answers no other ticket comes.
    pub(crate) fn refused(&mut self, progress: &ClientProgress) {
        if matches!(progress, ClientProgress::Proof { .. }) {
            self.refusals += 1;
        }
        if let ClientProgress::Authorizer { service, session, .. } = progress
            && self.services.get(service).is_some_and(|t| t.session == *session)
        {
            self.lost |= service;
        }
    }

    /// Returns when [`ClientAuth::renew_request`] will have something to say next, on an open monitor session.
    pub fn next_renewal(&self) -> Mono {
        if matches!(self.method, ClientMethod::None) || self.auth.is_none() {
            return Mono::NEVER;
        }
        let due = self.auth.iter().chain(self.services.values()).map(|t| t.renew).min().unwrap_or(Mono::NEVER);
        let due = if self.lost == 0 && !self.denied { due } else { Mono(0) };
        self.asked.map_or(due, |asked| due.max(asked.plus(ASK_AGAIN)))
    }

    /// The payload of an AUTH message (protocol 2) to the monitor, if tickets must be renewed now.
    pub(crate) fn renew_request(&mut self, now: Mono, random: &mut Random) -> Option<Bytes> {
        if self.next_renewal() > now {
            return None;
        }
        self.asked = Some(now);
        let auth = self.auth.as_ref()?;
        if let (true, Some(challenge)) = (auth.renew <= now || self.denied, self.challenge) {
            return self.proof(random, challenge).ok().map(Bytes::from);
        }
        let mut out = GET_SERVICE_TICKETS.to_vec();
        out.extend(self.authorizer(auth, EntityType::Auth as u32, random.u64(), None));
        TicketRequest { keys: self.wanted }.encode(&mut out);
        Some(out.into())
    }

    /// Takes the result and payload of an AUTH_REPLY message in.
    ///
    /// # Errors
    /// It is no answer to what was asked, or a refusal. The monitor refuses an authentication ticket whose key it let
    /// go, as when its clock jumped: then the next renewal, which is due at once, proves the key.
    pub fn renew_reply(&mut self, now: Mono, result: i32, payload: &[u8]) -> Result<(), AuthError> {
        if result != 0 {
            if !std::mem::replace(&mut self.denied, true) {
                self.asked = None;
            }
            return Err(AuthError::Refused("the monitor refused to renew tickets"));
        }
        let mut r = Reader::new(payload);
        match r.clone().u16()? {
            GET_AUTH_SESSION_KEY => self.session_reply(now, payload).map(drop),
            GET_SERVICE_TICKETS => {
                let header: ResponseHeader = r.get()?;
                if header.status != 0 {
                    return Err(AuthError::Refused("the monitor refused to renew tickets"));
                }
                let session = self.auth.as_ref().ok_or(AuthError::NotReady("no authentication ticket"))?.session;
                self.tickets(now, &mut r, &session, None)
            }
            _ => Err(AuthError::Refused("an answer to nothing that was asked")),
        }
    }
}

/// A secure connection needs a whole secret.
fn checked(keys: SessionKeys, mode: Mode) -> Result<SessionKeys, AuthError> {
    match mode {
        Mode::Secure if keys.session.is_none() || keys.secret.len() < 40 => {
            Err(AuthError::Refused("secure mode without a connection secret"))
        }
        _ => Ok(keys),
    }
}
