//! Answers.

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{Receiver, Sender, channel, error::TrySendError};

/// An answer: status, head, body.
#[derive(Debug)]
pub struct Reply(pub(crate) Response<Content>);

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Content {
    /// It is all here.
    Whole(Bytes),
    /// It comes bit by bit, and ends when nobody can send any more.
    Parts(Receiver<Bytes>),
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Content::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Content::Parts(parts) => parts.poll_recv(cx).map(|part| part.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Content::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Parts(_) => SizeHint::default(),
        }
    }
}

impl Reply {
    /// An answer that is all here: HTTP status, content type, body. What is no status is said as 500.
    pub fn new(status: u16, kind: &'static str, body: impl Into<Bytes>) -> Self {
        Self::of(status, kind, Content::Whole(body.into()))
    }

    /// An answer in plain text; a line end is added.
    pub fn text(status: u16, text: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", format!("{text}\n"))
    }

    /// An answer that comes bit by bit. What was not taken of `waiting` parts is the most that waits.
    pub fn parts(status: u16, kind: &'static str, waiting: usize) -> (Self, Frames) {
        let (sender, receiver) = channel(waiting.max(1));
        (Self::of(status, kind, Content::Parts(receiver)), Frames(sender))
    }

    fn of(status: u16, kind: &'static str, content: Content) -> Self {
        let mut response = Response::new(content);
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().insert(hyper::header::CONTENT_TYPE, HeaderValue::from_static(kind));
        Self(response)
    }

    /// The same with a line of its head set. A value that no head can have (a line end is in it) is left out.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.0.headers_mut().insert(HeaderName::from_static(name), value);
        }
        self
    }
}

/// The sending end of an answer that comes bit by bit.
#[derive(Clone, Debug)]
pub struct Frames(Sender<Bytes>);

/// Fate of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is on its way.
    Taken,
    /// The client has not taken those before it: it is dropped.
    Full,
    /// The client is gone.
    Gone,
}

impl Frames {
    /// Sends a part, without waiting.
    pub fn send(&self, part: impl Into<Bytes>) -> Sent {
        match self.0.try_send(part.into()) {
            Ok(()) => Sent::Taken,
            Err(TrySendError::Full(_)) => Sent::Full,
            Err(TrySendError::Closed(_)) => Sent::Gone,
        }
    }

    /// Says whether the client is gone.
    pub fn is_gone(&self) -> bool {
        self.0.is_closed()
    }
}
