#!/usr/bin/python3
"""Tells what the stock librados experiences, step by step, in a form that can be compared: one line a step, nothing in it that differs
from run to run. Run against a real cluster it makes the expected story; run against ours it must tell the same.

usage: librados_story.py CEPH_CONF [POOL]
"""
import ctypes
import ctypes.util
import errno
import sys
import threading

import rados

conf, pool = sys.argv[1], (sys.argv[2] if len(sys.argv) > 2 else "story")
lib = ctypes.CDLL("librados.so.2")
lib.rados_create_write_op.restype = ctypes.c_void_p
lib.rados_create_read_op.restype = ctypes.c_void_p


def show(value):
    if isinstance(value, bytes):
        return f"{len(value)} bytes {value[:24]!r}{'...' if len(value) > 24 else ''}"
    return repr(value)


def tell(step, call):
    """Runs a step and tells its result or its error number."""
    try:
        print(f"{step}: {show(call())}", flush=True)
    except rados.Error as e:
        number = getattr(e, "errno", None)
        print(f"{step}: error {errno.errorcode.get(abs(number), number) if number is not None else type(e).__name__}", flush=True)
    except (TypeError, ValueError) as e:
        print(f"{step}: {type(e).__name__}", flush=True)


def code(n):
    """A result of the C interface."""
    return f"error {errno.errorcode.get(-n, -n)}" if -4095 < n < 0 else n


class C:
    """The C interface, for what the Python one lacks."""

    def __init__(self):
        self.cluster, self.io = ctypes.c_void_p(), ctypes.c_void_p()
        assert lib.rados_create(ctypes.byref(self.cluster), b"admin") == 0
        assert lib.rados_conf_read_file(self.cluster, conf.encode()) == 0
        assert lib.rados_connect(self.cluster) == 0
        assert lib.rados_ioctx_create(self.cluster, pool.encode(), ctypes.byref(self.io)) == 0

    def write(self, oid, *steps, flags=0):
        op = ctypes.c_void_p(lib.rados_create_write_op())
        for name, *args in steps:
            getattr(lib, "rados_write_op_" + name)(op, *args)
        result = lib.rados_write_op_operate(op, self.io, oid, None, flags)
        lib.rados_release_write_op(op)
        return code(result)

    def read(self, oid, *steps, flags=0):
        op = ctypes.c_void_p(lib.rados_create_read_op())
        for name, *args in steps:
            getattr(lib, "rados_read_op_" + name)(op, *args)
        result = lib.rados_read_op_operate(op, self.io, oid, flags)
        lib.rados_release_read_op(op)
        return code(result)

    def close(self):
        lib.rados_ioctx_destroy(self.io)
        lib.rados_shutdown(self.cluster)


def u64(n=0):
    return ctypes.c_uint64(n)


def size(n):
    return ctypes.c_size_t(n)


def data(io):
    tell("stat of nothing", lambda: io.stat("none"))
    tell("read of nothing", lambda: io.read("none"))
    tell("remove nothing", lambda: io.remove_object("none"))
    tell("truncate nothing", lambda: (io.trunc("grown", 10000), io.stat("grown")[0], io.read("grown", 20000).count(0)))
    tell("write_full", lambda: io.write_full("a", b"0123456789"))
    tell("read all", lambda: io.read("a"))
    tell("read a part", lambda: io.read("a", 4, 3))
    tell("read beyond", lambda: io.read("a", 4, 50))
    tell("read across the end", lambda: io.read("a", 100, 8))
    tell("write in the middle", lambda: (io.write("a", b"xyz", 4), io.read("a")))
    tell("write beyond the end", lambda: (io.write("a", b"end", 20), io.read("a")))
    tell("append", lambda: (io.append("a", b"+more"), io.read("a")))
    tell("truncate down", lambda: (io.trunc("a", 6), io.read("a")))
    tell("truncate up", lambda: (io.trunc("a", 12), io.read("a")))
    tell("shorter write_full", lambda: (io.write_full("a", b"abc"), io.read("a"), io.stat("a")[0]))
    tell("append to nothing", lambda: (io.append("b", b"first"), io.read("b")))
    tell("append of nothing", lambda: (io.append("b", b""), io.read("b")))
    tell("write of nothing makes an object", lambda: (io.write("empty", b""), io.stat("empty")[0]))
    tell("writesame", lambda: (io.writesame("same", b"ab", 10), io.read("same")))
    tell("writesame that does not divide", lambda: io.writesame("same", b"abc", 10))
    tell("large object", lambda: (io.write_full("large", b"L" * (5 << 20)), io.stat("large")[0], io.read("large", 8, (5 << 20) - 4)))
    tell("overwrite in the large one", lambda: (io.write("large", b"small", 1234567), io.read("large", 9, 1234565)))
    tell("offset too large", lambda: io.write("a", b"x", 200 << 20))
    tell("long name", lambda: io.write_full("n" * 2048, b"x"))
    tell("too long name", lambda: io.write_full("n" * 2049, b"x"))
    tell("odd name", lambda: (io.write_full("a/b c\n\u00e4", b"odd"), io.read("a/b c\n\u00e4")))


