#!/usr/bin/python3
"""Makes each of Ceph's alerts fire that can fire here: a state of a real cluster for each, and a real Prometheus with the rules of Debian's
package (`ceph-prometheus-alerts`), which wait for nothing. docs/operations/alerts.md has the table.

usage: alerts.py --nacre PATH [--dir DIR] [--only PATTERN]
"""
import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time

import rados  # noqa: E402
sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from live import Cluster, free_port  # noqa: E402
from prometheus import Prometheus  # noqa: E402

# Rules about what is not here: CephFS, cephadm, BlueStore, predictions of disks, modules in Python, heartbeats' times; and those of
# node_exporter alone.
NOT_HERE = {
    "CephOSDTimeoutsPublicNetwork", "CephOSDTimeoutsClusterNetwork", "CephOSDInternalDiskSizeMismatch", "CephDeviceFailurePredicted",
    "CephDeviceFailurePredictionTooHigh", "CephDeviceFailureRelocationIncomplete", "CephOSDReadErrors", "CephMgrModuleCrash",
    "CephPGsHighPerOSD", "CephPoolNearFull", "CephadmUpgradeFailed", "CephadmDaemonFailed", "CephadmPaused",
    "CephNodeRootFilesystemFull", "CephNodeNetworkPacketDrops", "CephNodeNetworkPacketErrors", "CephNodeDiskspaceWarning",
    "CephNodeInconsistentMTU",
}
NOT_HERE_BEGIN = "CephFilesystem"
BLOCK = 4096


class Stories:
    """States that are made, and the alerts that must fire meanwhile."""

    def __init__(self, cluster, prometheus, only):
        self.cluster, self.prometheus, self.only = cluster, prometheus, only
        self.fired, self.failed = {}, []

    def tell(self, name, expected, begin, end, seconds=60):
        """`begin` and `end` are commands of `ceph`, or functions."""
        if not re.search(self.only, name):
            return
        started = time.monotonic()
        try:
            self.do(begin)
            seen = set()
            for alert in expected:
                self.prometheus.until(f"{alert} fires", lambda alert=alert: seen.update(self.prometheus.firing()) or alert in seen, seconds)
                self.fired.setdefault(alert, name)
        except AssertionError as e:
            self.failed.append(f"{name}: {e}")
            print(f"  FAILED {name}: {e}", flush=True)
            if self.cluster.running():
                print("   ", self.cluster.run("ceph", "health", "detail").stdout[:1500], flush=True)
        try:
            self.do(end)
        except AssertionError as e:
            self.failed.append(f"after {name}: {e}")
            print(f"  FAILED after {name}: {e}", flush=True)
        print(f"  {name}: {', '.join(sorted(expected))} ({time.monotonic() - started:.0f} s)", flush=True)

    def do(self, steps):
        for step in steps:
            if callable(step):
                step()
            else:
                self.cluster.run("ceph", *step)

    def clean(self):
        """All groups serve and are whole again."""
        self.prometheus.until("all is clean", lambda: not self.prometheus.query("sum(ceph_pg_total) - sum(ceph_pg_clean) > 0"), 90)


def groups(of):
    """What is full, and what does not serve."""
    three, noout = ["0", "1", "2"], [["osd", "set", "noout"]]
    usual = [["osd", "set-full-ratio", "0.95"], ["osd", "set-backfillfull-ratio", "0.9"], ["osd", "set-nearfull-ratio", "0.85"]]
    of.tell("an OSD is down", {"CephHealthWarning", "CephOSDDown", "CephOSDDownHigh", "CephPGsUnclean"},
            [*noout, ["osd", "set", "noup"], ["osd", "down", "0"]], [["osd", "unset", "noup"], ["osd", "unset", "noout"], of.clean])
    of.tell("all OSDs of a host are down", {"CephOSDHostDown"},
            [["osd", "set", "noup"], ["osd", "down", *three]], [["osd", "unset", "noup"], of.clean])
    of.tell("OSDs are nearly full", {"CephOSDNearFull"}, [["osd", "set-nearfull-ratio", "0.000001"]], usual)
    of.tell("OSDs have no room for copies", {"CephOSDBackfillFull", "CephPoolBackfillFull"},
            [["osd", "set-nearfull-ratio", "0.000001"], ["osd", "set-backfillfull-ratio", "0.000002"]], usual)
    of.tell("OSDs are full", {"CephHealthError", "CephOSDFull", "CephPoolFull"},
            [["osd", "set-nearfull-ratio", "0.000001"], ["osd", "set-backfillfull-ratio", "0.000002"], ["osd", "set-full-ratio", "0.000003"]],
            usual)
    of.tell("copies have no room where they are to go", {"CephPGBackfillAtRisk"},
            [["osd", "set-nearfull-ratio", "0.000001"], ["osd", "set-backfillfull-ratio", "0.000002"], ["osd", "out", "0"]],
            [*usual, ["osd", "in", "0"], of.clean])


