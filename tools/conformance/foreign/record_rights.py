#!/usr/bin/python3
"""Which commands a real cluster lets through, for each entity of our table of rights.

usage: record_rights.py CEPH_CONF, of a real 16.2.15 with cephx that is thrown away afterwards:

    AUTH=cephx peer-ceph.sh start 1 /tmp/peer memstore && record_rights.py /tmp/peer/ceph.conf

Entities, their rights and the arguments for which there are grants come from `cores/mon/src/server/rights`. Each entity gives each
command at each place. Arguments of commands that change something are of a wrong type, so that what is let through is refused afterwards
and does nothing; what takes no arguments does what it does. -EACCES means that it was not let through. The answers are written beside our table, where a test of the
monitor compares them. A run goes on where the last one stopped: remove the file, or one entity's signs in it, to begin anew.

Nothing here waits for ever. A monitor that dies of a command, or keeps no change after it, is killed and started again, and that command
stays unasked for that entity.
"""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time

import rados

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../cores/mon/src/server/rights")
# What would end the cluster under test.
LEFT_OUT = {"quorum exit", "quorum enter", "get_command_descriptions"}
# What may end it, or change what later answers depend on: those who may write at the monitors are not asked.
CAREFUL = ("compact", "sync_force", "mgr fail", "fs volume create", "osd set-require", "osd require-osd-release", "telemetry", "osd pause")
WRITERS = {"allow *", "allow rwx", "allow rw", "profile read-write", "profile mon", "profile mgr", "allow service mon rw"}
# Texts, not of a wrong type: asked on a fresh 16.2.15, 'osd new' with a list for `uuid` is refused ("bad or missing field 'uuid'"), and that
# monitor keeps nothing any more until it is started again. With a text that is no uuid, or a wrong `id`, it goes on.
HELD = {"osd new": {"uuid": "zz"}}
# Seconds for an answer.
PATIENCE = 5


def table():
    """Entities with their rights, and the commands of each place, of our table."""
    who, places = [], {}
    for line in open(os.path.join(HERE, "table.txt"), encoding="utf-8"):
        line = line.rstrip("\n")
        if line.startswith("## "):
            commands = places.setdefault(line[3:], [])
        elif line.startswith("# ") and line.split()[1].isdigit():
            mon, mgr = line.split(" mon '", 1)[1].rsplit("'", 1)[0].split("' mgr '")
            who.append((line.split()[2], mon, mgr))
        elif line and not line.startswith("#"):
            commands.append(" ".join(line.split()[3:]))
    return who, places


def value(part, right):
    """A value for a parameter, of its type or not."""
    if part["name"] == "caps":
        # They are read before rights are looked at. An odd number of them is none.
        return ["mon"]
    number = part.get("type") in ("CephInt", "CephFloat", "CephOsdName")
    if not right:
        return "zz" if number else 1.5
    if number:
        return 0
    one = part["strings"].split("|")[0] if "strings" in part else "zz"
    return [one] if part.get("n") else one


