//! Whether a peer that is asked and does not answer is to be held for dead.
//!
//! *Refused*: the port of this life of the peer refuses connections. Its process is gone; that is told at once.
//! *Silent*: the oldest question after the newest answer is open for too long. What is too long is the grace (3 s, or
//! `osd_heartbeat_grace` if somebody set it), or more if the peer always needed long. On a machine with too much to do
//! the asker itself is late: what its own timers were late by while it waited is taken off. So who was stopped, or got
//! no processor, accuses nobody. The monitors have the last word.

use node::Mono;
use std::collections::VecDeque;
use std::time::Duration;
use types::Epoch;

/// Silence after which a peer is reported, unless somebody chose otherwise.
pub(crate) const GRACE: Duration = Duration::from_secs(3);
/// Number of mean deviations above the mean an answer may take.
const DEVIATIONS: u32 = 8;
/// Lateness is remembered for so long.
const MEMORY: Duration = Duration::from_secs(120);
/// Time after which it is told again what is still so: the monitors forget it soon.
const AGAIN: Duration = Duration::from_secs(1);

/// Delays of this OSD's own timers.
#[derive(Debug, Default)]
pub(crate) struct Lateness(VecDeque<(Mono, Duration)>);

impl Lateness {
    /// A timer that was due at `due` ran at `now`.
    pub(crate) fn ran(&mut self, now: Mono, due: Mono) {
        let late = now.since(due);
        if !late.is_zero() {
            self.0.push_back((now, late));
        }
        while self.0.front().is_some_and(|(at, _)| now.since(*at) > MEMORY) {
            self.0.pop_front();
        }
    }

    /// All lateness that was noticed after `since`.
    pub(crate) fn since(&self, since: Mono) -> Duration {
        let noticed = self.0.iter().rev().take_while(|(at, _)| *at > since);
        // Of what began before, only the part after it counts.
        noticed.map(|(at, late)| (*late).min(at.since(since))).sum()
    }
}

/// Answers that come in one go, as after a pause, count once.
const BURST: Duration = Duration::from_millis(50);
/// An answer that took longer counts as if it had taken this: one long pause must not allow many.
const LONGEST: Duration = Duration::from_secs(6);

/// Times of answers: mean and mean deviation, each new answer weighing an eighth.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pulse {
    mean: Duration,
    deviation: Duration,
    /// Time when the last answer came that counts.
    last: Mono,
}

impl Pulse {
    /// An answer took so long.
    pub(crate) fn answered(&mut self, now: Mono, took: Duration) {
        if now.since(self.last) < BURST {
            return;
        }
        self.last = now;
        let took = took.min(LONGEST);
        // The first one weighs no more than others: who was slow while it booted is not slow for ever.
        self.deviation = (self.deviation * 7 + self.mean.abs_diff(took)) / 8;
        self.mean = (self.mean * 7 + took) / 8;
    }

    /// Silence that is not too long.
    pub(crate) fn patience(&self, grace: Duration) -> Duration {
        grace.max(self.mean + self.deviation * DEVIATIONS)
    }
}

/// Health of one life of one peer.
#[derive(Debug, Default)]
pub(crate) struct PeerHealth {
    /// The epoch in which this life came up.
    pub(crate) life: Epoch,
    /// Time when the oldest question after the newest answer was asked.
    asked: Option<Mono>,
    /// Its port refused the newest connection.
    refused: bool,
    /// Time when the monitors were told last.
    told: Option<Mono>,
    pulse: Pulse,
}

/// Report about a peer to the monitors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// Its port refuses connections.
    Refused,
    /// It has been silent for so long.
    Silent(Duration),
    /// It answers again.
    Recovered,
}

impl PeerHealth {
    /// Nothing is held against it.
    pub(crate) fn new(life: Epoch) -> Self {
        Self { life, ..Self::default() }
    }

    /// Forgets what it did not answer: it had a right not to.
    pub(crate) fn reset(&mut self) {
        (self.asked, self.refused, self.told) = (None, false, None);
    }

    /// It is asked now, or should be and cannot be reached.
    pub(crate) fn asked(&mut self, now: Mono) {
        self.asked.get_or_insert(now);
    }

    /// It answered what was asked at `stamp`; `next` is the oldest question after that, if one is open.
    pub(crate) fn answered(&mut self, now: Mono, stamp: Mono, next: Option<Mono>, late: &Lateness) {
        self.pulse.answered(now, now.since(stamp).saturating_sub(late.since(stamp)));
        self.asked = next;
        self.refused = false;
    }

    /// Its port refuses connections.
    pub(crate) fn refused(&mut self) {
        if !self.refused {
            self.refused = true;
            self.told = None;
        }
    }

    /// A connection to it stands.
    pub(crate) fn connected(&mut self) {
        self.refused = false;
    }

    /// Nothing that was told is known any more: the monitor that heard it is gone.
    pub(crate) fn forget_told(&mut self) {
        self.told = None;
    }

    /// Returns true if something was told of it that holds.
    pub(crate) fn is_told(&self) -> bool {
        self.told.is_some()
    }

    /// Silence so far, less this OSD's own lateness.
    pub(crate) fn silence(&self, now: Mono, late: &Lateness) -> Duration {
        self.asked.map_or(Duration::ZERO, |asked| now.since(asked).saturating_sub(late.since(asked)))
    }

