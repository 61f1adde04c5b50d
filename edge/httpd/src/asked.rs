//! Requests.

use crate::Limits;
use bytes::{Bytes, BytesMut};
use hyper::Request;
use hyper::body::{Body, Incoming};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;

/// A request.
#[derive(Debug)]
pub struct Asked {
    /// The one who asks.
    pub peer: SocketAddr,
    /// This end of the connection.
    pub local: SocketAddr,
    /// True if it came through TLS.
    pub secret: bool,
    request: Request<Incoming>,
    limits: Limits,
}

/// Reason why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBody {
    /// It is longer than is allowed: status 413.
    TooLong,
    /// It was not whole in time: status 408.
    TooSlow,
    /// The connection broke, or what came is no body: status 400.
    Broken,
}

impl NoBody {
    /// The HTTP status that says it.
    pub fn status(self) -> u16 {
        match self {
            NoBody::TooLong => 413,
            NoBody::TooSlow => 408,
            NoBody::Broken => 400,
        }
    }
}

impl Asked {
    pub(crate) fn new(request: Request<Incoming>, (peer, local): (SocketAddr, SocketAddr), secret: bool, limits: Limits) -> Self {
        Self { peer, local, secret, request, limits }
    }

    /// The method, as `GET`.
    pub fn method(&self) -> &str {
        self.request.method().as_str()
    }

    /// Says whether somebody only looks: `GET` or `HEAD`.
    pub fn looks(&self) -> bool {
        matches!(self.method(), "GET" | "HEAD")
    }

    /// The path, as it was sent: nothing in it is decoded.
    pub fn path(&self) -> &str {
        self.request.uri().path()
    }

    /// The first value of a name in the query. `%XX` and `+` are decoded; what is no UTF-8 then is replaced.
    pub fn query(&self, name: &str) -> Option<String> {
        let pairs = self.request.uri().query()?.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.into_iter().find(|(key, _)| decode(key) == name).map(|(_, value)| decode(value))
    }

    /// A line of the head, if it is there and is text.
    pub fn head(&self, name: &str) -> Option<&str> {
        self.request.headers().get(name)?.to_str().ok()
    }

    /// Reads the body, within the bounds of its length and of time.
    ///
    /// # Errors
    ///
    /// If it is too long, too slow or broken.
    pub async fn body(self) -> Result<Bytes, NoBody> {
        let (time, most) = (self.limits.body_time, self.limits.body_bytes);
        let mut body = self.request.into_body();
        if body.size_hint().lower() > most as u64 {
            return Err(NoBody::TooLong);
        }
        let read = async {
            let mut all = BytesMut::new();
            while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                let Ok(data) = frame.map_err(|_| NoBody::Broken)?.into_data() else { continue };
                if all.len() + data.len() > most {
                    return Err(NoBody::TooLong);
                }
                all.extend_from_slice(&data);
            }
            Ok(all.freeze())
        };
        tokio::time::timeout(time, read).await.unwrap_or(Err(NoBody::TooSlow))
    }
}

/// Returns the first value of a name in a form's body. It is decoded as a query is.
pub fn form(body: &[u8], name: &str) -> Option<String> {
    let body = std::str::from_utf8(body).ok()?;
    let mut pairs = body.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(key, _)| decode(key) == name).map(|(_, value)| decode(value))
}

/// Decodes `%XX` and `+`. A percent sign without two digits stands for itself.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|b| char::from(*b).to_digit(16));
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high << 4 | low) as u8);
                at += 2;
            }
            (b'+', ..) => out.push(b' '),
            (byte, ..) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn names_in_queries_are_decoded() {
        for (sent, meant) in
            [("a+b", "a b"), ("%22%0a%3C", "\"\n<"), ("100%", "100%"), ("%4", "%4"), ("%zz", "%zz"), ("%c3%a4", "ä")]
        {
            assert_eq!(decode(sent), meant);
        }
    }
}
