//! What copies of a group say to each other.
//!
//! A [`Letter`] travels in an [`Envelope`] that names the group and the interval in which it was written. Letters are lost when a
//! session breaks, and come twice when something is asked again: who asks keeps what is not answered, and whoever is asked answers again.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

use crate::body::{Body, Payload, get_changes, get_name, get_payload, put_changes, put_name, put_payload, rises};
use crate::codec::{Parser, Writer};
use crate::entry::{Done, LogEntry, decode_page, encode_page};
use crate::history::History;
use crate::meta::{Info, get_version, put_version};
use crate::missing::{Base, Lack};
use crate::object::{Piece, PieceAt};
use crate::pieces::{Question, Want};
use crate::recorder::CopyTime;
use crate::scrub::entry::{Answer, Ask};
use bytes::Bytes;
use denc::{DecodeError, Result};
use types::{CopyId, EVersion, Epoch, HObject, OsdId, PgId, PoolId, Rope, ShardId, SpgId};

/// Layout of an envelope and its letter.
const LAYOUT: u64 = 1;
/// Version of what stands behind a promise.
const TAIL: u64 = 1;

/// Address of a letter: the receiver's group, who wrote it, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// The group, with the receiver's shard.
    pub pg: SpgId,
    /// The sender's shard. It is written only if the receiver has one: either all copies of a group have shards, or none.
    pub from: ShardId,
    /// First epoch of the sender's present interval. The receiver must have this map before it reads on.
    pub interval: Epoch,
    /// Epoch of the sender's map.
    pub epoch: Epoch,
}

impl Envelope {
    /// Returns the same for a copy.
    pub(crate) fn to(self, copy: CopyId) -> Self {
        Self { pg: SpgId { shard: copy.shard, ..self.pg }, ..self }
    }

    /// Returns the envelope of an answer that a copy of which nothing is here gives. `epoch`: of its OSD's map.
    fn back(self, epoch: Epoch) -> Self {
        Self { pg: SpgId { shard: self.from, ..self.pg }, from: self.pg.shard, epoch, ..self }
    }
}

/// A body in its encoding, to be put into letters to several copies.
pub(crate) fn encoded(body: &Body) -> Sealed {
    let mut w = Writer(Vec::with_capacity(256));
    let mut data = Rope::new();
    body.put(&mut w, &mut data);
    Sealed { front: w.finish(), data }
}

/// [`Letter::Body`] with a body that was encoded before.
pub(crate) fn with_body(envelope: &Envelope, number: u64, body: &Sealed) -> Sealed {
    let mut w = Writer(Vec::with_capacity(body.front.len() + 32));
    put_envelope(&mut w, envelope);
    w.num(8);
    w.num(number);
    w.0.extend_from_slice(&body.front);
    Sealed { front: w.finish(), data: body.data.clone() }
}

/// A letter with its envelope as bytes: fixed part and payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sealed {
    /// Envelope and letter.
    pub front: Bytes,
    /// Large payloads, in the order in which the letter names them.
    pub data: Rope,
}

impl Sealed {
    /// Returns who shall get it, and when it was written.
    ///
    /// # Errors
    /// The bytes are no envelope.
    pub fn envelope(&self) -> Result<Envelope> {
        get_envelope(&mut Parser::new(&self.front))
    }
}

/// Step of an OSD with a letter for a group of which it has nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfNone {
    /// It becomes a copy: [`crate::Pg::join`], then [`crate::Pg::letter`].
    Joins,
    /// It answers.
    Answers(Sealed),
    /// Nothing: whoever wrote it will hear from a map.
    Ignores,
}

/// Returns what an OSD that has nothing of a group does with a letter for it. `epoch`: of its map. `unsure`: the group may be part of one
/// whose keys cannot be read here, so it does not say that there is nothing, and does not become a copy.
///
/// # Errors
/// It does not decode.
pub fn answer_of_none(sealed: &Sealed, epoch: Epoch, unsure: bool) -> Result<OfNone> {
    let (envelope, letter) = Letter::open(sealed)?;
    Ok(match letter {
        Letter::Query | Letter::Seek(_) if unsure => OfNone::Answers(Letter::Unable.seal(&envelope.back(epoch))),
        Letter::Activate(_) if unsure => OfNone::Ignores,
        Letter::Query => OfNone::Answers(Letter::Absent.seal(&envelope.back(epoch))),
        Letter::Seek(wanted) => OfNone::Answers(Letter::Sought(nothing_of(wanted)).seal(&envelope.back(epoch))),
        Letter::Activate(_) => OfNone::Joins,
        _ => OfNone::Ignores,
    })
}

