#!/usr/bin/python3
"""Operations per second of a cluster with one OSD, on a disk that was just filled and on the same disk when it has aged.

The disk is filled to --fill: half of that is a block image, the rest objects of 4 MiB and of 64 KiB. Measured is then,
for --seconds each: reads and writes of 4 KiB at random of the image, a read of the image from one end to the other, new
objects of 4 MiB. Then the disk ages in --rounds rounds by stock clients: `fio` overwrites blocks of 4 KiB of the image at
random (a quarter of its bytes in each round), a third of the objects is removed at random, and others take their place.
It rests for --rest seconds, and is measured again. Beside operations per second stands the processor time of the OSD for
one of them, which a busy machine changes less.

    aged.py --nacre PATH       a cluster of ours: `nacre up` with one OSD
    aged.py --peer SCRIPT      a real Ceph, started and stopped by peer-ceph.sh (BlueStore in a file)
    both may be given: one after the other, in one table. What the first had on the disk is removed before the second
    begins. If one of them fails, the other is shown all the same, and the program ends with 1

--dir needs as much free space as --gib says. If --gib is not given and there is less, the disk has half as many.

The short form (4 GiB filled to 70 %, some ten minutes for both) is --short. Needs fio with its rbd engine, rados, rbd.

usage: aged.py [--nacre PATH] [--peer SCRIPT] [--short] [--gib 16] [--fill 0.85] [--rounds 8] [--seconds 20] [--rest 30]
               [--memory 1G] [--dir DIR] [--json FILE]
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time

import rbd

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from harness import Failed, Place, connect, free_port

MIB = 1 << 20
IMAGE, POOL = "aged", "aged"
# Sizes of objects beside the image.
LARGE, SMALL = 4 * MIB, 64 << 10
PHASES = (
    ("4 KiB read at random", "op"),
    ("4 KiB write at random", "op"),
    ("image from end to end", "MiB"),
    ("new objects of 4 MiB", "op"),
)


class Ours:
    """One process with a monitor and an OSD."""

    name = "nacre"

    def __init__(self, args, base):
        self.folder, port = os.path.join(base, "nacre"), free_port()
        words = [os.path.abspath(args.nacre), "up", "--dir", self.folder, "--osds", "1", "--osd-size", str(args.bytes)]
        words += ["--memory", args.memory, "--port", str(port), "--auth", "none"]
        self.conf, said = os.path.join(self.folder, "ceph.conf"), os.path.join(base, "nacre.out")
        with open(said, "w") as out:
            self.process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT)
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            with open(said) as f:
                if any(line.startswith("ready") for line in f):
                    return
            time.sleep(0.1)
        self.process.kill()
        raise Failed([f"the cluster does not start: {said}"])

    def pids(self):
        return [self.process.pid]

    def died(self):
        """Why clients wait for ever, if the cluster is not there any more."""
        return f"the cluster ended with {self.process.returncode}" if self.process.poll() is not None else None

    def stop(self):
        self.process.terminate()
        self.process.wait(120)


class Peer:
    """A real Ceph. Only its OSD is counted."""

    name = "ceph"

    def __init__(self, args, base):
        self.script, self.folder = args.peer, os.path.join(base, "peer")
        given = {"BLOCK": str(args.bytes), "PEER_PORT": str(free_port()), "EXTRA": f"osd memory target = {args.memory_bytes}"}
        subprocess.run([self.script, "start", "1", self.folder], check=True, env={**os.environ, **given}, stdout=subprocess.DEVNULL)
        self.conf = os.path.join(self.folder, "ceph.conf")

    def pids(self):
        with open(os.path.join(self.folder, "osd.0.pid")) as f:
            return [int(f.read())]

    def died(self):
        try:
            os.kill(self.pids()[0], 0)
            return None
        except (ProcessLookupError, FileNotFoundError):
            with open(os.path.join(self.folder, "log", "osd.0.log"), errors="replace") as f:
                said = [line.strip() for line in f if "allocation failed" in line or "abort_msg" in line]
            return "its OSD died" + (f": {said[0][-160:]}" if said else "")

    def stop(self):
        subprocess.run([self.script, "stop", self.folder], check=True)


class Clients:
    """What stock clients do to a cluster."""

    def __init__(self, args, cluster):
        self.args, self.cluster = args, cluster
        self.random = random.Random(7)
        self.rados = connect(cluster.conf)
        self.command("osd pool create", pool=POOL, pg_num=32, pgp_num=32)
        for var, value in (("pg_autoscale_mode", "off"), ("size", "1"), ("min_size", "1")):
            self.command("osd pool set", pool=POOL, var=var, val=value, yes_i_really_mean_it=True)
        self.command("osd pool application enable", pool=POOL, app="rbd")
        for what, ratio in (("full", 0.97), ("backfillfull", 0.96), ("nearfull", 0.95)):
            self.command(f"osd set-{what}-ratio", ratio=ratio)
        self.io = self.rados.open_ioctx(POOL)
        self.objects, self.next = {}, 0
        self.data = random.Random(1).randbytes(LARGE + MIB)

    def command(self, prefix, **words):
        code, out, text = self.rados.mon_command(json.dumps({"prefix": prefix, "format": "json", **words}), b"")
        if code != 0:
            raise Failed([f"{prefix} {words} ended with {code}: {text}"])
        return json.loads(out) if out.strip() else None

    def fio(self, kind, block, **more):
        """Runs fio on the image; its job."""
        words = {"name": kind, "ioengine": "rbd", "clientname": "admin", "pool": POOL, "rbdname": IMAGE, "rw": kind, "bs": block}
        words |= {"iodepth": 16, "randrepeat": 0, "norandommap": 1, "output-format": "json", **more}
        argv = ["fio", *(f"--{name}={value}" for name, value in words.items())]
        env = {**os.environ, "CEPH_CONF": self.cluster.conf}
        with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
            end = time.monotonic() + (1800 if "runtime" not in more else 300)
            while True:
                try:
                    out, errors = job.communicate(timeout=2)
                    break
                except subprocess.TimeoutExpired:
                    died = self.cluster.died()
                    if died or time.monotonic() > end:
                        job.kill()
                        raise Failed([f"{' '.join(argv)} does not end" + (f", as {died}" if died else "")]) from None
        if job.returncode != 0:
            raise Failed([f"{' '.join(argv)} ended with {job.returncode}: {errors.strip() or out[-400:]}"])
        return json.loads(out[out.index("{"):])["jobs"][0]

    def put(self, size, prefix="object"):
        """Begins to write a new object."""
        name = f"{prefix}.{self.next}"
        self.next += 1
        start = self.random.randrange(MIB)
        return name, self.io.aio_write_full(name, self.data[start:start + size])

    @staticmethod
    def check(completion):
        if completion.get_return_value() < 0:
            raise Failed([f"a write ended with {completion.get_return_value()}: is the disk too small for --fill?"])

    def put_all(self, size, total):
        under_way, left = [], total
        while left > 0 or under_way:
            if left > 0 and len(under_way) < 16:
                under_way.append((*self.put(size), size))
                left -= size
                continue
            name, completion, n = under_way.pop(0)
            completion.wait_for_complete()
            self.check(completion)
            self.objects[name] = n

    def fill(self):
        end = time.monotonic() + 60
        while (free := self.command("df")["stats"]["total_avail_bytes"]) == 0:
            # The OSD has not told yet what it has.
            if time.monotonic() > end:
                raise Failed(["no OSD says how large its disk is"])
            time.sleep(0.5)
        total = int(free * self.args.fill)
        image = total // 2 // LARGE * LARGE
        with_rbd = rbd.RBD()
        with_rbd.create(self.io, IMAGE, image, old_format=False, features=1)
        self.image = image
        self.fio("write", "4M", size=image)
        self.put_all(LARGE, total * 3 // 10)
        self.put_all(SMALL, total - image - total * 3 // 10)

    def age(self):
        for _ in range(self.args.rounds):
            self.fio("randwrite", "4k", size=self.image, io_size=self.image // 4)
            gone = self.random.sample(sorted(self.objects), len(self.objects) // 3)
            freed = sum(self.objects.pop(name) for name in gone)
            pending = [self.io.aio_remove(name) for name in gone]
            for completion in pending:
                completion.wait_for_complete()
            self.put_all(SMALL, freed // 3)
            self.put_all(LARGE, freed - freed // 3 - LARGE)
        time.sleep(self.args.rest)

    def processor(self):
        """Seconds of processor time of what is counted so far."""
        ticks = 0
        for pid in self.cluster.pids():
            with open(f"/proc/{pid}/stat") as f:
                words = f.read().rsplit(")", 1)[1].split()
            ticks += int(words[11]) + int(words[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def measure(self):
        seconds, rows = self.args.seconds, {}

        def one(phase, call):
            before = self.processor()
            begun = time.monotonic()
            n = call()
            took = time.monotonic() - begun
            rows[phase] = {"each_second": n / took, "processor_us": (self.processor() - before) * 1e6 / max(n, 1)}

        timed = {"size": self.image, "runtime": seconds, "time_based": 1}
        one(PHASES[0][0], lambda: self.fio("randread", "4k", **timed)["read"]["total_ios"])
        one(PHASES[1][0], lambda: self.fio("randwrite", "4k", **timed)["write"]["total_ios"])
        one(PHASES[2][0], lambda: self.fio("read", "4M", size=self.image)["read"]["io_bytes"] / MIB)
        one(PHASES[3][0], lambda: self.new_objects(seconds))
        return rows

    def new_objects(self, seconds):
        """Writes objects of 4 MiB for so long, as many as there is room for, and removes them again. Their number."""
        end, names, under_way, done = time.monotonic() + seconds, [], [], 0
        while time.monotonic() < end:
            if len(under_way) < 4:
                name, completion = self.put(LARGE, "measured")
                under_way.append((name, completion))
                continue
            name, completion = under_way.pop(0)
            completion.wait_for_complete()
            self.check(completion)
            names.append(name)
            done += 1
            if len(names) > 4:
                self.io.remove_object(names.pop(0))
        for name, completion in under_way:
            completion.wait_for_complete()
            names.append(name)
            done += 1
        for name in names:
            self.io.remove_object(name)
        return done

    def used(self):
        stats = self.command("df")["stats"]
        return 1 - stats["total_avail_bytes"] / stats["total_bytes"]


def run(args, make, base):
    cluster, start = make(args, base), time.monotonic()

    def tell(what):
        print(f"{make.name}, {time.monotonic() - start:5.0f} s: {what}", file=sys.stderr, flush=True)

    try:
        clients = Clients(args, cluster)
        begun = time.monotonic()
        tell("fills the disk")
        clients.fill()
        tell("measures")
        told = {"used": clients.used(), "filled_s": time.monotonic() - begun, "fresh": clients.measure()}
        begun = time.monotonic()
        tell("ages")
        clients.age()
        tell("measures again")
        told |= {"aged_s": time.monotonic() - begun, "used_aged": clients.used(), "aged": clients.measure()}
        clients.io.close()
        clients.rados.shutdown()
    finally:
        cluster.stop()
    shutil.rmtree(cluster.folder)
    return told


def show(found, args):
    print(f"\ndisk of {args.bytes / (1 << 30):g} GiB, filled to {args.fill:.0%}, {args.rounds} rounds\n")
    names = list(found)
    print("| what | " + " | ".join(f"{n}: fresh, aged, part | {n}: processor µs fresh, aged" for n in names) + " |")
    print("|---|" + "---|---|" * len(names))
    for phase, unit in PHASES:
        cells = []
        for told in found.values():
            fresh, aged = told["fresh"][phase], told["aged"][phase]
            part = aged["each_second"] / max(fresh["each_second"], 1e-9)
            cells.append(f"{fresh['each_second']:,.0f}, {aged['each_second']:,.0f} {unit}/s, {part:.2f}")
            cells.append(f"{fresh['processor_us']:,.0f}, {aged['processor_us']:,.0f}")
        print(f"| {phase} | " + " | ".join(cells) + " |")
    for name, told in found.items():
        print(f"\n{name}: {told['used']:.0%} used when fresh, {told['used_aged']:.0%} aged; filled in {told['filled_s']:.0f} s,"
              f" aged in {told['aged_s']:.0f} s")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(found, f, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nacre")
    parser.add_argument("--peer")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--gib", type=float)
    parser.add_argument("--fill", type=float)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--rest", type=float)
    parser.add_argument("--memory", default="1G")
    parser.add_argument("--dir")
    parser.add_argument("--json")
    args = parser.parse_args()
    if not (args.nacre or args.peer):
        parser.error("--nacre or --peer, or both")
    # BlueStore of 16.2 takes 300 MB for its database, and ends if it finds no other 280 MiB for the journal of that: on 4 GiB filled
    # to 85 % it does within a minute.
    whole = args.gib is None
    short = {"gib": 4, "fill": 0.7, "rounds": 3, "seconds": 8, "rest": 10}
    for name, default in {"gib": 16, "fill": 0.85, "rounds": 8, "seconds": 20, "rest": 30}.items():
        if getattr(args, name) is None:
            setattr(args, name, short[name] if args.short else default)
    place, found, failed = Place(args.dir, "nacre-aged-"), {}, []
    free = shutil.disk_usage(place.path).free
    if whole and free < args.gib * (1 << 30):
        args.gib /= 2
        print(f"{free >> 30} GiB are free in {place.path}: the disk has {args.gib:g} GiB", file=sys.stderr)
    args.bytes = int(args.gib * (1 << 30))
    args.memory_bytes = int(float(args.memory[:-1]) * {"M": MIB, "G": 1 << 30}[args.memory[-1]])
    # Clients wait for a full disk for ever otherwise.
    os.environ["CEPH_ARGS"] = "--rados-osd-op-timeout=120"
    for given, make in ((args.nacre, Ours), (args.peer, Peer)):
        if given:
            try:
                found[make.name] = run(args, make, place.path)
            except Failed as why:
                failed.append(f"{make.name}: {why.args[0] if why.args else 'failed'}")
    if found:
        show(found, args)
    if failed:
        # What it left shows why.
        raise Failed([*failed, f"see {place.path}"])
    place.remove()


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        sys.exit("\n".join(map(str, failed.args[0] if failed.args else ["failed"])))
