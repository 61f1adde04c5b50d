#!/usr/bin/python3
"""Tells what clients experience at the edges of the protocol: limits, refusals, watchers that do not answer, listings in parts, quotas,
blocklists, files that end too early. One line a step, nothing in it that differs from run to run. Run against a real cluster it makes
the expected story; run against ours it must tell the same.

usage: details_story.py CEPH_CONF [CHAPTER...]
"""
import ctypes
import errno
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time

import rados
import rbd

conf = sys.argv[1]
os.environ["CEPH_CONF"] = conf
MIB = 1 << 20
HEAD = (1 << 64) - 2
# osd_max_object_size.
LARGEST = 128 * MIB
POOL, OTHER = "details", "details2"
# Flags of rados_write_op_operate (LIBRADOS_OPERATION_*).
FULL_TRY = 64
lib = ctypes.CDLL("librados.so.2")
lib.rados_create_write_op.restype = ctypes.c_void_p
lib.rados_create_read_op.restype = ctypes.c_void_p
for name in ("rados_object_list_begin", "rados_object_list_end", "rados_nobjects_list_get_cursor"):
    getattr(lib, name).restype = ctypes.c_void_p
ref = ctypes.byref


def u64(n=0):
    return ctypes.c_uint64(n)


def size(n):
    return ctypes.c_size_t(n)


def groups(data):
    """In groups of four bytes: nothing that looks like an id."""
    return data.hex(".", -4) if data else ""


def show(value):
    if isinstance(value, bytes):
        return f"{len(value)} bytes {groups(value[:40])}{'...' if len(value) > 40 else ''}".rstrip()
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(show(v) for v in value) + "]"
    return str(value)


def tell(step, call):
    """Runs a step and tells its result or its error."""
    try:
        told = show(call())
    except (rados.Error, rbd.Error, OSError) as e:
        number = getattr(e, "errno", None)
        told = f"error {errno.errorcode.get(abs(number), number) if number is not None else type(e).__name__}"
    except (TypeError, ValueError, UnicodeError) as e:
        told = type(e).__name__
    print(f"{step}: {told}".rstrip(), flush=True)


def code(n):
    """A result of the C interface."""
    return errno.errorcode.get(-n, str(n)) if n < 0 else n


def bl(data):
    """Bytes with their length in front."""
    return struct.pack("<I", len(data)) + data


def raw_op(op, number, args):
    """Makes the only operation in `op` another one. Its operations are a vector, and that begins with where they are."""
    at = ctypes.c_void_p.from_address(op.value).value
    ctypes.memmove(at, struct.pack("<H", number), 2)
    if args is not None:
        ctypes.memmove(at + 6, args.ljust(28, b"\0"), 28)


class C:
    """A client by the C interface, for what the Python one lacks."""

    def __init__(self, pool=POOL, patience=20):
        self.cluster, self.io = ctypes.c_void_p(), ctypes.c_void_p()
        assert lib.rados_create(ref(self.cluster), b"admin") == 0
        assert lib.rados_conf_read_file(self.cluster, conf.encode()) == 0
        lib.rados_conf_set(self.cluster, b"rados_osd_op_timeout", str(patience).encode())
        assert lib.rados_connect(self.cluster) == 0
        assert lib.rados_ioctx_create(self.cluster, pool.encode(), ref(self.io)) == 0

    def write(self, oid, *steps, flags=0):
        op = ctypes.c_void_p(lib.rados_create_write_op())
        for name, *args in steps:
            getattr(lib, "rados_write_op_" + name)(op, *args)
        result = lib.rados_write_op_operate(op, self.io, oid, None, flags)
        lib.rados_release_write_op(op)
        return code(result)

    def change(self, oid, number, args=b"", data=b"", flags=0):
        """Any operation that changes."""
        op, rval = ctypes.c_void_p(lib.rados_create_write_op()), ctypes.c_int(0)
        lib.rados_write_op_exec(op, b"", b"", data, size(len(data)), ref(rval))
        raw_op(op, number, args)
        result = lib.rados_write_op_operate(op, self.io, oid, None, flags)
        lib.rados_release_write_op(op)
        return code(result)

    def ask(self, oid, number, args=b"", data=b"", flags=0):
        """Any operation that reads: result, and what it gives."""
        op, rval = ctypes.c_void_p(lib.rados_create_read_op()), ctypes.c_int(0)
        out, length = ctypes.c_void_p(), size(0)
        lib.rados_read_op_exec(op, b"", b"", data, size(len(data)), ref(out), ref(length), ref(rval))
        raw_op(op, number, args)
        result = lib.rados_read_op_operate(op, self.io, oid, flags)
        lib.rados_release_read_op(op)
        got = ctypes.string_at(out, length.value) if out.value and length.value else b""
        return (code(result), got) if got else code(result)

    def close(self):
        lib.rados_ioctx_destroy(self.io)
        lib.rados_shutdown(self.cluster)


class World:
    """Two empty pools, and clients of them."""

    def __init__(self):
        self.cluster = rados.Rados(conffile=conf, rados_id="admin", conf={"rados_osd_op_timeout": "20"})
        self.cluster.connect()
        for pool in (POOL, OTHER):
            self.drop(pool)
            self.mon("osd pool create", pool=pool, pg_num=8, pgp_num=8, autoscale_mode="off")
            self.mon("osd pool application enable", pool=pool, app="rbd")
        self.cluster.wait_for_latest_osdmap()
        self.io, self.other = self.cluster.open_ioctx(POOL), self.cluster.open_ioctx(OTHER)
        self.io.write_full("settle", b"")
        self.io.remove_object("settle")
        self.c = C()
        self.dir = tempfile.mkdtemp()

    def drop(self, pool):
        if self.cluster.pool_exists(pool):
            self.cluster.delete_pool(pool)

    def mon(self, prefix, **more):
        result, out, said = self.cluster.mon_command(json.dumps({"prefix": prefix, **more}), b"")
        if result:
            raise OSError(-result, said)
        return out, said

    def close(self):
        self.c.close()
        self.io.close()
        self.other.close()
        for pool in (POOL, OTHER):
            self.drop(pool)
        self.cluster.shutdown()
        shutil.rmtree(self.dir)

    def run(self, *words, **more):
        """A command: exit code, and what it said last."""
        done = subprocess.run(list(words), cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, **more)
        # How a command is meant to be used is told in words of one's own.
        error = re.sub(r" / osd [^/]* :  [^/]*", "", self.said(done.stderr))
        return f"exit {done.returncode} {self.said(done.stdout)} | {error}".rstrip()

    def said(self, data):
        text = data.decode("utf-8", "backslashreplace").replace(self.dir, "DIR")
        text = re.sub(r"\d{4}-\d\d-\d\dT\S+ [0-9a-f]{8,16} +-?\d+ .*\n?", "", text)
        text = re.sub(r"\b(?=[0-9a-f]*[a-f])[0-9a-f]{10,16}\b", "ID", text)
        lines = [line.split("\r")[-1] for line in text.split("\n") if line.strip()]
        lines = [re.sub(r"\b\d{1,2}% complete", "N% complete", line) for line in lines]
        lines = [line if len(line) < 300 else f"{line[:80]}...{line[-80:]} ({len(line)})" for line in lines]
        return " / ".join(lines[-4:])


def state(io, oid):
    """All of an object."""
    with rados.ReadOpCtx() as op:
        pairs, _ = io.get_omap_vals(op, "", "", 100)
        io.operate_read_op(op, oid)
        omap = ",".join(f"{k}={v.decode()}" for k, v in pairs)
    attrs = ",".join(f"{k}={'CLIENT' if k.endswith('_by') else v.decode()}" for k, v in sorted(io.get_xattrs(oid)))
    return io.read(oid), attrs, omap


def fill(io, oid, data, attrs=(), omap=()):
    io.write_full(oid, data)
    for k, v in attrs:
        io.set_xattr(oid, k, v)
    if omap:
        with rados.WriteOpCtx() as op:
            io.set_omap(op, tuple(k for k, _ in omap), tuple(v for _, v in omap))
            io.operate_write_op(op, oid)


