#!/usr/bin/python3
"""Calls the methods of object classes, step by step, and tells what they answer: one line a call, times and random names left out.
Run against a real cluster it makes the expected story; run against ours it must tell the same.

With a file to record into, what was sent is written there, too: the unit tests of the classes play it again.

usage: classes_story.py CEPH_CONF [POOL [RECORD]]
"""
import os
import sys
import pathlib
import struct

import rados

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from calls import START, Calls, env, items, text, u8, u32, u64, utime

NOSNAP = 2**64 - 2


def shown(data):
    """Bytes in hexadecimal, with the times of this run left out."""
    out, i = [], 0
    while i < len(data):
        if i + 8 <= len(data):
            sec, nsec = struct.unpack_from("<II", data, i)
            if START - 3600 < sec < START + 3600 and nsec < 10**9:
                out.append("[now]")
                i += 8
                continue
        out.append(f"{data[i]:02x}")
        i += 1
    whole = "".join(out)
    return whole if len(whole) <= 400 else f"{whole[:400]}... {len(data)} bytes"


class Story(Calls):
    def shown(self, data):
        return shown(data)

    def full(self, oid, data):
        self.io.write_full(oid, data)
        self.note("full", oid, data.hex() or "-")

    def read(self, oid):
        """All of an object, as a line."""
        data = self.io.read(oid, 1 << 20)
        print(f"{oid} is {shown(data)}", flush=True)
        self.note("read", oid, shown(data))

    def remove(self, oid):
        try:
            self.io.remove_object(oid)
        except rados.ObjectNotFound:
            pass
        self.note("remove", oid)

    def keys(self, oid):
        """The names under which a class keeps things."""
        with rados.ReadOpCtx() as op:
            found, _ = self.io.get_omap_keys(op, "", 1000)
            try:
                self.io.operate_read_op(op, oid)
                kept = ",".join(k for k, _ in found)
                print(f"{oid} keeps {kept}", flush=True)
                self.note("keys", oid, kept or "-")
            except rados.Error as e:
                print(f"{oid} keeps nothing: {type(e).__name__}", flush=True)


def rbd_image(s):
    def c(method, payload=b"", note="", oid="image", **more):
        s.call(oid, "rbd", method, payload, note, **more)

    features = 1 | 4 | 8 | 16
    create = u64(1 << 30) + u8(22) + u64(features) + text("rbd_data.1") + u64(-1)
    c("get_all_features", oid="nothing")
    c("create", u64(1) + u8(22) + u64(1 << 30) + text("p") + u64(-1), "unknown feature")
    c("create", u64(1) + u8(22) + u64(1) + text("") + u64(-1), "no prefix")
    c("create", u64(1) + u8(22) + u64(128) + text("p") + u64(-1), "no data pool")
    c("create", u64(1) + u8(22) + u64(1) + text("p") + u64(3), "no such feature")
    c("create", u64(1) + u8(22) + u64(256) + text("p") + u64(-1), "internal")
    c("create", create)
    c("create", create, "again")
    c("create", u64(1) + u8(22) + u64(4095 & ~256) + text("p") + u64(7), oid="full")
    for read_only in (0, 1):
        c("get_features", u64(NOSNAP) + u8(read_only))
        c("get_features", u64(NOSNAP) + u8(read_only), oid="full")
    s.keys("image")
    s.keys("full")
    for bit in range(0, 12):
        c("set_features", u64(1 << bit) + u64(1 << bit), f"on {bit}", oid="full")
        c("set_features", u64(0) + u64(1 << bit), f"off {bit}", oid="full")
    c("get_features", u64(NOSNAP), oid="full")
    for method in ("get_object_prefix", "get_data_pool", "get_create_timestamp", "get_access_timestamp", "get_modify_timestamp",
                   "op_features_get", "snapshot_get_limit", "get_snapcontext", "get_stripe_unit_count", "parent_get",
                   "image_group_get", "migration_get", "get_id", "mirror_mode_get", "mirror_uuid_get", "mirror_peer_list",
                   "mirror_instances_list", "mirror_image_status_get_summary", "object_map_load", "snap_list"):
        c(method)
        c(method, oid="full")
        c(method, oid="nothing")
    c("get_size", u64(NOSNAP))
    c("set_size", u64(1 << 29))
    c("get_size", u64(NOSNAP))
    c("get_size", u64(4), "no such snapshot")
    c("set_stripe_unit_count", u64(4096) + u64(4))
    c("set_stripe_unit_count", u64(4096) + u64(4), oid="full")
    c("set_stripe_unit_count", u64(4097) + u64(4), oid="full")
    c("set_stripe_unit_count", u64(0) + u64(4), oid="full")
    c("get_stripe_unit_count", oid="full")
    c("set_flags", u64(3) + u64(1))
    c("get_flags", u64(NOSNAP))
    c("op_features_set", u64(16) + u64(16))
    c("op_features_set", u64(2) + u64(2))
    c("op_features_get")
    c("get_features", u64(NOSNAP))
    c("op_features_set", u64(0) + u64(2))
    c("get_features", u64(NOSNAP))
    c("set_access_timestamp")
    c("set_modify_timestamp", oid="nothing")