/// Summary of what a copy holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeerInfo {
    pub(crate) info: Info,
    pub(crate) history: History,
    /// Of each epoch with entries in the log, the newest entry's version.
    pub(crate) runs: Vec<(Epoch, u64)>,
    /// Objects that the log names and that are not here.
    pub(crate) missing: u64,
    /// Rest of promises to earlier primaries, in milliseconds.
    pub(crate) rests: Vec<(OsdId, u32)>,
}

/// A part of a log, and what goes with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogPart {
    /// The group as the log's end leaves it.
    pub(crate) info: Info,
    /// Knowledge of the sender about the group's life.
    pub(crate) history: History,
    /// The entry before the first, which the receiver has too.
    pub(crate) common: EVersion,
    /// The receiver's own log is of no use: all of it goes, and backfill begins.
    pub(crate) anew: bool,
    /// Entries behind `common`, oldest first.
    pub(crate) entries: Vec<LogEntry>,
    /// Requests whose entries left the log; only if the receiver begins anew.
    pub(crate) dups: Vec<Done>,
    /// Objects that the log names and the sender lacks.
    pub(crate) missing: Vec<(HObject, EVersion)>,
}

/// Answer of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lends {
    /// The slot is yours.
    Yes,
    /// This OSD is too full.
    Full,
    /// Somebody else needs it more.
    TakenBack,
    /// It is given back.
    Free,
}

impl Lends {
    /// As it is written.
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Yes => 0,
            Self::Full => 1,
            Self::TakenBack => 2,
            Self::Free => 3,
        }
    }

    /// The one that is written like this.
    pub(crate) fn of(number: u64) -> Option<Self> {
        [Self::Yes, Self::Full, Self::TakenBack, Self::Free].into_iter().find(|lends| lends.number() == number)
    }
}

/// Returns what a copy that holds nothing of the group answers.
fn nothing_of(wanted: Vec<(HObject, EVersion)>) -> Vec<Sought> {
    wanted.into_iter().map(|(object, _)| Sought { object, version: EVersion::default(), has: false }).collect()
}

/// Message of one copy to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Letter {
    /// Primary: what do you hold?
    Query,
    /// Answer to it. A copy that is no member any more says so unasked.
    Info(Box<PeerInfo>),
    /// The other answer: nothing.
    Absent,
    /// Yet another answer: something, but its records cannot be read. It proves nothing and gives nothing.
    Unable,
    /// Primary: your log behind this entry.
    LogWish(EVersion),
    /// Answer to it.
    Log(Box<LogPart>),
    /// Primary: this is the log; be a member from here on.
    Activate(Box<LogPart>),
    /// It is durable; these objects are missing here.
    Activated(Vec<(HObject, Lack)>),
    /// Primary: the group changes. Number within the stream to this copy, from 1.
    Body(u64, Box<Body>),
    /// All bodies up to this number are durable. Where the time of the last one went, if it became durable just now.
    Ack(u64, Option<CopyTime>),
    /// The same of a copy that did not become what these changes say: it lacks these objects, whatever the primary thinks.
    AckLacking(u64, Option<CopyTime>, Vec<HObject>),
    /// Primary: a part of an object that it lacks.
    Pull(HObject, PieceAt),
    /// Answer to it: which part, and the part, or none if it cannot be read.
    Pulled(HObject, PieceAt, Option<Box<Piece>>),
    /// Primary: what of an object changed since a version that it has.
    PullPart(HObject, Box<Base>),
    /// Answer to it: since which version, and the part, or none: the object must be brought whole.
    PulledPart(HObject, EVersion, Option<Box<Piece>>),
    /// Primary: versions of the heads and clones after this head, so many at most, up to and with that one.
    Scan(HObject, HObject),
    /// Answer to it: the range, objects with the versions of their records.
    Scanned(HObject, HObject, Vec<(HObject, EVersion)>),
    /// Primary: the group is clean without you; remove what you have of it.
    Remove,
    /// Primary: what do you hold of these objects? For a scrub.
    Survey(Box<Ask>),
    /// Answer to it.
    Surveyed(Box<Answer>),
    /// Primary: what you hold of these objects is wrong; they are missing, and will be brought.
    Spoilt(Vec<HObject>),
    /// Primary: do you hold these objects, in these versions? No member has them.
    Seek(Vec<(HObject, EVersion)>),
    /// Answer to it: all objects that were asked for.
    Sought(Vec<Sought>),
    /// Primary: lend me a slot for objects that I bring you. Number of the question, priority, and whether you are to be filled.
    Reserve(u64, u8, bool),
    /// Primary: the slot of that number is yours again.
    Release(u64),
    /// Answer to both, perhaps much later, and unasked when the slot is needed for others.
    Reserved(u64, Lends),
    /// Member: which changes are durable at all members? Clients want to read here.
    Settle,
    /// Answer to it: all up to the version with this number.
    Settled(u64),
    /// Primary: parts of your shard.
    ReadShard(Box<Question>),
    /// Answer to it: the question, and what was wanted, in that order, or nothing if some of it cannot be had.
    ShardRead(Box<Question>, Option<Vec<Rope>>),
}

