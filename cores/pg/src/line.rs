//! A peer message in one line of text, for transcripts and for whoever reads a trace.

use crate::body::Body;
use crate::entry::{Kind, LogEntry};
use crate::letter::{Lends, Letter, LogPart, PeerInfo, Sealed};
use crate::object::{Piece, PieceAt};
use objectstore::{ObjectChange, ObjectChanges};
use std::fmt::Write as _;
use types::{EVersion, HObject, SnapId};

impl Sealed {
    /// Returns the message in one line: its kind, and what it says, in the order in which it is encoded.
    ///
    /// # Errors
    /// The bytes are no message.
    pub fn line(&self) -> denc::Result<String> {
        Letter::open(self).map(|(_, letter)| of(&letter))
    }
}

fn of(letter: &Letter) -> String {
    match letter {
        Letter::Query => "query".into(),
        Letter::Info(peer) => info(peer),
        Letter::Absent => "info: nothing".into(),
        Letter::Unable => "info: unreadable".into(),
        Letter::LogWish(after) => format!("wants log after {after}"),
        Letter::Log(part) => format!("log{}", log(part)),
        Letter::Activate(part) => format!("activate{}", log(part)),
        Letter::Activated(missing) => {
            let lack = |(object, lack): &(HObject, crate::missing::Lack)| match &lack.base {
                Some(base) => format!("{}@{} (has {})", name(object), lack.need, base.have),
                None => format!("{}@{}", name(object), lack.need),
            };
            format!("activated{}", list(" missing", missing.iter().map(lack)))
        }
        Letter::Body(number, body) => format!("update {number}:{}", update(body)),
        Letter::Ack(number, _) => format!("ack {number}"),
        Letter::AckLacking(number, _, objects) => format!("ack {number}{}", list(" lacks", objects.iter().map(name))),
        Letter::Pull(object, at) => format!("pull {}{}", name(object), place(at)),
        Letter::Pulled(object, at, got) => format!("pulled {}{}:{}", name(object), place(at), piece(got.as_deref())),
        Letter::PullPart(object, base) => format!("pull part of {} since {}", name(object), base.have),
        Letter::PulledPart(object, have, got) => {
            format!("pulled part of {} since {have}:{}", name(object), piece(got.as_deref()))
        }
        Letter::Scan(after, to) => format!("scan after {} to {}", name(after), name(to)),
        Letter::Scanned(after, to, found) => {
            format!("scanned after {} to {}{}", name(after), name(to), list(":", found.iter().map(versioned)))
        }
        Letter::Remove => "remove".into(),
        Letter::Survey(ask) => {
            let how = if ask.deep { "deep" } else { "shallow" };
            format!("scrub {how} from {} to {} after update {}", name(&ask.from), name(&ask.to), ask.after)
        }
        Letter::Surveyed(answer) => {
            let damaged = if answer.unreadable { ", unreadable" } else { "" };
            format!("scrubbed to {}: {} objects{damaged}", name(&answer.upto), answer.found.len())
        }
        Letter::Spoilt(objects) => format!("damaged{}", list(":", objects.iter().map(name))),
        Letter::Seek(wanted) => format!("seek{}", list("", wanted.iter().map(versioned))),
        Letter::Sought(found) => {
            let one = |found: &crate::letter::Sought| {
                format!("{}@{}{}", name(&found.object), found.version, if found.has { " has it" } else { "" })
            };
            format!("sought{}", list("", found.iter().map(one)))
        }
        Letter::Reserve(number, priority, fill) => {
            format!("reserve {number} priority {priority}{}", if *fill { " backfill" } else { "" })
        }
        Letter::Release(number) => format!("release {number}"),
        Letter::Reserved(number, lends) => {
            let lends = match lends {
                Lends::Yes => "granted",
                Lends::Full => "too full",
                Lends::TakenBack => "preempted",
                Lends::Free => "released",
            };
            format!("reservation {number} {lends}")
        }
        Letter::Settle => "wants committed version".into(),
        Letter::Settled(version) => format!("committed {version}"),
        Letter::ReadShard(question) => {
            let want = |want: &crate::pieces::Want| {
                format!("{}@{} {}~{}", name(&want.object), want.version, want.range.start, want.range.end - want.range.start)
            };
            format!(
                "read shard {} after update {}{}",
                question.number,
                question.after,
                list(":", question.wants.iter().map(want))
            )
        }
        Letter::ShardRead(question, Some(parts)) => {
            format!("shard read {}: {} bytes", question.number, parts.iter().map(types::Rope::len).sum::<usize>())
        }
        Letter::ShardRead(question, None) => format!("shard read {}: unable", question.number),
    }
}

/// Returns the object's name, with its snapshot if it is a clone.
fn name(object: &HObject) -> String {
    if object.max || *object == HObject::min() {
        return object.to_string();
    }
    let text = object.name.escape_ascii();
    if object.snap == SnapId::HEAD { text.to_string() } else { format!("{text}:{}", object.snap.0) }
}

fn versioned((object, version): &(HObject, EVersion)) -> String {
    format!("{}@{version}", name(object))
}

