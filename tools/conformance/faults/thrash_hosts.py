#!/usr/bin/python3
"""The thrasher with hosts as victims: their network, their processes, their power; monitors are among them. See thrash.py.

Hosts are network namespaces on a bridge, as in hosts.py, each with a process of `nacre up`, one OSD and, on three of them, a monitor. The
clients (workers and readers of `model_test.py`, an image, `rados bench`, notifies) stand beside the hosts, on the bridge. Acts are drawn from a seed:

  kill, term, stop   the host's process gets SIGKILL, SIGTERM, SIGSTOP, and starts again or goes on later
  power              as kill; with --lossy, what the host's disk had not flushed is gone
  blackout           the same for all hosts at once
  cut                nothing gets in or out
  mute, deaf         nothing of the host reaches anybody else, clients too; nothing of the others reaches it
  rift               nothing of the host reaches one other
  slow               its link passes some Mbit/s, with a short queue (tbf)
  out, reweight, affinity, split, scrub   as in thrash.py

One host is away at a time (`--most-away`); a slow one is not away. A third of all victims is the host whose monitor leads. Then all faults
end while clients go on: within a bound all monitors form a quorum, all OSDs are up and all placement groups are clean. Models and
copies are compared, and `nacre fsck --deep` checks all stores.

usage: thrash_hosts.py --nacre PATH [--seed S] [--seconds 120] [--hosts 4] [--most-away 1] [--longest 15] [--acts kill,cut,...] [--lossy PATH]
                       [--dir DIR] [--bound 120]
It needs root, and nftables and iproute2; without, it says that it is skipped.
"""
import argparse
import os
import random
import shutil
import subprocess
import sys
import time

import hosts
import thrash
sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from harness import Failed, LossyDisk, Place
from thrash_cluster import Daemon, Processes

# Where the clients are.
CLIENTS = f"{hosts.NET}.254"
# What a host's own table of packets is called.
TABLE = "nacre"
# Seconds until a new cluster is whole.
WHOLE = 60


class Victim(Daemon):
    """A host: its process is the daemon; its network and its disk are taken away and given back."""

    def __init__(self, args, net, base):
        self.host = net.host()
        self.disk = None
        if args.lossy:
            place = os.path.join(base, f"power.{self.host.name}")
            os.makedirs(place)
            self.disk = LossyDisk(args.lossy, place, 300)
            self.host.dir = os.path.join(self.disk.mount, self.host.name)
        super().__init__(self.host.name, self.host.argv(args.nacre, "up", "--dir", self.host.dir), os.path.join(base, f"{self.host.name}.out"))
        self.faults = set()
        self.host.exec("nft", "add", "table", "inet", TABLE)
        for hook in ("input", "output"):
            self.host.exec("nft", f"add chain inet {TABLE} {hook} {{ type filter hook {hook} priority 0; }}")

    def first(self, *argv):
        """The start that makes it; it is stopped cleanly afterwards, and started as a daemon."""
        self.host.start(*argv)
        self.host.stop()
        self.start()

    @property
    def away(self):
        return self.process is None or self.stopped or bool(self.faults - {"slow"})

    def suffer(self, fault, *rules):
        """A fault of the network begins. `rules`: packets that are dropped, as hook and condition."""
        self.faults.add(fault)
        for hook, condition in rules:
            self.host.exec("nft", f"add rule inet {TABLE} {hook} {condition} drop")

    def slow(self, mbit):
        self.faults.add("slow")
        limit = ["root", "tbf", "rate", f"{mbit}mbit", "burst", "64kb", "latency", "200ms"]
        self.host.exec("tc", "qdisc", "replace", "dev", self.host.inside, *limit)
        hosts.run("tc", "qdisc", "replace", "dev", self.host.outside, *limit)

    def mend(self):
        """All of its network is well again."""
        for hook in ("input", "output"):
            self.host.exec("nft", f"flush chain inet {TABLE} {hook}")
        if "cut" in self.faults:
            self.host.heal()
        if "slow" in self.faults:
            self.host.exec("tc", "qdisc", "del", "dev", self.host.inside, "root")
            hosts.run("tc", "qdisc", "del", "dev", self.host.outside, "root")
        self.faults.clear()

    def lose_power(self, seed):
        self.kill()
        if self.disk:
            self.disk.lose(seed)
            self.disk.back()


