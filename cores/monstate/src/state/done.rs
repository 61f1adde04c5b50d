//! Answers that are remembered, in case their requests come again: from a client that lost its monitor, or its leader.
//!
//! From [`types::Feature::AnswersByAge`] on an answer is kept for [`AGE`] seconds, by the stamps of the proposals that
//! bring answers: so all monitors forget the same ones. Two bounds may end it sooner. The answers of one client take
//! at most [`OF_CLIENT`] bytes, those of all [`OF_ALL`]; the oldest go first, and the newest always stays. Before that
//! level it is the last [`COUNT`] answers of all clients.
//!
//! Answers of some seconds stand together in a slice. Copies of the state share the slices, so a new answer copies one
//! of them at most. Each slice knows whose answers it has, and one table knows what each client's take in all. So a new
//! answer costs what it makes others go, and a look at the slices, not at all answers.

use super::quorum::{Answered, RequestKey};
use denc::{Encode, Reader, Result};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Answers that are kept before the level at which they are kept by age.
const COUNT: usize = 1_000;
/// Seconds for which an answer is kept.
pub const AGE: u32 = 600;
/// Seconds of one slice.
const SLICE: u32 = 10;
/// Answers of one slice. What is copied for a new answer has a bound by that.
const OF_SLICE: usize = 256;
/// Bytes that the answers of one client take at most.
pub const OF_CLIENT: usize = 1 << 20;
/// Bytes that all answers take at most.
pub const OF_ALL: usize = 8 << 20;
/// Bytes that an answer takes beside its text.
const BESIDE: usize = 64;
/// Tables of clients: one of them is copied for a new answer.
const TABLES: usize = 16;

/// Answers of one client in a slice.
#[derive(Clone, Copy, Debug)]
struct Of {
    answers: usize,
    /// The least and the largest transaction id that it ever had.
    tids: (u64, u64),
}

/// Answers that came within some seconds.
#[derive(Clone, Debug, Default)]
struct Slice {
    /// Time when the first one came, in seconds; 0 for those of before the level, whose time was not kept.
    since: u32,
    /// Oldest first.
    answers: VecDeque<(RequestKey, Answered)>,
    /// Answers by client.
    of: BTreeMap<u64, Of>,
}

impl Slice {
    fn push(&mut self, key: RequestKey, answer: Answered) {
        let of = self.of.entry(key.client).or_insert(Of { answers: 0, tids: (key.tid, key.tid) });
        (of.answers, of.tids) = (of.answers + 1, (of.tids.0.min(key.tid), of.tids.1.max(key.tid)));
        self.answers.push_back((key, answer));
    }

    /// Takes the oldest answer out, of one client if one is named.
    fn take_oldest(&mut self, client: Option<u64>) -> Option<(RequestKey, Answered)> {
        let mine = |(key, _): &(RequestKey, Answered)| client.is_none_or(|client| key.client == client);
        let place = self.answers.iter().position(mine)?;
        let (key, answer) = self.answers.remove(place)?;
        if let Some(of) = self.of.get_mut(&key.client) {
            of.answers -= 1;
            if of.answers == 0 {
                self.of.remove(&key.client);
            }
        }
        Some((key, answer))
    }

    fn may_have(&self, key: RequestKey) -> bool {
        self.of.get(&key.client).is_some_and(|of| (of.tids.0..=of.tids.1).contains(&key.tid))
    }
}

/// Bytes that the answers of one client take.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    answers: usize,
    bytes: usize,
}

/// All that are remembered.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Oldest first, none of them empty, by a number that rises.
    slices: BTreeMap<u64, Arc<Slice>>,
    /// Answers in all.
    count: usize,
    /// Bytes of all.
    bytes: usize,
    /// Bytes of each client; [`TABLES`] of them, or none yet.
    shares: Vec<Arc<BTreeMap<u64, Share>>>,
}

/// Compares what is remembered, however it came to be.
impl PartialEq for Done {
    fn eq(&self, other: &Self) -> bool {
        let text = |done: &Self| done.slices.values().map(|slice| (slice.since, slice.answers.len())).collect::<Vec<_>>();
        text(self) == text(other) && self.newest_first().eq(other.newest_first())
    }
}

