//! A monitor's side of cephx: proofs of keys, tickets, their renewal.

use super::proto::{self, *};
use super::{AuthError, Ctx, EACCES, EntityKey, Granted, HandedTicket, Key, Method, Progress, RotatingKeys, SessionKeys, Step};
use crate::Mode;
use crate::random::Random;
use bytes::Bytes;
use denc::{Decode as _, Encode as _, Reader};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityName, EntityType, UTime};

/// Ids that may be given out without asking anyone: `next..end`. The monitor fills it up from its log, so that no id is
/// given twice, whatever crashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalIds {
    /// The next to give.
    pub next: u64,
    /// The first that may not be given.
    pub end: u64,
}

impl GlobalIds {
    /// Gives one.
    ///
    /// # Errors
    /// None is left; more come when the monitor's log says so.
    pub fn take(&mut self) -> Result<u64, AuthError> {
        if self.next >= self.end {
            return Err(AuthError::NotReady("no global id is left to give"));
        }
        self.next += 1;
        Ok(self.next - 1)
    }
}

/// The number under which monitors connect to each other. They need none of their own: no client has it, none is used up, and monitors can
/// talk before they have agreed on anything.
pub const MONITOR_ID: u64 = u64::MAX;

/// Database by which a monitor judges peers. The monitor keeps it in step with its database.
#[derive(Clone, Debug)]
pub struct MonAuth {
    /// Allowed methods.
    pub methods: Vec<Method>,
    /// Keys and rights.
    pub entities: BTreeMap<EntityName, EntityKey>,
    /// Keys of services, and of the authentication service itself ([`EntityType::Auth`]). No tickets are given for services
    /// that are not in it.
    pub services: BTreeMap<EntityType, RotatingKeys>,
    /// Ids for newcomers.
    pub global_ids: GlobalIds,
    /// Time for which an authentication ticket holds.
    pub auth_lifetime: Duration,
    /// Time for which a service's ticket holds.
    pub service_lifetime: Duration,
    /// True if a client may take up its old global id without the ticket that goes with it.
    pub insecure_reclaim: bool,
}

impl MonAuth {
    /// Without entities or keys; lifetimes as Ceph's defaults (72 hours, 1 hour).
    pub fn new(methods: Vec<Method>) -> Self {
        Self {
            methods,
            entities: BTreeMap::new(),
            services: BTreeMap::new(),
            global_ids: GlobalIds::default(),
            auth_lifetime: Duration::from_secs(72 * 3600),
            service_lifetime: Duration::from_secs(3600),
            insecure_reclaim: false,
        }
    }

    /// Without authentication: names are believed, ids are given.
    pub(super) fn plain(&mut self, _ctx: &Ctx<'_>, mode: Mode, payload: &[u8]) -> Result<Step, AuthError> {
        let claim = Claim::decode(&mut Reader::new(payload))?;
        let global_id = if claim.global_id == 0 { self.global_ids.take()? } else { claim.global_id };
        let keys = SessionKeys::default();
        Ok(Step::Done(Box::new(Granted {
            name: claim.name,
            global_id,
            made: UTime::ZERO,
            caps: None,
            mode,
            payload: Vec::new(),
            keys,
        })))
    }

    /// First round: a challenge, also for names that do not exist.
    pub(super) fn begin(
        &mut self,
        ctx: &mut Ctx<'_>,
        mode: Mode,
        progress: &mut Progress,
        payload: &[u8],
    ) -> Result<Step, AuthError> {
        let claim = Claim::decode(&mut Reader::new(payload))?;
        if claim.kind != TO_MONITOR {
            return Err(AuthError::Refused("an authorizer was sent to a monitor"));
        }
        let challenge = ctx.random.u64();
        *progress = Progress::Challenged { name: claim.name, global_id: claim.global_id, mode, challenge };
        Ok(Step::More(ServerChallenge { challenge }.to_vec()))
    }

