//! What a copy of a group knows of the group's life: when it was created, who its members are and were, when it was last known to
//! be well.
//!
//! *Intervals.* Every copy notes the end of every interval, whatever it does just then ([`History::note`]), in the transaction that
//! comes before the OSD remembers the map. Of ended intervals only those are kept in which something may have been written
//! ([`History::may_have_written`]): a new primary must hear of one member of each before it serves ([`prior`]). They are forgotten
//! when all copies are complete and where they belong, never by count.
//!
//! *Maps that were skipped.* The monitors keep a bounded number of maps. A copy that was away for longer goes on with a full map, and does
//! not know who served between. So it writes down only what it saw, for as long as it saw it, and takes what it lacks from the
//! copies that tell it of themselves ([`History::learn`]). What a copy wrote down is true, so all that copies wrote down is.
//!
//! It writes down what it did not see, too: a *gap*, an interval without members. Perhaps everybody who served then has moved away, and
//! who is left has removed its copy, as the group was clean elsewhere. So while no copy that was heard knows what was in a gap, all
//! OSDs are asked, and those that were up in it and are down now are waited for ([`Told::gaps`]). A gap is closed
//!
//! - for good by a copy that saw those maps, or was told of them by one that did ([`History::close_gaps`]);
//! - as long as it is heard, by a complete copy that took up a log that counted behind the gap: whoever agreed on that log had asked.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

use crate::codec::{Parser, Writer, get_interval, get_osds, put_interval, put_osds};
use crate::info::{get_intervals, put_intervals};
use crate::meta::{get_object, get_version, put_object, put_version};
use bytes::Bytes;
use denc::{DecodeError, Result};
use maps::{Interval, NO_OSD, OsdMap, state};
use std::collections::{BTreeMap, BTreeSet};
use types::{CopyId, EVersion, Epoch, HObject, Intervals, OsdId, PgId, PoolId, SnapId, UTime};

/// Layout that is written. Layout 1 (one copy, no peering) is read.
const LAYOUT: u64 = 2;
/// Layout of a group with unions that are not done: those follow what layout 2 has.
const WITH_UNIONS: u64 = 3;

/// A time that is over, during which the group had the same members and something may have been written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PastInterval {
    pub(crate) first: Epoch,
    pub(crate) last: Epoch,
    /// Its members by their positions, with holes; nobody: the maps of this time were skipped, and somebody may have served.
    pub(crate) acting: Vec<OsdId>,
    pub(crate) primary: OsdId,
}

impl PastInterval {
    /// Maps that were skipped.
    fn gap(first: Epoch, last: Epoch) -> Self {
        Self { first, last, acting: Vec::new(), primary: NO_OSD }
    }

    fn is_gap(&self) -> bool {
        self.acting.is_empty()
    }
}

/// First and last epoch of maps that were skipped.
pub(crate) type Gap = (Epoch, Epoch);

/// Returns what is in both lists.
pub(crate) fn in_both(one: &[Gap], other: &[Gap]) -> Vec<Gap> {
    let common = |(a, b): Gap, (c, d): Gap| (a.max(c), b.min(d));
    let all = one.iter().flat_map(|one| other.iter().map(move |other| common(*one, *other)));
    all.filter(|(first, last)| first <= last).collect()
}

/// A change of the pool's number of groups that unites this one with others, and is not carried out here yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Union {
    /// The map that says so. What the united group logs goes on from there.
    pub(crate) epoch: Epoch,
    /// The group's [`maps::share`] with it; 0: this group is taken in by another one.
    pub(crate) share: u32,
    /// Group that takes it in.
    pub(crate) into: u32,
    /// Place where both ended (source, target), if the map tells it of this very union. A copy that does not end there
    /// is not up to date.
    pub(crate) ends: Option<(EVersion, EVersion)>,
}

impl Union {
    /// Returns what a map says of a group whose share it lowers from `before` to `share`.
    fn of(map: &OsdMap, pg: PgId, before: u32, share: u32) -> Self {
        let Some(pool) = map.pool(pg.pool) else { return Self { epoch: map.epoch, share, ..Self::default() } };
        let last = &pool.last_pg_merge_meta;
        let it = last.source_pgid.pool == pg.pool && (share == before / 2 && last.source_pgid.seed == pg.seed + share);
        let ends = (it && share > 0).then_some((last.source_version, last.target_version));
        let epoch = if ends.is_some() { last.ready_epoch } else { map.epoch };
        Self { epoch, share, into: types::hash::stable_mod(pg.seed, pool.pg_num, pool.pg_num.next_power_of_two() - 1), ends }
    }
}

