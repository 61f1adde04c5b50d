//! Clones: what an image is a clone of, and which clones a snapshot has.

use super::keys::{erase, erase_if_any, load, need, require_feature, set_op_features, snap_key, store};
use super::snapshots::{self, PREFIX};
use crate::{Call, Fail, Method, Outcome, RD, WR};
use bytes::Bytes;
use denc::Encode;
use messages::class::rbd::{ChildImageSpec, NO_SNAP, Parent, ParentImageSpec, Snapshot, feature, op_feature};
use std::collections::BTreeSet;
use types::Errno;

pub(super) const METHODS: &[Method] = &[
    Method { name: "get_parent", flags: RD, run: get_parent },
    Method { name: "set_parent", flags: RD | WR, run: set_parent },
    Method { name: "remove_parent", flags: RD | WR, run: |call| detach(call, true) },
    Method { name: "parent_get", flags: RD, run: parent_get },
    Method { name: "parent_overlap_get", flags: RD, run: parent_overlap_get },
    Method { name: "parent_attach", flags: RD | WR, run: parent_attach },
    Method { name: "parent_detach", flags: RD | WR, run: |call| detach(call, false) },
    Method { name: "add_child", flags: RD | WR, run: add_child },
    Method { name: "remove_child", flags: RD | WR, run: remove_child },
    Method { name: "get_children", flags: RD, run: get_children },
    Method { name: "child_attach", flags: RD | WR, run: child_attach },
    Method { name: "child_detach", flags: RD | WR, run: child_detach },
    Method { name: "children_list", flags: RD, run: children_list },
];

/// The image's parent, or an empty one.
fn parent_of(call: &Call<'_>) -> Result<Parent, Fail> {
    Ok(load(call, b"parent")?.unwrap_or_default())
}

/// Returns whether the image can have a parent at all; if not, questions for it have empty answers.
fn layered(call: &Call<'_>) -> Result<bool, Fail> {
    match require_feature(call, feature::LAYERING) {
        Ok(()) => Ok(true),
        Err(Fail::Errno(_)) => Ok(false),
        Err(fail) => Err(fail),
    }
}

/// For clients that know no namespaces. Output: pool, image, snapshot, overlap; pool -1 without a parent.
fn get_parent(call: &mut Call<'_>) -> Outcome {
    let snap: u64 = call.arg()?;
    call.must_exist()?;
    let mut parent = Parent::default();
    if layered(call)? {
        parent = parent_of(call)?;
        if !parent.spec.namespace.is_empty() {
            return Err(Errno::EXDEV.into());
        }
        if snap != NO_SNAP {
            let record: Snapshot = load(call, &snap_key(PREFIX, snap))?.unwrap_or_default();
            if record.parent.exists() {
                parent = record.parent;
            } else if record.parent_overlap.is_none() {
                parent = Parent::default();
            } else if parent.exists() {
                parent.overlap = record.parent_overlap;
            } else {
                return Err(Errno::EINVAL.into());
            }
        }
    }
    let ParentImageSpec { pool, image, snap, .. } = parent.spec;
    Ok(((pool, image), (snap, parent.overlap.unwrap_or(0))).to_bytes())
}

/// Input: pool, image, snapshot, overlap.
fn set_parent(call: &mut Call<'_>) -> Outcome {
    let (pool, image, snap, overlap) = call.parse(|r| Ok((r.get()?, r.get()?, r.get()?, r.get()?)))?;
    let spec = ParentImageSpec { pool, namespace: Bytes::new(), image, snap };
    attach(call, Parent { spec, overlap: Some(overlap) }, false)
}

fn parent_attach(call: &mut Call<'_>) -> Outcome {
    let (spec, overlap, again) = call.parse(|r| {
        let (spec, overlap): (ParentImageSpec, u64) = r.get()?;
        Ok((spec, overlap, if r.is_empty() { false } else { r.get()? }))
    })?;
    attach(call, Parent { spec, overlap: Some(overlap) }, again)
}

/// Gives the image a parent. EEXIST if it has one, unless `again`, or unless only its snapshots have it.
fn attach(call: &mut Call<'_>, mut parent: Parent, again: bool) -> Outcome {
    call.must_exist()?;
    require_feature(call, feature::LAYERING)?;
    let overlap = parent.overlap.unwrap_or(0);
    if !parent.exists() || overlap == 0 {
        return Err(Errno::EINVAL.into());
    }
    if let Some(old) = load::<Parent>(call, b"parent")?
        && !again
        && (old.overlap.is_some() || old.spec != parent.spec)
    {
        return Err(Errno::EEXIST.into());
    }
    parent.overlap = Some(overlap.min(need(call, b"size")?));
    store(call, "parent", &parent);
    Ok(Bytes::new())
}

/// Takes the parent from the image, and from its snapshots if they were flattened with it; if not, they keep it.
fn detach(call: &mut Call<'_>, knows_no_namespaces: bool) -> Outcome {
    call.must_exist()?;
    let features = load::<u64>(call, b"features")?.unwrap_or(0);
    if features & feature::LAYERING == 0 {
        return Err(Errno::ENOEXEC.into());
    }
    let mut parent: Parent = need(call, b"parent")?;
    if knows_no_namespaces && !parent.spec.namespace.is_empty() {
        return Err(Errno::EXDEV.into());
    }
    if parent.overlap.is_none() {
        return Err(Errno::ENOENT.into());
    }
    let mut clones: Vec<Snapshot> = snapshots::all(call)?;
    clones.retain(snapshots::has_parent);
    if clones.is_empty() || features & feature::DEEP_FLATTEN != 0 {
        for mut snap in clones {
            snap.parent = Parent::default();
            snap.parent_overlap = None;
            snapshots::write(call, snap_key(PREFIX, snap.id), snap)?;
        }
        erase_if_any(call, "parent")?;
        set_op_features(call, 0, op_feature::CLONE_CHILD)?;
    } else {
        parent.overlap = None;
        store(call, "parent", &parent);
    }
    Ok(Bytes::new())
}

