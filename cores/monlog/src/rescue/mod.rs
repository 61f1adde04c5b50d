//! Ways back for monitors that were lost: a backup and its restoration, one monitor that goes on alone, a state made of
//! what OSDs know.
//!
//! All of it works on bytes of stores that no monitor runs on, and gives the bytes of a new store. Nothing here does
//! input or output.
//!
//! | function | from | the new store holds |
//! |---|---|---|
//! | [`rescue`] | the store of one monitor | all that this monitor knew, entries too of which it never heard that they were committed: the others may have counted them |
//! | [`restore`] | a backup | what was committed when the backup was made |
//! | [`rebuild`] | keys of this host, an OSD map | the OSD map, keys of daemons and of the administrator; else a new cluster's state |
//!
//! *The new log* has one voter with a number that nobody had, in a term above the old one. So no monitor from before
//! counts it, and it counts none of them.
//!
//! *OSD maps.* The newest map that anybody can give counts, whether from the store or from an OSD: only what OSDs had a
//! map of can they have done. What the lost monitors decided after it is not known. So the new map's epoch is far above
//! ([`JUMP`], and ten for each second since a backup), and it alone is in the history: whoever has an older map gets
//! this one in full. In it
//!
//! - each pool is told to send everything again, which ends the interval of each group at every OSD, whatever it knew
//!   before. Members must agree anew, and what one of them wrote in an interval that the others never heard of counts;
//! - numbers that must never be given twice go up: of pools, of snapshots, and of clients in the auth database;
//! - if there are OSDs whose maps were not seen, all OSDs that were ever up are up in it, and `nodown` is set. No group
//!   serves then without all of its members of that map, until a person has seen that those who are missing are lost,
//!   and takes the flag away. Else a member that missed the last writes might serve alone. The map of a rescued monitor
//!   may be old, too: it may have been cut off for long before the others were lost.

mod backup;
mod store;

pub use backup::{About, about};

use denc::{Decode, Encode};
use maps::{MonInfo, MonMap, OsdMap, flags, state as bits};
use monstate::config::Config;
use monstate::state::{History, State, genesis};
use quorum::VoterId;
use std::collections::BTreeSet;
use std::sync::Arc;
use types::{Epoch, OsdId, UTime};

pub(crate) use store::stored;

/// Epochs by which the new map is above the newest one that is known: more than a cluster makes in an hour.
const JUMP: Epoch = 1_000_000;
/// Epochs for each second since a backup was made.
const JUMP_EACH_SECOND: u64 = 10;
/// No map is made above this epoch: a few more rescues must be possible.
const LAST_EPOCH: u64 = 1 << 31;
/// Numbers of pools that are left out.
const POOLS: i32 = 1_000;
/// Numbers of clients that are left out for each epoch that is.
const CLIENTS_EACH_EPOCH: u64 = 1_000;

/// Reads bytes of a store from an offset, as many as the buffer has.
pub type ReadAt<'a> = dyn FnMut(u64, &mut [u8]) -> Result<(), String> + 'a;

/// The monitor that is made.
#[derive(Clone, Debug)]
pub struct Seat {
    /// Its name, without `mon.`.
    pub name: String,
    /// Place where it listens.
    pub addrs: types::EntityAddrVec,
    /// The number of its store: random, not 0.
    pub voter: u64,
    /// The time.
    pub now: UTime,
}

/// Knowledge beside the monitor's store or backup.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The newest OSD map that an OSD has, as bytes.
    pub map: Option<Vec<u8>>,
    /// OSDs whose newest maps were seen.
    pub osds: BTreeSet<OsdId>,
    /// An epoch that surely was made, from elsewhere; 0 if there is none.
    pub above: Epoch,
}

/// A store that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remade {
    /// Its bytes, by offset; all else is zeros.
    pub image: Vec<(u64, Vec<u8>)>,
    /// Epoch of the OSD map that it was made of.
    pub base: Epoch,
    /// Epoch of its OSD map.
    pub epoch: Epoch,
    /// `nodown` is set: these OSDs may know of newer maps.
    pub unseen: Vec<OsdId>,
    /// Names of monitors that are not in the cluster any more.
    pub dropped: Vec<String>,
}