def rbd_snapshots(s):
    def c(method, payload=b"", note="", oid="image", **more):
        s.call(oid, "rbd", method, payload, note, **more)

    user = env(1, 1, u32(0))
    c("snapshot_add", text("a") + u64(4) + user)
    c("snapshot_add", text("a") + u64(5) + user, "same name")
    c("snapshot_add", text("b") + u64(4) + user, "same id")
    c("snapshot_add", text("b") + u64(3) + user, "older")
    c("snapshot_add", text("b") + u64(NOSNAP) + user, "too large")
    c("snapshot_add", text("b") + u64(5) + env(1, 1, u32(77)), "unknown kind")
    c("snapshot_add", text("b") + u64(6), "without a kind")
    c("snapshot_add", text("g") + u64(7) + env(1, 1, u32(1) + u64(2) + text("gid") + text("gsnap")))
    mirror = u32(3) + u8(0) + u8(1) + items([text("peer")]) + text("") + u64(NOSNAP) + u64(0) + u32(0)
    c("snapshot_add", text("m") + u64(8) + env(1, 1, mirror))
    copy = u32(3) + u8(2) + u8(0) + u32(0) + text("there") + u64(5) + u64(0) + items([u64(1) + u64(2)])
    c("snapshot_add", text("n") + u64(9) + env(1, 1, copy))
    for snap in (4, 6, 7, 8, 9, 10, NOSNAP):
        c("snapshot_get", u64(snap))
        c("get_snapshot_name", u64(snap))
        c("get_snapshot_timestamp", u64(snap))
        c("get_protection_status", u64(snap))
        c("get_size", u64(snap))
        c("get_flags", u64(snap))
        c("parent_overlap_get", u64(snap))
    c("get_snapcontext")
    s.keys("image")
    c("set_flags", u64(2) + u64(2) + u64(4))
    c("get_flags", u64(4))
    c("snapshot_rename", u64(6) + text("a"), "taken")
    c("snapshot_rename", u64(6) + text("c"))
    c("snapshot_rename", u64(7) + text("d"), "a group's")
    c("snapshot_rename", u64(70) + text("e"), "missing")
    c("snapshot_set_limit", u64(2), "too few")
    c("snapshot_set_limit", u64(5))
    c("snapshot_get_limit")
    c("snapshot_add", text("z") + u64(20) + user, "over the limit")
    c("snapshot_set_limit", u64(2**64 - 1))
    c("snapshot_set_limit", u64(2**64 - 1), oid="nothing")
    c("set_protection_status", u64(4) + u8(2))
    c("set_protection_status", u64(4) + u8(3), "unknown")
    c("set_protection_status", u64(NOSNAP) + u8(1), "no snapshot")
    c("get_protection_status", u64(4))
    c("snapshot_remove", u64(4), "protected")
    c("snapshot_trash_add", u64(4), "protected")
    c("set_protection_status", u64(4) + u8(0))
    child = u64(4) + env(2, 1, u64(2) + text("child") + text(""))
    c("child_attach", child)
    c("child_attach", child, "again")
    c("child_attach", u64(4) + env(1, 1, u64(1) + text("older")), "version 1")
    c("child_attach", u64(4) + env(2, 1, u64(2) + text("b") + text("ns")))
    c("child_attach", u64(4) + env(2, 1, u64(2) + text("a") + text("ns")))
    c("children_list", u64(4))
    c("children_list", u64(6), "none")
    c("children_list", u64(66), "missing")
    c("snapshot_remove", u64(4), "has clones")
    c("snapshot_trash_add", u64(4), hide=True)
    c("snapshot_trash_add", u64(4), "again")
    c("child_attach", u64(4) + env(2, 1, u64(2) + text("late") + text("")), "in the trash")
    c("op_features_get")
    for gone in (env(2, 1, u64(2) + text("child") + text("")), env(2, 1, u64(1) + text("older") + text("")),
                 env(2, 1, u64(2) + text("b") + text("ns")), env(2, 1, u64(2) + text("a") + text("ns"))):
        c("child_detach", u64(4) + gone)
    c("child_detach", child, "gone")
    c("op_features_get")
    c("snapshot_remove", u64(4))
    c("snapshot_remove", u64(4), "again")
    c("op_features_get")
    c("mirror_image_snapshot_unlink_peer", u64(8) + text("other"))
    c("mirror_image_snapshot_unlink_peer", u64(8) + text("peer"))
    c("mirror_image_snapshot_unlink_peer", u64(6) + text("peer"), "not of mirroring")
    c("mirror_image_snapshot_unlink_peer", u64(60) + text("peer"), "missing")
    for snap in (6, 8, 9):
        c("mirror_image_snapshot_set_copy_progress", u64(snap) + u8(1) + u64(77))
        c("snapshot_get", u64(snap))


def rbd_parents(s):
    def c(method, payload=b"", note="", oid="image", **more):
        s.call(oid, "rbd", method, payload, note, **more)

    spec = env(1, 1, u64(3) + text("ns") + text("parent") + u64(9))
    plain = env(1, 1, u64(3) + text("") + text("parent") + u64(9))
    c("parent_attach", spec + u64(0), "no overlap")
    c("parent_attach", env(1, 1, u64(-1) + text("") + text("") + u64(NOSNAP)) + u64(5), "no parent")
    c("parent_attach", spec + u64(1 << 40) + u8(0))
    c("parent_attach", spec + u64(1 << 40) + u8(0), "again")
    c("parent_attach", spec + u64(4096) + u8(1), "reattach")
    c("parent_get")
    for snap in (6, 7, NOSNAP):
        c("parent_overlap_get", u64(snap))
        c("get_parent", u64(snap), "old clients")
    c("snapshot_add", text("p") + u64(30) + env(1, 1, u32(0)))
    c("parent_overlap_get", u64(30))
    c("set_size", u64(100))
    c("parent_overlap_get", u64(NOSNAP))
    c("remove_parent", note="old clients")
    c("parent_detach")
    c("parent_detach", note="again")
    c("parent_get")
    c("parent_overlap_get", u64(30))
    c("parent_overlap_get", u64(NOSNAP))
    c("snapshot_remove", u64(30))
    c("parent_get")
    c("set_parent", u64(3) + text("parent") + u64(9) + u64(50))
    c("get_parent", u64(NOSNAP))
    c("get_parent", u64(6))
    c("remove_parent")
    c("get_parent", u64(NOSNAP))
    c("create", u64(1 << 20) + u8(22) + u64(1 | 32) + text("p") + u64(-1), oid="deep")
    c("parent_attach", plain + u64(4096) + u8(0), oid="deep")
    c("snapshot_add", text("p") + u64(30) + env(1, 1, u32(0)), oid="deep")
    c("get_parent", u64(30), oid="deep")
    c("parent_detach", oid="deep")
    c("parent_overlap_get", u64(30), oid="deep")
    s.keys("deep")
    c("create", u64(1 << 20) + u8(22) + u64(4) + text("p") + u64(-1), oid="flat")
    for method in ("parent_attach", "parent_detach", "set_protection_status", "get_stripe_unit_count"):
        c(method, plain + u64(4096), "not layered", oid="flat")
    c("parent_get", oid="flat")
    where = u64(3) + text("parent") + u64(9)
    c("get_children", where, oid="children")
    c("add_child", where + text("b"), oid="children")
    c("add_child", where + text("a"), oid="children")
    c("add_child", where + text("a"), "again", oid="children")
    c("get_children", where, oid="children")
    c("remove_child", where + text("c"), oid="children")
    c("remove_child", where + text("b"), oid="children")
    c("remove_child", where + text("a"), oid="children")
    c("get_children", where, oid="children")


