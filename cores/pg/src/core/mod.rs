//! What every copy of a group has, whatever part it plays, and what it does with that alone.
//!
//! *Data.* Identity, records and log of the group ([`Info`], [`History`], [`Log`]), what is missing here
//! ([`Missing`]), what lies collected, and the transactions that are under way to the store.
//!
//! *Owner.* [`Core`] belongs to [`crate::Pg`] for as long as the copy exists; no interval ends it. It knows no other
//! copy, no client and no operation: the part that the copy plays (a primary, a replica, ...) borrows it, and keeps
//! for itself what waits for a transaction.
//!
//! | question | file |
//! |---|---|
//! | who am I, what do the records say, who leads? | here |
//! | how does a change become a transaction? | `apply.rs` |
//! | how is another log taken up? | `log_merge.rs` |
//! | what is kept to undo a change? | `kept.rs` |
//! | what does this copy have? | `read.rs` |
//!
//! *Invariants.*
//!
//! - Only [`Core::apply`], the merge of logs, and what a split or a merge of groups writes change the records; all of
//!   it goes through [`Core::submit_unlogged`] or [`Core::apply`] as one transaction each.
//! - The memory follows the store's *submitted* state: it changes when the store has taken a transaction, not before,
//!   and nothing is changed if the store refuses.
//! - A scope's transactions become durable in the order in which they were submitted. [`Core::committed`] asserts it;
//!   so "this ticket is durable" is one comparison ([`Core::is_durable`]).

pub(crate) mod apply;
#[cfg(any(test, feature = "sim"))]
mod invariants;
pub(crate) mod kept;
pub(crate) mod log_merge;
pub(crate) mod read;

use crate::api::{ClusterLevel, Ctx, Effect, numbered};
use crate::core::kept::Kept;
use crate::history::{History, Prior, Told};
use crate::lease::readers;
use crate::letter::{Envelope, Letter, PeerInfo, Sealed};
use crate::log::Log;
use crate::meta::{self, Info};
use crate::missing::Missing;
use crate::object::bounds;
use crate::object::staging_pool;
use crate::scheme::Scheme;
use bytes::Bytes;
use maps::Interval;
use node::{Level, LogLine};
use objectstore::{Damage, Hold, MetaChange, Refused, Ticket};
use std::collections::{BTreeSet, VecDeque};
use types::object_id::CURRENT;
use types::{CopyId, EVersion, HObject, ObjectId, OsdId, SpgId};

/// A transaction that the store has taken and that is not durable here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit {
    pub(crate) ticket: Ticket,
    /// The first of the log's entries in it; `None` if it has none.
    pub(crate) first: Option<EVersion>,
    /// The group's version with it.
    pub(crate) version: EVersion,
}

/// State that every copy has. See the module's text.
pub(crate) struct Core {
    pub(crate) id: SpgId,
    /// Scheme by which the pool keeps objects. A pool never changes that.
    pub(crate) scheme: Scheme,
    pub(crate) info: Info,
    pub(crate) history: History,
    pub(crate) log: Log,
    /// Pages of duplicates in the store: version of the first record of each.
    pub(crate) pages: VecDeque<u64>,
    /// Number of the last hold and fetch.
    pub(crate) holds: u64,
    /// Number of the last ticket.
    pub(crate) tickets: u64,
    /// Objects that the log names and that this copy lacks.
    pub(crate) missing: Missing,
    /// In a group of shards: what is kept of objects to undo changes.
    pub(crate) kept: Kept,
    /// Objects that lie collected in the store, of objects that come in several bodies.
    pub(crate) collected: BTreeSet<ObjectId>,
    /// Transactions of this group that are not durable, oldest first.
    pub(crate) commits: VecDeque<Commit>,
    /// Transactions that nobody waits for in order: those of other groups' scopes.
    pub(crate) loose: BTreeSet<Ticket>,
    /// Epoch of the newest map that the copy was given.
    pub(crate) epoch: u32,
    /// A scrub ended since the group was loaded.
    pub(crate) scrubbed: bool,
    /// Copies of objects that were mended since the group was loaded.
    pub(crate) repaired: i64,
    /// To be found by the simulator.
    #[cfg(feature = "sim")]
    pub(crate) mistake: Option<crate::selfcheck::Mistake>,
}

