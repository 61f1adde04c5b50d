"""A client of one's own that says to an OSD what no library would say: any operation vector, any flags, any bytes. Speaks msgr2.1 in crc
mode without authentication; asks the monitor through python3-rados where objects are.
"""
import json
import os
import socket
import struct
import threading
import zlib

import rados

HEAD, DIR = (1 << 64) - 2, (1 << 64) - 1
FEATURES = 0x3F01CFBDFFFDFFFF
ACK, ONDISK, READ, WRITE, PGOP = 1, 4, 0x10, 0x20, 0x400
KNOWN_REDIR, IGNORE_OVERLAY = 0x400000, 0x20000
RWORDERED, ORDERSNAP, MAP_SNAP_CLONE, ENFORCE_SNAPC = 0x4000, 0x40, 0x80000, 0x100000
FULL_TRY, FULL_FORCE, RETURNVEC = 0x800000, 0x1000000, 0x4000000
EXCL, FAILOK = 1, 2

CODES = {
    "read": 0x1201, "stat": 0x1202, "mapext": 0x1203, "masktrunc": 0x1204, "sparse_read": 0x1205, "notify": 0x1206,
    "notify_ack": 0x1207, "assert_ver": 0x1208, "list_watchers": 0x1209, "list_snaps": 0x120A, "sync_read": 0x120B,
    "tmapget": 0x120C, "omap_get_keys": 0x1211, "omap_get_vals": 0x1212, "omap_get_header": 0x1213,
    "omap_get_vals_by_keys": 0x1214, "omap_cmp": 0x1219, "isdirty": 0x121D, "copy_get": 0x121E, "checksum": 0x121F,
    "cmpext": 0x1220, "write": 0x2201, "writefull": 0x2202, "truncate": 0x2203, "zero": 0x2204, "delete": 0x2205,
    "append": 0x2206, "startsync": 0x2207, "settrunc": 0x2208, "trimtrunc": 0x2209, "tmapput": 0x220B, "create": 0x220D,
    "rollback": 0x220E, "watch": 0x220F, "omap_set_vals": 0x2215, "omap_set_header": 0x2216, "omap_clear": 0x2217,
    "omap_rm_keys": 0x2218, "copy_from": 0x221A, "undirty": 0x221C, "setallochint": 0x2223, "cache_pin": 0x2224,
    "cache_unpin": 0x2225, "writesame": 0x2226, "set_redirect": 0x2227, "tier_promote": 0x2229, "unset_manifest": 0x222A,
    "omap_rm_range": 0x222C, "copy_from2": 0x222D, "tmapup": 0x320A, "tmap2omap": 0x3222, "cache_flush": 0x821F,
    "cache_evict": 0x8220, "cache_try_flush": 0x8221, "set_chunk": 0x8228, "tier_flush": 0x822B, "tier_evict": 0x822C,
    "getxattr": 0x1301, "getxattrs": 0x1302, "cmpxattr": 0x1303, "setxattr": 0x2301, "setxattrs": 0x2302,
    "resetxattrs": 0x2303, "rmxattr": 0x2304, "call": 0x1401, "pgls": 0x1501, "pgls_filter": 0x1502,
    "pg_hitset_ls": 0x1503, "pg_hitset_get": 0x1504, "pgnls": 0x1505, "pgnls_filter": 0x1506, "scrubls": 0x1507,
}
NAMES = {code: name for name, code in CODES.items()}


def _crc_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


_TABLE = _crc_table()


def crc32c(data, seed=0xFFFFFFFF):
    """Without final inversion, as Ceph has it."""
    for byte in data:
        seed = seed >> 8 ^ _TABLE[(seed ^ byte) & 0xFF]
    return seed


def rjenkins(name):
    """The hash that spreads names over placement groups."""
    def mix(a, b, c):
        m = 0xFFFFFFFF
        a = (a - b - c & m) ^ c >> 13
        b = (b - c - a & m) ^ (a << 8 & m)
        c = (c - a - b & m) ^ b >> 13
        a = (a - b - c & m) ^ c >> 12
        b = (b - c - a & m) ^ (a << 16 & m)
        c = (c - a - b & m) ^ b >> 5
        a = (a - b - c & m) ^ c >> 3
        b = (b - c - a & m) ^ (a << 10 & m)
        c = (c - a - b & m) ^ b >> 15
        return a, b, c

    a = b = 0x9E3779B9
    c, rest = 0, name
    while len(rest) >= 12:
        x, y, z = struct.unpack_from("<3I", rest)
        a, b, c = mix(a + x & 0xFFFFFFFF, b + y & 0xFFFFFFFF, c + z & 0xFFFFFFFF)
        rest = rest[12:]
    c += len(name)
    padded = rest.ljust(12, b"\0")
    a += int.from_bytes(padded[:4], "little")
    b += int.from_bytes(padded[4:8], "little")
    c += int.from_bytes(padded[8:11], "little") << 8
    return mix(a & 0xFFFFFFFF, b & 0xFFFFFFFF, c & 0xFFFFFFFF)[2]


