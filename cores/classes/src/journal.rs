//! Class `journal`: the head of an image's journal, and appending to its objects. Writers and readers register as
//! clients and say how far they are; tags name the periods of the journal's life.

use crate::keys::{erase_if_any, key, list, load, raw, snap_key, store, stored};
use crate::{Call, Change, Fail, Method, Outcome, RD, WR};
use bytes::Bytes;
use denc::{Decode, Encode};
use messages::class::journal::{Client, DISCONNECTED, NEW_TAG_CLASS, Position, Tag};
use std::collections::BTreeMap;
use types::{Errno, Rope};

pub(crate) const METHODS: &[Method] = &[
    Method { name: "create", flags: RD | WR, run: create },
    Method { name: "get_order", flags: RD, run: |call| Ok(need::<u8>(call, ORDER)?.to_bytes()) },
    Method { name: "get_splay_width", flags: RD, run: |call| Ok(need::<u8>(call, SPLAY_WIDTH)?.to_bytes()) },
    Method { name: "get_pool_id", flags: RD, run: |call| Ok(need::<i64>(call, POOL)?.to_bytes()) },
    Method { name: "get_minimum_set", flags: RD, run: |call| Ok(need::<u64>(call, MINIMUM_SET)?.to_bytes()) },
    Method { name: "set_minimum_set", flags: RD | WR, run: set_minimum_set },
    Method { name: "get_active_set", flags: RD, run: |call| Ok(need::<u64>(call, ACTIVE_SET)?.to_bytes()) },
    Method { name: "set_active_set", flags: RD | WR, run: set_active_set },
    Method { name: "get_client", flags: RD, run: get_client },
    Method { name: "client_register", flags: RD | WR, run: client_register },
    Method { name: "client_update_data", flags: RD | WR, run: client_update_data },
    Method { name: "client_update_state", flags: RD | WR, run: client_update_state },
    Method { name: "client_unregister", flags: RD | WR, run: client_unregister },
    Method { name: "client_commit", flags: RD | WR, run: client_commit },
    Method { name: "client_list", flags: RD, run: client_list },
    Method { name: "get_next_tag_tid", flags: RD, run: |call| Ok(need::<u64>(call, NEXT_TAG)?.to_bytes()) },
    Method { name: "get_tag", flags: RD, run: get_tag },
    Method { name: "tag_create", flags: RD | WR, run: tag_create },
    Method { name: "tag_list", flags: RD, run: tag_list },
    Method { name: "guard_append", flags: RD | WR, run: guard_append },
    Method { name: "append", flags: RD | WR, run: append },
];

const ORDER: &[u8] = b"order";
const SPLAY_WIDTH: &[u8] = b"splay_width";
const POOL: &[u8] = b"pool_id";
const MINIMUM_SET: &[u8] = b"minimum_set";
const ACTIVE_SET: &[u8] = b"active_set";
const NEXT_TAG: &[u8] = b"next_tag_tid";
const NEXT_CLASS: &[u8] = b"next_tag_class";
/// Keys of clients begin so; the id follows.
const CLIENT: &str = "client_";
/// Keys of tags begin so; the number follows.
const TAG: &str = "tag_";

/// A value; ENOENT without it. What this class stored and cannot read is EINVAL.
fn need<T: Decode>(call: &Call<'_>, key: &[u8]) -> Result<T, Fail> {
    match load(call, key) {
        Err(Fail::Errno(Errno::EIO)) => Err(Errno::EINVAL.into()),
        other => other?.ok_or(Fail::Errno(Errno::ENOENT)),
    }
}

/// Input: order of the objects' size, how many are written at a time, pool (-1 for the head's own).
fn create(call: &mut Call<'_>) -> Outcome {
    let (order, width, pool): (u8, u8, i64) = call.parse(|r| Ok((r.get()?, r.get()?, r.get()?)))?;
    if raw(call, ORDER)?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    store(call, ORDER, &order);
    store(call, SPLAY_WIDTH, &width);
    store(call, POOL, &pool);
    for zero in [ACTIVE_SET, MINIMUM_SET, NEXT_TAG, NEXT_CLASS] {
        store(call, zero, &0u64);
    }
    Ok(Bytes::new())
}

/// Moves one end of the sets in use. They only move forward: ESTALE.
fn advance(call: &mut Call<'_>, end: &'static [u8], to: u64) -> Outcome {
    let now: u64 = need(call, end)?;
    if to < now {
        return Err(Errno::ESTALE.into());
    }
    if to > now {
        store(call, end, &to);
    }
    Ok(Bytes::new())
}

