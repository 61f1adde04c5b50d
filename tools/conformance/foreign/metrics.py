#!/usr/bin/python3
"""Metrics as those see them who run a cluster: a real Prometheus scrapes one under load, and is asked every query of every panel of Ceph's
boards. Boards and rules are those of Debian's packages; nothing of them is kept here.

 1. text: names with quotation marks, angle brackets and line ends; a real parser takes all of it.
 2. figures: images' counters are exact, pools' are those of `ceph df`, OSDs' those of `perf dump`.
 3. panels: how many are full, in part, empty. Those that cannot be full have their reason below.
 4. rules: all parse; faults make those fire that are about them, and they stop.
 5. doors: a port that is taken is a warning; strangers who say nothing keep nobody out; a module that is off is off.

usage: metrics.py --nacre PATH [--dir DIR] [--seconds N]
"""
import argparse
import glob
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import rados  # noqa: E402
import rbd  # noqa: E402
sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room) for room in ("lib",)]
from live import Cluster, free_port  # noqa: E402
from prometheus import Prometheus, get, samples, value  # noqa: E402

BOARDS = "/etc/grafana/dashboards/ceph-dashboard"
# Boards about parts of Ceph that are not here.
NOT_OURS = ("cephfs", "radosgw")
# A name that must not break a line or a page.
UGLY = 'a"b<c>\\d'
# Queries of panels that have no answer here, and why.
EMPTY = {
    "Pools with Compression": "nothing is compressed",
    "Compression Eligibility": "nothing is compressed",
    "Compression Factor": "nothing is compressed",
}
PARTLY = {
    "OSD Objectstore Types": "counts BlueStore, which is not here, beside what is",
    "OSD Size Summary": "sizes of disks that nobody has",
    "Pool Overview": "columns of compression",
}
RATE = "20s"


class Load(threading.Thread):
    """Writes and reads an image and objects until it is told to stop."""

    def __init__(self, cluster, pool, image):
        super().__init__(daemon=True)
        self.client = rados.Rados(conffile=cluster.conf, rados_id="admin")
        self.client.connect()
        self.ioctx = self.client.open_ioctx(pool)
        self.image, self.stopped, self.failure = rbd.Image(self.ioctx, image), threading.Event(), None

    def run(self):
        data, n = b"x" * 8192, 0
        try:
            while not self.stopped.is_set():
                self.image.write(data, (n % 500) * 8192)
                self.image.read((n % 250) * 8192, 8192)
                self.ioctx.write_full(f"object-{n % 100}", data)
                self.ioctx.read(f"object-{n % 50}")
                n += 1
                time.sleep(0.01)
        except Exception as e:  # noqa: BLE001
            self.failure = e

    def stop(self):
        self.stopped.set()
        self.join()
        self.image.close()
        self.ioctx.close()
        self.client.shutdown()
        assert self.failure is None, self.failure


def fill(expression, pool, image, host):
    """A query without the variables of its board."""
    for name, put in [("job", "ceph"), ("ceph_hosts", host), ("osd_hosts", host), ("mon_hosts", "mon.a"), ("mds_hosts", ""), ("rgw_hosts", ""),
                      ("osd", "osd.0"), ("pool_name", pool), ("pool", pool), ("image", image), ("topk", "15"), ("__rate_interval", RATE)]:
        expression = re.sub(rf"\$\{{?{name}\b\}}?", lambda _, put=put: put, expression)
    return expression


def all_panels():
    """Board, panel and queries of all that concern us."""
    for path in sorted(glob.glob(os.path.join(BOARDS, "*.json"))):
        board = os.path.basename(path)[:-len(".json")]
        if board.startswith(NOT_OURS):
            continue
        rows = [json.load(open(path))]
        while rows:
            row = rows.pop()
            rows.extend(row.get("rows", []))
            rows.extend(row.get("panels", []))
            queries = [target["expr"] for target in row.get("targets", []) if target.get("expr")]
            if queries:
                yield board, row.get("title", "?"), queries


def panels(prometheus, pool, image, host):
    counts, wrong = {"full": 0, "in part": 0, "empty": 0}, []
    for board, title, queries in all_panels():
        answers = [bool(prometheus.query(fill(query, pool, image, host))) for query in queries]
        kind = "full" if all(answers) else "in part" if any(answers) else "empty"
        counts[kind] += 1
        if kind != "full":
            print(f"  {kind:8} {board}: {title}: {PARTLY.get(title) or EMPTY.get(title) or '?'}")
        if kind == "empty" and title not in EMPTY or kind == "in part" and title not in PARTLY:
            wrong.append((board, title, [q for q, a in zip(queries, answers) if not a]))
    print(f"panels: {counts['full']} full, {counts['in part']} in part, {counts['empty']} empty, of {sum(counts.values())}", flush=True)
    assert not wrong, "\n".join(map(str, wrong))
    assert counts["full"] >= 71, counts


