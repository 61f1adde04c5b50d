//! A service's side: authorizers.

use super::proto::*;
use super::{AuthError, Ctx, Granted, Method, Progress, RotatingKeys, SessionKeys, Step};
use crate::Mode;
use denc::{Decode as _, Encode as _, Reader};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityName, EntityType, UTime};

/// Keys by which a service (an OSD, the manager) judges peers.
#[derive(Clone, Debug)]
pub struct ServiceAuth {
    /// Allowed methods.
    pub methods: Vec<Method>,
    /// Kind of this service.
    pub service: EntityType,
    /// Its keys, as the monitor last told them.
    pub keys: RotatingKeys,
    /// Time beyond its end for which a ticket is still taken: clocks jump and differ. What bounds a ticket's life for sure is
    /// that its key is let go.
    pub tolerance: Duration,
    /// Entities whose older tickets are not taken any more.
    pub revoked: BTreeMap<EntityName, Revoked>,
}

/// Rights of an entity have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// Tickets that were made before are not taken.
    pub before: UTime,
    /// The rights at this service now, as text; empty: none; `None`: the entity is gone.
    pub caps: Option<String>,
}

impl ServiceAuth {
    /// With cephx alone and no keys yet: everybody is asked to try again until keys come.
    pub fn new(service: EntityType) -> Self {
        Self {
            methods: vec![Method::Cephx],
            service,
            keys: RotatingKeys::default(),
            tolerance: Duration::from_secs(3600),
            revoked: BTreeMap::new(),
        }
    }

    /// Returns true if what a ticket of this entity said does not hold any more: when it was made, and its rights
    /// (`None`: all).
    pub fn has_ended(&self, name: &EntityName, made: UTime, caps: Option<&str>) -> bool {
        self.revoked
            .get(name)
            .is_some_and(|revoked| made < revoked.before || revoked.caps.is_none() || revoked.caps.as_deref() != caps)
    }

    /// First round: the ticket must be good; then a challenge.
    pub(super) fn begin(
        &mut self,
        ctx: &mut Ctx<'_>,
        mode: Mode,
        progress: &mut Progress,
        payload: &[u8],
    ) -> Result<Step, AuthError> {
        match self.open(ctx.now, payload) {
            Ok((info, _)) => {
                let challenge = ctx.random.u64();
                *progress = Progress::Authorizing { mode, challenge };
                Ok(Step::More(info.session.seal(&ServerChallenge { challenge })))
            }
            Err(AuthError::Garbage(error)) => Err(error.into()),
            Err(_) => Ok(self.denied()),
        }
    }

    /// Second round: the challenge must have been understood.
    pub(super) fn authorize(&mut self, ctx: &mut Ctx<'_>, mode: Mode, challenge: u64, payload: &[u8]) -> Result<Step, AuthError> {
        let (info, authorize) = match self.open(ctx.now, payload) {
            Ok(opened) => opened,
            Err(AuthError::Garbage(error)) => return Err(error.into()),
            Err(_) => return Ok(self.denied()),
        };
        if !authorize.have_challenge || authorize.challenge_plus_one != challenge.wrapping_add(1) {
            return Ok(self.denied());
        }
        let secret = ctx.secret(mode);
        let reply = AuthorizeReply { nonce_plus_one: authorize.nonce.wrapping_add(1), secret: secret.clone().into() };
        let mut payload = Vec::new();
        info.session.seal(&reply).as_slice().encode(&mut payload);
        Ok(Step::Done(Box::new(Granted {
            name: info.ticket.name,
            global_id: info.ticket.global_id,
            made: info.ticket.created,
            caps: info.ticket.caps.text()?,
            mode,
            payload,
            keys: SessionKeys { session: Some(info.session.secret), secret },
        })))
    }

    fn denied(&self) -> Step {
        Step::Bad { result: super::EACCES, methods: self.methods.clone() }
    }

    fn open(&self, now: UTime, payload: &[u8]) -> Result<(TicketInfo, Authorize), AuthError> {
        let mut r = Reader::new(payload);
        let authorizer: Authorizer = r.get()?;
        r.finish()?;
        if authorizer.service != self.service as u32 {
            return Err(AuthError::Refused("ticket for another service"));
        }
        let info = open_ticket(&self.keys, &authorizer.ticket)?;
        if info.ticket.global_id != authorizer.global_id {
            return Err(AuthError::Refused("ticket of another client"));
        }
        let early = info.ticket.created > now.plus(self.tolerance);
        if early || now > info.ticket.expires.plus(self.tolerance) {
            return Err(AuthError::Refused("ticket out of its time"));
        }
        if self.has_ended(&info.ticket.name, info.ticket.created, info.ticket.caps.text()?.as_deref()) {
            return Err(AuthError::Refused("the rights of the ticket have ended"));
        }
        let authorize = info.session.open(&authorizer.sealed)?;
        Ok((info, authorize))
    }
}

/// Without authentication: names and ids are believed.
pub(super) fn plain(mode: Mode, payload: &[u8]) -> Result<Step, AuthError> {
    let claim = Claim::decode(&mut Reader::new(payload))?;
    if claim.kind != TO_SERVICE && claim.kind != TO_MONITOR {
        return Err(AuthError::Refused("unknown kind of authentication request"));
    }
    let keys = SessionKeys::default();
    let granted =
        Granted { name: claim.name, global_id: claim.global_id, made: UTime::ZERO, caps: None, mode, payload: Vec::new(), keys };
    Ok(Step::Done(Box::new(granted)))
}