def recovery_full(of):
    def write():
        with_client(of.cluster, "two", lambda ioctx: [ioctx.write_full(f"r{n}", b"r" * 65536) for n in range(50)])

    of.tell("what a copy missed has no room", {"CephPGRecoveryAtRisk"},
            [["osd", "set", "noup"], ["osd", "set", "norecover"], ["osd", "down", "1"], write, ["osd", "unset", "noup"],
             lambda: of.prometheus.until("osd.1 is up", lambda: of.prometheus.query('ceph_osd_up{ceph_daemon="osd.1"} == 1')),
             ["osd", "set-nearfull-ratio", "0.000001"], ["osd", "set-backfillfull-ratio", "0.000002"], ["osd", "set-full-ratio", "0.000003"],
             ["osd", "unset", "norecover"]],
            [["osd", "set-full-ratio", "0.95"], ["osd", "set-backfillfull-ratio", "0.9"], ["osd", "set-nearfull-ratio", "0.85"], of.clean])


def monitors(of):
    of.tell("a monitor is missing", {"CephMonDown", "CephMonDownQuorumAtRisk"},
            [["mon", "add", "gone", "127.0.0.1:9"]], [["mon", "rm", "gone"]])
    of.tell("a monitor's disk is nearly full", {"CephMonDiskspaceLow"},
            [["config", "set", "mon", "mon_data_avail_crit", "0"], ["config", "set", "mon", "mon_data_avail_warn", "100"]],
            [["config", "rm", "mon", "mon_data_avail_warn"], ["config", "rm", "mon", "mon_data_avail_crit"]])
    of.tell("a monitor's disk is full", {"CephMonDiskspaceCritical"},
            [["config", "set", "mon", "mon_data_avail_crit", "100"]], [["config", "rm", "mon", "mon_data_avail_crit"]])
    # Their clocks are the same one, so no difference may be none.
    of.tell("monitors' clocks differ", {"CephMonClockSkew"},
            [["config", "set", "mon", "mon_clock_drift_allowed", "--", "-1"]], [["config", "rm", "mon", "mon_clock_drift_allowed"]])


def scrubs(of):
    short = [("global", "osd_scrub_min_interval", "1"), ("global", "osd_deep_scrub_interval", "1"), ("global", "mon_scrub_interval", "1"),
             ("global", "mon_warn_pg_not_scrubbed_ratio", "0.01"), ("global", "mon_warn_pg_not_deep_scrubbed_ratio", "0.01"),
             ("global", "osd_scrub_max_interval", "1")]
    of.tell("groups were not scrubbed in time", {"CephPGNotScrubbed", "CephPGNotDeepScrubbed"},
            [["osd", "set", "noscrub"], ["osd", "set", "nodeep-scrub"], *[["config", "set", *one] for one in short]],
            [*[["config", "rm", *one[:2]] for one in short], ["osd", "unset", "noscrub"], ["osd", "unset", "nodeep-scrub"]])


