//! What an OSD watches of itself: whether its disk still completes requests, whether its store takes writes, and how
//! often it was marked down while it lives.
//!
//! An OSD whose store takes no writes, as a page of its index is damaged, holds up each group that it is a member of:
//! the primary waits for its promises. If other members can go on without it in *all* of its groups, it asks to be
//! marked down, and stays down until the page can be read. After `mon_osd_down_out_interval` the groups get other
//! members, and all copies are made anew from the good ones. If some group cannot go on without it, it stays up: what
//! is intact here may be all that there is of that group, and is to be read.

use crate::failure_detector::Lateness;
use crate::{Osd, Phase};
use messages::internal::Failure;
use node::{Level, Mono, Now, Output, Outputs};
use std::collections::VecDeque;
use std::time::Duration;

/// Silence of the disk that the monitors are told of, and in which nobody boots.
const NOTABLE: Duration = Duration::from_secs(5);
/// Between two requests to be marked down.
const AGAIN: Duration = Duration::from_secs(1);

/// Watch over the disk: whether it does what it is asked.
#[derive(Debug, Default)]
pub(crate) struct DiskWatch {
    /// Requests that are under way.
    open: u64,
    /// Time when the last one ended, or the first one began.
    moved: Mono,
    /// Time when the monitors were asked last to mark this OSD down.
    asked: Option<Mono>,
    /// True if the log knows.
    said: bool,
}

impl DiskWatch {
    /// So many requests go to the disk.
    pub(crate) fn begun(&mut self, now: Mono, requests: u64) {
        if self.open == 0 && requests > 0 {
            self.moved = now;
        }
        self.open += requests;
    }

    /// A request ended.
    pub(crate) fn ended(&mut self, now: Mono) {
        self.open = self.open.saturating_sub(1);
        self.moved = now;
        self.asked = None;
    }

    /// Returns how long nothing was completed that is under way, less this OSD's own lateness.
    pub(crate) fn silence(&self, now: Mono, late: &Lateness) -> Duration {
        match self.open {
            0 => Duration::ZERO,
            _ => now.since(self.moved).saturating_sub(late.since(self.moved)),
        }
    }

    /// Returns when it must be looked at. `patience`: silence after which the OSD asks to be marked down.
    fn deadline(&self, late: &Lateness, patience: Duration) -> Mono {
        if self.open == 0 {
            return Mono::NEVER;
        }
        let begun = self.moved.plus(late.since(self.moved));
        match (self.said, self.asked) {
            (false, _) => begun.plus(NOTABLE),
            (true, None) => begun.plus(patience.max(NOTABLE)),
            (true, Some(asked)) => asked.plus(AGAIN),
        }
    }
}

/// Times when this OSD was marked down while it lived.
#[derive(Debug, Default)]
pub(crate) struct Markdowns {
    when: VecDeque<Mono>,
    /// It was too often: it stays down until it is started again.
    too_often: bool,
}

impl Markdowns {
    /// It was marked down once more. The number of times within `period`, if that is now more than `most`.
    pub(crate) fn note(&mut self, now: Mono, most: usize, period: Duration) -> Option<usize> {
        self.when.push_back(now);
        while self.when.front().is_some_and(|at| now.since(*at) > period) {
            self.when.pop_front();
        }
        self.too_often |= self.when.len() > most;
        self.too_often.then_some(self.when.len())
    }
}

impl Osd {
    /// The store's turn; what it asks of the disk is counted.
    pub(crate) fn turn_store(&mut self, now: Now, out: &mut Outputs) {
        let from = out.0.len();
        self.store.turn(now, out);
        let requests = out.0[from..].iter().filter(|o| matches!(o, Output::Disk(_))).count();
        self.disk.begun(now.mono, requests as u64);
    }

    /// Returns how long the disk has been silent.
    fn disk_silence(&self, now: Now) -> Duration {
        self.disk.silence(now.mono, self.beats.lateness())
    }

    /// Returns when [`Osd::watch_disk`] must be called at the latest.
    pub(crate) fn disk_deadline(&self) -> Mono {
        // Who is not up, or has no monitor, has nothing to ask for.
        if self.disk.said && (self.phase != Phase::Active || self.mon.session().is_none()) {
            return Mono::NEVER;
        }
        self.disk.deadline(self.beats.lateness(), self.options.disk_patience)
    }

