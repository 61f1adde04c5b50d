"""Several hosts on one machine: network and UTS namespaces on a bridge, real processes, stock clients.

Three hosts are made by `nacre up`, `nacre token` and `nacre join`. Then wrong tokens are tried, the leader is killed, a host is cut off,
and one direction between two hosts is cut. Commands go on within three seconds, nothing is lost, and all come back. In a second round hosts
join at once, one leaves under load, interrupted once, and one is forgotten; of two hosts, the one with the only voter leaves. In a third one lost monitors are replaced. In a fourth the majority of
the monitors is lost for good, then all, with a backup and without.

    python3 tools/conformance/faults/hosts.py --nacre target/release/nacre [--dir DIR] [--keep]

It needs root; without, it says that it is skipped.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

BRIDGE = "nacre-h0"
NET = "10.211.7"
# The OSDs' own network, in the story about two networks.
BACK = "10.212.7"
# Seconds without a finished command when the leader is lost.
PAUSE = 3.0
# The same for a client of a monitor that does not hear the leader: 2 s to notice, 2 s of patience, and a new session.
MUTE = 5.0
# Seconds until something has happened, at most.
PATIENCE = 40

# Runs in a host's namespace: sets a value again and again, and prints the time of each answer.
COMMANDS = """
import json, os, rados, sys, time
c = rados.Rados(conffile=sys.argv[1])
c.connect(timeout=30)
n = 0
while True:
    n += 1
    cmd = {"prefix": "config-key set", "key": "hosts/" + sys.argv[2], "val": str(n)}
    result, out, status = c.mon_command(json.dumps(cmd), b"")
    print(json.dumps([time.time(), n, result]), flush=True)
"""

# Runs in a host's namespace: writes objects, and prints the number of each that was acknowledged.
WRITES = """
import os, rados, sys
c = rados.Rados(conffile=sys.argv[1])
c.connect(timeout=30)
io = c.open_ioctx("data")
n = int.from_bytes(os.urandom(4), "little") << 20
while True:
    n += 1
    io.write_full(str(n), str(n).encode() * 100)
    print(n, flush=True)
"""

# The same: reads the objects whose numbers come in.
READS = """
import json, rados, sys
c = rados.Rados(conffile=sys.argv[1])
c.connect(timeout=30)
io = c.open_ioctx("data")
wrong = []
for n in json.load(sys.stdin):
    try:
        good = io.read(str(n), 1 << 16) == str(n).encode() * 100
    except rados.Error as e:
        good = False
    if not good:
        wrong.append(n)
print(f"{len(wrong)} are lost: {wrong[:5]}")
sys.exit(1 if wrong else 0)
"""


def run(*argv, check=True, **more):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, **more)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, argv))}: {done.stdout}{done.stderr}")
    return done


def until(what, holds, patience=PATIENCE, tell=lambda: ""):
    """Waits until `holds()` gives something; gives that. `tell()`: what the error adds if it never does."""
    end = time.time() + patience
    while time.time() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"after {patience} s: not {what}{tell()}")


class Host:
    """A host: its namespaces, its address, its folder, its process."""

    def __init__(self, net, number, nacre, base):
        self.net, self.number, self.nacre = net, number, nacre
        self.name = f"host-{chr(ord('a') + number)}"
        self.space = f"nacre-{self.name}"
        self.addr = f"{NET}.{number + 1}"
        self.dir = os.path.join(base, self.name)
        self.process = None
        self.inside, self.outside = f"nh{number}i", f"nh{number}o"
        run("ip", "netns", "add", self.space)
        run("ip", "link", "add", self.outside, "type", "veth", "peer", "name", self.inside)
        run("ip", "link", "set", self.inside, "netns", self.space)
        run("ip", "link", "set", self.outside, "master", BRIDGE, "up")
        self.exec("ip", "addr", "add", f"{self.addr}/24", "dev", self.inside)
        self.exec("ip", "link", "set", self.inside, "up")
        self.exec("ip", "link", "set", "lo", "up")

    def argv(self, *argv):
        """A command in this host's namespaces."""
        hosted = ["unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', self.name]
        return ["ip", "netns", "exec", self.space, *hosted, *map(str, argv)]

    def exec(self, *argv, check=True, timeout=60):
        return run(*self.argv(*argv), check=check, timeout=timeout)

    def begin(self, *argv):
        log = open(f"{self.dir}.out", "a")
        self.process = subprocess.Popen(self.argv(self.nacre, *argv), stdout=subprocess.PIPE, stderr=log, text=True)

    def start(self, *argv):
        """Starts nacre; gives the line that says that it is ready."""
        self.begin(*argv)
        return self.await_ready()

    def await_ready(self):
        line = self.process.stdout.readline()
        if not line.startswith("ready: "):
            raise AssertionError(f"{self.name}: {line or open(f'{self.dir}.out').read()}")
        return line

    def up(self, *argv):
        return self.start("up", "--dir", self.dir, *argv)

    def refused(self, *argv):
        """The sentence with which nacre refuses something."""
        done = self.exec(self.nacre, *argv, check=False)
        if done.returncode == 0:
            raise AssertionError(f"nacre {' '.join(map(str, argv))} is not refused")
        return done.stderr

    def token(self, *argv):
        return self.exec(self.nacre, "token", "--dir", self.dir, *argv).stdout.strip()

    def ceph(self, *argv, check=True, timeout=30):
        conf = os.path.join(self.dir, "ceph.conf")
        return self.exec("timeout", timeout, "ceph", "-c", conf, *argv, check=check, timeout=timeout + 5)

    def rados(self, *argv):
        return self.exec("timeout", 60, "rados", "-c", os.path.join(self.dir, "ceph.conf"), "-p", "data", *argv, timeout=65)

    def json(self, *argv):
        done = self.ceph(*argv, "-f", "json", check=False, timeout=10)
        return json.loads(done.stdout) if done.returncode == 0 and done.stdout.strip() else None

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait(timeout=60)
            self.process = None

    def cut(self):
        run("ip", "link", "set", self.outside, "down")

    def heal(self):
        run("ip", "link", "set", self.outside, "up")

    def mute(self, other):
        """Nothing of this host reaches that one; the other direction works."""
        self.exec("ip", "route", "add", "blackhole", f"{other.addr}/32")

    def unmute(self, other):
        self.exec("ip", "route", "del", "blackhole", f"{other.addr}/32")


class Net:
    """The bridge, and the hosts on it."""

    def __init__(self, nacre, base):
        self.nacre, self.base, self.hosts = nacre, base, []
        # Processes of hosts beside their first one.
        self.others = []
        sweep()
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "link", "set", BRIDGE, "up")

    def host(self):
        self.hosts.append(Host(self, len(self.hosts), self.nacre, self.base))
        return self.hosts[-1]

    def close(self):
        for host in self.hosts:
            if host.process:
                host.kill()
        for process in self.others:
            process.kill()
            process.wait()
        sweep()


