//! A server and clients that mean it ill, or are broken. Each test has a server of its own; times that are waited for
//! have no upper bound but [`PATIENCE`], which says that it never came.

use httpd::{Asked, Identity, Limits, Listener, Reply, Running, Sent, Server, Site};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of `/large`: more than what two kernels buffer.
const LARGE: usize = 64 << 20;

/// Seconds since 1970 at which certificates of these tests begin: their clients look at the clock.
fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

/// An authority, and a host of it.
static PAIRS: LazyLock<[httpd::Pair; 2]> = LazyLock::new(|| {
    let root = httpd::authority("tests", now()).unwrap();
    let host = httpd::sign(&root, "tests", &["127.0.0.1".into(), "localhost".into()], now()).unwrap();
    [root, host]
});

#[derive(Clone)]
struct Echo;

impl Site for Echo {
    async fn identity(&self) -> Option<Identity> {
        Identity::new(&PAIRS[1]).ok()
    }

    async fn answer(&self, asked: Asked) -> Reply {
        match asked.path() {
            "/large" => Reply::new(200, "text/plain", vec![b'x'; LARGE]),
            "/never" => std::future::pending().await,
            "/broken" => match httpd::blocking(|| panic!("on purpose")).await {
                Some(()) => Reply::text(200, "it did not break"),
                None => Reply::text(500, "it broke"),
            },
            "/panic" => panic!("on purpose"),
            "/parts" => {
                let (reply, frames) = Reply::parts(200, "text/event-stream", 1);
                std::thread::spawn(move || {
                    let begin = Instant::now();
                    let mut number = 0;
                    while number < 3 && begin.elapsed() < PATIENCE {
                        match frames.send(format!("part {number}\n")) {
                            Sent::Taken => number += 1,
                            // A thread is not told when there is room; `PATIENCE` bounds how often it tries.
                            Sent::Full => std::thread::sleep(Duration::from_millis(1)),
                            Sent::Gone => return,
                        }
                    }
                });
                reply
            }
            "/name" => Reply::text(200, &asked.query("of").unwrap_or_default()).with("x-bad", "a\nb").with("x-good", "1"),
            "/secret" => Reply::text(200, if asked.secret { "it came through TLS" } else { "it did not" }),
            _ if asked.looks() => Reply::text(200, "hello"),
            _ => match asked.body().await {
                Ok(body) => Reply::new(200, "text/plain", body),
                Err(why) => Reply::text(why.status(), "no body"),
            },
        }
    }
}

fn start(limits: Limits) -> (Running, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    (Server { listeners: vec![Listener::plain(listener)], limits, site: Echo }.start("web").unwrap(), at)
}

fn small() -> Limits {
    Limits {
        connections: 4,
        connections_of_one: 4,
        head_time: Duration::from_millis(300),
        body_time: Duration::from_millis(300),
        answer_time: Duration::from_millis(300),
        body_bytes: 1000,
        pace_time: Duration::from_millis(300),
        pace_bytes: 4096,
        ..Limits::default()
    }
}

