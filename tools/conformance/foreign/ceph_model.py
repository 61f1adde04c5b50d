#!/usr/bin/python3
"""Runs Ceph's model of random operations (ceph_test_rados, built by ceph_suites.py --scripts) on a cluster of processes, as Ceph's own
test clusters run it while daemons die: the profiles below are those of its suite rados/thrash without cache tiers.

The model knows what each object holds, and what it held at each snapshot, and compares what it reads. Faults are those of thrash.py, drawn from a
seed. At the end all must become clean, all copies must be equal, and `nacre fsck --deep` must find nothing.

usage: ceph_model.py --program target/ceph-suites/path/ceph_test_rados --nacre PATH [--quiet] [--ops 4000] [--profiles snaps,pool-snaps]
                     [--seed S] [--acts kill,stop,...] [--every 2] [--out FOLDER]
"""
import argparse
import os
import random
import subprocess
import sys
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib", "faults")]
import model_test
import thrash
from harness import Failed, Place, free_port
from thrash_cluster import Processes

COMMON = {"read": 100, "write": 50, "write_excl": 50, "delete": 50}
SNAPS = COMMON | {"snap_create": 50, "snap_remove": 50, "rollback": 50, "copy_from": 50}
SMALL = ["--objects", "1024", "--size", "16384", "--max-in-flight", "64"]
FEW = ["--objects", "50", "--size", "4000000", "--max-in-flight", "16"]
# Name: arguments and weights of operations.
PROFILES = {
    "snaps": (FEW, SNAPS),
    "pool-snaps": ([*FEW, "--pool-snaps"], SNAPS),
    "snaps-balanced": ([*FEW, "--balance-reads"], SNAPS),
    "snaps-localized": ([*FEW, "--localize-reads"], SNAPS),
    "small": (SMALL, SNAPS | {"setattr": 25, "rmattr": 25}),
    "small-balanced": ([*SMALL, "--balance-reads"], SNAPS | {"setattr": 25, "rmattr": 25}),
    "dontneed": (["--objects", "500", "--size", "400000", "--max-in-flight", "16", "--write-fadvise-dontneed"],
                 {"read": 100, "write": 50, "write_excl": 50, "delete": 10}),
    # Not of the suite: everything at once. Without `writesame` and `watch`, which the program itself has wrong (it wants a length where a client gets 0, and
    # never acknowledges a notify), and which no suite of Ceph uses.
    "all": (["--objects", "100", "--size", "200000", "--max-in-flight", "32"],
            SNAPS | {"setattr": 25, "rmattr": 25, "append": 50, "append_excl": 50}),
}


class Model:
    """One run of the program on a pool of its own."""

    def __init__(self, args, name, processes, out):
        self.name, self.pool = name, f"model-{name}"
        processes.ceph("osd", "pool", "create", self.pool, args.groups, text=True)
        more, weights = PROFILES[name]
        argv = [args.program, "--pool", self.pool, "--max-ops", args.ops, *more]
        for op, weight in weights.items():
            argv += ["--op", op, weight]
        self.log = os.path.join(out, f"{name}.log")
        env = {**os.environ, "CEPH_CONF": processes.conf, "CEPH_CLIENT_ID": "admin"}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([str(a) for a in argv], stdout=log, stderr=log, env=env)
        self.begun = time.monotonic()

    def size(self):
        """How much it said: when that stops growing, it waits."""
        return os.path.getsize(self.log)

    def end(self):
        """What is wrong with how it ended."""
        with open(self.log, errors="replace") as f:
            text = f.read()[-4000:]
        if self.process.returncode == 0 and "\n0 errors." in text:
            return []
        return [f"{self.name} ended with {self.process.returncode}: {text.strip()[-1500:]}"]


def watch(args, model, acts, rng):
    """Faults until the program ends; what is wrong."""
    said, moved, due = 0, time.monotonic(), time.monotonic() + args.every
    while model.process.poll() is None:
        time.sleep(0.1)
        now = time.monotonic()
        if model.size() > said:
            said, moved = model.size(), now
        if now - moved > model_test.STUCK:
            return [f"{model.name} says nothing for {model_test.STUCK} s"]
        if acts and now > due:
            acts.turn(None)
            due = time.monotonic() + rng.uniform(0.2, 2) * args.every
        if acts and acts.test.wrong:
            return []
    return model.end()


def run(args, test, processes, out):
    processes.start()
    processes.healed(60)
    # The pools that thrash.py makes are for its own load; only the defaults that it sets are wanted.
    thrash.make_pools(args, processes)
    pools = [f"model-{name}" for name in args.profiles]
    acts = None if args.quiet else thrash.Acts(args, test, processes, pools)
    rng = random.Random(f"{args.seed}/model")
    for name in args.profiles:
        model = Model(args, name, processes, out)
        if acts:
            acts.pools = [model.pool]
        wrong = watch(args, model, acts, rng)
        if model.process.poll() is None:
            model.process.kill()
        test.wrong += wrong
        print(f"{name}: {'failed' if test.wrong else 'passed'} after {time.monotonic() - model.begun:.0f} s, {test.counts}", flush=True)
        if test.wrong:
            return
        if acts:
            acts.heal()
    if not acts:
        acts = thrash.Acts(args, test, processes, pools)
    if not test.wrong:
        test.wrong += thrash.check_copies(args, acts, processes, pools)
    test.wrong += processes.end()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--quiet", action="store_true", help="no faults")
    parser.add_argument("--ops", type=int, default=4000, help="operations of each profile")
    parser.add_argument("--profiles", type=lambda text: text.split(","), default=list(PROFILES))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--every", type=float, default=2, help="seconds between acts, on average")
    parser.add_argument("--osds", type=int, default=4)
    parser.add_argument("--size", type=int, default=3)
    parser.add_argument("--groups", type=int, default=8, help="of each pool at first")
    parser.add_argument("--most-down", type=int, default=1)
    parser.add_argument("--acts", help="only these kinds, with commas: " + ",".join(thrash.Acts.WEIGHTS))
    parser.add_argument("--bound", type=float, default=120, help="seconds until all must be clean after the last fault")
    parser.add_argument("--out", help="folder for the cluster and the model's words; removed at the end if it is not given and nothing is wrong")
    parser.set_defaults(driver=None, memory=None, lossy=None, auth="cephx")
    return parser.parse_args()


def main():
    args = arguments()
    print(f"--seed {args.seed}", flush=True)
    test, place = model_test.Test(args.seed), Place(args.out, "nacre-model-")
    os.makedirs(place.path, exist_ok=True)
    processes = None
    try:
        processes = Processes(args, place.path, free_port())
        run(args, test, processes, place.path)
    except Failed as failed:
        test.wrong += failed.args[0]
    finally:
        if processes:
            processes.abandon(bool(test.wrong))
    if test.wrong:
        print("\n".join(test.wrong[:40]), f"\nkept in {place.path}")
        return 1
    place.remove()
    print("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
