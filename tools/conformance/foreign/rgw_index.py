#!/usr/bin/python3
"""Compares the index of a bucket (half of object class rgw) with a real Ceph's: the same random calls in the same order on
both, and after each one the result, the answer, the omap and its header must be equal.

With one cluster and --record it writes down what was called and answered: cores/classes plays that again without Ceph.

usage: rgw_index.py --peer CEPH_CONF [--ours CEPH_CONF] [--seeds N] [--first SEED] [--steps N] [--record FILE]

Left out of the comparison are times of this run, and what ids of the log have behind the index's version. Where we
differ on purpose (docs of cores/classes/src/rgw/index/mod.rs) the calls are chosen so that it does not show.
"""
import os
import argparse
import ctypes
import errno
import json
import random
import struct
import sys
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
import librados_c
import rados
from calls import env, items, text, u8, u16, u32, u64
from librados_c import lib

START = time.time()
NOW = struct.pack("<II", 0x7A5A1234, 0x01234567)
POOL = "rgw_index_story"

ADD, DEL, CANCEL, UNKNOWN = 0, 1, 2, 3
NAMES = [b"a", b"b", b"a/b", b"a/c", b"a/c/d", b"a/e/f", b"d", b"d/", b"d//x", "é".encode(), "日/本".encode(), b"zz", b"a\xff"]
INSTANCES = [b"", b"", b"i1", b"i2", b"i3", b"null"]


def packed(n):
    n &= 2**64 - 1
    for limit, head, width in [(0x80, 0, 0), (0x100, 0x81, 1), (0x10000, 0x82, 2), (0x1000001, 0x84, 4)]:
        if n < limit:
            return u8(n) if not width else u8(head) + u64(n)[:width]
    return u8(0x88) + u64(n)


def utime(sec, nsec=0):
    return u32(sec) + u32(nsec)


def obj(key):
    return env(1, 1, text(key[0]) + text(key[1]))


def ver(pool, epoch):
    return env(1, 1, packed(pool) + packed(epoch))


def meta(category, size, sec, owner=b"o", accounted=None):
    accounted = size if accounted is None else accounted
    body = u8(category) + u64(size) + utime(sec, 7) + text("etag") + text(owner) + text("name") + text("text/plain")
    return env(7, 3, body + u64(accounted) + text("") + text("STANDARD") + u8(0))


def entry(key, version, exists, about, pending=(), index_ver=0, tag=b"t", flags=0, epoch=0):
    waiting = items([text(t) + env(2, 2, u8(0) + utime(sec) + u8(op)) for t, sec, op in sorted(pending)])
    body = text(key[0]) + u64(version[1]) + u8(exists) + about + waiting + text("") + ver(*version)
    return env(8, 3, body + packed(index_ver) + text(tag) + text(key[1]) + u16(flags) + u64(epoch))


def zones(r):
    return items([text(z) for z in r.choice([[], [b"z1"], [b"z1:a", b"z2"], [b"z2", b"z1"]])])


class Reader:
    """As much of the encodings as the story must look into."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        self.at += n
        return self.data[self.at - n : self.at]

    def num(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize(form)))[0]

    def text(self):
        return self.take(self.num("I"))

    def packed(self):
        c = self.num("B")
        return c if c < 0x80 else int.from_bytes(self.take(c & 0x7F), "little")

    def inside(self):
        """Version and oldest reader of an enveloped structure, and a reader of what is in it."""
        version, compat = self.take(2)
        return version, compat, Reader(self.take(self.num("I")))

    def skip(self):
        start = self.at
        self.inside()
        return self.data[start : self.at]

    def rest(self):
        return self.take(len(self.data) - self.at)


def look(value):
    """Version and tags under way of an entry of the index."""
    r = Reader(value)
    r.take(6)
    r.text(), r.take(9)
    r.skip()
    tags = []
    for _ in range(r.num("I")):
        tags.append(r.text())
        r.skip()
    r.text()
    r.take(6)
    pool, epoch = r.packed(), r.packed()
    return (pool - 2**64 if pool >= 2**63 else pool, epoch), tags


def timeless(data):
    """Bytes with one time in place of all times of this run."""
    out, i = bytearray(data), 0
    while i + 8 <= len(data):
        sec, nsec = struct.unpack_from("<II", data, i)
        if START - 5 < sec < time.time() + 5 and nsec < 10**9:
            out[i : i + 8] = NOW
            i += 8
        else:
            i += 1
    return bytes(out)


def neat_id(found):
    """An id of the log by the index's version alone: the rest tells calls and vectors apart."""
    return found.split(b".")[0] + b".1000.0" if found else found