def rbd_directory(s):
    def c(method, payload=b"", note="", oid="directory", **more):
        s.call(oid, "rbd", method, payload, note, **more)

    c("dir_list", text("") + u64(10))
    c("dir_state_set", u8(1), "missing")
    c("dir_add_image", text("one") + text("1a"))
    c("dir_add_image", text("one") + text("2b"), "name taken")
    c("dir_add_image", text("two") + text("1a"), "id taken")
    c("dir_add_image", text("two") + text("no id"))
    c("dir_add_image", text("") + text("3c"))
    c("dir_add_image", text(b"\xff\xfe") + text("4d"), "not UTF-8")
    c("dir_add_image", text("two") + text("2b"))
    for name in ("one", "two", "six"):
        c("dir_get_id", text(name))
    for image in ("1a", "2b", "9z"):
        c("dir_get_name", text(image))
    c("dir_list", text("") + u64(10))
    c("dir_list", text("one") + u64(1))
    c("dir_list", text("") + u64(0))
    c("dir_rename_image", text("one") + text("two") + text("1a"))
    c("dir_rename_image", text("one") + text("one") + text("1a"))
    c("dir_rename_image", text("one") + text("six") + text("2b"))
    c("dir_rename_image", text("nine") + text("six") + text("2b"))
    c("dir_rename_image", text("one") + text("six") + text("1a"))
    c("dir_remove_image", text("two") + text("1a"))
    c("dir_remove_image", text("nine") + text("1a"))
    c("dir_state_assert", u8(0))
    c("dir_state_set", u8(1), "not empty")
    c("dir_state_set", u8(2), "unknown")
    c("dir_state_set", u8(0))
    c("dir_state_assert", u8(1))
    c("dir_state_assert", u8(0))
    c("dir_remove_image", text("two") + text("2b"))
    c("dir_remove_image", text(b"\xff\xfe") + text("4d"))
    s.keys("directory")
    for name in ("one", "two", "one"):
        c("namespace_add", text(name), oid="namespaces")
    c("namespace_list", text("") + u64(10), oid="namespaces")
    c("namespace_list", text("one") + u64(10), oid="namespaces")
    c("namespace_remove", text("six"), oid="namespaces")
    c("namespace_remove", text("one"), oid="namespaces")
    c("get_id", oid="id")
    c("set_id", text("1a"), "missing", oid="id")
    s.full("id", b"")
    c("get_id", oid="id")
    c("set_id", text("no id"), oid="id")
    c("set_id", text("1a"), oid="id")
    c("set_id", text("1a"), "again", oid="id")
    c("get_id", oid="id")


def rbd_object_map(s):
    def c(method, payload=b"", note="", oid="map", **more):
        s.call(oid, "rbd", method, payload, note, **more)

    c("object_map_resize", u64(10) + u8(0))
    c("object_map_update", u64(2) + u64(5) + u8(1) + u8(0))
    c("object_map_load")
    c("object_map_update", u64(0) + u64(10) + u8(2) + u8(1) + u8(1))
    c("object_map_update", u64(0) + u64(11) + u8(2) + u8(0), "beyond")
    c("object_map_update", u64(5) + u64(5) + u8(2) + u8(0), "nothing")
    c("object_map_update", u64(0) + u64(4) + u8(1) + u8(0))
    c("object_map_snap_add")
    c("object_map_load")
    c("object_map_update", u64(0) + u64(2) + u8(0) + u8(1) + u8(1), "clean counts")
    c("object_map_load")
    c("object_map_resize", u64(3) + u8(0), "in use")
    c("object_map_resize", u64(5) + u8(0))
    c("object_map_resize", u64(9) + u8(1))
    c("object_map_resize", u64(2**40) + u8(1), "too large")
    c("object_map_load")
    s.read("map")
    vector = text(env(1, 1, u64(6))) + bytes([0b01110010, 0b11000000]) + u32(0)
    c("object_map_save", vector, oid="map2")
    s.read("map2")
    c("object_map_save", vector[:-5], "cut", oid="map2")
    c("object_map_snap_remove", vector)
    c("object_map_load")
    c("object_map_snap_remove", vector, oid="nothing")
    c("object_map_resize", u64(3 * 16384 + 7) + u8(0), oid="large")
    c("object_map_update", u64(16000) + u64(17000) + u8(3) + u8(0), oid="large")
    c("object_map_update", u64(3 * 16384) + u64(3 * 16384 + 7) + u8(1) + u8(0), oid="large")
    c("object_map_update", u64(0) + u64(3 * 16384 + 7) + u8(2) + u8(1) + u8(3), oid="large")
    s.read("large")
    s.write("map", b"\xff", 20)
    c("object_map_load", note="damaged")
    c("object_map_update", u64(0) + u64(4) + u8(0) + u8(0), "damaged")
    s.full("map", b"short")
    c("object_map_load", note="short")
    c("object_map_update", u64(0) + u64(4) + u8(0) + u8(0), "short")


