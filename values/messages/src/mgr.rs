//! What daemons and service clients tell the manager. This cluster listens politely and keeps what it can show: who
//! reports, with which metadata and status; performance counters are passed over.

use crate::frame::{self, message};
use bytes::Bytes;
use denc::{Decode, Encode, Reader, Result};
use std::collections::BTreeMap;
use types::Message;

/// A service daemon's own words about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceStatus {
    /// Texts that do not change.
    pub metadata: BTreeMap<String, String>,
    /// Texts that change.
    pub status: BTreeMap<String, String>,
}
denc::plain!(ServiceStatus { metadata, status });

/// The beginning of a session with the manager (0x700, v3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MgrOpen {
    /// Daemon's id.
    pub daemon_name: String,
    /// Service, if it is not the kind of the entity.
    pub service_name: String,
    /// Of a service daemon.
    pub service: Option<ServiceStatus>,
    /// Encoded configuration that differs from the defaults.
    pub config: Bytes,
    /// Encoded defaults.
    pub config_defaults: Bytes,
}

impl Decode for MgrOpen {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let (daemon_name, service_name) = (r.get()?, r.get()?);
        let service = if r.get()? { Some(r.get()?) } else { None };
        Ok(Self { daemon_name, service_name, service, config: r.get()?, config_defaults: r.get()? })
    }
}

impl Encode for MgrOpen {
    fn encode(&self, out: &mut Vec<u8>) {
        self.daemon_name.encode(out);
        self.service_name.encode(out);
        self.service.is_some().encode(out);
        if let Some(service) = &self.service {
            service.encode(out);
        }
        self.config.encode(out);
        self.config_defaults.encode(out);
    }
}

/// Order for reports: how often the manager wants them, and of what (0x701, v4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MgrConfigure {
    /// Seconds between reports.
    pub stats_period: u32,
    /// Least priority of counters to report.
    pub stats_threshold: u32,
    /// The rest: queries for performance metrics of OSDs and others. Empty lists: [`MgrConfigure::NO_QUERIES`].
    pub queries: Bytes,
}

impl MgrConfigure {
    /// No queries: an empty map for OSDs, and none for others.
    pub const NO_QUERIES: &'static [u8] = &[0, 0, 0, 0, 0];

    /// Message type number.
    pub const KIND: u16 = 0x701;
    /// Header version of the layout written.
    pub const VERSION: u16 = 4;

    /// Reads it from a message.
    pub fn decode(m: &Message) -> Result<Self> {
        let mut r = frame::open(m, "MgrConfigure", Self::KIND, Self::VERSION)?;
        let (stats_period, stats_threshold) = (r.get()?, r.get()?);
        Ok(Self { stats_period, stats_threshold, queries: m.front.slice_ref(r.rest()) })
    }

    /// Writes it as a message.
    pub fn encode(&self) -> Message {
        let mut front = Vec::with_capacity(8 + self.queries.len());
        self.stats_period.encode(&mut front);
        self.stats_threshold.encode(&mut front);
        front.extend_from_slice(&self.queries);
        frame::build(Self::KIND, Self::VERSION, 1, front)
    }
}

/// The description of a performance counter (`PerfCounterType`, v3/c1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterType {
    /// Name with its section: `osd.op_w`.
    pub path: String,
    /// For people.
    pub description: String,
    /// Short name for tables.
    pub nick: String,
    /// Bits that say how the value is to be read.
    pub kind: u8,
    /// Priority of the counter.
    pub priority: u8,
    /// Bytes or nothing.
    pub unit: u8,
}
denc::versioned!(CounterType, 3, 1 { path, description, nick, kind, priority, unit });

/// A finding about the daemon's health (`DaemonHealthMetric`, v1/c1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HealthMetric {
    /// 0 slow operations, 1 groups waiting for creation.
    pub kind: u8,
    /// Value; its halves may have meanings of their own.
    pub value: u64,
}
denc::versioned!(HealthMetric, 1, 1 { kind, value });

/// A daemon's report (0x702, v9).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MgrReport {
    /// Daemon's id.
    pub daemon_name: String,
    /// Counters that come from now on.
    pub declare: Vec<CounterType>,
    /// Values of the declared counters.
    pub packed: Bytes,
    /// Counters that come no more.
    pub undeclare: Vec<String>,
    /// Service, if it is not the kind of the entity.
    pub service_name: String,
    /// A service daemon's status, if it changed.
    pub status: Option<BTreeMap<String, String>>,
    /// Health.
    pub health: Vec<HealthMetric>,
    /// Encoded configuration, if it changed.
    pub config: Bytes,
    /// The rest: answers to the manager's queries.
    pub metrics: Bytes,
}

impl MgrReport {
    /// Message type number.
    pub const KIND: u16 = 0x702;
    /// Header version of the layout written.
    pub const VERSION: u16 = 9;

    /// Reads it from a message.
    pub fn decode(m: &Message) -> Result<Self> {
        let mut r = frame::open(m, "MgrReport", Self::KIND, Self::VERSION)?;
        let (daemon_name, declare, packed, undeclare, service_name) = (r.get()?, r.get()?, r.get()?, r.get()?, r.get()?);
        let status = if r.get()? { Some(r.get()?) } else { None };
        let (health, config) = (r.get()?, r.get()?);
        let metrics = m.front.slice_ref(r.rest());
        Ok(Self { daemon_name, declare, packed, undeclare, service_name, status, health, config, metrics })
    }

    /// Writes it as a message.
    pub fn encode(&self) -> Message {
        let mut front = Vec::new();
        self.daemon_name.encode(&mut front);
        self.declare.encode(&mut front);
        self.packed.encode(&mut front);
        self.undeclare.encode(&mut front);
        self.service_name.encode(&mut front);
        self.status.is_some().encode(&mut front);
        if let Some(status) = &self.status {
            status.encode(&mut front);
        }
        self.health.encode(&mut front);
        self.config.encode(&mut front);
        front.extend_from_slice(&self.metrics);
        frame::build(Self::KIND, Self::VERSION, 1, front)
    }
}

impl MgrOpen {
    /// Message type number.
    pub const KIND: u16 = 0x700;
    /// Header version of the layout written.
    pub const VERSION: u16 = 3;

    /// Reads it from a message.
    pub fn decode(m: &Message) -> Result<Self> {
        let mut r = frame::open(m, "MgrOpen", Self::KIND, Self::VERSION)?;
        let open = r.get()?;
        frame::close(m, Self::VERSION, &r)?;
        Ok(open)
    }

    /// Writes it as a message.
    pub fn encode(&self) -> Message {
        frame::build(Self::KIND, Self::VERSION, 1, Encode::to_vec(self))
    }
}

/// The end of a session with the manager (0x708), from either side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MgrClose {
    /// Daemon's id.
    pub daemon_name: String,
    /// Service, if it is not the kind of the entity.
    pub service_name: String,
}
message!(MgrClose = 0x708 v 1 / 1 { daemon_name, service_name });
