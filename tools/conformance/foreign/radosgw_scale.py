#!/usr/bin/python3
"""Puts Ceph's object gateway on a cluster of ours through what comes with size and with faults. Parts, --only NAMES:

  reshard   an index with --keys entries gets more shards while clients write: the list has all that was there and all that was acknowledged
  shard     one index shard with --entries entries: a copy that was away recovers, another OSD is backfilled, the group is scrubbed deeply and split,
            while a client writes to that bucket; each time the list is whole. The longest wait of a write is told
  garbage   rounds of objects that are put and deleted, and that a rule removes: their data goes, queues are empty, memory and logs do not grow
  full      the disks are full: gets and lists go on, puts wait; with some room (`ceph osd set-full-ratio`, `osd_failsafe_full_ratio`) deletions make space, and puts go on
  kills     an OSD is killed with -9 every 20 s while clients put, get, list and delete for --seconds: what was acknowledged is there

usage: radosgw_scale.py --nacre target/release/nacre [--only PART...] [--keys N] [--entries N] [--seconds N]

Entries of an index that stand for many puts are written as omap entries like those that the gateway wrote; `bucket check --fix` then counts them.
Needs radosgw, radosgw-admin and ceph-common."""

import argparse
import http.client
import os
import random
import shutil
import sys
import tempfile
import threading
import time
import types

import rados

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from live import Cluster, free_port, until
from radosgw import S3, Gateway
from thrash_cluster import Processes

INDEX, DATA = "default.rgw.buckets.index", "default.rgw.buckets.data"


