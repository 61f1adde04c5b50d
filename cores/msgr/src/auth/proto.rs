//! What cephx puts into the handshake's opaque payloads. Layouts as in release 16.2.

use super::{AuthError, Key};
use bytes::Bytes;
use denc::{Decode, DecodeError, Encode, Reader, Result};
use std::time::Duration;
use types::{EntityName, UTime};

/// First byte of an AUTH_REQUEST's payload to a monitor.
pub(crate) const TO_MONITOR: u8 = 10;
/// First byte of one to a service: the authorizer's version at the same time.
pub(crate) const TO_SERVICE: u8 = 1;
/// Proves the knowledge of the key; gives the authentication ticket.
pub(crate) const GET_AUTH_SESSION_KEY: u16 = 0x0100;
/// Gives tickets for services.
pub(crate) const GET_SERVICE_TICKETS: u16 = 0x0200;
/// Asks for the keys that tickets of the asker's own service are sealed with.
pub(crate) const GET_ROTATING_KEYS: u16 = 0x0400;
/// A connection mode list and the like never has more entries.
const MOST_MODES: usize = 16;

/// AUTH_REQUEST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: u32,
    /// Best first.
    pub(crate) modes: Vec<u32>,
    pub(crate) payload: Bytes,
}
denc::plain!(Request { method, modes, payload });

impl Request {
    pub(crate) fn check(&self) -> Result<()> {
        if self.modes.len() > MOST_MODES { Err(DecodeError::Invalid("number of connection modes")) } else { Ok(()) }
    }
}

/// Identity that an asker claims, without authentication or before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) kind: u8,
    pub(crate) name: EntityName,
    pub(crate) global_id: u64,
}
denc::plain!(Claim { kind, name, global_id });

/// Implements both traits for a struct whose encoding is a fixed version byte and its fields; any version is read.
macro_rules! tagged {
    ($name:ident, $version:literal { $($field:ident),* }) => {
        impl Decode for $name {
            fn decode(r: &mut Reader<'_>) -> Result<Self> {
                r.u8()?;
                $(let $field = r.get()?;)*
                Ok(Self { $($field),* })
            }
        }
        impl Encode for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                out.push($version);
                $(self.$field.encode(out);)*
            }
        }
    };
}

/// Names the key that sealed a ticket, and the sealed ticket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TicketBlob {
    pub(crate) secret_id: u64,
    pub(crate) blob: Bytes,
}
tagged!(TicketBlob, 1 { secret_id, blob });

/// A monitor's challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerChallenge {
    pub(crate) challenge: u64,
}
tagged!(ServerChallenge, 1 { challenge });

/// Sealed with the client's key, its folded image is the proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChallengeBlob {
    pub(crate) server: u64,
    pub(crate) client: u64,
}
denc::plain!(ChallengeBlob { server, client });

/// The proof that a client knows its key: the sealed challenges, their length before them, folded by exclusive or.
pub(crate) fn proof(key: &Key, server: u64, client: u64) -> u64 {
    let mut framed = Vec::new();
    key.seal(&ChallengeBlob { server, client }).as_slice().encode(&mut framed);
    framed.chunks_exact(8).fold(0, |acc, word| acc ^ word.iter().rev().fold(0u64, |w, byte| w << 8 | u64::from(*byte)))
}

/// Answer to the monitor's challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authenticate {
    /// 3 from release 14 on; from that version on clients always send the ticket that they have.
    pub(crate) version: u8,
    pub(crate) client_challenge: u64,
    pub(crate) proof: u64,
    pub(crate) old_ticket: TicketBlob,
    /// Services (bits) for which tickets are wanted at once.
    pub(crate) other_keys: u32,
}

impl Decode for Authenticate {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let version = r.u8()?;
        let (client_challenge, proof, old_ticket) = (r.get()?, r.get()?, r.get()?);
        let other_keys = if version >= 2 { r.get()? } else { 0 };
        Ok(Self { version, client_challenge, proof, old_ticket, other_keys })
    }
}

impl Encode for Authenticate {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.version);
        self.client_challenge.encode(out);
        self.proof.encode(out);
        self.old_ticket.encode(out);
        if self.version >= 2 {
            self.other_keys.encode(out);
        }
    }
}

