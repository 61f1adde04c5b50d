//! An image's header: size, features, flags, stripes, times, and the object that leads from a name to an id.

use super::keys::{is_valid_id, load, need, require_feature, set_op_features, snap_key, store};
use super::snapshots::PREFIX;
use crate::{Call, Change, Fail, Method, Outcome, RD, WR};
use bytes::Bytes;
use denc::{Decode, Encode, Reader};
use messages::class::rbd::{NO_SNAP, Parent, Snapshot, feature, op_feature};
use types::{Errno, Rope, UTime};

pub(super) const METHODS: &[Method] = &[
    Method { name: "create", flags: RD | WR, run: create },
    Method { name: "get_features", flags: RD, run: get_features },
    Method { name: "set_features", flags: RD | WR, run: set_features },
    Method { name: "get_all_features", flags: RD, run: |_| Ok(feature::ALL.to_bytes()) },
    Method { name: "get_size", flags: RD, run: get_size },
    Method { name: "set_size", flags: RD | WR, run: set_size },
    Method { name: "get_object_prefix", flags: RD, run: |call| Ok(need::<Bytes>(call, b"object_prefix")?.to_bytes()) },
    Method { name: "get_data_pool", flags: RD, run: get_data_pool },
    Method { name: "get_stripe_unit_count", flags: RD, run: get_stripe_unit_count },
    Method { name: "set_stripe_unit_count", flags: RD | WR, run: set_stripe_unit_count },
    Method { name: "get_create_timestamp", flags: RD, run: |call| timestamp(call, "create_timestamp") },
    Method { name: "get_access_timestamp", flags: RD, run: |call| timestamp(call, "access_timestamp") },
    Method { name: "get_modify_timestamp", flags: RD, run: |call| timestamp(call, "modify_timestamp") },
    Method { name: "set_access_timestamp", flags: RD | WR, run: |call| set_timestamp(call, "access_timestamp") },
    Method { name: "set_modify_timestamp", flags: RD | WR, run: |call| set_timestamp(call, "modify_timestamp") },
    Method { name: "get_flags", flags: RD, run: get_flags },
    Method { name: "set_flags", flags: RD | WR, run: set_flags },
    Method { name: "op_features_get", flags: RD, run: op_features_get },
    Method { name: "op_features_set", flags: RD | WR, run: op_features_set },
    Method { name: "get_id", flags: RD, run: get_id },
    Method { name: "set_id", flags: RD | WR, run: set_id },
];

/// Input: size, order, features, prefix of the data objects' names, and, from newer clients, the pool for the data.
fn create(call: &mut Call<'_>) -> Outcome {
    let (size, order, features, prefix, data_pool) = call.parse(|r| {
        let fields: (u64, u8, u64, Bytes) = (r.get()?, r.get()?, r.get()?, r.get()?);
        let data_pool: i64 = if r.is_empty() { -1 } else { r.get()? };
        Ok((fields.0, fields.1, fields.2, fields.3, data_pool))
    })?;
    if features & !feature::ALL != 0 {
        return Err(Errno::ENOSYS.into());
    }
    if prefix.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    if super::keys::raw(call, b"object_prefix")?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    if features & feature::OPERATIONS != 0 || (features & feature::DATA_POOL != 0) != (data_pool != -1) {
        return Err(Errno::EINVAL.into());
    }
    let now = call.now.to_bytes();
    let mut entries: Vec<(Bytes, Bytes)> = vec![
        ("size".into(), size.to_bytes()),
        ("order".into(), order.to_bytes()),
        ("features".into(), features.to_bytes()),
        ("object_prefix".into(), prefix.to_bytes()),
        ("snap_seq".into(), 0u64.to_bytes()),
        ("create_timestamp".into(), now.clone()),
        ("access_timestamp".into(), now.clone()),
        ("modify_timestamp".into(), now),
    ];
    if data_pool != -1 {
        entries.push(("data_pool_id".into(), data_pool.to_bytes()));
    }
    call.change(Change::OmapSet(entries));
    Ok(Bytes::new())
}

/// Input: snapshot (it no longer matters which), and whether the image is opened to be read only. Output: all features,
/// and those that such a client must know.
fn get_features(call: &mut Call<'_>) -> Outcome {
    let read_only = call.parse(|r| {
        r.u64()?;
        if r.is_empty() { Ok(false) } else { r.get() }
    })?;
    let features: u64 = need(call, b"features")?;
    let incompatible = if read_only { feature::INCOMPATIBLE } else { feature::RW_INCOMPATIBLE };
    Ok((features, features & incompatible).to_bytes())
}

fn set_features(call: &mut Call<'_>) -> Outcome {
    let (features, mask): (u64, u64) = call.arg()?;
    let old: u64 = load(call, b"features")?.unwrap_or(0);
    if mask & feature::INTERNAL != 0 {
        return Err(Errno::EINVAL.into());
    }
    // Newer clients may want to switch off what is not known here.
    let mask = mask & feature::ALL;
    let (on, off) = (features & mask, !features & mask);
    if on & !feature::MUTABLE != 0 || off & !(feature::MUTABLE | feature::DISABLE_ONLY) != 0 {
        return Err(Errno::EINVAL.into());
    }
    store(call, "features", &(old & !mask | on));
    Ok(Bytes::new())
}

