#!/usr/bin/python3
"""Flips bits in the files of a stopped cluster and shows what comes of it: never wrong data, an error that names what and where, and
everything that is whole goes on.

usage: bit_rot.py --nacre PATH [--dir DIR] [--only NAME] [-- MORE ARGUMENTS OF nacre up]
"""
import argparse
import json
import os
import random
import re
import shutil
import struct
import sys
import tempfile
import time

import rados  # noqa: E402
sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from live import Cluster, until  # noqa: E402

BLOCK, EIO = 4096, 5
PAGE_MAGIC = b"NPg1"
OBJECTS = 1500
CLEAN, MINOR, DATA, FATAL = 0, 2, 3, 4


def content(name, size):
    return random.Random(name).randbytes(size)


class Disk:
    """The file of an OSD."""

    def __init__(self, directory, osd=0):
        self.path = os.path.join(directory, f"osd.{osd}", "block")

    def flip(self, offset):
        with open(self.path, "r+b") as f:
            f.seek(offset)
            byte = f.read(1)[0]
            f.seek(offset)
            f.write(bytes([byte ^ 0x10]))

    def places(self, block):
        """Byte offsets of blocks with this content; those of earlier copies that were given free are among them."""
        found = []
        with open(self.path, "rb") as f:
            at = 0
            while piece := f.read(1 << 20):
                found += [at + i for i in range(0, len(piece), BLOCK) if piece[i : i + BLOCK] == block]
                at += len(piece)
        assert found, "the block is not on the disk"
        return found

    def find(self, block):
        """Byte offset of the first block with this content."""
        return self.places(block)[0]

    def leaves(self):
        """Leaf pages, those of former trees included: byte offset, and the sections of the index that their keys lie in."""
        out = []
        with open(self.path, "rb") as f:
            at = 0
            while piece := f.read(BLOCK):
                if piece[:4] == PAGE_MAGIC and piece[4] == 0 and struct.unpack_from("<Q", piece, 8)[0] * BLOCK == at:
                    out.append((at, self.sections(piece + f.read(BLOCK))))
                    f.seek(at + BLOCK)
                at += BLOCK
        return out

    @staticmethod
    def sections(page):
        """First bytes of the keys in a page: its number of keys, the length of their common beginning and that, where each entry is; an
        entry begins with the lengths of its key and of its value."""
        count, prefix = struct.unpack_from("<II", page, 24)
        if prefix:
            return page[32:33]
        places = (at for at in struct.unpack_from(f"<{count}I", page, 32) if at + 9 <= len(page))
        return bytes(sorted({page[at + 8] for at in places}))

    def groups(self):
        """Journal groups in the ring: (lsn, incarnation, byte offset), in order. docs/format/store.md says where these stand."""
        found = []
        with open(self.path, "rb") as f:
            f.seek(16 * BLOCK)
            magic = f.read(8)
            for at in range(16 * BLOCK, 200 << 20, BLOCK):
                f.seek(at)
                head = f.read(64)
                if len(head) == 64 and head[:8] == magic:
                    incarnation, lsn = struct.unpack_from("<QQ", head, 32)
                    found.append((lsn, incarnation, at))
        return sorted(found)


def connect(cluster):
    client = rados.Rados(conffile=cluster.conf, rados_id="admin")
    client.connect()
    return client, client.open_ioctx("p")


def write(ioctx, name):
    """Writes a small object; gives the completion."""
    with rados.WriteOpCtx() as op:
        op.write_full(content(name, 4096))
        op.set_xattr("x", name.encode() * 20)
        ioctx.set_omap(op, (name, "k"), (name.encode(), b"v" * 100))
        return ioctx.operate_aio_write_op(op, name)


def fill(cluster):
    cluster.ceph("osd", "pool", "create", "p", 8)
    client, ioctx = connect(cluster)
    waiting = []
    ioctx.write_full("big", content("big", 4 << 20))
    for i in range(OBJECTS):
        waiting.append(write(ioctx, f"small-{i}"))
    for completion in waiting:
        completion.wait_for_complete()
        assert completion.get_return_value() == 0
    ioctx.close()
    client.shutdown()