/// State at a copy of an object that another one misses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sought {
    pub(crate) object: HObject,
    /// The version that it holds; zero for none.
    pub(crate) version: EVersion,
    /// That is what is missed, and it can be had.
    pub(crate) has: bool,
}

fn put_envelope(w: &mut Writer, e: &Envelope) {
    w.num(LAYOUT);
    w.int(e.pg.pg.pool);
    w.num(e.pg.pg.seed.into());
    w.int(e.pg.shard.0.into());
    w.num(e.interval.into());
    w.num(e.epoch.into());
    if !e.pg.shard.is_none() {
        w.int(e.from.0.into());
    }
}

fn get_envelope(r: &mut Parser<'_>) -> Result<Envelope> {
    if r.num()? != LAYOUT {
        return Err(DecodeError::Invalid("layout of a letter"));
    }
    let pg = PgId::new(r.int()?, r.num32()?);
    let pg = SpgId { pg, shard: get_shard(r)? };
    let (interval, epoch) = (r.num32()?, r.num32()?);
    let from = if pg.shard.is_none() { ShardId::NONE } else { get_shard(r)? };
    if from.is_none() != pg.shard.is_none() {
        return Err(DecodeError::Invalid("shard of a sender"));
    }
    Ok(Envelope { pg, from, interval, epoch })
}

fn get_shard(r: &mut Parser<'_>) -> Result<ShardId> {
    let shard = i8::try_from(r.int()?).ok().filter(|shard| *shard >= ShardId::NONE.0);
    shard.map(ShardId).ok_or(DecodeError::Invalid("shard of a group"))
}

fn put_missing(w: &mut Writer, missing: &[(HObject, EVersion)]) {
    w.list(missing.iter(), |w, (object, version)| {
        put_name(w, object);
        put_version(w, *version);
    });
}

fn get_missing(r: &mut Parser<'_>) -> Result<Vec<(HObject, EVersion)>> {
    r.list(|r| Ok((get_name(r)?, get_version(r)?)))
}

impl PeerInfo {
    fn put(&self, w: &mut Writer) {
        w.bytes(&self.info.encode());
        self.history.put(w);
        put_runs(w, &self.runs);
        w.num(self.missing);
        w.list(self.rests.iter(), |w, (osd, left)| {
            w.int((*osd).into());
            w.num((*left).into());
        });
    }

    fn get(r: &mut Parser<'_>) -> Result<Self> {
        let info = Info::decode(r.bytes()?)?;
        let history = History::get(r)?;
        let runs = r.list(|r| Ok((r.num32()?, r.num()?)))?;
        let missing = r.num()?;
        let rests = r.list(|r| Ok((r.int32()?, r.num32()?)))?;
        Ok(Self { info, history, runs, missing, rests })
    }
}

fn put_runs(w: &mut Writer, runs: &[(Epoch, u64)]) {
    w.list(runs.iter(), |w, (epoch, version)| {
        w.num((*epoch).into());
        w.num(*version);
    });
}

impl LogPart {
    /// Returns true if its entries lead from what the receiver has to where it says that the group is.
    pub(crate) fn is_whole(&self) -> bool {
        let last = self.entries.last().map_or(self.common, |entry| entry.done.version);
        self.history.created > 0 && rises(self.common, &self.entries) && last <= self.info.last_update
    }

    /// Leaves out what came behind a version: it does not count.
    pub(crate) fn end_at(&mut self, cut: EVersion) {
        let counts = self.entries.partition_point(|entry| entry.done.version <= cut);
        for entry in self.entries.drain(counts..) {
            if let Some(before) = &entry.before {
                self.info.stats.subtract(&before.delta);
            }
        }
        self.info.last_update = self.info.last_update.min(cut);
    }

    fn put(&self, w: &mut Writer) {
        w.bytes(&self.info.encode());
        self.history.put(w);
        put_version(w, self.common);
        w.num(self.anew.into());
        w.list(self.entries.iter(), |w, entry| w.bytes(&entry.encode()));
        w.bytes(&encode_page(&self.dups.iter().collect::<Vec<_>>()));
        put_missing(w, &self.missing);
    }

    fn get(r: &mut Parser<'_>, pool: PoolId) -> Result<Self> {
        let info = Info::decode(r.bytes()?)?;
        let history = History::get(r)?;
        let (common, anew) = (get_version(r)?, r.num()? != 0);
        let entries = r.list(|r| LogEntry::decode(r.bytes()?, pool))?;
        let dups = decode_page(r.bytes()?)?;
        Ok(Self { info, history, common, anew, entries, dups, missing: get_missing(r)? })
    }
}