class Site:
    """A gateway, its first user, and a client of the cluster below it."""

    def __init__(self, conf, directory, more=""):
        self.conf = conf
        self.gateway = Gateway(conf, directory, "cephx", more=more)
        self.gateway.start()
        keys = self.gateway.admin("user", "create", "--uid", "big", "--display-name", "Big", "--max-buckets", "0")["keys"][0]
        self.s3 = S3(self.gateway.port, keys["access_key"], keys["secret_key"])
        self.rados = rados.Rados(conffile=conf)
        self.rados.connect()

    def close(self):
        self.rados.shutdown()
        self.gateway.stop()

    def keys(self, bucket):
        """All keys of a bucket, page by page."""
        found, query = [], {"list-type": 2}
        while True:
            page = self.s3.ask("GET", f"/{bucket}", query=query)
            found += page.texts("Key")
            token = page.texts("NextContinuationToken")
            if not token:
                return found
            query = {"list-type": 2, "continuation-token": token[0]}

    def shards(self, bucket):
        """Names of the objects that hold the bucket's index."""
        ident = self.gateway.admin("bucket", "stats", "--bucket", bucket)["id"]
        with self.rados.open_ioctx(INDEX) as io:
            return sorted(o.key for o in io.list_objects() if o.key == f".dir.{ident}" or o.key.startswith(f".dir.{ident}."))

    def entries(self, bucket, count, shard=None):
        """Gives the index `count` more entries, as copies of one that the gateway wrote; all in one shard, or in turn."""
        model = "model-0000000"
        self.s3.ask("PUT", f"/{bucket}/{model}", b"model")
        shards = self.shards(bucket)
        with self.rados.open_ioctx(INDEX) as io:
            value = next(v for s in shards for v in [self.value(io, s, model)] if v)
            for first in range(0, count, 1000):
                names = [f"entry-{n:07}" for n in range(first, min(first + 1000, count))]
                with rados.WriteOpCtx() as op:
                    # Name and place of the entry; both names are as long.
                    io.set_omap(op, tuple(names), tuple(value.replace(model.encode(), n.encode()) for n in names))
                    io.operate_write_op(op, shard or shards[first // 1000 % len(shards)])
        self.s3.ask("DELETE", f"/{bucket}/{model}", expect=204)
        self.gateway.admin("bucket", "check", "--bucket", bucket, "--fix", parse=False)
        return {f"entry-{n:07}" for n in range(count)}

    @staticmethod
    def value(io, oid, key):
        with rados.ReadOpCtx() as op:
            found, _ = io.get_omap_vals_by_keys(op, (key,))
            io.operate_read_op(op, oid)
            return dict(found).get(key)


class Writers:
    """Clients that put small objects into a bucket until they are ended; what was acknowledged, and how long it took at most."""

    def __init__(self, site, bucket, count=4, prefix="while"):
        self.site, self.bucket, self.over = site, bucket, threading.Event()
        self.done, self.waits, self.refused, self.wrong = set(), [], 0, []
        self.threads = [threading.Thread(target=self.run, args=(f"{prefix}-{n}",), daemon=True) for n in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, prefix):
        n = 0
        while not self.over.is_set():
            key, begun = f"{prefix}-{n:06}", time.monotonic()
            n += 1
            try:
                answer = self.site.s3.ask("PUT", f"/{self.bucket}/{key}", key.encode(), expect=(200, 500, 503))
            except (OSError, http.client.HTTPException) as e:
                # The connection may end (a minute without an answer): not acknowledged.
                self.refused += 1
                if self.refused < 5:
                    print(f"a put of {key} was not answered: {e!r}", flush=True)
                self.over.wait(0.2)
                continue
            except AssertionError as e:
                self.wrong.append(str(e))
                return
            if answer.status == 200:
                self.done.add(key)
                self.waits.append((begun, time.monotonic()))
            else:
                self.refused += 1

    def longest(self, since=0.0, until=float("inf")):
        """Seconds of the longest put that was under way within these times."""
        return max((end - begun for begun, end in list(self.waits) if end > since and begun < until), default=0.0)

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join(150)
        assert not any(thread.is_alive() for thread in self.threads), "a client still waits"
        assert not self.wrong, self.wrong[0]
        assert self.done, "nothing was written"
        return self.done


def whole(site, bucket, must):
    """The list has each key once, all that must be there, in order."""
    begun = time.monotonic()
    found = site.keys(bucket)
    took = time.monotonic() - begun
    lacks = sorted(must - set(found))
    assert not lacks, f"{len(lacks)} of {len(must)} keys are not in the list, as {lacks[:5]}"
    assert len(found) == len(set(found)) and found == sorted(found), "the list has a key twice, or is out of order"
    return f"{len(found)} keys in {took:.1f} s"


def reshard(args, directory):
    with Cluster(args.nacre, os.path.join(directory, "cluster"), "--osds", 3, auth="cephx") as cluster:
        cluster.start()
        site = Site(cluster.conf, directory)
        site.s3.ask("PUT", "/wide")
        must = site.entries("wide", args.keys)
        print(f"reshard: {args.keys} entries, listed: {whole(site, 'wide', must)}", flush=True)
        writers = Writers(site, "wide")
        until("clients write", lambda: len(writers.done) > 20, 60)
        for shards in (23, 5):
            begun = time.monotonic()
            site.gateway.admin("bucket", "reshard", "--bucket", "wide", "--num-shards", shards, "--yes-i-really-mean-it", parse=False, timeout=args.patience)
            print(f"reshard: to {shards} shards in {time.monotonic() - begun:.1f} s; puts: {len(writers.done)}, longest {writers.longest():.1f} s, {writers.refused} refused", flush=True)
        done = writers.end()
        assert site.gateway.admin("bucket", "stats", "--bucket", "wide")["num_shards"] == 5
        print(f"reshard: {whole(site, 'wide', must | done)}", flush=True)
        for key in random.sample(sorted(done), min(50, len(done))):
            assert site.s3.ask("GET", f"/wide/{key}").body == key.encode()
        # Former index objects are gone.
        ident = site.gateway.admin("bucket", "stats", "--bucket", "wide")["id"]
        with site.rados.open_ioctx(INDEX) as io:
            left = [o.key for o in io.list_objects() if not o.key.startswith(f".dir.{ident}.")]
        assert not left, f"former index objects are left: {left[:5]}"
        site.close()
        cluster.stop()


def processes(nacre, directory, osds):
    """A cluster whose daemons are processes of their own."""
    about = types.SimpleNamespace(nacre=nacre, lossy=None, driver=None, memory=None, auth="cephx", osds=osds)
    cluster = Processes(about, directory, free_port())
    cluster.begin()
    # The gateway makes its pools; the cluster was made on one host, where new pools have one copy.
    cluster.ceph("config", "set", "global", "osd_pool_default_size", 3, text=True)
    cluster.ceph("config", "set", "global", "osd_pool_default_min_size", 2, text=True)
    return cluster


def three_copies(cluster):
    sizes = {p["pool_name"]: p["size"] for p in cluster.ceph("osd", "dump")["pools"]}
    assert set(sizes.values()) == {3}, sizes


def shard(args, directory):
    cluster = processes(args.nacre, directory, 4)
    site = None
    try:
        site = Site(cluster.conf, directory, "rgw dynamic resharding = false\nrgw override bucket index max shards = 1\n")
        site.s3.ask("PUT", "/deep")
        three_copies(cluster)
        oid = site.shards("deep")[0]
        must = site.entries("deep", args.entries, oid)
        where = lambda: cluster.ceph("osd", "map", INDEX, oid)
        place = where()
        print(f"shard: {args.entries} entries in {place['pgid']} on {place['acting']}, listed: {whole(site, 'deep', must)}", flush=True)
        steps = {
            "recovered": lambda: away(cluster, place["acting"][-1]),
            "led by another": lambda: away(cluster, place["acting"][0]),
            "backfilled": lambda: out(cluster, place["acting"][1]),
            "scrubbed": lambda: scrubbed(cluster, where()["pgid"]),
            "split": lambda: split(cluster),
            "backfilled once more": lambda: out(cluster, where()["acting"][-1]),
            "scrubbed once more": lambda: scrubbed(cluster, where()["pgid"]),
        }
        for name, step in steps.items():
            writers = Writers(site, "deep", 2, name.replace(" ", "-"))
            until("clients write", lambda: writers.done, 60)
            begun = time.monotonic()
            back = step() or begun
            took = time.monotonic() - begun
            must |= writers.end()
            print(f"shard: {name} in {took:.1f} s; {len(writers.done)} puts, longest {writers.longest(until=back):.2f} s before and {writers.longest(back):.2f} s "
                  f"after an OSD's return, {writers.refused} refused; {whole(site, 'deep', must)}", flush=True)
        stats = site.gateway.admin("bucket", "check", "--bucket", "deep")
        print(f"shard: {stats and 'the index and its header agree' if counts_agree(stats, len(must)) else stats}", flush=True)
        assert counts_agree(stats, len(must)), stats
        site.close()
        wrong = cluster.end()
        assert not wrong, wrong
    finally:
        if site:
            site.gateway.stop()
        cluster.kill()


def counts_agree(stats, count):
    header = [stats["check_result"][k]["usage"].get("rgw.main", {}).get("num_objects") for k in ("existing_header", "calculated_header")]
    return header == [count, count]


def away(cluster, number, seconds=8):
    """An OSD is killed, misses writes, and comes back; gives when that was."""
    osd = cluster.osds[number]
    osd.kill()
    time.sleep(seconds)
    osd.start()
    back = time.monotonic()
    cluster.healed(300)
    return back


def out(cluster, number):
    """An OSD's copies go elsewhere, and come back."""
    cluster.ceph("osd", "out", number, text=True)
    cluster.healed(300)
    cluster.ceph("osd", "in", number, text=True)
    cluster.healed(300)


def scrubbed(cluster, pgid):
    stamp = lambda: next(g for g in cluster.groups() if g["pgid"] == pgid)["last_deep_scrub_stamp"]
    before = stamp()
    cluster.ceph("pg", "deep-scrub", pgid, text=True)
    until("the group is scrubbed", lambda: stamp() != before, 300)
    assert not cluster.ceph("health", "detail")["checks"].get("OSD_SCRUB_ERRORS"), "the scrub found a difference"


def split(cluster):
    for option, value in (("pg_autoscale_mode", "off"), ("pg_num", 64)):
        cluster.ceph("osd", "pool", "set", INDEX, option, value, text=True)
    cluster.healed(300)


def garbage(args, directory):
    with Cluster(args.nacre, os.path.join(directory, "cluster"), "--osds", 3, auth="cephx") as cluster:
        cluster.start()
        site = Site(cluster.conf, directory, "rgw gc processor period = 3\nrgw lc debug interval = 3\n")
        site.s3.ask("PUT", "/waste")
        rule = "<Rule><ID>r</ID><Filter><Prefix>old/</Prefix></Filter><Status>Enabled</Status><Expiration><Days>1</Days></Expiration></Rule>"
        site.s3.ask("PUT", "/waste", f"<LifecycleConfiguration>{rule}</LifecycleConfiguration>".encode(), query={"lifecycle": ""})
        body, sizes, logs = os.urandom(5 << 20), [], []
        end = time.monotonic() + args.seconds
        rounds = 0
        while rounds < 4 or time.monotonic() < end:
            for n in range(6):
                site.s3.ask("PUT", f"/waste/gone/{n}", body)
                site.s3.ask("PUT", f"/waste/gone/{n}", body)
                site.s3.ask("PUT", f"/waste/old/{n}", body)
                upload = site.s3.ask("POST", f"/waste/given-up/{n}", query={"uploads": ""}).texts("UploadId")[0]
                site.s3.ask("PUT", f"/waste/given-up/{n}", body, query={"partNumber": 1, "uploadId": upload})
                site.s3.ask("DELETE", f"/waste/given-up/{n}", query={"uploadId": upload}, expect=204)
                site.s3.ask("DELETE", f"/waste/gone/{n}", expect=204)
            until("the rule has removed what is old", lambda: not site.keys("waste"), 120)
            until("the garbage is gone", lambda: left(site) == 0, 120)
            # By itself: nobody asked for it.
            until("its queue is empty", lambda: site.gateway.admin("gc", "list", "--include-all") == [], 60)
            rounds += 1
            sizes.append((cluster.rss()[0], cluster.ceph("df")["stats"]["total_used_bytes"]))
            with site.rados.open_ioctx("default.rgw.log") as io:
                io.set_namespace(rados.LIBRADOS_ALL_NSPACES)
                logs.append(sum(1 for _ in io.list_objects()))
        print(f"garbage: {rounds} rounds of 18 MiB ×6; MiB of memory and of disks: {[tuple(n >> 20 for n in s) for s in sizes[:: max(rounds // 8, 1)]]}, objects of logs {logs[0]} to {logs[-1]}", flush=True)
        # The first two rounds fill caches. A round writes and removes some 120 MiB of each copy.
        for name, at, slack in (("memory", 0, 64 << 20), ("disks", 1, 256 << 20)):
            assert sizes[-1][at] < sizes[1][at] + slack, f"{name} grow: {sizes}"
        assert logs[-1] <= logs[1] + 2, f"logs grow: {logs}"
        site.close()
        cluster.stop()


def left(site):
    with site.rados.open_ioctx(DATA) as io:
        return sum(1 for _ in io.list_objects())


def full(args, directory):
    with Cluster(args.nacre, os.path.join(directory, "cluster"), "--osds", 1, "--osd-size", "1G", auth="cephx") as cluster:
        cluster.start()
        site = Site(cluster.conf, directory)
        site.s3.ask("PUT", "/full")
        known = os.urandom(1 << 20)
        site.s3.ask("PUT", "/full/known", known)
        body, done, waits = os.urandom(8 << 20), [], threading.Event()

        def fill():
            n = 0
            while not waits.is_set():
                try:
                    if site.s3.ask("PUT", f"/full/big-{n:04}", body, expect=(200, 500, 503, 507)).status == 200:
                        done.append(f"big-{n:04}")
                except OSError:
                    pass
                n += 1

        writer = threading.Thread(target=fill, daemon=True)
        writer.start()
        until("the disk is full", lambda: "OSD_FULL" in cluster.health(), 180)
        count = len(done)
        time.sleep(3)
        assert len(done) <= count + 1, "puts go on although the disk is full"
        # One more may have been under way.
        assert site.s3.ask("GET", "/full/known").body == known
        assert "known" in site.keys("full")
        cluster.alive()
        assert writer.is_alive()
        # A put waits for room; what makes room is told by the operator.
        waits.set()
        cluster.run("ceph", "config", "set", "osd", "osd_failsafe_full_ratio", "0.995")
        cluster.run("ceph", "osd", "set-full-ratio", "0.99")
        until("no longer full", lambda: "OSD_FULL" not in cluster.health(), 30)
        writer.join(120)
        assert not writer.is_alive(), "a put still waits although there is room"
        there = [k for k in site.keys("full") if k != "known"]
        lost = [k for k in done if k not in there]
        assert not lost, f"acknowledged, and not there: {lost}"
        for key in there:
            site.s3.ask("DELETE", f"/full/{key}", expect=204)
        site.gateway.admin("gc", "process", "--include-all", parse=False)
        cluster.run("ceph", "osd", "set-full-ratio", "0.95")
        cluster.run("ceph", "config", "rm", "osd", "osd_failsafe_full_ratio")
        until("there is room", lambda: not {"OSD_FULL", "OSD_NEARFULL"} & cluster.health(), 60)
        site.s3.ask("PUT", "/full/after", body)
        assert site.s3.ask("GET", "/full/known").body == known and site.s3.ask("GET", "/full/after").body == body
        print(f"full: after {len(done)} objects of 8 MiB puts waited, gets and lists went on; deletions made room", flush=True)
        site.close()
        cluster.stop()


class Kills(threading.Thread):
    """Kills an OSD every so many seconds, one after the other, and starts it again after five."""

    def __init__(self, cluster, every):
        super().__init__(daemon=True)
        self.cluster, self.every, self.over, self.count = cluster, every, threading.Event(), 0

    def run(self):
        while not self.over.wait(self.every - 5):
            osd = self.cluster.osds[self.count % len(self.cluster.osds)]
            osd.kill()
            self.count += 1
            self.over.wait(5)
            osd.start()

    def end(self):
        self.over.set()
        self.join()


class Mixed(threading.Thread):
    """A client with keys of its own that puts, gets, lists, deletes and sends parts, and knows what each key must hold."""

    def __init__(self, site, bucket, number, end):
        super().__init__(daemon=True)
        self.site, self.bucket, self.prefix, self.ends = site, bucket, f"c{number}/", end
        self.random, self.holds, self.unsure, self.count, self.wrong, self.late = random.Random(number), {}, {}, 0, None, 0.0

    def ask(self, *words, **more):
        begun = time.monotonic()
        answer = self.site.s3.ask(*words, **more)
        self.late = max(self.late, time.monotonic() - begun)
        return answer

    def change(self, key, value):
        """A put, by parts if it is large, or a deletion. Not answered or refused by the gateway's own fault (5xx): the key has one of two values."""
        path = f"/{self.bucket}/{key}"
        old = {self.holds.get(key)} | self.unsure.pop(key, set())
        self.unsure[key] = old | {value}
        if value is None:
            good = self.ask("DELETE", path, expect=(204, 500, 503)).status == 204
        elif len(value) > 5 << 20:
            begun = self.ask("POST", path, query={"uploads": ""}, expect=(200, 500, 503))
            if begun.status != 200:
                return
            upload, tags = begun.texts("UploadId")[0], []
            for n, piece in enumerate((value[:5 << 20], value[5 << 20:]), 1):
                sent = self.ask("PUT", path, piece, query={"partNumber": n, "uploadId": upload}, expect=(200, 500, 503))
                if sent.status != 200:
                    return
                tags.append(sent.headers["etag"])
            text = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{tag}</ETag></Part>" for n, tag in enumerate(tags, 1))
            good = self.ask("POST", path, f"<CompleteMultipartUpload>{text}</CompleteMultipartUpload>".encode(), query={"uploadId": upload}, expect=(200, 500, 503)).status == 200
        else:
            good = self.ask("PUT", path, value, expect=(200, 500, 503)).status == 200
        if good:
            del self.unsure[key]
            self.holds[key] = value

    def check(self, key):
        answer = self.ask("GET", f"/{self.bucket}/{key}", expect=(200, 404, 500, 503))
        if answer.status in (500, 503):
            return
        got = answer.body if answer.status == 200 else None
        may = {self.holds.get(key)} | self.unsure.get(key, set())
        assert got in may, f"{key} has {len(got) if got is not None else 'no'} bytes, which nobody wrote last; it may have {[v and len(v) for v in may]}"

    def listed(self):
        answer = self.ask("GET", f"/{self.bucket}", query={"prefix": self.prefix}, expect=(200, 500, 503))
        if answer.status == 200:
            found = set(answer.texts("Key"))
            must = {k for k, v in self.holds.items() if v is not None and k not in self.unsure}
            may = must | set(self.unsure)
            assert must <= found <= may, f"the list lacks {sorted(must - found)[:3]} and has {sorted(found - may)[:3]}"

    def run(self):
        try:
            while time.monotonic() < self.ends:
                self.count += 1
                key, dice = f"{self.prefix}{self.random.randrange(40):02}", self.random.random()
                try:
                    if dice < 0.45:
                        size = self.random.choice((10, 4096, 100_000, 100_000, 5 << 20, 6 << 20))
                        self.change(key, self.random.randbytes(size))
                    elif dice < 0.55:
                        self.change(key, None)
                    elif dice < 0.9:
                        self.check(key)
                    else:
                        self.listed()
                except (OSError, http.client.HTTPException):
                    pass
        except AssertionError as e:
            self.wrong = str(e)

    def last(self):
        for key in sorted(set(self.holds) | set(self.unsure)):
            self.check(key)
        self.listed()


def kills(args, directory):
    cluster = processes(args.nacre, directory, 3)
    site = killer = None
    try:
        site = Site(cluster.conf, directory)
        site.s3.ask("PUT", "/storm")
        three_copies(cluster)
        clients = [Mixed(site, "storm", n, time.monotonic() + args.seconds) for n in range(6)]
        killer = Kills(cluster, 20)
        killer.start()
        for client in clients:
            client.start()
        for client in clients:
            client.join(args.seconds + 180)
            assert not client.is_alive(), "a client still waits"
        killer.end()
        took = cluster.healed(180)
        for client in clients:
            assert not client.wrong, client.wrong
            client.last()
        checked = site.gateway.admin("bucket", "check", "--bucket", "storm", "--check-objects", "--fix", expect=None, parse=False)
        print(f"kills: {killer.count} of OSDs under {sum(c.count for c in clients)} operations, longest {max(c.late for c in clients):.1f} s; "
              f"clean {took:.0f} s after the last; {sum(len(c.unsure) for c in clients)} keys were not answered for", flush=True)
        assert isinstance(checked, str)
        for client in clients:
            client.last()
        site.close()
        wrong = cluster.end()
        assert not wrong, wrong
    finally:
        if killer and killer.is_alive():
            killer.end()
        if site:
            site.gateway.stop()
        cluster.kill()


PARTS = {"reshard": reshard, "shard": shard, "garbage": garbage, "full": full, "kills": kills}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--only", nargs="*", choices=sorted(PARTS), default=list(PARTS))
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--entries", type=int, default=300_000)
    parser.add_argument("--seconds", type=int, default=60, help="of `kills`, and of `garbage` at least")
    parser.add_argument("--patience", type=int, default=1800, help="seconds for one change of shards")
    parser.add_argument("--keep", action="store_true", help="leave folders with logs")
    args = parser.parse_args()
    for name in args.only:
        directory = tempfile.mkdtemp(prefix=f"radosgw-{name}-")
        begun = time.monotonic()
        try:
            PARTS[name](args, directory)
        finally:
            if args.keep:
                print(f"{name}: its folder is {directory}")
            else:
                shutil.rmtree(directory, ignore_errors=True)
        print(f"{name}: as it should be ({time.monotonic() - begun:.0f} s)", flush=True)


if __name__ == "__main__":
    sys.exit(main())
