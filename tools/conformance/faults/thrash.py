#!/usr/bin/python3
"""Thrashes a cluster of real processes under stock clients, lets it heal, and compares everything with models and all copies with each other.

One monitor and some OSDs, each a process. Acts are drawn from a seed: SIGKILL, SIGSTOP, SIGTERM, all OSDs killed at once, the
monitor killed, OSDs out and in, weights, primary affinities, `size` and `min_size`, more placement groups, deep scrubs.
Meanwhile the workers and readers of `model_test.py` work, an image is written and read, objects of up to 64 MiB are written and copied,
`rados bench` runs, and notifies are sent. Then all faults end while clients go on: all placement groups must become clean within a bound. The models are compared,
each object is read through each OSD that has a copy, and `nacre fsck --deep` checks all stores.

The acts follow from the seed; their moments and the interleaving of clients do not.

usage: thrash.py --nacre PATH [--seed S] [--seconds 120] [--osds 4] [--most-down 1] [--acts kill,stop,...] [--driver uring|epoll]
                 [--memory 512M] [--lossy PATH] [--auth cephx] [--port P] [--dir DIR] [--bound 120]
"""
import argparse
import os
import random
import signal
import sys
import time
import traceback
import types

import rados

import model_test
sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from harness import Failed, Place, free_port
from thrash_cluster import Processes
from thrash_load import Bench, Image, Large, Notifier, unequal

POOLS = ("thrash-rbd", "thrash-bench", "thrash-watch", "thrash-large")
MOST_GROUPS = 32


class Acts:
    """Faults and changes: drawn from a seed, begun, and undone after a while."""

    WEIGHTS = {
        "kill": 20, "stop": 10, "term": 10, "out": 8, "reweight": 5, "affinity": 5, "size": 4, "min_size": 3, "split": 4, "merge": 4,
        "scrub": 5, "mon": 5, "power": 4,
    }

    def __init__(self, args, test, processes, pools):
        self.args, self.test, self.cluster, self.pools = args, test, processes, pools
        self.rng = random.Random(f"{args.seed}/acts")
        self.kinds = {k: w for k, w in self.WEIGHTS.items() if not args.acts or k in args.acts.split(",")}
        self.begun, self.said = time.monotonic(), 0
        # What is to be undone: when, whom it is about, and how.
        self.later = []
        self.changed = set()
        self.groups = dict.fromkeys(pools, args.groups)
        self.sizes = dict.fromkeys(pools, args.size)

    def say(self, sentence):
        self.said += 1
        print(f"{time.strftime('%H:%M:%S')} {time.monotonic() - self.begun:6.1f} s  {sentence}", flush=True)

    def turn(self, _):
        """Undoes what is due, and begins something new."""
        try:
            gone = self.cluster.died()
            if gone:
                raise Failed(gone)
            now = time.monotonic()
            due, self.later = [l for l in self.later if l[0] <= now], [l for l in self.later if l[0] > now]
            for _, _, undo in due:
                undo()
            kind = self.rng.choices(list(self.kinds), list(self.kinds.values()))[0]
            before = self.said
            getattr(self, kind)()
            if self.said > before:
                self.test.count(f"acts of kind {kind}")
        except Failed as failed:
            self.failed(failed)

    def failed(self, failed):
        """A finding: said at once, since what waits for the cluster may take long to end."""
        for sentence in failed.args[0]:
            print(sentence, flush=True)
            self.test.fail(sentence)

    def after(self, seconds, victim, undo):
        self.later.append((time.monotonic() + seconds, victim, undo))

    def order(self, *words):
        """A command: said, and carried out if the monitor can."""
        self.say("ceph " + " ".join(map(str, words)))
        self.cluster.ceph(*words, text=True)

    def victim(self):
        """An OSD that runs, if not too many are away already."""
        away = [osd for osd in self.cluster.osds if osd.process is None or osd.stopped]
        there = [osd for osd in self.cluster.osds if osd not in away]
        # Drawn in any case, so that the next choices do not depend on moments.
        chosen, seconds = self.rng.random(), self.rng.choice([0.0, 0.5, 2.0, 4.0, 8.0, 15.0])
        return (None if len(away) >= self.args.most_down else there[int(chosen * len(there))]), seconds

    def kill(self):
        osd, seconds = self.victim()
        if osd:
            self.say(f"SIGKILL {osd.name}, start after {seconds} s")
            osd.kill()
            self.after(seconds, osd, self.again(osd))

    def again(self, osd):
        def start():
            if osd.process is None:
                self.say(f"start {osd.name}")
                osd.start()

        return start

    def term(self):
        osd, seconds = self.victim()
        if osd:
            self.say(f"SIGTERM {osd.name}, start after {seconds} s")
            wrong = osd.terminate(30)
            if wrong:
                raise Failed(wrong)
            self.after(seconds, osd, self.again(osd))

    def stop(self):
        osd, seconds = self.victim()
        if osd:
            self.say(f"SIGSTOP {osd.name} for {seconds} s")
            osd.stop()

            def go_on():
                if osd.stopped:
                    self.say(f"SIGCONT {osd.name}")
                    osd.go_on()

            self.after(seconds, osd, go_on)

    def power(self):
        self.say("power: SIGKILL to all daemons, all start again" if self.cluster.disk else "SIGKILL to all OSDs, all start again")
        seed = self.rng.randrange(1 << 62)
        if self.cluster.disk:
            return self.cluster.power(seed)
        for osd in self.cluster.osds:
            osd.kill()
        self.cluster.start()

    def mon(self):
        seconds = self.rng.choice([0.0, 1.0, 3.0])
        self.say(f"SIGKILL mon, start after {seconds} s")
        self.cluster.mon.kill()
        # Commands need it: nothing else is begun meanwhile.
        time.sleep(seconds)
        self.cluster.mon.start()

    def out(self):
        osd, seconds = self.rng.randrange(self.args.osds), self.rng.choice([3, 10, 20])
        self.order("osd", "out", osd)
        self.after(seconds, None, lambda: self.order("osd", "in", osd))

    def reweight(self):
        self.weigh("reweight", self.rng.randrange(self.args.osds), self.rng.choice([0.3, 0.6, 0.9, 1.0]))

    def weigh(self, what, osd, weight):
        self.changed.add((what, osd))
        self.order("osd", what, osd, weight)

    def affinity(self):
        self.weigh("primary-affinity", self.rng.randrange(self.args.osds), self.rng.choice([0, 0.5, 1]))

    def size(self):
        pool, size = self.rng.choice(self.pools), self.rng.choice([2, 3])
        self.order("osd", "pool", "set", pool, "size", size)
        self.sizes[pool] = size

    def min_size(self):
        pool, size = self.rng.choice(self.pools), self.rng.choice([1, 2])
        # One copy may be acknowledged only where no second one is needed to find it again: with all OSDs back, it is there.
        self.order("osd", "pool", "set", pool, "min_size", min(size, self.sizes[pool]))

    def split(self):
        pool, more = self.rng.choice(self.pools), self.rng.choice([1, 2, 4])
        self.groups[pool] = min(self.groups[pool] + more, MOST_GROUPS)
        self.order("osd", "pool", "set", pool, "pg_num", self.groups[pool])

    def merge(self):
        pool, fewer = self.rng.choice(self.pools), self.rng.choice([1, 2, 4])
        self.groups[pool] = max(self.groups[pool] - fewer, 1)
        self.order("osd", "pool", "set", pool, "pg_num", self.groups[pool])

    def scrub(self):
        osd = self.rng.randrange(self.args.osds)
        try:
            self.order("osd", "deep-scrub", osd)
        except Failed as failed:
            # An OSD that is down cannot be told, as in Ceph.
            if "EAGAIN" not in str(failed):
                raise

    def heal(self):
        """Ends all faults and waits until all is clean, while clients go on."""
        try:
            self.say("all faults end")
            self.cluster.start()
            self.order("osd", "in", *range(self.args.osds))
            for what, osd in sorted(self.changed):
                self.order("osd", what, osd, 1)
            self.say(f"clean after {self.cluster.healed(self.args.bound):.1f} s")
        except Failed as failed:
            self.failed(failed)


