//! Which part this copy plays: it leads, follows, or is not needed any more.
//!
//! Every copy notes every interval, whatever it does. When one ends, all that belonged to it ends: operations that are not answered
//! are dropped (their clients send them again with the new map), streams to other copies too. What was submitted becomes durable; a
//! copy says nothing of itself before that.
//!
//! A letter is read only by who was in the same interval when it was written: the times for which sender and receiver know their
//! interval to last must meet. Intervals part the time, so two that meet are one.

use super::load::{learn_late, try_scheme};
use super::split::write_down;
use super::{Pg, Role};
use crate::api::{ClientOp, Ctx, Effect};
use crate::letter::{Envelope, Letter, Sealed};
use crate::peering::{Outcome, Peering};
use crate::primary::Primary;
use crate::primary::lanes::drop_op;
use node::{Level, Mono};
use types::{CopyId, OsdId};

/// Letters that are kept while a copy cannot read them. Who wrote them asks again.
const DEFERRED: usize = 64;

impl Pg {
    /// Takes the map in `ctx`: another interval, more groups, removed snapshots, fenced clients.
    pub fn new_map(&mut self, ctx: &mut Ctx<'_>) {
        self.core.epoch = ctx.map.epoch;
        if !ctx.map.pools.contains_key(&self.core.id.pg.pool) {
            return;
        }
        if !learn_late(self, ctx) {
            return;
        }
        match &mut self.role {
            Role::Removing(_) | Role::Removed => return,
            Role::Loading(loading) => return loading.maps.push(ctx.map.clone()),
            Role::Splitting(split) => {
                let records = split.note(ctx.map);
                self.passed.push(ctx.map.clone());
                self.core.note_interval(ctx);
                return write_down(self, ctx, records);
            }
            Role::Uniting(_) | Role::Leaving => {
                self.passed.push(ctx.map.clone());
                self.core.note_interval(ctx);
                return;
            }
            Role::Broken => {
                if self.core.history.created > 0 {
                    self.core.note_interval(ctx);
                }
                return try_scheme(self, ctx);
            }
            Role::Peering(_) | Role::Primary(_) | Role::Replica(_) | Role::Between => {}
        }
        let fresh = self.core.note_interval(ctx);
        if fresh {
            self.stop_serving(ctx);
        }
        if self.change_share(ctx) {
            return;
        }
        if fresh { self.take_role(ctx) } else { self.go_on(ctx) }
    }

    /// The interval goes on with another map.
    fn go_on(&mut self, ctx: &mut Ctx<'_>) {
        match &mut self.role {
            Role::Primary(primary) => primary.new_map(&mut self.core, ctx),
            Role::Peering(peering) => peering.new_map(&mut self.core, ctx),
            _ => {}
        }
        self.settle(ctx);
    }

    /// Begins an interval.
    pub(crate) fn take_role(&mut self, ctx: &mut Ctx<'_>) {
        let ordered = self.ordered.take();
        self.passed.clear();
        if self.core.leads(ctx) {
            let mut peering = Box::new(Peering::begin(&self.core, ctx, ordered));
            peering.step(&mut self.core, ctx);
            self.role = Role::Peering(peering);
            self.settle(ctx);
        } else if self.core.history.created == 0 {
            // Nothing of it is here, and another OSD looks for it now.
            self.role = Role::Removed;
            ctx.out.push(Effect::Removed);
        } else {
            self.role = Role::Replica(Box::default());
            // What waited for the copy to be read.
            self.end_waiting(ctx);
            if !self.core.is_member(self.core.me(ctx))
                && let Role::Replica(replica) = &mut self.role
            {
                replica.show_up(&mut self.core, ctx);
            }
        }
        for (from, envelope, letter) in std::mem::take(&mut self.deferred) {
            // None of them is a body, of which alone the time counts.
            self.read(ctx, from, envelope, ctx.now.mono, letter);
        }
    }

    /// Ends a call: does what a primary has left to be done, and lets the next role take the place of one that has
    /// come to its end.
    pub(crate) fn settle(&mut self, ctx: &mut Ctx<'_>) {
        match &mut self.role {
            Role::Primary(primary) => primary.settle(&mut self.core, ctx),
            Role::Peering(peering) => match peering.outcome.take() {
                None => peering.primary.settle(&mut self.core, ctx),
                Some(Outcome::Agreed) => self.activate(ctx),
                Some(Outcome::Broken) => self.role = Role::Broken,
                Some(Outcome::Unreadable(damage)) => self.broken(ctx, &damage),
            },
            Role::Replica(replica) if replica.broken => self.role = Role::Broken,
            _ => {}
        }
    }

