//! The sessions between OSDs. One table owns every connection from this OSD to another one, and knows the OSDs that connected to this
//! one.
//!
//! A session belongs to the OSD that opened it: questions go one way on it, answers come back. So two OSDs that ask each other have a
//! session each. All of them are lossy: what was not answered when one breaks is asked again by who asked, on the next one
//! (docs/decisions/0016). A session is opened when it is needed, at the address that the map has. It is closed when the map says that the
//! peer is down or elsewhere, and opened again after a pause that grows. Where an OSD has an address in a network of the cluster alone,
//! others dial that one. Known it is by the address that clients use.
//!
//! An OSD of the same process gets heartbeats and letters as mail where the driver carries mail, without frames, checksums and system
//! calls. It is known by its address all the same, so a life that has ended gets none. Mail is lost only when its receiver does not run
//! any more, and then the map says so: another life has another address.
//!
//! Who connects as an OSD must be the one that the map has at his address, nonce included. Our map may be older than his: as long as he
//! says that he has a newer one, he is not heeded, and not refused either.

use crate::Osd;
use crate::letters::Writer;
use maps::OsdMap;
use messages::internal::{Beat, GroupLetters, LetterPart};
use messages::mon::OsdMapMsg;
use messages::osd::{Backoff, OsdOpReply};
use msgr::{Messenger, Peer};
use node::{Level, Mail, MailId, Mono, Now, Output, Outputs};
use objecter::{Lines, Pause};
use pg::Sealed;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityAddr, EntityAddrVec, Epoch, Fsid, Message, OsdId, SessionId};

/// Between two attempts to reach a peer.
const PAUSE: Pause = Pause { first: Duration::from_millis(50), most: Duration::from_secs(3) };

/// Purpose of a session to a peer. Each has its own, so that much of one does not hold up the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// Much data that no client's write waits for: reads for copies.
    Bulk,
    /// Heartbeats: where letters go, too.
    Beats,
    /// Heartbeats through the network of the clients, to peers that have another one for what OSDs say to each other.
    Front,
    /// Letters between the copies of groups: writes of clients wait for them.
    Groups,
}

/// Mail to an OSD from who runs its process: the OSDs of the process by now, itself among them, and how mail is addressed to each. One that is
/// about to start is told to the others before it runs, and one that has ended after its end.
pub struct Neighbours(pub BTreeMap<OsdId, MailId>);

/// Mail to an OSD of this process.
struct PeerMail {
    fsid: Fsid,
    /// The sender, and its address in the map.
    osd: OsdId,
    from: EntityAddr,
    /// The receiver's address. A later life has another one.
    to: EntityAddr,
    content: Content,
}

/// Contents of mail between OSDs of one process.
pub(crate) enum Content {
    Beat(Beat),
    /// Letters that the groups of a round wrote, and the epoch of the sender's map.
    Letters(Epoch, Vec<Sealed>),
}

/// An OSD that connected to this one.
#[derive(Clone, Copy, Debug)]
struct Caller {
    osd: OsdId,
    addr: EntityAddr,
    /// The newest map has it at this address.
    known: bool,
}

/// All sessions with other OSDs.
pub(crate) struct Peers {
    lines: Lines<(OsdId, Purpose)>,
    callers: BTreeMap<SessionId, Caller>,
}

/// Returns true if the map has this OSD up at this address.
pub(crate) fn is_at(map: &OsdMap, osd: OsdId, addr: &EntityAddr) -> bool {
    map.is_up(osd) && map.osd_addr(osd).and_then(EntityAddrVec::msgr2) == Some(addr)
}

/// Returns where other OSDs reach it for this purpose, if it is up: its address in the cluster's own network, or the
/// one that clients use.
fn dialled(map: &OsdMap, osd: OsdId, purpose: Purpose) -> Option<EntityAddr> {
    let own = map.osd_cluster_addr(osd).and_then(EntityAddrVec::msgr2).filter(|_| purpose != Purpose::Front);
    own.or_else(|| map.osd_addr(osd)?.msgr2()).copied().filter(|_| map.is_up(osd))
}

/// Returns true if other OSDs reach it in another network than clients do.
pub(crate) fn has_front(map: &OsdMap, osd: OsdId) -> bool {
    dialled(map, osd, Purpose::Front) != dialled(map, osd, Purpose::Beats)
}

