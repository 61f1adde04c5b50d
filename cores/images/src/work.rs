//! Work of many steps without IO: a step that needs the cluster asks for it and is continued when the answer is there.
//!
//! A job is an `async` function, because that is the plainest way to write "read this, then depending on it change that, eight objects at a
//! time". There is no executor behind it, no thread and no clock: [`Works::run`] continues the jobs once, and whoever owns the
//! [`Works`] takes their [`Request`]s out, has them carried out, and brings the [`Answer`]s in. The same answers in the same order give the
//! same requests.

use crate::Fail;
use bytes::Bytes;
use maps::OsdMap;
use messages::osd::OsdOpReply;
use objecter::{OpError, OpRequest, WatchId};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use types::{EntityAddr, EntityName, Errno, Locator, PoolId, UTime};

/// Need of a job from outside.
#[derive(Debug)]
pub enum Request {
    /// An operation on an object.
    Op(OpRequest),
    /// A watch on an object; answered when it stands.
    Watch(Locator, Bytes),
    /// The end of a watch.
    Unwatch(WatchId),
    /// A notification to all watchers, with its payload; answered with what they say to it.
    Notify(Locator, Bytes, Bytes),
    /// A number for a new snapshot of images in a pool.
    NewSnap(PoolId),
    /// A snapshot's number is not used any more: the OSDs may trim what only it needs.
    FreeSnap(PoolId, u64),
    /// A client must not reach the OSDs any more, for the sake of somebody's work.
    Fence(EntityAddr, Option<EntityName>),
    /// Nothing before this time.
    Sleep(UTime),
    /// The next notification at a watch, or nothing at this time.
    Listen(WatchId, UTime),
}

/// Result of a request.
#[derive(Debug)]
pub enum Answer {
    /// To [`Request::Op`].
    Op(Result<Box<OsdOpReply>, OpError>),
    /// To [`Request::Watch`].
    Watching(WatchId),
    /// To [`Request::Notify`].
    Told(Vec<Bytes>),
    /// To [`Request::Listen`].
    Heard(Bytes),
    /// To [`Request::NewSnap`].
    Snap(u64),
    /// To the others, and to [`Request::Listen`] when nobody said anything.
    Done,
    /// It could not be done.
    Failed(Errno),
}

/// Names a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Names a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(pub u64);

#[derive(Default)]
struct Shared {
    now: UTime,
    map: Option<Arc<OsdMap>>,
    next: u64,
    requests: VecDeque<(RequestId, Request)>,
    waiting: BTreeSet<RequestId>,
    answers: BTreeMap<RequestId, Answer>,
    /// Secret bytes for names that must be new.
    seed: u128,
}

/// Reach of work that is done for somebody.
pub trait Reach {
    /// Returns true if what a job asks for may be done for whoever ordered it.
    fn allows(&self, map: &OsdMap, request: &Request) -> bool;

    /// Returns for whom it is done; `None`: for nobody with a name.
    fn who(&self) -> Option<EntityName> {
        None
    }
}

/// A job's way to the cluster. Headers of images say what their owners wrote there: another pool for the data, any parent, any source of
/// a migration. So work for somebody goes no further than that one's own rights ([`Io::within`]).
#[derive(Clone, Default)]
pub struct Io(Rc<RefCell<Shared>>, Option<Rc<dyn Reach>>);

impl Io {
    /// The same way, as far as `reach` goes. What lies beyond is refused with EPERM.
    #[must_use]
    pub fn within(&self, reach: Rc<dyn Reach>) -> Self {
        Self(self.0.clone(), Some(reach))
    }

    /// For whom the work is done.
    pub(crate) fn who(&self) -> Option<EntityName> {
        self.1.as_ref().and_then(|reach| reach.who())
    }

    /// The time.
    pub fn now(&self) -> UTime {
        self.0.borrow().now
    }

    /// The newest map.
    ///
    /// # Errors
    /// EAGAIN: there is none yet.
    pub fn map(&self) -> Result<Arc<OsdMap>, Fail> {
        self.0.borrow().map.clone().ok_or_else(|| Fail::new(Errno::EAGAIN, "the manager has no map yet"))
    }