fn set_minimum_set(call: &mut Call<'_>) -> Outcome {
    let set: u64 = call.arg()?;
    if need::<u64>(call, ACTIVE_SET)? < set {
        return Err(Errno::EINVAL.into());
    }
    advance(call, MINIMUM_SET, set)
}

fn set_active_set(call: &mut Call<'_>) -> Outcome {
    let set: u64 = call.arg()?;
    if need::<u64>(call, MINIMUM_SET)? > set {
        return Err(Errno::EINVAL.into());
    }
    advance(call, ACTIVE_SET, set)
}

fn client(call: &Call<'_>, id: &[u8]) -> Result<Client, Fail> {
    need(call, &key(CLIENT, id))
}

fn write_client(call: &mut Call<'_>, client: &Client) {
    store(call, key(CLIENT, &client.id), client);
}

fn clients(call: &Call<'_>, after: &[u8], max: u64) -> Result<Vec<Client>, Fail> {
    list(call, CLIENT, after, max)?.iter().map(|(_, value)| stored(call, value)).collect()
}

fn get_client(call: &mut Call<'_>) -> Outcome {
    let id: Bytes = call.arg()?;
    Ok(client(call, &id)?.to_bytes())
}

/// Returns where a new client begins: at the position of the one that is furthest behind.
fn furthest_behind(clients: &[Client]) -> Position {
    let heads = clients.iter().map(|c| c.committed.objects.first().map(|p| (p.tag, p.entry)));
    match heads.collect::<Option<Vec<_>>>() {
        Some(heads) => {
            let first = heads.iter().enumerate().min_by_key(|(_, head)| **head);
            first.map(|(i, _)| clients[i].committed.clone()).unwrap_or_default()
        }
        // One has done nothing yet.
        None => Position::default(),
    }
}

/// Input: id, the client's own data.
fn client_register(call: &mut Call<'_>) -> Outcome {
    let (id, data): (Bytes, Bytes) = call.arg()?;
    need::<u8>(call, ORDER)?;
    if raw(call, &key(CLIENT, &id))?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    let committed = furthest_behind(&clients(call, b"", u64::MAX)?);
    write_client(call, &Client { id, data, committed, state: 0 });
    Ok(Bytes::new())
}

fn client_update_data(call: &mut Call<'_>) -> Outcome {
    let (id, data): (Bytes, Bytes) = call.arg()?;
    let old = client(call, &id)?;
    write_client(call, &Client { id, data, ..old });
    Ok(Bytes::new())
}

fn client_update_state(call: &mut Call<'_>) -> Outcome {
    let (id, state): (Bytes, u8) = call.arg()?;
    let old = client(call, &id)?;
    write_client(call, &Client { id, state, ..old });
    Ok(Bytes::new())
}

fn client_unregister(call: &mut Call<'_>) -> Outcome {
    let id: Bytes = call.arg()?;
    let entry = key(CLIENT, &id);
    raw(call, &entry)?.ok_or(Fail::Errno(Errno::ENOENT))?;
    erase_if_any(call, entry)?;
    expire_tags(call, Some(&id))?;
    Ok(Bytes::new())
}

/// Input: id, position.
fn client_commit(call: &mut Call<'_>) -> Outcome {
    let (id, committed): (Bytes, Position) = call.arg()?;
    if committed.objects.len() > usize::from(need::<u8>(call, SPLAY_WIDTH)?) {
        return Err(Errno::EINVAL.into());
    }
    let old = client(call, &id)?;
    if old.committed != committed {
        write_client(call, &Client { id, committed, ..old });
    }
    Ok(Bytes::new())
}

fn client_list(call: &mut Call<'_>) -> Outcome {
    let (after, max): (Bytes, u64) = call.arg()?;
    Ok(clients(call, &after, max)?.to_bytes())
}

fn tags(call: &Call<'_>) -> Result<Vec<Tag>, Fail> {
    list(call, TAG, b"", u64::MAX)?.iter().map(|(_, value)| stored(call, value)).collect()
}

/// The last tag of each class that is not behind tag `oldest`: what comes before it is of no use any more.
fn first_in_use(tags: &[Tag], oldest: u64) -> BTreeMap<u64, u64> {
    let mut first = BTreeMap::new();
    for tag in tags {
        first.insert(tag.class, tag.tid);
        if tag.tid >= oldest {
            break;
        }
    }
    first
}

