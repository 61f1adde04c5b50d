//! The server: who may connect, and for how long.

use crate::pace::Paced;
use crate::{Asked, Identity, Limits, Reply};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

/// Answerer of requests.
pub trait Site: Clone + Send + Sync + 'static {
    /// Answers a request. What it waits for may take [`Limits::answer_time`].
    fn answer(&self, asked: Asked) -> impl Future<Output = Reply>;

    /// Returns what is shown to somebody who connects to a listener with TLS; without one, the connection ends. It is asked for each
    /// connection, within [`Limits::head_time`].
    fn identity(&self) -> impl Future<Output = Option<Identity>> {
        std::future::ready(None)
    }
}

/// A place where a server listens.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    secret: bool,
}

impl Listener {
    /// Speaks HTTP.
    pub fn plain(socket: TcpListener) -> Self {
        Self { socket, secret: false }
    }

    /// Speaks HTTP through TLS.
    pub fn secret(socket: TcpListener) -> Self {
        Self { socket, secret: true }
    }
}

/// A site and its ends of connections.
pub struct Server<S> {
    /// Places where it listens.
    pub listeners: Vec<Listener>,
    /// The bounds.
    pub limits: Limits,
    /// Answerer of requests.
    pub site: S,
}

/// A server that runs on its thread. It ends when this is dropped.
pub struct Running {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Time for which the end waits for work beside the server's thread.
const LAST_WORK: Duration = Duration::from_millis(200);
/// Time for which it is waited when the system has no more sockets.
const NO_SOCKETS: Duration = Duration::from_millis(100);

impl<S: Site> Server<S> {
    /// Starts the server on a thread of this name.
    ///
    /// # Errors
    ///
    /// If the system gives no thread, no timers or no sockets.
    pub fn start(self, name: &str) -> io::Result<Running> {
        let threads = self.limits.threads.max(1);
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(threads)
            .thread_keep_alive(Duration::from_secs(5))
            .thread_stack_size(512 << 10)
            .thread_name(format!("{name}.ask"))
            .build()?;
        for listener in &self.listeners {
            listener.socket.set_nonblocking(true)?;
        }
        let (stop, stopped) = oneshot::channel();
        let body = move || {
            let local = LocalSet::new();
            local.block_on(&runtime, async move {
                let door = Rc::new(Door::new(self.limits));
                for listener in self.listeners {
                    let (door, site) = (door.clone(), self.site.clone());
                    tokio::task::spawn_local(async move { accept(listener, &door, &site).await });
                }
                // Ends without a value when the handle is dropped.
                let _ = stopped.await;
            });
            drop(local);
            runtime.shutdown_timeout(LAST_WORK);
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body)?;
        Ok(Running { stop: Some(stop), thread: Some(thread) })
    }
}

/// Counts connections.
struct Door {
    limits: Limits,
    inside: RefCell<HashMap<IpAddr, usize>>,
}

/// A place of a connection. It is free again when this is dropped.
struct Place {
    door: Rc<Door>,
    of: IpAddr,
    /// More than half of the places were taken: it serves for one answer.
    crowded: bool,
}

/// Returns who an address stands for: whoever has one may have others for nothing, of the host itself all, of IPv6 a /64.
fn owner(of: IpAddr) -> IpAddr {
    match of.to_canonical() {
        of if of.is_loopback() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(of) => IpAddr::V6(Ipv6Addr::from_bits(of.to_bits() & (u128::MAX << 64))),
        of => of,
    }
}

impl Door {
    fn new(limits: Limits) -> Self {
        Self { limits, inside: RefCell::default() }
    }

    /// Lets a connection in, or none if there are too many.
    fn enter(self: &Rc<Self>, of: IpAddr) -> Option<Place> {
        let of = owner(of);
        let mut inside = self.inside.borrow_mut();
        let all: usize = inside.values().sum();
        let own = inside.get(&of).copied().unwrap_or(0);
        if all >= self.limits.connections || own >= self.limits.connections_of_one {
            return None;
        }
        inside.insert(of, own + 1);
        Some(Place { door: self.clone(), of, crowded: all >= self.limits.connections / 2 })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inside = self.door.inside.borrow_mut();
        match inside.get_mut(&self.of) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(inside.remove(&self.of)),
        }
    }
}

