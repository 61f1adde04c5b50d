#!/usr/bin/python3
"""Runs the targets of `make test`, as many beside each other as two processors can do, and prints a table of their times.

    tools/suite.py                     # all of them
    TARGETS="sim hosts" make test      # some of them

What a target says goes to target/suite/TARGET.log and is printed when it ends. Building comes first. Then the longest come
first, and last those that need the machine for themselves: they measure times of some milliseconds. Each target has a load, the processors that it
keeps busy. Most wait more than they compute, so three or four of them run at a time.

A target with `bounds` demands that things happen within given times. If it fails beside another one, it runs once more alone at the end, and the
table says so. All others fail the suite at once: nothing else is begun, and what runs is waited for.
"""
import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass

MAKE = ["make", "--no-print-directory"]


# What those that run programs of the tests wait for.
BUILT = ("lint", "release-build", "unit-build", "before-build")


@dataclass
class Target:
    name: str
    expected: int  # seconds; longer ones begin first
    load: float = 1.0  # processors that it keeps busy, from the table of a run
    alone: bool = False
    bounds: bool = False
    after: tuple = ("lint", "release-build")  # what must have ended


TARGETS = [
    # `unit-build` and `before-build` run at the lowest priority, beside targets that need only the release build.
    Target("release-build", 900, after=()),
    Target("lint", 200, after=()),
    Target("unit-build", 800, after=("lint",)),
    Target("before-build", 120, after=("unit-build",)),
    Target("conformance", 300, 0.7, bounds=True),
    Target("newer-clients", 240, 0.7, bounds=True),
    Target("kill-rounds", 235, 0.4, bounds=True),
    Target("unit", 230, 1.2, after=BUILT),
    Target("guests", 180, 1.1, bounds=True),
    Target("hosts", 170, 0.6, bounds=True),
    Target("upgrade", 150, 0.8, bounds=True, after=BUILT),
    Target("sim", 130, after=BUILT),
    Target("thrash", 150, 1.2, bounds=True),
    Target("lab-test", 130, 0.4, bounds=True),
    Target("full-disk", 130, 0.4, bounds=True),
    Target("fuzz", 70, after=BUILT),
    Target("memory-pressure", 80, bounds=True),
    Target("hostile", 70, 0.3, bounds=True),
    Target("radosgw", 110, 0.8, bounds=True),
    Target("metrics", 120, 0.8, bounds=True),
    Target("refusals", 60, 0.8, bounds=True),
    Target("model", 60, 0.5, bounds=True),
    Target("replica-reads", 60, 0.8, bounds=True),
    Target("memory-small", 40, 0.7, bounds=True),
    Target("instructions", 20),
    Target("bit-rot", 20, 0.7, bounds=True),
    Target("disks", 240, 0.6, bounds=True),
    Target("raw-disks", 30, 0.5, bounds=True),
    Target("formats", 10, bounds=True),
    Target("deb-test", 30, bounds=True),
    Target("idle", 180, alone=True),
]


@dataclass
class Done:
    target: Target
    seconds: float
    cpu: float  # seconds of processor time, of all its processes that ended and were waited for
    status: int
    beside: list
    note: str = ""


class Running:
    def __init__(self, target, logs, beside):
        self.target, self.beside, self.begun = target, beside, time.monotonic()
        self.path = os.path.join(logs, target.name + ".log")
        self.log = open(self.path, "wb")
        self.process = subprocess.Popen([*MAKE, target.name], stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)

    def ended(self):
        pid, status, used = os.wait4(self.process.pid, os.WNOHANG)
        if pid == 0:
            return None
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.log.close()
        seconds = time.monotonic() - self.begun
        return Done(self.target, seconds, used.ru_utime + used.ru_stime, self.process.returncode, self.beside)

    def say(self, done):
        print(f"\n=== {done.target.name}: {'passed' if done.status == 0 else f'FAILED (exit {done.status})'}, {done.seconds:.0f} s ===", flush=True)
        with open(self.path, "rb") as log:
            sys.stdout.buffer.write(log.read())
        sys.stdout.flush()


class Suite:
    def __init__(self, logs, processors, width):
        self.logs, self.processors, self.width = logs, processors, width
        self.running, self.done, self.failed = [], [], False

    def begin(self, target):
        for other in self.running:
            other.beside.append(target.name)
        self.running.append(Running(target, self.logs, [r.target.name for r in self.running]))
        print(f"--- {target.name} begins", flush=True)

    def wait(self):
        """Until one ends."""
        while True:
            for running in self.running:
                done = running.ended()
                if done:
                    self.running.remove(running)
                    running.say(done)
                    return done
            time.sleep(0.2)

    def run(self, targets):
        """Runs them, the first ones first; gives those that are to run once more alone."""
        waiting, again = list(targets), []
        while self.running or (waiting and not self.failed):
            while not self.failed and (target := self.next(waiting)):
                waiting.remove(target)
                self.begin(target)
            done = self.wait()
            self.done.append(done)
            if done.status != 0 and done.target.bounds and done.beside:
                done.note = f"failed beside {', '.join(done.beside)}"
                again.append(Target(done.target.name, done.target.expected, alone=True))
            elif done.status != 0:
                self.failed = True
        return again

    def next(self, waiting):
        """The first one that can begin now."""
        pending = {t.name for t in waiting} | {r.target.name for r in self.running}
        ready = (t for t in waiting if not pending.intersection(t.after))
        return next((t for t in ready if self.room(t)), None)

    def room(self, target):
        if target.alone or any(r.target.alone for r in self.running):
            return not self.running
        return len(self.running) < self.width and sum(r.target.load for r in self.running) + target.load <= self.processors

    def table(self):
        rows = ["| target | seconds | processor seconds | result |", "|---|---|---|---|"]
        for done in self.done:
            result = "passed" if done.status == 0 else done.note or f"**failed**, exit {done.status}"
            rows.append(f"| {done.target.name} | {done.seconds:.0f} | {done.cpu:.0f} | {result} |")
        return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help="some targets only")
    parser.add_argument("--logs", default=os.path.join(os.environ.get("CARGO_TARGET_DIR", "target"), "suite"))
    args = parser.parse_args()
    known = {t.name: t for t in TARGETS}
    unknown = [name for name in args.targets if name not in known]
    if unknown:
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(known)}")
    wanted = [t for t in known.values() if not args.targets or t.name in args.targets]
    os.makedirs(args.logs, exist_ok=True)
    begun = time.monotonic()
    suite = Suite(args.logs, processors=2.2, width=4)
    # Those that need the machine for themselves come last.
    again = suite.run(sorted(wanted, key=lambda t: (t.alone, -t.expected)))
    if not suite.failed:
        suite.run(again)
    print(f"\n{suite.table()}\n\nall: {time.monotonic() - begun:.0f} s", flush=True)
    passed = {d.target.name for d in suite.done if d.status == 0}
    ran = {d.target.name for d in suite.done}
    print(f"{len(passed)} passed, {len(ran - passed)} failed", flush=True)
    sys.exit(0 if passed == {t.name for t in wanted} else 1)


if __name__ == "__main__":
    main()
