"""A cluster of processes, one monitor and some OSDs in one folder, whose daemons are killed, stopped and started one by one."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
import types

from harness import Failed, LossyDisk, Place, Server, asked, free_port

# Health codes that may not be left when all faults are over.
SICK = {
    "OSD_DOWN", "PG_AVAILABILITY", "PG_DEGRADED", "PG_DAMAGED", "OSD_SCRUB_ERRORS", "OBJECT_UNFOUND", "OBJECT_MISPLACED",
    "PG_RECOVERY_FULL", "PG_BACKFILL_FULL", "SLOW_OPS", "OSD_TOO_MANY_REPAIRS",
}
# Parts of a state of a placement group that do no harm.
HARMLESS = {"active", "clean", "scrubbing", "deep", "snaptrim", "snaptrim_wait"}


class Daemon:
    """One process: started again under the same name, its words kept in one file."""

    def __init__(self, name, argv, log):
        self.name, self.argv, self.log = name, argv, log
        self.process, self.stopped = None, False

    def start(self):
        with open(self.log, "a") as log:
            log.write(f"--- {time.strftime('%H:%M:%S')} start of {self.name}\n")
            log.flush()
            self.process = subprocess.Popen(self.argv, stdout=log, stderr=log)
        self.stopped = False

    def send(self, number):
        if self.process is not None:
            self.process.send_signal(number)

    def kill(self):
        """SIGKILL, and waits for the end. It ends a stopped process, too."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process, self.stopped = None, False

    def terminate(self, seconds):
        """SIGTERM; gives what is wrong with the end. A process that does not serve yet may end by the signal itself."""
        with open(self.log, errors="replace") as f:
            serves = "ready" in f.read().rpartition("--- ")[2]
        self.process.terminate()
        try:
            code = self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return [f"{self.name} did not end within {seconds} s after SIGTERM"]
        self.process = None
        good = code == 0 or code == -signal.SIGTERM and not serves
        return [] if good else [f"{self.name} ended with {code} after SIGTERM: {self.said()}"]

    def stop(self):
        self.send(signal.SIGSTOP)
        self.stopped = True

    def go_on(self):
        self.send(signal.SIGCONT)
        self.stopped = False

    def died(self):
        """What is to be said if it ended though nobody asked it to."""
        if self.process is None or self.process.poll() is None:
            return []
        return [f"{self.name} ended by itself with {self.process.returncode}: {self.said()}"]

    def said(self):
        with open(self.log, errors="replace") as f:
            return f.read()[-3000:]


