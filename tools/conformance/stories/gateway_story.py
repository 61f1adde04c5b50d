#!/usr/bin/python3
"""Calls the methods by which Ceph's object gateway keeps its logs and queues (rgw's usage log, garbage, lifecycle and reshard queue; queue,
rgw_gc, fifo, 2pc_queue, otp, cmpomap), step by step, and tells what they answer and what the object looks like afterwards: data,
attributes, omap. Times of this run and numbers of chance are left out.
Run against a real cluster it makes the expected story; run against ours it must tell the same.

With a file to record into, what was sent is written there, too: the unit tests of the classes play it again.

usage: gateway_story.py CEPH_CONF [POOL [RECORD]]
"""
import os
import sys
import base64
import hashlib
import hmac
import re
import struct
import time

import rados

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from calls import START, Calls, env, items, text, u8, u32, u64, utime

# Times this near to the run are its own.
NEAR = 100_000


def v1(*parts):
    return env(1, 1, b"".join(parts))


def optional(value):
    return u8(0) if value is None else u8(1) + value


class Story(Calls):
    def __init__(self, pool):
        super().__init__(pool)
        self.names = {}

    def shown(self, data):
        """Bytes in hexadecimal; times of this run and what has a name are left out."""
        out, i = [], 0
        while i < len(data):
            if i + 8 <= len(data):
                name = self.names.get(bytes(data[i:i + 8]))
                sec, nsec = struct.unpack_from("<II", data, i)
                if name or (abs(sec - START) < NEAR and nsec < 10**9):
                    out.append(f"[{name or 'now'}]")
                    i += 8
                    continue
            out.append(f"{data[i]:02x}")
            i += 1
        whole = "".join(out)
        if len(whole) <= 3000:
            return whole
        digest = 0xcbf29ce484222325
        for b in whole.encode():
            digest = (digest ^ b) * 0x100000001b3 % 2**64
        return f"{whole[:200]}...{digest:016x}"

    def key(self, name):
        """A key of an omap, with the times in it left out."""
        return re.sub(r"\d{11}\.\d{9}", lambda m: "[time]" if abs(int(m[0][:11]) - START) < NEAR else m[0], name)

    def name(self, oid, offset, called):
        """Eight bytes of an object that are chance get a name."""
        self.names[bytes(self.io.read(oid, 8, offset))] = called
        self.note("name", oid, offset, called)

    def look(self, oid, data=True):
        """All that an object is: data, attributes, omap and its header."""
        lines = []
        try:
            size, _ = self.io.stat(oid)
        except rados.ObjectNotFound:
            lines.append("gone")
        else:
            if data:
                whole = bytes(self.io.read(oid, size))
                lines.append(f"data {size} {self.shown(whole)}".rstrip())
            for name, value in sorted(self.io.get_xattrs(oid)):
                lines.append(f"xattr {name} {self.shown(value)}")
            with rados.ReadOpCtx() as op:
                found, _ = self.io.get_omap_vals(op, "", "", 1000)
                self.io.operate_read_op(op, oid)
                for key, value in found:
                    lines.append(f"omap {self.key(key)} {self.shown(value)}")
        for line in lines:
            print(f"  {oid} {line}", flush=True)
            self.note("look", oid, line)
        self.note("end", oid)

    def omap(self, oid, key, value):
        with rados.WriteOpCtx() as op:
            self.io.set_omap(op, (key,), (value,))
            self.io.operate_write_op(op, oid)
        self.note("omap", oid, key, value.hex() or "-")

    def xattr(self, oid, name, value):
        self.io.set_xattr(oid, name, value)
        self.note("xattr", oid, name, value.hex())