impl Core {
    /// A copy that knows nothing yet.
    pub(crate) fn new(id: SpgId) -> Self {
        Self {
            id,
            scheme: Scheme::default(),
            info: Info::default(),
            history: History::default(),
            log: Log::default(),
            pages: VecDeque::new(),
            holds: 0,
            tickets: 0,
            missing: Missing::new(),
            kept: Kept::new(),
            collected: BTreeSet::new(),
            commits: VecDeque::new(),
            loose: BTreeSet::new(),
            epoch: 0,
            scrubbed: false,
            repaired: 0,
            #[cfg(feature = "sim")]
            mistake: None,
        }
    }

    /// Notes that a transaction is durable. Returns false if nobody waits for it in order.
    pub(crate) fn committed(&mut self, ctx: &mut Ctx<'_>, ticket: Ticket) -> bool {
        if self.loose.remove(&ticket) {
            return false;
        }
        let Some(commit) = self.commits.pop_front() else {
            self.log_line(ctx, Level::Error, format!("the store committed {ticket:?}, which was not submitted"));
            return false;
        };
        assert_eq!(commit.ticket, ticket, "a scope's commits come in the order of submission");
        true
    }

    /// Returns true once a transaction of this group is durable here.
    pub(crate) fn is_durable(&self, ticket: Ticket) -> bool {
        self.commits.front().is_none_or(|oldest| ticket < oldest.ticket)
    }

    /// This group's part of an object.
    pub(crate) fn object(&self, object: HObject) -> ObjectId {
        ObjectId::of_shard(object, self.id.shard)
    }

    pub(crate) fn next_hold(&mut self, ctx: &Ctx<'_>) -> Hold {
        self.holds += 1;
        Hold(numbered(ctx.slot, self.holds))
    }

    pub(crate) fn next_ticket(&mut self, ctx: &Ctx<'_>) -> Ticket {
        self.tickets += 1;
        Ticket(numbered(ctx.slot, self.tickets))
    }

    pub(crate) fn log_line(&self, ctx: &mut Ctx<'_>, level: Level, text: String) {
        ctx.out.push(Effect::Log(LogLine { level, part: format!("pg {}", self.id), text }));
    }

    pub(crate) fn report_damage(&self, ctx: &mut Ctx<'_>, object: &ObjectId, damage: &Damage) {
        let text = format!(
            "{object}: {} at offset {} is damaged: checksum {:08x} expected, {:08x} found",
            damage.what, damage.offset, damage.expected, damage.found
        );
        self.log_line(ctx, Level::Error, text.clone());
        let level = ClusterLevel::Error;
        ctx.out.push(Effect::ClusterLog { level, text: format!("{} {text}", self.id) });
    }

    /// Tells that a change of an object needed old data that are damaged.
    pub(crate) fn report_change_on_damage(&self, ctx: &mut Ctx<'_>, object: &HObject) {
        let text = format!("{object}: a change needed old data that are damaged");
        self.log_line(ctx, Level::Error, text.clone());
        ctx.out.push(Effect::ClusterLog { level: ClusterLevel::Error, text: format!("{} {text}", self.id) });
    }

    /// Tells that the store found damage by itself.
    pub(crate) fn report_rot(&self, ctx: &mut Ctx<'_>, object: &HObject) {
        let text = format!("{object}: its data on the disk are damaged");
        self.log_line(ctx, Level::Error, text.clone());
        ctx.out.push(Effect::ClusterLog { level: ClusterLevel::Error, text: format!("{} {text}", self.id) });
    }

    /// The store takes nothing any more.
    pub(crate) fn stopped(&self, ctx: &mut Ctx<'_>) {
        // A store that failed has said so itself; one that was told to stop is no error.
        self.log_line(ctx, Level::Debug, "the store takes no more changes".into());
        ctx.out.push(Effect::StoreStopped);
    }

    /// Returns true once nothing that this copy submitted is under way.
    pub(crate) fn is_drained(&self) -> bool {
        self.commits.is_empty() && self.loose.is_empty()
    }

    /// Returns true if it has fewer members than its pool needs to serve.
    pub(crate) fn is_short(&self) -> bool {
        self.history.interval.is_short()
    }

    /// Returns true if it must not serve, though its copies agree: for want of members, or since it is about to be
    /// merged.
    pub(crate) fn is_held(&self) -> bool {
        self.is_short() || self.history.interval.is_premerge()
    }