/// Record of the group's life, which changes rarely.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// Epoch in which the group was created; 0 while this copy does not know that, because it has nothing of the group.
    pub(crate) created: Epoch,
    /// The group's [`maps::share`] when it was last divided or united: tells after a restart whether a split is due.
    pub(crate) pg_num: u32,
    /// First epoch of the present interval.
    pub(crate) since: Epoch,
    /// The present interval.
    pub(crate) interval: Interval,
    /// The newest map that was noted; 0: none since the copy was loaded. Not stored: the OSD remembers it beside.
    pub(crate) noted: Epoch,
    /// The primary's `up_thru` in the newest map of the present interval. Not stored: the map that is stored beside has it.
    pub(crate) up_thru: Epoch,
    /// Ended intervals since `clean` in which something may have been written, oldest first.
    pub(crate) past: Vec<PastInterval>,
    /// First epoch of the newest interval in which this copy was a member of an active group (`last_epoch_started`).
    pub(crate) started: Epoch,
    /// First epoch of the newest interval in which the group was known to be clean (`last_epoch_clean`).
    pub(crate) clean: Epoch,
    /// Backfill came so far: objects up to this head are here. `None`: this copy is complete (`last_backfill` is MAX).
    pub(crate) backfill: Option<HObject>,
    /// Snapshots whose clones are all removed. Kept for good, or a write that was long under way could clone for one of them again, and
    /// nobody would ever remove that clone. There are at most as many intervals as snapshots that still exist, and one.
    pub(crate) purged: Intervals,
    /// Version and time of the last scrub.
    pub(crate) scrub: (EVersion, UTime),
    /// Version and time of the last deep scrub.
    pub(crate) deep_scrub: (EVersion, UTime),
    /// The statistics are an estimate (after a split) until the next scrub counted.
    pub(crate) estimated: bool,
    /// The group is being removed: it does not serve any more.
    pub(crate) removing: bool,
    /// Time when the group became active last.
    pub(crate) last_change: UTime,
    /// The group that this one was split from, as long as it is not known that it finished that split.
    pub(crate) parent: Option<u32>,
    /// Unions that are due, oldest first.
    pub(crate) unions: Vec<Union>,
    /// Groups that this one has taken in, and of which keys may be left in the store.
    pub(crate) taken: Vec<u32>,
}

/// Returns true if the map has this OSD marked lost after `epoch`.
pub(crate) fn is_lost_since(map: &OsdMap, osd: OsdId, epoch: Epoch) -> bool {
    !map.exists(osd) || map.info(osd).is_some_and(|info| info.lost_at > epoch)
}

/// Returns true if this map, the first one behind skipped ones, tells that an OSD came, went, led a group or was given
/// up since `first`.
///
/// Nothing is served by another OSD than before without any of that. A map that monitors made of what OSDs had (`monlog::rescue`) has
/// an epoch that is far above, and nothing happened between.
fn anything_happened(map: &OsdMap, first: Epoch) -> bool {
    let during = |at: Epoch| at >= first && at < map.epoch;
    map.osd_info.iter().any(|info| [info.up_from, info.up_thru, info.down_at, info.lost_at].into_iter().any(during))
}

/// Since which epoch the map knows a group's primary to be up, as far as it was told.
fn up_thru(map: &OsdMap, primary: OsdId) -> Epoch {
    map.info(primary).map_or(0, |info| info.up_thru)
}

/// Words of copies, as far as they decide whom else a group must hear.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Copies that were heard and hold nothing.
    pub(crate) empty: BTreeSet<CopyId>,
    /// Copies that cannot read what they hold.
    pub(crate) unable: BTreeSet<CopyId>,
    /// Copies that told what they hold, this copy too: [`History::whole_since`].
    pub(crate) whole: BTreeMap<CopyId, Epoch>,
    /// Maps of which no copy that was heard knows who served then.
    pub(crate) gaps: Vec<Gap>,
}

/// Copies that may have what a group wrote before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prior {
    /// Copies that are up and must be heard, this one left out.
    pub(crate) probe: BTreeSet<CopyId>,
    /// Copies that are down and might know more.
    pub(crate) down: BTreeSet<CopyId>,
    /// Those down of whom one must come back, or be given up for lost, before anybody may serve; all of them where maps were skipped.
    pub(crate) needed: BTreeSet<CopyId>,
}

impl History {
    /// Begins with the members that the map gives the group.
    pub(crate) fn begin(map: &OsdMap, pg: PgId) -> Self {
        let interval = Interval::of(map, pg).unwrap_or_default();
        let up_thru = up_thru(map, interval.primary);
        Self { pg_num: interval.pg_num, since: map.epoch, up_thru, interval, noted: map.epoch, ..Self::default() }
    }

