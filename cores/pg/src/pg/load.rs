//! The beginning of a group's life: a new one, or one that is read back from the store.

use super::{Pg, Role};
use crate::api::{Ctx, Effect};
use crate::core::read::{bad, scan};
use crate::entry::{LogEntry, decode_page};
use crate::history::History;
use crate::meta::{self, Info};
use crate::missing::Lack;
use crate::object::bounds;
use crate::object::staging_pool;
use crate::scheme::Scheme;
use bytes::Bytes;
use maps::OsdMap;
use node::Level;
use objectstore::{Damage, Hold, Page, Unread};
use std::sync::Arc;
use types::{PgId, SpgId};

/// What is read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Info,
    /// What is here is a part of a split that was not finished.
    Unborn,
    Dups,
    Log,
    Missing,
    /// What lies collected of objects that come in several bodies.
    Collected,
}

/// A group that this program cannot serve.
pub(crate) struct Unserved {
    /// Why, in a sentence.
    pub(crate) why: String,
    /// The store has something of it.
    stored: bool,
}

/// A group that is being read.
pub(crate) struct Loading {
    pub(crate) hold: Hold,
    stage: Stage,
    /// Last key that was read in this stage.
    after: Bytes,
    /// The maps that came meanwhile, oldest first, and the one before: their intervals are noted when the history is read.
    pub(crate) maps: Vec<Arc<OsdMap>>,
}

/// Learns from the map how the pool keeps objects. Returns false if this program cannot serve that: the group is broken
/// then, and says why. Nothing of it is read or changed until a map says something else ([`try_scheme`]).
/// `stored`: the store has something of it.
fn learn_scheme(pg: &mut Pg, ctx: &mut Ctx<'_>, stored: bool) -> bool {
    // Of a pool that is gone nothing is served.
    let Some(pool) = ctx.map.pools.get(&pg.core.id.pg.pool) else { return true };
    let why = match Scheme::of(pg.core.id, pool, ctx.map) {
        Ok(scheme) => {
            (pg.core.scheme, pg.unserved) = (scheme, None);
            return true;
        }
        Err(why) => why,
    };
    let text = format!("pg {} is not served by osd.{}: {why}", pg.core.id, ctx.whoami);
    if pg.unserved.as_ref().is_none_or(|unserved| unserved.why != why) {
        pg.core.log_line(ctx, Level::Error, text.clone());
        ctx.out.push(Effect::ClusterLog { level: crate::api::ClusterLevel::Error, text });
    }
    pg.role = Role::Broken;
    pg.unserved = Some(Unserved { why, stored });
    // Who leads it hears that this copy is unable, so it must be known who does.
    pg.core.history = History::begin(ctx.map, pg.core.id.pg);
    pg.end_waiting(ctx);
    false
}

/// Looks whether another map lets this program serve a group that it could not serve, and begins if so.
pub(crate) fn try_scheme(pg: &mut Pg, ctx: &mut Ctx<'_>) {
    let Some(stored) = pg.unserved.as_ref().map(|unserved| unserved.stored) else { return };
    if !learn_scheme(pg, ctx, stored) {
        return;
    }
    if stored {
        pg.begin_load(ctx);
    } else {
        pg.core.history = History::begin(ctx.map, pg.core.id.pg);
        pg.take_role(ctx);
    }
}

/// Learns the scheme of a group that was loaded before its pool was in the map. False: it cannot be served.
pub(crate) fn learn_late(pg: &mut Pg, ctx: &mut Ctx<'_>) -> bool {
    let goes = matches!(pg.role, Role::Removing(_) | Role::Removed);
    let lacks = !goes && !pg.core.id.shard.is_none() && pg.core.scheme.is_whole() && pg.unserved.is_none();
    !lacks || learn_scheme(pg, ctx, true)
}

impl Pg {
    /// Makes a new group, of which this is the first copy, and writes its first meta keys.
    pub fn create(id: SpgId, ctx: &mut Ctx<'_>) -> Self {
        let mut pg = Self::found(id, ctx);
        if !learn_scheme(&mut pg, ctx, false) {
            return pg;
        }
        pg.core.be_born(ctx);
        pg.take_role(ctx);
        pg
    }

    /// Begins to lead a group of which nothing is here: other copies know whether there is one.
    pub fn seek(id: SpgId, ctx: &mut Ctx<'_>) -> Self {
        let mut pg = Self::found(id, ctx);
        if learn_scheme(&mut pg, ctx, false) {
            pg.take_role(ctx);
        }
        pg
    }

    /// A copy that holds nothing, and is about to be told what it shall hold.
    pub fn join(id: SpgId, ctx: &mut Ctx<'_>) -> Self {
        let mut pg = Self::found(id, ctx);
        if learn_scheme(&mut pg, ctx, false) {
            pg.role = Role::Replica(Box::default());
        }
        pg
    }