def rbd_data(s):
    def c(method, payload=b"", note="", oid="data", **more):
        s.call(oid, "rbd", method, payload, note, **more)

    c("assert_snapc_seq", u64(5) + u8(0), "missing")
    c("assert_snapc_seq", u64(5) + u8(1), "missing")
    c("copyup", b"from the parent")
    c("copyup", b"too late")
    s.read("data")
    c("assert_snapc_seq", u64(5) + u8(0))
    c("assert_snapc_seq", u64(5) + u8(1))
    c("assert_snapc_seq", u64(0) + u8(1))
    c("assert_snapc_seq", u64(0) + u8(9))
    extents = items([u64(4) + u64(3), u64(4096) + u64(2)])
    c("sparse_copyup", extents + text("abc"), "too short", oid="sparse")
    c("sparse_copyup", extents + text("abcde"), oid="sparse")
    s.read("sparse")
    c("sparse_copyup", u32(0) + u32(0), oid="empty")
    s.read("empty")
    s.full("holes", b"\0" * 8192 + b"x" * 4096 + b"\0" * 4096 + b"y" * 10 + b"\0" * 20000)
    c("sparsify", u64(4096) + u8(0), oid="holes")
    s.read("holes")
    s.full("zeros", b"\0" * 8192)
    c("sparsify", u64(4096) + u8(0), oid="zeros")
    s.read("zeros")
    c("sparsify", u64(4096) + u8(1), oid="zeros")
    c("sparsify", u64(4096) + u8(1), "gone", oid="zeros")


def rbd_metadata(s):
    def c(method, payload=b"", note="", oid="meta", **more):
        s.call(oid, "rbd", method, payload, note, **more)

    c("metadata_remove", text("a"), "missing")
    c("metadata_set", items([text(k) + text(v) for k, v in (("a", "1"), ("b", b"\0\xff"), ("c", ""))]))
    c("metadata_get", text("b"))
    c("metadata_get", text("d"))
    c("metadata_list", text("") + u64(2))
    c("metadata_list", text("b") + u64(0))
    c("metadata_remove", text("a"))
    c("metadata_remove", text("a"), "again")
    spec = env(2, 1, u8(0) + text("name") + utime(5) + utime(6) + u8(0))
    c("trash_add", text("1a") + spec, oid="trash")
    c("trash_add", text("1a") + spec, "again", oid="trash")
    c("trash_add", text("no id") + spec, oid="trash")
    c("trash_add", text("2b") + env(1, 1, u8(1) + text("old") + utime(5) + utime(6)), "version 1", oid="trash")
    for image in ("1a", "2b", "3c"):
        c("trash_get", text(image), oid="trash")
    c("trash_list", text("") + u64(10), oid="trash")
    c("trash_list", text("1a") + u64(10), oid="trash")
    c("trash_state_set", text("1a") + u8(2) + u8(1), oid="trash")
    c("trash_state_set", text("1a") + u8(2) + u8(0), oid="trash")
    c("trash_state_set", text("1a") + u8(2) + u8(0), "again", oid="trash")
    c("trash_state_set", text("9z") + u8(2) + u8(0), oid="trash")
    c("trash_remove", text("9z"), oid="trash")
    c("trash_remove", text("1a"), oid="trash")
    migration = env(3, 1, u8(1) + u64(2) + text("ns") + text("name") + text("id") + items([u64(1) + u64(2)]) + u64(5) + u8(0) +
                    u8(1) + u8(2) + text("state") + u8(1) + text("{}"))
    c("migration_set_state", u8(3) + text("x"), "none", oid="image")
    c("migration_set", migration, oid="image")
    c("migration_set", migration, "again", oid="image")
    c("migration_get", oid="image")
    c("migration_set_state", u8(3) + text("further"), oid="image")
    c("migration_get", oid="image")
    c("get_features", u64(NOSNAP), oid="image")
    c("migration_remove", oid="image")
    c("migration_remove", note="again", oid="image")
    c("migration_get", oid="image")
    c("migration_set", migration, oid="flat")
    old = env(1, 1, u8(2) + u64(2) + text("ns") + text("name") + text("id") + u32(0) + u64(5) + u8(0) + u8(1) + u8(2) + text(""))
    c("migration_set", old, "version 1", oid="deep")
    c("migration_get", oid="deep")