def blocked(of):
    """A group without enough copies, and an operation that waits for them."""
    waiting = []

    def write():
        client = rados.Rados(conffile=of.cluster.conf, rados_id="admin")
        client.connect()
        ioctx = client.open_ioctx("three")
        waiting.append((client, ioctx, ioctx.aio_write_full("waits", b"w")))

    def let_go():
        for client, ioctx, completion in waiting:
            completion.wait_for_complete()
            ioctx.close()
            client.shutdown()

    of.tell("an operation waits for copies, and no OSD is down", {"CephPGUnavilableBlockingIO", "CephPGsInactive", "CephSlowOps", "CephDaemonSlowOps"},
            [["config", "set", "osd", "osd_op_complaint_time", "1"], ["osd", "out", "2"], ["osd", "pool", "create", "three", "8"],
             ["osd", "pool", "set", "three", "size", "3"], ["osd", "pool", "set", "three", "min_size", "3"], write],
            [["osd", "in", "2"], let_go, ["config", "rm", "osd", "osd_op_complaint_time"], of.clean],
            # Groups count as unavailable after a minute.
            seconds=150)


def growth(of):
    def write():
        data = b"g" * (4 << 20)
        with_client(of.cluster, "grows", lambda ioctx: [ioctx.write_full(f"g{n}", data) for n in range(60)])

    def remove():
        with_client(of.cluster, "grows", lambda ioctx: [ioctx.remove_object(f"g{n}") for n in range(60)])

    of.tell("a pool grows fast", {"CephPoolGrowthWarning"}, [["osd", "pool", "create", "grows", "8"], write], [remove])


def flapping(of):
    def until(up):
        of.prometheus.until(f"osd.0 is {'up' if up else 'down'}", lambda: of.prometheus.query(f'ceph_osd_up{{ceph_daemon="osd.0"}} == {up}'))

    # More than once a minute, of five minutes. An OSD that is marked down too often would stay so.
    one = [["osd", "set", "noup"], ["osd", "down", "0"], lambda: until(0), ["osd", "unset", "noup"], lambda: until(1)]
    of.tell("an OSD goes and comes", {"CephOSDFlapping"}, [["config", "set", "osd", "osd_max_markdown_count", "100"], *one * 8],
            [["osd", "unset", "noup"], ["config", "rm", "osd", "osd_max_markdown_count"], of.clean], 90)


def imbalance(of):
    of.tell("groups lie unevenly", {"CephPGImbalance"}, [["balancer", "off"], ["osd", "reweight", "0", "0.1"]],
            [["osd", "reweight", "0", "1"], ["balancer", "on"], of.clean])