def neat_header(r):
    version, compat, r = r.inside()
    start = r.at
    for _ in range(r.num("I")):
        r.take(1)
        r.skip()
    r.take(24)
    stats = r.data[start : r.at]
    return env(version, compat, stats + text(neat_id(r.text())) + r.rest())


def neat_entry(r):
    version, compat, r = r.inside()
    return env(version, compat, text(neat_id(r.text())) + r.rest())


def neat_answer(method, out):
    """An answer without times of this run, and with neat ids."""
    if not out:
        return out
    version, compat, r = Reader(timeless(out)).inside()
    if method == "bucket_list":
        dir_version, dir_compat, d = r.inside()
        return env(version, compat, env(dir_version, dir_compat, neat_header(d) + d.rest()) + r.rest())
    if method == "bucket_check_index":
        return env(version, compat, neat_header(r) + neat_header(r))
    if method == "bi_log_list":
        return env(version, compat, items([neat_entry(r) for _ in range(r.num("I"))]) + r.rest())
    return timeless(out)


def neat_state(pairs):
    """An omap without times of this run, and with neat ids."""
    neat = []
    for key, value in pairs or []:
        if key.startswith(b"\x800_"):
            key, value = key[:3] + neat_id(key[3:]), neat_entry(Reader(value))
        neat.append((key, timeless(value)))
    return None if pairs is None else neat


def digest(data):
    """FNV-1a, 64 bits."""
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 & (2**64 - 1)
    return f"{h:016x}"


class Cluster:
    """A pool of one group on a cluster."""

    def __init__(self, conf):
        cluster = rados.Rados(conffile=conf)
        cluster.connect()
        if POOL in cluster.list_pools():
            cluster.delete_pool(POOL)
        words = {"prefix": "osd pool create", "pool": POOL, "pg_num": 1, "autoscale_mode": "off"}
        code, _, told = cluster.mon_command(json.dumps(words), b"")
        assert code == 0, told
        io = cluster.open_ioctx(POOL)
        self.io, self.pool = io, librados_c.Cluster(conf).pool(POOL)
        self.answer = ctypes.create_string_buffer(1 << 22)

    def call(self, oid, method, payload):
        """Number of the error or 0, and the answer, also of a call that failed."""
        got = lib.rados_exec(
            self.pool.handle, oid.encode(), b"rgw", method.encode(), payload, ctypes.c_size_t(len(payload)), self.answer, len(self.answer)
        )
        return (0, neat_answer(method, ctypes.string_at(self.answer, got))) if got >= 0 else (-got, b"")

    def state(self, oid):
        """The omap; nothing without the object."""
        op, omap, more, failed = lib.rados_create_read_op(), ctypes.c_void_p(), ctypes.c_ubyte(), ctypes.c_int()
        op, ref = ctypes.c_void_p(op), ctypes.byref
        lib.rados_read_op_omap_get_vals2(op, b"", b"", ctypes.c_uint64(1000), ref(omap), ref(more), ref(failed))
        result = lib.rados_read_op_operate(op, self.pool.handle, oid.encode(), 0)
        lib.rados_release_read_op(op)
        if result == -errno.ENOENT:
            return None
        assert result == 0 and failed.value == 0 and not more.value, (result, failed.value)
        pairs = []
        while True:
            key, value, klen, vlen = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
            lib.rados_omap_get_next2(omap, *(ref(v) for v in (key, value, klen, vlen)))
            if key.value is None:
                break
            pairs.append((ctypes.string_at(key, klen.value), ctypes.string_at(value, vlen.value) if vlen.value else b""))
        lib.rados_omap_get_end(omap)
        return pairs