def bl(data):
    """Bytes with their length in front."""
    return struct.pack("<I", len(data)) + data


def envelope(version, compat, body):
    return struct.pack("<BBI", version, compat, len(body)) + body


def entity_addr(kind=3, nonce=0):
    sockaddr = struct.pack("<H", 2) + struct.pack(">H", 0) + bytes([127, 0, 0, 1]) + bytes(8)
    return b"\1" + envelope(1, 1, struct.pack("<II", kind, nonce) + bl(sockaddr))


def locator(pool, key=b"", nspace=b"", hash=-1):
    return envelope(6, 3, struct.pack("<qi", pool, -1) + bl(key) + bl(nspace) + struct.pack("<q", hash))


class Op:
    """One operation: name, 28 bytes of arguments, input."""

    def __init__(self, name, args=b"", data=b"", flags=0):
        self.code = CODES[name] if isinstance(name, str) else name
        self.args, self.data, self.flags = args.ljust(28, b"\0"), data, flags

    def encode(self):
        return struct.pack("<HI", self.code, self.flags) + self.args + struct.pack("<I", len(self.data))


def extent(name, offset, length=None, data=b"", truncate=(0, 0), flags=0):
    length = len(data) if length is None else length
    return Op(name, struct.pack("<QQQI", offset, length, *truncate), data, flags)


def xattr(name, key, value=b"", op=0, mode=0, flags=0, lengths=None):
    lengths = lengths or (len(key), len(value))
    return Op(name, struct.pack("<IIBB", *lengths, op, mode), key + value, flags)


def cmp_u64(key, number, op, flags=0):
    return Op("cmpxattr", struct.pack("<IIBB", len(key), 8, op, 2), key + struct.pack("<Q", number), flags)


def call(cls, method, data=b"", flags=0):
    return Op("call", struct.pack("<BBBI", len(cls), len(method), 0, len(data)), cls + method + data, flags)


def pairs(entries):
    return struct.pack("<I", len(entries)) + b"".join(bl(k) + bl(v) for k, v in sorted(entries.items()))


def keys(names):
    return struct.pack("<I", len(names)) + b"".join(bl(k) for k in names)


def omap_assertions(entries):
    return struct.pack("<I", len(entries)) + b"".join(bl(k) + bl(v) + struct.pack("<i", op) for k, (v, op) in sorted(entries.items()))


class Reply:
    """What an OSD answered."""

    def __init__(self, front, data):
        at = 4 + struct.unpack_from("<I", front)[0]
        at += 1 + 8 + 4 + 4
        self.flags, self.result = struct.unpack_from("<qi", front, at)
        at += 12 + 12 + 4
        (n,) = struct.unpack_from("<I", front, at)
        at += 4
        self.ops = []
        for _ in range(n):
            code, flags = struct.unpack_from("<HI", front, at)
            args, length = front[at + 6:at + 34], struct.unpack_from("<I", front, at + 34)[0]
            self.ops.append([code, flags, args, 0, data[:length]])
            data, at = data[length:], at + 38
        self.retry = struct.unpack_from("<i", front, at)[0]
        at += 4
        for op in self.ops:
            op[3] = struct.unpack_from("<i", front, at)[0]
            at += 4
        self.version, _, self.user_version = struct.unpack_from("<QIQ", front, at)

    def text(self, versions=True):
        ops = " ".join(f"{NAMES.get(c, hex(c))}={rval}{':' + show(out) if out else ''}" for c, _, _, rval, out in self.ops)
        return f"{self.result} [{ops}]" + (f" v{self.version} uv{self.user_version}" if versions else "")


def show(data):
    return data.hex() if len(data) <= 96 else f"{len(data)} bytes {data[:32].hex()}... crc {zlib.crc32(data):08x}"


