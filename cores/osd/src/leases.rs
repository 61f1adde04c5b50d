//! Where heartbeats renew the read leases of groups. What leases are for and why they are safe is told in `cores/pg/src/lease.rs`.

use crate::{Options, Osd};
use messages::internal::Beat;
use node::{Mono, Now};
use std::time::Duration;

/// Promises, and whether reads wait for some.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    pub(crate) promises: pg::Leases,
    /// Some group's reads wait.
    wanted: bool,
}

impl Leases {
    /// Some group's reads wait for promises.
    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }
}

impl Options {
    /// How long this OSD wants others to promise: some of its heartbeats may be lost meanwhile.
    pub(crate) fn lease(&self) -> Duration {
        self.beat_interval * 4
    }
}

impl Osd {
    /// This OSD begins to live.
    pub(crate) fn begin_leases(&mut self, now: Mono) {
        self.leases.promises.begin(now, self.options.lease());
    }

    /// Promises what a heartbeat asks for, and gives the answer to it.
    pub(crate) fn promise(&mut self, now: Now, beat: &Beat) -> Beat {
        self.leases.promises.promise(now.mono, beat.osd, Duration::from_millis(beat.lease.into()));
        Beat { osd: self.config.whoami, epoch: self.maps.epoch(), answer: true, ..beat.clone() }
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