/// Items of a list that are named; the others are counted.
const NAMED: usize = 8;

/// Returns `title` and the items, or nothing if there are none.
fn list(title: &str, items: impl ExactSizeIterator<Item = String>) -> String {
    let more = items.len().saturating_sub(NAMED);
    let mut items: Vec<_> = items.take(NAMED).collect();
    if more > 0 {
        items.push(format!("{more} more"));
    }
    if items.is_empty() { String::new() } else { format!("{title} [{}]", items.join(", ")) }
}

fn info(peer: &PeerInfo) -> String {
    let mut text = format!("info: last {} tail {}", peer.info.last_update, peer.info.log_tail);
    let history = &peer.history;
    let _ = write!(text, " since {} started {} clean {}", history.since, history.started, history.clean);
    if let Some(cursor) = &history.backfill {
        let _ = write!(text, " backfilled to {}", name(cursor));
    }
    if peer.missing > 0 {
        let _ = write!(text, " missing {}", peer.missing);
    }
    text += &list(" past", history.past.iter().map(|past| format!("{}-{} on {:?}", past.first, past.last, past.acting)));
    text + &list(" leases", peer.rests.iter().map(|(osd, left)| format!("osd.{osd} {left} ms")))
}

fn entry(entry: &LogEntry) -> String {
    let kind = match entry.kind {
        Kind::Modify => "modify",
        Kind::Clone => "clone",
        Kind::Delete => "delete",
        Kind::Error => "error",
        Kind::LostRevert => "lost-revert",
        Kind::LostDelete => "lost-delete",
    };
    format!("{kind} {} {} after {}", name(&entry.object), entry.done.version, entry.prior)
}

fn log(part: &LogPart) -> String {
    let anew = if part.anew { " anew" } else { "" };
    let mut text = format!("{anew} behind {} to {}", part.common, part.info.last_update);
    text += &list("", part.entries.iter().map(entry));
    if !part.dups.is_empty() {
        let _ = write!(text, " dups {}", part.dups.len());
    }
    text + &list(" missing", part.missing.iter().map(versioned))
}

fn place(at: &PieceAt) -> String {
    match (at.is_first(), at.omap) {
        (true, _) => String::new(),
        (false, false) => format!(" from byte {}", at.offset),
        (false, true) => format!(" omap after {}", at.after.escape_ascii()),
    }
}

fn piece(piece: Option<&Piece>) -> String {
    let Some(piece) = piece else { return " nothing".into() };
    let more = if piece.next.is_some() { " and more" } else { "" };
    format!(" {}{more}", list("", piece.changes.changes.iter().map(change)).trim_start())
}

fn change(change: &ObjectChange) -> String {
    match change {
        ObjectChange::Create => "create".into(),
        ObjectChange::Write(at, data) => format!("write {at}~{}", data.len()),
        ObjectChange::Xor(at, data) => format!("xor {at}~{}", data.len()),
        ObjectChange::Zero(at, len) => format!("zero {at}~{len}"),
        ObjectChange::Truncate(size) => format!("truncate {size}"),
        ObjectChange::Remove => "remove".into(),
        ObjectChange::SetInfo(_) => "record".into(),
        ObjectChange::SetXattr(key, _) => format!("xattr {}", key.escape_ascii()),
        ObjectChange::RemoveXattr(key) => format!("no xattr {}", key.escape_ascii()),
        ObjectChange::ClearXattrs => "no xattrs".into(),
        ObjectChange::OmapHeader(_) => "omap header".into(),
        ObjectChange::OmapSet(keys) => format!("omap {} keys", keys.len()),
        ObjectChange::OmapRemove(keys) => format!("omap without {} keys", keys.len()),
        ObjectChange::OmapRemoveRange(..) => "omap without range".into(),
        ObjectChange::OmapClear => "no omap".into(),
        ObjectChange::CloneOf(source) => format!("clone of {}", name(&source.object)),
        ObjectChange::CloneRange(source, ranges) => format!("{} ranges of {}", ranges.len(), name(&source.object)),
        ObjectChange::TakeOver(source) => format!("take over {}", name(&source.object)),
    }
}

fn update(body: &Body) -> String {
    let mut text = list("", body.entries.iter().map(entry));
    let object = |of: &ObjectChanges| format!(" {}:{}", name(&of.object.object), list("", of.changes.iter().map(change)));
    text.extend(body.objects.iter().map(object));
    if !body.index.is_empty() {
        let _ = write!(text, " index {}", body.index.len());
    }
    if !body.purged.is_empty() {
        text += " purged snapshots";
    }
    if body.clean > 0 {
        let _ = write!(text, " clean since {}", body.clean);
    }
    let Some(progress) = &body.progress else { return text };
    text += &list(" recovered", progress.recovered.iter().map(name));
    text += &list(" onto", progress.bases.iter().map(versioned));
    text += &list(" lacks", progress.lacks.iter().map(versioned));
    if let Some(cursor) = &progress.backfill {
        let _ = write!(text, " backfilled to {}", name(cursor));
    }
    if progress.complete {
        text += " backfill complete";
    }
    text
}