def look(cluster, but=None):
    """Reads everything but one: the names whose data, attribute or omap cannot be read. Fails on anything wrong."""
    client, ioctx = connect(cluster)
    hurt = set()
    for name in ["big"] + [f"small-{i}" for i in range(OBJECTS)]:
        if name == but:
            continue
        want = content(name, 4 << 20 if name == "big" else 4096)
        try:
            assert ioctx.read(name, len(want) + 1) == want, f"{name}: wrong data"
            if name != "big":
                assert ioctx.get_xattr(name, "x") == name.encode() * 20, f"{name}: wrong attribute"
                with rados.ReadOpCtx() as op:
                    entries, _ = ioctx.get_omap_vals_by_keys(op, (name,))
                    ioctx.operate_read_op(op, name)
                    assert dict(entries) == {name: name.encode()}, f"{name}: wrong omap"
        except rados.Error as e:
            assert abs(e.errno) == EIO, f"{name}: {e}"
            hurt.add(name)
    ioctx.close()
    client.shutdown()
    return hurt


def fsck(cluster, *more):
    done = cluster.run(cluster.nacre, "fsck", cluster.dir, *more, check=False, timeout=300)
    return done.returncode, done.stdout + done.stderr


def expect_fsck(cluster, code, *patterns, more=()):
    found, text = fsck(cluster, *more)
    assert found == code, f"fsck ended with {found}, not {code}: {text}"
    for pattern in patterns:
        assert re.search(pattern, text), f"fsck does not say '{pattern}': {text}"
    return text


def data(cluster):
    """A bit of an object's data."""
    disk = Disk(cluster.dir)
    block = 17
    at = disk.find(content("big", 4 << 20)[block * BLOCK : (block + 1) * BLOCK])
    disk.flip(at + 1000)
    expect_fsck(cluster, CLEAN)
    expect_fsck(cluster, DATA, rf"big.*byte {block * BLOCK}.*checksum [0-9a-f]{{8}} expected, [0-9a-f]{{8}} found at byte {at}", more=["--deep"])
    cluster.start()
    assert look(cluster) == {"big"}
    log = cluster.log("osd.0")
    assert re.search(rf"big.*byte {at} of the data disk.*offset {block * BLOCK}.*checksum [0-9a-f]{{8}} expected, [0-9a-f]{{8}} found", log), log[-2000:]
    done = cluster.run("rados", "-p", "p", "get", "big", "/dev/null", check=False)
    assert done.returncode != 0 and "Input/output error" in done.stderr, done
    cluster.run("rados", "-p", "p", "stat", "big")
    assert "big" in cluster.run("rados", "-p", "p", "ls").stdout.split()
    # Parts beside it are read, and writing the object anew mends it.
    client, ioctx = connect(cluster)
    assert ioctx.read("big", BLOCK, 0) == content("big", 4 << 20)[:BLOCK]
    ioctx.write_full("big", content("big", 4 << 20))
    ioctx.close()
    client.shutdown()
    assert not look(cluster)
    cluster.stop()
    expect_fsck(cluster, CLEAN, more=["--deep"])


def flip_big(cluster, block, osd=0):
    """Flips a bit of one block of the large object on an OSD, wherever it is or was."""
    disk = Disk(cluster.dir, osd)
    for at in disk.places(content("big", 4 << 20)[block * BLOCK : (block + 1) * BLOCK]):
        disk.flip(at + 1000)


def all_clean(cluster):
    stat = cluster.ceph("pg", "stat")
    states = stat.get("pg_summary", stat)["num_pg_by_state"]
    return [s["name"] for s in states] == ["active+clean"]