    fn found(id: SpgId, ctx: &Ctx<'_>) -> Self {
        let mut pg = Self::blank(id, Role::Broken);
        pg.core.epoch = ctx.map.epoch;
        pg.core.history = History::begin(ctx.map, id.pg);
        pg.core.history.last_change = ctx.now.wall;
        pg
    }

    /// Brings a group back from the store. It is active when [`Pg::is_active`] says so; operations that come earlier wait.
    pub fn load(id: SpgId, ctx: &mut Ctx<'_>) -> Self {
        let mut pg = Self::blank(id, Role::Broken);
        pg.begin_load(ctx);
        pg
    }

    /// Reads a group whose keys could not be read ([`Pg::load_failed`]) once more, in its place: a disk that failed once may
    /// answer now. A group that failed to load has nothing under way in the store, so the numbers of its holds just go on.
    pub fn reload(&mut self, ctx: &mut Ctx<'_>) {
        if !self.load_failed() {
            return;
        }
        let fresh = Self::blank(self.core.id, Role::Broken);
        let failed = std::mem::replace(self, fresh);
        (self.core.holds, self.core.tickets, self.reports) = (failed.core.holds, failed.core.tickets, failed.reports);
        self.begin_load(ctx);
    }

    fn begin_load(&mut self, ctx: &mut Ctx<'_>) {
        if !learn_scheme(self, ctx, true) {
            return;
        }
        let hold = self.core.next_hold(ctx);
        let maps = vec![ctx.map.clone()];
        self.role = Role::Loading(Box::new(Loading { hold, stage: Stage::Info, after: Bytes::new(), maps }));
        self.core.epoch = ctx.map.epoch;
        self.step_load(ctx);
    }

    /// Reads on, until something must be fetched or all is there.
    pub(crate) fn step_load(&mut self, ctx: &mut Ctx<'_>) {
        loop {
            let Role::Loading(loading) = &self.role else { return };
            let (hold, stage, after) = (loading.hold, loading.stage, loading.after.clone());
            match self.read_stage(ctx, hold, stage, &after) {
                Ok(Some((stage, after))) => {
                    if let Role::Loading(loading) = &mut self.role {
                        (loading.stage, loading.after) = (stage, after);
                    }
                }
                Ok(None) => {
                    ctx.store.release(hold);
                    return self.loaded(ctx);
                }
                Err(Unread::Missing(wish)) => return ctx.store.fetch(hold, wish),
                Err(Unread::Damaged(damage)) => {
                    ctx.store.release(hold);
                    return self.broken(ctx, &damage);
                }
            }
        }
    }

    pub(crate) fn broken(&mut self, ctx: &mut Ctx<'_>, damage: &Damage) {
        let text = format!(
            "cannot be loaded: {} at offset {}: checksum {:08x} expected, {:08x} found",
            damage.what, damage.offset, damage.expected, damage.found
        );
        self.core.log_line(ctx, Level::Error, text.clone());
        let level = crate::api::ClusterLevel::Error;
        ctx.out.push(Effect::ClusterLog { level, text: format!("pg {} {text}", self.core.id) });
        self.role = Role::Broken;
        self.load_failed = true;
        self.end_waiting(ctx);
    }

    /// Reads one page of a stage; gives where to go on.
    fn read_stage(
        &mut self,
        ctx: &mut Ctx<'_>,
        hold: Hold,
        stage: Stage,
        after: &Bytes,
    ) -> Result<Option<(Stage, Bytes)>, Unread> {
        let start = |stage| Ok(Some((stage, Bytes::new())));
        let prefix = match stage {
            Stage::Info => {
                let born = self.read_info(ctx, hold)?;
                return start(if born { Stage::Dups } else { Stage::Unborn });
            }
            Stage::Unborn => {
                self.unborn(ctx);
                return Ok(None);
            }
            Stage::Collected => {
                self.read_collected(ctx, hold)?;
                return Ok(None);
            }
            Stage::Dups => meta::DUPS,
            Stage::Log => meta::LOG,
            Stage::Missing => meta::MISSING,
        };
        let page = scan(ctx, hold, self.core.id, prefix, after)?;
        let last = page.entries.last().map(|(key, _)| key.clone());
        match stage {
            Stage::Missing => self.read_missing(&page)?,
            _ => self.read_log(&page, stage)?,
        }
        match (page.more, last) {
            (true, Some(last)) => Ok(Some((stage, last))),
            _ if stage == Stage::Dups => start(Stage::Log),
            _ if stage == Stage::Log => start(Stage::Missing),
            _ if stage == Stage::Missing => start(Stage::Collected),
            _ => Ok(None),
        }
    }

