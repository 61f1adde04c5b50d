//! Where heartbeats renew the read leases of groups. What leases are for and why they are safe is told in
//! `cores/pg/src/lease.rs`.
//!
//! *What a later life must know.* An OSD that starts tells of its former life as if that had promised in its last
//! moment, and for as long as it ever did. So the length of the longest promise is in the store before a promise of
//! that length is made: until it is durable, whoever asks for more gets what is written down. A store of an older
//! program says nothing: the longest that there is is assumed. When the promises of the former life are over, the
//! length goes down to what was asked for in this one.

use crate::maps::OSD_SCOPE;
use crate::{Options, Osd};
use bytes::Bytes;
use messages::internal::Beat;
use node::{Mono, Now};
use objectstore::{Hold, MetaChange, Read, Ticket, Transaction, View};
use std::time::Duration;

/// The length of the longest promise, in milliseconds, 4 bytes, big-endian.
const PROMISED: &[u8] = b"promised";

/// Promises, and whether reads wait for some.
#[derive(Debug)]
pub(crate) struct Leases {
    pub(crate) promises: pg::Leases,
    /// Some group's reads wait.
    wanted: bool,
    /// No longer promise is made: the store has this length, or a greater one.
    most: Duration,
    /// The length that is being written, and its transaction.
    writing: Option<(Ticket, Duration)>,
    /// The longest that was asked for in this life.
    asked: Duration,
    /// Time when the promises of the former life are over.
    former: Mono,
    /// A mistake to be found: what a former life promised is not known.
    #[cfg(feature = "sim")]
    pub(crate) forgets: bool,
}

impl Default for Leases {
    fn default() -> Self {
        let most = pg::Leases::LEAST;
        Self {
            promises: pg::Leases::default(),
            wanted: false,
            most,
            writing: None,
            asked: most,
            former: Mono::NEVER,
            #[cfg(feature = "sim")]
            forgets: false,
        }
    }
}

impl Leases {
    /// Some group's reads wait for promises.
    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }
}

impl Options {
    /// Returns how long this OSD wants others to promise: some of its heartbeats may be lost meanwhile.
    pub(crate) fn lease(&self) -> Duration {
        self.beat_interval * 4
    }
}

/// Reads how long the former life promised at most; `None`: the store was written by a program that did not say.
pub(crate) fn promised(store: &dyn View, hold: Hold) -> Read<Option<Duration>> {
    let bytes = store.meta_get(hold, &OSD_SCOPE, PROMISED)?;
    let millis = bytes.and_then(|bytes| bytes[..].try_into().ok()).map(u32::from_be_bytes);
    Ok(millis.map(|millis| Duration::from_millis(millis.into())))
}

/// Writes the length of the longest promise down.
pub(crate) fn note_promised(length: Duration) -> MetaChange {
    let millis = u32::try_from(length.as_millis()).unwrap_or(u32::MAX);
    MetaChange::Set(Bytes::from_static(PROMISED), Bytes::copy_from_slice(&millis.to_be_bytes()))
}

impl Osd {
    /// This OSD begins to live. `former`: what its former life promised at most, as the store has it.
    pub(crate) fn begin_leases(&mut self, now: Mono, former: Option<Duration>) {
        #[cfg(feature = "sim")]
        let former = if self.leases.forgets { Some(pg::Leases::LEAST) } else { former };
        let former = former.unwrap_or(pg::Leases::MOST).clamp(pg::Leases::LEAST, pg::Leases::MOST);
        self.leases.promises.begin(now, former);
        (self.leases.most, self.leases.former) = (former, now.plus(former));
    }

    /// Promises what a heartbeat asks for, as far as the store knows of promises of that length, and gives the answer
    /// to it.
    pub(crate) fn promise(&mut self, now: Now, beat: &Beat) -> Beat {
        let wanted = Duration::from_millis(beat.lease.into()).clamp(pg::Leases::LEAST, pg::Leases::MOST);
        self.leases.asked = self.leases.asked.max(wanted);
        self.write_promised(now.mono);
        let length = wanted.min(self.leases.most);
        self.leases.promises.promise(now.mono, beat.osd, length);
        let lease = u32::try_from(length.as_millis()).unwrap_or(u32::MAX);
        Beat { osd: self.config.whoami, epoch: self.maps.epoch(), answer: true, lease, ..beat.clone() }
    }

    /// Lets the store know of longer promises before they are made, and forget longer ones when they are over.
    fn write_promised(&mut self, now: Mono) {
        let (asked, most) = (self.leases.asked, self.leases.most);
        let falls = asked < most && now >= self.leases.former;
        if self.leases.writing.is_some() || !(asked > most || falls) {
            return;
        }
        let ticket = Ticket(self.next_id());
        let transaction = Transaction { scope: OSD_SCOPE, meta: vec![note_promised(asked)], ..Transaction::default() };
        if self.store.submit(transaction, ticket).is_ok() {
            self.leases.writing = Some((ticket, asked));
            self.leases.most = most.min(asked);
        }
    }

    /// A transaction of the OSD itself is durable.
    pub(crate) fn promised_written(&mut self, ticket: Ticket) {
        if let Some((_, length)) = self.leases.writing.take_if(|(writing, _)| *writing == ticket) {
            self.leases.most = length;
        }
    }

    /// Another OSD answered a heartbeat of this one.
    pub(crate) fn promise_arrived(&mut self, now: Now, beat: &Beat) {
        let length = Duration::from_millis(beat.lease.into());
        self.leases.promises.promised(beat.osd, Mono(beat.stamp), length, beat.epoch, self.maps.epoch());
        self.end_laggy(now);
    }

    /// All groups have heard of the newest map: promises that were made with it count.
    pub(crate) fn leases_follow(&mut self, now: Now) {
        self.leases.promises.follow(self.maps.current());
        self.end_laggy(now);
    }

    /// Reads that waited for promises are tried again.
    fn end_laggy(&mut self, now: Now) {
        if std::mem::take(&mut self.leases.wanted) {
            let (groups, mut world) = self.world(now);
            groups.call_all(&mut world, |pg, ctx| pg.leases_renewed(ctx));
        }
    }
}