class Connection:
    """A session with one OSD."""

    def __init__(self, ip, port, nonce, name=b"admin", gid=None):
        self.sock = socket.create_connection((ip, port), 30)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.gid = gid or int.from_bytes(os.urandom(4), "little") | 1 << 33
        self.nonce = int.from_bytes(os.urandom(3), "little")
        self.seq, self.tid = 0, 0
        self.replies, self.events, self.other = {}, [], []
        self.sock.sendall(b"ceph v2\n" + struct.pack("<HQQ", 16, 1, 0))
        target = b"\1" + envelope(1, 1, struct.pack("<II", 2, nonce) + bl(
            struct.pack("<H", 2) + struct.pack(">H", port) + socket.inet_aton(ip) + bytes(8)))
        self.frame(1, b"\x08" + target)
        assert self.exactly(8) == b"ceph v2\n"
        self.exactly(struct.unpack("<H", self.exactly(2))[0])
        self.expect(1)
        self.frame(2, struct.pack("<III", 1, 1, 1) + bl(b"\1" + struct.pack("<I", 8) + bl(name) + struct.pack("<Q", self.gid)))
        self.expect(6)
        self.frame(7, bytes(32))
        self.expect(7)
        self.frame(8, b"\2" + struct.pack("<I", 1) + entity_addr(nonce=self.nonce) + target
                   + struct.pack("<qQQQQQ", self.gid, 1, FEATURES, 1 << 59, 1, 0))
        self.expect(9)
        self.lock, self.arrived = threading.Lock(), threading.Condition()
        self.closed = None
        threading.Thread(target=self.listen, daemon=True).start()

    def exactly(self, n):
        got = b""
        while len(got) < n:
            piece = self.sock.recv(n - len(got))
            if not piece:
                raise ConnectionError("the peer closed the connection")
            got += piece
        return got

    def frame(self, tag, *segments):
        segments = list(segments)
        while len(segments) > 1 and not segments[-1]:
            segments.pop()
        table = b"".join(struct.pack("<IH", len(s), 4096 if i == 3 else 8) for i, s in enumerate(segments)).ljust(24, b"\0")
        head = struct.pack("<BB", tag, len(segments)) + table + b"\0\0"
        out = head + struct.pack("<I", crc32c(head, 0)) + segments[0]
        if segments[0]:
            out += struct.pack("<I", crc32c(segments[0]))
        if len(segments) > 1:
            out += b"".join(segments[1:]) + b"\x0e"
            crcs = [crc32c(s) for s in segments[1:]] + [0] * (4 - len(segments))
            out += struct.pack("<3I", *crcs)
        self.sock.sendall(out)

    def receive(self):
        head = self.exactly(32)
        tag, n = head[0], head[1]
        lengths = [struct.unpack_from("<IH", head, 2 + 6 * i)[0] for i in range(n)]
        segments = [self.exactly(lengths[0])]
        if lengths[0]:
            self.exactly(4)
        if n > 1:
            segments += [self.exactly(length) for length in lengths[1:]]
            self.exactly(13)
        return tag, segments

    def expect(self, tag):
        got, segments = self.receive()
        assert got == tag, f"frame {got} came instead of {tag}"
        return segments[0]

    def message(self, kind, version, compat, front, data=b"", tid=0):
        self.seq += 1
        head = struct.pack("<QQHHHIHQBHH", self.seq, tid, kind, 63, version, 0, 0, 0, 3, compat, 0)
        self.frame(17, head, front, b"", data)

    def listen(self):
        try:
            self.sock.settimeout(None)
            while True:
                tag, segments = self.receive()
                if tag != 17:
                    continue
                segments += [b""] * (4 - len(segments))
                kind, tid = struct.unpack_from("<H", segments[0], 16)[0], struct.unpack_from("<Q", segments[0], 8)[0]
                with self.arrived:
                    if kind == 43:
                        self.replies[tid] = Reply(segments[1], segments[3])
                    elif kind == 44:
                        self.events.append((segments[1], segments[3]))
                    else:
                        self.other.append(kind)
                    self.arrived.notify_all()
        except (OSError, ConnectionError) as e:
            with self.arrived:
                self.closed = str(e)
                self.arrived.notify_all()

    def close(self):
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.sock.close()

    def wait(self, tid, timeout=20):
        """The reply, or None if none came."""
        with self.arrived:
            self.arrived.wait_for(lambda: tid in self.replies or self.closed, timeout)
            return self.replies.pop(tid, None)


