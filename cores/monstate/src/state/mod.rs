//! The replicated state: all that the cluster knows durably, and how a committed proposal changes it.
//!
//! A [`State`] is cheap to clone, because its parts are shared. So the leader keeps one for each proposal in flight:
//! handlers read the newest one, and answers are given from the durable one.

pub mod authdb;
pub mod change;
pub mod configdb;
pub mod done;
pub mod genesis;
pub mod history;
pub mod quorum;

pub use authdb::AuthDb;
pub use change::{Change, Mute, Proposal};
pub use configdb::ConfigDb;
pub use history::History;
pub use quorum::{Answered, IdRange, MonRecord, Quorum, RequestKey};

use ::quorum::Index;
use bytes::Bytes;
use denc::{Decode, Encode, Reader};
use maps::{Incremental, MgrMap, MonMap, OsdMap, Sealed};
use messages::mon::LogEntry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use types::{EntityType, Feature, Fsid, OsdId, PoolId};

/// Lines that the cluster log keeps.
const LOG_KEPT: usize = 10_000;
/// Bytes that a line takes beside its text, about: who said it, where, when.
const LOG_LINE: usize = 100;
/// Version of the snapshot's layout; 1 while there was never more than one monitor, 2 before answers had times.
const VERSION: u8 = 3;

/// The state after all entries up to `index`.
#[derive(Clone, Debug)]
pub struct State {
    /// Index of the last entry that was applied.
    pub index: Index,
    /// The cluster's id.
    pub fsid: Fsid,
    /// The OSD map: OSDs, pools, placement.
    pub osdmap: Arc<OsdMap>,
    /// Past OSD maps, as bytes.
    pub history: Arc<History>,
    /// The monitor map.
    pub monmap: Arc<MonMap>,
    /// The encoded monitor map.
    pub monmap_bytes: Bytes,
    /// The manager map.
    pub mgrmap: Arc<MgrMap>,
    /// The encoded manager map.
    pub mgrmap_bytes: Bytes,
    /// The configuration database.
    pub config: Arc<ConfigDb>,
    /// Values that users store here (`config-key`).
    pub keys: Arc<BTreeMap<String, Bytes>>,
    /// Entities, and keys of services.
    pub auth: Arc<AuthDb>,
    /// Muted health codes.
    pub mutes: Arc<BTreeMap<String, Mute>>,
    /// The cluster log, oldest line first.
    pub log: Arc<VecDeque<Arc<LogEntry>>>,
    /// Number of lines that there ever were.
    pub log_version: u64,
    /// Texts of OSDs about themselves.
    pub osd_metadata: Arc<BTreeMap<OsdId, BTreeMap<String, String>>>,
    /// Knowledge of monitors about each other.
    pub quorum: Arc<Quorum>,
}

impl State {
    /// Applies a proposal as entry `index` and gives the new state. An error: the proposal does not fit the state, so
    /// the log is damaged or this program made a mistake.
    pub fn apply(&self, index: Index, proposal: &Proposal) -> Result<State, String> {
        self.apply_made(index, proposal, None)
    }

    /// As [`State::apply`]. The OSD map that the proposal leads to was made with it, and is not made again.
    ///
    /// # Errors
    /// As [`State::apply`].
    pub fn apply_made(&self, index: Index, proposal: &Proposal, mut made: Option<Sealed>) -> Result<State, String> {
        let mut next = self.clone();
        next.index = index;
        for change in &proposal.changes {
            let taken = match (change, made.take()) {
                (Change::OsdMap(bytes), Some(sealed)) if sealed.incremental == *bytes => next.take_made(sealed),
                (change, other) => {
                    made = other;
                    next.take(change, proposal)
                }
            };
            taken.map_err(|why| format!("entry {index} of the monitor's log: {why}"))?;
        }
        Ok(next)
    }

    /// Takes a map up that was made of this state's.
    fn take_made(&mut self, sealed: Sealed) -> Result<(), String> {
        let Sealed { map, incremental, full } = sealed;
        if map.epoch != self.osdmap.epoch + 1 {
            return Err(format!("OSD map {} was made for another one than {}", map.epoch, self.osdmap.epoch));
        }
        Arc::make_mut(&mut self.history).push(map.epoch, incremental, full);
        self.osdmap = Arc::new(map);
        Ok(())
    }

    /// The same state after an entry that changes nothing of it.
    pub fn passed(&self, index: Index) -> State {
        State { index, ..self.clone() }
    }