def cmpext(io):
    def run(content, offset):
        done = threading.Event()
        completion = io.aio_cmpext("a", content, offset, lambda *_: done.set())
        done.wait(30)
        return completion.get_return_value()

    tell("cmpext equal", lambda: run(b"abc", 0))
    tell("cmpext different at 2", lambda: run(b"abX", 0))
    tell("cmpext longer than the object", lambda: run(b"abc\0\0", 0))
    tell("cmpext of nothing", lambda: run(b"", 0))


def xattrs(io):
    tell("get an attribute that is not there", lambda: io.get_xattr("a", "no"))
    tell("set", lambda: io.set_xattr("a", "one", b"1"))
    tell("get", lambda: io.get_xattr("a", "one"))
    tell("replace", lambda: (io.set_xattr("a", "one", b"eins"), io.get_xattr("a", "one")))
    tell("empty value", lambda: (io.set_xattr("a", "void", b""), io.get_xattr("a", "void")))
    tell("all", lambda: sorted(io.get_xattrs("a")))
    tell("remove", lambda: (io.rm_xattr("a", "one"), sorted(io.get_xattrs("a"))))
    tell("remove again", lambda: io.rm_xattr("a", "one"))
    tell("attribute of nothing", lambda: io.get_xattr("none", "one"))
    tell("attributes of nothing", lambda: sorted(io.get_xattrs("none")))
    tell("set makes an object", lambda: (io.set_xattr("made", "x", b"y"), io.stat("made")[0]))
    tell("long attribute name", lambda: io.set_xattr("a", "n" * 300, b"y"))


def omap(io):
    def vals(after, prefix, n):
        with rados.ReadOpCtx() as op:
            entries, result = io.get_omap_vals(op, after, prefix, n)
            io.operate_read_op(op, "o")
            return list(entries), result

    def keys(after, n):
        with rados.ReadOpCtx() as op:
            entries, result = io.get_omap_keys(op, after, n)
            io.operate_read_op(op, "o")
            return [k for k, _ in entries], result

    def by_keys(wanted, oid="o"):
        with rados.ReadOpCtx() as op:
            entries, result = io.get_omap_vals_by_keys(op, wanted)
            io.operate_read_op(op, oid)
            return list(entries), result

    def change(oid, f):
        with rados.WriteOpCtx() as op:
            f(op)
            return io.operate_write_op(op, oid)

    names = tuple(f"k{i:03}" for i in range(30))
    tell("omap of nothing", lambda: by_keys(("x",), "none"))
    tell("omap set", lambda: change("o", lambda op: io.set_omap(op, names, tuple(n.encode() for n in names))))
    tell("omap values", lambda: vals("", "", 3))
    tell("omap values after", lambda: vals("k027", "", 10))
    tell("omap values with a prefix", lambda: vals("", "k01", 100))
    tell("omap values after, with a prefix", lambda: vals("k015", "k01", 3))
    tell("omap keys", lambda: keys("k003", 4))
    tell("omap by keys", lambda: by_keys(("k005", "nokey", "k001")))
    tell("omap remove keys", lambda: (change("o", lambda op: io.remove_omap_keys(op, ("k001", "nokey"))), keys("", 3)))
    tell("omap remove range", lambda: (change("o", lambda op: io.remove_omap_range2(op, "k003", "k010")), keys("", 5)))
    tell("omap compare holds", lambda: change("o", lambda op: (op.omap_cmp("k010", "k010", rados.LIBRADOS_CMPXATTR_OP_EQ), op.append(b"x"))))
    tell("omap compare fails", lambda: change("o", lambda op: (op.omap_cmp("k010", "other", rados.LIBRADOS_CMPXATTR_OP_EQ), op.append(b"y"))))
    tell("omap clear", lambda: (change("o", lambda op: io.clear_omap(op)), keys("", 5), io.read("o")))
    many = tuple(f"m{i:05}" for i in range(3000))
    tell("3000 keys", lambda: change("o", lambda op: io.set_omap(op, many, tuple(b"v" for _ in many))))
    tell("a page of them", lambda: len(keys("", 5000)[0]))


