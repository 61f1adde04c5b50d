//! The group itself: what every copy has, the part that this one plays, and the doors through which the OSD comes in.
//!
//! *Data and owner.* [`Pg`] owns the [`Core`] and exactly one [`Role`]. Each call goes to the role, which borrows the
//! core. A role does not know the other ones: where one comes to its end it says so, and [`Pg::settle`] lets the next
//! one take its place. Only this room changes roles.
//!
//! | question | file |
//! |---|---|
//! | which part does this copy play, and when does it change? | `role.rs` |
//! | how does a group come to be, or back from the store? | `load.rs` |
//! | how does it split, take others in, end? | `split.rs`, `unite.rs`, `removal.rs` |
//! | what does it tell about itself? | `map.rs` |
//!
//! *Invariants.* Operations of clients wait here only while no primary serves; a primary that serves has none of them.
//! Between two calls the copy plays a part: [`Role::Between`] is there within a call only.

#[cfg(any(test, feature = "sim"))]
mod invariants;
mod load;
mod map;
mod removal;
mod role;
mod split;
mod unite;

use crate::api::{ClientOp, Ctx, Effect, Gone, LogSize, UnfoundPage, numbered};
use crate::core::Core;
use crate::letter::{Envelope, Letter};
use crate::peering::Peering;
use crate::primary::Primary;
use crate::primary::lanes::{drop_op, refuse};
use crate::primary::reserve::{SlotSide, SlotWishes};
use crate::primary::scrub::{Order, ScrubState};
use crate::primary::unfound::Mercy;
use crate::recorder::{OpKey, Step};
use crate::replica::Replica;
use crate::replica::aside::{is_aside, send_back};
use load::{Loading, Unserved};
use maps::OsdMap;
use messages::osd::OsdOpReply;
use messages::osd::code::backoff_op;
use node::{Level, Mono};
use objectstore::{Event, Hold, Ticket};
use removal::Removal;
use split::Splitting;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use types::{CopyId, Errno, HObject, Message, ObjectId, SessionId, SpgId};
pub use unite::Legacy;
use unite::Uniting;

/// The part that a copy plays.
pub(crate) enum Role {
    /// Its meta keys are being read.
    Loading(Box<Loading>),
    /// This OSD is to lead it, and finds out what its copies hold.
    Peering(Box<Peering>),
    /// This OSD leads it.
    Primary(Box<Primary>),
    /// Another OSD leads it.
    Replica(Box<Replica>),
    /// It gives objects to new siblings.
    Splitting(Box<Splitting>),
    /// It takes other groups in.
    Uniting(Box<Uniting>),
    /// It is to be taken in by another group, and does nothing any more.
    Leaving,
    /// Its objects are being deleted.
    Removing(Box<Removal>),
    /// Nothing is left.
    Removed,
    /// It cannot serve: its own metadata cannot be read, or a split was refused.
    Broken,
    /// An interval is over, and the next one has not begun: within a call only.
    Between,
}

/// A placement group. See the crate's text.
pub struct Pg {
    /// What every copy has.
    core: Core,
    role: Role,
    /// Operations that came before the group was active.
    waiting: VecDeque<ClientOp>,
    /// Sessions that were told to hold back, with the backoff's number.
    backoffs: BTreeMap<SessionId, u64>,
    /// Maps that came while the group was read, split or took others in, oldest first: groups that come out of it had intervals in them.
    passed: Vec<Arc<OsdMap>>,
    /// Letters that came while this copy could not read them.
    deferred: Vec<(CopyId, Envelope, Letter)>,
    /// Its keys could not be read.
    load_failed: bool,
    /// Reason why this program cannot serve a group of such a pool, if it cannot.
    unserved: Option<Unserved>,
    /// A scrub that shall begin, while this copy does not lead.
    ordered: Option<Order>,
    /// Counts reports, so that the newest is known.
    reports: u64,
}

impl Pg {
    fn blank(id: SpgId, role: Role) -> Self {
        Self {
            core: Core::new(id),
            role,
            waiting: VecDeque::new(),
            backoffs: BTreeMap::new(),
            passed: Vec::new(),
            deferred: Vec::new(),
            load_failed: false,
            unserved: None,
            ordered: None,
            reports: 0,
        }
    }

    /// The primary, once its copies have agreed.
    fn primary(&self) -> Option<&Primary> {
        match &self.role {
            Role::Primary(primary) => Some(primary),
            _ => None,
        }
    }

