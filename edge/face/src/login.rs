//! Who may see the page from elsewhere.
//!
//! There are two ways in. A *link* is good once, for a while; `nacre page link` makes it. A *password* is good until it is changed; the
//! cluster keeps what proves it, never itself. Who came in has a *session*: a cookie that only this host knows, for [`SESSION`].
//!
//! *Who guesses* waits ([`Tries`]): after three wrong tries of an address twice as long after each one, at most a minute; an address of
//! IPv6 stands for its /64. A password is tried some 30 times a minute at most, however many guess: who guesses from many addresses keeps others
//! from coming in by the password. Links and cookies have 256 random bits, so nobody guesses them; a link works whoever guesses meanwhile.
//!
//! What is kept of links and cookies is their digest: whoever reads the file of a link, or the memory of sessions, cannot use it.
//!
//! Nothing here looks at a clock or makes random bytes: both are given.

use ring::digest::{SHA256, digest};
use ring::pbkdf2::{self, PBKDF2_HMAC_SHA256};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

/// Time that a session lasts.
pub const SESSION: Duration = Duration::from_secs(12 * 3600);
/// Most sessions at a time; the oldest ends for a new one.
pub const SESSIONS: usize = 256;
/// Addresses whose wrong tries are remembered; the one whose last try is longest ago goes.
const GUESSERS: usize = 1024;
/// Wrong tries of an address before it must wait.
const FREE: u32 = 3;
/// The longest wait of an address. After ten times this without a wrong try, an address begins anew.
const LONGEST: Duration = Duration::from_secs(60);
/// Tries that are looked at in [`LONGEST`], of all addresses together.
const ALL: u32 = 30;
/// Rounds of a new password: some 0.2 s on a core of today.
const ROUNDS: u32 = 600_000;
/// Most rounds of a password that is kept: what the cluster keeps is not believed to be cheap.
const MOST_ROUNDS: u32 = 2_000_000;
/// Most bytes of a password that is tried.
pub const PASSWORD_BYTES: usize = 256;

/// A digest of a secret.
pub type Digest = [u8; 32];

/// Returns the digest of a secret of 256 random bits.
pub fn digest_of(secret: &str) -> Digest {
    digest(&SHA256, secret.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

/// Returns a digest as a file's name.
pub fn name_of(digest: &Digest) -> String {
    hex(digest)
}

/// Proof of a password: PBKDF2 with HMAC-SHA-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Password {
    rounds: NonZeroU32,
    salt: [u8; 16],
    proof: Digest,
}

impl Password {
    /// Makes the proof of a new password; `salt` is random.
    pub fn new(password: &str, salt: [u8; 16]) -> Self {
        Self::with_rounds(password, salt, NonZeroU32::new(ROUNDS).expect("it is more than 0"))
    }

    fn with_rounds(password: &str, salt: [u8; 16], rounds: NonZeroU32) -> Self {
        let mut proof = [0; 32];
        pbkdf2::derive(PBKDF2_HMAC_SHA256, rounds, &salt, password.as_bytes(), &mut proof);
        Self { rounds, salt, proof }
    }

    /// Reads what [`Password::text`] wrote. None if it is something else, or asks for too many rounds.
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.trim().split('$').collect();
        let [kind, rounds, salt, proof] = parts[..] else { return None };
        let rounds = rounds.parse().ok().filter(|rounds: &NonZeroU32| rounds.get() <= MOST_ROUNDS)?;
        (kind == "pbkdf2-sha256").then_some(Self { rounds, salt: unhex(salt)?, proof: unhex(proof)? })
    }

    /// Writes it for keeping.
    pub fn text(&self) -> String {
        format!("pbkdf2-sha256${}${}${}", self.rounds, hex(&self.salt), hex(&self.proof))
    }

    /// Returns true if this is the password. It takes its time, and the same for all passwords.
    pub fn is(&self, password: &str) -> bool {
        password.len() <= PASSWORD_BYTES
            && pbkdf2::verify(PBKDF2_HMAC_SHA256, self.rounds, &self.salt, password.as_bytes(), &self.proof).is_ok()
    }

    /// The digest of what is kept: another one after the password was changed.
    pub fn digest(&self) -> Digest {
        digest_of(&self.text())
    }
}

/// Way by which somebody came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// By a link.
    Link,
    /// By the password with this digest: the session ends when the password is changed.
    Password(Digest),
}

/// Those who came in.
#[derive(Debug, Default)]
pub struct Sessions(BTreeMap<Digest, (Instant, By)>);

impl Sessions {
    /// Somebody came in: the cookie's value is `secret`, which is random.
    pub fn begin(&mut self, now: Instant, secret: &str, by: By) {
        self.end_old(now);
        if self.0.len() >= SESSIONS
            && let Some(oldest) = self.0.iter().min_by_key(|(_, (since, _))| *since).map(|(digest, _)| *digest)
        {
            self.0.remove(&oldest);
        }
        self.0.insert(digest_of(secret), (now, by));
    }