impl Caller {
    /// Returns who calls, as he shows and as the map has him.
    ///
    /// # Errors
    /// Why he cannot be who he says he is, whatever a newer map might say.
    fn of(map: &OsdMap, whoami: OsdId, peer: &Peer) -> Result<Self, String> {
        let number = peer.name.id.parse::<OsdId>().ok().filter(|osd| *osd >= 0);
        let osd = number.ok_or("it connects as an OSD, and its name is none of an OSD")?;
        if osd == whoami {
            return Err("it uses the name of this OSD".into());
        }
        let addr = *peer.addrs.msgr2().ok_or("it connects as an OSD without an address")?;
        match (0..map.max_osd).find(|other| *other != osd && is_at(map, *other, &addr)) {
            Some(other) => Err(format!("its address {addr} is that of osd.{other}")),
            None => Ok(Self { osd, addr, known: is_at(map, osd, &addr) }),
        }
    }
}

impl Peers {
    pub(crate) fn new() -> Self {
        Self { lines: Lines::new(PAUSE), callers: BTreeMap::new() }
    }

    /// Returns true if there is another OSD on this session.
    #[cfg(feature = "sim")]
    pub(crate) fn has(&self, session: SessionId) -> bool {
        self.lines.name(session).is_some() || self.callers.contains_key(&session)
    }

    #[cfg(feature = "sim")]
    pub(crate) fn give_up_beats(&mut self) {
        self.lines.give_up(|(_, purpose)| matches!(purpose, Purpose::Beats | Purpose::Front));
    }

    /// Returns which OSD connected with this session, and where it is.
    pub(crate) fn caller(&self, session: SessionId) -> Option<(OsdId, EntityAddr)> {
        self.callers.get(&session).map(|caller| (caller.osd, caller.addr))
    }

    /// A caller's session ended, if it is one.
    pub(crate) fn hung_up(&mut self, session: SessionId) {
        self.callers.remove(&session);
    }

    /// There is a newer map: sessions that lead elsewhere now are closed. Gives the OSDs whose sessions for copies were closed, and the
    /// callers who are not there any more.
    fn follow(&mut self, map: &OsdMap, messenger: &mut Messenger) -> (Vec<OsdId>, Vec<SessionId>) {
        let closed = self.lines.retain(messenger, |(osd, purpose), addr| dialled(map, osd, purpose).as_ref() == Some(addr));
        let mut gone = Vec::new();
        for (session, caller) in &mut self.callers {
            let known = is_at(map, caller.osd, &caller.addr);
            if caller.known && !known {
                gone.push(*session);
            }
            caller.known = known;
        }
        (closed.into_iter().filter(|(_, purpose)| *purpose == Purpose::Bulk).map(|(osd, _)| osd).collect(), gone)
    }
}

impl Osd {
    /// A session to a peer, opened now if need be. `None`: the map has it nowhere. `Err`: not before that moment, since it broke.
    pub(crate) fn reach(&mut self, now: Now, osd: OsdId, purpose: Purpose, out: &mut Outputs) -> Option<Result<SessionId, Mono>> {
        let addr = dialled(self.maps.current(), osd, purpose)?;
        Some(self.peers.lines.reach(now, (osd, purpose), addr, &mut self.msgr, out))
    }

    /// The newest map is taken in.
    pub(crate) fn peers_follow(&mut self, now: Now, out: &mut Outputs) {
        let map = self.maps.current().clone();
        let (closed, gone) = self.peers.follow(&map, &mut self.msgr);
        closed.into_iter().for_each(|osd| self.copies.objecter.session_ends(osd));
        for session in gone {
            self.msgr.close(session);
            self.session_ended(now, session, out);
        }
    }

    /// A session that this OSD opened stands. Who answers must be the OSD that is meant.
    pub(crate) fn peer_answers(&mut self, now: Now, session: SessionId, peer: &Peer, out: &mut Outputs) {
        let Some((osd, purpose)) = self.peers.lines.name(session) else { return };
        if peer.name.id == osd.to_string() {
            self.peers.lines.opened(now, session);
            if matches!(purpose, Purpose::Beats | Purpose::Front) {
                self.beats.stands(osd, purpose);
                self.contact_made(osd, purpose);
            }
            return;
        }
        out.log(Level::Warn, "osd", format!("{} answers at {}, where osd.{osd} should be", peer.name, peer.addr));
        self.msgr.close(session);
        self.peer_lost(now, session, false);
    }

    /// Somebody connected as an OSD. False if he is refused.
    pub(crate) fn peer_calls(&mut self, now: Now, session: SessionId, peer: &Peer, out: &mut Outputs) -> bool {
        match Caller::of(self.maps.current(), self.config.whoami, peer) {
            Ok(caller) => {
                self.peers.callers.insert(session, caller);
                true
            }
            Err(why) => {
                self.msgr.refuse(now, session, &why, out);
                false
            }
        }
    }