    /// The primary, or the one that peering makes.
    fn leading(&self) -> Option<&Primary> {
        match &self.role {
            Role::Primary(primary) => Some(primary),
            Role::Peering(peering) => Some(&peering.primary),
            _ => None,
        }
    }

    fn leading_mut(&mut self) -> Option<(&mut Primary, &mut Core)> {
        match &mut self.role {
            Role::Primary(primary) => Some((primary, &mut self.core)),
            Role::Peering(peering) => Some((&mut peering.primary, &mut self.core)),
            _ => None,
        }
    }

    /// Lets the primary, or the one that peering makes, do something, and ends the call. `None`: there is none.
    fn lead<T>(&mut self, ctx: &mut Ctx<'_>, call: impl FnOnce(&mut Primary, &mut Core, &mut Ctx<'_>) -> T) -> Option<T> {
        let (primary, core) = self.leading_mut()?;
        let done = call(primary, core, ctx);
        primary.settle(core, ctx);
        Some(done)
    }

    /// Returns which group.
    pub fn id(&self) -> SpgId {
        self.core.id
    }

    /// Returns true if the group's keys could not be read when it was loaded: [`Pg::reload`] may succeed.
    pub fn load_failed(&self) -> bool {
        self.load_failed && matches!(self.role, Role::Broken)
    }

    /// Returns true if operations are carried out now, not only collected.
    pub fn is_active(&self) -> bool {
        self.primary().is_some_and(Primary::is_active)
    }

    /// Returns true if the copy does what it is here for: it serves, or follows who does.
    pub fn is_settled(&self) -> bool {
        matches!(self.role, Role::Primary(_) | Role::Replica(_))
    }

    /// Returns true if the group that has this number comes out of this one, which is splitting or will.
    pub fn will_split_into(&self, seed: u32) -> bool {
        match &self.role {
            Role::Splitting(split) => split.makes(self.core.id.pg.seed, seed),
            // It is not known yet whether it must.
            Role::Loading(_) | Role::Uniting(_) => descends(seed, self.core.id.pg.seed),
            _ => false,
        }
    }

    /// Returns true if the group's keys cannot be read or written, and the group that has this number may be in it still: no split has
    /// brought that out, as far as is known.
    pub fn may_hide(&self, seed: u32) -> bool {
        matches!(self.role, Role::Broken) && seed >= self.core.history.pg_num && descends(seed, self.core.id.pg.seed)
    }

    /// Returns how much of its log the group has in memory.
    pub fn log_size(&self) -> LogSize {
        LogSize { entries: self.core.log.len(), dups: self.core.log.dups(), bytes: self.core.log.bytes() }
    }

    /// Returns true if nothing of the group is left.
    pub fn is_removed(&self) -> bool {
        matches!(self.role, Role::Removed)
    }

    /// Takes an operation of a client. Its answer comes as [`Effect::Reply`], perhaps at once.
    pub fn handle_op(&mut self, ctx: &mut Ctx<'_>, op: ClientOp) {
        match &mut self.role {
            Role::Primary(primary) if primary.is_active() => {
                primary.admit(&mut self.core, ctx, op);
                primary.settle(&mut self.core, ctx);
            }
            Role::Primary(_) | Role::Loading(_) | Role::Splitting(_) | Role::Uniting(_) | Role::Peering(_) => {
                self.postpone(ctx, op);
            }
            Role::Broken if is_aside(&op.op) && !self.core.leads_by_map(ctx) => send_back(ctx, &op),
            Role::Broken => refuse(ctx, &op, Errno::EIO.wire()),
            Role::Replica(replica) if is_aside(&op.op) => replica.read_aside(&mut self.core, ctx, op),
            Role::Leaving | Role::Removing(_) | Role::Removed if is_aside(&op.op) => send_back(ctx, &op),
            // The client learns from a map where to go.
            Role::Replica(_) | Role::Leaving | Role::Removing(_) | Role::Removed | Role::Between => drop_op(ctx, &op),
        }
    }

    /// Keeps an operation until the group is active; if too many wait, the client is asked to hold back.
    fn postpone(&mut self, ctx: &mut Ctx<'_>, op: ClientOp) {
        if self.backoffs.contains_key(&op.session) {
            return drop_op(ctx, &op);
        }
        if self.waiting.len() < ctx.config.max_waiting {
            return self.wait_for_active(ctx, op);
        }
        // It comes again when the backoff ends.
        drop_op(ctx, &op);
        self.core.holds += 1;
        let id = numbered(ctx.slot, self.core.holds);
        self.backoffs.insert(op.session, id);
        let message = self.backoff(ctx, backoff_op::BLOCK, id);
        ctx.out.push(Effect::Send { session: op.session, message });
    }

    /// Keeps an operation until the group is active.
    pub(crate) fn wait_for_active(&mut self, ctx: &mut Ctx<'_>, op: ClientOp) {
        ctx.recorder.step(op.key, ctx.now.mono, Step::WaitsForActive);
        self.waiting.push_back(op);
    }

    pub(crate) fn backoff(&self, ctx: &Ctx<'_>, op: u8, id: u64) -> Message {
        let pg_num = ctx.map.pools.get(&self.core.id.pg.pool).map_or(1, |pool| pool.pg_num);
        // One that is gone by the map lets go what it held back.
        let pg_num = if self.core.id.pg.seed < pg_num { pg_num } else { self.core.history.pg_num };
        let (begin, end) = crate::object::bounds(self.core.id.pg.pool, self.core.id.pg.seed, pg_num);
        messages::osd::Backoff { pg: self.core.id, epoch: ctx.map.epoch, op, id, begin, end }.encode()
    }

    /// The copies have agreed: what waited goes in.
    fn activate(&mut self, ctx: &mut Ctx<'_>) {
        let Role::Peering(peering) = std::mem::replace(&mut self.role, Role::Between) else { return };
        let mut primary = peering.primary;
        primary.begin(&mut self.core, ctx);
        primary.settle(&mut self.core, ctx);
        let serves = primary.is_active();
        self.role = Role::Primary(primary);
        if serves {
            self.end_waiting(ctx);
        }
    }

    /// What waited for the group to be read goes in, and sessions that were told to hold back may go on.
    pub(crate) fn end_waiting(&mut self, ctx: &mut Ctx<'_>) {
        self.end_backoffs(ctx);
        for op in std::mem::take(&mut self.waiting) {
            self.handle_op(ctx, op);
        }
    }

    /// Lets sessions that were told to hold back go on.
    fn end_backoffs(&mut self, ctx: &mut Ctx<'_>) {
        for (session, id) in std::mem::take(&mut self.backoffs) {
            let message = self.backoff(ctx, backoff_op::UNBLOCK, id);
            ctx.out.push(Effect::Send { session, message });
        }
    }

    /// Takes an event of the store whose hold or ticket carries this group's slot.
    pub fn store_event(&mut self, ctx: &mut Ctx<'_>, event: Event) {
        match event {
            Event::Committed(ticket) => self.committed(ctx, ticket),
            Event::Damaged(ticket, objects) => self.meet_damage(ctx, ticket, objects),
            Event::Rotten(object) => self.meet_rot(ctx, &object),
            Event::Fetched(hold) => self.store_fetched(ctx, hold),
        }
        self.step(ctx);
    }

    fn committed(&mut self, ctx: &mut Ctx<'_>, ticket: Ticket) {
        if !self.core.committed(ctx, ticket) {
            return;
        }
        match &mut self.role {
            Role::Primary(primary) => primary.committed(ctx, ticket),
            Role::Peering(peering) => peering.primary.committed(ctx, ticket),
            Role::Replica(replica) => replica.committed(&mut self.core, ctx, ticket),
            _ => {}
        }
    }

    /// The store carried a change out and needed old data that are damaged.
    fn meet_damage(&mut self, ctx: &mut Ctx<'_>, ticket: Ticket, objects: Vec<ObjectId>) {
        #[cfg(feature = "sim")]
        if self.core.mistake == Some(crate::selfcheck::Mistake::IgnoreDamage) {
            return;
        }
        let pool = self.core.id.pg.pool;
        let names = objects.into_iter().map(|object| HObject::clone(&object.object)).filter(|object| object.pool == pool);
        let objects: Vec<HObject> = names.collect();
        match &mut self.role {
            Role::Replica(replica) => replica.meet_damage(&mut self.core, ctx, ticket, objects),
            Role::Primary(primary) => primary.meet_damage(&mut self.core, ctx, objects),
            _ => objects.iter().for_each(|object| self.core.report_change_on_damage(ctx, object)),
        }
    }

    /// The store found damage in an object that nobody asked for: it comes from another copy if there is one, as after a read that met it.
    fn meet_rot(&mut self, ctx: &mut Ctx<'_>, object: &ObjectId) {
        #[cfg(feature = "sim")]
        if self.core.mistake == Some(crate::selfcheck::Mistake::IgnoreDamage) {
            return;
        }
        let name = HObject::clone(&object.object);
        if object.generation != types::object_id::CURRENT || self.core.missing.contains_key(&name) {
            // It comes anyway, or nobody needs it.
            return;
        }
        self.core.report_rot(ctx, &name);
        match &mut self.role {
            // A shard of which a block is rotten still has the others: it is made anew when somebody reads that block.
            Role::Replica(replica) if self.core.scheme.is_whole() => replica.have_mended(&mut self.core, ctx, name),
            Role::Primary(primary) if primary.is_mendable(&self.core, ctx.now.mono, &name) => {
                primary.mend(&mut self.core, ctx, name);
            }
            _ => {}
        }
    }

    fn store_fetched(&mut self, ctx: &mut Ctx<'_>, hold: Hold) {
        match &mut self.role {
            Role::Loading(loading) if loading.hold == hold => self.step_load(ctx),
            Role::Peering(peering) => _ = peering.primary.resume(&mut self.core, ctx, hold),
            Role::Primary(primary) => primary.store_fetched(&mut self.core, ctx, hold),
            Role::Replica(replica) => replica.fetched(&mut self.core, ctx, hold),
            _ => {}
        }
        self.settle(ctx);
    }

    /// Moves on what depends on other work being done.
    fn step(&mut self, ctx: &mut Ctx<'_>) {
        match &mut self.role {
            Role::Splitting(_) => self.step_split(ctx),
            Role::Uniting(_) => self.step_union(ctx),
            Role::Leaving => self.step_leaving(ctx),
            Role::Removing(_) => self.step_removal(ctx),
            Role::Peering(peering) => peering.step(&mut self.core, ctx),
            Role::Replica(replica) => replica.step(&mut self.core, ctx),
            _ => {}
        }
        self.settle(ctx);
    }

    /// The session is gone: nothing of it is begun any more, its watches wait for it to come back.
    pub fn session_closed(&mut self, ctx: &mut Ctx<'_>, session: SessionId) {
        let now = ctx.now.mono;
        let mut stays = |op: &ClientOp| {
            let stays = op.session != session;
            if !stays {
                ctx.out.push(Effect::Dropped { op: op.key, session, tid: op.tid });
            }
            stays
        };
        self.waiting.retain(&mut stays);
        self.backoffs.remove(&session);
        if let Some((primary, _)) = self.leading_mut() {
            primary.session_closed(now, session, stays);
        }
    }

    /// Meets deadlines and takes a step of background work. Call it at the latest at [`Pg::deadline`].
    pub fn turn(&mut self, ctx: &mut Ctx<'_>) {
        match &mut self.role {
            Role::Primary(primary) => primary.turn(&mut self.core, ctx),
            Role::Peering(peering) => peering.turn(&mut self.core, ctx),
            Role::Replica(replica) => replica.turn(&mut self.core, ctx),
            _ => return self.step(ctx),
        }
        self.settle(ctx);
    }

    /// Returns when [`Pg::turn`] must be called at the latest.
    pub fn deadline(&self) -> Mono {
        match &self.role {
            Role::Primary(primary) => primary.deadline(primary.is_active() || self.watches_in_vain()),
            Role::Peering(peering) => peering.deadline(),
            Role::Replica(replica) => replica.deadline(),
            Role::Removing(removal) => removal.deadline(),
            Role::Uniting(uniting) => uniting.deadline(),
            _ => Mono::NEVER,
        }
    }

    /// A mistake to be found: a primary that does not serve wants to be woken for what it does not look at.
    fn watches_in_vain(&self) -> bool {
        #[cfg(feature = "sim")]
        if self.core.mistake == Some(crate::selfcheck::Mistake::WatchInVain) {
            return true;
        }
        false
    }

    /// The operations of clients that the group keeps, as the OSD names them, in no order: each until it was answered
    /// or dropped.
    pub fn ops(&self) -> Vec<OpKey> {
        let led = self.leading().into_iter().flat_map(Primary::ops);
        let aside = match &self.role {
            Role::Replica(replica) => Some(replica.aside.reads.values()),
            _ => None,
        };
        let aside = aside.into_iter().flatten().filter_map(|job| job.work.op());
        self.waiting.iter().chain(led).chain(aside).map(|op| op.key).collect()
    }

    /// An operator wants the group to recover (or to backfill) before others, or in its turn again. It holds for this
    /// interval.
    pub fn force(&mut self, ctx: &mut Ctx<'_>, backfill: bool, first: bool) {
        self.lead(ctx, |primary, _, _| primary.force(backfill, first));
    }

    /// Objects on their way to copies, or here, beside those that clients wait for.
    pub fn moving(&self) -> usize {
        self.leading().map_or(0, Primary::moving)
    }

    /// Returns true if it would have begun with more objects if it might.
    pub fn is_held_back(&self) -> bool {
        self.leading().is_some_and(Primary::is_held_back)
    }

    /// There is room again.
    pub fn go_on_moving(&mut self, ctx: &mut Ctx<'_>) {
        self.lead(ctx, Primary::go_on_moving);
    }

    /// Other OSDs answered heartbeats: reads that waited for that go on.
    pub fn leases_renewed(&mut self, ctx: &mut Ctx<'_>) {
        self.lead(ctx, Primary::leases_renewed);
    }

    /// Takes the reply to [`Effect::Fetch`], or why there is none.
    pub fn fetched(&mut self, ctx: &mut Ctx<'_>, id: u64, result: Result<OsdOpReply, Errno>) {
        self.lead(ctx, |primary, core, ctx| primary.fetched(core, ctx, id, result));
    }

    /// Gives up what is unfound.
    pub fn mark_unfound_lost(&mut self, ctx: &mut Ctx<'_>, mercy: Mercy) -> Gone {
        if !self.core.scheme.is_whole() {
            return Gone::NotBuilt;
        }
        self.lead(ctx, |primary, core, ctx| primary.mark_unfound_lost(core, ctx, mercy)).unwrap_or(Gone::NotActive)
    }

    /// Returns what is missing, unfound, and where it may be, as `list_unfound` shows it: so many objects behind the
    /// given one.
    pub fn list_unfound(&self, ctx: &Ctx<'_>, after: Option<&HObject>, most: usize) -> UnfoundPage {
        match self.leading() {
            Some(primary) => primary.list_unfound(&self.core, ctx, after, most),
            None => UnfoundPage { missing: self.core.missing.len(), ..UnfoundPage::default() },
        }
    }

    /// Returns what decides when the group is scrubbed next; `None` unless it is served from here.
    pub fn scrub_state(&self) -> Option<ScrubState> {
        self.primary().filter(|_| self.core.scheme.is_whole())?.scrub_state(&self.core)
    }

    /// Returns why the group cannot be scrubbed, if it cannot.
    pub fn why_no_scrub(&self) -> Option<&'static str> {
        (!self.core.scheme.is_whole()).then_some("scrubs of erasure-coded pools are not built yet")
    }

    /// Orders a scrub; a deep one reads all data. It begins when none is under way and this copy lacks nothing.
    pub fn start_scrub(&mut self, ctx: &mut Ctx<'_>, deep: bool) {
        self.order_scrub(ctx, Order::scrub(deep));
    }

    /// Orders a deep scrub that mends what it finds.
    pub fn start_repair(&mut self, ctx: &mut Ctx<'_>) {
        self.order_scrub(ctx, Order::repair());
    }

    fn order_scrub(&mut self, ctx: &mut Ctx<'_>, order: Order) {
        if let Some(why) = self.why_no_scrub() {
            return self.core.log_line(ctx, Level::Warn, format!("is not scrubbed: {why}"));
        }
        if self.lead(ctx, |primary, core, ctx| primary.order_scrub(core, ctx, order)).is_none() {
            self.ordered = Some(order.beside(self.ordered));
        }
    }

    /// Returns what slots of this OSD the group has or waits for.
    pub fn slot_wishes(&self) -> SlotWishes {
        match &self.role {
            Role::Primary(primary) => SlotWishes { local: primary.reserve.wish(), remote: None },
            Role::Replica(replica) => SlotWishes { local: None, remote: replica.lent.map(|lent| lent.wish()) },
            _ => SlotWishes::default(),
        }
    }

    /// The OSD gave a slot to the group, or took it away.
    pub fn slot_changed(&mut self, ctx: &mut Ctx<'_>, side: SlotSide, granted: bool) {
        match (side, &mut self.role) {
            (SlotSide::Local, Role::Primary(primary)) => primary.slot_changed(&self.core, ctx, granted),
            (SlotSide::Remote, Role::Replica(replica)) => replica.slot_changed(&self.core, ctx, granted),
            _ => {}
        }
        self.settle(ctx);
    }
}

/// Returns true if group `seed` can come out of group `from` of the same pool by splitting, in one step or several.
pub fn descends(mut seed: u32, from: u32) -> bool {
    while seed > from {
        seed &= !(1 << seed.ilog2());
        if seed == from {
            return true;
        }
    }
    false
}