    /// Returns what is true of it now, if it is more than nothing. `grace`: what was chosen, or [`GRACE`].
    fn finding(&self, now: Mono, late: &Lateness, grace: Duration) -> Option<Report> {
        let silence = self.silence(now, late);
        match self.refused {
            true => Some(Report::Refused),
            false => (silence >= self.pulse.patience(grace)).then_some(Report::Silent(silence)),
        }
    }

    /// Returns what is to be told now, if the monitors can be told.
    pub(crate) fn report(&mut self, now: Mono, late: &Lateness, grace: Duration) -> Option<Report> {
        let Some(found) = self.finding(now, late, grace) else {
            return self.told.take().map(|_| Report::Recovered);
        };
        if self.told.is_some_and(|told| now.since(told) < AGAIN) {
            return None;
        }
        self.told = Some(now);
        Some(found)
    }

    /// Returns when [`PeerHealth::report`] may have something that no arriving message brings: silence grows too long, or is
    /// told again.
    pub(crate) fn deadline(&self, late: &Lateness, grace: Duration) -> Mono {
        let again = self.told.map_or(Mono::NEVER, |told| told.plus(AGAIN));
        let Some(asked) = self.asked.filter(|_| self.told.is_none()) else { return again };
        asked.plus(self.pulse.patience(grace) + late.since(asked)).min(again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Mono {
        Mono(ms * 1_000_000)
    }

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_silent_peer_is_reported_after_the_grace_and_again_and_taken_back() {
        let (mut health, late) = (PeerHealth::new(7), Lateness::default());
        health.asked(at(1_000));
        health.asked(at(1_500));
        assert_eq!(health.deadline(&late, GRACE), at(4_000));
        assert_eq!(health.report(at(3_999), &late, GRACE), None);
        assert_eq!(health.report(at(4_000), &late, GRACE), Some(Report::Silent(ms(3_000))));
        assert_eq!((health.report(at(4_500), &late, GRACE), health.deadline(&late, GRACE)), (None, at(5_000)));
        assert_eq!(health.report(at(5_000), &late, GRACE), Some(Report::Silent(ms(4_000))));
        health.answered(at(5_100), at(5_000), None, &late);
        assert_eq!(health.report(at(5_100), &late, GRACE), Some(Report::Recovered));
        assert_eq!((health.report(at(9_000), &late, GRACE), health.deadline(&late, GRACE)), (None, Mono::NEVER));
    }

    #[test]
    fn an_answer_to_an_older_question_leaves_the_newer_ones_open() {
        let (mut health, late) = (PeerHealth::new(7), Lateness::default());
        health.asked(at(1_000));
        health.answered(at(1_001), at(1_000), Some(at(1_500)), &late);
        assert_eq!(health.silence(at(4_000), &late), ms(2_500));
    }

    #[test]
    fn who_was_late_himself_accuses_nobody() {
        let (mut health, mut late) = (PeerHealth::new(7), Lateness::default());
        health.asked(at(1_000));
        // Stopped from 1 s to 6 s: the timer of 1.5 s ran at 6 s.
        late.ran(at(6_000), at(1_500));
        assert_eq!(health.silence(at(6_000), &late), ms(500));
        assert_eq!((health.report(at(6_000), &late, GRACE), health.deadline(&late, GRACE)), (None, at(8_500)));
        // What was late before the question does not count.
        health.answered(at(6_100), at(1_000), Some(at(6_000)), &late);
        assert_eq!(health.silence(at(8_000), &late), ms(2_000));
        // Of what was late in part before it, that part.
        late.ran(at(9_000), at(5_000));
        assert_eq!(late.since(at(6_000)), ms(3_000));
    }

    #[test]
    fn a_refused_connection_is_told_at_once_and_only_until_one_stands() {
        let (mut health, late) = (PeerHealth::new(7), Lateness::default());
        health.asked(at(1_000));
        health.refused();
        assert_eq!(health.report(at(1_001), &late, GRACE), Some(Report::Refused));
        health.refused();
        assert_eq!(health.report(at(1_100), &late, GRACE), None);
        health.forget_told();
        assert_eq!(health.report(at(1_200), &late, GRACE), Some(Report::Refused));
        health.connected();
        assert_eq!(health.report(at(1_300), &late, GRACE), Some(Report::Recovered));
    }

    #[test]
    fn a_slow_peer_gets_more_time() {
        let mut pulse = Pulse::default();
        for n in 1..50 {
            pulse.answered(at(n * 500), if n % 2 == 0 { ms(100) } else { ms(1_900) });
        }
        assert!(pulse.patience(GRACE) > ms(7_000), "{pulse:?}");
        for n in 50..100 {
            pulse.answered(at(n * 500), ms(1));
        }
        assert_eq!(pulse.patience(GRACE), GRACE);
        assert_eq!(pulse.patience(ms(20_000)), ms(20_000));
    }

    #[test]
    fn one_long_pause_is_forgotten_soon() {
        let mut pulse = Pulse::default();
        for n in 1..20 {
            pulse.answered(at(n * 500), ms(1));
        }
        // Ten seconds later all that was open is answered in one go.
        for n in 0..16 {
            pulse.answered(at(20_000 + n), ms(10_000 - n * 500));
        }
        assert!(pulse.patience(GRACE) < ms(7_000), "{pulse:?}");
        for n in 41..57 {
            pulse.answered(at(n * 500), ms(1));
        }
        assert_eq!(pulse.patience(GRACE), GRACE);
    }
}