def sweep():
    """Removes what an earlier run left."""
    for line in run("ip", "netns", "list").stdout.splitlines():
        if line.startswith("nacre-host-"):
            space = line.split()[0]
            # Clients, too: who is left would hold the lock of this test.
            for pid in run("ip", "netns", "pids", space, check=False).stdout.split():
                run("kill", "-KILL", pid, check=False)
            run("ip", "netns", "del", space, check=False)
    for n in range(9):
        run("ip", "link", "del", f"nh{n}o", check=False)
    run("ip", "link", "del", BRIDGE, check=False)


def monitor_of(host, client):
    """The address of the monitor with which a client, a process of that host, has its session."""
    lines = run("ip", "netns", "exec", host.space, "ss", "-tnpH", "state", "established", "dport", "=", "3300").stdout
    mine = [line.split()[3] for line in lines.splitlines() if f"pid={client.pid}," in line]
    assert len(mine) == 1, f"one session was expected: {mine}"
    return mine[0].split(":")[0]


class Commands:
    """Commands in a loop on a host; knows the longest time without an answer. Its session is not with the monitor of `never`: a stock
    client of a host that vanishes without a word notices that only after `mon_client_ping_timeout`."""

    def __init__(self, host, never=None):
        while True:
            self.begin(host)
            self.monitor = monitor_of(host, self.process)
            if never is None or self.monitor != never.addr:
                return
            self.process.kill()
            self.process.wait()

    def begin(self, host):
        conf = os.path.join(host.dir, "ceph.conf")
        argv = host.argv("/usr/bin/python3", "-c", COMMANDS, conf, host.name)
        # Not a pipe: nobody reads it meanwhile.
        self.out = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(argv, stdout=self.out, stderr=subprocess.DEVNULL, text=True)
        until("a first command done", lambda: os.fstat(self.out.fileno()).st_size > 0)

    def stop(self):
        """The longest pause, when it began, and the number of the last command that was answered."""
        self.process.kill()
        end = time.time()
        self.process.wait()
        self.out.seek(0)
        self.answers = [json.loads(line) for line in self.out if line.endswith("]\n")]
        failed = [a for a in self.answers if a[2] != 0]
        assert not failed, f"commands failed: {failed[:3]}"
        times = [a[0] for a in self.answers] + [end]
        pause, since = max((b - a, a) for a, b in zip(times, times[1:]))
        return pause, since, self.answers[-1][1]


def quorum(host, size):
    """The names in the quorum, if there are so many."""
    status = host.json("quorum_status")
    return status and len(status["quorum_names"]) == size and status


def by_leader(hosts, status):
    """The host of the leader, and the others."""
    mon = next(m for m in status["monmap"]["mons"] if m["name"] == status["quorum_leader_name"])
    addr = mon["addr"].split(":")[0]
    return next(h for h in hosts if h.addr == addr), [h for h in hosts if h.addr != addr]


def osds_up(host, n):
    stat = host.json("osd", "stat")
    return stat and stat["num_up_osds"] == n


def says(sentence, *words):
    for word in words:
        assert word in sentence, f"'{word}' is not in: {sentence}"


