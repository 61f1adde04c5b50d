//! What watchers and notifiers saw, and the judgement over it.
//!
//! A watch that stood from before a notification was asked for until after it was answered, and that was never lost, has heard
//! of it: its answer is among the replies, or the notification counts it among those that did not answer in time. Nobody
//! hears what nobody said.

use crate::trace::seconds;
use std::collections::{BTreeMap, BTreeSet};

/// A watch in one life of a client: who, and its cookie.
pub type Watcher = (u32, u64);

#[derive(Debug, Default)]
struct Watch {
    object: String,
    stands_since: u64,
    lost: bool,
    heard: BTreeSet<String>,
}

#[derive(Debug)]
struct Notification {
    object: String,
    text: String,
    begun: u64,
    /// Time, who answered, how many did not in time.
    ended: Option<(u64, BTreeSet<Watcher>, usize)>,
}

/// All watches and notifications of a run. Times are nanoseconds of the world.
#[derive(Debug, Default)]
pub struct WatchLog {
    watches: BTreeMap<Watcher, Watch>,
    notifications: Vec<Notification>,
    /// Until when each life of a client is known to have lived.
    alive: BTreeMap<u32, u64>,
    wrong: Option<String>,
}

impl WatchLog {
    /// This life of a client lives.
    pub fn alive(&mut self, client: u32, at: u64) {
        self.alive.insert(client, at);
    }

    /// The client was told that its watch stands.
    pub fn stands(&mut self, watcher: Watcher, object: &str, at: u64) {
        self.watches.entry(watcher).or_insert_with(|| Watch { object: object.into(), stands_since: at, ..Watch::default() });
    }

    /// The client was told that its watch is gone, or gave it up.
    pub fn lost(&mut self, watcher: Watcher) {
        self.watches.entry(watcher).or_default().lost = true;
    }

    /// A notification reached a watch.
    pub fn heard(&mut self, watcher: Watcher, object: &str, text: &str) {
        if !self.notifications.iter().any(|n| n.object == object && n.text == text) {
            self.wrong.get_or_insert(format!("a watch of {object} heard what nobody said there: {text:?}"));
        }
        self.watches.entry(watcher).or_default().heard.insert(text.into());
    }

    /// A notification is asked for; gives its number.
    pub fn notified(&mut self, object: &str, text: &str, at: u64) -> usize {
        self.notifications.push(Notification { object: object.into(), text: text.into(), begun: at, ended: None });
        self.notifications.len() - 1
    }

    /// It was answered: with the texts of those who answered (see [`answer`]), and how many did not in time.
    pub fn ended(&mut self, number: usize, answers: &[String], silent: usize, at: u64) {
        let parse =
            |text: &String| text.split_once('.').and_then(|(who, cookie)| Some((who.parse().ok()?, cookie.parse().ok()?)));
        let watchers = answers.iter().filter_map(parse).collect();
        self.notifications[number].ended = Some((at, watchers, silent));
    }

    /// Notifications that were answered.
    pub fn answered(&self) -> usize {
        self.notifications.iter().filter(|n| n.ended.is_some()).count()
    }

    /// Judges all of it.
    pub fn check(&self) -> Result<(), String> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        self.notifications.iter().try_for_each(|n| self.check_one(n))
    }

    fn check_one(&self, notification: &Notification) -> Result<(), String> {
        let Some((ended, answers, silent)) = &notification.ended else { return Ok(()) };
        let must = self.watches.iter().filter(|((client, _), watch)| {
            let alive = self.alive.get(client).is_some_and(|until| until > ended);
            watch.object == notification.object && watch.stands_since < notification.begun && !watch.lost && alive
        });
        let missing: Vec<&Watcher> = must.map(|(watcher, _)| watcher).filter(|watcher| !answers.contains(watcher)).collect();
        if missing.len() > *silent {
            let (from, to) = (seconds(notification.begun), seconds(*ended));
            let text = &notification.text;
            return Err(format!(
                "the notification {text:?} of {}, {from} to {to}, was answered by {answers:?} and missed by {silent}, without {missing:?}",
                notification.object
            ));
        }
        for watcher in answers {
            if !self.watches.get(watcher).is_some_and(|watch| watch.heard.contains(&notification.text)) {
                return Err(format!("{watcher:?} is said to have answered {:?}, which it never heard", notification.text));
            }
        }
        Ok(())
    }
}

/// Returns how a watcher answers.
pub fn answer((client, cookie): Watcher) -> String {
    format!("{client}.{cookie}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> WatchLog {
        let mut log = WatchLog::default();
        log.stands((1, 7), "w", 10);
        log.alive(1, 100);
        log
    }

    #[test]
    fn who_watched_all_the_while_must_have_heard() {
        let mut heard = log();
        let n = heard.notified("w", "a", 20);
        heard.heard((1, 7), "w", "a");
        heard.ended(n, &[answer((1, 7))], 0, 30);
        assert_eq!(heard.check(), Ok(()));

        let mut missed = log();
        let n = missed.notified("w", "a", 20);
        missed.ended(n, &[], 0, 30);
        assert!(missed.check().is_err_and(|e| e.contains("without [(1, 7)]")));

        let mut slow = log();
        let n = slow.notified("w", "a", 20);
        slow.ended(n, &[], 1, 30);
        assert_eq!(slow.check(), Ok(()));

        let mut dead = log();
        let n = dead.notified("w", "a", 20);
        dead.ended(n, &[], 0, 200);
        assert_eq!(dead.check(), Ok(()));
    }

    #[test]
    fn nobody_hears_what_nobody_said() {
        let mut log = log();
        log.heard((1, 7), "w", "a");
        assert!(log.check().is_err());
    }
}
