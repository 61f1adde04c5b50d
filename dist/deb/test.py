#!/usr/bin/python3
"""Installs the package in a Debian root of its own, runs its service as the first process of a container, and removes it.

    dist/deb/test.py --package target/deb/nacre_….deb --cache target/deb

It needs root, mmdebstrap and, the first time, an archive of Debian; without, it says that it is skipped. Nothing of the host is
changed: the root is a folder below --cache, its mounts and processes are in namespaces of their own.
"""

import argparse
import glob
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

SUITE = "bookworm"
# Seconds for anything that should be quick.
PATIENCE = 60


def skip(why):
    print(f"deb-test: SKIPPED, {why}")
    sys.exit(0)


def check(holds, says):
    if not holds:
        raise SystemExit(f"deb-test: FAILED: {says}")


def until(what, says, seconds=PATIENCE):
    """Waits for `what` to be true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return
        time.sleep(0.02)
    check(False, f"{says} within {seconds} s")


def archive():
    """The archive of Debian that this host uses."""
    lines = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"], capture_output=True, text=True
    ).stdout.split()
    return next((uri for uri in lines if re.search(r"/debian/?$", uri)), None)


def root_of(cache):
    """A fresh root, from a tarball that is made once."""
    tarball = cache / f"{SUITE}.tar"
    if not tarball.exists():
        from_where = archive() or skip("apt knows no archive of Debian")
        made = subprocess.run(
            ["mmdebstrap", "--quiet", "--mode=root", "--format=tar", "--variant=minbase", SUITE, f"{tarball}.new", from_where], text=True
        )
        if made.returncode != 0:
            skip(f"mmdebstrap cannot make a root of {SUITE}")
        os.rename(f"{tarball}.new", tarball)
    root = pathlib.Path(tempfile.mkdtemp(prefix="root-", dir=cache))
    subprocess.run(["tar", "-C", root, "-xf", tarball], check=True)
    return root


class Root:
    """A Debian root in which commands run."""

    def __init__(self, path):
        self.path = path

    def run(self, *command):
        """Runs a command to its end, with a /proc of its own; gives its words."""
        inside = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", self.entry(), "sh", str(self.path), *command]
        done = subprocess.run(inside, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE)
        check(done.returncode == 0, f"{shlex.join(command)}: {done.stdout}")
        return done.stdout

    @staticmethod
    def entry():
        return 'root=$1; shift; mount -t proc proc "$root/proc" && exec chroot "$root" "$@"'

    def files(self):
        """All files but those that dpkg keeps for itself, and logs of its own."""
        own = ("var/lib/dpkg", "var/log/dpkg.log", "var/log/alternatives.log", "var/cache", "var/lib/nacre", "proc")
        found = set()
        for folder, folders, names in os.walk(self.path):
            here = os.path.relpath(folder, self.path)
            folders[:] = [f for f in folders if os.path.normpath(os.path.join(here, f)) not in own]
            found.update(os.path.normpath(os.path.join(here, name)) for name in names)
        return {name for name in found if not name.startswith(own)}


class Service:
    """The daemon as the unit starts it, told of a service manager and of a journal; it is the first process of its container."""

    def __init__(self, root, options):
        self.root = root
        unit = (root.path / "lib/systemd/system/nacre.service").read_text()
        line = re.search(r"^ExecStart=(.*)$", unit, re.M).group(1)
        (root.path / "etc/default/nacre").write_text(f'NACRE_OPTIONS="{options}"\n')
        defaults = dict(re.findall(r'^(\w+)="?(.*?)"?$', (root.path / "etc/default/nacre").read_text(), re.M))
        words = [w for word in line.split() for w in (defaults[word[1:]].split() if word.startswith("$") else [word])]
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        path = root.path / "run/notify"
        path.unlink(missing_ok=True)
        self.manager.bind(str(path))
        self.manager.settimeout(PATIENCE)
        self.journal, journal = os.pipe()
        os.set_blocking(self.journal, False)
        stat = os.fstat(journal)
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "NOTIFY_SOCKET": "/run/notify",
            "JOURNAL_STREAM": f"{stat.st_dev}:{stat.st_ino}",
        }
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", root.entry(), "sh", str(root.path), *words]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=journal
        )
        os.close(journal)
        self.lines = ""

    def hear(self):
        """The next thing that the service manager is told."""
        try:
            return self.manager.recv(4096).decode()
        except TimeoutError:
            check(False, f"the service says nothing: {self.log()}")

    def log(self):
        """All that went to the journal."""
        while True:
            try:
                more = os.read(self.journal, 65536)
            except BlockingIOError:
                break
            if not more:
                break
            self.lines += more.decode()
        return self.lines

    def pid(self):
        """The daemon's number on the host."""
        me = self.process.pid
        children = pathlib.Path(f"/proc/{me}/task/{me}/children").read_text().split()
        check(len(children) == 1, f"the service has ended: {self.log()}")
        return int(children[0])

    def leave_an_orphan(self):
        """Starts a process in the container whose parent ends at once; it must be gone when it ends, and not stay as a zombie."""
        pid = self.pid()
        orphan = ["nsenter", "--target", str(pid), "--pid", "--mount", "--root", "sh", "-c", "sleep 0.2 & echo $!"]
        subprocess.run(orphan, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        children = pathlib.Path(f"/proc/{pid}/task")
        own = lambda: {c for task in children.iterdir() for c in (task / "children").read_text().split()}
        until(lambda: own(), "the orphan does not come to the first process", 1)
        until(lambda: not own(), "the first process of the container does not reap an orphan", 5)

    def stop(self):
        os.kill(self.pid(), signal.SIGTERM)
        check(self.process.wait(PATIENCE) == 0, f"SIGTERM does not end the service cleanly: {self.log()}")
        self.manager.close()
        os.close(self.journal)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def outside(root, *command, given=None):
    """A stock client of the host."""
    data = root.path / "var/lib/nacre"
    whole = [command[0], "-c", str(data / "ceph.conf"), "--keyring", str(data / "keyring"), *command[1:]]
    done = subprocess.run(whole, input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE)
    check(done.returncode == 0, f"{shlex.join(command)}: {done.stdout}")
    return done.stdout


def confined(root):
    """The daemon under what the unit takes away from it: it serves, with the faster driver, and what it must not do is refused."""
    unit = root.path / "lib/systemd/system/nacre.service"
    if not shutil.which("systemd-analyze") or not glob.glob("/usr/lib/*/libseccomp.so.2"):
        return print("deb-test: the unit's hardening is not tried: systemd-analyze or libseccomp is missing")
    if root.path.parts[1] in ("tmp", "root", "home"):
        return print(f"deb-test: the unit's hardening is not tried: the unit hides {root.path}")
    copy = root.path / "tmp/nacre.service"
    copy.write_text(re.sub("/usr/bin/nacre", str(root.path / "usr/bin/nacre"), re.sub("^Documentation=.*\n", "", unit.read_text(), flags=re.M)))
    said = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True)
    check(not said.stdout + said.stderr, f"systemd-analyze verify: {said.stdout}{said.stderr}")
    words = [sys.executable, pathlib.Path(__file__).parent / "confine.py", unit, "--"]
    for refused in (["touch", "/usr/probe"], ["mount", "-t", "tmpfs", "none", "/mnt"], ["unshare", "--uts", "true"], ["hostname", "probe"]):
        check(subprocess.run([*words, *refused], capture_output=True).returncode != 0, f"{shlex.join(refused)} is not refused")
    folder = root.path / "var/tmp/confined"
    command = [*words, root.path / "usr/bin/nacre", "up", "--dir", folder, "--port", str(free_port()), "--osds", "2"]
    daemon = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        line = daemon.stdout.readline()
        check(line.startswith("ready: "), f"confined as the unit says, nacre does not serve: {line}{daemon.stdout.read() if daemon.poll() else ''}")
        client = lambda *argv: subprocess.run([argv[0], "-c", folder / "ceph.conf", *argv[1:]], check=True, capture_output=True, timeout=PATIENCE)
        client("ceph", "osd", "pool", "create", "data", "8")
        client("rados", "-p", "data", "bench", "1", "write", "-b", "65536", "--no-cleanup")
        for log in folder.glob("log/*.log"):
            check("epoll" not in log.read_text(), f"the filter of system calls takes io_uring away: {log.read_text()}")
        daemon.terminate()
        check(daemon.wait(PATIENCE) == 0, "confined, SIGTERM does not end it cleanly")
    finally:
        daemon.kill()
    shutil.rmtree(folder)
    copy.unlink()