def make_pools(args, processes):
    """Pools of the model are made by the model itself, so the defaults are set, too."""
    for name, value in (
        ("osd_pool_default_size", args.size),
        ("osd_pool_default_min_size", args.size - 1),
        ("osd_pool_default_pg_num", args.groups),
        ("osd_pool_default_pgp_num", args.groups),
        ("osd_pool_default_pg_autoscale_mode", "off"),
        ("mon_allow_pool_delete", "true"),
    ):
        processes.ceph("config", "set", "global", name, value, text=True)
    for pool in POOLS:
        processes.ceph("osd", "pool", "create", pool, args.groups, text=True)
    processes.ceph("osd", "pool", "application", "enable", POOLS[0], "rbd", text=True)


def scrubbed(processes, seconds):
    """A deep scrub of everything; gives what it found."""
    before = {g["pgid"]: g["last_deep_scrub_stamp"] for g in processes.groups()}
    for osd in range(processes.args.osds):
        processes.ceph("osd", "deep-scrub", osd, text=True)
    end = time.monotonic() + seconds
    while True:
        groups = processes.groups()
        bad = [f"{g['pgid']} is {g['state']} after a deep scrub" for g in groups if "inconsistent" in g["state"]]
        late = [f"{g['pgid']} was not scrubbed within {seconds} s" for g in groups if g["last_deep_scrub_stamp"] == before.get(g["pgid"])]
        if bad or not late:
            return bad
        if time.monotonic() > end:
            return late[:10]
        time.sleep(0.5)