class Hosts(Processes):
    """The cluster: each daemon is a host."""

    def __init__(self, args, base):
        self.args, self.base, self.disk, self.folder = args, base, None, base
        self.net = hosts.Net(args.nacre, base)
        hosts.run("ip", "addr", "add", f"{CLIENTS}/24", "dev", hosts.BRIDGE)
        self.osds = [Victim(args, self.net, base) for _ in range(args.hosts)]
        self.conf = os.path.join(base, "ceph.conf")

    @property
    def all(self):
        return self.osds

    def begin(self):
        begun = time.monotonic()
        first, *others = self.osds
        size = ("--osds", 1, "--osd-size", "6G", "--auth", self.args.auth)
        first.first("up", "--dir", first.host.dir, "--bind", first.host.addr, *size)
        self.write_conf(first.host)
        for victim in others:
            token = hosts.until("a token", lambda: first.host.exec(self.args.nacre, "token", "--dir", first.host.dir, check=False).stdout.strip())
            victim.first("join", token, "--dir", victim.host.dir, "--bind", victim.host.addr, *size[:4])
        hosts.until("three monitors", lambda: self.voters() == 3, WHOLE)
        self.healed(WHOLE)
        # Links that come and go are what this is about: nobody stays down for it.
        self.ceph("config", "set", "osd", "osd_max_markdown_count", 1000, text=True)
        print(f"{len(self.osds)} hosts after {time.monotonic() - begun:.1f} s", flush=True)

    def write_conf(self, host):
        """The clients' own file: it must not depend on a host, and names all of them, since monitors move."""
        with open(os.path.join(host.dir, "ceph.conf")) as f:
            lines = f.read().splitlines()
        addrs = ",".join(f"v2:{v.host.addr}:3300" for v in self.osds)
        keyring = os.path.join(host.dir, "keyring")
        with open(self.conf, "w") as f:
            for line in lines:
                if line.split("=")[0].strip().replace(" ", "_") == "mon_host":
                    line = f"mon host = {addrs}"
                f.write(line.replace(keyring, os.path.join(self.base, "keyring")) + "\n")
        if os.path.exists(keyring):
            shutil.copy(keyring, self.base)

    def status(self):
        try:
            return self.ceph("quorum_status", check=False, timeout=20) or {}
        except Failed:
            return {}

    def voters(self):
        return len(self.status().get("quorum_names", []))

    def leader(self):
        """The host whose monitor leads, as far as somebody answers."""
        told = self.status()
        mons = told.get("monmap", {}).get("mons", [])
        addr = next((m["addr"].split(":")[0] for m in mons if m["name"] == told.get("quorum_leader_name")), None)
        return next((v for v in self.osds if v.host.addr == addr), None)

    def start(self):
        for victim in self.osds:
            victim.mend()
        super().start()

    def sick(self):
        voters = self.voters()
        return ([] if voters == 3 else [f"{voters} monitors are in the quorum"]) + super().sick()

    def end(self):
        wrong = [w for victim in reversed(self.osds) for w in victim.terminate(60)]
        for victim in self.osds:
            done = subprocess.run([self.args.nacre, "fsck", "--deep", victim.host.dir], capture_output=True, text=True)
            if done.returncode != 0:
                wrong += [f"fsck of {victim.name}: {line}" for line in (done.stdout + done.stderr).splitlines()]
        return wrong

    def abandon(self, keep):
        self.kill()
        for victim in self.osds:
            if victim.disk:
                if keep:
                    victim.disk.back()
                    victim.disk.tell("keep kept")
                victim.disk.close()
        self.net.close()
        return self.base


