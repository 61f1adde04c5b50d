#!/usr/bin/python3
"""What a tenant tries with stock librados and librbd against a running cluster with cephx: the ways that went through once.

Who it is: a key with `profile rbd pool=tenant` at monitors, OSDs and manager, and one that only reads maps and writes in its pool. What must
hold: images of another pool are neither read nor removed, nobody is fenced, the cluster and its manager go on.

 1. An image whose header names an image of another pool as its parent; the manager is ordered to flatten it.
 2. Tasks that the tenant wrote into the manager's list in its own pool: to remove an image of another pool, with the largest number there is,
    for its own image with a lock of somebody else who lives. A new manager reads them.
 3. Tasks of others are done meanwhile.
 4. Fences: single clients with `profile rbd`, no hosts, ranges or daemons, and none may be lifted.
 5. What others read without a key: metrics and files, without keys and clients' addresses. The port closes.
 6. Rights that are taken back: the sessions of a stock client end within seconds, at monitors and OSDs.

usage: tenants.py --nacre PATH [--dir DIR]
"""
import argparse
import errno
import json
import os
import shutil
import stat
import struct
import sys
import tempfile
import urllib.error
import urllib.request

import rados
import rbd

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from live import Cluster, free_port, until  # noqa: E402

MIB = 1 << 20
SECRET = b"nobody else's business "
TASKS = "rbd_task"
LOCK = "lock.rbd_lock"


def text(value):
    """A string as Ceph encodes it."""
    return struct.pack("<I", len(value)) + value.encode()


def command(client, prefix, manager=False, **more):
    """A command: result, output, status."""
    send = client.mgr_command if manager else client.mon_command
    result, out, status = send(json.dumps({"prefix": prefix, "format": "json", **more}), b"", timeout=30)
    return result, (json.loads(out) if out.strip().startswith((b"[", b"{")) else out), status


