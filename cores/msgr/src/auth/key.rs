//! Secret keys, what is sealed with them, and the keys of services that change with time.

use super::AuthError;
use aes::Aes128;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockDecryptMut as _, BlockEncryptMut as _, KeyIvInit as _};
use denc::{Decode, DecodeError, Encode, Reader, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use types::UTime;

/// The only key type in use: AES-128 in CBC mode.
const TYPE_AES: u16 = 1;
/// Initialization vector of all sealed blobs; a constant of the protocol, so what is sealed must contain something unique.
const IV: &[u8; 16] = b"cephsageyudagreg";
/// Starts every sealed plaintext, to tell a wrong key from garbage.
const MAGIC: u64 = 0xff00_9cad_8826_aa55;
/// Beginning of what is signed, so that a signature of a ticket is none of anything else.
const SIGNED: &[u8] = b"nacre: a sealed ticket";
/// Bytes of a signature (HMAC-SHA-256).
const SIGNATURE: usize = 32;
/// The nanoseconds of the birth of a key whose tickets are all signed. Those of a key of an older program are these by a chance of one in
/// 10^9.
const SIGNS: u32 = 511_511_511;

/// A secret shared with one entity, or made for one session.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Key {
    /// Time when it was made.
    pub created: UTime,
    /// The AES-128 key.
    pub secret: [u8; 16],
}

impl Key {
    /// From 16 random bytes.
    pub fn new(created: UTime, secret: [u8; 16]) -> Self {
        Self { created, secret }
    }

    /// As in keyrings.
    pub fn to_base64(&self) -> String {
        BASE64.encode(self.to_vec())
    }

    /// From a keyring.
    pub fn from_base64(text: &str) -> Result<Self> {
        let bytes = BASE64.decode(text.trim()).map_err(|_| DecodeError::Invalid("base64 of a key"))?;
        Self::from_bytes(&bytes)
    }

    fn encrypt(&self, plain: &[u8]) -> Vec<u8> {
        cbc::Encryptor::<Aes128>::new(&self.secret.into(), IV.into()).encrypt_padded_vec_mut::<Pkcs7>(plain)
    }

    fn decrypt(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        cbc::Decryptor::<Aes128>::new(&self.secret.into(), IV.into()).decrypt_padded_vec_mut::<Pkcs7>(sealed).ok()
    }

    /// Encrypts a structure (with the magic number before it).
    pub(crate) fn seal(&self, value: &impl Encode) -> Vec<u8> {
        self.encrypt(&plain(value))
    }

    /// Encrypts a structure with a signature behind it. CBC alone keeps a secret and proves nothing: whoever carries what is sealed can flip any
    /// bit of it, at the price of garbage in the sixteen bytes before. Readers that know no signatures take what they know.
    pub(crate) fn seal_signed(&self, value: &impl Encode) -> Vec<u8> {
        let mut plain = plain(value);
        let signature = ring::hmac::sign(&self.signer(), &[SIGNED, &plain].concat());
        plain.extend_from_slice(signature.as_ref());
        self.encrypt(&plain)
    }

    /// Decrypts a structure, and checks the signature behind it. One without a signature is taken only if none is `demanded`.
    pub(crate) fn open_signed<T: Decode>(&self, sealed: &[u8], demanded: bool) -> std::result::Result<T, AuthError> {
        let plain = self.decrypt(sealed).ok_or(AuthError::WrongKey)?;
        let mut r = Reader::new(&plain);
        let value = opened(&mut r)?;
        match r.remaining() {
            SIGNATURE => {
                let (told, signature) = plain.split_at(plain.len() - SIGNATURE);
                let signed = [SIGNED, told].concat();
                ring::hmac::verify(&self.signer(), &signed, signature).map_err(|_| AuthError::WrongKey)?;
                Ok(value)
            }
            0 if !demanded => Ok(value),
            _ => Err(AuthError::Refused("a ticket without a signature")),
        }
    }

    fn signer(&self) -> ring::hmac::Key {
        ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &self.secret)
    }

    /// Decrypts a structure. Bytes after it are allowed: newer peers append fields.
    pub(crate) fn open<T: Decode>(&self, sealed: &[u8]) -> std::result::Result<T, AuthError> {
        let plain = self.decrypt(sealed).ok_or(AuthError::WrongKey)?;
        opened(&mut Reader::new(&plain))
    }
}

fn plain(value: &impl Encode) -> Vec<u8> {
    let mut plain = vec![1];
    MAGIC.encode(&mut plain);
    value.encode(&mut plain);
    plain
}

/// Reads a structure that was sealed.
fn opened<T: Decode>(r: &mut Reader<'_>) -> std::result::Result<T, AuthError> {
    r.u8()?;
    if r.u64()? != MAGIC {
        return Err(AuthError::WrongKey);
    }
    Ok(r.get()?)
}

/// Secrets stay out of logs.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Decode for Key {
    const MIN_SIZE: usize = 12;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        if r.u16()? != TYPE_AES {
            return Err(DecodeError::Invalid("key type"));
        }
        let created = r.get()?;
        if r.u16()? != 16 {
            return Err(DecodeError::Invalid("key length"));
        }
        Ok(Self { created, secret: r.get()? })
    }
}

impl Encode for Key {
    fn encode(&self, out: &mut Vec<u8>) {
        TYPE_AES.encode(out);
        self.created.encode(out);
        16u16.encode(out);
        self.secret.encode(out);
    }
}

/// A service's key with the moment from which it is no longer the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiringKey {
    /// The key.
    pub key: Key,
    /// End of its time.
    pub expires: UTime,
}

impl ExpiringKey {
    /// Returns true if all tickets under this key are signed: it was made when all monitors signed.
    pub fn signs(&self) -> bool {
        self.key.created.nsec == SIGNS
    }
}

