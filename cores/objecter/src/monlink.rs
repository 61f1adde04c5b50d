//! The link to the monitors, for clients and OSDs: which one is tried when, what is subscribed to, which tickets are
//! renewed.

use crate::lines::{Pause, STOOD};
use maps::MonMap;
use messages::mon::{Auth, AuthReply, MonMapMsg, MonSubscribe, SubscribeItem};
use msgr::{Messenger, Policy};
use node::{Level, Mono, Now, Outputs};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{EntityAddr, EntityAddrVec, EntityType, Epoch, Message, SessionId};

/// Subscription flag: one answer is enough.
const ONCE: u8 = 1;
/// While something is stuck, newer maps are asked for this often.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// A session that does not stand after so long is given up. Where there are other monitors it is so after
/// [`FIRST_PATIENCE`] at first, and after twice as long each time: a monitor whose host is gone does not answer at all,
/// and the others do so at once.
const PATIENCE: Duration = Duration::from_secs(5);
const FIRST_PATIENCE: Duration = Duration::from_secs(1);
/// Number of the cephx protocol in AUTH messages.
const CEPHX: u32 = 2;

#[derive(Debug)]
enum State {
    /// The next monitor is tried then.
    Apart { until: Mono },
    /// A session is being opened, and given up then.
    Opening { session: SessionId, until: Mono },
    /// It stands.
    Open { session: SessionId, since: Mono },
}

/// Settings of a link to the monitors.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// Place where monitors are, tried in turn. The monitor map replaces them.
    pub monitors: Vec<EntityAddrVec>,
    /// Told with subscriptions.
    pub hostname: String,
    /// Between two attempts.
    pub pause: Pause,
    /// True if every new OSD map is wanted at once. Otherwise maps are asked for once, and when something is stuck.
    pub follow: bool,
}

/// The link to the monitors: at most one session at a time.
#[derive(Debug)]
pub struct MonLink {
    monitors: Vec<EntityAddr>,
    next: usize,
    state: State,
    pause: Pause,
    failures: u32,
    was_open: bool,
    hostname: String,
    follow: bool,
    monmap_epoch: Epoch,
    osdmap_epoch: Epoch,
    /// The next request for maps is for a whole one.
    full_map: bool,
    /// A newer map is wanted, and has to be asked for.
    newer_map: bool,
    asked_at: Mono,
}

impl MonLink {
    /// A link that is tried at the first turn.
    pub fn new(config: LinkConfig) -> Self {
        Self {
            monitors: config.monitors.iter().filter_map(|m| m.msgr2().copied()).collect(),
            next: 0,
            state: State::Apart { until: Mono(0) },
            pause: config.pause,
            failures: 0,
            was_open: false,
            hostname: config.hostname,
            follow: config.follow,
            monmap_epoch: 0,
            osdmap_epoch: 0,
            full_map: false,
            newer_map: !config.follow,
            asked_at: Mono(0),
        }
    }

    /// Returns true if there is no monitor to ask.
    pub fn has_nobody(&self) -> bool {
        self.monitors.is_empty()
    }

    /// The session, if it stands.
    pub fn session(&self) -> Option<SessionId> {
        match self.state {
            State::Open { session, .. } => Some(session),
            _ => None,
        }
    }

    /// Returns true if a session with a monitor ever stood.
    pub fn was_open(&self) -> bool {
        self.was_open
    }

    /// Returns true if this session is the one with the monitor, standing or not.
    pub fn owns(&self, id: SessionId) -> bool {
        matches!(self.state, State::Opening { session, .. } | State::Open { session, .. } if session == id)
    }

    /// The newest OSD map is of this epoch.
    pub fn have_map(&mut self, epoch: Epoch) {
        self.osdmap_epoch = epoch;
        self.full_map = false;
        self.newer_map = false;
        self.asked_at = Mono(0);
    }

    /// Epoch of the newest OSD map, as [`MonLink::have_map`] told.
    pub(crate) fn osdmap_epoch(&self) -> Epoch {
        self.osdmap_epoch
    }

    /// Something cannot go on without a newer OSD map: it is asked for at the next turn, and every five seconds until
    /// it comes.
    pub fn want_newer_map(&mut self) {
        self.newer_map = true;
    }

    /// The OSD map cannot be continued by what came: a whole one is asked for.
    pub fn want_full_map(&mut self) {
        // A whole one that cannot be used either is not asked for at once.
        if !std::mem::replace(&mut self.full_map, true) {
            self.asked_at = Mono(0);
        }
        self.newer_map = true;
    }

    /// The session stands: subscribes to the configuration and to both maps.
    pub fn opened(&mut self, now: Now, session: SessionId, messenger: &mut Messenger) {
        self.state = State::Open { session, since: now.mono };
        self.was_open = true;
        self.asked_at = now.mono;
        self.subscribe(messenger);
    }

