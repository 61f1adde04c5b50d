"""What the tests with real processes share: the server as a process, a disk that forgets, clients, ports."""
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import rados
from live import Cluster, free_port

__all__ = ["Failed", "LossyDisk", "Place", "Server", "asked", "connect", "free_port"]

# Seconds after which a server that is not ready has failed.
READY = 60


class Failed(Exception):
    """A test found something. Its argument is a list of sentences."""


def asked(argv: Sequence[str], check: bool = True, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Runs a stock client. Fails if it does not end in time or, unless told otherwise, with another code than 0."""
    said = " ".join(argv)
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failed([f"'{said}' was not answered within {timeout} s"]) from None
    if check and done.returncode != 0:
        raise Failed([f"'{said}' ended with {done.returncode}: {done.stderr.strip()}"])
    return done


class Server(Cluster):
    """A cluster whose failures are findings of a test that goes on to tell how to repeat them."""

    def __init__(self, nacre: str, directory: str, port: int | None, osds: int, auth: str, more: Sequence[object] = ()) -> None:
        super().__init__(nacre, directory, "--osds", osds, *more, port=port, auth=auth)
        self.directory = directory

    def start(self, wait: float = READY, expect_ready: bool = True) -> Any:
        """Starts it; gives the seconds until it was ready."""
        return self.found(super().start, wait=wait, expect_ready=expect_ready)

    def stop(self, expect: int = 0) -> None:
        self.found(super().stop, expect=expect)

    @staticmethod
    def found(call: Callable[..., Any], **arguments: Any) -> Any:
        try:
            return call(**arguments)
        except AssertionError as e:
            raise Failed([str(e)]) from None

    def fsck(self) -> list[str]:
        """What `nacre fsck --deep` has to say against the stores of a server that does not run."""
        done = subprocess.run([self.nacre, "fsck", "--deep", self.directory], capture_output=True, text=True)
        return [] if done.returncode == 0 else [f"fsck: {line}" for line in (done.stdout + done.stderr).splitlines()]


class LossyDisk:
    """A mount of tools/lossydisk. It goes away when its standard input ends, so also with this process."""

    def __init__(self, program: str, base: str, latency: float) -> None:
        self.mount = os.path.join(base, "disk")
        self.backing = os.path.join(base, "backing")
        os.makedirs(self.mount)
        os.makedirs(self.backing)
        argv = [program, self.backing, self.mount, "--latency", str(latency)]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        answer = self.answer()
        if answer != "ok mounted":
            raise SystemExit(f"{program} does not mount: {answer or 'see above'}")

    def answer(self) -> str:
        """Its next line."""
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def tell(self, command: str) -> str:
        assert self.process.stdin
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self.answer()
        if not answer.startswith("ok "):
            raise SystemExit(f"the disk answers '{answer}' to '{command}'")
        return answer[3:]

    def lose(self, seed: int) -> str:
        return self.tell(f"lose {seed}")

    def back(self) -> str:
        return self.tell("back")

    def stats(self) -> dict[str, str]:
        words = self.tell("stats").split()
        return dict(zip(words[::2], words[1::2]))

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(timeout=30)


class Place:
    """A folder for a test: given and kept, or temporary and removed unless the test failed."""

    def __init__(self, given: str | None, prefix: str) -> None:
        self.temporary = given is None
        self.path = given or tempfile.mkdtemp(prefix=prefix)

    def remove(self) -> None:
        if self.temporary:
            shutil.rmtree(self.path)


def connect(conf: str) -> Any:
    cluster = rados.Rados(conffile=conf)
    cluster.connect(timeout=30)
    return cluster