def usage(s):
    def c(method, payload=b"", note="", oid="usage", **more):
        s.call(oid, "rgw", method, payload, note, **more)

    def numbers(n):
        return v1(u64(n), u64(n + 1), u64(n + 2), u64(n + 3))

    def entry(owner, bucket, epoch, payer="", uses=(), version=3):
        total = u64(1) + u64(2) + u64(3) + u64(4)
        body = text(owner) + text(bucket) + u64(epoch) + total
        if version >= 2:
            body += items([text(k) + numbers(n) for k, n in uses])
        if version >= 3:
            body += text(payer)
        return env(version, 1, body)

    def add(*entries, user="", version=2):
        return env(version, 1, v1(items(entries)) + (text(user) if version >= 2 else b""))

    def read(start, end, owner="", it="", most=0, bucket="", version=2):
        body = u64(start) + u64(end) + text(owner) + text(it) + u32(most)
        return env(version, 1, body + (text(bucket) if version >= 2 else b""))

    def trim(start, end, user="", bucket="", version=3):
        return env(version, 2, u64(start) + u64(end) + text(user) + (text(bucket) if version >= 3 else b""))

    c("user_usage_log_read", read(0, 1 << 40), "nothing there")
    c("user_usage_log_trim", trim(0, 1 << 40), "nothing there")
    c("usage_log_clear", note="nothing there")
    s.look("usage")
    c("user_usage_log_add", add(), "no entries")
    s.look("usage")
    c("user_usage_log_add", add(entry("anna", "photos", 3600, uses=[("get_obj", 5), ("put_obj", 7)])))
    s.look("usage")
    c("user_usage_log_add", add(entry("anna", "photos", 3600, uses=[("get_obj", 50), ("list", 70)])), "the same hour")
    s.look("usage")
    c("user_usage_log_add", add(entry("anna", "films", 3600, uses=[("a", 1)]), entry("anna", "films", 3600, uses=[("b", 2)])), "twice in one call")
    c("user_usage_log_add", add(entry("anna", "", 7200, uses=[("a", 1)], version=2), version=1), "older versions")
    c("user_usage_log_add", add(entry("anna", "", 10800, version=1)), "version 1")
    # Ceph never trims what another pays for: such entries are looked at, and left.
    c("user_usage_log_add", add(entry("t$bert", "b", 3600, payer="anna", uses=[("x", 9)])), "another pays", oid="payers")
    c("user_usage_log_read", read(0, 1 << 40), "another pays", oid="payers")
    c("user_usage_log_read", read(0, 1 << 40, "anna"), "who pays", oid="payers")
    c("user_usage_log_read", read(0, 1 << 40, "t$bert"), "who does not pay", oid="payers")
    s.look("payers")
    c("user_usage_log_add", add(entry("t$ns$carl", "b", 3600, payer="t$"), entry("$ns$carl", "b", 7200), entry("$carl", "b", 7200), entry("t$$carl", "b", 7200)),
      "tenants")
    s.look("usage")
    c("user_usage_log_read", read(0, 1 << 40))
    c("user_usage_log_read", read(0, 3600), "ends before")
    c("user_usage_log_read", read(3600, 3601), "one hour")
    c("user_usage_log_read", read(0, 1 << 40, "anna"), "a user")
    c("user_usage_log_read", read(7200, 10800, "anna"), "a user's hour")
    c("user_usage_log_read", read(0, 1 << 40, "anna", bucket="photos"), "a user's bucket")
    c("user_usage_log_read", read(0, 1 << 40, bucket="b"), "a bucket")
    c("user_usage_log_read", read(0, 1 << 40, most=2), "two")
    c("user_usage_log_read", read(0, 1 << 40, it="00000003600_anna_films", most=2), "two more")
    c("user_usage_log_read", read(0, 1 << 40, "anna", most=1), "one of a user")
    c("user_usage_log_read", read(0, 1 << 40, "anna", "anna_00000003600_films", 1), "one more of a user")
    c("user_usage_log_read", read(0, 1 << 40, "nobody"), "no such user")
    c("user_usage_log_read", read(0, 1 << 40, version=1), "version 1")
    c("user_usage_log_trim", trim(0, 3600), "none so early")
    c("user_usage_log_trim", trim(0, 1 << 40, "nobody"), "no such user")
    c("user_usage_log_trim", trim(0, 1 << 40, "anna", "films"), "a user's bucket")
    s.look("usage")
    c("user_usage_log_trim", trim(7200, 7201, "anna", version=2), "an hour, version 2")
    c("user_usage_log_trim", trim(0, 1 << 40, "anna"), "a user")
    s.look("usage")
    c("user_usage_log_trim", trim(0, 1 << 40), "all")
    s.look("usage")
    s.omap("usage", "00000000001_x_y", b"\1\1")
    c("user_usage_log_read", read(0, 1 << 40), "damaged")
    c("user_usage_log_add", add(entry("x", "y", 1)), "over a damaged one")
    c("user_usage_log_trim", trim(0, 1 << 40), "damaged")
    c("usage_log_clear")
    s.look("usage")


def chain(*names):
    return v1(items([env(2, 1, text("pool") + text(n) + text("loc") + v1(text(n), text("i"))) for n in names]))


def gc_info(tag, *names, at=(0, 0)):
    return v1(text(tag), chain(*names), utime(*at))


def gc_list(marker="", most=0, expired=1, version=2):
    return env(version, 1, text(marker) + u32(most) + (u8(expired) if version >= 2 else b""))


def garbage(s):
    def c(method, payload=b"", note="", oid="gc", **more):
        return s.call(oid, "rgw", method, payload, note, **more)

    c("gc_list", gc_list(), "nothing there")
    c("gc_remove", v1(items([])), "nothing")
    c("gc_defer_entry", v1(u32(10), text("a")), "nothing there")
    s.look("gc")
    c("gc_set_entry", v1(u32(0), gc_info("a", "x", "y")))
    c("gc_set_entry", v1(u32(3600), gc_info("b", "z", at=(5, 6))), "later")
    c("gc_set_entry", v1(u32(0), gc_info("c")), "empty chain")
    s.look("gc")
    c("gc_list", gc_list(), "expired")
    c("gc_list", gc_list(expired=0), "all")
    c("gc_list", gc_list(version=1), "version 1")
    c("gc_list", gc_list(most=1, expired=0), "one", hide=True)
    c("gc_list", gc_list("0_", expired=0), "from the names")
    c("gc_list", gc_list("2_", expired=0), "behind the end")
    c("gc_set_entry", v1(u32(7200), gc_info("a", "q")), "again")
    c("gc_list", gc_list(), "expired")
    c("gc_defer_entry", v1(u32(100), text("c")))
    c("gc_defer_entry", v1(u32(100), text("none")), "missing")
    s.look("gc")
    c("gc_list", gc_list(), "expired")
    c("gc_remove", v1(items([text("a"), text("none"), text("b")])))
    s.look("gc")
    c("gc_remove", v1(items([text("c")])))
    s.look("gc")
    s.omap("gc", "0_bad", b"\1")
    s.omap("gc", "1_bad", b"\1")
    c("gc_set_entry", v1(u32(0), gc_info("bad")), "over a damaged one")
    c("gc_defer_entry", v1(u32(0), text("bad")), "a damaged one")
    c("gc_remove", v1(items([text("bad")])), "a damaged one")
    c("gc_list", gc_list(expired=0), "a damaged one")
    s.look("gc")


