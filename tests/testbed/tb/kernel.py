# SPDX-License-Identifier: Apache-2.0
"""The system calls that Python 3.11 lacks: namespaces, mounts, host names. All raise OSError."""
import ctypes
import os

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name, *args):
    if getattr(_libc, name)(*args) < 0:
        e = ctypes.get_errno()
        raise OSError(e, "%s: %s" % (name, os.strerror(e)))


def unshare(flags):
    _call("unshare", ctypes.c_int(flags))


def setns(fd):
    _call("setns", ctypes.c_int(fd), ctypes.c_int(0))


def mount(source, target, kind, flags=0, data=None):
    def text(s):
        return None if s is None else s.encode()
    _call("mount", text(source), text(target), text(kind), ctypes.c_ulong(flags), text(data))


def umount(target):
    _call("umount2", target.encode(), ctypes.c_int(MNT_DETACH))


def sethostname(name):
    _call("sethostname", name.encode(), ctypes.c_size_t(len(name.encode())))


def die_with_parent(signal_number):
    _call("prctl", ctypes.c_int(PR_SET_PDEATHSIG), ctypes.c_ulong(signal_number), ctypes.c_ulong(0),
          ctypes.c_ulong(0), ctypes.c_ulong(0))


def set_name(name):
    """The name that ps shows, at most 15 characters."""
    _call("prctl", ctypes.c_int(PR_SET_NAME), ctypes.c_char_p(name.encode()), ctypes.c_ulong(0), ctypes.c_ulong(0),
          ctypes.c_ulong(0))