    fn take(&mut self, change: &Change, proposal: &Proposal) -> Result<(), String> {
        match change {
            Change::OsdMap(bytes) => self.take_osdmap(bytes)?,
            Change::MonMap(bytes) => {
                self.monmap = Arc::new(MonMap::from_bytes(bytes).map_err(|e| format!("monitor map: {e}"))?);
                self.monmap_bytes = bytes.clone();
            }
            Change::MgrMap(bytes) => {
                self.mgrmap = Arc::new(MgrMap::from_bytes(bytes).map_err(|e| format!("manager map: {e}"))?);
                self.mgrmap_bytes = bytes.clone();
            }
            Change::Config { by, set } => Arc::make_mut(&mut self.config).change(proposal.stamp, by, set),
            Change::Key { key, value: Some(value) } => drop(Arc::make_mut(&mut self.keys).insert(key.clone(), value.clone())),
            Change::Key { key, value: None } => drop(Arc::make_mut(&mut self.keys).remove(key)),
            Change::Auth { name, entity } => Arc::make_mut(&mut self.auth).set(name, entity.clone()),
            Change::ServiceKey { service, id, key } => Arc::make_mut(&mut self.auth).add_key(*service, *id, *key),
            Change::GlobalIds { limit } => Arc::make_mut(&mut self.auth).global_id_limit = *limit,
            Change::Mute { code, mute: Some(mute) } => drop(Arc::make_mut(&mut self.mutes).insert(code.clone(), mute.clone())),
            Change::Mute { code, mute: None } => drop(Arc::make_mut(&mut self.mutes).remove(code)),
            Change::Log(entries) => self.take_log(entries),
            Change::OsdMetadata { osd, metadata: Some(m) } => drop(Arc::make_mut(&mut self.osd_metadata).insert(*osd, m.clone())),
            Change::OsdMetadata { osd, metadata: None } => drop(Arc::make_mut(&mut self.osd_metadata).remove(osd)),
            Change::MapFloor { epoch } => Arc::make_mut(&mut self.history).trim(*epoch),
            Change::Mon { name, record } => self.take_mon(name, record.as_ref()),
            Change::IdRange { voter, range } => {
                let auth = Arc::make_mut(&mut self.auth);
                auth.global_id_limit = auth.global_id_limit.max(range.to);
                Arc::make_mut(&mut self.quorum).ranges.insert(*voter, *range);
            }
            Change::Done { key, answer } => {
                let timed = self.osdmap.level.has(Feature::AnswersByAge);
                Arc::make_mut(&mut self.quorum).done.note(*key, answer.clone(), timed.then_some(proposal.stamp.sec));
            }
        }
        Ok(())
    }

    fn take_mon(&mut self, name: &str, record: Option<&MonRecord>) {
        let quorum = Arc::make_mut(&mut self.quorum);
        if let Some(old) = quorum.mons.remove(name)
            && record.is_none_or(|r| r.voter != old.voter)
        {
            quorum.ranges.remove(&old.voter);
        }
        if let Some(record) = record {
            quorum.mons.insert(name.into(), record.clone());
        }
    }

    fn take_osdmap(&mut self, bytes: &Bytes) -> Result<(), String> {
        let inc = Incremental::from_bytes(bytes).map_err(|e| format!("OSD map increment: {e}"))?;
        let map = self.osdmap.apply(&inc).map_err(|e| format!("OSD map increment {}: {e}", inc.epoch))?;
        let full: Bytes = map.to_bytes();
        let crc = full.last_chunk::<4>().map_or(0, |c| u32::from_le_bytes(*c));
        if crc != inc.full_crc {
            return Err(format!(
                "OSD map {} has checksum {crc:08x} after the increment, expected {:08x}",
                map.epoch, inc.full_crc
            ));
        }
        Arc::make_mut(&mut self.history).push(map.epoch, bytes.clone(), full);
        self.osdmap = Arc::new(map);
        Ok(())
    }

    fn take_log(&mut self, entries: &[LogEntry]) {
        self.log_version += entries.len() as u64;
        let log = Arc::make_mut(&mut self.log);
        log.extend(entries.iter().cloned().map(Arc::new));
        while log.len() > LOG_KEPT {
            log.pop_front();
        }
    }

    /// Finds a pool by name.
    pub fn pool_id(&self, name: &str) -> Option<PoolId> {
        self.osdmap.pool_by_name(name).map(|(id, _)| id)
    }

    /// A pool's name.
    pub fn pool_name(&self, pool: PoolId) -> &str {
        self.osdmap.pool_name.get(&pool).map_or("", String::as_str)
    }

    /// Returns how many bytes the state takes on the disk, about.
    pub fn bytes(&self) -> u64 {
        let keys: usize = self.keys.iter().map(|(key, value)| key.len() + value.len() + 8).sum();
        let log: usize = self.log.iter().map(|line| line.message.len() + line.channel.len() + LOG_LINE).sum();
        let maps = self.monmap_bytes.len() + self.mgrmap_bytes.len();
        let others =
            self.config.to_vec().len() + self.auth.to_vec().len() + self.mutes.to_vec().len() + self.osd_metadata.to_vec().len();
        self.history.bytes() + (keys + log + maps + others + self.quorum.done.bytes()) as u64
    }

