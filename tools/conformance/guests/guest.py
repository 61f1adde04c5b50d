"""A guest under QEMU, and a shell in it."""
import base64
import os
import re
import signal
import socket
import subprocess
import time


class GuestError(AssertionError):
    """A command in a guest failed, or the guest does not answer."""


class Guest:
    """A virtual machine with `init` of initramfs.py. Commands go through its second serial port.

    QEMU translates its instructions: KVM is rarely to be had where tests run, and broken where it is nested.
    """

    def __init__(self, name, kernel, initramfs, folder, memory=512, more=(), env=None):
        self.name = name
        self.console = os.path.join(folder, f"{name}.console")
        self.path = os.path.join(folder, f"{name}.sock")
        self.errors = os.path.join(folder, f"{name}.qemu")
        self.number = 0
        if os.path.exists(self.path):
            os.unlink(self.path)
        argv = [
            "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", str(memory), "-nodefaults", "-no-reboot",
            "-display", "none", "-kernel", kernel.image, "-initrd", initramfs,
            "-append", "console=ttyS0 quiet loglevel=6 panic=-1 mitigations=off random.trust_cpu=on tsc=unstable",
            "-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile=",
            "-serial", f"file:{self.console}", "-chardev", f"socket,id=shell,path={self.path},server=on,wait=off",
            "-device", "isa-serial,chardev=shell", *more,
        ]
        with open(self.errors, "w") as errors:
            self.process = subprocess.Popen(argv, stdout=errors, stderr=errors, stdin=subprocess.DEVNULL, env=env)
        self.shell = None

    def up(self, seconds=90):
        """Waits until the shell answers."""
        end = time.monotonic() + seconds
        while not (os.path.exists(self.path) and "guest: up" in self.said()):
            if self.process.poll() is not None or time.monotonic() > end:
                with open(self.errors) as f:
                    raise GuestError(f"{self.name} did not start: {f.read()}{self.said()[-2000:]}")
            time.sleep(0.05)
        self.shell = socket.socket(socket.AF_UNIX)
        self.shell.connect(self.path)
        self.run("true", seconds=seconds)
        return self

    def said(self):
        """What the kernel and `init` wrote to the console."""
        if not os.path.exists(self.console):
            return ""
        with open(self.console, errors="replace") as f:
            return f.read()

    def start(self, script):
        """Hands a script to the shell; `finish` gives its end."""
        self.number += 1
        word = base64.b64encode(script.encode()).decode()
        self.shell.sendall(f"{self.number} {word}\n".encode())
        return self.number

    def finish(self, seconds=60):
        """Exit code and output of the script that was started last."""
        pattern = re.compile(rf"\n<<{self.number}:(\d+)>>\r?\n".encode())
        end, seen = time.monotonic() + seconds, b""
        while not (found := pattern.search(seen)):
            left = end - time.monotonic()
            if left <= 0:
                raise GuestError(f"{self.name}: no end after {seconds} s; it said {seen.decode(errors='replace')}\n{self.said()[-1500:]}")
            self.shell.settimeout(left)
            try:
                data = self.shell.recv(65536)
            except socket.timeout:
                continue
            if not data:
                raise GuestError(f"{self.name} is gone: {self.said()[-1500:]}")
            seen += data
        return int(found.group(1)), seen[: found.start()].decode(errors="replace").strip()

    def run(self, script, seconds=60, fails=False):
        """Runs a script; gives what it said. `fails`: its exit code must not be 0."""
        self.start(script)
        code, output = self.finish(seconds)
        if (code != 0) != fails:
            raise GuestError(f"{self.name}: {script.strip()!r} ended with {code}: {output}\n{self.said()[-1500:]}")
        return output

    def kill(self):
        """Takes the guest's power away."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        if self.shell:
            self.shell.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