impl Eq for Done {}

fn size(answer: &Answered) -> usize {
    answer.head.front.len() + answer.data.len() + BESIDE
}

fn table(client: u64) -> usize {
    (client % TABLES as u64) as usize
}

impl Done {
    /// Returns the answer to a request that was done.
    pub fn answer(&self, key: RequestKey) -> Option<&Answered> {
        let slices = self.slices.values().rev().filter(|slice| slice.may_have(key));
        slices.flat_map(|slice| slice.answers.iter().rev()).find(|(k, _)| *k == key).map(|(_, answer)| answer)
    }

    fn newest_first(&self) -> impl Iterator<Item = &(RequestKey, Answered)> {
        self.slices.values().rev().flat_map(|slice| slice.answers.iter().rev())
    }

    fn share(&self, client: u64) -> Share {
        self.shares.get(table(client)).and_then(|table| table.get(&client)).copied().unwrap_or_default()
    }

    /// Returns the bytes that they take, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Remembers an answer. `now`: the time in seconds, from the level on at which answers are kept by age.
    pub fn note(&mut self, key: RequestKey, answer: Answered, now: Option<u32>) {
        if let Some(now) = now {
            self.forget_old(now);
        }
        self.add(now.unwrap_or(0), key, answer);
        if now.is_none() {
            while self.count > COUNT {
                self.drop_oldest(None);
            }
            return;
        }
        while self.bytes > OF_ALL && self.count > 1 {
            self.drop_oldest(None);
        }
        while self.share(key.client).bytes > OF_CLIENT && self.share(key.client).answers > 1 {
            self.drop_oldest(Some(key.client));
        }
    }

    /// Forgets what is too old. Those whose time was not kept are as if they had come now.
    fn forget_old(&mut self, now: u32) {
        for slice in self.slices.values_mut().filter(|slice| slice.since == 0) {
            Arc::make_mut(slice).since = now;
        }
        let old = |slice: &Slice| now.saturating_sub(slice.since) > AGE + SLICE;
        let gone: Vec<u64> = self.slices.iter().filter(|(_, slice)| old(slice)).map(|(number, _)| *number).collect();
        for number in gone {
            let Some(slice) = self.slices.remove(&number) else { continue };
            slice.answers.iter().for_each(|(key, answer)| self.discount(*key, size(answer)));
        }
    }

    fn add(&mut self, now: u32, key: RequestKey, answer: Answered) {
        let fits = |slice: &Slice| {
            // Before the level all stand together.
            let age = now.checked_sub(slice.since).is_some_and(|age| age < SLICE);
            age && (slice.answers.len() < OF_SLICE || now == 0)
        };
        let last = self.slices.last_key_value().map(|(number, slice)| (*number, fits(slice)));
        let number = match last {
            Some((number, true)) => number,
            last => {
                let number = last.map_or(0, |(number, _)| number + 1);
                self.slices.insert(number, Arc::new(Slice { since: now, ..Slice::default() }));
                number
            }
        };
        self.count_in(key, size(&answer));
        if let Some(slice) = self.slices.get_mut(&number) {
            Arc::make_mut(slice).push(key, answer);
        }
    }

    fn count_in(&mut self, key: RequestKey, bytes: usize) {
        self.shares.resize_with(TABLES, Arc::default);
        let share = Arc::make_mut(&mut self.shares[table(key.client)]).entry(key.client).or_default();
        *share = Share { answers: share.answers + 1, bytes: share.bytes + bytes };
        (self.count, self.bytes) = (self.count + 1, self.bytes + bytes);
    }

    fn discount(&mut self, key: RequestKey, bytes: usize) {
        (self.count, self.bytes) = (self.count - 1, self.bytes - bytes);
        let table = Arc::make_mut(&mut self.shares[table(key.client)]);
        if let Some(share) = table.get_mut(&key.client) {
            *share = Share { answers: share.answers - 1, bytes: share.bytes - bytes };
            if share.answers == 0 {
                table.remove(&key.client);
            }
        }
    }