def rbd_groups(s):
    def c(method, payload=b"", note="", oid="group", **more):
        s.call(oid, "rbd", method, payload, note, **more)

    c("group_dir_add", text("g") + text("1a"), oid="groups")
    c("group_dir_add", text("g") + text("2b"), oid="groups")
    c("group_dir_add", text("h") + text("1a"), oid="groups")
    c("group_dir_add", text("h") + text("no id"), oid="groups")
    c("group_dir_rename", text("g") + text("i") + text("1a"), oid="groups")
    c("group_dir_rename", text("g") + text("i") + text("1a"), oid="groups")
    c("group_dir_list", text("") + u64(10), oid="groups")
    c("group_dir_remove", text("i") + text("2b"), oid="groups")
    c("group_dir_remove", text("i") + text("1a"), oid="groups")
    image = [env(1, 1, text(name) + u64(p)) for name, p in (("a", 5), ("b", 2), ("with_line", 2))]
    for spec in image:
        c("group_image_set", env(1, 1, spec + u8(1)))
    c("group_image_set", env(1, 1, image[0] + u8(0)))
    c("group_image_list", env(1, 1, text("") + u64(-1)) + u64(10))
    c("group_image_list", image[1] + u64(1))
    c("group_image_remove", image[1])
    c("group_image_remove", image[1], "again")
    c("group_image_remove", image[1], "missing", oid="nothing")
    s.keys("group")
    spec = env(1, 1, u64(5) + text("1a"))
    c("image_group_remove", spec, "none", oid="image")
    c("image_group_add", spec, oid="image")
    c("image_group_add", spec, "again", oid="image")
    c("image_group_add", env(1, 1, u64(5) + text("2b")), "another", oid="image")
    c("image_group_get", oid="image")
    c("op_features_get", oid="image")
    c("image_group_remove", env(1, 1, u64(5) + text("2b")), "another", oid="image")
    c("image_group_remove", spec, oid="image")
    c("op_features_get", oid="image")
    c("image_group_add", spec, "no image", oid="meta")

    def snap(name, i, state):
        return env(1, 1, text(i) + text(name) + u8(state) + items([env(1, 1, u64(2) + text("a") + u64(4))]))

    c("group_snap_set", snap("s", "11", 0))
    c("group_snap_set", snap("s", "11", 0), "again")
    c("group_snap_set", snap("s", "11", 1), "complete")
    c("group_snap_set", snap("s", "22", 0), "same name")
    c("group_snap_set", snap("", "22", 0), "no name")
    c("group_snap_set", snap("t", "", 0), "no id")
    c("group_snap_set", snap("t", "22", 0))
    c("group_snap_get_by_id", text("11"))
    c("group_snap_get_by_id", text("33"))
    c("group_snap_list", env(1, 1, text("") + text("") + u8(0) + u32(0)) + u64(10))
    c("group_snap_list", snap("s", "11", 0) + u64(10))
    c("group_snap_remove", text("11"))
    c("group_snap_remove", text("11"), "again")


def rbd_mirror(s):
    def c(method, payload=b"", note="", oid="mirror", **more):
        s.call(oid, "rbd", method, payload, note, **more)

    def peer(uuid, site, user, way=0, mirror=""):
        return env(2, 1, text(uuid) + text(site) + text(user) + u64(-1) + u8(way) + text(mirror) + utime(0))

    c("mirror_mode_set", u32(1), "no id")
    c("mirror_uuid_set", text(""))
    c("mirror_uuid_set", text("here"))
    c("mirror_uuid_get")
    c("mirror_peer_add", peer("p1", "site1", "user"), "off")
    c("mirror_mode_set", u32(9))
    c("mirror_mode_set", u32(2))
    c("mirror_mode_get")
    c("mirror_uuid_set", text("there"), "on")
    c("mirror_peer_add", peer("p1", "site1", "user"))
    c("mirror_peer_add", peer("p1", "site2", "user"), "same id")
    c("mirror_peer_add", peer("p2", "site1", "user"), "same site")
    c("mirror_peer_add", peer("here", "site2", "user"), "own id")
    c("mirror_peer_add", peer("p2", "site2", ""), "no user")
    c("mirror_peer_add", peer("p2", "site2", "u", 1), "only out")
    c("mirror_peer_add", peer("p2", "site2", "u", 7), "no way")
    c("mirror_peer_add", env(1, 1, text("p2") + text("site2") + text("user") + u64(3)), "version 1")
    c("mirror_peer_list")
    c("mirror_peer_ping", text("site1") + text("m1") + u8(1))
    c("mirror_peer_ping", text("site1") + text("m1") + u8(0))
    c("mirror_peer_ping", text("") + text("m1") + u8(1))
    c("mirror_peer_list")
    c("mirror_peer_ping", text("renamed") + text("m1") + u8(1))
    c("mirror_peer_set_client", text("p1") + text("other"))
    c("mirror_peer_set_client", text("p9") + text("other"))
    c("mirror_peer_set_cluster", text("p1") + text("site2"))
    c("mirror_peer_set_cluster", text("p1") + text("site3"))
    c("mirror_peer_set_cluster", text("p9") + text("site9"))
    c("mirror_peer_set_direction", text("p1") + u8(2))
    c("mirror_peer_list")
    c("mirror_mode_set", u32(0), "peers")
    c("mirror_peer_remove", text("p2"))
    c("mirror_peer_remove", text("p2"), "again")
    c("mirror_peer_remove", text("p2"), "missing", oid="nothing")

    def image(gid, state, mode=1):
        return env(2, 1, text(gid) + u8(state) + u8(mode))

    c("mirror_image_set", text("1a") + image("g1", 0), "going")
    c("mirror_image_set", text("1a") + image("g1", 1))
    c("mirror_image_set", text("2b") + image("g1", 1), "same global id")
    c("mirror_image_set", text("1a") + image("g2", 1), "another global id")
    c("mirror_image_set", text("2b") + env(1, 1, text("g2") + u8(1)), "version 1")
    c("mirror_image_get", text("1a"))
    c("mirror_image_get", text("9z"))
    c("mirror_image_get_image_id", text("g2"))
    c("mirror_image_get_image_id", text("g9"))
    c("mirror_image_list", text("") + u64(10))
    c("mirror_image_list", text("1a") + u64(10))
    local = env(1, 1, u8(4) + text("replaying") + utime(1) + u8(1))
    remote = env(2, 2, text("m1") + u8(1) + text("error") + utime(1) + u8(1))
    c("mirror_image_status_get", text("g1"), "none")
    c("mirror_image_status_set", text("g1") + local)
    c("mirror_image_status_set", text("g1") + remote)
    c("mirror_image_status_set", text("g2") + remote)
    c("mirror_image_status_set", text("g9") + local, "unknown")
    for gid in ("g1", "g2", "g9"):
        c("mirror_image_status_get", text(gid))
        c("mirror_image_instance_get", text(gid))
    c("mirror_image_status_list", text("") + u64(10))
    c("mirror_image_status_get_summary")
    c("mirror_image_status_get_summary", items([peer("p1", "site1", "u", 2, "m1")]))
    c("mirror_image_status_get_summary", items([peer("p1", "site1", "u", 1, "m1"), peer("p2", "s", "u", 1, "m2")]))
    c("mirror_image_instance_list", text("") + u64(10))
    s.keys("mirror")
    c("mirror_image_status_remove_down")
    c("mirror_image_status_set", text("g1") + local)
    c("mirror_image_status_remove", text("g1"))
    s.keys("mirror")
    c("mirror_image_remove", text("1a"), "enabled")
    c("mirror_image_set", text("1a") + image("g1", 0))
    c("mirror_image_remove", text("1a"))
    c("mirror_image_remove", text("1a"), "again")
    c("mirror_instances_add", text("77"))
    c("mirror_instances_list")
    c("mirror_instances_remove", text("77"))
    c("mirror_instances_remove", text("77"), "missing", oid="nothing")
    entry = env(1, 1, text("77") + utime(5) + text("data"))
    c("mirror_image_map_update", text("g1") + entry)
    c("mirror_image_map_list", text("") + u64(10))
    c("mirror_image_map_remove", text("g1"))
    c("mirror_image_map_list", text("") + u64(10))
    c("mirror_peer_remove", text("p1"))


