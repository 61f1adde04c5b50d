#!/usr/bin/python3
"""Clusters of every format version, as `nacre up` left them: made once by `make`, opened and compared by `check`.

Each archive in tests/data/formats holds the whole folder of a cluster that was killed: an OSD's store with everything that can be in one
(small and large data, holes, attributes, omaps, snapshots of both kinds; most of it below a checkpoint, the last part only in the
journal), a monitor's store with a snapshot and a log behind it, keys, `cluster.json`; and `manifest.json`, which says what a client must
read from it. docs/format/README.md says when a new archive must be made.

usage: formats.py make --nacre PATH NAME          writes tests/data/formats/NAME.tar.xz with the given program
       formats.py check --nacre PATH [ARCHIVE...] opens each, reads everything, writes, restarts, reads again; and shows that
                                                  a newer version is refused
"""
import argparse
import hashlib
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

import rados  # noqa: E402
sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from live import Cluster  # noqa: E402
from rawosd import crc32c  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ARCHIVES = os.path.join(HERE, "..", "..", "..", "tests", "data", "formats")
LARGEST = 1 << 20
BLOCK = 4096
#: Byte of the format version in each kind of superblock, and where the slots are.
OSD_SLOTS, MON_COPIES = (0, 8 * BLOCK), (0, BLOCK, 2 * BLOCK, 3 * BLOCK)