    /// Drops the oldest answer, of one client if one is named.
    fn drop_oldest(&mut self, client: Option<u64>) {
        let mine = |slice: &Slice| client.is_none_or(|client| slice.of.contains_key(&client));
        let Some(number) = self.slices.iter().find(|(_, slice)| mine(slice)).map(|(number, _)| *number) else { return };
        let Some(slice) = self.slices.get_mut(&number) else { return };
        let slice = Arc::make_mut(slice);
        let Some((key, answer)) = slice.take_oldest(client) else { return };
        if slice.answers.is_empty() {
            self.slices.remove(&number);
        }
        self.discount(key, size(&answer));
    }

    /// Encodes them as before the level: without their times.
    pub(super) fn encode_untimed(&self, out: &mut Vec<u8>) {
        denc::put_count(out, self.count);
        for (key, answer) in self.slices.values().flat_map(|slice| &slice.answers) {
            key.encode(out);
            answer.encode(out);
        }
    }

    /// Encodes them with their times.
    pub(super) fn encode_timed(&self, out: &mut Vec<u8>) {
        denc::put_count(out, self.slices.len());
        for slice in self.slices.values() {
            slice.since.encode(out);
            denc::put_count(out, slice.answers.len());
            for (key, answer) in &slice.answers {
                key.encode(out);
                answer.encode(out);
            }
        }
    }

