//! What an object is, in the simplest words: the judge of what the cluster answers.

use std::collections::BTreeMap;

/// What a client asks of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// All of its bytes.
    Read,
    /// Its size.
    Stat,
    /// Replace its bytes.
    WriteFull(Vec<u8>),
    /// Write at an offset.
    Write(u64, Vec<u8>),
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
    /// Set omap keys.
    OmapSet(BTreeMap<String, Vec<u8>>),
    /// Remove omap keys.
    OmapRemove(Vec<String>),
    /// All omap keys and values.
    OmapGet,
    /// Append, and set the omap key to the same bytes: both or neither.
    AppendAndMark(Vec<u8>, String),
    /// Delete it if its attribute has this value.
    DeleteIf(String, Vec<u8>),
}

/// What came of it.
#[derive(Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// Bytes.
    Data(Vec<u8>),
    /// A size.
    Size(u64),
    /// Keys and values.
    Map(BTreeMap<String, Vec<u8>>),
    /// A negative error number.
    Error(i32),
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Data(data) => write!(f, "{} bytes {}", data.len(), brief(data)),
            Self::Size(size) => write!(f, "size {size}"),
            Self::Map(map) => {
                let entries: Vec<String> = map.iter().map(|(k, v)| format!("{k}={}", brief(v))).collect();
                write!(f, "{{{}}}", entries.join(" "))
            }
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

const ENOENT: i32 = -2;
const EEXIST: i32 = -17;
const ENODATA: i32 = -61;
const ECANCELED: i32 = -125;

/// An object's content; absent is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Object {
    /// Its bytes.
    pub data: Vec<u8>,
    /// Its attributes.
    pub xattrs: BTreeMap<String, Vec<u8>>,
    /// Its omap.
    pub omap: BTreeMap<String, Vec<u8>>,
}

impl Action {
    /// Whether it changes nothing.
    pub fn is_read(&self) -> bool {
        matches!(self, Self::Read | Self::Stat | Self::GetXattr(_) | Self::OmapGet)
    }

    /// Short words for reports.
    pub fn brief(&self) -> String {
        match self {
            Self::Read => "read".into(),
            Self::Stat => "stat".into(),
            Self::WriteFull(data) => format!("write_full {} {}", data.len(), brief(data)),
            Self::Write(offset, data) => format!("write {offset}~{} {}", data.len(), brief(data)),
            Self::Append(data) => format!("append {} {}", data.len(), brief(data)),
            Self::Truncate(size) => format!("truncate {size}"),
            Self::Zero(offset, len) => format!("zero {offset}~{len}"),
            Self::CreateExclusively => "create exclusively".into(),
            Self::Delete => "delete".into(),
            Self::SetXattr(name, value) => format!("setxattr {name} {}", brief(value)),
            Self::GetXattr(name) => format!("getxattr {name}"),
            Self::OmapSet(map) => format!("omap set {:?}", Outcome::Map(map.clone())),
            Self::OmapRemove(keys) => format!("omap remove {}", keys.join(" ")),
            Self::OmapGet => "omap get".into(),
            Self::AppendAndMark(data, key) => format!("append {} {} and mark {key}", data.len(), brief(data)),
            Self::DeleteIf(name, value) => format!("delete if {name} is {}", brief(value)),
        }
    }
}

/// Applies an action to an object, as the cluster must.
pub fn apply(object: &mut Option<Object>, action: &Action) -> Outcome {
    match action {
        Action::Read | Action::Stat | Action::GetXattr(_) | Action::OmapGet => look(object.as_ref(), action),
        Action::Delete => object.take().map_or(Outcome::Error(ENOENT), |_| Outcome::Done),
        Action::DeleteIf(name, value) => delete_if(object, name, value),
        Action::CreateExclusively if object.is_some() => Outcome::Error(EEXIST),
        // Zeroing or cutting what is not there is no error, and creates nothing.
        Action::Zero(..) | Action::Truncate(_) if object.is_none() => Outcome::Done,
        Action::OmapRemove(_) if object.is_none() => Outcome::Error(ENOENT),
        _ => {
            change(object.get_or_insert_default(), action);
            Outcome::Done
        }
    }
}

fn look(object: Option<&Object>, action: &Action) -> Outcome {
    let Some(object) = object else { return Outcome::Error(ENOENT) };
    match action {
        Action::Read => Outcome::Data(object.data.clone()),
        Action::Stat => Outcome::Size(object.data.len() as u64),
        Action::GetXattr(name) => object.xattrs.get(name).map_or(Outcome::Error(ENODATA), |v| Outcome::Data(v.clone())),
        Action::OmapGet => Outcome::Map(object.omap.clone()),
        _ => unreachable!("only reads come here"),
    }
}

fn delete_if(object: &mut Option<Object>, name: &str, value: &[u8]) -> Outcome {
    let Some(there) = object else { return Outcome::Error(ENOENT) };
    // An attribute that was never set compares as empty.
    if there.xattrs.get(name).map_or(&[][..], |v| v) != value {
        return Outcome::Error(ECANCELED);
    }
    *object = None;
    Outcome::Done
}

fn change(object: &mut Object, action: &Action) {
    match action {
        Action::WriteFull(data) => object.data.clone_from(data),
        Action::Write(offset, data) => {
            let (from, to) = (*offset as usize, *offset as usize + data.len());
            object.data.resize(object.data.len().max(to), 0);
            object.data[from..to].copy_from_slice(data);
        }
        Action::Append(data) => object.data.extend_from_slice(data),
        Action::Truncate(size) => object.data.resize(*size as usize, 0),
        Action::Zero(offset, len) => {
            let (from, to) = (*offset as usize, (offset + len) as usize);
            match object.data.len() {
                size if from >= size => {}
                size if to >= size => object.data.truncate(from),
                _ => object.data[from..to].fill(0),
            }
        }
        Action::SetXattr(name, value) => {
            object.xattrs.insert(name.clone(), value.clone());
        }
        Action::OmapSet(map) => object.omap.extend(map.clone()),
        Action::OmapRemove(keys) => keys.iter().for_each(|key| {
            object.omap.remove(key);
        }),
        Action::AppendAndMark(data, key) => {
            object.data.extend_from_slice(data);
            object.omap.insert(key.clone(), data.clone());
        }
        Action::CreateExclusively => {}
        Action::Read | Action::Stat | Action::GetXattr(_) | Action::OmapGet | Action::Delete | Action::DeleteIf(..) => {
            unreachable!("not a change in place")
        }
    }
}
