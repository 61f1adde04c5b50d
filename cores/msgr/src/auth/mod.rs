//! Authentication: none, and cephx with its keys, tickets and authorizers.
//!
//! An entity proves to a monitor that it knows its key and gets tickets; it shows a ticket to a service, which opens it
//! with a key that only the service and the monitors have, and finds the entity's name, rights and a session key in it.

mod client;
mod key;
mod keyring;
mod mon;
pub(crate) mod proto;
mod service;

pub(crate) use client::ClientProgress;
pub use client::{ClientAuth, ClientMethod, HandedTicket};
pub use key::{ExpiringKey, Key, RotatingKeys};
pub use keyring::{EntityKey, Keyring, KeyringError, write_section};
pub use mon::{GlobalIds, MONITOR_ID, MonAuth};
pub use service::{Revoked, ServiceAuth};

use crate::Mode;
use crate::random::Random;
use denc::DecodeError;
use std::fmt;
use types::{EntityName, UTime};

/// Method by which entities show who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Method {
    /// They just say it.
    None = 1,
    /// By a shared secret.
    Cephx = 2,
}

impl Method {
    pub(crate) fn from_wire(n: u32) -> Option<Self> {
        match n {
            1 => Some(Self::None),
            2 => Some(Self::Cephx),
            _ => None,
        }
    }
}

/// Reason why authentication failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthError {
    /// Sealed bytes do not open with the key that should fit.
    WrongKey,
    /// The peer sent bytes that mean nothing.
    Garbage(DecodeError),
    /// The peer is refused; the text says why.
    Refused(&'static str),
    /// This side lacks what it needs (a ticket, a key, a free id); may pass with time.
    NotReady(&'static str),
}

impl From<DecodeError> for AuthError {
    fn from(error: DecodeError) -> Self {
        Self::Garbage(error)
    }
}

impl fmt::Display for AuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongKey => f.write_str("wrong key"),
            Self::Garbage(error) => write!(f, "not understood: {error}"),
            Self::Refused(why) | Self::NotReady(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for AuthError {}

/// Judge of accepted connections.
#[derive(Clone, Debug)]
pub enum Acceptor {
    /// Nobody is accepted (a pure client).
    Nobody,
    /// Anybody is who they say they are and may do everything (an OSD of a cluster without authentication).
    Anybody,
    /// As a monitor.
    Mon(MonAuth),
    /// As a service that opens tickets.
    Service(ServiceAuth),
}

/// All that a messenger knows about keys and rights.
#[derive(Clone, Debug)]
pub struct Auth {
    /// For accepted connections.
    pub acceptor: Acceptor,
    /// For connections that this side opens.
    pub client: ClientAuth,
}

impl Auth {
    /// Of a daemon in a cluster without authentication; not for monitors, which also give out ids.
    pub fn none(name: EntityName) -> Self {
        Self { acceptor: Acceptor::Anybody, client: ClientAuth::none(name) }
    }

    /// Of a pure client.
    pub fn client(client: ClientAuth) -> Self {
        Self { acceptor: Acceptor::Nobody, client }
    }
}

/// Identity and rights of an accepted peer.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    pub(crate) name: EntityName,
    pub(crate) global_id: u64,
    /// Time when the ticket was made; zero without one.
    pub(crate) made: UTime,
    /// `None`: everything.
    pub(crate) caps: Option<String>,
    pub(crate) mode: Mode,
    /// Payload of AUTH_DONE.
    pub(crate) payload: Vec<u8>,
    pub(crate) keys: SessionKeys,
}

/// Keys that both sides know after authentication.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionKeys {
    /// Signs the transcript; `None` without authentication.
    pub(crate) session: Option<[u8; 16]>,
    /// 64 bytes in secure mode, else empty.
    pub(crate) secret: Vec<u8>,
}

/// The next step of an acceptor.
#[derive(Debug)]
pub(crate) enum Step {
    /// AUTH_BAD_METHOD; the peer may try again.
    Bad { result: i32, methods: Vec<Method> },
    /// AUTH_REPLY_MORE.
    More(Vec<u8>),
    /// AUTH_DONE.
    Done(Box<Granted>),
}