def checksums(w):
    data = bytes((i * 7 + (i >> 8)) % 251 for i in range(10000))
    w.io.write_full("sum", data)
    w.io.write_full("none", b"")

    def sum_of(kind, init, length, offset, chunk, oid=b"sum", out_size=None):
        out = ctypes.create_string_buffer(4096 if out_size is None else out_size)
        result = lib.rados_checksum(w.c.io, oid, kind, init, size(len(init)), size(length), u64(offset), size(chunk), out, size(len(out)))
        n = struct.unpack_from("<I", out.raw)[0] if len(out) >= 4 else 0
        width = 8 if kind == 1 else 4
        return code(result), n, out.raw[4:4 + n * width]

    kinds = (("xxhash32", 0, 4), ("xxhash64", 1, 8), ("crc32c", 2, 4))
    for name, kind, width in kinds:
        for init in (bytes(width), b"\xff" * width, bytes(range(1, width + 1))):
            tell(f"{name} from {groups(init)}", lambda: sum_of(kind, init, 10000, 0, 0))
        tell(f"{name} in chunks that divide", lambda: sum_of(kind, bytes(width), 10000, 0, 2500))
        tell(f"{name} in chunks that do not divide", lambda: sum_of(kind, bytes(width), 10000, 0, 3000))
        tell(f"{name} in a chunk larger than it", lambda: sum_of(kind, bytes(width), 4000, 0, 8000))
        tell(f"{name} of a part", lambda: sum_of(kind, bytes(width), 512, 333, 128))
        tell(f"{name} of one byte", lambda: sum_of(kind, bytes(width), 1, 9999, 0))
        tell(f"{name} over the end", lambda: sum_of(kind, bytes(width), 4000, 8000, 0))
        tell(f"{name} over the end in chunks that divide what is there", lambda: sum_of(kind, bytes(width), 4000, 8000, 1000))
        tell(f"{name} over the end in chunks that do not divide what is there", lambda: sum_of(kind, bytes(width), 4000, 9000, 2000))
        tell(f"{name} at the end", lambda: sum_of(kind, bytes(width), 4000, 10000, 0))
        tell(f"{name} behind the end", lambda: sum_of(kind, bytes(width), 4000, 20000, 1000))
        tell(f"{name} of length 0", lambda: sum_of(kind, bytes(width), 0, 0, 0))
        tell(f"{name} of length 0 in chunks", lambda: sum_of(kind, bytes(width), 0, 4000, 1000))
        tell(f"{name} of an empty object", lambda: sum_of(kind, bytes(width), 100, 0, 0, b"none"))
        tell(f"{name} of nothing", lambda: sum_of(kind, bytes(width), 100, 0, 0, b"absent"))
    # What the library would not send: struct { u64 offset, length; u32 chunk; u8 type; }, the initial value in the data.
    for kind in (0, 1, 2, 3, 255):
        for n in (0, 3, 4, 5, 8, 9):
            tell(f"type {kind} with {n} bytes to begin with", lambda: w.c.ask(b"sum", 0x121F, struct.pack("<QQIB", 0, 1000, 0, kind), bytes(n)))
    tell("a length over all", lambda: w.c.ask(b"sum", 0x121F, struct.pack("<QQIB", 0, HEAD, 0, 2), bytes(4)))
    tell("an offset over all", lambda: w.c.ask(b"sum", 0x121F, struct.pack("<QQIB", HEAD, 16, 0, 2), bytes(4)))
    tell("a chunk over all", lambda: w.c.ask(b"sum", 0x121F, struct.pack("<QQIB", 0, 100, 0xFFFFFFFF, 2), bytes(4)))
    tell("chunks of one byte", lambda: w.c.ask(b"sum", 0x121F, struct.pack("<QQIB", 0, 5, 1, 2), bytes(4)))


def locator(pool, key=b"", nspace=b""):
    body = struct.pack("<qi", pool, -1) + bl(key) + bl(nspace) + struct.pack("<q", -1)
    return struct.pack("<BBI", 6, 3, len(body)) + body


def copies(w):
    pool, other = w.io.get_pool_id(), w.other.get_pool_id()
    fill(w.io, "a", b"content", (("one", b"1"), ("two", b"2")), (("k1", b"v1"), ("k2", b"v2")))
    fill(w.io, "over", b"what was there, and longer", (("old", b"o"),), (("oldkey", b"o"),))
    w.io.set_namespace("ns")
    fill(w.io, "inside", b"in a namespace", (("n", b"s"),))
    w.io.set_namespace("")
    fill(w.other, "far", b"in another pool", (("p", b"2"),), (("k", b"far"),))
    w.io.set_locator_key("key")
    fill(w.io, "located", b"by key")
    w.io.set_locator_key("")

    def copy(target, source, snap=HEAD, version=0, flags=0, at=None, two=None, number=0x221A):
        data = bl(source) + (locator(pool) if at is None else at)
        if two is not None:
            data, number = data + struct.pack("<IQ", *two), 0x222D
        return w.c.change(target, number, struct.pack("<QQBI", snap, version, flags, 0), data)

    tell("copy", lambda: (copy(b"copy", b"a"), *state(w.io, "copy")))
    tell("copy over another", lambda: (copy(b"over", b"a"), *state(w.io, "over")))
    tell("copy of an absent one", lambda: copy(b"c1", b"absent"))
    tell("which made nothing", lambda: w.io.stat("c1"))
    tell("copy of an absent one over another", lambda: (copy(b"over", b"absent"), *state(w.io, "over")))
    tell("copy onto itself", lambda: (copy(b"a", b"a"), *state(w.io, "a")))
    tell("copy from a namespace", lambda: (copy(b"c2", b"inside", at=locator(pool, nspace=b"ns")), *state(w.io, "c2")))
    tell("copy from a namespace that has none", lambda: copy(b"c3", b"a", at=locator(pool, nspace=b"ns")))
    tell("copy from another pool", lambda: (copy(b"c4", b"far", at=locator(other)), *state(w.io, "c4")))
    tell("copy from a pool that is not there", lambda: copy(b"c5", b"far", at=locator(4000)))
    tell("copy by key", lambda: (copy(b"c6", b"located", at=locator(pool, key=b"key")), *state(w.io, "c6")))
    tell("copy without the key", lambda: copy(b"c7", b"located"))
    tell("copy of a version to come", lambda: copy(b"c8", b"a", version=1 << 40))
    tell("copy of an old version", lambda: copy(b"c8", b"a", version=1))
    tell("copy with a flag that is none", lambda: copy(b"c9", b"a", flags=0x80))
    tell("copy that is told the truncation", lambda: (copy(b"c10", b"a", flags=32, two=(3, 4)), w.io.read("c10")))
    tell("copy of an empty name", lambda: copy(b"c11", b""))
    tell("copy with garbage", lambda: w.c.change(b"c12", 0x221A, bytes(21), b"\x01\x02"))
    tell("copy2 without what it needs", lambda: w.c.change(b"c13", 0x222D, struct.pack("<QQBI", HEAD, 0, 32, 0), bl(b"a") + locator(pool)))
    w.io.write_full("large", bytes(9 * MIB) + b"end")
    tell("copy of a large one", lambda: (copy(b"c14", b"large"), w.io.stat("c14")[0], w.io.read("c14", 8, 9 * MIB)))
    many = tuple(f"m{i:05}" for i in range(4000))
    fill(w.io, "many", b"", (), tuple((k, b"v" * 40) for k in many))

    def keys(oid):
        with rados.ReadOpCtx() as op:
            found, _ = w.io.get_omap_keys(op, "", 1000)
            w.io.operate_read_op(op, oid)
            return len([k for k, _ in found])

    tell("copy of many keys", lambda: (copy(b"c15", b"many"), keys("c15")))
    # Snapshots of the pool.
    w.io.write_full("snapped", b"before")
    w.io.create_snap("s1")
    w.io.write_full("snapped", b"after")
    w.io.write_full("young", b"made later")
    snap = w.io.lookup_snap("s1").snap_id
    tell("copy at a snapshot", lambda: (copy(b"s1", b"snapped", snap=snap), *state(w.io, "s1")))
    tell("copy now", lambda: (copy(b"s2", b"snapped"), *state(w.io, "s2")))
    tell("copy at a snapshot of what was not there", lambda: copy(b"s3", b"young", snap=snap))
    tell("copy at a snapshot of what did not change since", lambda: (copy(b"s4", b"a", snap=snap), *state(w.io, "s4")))
    tell("copy at a snapshot that is not there", lambda: (copy(b"s5", b"snapped", snap=snap + 100), w.io.read("s5")))
    w.io.remove_object("snapped")
    tell("copy at a snapshot of what is gone now", lambda: (copy(b"s6", b"snapped", snap=snap), w.io.read("s6")))
    tell("copy of what is gone now", lambda: copy(b"s7", b"snapped"))
    for words in (("cp", "a", "r1"), ("cp", "absent", "r2"), ("cp", "a", "over"), ("cp", "a"), ("cp", "a", "a"),
                  ("cp", "a", "r3", "--target-pool", OTHER), ("cp", "a", "r3", "--target-pool", "nosuch"),
                  ("-N", "ns", "cp", "inside", "r4"), ("-N", "ns", "cp", "a", "r5"), ("-s", "s1", "cp", "snapped", "r6"),
                  ("-s", "nosuch", "cp", "a", "r7"), ("--object-locator", "key", "cp", "located", "r8"),
                  ("cp", "a", "r9", "--target-locator", "key")):
        tell("rados " + " ".join(words), lambda: w.run("rados", "-p", POOL, *words))
    tell("copied by rados", lambda: state(w.io, "r1"))
    tell("copied by rados over another", lambda: state(w.io, "over"))
    tell("copied by rados to another pool", lambda: state(w.other, "r3"))
    w.io.set_namespace(rados.LIBRADOS_ALL_NSPACES)
    tell("all there is now", lambda: ",".join(sorted(f"{o.nspace}/{o.key}@{o.locator_key or ''}" for o in w.io.list_objects())))
    w.io.set_namespace("")


HEARD = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t)
LOST = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int)


class Watch:
    """A watch that answers with `answer`, or not if that is None."""
    # The library calls back as long as it likes.
    ALL = []

    def __init__(self, c, oid, answer=b"", timeout=None):
        self.c, self.oid, self.answer, self.heard, self.errors = c, oid, answer, [], []
        self.ALL.append(self)
        self.lost = threading.Event()
        self.on_heard, self.on_lost, self.cookie = HEARD(self.hear), LOST(self.lose), u64()
        if timeout is None:
            self.result = code(lib.rados_watch2(c.io, oid, ref(self.cookie), self.on_heard, self.on_lost, None))
        else:
            self.result = code(lib.rados_watch3(c.io, oid, ref(self.cookie), self.on_heard, self.on_lost, ctypes.c_uint32(timeout), None))

    def hear(self, _, notify_id, handle, notifier, data, length):
        self.heard.append(ctypes.string_at(data, length) if length else b"")
        if self.answer is not None:
            lib.rados_notify_ack(self.c.io, self.oid, u64(notify_id), u64(handle), self.answer or None, ctypes.c_int(len(self.answer)))

    def lose(self, _, cookie, error):
        self.errors.append(code(error))
        self.lost.set()

    def check(self):
        n = lib.rados_watch_check(self.c.io, self.cookie)
        return "watches" if n >= 0 else code(n)

    def end(self):
        return code(lib.rados_unwatch2(self.c.io, self.cookie))