def three_copies(host):
    """With three hosts, new pools have three copies, each on another host."""
    host.ceph("osd", "pool", "create", "p", 16)
    pool = until("a pool", lambda: [p for p in host.json("osd", "pool", "ls", "detail") or [] if p["pool_name"] == "p"])[0]
    assert (pool["size"], pool["min_size"]) == (3, 2), f"a new pool has size {pool['size']}, min_size {pool['min_size']}"
    def active():
        pgs = (host.json("pg", "ls-by-pool", "p") or {"pg_stats": []})["pg_stats"]
        return len(pgs) == 16 and all(pg["state"] == "active+clean" for pg in pgs) and pgs

    for pg in until("16 groups clean", active):
        at = {osd // 2 for osd in pg["up"]}
        assert len(at) == 3, f"{pg['pgid']} is on OSDs {pg['up']}, two to a host"
    log = host.ceph("log", "last", 200).stdout
    says(log, "new pools have 3 copies", "different hosts")


def story(net):
    begin = time.time()
    a, b, c, d = (net.host() for _ in range(4))
    hosts = [a, b, c]
    small = ("--osds", 2, "--osd-size", "2G")
    a.up("--bind", a.addr, *small)
    for host in (b, c):
        token = a.token()
        host.start("join", token, "--dir", host.dir, "--bind", host.addr, *small)
        says(d.refused("join", token, "--dir", d.dir, "--bind", d.addr, "--osds", 1), "does not know the token")
    for host in hosts:
        until(f"three monitors and six OSDs, as {host.name} sees it", lambda: quorum(host, 3) and osds_up(host, 6))
        print(f"{host.name}: {host.ceph('mon', 'stat').stdout.strip()}")
    print(f"three hosts after {time.time() - begin:.1f} s")
    tree = a.ceph("osd", "tree").stdout
    says(tree, "host host-a", "host host-b", "host host-c")
    three_copies(a)

    token = a.token("--for", "1s")
    wrong = [(token[:-3] + ("AAA" if token[-3:] != "AAA" else "BBB"), "damaged"), ("hello", "no token")]
    for text, word in wrong:
        says(d.refused("join", text, "--dir", d.dir, "--bind", d.addr, "--osds", 1), word)
    time.sleep(1.5)
    says(d.refused("join", token, "--dir", d.dir, "--bind", d.addr, "--osds", 1), "has ended")
    token = a.token()
    says(b.refused("join", token, "--dir", b.dir, "--bind", b.addr), "joined already")
    says(d.refused("join", token, "--dir", d.dir, "--bind", "127.0.0.1", "--osds", 1), "--bind")
    assert not os.path.exists(d.dir), "a refused join leaves nothing"

    def lost(what, leader, others, hurt, mend, limit=PAUSE):
        """Commands on another host go on while something happens to the leader's host."""
        commands = Commands(others[0], never=leader)
        time.sleep(1)
        hurt()
        began = time.time()
        time.sleep(10)
        pause, since, last = commands.stop()
        kept = int(others[1].ceph("config-key", "get", f"hosts/{others[0].name}").stdout)
        assert kept >= last, f"{what}: command {last} was answered, {kept} is stored"
        print(f"{what} ({leader.name}; a client of {commands.monitor}): {pause:.2f} s without a finished command, from {since - began:+.2f} s on")
        assert pause <= limit, f"{what}: {pause:.2f} s without a finished command"
        mend()
        for host in hosts:
            until(f"{what}: all three again, as {host.name} sees it", lambda: quorum(host, 3))

    leader, others = by_leader(hosts, quorum(a, 3))
    lost("leader killed", leader, others, leader.kill, lambda: leader.up())
    leader, others = by_leader(hosts, quorum(a, 3))

    def cut():
        leader.cut()

    def heal():
        begin = time.time()
        done = leader.ceph("--connect-timeout", "5", "-s", check=False, timeout=20)
        assert done.returncode != 0, "a host that is cut off cannot know the cluster's state"
        print(f"{leader.name}, cut off: `ceph -s` ends after {time.time() - begin:.1f} s")
        leader.heal()

    lost("leader cut off", leader, others, cut, heal)
    leader, others = by_leader(hosts, quorum(a, 3))
    lost("leader mute towards one", leader, others, lambda: leader.mute(others[1]), lambda: leader.unmute(others[1]), MUTE)
    until("all OSDs up", lambda: osds_up(a, 6))
    maintenance(hosts)
    for host in hosts:
        host.stop()


def maintenance(hosts):
    """The OSDs of a host in maintenance stay in while it is down; without, they go out."""
    a, b, c = hosts
    until("all clean", lambda: clean(a))
    a.ceph("config", "set", "mon", "mon_osd_down_out_interval", 5)

    def inside():
        return (a.json("osd", "stat") or {}).get("num_in_osds")

    says(a.ceph("orch", "host", "ok-to-stop", c.name).stdout, f"safe to stop host {c.name}")
    says(a.ceph("orch", "host", "maintenance", "enter", c.name).stdout, f"Host {c.name} moved to maintenance mode")
    says(a.ceph("orch", "host", "ls").stdout, "Maintenance")
    c.stop()
    until("the host's OSDs are down", lambda: osds_up(a, 4))
    until("its monitor is missed", lambda: quorum(a, 2))
    done = a.ceph("orch", "host", "maintenance", "enter", b.name, check=False)
    assert done.returncode != 0, "a second host could stop"
    says(done.stderr, "not enough monitors", "--force")
    time.sleep(10)
    assert inside() == 6, "an OSD of a host in maintenance went out"
    c.up()
    says(a.ceph("orch", "host", "maintenance", "exit", c.name).stdout, "has exited maintenance mode")
    until("all clean again", lambda: osds_up(a, 6) and clean(a))
    c.stop()
    # Not all: three of four OSDs stay in whatever happens (`mon_osd_min_in_ratio`).
    until("an OSD of a host that is not in maintenance goes out", lambda: inside() < 6)
    c.up()
    until("all are back", lambda: osds_up(a, 6) and inside() == 6)
    print("maintenance: OSDs stay in while their host rests")


def health(host, *codes):
    """Whether no other health codes are there than these."""
    found = host.json("health")
    return found and set(found["checks"]) <= set(codes)


def clean(host):
    stat = host.json("pg", "stat")
    states = stat["pg_summary"]["num_pg_by_state"] if stat else []
    return len(states) == 1 and states[0]["name"] == "active+clean"


def changes(net):
    """Hosts come and go: two at once, one leaves, one is gone for ever."""
    a, b, c, d = (net.host() for _ in range(4))
    small = ("--osds", 1, "--osd-size", "4G")
    a.up("--bind", a.addr, *small)
    tokens = [(host, a.token()) for host in (b, c, d)]
    for host, token in tokens:
        host.begin("join", token, "--dir", host.dir, "--bind", host.addr, *small)
    for host, _ in tokens:
        host.await_ready()
    until("three monitors and four OSDs", lambda: quorum(a, 3) and osds_up(a, 4))
    listed = json.loads(a.exec(a.nacre, "host", "ls", "--json", "--dir", a.dir).stdout)
    names = sorted(mon for host in listed for mon in host["mons"])
    assert [h["host"] for h in listed] == [h.name for h in (a, b, c, d)] and names == ["a", "b", "c"], listed
    print(a.exec(a.nacre, "host", "ls", "--dir", a.dir).stdout, end="")
    says(a.ceph("orch", "host", "ls").stdout, "host-d", "4 hosts in cluster")

    a.ceph("osd", "crush", "rule", "create-replicated", "by-host", "default", "host")
    a.ceph("osd", "pool", "create", "data", 16, 16, "replicated", "by-host", "--size", 3)
    until("a pool of three copies", lambda: clean(a))
    blob = os.path.join(net.base, "blob")
    with open(blob, "wb") as f:
        f.write(os.urandom(1 << 20))
    for n in range(64):
        a.rados("put", f"o{n}", blob)

    going = next(h for h in (b, c, d) if any(m in ("b", "c") for m in mons_of(listed, h)))
    rest = [h for h in (a, b, c, d) if h is not going]
    bench = subprocess.Popen(a.argv("timeout", "120", "rados", "-c", f"{a.dir}/ceph.conf", "bench", "-p", "data", "60", "write", "-t", "2",
                                    "-b", "65536", "--no-cleanup"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    says(going.exec(going.nacre, "leave", "--check", "--dir", going.dir).stdout, "can leave")
    first = subprocess.Popen(going.argv(going.nacre, "leave", "--dir", going.dir), stdout=subprocess.PIPE, text=True)
    says(first.stdout.readline(), "their data moves")
    first.kill()
    first.wait()
    begin = time.time()
    said = going.exec(going.nacre, "leave", "--dir", going.dir, timeout=120).stdout
    says(said, "no data depends on", "has left the cluster")
    going.process.wait(timeout=10)
    going.process = None
    print(f"{going.name} left in {time.time() - begin:.1f} s (interrupted once)")
    assert bench.poll() is None, f"the writer ended: {bench.stderr.read()}"
    says(going.refused("up", "--dir", going.dir), "has left its cluster")
    until("all clean without it", lambda: clean(a) and osds_up(a, 3))
    tree = a.ceph("osd", "tree").stdout
    assert going.name not in tree, tree
    for n in range(64):
        a.rados("get", f"o{n}", blob + ".back")
        assert open(blob, "rb").read() == open(blob + ".back", "rb").read(), f"o{n} differs"
    bench.terminate()
    bench.wait()
    # With three copies on three hosts nobody can be spared.
    says(rest[1].refused("leave", "--dir", rest[1].dir), "cannot leave", "places for 3 copies")
    says(a.refused("forget", "--dir", a.dir, rest[2].name), "still runs")

    gone, sure = rest[2], "--yes-i-really-mean-it"
    gone.kill()
    until("the lost host noticed", lambda: osds_up(a, 2))
    why = [""]

    def judged():
        why[0] = a.refused("forget", "--dir", a.dir, gone.name)
        return "SURE" in why[0]

    until("its loss judged", judged, tell=lambda: ": " + why[0])
    a.ceph("osd", "pool", "set", "data", "size", 2)
    until("groups that serve", lambda: served(a))
    until("the end of it", lambda: a.exec(a.nacre, "forget", "--dir", a.dir, gone.name, sure, check=False).returncode == 0)
    # New pools want three copies since there were three hosts, and two OSDs are left.
    until("health without it", lambda: clean(a) and health(a, "POOL_APP_NOT_ENABLED", "TOO_FEW_OSDS"))
    assert gone.name not in a.ceph("osd", "tree").stdout
    for n in range(64):
        a.rados("get", f"o{n}", blob + ".back")
    print(f"{gone.name} was forgotten: {a.ceph('mon', 'stat').stdout.strip()}")
    for host in rest:
        host.stop()


def monitors(net):
    """A monitor that is lost for long is replaced on a host that has none; when it comes back, it knows that."""
    a, b, c, d = hosts = [net.host() for _ in range(4)]
    small = ("--osds", 1, "--osd-size", "4G")
    a.up("--bind", a.addr, *small)
    for host in (b, c, d):
        host.start("join", a.token(), "--dir", host.dir, "--bind", host.addr, *small)
    until("three monitors and four OSDs", lambda: quorum(a, 3) and osds_up(a, 4))
    a.ceph("config", "set", "mon", "mon_replace_after", "3")
    begin = time.time()
    c.kill()
    until("the quorum without it", lambda: quorum(d, 2))
    status = until("a fourth monitor in place of the third", lambda: quorum(a, 3))
    print(f"mon.{status['quorum_names'][2]} replaced a lost one after {time.time() - begin:.1f} s (3 s of them were asked for)")
    addrs = [m["addr"].split(":")[0] for m in status["monmap"]["mons"]]
    assert sorted(addrs) == [a.addr, b.addr, d.addr], addrs
    c.up()
    until("its OSD", lambda: osds_up(c, 4))
    assert quorum(c, 3)["quorum_names"] == status["quorum_names"]
    # It was replaced; now one of the others is lost, and it is the spare host.
    d.kill()
    status = until("the other way round", lambda: (lambda s: s and s["quorum_names"] != status["quorum_names"] and s)(quorum(c, 3)))
    addrs = [m["addr"].split(":")[0] for m in status["monmap"]["mons"]]
    assert sorted(addrs) == [a.addr, b.addr, c.addr], addrs
    for host in hosts:
        host.stop()


def pair(net):
    """Of two hosts, the one whose monitor votes leaves: the other monitor takes its place first."""
    a, b = net.host(), net.host()
    small = ("--osds", 1, "--osd-size", "4G")
    a.up("--bind", a.addr, *small)
    b.start("join", a.token(), "--dir", b.dir, "--bind", b.addr, *small)
    heard = lambda: (lambda s: s and "b" in [m["name"] for m in s["monmap"]["mons"]] and osds_up(a, 2))(a.json("quorum_status"))
    until("two monitors and two OSDs", heard)
    until("leave to go", lambda: "mon.b votes and leads in place of mon.a" in a.exec(a.nacre, "leave", "--check", "--dir", a.dir, check=False).stdout)
    said = a.exec(a.nacre, "leave", "--dir", a.dir, timeout=120).stdout
    says(said, "mon.b is about to vote and lead in place of mon.a", "has left the cluster")
    assert b.json("quorum_status")["quorum_names"] == ["b"]
    a.process.wait(timeout=10)
    a.process = None
    until("the cluster without it", lambda: osds_up(b, 1) and "host-a" not in b.ceph("osd", "tree").stdout)
    assert list(m["name"] for m in b.json("mon", "dump")["mons"]) == ["b"]
    print("host-a, whose monitor voted alone, has left; mon.b leads")
    b.stop()


def networks(net):
    """OSDs with a network of their own: copies go there, heartbeats through both, clients do not. A host that loses it is marked down."""
    a, b, c = hosts = [net.host() for _ in range(3)]
    back = {host: f"{BACK}.{host.number + 1}" for host in hosts}
    small = ("--osds", 1, "--osd-size", "4G")
    for host in hosts:
        host.exec("ip", "addr", "add", f"{back[host]}/24", "dev", host.inside)
    says(a.refused("up", "--dir", a.dir, "--bind", a.addr, "--cluster-bind", "0.0.0.0", *small), "name the one")
    says(a.refused("up", "--dir", a.dir, "--bind", a.addr, "--cluster-bind", "127.0.0.1", *small), "cannot reach")
    a.up("--bind", a.addr, "--cluster-bind", back[a], *small)
    for host in (b, c):
        host.start("join", a.token(), "--dir", host.dir, "--bind", host.addr, "--cluster-bind", back[host], *small)
    until("three OSDs", lambda: quorum(a, 3) and osds_up(a, 3))

    def everywhere():
        for osd in a.json("osd", "dump")["osds"]:
            host = next(host for host in hosts if osd["public_addr"].startswith(f"{host.addr}:"))
            for kind, addr in (("cluster_addr", back[host]), ("heartbeat_back_addr", back[host]), ("heartbeat_front_addr", host.addr)):
                assert osd[kind].startswith(f"{addr}:"), f"osd.{osd['osd']}: {kind} {osd[kind]}"

    def sockets(host):
        """Who is connected to the OSDs of other hosts, by their addresses."""
        lines = run("ip", "netns", "exec", host.space, "ss", "-tnH", "state", "established").stdout.splitlines()
        ends = [line.split()[3].rsplit(":", 1) for line in lines]
        return {addr for addr, port in ends if port.startswith("68") and addr not in (host.addr, back[host])}

    everywhere()
    a.ceph("osd", "pool", "create", "data", 16)
    until("clean", lambda: clean(a))
    writes = Pulse(a, c, WRITERS)
    time.sleep(1)
    # The OSD of host-b has no client beside it: what it has in the clients' network are heartbeats.
    until("heartbeats through both networks", lambda: sockets(b) == {back[a], back[c], a.addr, c.addr}, 20)
    began = time.time()
    c.exec("ip", "addr", "del", f"{back[c]}/24", "dev", c.inside)
    until("the OSD without its network marked down", lambda: osds_up(a, 2))
    print(f"the OSDs' network of a host lost: marked down after {time.time() - began:.1f} s, writes paused for {writes.stop(began):.2f} s")
    c.exec("ip", "addr", "add", f"{back[c]}/24", "dev", c.inside)
    until("all OSDs", lambda: osds_up(a, 3) and clean(a), 90)
    # It is remembered, and given up again.
    c.stop()
    c.up()
    until("its OSD", lambda: osds_up(a, 3))
    everywhere()
    c.stop()
    c.up("--cluster-bind", c.addr)
    back[c] = c.addr
    until("its OSD", lambda: osds_up(a, 3) and clean(a))
    everywhere()
    for host in hosts:
        host.stop()


def flapping(net):
    """A host whose network comes and goes: its OSD waits longer each time, then stays down and says so, until it is restarted."""
    a, b, c = hosts = [net.host() for _ in range(3)]
    small = ("--osds", 1, "--osd-size", "4G")
    a.up("--bind", a.addr, *small)
    for host in (b, c):
        host.start("join", a.token(), "--dir", host.dir, "--bind", host.addr, *small)
    until("three monitors and three OSDs", lambda: quorum(a, 3) and osds_up(a, 3))
    osd = next(h["osds"][0] for h in a.json("nacre", "host", "ls") if h["host"] == c.name)
    a.ceph("osd", "pool", "create", "data", 16, 16, "--size", 3)
    until("a pool of three copies", lambda: clean(a))
    a.ceph("config", "set", "osd", "osd_max_markdown_count", 2)
    writer, times = Writer(a), 0
    said = lambda: "stays down until restarted" in a.ceph("log", "last", 100, "warn", "cluster").stdout
    while not said():
        assert times < 5, f"marked down {times} times, and it still comes back"
        times += 1
        c.cut()
        until(f"its OSD down for the {times}. time", lambda: osds_up(a, 2))
        c.heal()
        until("its OSD back, or a word that it stays down", lambda: osds_up(a, 3) or said())
    begin = time.time()
    while time.time() < begin + 5:
        assert osds_up(a, 2), "it said that it stays down, and came back"
        time.sleep(0.5)
    log = a.ceph("log", "last", 200).stdout
    says(log, f"osd.{osd}", "was marked down 3 times in the last 600 seconds (osd_max_markdown_count is 2): stays down until restarted")
    assert "OSD_DOWN" in a.json("health")["checks"], "the health does not say that an OSD is down"
    c.stop()
    c.up()
    until("its OSD after a restart, and all copies", lambda: osds_up(a, 3) and clean(a))
    holds_all(a, writer.stop())
    print(f"an OSD was marked down {times} times, and stayed down until its restart")
    for host in hosts:
        host.stop()


def drop_monitors(host):
    """The host's monitors are lost: their stores."""
    for name in os.listdir(host.dir):
        store = os.path.join(host.dir, name, "store")
        if name.split(".")[0] == "mon" and os.path.exists(store):
            os.remove(store)


class Writer:
    """Puts objects on a host, one after the other; knows those that were acknowledged, and what is in them."""

    def __init__(self, host):
        self.out = tempfile.TemporaryFile("w+")
        argv = host.argv("/usr/bin/python3", "-c", WRITES, os.path.join(host.dir, "ceph.conf"))
        self.process = subprocess.Popen(argv, stdout=self.out, stderr=subprocess.DEVNULL, text=True)
        until("a first object", lambda: os.fstat(self.out.fileno()).st_size > 0)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.out.seek(0)
        return [int(line) for line in self.out if line.endswith("\n")]


def holds_all(host, written):
    """Every acknowledged object is there, with what was written."""
    argv = host.argv("timeout", "60", "/usr/bin/python3", "-c", READS, os.path.join(host.dir, "ceph.conf"))
    done = subprocess.run(argv, input=json.dumps(written), capture_output=True, text=True)
    assert done.returncode == 0, f"acknowledged objects: {done.stdout}{done.stderr[-500:]}"


def rescue(net):
    """Two of three monitors are lost for good, then all of them, with a backup and without."""
    a, b, c = hosts = [net.host() for _ in range(3)]
    small = ("--osds", 1, "--osd-size", "4G")
    a.up("--bind", a.addr, *small)
    for host in (b, c):
        host.start("join", a.token(), "--dir", host.dir, "--bind", host.addr, *small)
    until("three monitors and three OSDs", lambda: quorum(a, 3) and osds_up(a, 3))
    a.ceph("osd", "pool", "create", "data", 16, 16, "--size", 3)
    a.ceph("osd", "pool", "set", "data", "min_size", 1)
    a.ceph("osd", "pool", "application", "enable", "data", "rbd")
    a.ceph("auth", "add", "client.kept", "mon", "allow r")
    until("a pool of three copies", lambda: clean(a))
    sync = until("times of three clocks", lambda: (lambda s: s and len(s.get("time_skew_status", {})) == 3 and s)(a.json("time-sync-status")))
    assert all(clock["health"] == "HEALTH_OK" for clock in sync["time_skew_status"].values()), sync
    sure = "--yes-i-really-mean-it"
    # The first host asks every few seconds who is there.
    until("the first host knowing of the others", lambda: "[around]" in open(os.path.join(a.dir, "nacre.toml")).read())

    # The majority is lost while somebody writes.
    says(c.refused("mon", "rescue", "--dir", c.dir, sure), "in use by process")
    writer = Writer(c)
    a.kill()
    b.kill()
    written = writer.stop()
    begin = time.time()
    c.stop()
    b.begin("up", "--dir", b.dir)
    until("one that answers", lambda: "a monitor answers at" in c.refused("mon", "rescue", "--dir", c.dir))
    b.kill()
    # The kernel closes the sockets of a killed process's ring a moment after the process ended.
    until("nobody who answers", lambda: "a monitor answers at" not in c.refused("mon", "rescue", "--dir", c.dir))
    says(c.refused("mon", "rescue", "--dir", c.dir), "would go on alone", sure)
    # Without what the others' OSDs know, groups would wait for them.
    files = collected(net, (a, b))
    told = c.exec(c.nacre, "mon", "rescue", "--dir", c.dir, sure, *known(files)).stdout
    says(told, "not in the cluster any more", "(term, index)")
    assert "nodown" not in told, told
    c.up()
    until("groups that serve", lambda: served(c) and osds_up(c, 1))
    holds_all(c, written)
    print(f"rescued after {time.time() - begin:.1f} s; {len(written)} acknowledged objects are there")
    writer = Writer(c)
    time.sleep(1)
    written = sorted({*written, *writer.stop()})
    # The lost hosts come back without their monitors' stores, and get monitors again.
    for host in (a, b):
        drop_monitors(host)
        host.up()
    until("three monitors and three OSDs again", lambda: quorum(c, 3) and osds_up(c, 3))
    until("all copies again", lambda: clean(c))
    holds_all(c, written)

    # All monitors are lost; there is a backup of before more was done.
    backup = os.path.join(net.base, "backup")
    says(a.exec(a.nacre, "mon", "backup", "--dir", a.dir, backup).stdout, "all keys")
    c.ceph("osd", "pool", "create", "later", 8, 8)
    writer = Writer(c)
    time.sleep(1)
    written = sorted({*written, *writer.stop()})
    lose_all(hosts)
    says(c.refused("mon", "restore", backup, "--dir", c.dir), "may know of newer maps")
    files = collected(net, (a, b))
    c.exec(c.nacre, "mon", "restore", backup, "--dir", c.dir, *known(files))
    come_back(hosts)
    assert "later" in c.ceph("osd", "pool", "ls").stdout.split(), "the OSDs knew of a pool that the backup does not have"
    c.ceph("auth", "get", "client.kept")
    holds_all(c, written)

    # There is none.
    lose_all(hosts)
    files = collected(net, (a, b))
    epoch = c.exec(c.nacre, "mon", "rebuild", "--dir", c.dir, *known(files)).stdout
    come_back(hosts)
    holds_all(c, written)
    print(f"restored and rebuilt: {epoch.splitlines()[0]}; {len(written)} acknowledged objects are there")
    for host in hosts:
        host.stop()


def lose_all(hosts):
    for host in hosts:
        host.stop()
    for host in hosts:
        drop_monitors(host)


def collected(net, hosts):
    """What the OSDs of these hosts know, in files."""
    files = [os.path.join(net.base, f"known.{host.name}") for host in hosts]
    for host, path in zip(hosts, files):
        host.exec(host.nacre, "mon", "collect", "--dir", host.dir, path)
    return files


def known(files):
    return [word for path in files for word in ("--known", path)]


def come_back(hosts):
    a, b, c = hosts
    for host in (c, a, b):
        host.up()
    until("three monitors and three OSDs", lambda: quorum(c, 3) and osds_up(c, 3))
    until("all copies", lambda: clean(c))
    flags = c.json("osd", "dump")["flags"]
    assert "nodown" not in flags, flags


def mons_of(listed, host):
    return next(h["mons"] for h in listed if h["host"] == host.name)


def served(host):
    stat = host.json("pg", "stat")
    return stat and all("active" in s["name"] for s in stat["pg_summary"]["num_pg_by_state"])


# Runs in a host's namespace: sets a value of a pool again and again, and prints the time of each answer.
POOL_SETS = COMMANDS.replace(
    'cmd = {"prefix": "config-key set", "key": "hosts/" + sys.argv[2], "val": str(n)}',
    'cmd = {"prefix": "osd pool set", "pool": "data", "var": "min_size", "val": str(1 + n % 2)}',
)
# Several writers at a time: each has one operation under way, on objects of all groups in turn. Prints the time of each answer.
WRITERS = """
import os, rados, sys, threading, time
c = rados.Rados(conffile=sys.argv[1])
c.connect(timeout=30)
def work(n):
    io = c.open_ioctx("data")
    k = 0
    while True:
        k += 1
        io.write_full(f"{n}.{k % 500}", b"x" * 4096)
        os.write(1, f"{time.time():.6f} {n}\\n".encode())
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
for t in threads: t.start()
for t in threads: t.join()
"""


class Pulse:
    """A client whose answers are noted with their times; knows the longest pause of each of its threads. `never`: as for [`Commands`]."""

    def __init__(self, host, never, program, *argv):
        command = host.argv("/usr/bin/python3", "-c", program, os.path.join(host.dir, "ceph.conf"), *argv)
        while True:
            self.out = tempfile.TemporaryFile("w+")
            self.process = subprocess.Popen(command, stdout=self.out, stderr=subprocess.DEVNULL, text=True)
            until("a first answer", lambda: os.fstat(self.out.fileno()).st_size > 0)
            if monitor_of(host, self.process) != never.addr:
                return
            self.process.kill()
            self.process.wait()

    def stop(self, since):
        """The longest time without an answer that ended after `since`, over all threads."""
        assert self.process.poll() is None, "the client ended"
        self.process.kill()
        end = time.time()
        self.process.wait()
        self.out.seek(0)
        by_thread = {}
        for line in self.out:
            if not line.endswith("\n"):
                continue
            if line.startswith("["):
                at, _, result = json.loads(line)
                assert result == 0, f"a command failed: {line}"
                by_thread.setdefault(0, []).append(at)
            else:
                at, n = line.split()
                by_thread.setdefault(int(n), []).append(float(at))
        gaps = lambda times: [b - a for a, b in zip(times, [*times[1:], end]) if b > since]
        return max(max(gaps(times)) for times in by_thread.values())


class Apart:
    """A host's daemons as processes of their own."""

    def __init__(self, host):
        mine = next(h for h in host.json("nacre", "host", "ls") if h["host"] == host.name)
        host.stop()
        self.host, self.name = host, mine["mons"][0]
        self.osds = [self.begin("osd", "--id", osd) for osd in mine["osds"]]
        self.mon = self.begin("mon", "--name", self.name)
        host.net.others += [self.mon, *self.osds]

    def begin(self, *argv):
        argv = self.host.argv(self.host.nacre, *argv, "--dir", self.host.dir)
        return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def restart_mon(self):
        self.mon = self.begin("mon", "--name", self.name)
        self.host.net.others.append(self.mon)

    def end(self):
        for process in (*self.osds, self.mon):
            process.terminate()
            process.wait(timeout=60)


def figures(net):
    """Prints figures of docs/benchmarks.md: three hosts made, a leader killed, a host with leader and primaries cut off."""
    begin = time.time()
    a, b, c = hosts = [net.host() for _ in range(3)]
    small = ("--osds", 2, "--osd-size", "8G")
    a.up("--bind", a.addr, *small)
    for host in (b, c):
        host.start("join", a.token(), "--dir", host.dir, "--bind", host.addr, *small)
    a.ceph("osd", "pool", "create", "data", 32)
    a.ceph("osd", "pool", "application", "enable", "data", "test")
    until("health", lambda: quorum(a, 3) and osds_up(a, 6) and clean(a) and health(a))
    assert next(p for p in a.json("osd", "pool", "ls", "detail") if p["pool_name"] == "data")["size"] == 3
    print(f"three hosts of two OSDs, from built binaries to HEALTH_OK with a pool of three copies: {time.time() - begin:.1f} s")

    def whole():
        for host in hosts:
            until("all again", lambda: quorum(host, 3) and osds_up(host, 6) and clean(host), 90)

    def measured(what, hurt, leader, others, seconds=12):
        """Clients on the other hosts, while something happens to the leader's."""
        commands, writes = Pulse(others[0], leader, POOL_SETS, others[0].name), Pulse(others[1], leader, WRITERS)
        time.sleep(2)
        hurt()
        began = time.time()
        time.sleep(seconds)
        paused = writes.stop(began)
        print(f"{what}: longest time without a finished `ceph osd pool set` {commands.stop(began):.2f} s, of a write {paused:.2f} s")

    apart = {}
    for host in hosts:
        apart[host] = Apart(host)
        whole()
    for _ in range(3):
        leader, others = by_leader(hosts, quorum(a, 3))
        measured("the leader's monitor killed", apart[leader].mon.kill, leader, others, 6)
        apart[leader].restart_mon()
        whole()
    for host in hosts:
        apart[host].end()
        host.up()
        whole()
    for _ in range(3):
        leader, others = by_leader(hosts, quorum(a, 3))
        measured("the leader's host killed", leader.kill, leader, others)
        leader.up()
        whole()
    for _ in range(3):
        leader, others = by_leader(hosts, quorum(a, 3))
        measured("the leader's host cut off", leader.cut, leader, others)
        leader.heal()
        whole()
    for host in hosts:
        host.stop()


# Those that are no tests, but print figures.
FIGURES = {"figures": figures}
def metric(host, name):
    """The value of a metric without labels that a host tells; none if it does not."""
    told = host.exec("curl", "-s", "-m", 20, f"http://{host.addr}:9283/metrics", check=False).stdout
    values = [line.split()[1] for line in told.splitlines() if line.split()[:1] == [name]]
    return float(values[0]) if values else None


def viewed(net):
    """Metrics and the page, on each host, while leaders come and go."""
    hosts = [net.host() for _ in range(3)]
    small = ("--osds", 1, "--osd-size", "2G")
    hosts[0].up("--bind", hosts[0].addr, *small)
    for host in hosts[1:]:
        host.start("join", hosts[0].token(), "--dir", host.dir, "--bind", host.addr, *small)
    status = until("three monitors", lambda: quorum(hosts[0], 3))
    leader, others = by_leader(hosts, status)

    def told_by(alive, one):
        return [metric(host, "ceph_health_status") is not None for host in alive] == [host is one for host in alive]

    until("the cluster's families are told by the leader's host alone", lambda: told_by(hosts, leader))
    for host in hosts:
        assert metric(host, "nacre_picture_age_seconds") is None or host is leader
        page = until(f"a page at {host.name}", lambda: host.exec("curl", "-s", "-m", 20, f"http://{host.addr}:9283/", check=False).stdout)
        says(page, "3 of 3 monitors agree", *(h.name for h in hosts))
    code = others[0].exec("curl", "-s", "-m", 20, "-o", "/dev/null", "-w", "%{http_code}", f"http://{leader.addr}:9283/").stdout
    assert code == "403", f"another host sees the page: {code}"
    leader.kill()
    new, (last,) = by_leader(others, until("two monitors", lambda: quorum(others[0], 2)))
    until("the new leader's host tells them", lambda: told_by(others, new))
    assert metric(new, "nacre_monitors_agree") == 1
    last.kill()
    until("the last picture is told as that", lambda: metric(new, "nacre_monitors_agree") == 0)
    assert metric(new, "ceph_health_status") == 2
    age = metric(new, "nacre_picture_age_seconds")
    until("its age grows", lambda: metric(new, "nacre_picture_age_seconds") > age)
    says(new.exec("curl", "-s", "-m", 20, f"http://{new.addr}:9283/").stdout, "No majority of the monitors")
    last.up()
    until("monitors agree again", lambda: 1 in [metric(host, "nacre_monitors_agree") for host in (new, last)])
    print("metrics and pages follow the leader, and say how old they are without one")


STORIES = {"viewed": viewed, "cuts": story, "changes": changes, "pair": pair, "networks": networks, "flapping": flapping, "monitors": monitors, "rescue": rescue}


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--nacre", default="target/release/nacre")
    args.add_argument("--dir")
    args.add_argument("--keep", action="store_true")
    args.add_argument("--story", action="append", choices={**STORIES, **FIGURES}, help="only this one")
    args = args.parse_args()
    if os.geteuid() != 0 or not all(shutil.which(p) for p in ("ip", "unshare")):
        print("hosts: skipped: network namespaces need root, iproute2 and util-linux")
        return 0
    base = args.dir or tempfile.mkdtemp(prefix="nacre-hosts-")
    for name in args.story or STORIES:
        net = Net(os.path.abspath(args.nacre), os.path.join(base, name))
        os.makedirs(net.base, exist_ok=True)
        try:
            {**STORIES, **FIGURES}[name](net)
        except Exception as e:
            print(f"hosts: {name}: FAILED: {e}\nthe folders are in {net.base}")
            return 1
        finally:
            net.close()
    if not args.keep and not args.dir:
        shutil.rmtree(base)
    print("hosts: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
