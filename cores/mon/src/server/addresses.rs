//! An address belongs to one OSD: what happens when one boots where another one is up.
//!
//! An address is an IP address and a port, in the clients' network or in the OSDs' own. A nonce tells lives of
//! processes apart, not places: whoever connects to the older OSD reaches the newer one, which is not the one that was
//! meant. So of two OSDs that are up at one address, others find one at most, and call the other one silent.
//!
//! | the older one | what it is | what is done |
//! |---|---|---|
//! | is on the same host | its process is dead: a port of a host has one owner. The new process got its port | it is marked down at once; the newer one boots |
//! | is on another host, and was not heard for [`HEARD`] | its host is gone, and another one took the address over | the same, with a warning |
//! | is on another host, and was heard since | two hosts have one address, by mistake. Or a host died a moment ago | the newer one is refused, with a sentence that names both (`OSD_REFUSED`) |
//!
//! - *Nobody is refused for ever.* An OSD that is refused asks again every 3 s. One that is dead is not heard, so its
//!   address is free after [`HEARD`] at most, also if nobody else noticed its death.
//! - *Who was there first stays.* If the newer one always won, two hosts with one address would mark each other down in
//!   turns, and each turn ends the intervals of all their groups. When the older one is restarted, the newer one may
//!   get in; then the older one is refused. At any time one of them is up, and the health names both.
//! - *A new leader* counts all that are up as heard when it begins. It lets nobody in at an address of theirs before
//!   they had time to report.
//! - *Marked down is not dead*: what the older one may still promise to readers is waited for, as with any OSD that is
//!   silent. If it lives after all, it boots again and meets these rules.
//! - Two hosts with one address *and one name* are taken for one. They do mark each other down in turns, until one of
//!   them stays down (`osd_max_markdown_count`).
//! - A host that was *renamed* while its OSDs were up in the map, and whose ports went round, counts as another one: it
//!   waits as above.
//! - *`nodown`* holds: the older one stays up, as the operator wanted.

use super::Monitor;
use maps::{Incremental, OsdMap, flags, state as bits};
use messages::internal::OsdBoot;
use messages::mon::log_level;
use monstate::hosts::host_of_osd;
use monstate::osds::{held, mark_down};
use monstate::state::State;
use node::Now;
use std::net::SocketAddr;
use std::time::Duration;
use types::{EntityAddrVec, OsdId};

/// Time within which who was heard lives. An OSD reports every 5 s at least: two reports, and time for them to arrive.
const HEARD: Duration = Duration::from_secs(12);

/// Returns where an OSD is found.
fn place(addrs: &EntityAddrVec) -> Option<SocketAddr> {
    addrs.msgr2().and_then(|a| a.addr)
}

/// The other OSDs that are up at an address of one that boots, in either network, with that address. None if that one
/// is up there itself: its session broke and came back.
fn holders(map: &OsdMap, boot: &OsdBoot) -> Vec<(OsdId, EntityAddrVec)> {
    if map.is_up(boot.osd) && map.osd_addr(boot.osd) == Some(&boot.addrs) {
        return Vec::new();
    }
    // Whoever has no address in the OSDs' network is found at its other one there, too.
    let places = |osd: OsdId| [map.osd_addr(osd), map.osd_cluster_addr(osd)].into_iter().flatten().filter_map(place);
    let shared = |osd: OsdId| {
        let mut own = [&boot.addrs, &boot.cluster_addrs].into_iter();
        own.find(|addrs| place(addrs).is_some_and(|at| places(osd).any(|there| there == at))).cloned()
    };
    let others = map.osds().filter(|osd| *osd != boot.osd && map.is_up(*osd));
    others.filter_map(|osd| Some((osd, shared(osd)?))).collect()
}

fn host_of_boot(boot: &OsdBoot) -> Option<&String> {
    boot.metadata.get("hostname")
}

/// `osd.N of host H`, as far as that is known.
fn named(osd: OsdId, host: Option<&String>) -> String {
    host.map_or_else(|| format!("osd.{osd}"), |host| format!("osd.{osd} of host {host}"))
}

impl Monitor {
    /// Returns why an OSD may not boot at its address: one of another host is there and lives.
    pub(super) fn check_address(&self, now: Now, state: &State, boot: &OsdBoot) -> Result<(), String> {
        for (other, addrs) in holders(&state.osdmap, boot) {
            let (host, there) = (host_of_boot(boot), host_of_osd(state, other));
            let heard = self.leader.soft.osds.get(&other).is_some_and(|soft| now.mono.since(soft.last_seen) < HEARD);
            if heard && there.as_ref() != host {
                let on = host.map_or(String::new(), |host| format!("it is on host {host}, and "));
                let other = named(other, there.as_ref());
                return Err(format!("{on}{other} has its address {addrs} and is heard: do two hosts have one address?"));
            }
        }
        Ok(())
    }

    /// Marks those down whose address an OSD has that boots; [`Self::check_address`] has been asked.
    pub(super) fn clear_address(&mut self, now: Now, state: &State, boot: &OsdBoot, inc: &mut Incremental) {
        for (other, addrs) in holders(&state.osdmap, boot) {
            if held(state, other, flags::NODOWN, bits::NODOWN) {
                continue;
            }
            mark_down(&state.osdmap, inc, other, now);
            let (host, there) = (host_of_boot(boot), host_of_osd(state, other));
            let (older, newer) = (named(other, there.as_ref()), named(boot.osd, host));
            let (level, why) = match there.as_ref() == host {
                true => (log_level::INFO, "has its port now".to_owned()),
                false => (log_level::WARN, format!("has its address {addrs} now, and it is not heard")),
            };
            self.line(now, level, format!("{older} marked down: {newer} {why}"));
        }
    }
}