def vectors(io, c):
    tell("exclusive create", lambda: c.write(b"v", ("create", 1, None)))
    tell("exclusive create again", lambda: c.write(b"v", ("create", 1, None)))
    tell("create again", lambda: c.write(b"v", ("create", 0, None)))
    tell("vector", lambda: c.write(b"v", ("write_full", b"hello", size(5)), ("setxattr", b"x", b"12", size(2)), ("append", b"!!", size(2))))
    tell("its data", lambda: io.read("v"))
    tell("a failing vector", lambda: c.write(b"v", ("write_full", b"other", size(5)), ("cmpxattr", b"x", 1, b"13", size(2))))
    tell("leaves nothing", lambda: io.read("v"))
    for number, name in enumerate(["eq", "ne", "gt", "gte", "lt", "lte"], 1):
        results = [c.write(b"v", ("cmpxattr", b"x", number, value, size(2))) for value in (b"11", b"12", b"13")]
        tell(f"cmpxattr {name}", lambda: results)
    tell("cmpxattr of nothing", lambda: c.write(b"none", ("cmpxattr", b"x", 1, b"1", size(1))))
    tell("assert_exists", lambda: c.write(b"v", ("assert_exists",), ("append", b".", size(1))))
    tell("assert_exists of nothing", lambda: c.write(b"none", ("assert_exists",), ("append", b".", size(1))))
    tell("assert a future version", lambda: c.write(b"v", ("assert_version", u64(1 << 40)), ("append", b".", size(1))))
    tell("assert an old version", lambda: c.write(b"v", ("assert_version", u64(1)), ("append", b".", size(1))))
    tell("zero", lambda: (c.write(b"v", ("zero", u64(1), u64(3))), io.read("v")))
    tell("truncate", lambda: (c.write(b"v", ("truncate", u64(4))), io.read("v")))
    tell("writesame", lambda: (c.write(b"v", ("writesame", b"ab", size(2), size(6), u64(2))), io.read("v")))
    tell("cmpext and write", lambda: (c.write(b"v", ("cmpext", b"ab", size(2), u64(2), None), ("write", b"ZZ", size(2), u64(0))), io.read("v")))
    tell("cmpext fails", lambda: (c.write(b"v", ("cmpext", b"aX", size(2), u64(2), None), ("write", b"YY", size(2), u64(0))), io.read("v")))
    tell("remove and create", lambda: (c.write(b"v", ("remove",), ("create", 0, None)), code(0)))
    tell("remove in a vector", lambda: c.write(b"v", ("remove",)))
    tell("it is gone", lambda: io.stat("v"))
    tell("remove nothing in a vector", lambda: c.write(b"none", ("remove",)))
    tell("omap and data in one", lambda: c.write(b"w", ("write_full", b"data", size(4)), ("setxattr", b"a", b"1", size(1)),
                                               ("set_alloc_hint", u64(4096), u64(4096))))
    sizes, seconds, r1, r2 = u64(), ctypes.c_long(), ctypes.c_int(7), ctypes.c_int(7)
    buffer, got = ctypes.create_string_buffer(16), size(0)
    tell("read vector", lambda: c.read(b"w", ("stat", ctypes.byref(sizes), ctypes.byref(seconds), ctypes.byref(r1)),
                                       ("read", u64(1), size(10), buffer, ctypes.byref(got), ctypes.byref(r2))))
    tell("its results", lambda: (sizes.value, r1.value, r2.value, buffer.raw[:got.value]))
    tell("read vector of nothing", lambda: (c.read(b"none", ("stat", ctypes.byref(sizes), ctypes.byref(seconds), ctypes.byref(r1))), r1.value))