class Story:
    def __init__(self, cluster, port):
        self.cluster, self.port = cluster, port
        self.admin = rados.Rados(conffile=cluster.conf)
        self.admin.connect()
        self.keys = []

    def entity(self, name, **caps):
        """A client with a key of its own."""
        words = [word for service, grant in caps.items() for word in (service, grant)]
        result, made, status = command(self.admin, "auth get-or-create", entity=name, caps=words)
        assert result == 0, status
        self.keys.append(made[0]["key"])
        # Who has no rights any more hears so, or nothing: it does not wait for ever.
        conf = {"key": made[0]["key"], "rados_osd_op_timeout": "5", "rados_mon_op_timeout": "5"}
        client = rados.Rados(conffile=self.cluster.conf, name=name, conf=conf)
        client.connect()
        return client

    def make(self, client, pool, name):
        """An image with 64 KiB of data; gives its id."""
        io = client.open_ioctx(pool)
        rbd.RBD().create(io, name, 4 * MIB, order=16, features=rbd.RBD_FEATURE_LAYERING | rbd.RBD_FEATURE_EXCLUSIVE_LOCK)
        with rbd.Image(io, name) as image:
            image.write((SECRET * 4000)[:65536], 0)
            return image.id()

    def order(self, client, what, image):
        """Orders a task and waits for its end; gives why it failed, or nothing."""
        result, task, status = command(client, f"rbd task add {what}", manager=True, image_spec=image)
        assert result == 0, status
        return self.ended(task["id"])

    def ended(self, task):
        def look():
            _, tasks, _ = command(self.admin, "rbd task list", manager=True)
            mine = [one for one in tasks if one["id"] == task]
            if not mine:
                _, progress, _ = command(self.admin, "progress json", manager=True)
                ended = [one for one in progress["completed"] if one["id"] == task]
                return (ended[0].get("failure_message", ""),) if ended else None
            return (mine[0]["retry_message"],) if mine[0].get("retry_attempts") else None

        return until(f"task {task} ends or is tried", look)[0]

    def begin(self):
        for pool in ("secret", "tenant"):
            self.cluster.ceph("osd", "pool", "create", pool, "8")
            self.cluster.run("rbd", "pool", "init", pool)
        rights = {"mon": "profile rbd", "osd": "profile rbd pool=tenant", "mgr": "profile rbd pool=tenant"}
        self.tenant = self.entity("client.tenant", **rights)
        self.plain = self.entity("client.plain", mon="allow r", osd="allow rw pool=tenant", mgr="profile rbd pool=tenant")
        self.victim = self.make(self.admin, "secret", "victim")
        with rbd.Image(self.admin.open_ioctx("secret"), "victim") as image:
            image.create_snap("s")
            image.protect_snap("s")
            self.snap = next(snap["id"] for snap in image.list_snaps())

    def victim_is_whole(self):
        with rbd.Image(self.admin.open_ioctx("secret"), "victim", read_only=True) as image:
            assert image.read(0, 65536) == (SECRET * 4000)[:65536]

    def forged_parent(self):
        """What the header says is another one's image; the manager reads it no more than the tenant could."""
        io = self.tenant.open_ioctx("tenant")
        rbd.RBD().create(io, "thief", 4 * MIB, order=16, features=rbd.RBD_FEATURE_LAYERING)
        with rbd.Image(io, "thief") as image:
            thief = image.id()
        pool = self.admin.pool_lookup("secret")
        parent = struct.pack("<q", pool) + text(self.victim) + struct.pack("<QQ", self.snap, 4 * MIB)
        io.execute(f"rbd_header.{thief}", "rbd", "set_parent", parent)
        why = self.order(self.tenant, "flatten", "tenant/thief")
        assert "permission error" in why, f"it is flattened, or failed for another reason: {why!r}"
        assert not [o for o in self.admin.open_ioctx("tenant").list_objects() if o.key.startswith(f"rbd_data.{thief}")]

    def forge(self, number, pool, name, image, key=None):
        """Writes a task into the tenant's list."""
        refs = {"action": "remove", "pool_name": pool, "pool_namespace": "", "image_name": name, "image_id": image}
        task = {"sequence": number, "id": f"forged-{number}", "message": f"Removing image {pool}/{name}", "refs": refs}
        io = self.plain.open_ioctx("tenant")
        with rados.WriteOpCtx() as op:
            io.set_omap(op, (key or f"{number:016X}",), (json.dumps(task).encode(),))
            io.operate_write_op(op, TASKS)

    def forged_tasks(self):
        """A new manager finds tasks that nobody ordered."""
        io = self.tenant.open_ioctx("tenant")
        mine = self.make(self.tenant, "tenant", "mine")
        held = self.make(self.tenant, "tenant", "held")
        # The lock of an image says that a living client of somebody else has it.
        other = rados.Rados(conffile=self.cluster.conf)
        other.connect()
        other.open_ioctx("secret").write_full("alive", b"1")
        with rbd.Image(io, "held") as image:
            image.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE)
            record = io.get_xattr(f"rbd_header.{held}", LOCK)
            own, theirs = (struct.pack("<I", nonce(client)) for client in (self.tenant, other))
            assert record.count(own) == 1, "the record of a lock has the nonce of its holder"
        self.plain.open_ioctx("tenant").set_xattr(f"rbd_header.{held}", LOCK, record.replace(own, theirs))
        self.forge(1, "secret", "victim", self.victim)
        self.forge(2**64 - 1, "tenant", "mine", mine)
        self.forge(7, "tenant", "held", held)
        self.forge(8, "tenant", "mine", mine, key="0000000000000009")
        self.cluster.stop()
        self.cluster.more[-1] = "0"
        self.cluster.start()
        try:
            raise AssertionError(f"the port of metrics is open: {self.metrics()[:100]}")
        except urllib.error.URLError:
            pass
        # It goes on from the same clients, and a task of somebody who may is done.
        spare = self.make(self.admin, "secret", "spare")
        assert spare and self.order(self.admin, "remove", "secret/spare") == ""
        why = self.ended("forged-7")
        assert "permission error" in why, f"a forged lock: {why!r}"
        _, fenced, _ = command(self.admin, "osd blocklist ls")
        assert fenced in ([], b"[]"), f"fenced: {fenced}"
        other.open_ioctx("secret").write_full("alive", b"2")
        names = rbd.RBD().list(self.admin.open_ioctx("tenant"))
        assert {"mine", "held"} <= set(names), names
        _, tasks, _ = command(self.admin, "rbd task list", manager=True)
        assert {task["id"] for task in tasks if task["id"].startswith("forged")} == {"forged-7"}, tasks
        assert "HEALTH_ERR" not in self.cluster.ceph("health")["status"]
        log = self.cluster.log("mon.a")
        for key in ("0000000000000001", "FFFFFFFFFFFFFFFF", "0000000000000009"):
            assert f"task {key} of pool tenant" in log, f"nobody is told of {key}"

    def orders(self):
        """Its own images, and with the rights to them alone."""
        self.make(self.tenant, "tenant", "gone")
        assert self.order(self.tenant, "remove", "tenant/gone") == ""
        result, _, _ = command(self.tenant, "rbd task add remove", manager=True, image_spec="secret/victim")
        assert result == -errno.EACCES, result

    def fences(self):
        def fence(client, addr, op="add", **more):
            return command(client, "osd blocklist", blocklistop=op, addr=addr, **more)[0]

        assert fence(self.tenant, "192.0.2.1:0/77") == 0
        for addr, more in [("192.0.2.1:0/0", {}), ("192.0.2.1", {}), ("192.0.2.0/24", {"range": "range"})]:
            assert fence(self.tenant, addr, **more) == -errno.EACCES, addr
        assert fence(self.tenant, "192.0.2.1:0/77", op="rm") == -errno.EACCES
        assert fence(self.plain, "192.0.2.1:0/78") == -errno.EACCES
        assert fence(self.admin, "192.0.2.1:0/77", op="rm") == 0

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            return answer.read().decode()

    def shown(self):
        """What is read without a key."""
        text = until("the images' figures are shown", lambda: (found := self.metrics()) and "ceph_osd_up" in found and found)
        admin = open(os.path.join(self.cluster.dir, "keyring"), encoding="utf-8").read().split("key =")[1].split()[0]
        for what in [admin, *self.keys, *(f"/{nonce(client)}" for client in (self.admin, self.tenant, self.plain))]:
            assert what not in text, f"metrics tell {what}"
        for folder, _, names in os.walk(self.cluster.dir):
            for name in names:
                mode = stat.S_IMODE(os.lstat(os.path.join(folder, name)).st_mode)
                secret = name in ("keyring", "lock", "store", "block", "journal") or name.endswith(".asok")
                assert not mode & 0o022, f"{folder}/{name}: others write it ({mode:o})"
                assert not secret or not mode & 0o077 or name.endswith(".asok"), f"{folder}/{name}: others read it ({mode:o})"

    def taken_back(self):
        """Sessions that are open when rights go."""
        io = self.plain.open_ioctx("tenant")
        io.write_full("mine", b"1")
        result, _, _ = command(self.plain, "osd dump")
        assert result == 0
        result, _, status = command(self.admin, "auth rm", entity="client.plain")
        assert result == 0, status

        def refused(call):
            try:
                return call() not in (0, None)
            except rados.Error:
                return True

        until("an OSD takes nothing of it", lambda: refused(lambda: io.write_full("mine", b"2")), 20)
        until("the monitors answer it no more", lambda: refused(lambda: command(self.plain, "osd dump")[0]), 20)

    def run(self):
        self.begin()
        for part in (self.orders, self.forged_parent, self.fences, self.shown, self.forged_tasks, self.taken_back):
            part()
            self.victim_is_whole()
            print(f"tenants: {part.__name__} held", flush=True)


def nonce(client):
    """The nonce in a client's address."""
    return int(client.get_addrs().rstrip("]").rsplit("/", 1)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--dir")
    args = parser.parse_args()
    top = tempfile.mkdtemp(prefix="nacre-tenants-", dir=args.dir)
    try:
        port = free_port()
        with Cluster(os.path.abspath(args.nacre), os.path.join(top, "c"), "--osds", 1, "--metrics-port", port, auth="cephx") as cluster:
            cluster.start()
            Story(cluster, port).run()
            cluster.stop()
    finally:
        shutil.rmtree(top, ignore_errors=True)
    # Threads of clients that others cut off do not end by themselves.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