    /// A random UUID (version 4).
    pub fn uuid(&self) -> String {
        let mut shared = self.0.borrow_mut();
        // A counter under a secret key: nobody can tell the next one from the last.
        shared.next += 1;
        let mixed = mix(shared.seed ^ u128::from(shared.next));
        let bits = mixed & !(0xf000_c000_u128 << 48) | (0x4000_8000_u128 << 48);
        let hex = format!("{bits:032x}");
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// Waits at least so long.
    pub async fn sleep(&self, time: std::time::Duration) {
        let until = self.now().plus(time);
        self.ask(Request::Sleep(until)).await;
    }

    /// The next notification at a watch; `None` if none comes before a time.
    pub(crate) async fn listen(&self, watch: WatchId, until: UTime) -> Option<Bytes> {
        match self.ask(Request::Listen(watch, until)).await {
            Answer::Heard(payload) => Some(payload),
            _ => None,
        }
    }

    /// A number that nothing else here has.
    pub(crate) fn number(&self) -> u64 {
        let mut shared = self.0.borrow_mut();
        shared.next += 1;
        shared.next
    }

    /// Asks for something and waits for the answer.
    pub(crate) async fn ask(&self, request: Request) -> Answer {
        if let Some(reach) = &self.1 {
            match self.map() {
                Ok(map) if reach.allows(&map, &request) => {}
                Ok(_) => return Answer::Failed(Errno::EPERM),
                Err(fail) => return Answer::Failed(fail.errno),
            }
        }
        let id = {
            let mut shared = self.0.borrow_mut();
            shared.next += 1;
            let id = RequestId(shared.next);
            shared.requests.push_back((id, request));
            shared.waiting.insert(id);
            id
        };
        Asked { io: self.clone(), id }.await
    }
}

/// Spreads the bits of a number over all of it (two rounds of multiplication and folding).
fn mix(mut x: u128) -> u128 {
    for _ in 0..3 {
        x = x.wrapping_mul(0xda94_2042_e4dd_58b5_9e37_79b9_7f4a_7c15);
        x ^= x >> 64;
    }
    x
}

/// A request under way.
struct Asked {
    io: Io,
    id: RequestId,
}

impl Future for Asked {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Answer> {
        match self.io.0.borrow_mut().answers.remove(&self.id) {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let mut shared = self.io.0.borrow_mut();
        shared.waiting.remove(&self.id);
        shared.answers.remove(&self.id);
    }
}

/// Does something for each item, for at most `most` of them at a time; the first failure ends it.
pub(crate) async fn each<T, Fut: Future<Output = Result<(), Fail>>>(
    most: usize,
    items: impl IntoIterator<Item = T>,
    step: impl Fn(T) -> Fut,
) -> Result<(), Fail> {
    let mut items = items.into_iter();
    let mut running: Vec<Pin<Box<Fut>>> = Vec::new();
    std::future::poll_fn(move |cx| {
        loop {
            while running.len() < most.max(1)
                && let Some(item) = items.next()
            {
                running.push(Box::pin(step(item)));
            }
            let before = running.len();
            let mut failed = None;
            running.retain_mut(|one| match one.as_mut().poll(cx) {
                Poll::Pending => true,
                Poll::Ready(Ok(())) => false,
                Poll::Ready(Err(fail)) => {
                    failed = failed.take().or(Some(fail));
                    false
                }
            });
            if let Some(fail) = failed {
                return Poll::Ready(Err(fail));
            }
            if running.is_empty() && before == 0 {
                return Poll::Ready(Ok(()));
            }
            if running.len() == before {
                return Poll::Pending;
            }
        }
    })
    .await
}

/// Progress of a job, and whether somebody wants it to end.
#[derive(Clone, Debug, Default)]
pub struct Progress(Rc<ProgressCells>);

#[derive(Debug, Default)]
struct ProgressCells {
    done: Cell<u64>,
    total: Cell<u64>,
    cancelled: Cell<bool>,
}

impl Progress {
    /// Done so far, from 0 to 1.
    pub fn share(&self) -> f64 {
        let total = self.0.total.get();
        if total == 0 { 0.0 } else { self.0.done.get() as f64 / total as f64 }
    }

    /// The job shall end at its next step, and leave things as they can be left.
    pub fn cancel(&self) {
        self.0.cancelled.set(true);
    }

    pub(crate) fn expect(&self, total: u64) {
        self.0.total.set(total);
        self.0.done.set(0);
    }

    /// So many of so many are done.
    pub(crate) fn set(&self, done: u64, total: u64) {
        self.0.total.set(total);
        self.0.done.set(done.min(total));
    }

    /// One more is done.
    pub(crate) fn step(&self) -> Result<(), Fail> {
        self.0.done.set(self.0.done.get() + 1);
        self.check()
    }

    pub(crate) fn check(&self) -> Result<(), Fail> {
        if self.0.cancelled.get() { Err(Fail::new(Errno::ECANCELED, "it was cancelled")) } else { Ok(()) }
    }
}

/// Jobs under way.
pub struct Works<T> {
    io: Io,
    jobs: BTreeMap<JobId, Pin<Box<dyn Future<Output = T>>>>,
    done: VecDeque<(JobId, T)>,
    next: u64,
    /// Something came that may let a job go on.
    news: bool,
}

impl<T> Works<T> {
    /// No jobs. `seed` is secret, and never used twice.
    pub fn new(seed: [u8; 16]) -> Self {
        let io = Io::default();
        io.0.borrow_mut().seed = u128::from_le_bytes(seed);
        Self { io, jobs: BTreeMap::new(), done: VecDeque::new(), next: 0, news: false }
    }

