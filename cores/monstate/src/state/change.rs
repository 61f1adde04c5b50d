//! Proposals and the changes in them. Time and chance are in a proposal as values, so each voter that applies it gets
//! the same state.

use super::quorum::{Answered, IdRange, MonRecord, RequestKey};
use bytes::Bytes;
use denc::{Decode, DecodeError, Encode, Reader, Result};
use messages::mon::LogEntry;
use msgr::auth::{EntityKey, ExpiringKey};
use std::collections::BTreeMap;
use types::{EntityName, Epoch, OsdId, UTime};

/// Version of the layout of proposals.
const VERSION: u8 = 1;

/// Changes that happen together, or not at all.
#[derive(Clone, Debug, Default)]
pub struct Proposal {
    /// Time when the proposal was made, by the proposer's clock.
    pub stamp: UTime,
    /// The changes, in the order in which they are applied.
    pub changes: Vec<Change>,
}

/// One change of the state.
#[derive(Clone, Debug)]
pub enum Change {
    /// The next OSD map, as a sealed increment: OSDs and clients get these bytes as they are.
    OsdMap(Bytes),
    /// A new monitor map, encoded.
    MonMap(Bytes),
    /// A new manager map, encoded.
    MgrMap(Bytes),
    /// Options that somebody sets or removes.
    Config {
        /// Author of the change.
        by: String,
        /// Section, name, value; without a value the option is removed.
        set: Vec<(String, String, Option<String>)>,
    },
    /// A value stored with `config-key`.
    Key {
        /// The value's name.
        key: String,
        /// The value; none removes it.
        value: Option<Bytes>,
    },
    /// An entity's key and rights.
    Auth {
        /// The entity's name.
        name: EntityName,
        /// Its key and rights; none removes it.
        entity: Option<EntityKey>,
    },
    /// A further rotating key of a service.
    ServiceKey {
        /// The service, as the number of its entity type.
        service: u32,
        /// The key's number.
        id: u64,
        /// The key with the time when it ends.
        key: ExpiringKey,
    },
    /// Ids below `limit` may be given to clients.
    GlobalIds {
        /// First id that may not be given.
        limit: u64,
    },
    /// The mute of a health code, or its end.
    Mute {
        /// The health code.
        code: String,
        /// The mute; none ends it.
        mute: Option<Mute>,
    },
    /// Lines for the cluster log.
    Log(Vec<LogEntry>),
    /// Texts of an OSD about itself.
    OsdMetadata {
        /// The OSD's number.
        osd: OsdId,
        /// Its texts; none removes them.
        metadata: Option<BTreeMap<String, String>>,
    },
    /// Nobody needs what leads to OSD maps older than this one.
    MapFloor {
        /// The oldest epoch that somebody may need.
        epoch: Epoch,
    },
    /// A monitor's record.
    Mon {
        /// Its name.
        name: String,
        /// Its record; none removes it.
        record: Option<MonRecord>,
    },
    /// Numbers that a monitor may give to clients. They are above all that were given before.
    IdRange {
        /// Number of its store.
        voter: u64,
        /// The ids.
        range: IdRange,
    },
    /// A request of a client was done with the changes beside this one.
    Done {
        /// The key.
        key: RequestKey,
        /// The answer.
        answer: Answered,
    },
}

/// The mute of a health code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mute {
    /// Time when the mute ends; zero for never.
    pub until: UTime,
    /// True if the code stays muted when its finding goes away or grows.
    pub sticky: bool,
    /// The finding's line when it was muted.
    pub summary: String,
    /// Number of things the finding was about then.
    pub count: u64,
}
denc::plain!(Mute { until, sticky, summary, count });

/// Encodes a value that may be missing: one byte, then the value.
fn put_option<T: Encode>(out: &mut Vec<u8>, value: &Option<T>) {
    value.is_some().encode(out);
    if let Some(value) = value {
        value.encode(out);
    }
}