def checksums(io, c):
    io.write_full("sum", bytes(range(256)) * 64)
    for name, kind, width in (("xxhash32", 0, 4), ("xxhash64", 1, 8), ("crc32c", 2, 4)):
        for chunk in (0, 4096):
            out = ctypes.create_string_buffer(4 + 8 * 4)
            init = (b"\xff" * 8)[:width]
            result = lib.rados_checksum(c.io, b"sum", kind, init, size(width), size(16384), u64(0), size(chunk), out, size(len(out)))
            tell(f"checksum {name} in chunks of {chunk}", lambda: (code(result), out.raw.hex()))
    tell("checksum with a bad chunk", lambda: code(lib.rados_checksum(c.io, b"sum", 2, b"\0" * 4, size(4), size(16384), u64(0), size(5000), out, size(len(out)))))


def names(io):
    io.set_namespace("ns1")
    io.write_full("inside", b"1")
    io.write_full("a", b"another a")
    tell("namespace", lambda: sorted(o.key for o in io.list_objects()))
    tell("same name in it", lambda: io.read("a"))
    io.set_namespace("")
    tell("default namespace", lambda: [o.key for o in io.list_objects() if o.key in ("inside", "a")])
    io.set_namespace(rados.LIBRADOS_ALL_NSPACES)
    tell("all namespaces", lambda: sorted((o.nspace, o.key) for o in io.list_objects() if o.key in ("inside", "a")))
    io.set_namespace("")
    io.set_locator_key("key")
    io.write_full("located", b"by key")
    tell("by its key", lambda: io.read("located"))
    io.set_locator_key("")
    tell("not without it", lambda: io.read("located"))
    tell("listed with it", lambda: [(o.key, o.locator_key) for o in io.list_objects() if o.key == "located"])


def locks(io):
    tell("lock", lambda: io.lock_exclusive("a", "lock", "cookie", "description", 60))
    tell("lock again", lambda: io.lock_exclusive("a", "lock", "cookie", "description", 60))
    tell("lock with another cookie", lambda: io.lock_exclusive("a", "lock", "cookie2"))
    tell("unlock", lambda: io.unlock("a", "lock", "cookie"))
    tell("unlock again", lambda: io.unlock("a", "lock", "cookie"))
    tell("shared", lambda: io.lock_shared("a", "lock", "c1", "tag"))
    tell("shared twice", lambda: io.lock_shared("a", "lock", "c2", "tag"))
    tell("shared with another tag", lambda: io.lock_shared("a", "lock", "c3", "other"))
    tell("exclusive over shared", lambda: io.lock_exclusive("a", "lock", "c4"))
    tell("unlock shared", lambda: (io.unlock("a", "lock", "c1"), io.unlock("a", "lock", "c2")))


def classes(io):
    tell("hello", lambda: io.execute("a", "hello", "say_hello", b"you"))
    tell("hello with a long name", lambda: io.execute("a", "hello", "say_hello", b"x" * 200))
    tell("unknown class", lambda: io.execute("a", "nosuch", "method", b""))
    tell("unknown method", lambda: io.execute("a", "hello", "nosuch", b""))
    tell("lock with garbage", lambda: io.execute("a", "lock", "lock", b"garbage"))
    tell("numops", lambda: (io.execute("n", "numops", "add", b"\x03\0\0\0num\x01\0\0\x005"), True))
    tell("class method on nothing", lambda: io.execute("none", "lock", "get_info", b"\x01\x01\x05\0\0\0\x01\0\0\0x"))


def watches(io):
    heard = []
    event = threading.Event()

    def callback(notify_id, notifier, watch_id, payload):
        heard.append(bytes(payload))
        event.set()

    tell("watch of nothing", lambda: io.watch("none", callback))
    watch = io.watch("a", callback)
    tell("notify", lambda: io.notify("a", "news", 5000))
    event.wait(10)
    tell("heard", lambda: heard)
    tell("check", lambda: watch.check() is not None)
    watch.close()
    tell("notify nobody", lambda: io.notify("a", "alone", 5000))
    tell("notify nothing", lambda: io.notify("none", "alone", 5000))


