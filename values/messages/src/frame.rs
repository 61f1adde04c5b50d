//! How a struct becomes a message and back: header versions, the monitors' common front, names of kinds.

use denc::{Decode, DecodeError, Encode, Reader, Result};
use types::Message;

/// A daemon or client instance by kind and number (`entity_name_t`: `client.4123`): for clients the number is the
/// global id. Unlike [`types::EntityName`] this is not a name in the auth database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityNum {
    /// Kind as on the wire (1 mon, 2 mds, 4 osd, 8 client, 16 mgr; 0 none).
    pub kind: u8,
    /// Number.
    pub num: i64,
}
denc::plain!(EntityNum { kind, num });

impl EntityNum {
    /// The client with this global id.
    pub const fn client(global_id: u64) -> Self {
        Self { kind: 8, num: global_id.cast_signed() }
    }
}

impl std::fmt::Display for EntityNum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = types::EntityType::from_wire(self.kind.into()).map_or("unknown", types::EntityType::name);
        if self.num < 0 { write!(f, "{kind}.?") } else { write!(f, "{kind}.{}", self.num) }
    }
}

/// Checks kind and header version of `m` and gives a reader over its front. Only the layout of `version` is read, and newer ones.
pub(crate) fn open<'a>(m: &'a Message, what: &'static str, kind: u16, version: u16) -> Result<Reader<'a>> {
    open_from(m, what, kind, version, version)
}

/// The same for a message whose older layouts are read, too, from header version `oldest` on.
///
/// The Linux kernel leaves the version of many messages at 0, and means their first layout.
pub(crate) fn open_from<'a>(m: &'a Message, what: &'static str, kind: u16, version: u16, oldest: u16) -> Result<Reader<'a>> {
    debug_assert_eq!(m.kind, kind, "{what} decoded from a message of another kind");
    if m.kind != kind {
        return Err(DecodeError::Invalid(what));
    }
    let short = |v: u16| u8::try_from(v).unwrap_or(u8::MAX);
    if m.compat > version {
        return Err(DecodeError::TooNew { what, compat: short(m.compat), known: short(version) });
    }
    if m.version.max(1) < oldest {
        return Err(DecodeError::TooOld { what, version: short(m.version), oldest: short(oldest) });
    }
    Ok(Reader::new(&m.front))
}

/// Refuses bytes after the front, unless a newer sender may have appended fields, or the Linux kernel sends it (version 0), which does
/// not fill all of a front that it makes room for.
pub(crate) fn close(m: &Message, version: u16, r: &Reader<'_>) -> Result<()> {
    if m.version > version || m.version == 0 { Ok(()) } else { r.finish() }
}

/// A message with this head and front, and nothing else yet.
pub(crate) fn build(kind: u16, version: u16, compat: u16, front: Vec<u8>) -> Message {
    let priority = types::message::PRIORITY_DEFAULT;
    Message { kind, version, compat, priority, front: front.into(), ..Message::default() }
}

/// The 18 bytes in front of most messages with monitors: a version (of what the sender has seen, or what the answer
/// reflects), and two fields that have been -1 and 0 for long.
pub(crate) struct PaxosHead(pub(crate) u64);

impl Encode for PaxosHead {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        (-1i16).encode(out);
        0u64.encode(out);
    }
}

impl Decode for PaxosHead {
    const MIN_SIZE: usize = 18;
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let version = r.u64()?;
        r.skip(10)?;
        Ok(Self(version))
    }
}