def rbd_old(s):
    def c(method, payload=b"", note="", oid="old", **more):
        s.call(oid, "rbd", method, payload, note, **more)

    c("snap_list", note="missing")
    head = b"<<< Rados Block Device Image >>>\n".ljust(40, b"\0") + b"rb.0.1".ljust(24, b"\0") + b"RBD\0" + b"001.005\0"
    s.full("old", head + bytes([22, 0, 0, 0]) + u64(1 << 30) + u64(0) + u32(0) + u32(0) + u64(0))
    c("snap_list")
    c("snap_add", text("a") + u64(4))
    c("snap_add", text("a") + u64(5), "same name")
    c("snap_add", text("bb") + u64(3), "older")
    c("snap_add", text("bb") + u64(5))
    c("snap_add", text("ccc") + u64(6))
    c("snap_list")
    c("snap_rename", u64(5) + text("a"))
    c("snap_rename", u64(5) + text("dddd"))
    c("snap_rename", u64(50) + text("e"))
    c("snapshot_set_limit", u64(2))
    c("snapshot_set_limit", u64(3))
    c("snap_add", text("over") + u64(8))
    c("snap_remove", text("nothing"))
    c("snap_remove", text("dddd"))
    c("snap_list")
    migration = env(3, 1, u8(1) + u64(2) + text("") + text("n") + text("i") + u32(0) + u64(5) + u8(0) + u8(1) + u8(2) + text("") +
                    u8(0) + text(""))
    c("migration_get")
    c("migration_set", migration)
    c("migration_set", migration, "again")
    c("migration_get")
    s.read("old")
    c("migration_remove")
    c("migration_remove", note="again")
    s.read("old")


def journal(s):
    def c(method, payload=b"", note="", oid="journal", **more):
        s.call(oid, "journal", method, payload, note, **more)

    def position(*objects):
        return env(1, 1, items([env(1, 1, u64(o) + u64(t) + u64(e)) for o, t, e in objects]))

    c("client_register", text("x") + text("d"), "no journal")
    c("create", u8(24) + u8(2) + u64(-1))
    c("create", u8(24) + u8(2) + u64(-1), "again")
    for method in ("get_order", "get_splay_width", "get_pool_id", "get_minimum_set", "get_active_set", "get_next_tag_tid"):
        c(method)
        c(method, oid="nothing")
    c("set_minimum_set", u64(1), "beyond")
    c("set_active_set", u64(5))
    c("set_active_set", u64(4), "back")
    c("set_minimum_set", u64(3))
    c("set_minimum_set", u64(2), "back")
    c("set_active_set", u64(2), "before the first")
    c("client_register", text("a") + text("data"))
    c("client_register", text("a") + text("data"), "again")
    c("get_client", text("a"))
    c("get_client", text("z"))
    for tid in (0, 1, 2):
        c("tag_create", u64(tid) + u64(2**64 - 1) + text(f"tag{tid}"))
    c("tag_create", u64(2) + u64(0) + text(""), "taken")
    c("tag_create", u64(9) + u64(0) + text(""), "not next")
    c("tag_create", u64(3) + u64(9) + text(""), "no class")
    c("tag_create", u64(3) + u64(0) + text("more"))
    c("get_tag", u64(1))
    c("get_tag", u64(9))
    everything = u64(0) + u64(10) + text("a")
    c("tag_list", everything + u8(0))
    c("tag_list", everything + u8(1) + u64(0))
    c("tag_list", u64(1) + u64(1) + text("a") + u8(0))
    c("tag_list", u64(0) + u64(10) + text("z") + u8(0))
    c("client_commit", text("a") + position((1, 3, 7), (0, 3, 6), (2, 1, 1)), "too many")
    c("client_commit", text("a") + position((1, 3, 7), (0, 3, 6)))
    c("client_commit", text("z") + position((1, 3, 7)), "unknown")
    c("client_register", text("b") + text(""))
    c("get_client", text("b"))
    c("client_update_data", text("b") + text("new"))
    c("client_update_state", text("b") + u8(1))
    c("client_list", text("") + u64(10))
    c("client_list", text("a") + u64(10))
    c("tag_list", everything + u8(0))
    c("tag_create", u64(4) + u64(0) + text("expires"))
    s.keys("journal")
    c("client_commit", text("a") + position((1, 4, 7), (0, 4, 6)))
    c("client_unregister", text("b"))
    c("client_unregister", text("b"), "again")
    s.keys("journal")
    c("guard_append", u64(5), "missing", oid="entries")
    c("append", u64(8) + text("12345"), oid="entries")
    c("guard_append", u64(5), oid="entries")
    c("guard_append", u64(6), oid="entries")
    c("append", u64(8) + text("67890"), oid="entries")
    c("append", u64(8) + text("too much"), oid="entries")
    c("append", u64(0) + text("x"), "no room", oid="entries2")
    s.read("entries")