    /// For making jobs.
    pub fn io(&self) -> Io {
        self.io.clone()
    }

    /// Takes a job on; it begins with the next [`Works::run`].
    pub fn start(&mut self, job: impl Future<Output = T> + 'static) -> JobId {
        self.next += 1;
        let id = JobId(self.next);
        self.jobs.insert(id, Box::pin(job));
        self.news = true;
        id
    }

    /// Jobs that have not ended.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// There is a new map.
    pub fn set_map(&mut self, map: Arc<OsdMap>) {
        self.io.0.borrow_mut().map = Some(map);
    }

    /// Brings an answer in. One that nobody waits for any more is dropped.
    pub fn answer(&mut self, id: RequestId, answer: Answer) {
        let mut shared = self.io.0.borrow_mut();
        if shared.waiting.contains(&id) {
            shared.answers.insert(id, answer);
            self.news = true;
        }
    }

    /// Continues the jobs as far as they can go now.
    pub fn run(&mut self, now: UTime) {
        self.io.0.borrow_mut().now = now;
        if !std::mem::take(&mut self.news) {
            return;
        }
        let mut context = Context::from_waker(Waker::noop());
        let done = &mut self.done;
        self.jobs.retain(|id, job| match job.as_mut().poll(&mut context) {
            Poll::Pending => true,
            Poll::Ready(result) => {
                done.push_back((*id, result));
                false
            }
        });
    }

    /// The next request of a job.
    pub fn poll_request(&mut self) -> Option<(RequestId, Request)> {
        self.io.0.borrow_mut().requests.pop_front()
    }

    /// The next job that ended.
    pub fn poll_done(&mut self) -> Option<(JobId, T)> {
        self.done.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests<T>(works: &mut Works<T>) -> Vec<RequestId> {
        std::iter::from_fn(|| works.poll_request()).map(|(id, _)| id).collect()
    }

    #[test]
    fn jobs_go_on_when_their_answers_come() {
        let mut works = Works::new([7; 16]);
        let io = works.io();
        works.start(async move {
            let first = io.ask(Request::NewSnap(1)).await;
            let second = io.ask(Request::NewSnap(2)).await;
            match (first, second) {
                (Answer::Snap(a), Answer::Snap(b)) => a + b,
                _ => 0,
            }
        });
        works.run(UTime::ZERO);
        let ids = requests(&mut works);
        assert_eq!(ids.len(), 1);
        works.answer(ids[0], Answer::Snap(40));
        works.run(UTime::ZERO);
        let ids = requests(&mut works);
        works.answer(ids[0], Answer::Snap(2));
        works.run(UTime::ZERO);
        assert_eq!(works.poll_done().map(|(_, sum)| sum), Some(42));
        assert!(works.is_empty());
    }

    #[test]
    fn only_so_many_steps_run_at_a_time_and_the_first_failure_ends_all() {
        let mut works = Works::new([7; 16]);
        let io = works.io();
        works.start(async move {
            each(3, 0..7, |_| {
                let io = io.clone();
                async move {
                    match io.ask(Request::NewSnap(1)).await {
                        Answer::Failed(errno) => Err(Fail::new(errno, "no")),
                        _ => Ok(()),
                    }
                }
            })
            .await
        });
        works.run(UTime::ZERO);
        let ids = requests(&mut works);
        assert_eq!(ids.len(), 3);
        ids[..2].iter().for_each(|id| works.answer(*id, Answer::Done));
        works.run(UTime::ZERO);
        let more = requests(&mut works);
        assert_eq!(more.len(), 2);
        works.answer(ids[2], Answer::Failed(Errno::EIO));
        works.run(UTime::ZERO);
        assert!(matches!(works.poll_done(), Some((_, Err(fail))) if fail.errno == Errno::EIO));
        // What comes late concerns nobody.
        works.answer(more[0], Answer::Done);
        works.run(UTime::ZERO);
        assert!(works.poll_done().is_none());
    }

    #[test]
    fn uuids_are_of_version_four_and_differ() {
        let io = Works::<()>::new([1; 16]).io();
        let (a, b) = (io.uuid(), io.uuid());
        assert_ne!(a, b);
        for uuid in [a, b] {
            let parts: Vec<usize> = uuid.split('-').map(str::len).collect();
            assert_eq!(parts, [8, 4, 4, 4, 12]);
            assert!(&uuid[14..15] == "4" && "89ab".contains(&uuid[19..20]), "{uuid}");
        }
    }
}