/// A copy of the state that was committed in a store, also of a monitor that runs: the bytes of a file.
///
/// # Errors
/// What is wrong with the store. A store that is being written may look damaged for a moment.
pub fn backup(read: &mut ReadAt<'_>, len: u64, fsid: [u8; 16], now: UTime) -> Result<Vec<u8>, String> {
    let stored = stored(read, len, fsid)?;
    Ok(backup::encode(&stored.committed, stored.term, now))
}

/// The CRUSH map that a monitor's store holds.
///
/// # Errors
/// What is wrong with the store. A store that is being written may look damaged for a moment.
pub fn crush_map(read: &mut ReadAt<'_>, len: u64, fsid: [u8; 16]) -> Result<Arc<crush::Map>, String> {
    Ok(stored(read, len, fsid)?.committed.osdmap.crush.clone())
}

/// The last entry of a monitor's store: its term and its index. Of two stores of one cluster the one with the larger
/// term knows more; of equal terms, the one with the larger index.
///
/// # Errors
/// What is wrong with the store. A store that is being written may look damaged for a moment.
pub fn last_entry(read: &mut ReadAt<'_>, len: u64, fsid: [u8; 16]) -> Result<(u64, u64), String> {
    let at = stored(read, len, fsid)?.at;
    Ok((at.term, at.index))
}

/// Makes a store with which one monitor goes on alone from what it knew.
///
/// # Errors
/// What is wrong with the store, or with the OSD map.
pub fn rescue(read: &mut ReadAt<'_>, len: u64, fsid: [u8; 16], seat: &Seat, known: &Known) -> Result<Remade, String> {
    let stored = stored(read, len, fsid)?;
    remake(stored.last, stored.term, seat, known, 0)
}

/// Makes a store from a backup.
///
/// # Errors
/// What is wrong with the backup, or with the OSD map; the clock is before the backup.
pub fn restore(file: &[u8], seat: &Seat, known: &Known) -> Result<Remade, String> {
    let backup = backup::decode(file)?;
    let Some(age) = seat.now.sec.checked_sub(backup.stamp.sec) else {
        return Err(format!("the backup was made at {}, which is in the future: is this host's clock right?", backup.stamp));
    };
    remake(backup.state, backup.term, seat, known, age)
}

/// Makes a store of the newest OSD map that OSDs have; `config` has the keys.
///
/// # Errors
/// There is no map, or it is of another cluster.
pub fn rebuild(config: &Config, seat: &Seat, known: &Known) -> Result<Remade, String> {
    if known.map.is_none() {
        return Err("no OSD gave a map: there is nothing that a monitor could be made of".into());
    }
    let mut state = genesis::state(config, seat.now).passed(1);
    let mut monmap = genesis::monmap(config, 1, seat.now, seat.now);
    monmap.mon_info.clear();
    monmap.ranks.clear();
    state.monmap = Arc::new(monmap);
    remake(state, 0, seat, known, 0)
}

/// The epoch of an OSD map.
///
/// # Errors
/// It cannot be read.
pub fn epoch_of(map: &[u8]) -> Result<Epoch, String> {
    OsdMap::from_bytes(map).map(|map| map.epoch).map_err(|e| format!("its OSD map cannot be read: {e}"))
}