def two_copies(cluster):
    """Gives the pool two copies, of which osd.0 leads all, and stops."""
    cluster.more = ["--osds", "2", "--osd-size", "512M", *cluster.more]
    cluster.start()
    cluster.run("ceph", "osd", "pool", "set", "p", "size", 2)
    # All is read from osd.0.
    cluster.run("ceph", "osd", "primary-affinity", 1, 0)
    until("two copies", lambda: cluster.ceph("osd", "dump")["pools"][0]["size"] == 2 and all_clean(cluster), 60)
    cluster.stop()


def scrub(cluster, what, group):
    """Gives the order and waits until a deep scrub of the group has ended."""
    stamp = lambda: cluster.ceph("pg", group, "query")["info"]["stats"]["last_deep_scrub_stamp"]  # noqa: E731
    before = stamp()
    cluster.run("ceph", "pg", what, group)
    until(f"the {what} ends", lambda: stamp() != before, 60)


def listed(cluster, what, of):
    """What `rados list-inconsistent-...` says."""
    return json.loads(cluster.run("rados", f"list-inconsistent-{what}", of, "--format=json-pretty").stdout)


def expect_found(cluster, group, wrong):
    """The large object's copy on this OSD is listed as one that cannot be read, the other one as right."""
    until("health tells", lambda: {"OSD_SCRUB_ERRORS", "PG_DAMAGED"} <= cluster.health(), 15)
    assert "inconsistent" in cluster.ceph("pg", group, "query")["state"]
    assert listed(cluster, "pg", "p") == [group]
    found = listed(cluster, "obj", group)["inconsistents"]
    assert [f["object"]["name"] for f in found] == ["big"] and found[0]["object"]["snap"] == "head", found
    assert found[0]["errors"] == [] and found[0]["union_shard_errors"] == ["read_error"], found
    shards = {s["osd"]: s for s in found[0]["shards"]}
    assert {osd: s["errors"] for osd, s in shards.items()} == {wrong: ["read_error"], 1 - wrong: []}, shards
    assert {osd: s["primary"] for osd, s in shards.items()} == {0: True, 1: False}, shards
    assert shards[1 - wrong]["size"] == 4 << 20 and "data_digest" in shards[1 - wrong], shards
    assert found[0]["selected_object_info"]["size"] == 4 << 20, found
    assert listed(cluster, "snapset", group)["inconsistents"] == []


def expect_mended(cluster, group):
    """Nothing is wrong any more, as the group, the lists and health say."""
    until("it is mended", lambda: all_clean(cluster) and not cluster.health() & {"OSD_SCRUB_ERRORS", "PG_DAMAGED"}, 60)
    assert listed(cluster, "pg", "p") == [] and listed(cluster, "obj", group)["inconsistents"] == []


def replica(cluster):
    """Rot on the copy that nobody reads: a light scrub does not see it, a deep one does, stock clients list it, 'pg repair' mends it; with
    osd_scrub_auto_repair nobody has to say so."""
    two_copies(cluster)
    for block, how in ((17, "pg repair"), (30, "osd_scrub_auto_repair")):
        flip_big(cluster, block, osd=1)
        expect_fsck(cluster, DATA, r"big", more=["--deep"])
        cluster.start()
        group = cluster.ceph("osd", "map", "p", "big")["pgid"]
        if how == "pg repair":
            cluster.run("ceph", "pg", "scrub", group)
            assert not look(cluster)
            scrub(cluster, "deep-scrub", group)
            expect_found(cluster, group, wrong=1)
            assert not look(cluster), "the primary's copy is whole"
            scrub(cluster, "repair", group)
        else:
            cluster.run("ceph", "config", "set", "osd", "osd_scrub_auto_repair", "true")
            until("the option is there", lambda: cluster.admin("osd.0", "config", "get", "osd_scrub_auto_repair") == {"osd_scrub_auto_repair": "true"})
            scrub(cluster, "deep-scrub", group)
            until("it is repaired", lambda: f"{group} repair 1 errors, 1 fixed" in cluster.log("osd.0") + str(cluster.ceph("log", "last", 100)), 30)
        expect_mended(cluster, group)
        cluster.stop()
        expect_fsck(cluster, CLEAN, more=["--deep"])


