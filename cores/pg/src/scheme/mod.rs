//! How a pool keeps an object: the only room of this crate that knows it.
//!
//! A scheme is a value without state. It answers questions; whoever asks acts. Order, intervals, streams, reservations
//! and crashes are the same in every scheme, so they stay where they are.
//!
//! | question | who asks | copies | shards |
//! |---|---|---|---|
//! | which scheme does a group have? ([`Scheme::of`]) | `pg/load.rs` | | by the pool's profile |
//! | does this copy have all of an object ([`Scheme::is_whole`])? | `primary/`, `replica/aside.rs` | yes | its shard of it |
//! | which operations does the pool take? ([`Scheme::admits`]) | `ops/` | all | decision 40 |
//! | through which view does an operation read ([`Scheme::sight`])? | `primary/lanes.rs` | the own store | an eye, which notes what is missed of other shards |
//! | what happens on each shard ([`Scheme::share`]), and what does each copy get of an update ([`Scheme::divide`])? | `primary/lanes.rs`, `primary/members.rs` | all get the same | each its own objects |
//! | what does a copy answer that is asked for a part of its shard? ([`Scheme::piece`]) | `replica/mod.rs` | nothing | the part |
//! | how many members of an interval are enough to know what it wrote ([`Scheme::least`]), and how many promises to read ([`Scheme::may_read`])? | `history.rs`, `primary/laggy.rs` | one; those of all others | k; all but k − 1 |
//! | whose log counts, up to where, and who shall serve? ([`Scheme::plan`]) | `peering/mod.rs` | the newest log of the newest interval | what all copies of the newest interval have in common; whoever has the shard of a position |
//! | what was before a change ([`Scheme::note_before`])? | `primary/lanes.rs` | nothing is noted | what each shard keeps |
//! | what becomes of an object of an entry that does not count ([`Scheme::undo`]), and what does a copy lack of one that it did not carry out ([`Scheme::lack`])? | `core/log_merge.rs` | it is brought; what the entry says | it becomes what was kept; it is missing |
//! | who suffices to make an object ([`Scheme::can_make`]), and who is asked for it ([`Scheme::source`])? | `primary/recovery.rs`, `primary/remake.rs`, `primary/unfound.rs` | one who has it | k shards; each of them |
//! | how is a shard made anew ([`Scheme::remake`])? | `primary/remake.rs` | | of k others |
//!
//! Places, and the members without which a group does not serve, are counts that the map gives, and the same in every
//! scheme: [`maps::Interval`] compares them. A test of the house says that no other file of this crate asks for a
//! pool's type or for the size of its redundancy. Decisions 36, 37 and 40 say why it is built like this.

mod copies;
mod shards;

use crate::body::Body;
use crate::entry::LogEntry;
use crate::letter::{PeerInfo, Sealed, encoded};
use crate::log::common;
use crate::missing::Lack;
use crate::pieces::{Pieces, Want};
use bytes::Bytes;
use maps::{Interval, OsdMap, Pool, pool_flags};
use messages::osd::code;
use objectstore::{Hold, ObjectChange, ObjectChanges, ObjectStore, Read, View};
use shards::Shards;
use shards::read::Eye;
pub(crate) use shards::write::Shares;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use types::{CopyId, EVersion, Epoch, Errno, Feature, HObject, ObjectId, OsdId, Rope, ShardId, SpgId};

/// Reason for which a group does not serve of which nobody has a copy.
pub(crate) const NO_COPY: &str = "no copy that can be reached is complete: an OSD that has one must come back";

/// How a pool keeps an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// Each copy has all of each object.
    #[default]
    Copies,
    /// Each copy has one shard of each object.
    Shards(Arc<Shards>),
}

/// How one run of an operation sees objects.
pub(crate) enum Sight<'a> {
    /// As the store has them.
    Own(&'a dyn ObjectStore),
    /// Put together of shards.
    Eye(Eye<'a>),
}

impl Sight<'_> {
    /// Returns the view through which operations read.
    pub(crate) fn view(&self) -> &dyn View {
        match self {
            Self::Own(store) => *store,
            Self::Eye(eye) => eye,
        }
    }

    /// Gives what was missed on other shards.
    pub(crate) fn into_wants(self) -> Vec<Want> {
        match self {
            Self::Own(_) => Vec::new(),
            Self::Eye(eye) => eye.into_wants(),
        }
    }
}

