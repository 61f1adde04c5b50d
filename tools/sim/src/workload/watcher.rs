//! The watches and notifications of one life of a client.

use crate::history::History;
use crate::watchlog::answer;
use bytes::Bytes;
use denc::Decode;
use messages::ops::NotifyReplies;
use objecter::{Event, NotifyEvent, Objecter, OpId, WatchId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use types::{Locator, PoolId};

/// Seconds that a notification waits for answers: longer than anything is held up here for.
const PATIENCE: u32 = 60;

pub(super) struct Watching {
    me: u32,
    history: Rc<RefCell<History>>,
    time: Rc<Cell<u64>>,
    watches: BTreeMap<WatchId, String>,
    notifications: BTreeMap<OpId, usize>,
}

impl Watching {
    pub(super) fn new(me: u32, history: Rc<RefCell<History>>, time: Rc<Cell<u64>>) -> Self {
        Self { me, history, time, watches: BTreeMap::new(), notifications: BTreeMap::new() }
    }

    pub(super) fn alive(&self) {
        self.history.borrow_mut().watches.alive(self.me, self.time.get());
    }

    pub(super) fn watches(&self, object: &str) -> bool {
        self.watches.values().any(|o| o == object)
    }

    pub(super) fn watch(&mut self, pool: PoolId, object: String, objecter: &mut Objecter) {
        let watch = objecter.watch(Locator::pool(pool), Bytes::copy_from_slice(object.as_bytes()), 0);
        self.watches.insert(watch, object);
    }

    pub(super) fn unwatch(&mut self, object: &str, objecter: &mut Objecter) {
        let Some(watch) = self.watches.iter().find(|(_, o)| *o == object).map(|(watch, _)| *watch) else { return };
        self.lost(watch);
        objecter.unwatch(watch);
    }

    fn lost(&mut self, watch: WatchId) {
        self.watches.remove(&watch);
        self.history.borrow_mut().watches.lost((self.me, watch.0));
    }

    pub(super) fn notify(&mut self, pool: PoolId, object: String, text: String, objecter: &mut Objecter) {
        let number = self.history.borrow_mut().watches.notified(&object, &text, self.time.get());
        let id = objecter.notify(Locator::pool(pool), object.into(), &text.into(), PATIENCE);
        self.notifications.insert(id, number);
    }

    /// Takes an event that is about watches; tells whether a notification of ours has ended.
    pub(super) fn event(&mut self, event: Event, objecter: &mut Objecter) -> bool {
        match event {
            Event::Watching { watch } => {
                if let Some(object) = self.watches.get(&watch) {
                    self.history.borrow_mut().watches.stands((self.me, watch.0), object, self.time.get());
                }
            }
            Event::WatchNotify { watch, notify } => self.heard(watch, &notify, objecter),
            Event::WatchLost { watch, .. } => self.lost(watch),
            Event::NotifyDone { id, result, replies } => {
                let Some(number) = self.notifications.remove(&id) else { return false };
                // One that failed says nothing.
                if (result == 0 || result == -110)
                    && let Ok(replies) = NotifyReplies::from_bytes(&replies.contiguous())
                {
                    let text = |(_, text): &(_, Bytes)| String::from_utf8_lossy(text).into_owned();
                    let answers: Vec<String> = replies.replies.iter().map(text).collect();
                    let silent = replies.timed_out.len();
                    self.history.borrow_mut().watches.ended(number, &answers, silent, self.time.get());
                }
                return true;
            }
            _ => {}
        }
        false
    }

    fn heard(&mut self, watch: WatchId, notify: &NotifyEvent, objecter: &mut Objecter) {
        let Some(object) = self.watches.get(&watch) else { return };
        let text = String::from_utf8_lossy(&notify.payload).into_owned();
        let watcher = (self.me, watch.0);
        self.history.borrow_mut().watches.heard(watcher, object, &text);
        objecter.notify_ack(watch, notify.notify_id, &answer(watcher).into());
    }
}
