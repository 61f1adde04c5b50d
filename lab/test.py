#!/usr/bin/python3
"""The laboratory on itself: experiment files that are right and wrong, plans of CBT, an interruption, a kill, disks that hold something,
full disks, missing tools, clusters that never become healthy, a report, a comparison. Some 80 seconds.

usage: test.py --nacre target/release/nacre
"""
import argparse
import glob
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.geteuid() == 0

PLAN = """
[experiment]
name = "tiny"
seconds = 1
prefill = 1
repeats = 3
running = "frozen"
[[cluster]]
name = "nacre"
kind = "nacre"
memory = "256M"
osd_size = "4G"
[[workload]]
kind = "rados"
size = "4K"
mode = ["write", "rand"]
depth = 16
[[workload]]
kind = "custom"
command = "echo broken >&2; exit 7"
"""

# A profile of each kind; nothing of the runs for them is measured.
PROFILED = """
[experiment]
name = "profiled"
seconds = 1
repeats = 1
noise = false
[monitor]
flamegraph = true
seeks = true
[[cluster]]
name = "nacre"
kind = "nacre"
memory = "256M"
osd_size = "4G"
[[workload]]
kind = "rados"
size = "4K"
mode = "write"
depth = 16
"""

# Mounts and loop devices are there while it runs.
MOUNTED = """
[experiment]
name = "mounted"
seconds = 1
repeats = 2
noise = false
[[disk]]
name = "data"
kind = "loop"
size = "2G"
[[cluster]]
name = "nacre"
kind = "nacre"
disk = "data"
fs = ["ext4", "none"]
memory = "256M"
[[workload]]
kind = "rados"
size = "4K"
mode = "write"
depth = 16
"""

HARD = """
[experiment]
name = "hard"
seconds = 1
repeats = 1
patience = 4
ready = 4
[[cluster]]
name = "full"
kind = "nacre"
memory = "256M"
osd_size = "1G"
[[cluster]]
name = "stopped"
kind = "nacre"
program = "{stopped}"
memory = "256M"
[[cluster]]
name = "dead"
kind = "nacre"
config = "--no-such-option"
[[workload]]
name = "no tool"
kind = "fio"
size = "4K"
mode = "randwrite"
image = "16M"
on = "full"
[[workload]]
kind = "rados"
size = "4M"
mode = "write"
depth = 32
seconds = 6
on = "full"
[[workload]]
kind = "rados"
size = "4K"
mode = "write"
on = "stopped,dead"
"""

# Serves until it is ready, and is stopped then.
STOPPED = """#!/bin/bash
{nacre} "$@" &
pid=$!
trap 'kill -KILL $pid' EXIT TERM
log=$(readlink /proc/$$/fd/1)
while ! grep -q ^ready "$log"; do sleep 0.02; done
kill -STOP $pid
sleep 600
"""

DISK = """
[experiment]
name = "disk"
seconds = 1
repeats = 1
[[disk]]
name = "given"
kind = "device"
path = "{device}"
[[cluster]]
name = "raw"
kind = "none"
disk = "given"
[[workload]]
kind = "custom"
command = "echo 1 ops"
result = "(?<ops>[0-9]+) ops"
"""