    /// Returns true if what a session says may be heeded, whose peer has the map of `epoch`. Clients' sessions are; an
    /// OSD's is if the map has it there. If no newer map can, the session is refused and ended.
    pub(crate) fn heeds(&mut self, now: Now, session: SessionId, epoch: Epoch, out: &mut Outputs) -> bool {
        let Some(caller) = self.peers.callers.get(&session).filter(|caller| !caller.known) else { return true };
        let newest = self.maps.epoch();
        if epoch > newest {
            self.ask_for_maps();
            return false;
        }
        let why = format!("the map of epoch {newest} does not have osd.{} at {}", caller.osd, caller.addr);
        self.msgr.refuse(now, session, &why, out);
        self.session_ended(now, session, out);
        false
    }

    /// Closes the session to a peer, if there is one; the moment from which on another may be opened.
    pub(crate) fn hang_up(&mut self, now: Now, osd: OsdId, purpose: Purpose) -> Option<Mono> {
        let session = self.peers.lines.session((osd, purpose))?;
        self.msgr.close(session);
        self.peers.lines.closed(now, session).map(|(_, retry)| retry)
    }

    /// A session that this OSD opened is gone; `refused`: nobody listens there. False if it is none of these.
    pub(crate) fn peer_lost(&mut self, now: Now, session: SessionId, refused: bool) -> bool {
        let Some(((osd, purpose), retry)) = self.peers.lines.closed(now, session) else { return false };
        if matches!(purpose, Purpose::Beats | Purpose::Front) {
            // Whether its process is gone is asked at once, and soon again.
            let dial = self.peers.lines.hasten(now, (osd, purpose)).unwrap_or(retry);
            self.beats.broke(osd, purpose, refused && self.options.fast_fail, dial);
            self.try_contact_at(osd, purpose, dial);
            if refused {
                self.contact_made(osd, purpose);
            }
        }
        match purpose {
            Purpose::Bulk => self.copies.objecter.session_ends(osd),
            Purpose::Groups => self.letters.session_broke(osd, retry),
            Purpose::Beats | Purpose::Front => {}
        }
        true
    }

    /// Takes a message of another OSD, if it is one.
    pub(crate) fn peer_message(&mut self, now: Now, session: SessionId, message: &Message, out: &mut Outputs) -> bool {
        let Some((osd, purpose)) = self.peers.lines.name(session) else {
            match message.kind {
                Beat::KIND => self.beat_arrived(now, session, message, out),
                GroupLetters::KIND => self.letters_arrived(now, session, message, out),
                LetterPart::KIND => self.letter_part_arrived(now, session, message, out),
                _ => return false,
            }
            return true;
        };
        let understood = match message.kind {
            OsdOpReply::KIND | Backoff::KIND => self.copies.objecter.message(now, osd, session, message, &mut self.msgr, out),
            OsdMapMsg::KIND => OsdMapMsg::decode(message).map(|maps| self.take_maps(now, &maps, out)),
            Beat::KIND => Beat::decode(message).map(|beat| self.beat_answered(now, osd, purpose, &beat)),
            _ => Ok(()),
        };
        if let Err(error) = understood {
            out.log(
                Level::Warn,
                "osd",
                format!("osd.{osd} sent a message of type {} that does not decode: {error}", message.kind),
            );
            self.msgr.close(session);
            self.peer_lost(now, session, false);
        }
        true
    }

    /// Returns true if what goes to a peer goes as mail.
    pub(crate) fn is_neighbour(&self, osd: OsdId) -> bool {
        self.config.neighbours.contains_key(&osd)
    }

    /// Sends something as mail to an OSD of this process, if the map has it somewhere. False if it does not go as mail.
    pub(crate) fn post(&self, osd: OsdId, content: Content, out: &mut Outputs) -> bool {
        let neighbour = self.config.neighbours.get(&osd).copied();
        let map = self.maps.current();
        let to = map.osd_addr(osd).filter(|_| map.is_up(osd)).and_then(EntityAddrVec::msgr2).copied();
        let (Some(neighbour), Some(to), Some(from)) = (neighbour, to, self.config.addrs.msgr2().copied()) else { return false };
        let mail = PeerMail { fsid: self.config.fsid, osd: self.config.whoami, from, to, content };
        out.push(Output::Mail { to: neighbour, mail: Box::new(mail) });
        true
    }

    /// Mail from a machine of this process. What is for another life of this OSD, or from one that the map does not have, is dropped, as on
    /// a session that broke.
    pub(crate) fn mail_arrived(&mut self, now: Now, from: MailId, mail: Mail, out: &mut Outputs) {
        let mail = match mail.downcast::<Neighbours>() {
            Ok(all) => {
                self.config.neighbours = all.0;
                return;
            }
            Err(mail) => mail,
        };
        let Ok(mail) = mail.downcast::<PeerMail>() else { return };
        let PeerMail { fsid, osd, from: sender, to, content } = *mail;
        let ours = self.config.addrs.msgr2() == Some(&to) && fsid == self.config.fsid;
        if !ours || self.config.neighbours.get(&osd) != Some(&from) {
            return;
        }
        let known = is_at(self.maps.current(), osd, &sender);
        match content {
            Content::Beat(beat) if known && beat.answer => self.beat_answered(now, osd, Purpose::Beats, &beat),
            Content::Beat(beat) if known => {
                let answer = self.promise(now, &beat);
                self.post(osd, Content::Beat(answer), out);
            }
            Content::Letters(epoch, letters) => self.letters_posted(now, Writer { osd, addr: sender, epoch }, letters, out),
            Content::Beat(_) => {}
        }
    }