    /// Returns true if there is a session of this digest now.
    pub fn has(&self, now: Instant, digest: &Digest) -> bool {
        self.0.get(digest).is_some_and(|(since, _)| now.duration_since(*since) < SESSION)
    }

    /// Ends a session.
    pub fn end(&mut self, digest: &Digest) {
        self.0.remove(digest);
    }

    /// Ends those that came in by another password than this one; none: by any.
    pub fn password_is(&mut self, digest: Option<Digest>) {
        self.0.retain(|_, (_, by)| match by {
            By::Link => true,
            By::Password(other) => Some(*other) == digest,
        });
    }

    /// Returns true if somebody came in by a password.
    pub fn by_password(&self) -> bool {
        self.0.values().any(|(_, by)| *by != By::Link)
    }

    fn end_old(&mut self, now: Instant) {
        self.0.retain(|_, (since, _)| now.duration_since(*since) < SESSION);
    }

    /// Returns how many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// Wrong tries.
#[derive(Debug, Default)]
pub struct Tries {
    of: BTreeMap<IpAddr, (u32, Instant)>,
    /// Tries that were looked at since then.
    all: Option<(Instant, u32)>,
}

/// Returns who an address stands for.
fn owner(of: IpAddr) -> IpAddr {
    match of.to_canonical() {
        IpAddr::V6(of) => IpAddr::V6(Ipv6Addr::from_bits(of.to_bits() & (u128::MAX << 64))),
        of => of,
    }
}

impl Tries {
    /// Returns whether a try of an address is looked at now. If not, the time until one is.
    ///
    /// # Errors
    ///
    /// The time to wait.
    pub fn may(&mut self, now: Instant, of: IpAddr) -> Result<(), Duration> {
        if let Some((wrong, last)) = self.of.get(&owner(of)) {
            let steps = wrong.saturating_sub(FREE).min(6);
            let wait = if *wrong < FREE { Duration::ZERO } else { Duration::from_secs(1 << steps).min(LONGEST) };
            let left = wait.saturating_sub(now.duration_since(*last));
            if !left.is_zero() {
                return Err(left);
            }
        }
        let (since, looked) = self.all.get_or_insert((now, 0));
        if now.duration_since(*since) >= LONGEST {
            (*since, *looked) = (now, 0);
        }
        if *looked >= ALL {
            return Err(LONGEST.saturating_sub(now.duration_since(*since)));
        }
        *looked += 1;
        // It counts as wrong until it is known to be right: else many at the same time would all be looked at.
        self.count(now, of);
        Ok(())
    }

    /// Counts a try of an address.
    fn count(&mut self, now: Instant, of: IpAddr) {
        self.of.retain(|_, (_, last)| now.duration_since(*last) < LONGEST * 10);
        let of = owner(of);
        if !self.of.contains_key(&of)
            && self.of.len() >= GUESSERS
            && let Some(oldest) = self.of.iter().min_by_key(|(_, (_, last))| *last).map(|(of, _)| *of)
        {
            self.of.remove(&oldest);
        }
        let (wrong, last) = self.of.entry(of).or_insert((0, now));
        (*wrong, *last) = (wrong.saturating_add(1), now);
    }

    /// A try of an address was right: it begins anew, and was none that guessed. A try that was wrong counts already.
    pub fn right(&mut self, of: IpAddr) {
        self.of.remove(&owner(of));
        if let Some((_, looked)) = &mut self.all {
            *looked = looked.saturating_sub(1);
        }
    }
}

/// The name of the cookie: browsers take it from this host alone, through TLS, for all paths.
const COOKIE: &str = "__Host-nacre";

/// Returns the line of a head that gives a session's cookie; an empty secret takes it away.
pub fn give(secret: &str) -> String {
    let lasts = if secret.is_empty() { 0 } else { SESSION.as_secs() };
    format!("{COOKIE}={secret}; Path=/; Max-Age={lasts}; Secure; HttpOnly; SameSite=Strict")
}

/// Returns the digest of the session's cookie in a line of a head.
pub fn taken(cookies: &str) -> Option<Digest> {
    let mut pairs = cookies.split(';').filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, secret)| digest_of(secret))
}

