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
from collections.abc import Callable, Mapping
from typing import Any


def free_port() -> int:
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

    def __init__(self, nacre: str, directory: str, *more: object, port: int | None = None, auth: str = "none",
                 env: Mapping[str, str] | None = None, role: str = "up") -> None:
        self.role = role
        self.nacre, self.dir, self.more = nacre, directory, [str(m) for m in more]
        self.port, self.auth = port or free_port(), auth
        self.process: subprocess.Popen[str] | None = None
        self.env = dict(os.environ, **(env or {}))
        self.conf = os.path.join(directory, "ceph.conf")

    def start(self, wait: float = 60, expect_ready: bool = True) -> Any:
        """Starts and waits for the line that says it serves; gives the seconds that took. A start that is expected to fail gives the exit
        code and what was said."""
        argv = [self.nacre, self.role, "--dir", self.dir, "--port", str(self.port), "--auth", self.auth, *self.more]
        begun = time.monotonic()
        # Not a pipe: nobody reads it while the cluster runs.
        self.errors = tempfile.TemporaryFile("w+")
        process = self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=self.env)
        too_long = threading.Timer(wait, process.kill)
        too_long.start()
        assert process.stdout
        line = process.stdout.readline()
        too_long.cancel()
        if line.startswith("ready"):
            return time.monotonic() - begun
        code = process.wait(timeout=wait)
        errors = self.said()
        self.close()
        if expect_ready:
            raise AssertionError(f"nacre {self.role} ended with {code} after {time.monotonic() - begun:.0f} s, before it was ready: {errors}")
        return code, errors

    def begun(self) -> subprocess.Popen[str]:
        """The process that was started."""
        assert self.process is not None, "the cluster was not started"
        return self.process

    def said(self) -> str:
        """What the process wrote to its standard error."""
        self.errors.seek(0)
        return self.errors.read().strip()

    def close(self) -> None:
        stdout = self.begun().stdout
        if stdout:
            stdout.close()
        self.errors.close()

    def stop(self, expect: int = 0) -> None:
        """A clean stop."""
        self.begun().send_signal(signal.SIGTERM)
        code = self.begun().wait(timeout=60)
        errors = self.said()
        self.close()
        assert code == expect, f"a clean stop ended with {code}: {errors}"

    def kill(self) -> None:
        if self.running():
            self.begun().send_signal(signal.SIGKILL)
            self.begun().wait()
            self.close()
        elif self.process and not self.errors.closed:
            print(f"nacre ended by itself with {self.process.returncode}: {self.said()}", flush=True)
            self.close()

    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def alive(self) -> None:
        """Fails if the process is gone."""
        assert self.running(), f"nacre ended by itself with {self.begun().returncode}: {self.said()}"

    def run(self, *argv: object, check: bool = True, timeout: float = 60, **more: Any) -> subprocess.CompletedProcess[str]:
        """Runs a stock client; gives the completed process."""
        env = dict(self.env, CEPH_CONF=self.conf)
        done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, env=env, timeout=timeout, **more)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, argv))} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def ceph(self, *argv: object, **more: Any) -> Any:
        """`ceph ... -f json`, parsed."""
        text = self.run("ceph", *argv, "-f", "json", **more).stdout
        return json.loads(text) if text.strip() else None

    def admin(self, daemon: str, *words: object) -> Any:
        """Asks a daemon through its admin socket."""
        return json.loads(self.run(self.nacre, "admin", os.path.join(self.dir, f"{daemon}.asok"), *words).stdout)

    def health(self) -> set[str]:
        """Codes of the health checks that fail."""
        return set(self.ceph("health", "detail")["checks"])

    def log(self, name: str) -> str:
        with open(os.path.join(self.dir, "log", f"{name}.log"), errors="replace") as f:
            return f.read()

    def rss(self) -> tuple[int, ...]:
        """Resident memory in bytes, and its peak."""
        with open(f"/proc/{self.begun().pid}/status") as f:
            rows = dict(line.split(":", 1) for line in f)
        return tuple(int(rows[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def until(what: str, check: Callable[[], Any], seconds: float = 30) -> Any:
    """Waits until `check` gives something true, and gives that; fails when it takes too long."""
    end = time.monotonic() + seconds
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"it took longer than {seconds} s: {what}")
        time.sleep(0.1)
