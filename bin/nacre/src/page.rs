//! `nacre page`: how people get to the page from elsewhere.

use crate::cli::{Page, PageCommand, PagePassword};
use crate::identity::{self, Authority};
use crate::state::State;
use crate::{guard, host, keys, token};
use anyhow::{Context, Result, bail};
use face::login::{PASSWORD_BYTES, Password};
use serde_json::json;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

/// Fewest characters of a password.
const SHORTEST: usize = 12;
/// Letters of a password that is made: none of them looks like another. 32 of them are five bits each.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// Time that this host's port may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(2);

/// Runs `nacre page`; gives the exit code.
pub(crate) fn page(args: &Page) -> Result<u8> {
    match &args.command {
        PageCommand::Link { dir } => link(&absolute(dir)?),
        PageCommand::Password(args) => password(args),
        PageCommand::Authority { dir } => {
            let client = token::administrator(&absolute(dir)?)?;
            print!("{}", Authority::known_or_made(&client)?.pair.certificate);
            Ok(0)
        }
    }
}

fn absolute(dir: &Path) -> Result<std::path::PathBuf> {
    std::path::absolute(dir).with_context(|| dir.display().to_string())
}

/// Returns where this host's page is for others.
fn place(dir: &Path) -> Result<SocketAddr> {
    let state = State::load(dir)?.with_context(|| format!("{} holds no cluster", dir.display()))?;
    let bind = state.bind(None);
    match state.page_port(None, bind) {
        0 if bind.is_loopback() => bail!(
            "this host listens at {bind}, where nobody else comes: its page is http://{}/ and asks nobody who he is",
            SocketAddr::new(bind, state.metrics_port(None))
        ),
        0 => bail!("the page is switched off for other hosts here: `nacre up --page-port 8443` serves it"),
        port => Ok(host::reached(SocketAddr::new(bind, port))),
    }
}

fn link(dir: &Path) -> Result<u8> {
    let at = place(dir)?;
    let client = token::administrator(dir)?;
    let authority = Authority::known_or_made(&client)?;
    let given = identity::given(&client).map_err(|failure| failure.sentence(&client))?;
    let (own, shown) = match given {
        Some(pair) => (false, pair),
        None => (true, identity::own(dir, &authority, &identity::names(State::load(dir)?.context("no cluster")?.bind(None)))?),
    };
    let secret = guard::make_link(dir)?;
    println!("https://{at}/login?link={secret}");
    eprintln!("It is good once, for {} minutes.", guard::LINK.as_secs() / 60);
    if own && let Some(print) = httpd::fingerprint(&shown.certificate) {
        eprintln!(
            "Your browser does not know this cluster's certificates: it warns, and may show this SHA-256 to compare:\n{print}\n\
             `nacre page authority` prints a certificate that stops the warning."
        );
    }
    if TcpStream::connect_timeout(&at, CONNECT).is_err() {
        eprintln!(
            "nacre: nothing listens at {at} now: does `nacre up` run here, and does its log say why the page is not served?"
        );
    }
    Ok(0)
}

fn password(args: &PagePassword) -> Result<u8> {
    let dir = absolute(&args.dir)?;
    let client = token::administrator(&dir)?;
    if args.remove {
        client.run(&json!({"prefix": "config-key rm", "key": guard::PASSWORD}))?;
        println!("the page has no password; who came in by it is out within a minute");
        return Ok(0);
    }
    let (text, made) = if args.stdin { (given()?, false) } else { (generated(keys::random::<20>()?), true) };
    Authority::known_or_made(&client)?;
    let value = Password::new(&text, keys::random()?).text();
    client.run(&json!({"prefix": "config-key set", "key": guard::PASSWORD, "val": value}))?;
    if made {
        println!("{text}");
        eprintln!("This is the page's password at all hosts, from now on. The cluster does not keep it: it is shown once.");
    } else {
        println!("the page has this password at all hosts from now on");
    }
    Ok(0)
}

/// A password that nobody guesses: 100 random bits.
fn generated(bytes: [u8; 20]) -> String {
    let letter = |byte: &u8| char::from(LETTERS[usize::from(byte & 31)]);
    let groups: Vec<String> = bytes.chunks(5).map(|group| group.iter().map(letter).collect()).collect();
    groups.join("-")
}

/// The first line of standard input.
fn given() -> Result<String> {
    let mut text = String::new();
    std::io::stdin().take(PASSWORD_BYTES as u64 + 2).read_to_string(&mut text).context("the password from standard input")?;
    let text = text.lines().next().unwrap_or_default().to_owned();
    match text.chars().count() {
        n if n < SHORTEST => bail!("a password has at least {SHORTEST} characters; without --stdin one is made"),
        _ if text.len() > PASSWORD_BYTES => bail!("a password has at most {PASSWORD_BYTES} bytes"),
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_that_are_made_have_many_letters() {
        let one = generated(std::array::from_fn(|at| (at as u8).wrapping_mul(37)));
        assert_eq!((one.len(), one.matches('-').count()), (23, 3), "{one}");
        assert!(one.bytes().all(|b| b == b'-' || LETTERS.contains(&b)));
        assert_eq!(LETTERS.iter().collect::<std::collections::BTreeSet<_>>().len(), 32);
    }
}