def pool_snapshots(cluster):
    cluster.create_pool(pool + "-snaps")
    io = cluster.open_ioctx(pool + "-snaps")
    io.write_full("s", b"before")
    io.set_xattr("s", "x", b"before")
    tell("pool snapshot", lambda: io.create_snap("one"))
    io.write("s", b"AFTER", 0)
    io.set_xattr("s", "x", b"after")
    io.write_full("young", b"later")
    snap = io.lookup_snap("one")
    io.set_read(snap.snap_id)
    tell("at the snapshot", lambda: io.read("s"))
    tell("its attribute", lambda: io.get_xattr("s", "x"))
    tell("what was not there", lambda: io.read("young"))
    io.set_read(rados.LIBRADOS_SNAP_HEAD)
    tell("now", lambda: io.read("s"))
    tell("remove the head", lambda: io.remove_object("s"))
    tell("head is gone", lambda: io.read("s"))
    io.set_read(snap.snap_id)
    tell("the snapshot stays", lambda: io.read("s"))
    io.set_read(rados.LIBRADOS_SNAP_HEAD)
    tell("roll back", lambda: (io.snap_rollback("s", "one"), io.read("s"), io.get_xattr("s", "x")))
    tell("roll back what was not there", lambda: (io.snap_rollback("young", "one"), io.stat("young")))
    tell("same name again", lambda: io.create_snap("one"))
    tell("self-managed here", lambda: io.create_self_managed_snap())
    tell("remove the snapshot", lambda: io.remove_snap("one"))
    tell("and again", lambda: io.remove_snap("one"))
    tell("list", lambda: [s.name for s in io.list_snaps()])
    io.close()
    cluster.delete_pool(pool + "-snaps")


def own_snapshots(cluster):
    cluster.create_pool(pool + "-own")
    io = cluster.open_ioctx(pool + "-own")
    io.write_full("s", b"0" * 8192)
    first = io.create_self_managed_snap()
    io.set_self_managed_snap_write([first])
    io.write("s", b"1" * 100, 4096)
    second = io.create_self_managed_snap()
    io.set_self_managed_snap_write([second, first])
    io.write("s", b"2" * 100, 0)
    for name, snap in (("first", first), ("second", second)):
        io.set_read(snap)
        tell(f"at the {name}", lambda: (io.read("s", 3, 0), io.read("s", 3, 4096)))
    io.set_read(rados.LIBRADOS_SNAP_HEAD)
    tell("now", lambda: (io.read("s", 3, 0), io.read("s", 3, 4096)))
    tell("roll back to the first", lambda: (io.rollback_self_managed_snap("s", first), io.read("s", 3, 0), io.read("s", 3, 4096)))
    tell("pool snapshot here", lambda: io.create_snap("pool"))
    tell("remove", lambda: (io.remove_self_managed_snap(first), io.remove_self_managed_snap(second)))
    io.close()
    cluster.delete_pool(pool + "-own")


def main():
    cluster = rados.Rados(conffile=conf)
    cluster.connect(timeout=30)
    tell("pool that is not there", lambda: cluster.open_ioctx("nosuchpool"))
    cluster.create_pool(pool)
    tell("create a pool twice", lambda: cluster.create_pool(pool))
    io = cluster.open_ioctx(pool)
    c = C()
    for part, arguments in ((data, (io,)), (cmpext, (io,)), (xattrs, (io,)), (omap, (io,)), (vectors, (io, c)), (checksums, (io, c)),
                            (names, (io,)), (locks, (io,)), (classes, (io,)), (watches, (io,)), (pool_snapshots, (cluster,)),
                            (own_snapshots, (cluster,))):
        print(f"# {part.__name__}")
        part(*arguments)
    c.close()
    io.close()
    tell("delete the pool", lambda: cluster.delete_pool(pool))
    tell("delete it again", lambda: cluster.delete_pool(pool))
    cluster.shutdown()


main()
