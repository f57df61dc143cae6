# SPDX-License-Identifier: Apache-2.0
"""The program `tributary`, which `python -m tributary` and the wheel's entry point start."""
import os
import signal
import sys

from . import _build, command


def _numbers(version):
    return tuple(int(part) for part in version.split(".")[:2])


def main():
    # Of two words, "glibc 2.28".
    here = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()[-1:]
    if here and _numbers(here[0]) < _numbers(_build.COMMAND_GLIBC):
        sys.exit(f"tributary: the command needs glibc {_build.COMMAND_GLIBC}, this system has {here[0]}; "
                 "the plugin itself works here: python -c 'import tributary; tributary.enable()'")
    if sys.executable:
        os.environ["_TRIBUTARY_PYTHON"] = sys.executable  # for bench and tune: it has the PyTorch to be measured
    for name in signal.SIGPIPE, signal.SIGXFSZ:  # Python ignores them, and jobs of `tributary run` would, too
        signal.signal(name, signal.SIG_DFL)
    try:
        os.execv(command(), ["tributary"] + sys.argv[1:])
    except OSError as error:
        sys.exit(f"tributary: {command()}: {error.strerror}")


if __name__ == "__main__":
    main()