def copies(cluster):
    """Rot on one of two copies: a read takes the other one, 'pg repair' finds what nobody reads, and both mend it."""
    two_copies(cluster)
    flip_big(cluster, 17)
    expect_fsck(cluster, DATA, r"big", more=["--deep"])
    cluster.start()
    assert not look(cluster), "a whole copy is there"
    assert re.search(r"big.*checksum [0-9a-f]{8} expected", cluster.log("osd.0")), "osd.0 read its own copy"
    until("it is mended", lambda: all_clean(cluster), 30)
    cluster.stop()
    expect_fsck(cluster, CLEAN, more=["--deep"])
    flip_big(cluster, 30)
    cluster.start()
    group = cluster.ceph("osd", "map", "p", "big")["pgid"]
    scrub(cluster, "deep-scrub", group)
    expect_found(cluster, group, wrong=0)
    scrub(cluster, "repair", group)
    expect_mended(cluster, group)
    cluster.stop()
    expect_fsck(cluster, CLEAN, more=["--deep"])


def rotten_leaf(cluster, section):
    """Flips a bit in a leaf of the present tree whose keys all lie in this section. Gives the byte where it begins."""
    disk = Disk(cluster.dir)
    for at, sections in disk.leaves():
        if sections == section:
            disk.flip(at + 3000)
            code, text = fsck(cluster)
            if code == FATAL:
                assert f"byte {at}: index page: is not the page that was written" in text, text
                return at
            disk.flip(at + 3000)
    raise AssertionError(f"no leaf of the tree holds only keys of section {section}")


def overwrite(ioctx, names, times):
    """Overwrites objects with what the journal takes until that is refused; gives the error, None if it never is."""
    for n in range(times):
        try:
            ioctx.write_full(names[n % len(names)], bytes([n % 251]) * (60 << 10))
        except rados.Error as e:
            return abs(e.errno)
    return None


def expect_acknowledged(cluster, ioctx, hurt, gone):
    """What could be read can be read, what was written is there, and what was removed is gone."""
    assert ioctx.read("kept", 70000) == b"k" * 60000
    try:
        ioctx.stat(gone)
        raise AssertionError(f"{gone} was removed and is there")
    except rados.ObjectNotFound:
        pass
    found = look(cluster, but=gone)
    assert found == hurt - {gone}, f"lost meanwhile: {sorted(found - hurt)}; can be read now: {sorted(hurt - found)}"


def leaf(cluster):
    """A bit of a leaf of the index: what is in that page is lost, the rest can be read, nothing can be written."""
    hit = rotten_leaf(cluster, b"X")
    cluster.start()
    hurt = look(cluster)
    assert 0 < len(hurt) < OBJECTS, f"{len(hurt)} objects lost a part"
    # Where their data is was lost, but not their names.
    gone = sorted(hurt - {"big"})[0]
    cluster.run("rados", "-p", "p", "stat", gone)
    client, ioctx = connect(cluster)
    # Writes go into the journal until a checkpoint comes upon the page, as something in it was removed; from then on they are refused,
    # and health says why.
    assert "OSD_INDEX_DAMAGED" not in cluster.health()
    ioctx.write_full("kept", b"k" * 60000)
    # What is written anew is not lost with what was there.
    mended = sorted(hurt - {"big", gone})[0]
    ioctx.write_full(mended, content(mended, 4096))
    assert ioctx.read(mended, 4097) == content(mended, 4096)
    hurt.remove(mended)
    ioctx.remove_object(gone)
    refused = overwrite(ioctx, ["new"], 3000)
    assert refused == EIO, f"writes end with {refused}"
    until("health tells", lambda: "OSD_INDEX_DAMAGED" in cluster.health(), 15)
    assert cluster.ceph("health")["status"] == "HEALTH_ERR"
    assert f"at byte {hit} of the data disk" in cluster.log("osd.0")
    expect_acknowledged(cluster, ioctx, hurt, gone)
    ioctx.close()
    client.shutdown()
    cluster.alive()
    cluster.kill()
    cluster.start()
    client, ioctx = connect(cluster)
    expect_acknowledged(cluster, ioctx, hurt, gone)
    ioctx.close()
    client.shutdown()
    cluster.stop()
    expect_fsck(cluster, FATAL, rf"byte {hit}: index page: is not the page that was written")
    print(f"  {len(hurt)} of {OBJECTS + 1} objects lost a part with the leaf at byte {hit}")