/// Progress of an accepted connection's authentication.
#[derive(Debug, Default)]
pub(crate) enum Progress {
    #[default]
    Start,
    /// A monitor sent its challenge.
    Challenged { name: EntityName, global_id: u64, mode: Mode, challenge: u64 },
    /// A service sent its challenge.
    Authorizing { mode: Mode, challenge: u64 },
}

/// Facts that judging a peer may depend on.
pub(crate) struct Ctx<'a> {
    pub(crate) now: UTime,
    pub(crate) random: &'a mut Random,
    /// Modes that this side allows.
    pub(crate) modes: &'a [Mode],
}

impl Ctx<'_> {
    /// First of the peer's modes that is allowed and possible with the method.
    fn choose(&self, method: Method, wanted: &[u32]) -> Result<Mode, AuthError> {
        let possible = |mode: &Mode| self.modes.contains(mode) && (method == Method::Cephx || *mode == Mode::Crc);
        let chosen = wanted.iter().filter_map(|n| Mode::from_wire(*n)).find(possible);
        chosen.ok_or(AuthError::Refused("no common connection mode"))
    }

    /// Secret of a connection: 64 random bytes in secure mode.
    fn secret(&mut self, mode: Mode) -> Vec<u8> {
        match mode {
            Mode::Crc => Vec::new(),
            Mode::Secure => self.random.bytes::<64>().to_vec(),
        }
    }
}

/// "Method not supported", as Ceph answers an unknown or forbidden method.
const EOPNOTSUPP: i32 = -95;
/// "Permission denied", as Ceph answers a wrong key.
const EACCES: i32 = -13;

impl Acceptor {
    /// Returns true if nobody can be let in, since no monitor has told the keys of the service.
    pub(crate) fn lacks_keys(&self) -> bool {
        matches!(self, Acceptor::Service(service) if service.keys.keys.is_empty())
    }

    /// Judges an AUTH_REQUEST.
    pub(crate) fn request(
        &mut self,
        ctx: &mut Ctx<'_>,
        progress: &mut Progress,
        request: &proto::Request,
    ) -> Result<Step, AuthError> {
        let allowed = match self {
            Self::Nobody => return Err(AuthError::Refused("this side accepts nobody")),
            Self::Anybody => vec![Method::None],
            Self::Mon(mon) => mon.methods.clone(),
            Self::Service(service) => service.methods.clone(),
        };
        let method = Method::from_wire(request.method).filter(|m| allowed.contains(m));
        // A client without an entity of its own sends an empty payload to ask what is allowed.
        let (Some(method), false) = (method, request.payload.is_empty()) else {
            return Ok(Step::Bad { result: EOPNOTSUPP, methods: allowed });
        };
        let mode = ctx.choose(method, &request.modes)?;
        match (self, method) {
            (Self::Mon(mon), Method::None) => mon.plain(ctx, mode, &request.payload),
            (Self::Mon(mon), Method::Cephx) => mon.begin(ctx, mode, progress, &request.payload),
            (Self::Service(service), Method::Cephx) => service.begin(ctx, mode, progress, &request.payload),
            (_, _) => service::plain(mode, &request.payload),
        }
    }

    /// Judges an AUTH_REQUEST_MORE.
    pub(crate) fn more(&mut self, ctx: &mut Ctx<'_>, progress: &mut Progress, payload: &[u8]) -> Result<Step, AuthError> {
        match (self, std::mem::take(progress)) {
            (Self::Mon(mon), Progress::Challenged { name, global_id, mode, challenge }) => {
                mon.prove(ctx, mode, name, global_id, challenge, payload)
            }
            (Self::Service(service), Progress::Authorizing { mode, challenge }) => {
                service.authorize(ctx, mode, challenge, payload)
            }
            _ => Err(AuthError::Refused("AUTH_REQUEST_MORE without a challenge before it")),
        }
    }
}