    /// False if the group does not exist: a split that was to make it was not finished, or another group has taken it in.
    fn read_info(&mut self, ctx: &Ctx<'_>, hold: Hold) -> Result<bool, Unread> {
        let info = ctx.store.meta_get(hold, &self.core.id, meta::INFO)?;
        let history = ctx.store.meta_get(hold, &self.core.id, meta::HISTORY)?;
        let (info, history) = match (info, history) {
            (Some(info), Some(history)) => (info, history),
            (None, None) => return Ok(false),
            _ => return Err(bad("missing info or history of the group")),
        };
        self.core.info = Info::decode(&info).map_err(|e| bad(&format!("info of the group ({e})")))?;
        self.core.history = History::decode(&history).map_err(|e| bad(&format!("history of the group ({e})")))?;
        self.core.history.normalize(self.core.id.pg.seed);
        if self.is_left_over(ctx, hold)? {
            return Ok(false);
        }
        let Some(seed) = self.core.history.parent else { return Ok(true) };
        let parent = SpgId { pg: PgId::new(self.core.id.pg.pool, seed), shard: self.core.id.shard };
        let Some(parent) = ctx.store.meta_get(hold, &parent, meta::HISTORY)? else { return Ok(true) };
        let parent = History::decode(&parent).map_err(|e| bad(&format!("history of the parent group ({e})")))?;
        Ok(maps::share(seed, parent.pg_num) >= self.core.history.pg_num)
    }

    /// The parent makes the group again. If the pool is gone, what is here waits for its removal.
    fn unborn(&mut self, ctx: &mut Ctx<'_>) {
        if ctx.map.pools.contains_key(&self.core.id.pg.pool) {
            self.role = Role::Removed;
            ctx.out.push(Effect::Removed);
        } else {
            self.role = Role::Broken;
        }
    }

    fn read_log(&mut self, page: &Page, stage: Stage) -> Result<(), Unread> {
        for (key, value) in &page.entries {
            let fault = |e: denc::DecodeError| bad(&format!("log record {} ({e})", key.escape_ascii()));
            if stage == Stage::Log {
                self.core.log.push(LogEntry::decode(value, self.core.id.pg.pool).map_err(fault)?.done);
                continue;
            }
            let records = decode_page(value).map_err(fault)?;
            let version = key.get(1..9).and_then(|b| b.try_into().ok()).map(u64::from_be_bytes);
            self.core.pages.push_back(version.ok_or_else(|| bad("key of a page of duplicates"))?);
            records.into_iter().for_each(|done| self.core.log.push_dup(done));
        }
        Ok(())
    }

    fn read_missing(&mut self, page: &Page) -> Result<(), Unread> {
        for (key, value) in &page.entries {
            let object = meta::parse_missing_key(key, self.core.id.pg.pool).map_err(|_| bad("key of a missing object"))?;
            let lack = Lack::decode(value).map_err(|_| bad("mark of a missing object"))?;
            self.core.missing.insert(object, lack);
        }
        Ok(())
    }

    /// Reads what lies collected: no copy that was under way when the daemon ended is continued.
    fn read_collected(&mut self, ctx: &Ctx<'_>, hold: Hold) -> Result<(), Unread> {
        let pg_num = self.core.history.pg_num.max(1);
        let (from, to) = bounds(staging_pool(self.core.id.pg.pool), self.core.id.pg.seed, pg_num);
        let found = ctx.store.list(hold, self.core.id.shard, &from.into(), &to.into(), usize::MAX)?;
        self.core.collected = found.into_iter().collect();
        Ok(())
    }

    fn loaded(&mut self, ctx: &mut Ctx<'_>) {
        if !matches!(self.role, Role::Loading(_)) {
            return;
        }
        // The map that deleted the pool may have come while the group's keys could not be read. A pool with a number that
        // the map has not given yet is not deleted: it came with a map that was not remembered.
        let pool = self.core.id.pg.pool;
        let gone = pool <= i64::from(ctx.map.pool_max) && !ctx.map.pools.contains_key(&pool);
        if self.core.history.removing || gone {
            self.remove(ctx);
            return;
        }
        let Role::Loading(loading) = std::mem::replace(&mut self.role, Role::Replica(Box::default())) else { return };
        self.passed = loading.maps;
        let fresh = self.passed.iter().filter(|map| self.core.history.note(map, self.core.id.pg)).count() > 0;
        // It was split off, and that is done: what becomes of its parent later says nothing about that.
        let born = self.core.history.parent.take().is_some();
        if fresh || born {
            self.core.save(ctx);
        }
        self.core.forget_collected(ctx);
        // A split or a union that is due comes before the first operation.
        if !self.change_share(ctx) {
            self.take_role(ctx);
        }
    }
}