def names(cluster):
    """A bit of a leaf with names: those names, and new ones that belong there, get EIO; the others can be read, written and made."""
    hit = rotten_leaf(cluster, b"N")
    cluster.start()
    hurt = look(cluster)
    assert 0 < len(hurt) < OBJECTS, f"{len(hurt)} objects lost their name"
    done = cluster.run("rados", "-p", "p", "stat", sorted(hurt)[0], check=False)
    assert done.returncode != 0 and "Input/output error" in done.stderr, done
    client, ioctx = connect(cluster)
    taken, refused = [], 0
    for name in (f"new-{n}" for n in range(300)):
        try:
            ioctx.write_full(name, content(name, 300))
            taken.append(name)
        except rados.Error as e:
            assert abs(e.errno) == EIO, e
            refused += 1
    assert taken and refused, f"{len(taken)} of 300 new names were taken"
    assert all(ioctx.read(name, 1000) == content(name, 300) for name in taken)
    # A list that lacks names is not told as a whole one.
    done = cluster.run("rados", "-p", "p", "ls", check=False)
    assert done.returncode != 0, f"a list of {len(done.stdout.split())} names is told as if it were whole"
    # Checkpoints do not come upon that page.
    assert overwrite(ioctx, taken[:8], 1200) is None
    section = next(v for v in cluster.admin("osd.0", "perf", "dump").values() if "checkpoints" in v)
    assert section["checkpoints"] > 0, "no checkpoint came: this shows nothing"
    assert "OSD_INDEX_DAMAGED" not in cluster.health()
    assert look(cluster) == hurt
    ioctx.close()
    client.shutdown()
    cluster.stop()
    expect_fsck(cluster, FATAL, rf"byte {hit}: index page: is not the page that was written")
    print(f"  {len(hurt)} of {OBJECTS + 1} objects lost their name with the leaf at byte {hit}")


def superblock(cluster):
    """A bit of one superblock slot, then of both."""
    disk = Disk(cluster.dir)
    disk.flip(8 * BLOCK + 100)
    expect_fsck(cluster, MINOR, r"byte 32768: superblock slot is not readable", r"can be repaired")
    disk.flip(8 * BLOCK + 100)
    disk.flip(100)
    expect_fsck(cluster, CLEAN, more=["--repair"])
    expect_fsck(cluster, CLEAN)
    disk.flip(100)
    cluster.start()
    assert not look(cluster)
    cluster.stop()
    expect_fsck(cluster, CLEAN)
    with open(disk.path, "rb") as f:
        before = f.read(64 << 10)
    disk.flip(100)
    disk.flip(8 * BLOCK + 100)
    code, text = cluster.start(expect_ready=False)
    assert code == 1 and "superblock" in text, (code, text)
    disk.flip(100)
    disk.flip(8 * BLOCK + 100)
    with open(disk.path, "rb") as f:
        assert f.read(64 << 10) == before, "a refused start changed the disk"


def tail(cluster):
    """The end of the journal is torn: replay ends at the last whole group."""
    cluster.start()
    client, ioctx = connect(cluster)
    for n in range(20):
        ioctx.write_full("last", f"{n}".encode() * 100)
    cluster.kill()
    disk = Disk(cluster.dir)
    groups = disk.groups()
    newest = max(i for _, i, _ in groups)
    lsn, _, at = max(g for g in groups if g[1] == newest)
    disk.flip(at + 200)
    code, text = fsck(cluster)
    assert code == CLEAN, text
    cluster.start()
    assert not look(cluster)
    client, ioctx = connect(cluster)
    # The last group may be one of the OSD's own (a map): then nothing of the object is missing.
    assert ioctx.read("last", 1000) in (b"19" * 100, b"18" * 100)
    cluster.stop()