/// Who shall serve a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Whose log counts.
    pub(crate) leader: CopyId,
    /// The newest entry of it that counts; `None`: all of it counts.
    pub(crate) cut: Option<EVersion>,
    /// Who shall serve: the primary first, or at their positions, with holes, where the group has shards.
    pub(crate) acting: Vec<OsdId>,
    /// Who belongs to the group and must be filled first.
    pub(crate) backfill: Vec<CopyId>,
}

#[cfg(feature = "sim")]
impl Plan {
    /// Makes a mistake about up to where the log of shards counts.
    pub(crate) fn spoilt(self, mistake: Option<crate::selfcheck::Mistake>, infos: &BTreeMap<CopyId, PeerInfo>) -> Self {
        use crate::selfcheck::Mistake;
        let whole = infos.iter().filter(|(_, peer)| peer.history.created > 0 && peer.history.is_complete());
        let heads: BTreeSet<(EVersion, CopyId)> = whole.map(|(copy, peer)| (peer.info.last_update, *copy)).collect();
        let (Some(lowest), Some((longest, leader))) = (heads.first(), heads.last()) else { return self };
        let cut = match mistake.filter(|_| self.cut.is_some()) {
            Some(Mistake::LongestLog) => *longest,
            Some(Mistake::LowestOfAll) => lowest.0,
            _ => return self,
        };
        Self { cut: Some(cut), leader: *leader, ..self }
    }
}

/// What becomes of an object on a copy that carried out an entry that does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Undo {
    /// Nothing: the entry changed none.
    Nothing,
    /// It goes: it was not there before.
    Remove,
    /// It is missing, and is brought as it was before.
    Bring(Lack),
    /// It becomes what was kept of it: the generation with this number, whose record this is.
    Restore { generation: u64, record: Bytes },
}

/// An update, as each copy gets it.
pub(crate) enum Divided<'a> {
    /// All get the same, which is encoded once.
    Same(&'a Body, Option<Sealed>),
    /// Each gets what happens to its own shards of the objects. All else is the same.
    Each(&'a Body, &'a Shares),
}

/// A body with what happens to the objects of one shard.
fn of_shard(body: &Body, shares: &Shares, copy: CopyId) -> Body {
    let own = usize::try_from(copy.shard.0).ok().and_then(|shard| shares.get(shard));
    Body { objects: own.cloned().unwrap_or_default(), ..body.clone() }
}

impl Divided<'_> {
    /// Returns what a copy gets.
    pub(crate) fn of(&mut self, copy: CopyId) -> Sealed {
        match self {
            Self::Same(body, whole) => whole.get_or_insert_with(|| encoded(body)).clone(),
            Self::Each(body, shares) => encoded(&of_shard(body, shares, copy)),
        }
    }

    /// Returns what a copy gets that is being filled: what happens to objects that `reaches` does not name is left out.
    pub(crate) fn limited(&mut self, copy: CopyId, reaches: impl Fn(&HObject) -> bool) -> Sealed {
        match self {
            Self::Same(body, _) => encoded(&body.limited(reaches)),
            Self::Each(body, shares) => encoded(&of_shard(body, shares, copy).limited(reaches)),
        }
    }
}

/// Returns true if a copy can be brought up to the log of `leader`, of which entries behind `tail` are known, by that
/// log alone.
pub(crate) fn continues(peer: &PeerInfo, leader: &PeerInfo, tail: EVersion) -> bool {
    common(&peer.runs, &leader.runs) >= tail
}

impl Scheme {
    /// Returns the scheme of a group, by its pool and the map.
    ///
    /// # Errors
    /// A sentence that says why this program cannot serve the group.
    pub(crate) fn of(id: SpgId, pool: &Pool, map: &OsdMap) -> Result<Self, String> {
        match (pool.is_erasure(), id.shard.is_none()) {
            (false, true) => return Ok(Self::Copies),
            (false, false) => return Err("it has shards, and its pool has none".into()),
            (true, true) => return Err("it has no shards, and its pool has".into()),
            (true, false) => {}
        }
        if !map.level.has(Feature::Shards) {
            return Err(format!("pools of shards need level {}, the cluster's is {}", Feature::Shards.level(), map.level));
        }
        // What the pool was made by, whatever became of its profile since.
        let Some(layout) = map.layout(id.pg.pool) else { return Err("the map does not say how its pool keeps objects".into()) };
        let shards = Shards::of(&layout.profile, layout.most_chunk.into());
        let shards = shards.map_err(|why| format!("this program does not serve its pool's code: {why}"))?;
        match usize::from(pool.size) == shards.count() {
            true => Ok(Self::Shards(Arc::new(shards))),
            false => Err(format!("its pool has size {}, and its code {} shards", pool.size, shards.count())),
        }
    }