/// Returns true if a form comes from a page of this host: from the origin that the request names. `fetched` is the browser's own word on it.
pub fn is_from_here(host: Option<&str>, origin: Option<&str>, fetched: Option<&str>) -> bool {
    let same = host.is_some_and(|host| origin.is_some_and(|origin| origin.strip_prefix("https://") == Some(host)));
    same && fetched.is_none_or(|word| word == "same-origin")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quick(password: &str) -> Password {
        Password::with_rounds(password, [7; 16], NonZeroU32::new(2).unwrap())
    }

    #[test]
    fn a_password_is_proven_and_not_kept() {
        let one = quick("correct horse");
        assert!(one.is("correct horse") && !one.is("correct horsf") && !one.is("") && !one.is(&"x".repeat(1000)));
        assert!(!one.text().contains("correct"));
        assert_eq!(Password::parse(&one.text()).as_ref(), Some(&one));
        assert_ne!(one.digest(), Password::with_rounds("correct horse", [8; 16], one.rounds).digest(), "a salt of its own");
        for bad in ["", "x", "pbkdf2-sha256$0$00$00", "pbkdf2-sha256$4000000000$07070707070707070707070707070707$", "a$b$c$d$e"] {
            assert_eq!(Password::parse(bad), None, "{bad}");
        }
        let dear = one.text().replacen("$2$", "$2000001$", 1);
        assert_eq!(Password::parse(&dear), None, "a check that would take minutes");
        // RFC 7914 has this value of PBKDF2-HMAC-SHA-256.
        let known = "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc";
        let mut proof = [0; 32];
        pbkdf2::derive(PBKDF2_HMAC_SHA256, NonZeroU32::MIN, b"salt", b"passwd", &mut proof);
        assert_eq!(hex(&proof), known);
    }

    #[test]
    fn sessions_end_and_are_bounded() {
        let (now, mut all) = (Instant::now(), Sessions::default());
        all.begin(now, "a", By::Link);
        let a = digest_of("a");
        assert!(all.has(now, &a) && !all.has(now, &digest_of("b")));
        assert!(!all.has(now + SESSION, &a), "it is over");
        for n in 0..SESSIONS as u64 {
            all.begin(now + Duration::from_secs(1 + n), &n.to_string(), By::Password([1; 32]));
        }
        let later = now + Duration::from_secs(1000);
        assert!(!all.has(later, &a) && all.has(later, &digest_of("1")), "the oldest went");
        assert_eq!(all.count(), SESSIONS);
        all.end(&digest_of("1"));
        assert!(!all.has(later, &digest_of("1")));
        all.begin(later, "link", By::Link);
        all.password_is(Some([1; 32]));
        assert!(all.has(later, &digest_of("2")));
        all.password_is(Some([2; 32]));
        assert!(!all.has(later, &digest_of("2")) && all.has(later, &digest_of("link")), "another password");
    }

    #[test]
    fn who_guesses_waits() {
        let (begin, mut tries) = (Instant::now(), Tries::default());
        let (one, other): (IpAddr, IpAddr) = ("2001:db8::1".parse().unwrap(), "10.0.0.1".parse().unwrap());
        let (mut now, mut looked) = (begin, 0);
        // One who tries each tenth of a second for an hour.
        while now < begin + Duration::from_secs(3600) {
            looked += u32::from(tries.may(now, one).is_ok());
            now += Duration::from_millis(100);
        }
        assert!((60..75).contains(&looked), "{looked} tries in an hour");
        let neighbour = "2001:db8::ffff".parse().unwrap();
        assert!(tries.may(now, neighbour).is_err(), "an address of the same net");
        assert!(tries.may(now, other).is_ok(), "others do not wait for it");
        tries.right(other);
        // Many at once of one address.
        let third: IpAddr = "10.0.0.3".parse().unwrap();
        assert_eq!((0..20).filter(|_| tries.may(now, third).is_ok()).count(), FREE as usize, "those under way count, too");
        // Many addresses together.
        let mut looked = 0;
        let now = now + Duration::from_secs(120);
        for n in 0..5000_u32 {
            let of = IpAddr::from((0x0a00_0000 + n).to_be_bytes());
            looked += u32::from(tries.may(now, of).is_ok());
        }
        assert_eq!(looked, ALL);
        assert!(tries.may(now + LONGEST, other).is_ok(), "they are heard again a minute later");
        for n in 0..5000_u32 {
            tries.count(now, IpAddr::from((0x0b00_0000 + n).to_be_bytes()));
        }
        assert!(tries.of.len() <= GUESSERS);
    }

    #[test]
    fn cookies_and_forms_of_elsewhere_are_none() {
        let line = give("secret");
        for word in ["__Host-nacre=secret;", "Secure", "HttpOnly", "SameSite=Strict", "Path=/;"] {
            assert!(line.contains(word), "{line}");
        }
        assert!(!line.contains("Domain") && give("").contains("Max-Age=0"));
        assert_eq!(taken("a=b; __Host-nacre=secret"), Some(digest_of("secret")));
        for of_others in ["", "nacre=secret", "x__Host-nacre=secret", "__host-nacre=secret", "a=__Host-nacre"] {
            assert_eq!(taken(of_others), None, "{of_others}");
        }
        let here = |host, origin, fetched| is_from_here(Some(host), origin, fetched);
        assert!(here("h:8443", Some("https://h:8443"), None) && here("h", Some("https://h"), Some("same-origin")));
        for origin in
            [None, Some("null"), Some("http://h:8443"), Some("https://h:8444"), Some("https://evil"), Some("https://h:8443.evil")]
        {
            assert!(!here("h:8443", origin, None), "{origin:?}");
        }
        assert!(!here("h", Some("https://h"), Some("same-site")) && !is_from_here(None, None, None));
    }
}
