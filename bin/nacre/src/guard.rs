//! Who is let in to the page from elsewhere: links, a password, cookies; and the certificate that this host shows.
//!
//! What the cluster keeps (authority, password) is asked for when a password is tried, and else at most once in [`LATER`]. When monitors do not agree, what is known stays: links work, and so do sessions and the last password that was known.

use crate::identity::{self, Authority};
use crate::{keys, token};
use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use face::login::{By, Digest, Password, Sessions, Tries, digest_of, name_of};
use httpd::{Identity, Pair};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Key of what proves the password in the monitors' store.
pub(crate) const PASSWORD: &str = "nacre/page/password";
/// Time for which a link is good.
pub(crate) const LINK: Duration = Duration::from_secs(600);
/// Most links that are open at a time.
const LINKS: usize = 16;
/// How old what is known may be: while nothing can be shown, when somebody looks who came in by a password, and else.
const SOON: Duration = Duration::from_secs(2);
const MINUTE: Duration = Duration::from_secs(60);
const LATER: Duration = Duration::from_secs(600);
/// Time for which monitors are left alone that did not answer.
const SILENT: Duration = Duration::from_secs(30);

/// The folder of links.
fn links(dir: &Path) -> PathBuf {
    identity::folder(dir).join("links")
}

/// A secret of 256 random bits, as text.
fn secret() -> Result<String> {
    Ok(URL_SAFE_NO_PAD.encode(keys::random::<32>()?))
}