    /// Decodes what was written before the level, or with times.
    ///
    /// # Errors
    /// The bytes are cut off, or none of these.
    pub(super) fn decode(r: &mut Reader<'_>, timed: bool) -> Result<Self> {
        let mut done = Self::default();
        let slices = if timed { r.count(8)? } else { 1 };
        for number in 0..slices as u64 {
            let since = if timed { r.get()? } else { 0 };
            let mut slice = Slice { since, ..Slice::default() };
            for _ in 0..r.count(16)? {
                let (key, answer): (RequestKey, Answered) = (r.get()?, r.get()?);
                done.count_in(key, size(&answer));
                slice.push(key, answer);
            }
            if !slice.answers.is_empty() {
                done.slices.insert(number, Arc::new(slice));
            }
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn key(client: u64, tid: u64) -> RequestKey {
        RequestKey { client, tid, kind: 50 }
    }

    fn answer(bytes: usize) -> Answered {
        Answered { data: Bytes::from(vec![7; bytes]), ..Answered::default() }
    }

    fn kept(done: &Done) -> Vec<(u64, u64)> {
        done.newest_first().map(|(key, _)| (key.client, key.tid)).collect()
    }

    #[test]
    fn an_answer_is_kept_for_ten_minutes_however_many_come() {
        let mut done = Done::default();
        done.note(key(1, 1), answer(9), Some(1000));
        for n in 0..10_000 {
            done.note(key(2 + n % 50, n), answer(9), Some(1000 + (n / 17) as u32));
        }
        assert_eq!(done.answer(key(1, 1)), Some(&answer(9)), "ten thousand came since");
        done.note(key(3, 77_777), answer(9), Some(1000 + AGE));
        assert!(done.answer(key(1, 1)).is_some());
        done.note(key(3, 77_778), answer(9), Some(1001 + AGE + SLICE));
        assert_eq!(done.answer(key(1, 1)), None);
    }

    #[test]
    fn one_client_takes_its_share_and_all_take_theirs() {
        let mut done = Done::default();
        done.note(key(1, 1), answer(9), Some(1000));
        for n in 0..100 {
            done.note(key(2, n), answer(100_000), Some(1000));
        }
        assert!(done.answer(key(1, 1)).is_some() && done.bytes() <= OF_CLIENT + 1000);
        assert_eq!(kept(&done).len(), 11, "ten of client 2");
        for client in 3..100 {
            done.note(key(client, 1), answer(1_000_000), Some(1001));
        }
        assert!(done.bytes() <= OF_ALL && done.answer(key(1, 1)).is_none());
        assert_eq!(kept(&done), (92..100).rev().map(|client| (client, 1)).collect::<Vec<_>>());
        done.note(key(100, 1), answer(2 * OF_ALL), Some(1002));
        assert_eq!(kept(&done), [(100, 1)], "the newest stays, however large");
    }

    /// What is counted beside the answers fits them, after anything.
    fn check(done: &Done) {
        let mut shares: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
        for (key, answer) in done.newest_first() {
            let share = shares.entry(key.client).or_default();
            *share = (share.0 + 1, share.1 + size(answer));
            assert_eq!(done.answer(*key).map(size), Some(size(answer)));
        }
        let kept = done.shares.iter().flat_map(|table| table.iter()).map(|(client, s)| (*client, (s.answers, s.bytes)));
        assert_eq!(kept.collect::<BTreeMap<_, _>>(), shares);
        let sums = (shares.values().map(|s| s.0).sum(), shares.values().map(|s| s.1).sum());
        assert_eq!((done.count, done.bytes), sums);
        assert!(done.slices.values().all(|slice| !slice.answers.is_empty()));
    }

    #[test]
    fn what_is_counted_fits_what_is_kept() {
        let (mut done, mut chance) = (Done::default(), 7_u64);
        let mut below = |n: u64| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (chance >> 33) % n
        };
        let mut now = 1000;
        for tid in 0..6_000 {
            now += below(4) as u32 * below(3) as u32;
            let large = if below(20) == 0 { 300_000 } else { 500 };
            let at = if tid < 300 { None } else { Some(now - below(20) as u32) };
            done.note(key(1 + below(40), tid), answer(below(large) as usize), at);
            if tid % 200 == 0 {
                check(&done);
                let mut bytes = Vec::new();
                done.encode_timed(&mut bytes);
                let read = Done::decode(&mut Reader::new(&bytes), true).unwrap();
                check(&read);
                assert_eq!(read, done);
            }
        }
        assert!(done.count > 200 && done.bytes <= OF_ALL);
    }

    /// A copy of the state before each answer, as proposals make them.
    #[test]
    fn a_new_answer_copies_little_of_what_is_there() {
        let mut done = Done::default();
        for tid in 0..50_000 {
            done.note(key(1 + tid % 500, tid), answer(9), Some(1000 + (tid / 500) as u32));
        }
        let before = done.clone();
        done.note(key(3, 99_999), answer(9), Some(1100));
        let shared = |a: &Arc<Slice>, b: &Arc<Slice>| Arc::ptr_eq(a, b);
        let slices = before.slices.iter().filter(|(n, slice)| !done.slices.get(n).is_some_and(|s| shared(s, slice))).count();
        let tables = before.shares.iter().zip(&done.shares).filter(|(a, b)| !Arc::ptr_eq(a, b)).count();
        assert!(slices <= 1 && tables == 1, "{slices} slices, {tables} tables");
        assert!(done.slices.values().all(|slice| slice.answers.len() <= OF_SLICE));
    }

    #[test]
    fn clocks_that_differ_lose_only_what_is_old_by_one_of_them() {
        let mut done = Done::default();
        for (tid, now) in [(1, 5000), (2, 1000), (3, 5001), (4, 1001)] {
            done.note(key(1, tid), answer(9), Some(now));
        }
        assert_eq!(kept(&done), [(1, 4), (1, 3), (1, 1)], "2 is over an hour old by the clock of 3");
    }

    #[test]
    fn what_an_older_program_wrote_is_read_and_counts_from_the_level_on() {
        let mut done = Done::default();
        (0..COUNT as u64 + 5).for_each(|tid| done.note(key(1, tid), answer(9), None));
        assert_eq!((kept(&done).len(), kept(&done).last()), (COUNT, Some(&(1, 5))), "as the older program counts");
        let mut bytes = Vec::new();
        done.encode_untimed(&mut bytes);
        let mut read = Done::decode(&mut Reader::new(&bytes), false).unwrap();
        assert_eq!(read, done);
        read.note(key(1, 5000), answer(9), Some(9000));
        read.note(key(1, 5001), answer(9), Some(9000 + AGE));
        assert_eq!(kept(&read).len(), COUNT + 2, "all are as if they had come with the first one");
        bytes.clear();
        read.encode_timed(&mut bytes);
        assert_eq!(Done::decode(&mut Reader::new(&bytes), true).unwrap(), read);
        read.note(key(1, 5002), answer(9), Some(9001 + AGE + SLICE));
        assert_eq!(kept(&read), [(1, 5002), (1, 5001)]);
        assert!(Done::decode(&mut Reader::new(&bytes[..bytes.len() - 1]), true).is_err());
    }
}