def lifecycle(s):
    def c(method, payload=b"", note="", oid="lc", **more):
        s.call(oid, "rgw", method, payload, note, **more)

    def entry(bucket, start=0, status=0):
        return v1(text(bucket), u64(start), u32(status))

    def old(bucket, status):
        return text(bucket) + u32(status)

    for method in ("lc_get_entry", "lc_get_next_entry", "lc_get_head"):
        c(method, v1(text("a")), "nothing there")
    c("lc_rm_entry", env(2, 2, entry("a")), "nothing there")
    s.look("lc")
    c("lc_set_entry", env(2, 2, entry("b", 77, 1)))
    c("lc_set_entry", env(2, 2, entry("a", 0, 3)))
    c("lc_set_entry", env(1, 1, old("old", 2)), "version 1")
    s.look("lc")
    c("lc_get_head", b"")
    c("lc_list_entries", env(3, 1, text("") + u32(10)))
    c("lc_list_entries", env(2, 1, text("") + u32(2)), "version 2")
    c("lc_list_entries", env(1, 1, text("") + u32(2)), "version 1")
    c("lc_list_entries", env(3, 1, text("") + u32(0)), "none")
    c("lc_list_entries", env(3, 1, text("b") + u32(1)), "after b")
    c("lc_get_entry", v1(text("a")))
    c("lc_get_entry", v1(text("none")), "missing")
    for after in ("", "a", "old", "zz"):
        c("lc_get_next_entry", v1(text(after)), f"after {after}")
    c("lc_rm_entry", env(2, 2, entry("a", 5, 5)))
    c("lc_rm_entry", env(2, 2, entry("none")), "missing")
    c("lc_rm_entry", env(1, 1, old("old", 9)), "version 1")
    s.look("lc")
    c("lc_put_head", v1(v1(u64(1234), text("marker"))))
    c("lc_get_head", b"")
    c("lc_put_head", v1(v1(u64(0), text(""))))
    c("lc_get_head", b"")
    s.omap("lc", "pair", old("pair", 7))
    c("lc_list_entries", env(3, 1, text("") + u32(10)), "an old pair")
    c("lc_get_next_entry", v1(text("b")), "an old pair")
    c("lc_get_entry", v1(text("pair")), "an old pair")
    s.omap("lc", "wrong", b"\1")
    c("lc_list_entries", env(3, 1, text("") + u32(10)), "damaged")
    c("lc_get_entry", v1(text("wrong")), "damaged")
    c("lc_get_next_entry", v1(text("pair")), "damaged")
    s.look("lc")


def reshard(s):
    def c(method, payload=b"", note="", oid="reshard", **more):
        s.call(oid, "rgw", method, payload, note, **more)

    def entry(tenant, bucket, ident="id", old=1, new=11):
        return v1(utime(5, 7), text(tenant), text(bucket), text(ident), text("new"), u32(old), u32(new))

    c("reshard_list", v1(u32(10), text("")), "nothing there")
    c("reshard_get", v1(entry("", "a")), "nothing there")
    c("reshard_remove", v1(text(""), text("a"), text("")), "nothing there")
    c("reshard_add", v1(entry("", "a")))
    c("reshard_add", v1(entry("t", "a", new=7)))
    c("reshard_add", v1(entry("", "b")))
    c("reshard_add", v1(entry("", "b", ident="other")), "again")
    s.look("reshard")
    c("reshard_list", v1(u32(10), text("")))
    c("reshard_list", v1(u32(2), text("")), "two")
    c("reshard_list", v1(u32(0), text("")), "none")
    c("reshard_list", v1(u32(2), text(":a")), "after :a")
    c("reshard_get", v1(entry("t", "a", "", 0, 0)))
    c("reshard_get", v1(entry("t", "none")), "missing")
    c("reshard_remove", v1(text(""), text("b"), text("id")), "another instance")
    c("reshard_remove", v1(text(""), text("b"), text("other")))
    c("reshard_remove", v1(text(""), text("b"), text("other")), "again")
    c("reshard_remove", v1(text("t"), text("a"), text("")))
    s.look("reshard")
    s.omap("reshard", ":bad", b"\1")
    c("reshard_list", v1(u32(10), text("")), "damaged")
    c("reshard_get", v1(entry("", "bad")), "damaged")
    c("reshard_remove", v1(text(""), text("bad"), text("")), "damaged")


def enqueue(*data):
    return v1(items([text(d) for d in data]))


def listing(most, marker=""):
    return v1(u64(most), text(marker))