fn get_option<T: Decode>(r: &mut Reader<'_>) -> Result<Option<T>> {
    if r.get::<bool>()? { r.get().map(Some) } else { Ok(None) }
}

impl Encode for Change {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Change::OsdMap(bytes) => (1u8, bytes.clone()).encode(out),
            Change::MonMap(bytes) => (2u8, bytes.clone()).encode(out),
            Change::MgrMap(bytes) => (3u8, bytes.clone()).encode(out),
            Change::Config { by, set } => {
                4u8.encode(out);
                by.encode(out);
                denc::put_count(out, set.len());
                for (section, name, value) in set {
                    section.encode(out);
                    name.encode(out);
                    put_option(out, value);
                }
            }
            Change::Key { key, value } => {
                5u8.encode(out);
                key.encode(out);
                put_option(out, value);
            }
            Change::Auth { name, entity } => {
                6u8.encode(out);
                name.encode(out);
                put_option(out, &entity.as_ref().map(|e| (e.key, e.caps.clone())));
            }
            Change::ServiceKey { service, id, key } => {
                7u8.encode(out);
                service.encode(out);
                id.encode(out);
                key.encode(out);
            }
            Change::GlobalIds { limit } => (8u8, *limit).encode(out),
            Change::Mute { code, mute } => {
                9u8.encode(out);
                code.encode(out);
                put_option(out, mute);
            }
            Change::Log(entries) => {
                10u8.encode(out);
                entries.encode(out);
            }
            Change::OsdMetadata { osd, metadata } => {
                11u8.encode(out);
                osd.encode(out);
                put_option(out, metadata);
            }
            Change::MapFloor { epoch } => (16u8, *epoch).encode(out),
            Change::Mon { name, record } => {
                12u8.encode(out);
                name.encode(out);
                put_option(out, record);
            }
            Change::IdRange { voter, range } => {
                (13u8, *voter).encode(out);
                range.encode(out);
            }
            Change::Done { key, answer } => {
                14u8.encode(out);
                key.encode(out);
                answer.encode(out);
            }
        }
    }
}

impl Decode for Change {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(match r.u8()? {
            1 => Change::OsdMap(r.get()?),
            2 => Change::MonMap(r.get()?),
            3 => Change::MgrMap(r.get()?),
            4 => {
                let by = r.get()?;
                let n = r.count(9)?;
                let set = (0..n).map(|_| Ok((r.get()?, r.get()?, get_option(r)?))).collect::<Result<_>>()?;
                Change::Config { by, set }
            }
            5 => Change::Key { key: r.get()?, value: get_option(r)? },
            6 => {
                let name = r.get()?;
                let entity = get_option::<(msgr::auth::Key, BTreeMap<String, String>)>(r)?;
                Change::Auth { name, entity: entity.map(|(key, caps)| EntityKey { key, caps }) }
            }
            7 => Change::ServiceKey { service: r.get()?, id: r.get()?, key: r.get()? },
            8 => Change::GlobalIds { limit: r.get()? },
            9 => Change::Mute { code: r.get()?, mute: get_option(r)? },
            10 => Change::Log(r.get()?),
            11 => Change::OsdMetadata { osd: r.get()?, metadata: get_option(r)? },
            16 => Change::MapFloor { epoch: r.get()? },
            12 => Change::Mon { name: r.get()?, record: get_option(r)? },
            13 => Change::IdRange { voter: r.get()?, range: r.get()? },
            14 => Change::Done { key: r.get()?, answer: r.get()? },
            _ => return Err(DecodeError::Invalid("kind of change in the monitor's log")),
        })
    }
}

impl Encode for Proposal {
    fn encode(&self, out: &mut Vec<u8>) {
        denc::envelope(out, VERSION, VERSION, |out| {
            self.stamp.encode(out);
            self.changes.encode(out);
        });
    }
}

impl Decode for Proposal {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("proposal", VERSION)?;
        Ok(Self { stamp: e.body.get()?, changes: e.body.get()? })
    }
}
