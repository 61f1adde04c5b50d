#!/usr/bin/python3
"""Runs a command under what a unit of systemd takes away from it, without systemd.

    dist/deb/confine.py dist/deb/nacre.service -- COMMAND...

What each line of the unit means is carried out with the kernel's own means: capabilities, seccomp, mounts in a namespace. A line whose name is
in neither table here ends it: nothing of a unit is left out unseen. It needs root, libseccomp and `systemd-analyze` (for the lists of
system calls).
"""

import ctypes
import os
import re
import socket
import subprocess
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP = 38, 24
CAPABILITIES = ("CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST "
                "NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE "
                "SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG "
                "WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE").split()
MS_RDONLY, MS_NOSUID, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 32, 4096, 16384, 1 << 18
CLONE_NEWNS = 0x20000
NAMESPACES = 0x7E020080
WRITE_AND_EXECUTE = 6
SCMP_ALLOW, SCMP_ERRNO_EPERM = 0x7FFF0000, 0x00050001
NE, EQ, MASKED = 1, 4, 7
# Lines that say how systemd treats the process, not what the process may do.
OF_SYSTEMD = set("Type NotifyAccess EnvironmentFile ExecStart ExecReload Restart RestartSec TimeoutStartSec TimeoutStopSec KillMode LimitNOFILE "
                 "LimitMEMLOCK TasksMax OOMScoreAdjust SystemCallErrorNumber SystemCallArchitectures".split())


class Compare(ctypes.Structure):
    """A condition on an argument of a system call."""

    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def call(result):
    if result < 0:
        number = ctypes.get_errno() or -result
        raise SystemExit(f"confine: {os.strerror(number)}")
    return result


def service(path):
    """Name and value of each line of [Service]."""
    with open(path) as f:
        text = f.read()
    section = re.search(r"^\[Service\]$(.*?)(?=^\[|\Z)", text, re.M | re.S).group(1)
    return re.findall(r"^(\w+)=(.*)$", section, re.M)


def mount(source, target, kind=None, flags=0):
    bytes_of = lambda s: s.encode() if s else None
    call(LIBC.mount(bytes_of(source), target.encode(), bytes_of(kind), flags, None))


def read_only(*paths):
    for path in filter(os.path.isdir, paths):
        mount(path, path, None, MS_BIND | MS_REC)
        mount(None, path, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID)


def members(group):
    """System calls of a group of systemd's, and of the groups in it."""
    words = subprocess.run(["systemd-analyze", "syscall-filter", group], capture_output=True, text=True, check=True).stdout
    for word in (line.strip() for line in words.splitlines()[1:]):
        if word.startswith("@"):
            yield from members(word)
        elif word and not word.startswith("#"):
            yield word


class Filter:
    """A filter of system calls: all that is not allowed gives EPERM, and so does what is refused by condition."""

    def __init__(self):
        self.lib = ctypes.CDLL("libseccomp.so.2")
        self.lib.seccomp_init.restype = ctypes.c_void_p

    def begin(self, default):
        return ctypes.c_void_p(self.lib.seccomp_init(ctypes.c_uint32(default)))

    def rule(self, ctx, action, name, *conditions):
        number = self.lib.seccomp_syscall_resolve_name(name.encode())
        array = (Compare * max(len(conditions), 1))(*conditions)
        # Calls that this machine does not have are left out, as systemd does.
        if number >= 0:
            call(self.lib.seccomp_rule_add_array(ctx, ctypes.c_uint32(action), number, len(conditions), array))

    def load(self, ctx):
        call(self.lib.seccomp_load(ctx))

    def allow(self, names):
        ctx = self.begin(SCMP_ERRNO_EPERM)
        for name in names:
            self.rule(ctx, SCMP_ALLOW, name)
        self.load(ctx)

    def refuse(self, *rules):
        ctx = self.begin(SCMP_ALLOW)
        for name, *conditions in rules:
            self.rule(ctx, SCMP_ERRNO_EPERM, name, *conditions)
        self.load(ctx)