    /// Notes what the map says about the group's members. True if another interval began with it, or may have begun in a map that was
    /// skipped.
    pub(crate) fn note(&mut self, map: &OsdMap, pg: PgId) -> bool {
        let Some(next) = Interval::of(map, pg) else { return false };
        let seen = std::mem::replace(&mut self.noted, map.epoch);
        let skipped = seen > 0 && map.epoch > seen + 1;
        if next == self.interval && !skipped {
            self.up_thru = self.up_thru.max(up_thru(map, next.primary));
            return false;
        }
        if skipped {
            // Its primary may have told the monitors in one of those maps that it was up; the number only grows.
            self.up_thru = self.up_thru.max(up_thru(map, self.interval.primary));
        }
        if self.may_have_written() {
            let Interval { acting, primary, .. } = self.interval.clone();
            let last = if skipped { seen } else { map.epoch.saturating_sub(1) };
            self.past.push(PastInterval { first: self.since, last, acting, primary });
        }
        if skipped && self.created > 0 && anything_happened(map, seen + 1) {
            // One gap that is too long does no harm, and many short ones have no bound.
            match self.past.last_mut().filter(|past| past.is_gap()) {
                Some(past) => past.last = map.epoch - 1,
                None => self.past.push(PastInterval::gap(seen + 1, map.epoch - 1)),
            }
        }
        self.up_thru = up_thru(map, next.primary);
        if next.pg_num < self.interval.pg_num {
            self.unions.push(Union::of(map, pg, self.interval.pg_num, next.pg_num));
        }
        self.interval = next;
        self.since = map.epoch;
        true
    }

    /// Returns true if the group may have served writes in the present interval: it had enough members, and the map
    /// knew that its primary was up. A pool of one copy serves without asking for that.
    fn may_have_written(&self) -> bool {
        let enough = self.interval.members().next().is_some() && !self.interval.is_short();
        self.created > 0 && enough && (self.interval.is_single() || self.up_thru >= self.since)
    }

    /// Numbers of groups in stores of older versions are those of the pool.
    pub(crate) fn normalize(&mut self, seed: u32) {
        self.pg_num = maps::share(seed, self.pg_num);
        self.interval.pg_num = maps::share(seed, self.interval.pg_num);
        self.interval.pg_num_pending = maps::share(seed, self.interval.pg_num_pending);
    }

    /// Returns true if the map must first know that the primary is up in this interval.
    pub(crate) fn needs_up_thru(&self) -> bool {
        !self.interval.is_single() && self.up_thru < self.since
    }

    /// Returns true if this copy has all objects that its log does not name as missing.
    pub(crate) fn is_complete(&self) -> bool {
        self.backfill.is_none()
    }

    /// Returns true if changes of this head's objects concern this copy, as far as backfill has come.
    pub(crate) fn reaches(&self, head: &HObject) -> bool {
        self.backfill.as_ref().is_none_or(|cursor| head <= cursor)
    }

    /// The group is clean: what was before the present interval matters no more.
    pub(crate) fn forget_past(&mut self) {
        self.clean = self.since;
        self.past.clear();
    }

    /// Takes over what another copy knows of the group's life, if this one knows nothing.
    pub(crate) fn adopt(&mut self, other: &Self) {
        if self.created == 0 {
            self.created = other.created;
            self.clean = other.clean;
            self.past = other.past.clone();
            self.pg_num = if self.pg_num == 0 { other.pg_num } else { self.pg_num };
            (self.scrub, self.deep_scrub, self.estimated) = (other.scrub, other.deep_scrub, other.estimated);
        }
        if other.clean > self.clean {
            self.clean = other.clean;
            let clean = self.clean;
            self.past.retain(|interval| interval.last >= clean);
        }
    }

    /// Takes over earlier intervals that another copy noted and this one did not, since it skipped maps. Returns true if there were some.
    ///
    /// What was written before the newest interval in which this copy took up the log that counted is in its own log, if it is whole. A copy
    /// that knows nothing of the group takes all intervals, with [`History::adopt`].
    pub(crate) fn learn(&mut self, other: &Self) -> bool {
        if self.created == 0 {
            return false;
        }
        let from = self.clean.max(other.clean).max(self.whole_since());
        let known = |one: &PastInterval| {
            self.past.iter().any(|own| {
                own.acting == one.acting && own.primary == one.primary && own.first <= one.first && one.last <= own.last
            })
        };
        let news = other.past.iter().filter(|one| !one.is_gap() && one.last >= from && one.last < self.since && !known(one));
        let news: Vec<PastInterval> = news.cloned().collect();
        let learned = !news.is_empty();
        self.past.extend(news);
        self.past.sort_by_key(|interval| (interval.first, interval.last));
        learned
    }

    /// Gaps since the group was last clean, and since this epoch.
    fn gaps_since(&self, epoch: Epoch) -> Vec<Gap> {
        let from = epoch.max(self.clean);
        self.past.iter().filter(|past| past.is_gap() && past.last >= from).map(|past| (past.first, past.last)).collect()
    }

    /// Gaps of which nobody told who served then.
    pub(crate) fn unknown(&self) -> Vec<Gap> {
        self.gaps_since(0)
    }

    /// Gaps that matter as long as this copy is heard.
    pub(crate) fn gaps(&self) -> Vec<Gap> {
        self.gaps_since(self.whole_since())
    }