def some(name, size):
    """Bytes that differ from block to block and compress well."""
    piece = random.Random(name).randbytes(64)
    return b"".join(piece[i % 61 :] + struct.pack("<I", i) for i in range(size // 4 + 1))[:size]


def write_all(cluster):
    """Everything that a store can hold."""
    cluster.run("ceph", "osd", "pool", "create", "data", "4")
    cluster.run("ceph", "osd", "pool", "create", "snaps", "1")
    cluster.run("ceph", "osd", "pool", "application", "enable", "data", "test")
    cluster.run("ceph", "config", "set", "osd", "osd_max_object_size", "130000000")
    cluster.run("ceph", "auth", "get-or-create", "client.reader", "mon", "allow r", "osd", "allow r pool=data")
    client = rados.Rados(conffile=cluster.conf, name="client.admin")
    client.connect()
    ioctx = client.open_ioctx("data")
    for i in range(60):
        ioctx.write_full(f"small-{i}", some(f"small-{i}", [1, 100, 4096, 5000, 30000][i % 5]))
    ioctx.write_full("large", some("large", 300_000))
    ioctx.write_full("larger", some("larger", 1_500_000))
    ioctx.write("holes", some("holes", 5000), 1_000_000)
    ioctx.set_xattr("small-1", "user.name", b"value" * 10)
    ioctx.set_xattr("small-1", "long", b"x" * 20_000)
    ioctx.set_namespace("other")
    ioctx.write_full("small-1", some("other", 500))
    ioctx.set_namespace("")
    with rados.WriteOpCtx() as op:
        ioctx.set_omap(op, tuple(f"key-{i:04}" for i in range(500)), tuple(f"value-{i}".encode() * 5 for i in range(500)))
        ioctx.operate_write_op(op, "omap")
    with rados.WriteOpCtx() as op:
        ioctx.set_omap(op, ("k",), (b"long" * 5000,))
        op.write_full(b"data beside an omap")
        ioctx.operate_write_op(op, "omap-and-data")
    ioctx.set_locator_key("locator")
    ioctx.write_full("elsewhere", some("elsewhere", 700))
    ioctx.set_locator_key("")
    snaps = client.open_ioctx("snaps")
    snaps.write_full("kept", some("kept before", 200_000))
    snaps.write_full("gone", b"was here")
    snaps.create_snap("one")
    snaps.write("kept", some("kept after", 10_000), 50_000)
    snaps.remove_object("gone")
    snaps.create_snap("two")
    snaps.write_full("kept", some("kept last", 100))
    for i in range(0, 60, 7):
        ioctx.remove_object(f"small-{i}")
    return client, ioctx, snaps


def write_late(ioctx, snaps):
    """What stays in the journal."""
    ioctx.write("large", some("overwritten", 5000), 12_345)
    ioctx.append("small-2", b"appended")
    ioctx.write_full("late", some("late", 10_000))
    ioctx.write_full("late-large", some("late-large", 200_000))
    ioctx.trunc("larger", 700_001)
    ioctx.remove_object("small-3")
    ioctx.set_xattr("late", "a", b"late")
    with rados.WriteOpCtx() as op:
        ioctx.remove_omap_range2(op, "key-0100", "key-0200") if hasattr(ioctx, "remove_omap_range2") else ioctx.remove_omap_keys(
            op, tuple(f"key-{i:04}" for i in range(100, 200)))
        ioctx.set_omap(op, ("key-0300", "new"), (b"changed", b"late"))
        ioctx.operate_write_op(op, "omap")
    snaps.write_full("kept", some("kept very last", 300))


def seen(ioctx):
    """What a client reads from a pool, by namespace and name."""
    out = {}
    ioctx.set_namespace(rados.LIBRADOS_ALL_NSPACES)
    names = sorted((o.nspace or "", o.key, o.locator_key or "") for o in ioctx.list_objects())
    for nspace, name, locator in names:
        ioctx.set_namespace(nspace)
        ioctx.set_locator_key(locator)
        try:
            size, _ = ioctx.stat(name)
        except rados.ObjectNotFound:
            # A head that was removed and is kept for its clones is listed, as in Ceph.
            out[f"{nspace}/{name}@{locator}"] = None
            continue
        data = b"".join(ioctx.read(name, LARGEST, at) for at in range(0, max(size, 1), LARGEST))
        assert len(data) == size, name
        with rados.ReadOpCtx() as op:
            entries, _ = ioctx.get_omap_vals(op, "", "", 10_000)
            ioctx.operate_read_op(op, name)
            omap = hashlib.sha256(repr(list(entries)).encode()).hexdigest()
        xattrs = {k: hashlib.sha256(v).hexdigest() for k, v in ioctx.get_xattrs(name)}
        out[f"{nspace}/{name}@{locator}"] = {"size": size, "data": hashlib.sha256(data).hexdigest(), "omap": omap, "xattrs": xattrs}
    ioctx.set_namespace("")
    ioctx.set_locator_key("")
    return out


def look(client):
    """Everything that a client sees in the cluster."""
    out = {pool: seen(client.open_ioctx(pool)) for pool in ("data", "snaps")}
    ioctx = client.open_ioctx("snaps")
    for snap in ioctx.list_snaps():
        ioctx.set_read(snap.snap_id)
        for name in ("kept", "gone"):
            try:
                data = ioctx.read(name, LARGEST)
                out[f"snaps@{snap.name}/{name}"] = hashlib.sha256(data).hexdigest()
            except rados.ObjectNotFound:
                out[f"snaps@{snap.name}/{name}"] = None
    return out


def settings(cluster):
    """What the monitor remembers."""
    return {
        "fsid": cluster.ceph("fsid")["fsid"],
        "pools": [p["pool_name"] for p in cluster.ceph("osd", "dump")["pools"]],
        "config": [(row["name"], row["value"]) for row in cluster.ceph("config", "dump")],
        "reader": cluster.ceph("auth", "get", "client.reader")[0]["caps"],
    }


def make(args):
    top = tempfile.mkdtemp(prefix="nacre-formats-", dir=args.dir)
    directory = os.path.join(top, "cluster")
    with Cluster(args.nacre, directory, "--osds", 1, "--osd-size", "64M", auth="cephx") as cluster:
        cluster.start()
        client, ioctx, snaps = write_all(cluster)
        client.shutdown()
        # A clean stop checkpoints all that.
        cluster.stop()
        cluster.start()
        client = rados.Rados(conffile=cluster.conf, name="client.admin")
        client.connect()
        write_late(client.open_ioctx("data"), client.open_ioctx("snaps"))
        manifest = {"content": look(client), "settings": settings(cluster), "program": args.name}
        client.shutdown()
        cluster.kill()
    with open(os.path.join(directory, "manifest.json"), "w") as f:
        json.dump(manifest, f, indent=1, sort_keys=True)
    shutil.rmtree(os.path.join(directory, "log"))
    for name in os.listdir(directory):
        if name.endswith(".asok"):
            os.remove(os.path.join(directory, name))
    os.makedirs(ARCHIVES, exist_ok=True)
    target = os.path.join(ARCHIVES, args.name + ".tar.xz")
    tar = ["tar", "--sparse", "--owner=0", "--group=0", "--numeric-owner", "--sort=name", "-C", directory, "-cf", "-", "."]
    with open(target, "wb") as out:
        packed = subprocess.Popen(tar, stdout=subprocess.PIPE)
        subprocess.run(["xz", "-9e", "-c"], stdin=packed.stdout, stdout=out, check=True)
        assert packed.wait() == 0
    shutil.rmtree(top)
    size = os.path.getsize(target)
    assert size < 1 << 20, f"{target} has {size} bytes"
    print(f"{target}: {size} bytes, {sum(len(v) for v in manifest['content'].values() if isinstance(v, dict))} objects")


def make_newer(path, slots):
    """Raises the format version in every superblock of a file; the checksum at the end of the block is right again."""
    with open(path, "r+b") as f:
        for at in slots:
            f.seek(at)
            block = bytearray(f.read(BLOCK))
            if not any(block):
                continue
            version = struct.unpack_from("<I", block, 8)[0]
            struct.pack_into("<I", block, 8, version + 7)
            struct.pack_into("<I", block, BLOCK - 4, crc32c(block[:-4]))
            f.seek(at)
            f.write(block)


def refuses_newer(args, directory, path, slots, name):
    """A store of a newer version is left alone, with a sentence that names both versions."""
    target = os.path.join(directory, path)
    with open(target, "rb") as f:
        head = f.read(16 * BLOCK)
    make_newer(target, slots)
    with open(target, "rb") as f:
        newer = f.read(16 * BLOCK)
    cluster = Cluster(args.nacre, directory, auth="cephx")
    code, text = cluster.start(expect_ready=False)
    version = struct.unpack_from("<I", head, 8)[0]
    assert code == 1 and f"{version + 7}" in text and "format version" in text and "versions up to" in text, (name, code, text)
    found = cluster.run(args.nacre, "fsck", directory, check=False)
    assert found.returncode == 4 and "versions up to" in found.stdout, (found.returncode, found.stdout)
    with open(target, "rb") as f:
        assert f.read(16 * BLOCK) == newer, "a refused start changed the store"
    with open(target, "r+b") as f:
        f.write(head)


def check(args):
    archives = args.archives or sorted(os.path.join(ARCHIVES, a) for a in os.listdir(ARCHIVES) if a.endswith(".tar.xz"))
    assert archives, "there are no archives"
    for archive in archives:
        top = tempfile.mkdtemp(prefix="nacre-formats-", dir=args.dir)
        try:
            check_one(args, archive, os.path.join(top, "cluster"))
        finally:
            shutil.rmtree(top, ignore_errors=True)


def check_one(args, archive, directory):
    os.makedirs(directory)
    subprocess.run(["tar", "-xJf", archive, "-C", directory], check=True)
    with open(os.path.join(directory, "manifest.json")) as f:
        manifest = json.load(f)
    refuses_newer(args, directory, "osd.0/block", OSD_SLOTS, "OSD")
    refuses_newer(args, directory, "mon/store", MON_COPIES, "monitor")
    cluster = Cluster(args.nacre, directory, auth="cephx")
    checked = cluster.run(args.nacre, "fsck", directory, "--deep", check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    with cluster:
        cluster.start()
        client = rados.Rados(conffile=cluster.conf, name="client.admin")
        client.connect()
        compare(archive, manifest, {"content": look(client), "settings": settings(cluster)})
        ioctx = client.open_ioctx("data")
        ioctx.write_full("written now", b"by the newest program")
        client.shutdown()
        cluster.stop()
        cluster.start()
        client = rados.Rados(conffile=cluster.conf, name="client.admin")
        client.connect()
        client.open_ioctx("data").remove_object("written now")
        compare(archive, manifest, {"content": look(client), "settings": settings(cluster)})
        client.shutdown()
        cluster.stop()
    checked = cluster.run(args.nacre, "fsck", directory, "--deep", check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    print(f"{os.path.basename(archive)}: opened, read, written, read again; a newer version is refused")


def compare(archive, manifest, found):
    found = json.loads(json.dumps(found))
    for part in ("content", "settings"):
        for key in sorted(set(manifest[part]) | set(found[part])):
            assert manifest[part].get(key) == found[part].get(key), f"{archive}: {part} {key}: {manifest[part].get(key)} was written, {found[part].get(key)} is there"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("make")
    one.add_argument("name")
    one.set_defaults(run=make)
    two = commands.add_parser("check")
    two.add_argument("archives", nargs="*")
    two.set_defaults(run=check)
    for sub in (one, two):
        sub.add_argument("--nacre", required=True)
        sub.add_argument("--dir")
    args = parser.parse_args()
    args.nacre = os.path.abspath(args.nacre)
    args.run(args)


if __name__ == "__main__":
    main()
