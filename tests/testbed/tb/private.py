# SPDX-License-Identifier: Apache-2.0
"""A private world for one run: network, mount, process (and, without root, user) namespaces that die with us.

The caller stays behind as a waiting parent. Its child is process 1 of the new process namespace: when it ends, the
kernel ends everything in it, and with the last process and descriptor go the network namespaces, bridges and links.
The child itself ends with the parent (PDEATHSIG, and the pipe that closes the gap before it is set), so SIGKILL leaves
nothing.
"""
import os
import signal
import sys

from . import kernel

NAME, PARENT_NAME = "testbed-init", "testbed-wait"


class Refused(Exception):
    """The kernel does not let us build a test-bed; the text says what it refused."""


def enter():
    """Enters new namespaces. Returns as the child, with the end of a pipe that reads EOF when the parent is gone;
    the parent never returns, it exits with the child's status."""
    spaces = kernel.CLONE_NEWNET | kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC
    uid, gid = os.geteuid(), os.getegid()
    try:
        kernel.unshare(spaces)
    except PermissionError:
        try:
            kernel.unshare(spaces | kernel.CLONE_NEWUSER)
            _map_root(uid, gid)
        except OSError as e:
            raise Refused("no right to make namespaces, as root or as a user (%s)" % e)
    except OSError as e:
        raise Refused("the kernel makes no namespaces (%s)" % e)
    kernel.set_name(PARENT_NAME)
    alive_r, alive_w = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    # Process 1 of a namespace ignores what it has no handler for, so it needs one from its first moment.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda n, _: os._exit(128 + n))
    pid = os.fork()
    if pid == 0:
        os.close(alive_w)
        _child()
        return alive_r
    os.close(alive_r)
    _wait(pid)


def _map_root(uid, gid):
    for name, text in (("setgroups", "deny"), ("uid_map", "0 %d 1" % uid), ("gid_map", "0 %d 1" % gid)):
        with open("/proc/self/" + name, "w", encoding="ascii") as f:
            f.write(text)


def _child():
    kernel.die_with_parent(signal.SIGKILL)
    kernel.set_name(NAME)
    try:
        kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
        kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    except OSError as e:
        raise Refused("no private /proc (%s)" % e)


def _wait(pid):
    """A signal sent to us goes to the child, which ends the run in order. The terminal sends ^C to both."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda n, _: os.kill(pid, signal.SIGTERM))
    status = os.waitpid(pid, 0)[1]
    os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def _stat(pid):
    """(name, state, parent) of a process; raises OSError when it is gone."""
    with open("/proc/%s/stat" % pid, encoding="utf-8", errors="replace") as f:
        head, tail = f.read().rsplit(")", 1)
    state, parent = tail.split()[:2]
    return head.split("(", 1)[1], state, parent


def orphans():
    """Process numbers of our own runs' children whose parent is gone. The kernel kills those: there should be none."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            name, state, parent = _stat(pid)
            if name != NAME or state == "Z" or os.stat("/proc/" + pid).st_uid != os.geteuid():
                continue
            if parent == "0" or _stat(parent)[0] != PARENT_NAME:
                found.append(int(pid))
        except OSError:
            continue
    return found