    /// Returns true if each copy has all of an object, so that it can read alone.
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            Self::Copies => true,
            Self::Shards(_) => false,
        }
    }

    /// Looks at an operation before it runs: whether the pool takes it. `offset`: of an extent; `size`: of the object,
    /// `None` if it is not there.
    ///
    /// # Errors
    /// EOPNOTSUPP.
    pub(crate) fn admits(&self, pool: &Pool, op: u16, offset: u64, size: Option<u64>) -> Result<(), Errno> {
        let Self::Shards(_) = self else { return Ok(()) };
        let omap = matches!(op, code::OMAPSETVALS | code::OMAPSETHEADER | code::OMAPCLEAR | code::OMAPRMKEYS)
            || matches!(op, code::OMAPRMKEYRANGE | code::TMAPPUT | code::TMAPUP | code::TMAPGET | code::TMAP2OMAP);
        let never = omap || matches!(op, code::SYNC_READ | code::MAPEXT | code::COPY_FROM | code::COPY_FROM2);
        // Without overwrites a pool takes whole rows at the end, and no other writes.
        let appends_only = !pool.has_flag(pool_flags::EC_OVERWRITES);
        let aligned = |at: u64| pool.stripe_width == 0 || at.is_multiple_of(pool.stripe_width.into());
        let misplaced = match op {
            code::WRITE | code::WRITESAME => !aligned(offset) || offset != size.unwrap_or(0),
            code::APPEND => !aligned(size.unwrap_or(0)),
            code::ZERO | code::TRUNCATE | code::TRIMTRUNC => true,
            _ => false,
        };
        if never || appends_only && misplaced { Err(Errno::EOPNOTSUPP) } else { Ok(()) }
    }

    /// Returns how a run sees objects. `pieces`: what came of other shards for the job.
    pub(crate) fn sight<'a>(&'a self, store: &'a dyn ObjectStore, pieces: &'a Pieces) -> Sight<'a> {
        match self {
            Self::Copies => Sight::Own(store),
            Self::Shards(shards) => Sight::Eye(Eye::new(shards, store, pieces)),
        }
    }

    /// Returns what happens on each shard in a change of objects, and here among them; `None`: the same at all copies.
    /// `whole`: an object whose data are replaced gets all of them at once.
    pub(crate) fn share(&self, sight: &Sight<'_>, hold: Hold, objects: &[ObjectChanges], whole: bool) -> Read<Option<Shares>> {
        match (self, sight) {
            (Self::Shards(shards), Sight::Eye(eye)) => shards.share(eye, hold, objects, whole).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns what a copy answers that is asked for a part of its shard; `None`: it does not have it. `object`: its name
    /// here.
    pub(crate) fn piece(&self, store: &dyn View, hold: Hold, object: &ObjectId, want: &Want) -> Read<Option<Rope>> {
        match self {
            Self::Copies => Ok(None),
            Self::Shards(shards) => shards.piece(store, hold, object, want),
        }
    }

    /// Returns what each copy gets of an update. `shares`: what [`Scheme::share`] gave for it.
    pub(crate) fn divide<'a>(&self, body: &'a Body, shares: Option<&'a Shares>) -> Divided<'a> {
        match (self, shares) {
            (_, Some(shares)) => Divided::Each(body, shares),
            (Self::Copies, None) => Divided::Same(body, None),
            (Self::Shards(_), None) => {
                debug_assert!(body.objects.is_empty(), "what happens to shards is divided first");
                Divided::Same(body, None)
            }
        }
    }

    /// Returns how many surviving members of an interval are enough to know, and to have, what was acknowledged in it.
    pub(crate) fn least(&self) -> usize {
        match self {
            Self::Copies => 1,
            Self::Shards(shards) => shards.k(),
        }
    }

    /// Returns true if a primary may read: so many of the other serving copies promised to stay.
    ///
    /// A later interval hears [`Scheme::least`] of the n copies that serve before it serves. These, those that promised,
    /// and the primary are more than n together, so one that promised is heard, and its promise is waited for.
    pub(crate) fn may_read(&self, others: usize, promised: usize) -> bool {
        promised + self.least() > others
    }

    /// Returns whose log counts and who shall serve the group in this interval, by what copies told. `me`: the copy that
    /// decides; `lost`: whether an OSD was given up since an epoch.
    ///
    /// # Errors
    /// A sentence that says why they are not enough, and what helps.
    pub(crate) fn plan(
        &self,
        infos: &BTreeMap<CopyId, PeerInfo>,
        interval: &Interval,
        me: CopyId,
        lost: impl Fn(OsdId, Epoch) -> bool,
    ) -> Result<Plan, &'static str> {
        match self {
            Self::Copies => copies::plan(infos, interval, me).ok_or(NO_COPY),
            Self::Shards(shards) => shards.plan(infos, interval, me, lost),
        }
    }

    /// Returns what becomes of an entry's object on a copy that carried it out, and it does not count.
    pub(crate) fn undo(&self, entry: &LogEntry) -> Undo {
        match self {
            Self::Copies => copies::undo(entry),
            Self::Shards(shards) => shards.undo(entry),
        }
    }

    /// Lets the entries of a change say what was before it, where that is what undoes it. `body` has what happens here.
    pub(crate) fn note_before(&self, store: &dyn View, hold: Hold, body: &mut Body) -> Read<()> {
        match self {
            Self::Copies => Ok(()),
            Self::Shards(shards) => shards.note_before(store, hold, body),
        }
    }

    /// Returns what a copy lacks of an object after an entry that it did not carry out. `before`: what was missing
    /// before; `None` if it had the object as it was then.
    pub(crate) fn lack(&self, before: Option<&Lack>, entry: &LogEntry) -> Lack {
        match self {
            Self::Copies => Lack::after(before, entry),
            Self::Shards(_) => Lack::whole(entry.done.version),
        }
    }

    /// Returns true if an object can be made of what these copies hold of it.
    pub(crate) fn can_make(&self, holders: &[CopyId]) -> bool {
        match self {
            Self::Copies => !holders.is_empty(),
            Self::Shards(shards) => {
                let held: BTreeSet<ShardId> = holders.iter().map(|copy| copy.shard).collect();
                held.len() >= shards.k()
            }
        }
    }

    /// Returns whom to ask for an object that these hold, or for its record; `None`: nobody, yet. `answers`: who can answer now.
    pub(crate) fn source(&self, holders: &[CopyId], answers: impl Fn(&CopyId) -> bool) -> Option<CopyId> {
        holders.iter().copied().find(answers)
    }

    /// Makes shards of an object anew: see [`Remade`]. `object`: its name here; `record`: the object's; `lost`: the shards that
    /// are wanted; `at`: where on a shard it begins; `most`: bytes of each shard at most.
    ///
    /// # Errors
    /// Parts of other shards must come first; the sight noted them. Or there are too few shards.
    pub(crate) fn remake(
        &self,
        sight: &Sight<'_>,
        hold: Hold,
        object: &ObjectId,
        record: &[u8],
        lost: &[ShardId],
        (at, most): (u64, u64),
    ) -> Read<Remade> {
        match (self, sight) {
            (Self::Shards(shards), Sight::Eye(eye)) => shards.remake_part(eye, hold, object, record, lost, (at, most)),
            _ => Ok(Remade::default()),
        }
    }
}

