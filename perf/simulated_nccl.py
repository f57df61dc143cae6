# SPDX-License-Identifier: Apache-2.0
"""An NCCL that moves data on simulated GPUs, which is not part of this repository: a launcher, and a folder with libnccl.so.2
and rankbench. The programs NAME_nccl.py run it with the plugin."""

import os
import pathlib
import re
import subprocess
import sys

SKIPPED = 77
TUNING = re.compile(r"NCCL INFO (\w+): (\d+) Bytes -> Algo (\w+) proto (\w+) channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}")
# The launcher says in FAKE_GPUS which GPUs there are, in FAKE_DEV which one is the rank's.
DRIVER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int cuCtxGetDevice(int *ret) { *ret = atoi(getenv("FAKE_DEV")); return 0; }
int cuDeviceGetPCIBusId(char *ret, int bytes, int device)
{
	const char *at = getenv("FAKE_GPUS");
	for (; at && device > 0; device--)
		at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
	return at ? snprintf(ret, (size_t)bytes, "%.*s", (int)strcspn(at, ","), at) < 0 : 101;
}
"""
ROW = re.compile(r"\s*\d+\s+\d+\s+[\d.]+\s+[\d.]+\s+[\d.]+\s+\d+\s+([\d.]+)\s")


def add_arguments(parser, ranks):
    parser.add_argument("--fakerun", type=pathlib.Path, help="the launcher")
    parser.add_argument("--lib", type=pathlib.Path, help="the folder")
    parser.add_argument("--plugin", default="build/lib/libnccl-net-tributary.so", type=pathlib.Path)
    parser.add_argument("--ranks", default=ranks, type=int)
    parser.add_argument("--limit", default=300, type=int, help="seconds")
    parser.add_argument("--netns", metavar="PREFIX",
                        help="host N runs in network namespace PREFIXN; NCCL_SOCKET_IFNAME comes from the environment then")


def parse(parser):
    """The options; ends the program where there is no such NCCL."""
    options = parser.parse_args()
    if not (options.fakerun and options.lib and (options.lib / "libnccl.so.2").exists()):
        print("skipped: no NCCL on simulated GPUs is named (--fakerun, --lib)")
        sys.exit(SKIPPED)
    if not options.plugin.exists():
        sys.exit(f"{options.plugin} is not there: make plugin")
    options.plugin, options.driver = options.plugin.resolve(), None
    return options


def own_namespaces():
    """Starts again in namespaces of its own, as `ip netns` needs them."""
    if os.environ.get("SIMULATED_NCCL_INSIDE"):
        return
    for more in ([], ["--map-root-user"]):
        words = ["unshare", *more, "--net", "--mount"]
        if subprocess.run([*words, "mount", "-t", "tmpfs", "none", "/run"], capture_output=True, check=False).returncode == 0:
            os.environ["SIMULATED_NCCL_INSIDE"] = "1"
            os.execvp(words[0], [*words, "sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh", sys.executable, "-B", *sys.argv])
    print("skipped: no namespaces here (neither root nor user namespaces)")
    sys.exit(SKIPPED)


def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True)


def make_driver(folder):
    """A folder with a CUDA driver that says which GPU is a rank's, as tuning tables need to know, and nothing else."""
    subprocess.run(["cc", "-x", "c", "-shared", "-fPIC", "-o", folder / "libcuda.so.1", "-"], input=DRIVER, text=True,
                   check=True)
    return folder


def run(options, folder, environment, arguments, per_host=1, launcher=()):
    """What the program printed, and NCCL's lines of all ranks. Ends this program where that one failed or a result is wrong."""
    plugin = environment.pop("plugin", options.plugin)
    given = {"NCCL_NET_PLUGIN": plugin, "NCCL_ENV_PLUGIN": plugin, "NCCL_ALGO": "", "NCCL_PROTO": "^LL128",
             "NCCL_P2P_LL_THRESHOLD": "", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "TUNING",
             "TRIBUTARY_SHARED_DIR": folder / "shared", "TRIBUTARY_STATE_DIR": folder / "state",
             "TRIBUTARY_LOCAL_PROCESSES": per_host, **environment}
    (folder / "shared").mkdir(parents=True)
    line = [options.fakerun, "-n", options.ranks, "--ppn", per_host, "--lib", options.lib, "--logs", folder / "logs"]
    line += ["--lib", options.driver] if options.driver else []
    line += ["--netns", options.netns] if options.netns else []
    line += launcher
    for name, value in given.items():
        line += ["--env", f"{name}={value}"]
    try:
        done = subprocess.run([str(word) for word in (*line, "--", getattr(options, "program", options.lib / "rankbench"), *arguments)],
                              capture_output=True, text=True, timeout=options.limit, check=False)
    except subprocess.TimeoutExpired:
        sys.exit(f"the program did not end within {options.limit} s (--limit)")
    if done.returncode or "wrong elements: 0" not in done.stdout and ", wrong 0" not in done.stdout:
        sys.exit(f"the program failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    logs = [path.read_text(errors="replace") for path in sorted((folder / "logs").rglob("*")) if path.is_file()]
    return done.stdout, "\n".join(logs)


def choices(log, ranks):
    """NCCL's lines of what it ran, in order: collective, bytes as its tuner counts them, algorithm, protocol, channels."""
    for func, size, algorithm, protocol, low, high in TUNING.findall(log):
        size = int(size) * (ranks if func in ("AllGather", "ReduceScatter") else 1)
        yield func, size, algorithm, protocol, int(high) - int(low) + 1


def times_us(out):
    """Of each size, in place."""
    return [float(row[1]) for row in map(ROW.match, out.splitlines()) if row]


def size_class(size):
    return (size - 1).bit_length() if size > 1 else 0