    /// Second round: the proof.
    pub(super) fn prove(
        &mut self,
        ctx: &mut Ctx<'_>,
        mode: Mode,
        name: EntityName,
        claimed: u64,
        challenge: u64,
        payload: &[u8],
    ) -> Result<Step, AuthError> {
        let mut r = Reader::new(payload);
        if r.u16()? != GET_AUTH_SESSION_KEY {
            return Err(AuthError::Refused("unknown request in the proof round"));
        }
        let proof: Authenticate = r.get()?;
        let denied = Step::Bad { result: EACCES, methods: self.methods.clone() };
        let Some(entity) = self.proven(&name, challenge, &proof) else { return Ok(denied) };
        // Who has no rights at monitors does not get in, as in Ceph, whatever its rights at other services.
        let Some(caps) = entity.caps.get("mon").filter(|text| !text.is_empty()).cloned() else { return Ok(denied) };
        let old = self.old_ticket(&name, &proof);
        let global_id = match (&old, claimed) {
            (_, 0) => self.global_ids.take()?,
            (_, MONITOR_ID) if name.kind == EntityType::Mon => MONITOR_ID,
            (Some(old), id) if old.ticket.global_id == id => id,
            (_, id) if self.insecure_reclaim => id,
            _ => return Ok(denied),
        };
        let secret = ctx.secret(mode);
        let (session, payload) =
            self.session_reply(ctx.now, ctx.random, (&name, &entity), global_id, &proof, old.as_ref(), Some(&secret))?;
        let keys = SessionKeys { session: Some(session.secret), secret };
        Ok(Step::Done(Box::new(Granted { name, global_id, made: UTime::ZERO, caps: Some(caps), mode, payload, keys })))
    }

    /// The entity, if the proof shows that its key is known to the peer.
    fn proven(&self, name: &EntityName, challenge: u64, proof: &Authenticate) -> Option<EntityKey> {
        let entity = self.entities.get(name)?;
        (proto::proof(&entity.key, challenge, proof.client_challenge) == proof.proof).then(|| entity.clone())
    }

    /// The authentication ticket that a returning client shows, if it is one of ours and its own.
    fn old_ticket(&self, name: &EntityName, proof: &Authenticate) -> Option<TicketInfo> {
        let keys = self.services.get(&EntityType::Auth)?;
        open_ticket(keys, &proof.old_ticket).ok().filter(|info| info.ticket.name == *name)
    }

    /// The answer to a right proof, and the new session key.
    #[expect(clippy::too_many_arguments, reason = "all of them go into the answer")]
    fn session_reply(
        &self,
        now: UTime,
        random: &mut Random,
        (name, entity): (&EntityName, &EntityKey),
        global_id: u64,
        proof: &Authenticate,
        old: Option<&TicketInfo>,
        secret: Option<&[u8]>,
    ) -> Result<(Key, Vec<u8>), AuthError> {
        let holder = Holder { now, name, entity, global_id };
        let (session, ticket) = self
            .ticket(random, &holder, EntityType::Auth, &entity.key, old.map(|old| &old.session))
            .ok_or(AuthError::NotReady("no key to seal authentication tickets with"))?;
        let mut out = Vec::new();
        ResponseHeader { request: GET_AUTH_SESSION_KEY, status: 0 }.encode(&mut out);
        TicketList { tickets: vec![ticket] }.encode(&mut out);
        if proof.other_keys != 0 {
            denc::blob(&mut out, |out| {
                if let Some(secret) = secret {
                    session.seal(&Bytes::copy_from_slice(secret)).as_slice().encode(out);
                }
            });
            denc::blob(&mut out, |out| {
                let tickets = self.tickets(random, &holder, proof.other_keys, &session);
                if !tickets.is_empty() {
                    TicketList { tickets }.encode(out);
                }
            });
        }
        Ok((session, out))
    }

    /// Tickets for the wanted services, sealed for the holder with `session`.
    fn tickets(&self, random: &mut Random, holder: &Holder<'_>, wanted: u32, session: &Key) -> Vec<TicketEntry> {
        let services = self.services.keys().filter(|kind| **kind != EntityType::Auth && wanted & **kind as u32 != 0);
        services.filter_map(|kind| Some(self.ticket(random, holder, *kind, session, None)?.1)).collect()
    }

    /// One ticket, and its session key; `None` if there is no key of the service.
    fn ticket(
        &self,
        random: &mut Random,
        holder: &Holder<'_>,
        service: EntityType,
        seal_with: &Key,
        old_session: Option<&Key>,
    ) -> Option<(Key, TicketEntry)> {
        let (session, blob, lifetime) = self.mint(random, holder, service)?;
        let validity = UTime::from_nanos(lifetime.as_nanos() as u64);
        let blob = blob.to_bytes();
        let entry = TicketEntry {
            service: service as u32,
            sealed: seal_with.seal(&ServiceTicket { session, validity }).into(),
            blob_sealed: old_session.is_some(),
            blob: match old_session {
                None => blob,
                Some(key) => key.seal(&blob).into(),
            },
        };
        Some((session, entry))
    }