def queue(s):
    def c(method, payload=b"", note="", oid="queue", **more):
        s.call(oid, "queue", method, payload, note, **more)

    for method in ("queue_get_capacity", "queue_list_entries"):
        c(method, listing(10), "nothing there")
    c("queue_enqueue", enqueue("a"), "nothing there")
    c("queue_remove_entries", v1(text("0/1024")), "nothing there")
    c("queue_init", v1(u64(100), u64(3), text("urgent" * 200)), "urgent data too large")
    s.look("queue")
    c("queue_init", v1(u64(100), u64(8), text("urgent")))
    c("queue_init", v1(u64(100), u64(8), text("urgent")), "again")
    s.look("queue")
    c("queue_get_capacity")
    c("queue_list_entries", listing(10), "empty")
    c("queue_remove_entries", v1(text("0/1040")), "empty")
    c("queue_enqueue", enqueue())
    c("queue_enqueue", enqueue("a" * 20, "b" * 20))
    c("queue_enqueue", enqueue("c" * 50), "too large")
    s.look("queue")
    c("queue_list_entries", listing(10))
    c("queue_list_entries", listing(1))
    c("queue_list_entries", listing(2))
    c("queue_list_entries", listing(1, "0/1062"))
    c("queue_list_entries", listing(10, "0/1092"), "at the end")
    c("queue_list_entries", listing(10, "0/1040"), "between entries")
    c("queue_list_entries", listing(10, "what"), "no marker")
    c("queue_remove_entries", v1(text("0/1062")))
    s.look("queue")
    c("queue_remove_entries", v1(text("0/1062")), "again")
    c("queue_remove_entries", v1(text("0/1032")), "backwards")
    c("queue_remove_entries", v1(text("what")), "no marker")
    c("queue_list_entries", listing(10))
    c("queue_list_entries", listing(10, "0/1032"), "removed")
    c("queue_enqueue", enqueue("c" * 45), "around the end")
    s.look("queue")
    c("queue_list_entries", listing(10))
    c("queue_list_entries", listing(1))
    c("queue_list_entries", listing(1, "0/1092"))
    c("queue_enqueue", enqueue("d" * 6), "too large")
    c("queue_enqueue", enqueue("d" * 5), "to the last byte")
    c("queue_enqueue", enqueue(""), "full")
    c("queue_list_entries", listing(10), "full")
    c("queue_remove_entries", v1(text("1/1047")), "around the end")
    s.look("queue")
    c("queue_list_entries", listing(10))
    c("queue_remove_entries", v1(text("1/1062")), "all")
    s.look("queue")
    # Entries of many sizes, and listings that begin and end everywhere.
    c("queue_init", v1(u64(20000), u64(2000), text("u" * 2000)), oid="long")
    for turn in range(12):
        c("queue_enqueue", enqueue(*[chr(97 + i) * (turn * 131 % 700 + i * 97) for i in range(6)]), oid="long")
        if turn % 4 == 3:
            out = s.call("long", "queue", "queue_list_entries", listing(9 + turn))
            length = struct.unpack_from("<I", out, 7)[0]
            c("queue_remove_entries", v1(text(out[11:11 + length])), oid="long")
    s.look("long")
    c("queue_list_entries", listing(1000), oid="long")
    s.write("other", b"something that is no queue")
    c("queue_get_capacity", oid="other")
    c("queue_init", v1(u64(100), u64(0), text("")), oid="other")
    s.look("other")
    c("queue_init", v1(u64(0), u64(0), text("")), "no room", oid="none")
    c("queue_enqueue", enqueue(""), oid="none")
    s.look("none")


def garbage_queue(s):
    def c(method, payload=b"", note="", oid="gcq", **more):
        return s.call(oid, "rgw_gc", "rgw_gc_queue_" + method, payload, note, **more)

    c("list_entries", gc_list(), "nothing there")
    c("enqueue", v1(u32(0), gc_info("a")), "nothing there")
    c("init", v1(u64(2000), u64(2)))
    c("init", v1(u64(2000), u64(2)), "again")
    s.look("gcq")
    c("list_entries", gc_list(), "empty")
    c("remove_entries", v1(u64(5)), "empty")
    for i, tag in enumerate("abcde"):
        c("enqueue", v1(u32(0 if i < 3 else 3600), gc_info(tag, f"object{i}")))
    s.look("gcq")
    c("list_entries", gc_list(), "expired")
    c("list_entries", gc_list(expired=0), "all")
    c("list_entries", gc_list(most=2, expired=0), "two")
    c("list_entries", gc_list(most=4), "four expired")
    c("list_entries", gc_list(most=5, expired=0), "five")
    c("list_entries", gc_list(version=1), "version 1")
    c("update_entry", v1(u32(3600), gc_info("a", "object0")), "deferred")
    s.look("gcq")
    c("update_entry", v1(u32(7200), gc_info("a", "object0")), "deferred again")
    c("list_entries", gc_list(), "without the deferred")
    c("list_entries", gc_list(most=1, expired=0), "one without the deferred")
    c("list_entries", gc_list(most=2, expired=0), "two without the deferred")
    c("update_entry", v1(u32(3600), gc_info("zz", "never queued")), "not queued")
    c("update_entry", v1(u32(3600), gc_info("yy")), "too many deferred")
    c("remove_entries", v1(u64(1)), "one, and the deferred before it")
    s.look("gcq", data=False)
    c("list_entries", gc_list(expired=0), "what is left")
    c("remove_entries", v1(u64(0)), "128")
    c("list_entries", gc_list(expired=0), "empty")
    for i in range(30):
        c("enqueue", v1(u32(0), gc_info(f"tag{i}", "o" * 60)), hide=True)
    c("list_entries", gc_list(most=6, expired=0), "six")
    c("remove_entries", v1(u64(3)))
    c("list_entries", gc_list(most=2, expired=0), "two")
    # The head has room for 3 KiB of those that are deferred; more go into an attribute.
    c("init", v1(u64(2000), u64(100)), oid="deferred")
    for i in range(8):
        c("update_entry", v1(u32(3600), gc_info(f"{i}" * 600)), oid="deferred")
    for i in (7, 6):
        c("enqueue", v1(u32(0), gc_info(f"{i}" * 600)), oid="deferred")
    c("list_entries", gc_list(expired=0), "all deferred", oid="deferred")
    c("enqueue", v1(u32(0), gc_info("fresh")), oid="deferred")
    c("list_entries", gc_list(), "one", oid="deferred")
    c("init", v1(u64(2000), u64(0)), oid="no-urgent")
    c("update_entry", v1(u32(1), gc_info("a")), "none may be deferred", oid="no-urgent")


