//! A server and clients that mean it ill, or are broken. Each test has a server of its own; times that are waited for
//! have no upper bound but [`PATIENCE`], which says that it never came.

use httpd::{Asked, Limits, Reply, Running, Sent, Server, Site};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of `/large`: more than what two kernels buffer.
const LARGE: usize = 64 << 20;

#[derive(Clone)]
struct Echo;

impl Site for Echo {
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
    (Server { listeners: vec![listener], limits, site: Echo }.start("web").unwrap(), at)
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

/// Asks until the answer begins with a status, and fails after [`PATIENCE`]. A pause between two questions; no order
/// depends on it.
fn until(at: SocketAddr, status: &str) {
    let begin = Instant::now();
    loop {
        let told = get(at, "/");
        if told.starts_with(&format!("HTTP/1.1 {status}")) {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "never {status}: {told:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
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
