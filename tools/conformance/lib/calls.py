"""What the stories of object classes share: encodings of payloads, and a story that calls methods, tells what they answer, and records what was sent.

A story's program is run with the arguments CEPH_CONF [POOL [RECORD]]."""
import errno
import struct
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import rados

START = time.time()


def u8(n: int) -> bytes:
    return struct.pack("<B", n & 0xFF)


def u16(n: int) -> bytes:
    return struct.pack("<H", n & 0xFFFF)


def u32(n: int) -> bytes:
    return struct.pack("<I", n & 0xFFFFFFFF)


def u64(n: int) -> bytes:
    return struct.pack("<Q", n & (2**64 - 1))


def text(s: str | bytes) -> bytes:
    data = s.encode() if isinstance(s, str) else s
    return u32(len(data)) + data


def env(version: int, compat: int, body: bytes) -> bytes:
    return u8(version) + u8(compat) + u32(len(body)) + body


def utime(sec: int, nsec: int = 0) -> bytes:
    return u32(sec) + u32(nsec)


def items(entries: Sequence[bytes]) -> bytes:
    return u32(len(entries)) + b"".join(entries)


class Calls:
    """A pool of a cluster in which methods are called; `shown` of each story says how bytes are told."""

    shown: Callable[[bytes], str]

    def __init__(self, pool: str) -> None:
        pool = sys.argv[2] if len(sys.argv) > 2 else pool
        self.record = open(sys.argv[3], "w") if len(sys.argv) > 3 else None
        self.cluster = rados.Rados(conffile=sys.argv[1])
        self.cluster.connect()
        if pool not in self.cluster.list_pools():
            self.cluster.create_pool(pool)
        self.io = self.cluster.open_ioctx(pool)

    def note(self, *fields: object) -> None:
        if self.record:
            print(*fields, file=self.record, flush=True)

    def call(self, oid: str, cls: str, method: str, payload: bytes = b"", note: str = "", hide: bool = False) -> bytes:
        """Calls a method and tells what it answers; gives the bytes that it answered."""
        try:
            result, out = self.io.execute(oid, cls, method, payload, 1 << 20)
            told = "[hidden]" if hide else f"{result} {self.shown(out)}".rstrip()
        except rados.Error as e:
            number = abs(getattr(e, "errno", 0) or 0)
            told = f"error {errno.errorcode.get(number, number)}"
            out = b""
        print(f"{oid} {cls}.{method}{' ' + note if note else ''}: {told}", flush=True)
        self.note("call", oid, cls, method, payload.hex() or "-", told)
        return bytes(out)

    def write(self, oid: str, data: bytes, offset: int = 0) -> None:
        self.io.write(oid, data, offset)
        self.note("write", oid, offset, data.hex())

    def tell(self, *parts: Callable[[Any], None]) -> None:
        """Tells the parts of a story, each under its name."""
        for part in parts:
            print(f"# {part.__name__}", flush=True)
            part(self)
