//! HTTP for what people and tools look at: metrics, pages, gateways for objects.
//!
//! It stands on hyper, tokio and rustls, with one runtime on one thread of its own
//! ([why](../../../docs/decisions/0034-http-stands-on-hyper.md)). No other crate of ours knows of them: a site is a
//! value that answers [`Asked`] with [`Reply`], and asks daemons in the meantime through [`blocking`].
//!
//! *Whoever connects is a stranger.* Everything has a bound ([`Limits`]): connections in all and of one address, bytes
//! of a head and of a body, the time until a head or a body is whole, the time that a site takes, and the pace at which
//! a client takes what it asked for.
//!
//! | question | module |
//! |---|---|
//! | who may connect, for how long | [`Server`] in `server.rs`, [`Limits`] |
//! | what was asked | [`Asked`] |
//! | what is answered, at once or bit by bit | [`Reply`], [`Frames`] |
//! | what becomes of those who do not read | `pace.rs` |
//! | certificates, TLS | [`Identity`] in `tls.rs` |

#![forbid(unsafe_code)]

mod asked;
mod limits;
mod pace;
mod reply;
mod server;
mod tls;

pub use asked::{Asked, NoBody, form};
pub use limits::Limits;
pub use reply::{Frames, Reply, Sent};
pub use server::{Listener, Running, Server, Site};
pub use tls::{HOST_DAYS, Identity, Pair, authority, fingerprint, sign};

pub use bytes::Bytes;

/// Runs `work` on a thread beside the server's, which goes on meanwhile. Returns none if it panicked.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}