def operations(processes, seconds):
    """No OSD keeps an operation, and each tells of a write whom it waited for longest; what is wrong."""
    end = time.monotonic() + seconds
    osds = range(processes.args.osds)
    while True:
        kept = {osd: processes.ceph("tell", f"osd.{osd}", "dump_ops_in_flight")["ops"] for osd in osds}
        wrong = [f"osd.{osd} keeps {op['description']}: {op['type_data']['flag_point']}" for osd in osds for op in kept[osd]]
        if not wrong or time.monotonic() > end:
            break
        time.sleep(0.5)
    for osd in osds:
        ops = processes.ceph("tell", f"osd.{osd}", "dump_historic_ops")["ops"]
        told = [op["type_data"]["waited_longest_for"] for op in ops if "waited_longest_for" in op["type_data"]]
        if ops and told and not any({"network", "queue", "journal"} <= set(longest) for longest in told):
            wrong.append(f"osd.{osd} does not say where a copy spent its time: {told}")
        if any(longest["osd"] not in osds or longest["osd"] == osd for longest in told):
            wrong.append(f"osd.{osd} names copies that there are not: {told}")
    if not any(processes.ceph("tell", f"osd.{osd}", "perf", "dump", "osd")["osd"]["subop_w"] for osd in osds):
        wrong.append("no OSD has counted a write of another one")
    return wrong


def check_copies(args, acts, processes, pools):
    """Everything is at rest: what is wrong with the copies, and with the stores."""
    wrong = scrubbed(processes, min(args.bound, 30))
    acts.say("deep scrub over")
    objects, unlike = unequal(processes, pools, args.bound)
    acts.say(f"{objects} objects read from all copies")
    wrong += unlike + ([] if objects else ["no object was compared"])
    wrong += operations(processes, 30)
    return wrong + processes.died()


def thrash(args, test, processes, kinds):
    """The whole run; what is wrong is in `test`. `kinds`: the class of acts."""
    processes.begin()
    make_pools(args, processes)
    acts = kinds(args, test, processes, [*POOLS, *model_test.pools(args)])
    image, bench = Image(test, processes.conf, POOLS[0]), Bench(test, processes.conf, POOLS[1])
    large = Large(test, processes.conf, POOLS[3])
    beside = [image, bench, large, Notifier(test, processes.conf, POOLS[2])]
    for thread in beside:
        thread.start()
    model = types.SimpleNamespace(seed=args.seed, workers=args.workers, seconds=args.seconds, every=args.every)

    pools, _ = model_test.work(model, test, processes.conf, acts.turn, acts.heal)
    test.stopping.set()
    for thread in beside:
        thread.join(1 if test.wrong else model_test.STUCK)
        if thread.is_alive() and not test.wrong:
            test.fail(f"{type(thread).__name__} still waits for an answer")
    bench.end()
    if test.wrong:
        return
    image.verify()
    large.verify()
    acts.say("models compared")
    test.wrong += check_copies(args, acts, processes, [*pools, *POOLS])
    test.wrong += processes.end()


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--seconds", type=float, default=120, help="of faults; healing and comparing come after them")
    parser.add_argument("--every", type=float, default=2, help="seconds between acts, on average")
    parser.add_argument("--osds", type=int, default=4)
    parser.add_argument("--size", type=int, default=3)
    parser.add_argument("--groups", type=int, default=8, help="of each pool at first")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--most-down", type=int, default=1, help="OSDs that are killed or stopped at a time")
    parser.add_argument("--acts", help="only these kinds, with commas: " + ",".join(Acts.WEIGHTS))
    parser.add_argument("--bound", type=float, default=120, help="seconds until all must be clean after the last fault")
    parser.add_argument("--driver", choices=["uring", "epoll"])
    parser.add_argument("--memory", help="ceiling of each OSD, as 512M")
    parser.add_argument("--lossy", help="path of tools/lossydisk's program: power cuts lose what was not flushed")
    parser.add_argument("--auth", default="cephx")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--dir")
    return parser.parse_args()


def judge(args, place, name, make, kinds):
    """Runs it on the cluster that `make` gives, says what came of it, and ends the program."""
    test = model_test.Test(args.seed)
    print(f"{name} with --seed {args.seed}", flush=True)
    # Whoever ends the test ends what it started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    processes = None
    try:
        processes = make()
        thrash(args, test, processes, kinds)
    except Failed as failed:
        test.wrong += failed.args[0]
    except KeyboardInterrupt:
        test.wrong.append("the test was interrupted")
    except (rados.Error, AssertionError) as e:
        test.wrong.append(f"the test itself ended with {type(e).__name__}: {e}\n{traceback.format_exc()}")
    finally:
        folder = processes.abandon(bool(test.wrong)) if processes else place.path
    print(", ".join(f"{n} {what}" for what, n in sorted(test.counts.items())))
    if test.wrong:
        print("\n".join(test.wrong[:40]))
        again = [a for i, a in enumerate(sys.argv) if a != "--seed" and sys.argv[i - 1] != "--seed"]
        print(f"FAILED; to try again: {' '.join(again)} --seed {args.seed}\nthe cluster is in {folder}, what its daemons said in {place.path}")
    else:
        place.remove()
        print(f"{name}: passed")
    sys.stdout.flush()
    # Threads of librados may wait for a server that is gone.
    os._exit(1 if test.wrong else 0)


def main():
    args = arguments()
    place = Place(args.dir, "nacre-thrash-")
    os.makedirs(place.path, exist_ok=True)
    judge(args, place, "thrash", lambda: Processes(args, place.path, args.port or free_port()), Acts)


if __name__ == "__main__":
    main()