fn put_at(w: &mut Writer, at: &PieceAt) {
    w.num(at.offset);
    w.num(u64::from(at.omap));
    w.bytes(&at.after);
}

fn get_at(r: &mut Parser<'_>) -> Result<PieceAt> {
    Ok(PieceAt { offset: r.num()?, omap: r.num()? != 0, after: r.shared()? })
}

impl Letter {
    /// Puts it into an envelope.
    pub(crate) fn seal(&self, envelope: &Envelope) -> Sealed {
        let mut w = Writer(Vec::with_capacity(256));
        let mut data = Rope::new();
        put_envelope(&mut w, envelope);
        self.put(&mut w, &mut data);
        Sealed { front: w.finish(), data }
    }

    fn put(&self, w: &mut Writer, data: &mut Rope) {
        match self {
            Self::Query => w.num(1),
            Self::Info(info) => {
                w.num(2);
                info.put(w);
            }
            Self::Absent => w.num(3),
            Self::LogWish(after) => {
                w.num(4);
                put_version(w, *after);
            }
            Self::Log(part) => {
                w.num(5);
                part.put(w);
            }
            Self::Activate(part) => {
                w.num(6);
                part.put(w);
            }
            Self::Activated(missing) if missing.iter().all(|(_, lack)| lack.base.is_none()) => {
                w.num(7);
                w.list(missing.iter(), |w, (object, lack)| {
                    put_name(w, object);
                    put_version(w, lack.need);
                });
            }
            Self::Activated(missing) => {
                w.num(28);
                w.list(missing.iter(), |w, (object, lack)| {
                    put_name(w, object);
                    w.bytes(&lack.encode());
                });
            }
            Self::Body(number, body) => {
                w.num(8);
                w.num(*number);
                body.put(w, data);
            }
            Self::Ack(number, time) => {
                w.num(9);
                w.num(*number);
                if let Some(time) = time {
                    put_time(w, *time);
                }
            }
            Self::AckLacking(number, time, objects) => {
                w.num(31);
                w.num(*number);
                w.list(objects.iter(), put_name);
                if let Some(time) = time {
                    put_time(w, *time);
                }
            }
            Self::PullPart(object, base) => {
                w.num(29);
                put_name(w, object);
                base.put(w);
            }
            Self::PulledPart(object, have, piece) => {
                w.num(30);
                put_name(w, object);
                put_version(w, *have);
                put_piece(w, data, piece.as_deref());
            }
            Self::Pull(object, at) => {
                w.num(10);
                put_name(w, object);
                put_at(w, at);
            }
            Self::Pulled(object, at, piece) => {
                w.num(11);
                put_name(w, object);
                put_at(w, at);
                put_piece(w, data, piece.as_deref());
            }
            Self::Scan(from, to) => {
                w.num(12);
                put_name(w, from);
                put_name(w, to);
            }
            Self::Scanned(from, to, found) => {
                w.num(13);
                put_name(w, from);
                put_name(w, to);
                put_missing(w, found);
            }
            Self::Remove => w.num(14),
            Self::Unable => w.num(15),
            Self::Survey(ask) => {
                w.num(20);
                ask.put(w);
            }
            Self::Surveyed(answer) => {
                w.num(21);
                answer.put(w);
            }
            Self::Spoilt(objects) => {
                w.num(22);
                w.list(objects.iter(), put_name);
            }
            Self::Seek(objects) => {
                w.num(23);
                put_missing(w, objects);
            }
            Self::Sought(found) => {
                w.num(24);
                w.list(found.iter(), |w, sought| {
                    put_name(w, &sought.object);
                    put_version(w, sought.version);
                    w.num(sought.has.into());
                });
            }
            Self::Reserve(number, priority, backfill) => {
                [25, *number, u64::from(*priority), u64::from(*backfill)].into_iter().for_each(|n| w.num(n));
            }
            Self::Release(number) => [26, *number].into_iter().for_each(|n| w.num(n)),
            Self::Reserved(number, lends) => [27, *number, lends.number()].into_iter().for_each(|n| w.num(n)),
            Self::Settle => w.num(32),
            Self::Settled(upto) => [33, *upto].into_iter().for_each(|n| w.num(n)),
            Self::ReadShard(question) => {
                w.num(34);
                put_question(w, question);
            }
            Self::ShardRead(question, parts) => {
                w.num(35);
                put_question(w, question);
                w.num(u64::from(parts.is_some()));
                if let Some(parts) = parts {
                    w.list(parts.iter(), |w, part| put_payload(w, data, part));
                }
            }
        }
    }

    /// Takes a letter out of its envelope.
    pub(crate) fn open(sealed: &Sealed) -> Result<(Envelope, Self)> {
        let mut r = Parser::new(&sealed.front);
        let mut data = Payload::new(&sealed.data);
        let envelope = get_envelope(&mut r)?;
        let letter = Self::get(&mut r, &mut data, &envelope)?;
        r.0.finish()?;
        data.finish()?;
        Ok((envelope, letter))
    }