class HostActs(thrash.Acts):
    """Faults of whole hosts."""

    WEIGHTS = {
        "kill": 12, "term": 6, "stop": 8, "power": 8, "blackout": 3, "cut": 12, "mute": 8, "deaf": 8, "rift": 8, "slow": 8,
        "out": 5, "reweight": 4, "affinity": 4, "split": 3, "scrub": 4,
    }

    def victim(self):
        away = [v for v in self.cluster.osds if v.away]
        there = [v for v in self.cluster.osds if not v.away]
        # Drawn in any case, so that the next choices do not depend on moments.
        leader, chosen, seconds = self.rng.random() < 0.33, self.rng.random(), min(self.args.longest, self.rng.choice([0.0, 1.0, 3.0, 5.0, 8.0, 15.0]))
        if len(away) >= self.args.most_away:
            return None, seconds
        leads = self.cluster.leader() if leader else None
        return (leads if leads in there else there[int(chosen * len(there))]), seconds

    def network(self, what, begin):
        """A fault of a host's network, for some seconds."""
        victim, seconds = self.victim()
        if victim is None:
            return
        begin(victim)
        self.say(f"{what(victim)}, for {seconds} s")

        def mend():
            if victim.faults:
                self.say(f"the network of {victim.name} is well")
                victim.mend()

        self.after(seconds, victim, mend)

    def cut(self):
        def begin(victim):
            victim.suffer("cut")
            victim.host.cut()

        self.network(lambda v: f"{v.name} is cut off", begin)

    def mute(self):
        self.network(lambda v: f"nothing of {v.name} reaches anybody", lambda v: v.suffer("mute", ("output", 'oifname != "lo"')))

    def deaf(self):
        self.network(lambda v: f"nothing reaches {v.name}", lambda v: v.suffer("deaf", ("input", 'iifname != "lo"')))

    def rift(self):
        chosen = self.rng.random()

        def other(victim):
            others = [v for v in self.cluster.osds if v is not victim]
            return others[int(chosen * len(others))]

        self.network(
            lambda v: f"nothing of {v.name} reaches {other(v).name}",
            lambda v: v.suffer("rift", ("output", f"ip daddr {other(v).host.addr}")),
        )

    def slow(self):
        mbit = self.rng.choice([2, 10, 40])
        self.network(lambda v: f"the link of {v.name} passes {mbit} Mbit/s", lambda v: v.slow(mbit))

    def power(self):
        victim, seconds = self.victim()
        seed = self.rng.randrange(1 << 62)
        if victim:
            self.say(f"{victim.name} loses its power, start after {seconds} s")
            victim.lose_power(seed)
            self.after(seconds, victim, self.again(victim))

    def blackout(self):
        seeds = [self.rng.randrange(1 << 62) for _ in self.cluster.osds]
        self.say("all hosts lose their power, and start again")
        for victim in self.cluster.osds:
            victim.kill()
        for victim, seed in zip(self.cluster.osds, seeds):
            victim.lose_power(seed)
            victim.start()


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nacre", required=True, type=os.path.abspath)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--seconds", type=float, default=120, help="of faults; healing and comparing come after them")
    parser.add_argument("--every", type=float, default=2, help="seconds between acts, on average")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--size", type=int, default=3)
    parser.add_argument("--groups", type=int, default=8, help="of each pool at first")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--most-away", type=int, default=1, help="hosts that are killed, stopped or not reached at a time")
    parser.add_argument("--longest", type=float, default=15, help="seconds for which a host is away at most")
    parser.add_argument("--acts", help="only these kinds, with commas: " + ",".join(HostActs.WEIGHTS))
    parser.add_argument("--bound", type=float, default=120, help="seconds until all must be clean after the last fault")
    parser.add_argument("--lossy", type=os.path.abspath, help="path of tools/lossydisk's program: power cuts lose what was not flushed")
    parser.add_argument("--auth", default="cephx")
    parser.add_argument("--dir", type=os.path.abspath)
    args = parser.parse_args()
    args.osds = args.hosts
    return args


def main():
    args = arguments()
    if os.geteuid() != 0 or not all(shutil.which(p) for p in ("ip", "unshare", "nft", "tc")):
        print("thrash-hosts: skipped: network namespaces need root, iproute2, nftables and util-linux")
        return
    place = Place(args.dir, "nacre-thrash-hosts-")
    os.makedirs(place.path, exist_ok=True)
    thrash.judge(args, place, "thrash-hosts", lambda: Hosts(args, place.path), HostActs)


if __name__ == "__main__":
    main()
