# SPDX-License-Identifier: Apache-2.0
"""A host's namespaces: network, mounts, name and shared memory of its own; processes are the run's.

The namespaces are held by open file descriptors alone, no process sits in them, so they end with the run.
"""
import os
import subprocess

from . import kernel

KINDS = ("net", "mnt", "uts", "ipc")


class ToolError(Exception):
    """A command that builds the test-bed failed; the text is what it said."""


class Space:
    """Where commands of one host run. Space() is the switch side, the namespaces we are already in."""

    def __init__(self, name="switches"):
        self.name = name
        self.fds = []
        self.warnings = []
        self.cwd = os.getcwd()

    def enter(self):
        """Called between fork and exec."""
        for fd in self.fds:
            kernel.setns(fd)
        os.chdir(self.cwd)  # joining a mount namespace moves the process to its root

    def tool(self, argv, text=None, pass_fds=()):
        """Runs a command in the host to its end; returns its output."""
        done = subprocess.run(argv, input=text, preexec_fn=self.enter, pass_fds=pass_fds, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            said = " ".join((done.stderr or done.stdout).split())
            raise ToolError("%s: %s: %s" % (self.name, " ".join(argv), said or "exit %d" % done.returncode))
        return done.stdout

    def batch(self, tool, lines, pass_fds=()):
        """Many ip, tc or bridge commands in one process."""
        if lines:
            self.tool([tool, "-batch", "-"], "\n".join(lines) + "\n", pass_fds)

    def call(self, function, *args):
        """Runs a function in the host, in a child; returns the lines of text it returned."""
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            _child(w, self.enter, function, args)
        os.close(w)
        with os.fdopen(r, encoding="utf-8") as f:
            lines = f.read().splitlines()
        if os.waitpid(pid, 0)[1] != 0:
            raise ToolError("%s: %s" % (self.name, " ".join(lines)))
        return lines

    def close(self):
        while self.fds:
            os.close(self.fds.pop())


def _child(w, enter, function, args):
    status, lines = 0, []
    try:
        enter()
        lines = function(*args) or []
    except Exception as e:  # whatever went wrong is told to the parent; the child must not go on as a second run
        status, lines = 1, ["%s: %s" % (type(e).__name__, e)]
    os.write(w, "\n".join(lines).encode())
    os._exit(status)


def new(host, private_shm, boot_id):
    """The Space of a new host. Raises ToolError."""
    space = Space(host.name)
    ready_r, ready_w = os.pipe()
    stay_r, stay_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(stay_w)
        try:
            warnings = _furnish(host.name, private_shm, boot_id)
            os.write(ready_w, ("\n".join(["ok"] + warnings)).encode())
        except OSError as e:
            os.write(ready_w, str(e).encode())
        os.close(ready_w)
        os.read(stay_r, 1)
        os._exit(0)
    os.close(ready_w)
    os.close(stay_r)
    with os.fdopen(ready_r, encoding="utf-8") as f:
        said = f.read().splitlines()
    if said[:1] == ["ok"]:
        kinds = KINDS if private_shm else KINDS[:3]
        space.fds = [os.open("/proc/%d/ns/%s" % (pid, kind), os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]
        space.warnings = said[1:]
    os.close(stay_w)
    os.waitpid(pid, 0)
    if not space.fds:
        raise ToolError("%s: %s" % (host.name, " ".join(said) or "its process died"))
    return space


def _furnish(name, private_shm, boot_id):
    """Makes the calling process's namespaces a host. Returns warnings about what could not be had."""
    flags = kernel.CLONE_NEWNET | kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS
    kernel.unshare(flags | (kernel.CLONE_NEWIPC if private_shm else 0))
    kernel.sethostname(name)
    warnings = []
    if not _try(_own_boot_id, boot_id):
        warnings.append("the hosts share one boot id")
    if not _try(kernel.mount, "sysfs", "/sys", "sysfs", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC):
        warnings.append("/sys/class/net shows the machine's interfaces, not the host's")
    if private_shm and not _try(kernel.mount, "tmpfs", "/dev/shm", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV):
        warnings.append("the hosts share /dev/shm")
    return warnings


def _own_boot_id(boot_id):
    """The file to bind over the kernel's needs a place for an instant: a tmpfs on /sys, soon covered again."""
    kernel.mount("tmpfs", "/sys", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV)
    try:
        with open("/sys/boot_id", "w", encoding="ascii") as f:
            f.write(boot_id + "\n")
        kernel.mount("/sys/boot_id", "/proc/sys/kernel/random/boot_id", None, kernel.MS_BIND)
    finally:
        kernel.umount("/sys")


def _try(function, *args):
    try:
        function(*args)
        return True
    except OSError:
        return False