    fn get(r: &mut Parser<'_>, data: &mut Payload<'_>, envelope: &Envelope) -> Result<Self> {
        let pool = envelope.pg.pg.pool;
        Ok(match r.num()? {
            1 => Self::Query,
            2 => Self::Info(Box::new(PeerInfo::get(r)?)),
            3 => Self::Absent,
            4 => Self::LogWish(get_version(r)?),
            5 => Self::Log(Box::new(LogPart::get(r, pool)?)),
            6 => Self::Activate(Box::new(LogPart::get(r, pool)?)),
            7 => Self::Activated(r.list(|r| Ok((get_name(r)?, Lack::whole(get_version(r)?))))?),
            8 => Self::Body(r.num()?, Box::new(Body::get(r, data, pool)?)),
            9 => Self::Ack(r.num()?, get_time(r)?),
            10 => Self::Pull(get_name(r)?, get_at(r)?),
            11 => Self::Pulled(get_name(r)?, get_at(r)?, get_piece(r, data)?),
            12 => Self::Scan(get_name(r)?, get_name(r)?),
            13 => Self::Scanned(get_name(r)?, get_name(r)?, get_missing(r)?),
            14 => Self::Remove,
            15 => Self::Unable,
            20 => Self::Survey(Box::new(Ask::get(r)?)),
            21 => Self::Surveyed(Box::new(Answer::get(r)?)),
            22 => Self::Spoilt(r.list(get_name)?),
            23 => Self::Seek(get_missing(r)?),
            24 => Self::Sought(r.list(|r| Ok(Sought { object: get_name(r)?, version: get_version(r)?, has: r.num()? != 0 }))?),
            25 => {
                let (number, priority) = (r.num()?, u8::try_from(r.num()?));
                Self::Reserve(number, priority.map_err(|_| DecodeError::Invalid("priority of a slot"))?, r.num()? != 0)
            }
            26 => Self::Release(r.num()?),
            27 => Self::Reserved(r.num()?, Lends::of(r.num()?).ok_or(DecodeError::Invalid("answer about a slot"))?),
            28 => Self::Activated(r.list(|r| Ok((get_name(r)?, Lack::decode(r.bytes()?)?)))?),
            29 => Self::PullPart(get_name(r)?, Box::new(Base::get(r)?)),
            30 => Self::PulledPart(get_name(r)?, get_version(r)?, get_piece(r, data)?),
            31 => {
                let (number, objects) = (r.num()?, r.list(get_name)?);
                Self::AckLacking(number, get_time(r)?, objects)
            }
            32 => Self::Settle,
            33 => Self::Settled(r.num()?),
            34 => Self::ReadShard(Box::new(get_question(r, envelope.pg.shard)?)),
            35 => {
                let question = Box::new(get_question(r, envelope.from)?);
                let has = r.num()? != 0;
                Self::ShardRead(question, if has { Some(r.list(|r| get_payload(r, data))?) } else { None })
            }
            _ => return Err(DecodeError::Invalid("kind of a letter")),
        })
    }
}

/// A question, but for the shard: it is that of whoever is asked.
fn put_question(w: &mut Writer, question: &Question) {
    w.num(question.number);
    w.num(question.after);
    w.list(question.wants.iter(), put_want);
}

fn get_question(r: &mut Parser<'_>, shard: ShardId) -> Result<Question> {
    Ok(Question { number: r.num()?, after: r.num()?, wants: r.list(|r| get_want(r, shard))? })
}

fn put_want(w: &mut Writer, want: &Want) {
    put_name(w, &want.object);
    put_version(w, want.version);
    w.num(want.range.start);
    w.num(want.range.end - want.range.start);
}

fn get_want(r: &mut Parser<'_>, shard: ShardId) -> Result<Want> {
    let (object, version, start, len) = (get_name(r)?.into(), get_version(r)?, r.num()?, r.num()?);
    let end = start.checked_add(len).filter(|end| *end > start).ok_or(DecodeError::Invalid("range of a shard"))?;
    Ok(Want { object, version, shard, range: start..end })
}

/// The tail of a promise: its version, its length, and two durations.
fn put_time(w: &mut Writer, time: CopyTime) {
    let mut tail = Writer(Vec::with_capacity(10));
    tail.num(time.queue.into());
    tail.num(time.journal.into());
    w.num(TAIL);
    w.bytes(&tail.0);
}

/// A tail, if there is one. A newer version only has more behind what this one has.
fn get_time(r: &mut Parser<'_>) -> Result<Option<CopyTime>> {
    if r.0.is_empty() {
        return Ok(None);
    }
    if r.num()? < TAIL {
        return Err(DecodeError::Invalid("version of a promise's tail"));
    }
    let mut tail = Parser::new(r.bytes()?);
    Ok(Some(CopyTime { queue: tail.num32()?, journal: tail.num32()? }))
}

