//! What clients of an image say to one another at its header: librbd's notifications, as far as work on whole images
//! needs them.
//!
//! A message is a kind and what belongs to it; the one who is meant answers with a result. Work that only the holder of
//! the image's lock may do is ordered under a number; the holder answers at once whether it takes the order on, says at
//! times how far it is, and in the end what came of it.

use crate::image::Image;
use crate::rados::Place;
use crate::work::{Answer, Io, Progress, Request};
use crate::{Fail, Result};
use bytes::Bytes;
use denc::{Encode, Reader, envelope};
use objecter::WatchId;
use std::time::Duration;
use types::Errno;

/// The newest version of librbd's messages that is known here; what is sent can be read by the first.
const VERSION: u8 = 7;
/// Number of times that clients are asked to pause that are not ready to; each time they have as long as for any notification.
const PAUSE_TRIES: u32 = 10;
/// Interval at which it is checked whether the client that took an order on is there.
const LOOK: Duration = Duration::from_secs(1);

/// Kinds of messages.
mod kind {
    pub(super) const RELEASED_LOCK: u32 = 1;
    pub(super) const REQUEST_LOCK: u32 = 2;
    pub(super) const HEADER_UPDATE: u32 = 3;
    pub(super) const PROGRESS: u32 = 4;
    pub(super) const COMPLETE: u32 = 5;
    pub(super) const FLATTEN: u32 = 6;
    pub(super) const MIGRATE: u32 = 16;
    pub(super) const QUIESCE: u32 = 18;
    pub(super) const UNQUIESCE: u32 = 19;
}

/// Work that the holder of an image's lock can be asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Copy what the image sees of its parent, and let go of it.
    Flatten,
    /// Copy what the image sees of the one that it moves away from.
    Migrate,
}

/// The one who orders: a client's number, the number of its watch, and the order's. Ours have no client that could be asked
/// back.
type OrderId = ((u64, u64), u64);

/// Word of somebody, if it matters here.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    ReleasedLock,
    Progress(OrderId, u64, u64),
    Complete(OrderId, i32),
}

impl Said {
    fn parse(payload: &Bytes) -> Option<Self> {
        let mut e = Reader::new(payload).envelope("NotifyMessage", VERSION).ok()?;
        let r = &mut e.body;
        Some(match r.get::<u32>().ok()? {
            kind::RELEASED_LOCK => Self::ReleasedLock,
            kind::PROGRESS => Self::Progress(r.get().ok()?, r.get().ok()?, r.get().ok()?),
            kind::COMPLETE => Self::Complete(r.get().ok()?, r.get().ok()?),
            _ => return None,
        })
    }
}

fn message(kind: u32, body: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut out = Vec::new();
    envelope(&mut out, VERSION, 1, |out| {
        kind.encode(out);
        body(out);
    });
    out.into()
}

async fn tell(io: &Io, at: &Place, header: &str, message: Bytes) -> Vec<Bytes> {
    match io.ask(Request::Notify(at.locator(), Bytes::copy_from_slice(header.as_bytes()), message)).await {
        Answer::Told(replies) => replies,
        _ => Vec::new(),
    }
}

/// Tells all who have an image open that its header changed. Those who do not answer are not waited for longer than the
/// OSD does.
pub(crate) async fn header_changed(io: &Io, image: &Image) {
    tell(io, &image.at, &image.header(), message(kind::HEADER_UPDATE, |_| {})).await;
}

/// Asks who has an image's lock to let go, and waits a while for that.
pub(crate) async fn ask_to_release(io: &Io, watch: WatchId, at: &Place, header: &str, patience: Duration) {
    // Who asks: nobody who could be asked back; and it need not be by force.
    tell(io, at, header, message(kind::REQUEST_LOCK, |out| ((0u64, 0u64), false).encode(out))).await;
    let until = io.now().plus(patience);
    while let Some(payload) = io.listen(watch, until).await {
        if Said::parse(&payload) == Some(Said::ReleasedLock) {
            return;
        }
    }
}

/// Has the client that holds an image's lock do something, and waits until it is done.
///
/// # Errors
/// EBUSY: nobody takes the order on. EAGAIN: who took it on is gone. What came of it; ECANCELED.
pub(crate) async fn order(io: &Io, image: &Image, work: Work, progress: &Progress) -> Result<()> {
    let watch = io.watch(&image.at, &image.header()).await?;
    let done = order_and_wait(io, image, work, watch, progress).await;
    io.unwatch(watch).await;
    done
}