def small_classes(s):
    def entry(sec, data, i="", section="s", name="n"):
        return env(2, 1, text(section) + text(name) + utime(sec, 5000) + text(data) + text(i))

    def c(method, payload=b"", note="", oid="log", **more):
        s.call(oid, "log", method, payload, note, **more)

    def ask(start, end, marker="", most=0):
        return env(1, 1, utime(start) + text(marker) + utime(end) + u32(most))

    nothing = env(1, 1, b"")
    c("info", nothing)
    c("add", env(2, 1, items([entry(10, "a", "1_0000000010.000005_x"), entry(20, "b", "1_0000000020.000005_x")]) + u8(1)))
    c("add", env(1, 1, items([env(1, 1, text("s") + text("n") + utime(5) + text("old"))])), "version 1", hide=True)
    c("info", nothing, hide=True)
    c("add", env(2, 1, items([entry(15, "c", "1_0000000015.000005_x")]) + u8(0)), "earlier")
    c("list", ask(0, 18), hide=True)
    c("list", ask(1, 18), hide=True)
    c("list", ask(12, 18), hide=True)
    c("list", ask(1, 18, "", 1))
    c("list", ask(0, 0, "1_0000000010.000005_x", 1))
    c("trim", env(2, 1, utime(0) + utime(15, 5000) + text("") + text("")))
    c("trim", env(2, 1, utime(0) + utime(15, 5000) + text("") + text("")), "again")
    c("trim", env(2, 1, utime(0) + utime(0) + text("1_0000000010.000005_x") + text("1_0000000020.000005_x")))
    c("trim", env(2, 1, utime(0) + utime(0) + text("") + text("")), "missing", oid="nothing")

    def t(method, payload=b"", note="", oid="index", **more):
        s.call(oid, "timeindex", method, payload, note, **more)

    entries = [env(1, 1, utime(n, 7000 * n) + text(f"e{n}") + text(f"v{n}")) for n in (1, 2, 3, 4)]
    t("add", env(1, 1, items(entries)))
    t("list", ask(0, 100, "", 10))
    t("list", ask(0, 3, "", 10))
    t("list", ask(0, 100, "", 2))
    t("list", ask(0, 100, "", 0))
    t("list", ask(5, 1, "", 10))
    t("list", ask(0, 100, "1_0000000002.000014_e2", -1))
    t("trim", env(1, 1, utime(0) + utime(2, 14000) + text("") + text("")))
    t("trim", env(1, 1, utime(0) + utime(2, 14000) + text("") + text("")), "again")
    t("trim", env(1, 1, utime(0) + utime(0) + text("") + text("1_0000000003.000021_e3")))
    t("list", ask(0, 100, "", 10))

    def u(method, payload=b"", note="", oid="user", **more):
        s.call(oid, "user", method, payload, note, **more)

    def bucket(name, placement=""):
        if placement:
            return env(9, 8, text(name) + text("marker") + text("id") + text(placement))
        return env(7, 3, text(name) + text("data") + text("marker") + text("id") + text("index") + text("extra"))

    def info(name, size, count, synced=0, placement=""):
        return env(9, 5, text("") + u64(size) + u32(50) + u64(count) + bucket(name, placement) + u64(size + 1) + u8(synced) + utime(50, 1))

    u("get_header", nothing)
    u("set_buckets_info", env(1, 1, items([info("b1", 10, 1), info("b2", 20, 2, 0, "rule")]) + u8(1) + utime(60)))
    u("get_header", nothing)
    u("set_buckets_info", env(1, 1, items([info("b1", 15, 3), info("b9", 1, 1)]) + u8(0) + utime(55)))
    u("set_buckets_info", env(1, 1, items([info("", 15, 3)]) + u8(1) + utime(55)), "no name")
    u("get_header", nothing)
    u("list_buckets", env(2, 1, text("") + u32(10) + text("")))
    u("list_buckets", env(2, 1, text("") + u32(1) + text("")))
    u("list_buckets", env(2, 1, text("") + u32(10) + text("b2")))
    u("list_buckets", env(1, 1, text("b1") + u32(10)))
    u("complete_stats_sync", env(1, 1, utime(70)))
    u("remove_bucket", env(1, 1, bucket("b1")))
    u("remove_bucket", env(1, 1, bucket("b1")), "again")
    u("get_header", nothing)
    u("reset_user_stats", env(1, 1, utime(80)))
    u("get_header", nothing)
    u("reset_user_stats2", env(1, 1, utime(90) + text("") + env(1, 1, u64(1) + u64(2) + u64(3))))
    u("get_header", nothing)
    u("reset_user_stats2", env(1, 1, utime(95) + text("b1") + env(1, 1, u64(1) + u64(2) + u64(3))))
    u("get_header", nothing)

    def n(method, key, number):
        s.call("numbers", "numops", method, text(key) + text(number), f"{key} {number!r}")
        try:
            with rados.ReadOpCtx() as op:
                found, _ = s.io.get_omap_vals_by_keys(op, (key,))
                s.io.operate_read_op(op, "numbers")
                kept = b",".join(value for _, value in found).decode()
                print("numbers", kept)
                s.note("value", "numbers", key, kept)
        except rados.Error as e:
            print("numbers", type(e).__name__)

    for step in (("add", "k", "10"), ("add", "k", "-2.5"), ("mul", "k", "4"), ("mul", "k", "1e20"), ("mul", "z", "5"), ("add", "k", "x"),
                 ("add", "k", "1 "), ("add", "k", " 1"), ("add", "k", ""), ("add", "t", "0.333333333333333"), ("mul", "t", "1e-8"),
                 ("add", "q", "1234567890"), ("add", "q", "0.12"), ("add", "m", "0.0001"), ("mul", "m", "0.1")):
        n(*step)

    def h(method, payload=b"", note="", oid="hello", **more):
        s.call(oid, "hello", method, payload, note, **more)

    h("say_hello")
    h("record_hello", b"x" * 101)
    h("record_hello", b"me")
    h("record_hello", b"me")
    h("say_hello")
    h("say_hello", b"you")
    h("say_hello", b"x" * 101)
    h("replay")
    h("turn_it_to_11")
    h("replay")
    h("write_return_data")
    h("write_return_data", b"much")
    h("writes_dont_return_data")
    h("write_too_much_return_data")
    h("bad_reader")
    h("bad_writer", b"x")
    h("no_such_method")
    s.call("hello", "no_such_class", "x")


