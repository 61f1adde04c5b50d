//! Letters between the copies of a group: out of all groups of this OSD into one message for each peer and round, and from there to
//! the groups. What would be too long for the peer's messenger goes in several messages, in order.
//!
//! A letter for a map that this OSD does not have yet, or for a group that is just coming out of a split, waits. So does one of an OSD
//! that is up by a map which this OSD does not have yet. When a session broke, every group is told as soon as another may be opened, and
//! says again what was not answered. Before the map has this OSD where it is, nobody heeds it: nothing is sent, and groups are told when
//! it has.

use crate::peers::{Content, Purpose, is_at};
use crate::{Osd, Phase};
use maps::OsdMap;
use messages::internal::{GroupLetters, OsdAlive, PgTempWish};
use node::{Level, Mono, Now, Outputs};
use pg::{OfNone, Sealed};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::{EntityAddr, EntityAddrVec, Epoch, Message, OsdId, PgId, Rope, SessionId, SpgId};

/// Bytes of letters that wait for maps and splits; whoever wrote those beyond writes again.
const MOST_HELD: usize = 32 << 20;
/// Bytes of letters after which a message is full. One letter has at most what a request may change (`pg`), and a message may have 128 MiB.
const FULL: usize = 24 << 20;
/// Bytes of letters' fronts after which it is full; the messenger takes 16 MiB of them.
const FULL_FRONT: usize = 4 << 20;
/// The monitors are not asked for the same thing more often than that.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Who wrote a letter: the OSD, where it was, and its map then.
#[derive(Clone, Copy)]
pub(crate) struct Writer {
    pub(crate) osd: OsdId,
    pub(crate) addr: EntityAddr,
    pub(crate) epoch: Epoch,
}

/// A letter that waits for a map or a split.
struct Held {
    from: Writer,
    arrived: Mono,
    letter: Sealed,
}

/// Letters on their way, and what groups want of the monitors.
#[derive(Default)]
pub(crate) struct Letters {
    outbox: BTreeMap<OsdId, Vec<Sealed>>,
    held: VecDeque<Held>,
    held_bytes: usize,
    /// OSDs with whom a session broke, and when another may be opened.
    broken: BTreeMap<OsdId, Mono>,
    up_thru: Epoch,
    /// What the monitors were asked for last, and when.
    asked: Option<(Epoch, Mono)>,
    acting: BTreeMap<PgId, Vec<OsdId>>,
}

impl Letters {
    /// A group writes to its copy on another OSD.
    pub(crate) fn post(&mut self, to: OsdId, letter: Sealed) {
        self.outbox.entry(to).or_default().push(letter);
    }

    /// A group wants the map to say that this OSD was up in an epoch.
    pub(crate) fn want_up_thru(&mut self, epoch: Epoch) {
        self.up_thru = self.up_thru.max(epoch);
    }

    /// A group wants others to serve it.
    pub(crate) fn want_acting(&mut self, pg: PgId, acting: Vec<OsdId>) {
        self.acting.insert(pg, acting);
    }

    /// A session to a peer broke; another may be opened at that moment.
    pub(crate) fn session_broke(&mut self, osd: OsdId, until: Mono) {
        self.broken.insert(osd, until);
    }

    /// The monitors' session is another one: what was asked may be lost.
    pub(crate) fn ask_again(&mut self) {
        self.asked = None;
    }

    /// Returns when [`Osd::send_letters`] must be called at the latest.
    pub(crate) fn deadline(&self) -> Mono {
        self.broken.values().min().copied().unwrap_or(Mono::NEVER)
    }
}

/// Cuts letters into those that fit one message.
fn shares(letters: Vec<Sealed>) -> Vec<Vec<Sealed>> {
    let (mut all, mut front, mut data) = (Vec::new(), FULL_FRONT, FULL);
    for letter in letters {
        if front >= FULL_FRONT || data >= FULL {
            (front, data) = (0, 0);
            all.push(Vec::new());
        }
        front += letter.front.len();
        data += letter.data.len();
        all.last_mut().expect("the first letter begins a message").push(letter);
    }
    all
}