fn get_size(call: &mut Call<'_>) -> Outcome {
    let snap: u64 = call.arg()?;
    let order: u8 = need(call, b"order")?;
    let size: u64 = match snap {
        NO_SNAP => need(call, b"size")?,
        id => need::<Snapshot>(call, &snap_key(PREFIX, id))?.image_size,
    };
    Ok((order, size).to_bytes())
}

/// A smaller image also lies over less of its parent.
fn set_size(call: &mut Call<'_>) -> Outcome {
    let size: u64 = call.arg()?;
    let old: u64 = need(call, b"size")?;
    store(call, "size", &size);
    if size < old {
        let mut parent: Parent = load(call, b"parent")?.unwrap_or_default();
        if parent.exists() && parent.overlap.unwrap_or(0) > size {
            parent.overlap = Some(size);
            store(call, "parent", &parent);
        }
    }
    Ok(Bytes::new())
}

fn get_data_pool(call: &mut Call<'_>) -> Outcome {
    Ok(load::<i64>(call, b"data_pool_id")?.unwrap_or(-1).to_bytes())
}

/// Bytes of an object; EINVAL for an order that no address reaches.
fn object_size(order: u8) -> Result<u64, Fail> {
    1u64.checked_shl(order.into()).ok_or(Fail::Errno(Errno::EINVAL))
}

fn get_stripe_unit_count(call: &mut Call<'_>) -> Outcome {
    call.must_exist()?;
    require_feature(call, feature::STRIPINGV2)?;
    let unit: u64 = match load(call, b"stripe_unit")? {
        Some(unit) => unit,
        None => object_size(load(call, b"order")?.ok_or(Fail::Errno(Errno::EIO))?)?,
    };
    let count: u64 = load(call, b"stripe_count")?.unwrap_or(1);
    Ok((unit, count).to_bytes())
}

fn set_stripe_unit_count(call: &mut Call<'_>) -> Outcome {
    let (unit, count): (u64, u64) = call.arg()?;
    if unit == 0 || count == 0 {
        return Err(Errno::EINVAL.into());
    }
    call.must_exist()?;
    require_feature(call, feature::STRIPINGV2)?;
    if object_size(need(call, b"order")?)? % unit != 0 {
        return Err(Errno::EINVAL.into());
    }
    store(call, "stripe_unit", &unit);
    store(call, "stripe_count", &count);
    Ok(Bytes::new())
}

/// Zero for images that are older than the timestamp.
fn timestamp(call: &mut Call<'_>, key: &str) -> Outcome {
    Ok(load::<UTime>(call, key.as_bytes())?.unwrap_or(UTime::ZERO).to_bytes())
}

fn set_timestamp(call: &mut Call<'_>, key: &'static str) -> Outcome {
    call.must_exist()?;
    let now = call.now;
    store(call, key, &now);
    Ok(Bytes::new())
}

fn get_flags(call: &mut Call<'_>) -> Outcome {
    let flags: u64 = match call.arg()? {
        NO_SNAP => load(call, b"flags")?.unwrap_or(0),
        id => need::<Snapshot>(call, &snap_key(PREFIX, id))?.flags,
    };
    Ok(flags.to_bytes())
}

fn set_flags(call: &mut Call<'_>) -> Outcome {
    let (flags, mask, snap) = call.parse(|r| {
        let (flags, mask): (u64, u64) = r.get()?;
        Ok((flags, mask, if r.is_empty() { NO_SNAP } else { r.get()? }))
    })?;
    let merged = |old: u64| old & !mask | flags & mask;
    if snap == NO_SNAP {
        let old = load(call, b"flags")?.unwrap_or(0);
        store(call, "flags", &merged(old));
    } else {
        let key = snap_key(PREFIX, snap);
        let mut record: Snapshot = need(call, &key)?;
        record.flags = merged(record.flags);
        super::snapshots::write(call, key, record)?;
    }
    Ok(Bytes::new())
}

fn op_features_get(call: &mut Call<'_>) -> Outcome {
    Ok(load::<u64>(call, b"op_features")?.unwrap_or(0).to_bytes())
}

fn op_features_set(call: &mut Call<'_>) -> Outcome {
    let (value, mask): (u64, u64) = call.arg()?;
    if mask & !op_feature::ALL != 0 {
        return Err(Errno::EINVAL.into());
    }
    set_op_features(call, value, mask)?;
    Ok(Bytes::new())
}

fn get_id(call: &mut Call<'_>) -> Outcome {
    let stat = call.must_exist()?;
    if stat.size == 0 {
        return Err(Errno::ENOENT.into());
    }
    let data = call.view.read(0, stat.size)?.to_vec();
    let id = Bytes::decode(&mut Reader::new(&data)).map_err(|_| Fail::Errno(Errno::EIO))?;
    Ok(id.to_bytes())
}

fn set_id(call: &mut Call<'_>) -> Outcome {
    let stat = call.must_exist()?;
    let id: Bytes = call.arg()?;
    if !is_valid_id(&id) {
        return Err(Errno::EINVAL.into());
    }
    if stat.size != 0 {
        return Err(Errno::EEXIST.into());
    }
    call.change(Change::Write(0, Rope::from(Encode::to_vec(&id))));
    Ok(Bytes::new())
}