class Confinement:
    """What the lines of a unit take away: mounts first, then capabilities, then system calls."""

    def __init__(self, lines):
        self.lines = dict(lines)
        unknown = [name for name in self.lines if name not in OF_SYSTEMD and not hasattr(self, name)]
        if unknown:
            raise SystemExit(f"confine: does not know what these lines mean: {', '.join(unknown)}")

    def carry_out(self):
        self.filter = Filter()
        call(LIBC.unshare(CLONE_NEWNS))
        mount(None, "/", None, MS_REC | MS_PRIVATE)
        # The lists are read by a program, which must not be confined yet.
        self.calls = sorted(set(members(self.lines["SystemCallFilter"]))) if "SystemCallFilter" in self.lines else None
        for name in sorted(self.lines, key=lambda name: (name == "SystemCallFilter", name == "NoNewPrivileges", name == "CapabilityBoundingSet")):
            if name not in OF_SYSTEMD:
                getattr(self, name)(self.lines[name])

    def ProtectSystem(self, value):
        assert value == "full", value
        read_only("/usr", "/boot", "/etc")

    def ProtectHome(self, _):
        for path in filter(os.path.isdir, ("/home", "/root", "/run/user")):
            mount("tmpfs", path, "tmpfs", MS_RDONLY)

    def PrivateTmp(self, _):
        for path in ("/tmp", "/var/tmp"):
            mount("tmpfs", path, "tmpfs")

    def ProtectKernelTunables(self, _):
        read_only("/proc/sys", "/proc/irq", "/sys")

    def ProtectControlGroups(self, _):
        read_only("/sys/fs/cgroup")

    def ProtectKernelModules(self, _):
        read_only("/usr/lib/modules")
        self.filter.refuse(("init_module",), ("finit_module",), ("delete_module",))

    def ProtectKernelLogs(self, _):
        self.filter.refuse(("syslog",))

    def ProtectHostname(self, _):
        self.filter.refuse(("sethostname",), ("setdomainname",))

    def RestrictAddressFamilies(self, value):
        families = {int(getattr(socket, name)) for name in value.split()}
        others = [f for f in range(46) if f not in families]
        self.filter.refuse(*(("socket", Compare(0, EQ, f, 0)) for f in others))

    def RestrictNamespaces(self, _):
        bits = [1 << n for n in range(32) if NAMESPACES & 1 << n]
        self.filter.refuse(*((name, Compare(0, MASKED, b, b)) for name in ("unshare", "clone") for b in bits), ("setns",))

    def RestrictRealtime(self, _):
        self.filter.refuse(*(("sched_setscheduler", Compare(1, EQ, policy, 0)) for policy in (1, 2, 6)))

    def RestrictSUIDSGID(self, _):
        bits = (0o4000, 0o2000)
        at = (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("mkdir", 1), ("mkdirat", 2), ("mknod", 1), ("mknodat", 2))
        self.filter.refuse(*((name, Compare(arg, MASKED, b, b)) for name, arg in at for b in bits))

    def LockPersonality(self, _):
        self.filter.refuse(("personality",))

    def MemoryDenyWriteExecute(self, _):
        both = (Compare(2, MASKED, WRITE_AND_EXECUTE, WRITE_AND_EXECUTE),)
        self.filter.refuse(("mmap", *both), ("mprotect", Compare(2, MASKED, 4, 4)), ("pkey_mprotect", Compare(2, MASKED, 4, 4)))

    def CapabilityBoundingSet(self, value):
        kept = {word.removeprefix("CAP_") for word in value.split()}
        for number, name in enumerate(CAPABILITIES):
            # A kernel may not know the last ones.
            if name not in kept and LIBC.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) != 0 and number < 38:
                call(-ctypes.get_errno())

    def NoNewPrivileges(self, _):
        call(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))

    def SystemCallFilter(self, _):
        # Filters are installed by the call that they would refuse here.
        self.filter.allow([*self.calls, "execve"])


def main():
    if len(sys.argv) < 4 or sys.argv[2] != "--":
        raise SystemExit(__doc__)
    Confinement(service(sys.argv[1])).carry_out()
    os.execvp(sys.argv[3], sys.argv[3:])


if __name__ == "__main__":
    main()
