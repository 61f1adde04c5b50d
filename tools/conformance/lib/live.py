"""A cluster of `nacre up` as a process, for the tests in Python: starts, stops, kills it, and asks it things with stock clients."""
import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import threading
import time


def free_port():
    """A port that is free and below the range of ephemeral ports: a client that dials a dead server on an ephemeral port may
    get that very port as its own, and keep the server from coming back."""
    while True:
        port = random.SystemRandom().randrange(10000, 30000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class Cluster:
    """`nacre up` on a folder, or its monitor alone (`role="mon"`)."""

    def __init__(self, nacre, directory, *more, port=None, auth="none", env=None, role="up"):
        self.role = role
        self.nacre, self.dir, self.more = nacre, directory, [str(m) for m in more]
        self.port, self.auth, self.process = port or free_port(), auth, None
        self.env = dict(os.environ, **(env or {}))
        self.conf = os.path.join(directory, "ceph.conf")

    def start(self, wait=60, expect_ready=True):
        """Starts and waits for the line that says it serves; gives the seconds that took. A start that is expected to fail gives the exit
        code and what was said."""
        argv = [self.nacre, self.role, "--dir", self.dir, "--port", str(self.port), "--auth", self.auth, *self.more]
        begun = time.monotonic()
        # Not a pipe: nobody reads it while the cluster runs.
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=self.env)
        too_long = threading.Timer(wait, self.process.kill)
        too_long.start()
        line = self.process.stdout.readline()
        too_long.cancel()
        if line.startswith("ready"):
            return time.monotonic() - begun
        code = self.process.wait(timeout=wait)
        errors = self.said()
        self.close()
        if expect_ready:
            raise AssertionError(f"nacre {self.role} ended with {code} after {time.monotonic() - begun:.0f} s, before it was ready: {errors}")
        return code, errors

    def said(self):
        """What the process wrote to its standard error."""
        self.errors.seek(0)
        return self.errors.read().strip()

    def close(self):
        self.process.stdout.close()
        self.errors.close()

    def stop(self, expect=0):
        """A clean stop."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        errors = self.said()
        self.close()
        assert code == expect, f"a clean stop ended with {code}: {errors}"

    def kill(self):
        if self.running():
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.close()
        elif self.process and not self.errors.closed:
            print(f"nacre ended by itself with {self.process.returncode}: {self.said()}", flush=True)
            self.close()

    def running(self):
        return self.process is not None and self.process.poll() is None

    def alive(self):
        """Fails if the process is gone."""
        assert self.running(), f"nacre ended by itself with {self.process.returncode}: {self.said()}"

    def run(self, *argv, check=True, timeout=60, **more):
        """Runs a stock client; gives the completed process."""
        env = dict(self.env, CEPH_CONF=self.conf)
        done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, env=env, timeout=timeout, **more)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, argv))} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def ceph(self, *argv, **more):
        """`ceph ... -f json`, parsed."""
        text = self.run("ceph", *argv, "-f", "json", **more).stdout
        return json.loads(text) if text.strip() else None

    def admin(self, daemon, *words):
        """Asks a daemon through its admin socket."""
        return json.loads(self.run(self.nacre, "admin", os.path.join(self.dir, f"{daemon}.asok"), *words).stdout)

    def health(self):
        """Codes of the health checks that fail."""
        return set(self.ceph("health", "detail")["checks"])

    def log(self, name):
        with open(os.path.join(self.dir, "log", f"{name}.log"), errors="replace") as f:
            return f.read()

    def rss(self):
        """Resident memory in bytes, and its peak."""
        with open(f"/proc/{self.process.pid}/status") as f:
            rows = dict(line.split(":", 1) for line in f)
        return tuple(int(rows[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


def until(what, check, seconds=30):
    """Waits until `check` gives something true, and gives that; fails when it takes too long."""
    end = time.monotonic() + seconds
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"it took longer than {seconds} s: {what}")
        time.sleep(0.1)