impl Osd {
    /// Ends a round: what groups wrote goes out, one message for each peer.
    pub(crate) fn send_letters(&mut self, now: Now, out: &mut Outputs) {
        if self.letters.outbox.is_empty() && self.letters.up_thru == 0 && self.letters.acting.is_empty() {
            return;
        }
        let mut outbox = std::mem::take(&mut self.letters.outbox);
        if self.phase == Phase::Booting {
            // It is written again when this OSD is up.
            outbox.clear();
        }
        for (osd, letters) in outbox {
            self.perf.letters += letters.len() as u64;
            if self.is_neighbour(osd) {
                self.post(osd, Content::Letters(self.maps.epoch(), letters), out);
                continue;
            }
            match self.reach(now, osd, Purpose::Groups, out) {
                Some(Ok(session)) => {
                    for some in shares(letters) {
                        let message = self.bundle(some);
                        self.msgr.send(session, message);
                    }
                }
                Some(Err(until)) => self.letters.session_broke(osd, until),
                // The map has it down; groups hear of that.
                None => {}
            }
        }
        self.ask_monitors(now);
    }

    fn bundle(&self, letters: Vec<Sealed>) -> Message {
        let mut data = Rope::new();
        let mut fronts = Vec::with_capacity(letters.len());
        for letter in letters {
            fronts.push((letter.front, denc::len32(letter.data.len())));
            data.append(letter.data);
        }
        let (fsid, osd, epoch) = (self.config.fsid, self.config.whoami, self.maps.epoch());
        GroupLetters { fsid, osd, epoch, letters: fronts, data }.encode()
    }

    /// The map has this OSD where it is: whatever groups wrote before may have been left unread.
    pub(crate) fn write_again(&mut self, now: Now) {
        let map = self.maps.current();
        for osd in (0..map.max_osd).filter(|osd| map.is_up(*osd) && *osd != self.config.whoami) {
            self.letters.session_broke(osd, now.mono);
        }
    }

    /// Another map: OSDs may have begun another life. What was written to the one before is lost.
    pub(crate) fn letters_follow(&mut self, now: Now, old: &OsdMap, new: &OsdMap) {
        let place = |map: &OsdMap, osd| map.osd_addr(osd).filter(|_| map.is_up(osd)).and_then(EntityAddrVec::msgr2).copied();
        for osd in (0..new.max_osd).filter(|osd| *osd != self.config.whoami) {
            if let Some(addr) = place(new, osd)
                && place(old, osd) != Some(addr)
            {
                self.letters.session_broke(osd, now.mono);
            }
        }
    }

    /// Groups hear that a peer can be reached again.
    pub(crate) fn end_breaks(&mut self, now: Now) {
        if self.letters.broken.is_empty() {
            return;
        }
        let over: Vec<OsdId> = self.letters.broken.iter().filter(|(_, until)| **until <= now.mono).map(|(osd, _)| *osd).collect();
        for osd in over {
            self.letters.broken.remove(&osd);
            let (groups, mut world) = self.world(now);
            groups.call_all(&mut world, |pg, ctx| pg.peer_returns(ctx, osd));
        }
    }

    fn ask_monitors(&mut self, now: Now) {
        let Some(session) = self.mon.session() else { return };
        let (osd, epoch) = (self.config.whoami, self.maps.epoch());
        let want = std::mem::take(&mut self.letters.up_thru);
        let fresh = self.letters.asked.is_none_or(|(asked, at)| want > asked || now.mono >= at.plus(ASK_AGAIN));
        if want > 0 && fresh {
            self.letters.asked = Some((want, now.mono));
            self.msgr.send(session, OsdAlive { osd, epoch, want }.encode());
        }
        if !self.letters.acting.is_empty() {
            let wishes = std::mem::take(&mut self.letters.acting).into_iter().collect();
            self.msgr.send(session, PgTempWish { osd, epoch, wishes }.encode());
        }
    }

    /// Letters of a peer's groups.
    pub(crate) fn letters_arrived(&mut self, now: Now, session: SessionId, message: &Message, out: &mut Outputs) {
        let caller = self.peers.caller(session);
        let (letters, addr) = match (GroupLetters::decode(message), caller) {
            (Ok(letters), Some((osd, addr))) if letters.osd == osd && letters.fsid == self.config.fsid => (letters, addr),
            (Ok(letters), Some(_)) => {
                let why = format!("letters of osd.{} of cluster {}", letters.osd, letters.fsid);
                return self.refuse_peer(now, session, &why, out);
            }
            (Ok(_), None) => return self.refuse_peer(now, session, "letters of somebody who is no OSD", out),
            (Err(error), _) => return self.refuse_peer(now, session, &format!("letters do not decode: {error}"), out),
        };
        let from = Writer { osd: letters.osd, addr, epoch: letters.epoch };
        if from.epoch <= self.maps.epoch() && !self.heeds(now, session, from.epoch, out) {
            return;
        }
        let mut at = 0;
        for (front, len) in letters.letters {
            let len = len as usize;
            if len > letters.data.len() - at {
                return self.refuse_peer(now, session, "letters that are longer than their message", out);
            }
            let letter = Sealed { front, data: letters.data.slice(at, len) };
            at += len;
            if let Err(error) = self.deliver(now, from, now.mono, letter) {
                return self.refuse_peer(now, session, &format!("a letter does not decode: {error}"), out);
            }
        }
    }