/// Removes tags that all clients are past. One that is going does not count; nothing is removed as long as one has done
/// nothing.
fn expire_tags(call: &mut Call<'_>, leaving: Option<&Bytes>) -> Result<(), Fail> {
    let mut oldest = u64::MAX;
    for client in clients(call, b"", u64::MAX)? {
        if leaving == Some(&client.id) || client.state == DISCONNECTED {
            continue;
        }
        let Some(tag) = client.committed.objects.iter().map(|p| p.tag).min() else { return Ok(()) };
        oldest = oldest.min(tag);
    }
    if oldest == u64::MAX {
        return Ok(());
    }
    let tags = tags(call)?;
    let first = first_in_use(&tags, oldest);
    for tag in tags {
        if first.get(&tag.class).is_some_and(|first| tag.tid < *first) {
            erase_if_any(call, snap_key(TAG, tag.tid))?;
        }
        if tag.tid >= oldest {
            break;
        }
    }
    Ok(())
}

fn get_tag(call: &mut Call<'_>) -> Outcome {
    let tag: Tag = need(call, &snap_key(TAG, call.arg()?))?;
    Ok(tag.to_bytes())
}

/// Input: number, which must be the next one (ESTALE), class or that there is to be a new one, the writer's data.
fn tag_create(call: &mut Call<'_>) -> Outcome {
    let (tid, mut class, data): (u64, u64, Bytes) = call.parse(|r| Ok((r.get()?, r.get()?, r.get()?)))?;
    if raw(call, &snap_key(TAG, tid))?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    if tid != need::<u64>(call, NEXT_TAG)? {
        return Err(Errno::ESTALE.into());
    }
    let next: u64 = need(call, NEXT_CLASS)?;
    if class == NEW_TAG_CLASS {
        class = next;
        store(call, NEXT_CLASS, &next.wrapping_add(1));
    } else if class >= next {
        return Err(Errno::EINVAL.into());
    }
    expire_tags(call, None)?;
    store(call, NEXT_TAG, &tid.wrapping_add(1));
    store(call, snap_key(TAG, tid), &Tag { tid, class, data });
    Ok(Bytes::new())
}

/// Input: tag after which to begin (0: at the first), most tags, client (tags that it is past are left out), and
/// perhaps a class.
fn tag_list(call: &mut Call<'_>) -> Outcome {
    let (after, max, id, class) = call.parse(|r| {
        let (after, max, id): (u64, u64, Bytes) = (r.get()?, r.get()?, r.get()?);
        let class: Option<u64> = if r.get()? { Some(r.get()?) } else { None };
        Ok((after, max, id, class))
    })?;
    let client = client(call, &id)?;
    let all = tags(call)?;
    let oldest = client.committed.objects.iter().map(|p| p.tag).min();
    let first = oldest.map(|oldest| first_in_use(&all, oldest)).unwrap_or_default();
    let mut found = Vec::new();
    for tag in all {
        if after != 0 && tag.tid <= after {
            continue;
        }
        if tag.tid >= first.get(&tag.class).copied().unwrap_or(0) && class.is_none_or(|c| c == tag.class) {
            found.push(tag);
        }
        if found.len() as u64 >= max {
            break;
        }
    }
    Ok(found.to_bytes())
}

/// Bytes of the object; EOVERFLOW if that is `limit` or more.
fn room(call: &Call<'_>, limit: u64) -> Result<u64, Fail> {
    let size = call.view.stat()?.map_or(0, |stat| stat.size);
    if call.exists()? && size >= limit { Err(Errno::EOVERFLOW.into()) } else { Ok(size) }
}

/// Input: bytes from which on an object is full. Goes before an append in the same vector.
fn guard_append(call: &mut Call<'_>) -> Outcome {
    let limit: u64 = call.arg()?;
    room(call, limit)?;
    Ok(Bytes::new())
}

/// Input: bytes from which on an object is full, what to append.
fn append(call: &mut Call<'_>) -> Outcome {
    let (limit, data): (u64, Bytes) = call.arg()?;
    let size = match call.exists()? {
        true => room(call, limit)?,
        false if limit == 0 => return Err(Errno::EOVERFLOW.into()),
        false => 0,
    };
    call.change(Change::Write(size, Rope::from(data)));
    Ok(Bytes::new())
}