def crash(of):
    report = {"crash_id": f"{time.strftime('%Y-%m-%dT%H:%M:%S.000000Z', time.gmtime())}_x", "entity_name": "osd.0",
              "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())}
    path = os.path.join(of.cluster.dir, "crash.json")
    with open(path, "w") as out:
        json.dump(report, out)
    of.tell("a daemon died", {"CephDaemonCrash"}, [["crash", "post", "-i", path]], [["crash", "archive-all"]])


def damage(of):
    """Blocks rot on a disk: a read finds one and mends it from the other copy; a scrub finds the other."""
    cluster = of.cluster
    if not re.search(of.only, "a scrub finds what is damaged; reads were repaired"):
        return

    def content(name):
        return (name.encode() + b"." * 64)[:64] * (BLOCK // 64)

    # Of five objects on three OSDs two are led by one.
    reads = [f"read-{n}" for n in range(5)]
    names = [*reads, "scrubbed"]
    with_client(cluster, "two", lambda ioctx: [ioctx.write_full(name, content(name)) for name in names])
    lead = {name: cluster.ceph("osd", "map", "two", name) for name in names}
    cluster.stop()
    for name, placed in lead.items():
        rot(cluster.dir, placed["acting_primary"], content(name))
    cluster.start()
    of.clean()
    of.tell("a scrub finds what is damaged", {"CephPGsDamaged"},
            [["pg", "deep-scrub", lead["scrubbed"]["pgid"]]], [["pg", "repair", lead["scrubbed"]["pgid"]]])
    of.tell("reads were repaired", {"CephOSDTooManyRepairs"},
            [["config", "set", "global", "mon_osd_warn_num_repaired", "1"],
             lambda: with_client(cluster, "two", lambda ioctx: [ioctx.read(name) for name in reads])],
            [["config", "rm", "global", "mon_osd_warn_num_repaired"]])


def rot(directory, osd, block):
    with open(os.path.join(directory, f"osd.{osd}", "block"), "r+b") as disk:
        at, places = 0, []
        while piece := disk.read(1 << 20):
            places += [at + i for i in range(0, len(piece), BLOCK) if piece[i : i + BLOCK] == block]
            at += len(piece)
        assert places, f"the block is not on the disk of osd.{osd}"
        for place in places:
            disk.seek(place)
            disk.write(bytes([block[0] ^ 0x10]))


def unfound(of):
    """The only copy with the newest state of objects is gone, with its OSD."""
    def write():
        with_client(of.cluster, "two", lambda ioctx: [ioctx.write_full(f"u{n}", b"u") for n in range(40)])

    def knows():
        """osd.1 has heard what it lacks, and may not fetch it."""
        def heard():
            return (of.prometheus.query('ceph_osd_up{ceph_daemon="osd.1"} == 1') and of.prometheus.query("ceph_num_objects_degraded > 0")
                    and of.prometheus.query("sum(ceph_pg_active) == sum(ceph_pg_total)"))
        of.prometheus.until("osd.1 knows what it lacks", heard)

    of.tell("objects are nowhere", {"CephObjectMissing"},
            [["osd", "out", "2"], of.clean, ["osd", "add-noup", "1"], ["osd", "down", "1"], write, ["osd", "set", "norecover"],
             ["osd", "rm-noup", "1"], knows, ["osd", "add-noup", "0"], ["osd", "down", "0"],
             # It would come back as a new one, and bring what it has.
             ["osd", "set", "noup"], ["osd", "lost", "0", "--yes-i-really-mean-it"], ["osd", "purge", "0", "--force", "--yes-i-really-mean-it"],
             ["osd", "unset", "norecover"]],
            [["osd", "unset", "norecover"], ["osd", "unset", "noup"]])


def with_client(cluster, pool, work):
    with rados.Rados(conffile=cluster.conf, rados_id="admin") as client:
        with client.open_ioctx(pool) as ioctx:
            return work(ioctx)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--dir")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="nacre-alerts-", dir=args.dir)
    port, host = free_port(), open("/proc/sys/kernel/hostname").read().strip().split(".")[0]
    cluster = Cluster(os.path.abspath(args.nacre), os.path.join(directory, "c"), "--metrics-port", port, "--osds", 3, "--mons", 3, "--osd-size", "2G")
    prometheus = None
    try:
        cluster.start()
        cluster.run("ceph", "osd", "pool", "create", "two", "16")
        cluster.run("ceph", "osd", "pool", "set", "two", "size", "2")
        cluster.run("ceph", "osd", "pool", "set", "two", "min_size", "1")
        cluster.run("ceph", "osd", "pool", "application", "enable", "two", "rados")
        prometheus = Prometheus(directory, f"127.0.0.1:{port}", host)
        prometheus.until("it is seen", lambda: prometheus.query('up{job="ceph"} == 1'))
        of = Stories(cluster, prometheus, args.only)
        of.clean()
        for story in (groups, recovery_full, monitors, scrubs, blocked, growth, imbalance, crash, flapping, damage, unfound):
            story(of)
        rules = {rule["name"] for group in prometheus.ask("rules")["groups"] for rule in group["rules"]}
        of.tell("the host does not answer", {"CephMgrPrometheusModuleInactive"}, [cluster.stop], [])
        of.tell("nobody is asked", {"PrometheusJobMissing"}, [prometheus.forget], [])
        possible = {rule for rule in rules if rule not in NOT_HERE and not rule.startswith(NOT_HERE_BEGIN)}
        print(f"alerts: {len(of.fired)} of {len(possible)} that can fire did; not: {', '.join(sorted(possible - set(of.fired))) or 'none'}", flush=True)
        assert not of.failed and (args.only or not possible - set(of.fired)), of.failed
        print("alerts: passed", flush=True)
    finally:
        if prometheus:
            prometheus.stop()
        cluster.kill()
        shutil.rmtree(directory, ignore_errors=True)


main()
