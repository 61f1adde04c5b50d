//! Answers that are remembered, in case their requests come again: from a client that lost its monitor, or its leader.
//!
//! From [`types::Feature::AnswersByAge`] on an answer is kept for [`AGE`] seconds, by the stamps of the proposals that
//! bring answers: so all monitors forget the same ones. Two bounds may end it sooner. The answers of one client take
//! at most [`OF_CLIENT`] bytes, those of all [`OF_ALL`]; the oldest go first, and the newest always stays. Before that
//! level it is the last [`COUNT`] answers of all clients.
//!
//! Answers of some seconds stand together in a slice. Copies of the state share the slices, so a new answer copies one
//! of them at most.

use super::quorum::{Answered, RequestKey};
use denc::{Encode, Reader, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// Answers that are kept before the level at which they are kept by age.
const COUNT: usize = 1_000;
/// Seconds for which an answer is kept.
pub const AGE: u32 = 600;
/// Seconds of one slice.
const SLICE: u32 = 10;
/// Bytes that the answers of one client take at most.
pub const OF_CLIENT: usize = 1 << 20;
/// Bytes that all answers take at most.
pub const OF_ALL: usize = 8 << 20;
/// Bytes that an answer takes beside its text.
const BESIDE: usize = 64;

/// Answers that came within some seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Slice {
    /// When the first one came, in seconds; 0 for those of before the level, whose time was not kept.
    since: u32,
    /// Oldest first.
    answers: VecDeque<(RequestKey, Answered)>,
}

/// All that are remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Oldest first, none of them empty.
    slices: VecDeque<Arc<Slice>>,
    /// Bytes of all.
    bytes: usize,
}

fn size(answer: &Answered) -> usize {
    answer.head.front.len() + answer.data.len() + BESIDE
}

impl Done {
    /// Returns the answer to a request that was done.
    pub fn answer(&self, key: RequestKey) -> Option<&Answered> {
        self.newest_first().find(|(k, _)| *k == key).map(|(_, answer)| answer)
    }

    fn newest_first(&self) -> impl Iterator<Item = &(RequestKey, Answered)> {
        self.slices.iter().rev().flat_map(|slice| slice.answers.iter().rev())
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
            while self.slices.iter().map(|slice| slice.answers.len()).sum::<usize>() > COUNT {
                self.drop_oldest(|_| true);
            }
            return;
        }
        while self.bytes > OF_ALL && self.newest_first().nth(1).is_some() {
            self.drop_oldest(|_| true);
        }
        let of_client = |(k, answer): &(RequestKey, Answered)| if k.client == key.client { size(answer) } else { 0 };
        let mut bytes: usize = self.newest_first().map(of_client).sum();
        while bytes > OF_CLIENT && self.newest_first().filter(|(k, _)| k.client == key.client).nth(1).is_some() {
            bytes -= self.drop_oldest(|k| k.client == key.client);
        }
    }

    /// Forgets what is too old. Those whose time was not kept are as if they had come now.
    fn forget_old(&mut self, now: u32) {
        for slice in self.slices.iter_mut().filter(|slice| slice.since == 0) {
            Arc::make_mut(slice).since = now;
        }
        let before = self.slices.len();
        self.slices.retain(|slice| now.saturating_sub(slice.since) <= AGE + SLICE);
        if self.slices.len() == before {
            return;
        }
        self.bytes = self.slices.iter().flat_map(|slice| &slice.answers).map(|(_, answer)| size(answer)).sum();
    }

    fn add(&mut self, now: u32, key: RequestKey, answer: Answered) {
        let fits = |slice: &Slice| now.checked_sub(slice.since).is_some_and(|age| age < SLICE);
        if !self.slices.back().is_some_and(|slice| fits(slice)) {
            self.slices.push_back(Arc::new(Slice { since: now, answers: VecDeque::new() }));
        }
        self.bytes += size(&answer);
        if let Some(slice) = self.slices.back_mut() {
            Arc::make_mut(slice).answers.push_back((key, answer));
        }
    }

    /// Drops the oldest answer among some. Returns its bytes.
    fn drop_oldest(&mut self, among: impl Fn(&RequestKey) -> bool) -> usize {
        let places = self.slices.iter().enumerate();
        let found = places.filter_map(|(at, slice)| Some((at, slice.answers.iter().position(|(key, _)| among(key))?))).next();
        let Some((at, place)) = found else { return 0 };
        let slice = Arc::make_mut(&mut self.slices[at]);
        let bytes = slice.answers.remove(place).map_or(0, |(_, answer)| size(&answer));
        if slice.answers.is_empty() {
            self.slices.remove(at);
        }
        self.bytes -= bytes;
        bytes
    }

    /// Encodes them as before the level: without their times.
    pub(super) fn encode_untimed(&self, out: &mut Vec<u8>) {
        denc::put_count(out, self.slices.iter().map(|slice| slice.answers.len()).sum());
        for (key, answer) in self.slices.iter().flat_map(|slice| &slice.answers) {
            key.encode(out);
            answer.encode(out);
        }
    }

    /// Encodes them with their times.
    pub(super) fn encode_timed(&self, out: &mut Vec<u8>) {
        denc::put_count(out, self.slices.len());
        for slice in &self.slices {
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
        for _ in 0..slices {
            let since = if timed { r.get()? } else { 0 };
            let n = r.count(16)?;
            let answers: VecDeque<_> = (0..n).map(|_| Ok((r.get()?, r.get()?))).collect::<Result<_>>()?;
            if !answers.is_empty() {
                done.bytes += answers.iter().map(|(_, answer)| size(answer)).sum::<usize>();
                done.slices.push_back(Arc::new(Slice { since, answers }));
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