    /// A ticket's session key, its sealed part, and how long it holds.
    fn mint(&self, random: &mut Random, holder: &Holder<'_>, service: EntityType) -> Option<(Key, TicketBlob, Duration)> {
        let current = self.services.get(&service).and_then(RotatingKeys::current);
        let (secret_id, service_key) = match current {
            Some((id, key)) => (id, key.key),
            // Monitors talk before there are such keys. What is sealed here is shown to nobody.
            None if holder.global_id == MONITOR_ID && service == EntityType::Auth => (0, holder.entity.key),
            None => return None,
        };
        let lifetime = if service == EntityType::Auth { self.auth_lifetime } else { self.service_lifetime };
        let session = Key::new(holder.now, random.bytes());
        let caps = match holder.entity.caps.get(service.name()) {
            Some(caps) => AuthCaps::of(caps),
            None => AuthCaps::default(),
        };
        let ticket = AuthTicket {
            name: holder.name.clone(),
            global_id: holder.global_id,
            auid: u64::MAX,
            created: holder.now,
            expires: holder.now.plus(lifetime),
            caps,
            flags: 0,
        };
        let blob = service_key.seal_signed(&TicketInfo { ticket, session }).into();
        Some((session, TicketBlob { secret_id, blob }, lifetime))
    }

    /// A ticket for somebody in the monitor's own process; `None` while there is no key of the service.
    pub(crate) fn hand_out(
        &self,
        now: UTime,
        random: &mut Random,
        (name, entity): (&EntityName, &EntityKey),
        global_id: u64,
        service: EntityType,
    ) -> Option<HandedTicket> {
        let (session, blob, lifetime) = self.mint(random, &Holder { now, name, entity, global_id }, service)?;
        Some(HandedTicket { service, session, blob, lifetime })
    }

    /// Answers the payload of an AUTH message on a session that stands. `challenge` is the one of the session's handshake.
    pub(crate) fn renew(
        &mut self,
        now: UTime,
        random: &mut Random,
        name: &EntityName,
        global_id: u64,
        challenge: Option<u64>,
        payload: &[u8],
    ) -> Result<Vec<u8>, AuthError> {
        let mut r = Reader::new(payload);
        match r.u16()? {
            GET_AUTH_SESSION_KEY => {
                let proof: Authenticate = r.get()?;
                let challenge = challenge.ok_or(AuthError::Refused("renewal on a session without a proof"))?;
                let entity = self.proven(name, challenge, &proof).ok_or(AuthError::WrongKey)?;
                let old = self.old_ticket(name, &proof);
                Ok(self.session_reply(now, random, (name, &entity), global_id, &proof, old.as_ref(), None)?.1)
            }
            GET_SERVICE_TICKETS => {
                let authorizer: Authorizer = r.get()?;
                let keys = self.services.get(&EntityType::Auth).ok_or(AuthError::NotReady("no authentication keys"))?;
                let info = open_ticket(keys, &authorizer.ticket)?;
                info.session.open::<Authorize>(&authorizer.sealed)?;
                if info.ticket.name != *name || info.ticket.global_id != global_id {
                    return Err(AuthError::Refused("the ticket is somebody else's"));
                }
                let wanted: TicketRequest = r.get()?;
                let entity = self.entities.get(name).ok_or(AuthError::Refused("the entity does not exist any more"))?;
                let holder = Holder { now, name, entity, global_id };
                let tickets = self.tickets(random, &holder, wanted.keys, &info.session);
                let mut out = ResponseHeader { request: GET_SERVICE_TICKETS, status: 0 }.to_vec();
                TicketList { tickets }.encode(&mut out);
                Ok(out)
            }
            GET_ROTATING_KEYS => {
                // Stock clients that call themselves a daemon ask for them, and abort if they are refused.
                let entity = self.entities.get(name).ok_or(AuthError::Refused("the entity does not exist any more"))?;
                if name.kind == EntityType::Client {
                    return Err(AuthError::Refused("clients are no service"));
                }
                let keys = self.services.get(&name.kind).cloned().unwrap_or_default();
                let mut out = ResponseHeader { request: GET_ROTATING_KEYS, status: 0 }.to_vec();
                entity.key.seal(&keys).as_slice().encode(&mut out);
                Ok(out)
            }
            _ => Err(AuthError::Refused("unknown authentication request")),
        }
    }
}

/// For whom a ticket is made, and when.
struct Holder<'a> {
    now: UTime,
    name: &'a EntityName,
    entity: &'a EntityKey,
    global_id: u64,
}