/// Starts each of the monitor's answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResponseHeader {
    pub(crate) request: u16,
    pub(crate) status: i32,
}
denc::plain!(ResponseHeader { request, status });

/// Wanted services (bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TicketRequest {
    pub(crate) keys: u32,
}
tagged!(TicketRequest, 1 { keys });

/// The half of a ticket that its holder reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceTicket {
    pub(crate) session: Key,
    /// A duration.
    pub(crate) validity: UTime,
}
tagged!(ServiceTicket, 1 { session, validity });

/// Rights in a ticket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuthCaps {
    pub(crate) allow_all: bool,
    /// A string with its length, or nothing.
    pub(crate) caps: Bytes,
}
tagged!(AuthCaps, 1 { allow_all, caps });

impl AuthCaps {
    pub(crate) fn of(caps: &str) -> Self {
        Self { allow_all: false, caps: caps.to_bytes() }
    }

    /// `None` means everything.
    pub(crate) fn text(&self) -> Result<Option<String>> {
        match (self.allow_all, self.caps.is_empty()) {
            (true, _) => Ok(None),
            (false, true) => Ok(Some(String::new())),
            (false, false) => Ok(Some(Reader::new(&self.caps).get()?)),
        }
    }
}

/// Identity of the holder of a ticket, and until when it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuthTicket {
    pub(crate) name: EntityName,
    pub(crate) global_id: u64,
    /// Unused since long: all ones.
    pub(crate) auid: u64,
    pub(crate) created: UTime,
    pub(crate) expires: UTime,
    pub(crate) caps: AuthCaps,
    pub(crate) flags: u32,
}
tagged!(AuthTicket, 2 { name, global_id, auid, created, expires, caps, flags });

/// The half of a ticket that the service reads, sealed with the service's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TicketInfo {
    pub(crate) ticket: AuthTicket,
    pub(crate) session: Key,
}
tagged!(TicketInfo, 1 { ticket, session });

/// One ticket of a ticket list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TicketEntry {
    pub(crate) service: u32,
    /// [`ServiceTicket`], sealed for the holder.
    pub(crate) sealed: Bytes,
    /// True if `blob` is sealed too, with the session key of the holder's old ticket.
    pub(crate) blob_sealed: bool,
    /// [`TicketBlob`].
    pub(crate) blob: Bytes,
}

impl Decode for TicketEntry {
    const MIN_SIZE: usize = 14;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let service = r.get()?;
        r.u8()?;
        let sealed = r.get()?;
        let blob_sealed = r.get()?;
        let blob: Bytes = r.get()?;
        Ok(Self { service, sealed, blob_sealed, blob })
    }
}

impl Encode for TicketEntry {
    fn encode(&self, out: &mut Vec<u8>) {
        self.service.encode(out);
        out.push(1);
        self.sealed.encode(out);
        self.blob_sealed.encode(out);
        self.blob.encode(out);
    }
}

/// Several tickets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TicketList {
    pub(crate) tickets: Vec<TicketEntry>,
}
tagged!(TicketList, 1 { tickets });

/// The open part of an authorizer; sealed [`Authorize`] in `sealed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authorizer {
    pub(crate) global_id: u64,
    pub(crate) service: u32,
    pub(crate) ticket: TicketBlob,
    pub(crate) sealed: Bytes,
}
tagged!(Authorizer, 1 { global_id, service, ticket, sealed });

/// The part of an authorizer that proves the knowledge of the session key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authorize {
    pub(crate) nonce: u64,
    pub(crate) have_challenge: bool,
    pub(crate) challenge_plus_one: u64,
}

impl Decode for Authorize {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let version = r.u8()?;
        let nonce = r.get()?;
        let (have_challenge, challenge_plus_one) = if version >= 2 { (r.get()?, r.get()?) } else { (false, 0) };
        Ok(Self { nonce, have_challenge, challenge_plus_one })
    }
}

impl Encode for Authorize {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(2);
        self.nonce.encode(out);
        self.have_challenge.encode(out);
        self.challenge_plus_one.encode(out);
    }
}

