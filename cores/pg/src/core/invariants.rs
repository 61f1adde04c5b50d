//! What always holds of the core.

use super::Core;
use crate::selfcheck::holds;

impl Core {
    /// Looks at everything that the core knows twice.
    ///
    /// # Errors
    /// A sentence that says what does not hold.
    pub(crate) fn self_check(&self) -> Result<(), String> {
        self.check_commits()?;
        self.check_log()?;
        self.check_missing()?;
        self.check_kept()
    }

    /// Checks that all that is kept belongs to changes that may be undone, and that it is there.
    fn check_kept(&self) -> Result<(), String> {
        let (stable, head) = (self.info.stable.version, self.info.last_update.version);
        for (number, object) in &self.kept {
            holds!(*number > stable, "{object} is kept as it was before version {number}, and {stable} is stable");
            holds!(*number <= head, "{object} is kept as it was before version {number}, and the group is at {head}");
        }
        Ok(())
    }

    /// Commits come in the order of their tickets, and versions only rise.
    fn check_commits(&self) -> Result<(), String> {
        for (older, newer) in self.commits.iter().zip(self.commits.iter().skip(1)) {
            holds!(older.ticket < newer.ticket, "{:?} was submitted before {:?}", older.ticket, newer.ticket);
            holds!(older.version <= newer.version, "version {} was submitted before {}", older.version, newer.version);
            let entries = newer.first.is_none_or(|first| older.version < first);
            holds!(entries, "the entries of {} begin before those of {} end", newer.version, older.version);
        }
        for commit in &self.commits {
            let (number, first) = (crate::api::number_of(commit.ticket.0), commit.first.unwrap_or(commit.version));
            holds!(number <= self.tickets, "{:?} was never given out", commit.ticket);
            holds!(!self.loose.contains(&commit.ticket), "{:?} is both a commit and loose", commit.ticket);
            holds!(first <= commit.version, "a commit's entries begin at {first} and end at {}", commit.version);
        }
        match self.commits.back() {
            Some(last) => {
                holds!(last.version <= self.info.last_update, "{} is newer than the group", last.version);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The log ends where the group is, and begins behind its tail.
    fn check_log(&self) -> Result<(), String> {
        let (oldest, newest) = (self.log.oldest(1).next(), self.log.newest());
        if let (Some(oldest), Some(newest)) = (oldest, newest) {
            let (tail, head) = (self.info.log_tail, self.info.last_update);
            holds!(tail < oldest.version, "the log's tail {tail} is not before its oldest entry {}", oldest.version);
            holds!(newest.version <= head, "the log's newest entry {} is newer than the group's {head}", newest.version);
        }
        holds!(self.pages.iter().is_sorted(), "pages of duplicates are out of order: {:?}", self.pages);
        Ok(())
    }

    /// Checks that what this copy has of an object that it lacks is older than what is to come.
    fn check_missing(&self) -> Result<(), String> {
        for (object, lack) in &self.missing {
            holds!(lack.is_sound(), "{object} is missing in version {}, and a newer one is here", lack.need);
        }
        Ok(())
    }
}