    /// Subscribes anew, if a session stands.
    pub fn subscribe(&self, messenger: &mut Messenger) {
        let Some(session) = self.session() else { return };
        let next = |epoch: Epoch| if epoch == 0 { 0 } else { u64::from(epoch) + 1 };
        let item = |start| SubscribeItem { start, flags: 0 };
        let mut what = BTreeMap::from([("config".to_owned(), item(0)), ("monmap".to_owned(), item(next(self.monmap_epoch)))]);
        what.insert("osdmap".into(), self.map_item());
        messenger.send(session, MonSubscribe { what, hostname: self.hostname.clone() }.encode());
    }

    fn map_item(&self) -> SubscribeItem {
        let start = if self.full_map || self.osdmap_epoch == 0 { 0 } else { u64::from(self.osdmap_epoch) + 1 };
        SubscribeItem { start, flags: if self.follow { 0 } else { ONCE } }
    }

    /// The session is gone: the next monitor is tried after a pause.
    pub fn closed(&mut self, now: Now) {
        let stood = matches!(self.state, State::Open { since, .. } if now.mono.since(since) >= STOOD);
        self.failures = if stood { 1 } else { self.failures + 1 };
        self.next += 1;
        self.state = State::Apart { until: now.mono.plus(self.pause.after(self.failures)) };
    }

    /// A mistake to be found: how often it was refused is forgotten.
    #[cfg(feature = "sim")]
    pub fn forget_failures(&mut self) {
        self.failures = 0;
    }

    /// Takes a monitor's message in, if it is about the link itself. A monitor map is given back to who wants to know
    /// the cluster.
    ///
    /// # Errors
    /// The message does not decode.
    pub fn message(
        &mut self,
        now: Now,
        message: &Message,
        messenger: &mut Messenger,
        out: &mut Outputs,
    ) -> denc::Result<Option<MonMap>> {
        match message.kind {
            MonMapMsg::KIND => {
                let map: MonMap = denc::Decode::from_bytes(&MonMapMsg::decode(message)?.monmap)?;
                self.take_monmap(&map);
                return Ok(Some(map));
            }
            AuthReply::KIND => {
                let reply = AuthReply::decode(message)?;
                if let Err(error) = messenger.auth_mut().client.renew_reply(now.mono, reply.result, &reply.payload) {
                    out.log(Level::Warn, "monc", format!("tickets were not renewed: {error}"));
                }
            }
            _ => {}
        }
        Ok(None)
    }

    fn take_monmap(&mut self, map: &MonMap) {
        self.monmap_epoch = map.epoch;
        let known: BTreeSet<EntityAddr> = map.mon_info.values().filter_map(|m| m.public_addrs.msgr2().copied()).collect();
        if !known.is_empty() {
            self.monitors = known.into_iter().collect();
        }
    }

    /// Ends a round: opens a session or gives one up, asks for maps and tickets.
    pub fn turn(&mut self, now: Now, messenger: &mut Messenger, out: &mut Outputs) {
        match self.state {
            State::Apart { until } if until <= now.mono && !self.monitors.is_empty() => {
                let to = self.monitors[self.next % self.monitors.len()];
                let session = messenger.connect(now, to, EntityType::Mon, Policy::Lossy, out);
                self.state = State::Opening { session, until: now.mono.plus(self.patience()) };
            }
            State::Opening { session, until } if until <= now.mono => {
                messenger.close(session);
                self.closed(now);
            }
            State::Open { session, .. } => self.ask(now, session, messenger),
            _ => {}
        }
    }

    fn patience(&self) -> Duration {
        // Each monitor is tried once before anybody is given more time.
        let rounds = self.failures as usize / self.monitors.len().max(1);
        let doubled = FIRST_PATIENCE * (1 << rounds.min(3));
        if self.monitors.len() > 1 { doubled.min(PATIENCE) } else { PATIENCE }
    }

    fn ask(&mut self, now: Now, session: SessionId, messenger: &mut Messenger) {
        if self.newer_map && self.map_due() <= now.mono {
            self.asked_at = now.mono;
            let what = BTreeMap::from([("osdmap".to_owned(), self.map_item())]);
            messenger.send(session, MonSubscribe { what, hostname: self.hostname.clone() }.encode());
        }
        if let Some(payload) = messenger.renew_tickets(now) {
            let monmap_epoch = self.monmap_epoch;
            messenger.send(session, Auth { version: 0, protocol: CEPHX, payload, monmap_epoch }.encode());
        }
    }

    fn map_due(&self) -> Mono {
        if self.asked_at == Mono(0) { Mono(0) } else { self.asked_at.plus(ASK_AGAIN) }
    }

