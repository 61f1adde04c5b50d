//! Class `rgw`: who used the object gateway for what.

use bytes::Bytes;
use denc::{Decode, Encode, Reader, Result, envelope};
use std::collections::BTreeMap;

/// Sums over requests (`rgw_usage_data`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// Bytes to clients.
    pub sent: u64,
    /// Bytes from clients.
    pub received: u64,
    /// Requests.
    pub ops: u64,
    /// Requests that succeeded.
    pub successful: u64,
}
denc::versioned!(Data, 1, 1 { sent, received, ops, successful });

impl Data {
    /// Adds another sum; sums wrap around.
    pub fn add(&mut self, other: &Data) {
        self.sent = self.sent.wrapping_add(other.sent);
        self.received = self.received.wrapping_add(other.received);
        self.ops = self.ops.wrapping_add(other.ops);
        self.successful = self.successful.wrapping_add(other.successful);
    }
}

/// A user of the gateway, written as `TENANT$NAMESPACE$ID`, `TENANT$ID`, `$NAMESPACE$ID` or `ID`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Tenant.
    pub tenant: Bytes,
    /// Namespace.
    pub namespace: Bytes,
    /// Name.
    pub id: Bytes,
}

impl User {
    /// Takes a user's text apart; any text is some user's.
    pub fn parse(text: &Bytes) -> Self {
        let split = |text: &Bytes| {
            let at = text.iter().position(|&b| b == b'$')?;
            Some((text.slice(..at), text.slice(at + 1..)))
        };
        match split(text) {
            None => Self { id: text.clone(), ..Self::default() },
            Some((tenant, rest)) => match split(&rest) {
                None => Self { tenant, namespace: Bytes::new(), id: rest },
                Some((namespace, id)) => Self { tenant, namespace, id },
            },
        }
    }

    /// The user as text.
    pub fn text(&self) -> Bytes {
        let Self { tenant, namespace, id } = self;
        match (tenant.is_empty(), namespace.is_empty()) {
            (true, true) => id.clone(),
            (false, true) => [tenant, &b"$"[..], id].concat().into(),
            (_, false) => [tenant, &b"$"[..], namespace, &b"$"[..], id].concat().into(),
        }
    }
}

/// Usage of one bucket by one user in one hour (`rgw_usage_log_entry`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Owner of the bucket.
    pub owner: User,
    /// Payer, if it is not the owner; not known before version 3.
    pub payer: User,
    /// The bucket.
    pub bucket: Bytes,
    /// Second with which the hour begins.
    pub epoch: u64,
    /// Sum over all kinds.
    pub total: Data,
    /// Sums by kinds of requests; version 1 knew only one.
    pub usage: BTreeMap<Bytes, Data>,
}

impl Entry {
    /// Returns who pays.
    pub fn pays(&self) -> &User {
        if self.payer.id.is_empty() { &self.owner } else { &self.payer }
    }

    /// Adds what another entry says; what has no owner yet takes that one's.
    pub fn add(&mut self, other: &Entry) {
        if self.owner.id.is_empty() {
            self.owner = other.owner.clone();
            self.bucket = other.bucket.clone();
            self.epoch = other.epoch;
            self.payer = other.payer.clone();
        }
        for (kind, data) in &other.usage {
            self.usage.entry(kind.clone()).or_default().add(data);
            self.total.add(data);
        }
    }
}

impl Decode for Entry {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("usage Entry", 3)?;
        let b = &mut e.body;
        let (owner, bucket, epoch) = (User::parse(&b.get()?), b.get()?, b.get()?);
        let total = Data { sent: b.get()?, received: b.get()?, ops: b.get()?, successful: b.get()? };
        let usage = if e.version >= 2 { b.get()? } else { BTreeMap::from([(Bytes::new(), total)]) };
        let payer = if e.version >= 3 { User::parse(&b.get()?) } else { User::default() };
        Ok(Self { owner, payer, bucket, epoch, total, usage })
    }
}

impl Encode for Entry {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 3, 1, |out| {
            self.owner.text().encode(out);
            self.bucket.encode(out);
            self.epoch.encode(out);
            let Data { sent, received, ops, successful } = self.total;
            [sent, received, ops, successful].into_iter().for_each(|number| number.encode(out));
            self.usage.encode(out);
            self.payer.text().encode(out);
        });
    }
}

/// Entries (`rgw_usage_log_info`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// Entries.
    pub entries: Vec<Entry>,
}
denc::versioned!(Entries, 1, 1 { entries });

/// Input of `user_usage_log_add`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddOp {
    /// Entries to add.
    pub info: Entries,
    /// User who adds; of no use here, and not known to version 1.
    pub user: User,
}

impl Decode for AddOp {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("AddOp", 2)?;
        let info = e.body.get()?;
        let user = if e.version >= 2 { User::parse(&e.body.get()?) } else { User::default() };
        Ok(Self { info, user })
    }
}

impl Encode for AddOp {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 2, 1, |out| {
            self.info.encode(out);
            self.user.text().encode(out);
        });
    }
}

/// Input of `user_usage_log_read`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOp {
    /// First second.
    pub start: u64,
    /// Second after the last.
    pub end: u64,
    /// Only what this user pays, if it is not empty.
    pub owner: Bytes,
    /// Place to go on.
    pub marker: Bytes,
    /// Most entries to look at; 0 stands for 1,000.
    pub max: u32,
    /// Only this bucket, if it is not empty; not known to version 1.
    pub bucket: Bytes,
}

impl Decode for ReadOp {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("ReadOp", 2)?;
        let b = &mut e.body;
        let (start, end, owner, marker, max) = (b.get()?, b.get()?, b.get()?, b.get()?, b.get()?);
        let bucket = if e.version >= 2 { b.get()? } else { Bytes::new() };
        Ok(Self { start, end, owner, marker, max, bucket })
    }
}

impl Encode for ReadOp {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 2, 1, |out| {
            self.start.encode(out);
            self.end.encode(out);
            self.owner.encode(out);
            self.marker.encode(out);
            self.max.encode(out);
            self.bucket.encode(out);
        });
    }
}

/// Payer and bucket (`rgw_user_bucket`).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UserBucket {
    /// The user, as text.
    pub user: Bytes,
    /// The bucket.
    pub bucket: Bytes,
}
denc::versioned!(UserBucket, 1, 1 { user, bucket });

/// Output of `user_usage_log_read`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadReply {
    /// Sums.
    pub usage: BTreeMap<UserBucket, Entry>,
    /// True if there is more.
    pub truncated: bool,
    /// Place to go on.
    pub marker: Bytes,
}
denc::versioned!(ReadReply, 1, 1 { usage, truncated, marker });

/// Input of `user_usage_log_trim`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrimOp {
    /// First second.
    pub start: u64,
    /// Second after the last.
    pub end: u64,
    /// Only what this user pays, if it is not empty.
    pub user: Bytes,
    /// Only this bucket, if it is not empty; not known to version 2.
    pub bucket: Bytes,
}

impl Decode for TrimOp {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut e = r.envelope("TrimOp", 3)?;
        let (start, end, user) = (e.body.get()?, e.body.get()?, e.body.get()?);
        let bucket = if e.version >= 3 { e.body.get()? } else { Bytes::new() };
        Ok(Self { start, end, user, bucket })
    }
}

impl Encode for TrimOp {
    fn encode(&self, out: &mut Vec<u8>) {
        envelope(out, 3, 2, |out| {
            self.start.encode(out);
            self.end.encode(out);
            self.user.encode(out);
            self.bucket.encode(out);
        });
    }
}