impl Decode for ExpiringKey {
    const MIN_SIZE: usize = 37;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.u8()?;
        Ok(Self { key: r.get()?, expires: r.get()? })
    }
}

impl Encode for ExpiringKey {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(1);
        self.key.encode(out);
        self.expires.encode(out);
    }
}

/// A service's keys: the previous, the current, the next. Tickets are sealed with the current one; services open those
/// sealed with any of the three, so a key reaches them long before it is used and serves long after.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RotatingKeys {
    /// By number.
    pub keys: BTreeMap<u64, ExpiringKey>,
    /// Highest number ever given.
    pub newest: u64,
}

/// Previous, current, next.
const GENERATIONS: usize = 3;

impl RotatingKeys {
    /// The key that seals new tickets: the last but one, or the only one.
    pub fn current(&self) -> Option<(u64, &ExpiringKey)> {
        let mut newest_first = self.keys.iter().rev();
        let last = newest_first.next();
        newest_first.next().or(last).map(|(id, key)| (*id, key))
    }

    /// Returns true if a further key must be added (again and again until this is false).
    pub fn due(&self, now: UTime) -> bool {
        self.keys.len() < GENERATIONS || self.current().is_none_or(|(_, key)| key.expires <= now)
    }

    /// The entry to add next, from 16 random bytes; `lifetime` is how long a key is the current one. `signs`: all monitors sign tickets
    /// by now, so services take no others under this key ([`ExpiringKey::signs`]; the moment of its birth, to the second, says so).
    pub fn successor(&self, now: UTime, lifetime: Duration, secret: [u8; 16], signs: bool) -> (u64, ExpiringKey) {
        let base = match self.keys.last_key_value() {
            None => now,
            Some((_, last)) => last.expires.max(now.plus(lifetime)),
        };
        let nsec = if signs { SIGNS } else { now.nsec & !1 };
        (self.newest + 1, ExpiringKey { key: Key::new(UTime { nsec, ..now }, secret), expires: base.plus(lifetime) })
    }

    /// Adds a key and lets go of those before the previous one.
    pub fn add(&mut self, id: u64, key: ExpiringKey) {
        self.keys.insert(id, key);
        self.newest = self.newest.max(id);
        while self.keys.len() > GENERATIONS {
            self.keys.pop_first();
        }
    }
}

impl Decode for RotatingKeys {
    const MIN_SIZE: usize = 13;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.u8()?;
        Ok(Self { keys: r.get()?, newest: r.get()? })
    }
}

impl Encode for RotatingKeys {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(1);
        self.keys.encode(out);
        self.newest.encode(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> Key {
        Key::new(UTime { sec: 7, nsec: 8 }, [n; 16])
    }

    #[test]
    fn what_is_sealed_opens_with_the_same_key_only() {
        let sealed = key(1).seal(&0x1234_5678_9abc_def0u64);
        assert_eq!(key(1).open::<u64>(&sealed), Ok(0x1234_5678_9abc_def0));
        assert_eq!(key(2).open::<u64>(&sealed), Err(AuthError::WrongKey));
        assert!(key(1).open::<u64>(&sealed[..16]).is_err());
        assert!(key(1).open::<u64>(&[]).is_err());
        assert!(key(1).open::<[u8; 64]>(&sealed).is_err());
    }

    #[test]
    fn a_signature_holds_every_bit() {
        let value = (7u64, [9u8; 40]);
        let sealed = key(1).seal_signed(&value);
        assert_eq!(key(1).open_signed::<(u64, [u8; 40])>(&sealed, true), Ok(value));
        assert_eq!(key(1).open::<(u64, [u8; 40])>(&sealed), Ok(value), "an older program reads it");
        for bit in 0..sealed.len() * 8 {
            let mut other = sealed.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(key(1).open_signed::<(u64, [u8; 40])>(&other, true).is_err(), "bit {bit}");
        }
        let bare = key(1).seal(&value);
        assert_eq!(key(1).open_signed::<(u64, [u8; 40])>(&bare, false), Ok(value));
        assert!(key(1).open_signed::<(u64, [u8; 40])>(&bare, true).is_err());
        let mut keys = RotatingKeys::default();
        let now = UTime { sec: 5, nsec: SIGNS };
        for signs in [false, true] {
            let (id, key) = keys.successor(now, Duration::from_secs(60), [id_of(signs); 16], signs);
            assert_eq!(key.signs(), signs);
            keys.add(id, key);
        }
    }

    fn id_of(signs: bool) -> u8 {
        u8::from(signs)
    }

    #[test]
    fn keys_in_base64_come_back() {
        let text = key(3).to_base64();
        assert_eq!(Key::from_base64(&text), Ok(key(3)));
        assert!(Key::from_base64("AQ==").is_err());
        assert!(Key::from_base64("not base64!").is_err());
    }

    #[test]
    fn a_ticket_opens_for_a_whole_lifetime_after_its_key_stopped_being_current() {
        let hour = Duration::from_secs(3600);
        let mut keys = RotatingKeys::default();
        let mut now = UTime { sec: 1_000_000, nsec: 0 };
        for step in 0..100 {
            while keys.due(now) {
                let (id, key) = keys.successor(now, hour, [step; 16], false);
                keys.add(id, key);
            }
            let used = keys.current().unwrap().0;
            let mut later = keys.clone();
            let soon = now.plus(hour);
            while later.due(soon) {
                let (id, key) = later.successor(soon, hour, [0; 16], true);
                later.add(id, key);
            }
            assert!(later.keys.contains_key(&used), "step {step}");
            now = now.plus(Duration::from_secs(600));
        }
        assert!(keys.newest > 10 && keys.newest < 30, "about one key each hour: {}", keys.newest);
    }
}