    /// Encodes the whole state for the disk.
    pub fn to_snapshot(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let version = match self.quorum.is_empty() {
            true => 1,
            false if self.osdmap.level.has(Feature::AnswersByAge) => VERSION,
            false => 2,
        };
        denc::envelope(&mut out, version, version, |out| {
            self.index.encode(out);
            self.fsid.encode(out);
            self.history.encode(out);
            self.monmap_bytes.encode(out);
            self.mgrmap_bytes.encode(out);
            self.config.encode(out);
            self.keys.encode(out);
            self.auth.encode(out);
            self.mutes.encode(out);
            denc::put_count(out, self.log.len());
            self.log.iter().for_each(|e| e.encode(out));
            self.log_version.encode(out);
            self.osd_metadata.encode(out);
            if version > 1 {
                self.quorum.encode(out, version > 2);
            }
        });
        out
    }

    /// Decodes a snapshot.
    pub fn from_snapshot(bytes: &[u8]) -> denc::Result<Self> {
        let mut r = Reader::new(bytes);
        let mut e = r.envelope("monitor snapshot", VERSION)?;
        let (version, b) = (e.version, &mut e.body);
        let (index, fsid, history) = (b.get()?, b.get()?, b.get::<History>()?);
        let (monmap_bytes, mgrmap_bytes) = (b.get::<Bytes>()?, b.get::<Bytes>()?);
        Ok(Self {
            index,
            fsid,
            osdmap: Arc::new(OsdMap::from_bytes(history.newest())?),
            history: Arc::new(history),
            monmap: Arc::new(MonMap::from_bytes(&monmap_bytes)?),
            monmap_bytes,
            mgrmap: Arc::new(MgrMap::from_bytes(&mgrmap_bytes)?),
            mgrmap_bytes,
            config: Arc::new(b.get()?),
            keys: Arc::new(b.get()?),
            auth: Arc::new(b.get()?),
            mutes: Arc::new(b.get()?),
            log: Arc::new(b.get::<Vec<LogEntry>>()?.into_iter().map(Arc::new).collect()),
            log_version: b.get()?,
            osd_metadata: Arc::new(b.get()?),
            quorum: Arc::new(if version > 1 { Quorum::decode(b, version > 2)? } else { Quorum::default() }),
        })
    }
}

/// Finds the place of an entity in the cluster, for masks of options.
pub fn place_of(state: &State, kind: &EntityType, id: &str, host: &str) -> configdb::Place {
    let mut place = configdb::Place::default();
    if !host.is_empty() {
        place.location.insert("host".into(), host.into());
    }
    let crush = &state.osdmap.crush;
    place.distance = crush.types.iter().map(|(number, name)| (name.clone(), *number)).collect();
    if let (EntityType::Osd, Ok(osd)) = (kind, id.parse::<OsdId>()) {
        place.class = crush.class_of(osd).map(String::from);
        place.location.extend(crush.full_location(osd));
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use types::UTime;
    use types::level::Level;

    fn state(level: u8) -> State {
        let config = Config::bare(Fsid([7; 16]), "a");
        let mut state = genesis::state(&config, UTime::ZERO);
        let mut map = (*state.osdmap).clone();
        map.level = Level(level);
        state.history = Arc::new(History::new(map.epoch, map.to_bytes()));
        state.osdmap = Arc::new(map);
        state
    }

    fn done(state: &State, tid: u64, sec: u32) -> State {
        let key = RequestKey { client: 1, tid, kind: 50 };
        let changes = vec![Change::Done { key, answer: Answered::default() }];
        state.apply(state.index + 1, &Proposal { stamp: UTime { sec, nsec: 0 }, changes }).unwrap()
    }

    #[test]
    fn answers_have_times_in_snapshots_from_their_level_on() {
        let timed = Feature::AnswersByAge.level().0;
        for (level, layout) in [(timed - 1, 2), (timed, 3)] {
            let state = done(&done(&state(level), 1, 1000), 2, 1605);
            let bytes = state.to_snapshot();
            assert_eq!(bytes[0], layout, "at level {level}");
            let read = State::from_snapshot(&bytes).unwrap();
            assert_eq!((&read.quorum, read.to_snapshot()), (&state.quorum, bytes));
            let old = RequestKey { client: 1, tid: 1, kind: 50 };
            assert_eq!(done(&read, 3, 1611).quorum.done.answer(old).is_some(), layout == 2, "only an age ends it");
        }
    }

    #[test]
    fn its_size_is_about_that_of_its_snapshot() {
        let mut state = state(1);
        let keys = (0..1000).map(|n| Change::Key { key: format!("key {n}"), value: Some(vec![1; n % 300].into()) });
        let line = |n: usize| LogEntry { message: "m".repeat(n % 100), ..LogEntry::default() };
        let changes = keys.chain([Change::Log((0..1000).map(line).collect())]).collect();
        state = state.apply(state.index + 1, &Proposal { stamp: UTime::ZERO, changes }).unwrap();
        let (told, real) = (state.bytes(), state.to_snapshot().len() as u64);
        assert!(told.abs_diff(real) < real / 4, "{told} is told of {real}");
    }
}