/// The service's answer: it could open the ticket. Version 2 carries a connection secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuthorizeReply {
    pub(crate) nonce_plus_one: u64,
    pub(crate) secret: Bytes,
}

impl Decode for AuthorizeReply {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let version = r.u8()?;
        let nonce_plus_one = r.get()?;
        Ok(Self { nonce_plus_one, secret: if version >= 2 { r.get()? } else { Bytes::new() } })
    }
}

impl Encode for AuthorizeReply {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(if self.secret.is_empty() { 1 } else { 2 });
        self.nonce_plus_one.encode(out);
        if !self.secret.is_empty() {
            self.secret.encode(out);
        }
    }
}

/// Time for which a ticket may hold, whatever the options of the monitors say: a year.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// Opens a ticket with whichever key sealed it. One that does not say what monitors write there is refused: of a program that signs none, that is
/// the only sign that its carrier changed it.
pub(crate) fn open_ticket(keys: &super::RotatingKeys, blob: &TicketBlob) -> std::result::Result<TicketInfo, AuthError> {
    let key = keys.keys.get(&blob.secret_id).ok_or(AuthError::Refused("ticket sealed with a key that is not held (any more)"))?;
    let info: TicketInfo = key.key.open_signed(&blob.blob, key.signs())?;
    let AuthTicket { auid, created, expires, caps, flags, .. } = &info.ticket;
    let lasts = *expires >= *created && *expires <= created.plus(LONGEST);
    if *auid != u64::MAX || *flags != 0 || caps.allow_all || !lasts {
        return Err(AuthError::Refused("a ticket that no monitor made"));
    }
    Ok(info)
}

#[cfg(test)]
mod tests {
    use super::super::RotatingKeys;
    use super::*;

    const NOW: UTime = UTime { sec: 1_790_000_000, nsec: 5 };

    fn info() -> TicketInfo {
        let ticket = AuthTicket {
            name: EntityName::new(types::EntityType::Client, "tenant"),
            global_id: 4711,
            auid: u64::MAX,
            created: NOW,
            expires: NOW.plus(Duration::from_secs(3600)),
            caps: AuthCaps::of("allow rw pool=a namespace=b"),
            flags: 0,
        };
        TicketInfo { ticket, session: Key::new(NOW, [7; 16]) }
    }

    fn keys(signs: bool) -> RotatingKeys {
        let mut keys = RotatingKeys::default();
        let (id, key) = keys.successor(NOW, Duration::from_secs(3600), [3; 16], signs);
        keys.add(id, key);
        keys
    }

    /// Opens what a carrier made of a ticket.
    fn shown(signs: bool, blob: Vec<u8>) -> Option<TicketInfo> {
        open_ticket(&keys(signs), &TicketBlob { secret_id: 1, blob: blob.into() }).ok()
    }

    #[test]
    fn a_carrier_changes_no_bit_of_a_signed_ticket() {
        let sealed = keys(true).keys[&1].key.seal_signed(&info());
        assert_eq!(shown(true, sealed.clone()), Some(info()));
        for bit in 0..sealed.len() * 8 {
            let mut forged = sealed.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(shown(true, forged.clone()), None, "bit {bit}");
            // Where older monitors may have made tickets: the signature is still looked at if it is there, and whole blocks may be cut off.
            assert_eq!(shown(false, forged), None, "bit {bit}");
        }
        for blocks in 1..sealed.len() / 16 {
            assert_eq!(shown(true, sealed[..blocks * 16].to_vec()), None);
        }
        assert_eq!(shown(true, keys(true).keys[&1].key.seal(&info())), None, "its signature is left out");
    }

    #[test]
    fn a_ticket_of_an_older_monitor_gives_no_more_rights_than_its_text_says() {
        let sealed = keys(false).keys[&1].key.seal(&info());
        assert_eq!(shown(false, sealed.clone()), Some(info()));
        for bit in 0..sealed.len() * 8 {
            let mut forged = sealed.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            if let Some(info) = shown(false, forged) {
                assert!(!info.ticket.caps.allow_all, "bit {bit}");
            }
        }
    }
}