    /// Says that the disk is silent, and after long enough asks the monitors to mark this OSD down.
    pub(crate) fn watch_disk(&mut self, now: Now, out: &mut Outputs) {
        let (silence, patience) = (self.disk_silence(now), self.options.disk_patience.max(NOTABLE));
        let notable = silence >= NOTABLE;
        if notable != self.disk.said {
            self.disk.said = notable;
            self.reporter.hurry();
            let seconds = silence.as_secs();
            match notable {
                true => out.log(Level::Error, "osd", format!("the disk has completed nothing for {seconds} seconds")),
                false => out.log(Level::Info, "osd", "the disk completes requests again"),
            }
        }
        let asked = self.disk.asked.is_some_and(|asked| now.mono.since(asked) < AGAIN);
        let (true, false, Phase::Active, Some(session)) = (silence >= patience, asked, &self.phase, self.mon.session()) else {
            return;
        };
        if self.disk.asked.replace(now.mono).is_none() {
            let text = format!("its disk has completed nothing for {} seconds: asks to be marked down", silence.as_secs());
            self.cluster_log(now, pg::ClusterLevel::Error, text);
        }
        let me = self.config.whoami;
        let silent_ms = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX);
        let failure = Failure { osd: me, up_from: self.maps.current().up_from(me), silent_ms, ..Failure::default() };
        self.send_failures(session, vec![failure]);
    }

    /// Returns true if each group here has enough other members to go on, as the map places it.
    fn is_dispensable(&self) -> bool {
        let (map, me) = (self.maps.current(), self.config.whoami);
        self.groups.iter().all(|(id, _)| {
            let pgid = id.pg;
            let acting = &map.placed(pgid).acting;
            let others = acting.iter().filter(|osd| **osd != me && map.is_up(**osd)).count();
            let least = map.pools.get(&pgid.pool).map_or(0, |pool| pool.min_size as usize).max(1);
            !acting.contains(&me) || others >= least
        })
    }

    /// Asks to be marked down while the store takes no writes and nobody needs this OSD.
    pub(crate) fn watch_index(&mut self, now: Now, out: &mut Outputs) {
        let Some(why) = self.store.impairment() else {
            if self.away.take().is_some() {
                out.log(Level::Info, "osd", "the store takes writes again");
                self.end_turned_away(now, out);
            }
            return;
        };
        let (Phase::Active, Some(session)) = (&self.phase, self.mon.session()) else { return };
        if self.away.is_some_and(|asked| now.mono.since(asked) < AGAIN) {
            return;
        }
        if !self.is_dispensable() {
            // Some group needs it now: it stays, and whoever asks is told the truth.
            if self.away.take().is_some() {
                self.end_turned_away(now, out);
            }
            return;
        }
        if self.away.replace(now.mono).is_none() {
            let text = format!("takes no writes ({why}): asks to be marked down, as others hold all of its groups. Make it anew");
            out.log(Level::Error, "osd", text.clone());
            self.cluster_log(now, pg::ClusterLevel::Error, text);
        }
        let me = self.config.whoami;
        let failure = Failure { osd: me, up_from: self.maps.current().up_from(me), silent_ms: 0, ..Failure::default() };
        self.send_failures(session, vec![failure]);
    }

    /// No map will tell those whose writes were dropped: their sessions end, so they look for this OSD again and send
    /// all once more.
    fn end_turned_away(&mut self, now: Now, out: &mut Outputs) {
        self.ending.extend(self.sessions.turned_away());
        self.end_sessions(now, "writes of it were dropped, and no map tells it so", out);
    }

    /// Returns when [`Osd::watch_index`] must be called at the latest.
    pub(crate) fn index_deadline(&self) -> Mono {
        match (self.away, &self.phase) {
            (Some(asked), Phase::Active) if self.mon.session().is_some() => asked.plus(AGAIN),
            _ => Mono::NEVER,
        }
    }

    /// For the cluster's health.
    pub(crate) fn disk_note(&self, now: Now) -> Option<(String, String)> {
        let silence = self.disk_silence(now);
        let text = || format!("the disk has completed nothing for {} seconds", silence.as_secs());
        (silence >= NOTABLE).then(|| ("OSD_DISK_STUCK".to_owned(), text()))
    }

    /// The map says that this OSD is down, and it lives.
    pub(crate) fn marked_down(&mut self, now: Now) {
        let (most, period) = (self.options.markdowns, self.options.markdown_period);
        let too_often = self.markdowns.note(now.mono, most, period);
        self.begin_contact(now, self.markdowns.when.len());
        let text = match too_often {
            None => "map says that I am down, but I am not: booting again".to_owned(),
            Some(times) => format!(
                "was marked down {times} times in the last {} seconds (osd_max_markdown_count is {most}): stays down until restarted",
                period.as_secs()
            ),
        };
        self.cluster_log(now, pg::ClusterLevel::Warn, text);
    }

    /// Returns true if it must not ask to be marked up: since that was too often, until its disk answers, its store
    /// takes writes, or it reaches other OSDs.
    pub(crate) fn waits_to_boot(&self) -> bool {
        self.markdowns.too_often || self.disk.said || self.away.is_some() || self.contact.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono(seconds * 1_000_000_000)
    }

    #[test]
    fn a_disk_is_silent_from_its_last_completion_while_something_is_under_way() {
        let (mut disk, mut late, patience) = (DiskWatch::default(), Lateness::default(), Duration::from_secs(15));
        assert_eq!((disk.silence(at(100), &late), disk.deadline(&late, patience)), (Duration::ZERO, Mono::NEVER));
        disk.begun(at(100), 2);
        disk.begun(at(103), 1);
        assert_eq!((disk.silence(at(104), &late).as_secs(), disk.deadline(&late, patience)), (4, at(105)));
        disk.ended(at(104));
        assert_eq!((disk.silence(at(110), &late).as_secs(), disk.deadline(&late, patience)), (6, at(109)));
        disk.said = true;
        assert_eq!(disk.deadline(&late, patience), at(119));
        // Nobody looked for 20 seconds, since this OSD was stopped.
        late.ran(at(130), at(110));
        assert_eq!((disk.silence(at(130), &late).as_secs(), disk.deadline(&late, patience)), (6, at(139)));
        disk.ended(at(131));
        disk.ended(at(132));
        assert_eq!(disk.silence(at(150), &late), Duration::ZERO);
    }

    #[test]
    fn who_is_marked_down_too_often_stays_down() {
        let (mut downs, period) = (Markdowns::default(), Duration::from_secs(600));
        for n in 0..5 {
            assert_eq!(downs.note(at(n * 10), 5, period), None);
        }
        // The first of them is long ago.
        assert_eq!(downs.note(at(605), 5, period), None);
        assert_eq!(downs.note(at(606), 5, period), Some(6));
        assert_eq!(downs.note(at(5_000), 5, period), Some(1), "for good");
    }
}