async fn order_and_wait(io: &Io, image: &Image, work: Work, watch: WatchId, progress: &Progress) -> Result<()> {
    // Numbers begin anew with each start, the time does not.
    let id: OrderId = ((0, 0), io.now().as_nanos() + io.number());
    let (kind, what) = match work {
        Work::Flatten => (kind::FLATTEN, "flatten"),
        Work::Migrate => (kind::MIGRATE, "migrate"),
    };
    let replies = tell(io, &image.at, &image.header(), message(kind, |out| id.encode(out))).await;
    match replies.iter().find_map(result_of) {
        Some(0) => {}
        Some(errno) => return failed(errno, what),
        None => return Err(Fail::new(Errno::EBUSY, "the client that uses the image does not answer")),
    }
    loop {
        progress.check()?;
        match io.listen(watch, io.now().plus(LOOK)).await.map(|payload| Said::parse(&payload)) {
            Some(Some(Said::Complete(of, 0))) if of == id => return Ok(()),
            Some(Some(Said::Complete(of, errno))) if of == id => return failed(errno, what),
            Some(Some(Said::Progress(of, done, total))) if of == id => progress.set(done, total),
            Some(_) => {}
            None if io.watchers(&image.at, &image.header()).await?.len() > 1 => {}
            None => return Err(Fail::new(Errno::EAGAIN, format!("the client that was to {what} the image has closed it"))),
        }
    }
}

/// Clients that write to an image pause.
pub(crate) struct Pause(OrderId);

/// Has clients that use an image bring what they do to a point at which a snapshot makes sense (file systems are
/// frozen), and pause there until [`go_on`].
///
/// # Errors
/// What a client says that cannot; ETIMEDOUT: one does not get ready. Then all go on.
pub(crate) async fn pause(io: &Io, image: &Image) -> Result<Pause> {
    let id: OrderId = ((0, 0), io.now().as_nanos() + io.number());
    let mut last = Errno::ETIMEDOUT.wire();
    for _ in 0..PAUSE_TRIES {
        let replies = tell(io, &image.at, &image.header(), message(kind::QUIESCE, |out| id.encode(out))).await;
        // Those who do not know the message say so, and those who do not care say nothing.
        let not_ready = replies.iter().filter_map(result_of).find(|result| *result < 0 && *result != Errno::EOPNOTSUPP.wire());
        match not_ready {
            None => return Ok(Pause(id)),
            Some(result) => last = result,
        }
        if last != Errno::ETIMEDOUT.wire() {
            break;
        }
    }
    go_on(io, image, Pause(id)).await;
    let errno = Errno(last.saturating_neg());
    Err(Fail::new(errno, format!("a client that uses the image does not pause for a snapshot: {}", errno.text())))
}

/// Lets paused clients go on.
pub(crate) async fn go_on(io: &Io, image: &Image, Pause(id): Pause) {
    tell(io, &image.at, &image.header(), message(kind::UNQUIESCE, |out| id.encode(out))).await;
}

/// Returns what a watcher says to an order: 0, or a negative error number. Others say nothing.
fn result_of(reply: &Bytes) -> Option<i32> {
    Reader::new(reply).envelope("ResponseMessage", 1).ok()?.body.get().ok()
}

fn failed(errno: i32, what: &str) -> Result<()> {
    let errno = Errno(errno.saturating_neg().max(1));
    Err(Fail::new(errno, format!("the client that uses the image could not {what} it: {}", errno.text())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_clients_send_them() {
        // Recorded from librbd 16.2.15: a header update; a request for the lock; an order to flatten (ids replaced).
        assert_eq!(message(kind::HEADER_UPDATE, |_| {})[..], [7, 1, 4, 0, 0, 0, 3, 0, 0, 0]);
        let request = message(kind::REQUEST_LOCK, |out| ((0u64, 0u64), false).encode(out));
        assert_eq!((request.len(), &request[..10]), (27, &[7, 1, 21, 0, 0, 0, 2, 0, 0, 0][..]));
        let id: OrderId = ((0, 0), 5);
        let flatten = message(kind::FLATTEN, |out| id.encode(out));
        assert_eq!((flatten.len(), &flatten[..10], flatten[26]), (34, &[7, 1, 28, 0, 0, 0, 6, 0, 0, 0][..], 5));
    }

    #[test]
    fn what_others_say_is_understood_or_ignored() {
        let id: OrderId = ((4, 9), 5);
        let complete = message(kind::COMPLETE, |out| (id, -22i32).encode(out));
        assert_eq!(Said::parse(&complete), Some(Said::Complete(id, -22)));
        let far = message(kind::PROGRESS, |out| (id, (3u64, 8u64)).encode(out));
        assert_eq!(Said::parse(&far), Some(Said::Progress(id, 3, 8)));
        assert_eq!(Said::parse(&message(kind::RELEASED_LOCK, |out| (4u64, 9u64).encode(out))), Some(Said::ReleasedLock));
        for cut in 0..complete.len() {
            assert_eq!(Said::parse(&complete.slice(..cut)), None, "{cut}");
        }
        assert_eq!(Said::parse(&message(99, |_| {})), None);
        let mut reply = Vec::new();
        envelope(&mut reply, 1, 1, |out| (-16i32).encode(out));
        assert_eq!(result_of(&reply.into()), Some(-16));
        assert_eq!(result_of(&Bytes::new()), None);
    }
}
