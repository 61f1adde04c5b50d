//! Who connects to an OSD as an OSD must be the one that the map has at its address.

use messages::internal::Beat;
use msgr::auth::Auth;
use msgr::{Config, Event, Messenger, Policy};
use node::{Input, Mono, Node, Now, Outputs};
use sim::cluster::{Cluster, Plan};
use sim::world::HostConfig;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, Fsid, OsdId};

const FSID: Fsid = Fsid([0x5a; 16]);

/// Connects to osd.0, sends a heartbeat, and notes what happens.
struct Impostor {
    messenger: Messenger,
    beat: Beat,
    dialled: bool,
    told: Rc<RefCell<Vec<&'static str>>>,
}

impl Node for Impostor {
    fn handle(&mut self, now: Now, input: Input, out: &mut Outputs) {
        self.messenger.handle(now, input, out);
    }

    fn turn(&mut self, now: Now, out: &mut Outputs) {
        if !std::mem::replace(&mut self.dialled, true) {
            let osd = EntityAddr::msgr2(([10, 0, 1, 0], 6800).into(), 1);
            self.messenger.connect(now, osd, EntityType::Osd, Policy::Lossy, out);
        }
        while let Some(event) = self.messenger.poll_event() {
            let what = match event {
                Event::Opened { session, .. } => {
                    self.messenger.send(session, self.beat.encode());
                    "opened"
                }
                Event::Message { session, bytes, .. } => {
                    self.messenger.done(session, bytes);
                    "answered"
                }
                Event::Closed { .. } => "closed",
                Event::Reset { .. } => "reset",
            };
            self.told.borrow_mut().push(what);
        }
        self.messenger.turn(now, out);
    }

    fn deadline(&self) -> Mono {
        self.messenger.deadline()
    }
}

/// Returns what somebody of this name hears who sends a heartbeat of `osd` with the map of `epoch`; and the reason in
/// osd.0's log.
fn tried(kind: EntityType, id: &str, osd: OsdId, epoch: u32) -> (Vec<&'static str>, bool) {
    let mut cluster = Cluster::new(1, Plan::default());
    cluster.begin().expect("nothing goes wrong");
    let told = Rc::new(RefCell::new(Vec::new()));
    let (name, heard) = (EntityName::new(kind, id), told.clone());
    let factory = move |boot: sim::world::Boot| -> Box<dyn Node> {
        let addrs = EntityAddrVec(vec![EntityAddr::msgr2(([10, 0, 9, 9], 6800).into(), 5)]);
        let config = match kind {
            EntityType::Osd => Config::server(name.clone(), addrs, osd.into()),
            _ => Config::client(name.clone(), 5),
        };
        let beat = Beat { fsid: FSID, osd, epoch, stamp: 1, lease: 2_000, answer: false };
        let messenger = Messenger::new(config, Auth::none(name.clone()), boot.seed);
        Box::new(Impostor { messenger, beat, dialled: false, told: heard.clone() })
    };
    let host = HostConfig { name: "impostor".into(), listen: vec![], disks: vec![], factory: Box::new(factory) };
    let host = cluster.world.add(host);
    cluster.world.start(host);
    cluster.world.run_for(Duration::from_secs(5));
    let logged = cluster.world.trace.tail().any(|line| line.contains("closed: "));
    (told.take(), logged)
}

#[test]
fn an_osd_that_the_map_has_elsewhere_or_not_at_all_is_refused() {
    for number in [1, 7] {
        assert_eq!(tried(EntityType::Osd, &number.to_string(), number, 2), (vec!["opened", "closed"], true), "osd.{number}");
    }
}

#[test]
fn the_name_of_the_osd_itself_and_a_name_that_is_none_are_refused() {
    assert_eq!(tried(EntityType::Osd, "0", 0, 2), (vec!["opened", "closed"], true));
    assert_eq!(tried(EntityType::Osd, "first", 1, 2), (vec!["opened", "closed"], true));
}

#[test]
fn a_heartbeat_in_the_name_of_another_one_is_refused() {
    assert_eq!(tried(EntityType::Osd, "7", 1, 1_000_000), (vec!["opened", "closed"], true));
    assert_eq!(tried(EntityType::Client, "admin", 1, 2), (vec!["opened", "closed"], true));
}

#[test]
fn who_has_a_newer_map_is_not_heard_and_not_refused() {
    assert_eq!(tried(EntityType::Osd, "7", 7, 1_000_000).0, ["opened"]);
}