def fifo(s):
    def c(method, payload=b"", note="", oid="meta", **more):
        return s.call(oid, "fifo", method, payload, note, **more)

    def version(instance, n):
        return v1(text(instance), u64(n))

    def params(part, entry, full):
        return v1(u64(part), u64(entry), u64(full))

    def create(ident, ver=None, prefix=None, part=2000, entry=200, exclusive=0):
        return v1(text(ident), optional(ver), text("pool"), text("ns"), optional(None if prefix is None else text(prefix)), u64(part), u64(entry), u8(exclusive))

    def step(op, part, tag):
        return v1(u32(op), u64(part), text(tag))

    def update(ver, tail=None, head=None, low=None, high=None, add=(), rm=()):
        numbers = b"".join(optional(None if n is None else u64(n)) for n in (tail, head, low, high))
        return v1(ver, numbers, items(list(add)), items(list(rm)))

    first = version("one", 1)
    c("get_meta", v1(optional(None)), "nothing there")
    c("update_meta", update(first), "nothing there")
    c("create_meta", create(""), "no id")
    c("create_meta", create("id", part=0), "no parts")
    c("create_meta", create("id", entry=0), "no entries")
    c("create_meta", create("id", part=10, entry=11), "entries larger than parts")
    c("create_meta", create("id", first, "prefix"))
    s.look("meta")
    c("create_meta", create("id", first, "prefix"), "again")
    c("create_meta", create("id", part=77), "again, other sizes")
    c("create_meta", create("other"), "another id")
    c("create_meta", create("id", version("two", 1)), "another version")
    c("create_meta", create("id", prefix="else"), "another prefix")
    c("create_meta", create("id", exclusive=1), "exclusive")
    c("get_meta", v1(optional(None)))
    c("get_meta", v1(optional(first)))
    c("get_meta", v1(optional(version("one", 2))), "another version")
    c("update_meta", update(version("", 1)), "no version")
    c("update_meta", update(version("one", 7), tail=1), "another version")
    c("update_meta", update(first, high=0, add=[step(1, 0, "tag0")]), "a part")
    s.look("meta")
    c("update_meta", update(version("one", 2), add=[step(1, 0, "tag0")]), "the same step")
    c("get_meta", v1(optional(None)))
    c("update_meta", update(version("one", 2), add=[step(2, 0, "tag0"), step(1, 1, "tag1")]), "two steps")
    s.look("meta")
    c("update_meta", update(version("one", 3), head=0, rm=[step(1, 0, "tag0")]), "a head, and a step less")
    s.look("meta")
    c("update_meta", update(version("one", 4), head=1, tail=1, low=1, high=2, rm=[step(9, 1, "")]), "all numbers")
    c("update_meta", update(version("one", 5)), "nothing")
    c("update_meta", update(version("one", 5), head=77), "a head without a part")
    c("get_meta", v1(optional(None)))
    s.look("meta")
    s.write("no-meta", b"\1\1\4\0\0\0\xff\xff\xff\xff")
    c("get_meta", v1(optional(None)), "damaged", oid="no-meta")
    c("create_meta", create("id"), "damaged", oid="no-meta")
    for oid in ("part", "tagless"):
        tag = "tag0" if oid == "part" else ""

        def push(*data, total=None, mine=tag):
            return v1(text(mine), items([text(d) for d in data]), u64(sum(map(len, data)) if total is None else total))

        def tell(most, at=0, mine=tag):
            return v1(optional(text(mine) if mine else None), u64(at), u32(most))

        c("get_part_info", v1(), "nothing there", oid=oid)
        c("push_part", push("a"), "nothing there", oid=oid)
        c("part_list", tell(10), "nothing there", oid=oid)
        c("trim_part", v1(optional(None), u64(600), u8(0)), "nothing there", oid=oid)
        c("init_part", v1(text(tag), params(2000, 200, 1000)), oid=oid)
        try:
            s.name(oid, 40, f"magic-{oid}")
        except rados.Error:
            pass
        s.look(oid)
        c("init_part", v1(text(tag), params(2000, 200, 1000)), "again", oid=oid)
        c("init_part", v1(text("other"), params(2000, 200, 1000)), "another tag", oid=oid)
        c("init_part", v1(text(tag), params(2000, 200, 1001)), "other sizes", oid=oid)
        c("get_part_info", v1(), oid=oid)
        c("part_list", tell(10), "empty", oid=oid)
        c("push_part", push("a" * 100, "b" * 7), oid=oid)
        s.look(oid)
        c("push_part", push("x", mine="other"), "another tag", oid=oid)
        c("push_part", push("y", mine=""), "no tag", oid=oid)
        c("push_part", push("x", total=2), "another length", oid=oid)
        c("push_part", push("x" * 3000), "too large", oid=oid)
        c("push_part", push(), "nothing", oid=oid)
        c("push_part", push("", "c" * 150, "d" * 50, "e"), "over the end", oid=oid)
        c("get_part_info", v1(), oid=oid)
        c("push_part", push("f"), "full", oid=oid)
        c("part_list", tell(10), oid=oid)
        c("part_list", tell(0), "none", oid=oid)
        c("part_list", tell(-1), "fewer than none", oid=oid)
        c("part_list", tell(2), "two", oid=oid)
        c("part_list", tell(10, 512), "after the first", oid=oid)
        c("part_list", tell(10, 3), "before the first", oid=oid)
        c("part_list", tell(10, 600), "between entries", oid=oid)
        c("part_list", tell(10, 5000), "behind the end", oid=oid)
        c("part_list", tell(10, mine="other"), "another tag", oid=oid)
        c("trim_part", v1(optional(text("other")), u64(600), u8(0)), "another tag", oid=oid)
        c("trim_part", v1(optional(None), u64(500), u8(0)), "before the first", oid=oid)
        c("trim_part", v1(optional(None), u64(512), u8(1)), "before the first, exclusive", oid=oid)
        c("trim_part", v1(optional(None), u64(600), u8(0)), "between entries", oid=oid)
        c("trim_part", v1(optional(None), u64(512), u8(0)), "the first", oid=oid)
        c("get_part_info", v1(), oid=oid)
        s.look(oid)
        c("part_list", tell(10), "without the first", oid=oid)
        c("trim_part", v1(optional(text(tag) if tag else None), u64(735), u8(1)), "exclusive", oid=oid)
        c("get_part_info", v1(), oid=oid)
        c("trim_part", v1(optional(None), u64(9999), u8(0)), "all", oid=oid)
        s.look(oid)
        c("init_part", v1(text(tag), params(2000, 200, 1000)), "room for more", oid=oid + "-2")
        c("push_part", push("a"), oid=oid + "-2")
        c("trim_part", v1(optional(None), u64(9999), u8(0)), "all of one that is not full", oid=oid + "-2")
        c("part_list", tell(10), oid=oid + "-2")