def notify(c, oid, payload, timeout=10000):
    """Result, what was answered in order, and how many did not."""
    out, length = ctypes.c_void_p(), size(0)
    result = lib.rados_notify2(c.io, oid, payload, ctypes.c_int(len(payload)), u64(timeout), ref(out), ref(length))
    data = ctypes.string_at(out, length.value) if out.value and length.value else b""
    lib.rados_buffer_free(out)
    if not data:
        return code(result), "no reply"
    (n,), at, answers = struct.unpack_from("<I", data), 4, []
    for _ in range(n):
        (m,) = struct.unpack_from("<I", data, at + 16)
        answers.append(data[at + 20:at + 20 + m])
        at += 20 + m
    (missed,) = struct.unpack_from("<I", data, at)
    return code(result), sorted(answers), f"{missed} missed", len(data) - at - 4 - 16 * missed


def watchers(w):
    second, third = C(), C()
    w.io.write_full("w", b"content")

    def listed(oid="w"):
        return len([line for line in subprocess.run(["rados", "-p", POOL, "listwatchers", oid], stdout=subprocess.PIPE).stdout.split(b"\n") if line])

    tell("notify where nobody watches", lambda: notify(w.c, b"w", b"hello"))
    tell("notify where nothing is", lambda: notify(w.c, b"absent", b"hello"))
    tell("watch where nothing is", lambda: Watch(w.c, b"absent").result)
    tell("rados listwatchers where nobody watches", lambda: w.run("rados", "-p", POOL, "listwatchers", "w"))
    tell("rados listwatchers where nothing is", lambda: w.run("rados", "-p", POOL, "listwatchers", "absent"))
    tell("rados notify where nobody watches", lambda: w.run("rados", "-p", POOL, "notify", "w", "hello"))
    tell("rados notify where nothing is", lambda: w.run("rados", "-p", POOL, "notify", "absent", "hello"))
    tell("rados watch where nothing is", lambda: w.run("rados", "-p", POOL, "watch", "absent", stdin=subprocess.DEVNULL))
    one = Watch(w.c, b"w", b"one")
    tell("watch", lambda: (one.result, one.check(), listed()))
    tell("notify one", lambda: (*notify(second, b"w", b"hello"), one.heard))
    tell("notify oneself", lambda: notify(w.c, b"w", b"myself"))
    tell("notify with nothing to say", lambda: (*notify(second, b"w", b""), one.heard[-1:]))
    tell("notify with much to say", lambda: (*notify(second, b"w", b"x" * 300000), len(one.heard[-1])))
    two, same = Watch(second, b"w", b""), Watch(w.c, b"w", b"same client")
    tell("two more watch", lambda: (two.result, same.result, listed()))
    tell("notify three", lambda: notify(third, b"w", b"all"))
    long = Watch(third, b"w", b"y" * 100000)
    tell("a long answer", lambda: [len(a) for a in notify(third, b"w", b"all")[1]])
    long.end()
    mute = Watch(third, b"w", None)
    began = time.time()
    tell("notify with one that does not answer", lambda: notify(second, b"w", b"who", 3000))
    tell("after so many seconds", lambda: 3 <= time.time() - began + 0.2 < 6)
    tell("who heard it", lambda: [len(x.heard) and x.heard[-1] for x in (one, two, same, mute)])
    tell("nobody lost anything", lambda: [(x.check(), x.errors) for x in (one, two, same, mute)])
    tell("notify with no time", lambda: notify(second, b"w", b"who", 1))
    tell("unwatch", lambda: (mute.end(), listed()))
    tell("notify the others", lambda: notify(third, b"w", b"still"))

    mute = Watch(third, b"w", None)
    leave = threading.Timer(1.5, lambda: mute.end())
    leave.start()
    tell("one leaves while it is waited for", lambda: notify(second, b"w", b"go", 20000))
    leave.join()
    mute = Watch(third, b"w", None)
    dies = C()
    dying = Watch(dies, b"w", None)
    tell("watch in another client", lambda: (dying.result, listed()))
    leave = threading.Timer(1.5, lambda: dies.close())
    leave.start()
    tell("a client leaves while it is waited for", lambda: notify(second, b"w", b"go", 8000))
    leave.join()
    mute.end()
    tell("a watch with a time of its own", lambda: Watch(third, b"w", b"timed", 7).result)
    tell("its time", lambda: sorted(set(re.findall(rb"timeout[= ]*\d+|watcher_ttl.*", subprocess.run(
        ["rados", "-p", POOL, "listwatchers", "w"], stdout=subprocess.PIPE).stdout))))
    # struct { u64 cookie, version; u8 op; u32 generation, timeout; }
    for what, number in (("unwatch", 0), ("old watch", 1), ("watch", 3), ("reconnect", 5), ("ping", 7)):
        tell(f"operation {what} of a cookie that nobody has", lambda: w.c.change(b"w", 0x220F, struct.pack("<QQBII", 4711, 0, number, 1, 0)))
        tell(f"operation {what} where nothing is", lambda: w.c.change(b"absent", 0x220F, struct.pack("<QQBII", 4711, 0, number, 1, 0)))
    tell("unwatch it", lambda: w.c.change(b"w", 0x220F, struct.pack("<QQBII", 4711, 0, 0, 1, 0)))
    tell("ack of a notification that is not there", lambda: w.c.ask(b"w", 0x1207, struct.pack("<QQ", 99, 99), struct.pack("<QQI", 99, 99, 0)))
    tell("ack with nothing", lambda: w.c.ask(b"w", 0x1207, struct.pack("<QQ", 99, 99)))
    tell("ack with garbage", lambda: w.c.ask(b"w", 0x1207, struct.pack("<QQ", 99, 99), b"\xff" * 13))
    tell("ack where nothing is", lambda: w.c.ask(b"absent", 0x1207, struct.pack("<QQ", 99, 99), struct.pack("<QQI", 99, 99, 0)))

    tell("remove what is watched", lambda: w.io.remove_object("w"))
    tell("they are told", lambda: [(x.lost.wait(10), x.errors) for x in (one, two, same)])
    tell("and know it", lambda: [x.check() for x in (one, two, same)])
    tell("notify what is gone", lambda: notify(third, b"w", b"gone"))
    tell("unwatch what is gone", lambda: one.end())
    w.io.write_full("w", b"anew")
    tell("it is made anew, and nobody watches", lambda: (listed(), two.check(), notify(third, b"w", b"anew")))
    tell("unwatch what is made anew", lambda: two.end())
    again = Watch(w.c, b"w", b"again")
    tell("watch again", lambda: (again.result, again.check(), notify(third, b"w", b"again")))
    w.io.set_namespace("ns")
    w.io.write_full("w", b"same name")
    w.io.set_namespace("")
    tell("another namespace hears nothing", lambda: (listed(), w.run("rados", "-p", POOL, "-N", "ns", "notify", "w", "x"), again.heard))
    again.end()
    for x in (second, third):
        x.close()


class Item(ctypes.Structure):
    _fields_ = [("oid_length", ctypes.c_size_t), ("oid", ctypes.c_void_p), ("nspace_length", ctypes.c_size_t), ("nspace", ctypes.c_void_p),
                ("locator_length", ctypes.c_size_t), ("locator", ctypes.c_void_p)]


