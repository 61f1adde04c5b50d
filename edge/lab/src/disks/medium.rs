//! The medium of a modelled disk: when what was asked is done. Times come from outside.
//!
//! It does one thing at a time. A request takes `latency`, its bytes at the disk's rate, and, unless it begins where
//! the one before it ended, the time of a random request. Without a cache requests are done in the order of their
//! coming. With one, writes are answered while they have room in it; the medium works them off in rounds over the disk,
//! neighbours as one request, and reads go before that.
//!
//! Invariants: extents in the cache neither overlap nor touch; `held` is the sum of their lengths.

use crate::plan::Point;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Most bytes that are worked off at once, so that reads come in between.
const CHUNK: u64 = 512 << 10;

/// How slow it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Time of a request that does not follow the one before.
    pub seek: Duration,
    /// Seconds for each byte.
    pub per_byte: f64,
    /// Least time of a request.
    pub latency: Duration,
    /// Bytes of the write-back cache.
    pub cache: u64,
    /// True if a flush is free.
    pub free_flush: bool,
}

impl Model {
    /// As the experiment says.
    pub fn new(spec: &Point) -> Self {
        let iops = spec.real("random_iops", 0.0);
        let rate = spec.real("mb_per_second", 0.0) * 1e6;
        Self {
            seek: if iops > 0.0 { Duration::from_secs_f64(1.0 / iops) } else { Duration::ZERO },
            per_byte: if rate > 0.0 { 1.0 / rate } else { 0.0 },
            latency: Duration::from_secs_f64(spec.real("latency_us", 0.0).clamp(0.0, 1e9) / 1e6),
            cache: spec.int("cache", 0),
            free_flush: spec.text("flush") == "free",
        }
    }

    fn bytes(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(self.per_byte * bytes as f64)
    }
}

/// See the module.
#[derive(Debug)]
pub struct Medium {
    model: Model,
    /// Time when all that it has begun is done.
    free: Instant,
    /// Time when all reads are done.
    reads_free: Instant,
    /// Place where the last request ended.
    head: u64,
    /// Extents in the cache: start and end.
    cached: BTreeMap<u64, u64>,
    held: u64,
}

impl Medium {
    /// An idle one.
    pub fn new(model: Model, now: Instant) -> Self {
        Self { model, free: now, reads_free: now, head: 0, cached: BTreeMap::new(), held: 0 }
    }

    fn cost(&mut self, offset: u64, bytes: u64) -> Duration {
        let seek = if offset == self.head { Duration::ZERO } else { self.model.seek };
        self.head = offset + bytes;
        self.model.latency + seek + self.model.bytes(bytes)
    }

    /// Works off one piece of the cache: the next one on the round over the disk.
    fn work_off(&mut self) -> bool {
        let next = self.cached.range(self.head..).next().or_else(|| self.cached.first_key_value());
        let Some((start, end)) = next.map(|(s, e)| (*s, *e)) else { return false };
        let bytes = (end - start).min(CHUNK);
        self.cached.remove(&start);
        if start + bytes < end {
            self.cached.insert(start + bytes, end);
        }
        self.held -= bytes;
        let cost = self.cost(start, bytes);
        self.free += cost;
        true
    }

    /// Brings the model up to a time.
    fn advance(&mut self, now: Instant) {
        while self.free < now && self.work_off() {}
        if self.cached.is_empty() {
            self.free = self.free.max(now);
        }
    }

    /// Puts an extent into the cache, as one with those that it overlaps or touches.
    fn put(&mut self, offset: u64, bytes: u64) {
        let (mut start, mut end) = (offset, offset + bytes);
        while let Some((s, e)) = self.cached.range(..=end).next_back().map(|(s, e)| (*s, *e)).filter(|(_, e)| *e >= start) {
            self.cached.remove(&s);
            self.held -= e - s;
            (start, end) = (start.min(s), end.max(e));
        }
        self.cached.insert(start, end);
        self.held += end - start;
    }

    /// Returns when a read is answered.
    pub fn read(&mut self, now: Instant, offset: u64, bytes: u64) -> Instant {
        self.advance(now);
        let inside = self.cached.range(..=offset).next_back().is_some_and(|(_, end)| *end >= offset + bytes);
        if inside {
            return now + self.model.latency;
        }
        // It waits for reads before it, and for what is being worked off; not for the rest of the cache.
        let piece = now + self.model.latency + self.model.seek + self.model.bytes(CHUNK);
        let begun = if self.model.cache > 0 { self.free.min(piece) } else { self.free };
        let start = begun.max(now).max(self.reads_free);
        let cost = self.cost(offset, bytes);
        self.reads_free = start + cost;
        self.free = self.free.max(start) + cost;
        self.reads_free
    }

    /// Returns when a write is answered.
    pub fn write(&mut self, now: Instant, offset: u64, bytes: u64) -> Instant {
        self.advance(now);
        if self.model.cache == 0 {
            let cost = self.cost(offset, bytes);
            self.free = self.free.max(now) + cost;
            return self.free;
        }
        self.put(offset, bytes);
        let mut answer = now + self.model.latency;
        while self.held > self.model.cache && self.work_off() {
            answer = answer.max(self.free);
        }
        answer
    }

    /// Returns when a flush is answered.
    pub fn flush(&mut self, now: Instant) -> Instant {
        self.advance(now);
        if self.model.free_flush {
            return now;
        }
        while self.work_off() {}
        self.free.max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn medium(cache: u64, free_flush: bool) -> (Medium, Instant) {
        let now = Instant::now();
        (Medium::new(Model { seek: ms(5), per_byte: 1e-6, latency: Duration::ZERO, cache, free_flush }, now), now)
    }

    #[test]
    fn random_requests_seek_and_those_that_follow_do_not() {
        let (mut m, now) = medium(0, false);
        assert_eq!(m.write(now, 1_000_000, 1000), now + ms(6));
        assert_eq!(m.write(now, 1_001_000, 1000), now + ms(7));
        assert_eq!(m.read(now, 0, 1000), now + ms(13));
        assert_eq!(m.flush(now), now + ms(13));
    }

    #[test]
    fn a_cache_answers_at_once_until_it_is_full() {
        let (mut m, now) = medium(2000, false);
        assert_eq!(m.write(now, 10_000, 1000), now);
        assert_eq!(m.write(now, 20_000, 1000), now);
        assert_eq!(m.write(now, 30_000, 1000), now + ms(6));
        // What is in it is read from it; the rest waits for what is being worked off, not for the cache.
        assert_eq!(m.read(now, 30_000, 500), now);
        assert_eq!(m.read(now, 0, 1000), now + ms(12));
        assert_eq!(m.flush(now), now + ms(24));
        assert_eq!(m.write(now + ms(100), 0, 1000), now + ms(100));
    }

    #[test]
    fn a_cache_is_worked_off_in_order_and_neighbours_are_one_request() {
        let (mut m, now) = medium(10_000, false);
        for (offset, bytes) in [(30_000, 1000), (11_000, 1000), (10_000, 1000), (10_500, 1000)] {
            assert_eq!(m.write(now, offset, bytes), now);
        }
        assert_eq!((m.held, m.cached.len()), (3000, 2));
        assert_eq!(m.flush(now), now + ms(7 + 6));
    }

    #[test]
    fn a_cache_empties_by_itself() {
        let (mut m, now) = medium(2000, true);
        m.write(now, 10_000, 2000);
        assert_eq!(m.flush(now), now, "with a battery a flush is free");
        assert_eq!(m.write(now + ms(7), 50_000, 2000), now + ms(7));
        assert_eq!(m.held, 2000);
    }
}