    /// Forgets the gaps, or parts of them, of which another copy knows who served then: after [`History::learn`] this one does, too.
    /// Returns true if there were some.
    pub(crate) fn close_gaps(&mut self, other: &Self) -> bool {
        let own = self.gaps_since(0);
        if own.is_empty() || other.created == 0 {
            return false;
        }
        let left = in_both(&own, &other.gaps_since(0));
        if left == own {
            return false;
        }
        self.past.retain(|past| !past.is_gap());
        self.past.extend(left.into_iter().map(|(first, last)| PastInterval::gap(first, last)));
        self.past.sort_by_key(|interval| (interval.first, interval.last));
        true
    }

    /// Takes over when the present interval began. A copy that came to be in it knows only since when it is there: the map, which says that
    /// the primary was up when it began, would not tell it that something may have been written.
    fn take_beginning(&mut self, other: &Self) {
        if other.interval == self.interval && other.since > 0 {
            self.since = self.since.min(other.since);
        }
    }

    /// Takes over what the primary of the present interval knows, with its log. `anew`: nothing of the own log counts.
    pub(crate) fn follow(&mut self, other: &Self, anew: bool) {
        self.adopt(other);
        self.take_beginning(other);
        (self.started, self.created, self.pg_num) = (self.since, other.created, self.interval.pg_num);
        // The statistics are the primary's, and so is how well they are known.
        self.estimated = other.estimated;
        other.purged.iter().for_each(|(start, len)| self.purged.insert(start, len));
        if anew {
            self.backfill = Some(HObject::min());
        }
    }

    /// A mistake to be found: who holds nothing proves that nothing was served, whatever became of its store.
    #[cfg(feature = "sim")]
    pub(crate) fn disprove(&mut self, shard: types::ShardId, empty: &BTreeSet<CopyId>) {
        self.past.retain(|interval| !shard.copies(&interval.acting).any(|copy| empty.contains(&copy)));
    }

    /// First epoch of the newest interval whose log this copy took up, if it has all that such a log tells; 0 for a copy that is being filled.
    /// So this copy knows all that was acknowledged in intervals up to that one.
    pub(crate) fn whole_since(&self) -> Epoch {
        if self.created > 0 && self.is_complete() { self.started } else { 0 }
    }

    /// Returns who must be heard before the group may serve, after what was heard so far. `me`: this copy; `least`: how
    /// many surviving members of an interval are enough.
    pub(crate) fn prior(&self, map: &OsdMap, me: CopyId, least: usize, told: &Told) -> Prior {
        let Interval { acting, up, .. } = &self.interval;
        let present = me.shard.copies(acting).chain(me.shard.copies(up));
        let mut prior = Prior { probe: present.filter(|copy| map.is_up(copy.osd)).collect(), ..Prior::default() };
        for interval in self.past.iter().filter(|interval| interval.last >= self.clean) {
            prior.add(map, me, least, told, interval);
        }
        for (first, _) in &told.gaps {
            let all = map.osds().flat_map(|osd| me.shard.copies_on(osd, acting.len().max(up.len())));
            prior.add_gap(map, told, *first, all);
        }
        prior.probe.remove(&me);
        prior
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut w = Writer::default();
        self.put(&mut w);
        w.finish()
    }