    /// Letters of an OSD of this process.
    pub(crate) fn letters_posted(&mut self, now: Now, from: Writer, letters: Vec<Sealed>, out: &mut Outputs) {
        for letter in letters {
            if let Err(error) = self.deliver(now, from, now.mono, letter) {
                let text = format!("a letter of osd.{}, of this process, does not decode: {error}", from.osd);
                out.log(Level::Error, "osd", text);
            }
        }
    }

    fn refuse_peer(&mut self, now: Now, session: SessionId, why: &str, out: &mut Outputs) {
        self.msgr.refuse(now, session, why, out);
        self.session_ended(now, session, out);
    }

    /// Brings a letter to its group. What an OSD wrote that the map does not have there any more is dropped, as on a session that broke.
    fn deliver(&mut self, now: Now, from: Writer, arrived: Mono, letter: Sealed) -> denc::Result<()> {
        #[cfg(feature = "sim")]
        assert!(
            letter.level()? <= self.config.levels.newest,
            "osd.{} writes to osd.{}, whose program is of level {}, what came with level {}",
            from.osd,
            self.config.whoami,
            self.config.levels.newest,
            letter.level()?
        );
        let envelope = letter.envelope()?;
        let id = envelope.pg;
        let known = is_at(self.maps.current(), from.osd, &from.addr);
        if envelope.interval > self.maps.epoch() || !known && from.epoch > self.maps.epoch() {
            self.ask_for_maps();
            self.hold(from, arrived, letter);
            return Ok(());
        }
        if !known {
            return Ok(());
        }
        let writer = from;
        let from = writer.osd;
        if let Some(slot) = self.groups.find(&id) {
            let (groups, mut world) = self.world(now);
            return groups.call(slot, &mut world, |pg, ctx| pg.letter(ctx, from, arrived, &letter)).unwrap_or(Ok(()));
        }
        if self.groups.has_ancestor(&id) && self.is_to_come(id) {
            self.hold(writer, arrived, letter);
            return Ok(());
        }
        let answer = pg::answer_of_none(&letter, self.maps.epoch())?;
        if matches!(answer, OfNone::Joins) && self.groups.is_blocked(&id, self.maps.current()) {
            self.hold(writer, arrived, letter);
            return Ok(());
        }
        match answer {
            OfNone::Answers(answer) => self.letters.post(from, answer),
            OfNone::Joins if self.maps.current().placed(id.pg).acting_primary == from => {
                let (groups, mut world) = self.world(now);
                let slot = groups.join(id, &mut world);
                return groups.call(slot, &mut world, |pg, ctx| pg.letter(ctx, from, arrived, &letter)).unwrap_or(Ok(()));
            }
            OfNone::Joins | OfNone::Ignores => {}
        }
        Ok(())
    }

    /// Returns true if a group that is not here is still to come out of a split of one that is.
    fn is_to_come(&self, id: SpgId) -> bool {
        self.groups.is_splitting_into(&id)
    }

    fn hold(&mut self, from: Writer, arrived: Mono, letter: Sealed) {
        let bytes = letter.front.len() + letter.data.len();
        if self.letters.held_bytes + bytes <= MOST_HELD {
            self.letters.held_bytes += bytes;
            self.letters.held.push_back(Held { from, arrived, letter });
        }
    }

    /// Letters that waited for a map or a split that has come.
    pub(crate) fn deliver_held(&mut self, now: Now, out: &mut Outputs) {
        self.letters.held_bytes = 0;
        for Held { from, arrived, letter } in std::mem::take(&mut self.letters.held) {
            if let Err(error) = self.deliver(now, from, arrived, letter) {
                out.log(Level::Warn, "osd", format!("a letter of osd.{} does not decode: {error}", from.osd));
            }
        }
    }
}