class Processes:
    """The daemons of a cluster."""

    def __init__(self, args, base, port):
        self.args, self.port = args, port
        self.disk = LossyDisk(args.lossy, base, 300) if args.lossy else None
        self.folder = os.path.join(self.disk.mount if self.disk else base, "cluster")
        self.make()
        # The clients' own copy: they must not depend on a disk without power.
        self.conf = os.path.join(base, "ceph.conf")
        with open(os.path.join(self.folder, "ceph.conf")) as f:
            text = f.read().replace(os.path.join(self.folder, "keyring"), os.path.join(base, "keyring"))
        with open(self.conf, "w") as f:
            f.write(text)
        if os.path.exists(os.path.join(self.folder, "keyring")):
            shutil.copy(os.path.join(self.folder, "keyring"), base)
        driver = ["--driver", args.driver] if args.driver else []
        memory = ["--memory", args.memory] if args.memory else []
        mon = [args.nacre, "mon", "--dir", self.folder, "--port", str(port), "--auth", args.auth, *driver]
        self.mon = Daemon("mon", mon, os.path.join(base, "mon.out"))
        self.osds = []
        for osd in range(args.osds):
            argv = [args.nacre, "osd", "--dir", self.folder, "--id", str(osd), *driver, *memory]
            self.osds.append(Daemon(f"osd.{osd}", argv, os.path.join(base, f"osd.{osd}.out")))

    def make(self):
        """The first start makes all stores, in one process."""
        server = Server(self.args.nacre, self.folder, self.port, self.args.osds, self.args.auth)
        server.start()
        server.stop()

    @property
    def all(self):
        return [self.mon, *self.osds]

    def start(self):
        for daemon in self.all:
            if daemon.stopped:
                daemon.go_on()
            elif daemon.process is None:
                daemon.start()

    def begin(self):
        """Starts all daemons, and waits until the cluster is whole."""
        self.start()
        self.healed(60)

    def kill(self):
        for daemon in self.all:
            daemon.kill()

    def died(self):
        return [sentence for daemon in self.all for sentence in daemon.died()]

    def power(self, seed):
        """All processes end at once; on a disk that forgets, what was not flushed is gone."""
        self.kill()
        if self.disk:
            self.disk.lose(seed)
            self.disk.back()
        self.start()

    def ceph(self, *words, check=True, timeout=60, text=False):
        """A stock `ceph` command; its JSON, or its words."""
        argv = ["ceph", "-c", self.conf, *[str(w) for w in words], *([] if text else ["-f", "json"])]
        done = asked(argv, check, timeout)
        if text:
            return done.stdout
        try:
            return json.loads(done.stdout) if done.stdout.strip() else None
        except ValueError:
            raise Failed([f"'ceph {' '.join(map(str, words))}' answers no JSON: {done.stdout[:300]}"]) from None

    def groups(self):
        """Statistics of all placement groups."""
        found = self.ceph("pg", "dump", "pgs")
        return found["pg_stats"] if isinstance(found, dict) else found

    def sick(self):
        """Sentences about what is not healthy."""
        stat = self.ceph("osd", "stat")
        wrong = []
        if stat["num_up_osds"] != self.args.osds:
            wrong.append(f"{stat['num_up_osds']} of {self.args.osds} OSDs are up")
        for group in self.groups():
            states = set(group["state"].split("+"))
            if not {"active", "clean"} <= states or states - HARMLESS:
                wrong.append(f"{group['pgid']} is {group['state']}, up {group['up']}, acting {group['acting']}")
        for pool in self.ceph("osd", "dump")["pools"]:
            if pool["pg_num"] != pool["pg_num_target"]:
                wrong.append(f"pool {pool['pool_name']} has {pool['pg_num']} placement groups on the way to {pool['pg_num_target']}")
        if not wrong:
            wrong += [f"health: {code}" for code in self.ceph("health", "detail")["checks"] if code in SICK]
        return wrong

    def healed(self, seconds):
        """Waits until all is clean; gives the seconds that took, or fails with what is stuck."""
        begun = time.monotonic()
        while True:
            gone = self.died()
            if gone:
                raise Failed(gone)
            wrong = self.sick()
            took = time.monotonic() - begun
            if not wrong:
                return took
            if took > seconds:
                raise Failed([f"not clean {seconds:.0f} s after the last fault"] + wrong[:10] + self.stuck(wrong))
            time.sleep(0.5)

    def stuck(self, wrong):
        """What `ceph -s` and the placement groups themselves say."""
        said = [self.ceph("-s", text=True, check=False)]
        for group in [w.split()[0] for w in wrong if " is " in w][:3]:
            try:
                query = self.ceph("pg", group, "query", check=False, timeout=15) or {}
            except Failed as failed:
                query = {"recovery_state": failed.args[0]}
            said.append(f"query of {group}: {json.dumps(query.get('recovery_state'), indent=1)}")
        return said

    def end(self):
        """A clean stop of all, then a check of all stores; gives what is wrong."""
        wrong = [w for daemon in reversed(self.all) for w in daemon.terminate(60)]
        done = subprocess.run([self.args.nacre, "fsck", "--deep", self.folder], capture_output=True, text=True)
        if done.returncode != 0:
            wrong += [f"fsck: {line}" for line in (done.stdout + done.stderr).splitlines()]
        return wrong

    def abandon(self, keep):
        """Nothing of it runs on; gives the folder where its files are, if they are to be kept."""
        self.kill()
        folder = self.folder
        if self.disk:
            if keep:
                self.disk.back()
                folder = os.path.join(self.disk.tell("keep kept"), "cluster")
            self.disk.close()
        return folder


def options(parser):
    """Adds the options of a story about three OSDs without keys."""
    parser.add_argument("--nacre", required=True)
    parser.add_argument("--dir")
    parser.add_argument("--port", type=int)
    parser.add_argument("--driver")
    parser.add_argument("--memory", default="512M")


@contextlib.contextmanager
def three_osds(args, prefix):
    """Gives the processes of such a story, and ends them; what they leave is removed unless the story failed."""
    args.nacre = os.path.abspath(args.nacre)
    place = Place(args.dir, prefix)
    given = types.SimpleNamespace(**vars(args), lossy=None, auth="none", osds=3)
    cluster = Processes(given, place.path, args.port or free_port())
    try:
        yield cluster
    finally:
        cluster.kill()
    place.remove()