    pub(crate) fn put(&self, w: &mut Writer) {
        let united = !self.unions.is_empty() || !self.taken.is_empty();
        w.num(if united { WITH_UNIONS } else { LAYOUT });
        for n in [self.created, self.pg_num, self.since, self.started, self.clean] {
            w.num(n.into());
        }
        put_interval(w, &self.interval);
        w.list(self.past.iter(), |w, i| {
            w.num(i.first.into());
            w.num(i.last.into());
            w.int(i.primary.into());
            put_osds(w, &i.acting);
        });
        w.num(u64::from(self.backfill.is_some()));
        if let Some(cursor) = &self.backfill {
            w.int(cursor.pool);
            put_object(w, cursor);
            w.num(cursor.snap.0);
        }
        put_intervals(w, &self.purged);
        for (version, stamp) in [&self.scrub, &self.deep_scrub] {
            put_version(w, *version);
            w.denc(stamp);
        }
        w.num(u64::from(self.estimated) | u64::from(self.removing) << 1);
        w.denc(&self.last_change);
        w.num(self.parent.map_or(0, |seed| u64::from(seed) + 1));
        if united {
            w.list(self.unions.iter(), put_union);
            w.list(self.taken.iter(), |w, seed| w.num((*seed).into()));
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Parser::new(bytes);
        let history = Self::get(&mut r)?;
        r.0.finish()?;
        Ok(history)
    }

    pub(crate) fn get(r: &mut Parser<'_>) -> Result<Self> {
        let layout = r.num()?;
        let mut history = match layout {
            1 => Self::get_members_1(r)?,
            LAYOUT | WITH_UNIONS => Self::get_members(r)?,
            _ => return Err(DecodeError::Invalid("layout of a group's history")),
        };
        history.purged = get_intervals(r)?;
        history.scrub = (get_version(r)?, r.denc()?);
        history.deep_scrub = (get_version(r)?, r.denc()?);
        let flags = r.num()?;
        (history.estimated, history.removing) = (flags & 1 != 0, flags & 2 != 0);
        history.last_change = r.denc()?;
        let parent = r.num()?.checked_sub(1).map(u32::try_from).transpose();
        history.parent = parent.map_err(|_| DecodeError::Invalid("parent of a group"))?;
        if layout == WITH_UNIONS {
            history.unions = r.list(get_union)?;
            history.taken = r.list(Parser::num32)?;
        }
        Ok(history)
    }

    fn get_members(r: &mut Parser<'_>) -> Result<Self> {
        let mut history = Self { created: r.num32()?, pg_num: r.num32()?, since: r.num32()?, ..Self::default() };
        (history.started, history.clean) = (r.num32()?, r.num32()?);
        history.interval = get_interval(r)?;
        history.past = r.list(|r| {
            let (first, last, primary) = (r.num32()?, r.num32()?, r.int32()?);
            Ok(PastInterval { first, last, acting: get_osds(r)?, primary })
        })?;
        if r.num()? == 1 {
            let pool: PoolId = r.int()?;
            let head = get_object(r, pool)?;
            history.backfill = Some(HObject { snap: SnapId(r.num()?), ..head });
        }
        Ok(history)
    }

    /// Reads layout 1. It knew groups of one copy alone, so nobody else need be heard.
    fn get_members_1(r: &mut Parser<'_>) -> Result<Self> {
        let mut history = Self { created: r.num32()?, pg_num: r.num32()?, since: r.num32()?, ..Self::default() };
        let (up, acting) = (get_osds(r)?, get_osds(r)?);
        let primary = acting.first().copied().unwrap_or(NO_OSD);
        history.interval = Interval::single(up, acting, primary);
        r.list(|r| {
            r.num32()?;
            r.num32()?;
            Ok((get_osds(r)?, get_osds(r)?))
        })?;
        (history.started, history.clean) = (history.since, history.since);
        Ok(history)
    }
}

impl Prior {
    /// Anybody may know who served in maps that were skipped, from `first` on: who is up is asked. Who was up in one of them, and is down
    /// without having been given up since, is waited for. `all`: all copies that there may be, on all OSDs.
    fn add_gap(&mut self, map: &OsdMap, told: &Told, first: Epoch, all: impl Iterator<Item = CopyId>) {
        let all: BTreeSet<CopyId> = all.collect();
        self.probe.extend(all.iter().filter(|copy| map.is_up(copy.osd)));
        let away = |copy: &CopyId| match map.info(copy.osd) {
            _ if map.is_up(copy.osd) => told.unable.contains(copy),
            Some(info) => info.down_at > first && info.lost_at < info.down_at && map.state(copy.osd) & state::DESTROYED == 0,
            None => false,
        };
        let away: BTreeSet<CopyId> = all.into_iter().filter(away).collect();
        self.down.extend(&away);
        self.needed.extend(away);
    }