fn connect(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// All that comes until the server ends the connection. An end by force is an end, too.
fn rest(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let begin = Instant::now();
    if let Err(e) = stream.read_to_end(&mut all) {
        assert!(begin.elapsed() < PATIENCE, "the server does not end the connection: {e}");
    }
    String::from_utf8_lossy(&all).into_owned()
}

fn ask(at: SocketAddr, request: &str) -> String {
    let mut stream = connect(at);
    let _ = stream.write_all(request.as_bytes());
    rest(&mut stream)
}

fn get(at: SocketAddr, path: &str) -> String {
    ask(at, &format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"))
}

/// Asks until the answer begins with a status, and fails after [`PATIENCE`]: the server tells nobody when a place is free
/// again. The pause only spares the server questions; no order depends on it.
fn poll(status: &str, mut ask: impl FnMut() -> String) {
    let begin = Instant::now();
    loop {
        let told = ask();
        if told.starts_with(&format!("HTTP/1.1 {status}")) {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "never {status}: {told:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn until(at: SocketAddr, status: &str) {
    poll(status, || get(at, "/"));
}

#[test]
fn requests_are_answered() {
    let (_running, at) = start(Limits::default());
    let told = get(at, "/");
    assert!(told.starts_with("HTTP/1.1 200") && told.ends_with("\r\n\r\nhello\n"), "{told}");
    let told = ask(at, "HEAD / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert!(told.contains("content-length: 6") && told.ends_with("\r\n\r\n"), "{told}");
    let told = ask(at, "GET / HTTP/1.0\r\n\r\n");
    assert!(told.contains("200 OK") && told.ends_with("hello\n"), "{told}");
    let twice = "GET / HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    assert_eq!(ask(at, twice).matches("hello").count(), 2, "one connection, two requests, sent at once");
    let told = get(at, "/name?a=b&of=a%22%3C+c");
    assert!(told.ends_with("a\"< c\n") && told.contains("x-good: 1") && !told.contains("x-bad"), "{told}");
    let told = ask(at, "POST /x HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc");
    assert!(told.ends_with("\r\n\r\nabc"), "{told}");
    let told = get(at, "/parts");
    assert!(told.contains("part 0\n") && told.contains("part 1\n") && told.contains("part 2\n"), "{told}");
}

#[test]
fn who_says_nothing_is_let_go() {
    let (_running, at) = start(small());
    assert_eq!(rest(&mut connect(at)), "", "nothing was sent");
    let mut begun = connect(at);
    begun.write_all(b"GET / HTTP/1.1\r\nhost: ").unwrap();
    let told = rest(&mut begun);
    assert!(!told.contains("200 OK"), "half a head: {told}");
    let mut kept = connect(at);
    kept.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    assert!(rest(&mut kept).ends_with("hello\n"), "a connection that is kept ends when nothing more comes");
    let mut drops = connect(at);
    drops.set_nodelay(true).unwrap();
    let begin = Instant::now();
    let drop_by_drop = std::iter::once(&b"GET / HTTP/1.1\r\n"[..]).chain(std::iter::repeat(&b"a: b\r\n"[..]));
    for line in drop_by_drop {
        if drops.write_all(line).is_err() {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "a head that never ends is read for ever");
        // The pace of the client, which is what is tried: a line is there well within `head_time`.
        std::thread::sleep(Duration::from_millis(50));
    }
    until(at, "200");
}

#[test]
fn heads_and_bodies_have_a_bound() {
    let (_running, at) = start(small());
    let long = "x".repeat(40 << 10);
    for head in [format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n"), format!("GET / HTTP/1.1\r\nhost: x\r\na: {long}\r\n\r\n")] {
        let told = ask(at, &head);
        assert!(told.is_empty() || told.starts_with("HTTP/1.1 4"), "{told}");
    }
    let lines = "a: b\r\n".repeat(100);
    let told = ask(at, &format!("GET / HTTP/1.1\r\nhost: x\r\n{lines}\r\n"));
    assert!(told.is_empty() || told.starts_with("HTTP/1.1 431"), "{told}");
    let told = ask(at, "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 99999999999\r\n\r\n");
    assert!(told.starts_with("HTTP/1.1 413"), "{told}");
    let piece = format!("{:x}\r\n{}\r\n", 600, "y".repeat(600));
    let told = ask(
        at,
        &format!("POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{piece}{piece}0\r\n\r\n"),
    );
    assert!(told.starts_with("HTTP/1.1 413"), "{told}");
    let told = ask(at, "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 10\r\n\r\nabc");
    assert!(told.starts_with("HTTP/1.1 408"), "a body that does not come: {told}");
    let told = ask(at, "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n");
    assert!(told.starts_with("HTTP/1.1 400"), "a body that is none: {told}");
    until(at, "200");
}

#[test]
fn what_is_no_http_harms_nobody() {
    let (_running, at) = start(small());
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for round in 0..200 {
        let mut bytes = Vec::new();
        for _ in 0..(round % 40) * 7 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.push((state >> 32) as u8);
        }
        bytes.extend_from_slice(b"\r\n\r\n");
        let mut stream = connect(at);
        let _ = stream.write_all(&bytes);
        drop(stream);
    }
    let smuggled = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /large HTTP/1.1\r\nhost: x\r\n\r\n";
    assert!(!ask(at, smuggled).contains("xxxx"), "a request hidden in a body whose length is said twice");
    until(at, "200");
}

#[test]
fn a_crowd_is_turned_away_and_places_are_free_again() {
    let (_running, at) = start(Limits { head_time: PATIENCE, ..small() });
    let inside: Vec<TcpStream> = (0..4).map(|_| connect(at)).collect();
    until(at, "503");
    for _ in 0..300 {
        drop(connect(at));
    }
    drop(inside);
    until(at, "200");
    let (_running, at) = start(Limits { head_time: PATIENCE, connections: 100, connections_of_one: 2, ..small() });
    let inside = [connect(at), connect(at)];
    until(at, "503");
    drop(inside);
    until(at, "200");
}

#[test]
fn who_does_not_read_is_let_go_and_who_reads_slowly_is_served() {
    let (_running, at) = start(Limits { connections: 1, ..small() });
    let mut deaf = connect(at);
    deaf.write_all(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    // Its place is the only one.
    until(at, "200");
    let (_running, at) = start(Limits { pace_time: Duration::from_secs(20), ..small() });
    let mut slow = connect(at);
    slow.write_all(b"GET /large HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let (mut got, mut buffer) = (0, vec![0; 1 << 20]);
    loop {
        match slow.read(&mut buffer).unwrap() {
            0 => break,
            n => got += n,
        }
        // The pace of the client, which is what is tried.
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(got > LARGE, "only {got} bytes came");
}

#[test]
fn a_site_that_does_not_answer_or_breaks_is_said_so() {
    let (_running, at) = start(small());
    assert!(get(at, "/never").starts_with("HTTP/1.1 503"));
    let (_running, at) = start(Limits { answer_time: PATIENCE, ..small() });
    let told = get(at, "/broken");
    assert!(told.starts_with("HTTP/1.1 500"), "{told}");
    assert_eq!(get(at, "/panic"), "", "the connection ends, the server does not");
    until(at, "200");
}

#[test]
fn a_server_ends_when_it_is_dropped() {
    let (running, at) = start(Limits::default());
    let mut open = connect(at);
    until(at, "200");
    drop(running);
    assert_eq!(rest(&mut open), "");
    assert!(TcpStream::connect(at).is_err());
}

/// A server that speaks TLS.
fn start_secret(limits: Limits) -> (Running, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    (Server { listeners: vec![Listener::secret(listener)], limits, site: Echo }.start("web").unwrap(), at)
}

/// A client that trusts this authority alone.
fn trusting(authority: &str) -> Arc<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        rustls::ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
    Arc::new(config.with_root_certificates(roots).with_no_client_auth())
}

type Secret = rustls::StreamOwned<rustls::ClientConnection, TcpStream>;

fn shake(at: SocketAddr, name: &str, config: Arc<rustls::ClientConfig>) -> Secret {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    rustls::StreamOwned::new(rustls::ClientConnection::new(config, name).unwrap(), connect(at))
}

/// Asks through TLS; an error is what the client says of the server.
fn ask_secretly(at: SocketAddr, name: &str, authority: &str, path: &str) -> Result<String, String> {
    let mut stream = shake(at, name, trusting(authority));
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(|e| e.to_string())?;
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Err(e) if all.is_empty() => Err(e.to_string()),
        _ => Ok(String::from_utf8_lossy(&all).into_owned()),
    }
}

#[test]
fn tls_is_spoken_with_those_who_trust_the_authority() {
    let (_running, at) = start_secret(Limits::default());
    for name in ["127.0.0.1", "localhost"] {
        let told = ask_secretly(at, name, &PAIRS[0].certificate, "/secret").unwrap();
        assert!(told.starts_with("HTTP/1.1 200") && told.ends_with("it came through TLS\n"), "{told}");
    }
    assert!(ask_secretly(at, "elsewhere.example", &PAIRS[0].certificate, "/").is_err(), "a name that it has not");
    let other = httpd::authority("tests", now()).unwrap();
    assert!(ask_secretly(at, "localhost", &other.certificate, "/").is_err(), "another authority of the same name");
    assert_eq!(ask(at, "GET /secret HTTP/1.1\r\nhost: x\r\n\r\n").matches("HTTP").count(), 0, "what is no TLS gets no answer");
}

#[test]
fn who_does_not_shake_hands_is_let_go() {
    let (_running, at) = start_secret(small());
    assert_eq!(rest(&mut connect(at)), "", "nothing was sent");
    let mut begun = connect(at);
    begun.write_all(&[22, 3, 1, 2, 0, 1]).unwrap();
    rest(&mut begun);
    let mut state = 0x2545_f491_4f6c_dd1du64;
    for round in 0..200 {
        // Half of them begin as a handshake does.
        let mut bytes = if round % 2 == 0 { vec![22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3] } else { Vec::new() };
        for _ in 0..round {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.push((state >> 32) as u8);
        }
        let mut stream = connect(at);
        let _ = stream.write_all(&bytes);
    }
    until_secret(at);
    // One that says nothing in all 4 places, again and again: they are free again.
    for _ in 0..3 {
        let silent: Vec<TcpStream> = (0..4).map(|_| connect(at)).collect();
        until_secret(at);
        drop(silent);
    }
}

#[test]
fn who_reads_nothing_through_tls_is_let_go() {
    let (_running, at) = start_secret(Limits { connections: 1, ..small() });
    let mut deaf = shake(at, "localhost", trusting(&PAIRS[0].certificate));
    deaf.write_all(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    deaf.flush().unwrap();
    // Its place is the only one.
    until_secret(at);
    let mut begun = shake(at, "localhost", trusting(&PAIRS[0].certificate));
    begun.write_all(b"GET / HTTP/1.1\r\nhost: ").unwrap();
    let mut all = Vec::new();
    let begin = Instant::now();
    let _ = begun.read_to_end(&mut all);
    assert!(begin.elapsed() < PATIENCE && !String::from_utf8_lossy(&all).contains("200 OK"), "half a head");
    until_secret(at);
}

#[test]
fn three_hundred_at_once_are_answered_or_turned_away() {
    let (_running, at) = start_secret(Limits::default());
    let held: Vec<TcpStream> = (0..300).map(|_| connect(at)).collect();
    drop(held);
    until_secret(at);
}

/// The same through TLS.
fn until_secret(at: SocketAddr) {
    poll("200", || ask_secretly(at, "localhost", &PAIRS[0].certificate, "/").unwrap_or_else(|why| why.to_string()));
}