def two_phases(s):
    def c(method, payload=b"", note="", oid="2pc", **more):
        return s.call(oid, "2pc_queue", "2pc_queue_" + method, payload, note, **more)

    def reserve(size, entries):
        return v1(u64(size), u32(entries))

    def commit(n, *data):
        return v1(u32(n), items([text(d) for d in data]))

    c("get_capacity", note="nothing there")
    c("reserve", reserve(1, 1), "nothing there")
    c("commit", commit(1), "nothing there")
    c("abort", v1(u32(1)), "nothing there")
    c("list_reservations", note="nothing there")
    c("init", v1(u64(1000), u64(5), text("ignored")))
    c("init", v1(u64(1000), u64(5), text("ignored")), "again")
    s.look("2pc")
    c("get_capacity")
    c("reserve", reserve(0, 1), "no bytes")
    c("reserve", reserve(1, 0), "no entries")
    c("reserve", reserve(991, 1), "too large")
    c("reserve", reserve(100, 2))
    s.look("2pc")
    c("list_reservations")
    c("commit", commit(2, "a"), "not reserved")
    c("commit", commit(1, "a" * 101), "more than was reserved")
    c("commit", commit(1, "a" * 60, "b" * 40))
    c("list_reservations")
    c("list_entries", listing(10))
    c("abort", v1(u32(1)), "not there any more")
    c("reserve", reserve(50, 1))
    c("abort", v1(u32(2)))
    c("list_reservations")
    c("reserve", reserve(50, 1))
    c("expire_reservations", v1(utime(1000)), "none so old")
    c("list_reservations")
    c("expire_reservations", v1(utime(2**32 - 1)))
    c("list_reservations")
    c("remove_entries", v1(text("0/24646")))
    c("list_entries", listing(10))
    c("reserve", reserve(5000, 1), "larger than the queue")
    # The head has room for 905 reservations; more go into an attribute.
    c("init", v1(u64(1 << 20), u64(0), text("")), oid="many")
    for i in range(908):
        try:
            s.io.execute("many", "2pc_queue", "2pc_queue_reserve", reserve(10, 1), 10)
            s.note("call", "many", "2pc_queue", "2pc_queue_reserve", reserve(10, 1).hex(), "0")
        except rados.Error as e:
            print(i, e)
    names = [name for name, _ in s.io.get_xattrs("many")]
    print("many has", *names)
    c("commit", commit(907, "late"), "kept in the attribute", oid="many")
    c("commit", commit(907, "late"), "again", oid="many")
    c("commit", commit(5, "early"), "kept in the head", oid="many")
    c("abort", v1(u32(908)), "kept in the attribute", oid="many")
    c("abort", v1(u32(908)), "again", oid="many")
    c("list_entries", listing(10), oid="many")
    c("expire_reservations", v1(utime(2**32 - 1)), oid="many")
    c("list_reservations", oid="many")
    s.look("many", data=False)


