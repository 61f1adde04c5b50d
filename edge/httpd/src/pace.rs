//! Clients that do not read what they asked for.
//!
//! A connection with something to write is watched from the moment in which the kernel takes no more. From then on the
//! client must take [`Limits::pace_bytes`] in each [`Limits::pace_time`], or else the connection ends. It is not
//! watched any more once all was taken. So a slow line is served, and one that takes a byte a second is not.

use crate::Limits;
use std::future::Future;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// A stream whose other end must read.
pub(crate) struct Paced<S> {
    stream: S,
    span: Duration,
    least: usize,
    /// While the other end is watched: when the span ends, and what was taken in it.
    watch: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<S> Paced<S> {
    pub(crate) fn new(stream: S, limits: &Limits) -> Self {
        Self { stream, span: limits.pace_time, least: limits.pace_bytes, watch: None }
    }

    /// The kernel takes nothing now: begins the watch, or ends the connection.
    fn stalled(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let span = self.span;
        let (until, taken) = self.watch.get_or_insert_with(|| (Box::pin(sleep_until(Instant::now() + span)), 0));
        loop {
            ready!(until.as_mut().poll(cx));
            if *taken < self.least {
                return Poll::Ready(io::Error::new(ErrorKind::TimedOut, "the client does not read"));
            }
            *taken = 0;
            until.as_mut().reset(Instant::now() + span);
        }
    }

    /// The kernel took `n` bytes, and that was all or not.
    fn took(&mut self, n: usize, all: bool) {
        match &mut self.watch {
            _ if all => self.watch = None,
            Some((_, taken)) => *taken += n,
            None => {}
        }
    }

    fn judge(&mut self, cx: &mut Context<'_>, wanted: usize, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match wrote {
            Poll::Ready(Ok(n)) => {
                self.took(n, n >= wanted);
                Poll::Ready(Ok(n))
            }
            Poll::Ready(Err(e)) => Poll::Ready(Err(e)),
            Poll::Pending => self.stalled(cx).map(Err),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(cx, bytes.len(), wrote)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.judge(cx, parts.iter().map(|part| part.len()).sum(), wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_flush(cx) {
            Poll::Pending => self.stalled(cx).map(Err),
            done => done,
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_shutdown(cx) {
            Poll::Pending => self.stalled(cx).map(Err),
            done => done,
        }
    }
}