class Cluster:
    """A cluster, and one pool of it."""

    def __init__(self, conf, pool, pg_num=8):
        self.rados = rados.Rados(conffile=conf)
        self.rados.connect()
        self.pool_name = pool
        if pool in self.rados.list_pools():
            self.rados.delete_pool(pool)
        self.command(prefix="osd pool create", pool=pool, pg_num=pg_num, pgp_num=pg_num, autoscale_mode="off")
        self.settle()
        self.pool = self.rados.pool_lookup(pool)
        self.io = self.rados.open_ioctx(pool)
        self.pg_num, self.sessions, self.stamp = pg_num, {}, 1600000000
        self.epoch = 0
        self.refresh()
        self.io.write_full("settle", b"")  # the pool serves
        self.io.remove_object("settle")

    def settle(self):
        self.rados.wait_for_latest_osdmap()

    def command(self, **cmd):
        status, out, text = self.rados.mon_command(json.dumps(cmd), b"")
        if status:
            raise RuntimeError(f"{cmd}: {status} {text}")
        return out

    def refresh(self):
        dump = json.loads(self.command(prefix="osd dump", format="json"))
        self.epoch = dump["epoch"]
        self.osds = {o["osd"]: next(a for a in o["public_addrs"]["addrvec"] if a["type"] == "v2") for o in dump["osds"]}

    def session(self, osd, again=False):
        if again or osd not in self.sessions:
            addr = self.osds[osd]
            ip, port = addr["addr"].rsplit(":", 1)
            connection = Connection(ip, int(port), addr["nonce"])
            if again:
                return connection
            self.sessions[osd] = connection
        return self.sessions[osd]

    def seed(self, hash):
        mask = (1 << (self.pg_num - 1).bit_length()) - 1
        return hash & mask if hash & mask < self.pg_num else hash & mask >> 1

    def primary(self, seed):
        out = json.loads(self.command(prefix="pg map", pgid=f"{self.pool}.{seed:x}", format="json"))
        return out["acting"][0]

    def send(self, oid, ops, flags=None, snap=HEAD, snapc=(0, ()), key=b"", nspace=b"", session=None, hash=None, mtime=None,
             pg_seed=None, tid=None, retry=0):
        """Sends; returns session and tid."""
        if hash is None:
            name = key or oid
            hash = rjenkins(nspace + b"\x1f" + name if nspace else name)
        seed = self.seed(hash) if pg_seed is None else pg_seed
        if session is None:
            if seed not in self.__dict__.setdefault("primaries", {}):
                self.primaries[seed] = self.primary(seed)
            session = self.session(self.primaries[seed])
        if flags is None:
            flags = READ if not any(op.code & 0x2000 for op in ops) else WRITE | (READ if any(op.code & 0x1000 for op in ops) else 0)
        self.stamp += 1 if flags & WRITE else 0
        mtime = (self.stamp if flags & WRITE else 0) if mtime is None else mtime
        front = envelope(1, 1, b"\1" + struct.pack("<QIi", self.pool, seed, -1) + b"\xff")
        front += struct.pack("<III", hash, self.epoch, flags | ONDISK | KNOWN_REDIR)
        front += envelope(2, 2, bytes(21)) + bytes(24) + struct.pack("<III", 0, mtime, 0)
        front += locator(self.pool, key, nspace) + bl(oid) + struct.pack("<H", len(ops))
        front += b"".join(op.encode() for op in ops)
        front += struct.pack("<QQI", snap, snapc[0], len(snapc[1])) + b"".join(struct.pack("<Q", s) for s in snapc[1])
        front += struct.pack("<iQ", retry, FEATURES)
        with session.lock:
            if tid is None:
                session.tid += 1
                tid = session.tid
            session.message(42, 8, 3, front, b"".join(op.data for op in ops), tid)
        return session, tid

    def run(self, oid, *ops, timeout=20, **kw):
        """Sends and waits; the reply or None."""
        session, tid = self.send(oid, list(ops), **kw)
        return session.wait(tid, timeout)

    def new_snap(self):
        """Number of a new self-managed snapshot."""
        number = self.io.create_self_managed_snap()
        self.settle()
        self.refresh()
        return number

    def remove_snap(self, number):
        self.io.remove_self_managed_snap(number)
        self.settle()
        self.refresh()

    def close(self):
        for session in self.sessions.values():
            session.close()
        self.io.close()
        self.rados.delete_pool(self.pool_name)
        self.rados.shutdown()


def on_each(clusters, call):
    """The same on several clusters, in parallel: results in order."""
    results = [None] * len(clusters)

    def run(i):
        results[i] = call(clusters[i])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(clusters))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results