fn parent_get(call: &mut Call<'_>) -> Outcome {
    call.must_exist()?;
    let mut spec = ParentImageSpec::default();
    if layered(call)? {
        match load::<Parent>(call, b"parent")? {
            Some(parent) => spec = parent.spec,
            // Records of old kept it with the snapshots.
            None => {
                let snaps = snapshots::all(call)?;
                if let Some(snap) = snaps.into_iter().rfind(|s| s.parent.exists()) {
                    spec = snap.parent.spec;
                }
            }
        }
    }
    Ok(spec.to_bytes())
}

/// Output: whether there is an overlap, and the overlap.
fn parent_overlap_get(call: &mut Call<'_>) -> Outcome {
    let snap: u64 = call.arg()?;
    let mut overlap = None;
    if layered(call)? {
        if snap == NO_SNAP {
            overlap = parent_of(call)?.overlap;
        } else {
            let record: Snapshot = need(call, &snap_key(PREFIX, snap))?;
            overlap = record.parent_overlap.or(record.parent.overlap.filter(|_| record.parent.exists()));
        }
    }
    let mut out = overlap.is_some().to_vec();
    if let Some(overlap) = overlap {
        overlap.encode(&mut out);
    }
    Ok(out.into())
}

/// The key of a snapshot's clones in the pool's directory of children: its pool, image and id as on the wire.
fn directory_key(pool: u64, image: Bytes, snap: u64) -> Bytes {
    ((pool, image), snap).to_bytes()
}

/// Input: pool, image and snapshot of the parent, and the child.
fn parent_and_child(call: &Call<'_>) -> Result<(Bytes, Bytes), Fail> {
    let (pool, image, snap, child) = call.parse(|r| Ok((r.get()?, r.get()?, r.get()?, r.get()?)))?;
    Ok((directory_key(pool, image, snap), child))
}

fn add_child(call: &mut Call<'_>) -> Outcome {
    let (key, child) = parent_and_child(call)?;
    let mut children: BTreeSet<Bytes> = load(call, &key)?.unwrap_or_default();
    if !children.insert(child) {
        return Err(Errno::EEXIST.into());
    }
    store(call, key, &children);
    Ok(Bytes::new())
}

fn remove_child(call: &mut Call<'_>) -> Outcome {
    let (key, child) = parent_and_child(call)?;
    let mut children: BTreeSet<Bytes> = need(call, &key)?;
    if !children.remove(&child) {
        return Err(Errno::ENOENT.into());
    }
    if children.is_empty() {
        erase(call, key)?;
    } else {
        store(call, key, &children);
    }
    Ok(Bytes::new())
}

fn get_children(call: &mut Call<'_>) -> Outcome {
    let (pool, image, snap) = call.parse(|r| Ok((r.get()?, r.get()?, r.get()?)))?;
    let children: BTreeSet<Bytes> = need(call, &directory_key(pool, image, snap))?;
    Ok(children.to_bytes())
}

/// Keys of a snapshot's own list of clones begin so; the id follows.
const CHILDREN: &str = "snap_children_";

fn child_attach(call: &mut Call<'_>) -> Outcome {
    let (id, child): (u64, ChildImageSpec) = call.arg()?;
    let key = snap_key(PREFIX, id);
    let mut snap: Snapshot = need(call, &key)?;
    if snap.namespace.is_trash() {
        return Err(Errno::ENOENT.into());
    }
    let children_key = snap_key(CHILDREN, id);
    let mut children: BTreeSet<ChildImageSpec> = load(call, &children_key)?.unwrap_or_default();
    if !children.insert(child) {
        return Err(Errno::EEXIST.into());
    }
    store(call, children_key, &children);
    snap.child_count = snap.child_count.wrapping_add(1);
    snapshots::write(call, key, snap)?;
    set_op_features(call, op_feature::CLONE_PARENT, op_feature::CLONE_PARENT)?;
    Ok(Bytes::new())
}

fn child_detach(call: &mut Call<'_>) -> Outcome {
    let (id, child): (u64, ChildImageSpec) = call.arg()?;
    let key = snap_key(PREFIX, id);
    let mut snap: Snapshot = need(call, &key)?;
    let children_key = snap_key(CHILDREN, id);
    let mut children: BTreeSet<ChildImageSpec> = load(call, &children_key)?.unwrap_or_default();
    if snap.child_count as usize != children.len() {
        return Err(Errno::EINVAL.into());
    }
    if !children.remove(&child) {
        return Err(Errno::ENOENT.into());
    }
    if children.is_empty() {
        erase_if_any(call, children_key)?;
    } else {
        store(call, children_key, &children);
    }
    snap.child_count = children.len() as u32;
    let last = children.is_empty();
    snapshots::write(call, key, snap)?;
    if last && !snapshots::all(call)?.iter().any(|s| s.id != id && s.child_count > 0) {
        set_op_features(call, 0, op_feature::CLONE_PARENT)?;
    }
    Ok(Bytes::new())
}

fn children_list(call: &mut Call<'_>) -> Outcome {
    let id: u64 = call.arg()?;
    need::<Snapshot>(call, &snap_key(PREFIX, id))?;
    let children: BTreeSet<ChildImageSpec> = need(call, &snap_key(CHILDREN, id))?;
    Ok(children.to_bytes())
}