/// Gives a struct its `KIND`, `decode` and `encode`: the front is the listed fields in order, the data section one
/// more field (a `Rope`). With `paxos`, the monitors' common head comes first and its version is the field `version`.
/// `v 3 from 2` reads layouts from version 2 on: a field that is marked `since 3` has its default in older ones.
macro_rules! message {
    ($name:ident = $kind:literal v $version:literal $(from $oldest:literal)? / $compat:literal
     { $($field:ident $(since $since:literal)?),* $(,)? } $(data $data:ident)?) => {
        $crate::frame::message!(@impl $name, $kind, $version, [$($oldest)?], $compat, [], [],
            { $($field [$($since)?]),* } { $($data)? });
    };
    ($name:ident = $kind:literal v $version:literal $(from $oldest:literal)? / $compat:literal paxos
     { $($field:ident $(since $since:literal)?),* $(,)? } $(data $data:ident)?) => {
        $crate::frame::message!(@impl $name, $kind, $version, [$($oldest)?], $compat, [version], [PaxosHead],
            { $($field [$($since)?]),* } { $($data)? });
    };
    (@impl $name:ident, $kind:literal, $version:literal, [$($oldest:literal)?], $compat:literal, [$($pv:ident)?], [$($head:ident)?],
     { $($field:ident [$($since:literal)?]),* } { $($data:ident)? }) => {
        impl $name {
            /// Message type number.
            pub const KIND: u16 = $kind;
            /// Header version of the layout written.
            pub const VERSION: u16 = $version;

            /// Reads it from a message.
            pub fn decode(m: &types::Message) -> denc::Result<Self> {
                let oldest = [$($oldest,)? Self::VERSION][0];
                #[allow(unused_mut)]
                let mut r = $crate::frame::open_from(m, stringify!($name), Self::KIND, Self::VERSION, oldest)?;
                $(let $pv = r.get::<$crate::frame::$head>()?.0;)?
                $(let $field = if [$($since,)? 0][0] > m.version { Default::default() } else { r.get()? };)*
                $crate::frame::close(m, Self::VERSION, &r)?;
                Ok(Self { $($pv,)? $($field,)* $($data: m.data.clone(),)? })
            }

            /// Writes it as a message; the caller sets the transaction id.
            pub fn encode(&self) -> types::Message {
                #[allow(unused_mut)]
                let mut front = Vec::new();
                $(denc::Encode::encode(&$crate::frame::$head(self.$pv), &mut front);)?
                $(denc::Encode::encode(&self.$field, &mut front);)*
                #[allow(unused_mut)]
                let mut m = $crate::frame::build(Self::KIND, Self::VERSION, $compat, front);
                $(m.data = self.$data.clone();)?
                m
            }
        }
    };
}
pub(crate) use message;

/// The name of a message type as logs print it; `None` for types that this cluster does not know.
pub fn kind_name(kind: u16) -> Option<&'static str> {
    Some(match kind {
        2 => "ping",
        4 => "mon_map",
        5 => "mon_get_map",
        13 => "statfs",
        14 => "statfs_reply",
        15 => "mon_subscribe",
        17 => "auth",
        18 => "auth_reply",
        19 => "mon_get_version",
        20 => "mon_get_version_reply",
        41 => "osd_map",
        42 => "osd_op",
        43 => "osd_op_reply",
        44 => "watch_notify",
        48 => "pool_op_reply",
        49 => "pool_op",
        50 => "mon_command",
        51 => "mon_command_ack",
        52 => "log",
        58 => "get_pool_stats",
        59 => "get_pool_stats_reply",
        61 => "osd_backoff",
        62 => "config",
        97 => "command",
        98 => "command_reply",
        0x700 => "mgr_open",
        0x701 => "mgr_configure",
        0x702 => "mgr_report",
        0x704 => "mgr_map",
        0x708 => "mgr_close",
        0x709 => "mgr_command",
        0x70a => "mgr_command_reply",
        0x4e01 => "osd_boot",
        0x4e02 => "osd_report",
        0x4e03 => "service_keys",
        0x4e04 => "osd_down",
        0x4e05 => "osd_instruct",
        0x4e10 => "group_letters",
        0x4e11 => "letter_part",
        0x4e13 => "beat",
        0x4e20 => "voter_says",
        0x4e21 => "to_leader",
        0x4e22 => "from_leader",
        0x4e23 => "session_over",
        0x4e24 => "mon_hello",
        0x4e25 => "mon_refused",
        0x4e26 => "mon_clock",
        _ => return None,
    })
}
