"""librados by ctypes, for what its Python binding lacks: a whole object in one read, and copy-from."""
import ctypes

lib = ctypes.CDLL("librados.so.2")
for name in ("rados_create_read_op", "rados_create_write_op"):
    getattr(lib, name).restype = ctypes.c_void_p
LARGEST = 4 << 20
# The id that means an object as it is now.
HEAD = (1 << 64) - 2
# The namespace of librados' C++ interface in release 16, mangled.
CXX = "_ZN8librados7v14_2_0"
STRING = "RKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"


class CError(Exception):
    """A call failed; its argument is the negative error number."""


def check(result):
    if result < 0:
        raise CError(result)
    return result


class State:
    """A whole object: bytes (`None`: it is not there), attributes, omap. Never changed once it is made."""

    def __init__(self, data=None, xattrs=None, omap=None):
        self.data, self.xattrs, self.omap = data, xattrs or {}, omap or {}

    def key(self):
        return (self.data, tuple(sorted(self.xattrs.items())), tuple(sorted(self.omap.items())))

    def __eq__(self, other):
        return self.key() == other.key()

    def differs(self, other):
        """Where this one differs from another, in words."""
        if self.data is None or other.data is None:
            return f"{'nothing' if self.data is None else 'an object'}, expected {'nothing' if other.data is None else 'an object'}"
        words = []
        if self.data != other.data:
            common = min(len(self.data), len(other.data))
            first = next((i for i in range(common) if self.data[i] != other.data[i]), common)
            words.append(f"{len(self.data)} bytes, expected {len(other.data)}, first difference at {first}")
        for what in ("xattrs", "omap"):
            mine, its = getattr(self, what), getattr(other, what)
            if mine != its:
                keys = sorted(k for k in {**mine, **its} if mine.get(k) != its.get(k))
                words.append(f"{what} differ at {keys[:5]}: {[mine.get(k) for k in keys[:2]]}, expected {[its.get(k) for k in keys[:2]]}")
        return "; ".join(words) or "the same"


class Cluster:
    """A client of its own."""

    def __init__(self, conf):
        self.handle = ctypes.c_void_p()
        check(lib.rados_create(ctypes.byref(self.handle), b"admin"))
        check(lib.rados_conf_read_file(self.handle, conf.encode()))
        check(lib.rados_connect(self.handle))

    def pool(self, name):
        return Pool(self, name)

    def close(self):
        lib.rados_shutdown(self.handle)


class Pool:
    """A pool as one client sees it. Not for several threads at once."""

    def __init__(self, cluster, name):
        self.cluster = cluster.handle
        self.handle = ctypes.c_void_p()
        check(lib.rados_ioctx_create(cluster.handle, name.encode(), ctypes.byref(self.handle)))
        self.buffer = ctypes.create_string_buffer(LARGEST)
        # IoCtx is a pointer to its implementation.
        self.cxx = (ctypes.c_void_p * 4)()
        getattr(lib, f"{CXX}5IoCtx18from_rados_ioctx_tEPvRS1_")(self.handle, self.cxx)

    def read(self, name, snap=None):
        """A whole object, in one operation, now or as it was at a snapshot."""
        lib.rados_ioctx_snap_set_read(self.handle, ctypes.c_uint64(HEAD if snap is None else snap))
        got, xattrs, omap = ctypes.c_size_t(), ctypes.c_void_p(), ctypes.c_void_p()
        results, more = [ctypes.c_int() for _ in range(3)], ctypes.c_ubyte()
        op = ctypes.c_void_p(lib.rados_create_read_op())
        ref = ctypes.byref
        lib.rados_read_op_read(op, ctypes.c_uint64(0), ctypes.c_size_t(LARGEST), self.buffer, ref(got), ref(results[0]))
        lib.rados_read_op_getxattrs(op, ref(xattrs), ref(results[1]))
        lib.rados_read_op_omap_get_vals2(op, b"", b"", ctypes.c_uint64(10000), ref(omap), ref(more), ref(results[2]))
        result = lib.rados_read_op_operate(op, self.handle, name.encode(), 0)
        lib.rados_release_read_op(op)
        if result == -2:
            return State()
        for r in (result, *(r.value for r in results)):
            check(r)
        return State(self.buffer.raw[: got.value] if got.value < 65536 else bytes(memoryview(self.buffer)[: got.value]), _xattrs(xattrs), _omap(omap))

    def follow(self):
        """Waits for the newest map."""
        check(lib.rados_wait_for_latest_osdmap(self.cluster))

    def set_snaps(self, snaps):
        """Self-managed snapshots that writes from now on must preserve, newest first."""
        ids = (ctypes.c_uint64 * len(snaps))(*snaps)
        seq = ctypes.c_uint64(max(snaps, default=0))
        check(lib.rados_ioctx_selfmanaged_snap_set_write_ctx(self.handle, seq, ids, len(snaps)))

    def copy_from(self, target, source):
        """Makes `target` a copy of `source`, both in this pool. Gives the result."""
        lib.rados_ioctx_snap_set_read(self.handle, ctypes.c_uint64(HEAD))
        operation = (ctypes.c_void_p * 8)()
        getattr(lib, f"{CXX}15ObjectOperationC1Ev")(operation)
        source_string, target_string = _string(source), _string(target)
        copy_from = getattr(lib, f"{CXX}20ObjectWriteOperation9copy_fromE{STRING}RKNS0_5IoCtxEmj")
        copy_from(operation, source_string, self.cxx, ctypes.c_uint64(0), ctypes.c_uint32(0))
        result = getattr(lib, f"{CXX}5IoCtx7operateE{STRING}PNS0_20ObjectWriteOperationE")(self.cxx, target_string, operation)
        getattr(lib, f"{CXX}15ObjectOperationD1Ev")(operation)
        return result

    def close(self):
        getattr(lib, f"{CXX}5IoCtxD1Ev")(self.cxx)
        lib.rados_ioctx_destroy(self.handle)


def _string(text):
    """A std::string of libstdc++: pointer, length, and 16 bytes of its own, which a longer text does not need."""
    data = ctypes.create_string_buffer(text.encode())
    string = (ctypes.c_uint64 * 4)(ctypes.addressof(data), len(data) - 1, len(data) - 1, 0)
    string.keep = data
    return string


def _xattrs(iterator):
    found, name, value, size = {}, ctypes.c_char_p(), ctypes.c_void_p(), ctypes.c_size_t()
    while True:
        check(lib.rados_getxattrs_next(iterator, ctypes.byref(name), ctypes.byref(value), ctypes.byref(size)))
        if name.value is None:
            break
        found[name.value.decode()] = ctypes.string_at(value, size.value) if size.value else b""
    lib.rados_getxattrs_end(iterator)
    return found


def _omap(iterator):
    found, key, value, klen, vlen = {}, ctypes.c_char_p(), ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    while True:
        refs = (ctypes.byref(v) for v in (key, value, klen, vlen))
        check(lib.rados_omap_get_next2(iterator, *refs))
        if key.value is None:
            break
        found[key.value.decode()] = ctypes.string_at(value, vlen.value) if vlen.value else b""
    lib.rados_omap_get_end(iterator)
    return found
