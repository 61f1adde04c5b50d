//! What always holds of a group between two calls.

use super::{Pg, Role};
#[cfg(feature = "sim")]
use crate::selfcheck::Mistake;
use crate::selfcheck::holds;

impl Pg {
    /// From now on this group makes a mistake. To be called after every turn.
    #[cfg(feature = "sim")]
    pub fn err(&mut self, mistake: Mistake) {
        self.core.mistake = Some(mistake);
        match mistake {
            Mistake::ForgetIntervals => self.core.history.forget_past(),
            Mistake::ForgetMissing => self.core.missing.clear(),
            Mistake::ForgetKept => self.core.kept.clear(),
            Mistake::ForgetRanges => {
                let bases = self.core.missing.values_mut().filter_map(|lack| lack.base.as_mut());
                bases.for_each(|base| base.part.data = Default::default());
            }
            Mistake::AgelessSource => {
                let newest = types::EVersion::new(u32::MAX, u64::MAX);
                if let Some((primary, _)) = self.leading_mut() {
                    primary.members.sources.values_mut().for_each(|source| source.head = newest);
                }
            }
            Mistake::ForgetRecords => self.core.log.forget_below(u64::MAX),
            Mistake::SeekAtOnce => {
                if let Some((primary, _)) = self.leading_mut() {
                    primary.search.forgive_all();
                }
            }
            Mistake::AckEarly
            | Mistake::GoHomeTwice
            | Mistake::WatchInVain
            | Mistake::PromiseEarly
            | Mistake::IgnoreDamage
            | Mistake::OtherInterval
            | Mistake::NoUpThru
            | Mistake::ReadWithoutLease
            | Mistake::ReadUnsettled
            | Mistake::ReadAsideWithoutLease
            | Mistake::IgnoreLevel
            | Mistake::IgnoreRests
            | Mistake::FirstLook
            | Mistake::TrustPrimary
            | Mistake::ForgetSourceDups
            | Mistake::ForgetSourceSnaps
            | Mistake::TakeAnySource
            | Mistake::ActivateEarly
            | Mistake::CollectAlone
            | Mistake::RepeatEarly
            | Mistake::TakePartEarly
            | Mistake::KeepGone
            | Mistake::PullEarly
            | Mistake::IgnoreGaps
            | Mistake::LeapGaps
            | Mistake::NeedAll
            | Mistake::TrustEmpty
            | Mistake::BornAgain
            | Mistake::CountReplaced
            | Mistake::ServeBeforeUp
            | Mistake::NeverHoldBack
            | Mistake::StableEarly
            | Mistake::UndoElsewhere
            | Mistake::LongestLog
            | Mistake::LowestOfAll
            | Mistake::AckByMost
            | Mistake::PassMissing
            | Mistake::VolunteerEarly
            | Mistake::PurgeAlone => {}
        }
    }

    /// Looks at everything that the group knows of itself twice.
    ///
    /// # Errors
    /// A sentence that says what does not hold.
    pub fn self_check(&self) -> Result<(), String> {
        self.check_all().map_err(|why| format!("pg {}: {why}", self.core.id))
    }

    fn check_all(&self) -> Result<(), String> {
        self.core.self_check()?;
        self.check_waiting()?;
        self.check_share()?;
        match &self.role {
            Role::Between => Err("it plays no part".into()),
            Role::Replica(replica) => replica.self_check(&self.core),
            _ => self.leading().map_or(Ok(()), |primary| primary.self_check(&self.core)),
        }
    }

    /// Only a group that does not serve lets clients wait.
    fn check_waiting(&self) -> Result<(), String> {
        if !self.is_active() {
            return Ok(());
        }
        holds!(self.waiting.is_empty(), "{} operations wait for an active group to become active", self.waiting.len());
        holds!(self.backoffs.is_empty(), "{} sessions hold back from an active group", self.backoffs.len());
        Ok(())
    }

    /// A copy that plays its part has the share that its interval says, and no union is left; one that is to be merged does not serve.
    fn check_share(&self) -> Result<(), String> {
        if !self.is_settled() && !matches!(self.role, Role::Peering(_)) || self.core.history.created == 0 {
            return Ok(());
        }
        let (share, wanted) = (self.core.history.pg_num, self.core.history.interval.pg_num);
        holds!(share == wanted, "its share is one of {share}, its interval says one of {wanted}");
        holds!(self.core.history.unions.is_empty() && self.core.history.taken.is_empty(), "a union is not carried out");
        holds!(!self.core.history.interval.is_premerge() || !self.is_active(), "it serves, and is about to be merged");
        Ok(())
    }

    /// A mistake to be found: an operation whose change is under way is forgotten, and never answered. False if there is none.
    #[cfg(feature = "sim")]
    pub fn forget_operation(&mut self) -> bool {
        self.leading_mut().is_some_and(|(primary, _)| primary.forget_operation())
    }

    /// A mistake to be found: the lane of some object forgets who works on it. False if nobody does.
    #[cfg(feature = "sim")]
    pub fn forget_holder(&mut self) -> bool {
        self.leading_mut().is_some_and(|(primary, _)| primary.forget_holder())
    }
}