/// The state as the only one there is from now on. `age`: seconds since it was true, as far as that is known.
fn remake(mut state: State, term: u64, seat: &Seat, known: &Known, age: u32) -> Result<Remade, String> {
    let map = newest_map(&state, known)?;
    if let Some(why) = types::Levels::OWN.refusal(map.level) {
        return Err(why);
    }
    let base = map.epoch;
    let later = u64::from(age) * JUMP_EACH_SECOND;
    let epoch = u64::from(base.max(known.above)) + u64::from(JUMP) + later;
    let epoch = Epoch::try_from(epoch).ok().filter(|e| u64::from(*e) <= LAST_EPOCH);
    let epoch =
        epoch.ok_or_else(|| format!("OSD maps are at epoch {base}: there is no room above for epochs that nobody has seen"))?;
    let unseen: Vec<OsdId> = map.osds().filter(|osd| map.up_from(*osd) > 0 && !known.osds.contains(osd)).collect();
    let dropped = state.monmap.mon_info.keys().filter(|name| **name != seat.name).cloned().collect();
    take_map(&mut state, lifted(map, epoch, !unseen.is_empty(), seat.now));
    let jump = epoch - base;
    take_monitors(&mut state, jump, seat);
    Arc::make_mut(&mut state.auth).global_id_limit += u64::from(jump) * CLIENTS_EACH_EPOCH;
    state.log_version += u64::from(jump);
    // An index of 0 would be a log without a beginning.
    let state = state.passed(state.index + 1);
    Ok(Remade { image: store::image(VoterId(seat.voter), term + 1, &state)?, base, epoch, unseen, dropped })
}

/// The newer one of the state's map and the one that an OSD has.
fn newest_map(state: &State, known: &Known) -> Result<OsdMap, String> {
    let own = || (*state.osdmap).clone();
    let Some(bytes) = &known.map else { return Ok(own()) };
    let map = OsdMap::from_bytes(bytes).map_err(|e| format!("the OSD map of an OSD cannot be read: {e}"))?;
    if map.fsid != state.fsid {
        return Err(format!("the OSD map is of cluster {}, not of {}", map.fsid, state.fsid));
    }
    let level = map.level.max(state.osdmap.level);
    let newest = if map.epoch > state.osdmap.epoch { map } else { own() };
    Ok(OsdMap { level, ..newest })
}

/// The map that goes on at `epoch`. `hold`: nobody serves before all that may have newer data are there.
fn lifted(mut map: OsdMap, epoch: Epoch, hold: bool, now: UTime) -> OsdMap {
    let jump = u64::from(epoch - map.epoch);
    map.epoch = epoch;
    map.modified = now;
    map.pool_max = map.pool_max.saturating_add(POOLS);
    for pool in map.pools.values_mut() {
        pool.last_force_op_resend = epoch;
        pool.last_force_op_resend_prenautilus = epoch;
        pool.last_force_op_resend_preluminous = epoch;
        pool.last_change = epoch;
        pool.snap_seq += jump;
        pool.snap_epoch = epoch;
    }
    if hold {
        map.flags |= flags::NODOWN;
        let known: Vec<OsdId> = map.osds().filter(|osd| map.up_from(*osd) > 0).collect();
        for osd in known {
            map.osd_state[osd as usize] |= bits::UP;
        }
        map.last_up_change = now;
    }
    map
}

fn take_map(state: &mut State, map: OsdMap) {
    let full: bytes::Bytes = map.to_bytes();
    state.history = Arc::new(History::new(map.epoch, full));
    state.osdmap = Arc::new(map);
}

/// The monitor and its manager alone.
fn take_monitors(state: &mut State, jump: Epoch, seat: &Seat) {
    let mut map: MonMap = (*state.monmap).clone();
    map.epoch += jump;
    map.last_changed = seat.now;
    map.mon_info.clear();
    map.ranks.clear();
    map.add(MonInfo { name: seat.name.clone(), public_addrs: seat.addrs.clone(), ..MonInfo::default() });
    state.monmap_bytes = map.to_bytes();
    state.monmap = Arc::new(map);
    let mut manager = (*state.mgrmap).clone();
    manager.epoch += jump;
    state.mgrmap_bytes = manager.to_bytes();
    state.mgrmap = Arc::new(manager);
    if !state.quorum.is_empty() {
        let quorum = Arc::make_mut(&mut state.quorum);
        quorum.ranges.clear();
        let mut own = quorum.mons.remove(&seat.name).unwrap_or_default();
        own.voter = seat.voter;
        quorum.mons = [(seat.name.clone(), own)].into();
    }
}

#[cfg(test)]
mod tests;
