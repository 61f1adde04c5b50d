//! The desk: takes users' orders for work on block images, and has the manager do it. It does what Ceph's module
//! `rbd_support` does, answers like it and stores like it, so that either can take over from the other without loss.
//!
//! - [`tasks`]: removal, flattening, removal from the trash, steps of a migration. Those of one pool run one after the
//!   other. Until they are done they are kept in an omap of the object `rbd_task`, in the image's pool and namespace;
//! - [`schedules`]: purges of the trash, and snapshots for mirroring. They are kept in omaps of
//!   `rbd_trash_purge_schedule` and `rbd_mirror_snapshot_schedule` in the pool; those of all pools are in the manager's
//!   options;
//! - [`task`]: one task;
//! - [`schedule`] and [`levels`]: when, and for what; [`text`]: the shape of answers;
//! - [`reach`]: how far work goes that is done for somebody.
//!
//! The crate [`images`] does the work itself. All here are its jobs. A command is a job that ends with an answer. A
//! loop is a job that runs while there is something to wait for, and looks every [`LOOK`]. Everything durable is in
//! objects before it is in memory here, so a new manager goes on where the last one was.

mod levels;
mod reach;
mod schedule;
mod schedules;
mod task;
mod tasks;
mod text;

use crate::progress::Note;
use bytes::Bytes;
use grammar::{Outcome, Refusal, Reply};
use images::{Fail, Io, Place};
use monstate::state::{AuthDb, Change, State};
use node::Level;
use reach::{By, Within};
use schedules::Schedules;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tasks::Tasks;
use types::{EntityName, Errno};

/// The pool of images whose name has no pool.
pub const DEFAULT_POOL: &str = "rbd";
/// Interval at which loops look for what became due.
const LOOK: Duration = Duration::from_millis(500);

/// Looks until orders are refused, when what was ordered before this start is still not known: ten seconds.
const BEGIN_LOOKS: u32 = 20;

/// The work that a task does on an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Copies to a clone what it shares with its parent.
    Flatten,
    /// The image goes.
    Remove,
    /// An image in the trash goes.
    TrashRemove,
    /// The image is copied to where it migrates.
    MigrationExecute,
    /// The source of a migration goes.
    MigrationCommit,
    /// The target of a migration goes.
    MigrationAbort,
}

/// The work that is done on a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Images leave the trash when their time is over.
    Purge,
    /// Images that are mirrored get a snapshot.
    Mirror,
}

impl Kind {
    /// The object that keeps a pool's schedules.
    fn object(self) -> &'static str {
        match self {
            Self::Purge => "rbd_trash_purge_schedule",
            Self::Mirror => "rbd_mirror_snapshot_schedule",
        }
    }

    /// The kind of schedules of all pools that an option keeps.
    pub fn of_option(name: &str) -> Option<Self> {
        [Self::Purge, Self::Mirror].into_iter().find(|kind| kind.option() == name)
    }

    /// The option that keeps the schedules of all pools.
    fn option(self) -> &'static str {
        match self {
            Self::Purge => "mgr/rbd_support/trash_purge_schedule",
            Self::Mirror => "mgr/rbd_support/mirror_snapshot_schedule",
        }
    }
}

/// Order about a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// A further one, of an interval (`1d`) and the time at which it begins to count.
    Add {
        /// The interval.
        interval: String,
        /// Time when it begins to count.
        start: Option<String>,
    },
    /// The end of one, or of all.
    Remove {
        /// The interval.
        interval: Option<String>,
        /// Time when it begins to count.
        start: Option<String>,
    },
    /// A list of all.
    List,
    /// Lists when images are next.
    Status,
}

/// Order of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// A task for the named image.
    Add(Action, String),
    /// A list of one task or of all.
    List(Option<String>),
    /// The end of a task.
    Cancel(String),
    /// Something about the schedules of a level.
    Schedule(Kind, String, Plan),
}

/// Says whether the one who orders may do so in a pool and namespace.
pub type May = Box<dyn Fn(&str, &str) -> bool>;

/// The result of a job of the desk: an answer, and changes that must be durable before it is given.
pub type Ended = Option<(Outcome, Vec<Change>)>;

type Job = Pin<Box<dyn Future<Output = Ended>>>;

/// The place that takes orders. Clones are the same desk.
#[derive(Clone)]
pub struct Desk(Rc<Inner>);

struct Inner {
    io: Io,
    /// True if what was ordered before this start is known.
    ready: Cell<bool>,
    tasks: RefCell<Tasks>,
    purges: RefCell<Schedules>,
    mirrors: RefCell<Schedules>,
    /// Jobs that are to be started.
    jobs: RefCell<Vec<Job>>,
    log: RefCell<Vec<(Level, String)>>,
    /// Notes of what began and ended, for those who follow it.
    notes: RefCell<Vec<Note>>,
    /// The schedules of all pools, as the options have them.
    global: RefCell<[Option<String>; 2]>,
    /// Entities and their rights, and keys that say who ordered what: the newest of the monitors' state.
    auth: RefCell<Arc<AuthDb>>,
    keys: RefCell<Arc<BTreeMap<String, Bytes>>>,
}

