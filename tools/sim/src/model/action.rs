//! What clients ask of one object, and what they are told.

use std::collections::BTreeMap;

/// Named bytes.
pub type Pairs = BTreeMap<String, Vec<u8>>;

/// What a client asks of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// All of its bytes.
    Read,
    /// Some of its bytes: offset and length.
    ReadAt(u64, u64),
    /// All of its bytes, holes left out and filled in again by the client.
    SparseRead,
    /// Its size.
    Stat,
    /// Replace its bytes.
    WriteFull(Vec<u8>),
    /// Write at an offset.
    Write(u64, Vec<u8>),
    /// Write a pattern over and over: offset, how often, pattern.
    WriteSame(u64, u64, Vec<u8>),
    /// Write at the end.
    Append(Vec<u8>),
    /// Cut or grow.
    Truncate(u64),
    /// Zero a range; one that reaches the end cuts the object there, as Ceph does it.
    Zero(u64, u64),
    /// It must not exist, and does afterwards.
    CreateExclusively,
    /// Remove it.
    Delete,
    /// Set an attribute.
    SetXattr(String, Vec<u8>),
    /// An attribute's value.
    GetXattr(String),
    /// All attributes.
    GetXattrs,
    /// Remove an attribute; it need not be there.
    RemoveXattr(String),
    /// Set omap keys.
    OmapSet(Pairs),
    /// Remove omap keys.
    OmapRemove(Vec<String>),
    /// Remove the omap keys from one up to another.
    OmapRemoveRange(String, String),
    /// Remove all omap keys, and the header.
    OmapClear,
    /// Set the omap's header.
    OmapSetHeader(Vec<u8>),
    /// The omap's header.
    OmapHeader,
    /// All omap keys and values.
    OmapGet,
    /// At most so many omap keys and values behind one key.
    OmapPage(String, u64),
    /// The values of some omap keys.
    OmapByKeys(Vec<String>),
    /// All omap keys.
    OmapKeys,
    /// Append, and set the omap key to the same bytes: both or neither.
    AppendAndMark(Vec<u8>, String),
    /// Delete it if its attribute has this value.
    DeleteIf(String, Vec<u8>),
    /// Several changes: all or none.
    All(Vec<Action>),
    /// A change, if something holds.
    If(Guard, Box<Action>),
    /// Class `numops`: add to the number under an omap key.
    Add(String, i64),
    /// Class `version`: count.
    VersionIncrement,
    /// Class `version`: count, if the count is this one.
    VersionIncrementIf(u64),
    /// Class `version`: the count.
    VersionRead,
    /// Class `lock`: this client takes the lock.
    Lock(u32),
    /// Class `lock`: this client lets go of it.
    Unlock(u32),
    /// Class `refcount`: take a reference.
    RefGet(String),
    /// Class `refcount`: give a reference back; the last one takes the object with it.
    RefPut(String),
    /// Class `refcount`: the references.
    RefRead,
    /// Becomes a copy of [`super::source`] of this number, which never changes.
    CopyOf(u64),
    /// Back to what a snapshot shows.
    Rollback(u64),
    /// No client asks for this: the pool takes a snapshot, and here it reaches the object.
    TakeSnap(u64),
}

/// What must hold for a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// An attribute has this value; one that is not there counts as empty.
    Xattr(String, Vec<u8>),
    /// An omap key has this value; one that is not there counts as empty.
    Omap(String, Vec<u8>),
    /// The object's version is this one.
    Version(u64),
    /// The bytes at an offset are these; what lies behind the end counts as zeros.
    Bytes(u64, Vec<u8>),
}

/// What came of it.
#[derive(Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// Bytes.
    Data(Vec<u8>),
    /// A number, of bytes most often.
    Size(u64),
    /// Keys and values.
    Map(Pairs),
    /// Keys and values, and whether there are more.
    Page(Pairs, bool),
    /// A negative error number.
    Error(i32),
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pairs = |map: &Pairs| {
            let entries: Vec<String> = map.iter().map(|(k, v)| format!("{k}={}", brief(v))).collect();
            format!("{{{}}}", entries.join(" "))
        };
        match self {
            Self::Done => f.write_str("done"),
            Self::Data(data) => write!(f, "{} bytes {}", data.len(), brief(data)),
            Self::Size(size) => write!(f, "size {size}"),
            Self::Map(map) => f.write_str(&pairs(map)),
            Self::Page(map, more) => write!(f, "{}{}", pairs(map), if *more { " and more" } else { "" }),
            Self::Error(errno) => write!(f, "error {errno}"),
        }
    }
}

/// Runs of payloads, each by its first bytes: payloads begin with a tag in brackets.
pub fn brief(data: &[u8]) -> String {
    let text: String = data.iter().map(|b| if b.is_ascii_graphic() { *b as char } else { '.' }).collect();
    let tags: Vec<&str> = text.split('[').skip(1).filter_map(|t| t.split_once(']')).map(|(tag, _)| tag).collect();
    if tags.is_empty() { text.chars().take(16).collect() } else { tags.join(",") }
}

impl Guard {
    /// Short words for reports.
    pub fn brief(&self) -> String {
        match self {
            Self::Xattr(name, value) => format!("{name} is {}", brief(value)),
            Self::Omap(key, value) => format!("omap {key} is {}", brief(value)),
            Self::Version(version) => format!("version is {version}"),
            Self::Bytes(offset, bytes) => format!("{} bytes at {offset} are {}", bytes.len(), brief(bytes)),
        }
    }
}

impl Action {
    /// Returns true if it changes nothing.
    pub fn is_read(&self) -> bool {
        let data = matches!(self, Self::Read | Self::ReadAt(..) | Self::SparseRead | Self::Stat | Self::GetXattr(_));
        let keys = matches!(self, Self::OmapGet | Self::OmapPage(..) | Self::OmapByKeys(_) | Self::OmapKeys | Self::OmapHeader);
        data || keys || matches!(self, Self::GetXattrs | Self::VersionRead | Self::RefRead)
    }

    /// Returns true if it is a class call.
    pub fn is_call(&self) -> bool {
        let counts = matches!(self, Self::Add(..) | Self::VersionIncrement | Self::VersionIncrementIf(_) | Self::VersionRead);
        let holds = matches!(self, Self::Lock(_) | Self::Unlock(_) | Self::RefGet(_) | Self::RefPut(_) | Self::RefRead);
        counts || holds
    }

    /// Short words for reports.
    pub fn brief(&self) -> String {
        match self {
            Self::Write(offset, data) => format!("write {offset}~{} {}", data.len(), brief(data)),
            Self::WriteFull(data) => format!("write_full {} {}", data.len(), brief(data)),
            Self::WriteSame(offset, times, data) => format!("write_same {offset} {times} times {}", brief(data)),
            Self::Append(data) => format!("append {} {}", data.len(), brief(data)),
            Self::SetXattr(name, value) => format!("setxattr {name} {}", brief(value)),
            Self::OmapSet(map) => format!("omap set {:?}", Outcome::Map(map.clone())),
            Self::OmapSetHeader(header) => format!("omap header {}", brief(header)),
            Self::AppendAndMark(data, key) => format!("append {} {} and mark {key}", data.len(), brief(data)),
            Self::DeleteIf(name, value) => format!("delete if {name} is {}", brief(value)),
            Self::All(actions) => format!("[{}]", actions.iter().map(Self::brief).collect::<Vec<_>>().join("; ")),
            Self::If(guard, action) => format!("if {}: {}", guard.brief(), action.brief()),
            other => format!("{other:?}"),
        }
    }
}
