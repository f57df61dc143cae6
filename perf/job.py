"""Your own job with the plugin and without it, in turns: what `perf/torch_bench.py … -- COMMAND` does.

"with" runs the command by `tributary run`, "without" as the environment is now, less the plugin, and with it the
NCCL_COLLNET_ENABLE that `tributary env` sets beside it. NCCL's log of every turn must show that the plugin carried the one
and not the other. On several hosts start the same line on each of them at the
same time: all take the same turns, and the command's own rendezvous brings them together.
"""
import glob
import os
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

SIDES = ("with", "without")
USED = re.compile(r"(?:Using network Tributary|via NET/Tributary)\b")
NETWORK = re.compile(r"Using network (\S+)|via NET/(\w+)")


class Failed(Exception):
    """A turn that says nothing about the plugin."""


class Nothing(Exception):
    """The ranks of this host print no figure: another host's do."""


def program(given):
    """The `tributary` that starts the job: the built one, else the installed one."""
    built = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "build", "tributary")
    found = given or (built if os.access(built, os.X_OK) else shutil.which("tributary"))
    if not found:
        raise Failed("there is no tributary program: make, or name it with --tributary")
    return found


def environment(base, log, side):
    # check_network() needs these lines, and a log of more would take time.
    env = {**base, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET", "NCCL_DEBUG_FILE": log}
    if side == "without" and env.get("NCCL_NET_PLUGIN", "").endswith("tributary"):
        env.pop("NCCL_NET_PLUGIN")
        # Set for our plugin, and it would switch GPUDirect RDMA off for plain NCCL. TRIBUTARY_* mean nothing to NCCL.
        env.pop("NCCL_COLLNET_ENABLE", None)
    return env


def check_network(side, logs):
    """Raises Failed unless the logs of NCCL show the network that the side is named after."""
    if not logs:
        raise Failed("%s the plugin: NCCL wrote no log here; does the launcher pass the environment on?" % side)
    used = bool(USED.search(logs))
    if used != (side == "with"):
        found = sorted({a or b for a, b in NETWORK.findall(logs)})
        raise Failed("%s the plugin: NCCL's log names the network %s" % (side, ", ".join(found) or "nowhere"))


def value_of(output, metric, seconds):
    """The median of what the command prints of itself, or its wall time; None where it prints nothing of the kind."""
    if not metric:
        return seconds
    values = [float(v) for v in re.findall(metric, output)]
    return statistics.median(values) if values else None


def output_of(command, env, timeout_s):
    """What a command printed. It and all that it started end here, whatever happens."""
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except BaseException as e:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(e, subprocess.TimeoutExpired):
            raise Failed("no end after %g s" % timeout_s) from e
        raise
    if process.returncode:
        raise Failed("the command ended with status %d" % process.returncode)
    return output


def turn(side, options, folder):
    command = ([program(options.tributary), "run", "--"] if side == "with" else []) + options.command
    pattern = os.path.join(folder, "nccl.%h.%p")
    for old in glob.glob(os.path.join(folder, "nccl.*")):
        os.remove(old)
    start = time.monotonic()
    try:
        output = output_of(command, environment(os.environ, pattern, side), options.timeout)
    except Failed as e:
        raise Failed("%s the plugin: %s" % (side, e)) from e
    seconds = time.monotonic() - start
    logs = ""
    for path in glob.glob(os.path.join(folder, "nccl.*")):
        with open(path, encoding="utf-8", errors="replace") as f:
            logs += f.read()
    check_network(side, logs)
    return value_of(output, options.metric, seconds)


def bench(options, bootstrap):
    """Prints every turn and the ratio of the pairs; returns its (low, median, high)."""
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(options.pairs):
            values = {}
            for side in SIDES if pair % 2 == 0 else SIDES[::-1]:
                values[side] = turn(side, options, folder)
                # It goes on all the same: the turns have to be those of the hosts where figures are printed.
                print("%3d  %-8s %12s" % (pair, side, "nothing matches --metric here" if values[side] is None else "%.6g" % values[side]),
                      flush=True)
            if None in values.values():
                continue
            ratios.append(values["with"] / values["without"] if options.higher else values["without"] / values["with"])
    if not ratios:
        raise Nothing("the job printed nothing on this host that matches --metric '%s'" % options.metric)
    low, median, high = bootstrap(ratios)
    print("with the plugin %.3f times as fast [%.3f, %.3f], median of %d pairs and its 95 %% interval" % (median, low, high, len(ratios)))
    if low <= 1 <= high:
        print("The interval holds 1: these turns show no difference.")
    return low, median, high