def totp(key, now, step=30, offset=0, digits=6):
    count = (int(now) - offset) // step
    mac = hmac.new(key, struct.pack(">Q", count), hashlib.sha1).digest()
    at = mac[-1] & 15
    return f"{(struct.unpack_from('>I', mac, at)[0] & 0x7FFFFFFF) % 10**digits:0{digits}}"


def otp(s):
    def c(method, payload=b"", note="", oid="otp", **more):
        return s.call(oid, "otp", method, payload, note, **more)

    def info(ident, seed, kind=1, offset=0, step=30, window=2, binary=b""):
        return v1(u8(2), text(ident), text(seed), u8(kind), text(binary), u32(offset), u32(step), u32(window))

    def check(ident, value, token):
        return v1(text(ident), text(value), text(token))

    secret = b"a secret of no one"
    c("otp_get", v1(u8(1), items([])), "nothing there")
    c("otp_check", check("a", "123456", "t"), "nothing there")
    c("otp_remove", v1(items([text("a")])), "nothing there")
    c("get_current_time", v1(), "nothing there")
    s.look("otp")
    for seed, kind in (("xyz", 1), ("abc", 1), ("", 1), ("GE$", 2), ("", 2), ("61", 0), ("A", 2), ("AB", 2), ("ABC", 2), ("ABCD", 2),
                       ("ABCDE", 2), ("ABCDEF", 2), ("ABCDEFG", 2), ("ABCDEFGH", 2), ("GEZD-GNBV", 2), ("1890", 2), ("AA======", 2), ("AA==", 2), ("A=A", 2), ("AAAAAAAAAA", 2),
                       ("61 62", 1), ("6A", 7), ("GE", 3), (" ", 2)):
        c("otp_set", v1(items([info("bad", seed, kind)])), f"seed '{seed}' of kind {kind}", oid="seeds")
        s.look("seeds")
    c("otp_set", v1(items([info("hex", secret.hex()), info("b32", base64.b32encode(secret).decode(), 2, binary=b"ignored")])))
    c("otp_set", v1(items([info("lower", base64.b32encode(b"abcdef").decode().lower().rstrip("="), 2)])), "without padding")
    c("otp_set", v1(items([info("spaces", "GEZD GNBV", 2)])), "with a space")
    c("otp_set", v1(items([info("upper", "AABBCC")])), "capital letters")
    s.look("otp")
    c("otp_get", v1(u8(0), items([text("hex"), text("none")])))
    c("otp_get", v1(u8(1), items([text("none")])), "all")
    c("get_current_time", v1())
    c("otp_check", check("none", "1", "t"), "missing")
    c("otp_get_result", check("none", "1", "t"), "missing")
    c("otp_get_result", check("hex", "", "t0"), "not tried")
    c("otp_check", check("hex", "000000", "t1"), "wrong")
    c("otp_get_result", check("hex", "", "t1"), "wrong")
    s.note("code", "otp", "otp", "otp_check", "hex", "t2", secret.hex())
    s.io.execute("otp", "otp", "otp_check", check("hex", totp(secret, time.time()), "t2"), 10)
    c("otp_get_result", check("hex", "", "t2"), "right")
    s.note("code", "otp", "otp", "otp_check", "hex", "t3", secret.hex())
    s.io.execute("otp", "otp", "otp_check", check("hex", totp(secret, time.time()), "t3"), 10)
    c("otp_get_result", check("hex", "", "t3"), "used")
    for value in ("12345", "1234567", "abcdef"):
        c("otp_check", check("hex", value, "t" + value), f"code {value}")
        c("otp_get_result", check("hex", "", "t" + value), f"code {value}")
    c("otp_remove", v1(items([text("none")])), "missing")
    c("otp_remove", v1(items([text("hex"), text("none"), text("hex")])))
    c("otp_get", v1(u8(1), items([])), "what is left")