fn put_piece(w: &mut Writer, data: &mut Rope, piece: Option<&Piece>) {
    w.num(u64::from(piece.is_some()) | u64::from(piece.is_some_and(|p| p.next.is_some())) << 1);
    let Some(piece) = piece else { return };
    put_changes(w, data, &piece.changes);
    if let Some(next) = &piece.next {
        put_at(w, next);
    }
}

fn get_piece(r: &mut Parser<'_>, data: &mut Payload<'_>) -> Result<Option<Box<Piece>>> {
    let flags = r.num()?;
    if flags & 1 == 0 {
        return Ok(None);
    }
    let changes = get_changes(r, data)?;
    let next = if flags & 2 != 0 { Some(get_at(r)?) } else { None };
    Ok(Some(Box::new(Piece { changes, next })))
}

/// One letter of each kind, with everything in them that there can be.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod samples {
    use super::*;
    use crate::body::{IndexChange, Progress};
    use crate::changed::{Changed, Part};
    use crate::entry::Kind;
    use crate::stats::Stats;
    use objectstore::{ObjectChange, ObjectChanges};
    use types::{Intervals, Locator, ObjectId, ReqId, SnapId, UTime};

    fn head() -> HObject {
        HObject::head(Bytes::from_static(b"name"), &Locator { nspace: Bytes::from_static(b"ns"), ..Locator::pool(7) })
    }

    fn entry() -> LogEntry {
        let reqid = ReqId { kind: 8, num: 4123, tid: 17, inc: 0 };
        let done = Done { version: EVersion::new(40, 9), user_version: 9, reqid, ..Done::default() };
        let prior = EVersion::new(39, 8);
        let (mtime, changed) = (UTime { sec: 5, nsec: 6 }, Changed::All);
        LogEntry { kind: Kind::Modify, object: head().into(), prior, mtime, snaps: vec![3], changed, before: None, done }
    }

    /// A small change as a client's write makes it.
    pub(crate) fn write() -> Body {
        let data = Rope::from(Bytes::from_static(b"0123456789abcdef"));
        let changes = vec![ObjectChange::Write(4096, data), ObjectChange::SetInfo(Bytes::from_static(b"info"))];
        let objects = vec![ObjectChanges { object: head().into(), changes }];
        let delta = Stats { bytes: 16, objects: 1, ..Stats::default() };
        Body { entries: vec![entry()], objects, delta, ..Body::default() }
    }

    fn everything() -> Body {
        let b = |text: &'static str| Bytes::from_static(text.as_bytes());
        let shard = ObjectId::of_shard(head().at(SnapId(4)), ShardId(2)).in_generation(5);
        let changes = vec![
            ObjectChange::Create,
            ObjectChange::Write(0, Rope::from(vec![7; 5000])),
            ObjectChange::Zero(1, 2),
            ObjectChange::Truncate(3),
            ObjectChange::SetXattr(b("x"), b("y")),
            ObjectChange::RemoveXattr(b("x")),
            ObjectChange::ClearXattrs,
            ObjectChange::OmapHeader(b("h")),
            ObjectChange::OmapSet(vec![(b("k"), b("v"))]),
            ObjectChange::OmapRemove(vec![b("k")]),
            ObjectChange::OmapRemoveRange(b("a"), b("z")),
            ObjectChange::OmapClear,
            ObjectChange::CloneOf(shard.clone()),
            ObjectChange::Xor(4096, Rope::from(vec![9; 2000])),
            ObjectChange::CloneRange(shard.clone(), vec![(0, 4096), (8192, 100)]),
            ObjectChange::TakeOver(shard.clone()),
            ObjectChange::Remove,
        ];
        let index = vec![
            IndexChange::Snap(4, head()),
            IndexChange::NoSnap(3, head()),
            IndexChange::Watched(head()),
            IndexChange::Unwatched(head()),
        ];
        let bases = vec![(head(), EVersion::new(39, 8))];
        let lacks = vec![(head(), EVersion::new(40, 3))];
        let progress = Progress { recovered: vec![head()], backfill: Some(head()), complete: true, bases, lacks };
        let mut body = Body {
            objects: vec![ObjectChanges { object: shard, changes }],
            index,
            purged: Intervals::of(2..5),
            clean: 30,
            progress: Some(Box::new(progress)),
            ..write()
        };
        let part = Changed::of(&[ObjectChange::Truncate(4096), ObjectChange::OmapRemove(vec![b("k")])]);
        body.entries.push(LogEntry { changed: part, ..entry() });
        body
    }

    pub(crate) fn all() -> Vec<Letter> {
        let info = Info { last_update: EVersion::new(40, 9), user_version: 9, ..Info::default() };
        let history = History { created: 3, since: 38, ..History::default() };
        let peer = PeerInfo {
            info: info.clone(),
            history: history.clone(),
            runs: vec![(39, 8), (40, 9)],
            missing: 1,
            rests: vec![(2, 1500)],
        };
        let missing = vec![(head(), EVersion::new(40, 9))];
        let part = LogPart {
            info,
            history,
            common: EVersion::new(39, 8),
            anew: true,
            entries: vec![entry()],
            dups: vec![entry().done],
            missing: missing.clone(),
        };
        let base = Base { have: EVersion::new(39, 8), part: Part { attrs: true, ..Part::default() } };
        let lack = Lack { need: EVersion::new(40, 9), base: Some(Box::new(base.clone())) };
        let want = Want { object: head().into(), version: EVersion::new(40, 9), shard: ShardId::NONE, range: 4096..5000 };
        let question = Question { number: 9, after: 300, wants: vec![want] };
        let (ask, answer) = crate::scrub::entry::samples(head());
        let at = PieceAt { offset: 4 << 20, omap: true, after: Bytes::from_static(b"k") };
        let changes = objectstore::ObjectChanges { object: head().into(), changes: vec![ObjectChange::Create] };
        let piece = Piece { changes, next: Some(at.clone()) };
        vec![
            Letter::Query,
            Letter::Info(Box::new(peer)),
            Letter::Absent,
            Letter::Unable,
            Letter::LogWish(EVersion::new(39, 8)),
            Letter::Log(Box::new(part.clone())),
            Letter::Activate(Box::new(part)),
            Letter::Activated(vec![(head(), Lack::whole(EVersion::new(40, 9)))]),
            Letter::Activated(vec![(head(), lack), (head().at(SnapId(4)), Lack::whole(EVersion::new(40, 9)))]),
            Letter::PullPart(head(), Box::new(base)),
            Letter::PulledPart(head(), EVersion::new(39, 8), Some(Box::new(piece.clone()))),
            Letter::PulledPart(head(), EVersion::new(39, 8), None),
            Letter::AckLacking(3, Some(CopyTime { queue: 7, journal: 1500 }), vec![head()]),
            Letter::Body(1, Box::new(write())),
            Letter::Body(2, Box::new(everything())),
            Letter::Ack(2, None),
            Letter::Ack(300, Some(CopyTime { queue: 7, journal: 1500 })),
            Letter::Pull(head(), at.clone()),
            Letter::Pulled(head(), at.clone(), Some(Box::new(piece))),
            Letter::Pulled(head(), at, None),
            Letter::Scan(HObject::min(), head()),
            Letter::Scanned(HObject::min(), head(), missing),
            Letter::Remove,
            Letter::Survey(Box::new(ask)),
            Letter::Surveyed(Box::new(answer)),
            Letter::Spoilt(vec![head()]),
            Letter::Seek(vec![(head(), EVersion::new(40, 9))]),
            Letter::Sought(vec![Sought { object: head(), version: EVersion::new(40, 8), has: true }]),
            Letter::Reserve(7, 180, true),
            Letter::Release(7),
            Letter::Reserved(7, Lends::TakenBack),
            Letter::Settle,
            Letter::Settled(300),
            Letter::ReadShard(Box::new(question.clone())),
            Letter::ShardRead(Box::new(question.clone()), Some(vec![Rope::from(vec![7; 3000]), Rope::from(&b"abc"[..])])),
            Letter::ShardRead(Box::new(question), None),
        ]
    }

    pub(crate) fn envelope() -> Envelope {
        Envelope { pg: SpgId::whole(PgId::new(7, 5)), from: ShardId::NONE, interval: 38, epoch: 40 }
    }
}