/// Answer to those who find no place.
const NO_PLACE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\nretry-after: 10\r\n\r\n";

async fn accept<S: Site>(Listener { socket, secret }: Listener, door: &Rc<Door>, site: &S) {
    let Ok(listener) = tokio::net::TcpListener::from_std(socket) else { return };
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => match door.enter(peer.ip()) {
                Some(place) => drop(tokio::task::spawn_local(connection((stream, secret), peer, place, site.clone()))),
                // What is no TLS says nothing there.
                None if secret => drop(stream),
                None => refuse(stream).await,
            },
            // A connection that broke at once, or no more sockets: others are served meanwhile.
            Err(_) => tokio::time::sleep(NO_SOCKETS).await,
        }
    }
}

/// Says that there is no place, as far as the kernel takes that at once.
async fn refuse(mut stream: TcpStream) {
    let _ = tokio::time::timeout(Duration::from_millis(1), stream.write_all(NO_PLACE)).await;
}

async fn connection<S: Site>((stream, secret): (TcpStream, bool), peer: SocketAddr, place: Place, site: S) {
    // Answers are written whole: nothing is gained by waiting for more.
    let _ = stream.set_nodelay(true);
    let Ok(local) = stream.local_addr() else { return };
    let limits = place.door.limits.clone();
    let stream = Paced::new(stream, &limits);
    if secret {
        // Who does not shake hands in time is let go, as who sends no head.
        if let Ok(Some(stream)) = tokio::time::timeout(limits.head_time, shake(stream, &site)).await {
            serve(stream, (peer, local), (true, !place.crowded), &limits, site).await;
        }
    } else {
        serve(stream, (peer, local), (false, !place.crowded), &limits, site).await;
    }
    drop(place);
}

/// Begins TLS. An error is the client's.
async fn shake<S: Site, T: AsyncRead + AsyncWrite + Unpin>(stream: T, site: &S) -> Option<TlsStream<T>> {
    let begun = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream).await.ok()?;
    begun.into_stream(site.identity().await?.0).await.ok()
}

async fn serve<S: Site, T: AsyncRead + AsyncWrite + Unpin>(
    stream: T,
    ends: (SocketAddr, SocketAddr),
    (secret, stays): (bool, bool),
    limits: &Limits,
    site: S,
) {
    let answer = service_fn(|request| {
        let (site, asked) = (site.clone(), Asked::new(request, ends, secret, limits.clone()));
        async move {
            let answered = tokio::time::timeout(limits.answer_time, site.answer(asked)).await;
            Ok::<_, Infallible>(answered.unwrap_or_else(|_| Reply::text(503, "no answer in time")).0)
        }
    });
    // An error is the client's: it went away, sent what is no HTTP, or was too slow.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(stays)
        .header_read_timeout(limits.head_time)
        .max_buf_size(limits.head_bytes.max(8 << 10))
        .max_headers(limits.head_lines)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_addresses_of_one_are_one() {
        let limits = Limits { connections: 8, connections_of_one: 2, ..Limits::default() };
        let door = Rc::new(Door::new(limits));
        let enter = |of: &str| door.enter(of.parse().expect("an address"));
        for [one, two, three] in [
            ["127.0.0.1", "127.0.0.5", "::1"],
            ["2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::"],
            ["10.0.0.1", "10.0.0.1", "::ffff:10.0.0.1"],
        ] {
            let held = (enter(one).expect("a place"), enter(two).expect("a place"));
            assert!(enter(three).is_none(), "{three}");
            assert!(enter("10.0.0.2").is_some() && enter("2001:db8:0:1::1").is_some());
            drop(held);
            assert!(enter(three).is_some());
        }
        // In a crowd nobody stays.
        let held: Vec<Place> = (1..=8).map(|n| enter(&format!("10.0.1.{n}")).expect("a place")).collect();
        assert_eq!(held.iter().map(|place| place.crowded).collect::<Vec<_>>(), [[false; 4], [true; 4]].concat());
        assert!(enter("10.0.2.1").is_none());
    }
}