class Test:
    def __init__(self, nacre, folder):
        self.nacre, self.folder = nacre, folder

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        with open(self.path(name), "w") as f:
            f.write(text)
        return self.path(name)

    def lab(self, *words, code=0, env=None):
        done = subprocess.run([self.nacre, "lab", *words], capture_output=True, text=True, env=env, timeout=150)
        said = done.stdout + done.stderr
        assert done.returncode == code, f"{words}: exit {done.returncode}, not {code}:\n{said}"
        return said

    def start(self, plan, out):
        return subprocess.Popen([self.nacre, "lab", "run", plan, "--out", out], stderr=subprocess.PIPE, text=True)

    def left(self):
        """Processes, mounts and loop devices that name the folder: they are of this test alone."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline") as f:
                    line = f.read().replace("\0", " ")
            except OSError:
                continue
            if self.folder in line and int(pid) != os.getpid():
                found.append(line)
        with open("/proc/self/mounts") as f:
            found += [line for line in f if self.folder in line]
        loops = subprocess.run(["losetup", "-n", "-O", "NAME,BACK-FILE"], capture_output=True, text=True).stdout
        return found + [line for line in loops.splitlines() if self.folder in line]

    def records(self, out):
        return len(glob.glob(os.path.join(out, "runs", "*.json")))

    def until(self, running, seconds, what):
        deadline = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < deadline and running.poll() is None, running.stderr.read() if running.poll() is not None else "too late"
            time.sleep(0.02)

    def files(self):
        """Experiment files that are right, those that are wrong, and plans of another tool."""
        articles = sorted(glob.glob(os.path.join(HERE, "articles", "*.toml")) + glob.glob(os.path.join(HERE, "experiments", "*.toml")))
        assert len(articles) >= 10, articles
        for article in articles:
            full, quick = self.lab("dry-run", article), self.lab("dry-run", article, "--quick")
            for said in (full, quick):
                assert re.search(r"\d+ runs in \d+ starts of clusters, about [\d:]+", said), said
        plan = self.write("wrong.toml", PLAN.replace("repeats", "repeets"))
        said = self.lab("run", plan, "--out", self.path("wrong"), code=1)
        assert "wrong.toml:6: key 'repeets' of [experiment] is not known; did you mean 'repeats'?" in said, said
        plan = self.write("wrong.toml", PLAN.replace('"nacre"\nmemory', '"nacer"\nmemory'))
        said = self.lab("run", plan, "--out", self.path("wrong"), code=1)
        assert "wrong.toml:10: key 'kind': 'nacer' is not one of" in said and "did you mean 'nacre'?" in said, said
        assert not os.path.exists(self.path("wrong")), "a wrong file begins nothing"
        plans = glob.glob(os.path.join(HERE, "..", "edge", "lab", "src", "import", "testdata", "*.yaml"))
        assert len(plans) >= 2, plans
        for plan in plans:
            self.lab("dry-run", self.write("imported.toml", self.lab("import", plan)))
        return len(articles)

    def profiles(self):
        """A flame graph with our functions, and a picture of the disk; or a sentence for each that cannot be made here."""
        plan, out, page = self.write("profiled.toml", PROFILED), self.path("profiled"), self.path("profiled.html")
        self.lab("run", plan, "--out", out)
        self.lab("report", out, "--out", page)
        with open(page) as f:
            text = f.read()
        able = ROOT and shutil.which("perf")
        flames = r'<svg class="flames".*store::' if able else "Flame graph not made: "
        seeks = r'<svg class="seeks".*[1-9]\d* writes' if able else "Seek picture not made: "
        for line in (flames, seeks):
            assert re.search(line, text, re.S), line
        assert self.records(out) == 1 and not self.left(), self.left()
        return able

    def interruption(self):
        """Ctrl-C, going on, kill -9, going on; a workload that fails; a report, a comparison."""
        plan, out, page = self.write("plan.toml", PLAN), self.path("out"), self.path("page.html")
        running = self.start(plan, out)
        self.until(running, 60, lambda: self.records(out) >= 2)
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=60)[1]
        assert running.returncode == 130 and "interrupted" in said, said
        assert not self.left(), self.left()
        assert not os.path.exists(os.path.join(out, "scratch")), "the scratch folder is left"
        before = self.records(out)
        assert before < 18, before

        running = self.start(plan, out)
        self.until(running, 60, lambda: self.records(out) >= before + 2)
        running.kill()
        running.communicate()
        assert self.left(), "a killed laboratory leaves its cluster to the next run"
        said = self.lab("run", plan, "--out", out)
        assert "left by an earlier run: ended process" in said and "made before" in said, said
        assert self.records(out) == 18 and not self.left(), (self.records(out), self.left())

        self.lab("report", out, "--out", page)
        with open(page) as f:
            text = f.read()
        assert "write 4K ×16" in text and "exit status: 7: broken" in text
        outside = re.findall(r"""(?:src|href)=["']?(?!#|out/|page\.)[^"'> ]+|url\([^)]*\)|@import|//[a-z]|<script|<link|<iframe""", text)
        assert not outside, outside
        said = self.lab("compare", out, out)
        assert "0 worse, 0 better" in said, said

    def mounts(self):
        """Ctrl-C with a mounted file system on a loop device."""
        plan, out = self.write("mounted.toml", MOUNTED), self.path("mounted")
        running = self.start(plan, out)
        self.until(running, 60, lambda: self.records(out) >= 1 and any("/mount-" in line for line in self.left()))
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=60)[1]
        assert running.returncode == 130, said
        assert not self.left(), self.left()
        said = self.lab("run", plan, "--out", out)
        assert "3 runs measured, 0 failed, 0 skipped, 1 made before" in said, said
        assert not self.left(), self.left()

    def disks(self):
        """A disk that holds a file system is refused, and taken with --wipe."""
        disk = self.path("disk")
        with open(disk, "wb") as f:
            f.truncate(64 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", disk], check=True)
        device = subprocess.run(["losetup", "--find", "--show", disk], check=True, capture_output=True, text=True).stdout.strip()
        try:
            plan = self.write("disk.toml", DISK.replace("{device}", device))
            said = self.lab("run", plan, "--out", self.path("disk-a"))
            assert f"{device} holds a file system or the like (ext4); give --wipe to lose that" in said, said
            assert "0 runs measured, 1 failed" in said, said
            assert subprocess.run(["blkid", "-p", device], capture_output=True).returncode == 0, "the file system is still there"
            said = self.lab("run", plan, "--out", self.path("disk-b"), "--wipe")
            assert "1 runs measured, 0 failed" in said, said
        finally:
            subprocess.run(["losetup", "-d", device], check=True)

    def hard_times(self):
        """A full disk, a missing tool, a cluster that never serves, one that ends: a line of the report for each."""
        stopped = self.write("stopped", STOPPED.replace("{nacre}", self.nacre))
        os.chmod(stopped, 0o755)
        tools = self.path("tools")
        os.mkdir(tools)
        for place in os.environ["PATH"].split(":")[::-1]:
            for name in os.listdir(place) if os.path.isdir(place) else []:
                link = os.path.join(tools, name)
                if name != "fio":
                    if os.path.lexists(link):
                        os.unlink(link)
                    os.symlink(os.path.join(place, name), link)
        plan, out, page = self.write("hard.toml", HARD.replace("{stopped}", stopped)), self.path("hard"), self.path("hard.html")
        said = self.lab("run", plan, "--out", out, env={**os.environ, "PATH": tools})
        assert "0 runs measured, 4 failed" in said, said
        assert not self.left(), self.left()
        self.lab("report", out, "--out", page)
        with open(page) as f:
            text = f.read()
        for line in (r"did not end 4 s after its time.*the cluster says: HEALTH_[A-Z]+ [^<]*full",
                     r"start fio \(Debian&#39;s package fio has it\)|start fio \(Debian's package fio has it\)",
                     r"the cluster did not take commands in time; the cluster does not answer",
                     r"nacre of &#39;dead&#39; ended with exit status: 2|nacre of 'dead' ended with exit status: 2"):
            assert re.search(line, text), f"{line}\n{said}"


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--nacre", required=True)
    nacre = os.path.abspath(args.parse_args().nacre)
    folder = tempfile.mkdtemp(prefix="nacre-lab-test-")
    test = Test(nacre, folder)
    try:
        articles = test.files()
        able = test.profiles()
        test.interruption()
        test.hard_times()
        if ROOT:
            test.mounts()
            test.disks()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"laboratory: {articles} articles planned; 18 runs through an interruption and a kill; a full disk, a missing tool and clusters that "
          f"do not serve told; {'a flame graph and a picture of seeks drawn' if able else 'profiles SKIPPED (they need perf and root)'}; {'mounts undone, a disk with a file system refused' if ROOT else 'mounts and disks SKIPPED (they need root)'}: as it should be")


if __name__ == "__main__":
    main()