def text_and_figures(cluster, port):
    client = rados.Rados(conffile=cluster.conf, rados_id="admin")
    client.connect()
    ioctx = client.open_ioctx("images")
    names = ["disk", UGLY, "line\nend"]
    for name in names:
        rbd.RBD().create(ioctx, name, 64 << 20)
    cluster.run("ceph", "osd", "pool", "create", UGLY, "4")
    for n, name in enumerate(names):
        with rbd.Image(ioctx, name) as image:
            for at in range(50 * (n + 1)):
                image.write(b"y" * 4096, at * 4096)
            for at in range(10):
                image.read(at * 4096, 4096)
    ioctx.close()
    client.shutdown()

    def told():
        found = samples(get(port)[1])
        have = {labels["image"]: v for labels, v in found.get("ceph_rbd_write_ops", [])}
        return found if all(have.get(name, 0) >= 50 * (n + 1) for n, name in enumerate(names)) else None

    found = Prometheus.until(None, "figures of images", told, 60)
    for n, name in enumerate(names):
        of = {"pool": "images", "namespace": "", "image": name}
        # An image's first writes may come as more operations: objects that are not there yet are asked for first.
        assert value(found, "ceph_rbd_write_ops", **of) == 50 * (n + 1), (name, found["ceph_rbd_write_ops"])
        assert value(found, "ceph_rbd_write_bytes", **of) == 50 * (n + 1) * 4096
        assert value(found, "ceph_rbd_read_bytes", **of) == 10 * 4096
        assert value(found, "ceph_rbd_write_latency_count", **of) == 50 * (n + 1)
        assert value(found, "ceph_rbd_write_latency_sum", **of) > 0
    assert any(labels["name"] == UGLY for labels, _ in found["ceph_pool_metadata"])
    kind, text = get(port)
    assert kind == "text/plain; version=0.0.4; charset=utf-8", kind
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    # 3: it would have chosen other names. 1: it cannot read them.
    assert checked.returncode in (0, 3), checked.stderr
    ours = [line for line in checked.stderr.splitlines() if line.startswith("nacre_") and "_sum" not in line and "_count" not in line]
    assert not ours, ours
    print("text and figures of images: as they should be", flush=True)


def same_as_commands(cluster, port):
    """Without load: figures are those of commands."""
    time.sleep(7)
    found, df = samples(get(port)[1]), cluster.ceph("df", "detail")
    for pool in df["pools"]:
        for figure in ("stored", "objects", "bytes_used", "wr", "rd_bytes"):
            assert value(found, f"ceph_pool_{figure}", pool_id=str(pool["id"])) == pool["stats"][figure], (pool["name"], figure)
    # A disk's size is at most what is free on the machine, which others write to meanwhile.
    total = df["stats"]["total_bytes"]
    assert abs(value(found, "ceph_cluster_total_bytes") - total) <= total / 20, total
    perf = cluster.admin("osd.0", "perf", "dump")["osd"]
    assert value(found, "ceph_osd_op_w", ceph_daemon="osd.0") == perf["op_w"]
    labelled = cluster.admin("osd.0", "counter", "dump")["osd"][0]
    assert labelled["labels"] == {} and labelled["counters"]["op_w"] == perf["op_w"]
    assert cluster.admin("osd.0", "counter", "schema")["osd"][0]["counters"]["op_w"]["priority"] == 5
    assert value(found, "ceph_health_status") == {"HEALTH_OK": 0, "HEALTH_WARN": 1, "HEALTH_ERR": 2}[cluster.ceph("health")["status"]]
    print("figures: those of the commands", flush=True)