def lock_and_counts(s):
    def c(cls, method, payload=b"", note="", oid="locked", **more):
        s.call(oid, cls, method, payload, note, **more)

    def take(kind, cookie="c", tag="t", flags=0, name="l", duration=0):
        return env(1, 1, text(name) + u8(kind) + text(cookie) + text(tag) + text("d") + utime(duration) + u8(flags))

    c("lock", "get_info", env(1, 1, text("l")))
    c("lock", "unlock", env(1, 1, text("l") + text("c")), "missing")
    for kind in (0, 1, 1, 2, 4):
        c("lock", "lock", take(kind), f"kind {kind}")
    c("lock", "lock", take(1, flags=1), "renew")
    c("lock", "lock", take(1, flags=3), "both")
    c("lock", "lock", take(1, cookie="other"), "another cookie")
    c("lock", "lock", take(1, name=""), "no name")
    c("lock", "list_locks")
    c("lock", "assert_locked", env(1, 1, text("l") + u8(1) + text("c") + text("t")))
    c("lock", "assert_locked", env(1, 1, text("l") + u8(2) + text("c") + text("t")))
    c("lock", "set_cookie", env(1, 1, text("l") + u8(1) + text("c") + text("t") + text("new")))
    c("lock", "set_cookie", env(1, 1, text("l") + u8(1) + text("new") + text("t") + text("new")))
    c("lock", "unlock", env(1, 1, text("l") + text("c")))
    c("lock", "unlock", env(1, 1, text("l") + text("new")))
    c("lock", "lock", take(2, "a"), "shared")
    c("lock", "lock", take(2, "b"), "shared")
    c("lock", "lock", take(2, "c", "other"), "another tag")
    c("lock", "break_lock", env(1, 1, text("l") + u8(8) + u64(1) + text("a")), "nobody's")
    c("lock", "list_locks", oid="nothing")
    tag = env(1, 1, text("t1") + u8(1))
    c("refcount", "get", tag, "missing", oid="counted")
    s.full("counted", b"x")
    c("refcount", "read", env(1, 1, u8(1)), oid="counted")
    c("refcount", "read", env(1, 1, u8(0)), oid="counted")
    c("refcount", "put", env(1, 1, text("t1") + u8(0)), "none", oid="counted")
    c("refcount", "get", tag, oid="counted")
    c("refcount", "get", env(1, 1, text("t2") + u8(0)), oid="counted")
    c("refcount", "read", env(1, 1, u8(1)), oid="counted")
    c("refcount", "put", env(1, 1, text("t1") + u8(1)), oid="counted")
    c("refcount", "put", env(1, 1, text("t1") + u8(1)), "again", oid="counted")
    c("refcount", "set", env(1, 1, items([text("a"), text("b")])), oid="counted")
    c("refcount", "read", env(1, 1, u8(0)), oid="counted")
    c("refcount", "set", env(1, 1, u32(0)), oid="counted")
    c("refcount", "read", env(1, 1, u8(0)), oid="counted")
    version = env(1, 1, u64(5) + text("tag"))
    c("version", "read", oid="versioned")
    c("version", "set", env(1, 1, version), oid="versioned")
    c("version", "inc", env(1, 1, version + u32(0)), oid="versioned")
    for cond in range(0, 9):
        conds = items([env(1, 1, env(1, 1, u64(6) + text("tag")) + u32(cond))])
        c("version", "check_conds", env(1, 1, version + conds), f"condition {cond}", oid="versioned")
    c("version", "inc_conds", env(1, 1, version + items([env(1, 1, env(1, 1, u64(6) + text("tag")) + u32(1))])), oid="versioned")
    c("version", "read", oid="versioned")


# Methods that answer with chance, or that Ceph does not survive.
LEFT_OUT = {("rbd", "sparsify"), ("rbd", "snapshot_trash_add")}


# The object gateway's classes have stories of their own: `gateway_story.py` and `rgw_index.py`.
TOLD_ELSEWHERE = ("2pc_queue", "cmpomap", "fifo", "otp", "queue", "rgw", "rgw_gc")


def garbage(s):
    """All methods with payloads that are none."""
    table = pathlib.Path(__file__).resolve().parents[3] / "cores/classes/src/methods.txt"
    # Counts of billions are left out: a real OSD takes the memory for them, and dies of it.
    payloads = [b"", b"\x01", env(1, 1, b"\xff\xff"), env(9, 9, b"")]
    for line in table.read_text().split("\n"):
        if not line:
            continue
        cls, method, _ = line.split()
        if (cls, method) in LEFT_OUT or cls == "hello" or cls in TOLD_ELSEWHERE:
            continue
        for i, payload in enumerate(payloads):
            s.call("never", cls, method, payload, f"garbage {i}", hide=(cls, method) == ("version", "read"))
            s.remove("never")
            if method not in ("copyup", "append"):
                s.call("flat", cls, method, payload, f"garbage {i}", hide=cls == "version")


Story("classes").tell(rbd_image, rbd_snapshots, rbd_parents, rbd_directory, rbd_object_map, rbd_data, rbd_metadata, rbd_groups, rbd_mirror,
                      rbd_old, journal, small_classes, lock_and_counts, garbage)
