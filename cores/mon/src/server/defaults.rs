//! The defaults of new pools are brought in line with the hardware: [`monstate::defaults`] decides.

use super::Monitor;
use bytes::Bytes;
use denc::Encode;
use maps::Incremental;
use messages::mon::log_level;
use monstate::defaults::{self, Domain};
use monstate::effective;
use monstate::state::{Change, State};
use node::{Now, Outputs};

impl Monitor {
    /// Looks whether new pools should have more copies, or keep them on different hosts, and sees to it. To be called
    /// when there may be more OSDs than before.
    pub(super) fn follow_hardware(&mut self, now: Now, out: &mut Outputs) {
        let state = self.newest().clone();
        if defaults::is_settled(&state) {
            return;
        }
        let before = effective::monitor_number(&state, &self.env, defaults::SIZE).max(1.0) as u32;
        let facts = defaults::facts(&state, before);
        let (size, domain) = defaults::decide(&facts);
        let mut changes = Vec::new();
        if size != before {
            self.line(now, log_level::INFO, grown(&state, size));
            changes = set_size(size);
        }
        let mut inc = None;
        if domain == Domain::Host && facts.domain == Domain::Osd {
            inc = defaults::over_hosts(&state.osdmap.crush).map(|crush| {
                let mut inc = Incremental::new(state.osdmap.epoch + 1, state.fsid, now.wall);
                inc.crush = crush.to_bytes();
                inc
            });
            let text = format!("replicated_rule keeps copies on different hosts now: there are {} of them", facts.hosts);
            self.line(now, log_level::INFO, text);
        }
        if !changes.is_empty() || inc.is_some() {
            self.propose(now, changes, inc, Vec::new(), out);
        }
    }
}

/// Sets the number of copies of new pools, and remembers that this was done here.
fn set_size(size: u32) -> Vec<Change> {
    let value = size.to_string();
    let mark = Bytes::from(value.clone());
    vec![
        Change::Config { by: "mon.".into(), set: vec![("global".into(), defaults::SIZE.into(), Some(value))] },
        Change::Key { key: defaults::MARK.into(), value: Some(mark) },
    ]
}

/// Says that new pools have more copies from now on, and which pools have fewer.
fn grown(state: &State, size: u32) -> String {
    let fewer = state.osdmap.pools.iter().filter(|(_, p)| u32::from(p.size) < size);
    let names: Vec<&str> = fewer.map(|(id, _)| state.pool_name(*id)).collect();
    let text = format!("new pools have {size} copies from now on (osd_pool_default_size), since there are places for them");
    match names.is_empty() {
        true => text,
        false => format!("{text}; '{}' keep what they have: 'ceph osd pool set POOL size {size}'", names.join("', '")),
    }
}
