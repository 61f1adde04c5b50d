"""The memory file system that guests boot from: busybox, modules, and programs of this machine with their libraries."""
import os
import re
import shutil
import stat
import subprocess

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/usr/bin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
for module in $(cat /modules/order); do insmod /modules/$module.ko || echo "module $module: refused"; done
ip link set lo up
ip addr add 10.0.2.15/24 dev eth0 && ip link set eth0 up && ip route add default via 10.0.2.2
hostname guest
stty -F /dev/ttyS1 raw -echo
# Each line is a number and a script in base 64; what it says comes back, then the number and its exit code.
{
echo "guest: up" >/dev/console
while read -r number script; do
    echo "$script" | base64 -d >/tmp/script.$number
    sh /tmp/script.$number </dev/null 2>&1
    printf '\n<<%s:%s>>\n' $number $?
done
} </dev/ttyS1 >/dev/ttyS1
"""


class Archive:
    """A cpio archive in the format `newc`, which the kernel unpacks. Made without root: device nodes are only entries."""

    def __init__(self):
        self.parts, self.known, self.inode = [], set(), 0

    def add(self, path, mode, data=b"", device=(0, 0)):
        path = path.strip("/")
        if path in self.known:
            return
        parent = os.path.dirname(path)
        if parent:
            self.add(parent, stat.S_IFDIR | 0o755)
        self.known.add(path)
        self.inode += 1
        fields = [self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(path) + 1, 0]
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + path.encode() + b"\0"
        self.parts += [padded(head), padded(data)]

    def file(self, path, data, mode=0o755):
        self.add(path, stat.S_IFREG | mode, data)

    def copy(self, source, path=None):
        with open(source, "rb") as f:
            self.file(path or source, f.read())

    def program(self, name):
        """A program of this machine, by name or path, with the libraries that it loads at its start."""
        source = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        self.copy(source, f"/usr/bin/{os.path.basename(name)}")
        for library in re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", source], capture_output=True, text=True).stdout):
            self.copy(library)

    def finish(self):
        self.add("TRAILER!!!", 0)
        return b"".join(self.parts)


def padded(data):
    return data + b"\0" * (-len(data) % 4)


def build(kernel, programs, path):
    """Writes the archive for a kernel to `path`."""
    archive = Archive()
    archive.file("/init", INIT.encode())
    archive.copy(shutil.which("busybox"), "/bin/busybox")
    for folder in ("proc", "sys", "dev", "tmp", "run", "mnt", "etc"):
        archive.add(folder, stat.S_IFDIR | 0o755)
    archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    archive.file("/modules/order", "\n".join(name for name, _ in kernel.modules).encode())
    for name, data in kernel.modules:
        archive.file(f"/modules/{name}.ko", data)
    for name in programs:
        archive.program(name)
    with open(path, "wb") as f:
        f.write(archive.finish())