    fn add(&mut self, map: &OsdMap, me: CopyId, least: usize, told: &Told, interval: &PastInterval) {
        let Told { empty, unable, whole, .. } = told;
        let lost = |copy: CopyId| is_lost_since(map, copy.osd, interval.last);
        let members = || me.shard.copies(&interval.acting);
        let reachable = |copy: CopyId| copy == me || map.is_up(copy.osd);
        self.probe.extend(members().filter(|copy| reachable(*copy)));
        // Before a group serves, all its members have written down that they are. So if one of them, whose store is the one that it had,
        // knows nothing of the group, nothing was served in that interval.
        if members().any(|copy| empty.contains(&copy) && !lost(copy)) {
            return;
        }
        // Who was given up may be back with what it had, or with another disk that was being filled since: only a whole copy that took up
        // the log of that interval, or of a later one, stands for it.
        let stands = |copy: CopyId| !lost(copy) || whole.get(&copy).is_none_or(|started| *started >= interval.first);
        let remembers = |copy: CopyId| reachable(copy) && !unable.contains(&copy) && stands(copy);
        let survives = members().filter(|copy| remembers(*copy) && !empty.contains(copy)).count() >= least;
        let waited: BTreeSet<CopyId> = members().filter(|copy| !remembers(*copy) && !lost(*copy)).collect();
        self.down.extend(&waited);
        if !survives {
            self.needed.extend(waited);
        }
    }
}

fn put_union(w: &mut Writer, union: &Union) {
    for n in [union.epoch, union.share, union.into, u32::from(union.ends.is_some())] {
        w.num(n.into());
    }
    for version in union.ends.iter().flat_map(|(source, target)| [source, target]) {
        put_version(w, *version);
    }
}

fn get_union(r: &mut Parser<'_>) -> Result<Union> {
    let (epoch, share, into) = (r.num32()?, r.num32()?, r.num32()?);
    let ends = if r.num()? == 0 { None } else { Some((get_version(r)?, get_version(r)?)) };
    Ok(Union { epoch, share, into, ends })
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::OsdInfo;
    use types::Locator;

    /// Copies of a replicated pool.
    fn copies<const N: usize>(osds: [OsdId; N]) -> BTreeSet<CopyId> {
        osds.into_iter().map(CopyId::whole).collect()
    }

    fn past(first: Epoch, last: Epoch, acting: &[OsdId]) -> PastInterval {
        PastInterval { first, last, acting: acting.to_vec(), primary: acting[0] }
    }

    /// OSDs 0 to 4, of which some are up.
    fn map(up: &[OsdId]) -> OsdMap {
        let mut map = OsdMap { epoch: 50, ..OsdMap::default() };
        map.set_max_osd(5);
        for osd in 0..5usize {
            map.osd_state[osd] = state::EXISTS | if up.contains(&(osd as OsdId)) { state::UP } else { 0 };
        }
        map
    }

    #[test]
    fn histories_come_back_and_layout_1_is_the_only_copy() {
        let cursor = HObject::head(Bytes::from_static(b"at"), &Locator::pool(3));
        let history = History {
            created: 3,
            pg_num: 32,
            since: 40,
            started: 30,
            clean: 20,
            interval: Interval { up: vec![1, 2], acting: vec![2], primary: 2, size: 2, ..Interval::default() },
            past: vec![past(20, 39, &[1, 2])],
            backfill: Some(cursor),
            estimated: true,
            parent: Some(0),
            ..History::default()
        };
        assert_eq!(History::decode(&history.encode()), Ok(history.clone()));
        let ends = Some((EVersion::new(4, 9), EVersion::new(4, 7)));
        let unions = vec![Union { epoch: 50, share: 4, into: 3, ends }, Union { epoch: 51, ..Union::default() }];
        let united = History { unions, taken: vec![7], ..history };
        assert_eq!(History::decode(&united.encode()), Ok(united));
        let mut w = Writer::default();
        [1u64, 3, 8, 17].iter().for_each(|n| w.num(*n));
        put_osds(&mut w, &[4]);
        put_osds(&mut w, &[4]);
        w.num(0);
        put_intervals(&mut w, &Intervals::default());
        for _ in 0..2 {
            put_version(&mut w, EVersion::default());
            w.denc(&UTime::ZERO);
        }
        w.num(0);
        w.denc(&UTime::ZERO);
        w.num(0);
        let old = History::decode(&w.finish()).expect("layout 1");
        assert_eq!((old.created, old.since, old.clean, old.interval.primary), (3, 17, 17, 4));
        assert!(old.past.is_empty() && old.is_complete());
    }

    #[test]
    fn a_copy_that_came_to_be_within_an_interval_knows_when_that_began() {
        let interval = Interval { acting: vec![1, 2], primary: 1, size: 2, min_size: 1, ..Interval::default() };
        let lead = History { created: 3, since: 40, up_thru: 40, interval: interval.clone(), ..History::default() };
        let late = History { since: 42, ..lead.clone() };
        assert!(lead.may_have_written() && !late.may_have_written(), "the map says that its primary was up at 40");
        let mut told = late.clone();
        told.take_beginning(&lead);
        assert!(told.since == 40 && told.may_have_written());
        let mut of_another = late.clone();
        of_another.take_beginning(&History { interval: Interval { primary: 2, ..interval }, ..lead });
        assert_eq!(of_another, late);
    }

    #[test]
    fn one_living_member_of_each_interval_is_enough_and_needed() {
        let mut history = History { created: 1, past: vec![past(10, 19, &[0, 1]), past(20, 29, &[2, 3])], ..History::default() };
        let none = Told::default();
        let empty = |osd| Told { empty: copies([osd]), ..Told::default() };
        let prior = history.prior(&map(&[0, 3, 4]), CopyId::whole(4), 1, &none);
        assert_eq!(prior.probe, copies([0, 3]));
        assert_eq!((prior.down, prior.needed), (copies([1, 2]), BTreeSet::new()));
        let prior = history.prior(&map(&[0, 4]), CopyId::whole(4), 1, &none);
        assert_eq!(prior.needed, copies([2, 3]));
        // Who is up, with the store that he had, and holds nothing: so nobody served.
        let prior = history.prior(&map(&[0, 3, 4]), CopyId::whole(4), 1, &empty(3));
        assert!(prior.needed.is_empty());
        // With a new store he cannot know.
        let mut replaced = map(&[0, 3, 4]);
        replaced.osd_info[3] = OsdInfo { lost_at: 40, ..OsdInfo::default() };
        assert_eq!(history.prior(&replaced, CopyId::whole(4), 1, &empty(3)).needed, copies([2]));
        // Who cannot read what he holds proves nothing.
        assert_eq!(
            history.prior(&map(&[0, 3, 4]), CopyId::whole(4), 1, &Told { unable: copies([3]), ..Told::default() }).needed,
            copies([2, 3])
        );
        let mut lost = map(&[0, 4]);
        for osd in [2usize, 3] {
            lost.osd_info[osd] = OsdInfo { lost_at: 35, ..OsdInfo::default() };
        }
        assert!(history.prior(&lost, CopyId::whole(4), 1, &none).needed.is_empty());
        history.clean = 30;
        assert!(
            history.prior(&map(&[4]), CopyId::whole(4), 1, &none).needed.is_empty(),
            "what was before a clean interval is forgotten"
        );
    }

    #[test]
    fn where_places_have_positions_an_osd_is_asked_for_the_shard_that_it_had() {
        let at = |osd, shard| CopyId { osd, shard: types::ShardId(shard) };
        let moved = Interval { up: vec![4, 1, 3], acting: vec![4, 1, types::HOLE], primary: 4, size: 3, ..Interval::default() };
        let past = vec![past(10, 19, &[0, types::HOLE, 1])];
        let history = History { created: 1, interval: moved, past, ..History::default() };
        let prior = history.prior(&map(&[0, 1, 3, 4]), at(4, 0), 1, &Told::default());
        assert_eq!(prior.probe, [at(0, 0), at(1, 1), at(1, 2), at(3, 2)].into(), "osd.1 is two copies, and holes are none");
        // One copy of an OSD says nothing for the other one.
        let lost = Told { unable: [at(0, 0)].into(), empty: [at(1, 1)].into(), ..Told::default() };
        assert!(history.prior(&map(&[0, 1, 3, 4]), at(4, 0), 1, &lost).needed.is_empty());
        let served = Told { unable: [at(0, 0), at(1, 2)].into(), ..lost };
        assert_eq!(history.prior(&map(&[0, 1, 3, 4]), at(4, 0), 1, &served).needed, [at(0, 0), at(1, 2)].into());
        // Maps that were skipped: whatever shard an OSD may have had.
        let gaps = Told { gaps: vec![(5, 6)], ..Told::default() };
        assert_eq!(
            history.prior(&map(&[3, 4]), at(4, 0), 1, &gaps).probe,
            [at(3, 0), at(3, 1), at(3, 2), at(4, 1), at(4, 2)].into()
        );
    }

    #[test]
    fn who_was_given_up_and_is_back_stands_for_an_interval_whose_log_it_has() {
        let history = History { created: 1, past: vec![past(20, 29, &[2, 3])], ..History::default() };
        let mut map = map(&[0, 3, 4]);
        map.osd_info[3] = OsdInfo { lost_at: 35, ..OsdInfo::default() };
        let needed = |map: &OsdMap, told: History| {
            let all = Told { whole: [(CopyId::whole(3), told.whole_since())].into(), ..Told::default() };
            history.prior(map, CopyId::whole(4), 1, &all).needed
        };
        let told = |started| History { created: 1, started, ..History::default() };
        let filled = |started| History { backfill: Some(HObject::min()), ..told(started) };
        assert_eq!(needed(&map, filled(40)), copies([2]), "another disk, which is being filled");
        assert_eq!(needed(&map, told(19)), copies([2]), "what it had before that interval");
        assert!(needed(&map, told(20)).is_empty(), "the disk that it had");
        assert!(needed(&map, told(40)).is_empty(), "another disk, which was filled");
        map.osd_info[3].lost_at = 0;
        assert!(needed(&map, filled(40)).is_empty(), "who was never given up had all when it began to be filled anew");
        map.osd_info[3].lost_at = 35;
        map.osd_info[2].lost_at = 36;
        assert!(needed(&map, filled(40)).is_empty(), "nobody is left to be waited for");
    }

    /// A group of OSDs 0 and 1, whose copy on 0 saw map 9 and then map 50.
    fn behind_a_gap(landed: &OsdMap) -> History {
        let seen = Interval { acting: vec![0, 1], primary: 0, size: 2, min_size: 1, ..Interval::default() };
        let mut history =
            History { created: 1, since: 5, started: 5, clean: 5, up_thru: 5, noted: 9, interval: seen, ..History::default() };
        let mut landed = landed.clone();
        landed.pools.insert(3, maps::Pool { size: 2, min_size: 1, pg_num: 1, pgp_num: 1, ..maps::Pool::default() });
        landed.pg_temp.insert(PgId::new(3, 0), vec![0, 1]);
        assert!(history.note(&landed, PgId::new(3, 0)));
        history
    }

    #[test]
    fn of_skipped_maps_anybody_may_know_and_who_was_up_in_them_is_waited_for() {
        let mut landed = map(&[0, 1, 4]);
        let quiet = behind_a_gap(&landed);
        assert_eq!((quiet.past.len(), quiet.gaps()), (1, vec![]), "no OSD did anything in those maps");
        // 2 died before them, 3 in them.
        landed.osd_info[2] = OsdInfo { up_from: 3, down_at: 8, ..OsdInfo::default() };
        landed.osd_info[3] = OsdInfo { up_from: 3, up_thru: 30, down_at: 40, ..OsdInfo::default() };
        let history = behind_a_gap(&landed);
        assert_eq!(history.gaps(), [(10, 49)]);
        assert_eq!(History::decode(&history.encode()).map(|read| read.past), Ok(history.past.clone()));
        let needed = |map: &OsdMap, told: &Told| history.prior(map, CopyId::whole(0), 1, told);
        let told = |gaps: Vec<Gap>| Told { empty: copies([1, 4]), gaps, ..Told::default() };
        let prior = needed(&landed, &told(history.gaps()));
        assert_eq!((prior.probe, prior.needed), (copies([1, 4]), copies([3])));
        assert!(needed(&landed, &told(Vec::new())).needed.is_empty(), "somebody knows");
        let unable = Told { unable: copies([4]), ..told(history.gaps()) };
        assert_eq!(needed(&landed, &unable).needed, copies([3, 4]));
        let mut given_up = landed.clone();
        given_up.osd_info[3].lost_at = 41;
        assert!(needed(&given_up, &told(history.gaps())).needed.is_empty());
        // It was given up once, came back and died again.
        given_up.osd_info[3].lost_at = 20;
        assert_eq!(needed(&given_up, &told(history.gaps())).needed, copies([3]));
    }

    #[test]
    fn a_gap_is_closed_by_who_knows_what_was_in_it() {
        let mut landed = map(&[0, 1]);
        landed.osd_info[3] = OsdInfo { up_thru: 30, down_at: 40, ..OsdInfo::default() };
        let gapped = behind_a_gap(&landed);
        let saw_all = History { created: 1, clean: 5, past: vec![past(12, 49, &[3])], ..History::default() };
        let saw_a_part = History { past: vec![PastInterval::gap(30, 60)], ..saw_all.clone() };
        let knows_nothing = History { created: 0, ..saw_all.clone() };
        let closed = |by: &History| {
            let mut history = gapped.clone();
            history.close_gaps(by);
            history.gaps()
        };
        assert_eq!((closed(&saw_all), closed(&saw_a_part), closed(&knows_nothing)), (vec![], vec![(30, 49)], vec![(10, 49)]));
        // What was in a gap before the group was clean matters no more.
        assert_eq!(closed(&History { clean: 61, ..saw_a_part.clone() }), []);
        // A complete copy that took up the log that counts behind the gap knows what was in it as long as it is heard; it may be the only one.
        let took_up = History { started: 70, ..saw_a_part.clone() };
        assert_eq!((took_up.gaps(), closed(&took_up)), (vec![], vec![(30, 49)]));
        assert_eq!(History { backfill: Some(HObject::min()), ..took_up }.gaps(), [(30, 60)]);
        assert_eq!(in_both(&[(1, 5), (8, 9)], &[(4, 8)]), [(4, 5), (8, 8)]);
    }

    #[test]
    fn gaps_with_nothing_between_are_one() {
        let mut landed = map(&[0, 1]);
        landed.osd_info[3] = OsdInfo { up_thru: 30, down_at: 40, ..OsdInfo::default() };
        let mut history = behind_a_gap(&landed);
        landed.epoch = 70;
        landed.osd_info[3].down_at = 60;
        landed.pools.insert(3, maps::Pool { size: 2, min_size: 1, pg_num: 1, pgp_num: 1, ..maps::Pool::default() });
        landed.pg_temp.insert(PgId::new(3, 0), vec![0, 1]);
        history.note(&landed, PgId::new(3, 0));
        assert_eq!(history.gaps(), [(10, 69)]);
    }

    #[test]
    fn an_interval_counts_only_if_its_primary_was_known_to_be_up_and_members_were_enough() {
        let base = History {
            created: 1,
            since: 10,
            interval: Interval { acting: vec![0, 1], primary: 0, size: 3, min_size: 2, ..Interval::default() },
            ..History::default()
        };
        assert!(!base.may_have_written());
        assert!(History { up_thru: 10, ..base.clone() }.may_have_written());
        assert!(!History { up_thru: 9, ..base.clone() }.may_have_written());
        let few = Interval { min_size: 3, ..base.interval.clone() };
        assert!(!History { up_thru: 10, interval: few, ..base.clone() }.may_have_written());
        let single = Interval { size: 1, min_size: 1, ..base.interval.clone() };
        assert!(History { interval: single, ..base }.may_have_written());
    }
}