def listing(w):
    for i in range(40):
        w.io.write_full(f"o{i:02}", b"x")
    w.io.set_xattr("o03", "color", b"red")
    w.io.set_xattr("o07", "color", b"blue")
    for space in ("one", "two"):
        w.io.set_namespace(space)
        for i in range(4):
            w.io.write_full(f"{space}{i}", b"x")
    w.io.set_namespace("")
    w.io.set_locator_key("key")
    w.io.write_full("keyed", b"x")
    w.io.set_locator_key("")
    io = w.c.io

    def items(start, finish, n, what=b""):
        """One page: names in their order, and the cursor after it."""
        found, after = (Item * n)(), begin()
        result = lib.rados_object_list(io, start, finish, size(n), what or None, size(len(what)), found, ref(after))
        names = []
        for item in found[:max(result, 0)]:
            names.append("/".join(ctypes.string_at(at, length).decode() if length else "" for at, length in (
                (item.nspace, item.nspace_length), (item.oid, item.oid_length), (item.locator, item.locator_length))))
        lib.rados_object_list_free(size(max(result, 0)), found)
        return result, names, after

    def begin():
        return ctypes.c_void_p(lib.rados_object_list_begin(io))

    def end():
        return ctypes.c_void_p(lib.rados_object_list_end(io))

    def pages(n, start=None, finish=None, what=b""):
        cursor, finish, all, counts = start or begin(), finish or end(), [], []
        while lib.rados_object_list_cursor_cmp(io, cursor, finish) < 0 and len(counts) < 100:
            result, names, cursor = items(cursor, finish, n, what)
            if result < 0:
                return code(result)
            counts.append(result)
            all += names
        return ",".join(str(n) for n in counts), " ".join(all)

    def space(name):
        lib.rados_ioctx_set_namespace(io, name)

    def listed():
        """By the old interface, in its order."""
        ctx = ctypes.c_void_p()
        result = lib.rados_nobjects_list_open(io, ref(ctx))
        if result < 0:
            return code(result)
        got = rest(ctx)
        lib.rados_nobjects_list_close(ctx)
        return got

    def rest(ctx, most=1000):
        got = []
        entry, key, nspace = ctypes.c_char_p(), ctypes.c_char_p(), ctypes.c_char_p()
        while len(got) < most:
            result = lib.rados_nobjects_list_next(ctx, ref(entry), ref(key), ref(nspace))
            if result < 0:
                break
            got.append(f"{(nspace.value or b'').decode()}/{entry.value.decode()}/{(key.value or b'').decode()}")
        return " ".join(got)

    for name in (b"", b"one", b"nobody", b"\x01"):
        space(name)
        what = {b"": "the default namespace", b"\x01": "all namespaces"}.get(name, f"namespace {name.decode()}")
        tell(f"list {what}", listed)
        tell(f"pages of {what}", lambda: pages(7))
    space(b"")
    tell("a page of one", lambda: items(begin(), end(), 1)[:2])
    tell("a page of none", lambda: items(begin(), end(), 0)[:2])
    tell("a page at the end", lambda: items(end(), end(), 5)[:2])
    tell("a page backwards", lambda: items(end(), begin(), 5)[:2])
    tell("ends", lambda: (lib.rados_object_list_is_end(io, begin()), lib.rados_object_list_is_end(io, end())))
    tell("order of ends", lambda: [lib.rados_object_list_cursor_cmp(io, a, b) for a, b in ((begin(), end()), (end(), begin()), (end(), end()))])
    for m in (1, 2, 3, 16):
        slices = []
        for n in range(m):
            # Pointers to cursors that are made for it.
            first, last = begin(), end()
            lib.rados_object_list_slice(io, begin(), end(), size(n), size(m), ref(first), ref(last))
            slices.append((first, last))
        for n, (first, last) in enumerate(slices):
            tell(f"slice {n} of {m}", lambda: pages(5, first, last))
    filters = (("no such", bl(b"nosuch")), ("plain", bl(b"plain") + bl(b"color") + bl(b"red")), ("plain of an attribute as it is kept", bl(b"plain") + bl(b"_color") + bl(b"red")), ("plain of nothing", bl(b"plain") + bl(b"shape") + bl(b"")),
               ("plain cut", bl(b"plain") + b"\x09\0\0\0"), ("parent", bl(b"parent") + struct.pack("<Q", 1)), ("of a class that is not there", bl(b"nosuch.filter")), ("not there in a class", bl(b"hello.nosuch")), ("garbage", b"\xff" * 5), ("named with a point only", bl(b".")))
    for what, data in filters:
        tell(f"filter {what}", lambda: pages(5, what=data))
    # Positions: the hash of a placement group's number.
    ctx = ctypes.c_void_p()
    lib.rados_nobjects_list_open(io, ref(ctx))
    tell("position at first", lambda: lib.rados_nobjects_list_get_pg_hash_position(ctx))
    tell("the first three", lambda: rest(ctx, 3))
    tell("position after three", lambda: lib.rados_nobjects_list_get_pg_hash_position(ctx))
    for position in (0, 1, 3, 5, 7, 8, 100, 0xFFFFFFFF):
        tell(f"seek {position}", lambda: (lib.rados_nobjects_list_seek(ctx, ctypes.c_uint32(position)), rest(ctx, 3)))
    lib.rados_nobjects_list_seek(ctx, ctypes.c_uint32(0))
    rest(ctx, 10)
    cursor = ctypes.c_void_p()
    tell("cursor after ten", lambda: lib.rados_nobjects_list_get_cursor(ctx, ref(cursor)))
    tell("the three after it", lambda: rest(ctx, 3))
    tell("seek to the cursor", lambda: (code(lib.rados_nobjects_list_seek_cursor(ctx, cursor)), rest(ctx, 3)))
    tell("page from the cursor", lambda: items(cursor, end(), 3)[:2])
    lib.rados_nobjects_list_close(ctx)
    for words in (("ls",), ("ls", "--all"), ("ls", "-N", "one"), ("ls", "-N", "nobody"), ("ls", "--format", "json", "-N", "two"),
                  ("ls", "--all", "--format", "json", "-N", "one"), ("--pgid", "4000.0", "ls"), ("ls", "-", "x")):
        def run(words=words):
            done = subprocess.run(["rados", "-p", POOL, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30)
            return done.returncode, " ".join(re.sub(rb"\s+", b" ", done.stdout).decode().split()), w.said(done.stderr)
        tell("rados " + " ".join(words), run)


def tiers(w):
    for words in (("add", POOL, OTHER), ("add", POOL, OTHER), ("cache-mode", OTHER, "none"), ("rm", POOL, OTHER), ("add", POOL, "nosuch"), ("nonsense", POOL)):
        tell("ceph osd tier " + " ".join(words), lambda: w.run("ceph", "osd", "tier", *words).split(" |")[0])
    w.io.write_full("a", b"content")
    for name, number in (("cache-flush", 0x821F), ("cache-evict", 0x8220), ("cache-try-flush", 0x8221), ("tier-flush", 0x822B), ("tier-evict", 0x822C)):
        tell(f"{name}", lambda: w.c.ask(b"a", number))
        tell(f"{name} of nothing", lambda: w.c.ask(b"absent", number))
        for flags in (8, 16, 24):
            tell(f"{name} with flags {flags}", lambda: w.c.ask(b"a", number, flags=flags))
    for name in ("cache-flush", "cache-try-flush", "cache-evict", "cache-flush-evict-all", "cache-try-flush-evict-all"):
        words = (name,) if name.endswith("all") else (name, "a")
        tell(f"rados {name}", lambda: w.run("rados", "-p", POOL, *words))
    for name, number in (("cache_pin", 0x2224), ("cache_unpin", 0x2225), ("tier_promote", 0x2229), ("unset_manifest", 0x222A), ("undirty", 0x221C)):
        tell(f"{name}", lambda: w.c.change(b"a", number))
        tell(f"{name} of nothing", lambda: w.c.change(b"absent", number))
    tell("it is as it was", lambda: state(w.io, "a"))
    w.io.write_full("chunked", b"its own")
    # Offset here, length, the target, offset there.
    chunk = struct.pack("<QQ", 0, 4) + locator(w.other.get_pool_id()) + bl(b"target") + struct.pack("<Q", 0)
    tell("set_chunk", lambda: w.c.ask(b"chunked", 0x8228, b"", chunk))
    tell("set_chunk with nothing", lambda: w.c.ask(b"a", 0x8228))
    tell("set_chunk of nothing", lambda: w.c.ask(b"absent", 0x8228, b"", chunk))
    tell("is_dirty", lambda: w.c.ask(b"a", 0x121D))
    tell("is_dirty of nothing", lambda: w.c.ask(b"absent", 0x121D))
    tell("copy_get with nothing", lambda: w.c.ask(b"a", 0x121E))
    tell("copy_get with garbage", lambda: w.c.ask(b"a", 0x121E, struct.pack("<Q", 100), b"\xff" * 7))
    for number, name in ((0x1503, "hit_set list"), (0x1504, "hit_set get")):
        tell(f"{name} of an object", lambda: w.c.ask(b"a", number))


def quotas(w):
    def dump(pool=POOL):
        out, _ = w.mon("osd dump", format="json")
        return next(p for p in json.loads(out)["pools"] if p["pool_name"] == pool)

    def wait(flag, there=True):
        """Until the pool has a flag, or has it no more."""
        for _ in range(240):
            if (flag in dump()["flags_names"].split(",")) == there:
                w.cluster.wait_for_latest_osdmap()
                lib.rados_wait_for_latest_osdmap(w.c.cluster)
                return True
            time.sleep(0.25)
        return False

    def ceph(*words):
        tell("ceph " + " ".join(words), lambda: re.sub(r'"pool_id":\d+', '"pool_id":N', w.run("ceph", *words)))

    ceph("osd", "pool", "get-quota", POOL)
    for field in ("max_objects", "max_bytes"):
        for value in ("10", "10K", "1Mi", "-1", "none", "1.5", "18446744073709551616", "0"):
            ceph("osd", "pool", "set-quota", POOL, field, value)
            ceph("osd", "pool", "get-quota", POOL)
    ceph("osd", "pool", "set-quota", POOL, "max_something", "1")
    ceph("osd", "pool", "set-quota", "nosuch", "max_bytes", "1")
    ceph("osd", "pool", "get-quota", "nosuch")
    ceph("osd", "pool", "get-quota", POOL, "--format", "json")
    w.io.write_full("a", b"x" * 4096)
    w.io.write_full("b", b"x" * 4096)
    ceph("osd", "pool", "set-quota", POOL, "max_objects", "2")
    tell("the pool fills", lambda: wait("full_quota"))
    tell("its flags", lambda: ",".join(sorted(f for f in dump()["flags_names"].split(",") if "full" in f)))
    ceph("osd", "pool", "get-quota", POOL, "--format", "json")

    def df():
        out, _ = w.mon("df", detail="detail", format="json")
        return next((p["stats"]["quota_objects"], p["stats"]["quota_bytes"]) for p in json.loads(out)["pools"] if p["name"] == POOL)

    tell("df", df)
    tell("health", lambda: sorted((k, v["severity"], v["summary"]["message"]) for k, v in json.loads(w.mon("health", format="json")[0])["checks"].items() if "POOL_F" in k))
    tell("health detail", lambda: [d["message"] for k, v in json.loads(w.mon("health", detail="detail", format="json")[0])["checks"].items() if k == "POOL_FULL" for d in v["detail"]])
    steps = (("write_full of a new one", b"new", ("write_full", b"x", size(1))), ("write into one", b"a", ("write", b"x", size(1), u64(0))),
             ("append", b"a", ("append", b"x", size(1))), ("truncate", b"a", ("truncate", u64(10))), ("setxattr", b"a", ("setxattr", b"x", b"y", size(1))),
             ("zero", b"a", ("zero", u64(0), u64(5))), ("create", b"made", ("create", 0, None)), ("remove", b"b", ("remove",)), ("remove nothing", b"absent", ("remove",)))
    for what, oid, step in steps:
        tell(f"{what} that tries", lambda: w.c.write(oid, step, flags=FULL_TRY))
    tell("read", lambda: len(w.io.read("a")))
    lib.rados_set_pool_full_try(w.c.io)
    tell("write of a client that tries", lambda: code(lib.rados_write_full(w.c.io, b"a", b"x", size(1))))
    tell("removal of a client that tries", lambda: code(lib.rados_remove(w.c.io, b"a")))
    lib.rados_unset_pool_full_try(w.c.io)
    tell("rados rm", lambda: w.run("rados", "-p", POOL, "rm", "b", "--force-full"))
    ceph("osd", "pool", "set-quota", POOL, "max_objects", "0")
    tell("the pool has room", lambda: wait("full_quota", False))
    tell("write", lambda: w.io.write_full("a", b"y" * 4096))
    w.io.write_full("b", b"y" * 4096)
    ceph("osd", "pool", "set-quota", POOL, "max_bytes", "8192")
    tell("the pool fills by bytes", lambda: wait("full_quota"))
    ceph("osd", "pool", "get-quota", POOL)
    tell("write that tries, by bytes", lambda: w.c.write(b"a", ("append", b"x", size(1)), flags=FULL_TRY))
    tell("df by bytes", df)
    tell("health by bytes", lambda: [d["message"] for k, v in json.loads(w.mon("health", detail="detail", format="json")[0])["checks"].items() if k == "POOL_FULL" for d in v["detail"]])
    done = []
    waiting = threading.Thread(target=lambda: done.append(w.c.write(b"late", ("write_full", b"late", size(4)))))
    waiting.start()
    time.sleep(1)
    tell("a write waits", lambda: (waiting.is_alive(), done))
    ceph("osd", "pool", "set-quota", POOL, "max_bytes", "0")
    waiting.join(60)
    tell("and is done when there is room", lambda: (waiting.is_alive(), done, w.io.read("late")))


def blocklists(w):
    def ceph(*words):
        tell("ceph " + " ".join(words), lambda: masked(w.run("ceph", *words)))

    def masked(text):
        text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d+\S*", "TIME", text)
        if text.startswith("exit 0 ") and " / " in text:
            text = "exit 0 " + " / ".join(sorted(text[7:].split(" |")[0].split(" / "))) + " |" + text.split(" |")[1]
        return re.sub(r"until TIME \(.*? sec\)", "until TIME", re.sub(r"127\.0\.0\.1:0/\d+", "CLIENT", text))

    def dump(*words):
        return subprocess.run(["ceph", "osd", "dump", *words], stdout=subprocess.PIPE, check=True, timeout=60).stdout.decode()

    # Sheets that ran before on this cluster may have left clients that died with a lock.
    w.run("ceph", "osd", "blocklist", "clear")
    for words in (("add", "10.1.2.3"), ("add", "10.1.2.4:0/5"), ("add", "10.1.2.5:6789/0", "60"), ("add", "10.1.2.3"), ("ls",), ("add", "nonsense"),
                  ("add", "10.1.2.3:99999999/1"), ("add", "10.1.2.300"), ("add", ""), ("add", "[::1]:0/7"), ("add", "10.1.2.6", "-5"), ("add", "10.1.2.6", "x"),
                  ("add", "10.1.2.7", "0.5"), ("add", "v1:10.1.2.8:0/1"), ("add", "v2:10.1.2.9:0/1"), ("add", "any:10.1.2.9:0/1"), ("rm", "10.1.2.99"), ("rm", "10.1.2.3"),
                  ("rm", "10.1.2.3:0/0"), ("rm", "10.1.2.4:0/5"), ("rm", "10.1.2.4:0/5"), ("rm", "nonsense"), ("rm", "10.1.2.5:6789/0"), ("rm", "[::1]:0/7"), ("rm", "10.1.2.6"),
                  ("rm", "10.1.2.7"), ("rm", "10.1.2.8:0/1"), ("rm", "10.1.2.9:0/1"), ("ls",), ("clear",), ("ls",), ("what",)):
        ceph("osd", "blocklist", *words)
    for words in (("add", "192.168.0.1:0/24"), ("add", "192.168.0.1:0/24"), ("add", "10.0.0.1"), ("add", "10.0.0.1:5/8"), ("add", "10.0.0.1:0/33"), ("add", "[fd00::]:0/8", "90"),
                  ("add", "[fd00::]:0/129"), ("add", "nonsense"), ("add", "cidr:10.1.0.0:0/16", "60"), ("rm", "10.99.0.0:0/16"), ("rm", "192.168.0.0:0/24")):
        ceph("osd", "blocklist", "range", *words)
    ceph("osd", "blocklist", "add", "10.1.2.4:0/24")
    ceph("osd", "blocklist", "add", "cidr:10.2.0.0:0/16")
    ceph("osd", "blocklist", "ls")
    tell("ranges dumped", lambda: sorted(json.loads(dump("--format", "json"))["range_blocklist"]))
    tell("ranges in the text", lambda: sorted(re.findall(r"[a-z ]*blocklist \S+ expires", dump())))
    ceph("osd", "blocklist", "range", "rm", "192.168.0.1:0/24")
    ceph("osd", "blocklist", "rm", "10.1.0.0:0/16")
    ceph("osd", "blocklist", "ls")
    ceph("osd", "blocklist", "clear")
    ceph("osd", "blocklist", "ls")
    ceph("osd", "blacklist", "range", "add", "10.1.2.3:0/3")
    ceph("osd", "blacklist", "add", "10.1.2.3:0/3")
    ceph("osd", "blacklist", "rm", "10.1.2.3:0/3")

    w.io.write_full("a", b"content")
    victim = C()
    address = ctypes.c_char_p()
    lib.rados_getaddrs(victim.cluster, ref(address))
    where = re.search(r"(\d+\.\d+\.\d+\.\d+:\d+/\d+)", address.value.decode())[1]
    watch = Watch(victim, b"a", b"here")
    tell("victim watches", lambda: (watch.result, watch.check()))
    tell("victim writes", lambda: victim.write(b"a", ("write", b"X", size(1), u64(0))))
    tell("add it", lambda: masked(w.run("ceph", "osd", "blocklist", "add", where)))
    tell("listed", lambda: masked(w.run("ceph", "osd", "blocklist", "ls")))
    w.cluster.wait_for_latest_osdmap()
    w.io.write_full("b", b"others write")
    buffer = ctypes.create_string_buffer(16)

    def victim_does(when):
        tell(f"{when} it reads", lambda: code(lib.rados_read(victim.io, b"a", buffer, size(16), u64(0))))
        tell(f"{when} it reads nothing", lambda: code(lib.rados_read(victim.io, b"absent", buffer, size(16), u64(0))))
        tell(f"{when} it asks for the size", lambda: code(lib.rados_stat(victim.io, b"a", ref(u64()), ref(ctypes.c_long()))))
        tell(f"{when} it writes", lambda: code(lib.rados_write_full(victim.io, b"v", b"x", size(1))))
        tell(f"{when} it removes", lambda: code(lib.rados_remove(victim.io, b"a")))
        tell(f"{when} it calls a class", lambda: victim.ask(b"a", 0x1202))
        tell(f"{when} it watches", lambda: Watch(victim, b"b").result)
        tell(f"{when} it notifies", lambda: notify(victim, b"b", b"x", 3000))
        ctx, entry = ctypes.c_void_p(), ctypes.c_char_p()
        lib.rados_nobjects_list_open(victim.io, ref(ctx))
        tell(f"{when} it lists", lambda: code(lib.rados_nobjects_list_next(ctx, ref(entry), None, None)))
        lib.rados_nobjects_list_close(ctx)
        out, length, said, said_length = ctypes.c_char_p(), size(0), ctypes.c_char_p(), size(0)
        command = (ctypes.c_char_p * 1)(b'{"prefix": "fsid"}')
        tell(f"{when} it asks the monitor", lambda: code(lib.rados_mon_command(victim.cluster, command, size(1), None, size(0), ref(out), ref(length), ref(said), ref(said_length))))
        tell(f"{when} it makes a snapshot", lambda: code(lib.rados_ioctx_snap_create(victim.io, b"by-victim")))

    victim_does("then")
    tell("its watch ends", lambda: (watch.lost.wait(40), sorted(set(watch.errors)), watch.check()))
    tell("nobody else is notified of it", lambda: notify(w.c, b"a", b"who", 3000))
    tell("unwatch", lambda: watch.end())
    tell("take it off", lambda: masked(w.run("ceph", "osd", "blocklist", "rm", where)))
    w.cluster.wait_for_latest_osdmap()
    lib.rados_wait_for_latest_osdmap(victim.cluster)
    w.io.write_full("b", b"others write")
    victim_does("later")
    tell("fence its range", lambda: masked(w.run("ceph", "osd", "blocklist", "range", "add", "127.0.0.99:0/8")))
    lib.rados_wait_for_latest_osdmap(victim.cluster)
    victim_does("in a range")
    tell("let the range in", lambda: masked(w.run("ceph", "osd", "blocklist", "range", "rm", "127.0.0.99:0/8")))
    lib.rados_wait_for_latest_osdmap(victim.cluster)
    w.cluster.wait_for_latest_osdmap()
    w.io.write_full("b", b"others write")
    tell("a client blocklists another", lambda: code(lib.rados_blocklist_add(w.c.cluster, b"10.9.9.9:0/77", ctypes.c_uint32(100))))
    tell("a client blocklists nonsense", lambda: code(lib.rados_blocklist_add(w.c.cluster, b"nonsense", ctypes.c_uint32(100))))
    tell("and removes it", lambda: masked(w.run("ceph", "osd", "blocklist", "rm", "10.9.9.9:0/77")))
    victim.close()


def limits(w):
    c = w.c
    # Around the largest object.
    for offset, length in ((LARGEST - 1, 1), (LARGEST - 1, 2), (LARGEST, 1), (LARGEST + 1, 1), (LARGEST, 0), (LARGEST + 1, 0), (1 << 40, 1), (HEAD, 1), (HEAD + 1, 1)):
        data = b"x" * length
        tell(f"write {length} at {offset}", lambda: c.write(b"w", ("write", data, size(length), u64(offset))))
        tell(f"zero {length} at {offset}", lambda: c.write(b"w", ("zero", u64(offset), u64(length))))
        tell(f"writesame {length * 2} at {offset}", lambda: c.write(b"w", ("writesame", data, size(length), size(length * 2), u64(offset))))
        tell(f"zero on nothing {length} at {offset}", lambda: c.write(b"absent", ("zero", u64(offset), u64(length))))
        tell(f"cmpext {length} at {offset}", lambda: c.write(b"w", ("cmpext", data, size(length), u64(offset), None)))
        tell(f"read {length} at {offset}", lambda: c.ask(b"w", 0x1201, struct.pack("<QQQI", offset, length, 0, 0)))
    tell("its size", lambda: w.io.stat("w")[0])
    for n in (LARGEST - 1, LARGEST, LARGEST + 1, 1 << 40, HEAD):
        tell(f"truncate to {n}", lambda: (c.write(b"t", ("truncate", u64(n))),))
        tell(f"size after truncate to {n}", lambda: w.io.stat("t")[0])
    w.io.trunc("t", LARGEST)
    tell("append to the largest", lambda: c.write(b"t", ("append", b"x", size(1))))
    tell("append nothing to the largest", lambda: c.write(b"t", ("append", b"", size(0))))
    w.io.trunc("t", LARGEST - 1)
    tell("append two before the end", lambda: c.write(b"t", ("append", b"xx", size(2))))
    tell("append one before the end", lambda: c.write(b"t", ("append", b"x", size(1))))
    tell("its size then", lambda: w.io.stat("t")[0])
    tell("create, then write too far", lambda: (c.write(b"atomic", ("create", 0, None), ("write", b"x", size(1), u64(LARGEST)))))
    tell("nothing is left of it", lambda: w.io.stat("atomic"))
    large = b"L" * (91 * MIB)
    tell("write of 91 MiB", lambda: code(lib.rados_write(c.io, b"huge", large, size(len(large)), u64(0))))
    tell("append of 91 MiB to it", lambda: code(lib.rados_append(c.io, b"huge", large, size(len(large)))))
    tell("size of it", lambda: w.io.stat("huge")[0])
    # Attributes.
    for n in (65535, 65536, 65537, 1 << 20):
        tell(f"attribute of {n} bytes", lambda: w.io.set_xattr("x", "a", b"v" * n))
    for n in (1, 127, 128, 250, 251, 255, 256, 257, 300, 2000):
        tell(f"attribute name of {n} bytes", lambda: w.io.set_xattr("x", "n" * n, b"v"))
    tell("attribute without a name", lambda: w.io.set_xattr("x", "", b"v"))
    tell("attributes", lambda: ",".join(str(len(k)) for k, _ in sorted(w.io.get_xattrs("x")) if k))
    tell("remove an attribute without a name", lambda: w.io.rm_xattr("x", ""))
    tell("attribute name with blanks and slashes", lambda: (w.io.set_xattr("x", "a b/\u00e4\n", b"odd"), w.io.get_xattr("x", "a b/\u00e4\n")))
    tell("name that the object keeps for itself", lambda: (w.io.set_xattr("x", "_", b"odd"), w.io.get_xattr("x", "_"), w.io.get_xattr("x", "snapset")))
    for i in range(3):
        tell(f"attributes of 60000 bytes, {i}", lambda: w.io.set_xattr("many", f"a{i}", b"v" * 60000))
    # Omap.

    def omap(oid, pairs):
        with rados.WriteOpCtx() as op:
            w.io.set_omap(op, tuple(k for k, _ in pairs), tuple(v for _, v in pairs))
            w.io.operate_write_op(op, oid)

    def first(oid):
        with rados.ReadOpCtx() as op:
            found, _ = w.io.get_omap_vals(op, "", "", 10)
            w.io.operate_read_op(op, oid)
            return [(len(k), len(v)) for k, v in found]

    for n in (1, 1024, 4096, 65536, 1 << 20):
        tell(f"omap key of {n} bytes", lambda: (omap(f"k{n}", (("k" * n, b"v"),)), first(f"k{n}")))
    tell("empty omap key", lambda: (omap("k0", (("", b"v"),)), first("k0")))
    for n in (0, 65537, 4 * MIB):
        tell(f"omap value of {n} bytes", lambda: (omap(f"v{n}", (("k", b"v" * n),)), first(f"v{n}")))
    tell("omap header of 4 MiB", lambda: c.change(b"h", 0x2216, b"", b"h" * 4 * MIB))
    # Names.

    def named(name, space=None, key=None):
        if space is not None:
            lib.rados_ioctx_set_namespace(c.io, space)
        if key is not None:
            lib.rados_ioctx_locator_set_key(c.io, key)
        out = ctypes.create_string_buffer(8)
        results = (code(lib.rados_write_full(c.io, name, b"v", size(1))), code(lib.rados_read(c.io, name, out, size(8), u64(0))), code(lib.rados_remove(c.io, name)))
        lib.rados_ioctx_set_namespace(c.io, b"")
        lib.rados_ioctx_locator_set_key(c.io, None)
        return results

    for n in (0, 1, 254, 255, 256, 2047, 2048, 2049, 4096, 20000):
        tell(f"name of {n} bytes", lambda: named(b"n" * n))
    for name in (b"\xff\xfe", b"caf\xe9", b"\x01", b"a\nb", b"\t", b"%", b"\\", b"..", b".", b"/", b"a/../b", b"\xc3\xa4", b"_", b"\x7f", b"@head", b":", b"!", b"~", b"u" * 60 + b"\xe9"):
        tell(f"name {groups(name)}", lambda: named(name))
    for n in (1, 255, 256, 257, 2048, 5000):
        tell(f"namespace of {n} bytes", lambda: named(b"o", space=b"s" * n))
    tell("namespace that is not UTF-8", lambda: named(b"o", space=b"\xff\xfe"))
    for n in (1, 255, 2048, 2049, 5000):
        tell(f"key of {n} bytes", lambda: named(b"o", key=b"k" * n))
    tell("key that is not UTF-8", lambda: named(b"o", key=b"\xff"))
    tell("key that is the name", lambda: named(b"o", key=b"o"))
    # Listed as they are.
    lib.rados_write_full(c.io, b"\xff\xfe odd", b"v", size(1))
    lib.rados_write_full(c.io, b"a\nb", b"v", size(1))
    lib.rados_write_full(c.io, b"z" * 2048, b"v", size(1))
    tell("listed", lambda: sorted(n[:20] for n in subprocess.run(["rados", "-p", POOL, "ls"], stdout=subprocess.PIPE).stdout.split(b"\n") if n[:1] in (b"\xff", b"a", b"z") and n != b"absent"))
    tell("snapshot name with odd letters", lambda: w.other.create_snap("a/b@c \u00e4"))
    tell("snapshots", lambda: [s.name[:20] for s in w.other.list_snaps()])
    for n in (64, 200):
        tell(f"pool name of {n} bytes", lambda: w.cluster.create_pool("p" * n))
        tell(f"it is gone again, {n}", lambda: w.cluster.delete_pool("p" * n))
    tell("pool without a name", lambda: w.cluster.create_pool(""))
    tell("pool with a point before", lambda: (w.cluster.create_pool(".hidden"), w.cluster.delete_pool(".hidden")))


def rbd_names(w):
    def run(*words):
        return w.run("rbd", *words)

    def shown(words):
        return " ".join(v if len(v) < 60 else f"{v[:10]}...({len(v)})" for v in (x.decode("utf-8", "backslashreplace") if isinstance(x, bytes) else x for x in words))

    for words in ((f"{POOL}/", "--size", "1M"), (f"{POOL}/{'n' * 4096}", "--size", "1M"), (f"{POOL}/{'n' * 2000}", "--size", "1M"), (f"{POOL}/a/b", "--size", "1M"), (f"{POOL}/a/b/c", "--size", "1M"),
                  (f"{POOL}/a@b", "--size", "1M"), ("/a", "--size", "1M"), ("@", "--size", "1M"), (f"{POOL}/@s", "--size", "1M"), (f"{POOL}/a@b@c", "--size", "1M"),
                  (f"{POOL}/ blank ", "--size", "1M"), (f"{POOL}/line\nbreak", "--size", "1M"), (f"{POOL}/caf".encode() + b"\xe9", "--size", "1M"), (f"{POOL}/--size", "--size", "1M"),
                  (f"{POOL}/\u00e4", "--size", "1M"), (f"{POOL}/z", "--size", "0"), (f"{POOL}/h1", "--size", "1E"), (f"{POOL}/h2", "--size", "15E"), (f"{POOL}/h3", "--size", "16E"),
                  (f"{POOL}/h4", "--size", "18446744073709551615B"), (f"{POOL}/h5", "--size", "99999999999999999999"), (f"{POOL}/h6", "--size", "-1"), (f"{POOL}/h7", "--size", "1.5M"),
                  (f"{POOL}/h8", "--size", "1Q"), (f"{POOL}/h9", "--size", "8P", "--image-feature", "layering"), (f"{POOL}/h10", "--size", "8P"), (f"{POOL}/h11", "--size", "100T", "--object-size", "4K"),
                  (f"{POOL}/s", "--size", "8M")):
        tell("rbd create " + shown(words).replace("\n", "\\n"), lambda: run("create", *words))
    tell("rbd ls", lambda: subprocess.run(["rbd", "-p", POOL, "ls"], stdout=subprocess.PIPE).stdout.replace(b"n" * 2000, b"N"))
    for name in ("z", "h1", "h9", "h10"):
        tell(f"rbd info {name}", lambda: w.run("sh", "-c", f"rbd info {POOL}/{name} | head -3"))
    tell("rbd info by a name that is not UTF-8", lambda: w.run("rbd", "info", f"{POOL}/caf".encode() + b"\xe9").split(" ")[1])
    r = rbd.RBD()
    for name in ("a/b", "a@b", "@", "/", " "):
        tell(f"create by library {name!r}", lambda: r.create(w.io, name, MIB))
        tell(f"open by library {name!r}", lambda: rbd.Image(w.io, name).size())
        tell(f"remove by library {name!r}", lambda: r.remove(w.io, name))
    for spec in (f"{POOL}/s@", f"{POOL}/s", f"{POOL}/s@a/b", f"{POOL}/s@a@b", f"{POOL}/s@{'s' * 4096}", f"{POOL}/s@{'s' * 200}", f"{POOL}/s@ ", f"{POOL}/s@\u00e4", f"{POOL}/s@ok", f"{POOL}/s@ok", f"{POOL}/s@-", f"{POOL}/absent@s"):
        tell("rbd snap create " + shown((spec,)), lambda: run("snap", "create", "--no-progress", spec))
    tell("rbd snap create not UTF-8", lambda: run("snap", "create", "--no-progress", f"{POOL}/s@".encode() + b"\xff"))
    with rbd.Image(w.io, "s") as image:
        for name in ("", "a/b", "a@b"):
            tell(f"snapshot by library {name!r}", lambda: image.create_snap(name))
        tell("snapshots", lambda: [s["name"] if len(s["name"]) < 60 else len(s["name"]) for s in image.list_snaps()])
    for words in (("resize", f"{POOL}/z", "--size", "8M"), ("resize", f"{POOL}/z", "--size", "0"), ("resize", f"{POOL}/z", "--size", "0", "--allow-shrink"), ("resize", f"{POOL}/s", "--size", "15E"),
                  ("resize", f"{POOL}/s", "--size", "16E"), ("snap", "rename", f"{POOL}/s@ok", f"{POOL}/s@"), ("snap", "rename", f"{POOL}/s@ok", f"{POOL}/s@a/b"), ("snap", "rename", f"{POOL}/s@ok", f"{POOL}/z@other"),
                  ("snap", "rename", f"{POOL}/s@ok", f"{POOL}/s@other"), ("rename", f"{POOL}/z", f"{POOL}/"), ("rename", f"{POOL}/z", f"{POOL}/a@b"), ("rename", f"{POOL}/z", f"{OTHER}/z"), ("rename", f"{POOL}/z", f"{POOL}/a/b"),
                  ("bench", f"{POOL}/z", "--io-type", "write", "--io-total", "4K"), ("export", f"{POOL}/z", "-"), ("rm", f"{POOL}/z"),
                  ("image-meta", "set", f"{POOL}/s", "", "v"), ("image-meta", "set", f"{POOL}/s", "k", ""), ("image-meta", "get", f"{POOL}/s", "k"), ("image-meta", "set", f"{POOL}/s", "k" * 4096, "v"),
                  ("namespace", "create", f"{POOL}/n"), ("namespace", "create", f"{POOL}/"), ("namespace", "create", f"{POOL}/a/b"), ("namespace", "create", f"{POOL}/{'n' * 300}"), ("namespace", "create", f"{POOL}/a@b"),
                  ("namespace", "ls", POOL), ("group", "create", f"{POOL}/"), ("group", "create", f"{POOL}/a@b"), ("group", "create", f"{POOL}/g")):
        tell("rbd " + shown(words), lambda: run(*words))


def rbd_files(w):
    def path(name):
        return os.path.join(w.dir, name)

    rbd.RBD().create(w.io, "src", 16 * MIB, 22, old_format=False, features=1)
    with rbd.Image(w.io, "src") as image:
        image.write(b"A" * 5000, 0)
        image.write(b"B" * 70000, 5 * MIB)
        image.metadata_set("key", "value")
        image.create_snap("s1")
        image.write(b"C" * 3000, 9 * MIB)
        image.discard(0, 4096)
    steps = (("v1", ("export", f"{POOL}/src", "v1")), ("v2", ("export", "--export-format", "2", f"{POOL}/src", "v2")),
             ("diff", ("export-diff", f"{POOL}/src@s1", "diff")), ("diff2", ("export-diff", f"{POOL}/src", "--from-snap", "s1", "diff2")))
    for name, words in steps:
        tell(f"export {name}", lambda: (w.run("rbd", "--no-progress", *words), os.stat(path(name)).st_size))
    whole = {name: open(path(name), "rb").read() for name, _ in steps}
    rest = whole["v2"]
    tell("v2 begins", lambda: rest[:64])
    tell("diff begins", lambda: whole["diff"][:64])
    tell("diff2 whole", lambda: (len(whole["diff2"]), whole["diff2"][:60]))

    def left(image):
        try:
            with rbd.Image(w.io, image) as i:
                data = i.read(0, min(i.size(), 16 * MIB))
                return i.size(), [s["name"] for s in i.list_snaps()], len(data) - data.count(0)
        except rbd.ImageNotFound:
            return "no image"

    def attempt(what, data, words, image, base=None):
        with open(path("cut"), "wb") as f:
            f.write(data)
        if base is not None:
            rbd.RBD().create(w.io, image, base, 22, old_format=False, features=1)
        tell(what, lambda: w.run("rbd", "--no-progress", *words))
        tell(f"{what} leaves", lambda: left(image))
        try:
            with rbd.Image(w.io, image) as i:
                for s in list(i.list_snaps()):
                    i.remove_snap(s["name"])
            rbd.RBD().remove(w.io, image)
        except rbd.ImageNotFound:
            pass

    for n in (0, 1, 5 * MIB + 12345, 16 * MIB - 1, 16 * MIB):
        attempt(f"import of {n} bytes", whole["v1"][:n], ("import", "cut", f"{POOL}/i"), "i")
    n = len(rest)
    for cut in (0, 1, 11, 12, 13, 20, 21, 24, 33, 34, 40, 60, 80, 100, 120, 150, 200, 3000, 8000, 40000, n - 4000, n - 100, n - 2, n - 1, n):
        attempt(f"import of v2 cut at {cut if cut < n - 5000 else f'end - {n - cut}'}", rest[:cut], ("import", "--export-format", "2", "cut", f"{POOL}/i"), "i")
    for what, data in (("version 1 as version 2", whole["v1"]), ("a difference as version 2", whole["diff"]), ("garbage after the header", rest[:13] + b"\xff" * 100), ("another magic", b"x" + rest[1:]),
                       ("more after the end", rest + b"more"), ("image options of length 0", rest[:13] + b"O" + bytes(8) + rest[22:]), ("an unknown tag", rest[:13] + b"Z" + struct.pack("<Q", 4) + b"abcd" + rest[13:])):
        attempt(f"import of {what}", data, ("import", "--export-format", "2", "cut", f"{POOL}/i"), "i")
    with open(path("cut"), "wb") as f:
        f.write(rest)
    tell("import of v2 as v1", lambda: (w.run("rbd", "--no-progress", "import", "cut", f"{POOL}/as1"), left("as1")[0] == len(rest)))
    for name, first in (("diff", None), ("diff2", "s1")):
        data = whole[name]
        n = len(data)
        for cut in (0, 5, 11, 12, 13, 15, 17, 20, 21, 25, 29, 30, 33, 40, 45, 50, 60, 1000, n - 3500, n - 2000, n - 100, n - 2, n - 1, n):
            if first:
                rbd.RBD().create(w.io, "d", 16 * MIB, 22, old_format=False, features=1)
                with rbd.Image(w.io, "d") as i:
                    i.create_snap(first)
            attempt(f"import-diff of {name} cut at {cut if cut < n - 5000 else f'end - {n - cut}'}", data[:max(cut, 0)], ("import-diff", "cut", f"{POOL}/d"), "d", None if first else MIB)
    diff = whole["diff"]
    for what, data in (("of another magic", b"x" + diff[1:]), ("with an unknown tag", diff[:12] + b"Z" + diff[12:]), ("that writes far behind the end", diff[:-1] + b"w" + struct.pack("<QQ", 1 << 40, 4) + b"abcde"),
                       ("with more after the end", diff + b"more"), ("that is version 2's", rest), ("of nothing but its end", b"rbd diff v1\ne"), ("of nothing but its magic", b"rbd diff v1\n"),
                       ("from a snapshot that is not there", whole["diff2"])):
        attempt(f"import-diff {what}", data, ("import-diff", "cut", f"{POOL}/d"), "d", MIB)
    for what, a, b in (("cut first", diff[:5000], whole["diff2"]), ("cut second", diff, whole["diff2"][:40]), ("nothing first", b"", whole["diff2"]), ("nothing second", diff, b""), ("in the wrong order", whole["diff2"], diff)):
        for name, data in (("one", a), ("two", b)):
            with open(path(name), "wb") as f:
                f.write(data)
        tell(f"merge-diff {what}", lambda: w.run("rbd", "--no-progress", "merge-diff", "one", "two", "merged"))
        if os.path.exists(path("merged")):
            os.remove(path("merged"))


def call(w, cls, method, lengths=None, data=b"", oid=b"a"):
    """A class method, by struct { u8 class, method, count of arguments; u32 input; }."""
    c, m, n = lengths or (len(cls), len(method), len(data))
    return w.c.ask(oid, 0x1401, struct.pack("<BBBI", c, m, 0, n), cls + method + data)


def unknown(w):
    w.io.write_full("a", b"content")
    for number in (0, 1, 0x1200, 0x1210, 0x12FF, 0x1300, 0x13FF, 0x1401, 0x1402, 0x14FF, 0x1501, 0x15FF, 0x1600, 0x0201, 0x8222, 0x82FF, 0x1505):
        tell(f"read {number:#06x}", lambda: w.c.ask(b"a", number))
        tell(f"read {number:#06x} of nothing", lambda: w.c.ask(b"absent", number))
    for number in (0x2200, 0x220A, 0x220C, 0x2210, 0x222E, 0x22FF, 0x2300, 0x2305, 0x2401, 0x2501, 0x2600, 0xFFFF, 0x3221, 0x320A, 0x3222, 0x4000, 0x2302, 0x2303, 0x2208, 0x2207):
        tell(f"change {number:#06x}", lambda: w.c.change(b"a", number))
        tell(f"change {number:#06x} of nothing", lambda: w.c.change(b"absent", number))
        tell(f"after change {number:#06x}", lambda: state(w.io, "a"))
    # A map in an object's data, of old: header, number of pairs, pairs. The argument 1 lets there be none.
    old = bl(b"head") + struct.pack("<I", 2) + bl(b"k1") + bl(b"v1") + bl(b"k2") + bl(b"v2")
    for flags in (b"", b"\1"):
        w.io.write_full("map", old)
        tell(f"tmap2omap with flags {len(flags)}", lambda: (w.c.change(b"map", 0x3222, flags), *state(w.io, "map")))
        tell(f"tmap2omap with flags {len(flags)} again", lambda: (w.c.change(b"map", 0x3222, flags), *state(w.io, "map")))
        tell(f"tmap2omap with flags {len(flags)} of nothing", lambda: w.c.change(b"absent", 0x3222, flags))
        w.io.remove_object("map")
    # Its answer is the number of the notification.
    tell("notify with nothing", lambda: len(w.c.ask(b"a", 0x1206)[1]))
    tell("notify of nothing, with nothing", lambda: w.c.ask(b"absent", 0x1206))
    for cls, method in ((b"nosuch", b"x"), (b"hello", b"nosuch"), (b"", b""), (b"hello", b""), (b"", b"say_hello"), (b"../hello", b"say_hello"), (b"he\0llo", b"say_hello"), (b"\xff", b"\xff"), (b"x" * 255, b"y"),
                        (b"hello", b"y" * 255), (b"sdk", b"x"), (b"lua", b"eval_json"), (b"statelog", b"x"), (b"replica_log", b"x"), (b"test_remote_reads", b"x"), (b"kvs", b"x"), (b"bogus", b"x"), (b"gc", b"x"), (b"tabular", b"x")):
        tell(f"call {cls[:10].decode('latin-1')!r}.{method[:10].decode('latin-1')!r}", lambda: call(w, cls, method))
        tell(f"call {cls[:10].decode('latin-1')!r}.{method[:10].decode('latin-1')!r} on nothing", lambda: call(w, cls, method, oid=b"absent"))
    # Calls that say that they are longer than they are occupy a real OSD for good.
    tell("call that says too little", lambda: call(w, b"hello", b"say_hello", (5, 9, 0), b"you"))
    for method in ("say_hello", "record_hello", "replay", "turn_it_to_11", "bad_reader", "bad_writer", "write_return_data", "writes_dont_return_data", "write_too_much_return_data"):
        for payload in (b"", b"\xff" * 64, b"x" * 101):
            for oid in ("a", "absent"):
                tell(f"hello.{method} of {len(payload)} bytes on {oid}", lambda: w.io.execute(oid, "hello", method, payload))
                if oid == "absent":
                    tell(f"hello.{method} of {len(payload)} bytes made", lambda: state(w.io, "absent"))
                    w.run("rados", "-p", POOL, "rm", "absent") if w.c.ask(b"absent", 0x1202) != "ENOENT" else None
        w.io.write_full("a", b"content")


def absent(w):
    """What ours is meant not to have, or to answer otherwise."""
    tell("copy_get of nothing", lambda: w.c.ask(b"absent", 0x121E, struct.pack("<Q", 100)))
    did = w.run("ceph", "osd", "blocklist", "ls", "--format", "json")
    print(f"ceph osd blocklist ls --format json: {' '.join(did.split()[:3])}", flush=True)
    tell("snapshot name of 4096 bytes", lambda: w.other.create_snap("s" * 4096))
    tell("snapshot without a name", lambda: w.other.create_snap(""))
    tell("pool name of 5000 bytes", lambda: w.cluster.create_pool("p" * 5000))
    tell("it is gone again, 5000", lambda: w.cluster.delete_pool("p" * 5000))
    for words in (("add", POOL, OTHER), ("set-overlay", POOL, OTHER), ("remove-overlay", POOL), ("rm", POOL, OTHER)):
        did = w.run("ceph", "osd", "tier", *words)
        if "overlay" in words[0]:
            print(f"ceph osd tier {' '.join(words)}: {did.split(' |')[0]}".rstrip(), flush=True)
    w.io.write_full("a", b"content")
    # An object that leads to itself occupies a real OSD for good.
    w.io.write_full("redirected", b"its own")
    w.other.write_full("target", b"the target's")
    leads = bl(b"target") + locator(w.other.get_pool_id())
    tell("set_redirect", lambda: w.c.change(b"redirected", 0x2227, struct.pack("<QQBI", 0, 0, 0, 0), leads))
    tell("read what is redirected", lambda: w.io.read("redirected"))
    tell("set_redirect of nothing", lambda: w.c.change(b"absent", 0x2227, struct.pack("<QQBI", 0, 0, 0, 0), leads))
    tell("set_redirect with garbage", lambda: w.c.change(b"a", 0x2227, bytes(21), b"\xff"))
    for cls in (b"cephfs", b"cas"):
        tell(f"class {cls.decode()}", lambda: call(w, cls, b"x"))


# With counts of billions a real OSD takes the memory for them, and dies of it.
DEADLY = {("rbd", "mirror_image_status_get_summary")}


# Classes whose stories are elsewhere.
TOLD_ELSEWHERE = ("hello", "2pc_queue", "cmpomap", "fifo", "otp", "queue", "rgw", "rgw_gc")


def garbage(w):
    """All methods with bytes that are all ones, after what `classes_story.py` says to them."""
    # `cores/classes/src/methods.txt`, without hello and the object gateway's classes.
    table = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../../cores/classes/src/methods.txt")
    with open(table) as f:
        methods = [line.split()[:2] for line in f if line.strip()]
    for cls, method in methods:
        if cls in TOLD_ELSEWHERE or (cls, method) in DEADLY:
            continue
        results = []
        w.io.write_full("a", b"content")
        for oid in ("a", "absent"):
            try:
                result, out = w.io.execute(oid, cls, method, b"\xff" * 64)
                results.append(f"{result} {len(out)} bytes" if (cls, method) == ("version", "read") else show((result, out)))
            except rados.Error as e:
                results.append(errno.errorcode.get(abs(e.errno), e.errno))
        print(f"{cls}.{method}: {' '.join(results)}", flush=True)
        for oid in ("a", "absent"):
            try:
                w.io.remove_object(oid)
            except rados.ObjectNotFound:
                pass


CHAPTERS = (checksums, copies, watchers, listing, tiers, quotas, blocklists, limits, rbd_names, rbd_files, unknown, absent, garbage)


def main():
    wanted = sys.argv[2:] or [chapter.__name__ for chapter in CHAPTERS]
    for chapter in CHAPTERS:
        if chapter.__name__ in wanted:
            # Of a chapter that is meant to differ, every line must.
            if chapter is not absent:
                print(f"# {chapter.__name__}")
            w = World()
            chapter(w)
            w.close()


main()