def hole(cluster):
    """A group that was durable is broken: the OSD says so and does not start, and fsck tells what is at stake."""
    cluster.start()
    client, ioctx = connect(cluster)
    for n in range(40):
        ioctx.write_full(f"late-{n}", content(f"late-{n}", 5000))
    cluster.kill()
    disk = Disk(cluster.dir)
    groups = disk.groups()
    newest = max(i for _, i, _ in groups)
    mine = sorted(g for g in groups if g[1] == newest)
    lsn, _, at = mine[len(mine) // 2]
    disk.flip(at + 150)
    code, text = cluster.start(expect_ready=False)
    assert code == 1 and "corrupt" in text and f"group {lsn} is missing or broken" in text, (code, text)
    text = expect_fsck(cluster, FATAL, rf"group {lsn} is missing or broken", r"would be lost", r"late-39")
    disk.flip(at + 150)
    cluster.start()
    client, ioctx = connect(cluster)
    for n in range(40):
        assert ioctx.read(f"late-{n}", 6000) == content(f"late-{n}", 5000)
    cluster.stop()


def monitor(cluster):
    """Bits of the monitor's store."""
    path = os.path.join(cluster.dir, "mon", "store")

    def flip(at):
        with open(path, "r+b") as f:
            f.seek(at)
            byte = f.read(1)[0]
            f.seek(at)
            f.write(bytes([byte ^ 1]))

    expect_fsck(cluster, CLEAN, r"mon.a: clean")
    flip(100)
    found, text = fsck(cluster)
    if found == CLEAN:
        flip(100)
        flip(8192 + 100)
        found, text = fsck(cluster)
        other = 8192 + 100
    else:
        other = 100
    assert found == MINOR and "copies is damaged" in text, text
    cluster.start()
    cluster.stop()
    flip(other)
    with open(path, "rb") as f:
        head = f.read(16384)
    slots = [struct.unpack_from("<Q", head, at + 28)[0] if head[at : at + 8] == b"nacremon" else -1 for at in (0, 8192)]
    area = struct.unpack_from("<Q", head, 36)[0] if slots[0] >= 0 else struct.unpack_from("<Q", head, 8192 + 36)[0]
    newest = max(slots)
    flip(16384 + (newest % 2) * area + 500)
    expect_fsck(cluster, FATAL, r"snapshot at byte \d+ is damaged: checksum")
    code, text = cluster.start(expect_ready=False)
    assert code == 1 and "snapshot" in text and "damaged" in text, (code, text)
    flip(16384 + (newest % 2) * area + 500)
    cluster.start()
    cluster.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--dir")
    parser.add_argument("--only", default="")
    parser.add_argument("more", nargs="*")
    args = parser.parse_args()
    args.nacre = os.path.abspath(args.nacre)
    top = tempfile.mkdtemp(prefix="nacre-rot-", dir=args.dir)
    try:
        origin = os.path.join(top, "origin")
        with Cluster(args.nacre, origin, "--osds", 1, "--osd-size", "512M", *args.more) as cluster:
            cluster.start()
            fill(cluster)
            cluster.stop()
        for story in (data, copies, replica, leaf, names, superblock, tail, hole, monitor):
            if args.only not in story.__name__:
                continue
            begun, directory = time.monotonic(), os.path.join(top, story.__name__)
            shutil.copytree(origin, directory)
            with Cluster(args.nacre, directory, *args.more) as cluster:
                story(cluster)
            shutil.rmtree(directory)
            print(f"{story.__name__} ({time.monotonic() - begun:.1f} s): {story.__doc__.strip().splitlines()[0]}", flush=True)
    finally:
        shutil.rmtree(top, ignore_errors=True)


if __name__ == "__main__":
    main()