/// Makes a link's secret. Links whose time is over go.
pub(crate) fn make_link(dir: &Path) -> Result<String> {
    let folder = links(dir);
    crate::state::make_folder(&identity::folder(dir))?;
    crate::state::make_folder(&folder)?;
    let mut open = 0;
    for entry in std::fs::read_dir(&folder)?.flatten() {
        if ends(&entry.path()).is_some_and(|ends| identity::now() < ends) {
            open += 1;
        } else {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    if open >= LINKS {
        anyhow::bail!("{open} links are open: use one of them, or wait until they end");
    }
    let secret = secret()?;
    let path = folder.join(name_of(&digest_of(&secret)));
    keys::write_private(&path, &(identity::now() + LINK.as_secs()).to_string())?;
    Ok(secret)
}

/// Returns when a link ends, in seconds since 1970.
fn ends(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns true if this is a link that is good; it is not any more then. Of two who use it at the same time one comes in: who removes its file.
fn use_link(dir: &Path, secret: &str) -> bool {
    let path = links(dir).join(name_of(&digest_of(secret)));
    let good = ends(&path).is_some_and(|ends| identity::now() < ends);
    good && std::fs::remove_file(&path).is_ok()
}

/// Result of a try to come in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entered {
    /// The cookie's secret.
    In(String),
    /// It was wrong.
    Wrong,
    /// It was not looked at: time until a next one is.
    Wait(Duration),
}

/// Way by which somebody tries to come in.
pub(crate) enum With {
    Link(String),
    Password(String),
}

/// The guard of a host's page.
pub(crate) struct Guard {
    dir: PathBuf,
    names: Vec<String>,
    inside: Mutex<Inside>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Inside {
    sessions: Sessions,
    tries: Tries,
}

/// Records of the cluster.
#[derive(Default)]
struct Known {
    /// Time when it was asked for.
    asked: Option<Instant>,
    /// True if nobody answered then.
    silent: bool,
    shown: Option<(Pair, Identity)>,
    password: Option<Password>,
}

impl Known {
    /// Takes what this host showed last.
    fn read_last(&mut self, dir: &Path) {
        self.shown = identity::last(dir).and_then(|pair| Identity::new(&pair).ok().map(|shown| (pair, shown)));
    }
}

impl Guard {
    /// The guard of a page that is asked for by these names.
    pub(crate) fn new(dir: &Path, names: Vec<String>) -> Self {
        Self { dir: dir.to_owned(), names, inside: Mutex::default(), known: Mutex::default() }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is known, at most so old.
    fn known(&self, age: Duration) -> MutexGuard<'_, Known> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Who waits for monitors that are silent keeps a thread from the metrics.
        let age = if known.silent { age.max(SILENT) } else { age };
        if known.asked.is_none_or(|asked| asked.elapsed() >= age) {
            known.silent = self.ask(&mut known).is_none();
            if known.silent && known.shown.is_none() {
                // Monitors do not answer, and nothing was shown since this process started.
                known.read_last(&self.dir);
            }
            known.asked = Some(Instant::now());
            let digest = known.password.as_ref().map(Password::digest);
            self.inside().sessions.password_is(digest);
        }
        known
    }

    /// Asks the monitors. None if they do not answer: then nothing changes.
    fn ask(&self, known: &mut Known) -> Option<()> {
        let client = token::administrator(&self.dir).ok()?;
        let password = identity::stored(&client, PASSWORD).ok()?;
        let given = identity::given(&client).ok()?;
        let pair = match given.filter(|pair| Identity::new(pair).is_ok()) {
            Some(pair) => Some(pair),
            None => {
                let authority = Authority::known(&client).ok()?;
                authority.and_then(|authority| identity::own(&self.dir, &authority, &self.names).ok())
            }
        };
        known.password = password.and_then(|text| Password::parse(&text));
        if known.shown.as_ref().map(|(shown, _)| shown) != pair.as_ref() {
            known.shown = pair.and_then(|pair| Identity::new(&pair).ok().map(|shown| (pair, shown)));
        }
        Some(())
    }

    /// Returns what this host shows; none until somebody used `nacre page`. It may take as long as monitors do.
    pub(crate) fn identity(&self) -> Option<Identity> {
        let mut known = self.known(LATER);
        if known.shown.is_none() {
            // Somebody used it at this host just now: it left the certificate here. At another host: the monitors know.
            known.read_last(&self.dir);
        }
        if known.shown.is_none() {
            drop(known);
            known = self.known(SOON);
        }
        known.shown.as_ref().map(|(_, shown)| shown.clone())
    }

    /// Lets somebody in, or not. It may take as long as monitors do, and as a password's check does.
    pub(crate) fn enter(&self, of: IpAddr, with: With) -> Result<Entered> {
        let by = match with {
            // Nobody guesses a link; and who guesses passwords must not keep those out who have one.
            With::Link(secret) => use_link(&self.dir, &secret).then_some(By::Link),
            With::Password(text) => {
                if let Err(left) = self.inside().tries.may(Instant::now(), of) {
                    return Ok(Entered::Wait(left));
                }
                // It may have been changed just now; tries have a bound of their own.
                let password = self.known(Duration::ZERO).password.clone();
                password.filter(|password| password.is(&text)).map(|password| By::Password(password.digest()))
            }
        };
        let mut inside = self.inside();
        let Some(by) = by else {
            return Ok(Entered::Wrong);
        };
        let secret = secret()?;
        if by != By::Link {
            inside.tries.right(of);
        }
        inside.sessions.begin(Instant::now(), &secret, by);
        Ok(Entered::In(secret))
    }

    /// Returns true if somebody with this cookie is in. It may take as long as monitors do.
    pub(crate) fn is_in(&self, cookie: &Digest) -> bool {
        if self.inside().sessions.by_password() {
            drop(self.known(MINUTE));
        }
        self.inside().sessions.has(Instant::now(), cookie)
    }

    /// Ends a session.
    pub(crate) fn leave(&self, cookie: &Digest) {
        self.inside().sessions.end(cookie);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_good_once_and_for_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let guard = Guard::new(dir.path(), vec![]);
        let of: IpAddr = "10.0.0.1".parse().unwrap();
        let link = make_link(dir.path()).unwrap();
        let enter = |secret: &str| guard.enter(of, With::Link(secret.into())).unwrap();
        assert_eq!(enter("../../keyring"), Entered::Wrong, "no name of a file");
        let Entered::In(cookie) = enter(&link) else { panic!("a good link") };
        assert!(guard.is_in(&digest_of(&cookie)) && !guard.is_in(&digest_of(&link)), "a link is no cookie");
        assert_eq!(enter(&link), Entered::Wrong, "it was used");
        guard.leave(&digest_of(&cookie));
        assert!(!guard.is_in(&digest_of(&cookie)));
        let late = make_link(dir.path()).unwrap();
        let file = links(dir.path()).join(name_of(&digest_of(&late)));
        std::fs::write(&file, (identity::now() - 1).to_string()).unwrap();
        assert_eq!(enter(&late), Entered::Wrong, "its time is over");
        for _ in 0..LINKS {
            make_link(dir.path()).unwrap();
        }
        assert!(!file.exists() && make_link(dir.path()).is_err(), "old ones go, open ones have a bound");
        let guess = |_| guard.enter(of, With::Password("wrong".into())).unwrap();
        let waits = (0..10).map(guess).filter(|entered| matches!(entered, Entered::Wait(_))).count();
        assert!(waits >= 5, "who guesses waits: {waits} of 10");
        let mine = links(dir.path());
        std::fs::remove_dir_all(&mine).unwrap();
        let link = make_link(dir.path()).unwrap();
        assert!(matches!(enter(&link), Entered::In(_)), "who has a link comes in, whoever guesses");
    }

    #[test]
    fn one_of_many_who_use_a_link_comes_in() {
        let dir = tempfile::tempdir().unwrap();
        let link = make_link(dir.path()).unwrap();
        let used = std::thread::scope(|scope| {
            let tries: Vec<_> = (0..8).map(|_| scope.spawn(|| use_link(dir.path(), &link))).collect();
            tries.into_iter().map(|t| usize::from(t.join().unwrap())).sum::<usize>()
        });
        assert_eq!(used, 1);
    }
}
