//! Letters between the copies of a group: out of all groups of this OSD into one message for each peer and round, and from there to
//! the groups.
//!
//! No message is longer than the peer's messenger takes, whatever the letters are: a round's letters go in as many messages as they need
//! ([`pg::Sizes::message`]), and a letter that is longer than that alone goes in parts, in order, from the level on that knows them
//! ([`Feature::LongLetters`]). Below it such a letter is a message of its own, and requests make no letter that is too long for one
//! (`pg::ops::cost`). Who is the receiver of parts puts them together before anybody looks at the letter.
//!
//! A letter for a map that this OSD does not have yet, or for a group that is just coming out of a split, waits. So does one of an OSD
//! that is up by a map which this OSD does not have yet. When a session broke, every group is told as soon as another may be opened, and
//! says again what was not answered. Before the map has this OSD where it is, nobody heeds it: nothing is sent, and groups are told when
//! it has.

use crate::peers::{Content, Purpose, is_at};
use crate::{Osd, Phase};
use maps::OsdMap;
use messages::internal::{GroupLetters, LetterPart, OsdAlive, PgTempWish};
use node::{Level, Mono, Now, Outputs};
use pg::{OfNone, Sealed};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::{EntityAddr, EntityAddrVec, Epoch, Feature, Fsid, Message, OsdId, PgId, Rope, SessionId, SpgId};

/// Bytes of letters that wait for maps and splits; whoever wrote those beyond writes again.
const MOST_HELD: usize = 32 << 20;
/// Bytes of one letter at most. What a request makes is far below; a group's log whose requests were all told to remember much is not.
const MOST_LETTER: usize = 512 << 20;
/// Bytes of letters whose parts are not all here, of all peers. The session of the one that comes above it ends, and its letter comes again.
const MOST_PARTS: usize = 1 << 30;
/// Bytes that a letter takes in a message beside its own.
const HEAD: usize = 8;
/// The monitors are not asked for the same thing more often than that.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Author of a letter: the OSD, where it was, and its map then.
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

/// A letter that comes in parts.
struct Parts {
    /// Bytes of its fixed part, and of all of it.
    front: usize,
    length: usize,
    /// Number of parts that have come. When all have, the letter is gone from here; who sends a part twice is still understood.
    have: usize,
    taken: Rope,
}

/// Letters on their way, and what groups want of the monitors.
#[derive(Default)]
pub(crate) struct Letters {
    outbox: BTreeMap<OsdId, Vec<Sealed>>,
    held: VecDeque<Held>,
    held_bytes: usize,
    /// Letters that come in parts, by the session on which they come, and bytes of all of them that are here.
    parts: BTreeMap<SessionId, Parts>,
    part_bytes: usize,
    /// Bytes of letters in the longest message that was sent while parts were understood.
    #[cfg(feature = "sim")]
    longest: usize,
    /// The letters that came since they were looked at, in words, if anybody looks.
    #[cfg(feature = "sim")]
    heard: Option<Vec<String>>,
    /// Messages are not cut: a mistake to be found.
    #[cfg(feature = "sim")]
    careless: bool,
    /// OSDs with whom a session broke, and when another may be opened.
    broken: BTreeMap<OsdId, Mono>,
    up_thru: Epoch,
    /// Epoch that the monitors were asked for last, and when.
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

    /// Keeps in words what comes from now on; gives what came since the last time.
    #[cfg(feature = "sim")]
    pub(crate) fn heard(&mut self) -> Vec<String> {
        self.heard.replace(Vec::new()).unwrap_or_default()
    }

    /// A session to a peer broke; another may be opened at that moment.
    pub(crate) fn session_broke(&mut self, osd: OsdId, until: Mono) {
        self.broken.insert(osd, until);
    }

    /// The monitors' session is another one: what was asked may be lost.
    pub(crate) fn ask_again(&mut self) {
        self.asked = None;
    }

    /// A session is gone, and with it the letter that came in parts on it.
    pub(crate) fn forget_parts(&mut self, session: SessionId) {
        if let Some(parts) = self.parts.remove(&session) {
            self.part_bytes -= parts.taken.len();
        }
    }