#[cfg(test)]
mod tests {
    use super::samples::{all, envelope, write};
    use super::*;

    #[test]
    fn letters_come_back_and_cut_ones_are_refused() {
        for letter in all() {
            let sealed = letter.seal(&envelope());
            assert_eq!(sealed.envelope(), Ok(envelope()));
            assert_eq!(Letter::open(&sealed), Ok((envelope(), letter.clone())));
            // A promise without its tail is one, too.
            let bare = match letter {
                Letter::Ack(number, Some(_)) => Letter::Ack(number, None).seal(&envelope()).front.len(),
                Letter::AckLacking(n, Some(_), objects) => Letter::AckLacking(n, None, objects).seal(&envelope()).front.len(),
                _ => usize::MAX,
            };
            for n in (0..sealed.front.len()).filter(|n| *n != bare) {
                let cut = Sealed { front: sealed.front.slice(..n), data: sealed.data.clone() };
                assert!(Letter::open(&cut).is_err(), "the first {n} bytes");
            }
            let more =
                Sealed { data: [sealed.data.contiguous(), Bytes::from_static(b"x")].into_iter().collect(), ..sealed.clone() };
            assert!(Letter::open(&more).is_err(), "payload that nobody takes");
            if !sealed.data.is_empty() {
                let less = Sealed { data: sealed.data.slice(0, sealed.data.len() - 1), ..sealed };
                assert!(Letter::open(&less).is_err(), "payload that is not there");
            }
        }
    }