def story(root, package):
    before = root.files()
    shutil.copy(package, root.path / "tmp/nacre.deb")
    said = root.run("dpkg", "--install", "/tmp/nacre.deb")
    check("makes a cluster" in said, f"the installation does not say what comes next: {said}")
    check("nacre " in root.run("nacre", "--version"), "no version")
    shipped = root.run("dpkg", "--listfiles", "nacre").split()
    for name in ("/usr/share/man/man1/nacre-up.1.gz", "/usr/share/bash-completion/completions/nacre", "/etc/logrotate.d/nacre"):
        check(name in shipped, f"{name} is not in the package")
    root.run("bash", "-n", "/usr/share/bash-completion/completions/nacre")
    check(not os.listdir(root.path / "var/lib/nacre"), "the installation made something in /var/lib/nacre")
    check("var/lib/nacre/nacre.toml" in (root.path / "lib/systemd/system/nacre.service").read_text(), "the unit would make a cluster")

    options = f"--port {free_port()} --osds 2"
    service = Service(root, options)
    try:
        told = service.hear()
        check(told.startswith("READY=1\nSTATUS=ready: 1 monitor, 2 OSDs"), f"the service manager hears {told!r}")
        until(lambda: "2 up" in outside(root, "ceph", "-s"), "ceph -s shows no 2 OSDs that are up")
        outside(root, "ceph", "osd", "pool", "create", "data", "8")
        outside(root, "rados", "-p", "data", "put", "name", "-", given="Grace")
        service.leave_an_orphan()
        lines = service.log().splitlines()
        check(all(re.match(r"<[3467]>(nacre|mon\.a|osd\.\d) ", line) for line in lines if line.startswith("<")), "odd levels")
        check(any(line.startswith("<6>nacre process: nacre ") for line in lines), f"the journal lacks the first line: {lines}")
        service.stop()
        # An upgrade, and the same data.
        root.run("dpkg", "--install", "/tmp/nacre.deb")
        service = Service(root, options)
        check(service.hear().startswith("READY=1"), "the service does not start again")
        check(outside(root, "rados", "-p", "data", "get", "name", "-") == "Grace", "the object is not what it was")
        service.stop()
    finally:
        service.kill()
    confined(root)

    data = sorted(os.listdir(root.path / "var/lib/nacre"))
    said = root.run("dpkg", "--purge", "nacre")
    check("is kept" in said, f"the purge does not say that the cluster is kept: {said}")
    check(sorted(os.listdir(root.path / "var/lib/nacre")) == data, "the purge changed the data")
    left = root.files() - before - {"run/notify", "tmp/nacre.deb"}
    check(not left, f"left behind: {sorted(left)}")
    check(not before - root.files(), f"taken away: {sorted(before - root.files())}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--package", type=pathlib.Path, required=True)
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    args = parser.parse_args()
    if os.geteuid() != 0:
        skip("it needs root")
    for tool in ("mmdebstrap", "unshare", "nsenter", "ceph", "rados"):
        if not shutil.which(tool):
            skip(f"{tool} is missing")
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], stderr=subprocess.DEVNULL).returncode != 0:
        skip("namespaces cannot be made here")
    begin = time.monotonic()
    args.cache.mkdir(parents=True, exist_ok=True)
    root = Root(root_of(args.cache.resolve()))
    try:
        story(root, args.package)
    finally:
        shutil.rmtree(root.path)
    print(f"deb-test: passed in {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