    /// Ends all that belonged to the interval that is over. Clients send again what they sent to another primary, and only that: if this
    /// OSD leads the group on, it keeps their operations and begins them anew. What was done already is found in the log then.
    pub(crate) fn stop_serving(&mut self, ctx: &mut Ctx<'_>) {
        let mut kept: Vec<ClientOp> = Vec::new();
        match std::mem::replace(&mut self.role, Role::Between) {
            Role::Primary(primary) => kept = self.end_primary(ctx, *primary),
            Role::Peering(mut peering) => {
                peering.end(ctx);
                kept = self.end_primary(ctx, *peering.primary);
            }
            Role::Replica(mut replica) => replica.end(&mut self.core, ctx),
            other => self.role = other,
        }
        self.end_backoffs(ctx);
        kept.extend(std::mem::take(&mut self.waiting));
        // In the order of arrival: so what one client asked stays in its order.
        kept.sort_by_key(|op| (op.received, op.tid));
        let keeps = self.core.leads(ctx) && !matches!(self.role, Role::Removing(_));
        self.core.forget_collected(ctx);
        for op in kept {
            if keeps { self.wait_for_active(ctx, op) } else { drop_op(ctx, &op) }
        }
    }

    /// Gives up what was begun. Gives the clients' operations in it.
    fn end_primary(&mut self, ctx: &mut Ctx<'_>, primary: Primary) -> Vec<ClientOp> {
        let (ops, ordered) = primary.end(ctx);
        self.ordered = ordered;
        ops
    }

    /// Takes a letter of the copy on another OSD. This OSD has the map that its envelope names.
    ///
    /// `arrived`: when it was here, which is earlier than now if it waited for a map.
    ///
    /// # Errors
    /// It does not decode; nothing was changed.
    pub fn letter(&mut self, ctx: &mut Ctx<'_>, from: OsdId, arrived: Mono, letter: &Sealed) -> denc::Result<()> {
        let (envelope, letter) = Letter::open(letter)?;
        let from = CopyId { osd: from, shard: envelope.from };
        if matches!(self.role, Role::Loading(_) | Role::Splitting(_) | Role::Uniting(_)) {
            // Changes are sent again until they are promised.
            if self.deferred.len() < DEFERRED && !matches!(letter, Letter::Body(..)) {
                self.deferred.push((from, envelope, letter));
            }
        } else {
            self.read(ctx, from, envelope, arrived, letter);
        }
        Ok(())
    }

    fn read(&mut self, ctx: &mut Ctx<'_>, from: CopyId, envelope: Envelope, arrived: Mono, letter: Letter) {
        if self.core.is_of_another_interval(envelope) {
            return;
        }
        match letter {
            Letter::Query
            | Letter::LogWish(_)
            | Letter::Activate(_)
            | Letter::Body(..)
            | Letter::Pull(..)
            | Letter::PullPart(..)
            | Letter::Scan(..)
            | Letter::Survey(_)
            | Letter::Spoilt(_)
            | Letter::Seek(_)
            | Letter::Reserve(..)
            | Letter::Release(_)
            | Letter::Settled(_)
            | Letter::ReadShard(_)
            | Letter::Remove => {
                let primary = self.core.primary();
                if from == primary && from != self.core.me(ctx) {
                    self.follow(ctx, from, arrived, letter);
                } else {
                    let text = format!("osd.{from} sent a letter that only the primary, osd.{primary}, sends");
                    self.core.log_line(ctx, Level::Warn, text);
                }
            }
            _ if self.core.leads(ctx) => self.hear(ctx, from, letter),
            _ => {}
        }
    }

    /// Takes what only a primary says.
    fn follow(&mut self, ctx: &mut Ctx<'_>, from: CopyId, arrived: Mono, letter: Letter) {
        match (&mut self.role, letter) {
            (_, Letter::Remove) if !self.core.is_member(self.core.me(ctx)) => {
                let text = format!("osd.{from} says that the group is clean without this copy: it is removed");
                self.core.log_line(ctx, Level::Info, text);
                self.remove(ctx);
            }
            (Role::Replica(replica), letter) => replica.hear(&mut self.core, ctx, from, arrived, letter),
            // It holds something, whatever that is.
            (Role::Broken, Letter::Query | Letter::Seek(_)) => self.core.tell(ctx, from, &Letter::Unable),
            _ => {}
        }
        self.settle(ctx);
    }

    /// Takes what is said to a primary.
    fn hear(&mut self, ctx: &mut Ctx<'_>, from: CopyId, letter: Letter) {
        match &mut self.role {
            Role::Primary(primary) => primary.hear(&mut self.core, ctx, from, letter),
            Role::Peering(peering) => peering.hear(&mut self.core, ctx, from, letter),
            _ => {}
        }
        self.settle(ctx);
    }

    /// The session to another OSD was broken and stands again, or may be tried again: what is not answered is said again.
    pub fn peer_returns(&mut self, ctx: &mut Ctx<'_>, osd: OsdId) {
        for copy in self.core.copies_on(osd) {
            match &mut self.role {
                Role::Peering(peering) => peering.peer_returns(&self.core, ctx, copy),
                Role::Primary(primary) => primary.peer_returns(&mut self.core, ctx, copy),
                Role::Replica(replica) if self.core.primary() == copy => replica.peer_returns(&mut self.core, ctx, copy),
                _ => {}
            }
        }
        self.settle(ctx);
    }
}