class Cluster:
    def __init__(self, conf):
        self.conf = conf
        self.admin = rados.Rados(conffile=conf)
        self.admin.connect()
        self.directory = os.path.dirname(conf)
        self.keyring = os.path.join(self.directory, "rights.keyring")
        open(self.keyring, "w", encoding="utf-8").close()

    def ask(self, command, data=b""):
        """What the administrator is told. The program `ceph` would wait for ever for a monitor that died."""
        answer = in_time(lambda: self.admin.mon_command(json.dumps(command), data, timeout=PATIENCE))
        if answer is None or answer[0]:
            raise SystemExit(f"the administrator's {command}: {answer}")
        return answer[1].decode()

    def entity(self, name, mon, mgr):
        """Gives an entity exactly these rights, and its key to our keyring."""
        key = self.ask({"prefix": "auth get-or-create-key", "entity": name}).strip()
        caps = [word for service, text in (("mon", mon), ("mgr", mgr)) if text for word in (service, text)]
        lines = [f"[{name}]", f"key = {key}"]
        lines += [f'caps {service} = "{text}"' for service, text in zip(caps[::2], (c.replace('"', '\\"') for c in caps[1::2]))]
        self.ask({"prefix": "auth import"}, ("\n".join(lines) + "\n").encode())
        with open(self.keyring, "a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    def monitor(self):
        """The number of the monitor's process, or none if it died. A file that names it may be left."""
        try:
            with open(os.path.join(self.directory, "mon.pid"), encoding="utf-8") as file:
                pid = int(file.read())
            with open(f"/proc/{pid}/cmdline", encoding="utf-8") as line:
                return pid if "ceph-mon" in line.read() else None
        except (OSError, ValueError):
            return None

    def writes(self):
        """Whether the monitor keeps what it is told."""
        put = {"prefix": "config-key set", "key": "zz", "val": str(time.time())}
        answer = in_time(lambda: self.admin.mon_command(json.dumps(put), b"", timeout=PATIENCE))
        return answer is not None and answer[0] == 0

    def revive(self):
        """Starts the monitor again, and ends it before if it still runs."""
        pid = self.monitor()
        while pid and self.monitor() == pid:
            os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
        with open(self.conf, encoding="utf-8") as file:
            address = next(line.split("=", 1)[1].strip() for line in file if line.startswith("mon host"))
        pid = os.path.join(self.directory, "mon.pid")
        subprocess.run(["ceph-mon", "-c", self.conf, "-i", "a", "--public-addrv", address, "--pid-file", pid], check=True, timeout=60)

    def signatures(self, send):
        """Parameters of the commands that somebody knows, by their words."""
        ret, out, why = send(self.admin, {"prefix": "get_command_descriptions"})
        assert ret == 0, why
        found = {}
        for one in json.loads(out).values():
            words = [part if isinstance(part, str) else part["prefix"] if "prefix" in part else None for part in one["sig"]]
            parts = [part for part in one["sig"] if isinstance(part, dict) and part.get("type") != "CephPrefix"]
            prefix = " ".join(w for w in words if w)
            # Monitors of that release die of a wrong type in some that only read, and in those that they print with care.
            right = "w" not in one.get("perm", "rw") or prefix.startswith(("config", "health", "log"))
            parts = [part for part in parts if part["name"] != "format"]
            parts = [part for part in parts if not right or part.get("req") not in (False, "false")]
            held = HELD.get(prefix)
            found[prefix] = held or {part["name"]: value(part, right) for part in parts}
        return found


def to_monitors(client, command):
    return client.mon_command(json.dumps(command), b"", timeout=PATIENCE)


def to_manager(client, command):
    return client.mgr_command(json.dumps(command), b"", timeout=PATIENCE)


def tell_monitor(client, command):
    return client.mon_command(json.dumps(command), b"", timeout=PATIENCE, target="a")


def tell_manager(client, command):
    return client.mgr_command(json.dumps(command), b"", timeout=PATIENCE, target="x")


SENDERS = {
    "to the monitors": to_monitors,
    "to the manager": to_manager,
    "to a monitor itself (tell)": tell_monitor,
    "to the manager itself (tell)": tell_manager,
}


def special(known, prefix):
    """Arguments for which grants by a command's name are made."""
    return known.get(prefix, known["config-key "] if prefix.startswith("config-key ") else [])


def in_time(call):
    """What a call gives, or nothing: some never return, for daemons' names and for who may read nothing."""
    done = []

    def run():
        try:
            done.append(call())
        except rados.Error:
            pass

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(2 * PATIENCE)
    return done[0] if done else None


def let_through(client, send, prefix, args, seen):
    answer = in_time(lambda: send(client, {"prefix": prefix, **args}))
    ret = answer[0] if answer else -errno.ETIMEDOUT
    seen[ret] = seen.get(ret, 0) + 1
    return None if ret == -errno.ETIMEDOUT else ret != -errno.EACCES


def read(version):
    """What an earlier run has written: this one goes on with the others."""
    path, marks, place = os.path.join(HERE, f"ceph-{version}.txt"), {}, ""
    for line in open(path, encoding="utf-8") if os.path.exists(path) else []:
        if line.startswith("## "):
            place = line[3:].rstrip()
        elif line.strip() and not line.startswith("#"):
            signs, prefix = line.rstrip().split("  ", 1)
            marks.update({(n, place, prefix): sign for n, sign in enumerate(signs) if sign != "?"})
    return marks


def write(version, who, places, marks):
    """Writes what is known so far."""
    with open(os.path.join(HERE, f"ceph-{version}.txt"), "w", encoding="utf-8") as file:
        print(f"# What Ceph {version} lets through, of the commands that it has as well. As table.txt: the same entities and signs; ?: not asked.", file=file)
        print("# Recorded by tools/conformance/foreign/record_rights.py.", file=file)
        for n, (name, mon, mgr) in enumerate(who):
            print(f"# {n + 1:>2}  {name:<14} mon '{mon}' mgr '{mgr}'", file=file)
        for place in places:
            print(f"\n## {place}", file=file)
            for prefix in places[place]:
                signs = "".join(marks.get((n, place, prefix), "?") for n in range(len(who)))
                if set(signs) != {"?"}:
                    print(f"{signs}  {prefix}", file=file)


def main():
    cluster = Cluster(os.path.abspath(sys.argv[1]))
    who, places = table()
    known = json.load(open(os.path.join(HERE, "special.json"), encoding="utf-8"))
    signatures = {place: cluster.signatures(send) for place, send in SENDERS.items()}
    version = json.loads(cluster.ask({"prefix": "version", "format": "json"}))["version"].split()[2]
    marks = read(version)
    slow = []
    # Those who may do most come last.
    for n, (name, mon, mgr) in sorted(enumerate(who), key=lambda one: one[1][1] in WRITERS):
        if any(one == n for one, _, _ in marks):
            continue
        real = f"client.x{n}" if name == "client.x" else name
        if not cluster.writes():
            cluster.revive()
        cluster.entity(real, mon, mgr)
        client = rados.Rados(name=real, conf={"keyring": cluster.keyring}, conffile=cluster.conf)
        seen = {}
        if in_time(lambda: client.connect(timeout=PATIENCE) or True) is None:
            print(f"{name} with mon '{mon}' mgr '{mgr}': no session", file=sys.stderr)
            continue
        for place, send in SENDERS.items():
            if name.startswith(("mon.", "mgr.")) and "manager" in place:
                # The manager never answers a stranger of these kinds.
                continue
            for prefix in places[place]:
                if prefix in LEFT_OUT or prefix not in signatures[place]:
                    continue
                if {mon, mgr} & WRITERS and prefix.startswith(CAREFUL):
                    continue
                may = let_through(client, send, prefix, signatures[place][prefix], seen)
                if may is None and not cluster.writes():
                    print(f"the monitor keeps nothing after {prefix} {signatures[place][prefix]} of {name}", file=sys.stderr, flush=True)
                    cluster.revive()
                    continue
                if may is None:
                    slow.append((name, mon, place, prefix))
                    break
                if may:
                    marks[n, place, prefix] = "+"
                else:
                    some = any(let_through(client, send, prefix, args, seen) for args in special(known, prefix))
                    marks[n, place, prefix] = "a" if some else "."
        print(f"{name} with mon '{mon}' mgr '{mgr}': answers {seen}", file=sys.stderr, flush=True)
        write(version, who, places, marks)
    for line in slow:
        print("no answer:", *line, file=sys.stderr)
    # Clients that wait for ever would keep the process.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
