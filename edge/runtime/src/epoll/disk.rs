//! Disks by threads that block: each device has one lane of writes and one of reads.

use crate::device::Inner;
use crate::job::{Job, Step};
use crate::seat::{MOST_SEATS, Seat};
use crate::sys::{self, EventFd};
use node::{DiskDone, Input};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Threads that write to one device. One group can be gathered while another is on its way to the disk.
const WRITERS: usize = 2;
/// Threads that read from one device.
const READERS: usize = 4;

/// The disks of one driver.
pub(crate) struct Disks {
    lanes: HashMap<(usize, bool), Lane>,
    /// Requests that have not been collected, for each seat.
    open: [usize; MOST_SEATS],
    done: Arc<Done>,
}

struct Done {
    finished: Mutex<Vec<(Job, DiskDone)>>,
    wake: Arc<EventFd>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    idle: usize,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    ready: Condvar,
}

struct Lane {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    most: usize,
}

/// Locks a mutex. Nothing can panic while one of the locks here is held.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disks {
    /// Makes the disks, without threads.
    pub(crate) fn new() -> io::Result<Self> {
        let done = Done { finished: Mutex::default(), wake: Arc::new(EventFd::new()?) };
        Ok(Self { lanes: HashMap::new(), open: [0; MOST_SEATS], done: Arc::new(done) })
    }

    /// The event that is raised when [`Disks::collect`] has something to give.
    pub(crate) fn wake(&self) -> &EventFd {
        &self.done.wake
    }

    /// Gives a job to a thread of its lane.
    pub(crate) fn submit(&mut self, job: Job) {
        self.open[job.seat().at()] += 1;
        let read = job.is_read();
        let most = if read { READERS } else { WRITERS };
        let key = (Arc::as_ptr(&job.device) as usize, read);
        self.lanes.entry(key).or_insert_with(|| Lane::new(most)).submit(job, &self.done);
    }

    /// Appends the jobs that have finished.
    pub(crate) fn collect(&mut self, inputs: &mut Vec<Input>) {
        self.done.wake.clear();
        let finished = std::mem::take(&mut *lock(&self.done.finished));
        // The jobs, and with them what was written, are dropped here and not in their threads.
        inputs.extend(finished.into_iter().map(|(job, done)| {
            self.open[job.seat().at()] -= 1;
            Input::Disk(done)
        }));
    }

    /// Says whether a request of this machine is under way.
    pub(crate) fn work_for(&self, seat: Seat) -> bool {
        self.open[seat.at()] > 0
    }
}

impl Lane {
    fn new(most: usize) -> Self {
        Self { shared: Arc::default(), threads: Vec::new(), most }
    }

    fn submit(&mut self, job: Job, done: &Arc<Done>) {
        let mut queue = lock(&self.shared.queue);
        queue.jobs.push_back(job);
        let short = queue.jobs.len() > queue.idle && self.threads.len() < self.most;
        drop(queue);
        self.shared.ready.notify_one();
        if short {
            let (shared, done) = (self.shared.clone(), done.clone());
            let started = std::thread::Builder::new().name("disk".into()).spawn(move || work(&shared, &done));
            match started {
                Ok(thread) => self.threads.push(thread),
                // The threads that run take it later. Without any thread, there is no disk.
                Err(e) if self.threads.is_empty() => panic!("cannot start a disk thread: {e}"),
                Err(_) => {}
            }
        }
    }
}

impl Drop for Disks {
    /// Waits for the jobs that threads work on. Those that wait are dropped.
    fn drop(&mut self) {
        for lane in self.lanes.values() {
            let mut queue = lock(&lane.shared.queue);
            queue.closed = true;
            queue.jobs.clear();
            lane.shared.ready.notify_all();
        }
        for lane in self.lanes.values_mut() {
            lane.threads.drain(..).for_each(|thread| drop(thread.join()));
        }
    }
}

fn work(shared: &Shared, done: &Done) {
    while let Some(mut job) = next(shared) {
        let finished = run(&mut job);
        let mut all = lock(&done.finished);
        let first = all.is_empty();
        all.push((job, finished));
        drop(all);
        if first {
            done.wake.raise();
        }
    }
}

fn next(shared: &Shared) -> Option<Job> {
    let mut queue = lock(&shared.queue);
    queue.idle += 1;
    loop {
        if queue.closed {
            return None;
        }
        if let Some(job) = queue.jobs.pop_front() {
            queue.idle -= 1;
            return Some(job);
        }
        queue = shared.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}

fn run(job: &mut Job) -> DiskDone {
    let device = job.device.clone();
    loop {
        let result = step(&device, job.step()).map_err(|e| sys::errno(&e));
        if let Some(done) = job.advance(result) {
            return done;
        }
    }
}

fn step(device: &Inner, step: Step<'_>) -> io::Result<usize> {
    match step {
        Step::Read { offset, into } => device.file.read_at(into, offset),
        Step::Write { offset, from, dsync } => sys::write_vectored_at(&device.file, &from.io_slices(), offset, dsync),
        Step::Trim { offset, len } => sys::punch_hole(&device.file, offset, len).map(|()| 0),
        Step::Sync => device.file.sync_data().map(|()| 0),
    }
}
