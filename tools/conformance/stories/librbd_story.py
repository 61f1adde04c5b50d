#!/usr/bin/python3
"""Tells what the stock librbd experiences, step by step, in a form that can be compared: one line a step, nothing in it that differs
from run to run. Run against a real cluster it makes the expected story; run against ours it must tell the same.

usage: librbd_story.py CEPH_CONF [CHAPTER...]
"""
import errno
import os
import re
import subprocess
import sys
import threading
import time

import rados
import rbd

conf = sys.argv[1]
MIB = 1 << 20
FEATURES = rbd.RBD_FEATURE_LAYERING | rbd.RBD_FEATURE_EXCLUSIVE_LOCK | rbd.RBD_FEATURE_OBJECT_MAP | rbd.RBD_FEATURE_FAST_DIFF | rbd.RBD_FEATURE_DEEP_FLATTEN
JOURNALED = rbd.RBD_FEATURE_LAYERING | rbd.RBD_FEATURE_EXCLUSIVE_LOCK | rbd.RBD_FEATURE_JOURNALING
NAMES = {}


def plain(value):
    """Without what differs from run to run: ids get numbers in the order in which they appear."""
    if isinstance(value, bytes):
        return f"{len(value)} bytes {value[:20]!r}{'...' if len(value) > 20 else ''}"
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if "time" not in k and k not in ("addr", "cookie", "global_id")}
    if isinstance(value, (list, tuple)):
        return type(value)(plain(v) for v in value)
    if isinstance(value, str):
        value = re.sub(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UUID", value)
        return re.sub(r"\b(?=[0-9a-f]*[a-f])[0-9a-f]{10,16}\b", lambda m: NAMES.setdefault(m[0], f"ID{len(NAMES)}"), value)
    return value


def tell(step, call):
    """Runs a step and tells its result or its error number."""
    try:
        print(f"{step}: {plain(call())!r}", flush=True)
    except (rbd.Error, rados.Error) as e:
        number = getattr(e, "errno", None)
        print(f"{step}: {type(e).__name__} {errno.errorcode.get(abs(number), number) if number is not None else ''}".rstrip(), flush=True)
    except Exception as e:
        print(f"{step}: {type(e).__name__}", flush=True)


def pattern(n, seed=0):
    tile = bytes((i * 7 + seed * 13 + (i >> 8)) % 251 for i in range(20011))
    return (tile * (n // len(tile) + 1))[:n]


def aio(start):
    """Starts an asynchronous operation with a callback and gives its result, and what the callback got."""
    done, got = threading.Event(), []

    def finished(completion, *rest):
        got.extend(rest)
        done.set()

    completion = start(finished)
    completion.wait_for_complete_and_cb()
    assert done.wait(30)
    return completion.get_return_value(), got


class Pool:
    def __init__(self, cluster, name):
        self.name, self.cluster = name, cluster
        if cluster.pool_exists(name):
            cluster.delete_pool(name)
        cluster.create_pool(name)
        self.io = cluster.open_ioctx(name)
        self.io.application_enable("rbd")
        self.rbd = rbd.RBD()
        self.rbd.pool_init(self.io, True)

    def create(self, name, size=8 * MIB, features=FEATURES, **more):
        self.rbd.create(self.io, name, size, 22, old_format=False, features=features, **more)

    def open(self, name=None, **more):
        return rbd.Image(self.io, name, **more)

    def left(self):
        """Objects that remain when snapshots that were removed are trimmed."""
        for _ in range(60):
            found = sorted(re.sub(r"\.[0-9a-f]{8,}", ".ID", o.key) for o in self.io.list_objects())
            if not any("rbd_data" in name for name in found):
                break
            time.sleep(0.25)
        return found


def creation(p, other):
    r = p.rbd
    tell("version", lambda: r.version())
    tell("pool init twice", lambda: r.pool_init(p.io, False))
    tell("list nothing", lambda: r.list(p.io))
    tell("create", lambda: r.create(p.io, "a", 10 * MIB))
    tell("create twice", lambda: r.create(p.io, "a", 10 * MIB))
    tell("create with order 0", lambda: r.create(p.io, "b", MIB, 0))
    tell("create with order 11", lambda: r.create(p.io, "c", MIB, 11))
    tell("create with order 26", lambda: r.create(p.io, "c", MIB, 26))
    tell("create with features that are not there", lambda: r.create(p.io, "c", MIB, 22, False, 1 << 40))
    tell("create with the old call", lambda: r.create(p.io, "old", MIB, 22, True, 0))
    tell("create with object map alone", lambda: r.create(p.io, "c", MIB, 22, False, rbd.RBD_FEATURE_OBJECT_MAP))
    tell("create with stripes", lambda: r.create(p.io, "s", 8 * MIB, 22, False, 0, 1 << 16, 4))
    tell("create with a wrong stripe", lambda: r.create(p.io, "c", 8 * MIB, 22, False, 0, 12345, 4))
    tell("create in a data pool", lambda: r.create(p.io, "d", 8 * MIB, 22, False, 0, data_pool=other.name))
    tell("create in a data pool that is not there", lambda: r.create(p.io, "c", 8 * MIB, 22, False, 0, data_pool="none"))
    tell("create with a negative order", lambda: r.create(p.io, "c", MIB, -1))
    tell("a name of 4096 bytes", lambda: r.create(p.io, "n" * 4096, MIB))
    tell("a name of 96 bytes", lambda: r.create(p.io, "n" * 96, MIB))
    tell("a name that is not ASCII", lambda: r.create(p.io, "n\u00e4me", MIB))
    tell("an empty name", lambda: r.create(p.io, "", MIB))
    tell("a huge image", lambda: r.create(p.io, "toohuge", 1 << 60))
    tell("a large image", lambda: r.create(p.io, "huge", 1 << 44))
    tell("stat of it", lambda: p.open("huge").stat()["num_objs"])
    tell("list", lambda: sorted(r.list(p.io)))
    tell("list2", lambda: sorted(i["name"] for i in r.list2(p.io)))
    tell("open nothing", lambda: p.open("none"))
    tell("open nothing read-only", lambda: p.open("none", read_only=True))
    tell("open an id that is not there", lambda: rbd.Image(p.io, image_id="123456789abc"))
    tell("remove nothing", lambda: r.remove(p.io, "none"))
    tell("rename", lambda: (r.rename(p.io, "b", "bb"), sorted(r.list(p.io))))
    tell("rename nothing", lambda: r.rename(p.io, "b", "c"))
    tell("rename onto another", lambda: r.rename(p.io, "a", "bb"))
    with p.open("a") as image:
        tell("stat", lambda: image.stat())
        tell("size, features, flags", lambda: (image.size(), image.features(), image.flags()))
        tell("stripes", lambda: (image.stripe_unit(), image.stripe_count()))
        tell("by id", lambda: rbd.Image(p.io, image_id=image.id()).get_name())
        tell("prefix", lambda: image.block_name_prefix())
        tell("data pool", lambda: image.data_pool_id() == p.io.get_pool_id())
        tell("op features, access time", lambda: (image.op_features(), image.access_timestamp() >= image.create_timestamp()))
        tell("parent", lambda: image.parent_info())
        tell("old format", lambda: image.old_format())
        tell("group", lambda: image.group())
        tell("remove while it is watched", lambda: r.remove(p.io, "a"))
    with p.open("d") as image:
        tell("data pool of d", lambda: image.data_pool_id() == other.io.get_pool_id())
        tell("write to d", lambda: image.write(pattern(5000), MIB))
        tell("its objects", lambda: (len(list(other.io.list_objects())), len([o for o in p.io.list_objects() if "data" in o.key])))
    image = p.open("a")
    image.close()
    tell("use after close", lambda: image.stat())
    tell("pool stats", lambda: r.pool_stats_get(p.io))
    tell("pool metadata", lambda: (r.pool_metadata_set(p.io, "k", "v"), r.pool_metadata_get(p.io, "k"), list(r.pool_metadata_list(p.io))))
    tell("pool metadata removed", lambda: (r.pool_metadata_remove(p.io, "k"), r.pool_metadata_get(p.io, "k")))
    tell("pool config", lambda: (r.pool_metadata_set(p.io, "conf_rbd_cache", "false"), [o for o in r.config_list(p.io) if o["name"] == "rbd_cache"], r.pool_metadata_remove(p.io, "conf_rbd_cache")))
    for name in r.list(p.io):
        tell(f"remove {name[:20]}", lambda: r.remove(p.io, name))
    tell("aio create and open", lambda: (p.create("x"), aio(lambda cb: r.aio_open_image(cb, p.io, "x"))[0]))


def data(p, other):
    p.create("img")
    image = p.open("img")
    tell("read nothing written", lambda: image.read(0, 20))
    tell("write", lambda: (image.write(pattern(1000), 0), image.read(0, 1000) == pattern(1000)))
    tell("write over an object's edge", lambda: (image.write(pattern(9000, 1), 4 * MIB - 4000), image.read(4 * MIB - 4000, 9000) == pattern(9000, 1)))
    tell("read up to the end", lambda: len(image.read(8 * MIB - 100, 200)))
    tell("read beyond the end", lambda: image.read(8 * MIB + 1, 10))
    tell("write beyond the end", lambda: image.write(b"x" * 10, 8 * MIB + 1))
    tell("write over the end", lambda: (image.write(b"x" * 200, 8 * MIB - 100), image.read(8 * MIB - 2, 2)))
    tell("discard over the end", lambda: image.discard(8 * MIB - 100, 200))
    tell("discard beyond the end", lambda: image.discard(9 * MIB, 200))
    tell("discard a part", lambda: (image.write(pattern(1 << 17, 4), 0), image.discard(0, 1 << 16), image.read(0, 1 << 16).count(0)))
    tell("discard an object", lambda: (image.discard(0, 4 * MIB), image.read(0, 4 * MIB - 4000).count(0)))
    tell("write zeroes", lambda: (image.write(pattern(20000), 0), image.write_zeroes(5000, 10000), image.read(0, 20000) == pattern(20000)[:5000] + bytes(10000) + pattern(20000)[15000:]))
    tell("write zeroes beyond", lambda: image.write_zeroes(9 * MIB, 1000))
    tell("fadvise", lambda: (image.write(b"abc", 0, rados.LIBRADOS_OP_FLAG_FADVISE_NOCACHE), image.read(0, 3, rados.LIBRADOS_OP_FLAG_FADVISE_SEQUENTIAL)))
    tell("flush", lambda: image.flush())
    tell("invalidate the cache", lambda: image.invalidate_cache())
    tell("aio write", lambda: aio(lambda cb: image.aio_write(pattern(5000, 3), 100, cb)))
    tell("aio read", lambda: aio(lambda cb: image.aio_read(100, 20, cb)))
    tell("aio read beyond", lambda: aio(lambda cb: image.aio_read(9 * MIB, 20, cb)))
    tell("aio discard", lambda: aio(lambda cb: image.aio_discard(0, 1 << 16, cb)))
    tell("aio zeroes", lambda: aio(lambda cb: image.aio_write_zeroes(0, 1 << 16, cb)))
    tell("aio flush", lambda: aio(lambda cb: image.aio_flush(cb)))
    tell("resize up", lambda: (image.resize(16 * MIB), image.size(), image.read(15 * MIB, 4)))
    tell("resize down", lambda: (image.resize(5 * MIB), image.size()))
    tell("resize down is not allowed", lambda: image.resize(MIB, allow_shrink=False))
    tell("read after the cut", lambda: (image.resize(8 * MIB), image.read(5 * MIB, MIB).count(0)))
    tell("resize to nothing", lambda: (image.resize(0), image.size(), image.read(0, 1)))
    tell("objects after that", lambda: [o for o in p.left() if "rbd_data" in o])
    tell("resize again", lambda: (image.resize(8 * MIB), image.write(pattern(3 * MIB, 5), MIB)))
    extents = []
    tell("diff", lambda: (image.diff_iterate(0, 8 * MIB, None, lambda *e: extents.append(e)), extents[0][0], sum(e[1] for e in extents), all(e[2] for e in extents)))
    extents.clear()
    tell("diff by objects", lambda: (image.diff_iterate(0, 8 * MIB, None, lambda *e: extents.append(e), True, True), extents))
    tell("diff beyond", lambda: image.diff_iterate(0, 9 * MIB, None, lambda *e: None))
    tell("diff ended by the caller", lambda: image.diff_iterate(0, 8 * MIB, None, lambda *e: 1 // 0))
    tell("metadata", lambda: (image.metadata_set("k1", "v1"), image.metadata_set("k2", "v\u00e42"), image.metadata_get("k1"), sorted(k for k, _ in image.metadata_list())))
    tell("metadata removed", lambda: (image.metadata_remove("k1"), image.metadata_get("k1")))
    tell("metadata removed twice", lambda: image.metadata_remove("k1"))
    tell("metadata, many", lambda: ([image.metadata_set(f"m{i:04}", "x" * i) for i in range(150)] and len(list(image.metadata_list()))))
    tell("configuration of the image", lambda: (image.metadata_set("conf_rbd_cache", "false"), [o for o in image.config_list() if o["name"] == "rbd_cache"]))
    tell("a configuration that is none", lambda: image.config_set("rbd_nothing", "1"))
    tell("sparsify", lambda: (image.write(bytes(4 * MIB), 0), image.sparsify(16384), image.read(0, 4 * MIB).count(0)))
    tell("sparsify by an odd size", lambda: image.sparsify(16))
    tell("watchers", lambda: len(list(image.watchers_list())))
    tell("copy", lambda: (image.copy(p.io, "copy"), p.open("copy").read(MIB, 20) == image.read(MIB, 20)))
    tell("copy twice", lambda: image.copy(p.io, "copy"))
    tell("copy elsewhere with features", lambda: (image.copy(other.io, "copy", 1, 24), other.open("copy").stat()["order"], other.open("copy").features()))
    tell("deep copy", lambda: (image.deep_copy(p.io, "deep", FEATURES, 22, 0, 0)))
    tell("old resize of a read-only image", lambda: p.open("img", read_only=True).resize(MIB))
    tell("write to a read-only image", lambda: p.open("img", read_only=True).write(b"x", 0))
    image.close()
    tell("striped image", lambda: striped(p))
    tell("rebuild the object map", lambda: rebuild(p))
    tell("what remains", lambda: ([p.rbd.remove(p.io, name) for name in p.rbd.list(p.io)], p.left()))


def striped(p):
    p.create("striped", 16 * MIB, 0, stripe_unit=1 << 16, stripe_count=3)
    with p.open("striped") as image:
        content = pattern(3 * MIB, 9)
        image.write(content, 777)
        extents = []
        image.diff_iterate(0, 16 * MIB, None, lambda *e: extents.append(e))
        return image.read(777, len(content)) == content, sum(e[1] for e in extents) >= len(content)


def rebuild(p):
    with p.open("img") as image:
        image.rebuild_object_map()
        return image.flags()


def snapshots(p, other):
    p.create("img")
    image = p.open("img")
    tell("no snapshots", lambda: list(image.list_snaps()))
    tell("create", lambda: (image.write(pattern(4096, 1), 0), image.create_snap("s1")))
    tell("create twice", lambda: image.create_snap("s1"))
    tell("write and create", lambda: (image.write(pattern(4096, 2), 0), image.create_snap("s2"), image.write(pattern(4096, 3), 4 * MIB), image.create_snap("s3")))
    tell("list", lambda: [(s["name"], s["size"]) for s in image.list_snaps()])
    tell("namespaces", lambda: [image.snap_get_namespace_type(s["id"]) for s in image.list_snaps()])
    tell("exists", lambda: (image.snap_exists("s1"), image.snap_exists("none")))
    tell("id and name", lambda: image.snap_get_name(image.snap_get_id("s3")))
    tell("name of no id", lambda: image.snap_get_name(12345))
    tell("id of no name", lambda: image.snap_get_id("none"))
    tell("times", lambda: image.get_snap_timestamp(image.snap_get_id("s1")) <= image.get_snap_timestamp(image.snap_get_id("s3")))
    with p.open("img", snapshot="s1") as at:
        tell("read at a snapshot", lambda: at.read(0, 4096) == pattern(4096, 1))
        tell("write at a snapshot", lambda: at.write(b"x", 0))
        tell("resize at a snapshot", lambda: at.resize(0))
        tell("remove the snapshot that is open", lambda: (image.remove_snap("s1"), at.read(0, 10)))
        tell("stat of the removed", lambda: at.stat()["size"])
    tell("open at one that is not there", lambda: p.open("img", snapshot="s1"))
    tell("create again, read", lambda: (image.create_snap("s1"), p.open("img", snapshot="s1").read(0, 4096) == pattern(4096, 2)))
    tell("set snap", lambda: (image.set_snap("s2"), image.read(4 * MIB, 10), image.set_snap(None), image.read(4 * MIB, 4)))
    tell("set snap by id", lambda: (image.set_snap_by_id(image.snap_get_id("s2")), image.read(0, 10), image.set_snap_by_id(None)))
    tell("set snap that is not there", lambda: image.set_snap("none"))
    tell("rename", lambda: (image.rename_snap("s3", "s4"), sorted(s["name"] for s in image.list_snaps())))
    tell("rename onto another", lambda: image.rename_snap("s4", "s2"))
    tell("rename nothing", lambda: image.rename_snap("none", "s5"))
    tell("protect", lambda: (image.is_protected_snap("s2"), image.protect_snap("s2"), image.is_protected_snap("s2")))
    tell("protect twice", lambda: image.protect_snap("s2"))
    tell("protect nothing", lambda: image.protect_snap("none"))
    tell("remove a protected one", lambda: image.remove_snap("s2"))
    tell("unprotect", lambda: (image.unprotect_snap("s2"), image.is_protected_snap("s2")))
    tell("unprotect twice", lambda: image.unprotect_snap("s2"))
    tell("unprotect nothing", lambda: image.unprotect_snap("none"))
    tell("limit", lambda: (image.get_snap_limit() > 1 << 60, image.set_snap_limit(3), image.get_snap_limit()))
    tell("over the limit", lambda: image.create_snap("s6"))
    tell("no limit", lambda: (image.remove_snap_limit(), image.create_snap("s6"), image.remove_snap("s6")))
    tell("diff from a snapshot", lambda: diff(image, "s2"))
    tell("diff from the first", lambda: diff(image, "s1"))
    tell("diff from nothing", lambda: diff(image, "none"))
    tell("roll back", lambda: (image.rollback_to_snap("s2"), image.read(0, 4096) == pattern(4096, 2), image.read(4 * MIB, 4)))
    tell("roll back to nothing", lambda: image.rollback_to_snap("none"))
    tell("roll back after a cut", lambda: (image.resize(MIB), image.rollback_to_snap("s4"), image.size(), image.read(4 * MIB, 4096) == pattern(4096, 3)))
    tell("roll back after growth", lambda: (image.resize(24 * MIB), image.write(b"far", 20 * MIB), image.rollback_to_snap("s4"), image.size()))
    tell("roll back after a discard", lambda: (image.discard(0, 8 * MIB), image.rollback_to_snap("s4"), image.read(0, 4096) == pattern(4096, 2)))
    tell("remove an image with snapshots", lambda: (image.close(), p.rbd.remove(p.io, "img")))
    image = p.open("img")
    tell("remove nothing", lambda: image.remove_snap("none"))
    tell("remove by id", lambda: image.remove_snap_by_id(image.snap_get_id("s4")))
    tell("many", lambda: ([image.create_snap(f"many{i}") for i in range(30)] and len(list(image.list_snaps()))))
    tell("remove all", lambda: ([image.remove_snap(s["name"]) for s in image.list_snaps()] and len(list(image.list_snaps()))))
    tell("sparse snapshots", lambda: sparse_snapshots(image))
    image.close()
    tell("remove", lambda: (p.rbd.remove(p.io, "img"), p.left()))


def diff(image, since):
    extents = []
    image.diff_iterate(0, image.size(), since, lambda *e: extents.append(e))
    return extents


def sparse_snapshots(image):
    """Objects that exist at some snapshots only."""
    seen = []
    image.resize(0), image.resize(8 * MIB)
    for name, act in [("n0", lambda: None), ("n1", lambda: image.write(b"one", 0)), ("n2", lambda: image.discard(0, 4 * MIB)), ("n3", lambda: image.write(b"three", 100))]:
        act()
        image.create_snap(name)
    for name in ["n0", "n1", "n2", "n3"]:
        image.set_snap(name)
        seen.append(image.read(0, 105).replace(b"\0", b"."))
    image.set_snap(None)
    for name in ["n2", "n1", "n0", "n3"]:
        image.rollback_to_snap(name)
        seen.append(image.read(0, 105).strip(b"\0"))
    for name in ["n0", "n1", "n2", "n3"]:
        image.remove_snap(name)
    return [s.decode() for s in seen]


def clones(p, other):
    p.create("parent", features=rbd.RBD_FEATURE_LAYERING)
    with p.open("parent") as image:
        image.write(pattern(6 * MIB, 1), 0)
        image.create_snap("s")
        tell("clone of an unprotected snapshot", lambda: p.rbd.clone(p.io, "parent", "s", p.io, "c", FEATURES))
        image.protect_snap("s")
        tell("clone", lambda: p.rbd.clone(p.io, "parent", "s", p.io, "c", FEATURES))
        tell("clone twice", lambda: p.rbd.clone(p.io, "parent", "s", p.io, "c", FEATURES))
        tell("clone of no snapshot", lambda: p.rbd.clone(p.io, "parent", "none", p.io, "c1", FEATURES))
        tell("clone elsewhere", lambda: p.rbd.clone(p.io, "parent", "s", other.io, "c", FEATURES))
        tell("clone without layering", lambda: p.rbd.clone(p.io, "parent", "s", p.io, "c1", 0))
        p.cluster.conf_set("rbd_default_clone_format", "2")
        tell("clone in format 2", lambda: p.rbd.clone(p.io, "parent", "s", p.io, "c2", FEATURES))
        p.cluster.conf_set("rbd_default_clone_format", "auto")
        tell("clone with order 24", lambda: p.rbd.clone(p.io, "parent", "s", p.io, "c3", FEATURES, 24))
        tell("children", lambda: (image.set_snap("s"), sorted(image.list_children()), image.set_snap(None)))
        tell("children2", lambda: sorted((c["pool"], c["image"], c["trash"]) for c in image.list_children2()))
        tell("descendants", lambda: sorted((c["pool"], c["image"]) for c in image.list_descendants()))
        tell("remove the snapshot", lambda: image.remove_snap("s"))
        tell("unprotect it", lambda: image.unprotect_snap("s"))
    clone = p.open("c")
    tell("parent", lambda: clone.parent_info())
    tell("parent's image", lambda: {k: v for k, v in clone.get_parent_image_spec().items() if k not in ("snap_id",)})
    tell("overlap", lambda: clone.overlap())
    tell("read through", lambda: clone.read(0, 6 * MIB) == pattern(6 * MIB, 1))
    tell("write and read", lambda: (clone.write(b"new", 100), clone.read(99, 5) == pattern(6 * MIB, 1)[99:100] + b"new" + pattern(6 * MIB, 1)[103:104]))
    tell("read from an object that was not written", lambda: clone.read(5 * MIB, 16) == pattern(6 * MIB, 1)[5 * MIB:5 * MIB + 16])
    tell("discard in a clone", lambda: (clone.discard(4 * MIB, 1 << 16), clone.read(4 * MIB, 1 << 16).count(0)))
    tell("diff in a clone", lambda: sum(e[1] for e in diff(clone, None)))
    tell("cut and grow", lambda: (clone.resize(3 * MIB), clone.overlap(), clone.resize(8 * MIB), clone.overlap(), clone.read(3 * MIB, 2 * MIB).count(0)))
    tell("snapshot of a clone", lambda: (clone.create_snap("t"), clone.write(b"later", 0), p.open("c", snapshot="t").read(0, 5) == pattern(5, 1)))
    tell("clone of a clone", lambda: (clone.protect_snap("t"), p.rbd.clone(p.io, "c", "t", p.io, "cc", FEATURES), p.open("cc").read(0, 3 * MIB) == clone_content()))
    tell("flatten", lambda: (clone.flatten(), clone.read(5, 1000) == clone_content(b"later")[5:1005]))
    tell("parent after that", lambda: clone.parent_info())
    tell("flatten twice", lambda: clone.flatten())
    tell("grandchild still", lambda: p.open("cc").read(0, 3 * MIB) == clone_content())
    tell("flatten the grandchild", lambda: (p.open("cc").flatten(), p.open("cc").read(0, 3 * MIB) == clone_content()))
    tell("remove the parent", lambda: p.rbd.remove(p.io, "parent"))
    tell("copy of a clone", lambda: (p.open("c2").copy(p.io, "c4"), p.open("c4").read(0, 6 * MIB) == pattern(6 * MIB, 1)))
    tell("deep copy of a clone", lambda: (p.open("c2").deep_copy(p.io, "c5", FEATURES, 22, 0, 0), p.open("c5").parent_info(), p.open("c5").read(0, 6 * MIB) == pattern(6 * MIB, 1)))
    clone.unprotect_snap("t"), clone.remove_snap("t"), clone.close()
    for name in ["cc", "c", "c2", "c3", "c4", "c5"]:
        p.rbd.remove(p.io, name)
    other.rbd.remove(other.io, "c")
    with p.open("parent") as image:
        tell("no children", lambda: list(image.list_children2()))
        tell("unprotect, remove", lambda: (image.unprotect_snap("s"), image.remove_snap("s")))
    tell("remove all", lambda: (p.rbd.remove(p.io, "parent"), p.left(), other.left()))


def clone_content(start=b""):
    whole = bytearray(pattern(6 * MIB, 1)[:3 * MIB])
    whole[100:103] = b"new"
    whole[:len(start)] = start
    return bytes(whole)


def locks(p, other):
    p.create("img")
    image, second = p.open("img"), p.open("img")
    tell("no lockers", lambda: image.list_lockers())
    tell("lock", lambda: (image.lock_exclusive("mine"), [l[1] for l in image.list_lockers()["lockers"]]))
    tell("lock again", lambda: image.lock_exclusive("mine"))
    tell("lock otherwise", lambda: image.lock_exclusive("other"))
    tell("lock shared", lambda: image.lock_shared("mine", "tag"))
    tell("unlock", lambda: image.unlock("mine"))
    tell("unlock twice", lambda: image.unlock("mine"))
    tell("shared", lambda: (image.lock_shared("a", "tag"), second.lock_shared("b", "tag"), len(image.list_lockers()["lockers"]), image.list_lockers()["tag"], image.list_lockers()["exclusive"]))
    tell("shared with another tag", lambda: image.lock_shared("c", "tug"))
    tell("unlock both", lambda: (image.unlock("a"), second.unlock("b")))
    tell("break nobody's lock", lambda: image.break_lock("client.1", "a"))
    tell("owner", lambda: (image.is_exclusive_lock_owner(), image.write(b"x", 0), image.is_exclusive_lock_owner()))
    tell("second writes, first loses it", lambda: (second.write(b"y", 0), second.is_exclusive_lock_owner(), image.is_exclusive_lock_owner()))
    tell("acquire", lambda: (image.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE), image.is_exclusive_lock_owner()))
    tell("owners", lambda: [o["mode"] for o in image.lock_get_owners()])
    tell("acquire by the second", lambda: second.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE))
    tell("write by the second", lambda: second.write(b"z", 0))
    tell("release", lambda: (image.lock_release(), image.is_exclusive_lock_owner()))
    image.close(), second.close()
    image, second = p.open("img"), p.open("img")
    tell("the owner is asked", lambda: (image.write(b"x", 0), second.create_snap("by second"), second.is_exclusive_lock_owner(), [s["name"] for s in image.list_snaps()]))
    tell("the owner resizes for the second", lambda: (second.resize(MIB), second.is_exclusive_lock_owner(), image.size()))
    tell("and rebuilds and flattens", lambda: second.flatten())
    tell("and renames", lambda: (second.rename_snap("by second", "new"), image.rename_snap("new", "newer"), [s["name"] for s in second.list_snaps()]))
    tell("follower removes the snapshot", lambda: (second.remove_snap("newer"), list(image.list_snaps())))
    image.close(), second.close()
    tell("features", lambda: features(p))
    tell("a dead owner", lambda: dead_owner(p))
    tell("a watch of a dead client", lambda: dead_watch(p))


def features(p):
    """Each feature off and on."""
    with p.open("img") as image:
        seen = [image.features()]
        for enabled in (False, True):
            for bits in [rbd.RBD_FEATURE_FAST_DIFF | rbd.RBD_FEATURE_OBJECT_MAP, rbd.RBD_FEATURE_EXCLUSIVE_LOCK][:: -1 if enabled else 1]:
                image.update_features(bits, enabled)
                seen.append((image.features(), image.flags()))
        for bits, enabled in [(0, True), (rbd.RBD_FEATURE_LAYERING, False), (rbd.RBD_FEATURE_DEEP_FLATTEN, True), (1 << 50, True)]:
            try:
                image.update_features(bits, enabled)
                seen.append("done")
            except rbd.Error as e:
                seen.append(type(e).__name__)
        return seen


DIES = """
import os, sys, rados, rbd
c = rados.Rados(conffile=sys.argv[1], rados_id='admin'); c.connect()
i = rbd.Image(c.open_ioctx(sys.argv[2]), 'img')
i.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE) if sys.argv[3] == 'lock' else None
i.write(b'from the dead', 0) if sys.argv[3] == 'lock' else None
print('ready', flush=True)
sys.stdin.read()
"""


def victim(p, what):
    child = subprocess.Popen([sys.executable, "-c", DIES, conf, p.name, what], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"ready\n"
    return child


def dead_owner(p):
    """A client dies with the exclusive lock; another breaks the lock, and the dead one is on the blocklist."""
    child = victim(p, "lock")
    with p.open("img") as image:
        owners = list(image.lock_get_owners())
        child.kill(), child.wait()
        image.lock_break(rbd.RBD_LOCK_MODE_EXCLUSIVE, owners[0]["owner"])
        listed = subprocess.run(["ceph", "-c", conf, "osd", "blocklist", "ls"], capture_output=True, text=True).stdout
        image.write(b"alive", 0)
        return len(owners), len(listed.split("\n")) > 1, image.read(0, 13), list(image.list_lockers()["lockers"])[0][1][:4]


def dead_watch(p):
    """The watch of a client that was killed ends after half a minute, and the image can be removed."""
    child = victim(p, "watch")
    child.kill(), child.wait()
    started, first = time.monotonic(), None
    while time.monotonic() - started < 60:
        try:
            p.rbd.remove(p.io, "img")
            return first, 15 < time.monotonic() - started < 50
        except rbd.Error as e:
            first = type(e).__name__
            time.sleep(1)
    return "never"


def journals(p, other):
    tell("create", lambda: p.create("j", features=JOURNALED))
    with p.open("j") as image:
        tell("write", lambda: (image.write(pattern(100000, 1), 0), image.read(0, 100000) == pattern(100000, 1)))
        tell("aio writes", lambda: [aio(lambda cb: image.aio_write(pattern(1000, i), i * 1000, cb))[0] for i in range(20)].count(0))
        tell("snapshots", lambda: (image.create_snap("s"), image.rename_snap("s", "t"), image.protect_snap("t"), image.unprotect_snap("t"), image.remove_snap("t")))
        tell("resize, metadata", lambda: (image.resize(MIB), image.metadata_set("a", "b"), image.metadata_remove("a")))
        tell("discard, zeroes, flush", lambda: (image.discard(0, 1 << 16), image.write_zeroes(0, 1 << 16), image.flush()))
    with p.open("j") as image:
        tell("journaling off and on", lambda: (image.update_features(rbd.RBD_FEATURE_JOURNALING, False), image.features(), image.update_features(rbd.RBD_FEATURE_JOURNALING, True), image.features()))
    tell("objects", lambda: sorted({o.key.split(".")[0] for o in p.io.list_objects() if "journal" in o.key}))
    tell("a crash with entries in the journal", lambda: replay(p))
    tell("remove", lambda: (p.rbd.remove(p.io, "j"), p.left()))


WRITES = """
import os, sys, rados, rbd
c = rados.Rados(conffile=sys.argv[1], rados_id='admin'); c.connect()
i = rbd.Image(c.open_ioctx(sys.argv[2]), 'j')
for n in range(200): i.write(bytes([n]) * 512, n * 512)
print('ready', flush=True)
os.kill(os.getpid(), 9)
"""


def replay(p):
    child = subprocess.run([sys.executable, "-c", WRITES, conf, p.name], capture_output=True)
    with p.open("j") as image:
        image.write(b"after", 200 * 512)
        return child.returncode, all(image.read(n * 512, 512) == bytes([n]) * 512 for n in range(200)), image.read(200 * 512, 5)


def trash(p, other):
    r = p.rbd
    p.create("t")
    tell("move", lambda: (r.trash_move(p.io, "t", 0), r.list(p.io), [(i["name"], i["source"]) for i in r.trash_list(p.io)]))
    ident = list(r.trash_list(p.io))[0]["id"]
    tell("get", lambda: {k: v for k, v in r.trash_get(p.io, ident).items() if k != "id"})
    tell("open by name", lambda: p.open("t"))
    tell("open by id", lambda: p.open(image_id=ident).get_name())
    tell("move twice", lambda: r.trash_move(p.io, "t", 0))
    tell("restore", lambda: (r.trash_restore(p.io, ident, "back"), r.list(p.io), list(r.trash_list(p.io))))
    tell("restore nothing", lambda: r.trash_restore(p.io, ident, "back"))
    tell("move with deferment", lambda: r.trash_move(p.io, "back", 1000))
    tell("remove too early", lambda: r.trash_remove(p.io, ident))
    tell("restore onto another", lambda: (p.create("other"), r.trash_restore(p.io, ident, "other")))
    tell("remove by force", lambda: (r.trash_remove(p.io, ident, True), list(r.trash_list(p.io))))
    tell("remove nothing", lambda: r.trash_remove(p.io, ident))
    tell("get nothing", lambda: r.trash_get(p.io, ident))
    with p.open("other") as image:
        image.create_snap("s")
    tell("one with snapshots", lambda: (r.trash_move(p.io, "other", 0), r.trash_remove(p.io, list(r.trash_list(p.io))[0]["id"])))
    tell("purge", lambda: (r.trash_purge(p.io), len(list(r.trash_list(p.io)))))
    ident = list(r.trash_list(p.io))[0]["id"]
    with rbd.Image(p.io, image_id=ident) as image:
        image.remove_snap("s")
    tell("purge again", lambda: (r.trash_purge(p.io), len(list(r.trash_list(p.io))), p.left()))


def groups(p, other):
    r = p.rbd
    p.create("i1"), p.create("i2"), other.create("i3")
    tell("create", lambda: (r.group_create(p.io, "g"), r.group_list(p.io)))
    tell("create twice", lambda: r.group_create(p.io, "g"))
    tell("rename", lambda: (r.group_rename(p.io, "g", "h"), r.group_list(p.io), r.group_rename(p.io, "h", "g")))
    tell("rename nothing", lambda: r.group_rename(p.io, "none", "h"))
    g = rbd.Group(p.io, "g")
    tell("add", lambda: (g.add_image(p.io, "i1"), g.add_image(other.io, "i3"), sorted((i["name"], i["state"]) for i in g.list_images())))
    tell("add twice", lambda: g.add_image(p.io, "i1"))
    tell("add nothing", lambda: g.add_image(p.io, "none"))
    tell("group of the image", lambda: p.open("i1").group()["name"])
    tell("remove a grouped image", lambda: r.remove(p.io, "i1"))
    tell("in two groups", lambda: (r.group_create(p.io, "g2"), rbd.Group(p.io, "g2").add_image(p.io, "i1")))
    with p.open("i1") as image:
        image.write(b"before", 0)
    tell("snapshot", lambda: (g.create_snap("s"), [(s["name"], s["state"]) for s in g.list_snaps()]))
    tell("snapshot twice", lambda: g.create_snap("s"))
    tell("in the image", lambda: [(s["namespace"], "group" in s) for s in p.open("i1").list_snaps()])
    tell("remove it from the image", lambda: p.open("i1").remove_snap([s["name"] for s in p.open("i1").list_snaps()][0]))
    tell("rename the snapshot", lambda: (g.rename_snap("s", "t"), [s["name"] for s in g.list_snaps()]))
    with p.open("i1") as image:
        image.write(b"behind", 0)
    tell("roll back", lambda: (g.rollback_to_snap("t"), p.open("i1").read(0, 6)))
    tell("roll back to nothing", lambda: g.rollback_to_snap("none"))
    tell("remove the snapshot", lambda: (g.remove_snap("t"), list(g.list_snaps()), list(p.open("i1").list_snaps())))
    tell("remove nothing", lambda: g.remove_snap("t"))
    tell("many", lambda: ([g.create_snap(f"n{i}") for i in range(5)], len(list(g.list_snaps())), [g.remove_snap(f"n{i}") for i in range(5)]))
    tell("take out", lambda: (g.remove_image(p.io, "i1"), sorted(i["name"] for i in g.list_images())))
    tell("take out twice", lambda: g.remove_image(p.io, "i1"))
    tell("take out nothing", lambda: g.remove_image(p.io, "none"))
    tell("remove the group", lambda: (r.group_remove(p.io, "g"), r.group_list(p.io)))
    tell("the image is free", lambda: other.open("i3").group())
    tell("remove all", lambda: (r.group_remove(p.io, "g2"), r.remove(p.io, "i1"), r.remove(p.io, "i2"), r.remove(other.io, "i3"), p.left(), other.left()))


def namespaces(p, other):
    r = p.rbd
    tell("none", lambda: r.namespace_list(p.io))
    tell("create", lambda: (r.namespace_create(p.io, "a"), r.namespace_create(p.io, "b"), r.namespace_list(p.io)))
    tell("create twice", lambda: r.namespace_create(p.io, "a"))
    tell("create without a name", lambda: r.namespace_create(p.io, ""))
    tell("exists", lambda: (r.namespace_exists(p.io, "a"), r.namespace_exists(p.io, "c")))
    p.io.set_namespace("a")
    tell("an image in it", lambda: (p.create("img"), r.list(p.io)))
    p.io.set_namespace("c")
    tell("an image in none", lambda: p.create("img"))
    p.io.set_namespace("")
    tell("not outside", lambda: r.list(p.io))
    tell("remove a used one", lambda: r.namespace_remove(p.io, "a"))
    p.io.set_namespace("a")
    r.remove(p.io, "img")
    p.io.set_namespace("")
    tell("remove", lambda: (r.namespace_remove(p.io, "a"), r.namespace_list(p.io)))
    tell("remove nothing", lambda: r.namespace_remove(p.io, "a"))


def migration(p, other):
    r = p.rbd
    p.create("img")
    with p.open("img") as image:
        image.write(pattern(5 * MIB, 1), 0)
        image.create_snap("s")
        image.write(b"later", 0)
    tell("prepare", lambda: r.migration_prepare(p.io, "img", other.io, "moved", features=FEATURES))
    tell("status", lambda: {k: v for k, v in r.migration_status(other.io, "moved").items() if "pool_id" not in k})
    tell("source", lambda: (r.list(p.io), r.list(other.io)))
    tell("read before it is moved", lambda: other.open("moved").read(0, 5 * MIB) == b"later" + pattern(5 * MIB, 1)[5:])
    tell("write meanwhile", lambda: other.open("moved").write(b"meanwhile", 10))
    tell("commit too early", lambda: r.migration_commit(p.io, "img"))
    tell("execute", lambda: r.migration_execute(p.io, "img"))
    tell("commit", lambda: (r.migration_commit(p.io, "img"), r.list(p.io), r.list(other.io)))
    tell("content", lambda: (other.open("moved").read(0, 19), other.open("moved", snapshot="s").read(0, 20) == pattern(20, 1)))
    tell("status after that", lambda: r.migration_status(other.io, "moved"))
    tell("prepare, abort", lambda: (r.migration_prepare(other.io, "moved", p.io, "img"), r.migration_abort(other.io, "moved"), r.list(p.io), r.list(other.io)))
    tell("content still", lambda: other.open("moved").read(0, 19))
    with other.open("moved") as image:
        image.remove_snap("s")
    tell("remove all", lambda: (r.remove(other.io, "moved"), p.left(), other.left()))


def mirroring(p, other):
    r = p.rbd
    tell("mode", lambda: r.mirror_mode_get(p.io))
    tell("mode image", lambda: (r.mirror_mode_set(p.io, rbd.RBD_MIRROR_MODE_IMAGE), r.mirror_mode_get(p.io)))
    tell("site name", lambda: (r.mirror_site_name_set(p.cluster, "here"), r.mirror_site_name_get(p.cluster)))
    tell("uuid", lambda: len(r.mirror_uuid_get(p.io)))
    tell("peers", lambda: list(r.mirror_peer_list(p.io)))
    peer = []
    tell("add a peer", lambda: (peer.append(r.mirror_peer_add(p.io, "there", "client.there")), len(list(r.mirror_peer_list(p.io)))))
    tell("change it", lambda: (r.mirror_peer_set_name(p.io, peer[0], "elsewhere"), r.mirror_peer_set_client(p.io, peer[0], "client.x"), r.mirror_peer_set_attributes(p.io, peer[0], {"mon_host": "1.2.3.4", "key": "k"})))
    tell("peer now", lambda: [(e["site_name"], e["client_name"]) for e in r.mirror_peer_list(p.io)])
    tell("attributes", lambda: r.mirror_peer_get_attributes(p.io, peer[0]))
    tell("add it twice", lambda: r.mirror_peer_add(p.io, "elsewhere", "client.x"))
    p.create("j", features=FEATURES | rbd.RBD_FEATURE_JOURNALING), p.create("s")
    with p.open("j") as image:
        tell("not enabled", lambda: image.mirror_image_get_info())
        tell("enable with a journal", lambda: (image.mirror_image_enable(rbd.RBD_MIRROR_IMAGE_MODE_JOURNAL), image.mirror_image_get_mode()))
        tell("info", lambda: {k: v for k, v in image.mirror_image_get_info().items() if k != "global_id"})
        tell("status", lambda: {k: v for k, v in image.mirror_image_get_status().items() if k in ("name", "state", "up")})
        tell("demote", lambda: (image.mirror_image_demote(), image.mirror_image_get_info()["primary"]))
        tell("write when demoted", lambda: image.write(b"x", 0))
        tell("resync", lambda: image.mirror_image_resync())
        tell("promote", lambda: (image.mirror_image_promote(True), image.mirror_image_get_info()["primary"], image.write(b"x", 0)))
        tell("promote twice", lambda: image.mirror_image_promote(False))
        tell("snapshot of a journaled one", lambda: image.mirror_image_create_snapshot())
        tell("disable", lambda: image.mirror_image_disable(False))
    with p.open("s") as image:
        tell("enable with snapshots", lambda: (image.mirror_image_enable(rbd.RBD_MIRROR_IMAGE_MODE_SNAPSHOT), image.mirror_image_get_mode()))
        tell("its snapshots", lambda: [(s["namespace"], s["mirror"]["state"], s["mirror"]["complete"], len(s["mirror"]["mirror_peer_uuids"])) for s in image.list_snaps()])
        tell("another", lambda: (image.mirror_image_create_snapshot() > 0, len(list(image.list_snaps()))))
        tell("many", lambda: ([image.mirror_image_create_snapshot() for _ in range(6)] and len(list(image.list_snaps()))))
        tell("demote, promote", lambda: (image.mirror_image_demote(), image.mirror_image_get_info()["primary"], image.mirror_image_promote(False), image.mirror_image_get_info()["primary"]))
        tell("list", lambda: len(list(r.mirror_image_info_list(p.io))))
        tell("status list", lambda: [s["name"] for s in r.mirror_image_status_list(p.io)])
        tell("summary", lambda: r.mirror_image_status_summary(p.io))
        tell("instances", lambda: list(r.mirror_image_instance_id_list(p.io)))
        tell("mode disabled while images are", lambda: r.mirror_mode_set(p.io, rbd.RBD_MIRROR_MODE_DISABLED))
        tell("disable", lambda: (image.mirror_image_disable(True), list(image.list_snaps())))
    tell("remove the peer", lambda: (r.mirror_peer_remove(p.io, peer[0]), list(r.mirror_peer_list(p.io))))
    tell("mode pool", lambda: (r.mirror_mode_set(p.io, rbd.RBD_MIRROR_MODE_POOL), p.open("j").mirror_image_get_info()["state"]))
    tell("mode disabled", lambda: (r.mirror_mode_set(p.io, rbd.RBD_MIRROR_MODE_DISABLED), p.open("j").mirror_image_get_info()["state"]))
    tell("remove all", lambda: (r.remove(p.io, "j"), r.remove(p.io, "s"), p.left()))


def encryption(p, other):
    p.create("luks", 32 * MIB)
    with p.open("luks") as image:
        tell("format", lambda: (image.encryption_format(rbd.RBD_ENCRYPTION_FORMAT_LUKS2, "secret"), image.size() < 32 * MIB))
        tell("write", lambda: (image.write(pattern(5000, 1), 1000), image.read(1000, 5000) == pattern(5000, 1)))
    with p.open("luks") as image:
        tell("raw", lambda: (image.read(0, 4), image.size()))
        tell("load with a wrong word", lambda: image.encryption_load(rbd.RBD_ENCRYPTION_FORMAT_LUKS2, "wrong"))
        tell("load as luks1", lambda: image.encryption_load(rbd.RBD_ENCRYPTION_FORMAT_LUKS1, "secret"))
        tell("load", lambda: (image.encryption_load(rbd.RBD_ENCRYPTION_FORMAT_LUKS2, "secret"), image.read(1000, 5000) == pattern(5000, 1)))
    p.create("plain", 32 * MIB)
    with p.open("plain") as image:
        tell("load what is none", lambda: image.encryption_load(rbd.RBD_ENCRYPTION_FORMAT_LUKS1, "secret"))
        tell("format luks1", lambda: (image.encryption_format(rbd.RBD_ENCRYPTION_FORMAT_LUKS1, "s"), image.write(b"abc", 4095), image.read(4094, 5)))
    tell("remove", lambda: (p.rbd.remove(p.io, "luks"), p.rbd.remove(p.io, "plain"), p.left()))


CHAPTERS = [creation, data, snapshots, clones, locks, journals, trash, groups, namespaces, migration, mirroring, encryption]


def main():
    wanted = sys.argv[2:]
    cluster = rados.Rados(conffile=conf, rados_id="admin")
    cluster.connect()
    for chapter in CHAPTERS:
        if wanted and chapter.__name__ not in wanted:
            continue
        print(f"# {chapter.__name__}", flush=True)
        NAMES.clear()
        p, other = Pool(cluster, "story1"), Pool(cluster, "story2")
        tell("end", lambda: chapter(p, other))
        p.io.close(), other.io.close()
    for name in ("story1", "story2"):
        cluster.delete_pool(name)
    cluster.shutdown()


if __name__ == "__main__":
    os.environ.setdefault("CEPH_ARGS", "")
    main()