class Story:
    """One bucket's index, and what happens to it."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.oid = f"index.{seed}"
        self.epoch = self.r.choice([1, 1, 126, 65540])
        self.tag = 0
        self.pairs = []
        self.script = []
        self.versioned = seed % 3 != 0

    def key(self):
        r = self.r
        return (r.choice(NAMES), r.choice(INSTANCES) if self.versioned else b"")

    def there(self, section=b""):
        """A random entry that is there: key in the omap and value."""
        fit = [(k, v) for k, v in self.pairs if k.startswith(section) and (section or k[0] != 0x80)]
        return self.r.choice(fit) if fit else None

    def about(self):
        r = self.r
        size = r.choice([0, 1, 4095, 4096, 4097, 1 << 33])
        return meta(r.choice([0, 1, 1, 1, 3]), size, r.randrange(1000, 2000), accounted=r.choice([None, 5]))

    def at(self, key):
        """The entry that an operation on a key finds, as far as the story must know."""
        values = dict(self.pairs)
        name, instance = key
        where = name if not instance else b"\x801000_" + name + b"\0i" + instance
        value = values.get(where)
        if value is not None and not instance and value[-10] & 8:
            value = values.get(b"\x801000_" + name + b"\0i")
        return value

    def complete(self, op, key, tag, epoch=None, remove=()):
        r = self.r
        value = self.at(key)
        version = (3, self.epoch if epoch is None else epoch)
        if value is not None:
            known, _ = look(value)
            if op == CANCEL and tag or version[0] == known[0] and 0 < version[1] <= known[1]:
                # Ceph forgets what it knew here; we do not. With the same version that is the same.
                version = known
        body = u8(op) + u64(version[1]) + self.about() + text(tag) + text(r.choice([b"", b"loc"]))
        body += items([obj(k) for k in remove]) + ver(*version) + u8(r.random() < 0.5) + obj(key)
        return "bucket_complete_op", env(9, 7, body + u16(r.choice([0, 2])) + zones(r))

    def prepare(self, op, key, tag):
        r = self.r
        body = u8(op) + text(tag) + text(r.choice([b"", b"loc"])) + u8(1) + obj(key) + u16(0) + zones(r)
        return "bucket_prepare_op", env(7, 5, body)

    def next_tag(self):
        self.tag += 1
        return b"tag%d" % self.tag

    def link(self, key, marker, epoch=None, olh_tag=None):
        r = self.r
        epoch = r.choice([0, 0, 0, 0, 3, 7, 20, 1 << 33]) if epoch is None else epoch
        olh_tag = r.choice([b"olh", b"olh", b"olh", b"other"]) if olh_tag is None else olh_tag
        body = obj(key) + text(olh_tag) + u8(marker) + text(self.next_tag()) + self.about() + u64(epoch)
        body += u8(r.random() < 0.7) + u16(r.choice([0, 4]))
        since = r.choice([(0, 0), (0, 0), (0, 0), (1500, 0), (1200, 8)])
        body += u64(since[0]) + utime(*since) + u8(r.random() < 0.5) + zones(r)
        return "bucket_link_olh", env(5, 1, body)

    def unlink(self, key):
        r = self.r
        body = obj(key) + text(self.next_tag()) + u64(r.choice([0, 0, 0, 2, 9, 30])) + u8(r.random() < 0.7) + u16(0)
        return "bucket_unlink_instance", env(3, 1, body + text(r.choice([b"olh", b"olh", b"other"])) + zones(r))

    def put(self):
        """A write as gateways do it; with versions the version becomes the newest."""
        r, key = self.r, self.key()
        if key[1] == b"null":
            key = (key[0], b"")
        tag = self.next_tag()
        self.epoch += 1
        self.script.append(lambda: self.prepare(ADD, key, tag))
        self.script.append(lambda: self.complete(r.choice([ADD, ADD, ADD, DEL, CANCEL]), key, tag))
        if self.versioned and r.random() < 0.8:
            self.script.append(lambda: self.link(key, False, 0 if r.random() < 0.7 else None, b"olh"))
        return self.script.pop(0)()

    def suggest(self):
        r, out = self.r, b""
        # One of them is logged at most: two entries of the log would have neat ids that are the same.
        logged = r.choice([0, 0, 0x80])
        for _ in range(r.choice([0, 1, 1, 1, 2, 3])):
            op = ord(r.choice("ruux")) | logged
            logged = 0
            found = self.there(r.choice([b"", b"", b"\x801000_"]))
            if found and r.random() < 0.6:
                out += u8(op) + found[1]
            else:
                key = self.key()
                version = (3, self.epoch)
                out += u8(op) + entry(key, version, r.random() < 0.7, self.about(), index_ver=r.choice([0, 5, 100, 1 << 20]))
        return "dir_suggest_changes", out if r.random() < 0.95 else out + b"u\x08"

    def list(self):
        r = self.r
        prefix = r.choice([b"", b"", b"", b"a", b"a/", b"d/", "日".encode()])
        start = r.choice([(b"", b""), (b"", b""), self.key(), (b"a/", b""), (b"a/c/", b"")])
        most = r.choice([0, 1, 2, 3, 5, 10, 1000, 5000])
        body = u32(most) + text(prefix) + obj(start) + u8(r.random() < 0.4) + text(r.choice([b"", b"/", b"/", b"//"]))
        return "bucket_list", env(6, 4, body)

    def raw(self):
        r = self.r
        kind = r.randrange(6)
        if kind == 0:
            return "bi_get", env(1, 1, obj(self.key()) + u8(r.choice([0, 1, 2, 3, 4])))
        if kind == 1:
            # An operation that was announced long ago.
            key = self.key()
            where = key[0] if not key[1] else b"\x801000_" + key[0] + b"\0i" + key[1]
            pending = [(b"old%d" % n, 1000 + n, r.choice([ADD, DEL])) for n in range(r.randrange(3))]
            flags = r.choice([0, 0, 0, 1, 3, 4])
            value = entry(key, (3, self.epoch), r.random() < 0.7, self.about(), pending, r.choice([0, 3]), flags=flags, epoch=r.choice([0, 1]))
            return "bi_put", env(1, 1, env(1, 1, u8(1) + text(where) + text(value)))
        name = r.choice([b"", b"", b"", r.choice(NAMES)])
        # From a name behind the sections Ceph begins again with the versions; we do not.
        low = [n for n in NAMES if n[0] < 0x80]
        marker = r.choice([b"", b"", b"", r.choice(low), b"\x80", b"\x801000_", b"\x801001_a", b"\x809999_"])
        found = self.there(r.choice([b"", b"\x801000_", b"\x801001_"]))
        if found and found[0][0] <= 0x80 and r.random() < 0.4:
            marker = found[0]
        return "bi_list", env(1, 1, u32(r.choice([0, 1, 2, 3, 7, 1000, 4000])) + text(name) + text(marker))

    def log(self):
        r = self.r
        ids = [k[3:] for k, _ in self.pairs if k.startswith(b"\x800_")]
        marker = lambda: r.choice([b"", b"", b"00000000005", r.choice(ids).split(b".")[0] if ids else b"1"])
        kind = r.randrange(7)
        if kind < 4:
            return "bi_log_list", env(1, 1, text(marker()) + u32(r.choice([0, 1, 3, 1000])))
        if kind == 4:
            return "bi_log_trim", env(1, 1, text(marker()) + text(marker()))
        return ["bi_log_resync", "bi_log_stop"][r.random() < 0.3], b""

    def reshard(self):
        r = self.r
        kind = r.randrange(8)
        if kind == 0:
            status = env(1, 1, u8(r.randrange(3)) + text(r.choice([b"", b"new"])) + u32(r.choice([-1, 7])))
            if r.random() < 0.3:
                status = env(1, 1, u8(1) + text("") + u32(11))
            return "set_bucket_resharding", env(1, 1, status)
        if kind == 1:
            return "clear_bucket_resharding", env(1, 1, b"")
        if kind < 6:
            return "guard_bucket_resharding", env(1, 1, u32(r.choice([-2300, -16, 0])))
        return "get_bucket_resharding", env(1, 1, b"")

    def sums(self):
        r = self.r
        kind = r.randrange(5)
        if kind == 0:
            stats = [u8(c) + env(3, 2, b"".join(u64(r.choice([0, 1, 1 << 40, -1])) for _ in range(4))) for c in sorted(r.sample(range(5), 2))]
            return "bucket_update_stats", env(1, 1, u8(r.random() < 0.3) + items(stats))
        if kind == 1:
            return "bucket_rebuild_index", b""
        if kind == 2:
            return "bucket_set_tag_timeout", env(1, 1, u64(r.choice([0, 1000, 100000])))
        return "bucket_check_index", b""

    def olh(self):
        r, key = self.r, (r_key := self.key(), (r_key[0], b""))[1]
        if r.random() < 0.1:
            key = (key[0], b"i1")
        tag = r.choice([b"olh", b"olh", b"olh", b"", b"other"])
        kind = r.randrange(5)
        if kind < 3:
            return "bucket_read_olh_log", env(1, 1, obj(key) + u64(r.choice([0, 0, 2, 5, -1])) + text(tag))
        if kind == 3:
            return "bucket_trim_olh_log", env(1, 1, obj(key) + u64(r.choice([0, 2, 4, 100])) + text(tag))
        return "bucket_clear_olh", env(1, 1, obj(key) + text(tag))

    def wild(self):
        """Operations without their order."""
        r, key = self.r, self.key()
        value = self.at(key)
        tags = look(value)[1] if value else []
        kind = r.randrange(4)
        if kind == 0:
            return self.prepare(r.choice([ADD, DEL, UNKNOWN]), key, r.choice([b"", b"x", b"x", b"y"]))
        if kind == 1:
            tag = r.choice(tags + [b"", b"", b"none"])
            epoch = r.choice([None, 0, 1, self.epoch])
            removed = [self.key() for _ in range(r.choice([0, 0, 1, 3]))]
            # One that is to be removed and is the object itself would be written and removed at once.
            return self.complete(r.choice([ADD, DEL, CANCEL, UNKNOWN, 9]), key, tag, epoch, [k for k in removed if k != key])
        if kind == 2:
            return self.link(key, r.random() < 0.5)
        return self.unlink(key)

    def next(self):
        if self.script:
            return self.script.pop(0)()
        kinds = [self.put] * 6 + [self.wild] * 3 + [self.list] * 3 + [self.suggest] * 2 + [self.raw] * 2
        kinds += [self.log, self.reshard, self.sums]
        if self.versioned:
            kinds += [self.olh, self.delete]
        method, payload = self.r.choice(kinds)()
        if self.r.random() < 0.02 and payload:
            payload = payload[: self.r.randrange(len(payload))]
        return method, payload

    def delete(self):
        """A delete marker, or the removal of a version, as gateways do it."""
        r = self.r
        found = self.there(b"\x801000_")
        if found and r.random() < 0.6:
            name, instance = found[0][6:].split(b"\0i", 1)
            return self.unlink((name, instance.split(b"\0")[0]))
        return self.link((r.choice(NAMES), r.choice([b"", b"m%d" % self.tag])), True, 0, b"olh")


def objects(cluster):
    """What the methods beside the index answer, and what they leave of an object."""
    io, told = cluster.io, []

    def tell(method, payload):
        result = cluster.call("object", method, payload)
        try:
            names = sorted(name for name, _ in io.get_xattrs("object"))
            told.append((method, payload, result, io.stat("object")[0], names))
        except rados.ObjectNotFound:
            told.append((method, payload, result, None, []))

    def keep(*prefixes):
        return env(1, 1, items([text(prefix) for prefix in prefixes]))

    for there in (False, True):
        if there:
            with rados.WriteOpCtx() as op:
                op.write_full(b"data")
                io.operate_write_op(op, "object", mtime=1500)
            for name in ("user.rgw.acl", "user.rgw.olh.info", "user.rgw.olh.x", "user.z"):
                with rados.WriteOpCtx() as op:
                    op.set_xattr(name, name.encode())
                    io.operate_write_op(op, "object", mtime=1500)
        for prefix, fail in [("", 1), ("user.rgw.olh.", 1), ("user.rgw.olh.", 0), ("user.zz", 1), ("user.zz", 0), ("zz", 0)]:
            tell("obj_check_attrs_prefix", env(1, 1, text(prefix) + u8(fail)))
        for kind in range(6):
            for sec in (1499, 1500, 1501):
                tell("obj_check_mtime", env(2, 1, utime(sec, 5) + u8(kind) + u8(sec != 1500)))
                tell("obj_check_mtime", env(2, 1, utime(sec, 0) + u8(kind) + u8(1)))
        tell("obj_remove", keep("user.rgw.olh.", "user.y"))
        tell("obj_store_pg_ver", env(1, 1, text("user.rgw.pg_ver")))
        tell("obj_store_pg_ver", b"\x01\x01\x01")
        tell("obj_remove", keep("user.y"))
        tell("obj_remove", keep())
    return told


def header_of(cluster, oid):
    """The header, as the class tells it: a listing of nothing."""
    code, out = cluster.call(oid, "bucket_list", env(6, 4, u32(0) + text("") + obj((b"", b"")) + u8(0) + text("")))
    return out if code == 0 else b"error %d" % code


def run(args):
    peer = Cluster(args.peer)
    ours = Cluster(args.ours) if args.ours else None
    record = open(args.record, "w") if args.record else None
    calls, told = 0, {}
    if ours:
        for theirs, mine in zip(objects(peer), objects(ours)):
            if theirs != mine:
                print(f"beside the index:\n  theirs {theirs}\n  ours   {mine}")
                return 1
    for seed in range(args.first, args.first + args.seeds):
        story = Story(seed)
        if record:
            print("start", seed, file=record)
        for step in range(args.steps):
            method, payload = ("bucket_init_index", b"") if step == 0 and seed % 5 else story.next()
            theirs = peer.call(story.oid, method, payload)
            after = peer.state(story.oid)
            story.pairs = after or []
            header = header_of(peer, story.oid)
            neat = neat_state(after)
            calls += 1
            told.setdefault(method, {}).setdefault(errno.errorcode.get(theirs[0], theirs[0]), 0)
            told[method][errno.errorcode.get(theirs[0], theirs[0])] += 1
            if record:
                out = theirs[1].hex() if len(theirs[1]) <= 100 else f"#{digest(theirs[1])}"
                state = b"" if neat is None else b"".join(u32(len(x)) + x for pair in neat for x in pair)
                print("call", method, timeless(payload).hex() or "-", theirs[0], out or "-", digest(header + state), file=record)
            if not ours:
                continue
            mine = ours.call(story.oid, method, payload)
            mine_after = ours.state(story.oid)
            mine_neat = neat_state(mine_after)
            mine_header = header_of(ours, story.oid)
            if (theirs, neat, header) == (mine, mine_neat, mine_header):
                continue
            print(f"seed {seed} step {step}: {method} {payload!r}")
            if theirs != mine:
                print(f"  theirs {theirs[0]} {theirs[1]!r}\n  ours   {mine[0]} {mine[1]!r}")
            if header != mine_header:
                print(f"  header theirs {header.hex()}\n  header ours   {mine_header.hex()}")
            for pair in sorted(set(neat or []) - set(mine_neat or [])):
                print(f"  only theirs {pair[0]!r} {pair[1].hex()}")
            for pair in sorted(set(mine_neat or []) - set(neat or [])):
                print(f"  only ours   {pair[0]!r} {pair[1].hex()}")
            if (neat is None) != (mine_neat is None):
                print(f"  there: theirs {neat is not None} ours {mine_neat is not None}")
            return 1
    for method, results in sorted(told.items()):
        print(f"{method}: " + ", ".join(f"{name or 'ok'} {n}" for name, n in sorted(results.items(), key=str)))
    print(f"{calls} calls of {args.seeds} buckets: " + ("equal" if ours else "done"))
    return 0


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--peer", required=True, help="ceph.conf of the cluster that is right")
    p.add_argument("--ours", help="ceph.conf of ours")
    p.add_argument("--seeds", type=int, default=20)
    p.add_argument("--first", type=int, default=1)
    p.add_argument("--steps", type=int, default=150)
    p.add_argument("--record", help="where to write what was called and answered")
    sys.exit(run(p.parse_args()))