    fn beat_arrived(&mut self, now: Now, session: SessionId, message: &Message, out: &mut Outputs) {
        let caller = self.peers.callers.get(&session).copied();
        let why = match (Beat::decode(message), caller) {
            (Err(error), _) => format!("a heartbeat does not decode: {error}"),
            (Ok(_), None) => "a heartbeat of somebody who is no OSD".into(),
            (Ok(beat), Some(caller)) if beat.osd != caller.osd || beat.fsid != self.config.fsid => {
                format!("a heartbeat of osd.{} of cluster {}", beat.osd, beat.fsid)
            }
            (Ok(beat), Some(_)) => {
                if self.heeds(now, session, beat.epoch, out) {
                    let answer = self.promise(now, &beat);
                    self.msgr.send(session, answer.encode());
                }
                return;
            }
        };
        self.msgr.refuse(now, session, &why, out);
        self.session_ended(now, session, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::{Incremental, state};
    use types::{EntityName, EntityType, UTime};

    fn at(port: u16, nonce: u32) -> EntityAddr {
        EntityAddr::msgr2(([10, 0, 0, 1], port).into(), nonce)
    }

    /// osd.0, osd.1 and osd.2 at ports of their numbers, nonce 7; osd.2 is down.
    fn map() -> OsdMap {
        let mut change = Incremental::new(1, Fsid::default(), UTime::ZERO);
        change.new_max_osd = 3;
        for osd in 0..3 {
            change.new_up_client.insert(osd, EntityAddrVec(vec![at(osd as u16, 7)]));
        }
        let up = OsdMap::default().apply(&change).expect("a first map");
        let mut change = Incremental::new(2, Fsid::default(), UTime::ZERO);
        change.new_state.insert(2, state::UP);
        up.apply(&change).expect("a second map")
    }

    #[test]
    fn others_dial_the_address_in_the_osds_network() {
        let mut change = Incremental::new(3, Fsid::default(), UTime::ZERO);
        change.new_up_cluster.insert(1, EntityAddrVec(vec![at(101, 7)]));
        let map = map().apply(&change).expect("a third map");
        let dialled = |osd| dialled(&map, osd, Purpose::Beats);
        assert_eq!([0, 1, 2, 9].map(dialled), [Some(at(0, 7)), Some(at(101, 7)), None, None]);
        let front = |osd| super::dialled(&map, osd, Purpose::Front);
        assert_eq!([0, 1, 2, 9].map(front), [Some(at(0, 7)), Some(at(1, 7)), None, None]);
        assert_eq!([0, 1, 2, 9].map(|osd| has_front(&map, osd)), [false, true, false, false]);
        assert!(is_at(&map, 1, &at(1, 7)) && !is_at(&map, 1, &at(101, 7)), "known it is by the one that clients use");
    }

    fn peer(id: &str, addr: EntityAddr) -> Peer {
        Peer {
            name: EntityName::new(EntityType::Osd, id),
            kind: EntityType::Osd,
            global_id: 4,
            addr,
            addrs: EntityAddrVec(vec![addr]),
            ip: addr.addr.map(|a| a.ip()),
            ticket: types::UTime::ZERO,
            features: 0,
            caps: None,
            mode: msgr::Mode::Crc,
            outgoing: false,
        }
    }

    #[test]
    fn a_caller_is_who_the_map_has_at_his_address() {
        let map = map();
        let of = |id: &str, addr| Caller::of(&map, 0, &peer(id, addr)).map(|caller| (caller.osd, caller.known));
        assert_eq!(of("1", at(1, 7)), Ok((1, true)));
        // Down, elsewhere, another life, not in the map at all: a newer map may say otherwise.
        assert_eq!(of("2", at(2, 7)), Ok((2, false)));
        assert_eq!(of("1", at(4, 7)), Ok((1, false)));
        assert_eq!(of("1", at(1, 8)), Ok((1, false)));
        assert_eq!(of("5", at(5, 7)), Ok((5, false)));
        // These cannot be.
        assert!(of("2", at(1, 7)).is_err_and(|why| why.contains("osd.1")));
        assert!(of("0", at(0, 7)).is_err() && of("x", at(1, 7)).is_err() && of("-1", at(1, 7)).is_err());
    }
}