/// A part of some shards of an object, made anew.
#[derive(Debug, Default)]
pub(crate) struct Remade {
    /// Changes for each, in the order in which they were wanted.
    pub(crate) shards: Vec<Vec<ObjectChange>>,
    /// Place on a shard where the next part begins; `None`: this is the last.
    pub(crate) next: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_copies_one_survivor_knows_all_and_no_promise_may_be_missing() {
        let scheme = Scheme::default();
        assert_eq!(scheme.least(), 1);
        assert!((0..12).all(|others| scheme.may_read(others, others)));
        assert!((1..12).all(|others| !scheme.may_read(others, others - 1)));
    }

    #[test]
    fn of_shards_k_survivors_know_all_and_k_less_one_promises_may_be_missing() {
        let scheme = Scheme::Shards(Arc::new(shards::tests::shards(4, 2, "")));
        assert_eq!(scheme.least(), 4);
        assert!(scheme.may_read(5, 2) && !scheme.may_read(5, 1));
    }

    #[test]
    fn a_group_whose_profile_is_not_known_says_why_it_is_not_served() {
        let pairs = |words: &str| words.split(' ').filter_map(|w| w.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect();
        let mut map = OsdMap { level: types::Levels::OWN.newest, ..OsdMap::default() };
        let made_by = |map: &mut OsdMap, words| {
            let layout = maps::Layout { data: 2, most_chunk: 64 << 10, profile: pairs(words) };
            map.layouts.insert(1, maps::Layouts::one(layout));
        };
        let pool = |size| Pool { type_: maps::pool_type::ERASURE, size, ..Pool::default() };
        let id = SpgId { pg: types::PgId::new(1, 0), shard: types::ShardId(1) };
        let why = |id, pool: &Pool, map: &OsdMap| Scheme::of(id, pool, map).expect_err("it is not served");
        assert!(why(id, &pool(3), &map).contains("does not say how"));
        made_by(&mut map, "plugin=clay k=2 m=1");
        assert!(why(id, &pool(3), &map).contains("plugin=clay is not supported"));
        made_by(&mut map, "plugin=jerasure technique=reed_sol_van k=2 m=1");
        assert!(Scheme::of(id, &pool(3), &map).is_ok_and(|scheme| scheme.least() == 2));
        assert!(why(id, &pool(4), &map).contains("size 4"));
        assert!(why(SpgId::whole(id.pg), &pool(3), &map).contains("no shards"));
        assert!(why(id, &Pool::default(), &map).contains("its pool has none"));
        map.level = types::level::Level(4);
        assert!(why(id, &pool(3), &map).contains("need level 5"));
    }

    #[test]
    fn pools_of_shards_refuse_what_they_cannot_do() {
        let scheme = Scheme::Shards(Arc::new(shards::tests::shards(2, 1, "")));
        let pool = |flags| Pool { type_: maps::pool_type::ERASURE, flags, stripe_width: 8192, ..Pool::default() };
        let (appends, overwrites) = (pool(0), pool(pool_flags::EC_OVERWRITES));
        let admits = |pool: &Pool, op, offset, size| scheme.admits(pool, op, offset, size).is_ok();
        for op in [code::OMAPSETVALS, code::OMAPCLEAR, code::TMAPUP, code::MAPEXT, code::SYNC_READ, code::COPY_FROM2] {
            assert!(!admits(&overwrites, op, 0, Some(0)), "{op}");
            assert!(Scheme::Copies.admits(&overwrites, op, 0, Some(0)).is_ok());
        }
        for (op, offset, size, good) in [
            (code::WRITE, 0, None, true),
            (code::WRITE, 8192, Some(8192), true),
            (code::WRITE, 8192, Some(9000), false),
            (code::WRITE, 0, Some(8192), false),
            (code::WRITE, 100, Some(100), false),
            (code::APPEND, 0, Some(8192), true),
            (code::APPEND, 0, Some(100), false),
            (code::ZERO, 0, Some(100), false),
            (code::TRUNCATE, 0, Some(100), false),
            (code::WRITEFULL, 0, Some(100), true),
            (code::DELETE, 0, Some(100), true),
            (code::SETXATTR, 0, Some(100), true),
        ] {
            assert_eq!(admits(&appends, op, offset, size), good, "{op} at {offset} of {size:?}");
            assert!(admits(&overwrites, op, offset, size), "{op} at {offset} of {size:?}");
        }
    }

    #[test]
    fn of_copies_whoever_has_an_object_is_its_source() {
        let scheme = Scheme::default();
        let holders = [CopyId::whole(4), CopyId::whole(2)];
        assert!(scheme.can_make(&holders[1..]) && !scheme.can_make(&[]));
        assert_eq!(scheme.source(&holders, |_| true), Some(holders[0]));
        assert_eq!(scheme.source(&holders, |copy| copy.osd == 2), Some(holders[1]));
        assert_eq!(scheme.source(&holders, |_| false), None, "who has it cannot answer now");
    }
}