    /// Returns the name of this copy.
    pub(crate) fn me(&self, ctx: &Ctx<'_>) -> CopyId {
        CopyId { osd: ctx.whoami, shard: self.id.shard }
    }

    /// Returns the copies that a list of OSDs by their positions means, without its holes.
    pub(crate) fn copies(&self, places: &[OsdId]) -> impl Iterator<Item = CopyId> + Clone {
        self.id.shard.copies(places)
    }

    /// Returns all copies of this group that another OSD may be.
    pub(crate) fn copies_on(&self, osd: OsdId) -> impl Iterator<Item = CopyId> + use<> {
        let Interval { acting, up, .. } = &self.history.interval;
        self.id.shard.copies_on(osd, acting.len().max(up.len()))
    }

    /// Returns the copy that leads the group in the present interval. Its OSD is none if nobody does.
    pub(crate) fn primary(&self) -> CopyId {
        let Interval { acting, primary, .. } = &self.history.interval;
        let shard = self.id.shard;
        // An OSD that is at two positions leads at the first.
        let position = if shard.is_none() { 0 } else { acting.iter().position(|osd| osd == primary).unwrap_or(usize::MAX) };
        CopyId { osd: *primary, shard: shard.at(position) }
    }

    /// Returns true if this copy leads the group in the present interval.
    pub(crate) fn leads(&self, ctx: &Ctx<'_>) -> bool {
        self.primary() == self.me(ctx)
    }

    /// Returns true if the map says so, for a copy that does not know its interval.
    pub(crate) fn leads_by_map(&self, ctx: &Ctx<'_>) -> bool {
        ctx.map.placed(self.id.pg).acting_primary == ctx.whoami
    }

    /// Returns true if the present interval wants a copy here.
    pub(crate) fn is_member(&self, me: CopyId) -> bool {
        let Interval { acting, up, .. } = &self.history.interval;
        self.copies(acting).chain(self.copies(up)).any(|copy| copy == me)
    }

    /// Notes the members that the map has. True if an interval ended, which is written down before the map is.
    pub(crate) fn note_interval(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let fresh = self.history.note(ctx.map, self.id.pg);
        if fresh {
            self.history.last_change = ctx.now.wall;
            if self.history.created > 0 {
                self.save(ctx);
            }
        }
        fresh
    }

    pub(crate) fn is_of_another_interval(&self, envelope: Envelope) -> bool {
        #[cfg(feature = "sim")]
        if self.mistake == Some(crate::selfcheck::Mistake::OtherInterval) {
            return false;
        }
        envelope.epoch < self.history.since || envelope.interval > self.epoch
    }

    /// The envelope of what this copy says now; [`Envelope::to`] makes it that of a letter to another one.
    pub(crate) fn envelope(&self) -> Envelope {
        Envelope { pg: self.id, from: self.id.shard, interval: self.history.since, epoch: self.epoch }
    }

    /// Sends a letter to another copy.
    pub(crate) fn tell(&self, ctx: &mut Ctx<'_>, to: CopyId, letter: &Letter) {
        let letter = letter.seal(&self.envelope().to(to));
        ctx.out.push(Effect::Tell { to, letter });
    }

    pub(crate) fn post(&self, ctx: &mut Ctx<'_>, letters: Vec<(CopyId, Sealed)>) {
        ctx.out.extend(letters.into_iter().map(|(to, letter)| Effect::Tell { to, letter }));
    }

    /// Returns what this copy holds.
    pub(crate) fn peer_info(&self) -> PeerInfo {
        let mut runs = self.log.runs();
        let head = self.info.last_update;
        // After a split, and after trimming, the newest version may have no entry.
        match runs.last_mut() {
            Some((epoch, last)) if *epoch == head.epoch => *last = head.version.max(*last),
            _ if head.version > 0 => runs.push((head.epoch, head.version)),
            _ => {}
        }
        let missing = self.missing.len() as u64;
        PeerInfo { info: self.info.clone(), history: self.history.clone(), runs, missing, rests: Vec::new() }
    }

    /// Returns what is left of promises to those who may have read in earlier intervals.
    pub(crate) fn rests(&self, ctx: &Ctx<'_>) -> Vec<(OsdId, u32)> {
        ctx.leases.rests(ctx.now.mono, &self.history.past, readers(ctx.map.level))
    }

