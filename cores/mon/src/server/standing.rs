//! How this monitor stands among the monitors, for commands and the health.

use super::Monitor;
use monstate::context::Standing;
use node::Now;
use quorum::VoterId;
use std::collections::BTreeSet;

impl Monitor {
    /// Takes up who leads and who takes part.
    pub(super) fn standing_changed(&mut self, now: Now) {
        let (log, state) = (&self.replica.log, &self.replica.applied);
        let own = log.id();
        let name = |id: VoterId| {
            let name = if id == own { Some(self.env.config.name.as_str()) } else { state.quorum.name_of(id.0) };
            name.map(str::to_owned)
        };
        let by_rank = |ids: &BTreeSet<VoterId>| {
            let mut names: Vec<String> = ids.iter().filter_map(|id| name(*id)).collect();
            names.sort_by_key(|name| state.monmap.rank_of(name).unwrap_or(usize::MAX));
            names
        };
        let voters = &log.membership().voters;
        let leads = self.leader.reigns();
        let heard = if leads { log.heard() } else { BTreeSet::new() };
        let taking_part = match (leads, log.leader()) {
            (true, _) => voters.intersection(&heard).copied().collect(),
            (false, Some(_)) => voters.clone(),
            (false, None) => BTreeSet::new(),
        };
        let mut standing = Standing {
            term: log.term(),
            leader: log.leader().and_then(name),
            quorum: by_rank(&taking_part),
            voters: by_rank(voters),
            set_back: by_rank(&log.set_back().difference(&heard).copied().collect()),
            heard: by_rank(&heard),
            leads,
            is_voter: voters.contains(&own),
            since: now,
        };
        let old = &self.env.standing;
        if old.leader == standing.leader && old.quorum == standing.quorum {
            standing.since = old.since;
        }
        self.env.standing = standing;
    }
}