    #[test]
    fn a_body_in_a_letter_is_the_letter_of_that_body() {
        let body = write();
        let whole = Letter::Body(9, Box::new(body.clone())).seal(&envelope());
        assert_eq!(with_body(&envelope(), 9, &encoded(&body)), whole);
    }

    #[test]
    fn a_letter_names_the_receivers_shard_and_the_senders_where_there_are_shards() {
        assert_eq!(Letter::Query.seal(&envelope()).front[..], [1, 14, 5, 1, 38, 40, 1], "as it was before copies had names");
        let to = CopyId { osd: 3, shard: ShardId(2) };
        let question = Envelope { from: ShardId(4), ..envelope() }.to(to);
        let sealed = Letter::Query.seal(&question);
        assert_eq!(sealed.front[..], [1, 14, 5, 4, 38, 40, 8, 1]);
        assert_eq!(Letter::open(&sealed), Ok((question, Letter::Query)));
        // Who has nothing of the group answers the copy that asked, as the copy that was asked.
        let Ok(OfNone::Answers(answer)) = answer_of_none(&sealed, 41, false) else { panic!("an answer") };
        let back = answer.envelope().expect("an envelope");
        assert_eq!((back.pg.shard, back.from, back.epoch), (ShardId(4), ShardId(2), 41));
        // Who cannot read what it may be part of does not say that there is nothing.
        let seeks = Letter::Seek(vec![(HObject::default(), EVersion::new(1, 2))]).seal(&question);
        for asked in [&sealed, &seeks] {
            let Ok(OfNone::Answers(answer)) = answer_of_none(asked, 41, true) else { panic!("an answer") };
            assert_eq!(Letter::open(&answer).map(|(_, letter)| letter), Ok(Letter::Unable));
        }
        // A copy without a shard is none of a group that has shards.
        let nameless = Sealed { front: Bytes::from_static(&[1, 14, 5, 4, 38, 40, 1, 1]), data: Rope::new() };
        assert!(nameless.envelope().is_err() && Letter::open(&nameless).is_err());
    }

    /// OSDs of two releases exchange these bytes: whoever changes them raises [`LAYOUT`].
    #[test]
    fn the_bytes_of_a_write_are_these() {
        let hex: String = encoded(&write()).front.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, GOLDEN);
    }

    const GOLDEN: &str = concat!(
        "01012601010def4cb7026e7300046e616d650127080500000006000000010328090908b64011000000010e0def4cb7026e73",
        "00046e616d650101000201802020303132333435363738396162636465660504696e666f0020020000000000000000000000000000"
    );

    #[test]
    fn the_bytes_of_a_promise_are_these_and_a_newer_tail_is_read_as_far_as_it_is_known() {
        let front = |letter: &Letter| letter.seal(&envelope()).front;
        let bare = front(&Letter::Ack(300, None));
        let timed = Letter::Ack(300, Some(CopyTime { queue: 7, journal: 1500 }));
        assert_eq!(&front(&timed)[..bare.len()], &bare[..]);
        assert_eq!(bare[bare.len() - 3..], [9, 0xac, 0x02]);
        assert_eq!(front(&timed)[bare.len()..], [1, 3, 7, 0xdc, 0x0b]);
        let open = |tail: &[u8]| {
            let front = [&bare[..], tail].concat().into();
            Letter::open(&Sealed { front, data: Rope::new() }).map(|(_, letter)| letter)
        };
        assert_eq!(open(&[2, 5, 7, 0xdc, 0x0b, 8, 9]), Ok(timed));
        for wrong in [&[0, 3, 7, 0xdc, 0x0b][..], &[1, 1, 7], &[1, 3, 7, 0xdc, 0x0b, 1], &[1, 6, 0xff, 0xff, 0xff, 0xff, 0x7f, 0]]
        {
            assert!(open(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_log_that_does_not_hold_together_is_seen() {
        let part =
            all().into_iter().find_map(|letter| if let Letter::Log(part) = letter { Some(*part) } else { None }).expect("a log");
        assert!(part.is_whole());
        assert!(
            !LogPart { common: EVersion::new(40, 9), ..part.clone() }.is_whole(),
            "an entry that is not behind the common one"
        );
        let info = Info { last_update: EVersion::new(40, 8), ..part.info.clone() };
        assert!(!LogPart { info, ..part.clone() }.is_whole(), "an entry behind the group's version");
        assert!(!LogPart { history: History::default(), ..part }.is_whole(), "a group that was never created");
    }
}