/// Returns what failed at an image, as the refusal of an order.
fn refused(fail: Fail) -> Refusal {
    Refusal::new(fail.errno, fail.to_string())
}

impl Desk {
    /// Makes a desk without orders.
    pub fn new(io: Io) -> Self {
        Self(Rc::new(Inner {
            io,
            ready: Cell::new(false),
            tasks: RefCell::default(),
            purges: RefCell::new(Schedules::new(Kind::Purge)),
            mirrors: RefCell::new(Schedules::new(Kind::Mirror)),
            jobs: RefCell::default(),
            log: RefCell::default(),
            notes: RefCell::default(),
            global: RefCell::default(),
            auth: RefCell::default(),
            keys: RefCell::default(),
        }))
    }

    /// Begins to load what was ordered before this start.
    pub fn begin(&self) {
        let desk = self.clone();
        self.spawn(async move {
            // An OSD that cannot answer keeps it waiting. Errors go to the log, and what they hide stays as it is.
            if let Err(fail) = tasks::load(&desk).await {
                desk.say(Level::Error, format!("tasks of images cannot be read: {fail}"));
            }
            for kind in [Kind::Purge, Kind::Mirror] {
                schedules::begin(&desk, kind).await;
            }
            desk.0.ready.set(true);
        });
    }

    /// Carries an order out for an entity, or, without a name, for whoever may do everything. Gives the answer and the
    /// changes of the cluster's own state.
    pub async fn carry_out(self, order: Order, may: May, who: Option<EntityName>) -> (Outcome, Vec<Change>) {
        let by = who.map_or(By::Everybody, By::Entity);
        for _ in 0..BEGIN_LOOKS {
            if self.0.ready.get() {
                break;
            }
            self.pause().await;
        }
        if !self.0.ready.get() {
            let why = "the manager has not read yet what was ordered before; are the OSDs of all pools for images up?";
            return (Err(Refusal::new(Errno::EAGAIN, why)), Vec::new());
        }
        let outcome = match order {
            Order::Add(action, spec) => match tasks::add(&self, action, &spec, &may, by).await {
                Ok((reply, changes)) => return (Ok(reply), changes),
                Err(refusal) => Err(refusal),
            },
            Order::List(id) => tasks::list(&self, id.as_deref(), &may),
            Order::Cancel(id) => tasks::cancel(&self, &id, &may).await,
            Order::Schedule(kind, level, plan) => return schedules::carry_out(&self, kind, &level, plan, &by).await,
        };
        (outcome, Vec::new())
    }

    /// Takes the jobs that are to be started.
    pub(crate) fn take_jobs(&self) -> Vec<Job> {
        std::mem::take(&mut self.0.jobs.borrow_mut())
    }

    /// Takes the lines for the log.
    pub fn take_log(&self) -> Vec<(Level, String)> {
        std::mem::take(&mut self.0.log.borrow_mut())
    }

    /// Takes what began and ended since the last look.
    pub fn take_notes(&self) -> Vec<Note> {
        let mut notes = std::mem::take(&mut *self.0.notes.borrow_mut());
        notes.extend(self.0.tasks.borrow().shares().map(|(id, share)| Note::Far(id.to_owned(), share)));
        notes
    }

    /// Learns the options that are schedules, and who may do what.
    pub fn see(&self, state: &State) {
        self.0.auth.replace(state.auth.clone());
        self.0.keys.replace(state.keys.clone());
        let option = |kind: Kind| state.config.get("mgr", kind.option()).cloned();
        *self.0.global.borrow_mut() = [option(Kind::Purge), option(Kind::Mirror)];
    }

    fn global(&self, kind: Kind) -> Option<String> {
        let [purge, mirror] = &*self.0.global.borrow();
        if kind == Kind::Purge { purge.clone() } else { mirror.clone() }
    }

    fn schedules(&self, kind: Kind) -> &RefCell<Schedules> {
        if kind == Kind::Purge { &self.0.purges } else { &self.0.mirrors }
    }

    fn spawn(&self, job: impl Future<Output = ()> + 'static) {
        self.0.jobs.borrow_mut().push(Box::pin(async move {
            job.await;
            None
        }));
    }

    fn say(&self, level: Level, text: String) {
        self.0.log.borrow_mut().push((level, text));
    }

    fn note(&self, note: Note) {
        self.0.notes.borrow_mut().push(note);
    }

    fn io(&self) -> &Io {
        &self.0.io
    }

    /// The changes that forget who ordered tasks that are done.
    fn forgotten(&self) -> Vec<Change> {
        let (keys, needed) = (self.0.keys.borrow(), self.0.tasks.borrow().notes());
        reach::kept(&keys, "task/").filter(|note| !needed.contains(*note)).map(reach::forget).collect()
    }

    /// The way to the cluster for work in a place that somebody ordered.
    fn io_for(&self, by: &By, home: &Place) -> Io {
        self.io().within(Rc::new(Within::of(by, &self.0.auth.borrow(), home)))
    }

    /// Waits for [`LOOK`].
    async fn pause(&self) {
        self.io().sleep(LOOK).await;
    }
}

/// Makes an answer of JSON.
fn answer(text: String) -> Outcome {
    Ok(Reply::data(text + "\n"))
}