def rules(cluster, prometheus, directory):
    done = subprocess.run(["promtool", "check", "rules", os.path.join(directory, "rules.yml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    bad = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"] if rule["health"] == "err"]
    assert not bad, bad
    quiet = prometheus.firing()
    fired = set()

    def story(begin, end, expected):
        for command in begin:
            cluster.run("ceph", *command)
        prometheus.until(f"{expected} fire", lambda: fired.update(prometheus.firing()) or expected <= prometheus.firing())
        for command in end:
            cluster.run("ceph", *command)
        prometheus.until(f"{expected} end", lambda: not (expected - quiet) & prometheus.firing())

    cluster.run("ceph", "osd", "pool", "create", "two", "8")
    cluster.run("ceph", "osd", "pool", "set", "two", "size", "2")
    prometheus.until("the pool is clean", lambda: not prometheus.query("sum(ceph_pg_total) - sum(ceph_pg_clean) > 0"))
    quiet |= prometheus.firing()
    story([["osd", "set", "noup"], ["osd", "down", "0"]], [["osd", "unset", "noup"]],
          {"CephHealthWarning", "CephOSDDown", "CephOSDDownHigh", "CephPGsUnclean"})
    story([["osd", "set-nearfull-ratio", "0.0001"]], [["osd", "set-nearfull-ratio", "0.85"]], {"CephOSDNearFull"})
    story([["osd", "set-nearfull-ratio", "0.0001"], ["osd", "set-backfillfull-ratio", "0.0002"], ["osd", "set-full-ratio", "0.0003"]],
          [["osd", "set-full-ratio", "0.95"], ["osd", "set-backfillfull-ratio", "0.9"], ["osd", "set-nearfull-ratio", "0.85"]],
          {"CephHealthError", "CephOSDFull", "CephPoolFull"})
    print(f"rules: all parse; fired: {', '.join(sorted(fired))}", flush=True)


def page(cluster, port):
    """The page as text: what the cluster tells, to those who are here by a name of this host; what changes comes by itself."""
    def ask(path, host="localhost"):
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Host": host})
        return urllib.request.urlopen(request, timeout=30)

    with ask("/") as answer:
        told, policy = answer.read().decode(), answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and len(told) < 200_000, (policy, len(told))
    assert "What is wrong" in told and "osd.2" in told and "a&quot;b&lt;c&gt;\\d" in told and "<c>" not in told, told
    try:
        ask("/", "evil.example").close()
        raise AssertionError("a page of elsewhere gets it")
    except urllib.error.HTTPError as e:
        assert e.code == 403, e
    with ask("/stream") as stream:
        first = json.loads(stream.readline().decode().removeprefix("data: "))
        assert {"head", "wrong", "hosts", "pools"} <= set(first), first.keys()
        stream.readline()
        cluster.run("ceph", "osd", "set", "noout")
        begin = time.monotonic()
        while True:
            line = stream.readline().decode()
            if line.startswith("data: ") and "noout" in json.loads(line.removeprefix("data: ")).get("wrong", ""):
                break
            assert time.monotonic() - begin < 60, "a flag never comes to a page that is open"
        took = time.monotonic() - begin
    cluster.run("ceph", "osd", "unset", "noout")
    print(f"page: {len(told)} bytes; a flag is on it after {took:.1f} s", flush=True)


def doors(nacre, directory, cluster, port):
    second = Cluster(nacre, os.path.join(directory, "second"), "--osds", "1", "--metrics-port", port)
    second.start()
    try:
        assert f"port {port}" in second.said() and "--metrics-port" in second.said(), second.said()
    finally:
        second.stop()
    silent = []
    for _ in range(300):
        silent.append(socket.create_connection(("127.0.0.1", port)))
    deaf = socket.create_connection(("127.0.0.1", port))
    deaf.sendall(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n" * 50)
    begin = time.monotonic()
    while True:
        try:
            get(port)
            break
        except OSError:
            assert time.monotonic() - begin < 60, "strangers who say nothing keep others out"
            time.sleep(0.5)
    print(f"doors: a scrape after {time.monotonic() - begin:.1f} s beside 300 strangers", flush=True)
    for s in [*silent, deaf]:
        s.close()
    assert "9283" in str(cluster.ceph("prometheus", "file_sd_config"))
    assert cluster.ceph("mgr", "services")["prometheus"] == f"http://127.0.0.1:{port}/"
    cluster.run("ceph", "mgr", "module", "enable", "prometheus")
    cluster.run("ceph", "mgr", "module", "disable", "prometheus")
    Prometheus.until(None, "the module is off", lambda: "ceph_health_status" not in samples(get(port)[1]), 60)
    cluster.run("ceph", "mgr", "module", "enable", "prometheus")
    Prometheus.until(None, "the module is on", lambda: "ceph_health_status" in samples(get(port)[1]), 60)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--dir")
    parser.add_argument("--seconds", type=float, default=25, help="of load before panels are asked")
    args = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="nacre-metrics-", dir=args.dir)
    port, host = free_port(), open("/proc/sys/kernel/hostname").read().strip().split(".")[0]
    # One OSD at first: the boards do not show disks that OSDs share.
    cluster = Cluster(os.path.abspath(args.nacre), os.path.join(directory, "c"), "--metrics-port", port, "--osds", 1)
    prometheus = None
    try:
        cluster.start()
        cluster.run("ceph", "config", "set", "mgr", "mgr/prometheus/rbd_stats_pools", "images")
        for pool in ("images", "volumes"):
            cluster.run("ceph", "osd", "pool", "create", pool, "8")
            cluster.run("ceph", "osd", "pool", "application", "enable", pool, "rbd")
        text_and_figures(cluster, port)
        prometheus = Prometheus(directory, f"127.0.0.1:{port}", host)
        load = Load(cluster, "images", "disk")
        load.start()
        time.sleep(args.seconds)
        panels(prometheus, "images", "disk", host)
        load.stop()
        same_as_commands(cluster, port)
        cluster.stop()
        cluster.more[-1] = "3"
        cluster.start()
        rules(cluster, prometheus, directory)
        page(cluster, port)
        doors(os.path.abspath(args.nacre), directory, cluster, port)
        cluster.stop()
        prometheus.until("Prometheus sees that it is gone", lambda: prometheus.query('up{job="ceph"} == 0'))
        print("metrics: passed", flush=True)
    finally:
        if prometheus:
            prometheus.stop()
        cluster.kill()
        shutil.rmtree(directory, ignore_errors=True)


main()