    /// Returns when [`MonLink::turn`] must be called at the latest.
    pub fn deadline(&self, messenger: &Messenger) -> Mono {
        match self.state {
            _ if self.monitors.is_empty() => Mono::NEVER,
            State::Apart { until } | State::Opening { until, .. } => until,
            State::Open { .. } => {
                let maps = if self.newer_map { self.map_due() } else { Mono::NEVER };
                maps.min(messenger.auth().client.next_renewal())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgr::auth::Auth as Keys;
    use node::Output;
    use types::{EntityName, UTime};

    fn now(ms: u64) -> Now {
        Now { mono: Mono(1 + ms * 1_000_000), wall: UTime::ZERO }
    }

    fn monitor(n: u8) -> EntityAddrVec {
        EntityAddrVec(vec![EntityAddr::msgr2(([10, 0, 0, n], 3300).into(), 0)])
    }

    fn world(monitors: &[u8]) -> (MonLink, Messenger, Outputs) {
        let name = EntityName::new(EntityType::Osd, "0");
        let messenger = Messenger::new(msgr::Config::client(name.clone(), 1), Keys::none(name), [1; 32]);
        let pause = Pause { first: Duration::from_millis(100), most: Duration::from_secs(3) };
        let monitors = monitors.iter().map(|n| monitor(*n)).collect();
        (MonLink::new(LinkConfig { monitors, hostname: "h".into(), pause, follow: true }), messenger, Outputs::default())
    }

    fn dialled(out: &mut Outputs) -> Vec<u8> {
        let all = std::mem::take(out).0.into_iter().filter_map(|o| match o {
            Output::Connect { to: std::net::SocketAddr::V4(to), .. } => Some(to.ip().octets()[3]),
            _ => None,
        });
        all.collect()
    }

    #[test]
    fn monitors_are_tried_in_turn_with_a_pause_that_grows() {
        let (mut link, mut messenger, mut out) = world(&[1, 2]);
        let mut ms = 0;
        let mut tried = Vec::new();
        for _ in 0..4 {
            link.turn(now(ms), &mut messenger, &mut out);
            tried.extend(dialled(&mut out));
            assert_eq!(link.session(), None);
            link.closed(now(ms));
            ms = (link.deadline(&messenger).0 - 1) / 1_000_000;
        }
        assert_eq!((tried, ms), (vec![1, 2, 1, 2], 100 + 200 + 400 + 800));
    }

    #[test]
    fn a_monitor_that_does_not_answer_is_given_up_soon_where_there_are_others_and_gets_more_time_each_round() {
        let tries = |monitors: &[u8], until: u64| {
            let (mut link, mut messenger, mut out) = world(monitors);
            let (mut ms, mut tried) = (0, Vec::new());
            while ms <= until {
                link.turn(now(ms), &mut messenger, &mut out);
                tried.extend(dialled(&mut out).into_iter().map(|monitor| (monitor, ms)));
                ms = (link.deadline(&messenger).0 - 1) / 1_000_000;
            }
            tried
        };
        assert_eq!(tries(&[1], 8_000), [(1, 0), (1, 5_100)]);
        // Pauses of 100, 200, 400, 800, 1,600 and 3,000 ms between.
        let known = [(1, 0), (2, 1_100), (1, 2_300), (2, 4_700), (1, 7_500), (2, 13_100), (1, 20_100)];
        assert_eq!(tries(&[1, 2], 21_000), known);
    }

    #[test]
    fn who_lacks_a_map_asks_at_once_and_then_every_five_seconds() {
        let (mut link, mut messenger, mut out) = world(&[1]);
        link.turn(now(0), &mut messenger, &mut out);
        let State::Opening { session, .. } = link.state else { panic!("it dials") };
        link.opened(now(1), session, &mut messenger);
        let asked = |link: &MonLink| link.asked_at;
        link.have_map(7);
        assert_eq!(link.deadline(&messenger), Mono::NEVER);
        link.want_newer_map();
        assert_eq!(link.deadline(&messenger), Mono(0));
        link.turn(now(20), &mut messenger, &mut out);
        assert_eq!((asked(&link), link.deadline(&messenger)), (now(20).mono, now(5020).mono));
        link.turn(now(5019), &mut messenger, &mut out);
        assert_eq!(asked(&link), now(20).mono);
        link.turn(now(5020), &mut messenger, &mut out);
        assert_eq!(asked(&link), now(5020).mono);
        link.have_map(8);
        assert_eq!((link.deadline(&messenger), link.map_item().start), (Mono::NEVER, 9));
    }

    #[test]
    fn without_monitors_nothing_is_due() {
        let (mut link, mut messenger, mut out) = world(&[]);
        link.want_newer_map();
        link.turn(now(0), &mut messenger, &mut out);
        assert!(out.0.is_empty() && link.has_nobody());
        assert_eq!(link.deadline(&messenger), Mono::NEVER);
    }
}