    /// Tells another copy what this one holds, and what it promised to members of earlier intervals.
    pub(crate) fn tell_info(&self, ctx: &mut Ctx<'_>, to: CopyId) {
        #[cfg(feature = "sim")]
        assert!(self.is_drained(), "a copy tells what it holds before that is durable");
        let rests = self.rests(ctx);
        self.tell(ctx, to, &Letter::Info(Box::new(PeerInfo { rests, ..self.peer_info() })));
    }

    pub(crate) fn tell_activated(&self, ctx: &mut Ctx<'_>, primary: CopyId) {
        let missing = self.missing.iter().map(|(object, lack)| (object.clone(), lack.clone())).collect();
        self.tell(ctx, primary, &Letter::Activated(missing));
    }

    pub(crate) fn bounds(&self, ctx: &Ctx<'_>) -> (HObject, HObject) {
        let pg_num = ctx.map.pools.get(&self.id.pg.pool).map_or(1, |pool| pool.pg_num);
        bounds(self.id.pg.pool, self.id.pg.seed, pg_num)
    }

    /// Returns true if an object, or one that is being collected, lies in this group, and in the shard that this copy holds.
    pub(crate) fn holds(&self, object: &ObjectId) -> bool {
        let pool = self.id.pg.pool;
        let (pg_num, here) = (self.history.pg_num.max(1), object.pool == pool || object.pool == staging_pool(pool));
        // What is kept of the past is each copy's own business.
        here && object.shard == self.id.shard
            && object.generation == CURRENT
            && types::hash::stable_mod(object.hash, pg_num, pg_num.next_power_of_two() - 1) == self.id.pg.seed
    }

    /// Returns true if the OSDs where the group belongs may take over: they are as many as the pool wants, or as many
    /// as serve now. While they are fewer, peering keeps others beside them (`scheme::copies::plan`). To send these
    /// away would begin an interval whose plan calls them back, and so on for ever. The same holds where a rule names
    /// an OSD twice: it serves once, so the next plan would be another one than the map's. Such a group stays as it
    /// is, and is undersized.
    pub(crate) fn home_is_enough(&self) -> bool {
        let interval = &self.history.interval;
        let named = interval.home().count();
        let home = interval.home().collect::<BTreeSet<_>>().len();
        let twice = home < named;
        #[cfg(feature = "sim")]
        let twice = twice && self.mistake != Some(crate::selfcheck::Mistake::GoHomeTwice);
        home > 0 && !twice && home >= interval.members().count().min(interval.places().max(1))
    }

    /// Returns true if members serve that do not belong to the group, since those that do are too few: nothing is left
    /// to be done until the map finds more places.
    pub(crate) fn keeps_guests(&self) -> bool {
        self.history.interval.home().next().is_some() && !self.home_is_enough()
    }

    /// Returns who may have what is missing: who is up, and who is down and not marked lost.
    pub(crate) fn may_have(&self, ctx: &Ctx<'_>) -> Prior {
        let told = Told { gaps: self.history.unknown(), ..Told::default() };
        self.history.prior(ctx.map, self.me(ctx), self.scheme.least(), &told)
    }

    /// Returns true if a version is one that the group's log knows, or knew.
    pub(crate) fn counts(&self, version: EVersion) -> bool {
        version <= self.info.log_tail || self.log.has(version)
    }

    /// The group is new: this is its first copy.
    pub(crate) fn be_born(&mut self, ctx: &mut Ctx<'_>) {
        self.history.created = ctx.map.epoch;
        self.history.clean = self.history.since;
        self.history.pg_num = self.history.interval.pg_num;
        (self.history.scrub.1, self.history.deep_scrub.1) = (ctx.now.wall, ctx.now.wall);
        self.save(ctx);
    }

    pub(crate) fn own_records(&self) -> Vec<MetaChange> {
        vec![
            MetaChange::Set(Bytes::from_static(meta::HISTORY), self.history.encode()),
            MetaChange::Set(Bytes::from_static(meta::INFO), self.info.encode()),
        ]
    }

    /// Writes history and info.
    pub(crate) fn save(&mut self, ctx: &mut Ctx<'_>) {
        debug_assert!(self.history.created > 0, "pg {}: a copy that knows of no group writes one down", self.id);
        let records = self.own_records();
        if self.submit_unlogged(ctx, Vec::new(), records) == Err(Refused::Stopped) {
            self.stopped(ctx);
        }
    }
}