def comparisons(s):
    def c(method, payload=b"", note="", oid="cmp", **more):
        return s.call(oid, "cmpomap", method, payload, note, **more)

    def pairs(values):
        return items([text(k) + text(v) for k, v in values])

    def compare(mode, op, values, default=None):
        return v1(u8(mode), u8(op), pairs(values), optional(None if default is None else text(default)))

    c("cmp_vals", compare(1, 1, [("a", b"1")]), "nothing there")
    c("cmp_rm_keys", v1(u8(1), u8(1), pairs([("a", b"1")])), "nothing there")
    c("cmp_set_vals", compare(1, 1, [("a", b"1")]), "nothing there")
    s.look("cmp")
    c("cmp_set_vals", compare(1, 1, [("a", b"1")], b"1"), "by default")
    s.look("cmp")
    for key, value in (("b", u64(5)), ("c", u64(50)), ("short", b"123")):
        s.omap("cmp", key, value)
    for op in range(0, 9):
        for values in ([("a", b"0")], [("a", b"1")], [("a", b"2")], [("a", b"11")]):
            c("cmp_vals", compare(1, op, values), f"text {op}")
        for n in (4, 5, 6):
            c("cmp_vals", compare(2, op, [("b", u64(n))]), f"number {op} {n}")
    for mode in (0, 3):
        c("cmp_vals", compare(mode, 1, [("a", b"1")]), f"mode {mode}")
    c("cmp_vals", compare(2, 1, [("b", b"12")]), "no number")
    c("cmp_vals", compare(2, 1, [("short", u64(1))]), "stored is no number")
    c("cmp_vals", compare(2, 1, [("none", u64(1))]), "missing")
    c("cmp_vals", compare(2, 1, [("none", u64(1))], u64(1)), "missing, by default")
    c("cmp_vals", compare(2, 1, [("none", u64(1))], b""), "missing, no number by default")
    c("cmp_vals", compare(2, 1, [("none", u64(0))], b""), "missing, nothing by default")
    c("cmp_vals", compare(2, 1, [("none", u64(0))], b"12"), "missing, no number by default")
    for key, value in (("empty", b""), ("zero", u64(0)), ("high", b"\x80"), ("low", b"\x7f"), ("long", u64(5) + b"tail")):
        s.omap("cmp", key, value)
    c("cmp_vals", compare(2, 1, [("empty", u64(0))]), "stored is empty")
    c("cmp_vals", compare(2, 1, [("zero", b"")]), "given is empty")
    c("cmp_vals", compare(2, 1, [("zero", b"")], u64(0)), "given is empty")
    c("cmp_vals", compare(2, 1, [("empty", b"")]), "both are empty")
    c("cmp_vals", compare(2, 1, [("long", u64(5) + b"else")]), "bytes behind the numbers")
    c("cmp_vals", compare(1, 3, [("high", b"\x7f")]), "7f > 80")
    c("cmp_vals", compare(1, 3, [("low", b"\x80")]), "80 > 7f")
    for key in ("empty", "zero", "high", "low", "long"):
        c("cmp_rm_keys", v1(u8(1), u8(4), pairs([(key, b"")])), "at least nothing")
    c("cmp_rm_keys", v1(u8(1), u8(6), pairs([("empty", b""), ("zero", b""), ("high", b""), ("low", b""), ("long", b"")])), "at most nothing")
    c("cmp_vals", compare(1, 1, []), "nothing to compare")
    c("cmp_vals", compare(2, 1, [("b", u64(5)), ("c", u64(50))]), "two")
    c("cmp_vals", compare(2, 1, [("c", u64(50)), ("b", u64(5))]), "two, in another order")
    c("cmp_set_vals", compare(2, 3, [("b", u64(6)), ("c", u64(6)), ("none", u64(9)), ("short", u64(1))]), "larger")
    s.look("cmp")
    c("cmp_set_vals", compare(2, 3, [("b", u64(7)), ("new", u64(9))], u64(0)), "larger than 0 by default")
    c("cmp_set_vals", compare(2, 3, [("b", b"1")]), "no number")
    c("cmp_set_vals", compare(2, 9, [("b", u64(1))]), "no comparison")
    c("cmp_set_vals", compare(2, 1, [("b", u64(1))]), "not equal")
    c("cmp_set_vals", compare(2, 1, []), "nothing")
    s.look("cmp")
    c("cmp_rm_keys", v1(u8(2), u8(4), pairs([("b", u64(7)), ("c", u64(1)), ("none", u64(1)), ("short", u64(1))])))
    c("cmp_rm_keys", v1(u8(2), u8(1), pairs([("c", b"1")])), "no number")
    c("cmp_rm_keys", v1(u8(1), u8(1), pairs([("short", b"123")])))
    s.look("cmp")


def nonsense(s):
    """All methods with payloads that are none, on an object that is none of theirs."""
    methods = {
        "rgw": ["user_usage_log_add", "user_usage_log_read", "user_usage_log_trim", "usage_log_clear", "gc_set_entry", "gc_defer_entry", "gc_list",
                "gc_remove", "lc_get_entry", "lc_set_entry", "lc_rm_entry", "lc_get_next_entry", "lc_put_head", "lc_get_head", "lc_list_entries",
                "reshard_add", "reshard_list", "reshard_get", "reshard_remove"],
        "queue": ["queue_" + m for m in ("init", "get_capacity", "enqueue", "list_entries", "remove_entries")],
        "rgw_gc": ["rgw_gc_queue_" + m for m in ("init", "enqueue", "list_entries", "remove_entries", "update_entry")],
        "2pc_queue": ["2pc_queue_" + m for m in ("init", "get_capacity", "reserve", "commit", "abort", "list_reservations", "list_entries", "remove_entries",
                                                 "expire_reservations")],
        "fifo": ["create_meta", "get_meta", "update_meta", "init_part", "push_part", "trim_part", "part_list", "get_part_info"],
        "otp": ["otp_set", "otp_get", "otp_check", "otp_get_result", "otp_remove", "get_current_time"],
        "cmpomap": ["cmp_vals", "cmp_set_vals", "cmp_rm_keys"],
    }
    # Counts of billions are left out: a real OSD takes the memory for them, and dies of it.
    for cls, names in methods.items():
        for method in names:
            for i, payload in enumerate((b"", b"\x01", env(1, 1, b"\xff\xff"), env(9, 9, b""))):
                s.write("flat", b"\1\1\2\0\0\0\xff\xff", 0)
                s.call("flat", cls, method, payload, f"nonsense {i}")
        s.call("flat", cls, "no_such_method")


Story("gateway").tell(usage, garbage, lifecycle, reshard, queue, garbage_queue, fifo, two_phases, otp, comparisons, nonsense)
