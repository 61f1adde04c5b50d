#!/usr/bin/python3
"""Fills disks and shows that a full disk is a state: writes wait (or fail, for clients that ask for it), everything else goes on,
and after deletions writes go on by themselves.

 1. A small disk, filled by stock clients with large objects, small objects, omaps, several clients at once.
 2. A quota of a pool.
 3. A host whose file system is too small for the file (a file system in memory of its own; needs root).
 4. A stop while the host has no byte left: it ends, and nothing that was acknowledged is lost.

usage: full_disk.py --nacre PATH [--dir DIR] [--only NAME] [-- MORE ARGUMENTS OF nacre up]
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import rados  # noqa: E402
sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from live import Cluster, until  # noqa: E402

ENOSPC, EDQUOT = 28, 122
OPERATION_FULL_TRY, OPERATION_FULL_FORCE = 64, 128


class Client:
    """A stock client with writes in flight that may wait."""

    def __init__(self, cluster, pool):
        self.rados = rados.Rados(conffile=cluster.conf, rados_id="admin")
        self.rados.connect()
        self.ioctx = self.rados.open_ioctx(pool)
        self.pool = pool

    def close(self):
        self.ioctx.close()
        self.rados.shutdown()

    def fill(self, prefix, make, full, stuck=2.0, in_flight=16, limit=10**6):
        """Issues writes until none is answered for `stuck` seconds and `full` says why: a slow disk alone is no reason to stop, for a minute.
        Gives those answered and those waiting; `make` issues one."""
        done, lock = {}, threading.Condition()
        waiting = {}

        def issue(name):
            def complete(completion, *_):
                with lock:
                    done[name] = completion.get_return_value()
                    waiting.pop(name, None)
                    lock.notify_all()
            waiting[name] = None
            waiting[name] = make(self.ioctx, name, complete)

        n = 0
        with lock:
            last, seen = time.monotonic(), 0
            while n < limit:
                silent = time.monotonic() - last
                assert silent < 60, f"{prefix}: nothing is answered for a minute, and nothing says full"
                if silent > stuck:
                    # Answers come in meanwhile.
                    lock.release()
                    try:
                        stop = full()
                    finally:
                        lock.acquire()
                    if stop and len(done) == seen:
                        break
                while len(waiting) < in_flight and n < limit:
                    n += 1
                    issue(f"{prefix}-{n}")
                lock.wait(0.1)
                if len(done) != seen:
                    seen, last = len(done), time.monotonic()
            assert n < limit, "the disk is never full"
            return dict(done), waiting, lock, done


def large(ioctx, name, complete):
    return ioctx.aio_write_full(name, name.encode().ljust(4 << 20, b"x"), oncomplete=complete)


def small(ioctx, name, complete):
    return ioctx.aio_write_full(name, name.encode().ljust(48 << 10, b"y"), oncomplete=complete)


def omap(ioctx, name, complete):
    with rados.WriteOpCtx() as op:
        ioctx.set_omap(op, tuple(f"{name}-{i:05}" for i in range(200)), tuple(b"v" * 500 for _ in range(200)))
        return ioctx.operate_aio_write_op(op, name, oncomplete=complete)


def osd_is_full(cluster):
    return {"OSD_FULL", "POOL_FULL"} <= cluster.health()


def goes_on(cluster, pool, known):
    """What must work on a full disk."""
    assert cluster.ceph("status")["health"]["status"] == "HEALTH_ERR"
    stats = cluster.ceph("df")["stats"]
    assert 0 <= stats["total_avail_bytes"] <= stats["total_bytes"], stats
    name, content = known
    with tempfile.NamedTemporaryFile() as out:
        cluster.run("rados", "-p", pool, "get", name, out.name)
        assert open(out.name, "rb").read() == content, f"{name} is not what was written"
    cluster.run("rados", "-p", pool, "stat", name)
    assert name in cluster.run("rados", "-p", pool, "ls", timeout=120).stdout.split()


def fill_and_recover(cluster, kind, make, content, least=0.25):
    """Fills, recovers, empties; then at most the share `least` may count as used (journal and reserves)."""
    pool = f"fill-{kind}"
    cluster.ceph("osd", "pool", "create", pool, 8)
    client = Client(cluster, pool)
    begun = time.monotonic()
    answered, waiting, lock, done = client.fill(kind, make, lambda: osd_is_full(cluster))
    filled = time.monotonic() - begun
    assert all(result == 0 for result in answered.values()), "writes wait, they do not fail"
    until(f"{kind}: the map says full", lambda: osd_is_full(cluster), 10)
    cluster.alive()
    first = f"{kind}-1"
    goes_on(cluster, pool, (first, content(first)))
    # Whoever asks for it is told; who waits, waits.
    assert waiting, f"{kind}: nothing waits"
    reads = Client(cluster, pool)
    refused = expect_errno(reads, "tried", ENOSPC)
    # A restart on a full disk, hard and clean.
    cluster.kill()
    cluster.start()
    goes_on(cluster, pool, (first, content(first)))
    # Removing: `--force-full` passes the clients' own gate.
    names = sorted(answered, key=lambda n: int(n.rsplit("-", 1)[1]))
    remove(reads, *names[: max(len(names) // 2, 1)])
    with lock:
        end = time.monotonic() + 60
        while waiting and time.monotonic() < end:
            lock.wait(0.2)
        assert not waiting, f"{kind}: {len(waiting)} writes still wait after deletions"
    assert all(result == 0 for result in done.values()), "what waited succeeded"
    there = listing(reads)
    for name in (n for n in done if n not in answered):
        assert name in there, f"{kind}: {name} was acknowledged and is not there"
    remove(reads, *there)
    client.close()
    reads.close()
    empty = until(f"{kind}: space comes back", lambda: used(cluster) < least and not osd_is_full(cluster), 30)
    cluster.run("ceph", "osd", "pool", "rm", pool, pool, "--yes-i-really-really-mean-it")
    print(f"{kind}: full after {len(answered)} objects in {filled:.1f} s, {refused}; recovered: {empty}")


def expect_errno(client, name, errno):
    """A write by an operation that wants an answer on a full disk."""
    with rados.WriteOpCtx() as op:
        op.write_full(b"z" * 65536)
        try:
            client.ioctx.operate_write_op(op, name, flags=OPERATION_FULL_TRY)
        except rados.Error as e:
            assert e.errno in (errno, -errno), e
            return f"whoever asks gets {e.errno}"
    raise AssertionError("a write to a full disk that wanted an answer succeeded")


def remove(client, *names):
    """Removes objects, many at once, past the gate of a client that knows that its pool is full."""
    waiting = []
    for name in names:
        with rados.WriteOpCtx() as op:
            op.remove()
            waiting.append(client.ioctx.operate_aio_write_op(op, name, flags=OPERATION_FULL_FORCE))
        if len(waiting) == 64 or name == names[-1]:
            for completion in waiting:
                completion.wait_for_complete()
                assert completion.get_return_value() == 0, f"a removal ends with {completion.get_return_value()}"
            waiting.clear()


def listing(client):
    return {o.key for o in client.ioctx.list_objects()}


def used(cluster):
    stats = cluster.ceph("df")["stats"]
    return 1 - stats["total_avail_bytes"] / max(stats["total_bytes"], 1)


def small_disk(args):
    directory = os.path.join(args.dir, "small")
    with Cluster(args.nacre, directory, "--osds", 1, "--osd-size", "256M", *args.more) as cluster:
        cluster.start()
        cluster.run("ceph", "config", "set", "mon", "mon_allow_pool_delete", "true")
        fill_and_recover(cluster, "large", large, lambda n: n.encode().ljust(4 << 20, b"x"))
        fill_and_recover(cluster, "small", small, lambda n: n.encode().ljust(48 << 10, b"y"))
        fill_and_recover(cluster, "omap", omap, lambda n: b"")
        cluster.stop()
        cluster.run(args.nacre, "fsck", directory, "--deep", timeout=120)
    shutil.rmtree(directory)


def quota(args):
    directory = os.path.join(args.dir, "quota")
    with Cluster(args.nacre, directory, "--osds", 1, "--osd-size", "1G", *args.more) as cluster:
        cluster.start()
        cluster.ceph("osd", "pool", "create", "q", 8)
        cluster.run("ceph", "osd", "pool", "set-quota", "q", "max_objects", 10)
        client = Client(cluster, "q")
        answered, waiting, lock, _ = client.fill("q", small, lambda: "POOL_FULL" in cluster.health(), stuck=6.0, in_flight=1)
        assert len(answered) >= 10 and waiting, f"{len(answered)} objects within a quota of 10, {len(waiting)} wait"
        until("the quota is told", lambda: "POOL_FULL" in cluster.health(), 10)
        assert "OSD_FULL" not in cluster.health()
        other = Client(cluster, "q")
        print(f"quota: {len(answered)} objects, {expect_errno(other, 'tried', EDQUOT)}")
        cluster.run("ceph", "osd", "pool", "set-quota", "q", "max_objects", 0)
        with lock:
            end = time.monotonic() + 30
            while waiting and time.monotonic() < end:
                lock.wait(0.2)
        assert not waiting, "writes wait although the quota is gone"
        client.close()
        other.close()
        cluster.stop()
    shutil.rmtree(directory)


def full_host(args):
    if os.geteuid() != 0:
        print("host: not shown, it needs root for a file system of its own")
        return
    mount = os.path.join(args.dir, "host")
    os.makedirs(mount)
    image = os.path.join(args.dir, "host.img")
    with open(image, "wb") as f:
        f.truncate(400 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", image], check=True)
    mounted = subprocess.run(["mount", "-o", "loop", image, mount], capture_output=True, text=True)
    if mounted.returncode != 0:
        print(f"host: not shown, no file system of its own can be mounted here: {mounted.stderr.strip()}")
        return
    try:
        host_cluster(args, os.path.join(mount, "c"), mount)
    finally:
        # The kernel lets go of a process's files some time after it ended, if they were under io_uring.
        until("the host's file system is idle", lambda: subprocess.run(["umount", mount]).returncode == 0, 20)
        os.remove(image)


def host_cluster(args, directory, mount):
    with Cluster(args.nacre, directory, "--osds", 1, "--osd-size", "8G", *args.more) as cluster:
        cluster.start()
        cluster.run("ceph", "config", "set", "mon", "mon_allow_pool_delete", "true")
        stats = cluster.ceph("df")["stats"]
        assert stats["total_avail_bytes"] < 400 << 20, f"free space is what the host has: {stats}"
        # A quarter of this host is the journal.
        fill_and_recover(cluster, "host", large, lambda n: n.encode().ljust(4 << 20, b"x"), least=0.4)
        # Somebody else fills the host to the last byte while clients write.
        cluster.ceph("osd", "pool", "create", "p", 8)
        client = Client(cluster, "p")
        ballast = os.path.join(mount, "ballast")
        with open(ballast, "wb", buffering=0) as f:
            try:
                while True:
                    f.write(b"b" * (1 << 20))
            except OSError as e:
                assert e.errno == ENOSPC, e
        _, waiting, lock, done = client.fill("late", large, lambda: "OSD_FULL" in cluster.health(), stuck=3.0, in_flight=4)
        until("the OSD is full", lambda: "OSD_FULL" in cluster.health(), 15)
        cluster.alive()
        cluster.ceph("status")
        os.remove(ballast)
        with lock:
            end = time.monotonic() + 60
            while waiting and time.monotonic() < end:
                lock.wait(0.2)
        assert not waiting, f"{len(waiting)} writes wait although the host has space"
        failed = {name: r for name, r in done.items() if r != 0}
        assert not failed, f"writes failed that could have waited: {failed}"
        client.close()
        cluster.stop()
        cluster.run(args.nacre, "fsck", directory, "--deep", timeout=120)
    print("host: a host filled by others stops writes, and they go on when it has space")


def stop_when_full(args):
    if os.geteuid() != 0:
        print("stop: not shown, it needs root for a file system of its own")
        return
    mount = os.path.join(args.dir, "memory")
    os.makedirs(mount)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m", "tmpfs", mount], check=True)
    try:
        with Cluster(args.nacre, os.path.join(mount, "c"), "--osds", 1, "--osd-size", "8G", *args.more) as cluster:
            cluster.start()
            cluster.ceph("osd", "pool", "create", "p", 8)
            client = Client(cluster, "p")
            kept = {f"kept{i}": os.urandom(10_000) for i in range(20)}
            for name, data in kept.items():
                client.ioctx.write_full(name, data)
            ballast = os.path.join(mount, "ballast")
            with open(ballast, "wb", buffering=0) as f:
                try:
                    while True:
                        f.write(b"b" * (1 << 16))
                except OSError as e:
                    assert e.errno == ENOSPC, e
            client.fill("late", large, lambda: "OSD_FULL" in cluster.health(), stuck=3.0, in_flight=4)
            begin = time.monotonic()
            cluster.stop()
            took = time.monotonic() - begin
            # It gives up after 10 s.
            assert took < 30, f"the stop took {took:.0f} s"
            # Its clients go with it: what waits may wait for the next start.
            os.remove(ballast)
            subprocess.run(["mount", "-o", "remount,size=800m", mount], check=True)
            cluster.start()
            for name, data in kept.items():
                assert client.ioctx.read(name, len(data)) == data, name
            client.close()
            cluster.stop()
    finally:
        until("the host's file system is idle", lambda: subprocess.run(["umount", mount]).returncode == 0, 20)
    print(f"stop: on a host without a free byte it took {took:.1f} s, and what was acknowledged is there afterwards")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--dir")
    parser.add_argument("--only", default="")
    parser.add_argument("more", nargs="*")
    args = parser.parse_args()
    args.nacre = os.path.abspath(args.nacre)
    top = tempfile.mkdtemp(prefix="nacre-full-", dir=args.dir)
    args.dir = top
    try:
        for name, story in (("small", small_disk), ("quota", quota), ("host", full_host), ("stop", stop_when_full)):
            if args.only in name:
                story(args)
    finally:
        shutil.rmtree(top, ignore_errors=True)


if __name__ == "__main__":
    main()