    /// Takes a part of a letter; gives the letter if it was the last one.
    ///
    /// # Errors
    /// Why it cannot be one.
    fn collect(&mut self, session: SessionId, part: LetterPart) -> Result<Option<Sealed>, &'static str> {
        let number = |n: u64| usize::try_from(n).ok().filter(|n| *n <= MOST_LETTER).ok_or("a part of a letter that is too long");
        let (front, length, at, len) = (number(part.front)?, number(part.length)?, number(part.at)?, part.data.len());
        if front > length || len == 0 || len > length - at.min(length) {
            return Err("a part of a letter that it is longer than");
        }
        if at == 0 {
            self.forget_parts(session);
            self.parts.insert(session, Parts { front, length, have: 0, taken: Rope::new() });
        }
        let parts = self.parts.get_mut(&session).ok_or("a part of a letter whose beginning did not come")?;
        if (front, length) != (parts.front, parts.length) || at > parts.have {
            return Err("a part of another letter");
        }
        if at < parts.have {
            // It was here before.
            return Ok(None);
        }
        if self.part_bytes + len > MOST_PARTS {
            return Err("more letters in parts than there is room for");
        }
        self.part_bytes += len;
        parts.have += len;
        parts.taken.append(part.data);
        if parts.have < length {
            return Ok(None);
        }
        let whole = std::mem::take(&mut parts.taken);
        self.part_bytes -= length;
        Ok(Some(Sealed { front: whole.slice(0, front).contiguous(), data: whole.slice(front, length - front) }))
    }

    /// Bytes of letters that a message may have.
    #[cfg(feature = "sim")]
    fn fitting(&self, most: usize) -> usize {
        if self.careless { usize::MAX } else { most }
    }

    #[cfg(not(feature = "sim"))]
    fn fitting(&self, most: usize) -> usize {
        most
    }

    /// A message with so many bytes of letters goes out.
    #[cfg(feature = "sim")]
    fn note_length(&mut self, bytes: usize) {
        self.longest = self.longest.max(bytes);
    }

    #[cfg(not(feature = "sim"))]
    fn note_length(&mut self, _: usize) {}

    #[cfg(feature = "sim")]
    pub(crate) fn be_careless(&mut self) {
        self.careless = true;
    }

    /// Returns when [`Osd::send_letters`] must be called at the latest.
    pub(crate) fn deadline(&self) -> Mono {
        self.broken.values().min().copied().unwrap_or(Mono::NEVER)
    }
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
                    self.send_all(session, osd, letters, out);
                }
                Some(Err(until)) => self.letters.session_broke(osd, until),
                // The map has it down; groups hear of that.
                None => {}
            }
        }
        self.ask_monitors(now);
    }

    /// Sends a round's letters to a peer, in as many messages as they need.
    fn send_all(&mut self, session: SessionId, osd: OsdId, letters: Vec<Sealed>, out: &mut Outputs) {
        let size = |letter: &Sealed| letter.front.len() + letter.data.len() + HEAD;
        let most = self.letters.fitting(self.options.pg.sizes.message);
        let all: usize = letters.iter().map(size).sum();
        if all <= most {
            return self.send_some(session, all, letters);
        }
        let (mut some, mut bytes) = (Vec::new(), 0);
        for letter in letters {
            let size = size(&letter);
            if bytes + size > most && bytes > 0 {
                self.send_some(session, bytes, std::mem::take(&mut some));
                bytes = 0;
            }
            if size > most && self.knows_parts() {
                self.send_parts(session, osd, letter, most, out);
                continue;
            }
            bytes += size;
            some.push(letter);
        }
        if !some.is_empty() {
            self.send_some(session, bytes, some);
        }
    }

    /// Returns true if all OSDs understand letters in parts.
    fn knows_parts(&self) -> bool {
        self.maps.current().level.has(Feature::LongLetters)
    }

    /// Sends letters as one message. `bytes`: of all of them.
    fn send_some(&mut self, session: SessionId, bytes: usize, letters: Vec<Sealed>) {
        if self.knows_parts() {
            self.letters.note_length(bytes);
        }
        let message = self.bundle(letters);
        self.msgr.send(session, message);
    }

    /// Sends a letter in parts of at most so many bytes.
    fn send_parts(&mut self, session: SessionId, osd: OsdId, letter: Sealed, most: usize, out: &mut Outputs) {
        let (fsid, whoami, epoch) = (self.config.fsid, self.config.whoami, self.maps.epoch());
        let front = letter.front.len();
        let mut whole = Rope::from(letter.front);
        whole.append(letter.data);
        let length = whole.len();
        if length > MOST_LETTER {
            let text = format!("a letter of {length} bytes to osd.{osd} is not sent, {MOST_LETTER} are the most");
            return out.log(Level::Error, "osd", text);
        }
        for at in (0..length).step_by(most) {
            let data = whole.slice(at, most);
            let (front, length, at) = (front as u64, length as u64, at as u64);
            self.msgr.send(session, LetterPart { fsid, osd: whoami, epoch, front, length, at, data }.encode());
        }
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
        let letters = match GroupLetters::decode(message) {
            Ok(letters) => letters,
            Err(error) => return self.refuse_peer(now, session, &format!("letters do not decode: {error}"), out),
        };
        let Some(from) = self.writer(now, session, (letters.osd, letters.fsid, letters.epoch), out) else { return };
        if !self.is_heeded(now, session, from, out) {
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

    /// A part of a letter of a peer's group.
    pub(crate) fn letter_part_arrived(&mut self, now: Now, session: SessionId, message: &Message, out: &mut Outputs) {
        // A program of before takes it for nothing.
        #[cfg(feature = "sim")]
        if !self.config.levels.newest.has(Feature::LongLetters) {
            return out.log(Level::Debug, "osd", format!("message of type {} ignored", message.kind));
        }
        let part = match LetterPart::decode(message) {
            Ok(part) => part,
            Err(error) => return self.refuse_peer(now, session, &format!("a part of a letter does not decode: {error}"), out),
        };
        let Some(from) = self.writer(now, session, (part.osd, part.fsid, part.epoch), out) else { return };
        let letter = match self.letters.collect(session, part) {
            Ok(Some(letter)) => letter,
            Ok(None) => return,
            Err(why) => return self.refuse_peer(now, session, why, out),
        };
        if !self.is_heeded(now, session, from, out) {
            return;
        }
        if let Err(error) = self.deliver(now, from, now.mono, letter) {
            self.refuse_peer(now, session, &format!("a letter in parts does not decode: {error}"), out);
        }
    }

    /// Returns true if letters of this writer may be read, or wait for his map.
    fn is_heeded(&mut self, now: Now, session: SessionId, from: Writer, out: &mut Outputs) -> bool {
        from.epoch > self.maps.epoch() || self.heeds(now, session, from.epoch, out)
    }

    /// Returns who sends letters on a session, which he says himself, too: number, cluster, epoch of his map. None if that is not so;
    /// then he is refused.
    fn writer(
        &mut self,
        now: Now,
        session: SessionId,
        (osd, fsid, epoch): (OsdId, Fsid, Epoch),
        out: &mut Outputs,
    ) -> Option<Writer> {
        let why = match self.peers.caller(session) {
            Some((caller, addr)) if caller == osd && fsid == self.config.fsid => return Some(Writer { osd, addr, epoch }),
            Some(_) => format!("letters of osd.{osd} of cluster {fsid}"),
            None => "letters of somebody who is no OSD".into(),
        };
        self.refuse_peer(now, session, &why, out);
        None
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
        #[cfg(feature = "sim")]
        if let Some(heard) = &mut self.letters.heard {
            let held = if self.groups.find(&id).is_some() { "" } else { ", which is not here" };
            let (epoch, interval) = (self.maps.epoch(), envelope.interval);
            heard.push(format!("osd.{} in {interval} of {id}{held}, by map {epoch}: {}", from.osd, letter.line()?));
        }
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
        let answer = if self.groups.has_ancestor(&id) {
            if self.is_to_come(id) {
                self.hold(writer, arrived, letter);
                return Ok(());
            }
            pg::answer_of_none(&letter, self.maps.epoch(), self.groups.is_within_a_broken_one(&id))?
        } else {
            pg::answer_of_none(&letter, self.maps.epoch(), false)?
        };
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

    /// Returns true if a group that is not here is still to come out of a split of one that is. Who asks for it must not hear that there is
    /// nothing: it may be all that there is.
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

#[cfg(feature = "sim")]
impl Osd {
    /// Checks that what was sent fits, and that letters in parts are those of sessions that stand.
    pub(crate) fn check_letters(&self) -> Result<(), String> {
        let (longest, most) = (self.letters.longest, self.options.pg.sizes.message);
        if longest > most {
            return Err(format!("a message has {longest} bytes of letters, {most} are the most"));
        }
        match self.msgr.unsendable() {
            0 => {}
            many => return Err(format!("{many} messages were too long for other daemons")),
        }
        if self.letters.parts.keys().any(|session| self.peers.caller(*session).is_none()) {
            return Err("a letter in parts is of a session that is gone".into());
        }
        let bytes: usize = self.letters.parts.values().map(|parts| parts.taken.len()).sum();
        if bytes == self.letters.part_bytes { Ok(()) } else { Err(format!("{bytes} bytes of letters in parts, not as counted")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    /// Parts of a letter of this length, with a fixed part of 3 bytes.
    fn parts(length: u64, each: usize) -> Vec<LetterPart> {
        let bytes: Bytes = (0..length).map(|n| n as u8).collect();
        let part = |at: usize| LetterPart {
            front: 3,
            length,
            at: at as u64,
            data: Rope::from(bytes.clone()).slice(at, each),
            ..LetterPart::default()
        };
        (0..length as usize).step_by(each).map(part).collect()
    }

    #[test]
    fn parts_make_the_letter_that_they_are_of() {
        let mut letters = Letters::default();
        for (session, each) in [(SessionId(1), 4), (SessionId(2), 2), (SessionId(1), 1), (SessionId(1), 9)] {
            let mut all = parts(9, each);
            let last = all.pop().expect("a part");
            for part in all {
                // Who hears a part twice hears it once.
                assert_eq!(letters.collect(session, part.clone()), Ok(None));
                assert_eq!(letters.collect(session, part), Ok(None));
            }
            let letter = letters.collect(session, last.clone()).expect("the last one").expect("a letter");
            assert_eq!((&letter.front[..], letter.data.to_vec()), (&[0, 1, 2][..], vec![3, 4, 5, 6, 7, 8]));
            assert_eq!(letters.part_bytes, 0);
            let again = letters.collect(session, last).expect("the last one");
            assert_eq!(again.is_some(), each == 9, "a letter of one part is a letter each time");
        }
    }

    #[test]
    fn parts_that_make_no_letter_are_refused() {
        let mut letters = Letters::default();
        let (one, all) = (SessionId(1), parts(9, 4));
        assert!(letters.collect(one, all[1].clone()).is_err(), "a beginning that did not come");
        assert_eq!(letters.collect(one, all[0].clone()), Ok(None));
        assert!(letters.collect(one, all[2].clone()).is_err(), "a part that is left out");
        assert!(letters.collect(one, LetterPart { length: 10, ..all[1].clone() }).is_err(), "of another letter");
        assert!(letters.collect(one, LetterPart { front: 10, ..all[1].clone() }).is_err(), "a front that is longer than all");
        assert!(letters.collect(one, LetterPart { at: 6, ..all[1].clone() }).is_err(), "more than the letter has");
        assert!(letters.collect(one, LetterPart { at: u64::MAX, ..all[1].clone() }).is_err(), "no place in it");
        let huge = LetterPart { length: MOST_LETTER as u64 + 1, ..all[0].clone() };
        assert!(letters.collect(one, huge).is_err(), "a letter that is too long");
        assert_eq!(letters.part_bytes, 4);
        letters.forget_parts(one);
        assert_eq!(letters.part_bytes, 0);
    }
}
