# SPDX-License-Identifier: Apache-2.0
"""dashboard_test.py BUILD: Debian's Prometheus scrapes tributaryd, which aggregates for three ranks on emulated hosts, and the
files of these and of two ranks that only count operations (perf/profiler --play), with what `tributary status --metrics` says of
them, served as node exporter serves them.  Every query of packaging/grafana/tributary.json returns data, promtool accepts the texts,
the man pages list what they have, and `tributary top` reads both."""

import contextlib
import http.server
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(0, str(SOURCE / "perf/bench"))
import ranks
RANKS, PATIENCE_S = 3, 120
PLAYERS_NS = (2000000, 3000000)  # how long their AllReduces take, by the events that they send
processes = []
environment = {k: v for k, v in os.environ.items() if not k.startswith("TRIBUTARY_")}
# What this load must show; of the others any value is data.
# AllGathers have eight times as many bytes, in half of the time; the bus carries 7/8 of them.
EXACTLY = {"Bus bandwidth": 7 * (2 << 20) / (PLAYERS_NS[0] / 2e9), "Mean time": PLAYERS_NS[0] / 1e9, "Wait for the last rank": (PLAYERS_NS[1] - PLAYERS_NS[0]) / 1e9}
ABOVE_ZERO = ("tributary_sent_bytes_total", "tributary_received_messages_total", "tributary_collnet_bytes_total", "tributary_collnet_ring_sent_bytes_total", "tributaryd_group_received_bytes_total", "tributary_info", "tributary_operations_total", "tributary_operation_samples_total", "tributary_operation_sampled_bus_bytes_total")


def status(folder):
    """What the file says of running jobs, if they had the GPUs of this machine."""
    folder.mkdir(exist_ok=True)
    subprocess.run([BUILD / "tributary", "status", "--metrics", folder, "--from", SOURCE / "topo/two-level-8gpu/machine.topology"], env=environment, check=True)
    return merged(folder)


def merged(folder):
    """All files as one text: a metric's lines stand together, as in node exporter's."""
    families = {}
    for file in sorted(folder.glob("*.prom")):
        with contextlib.suppress(FileNotFoundError):  # its process has ended
            for line in file.read_text().splitlines():
                name = line.split()[2] if line.startswith("#") else re.match(r"\w+", line)[0]
                lines = families.setdefault(name, [])
                if line not in lines:
                    lines.append(line)
    return "".join(line + "\n" for lines in families.values() for line in lines)


def serve(folder, port):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            text = merged(folder).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def until(what, condition):
    """Waits for it; the machine may be busy."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and all(process.poll() is None for process in processes):
        with contextlib.suppress(OSError):
            value = condition()
            if value:
                return value
        time.sleep(0.2)
    raise SystemExit(f"not within {PATIENCE_S} s, or a program has ended: {what}")


def names(text):
    return {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}


def man_names(page):
    section = (SOURCE / "docs/man" / page).read_text().split(".SH METRICS")[1].split("\n.SH ")[0]
    return set(re.findall(r"^\.B (tributaryd?_\w+)$", section, re.M))


def promtool(text):
    done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode or done.stdout.strip():
        raise SystemExit(f"promtool check metrics: status {done.returncode}\n{done.stdout}")


def queries():
    """(title, expression) of every panel; and the metric of every variable that asks for one."""
    board = json.loads((SOURCE / "packaging/grafana/tributary.json").read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"].replace("$__rate_interval", "30s").replace("$instance", ".*")
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield "variable " + variable["name"], re.match(r"label_values\((.+), \w+\)", variable["query"]["query"])[1]


def has_data(prometheus, title, expression):
    answer = json.loads(get(f"{prometheus}/api/v1/query?query={urllib.parse.quote(expression)}"))
    values = [float(result["value"][1]) for result in answer["data"]["result"]]
    if title in EXACTLY:
        return bool(values) and math.isclose(max(values), EXACTLY[title], rel_tol=1e-6)
    wanted_above = any(name in expression for name in ABOVE_ZERO)
    return bool(values) and all(value == value for value in values) and (not wanted_above or max(values) > 0)


def check(folder, ports, prometheus):
    files, service = folder / "files", f"http://127.0.0.1:{ports['metrics']}/metrics"
    until("the files of all ranks", lambda: len(list(files.glob("*.prom"))) == RANKS + len(PLAYERS_NS))
    predicted = folder / "predicted"
    until("predictions for AllReduce and AllGather", lambda: status(predicted).count("\ntributary_collective_predicted_seconds{") == 2)
    shutil.copy(next(predicted.iterdir()), files)
    until("a group of the aggregator", lambda: "\ntributaryd_groups 1\n" in get(service))
    promtool(get(service))
    promtool(merged(files))
    of_status = merged(predicted)
    of_ranks = "".join(line for line in merged(files).splitlines(keepends=True) if line not in of_status)
    for page, text in (("man1/tributary-status.1", of_status), ("man7/tributary-env.7", of_ranks), ("man8/tributaryd.8", get(service))):
        if man_names(page) != names(text):
            raise SystemExit(f"docs/man/{page} and the metrics differ by {man_names(page) ^ names(text)}")
    count = 0
    for title, expression in queries():
        until(f"data for {title}: {expression}", lambda title=title, expression=expression: has_data(prometheus, title, expression))
        count += 1
    done = subprocess.run([BUILD / "tributary", "top", "--json", f"{files},127.0.0.1:{ports['metrics']}"], text=True, stdout=subprocess.PIPE, check=True)
    rows = json.loads(done.stdout)["rows"]
    if len([r for r in rows if r["pid"] and r["send_Bps"] > 0]) != RANKS or [r["groups"] for r in rows if not r["pid"]] != [1]:
        raise SystemExit(f"tributary top: {done.stdout}")
    print(f"{count} queries of the dashboard return data")


def main():
    wanted, free = ("control", "metrics", "files", "prometheus", "ranks"), set()
    while len(free) < len(wanted):
        free.add(ranks.free_port())
    ports = dict(zip(wanted, free))
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as ended:
        folder = pathlib.Path(name)
        (folder / "files").mkdir()
        (folder / "secret").write_text(os.urandom(16).hex())
        (folder / "secret").chmod(0o600)
        # Cards so slow that the aggregator is worth using.
        (folder / "cluster").write_text("tributary-cluster 1\nswitch leaf\n" + "".join(f"host h{i} leaf=leaf rate=100MB/s\n" for i in range(RANKS)) + f"aggregator 127.0.0.1:{ports['control']} leaf=leaf rate=10GB/s\n")
        (folder / "prometheus.yml").write_text("global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n" + "".join(f"- {{job_name: {job}, static_configs: [{{targets: ['127.0.0.1:{ports[job]}']}}]}}\n" for job in ("metrics", "files")))
        environment.update(TRIBUTARY_IF="lo", TRIBUTARY_NET="tcp", TRIBUTARY_SHARED_DIR=name, TRIBUTARY_STATE_DIR=name)

        def start(*command, **more):
            log = folder / f"log{len(processes)}"
            with log.open("wb") as out:
                process = subprocess.Popen(command, env={**environment, **more}, stdout=out, stderr=subprocess.STDOUT)
            processes.append(process)
            ended.callback(process.wait)
            ended.callback(process.kill)

        start(BUILD / "tributaryd", "--listen", f"127.0.0.1:{ports['control']}", "--secret", folder / "secret", "--metrics", f"127.0.0.1:{ports['metrics']}")
        until("tributaryd's metrics", lambda: get(f"http://127.0.0.1:{ports['metrics']}/metrics"))
        for ns in PLAYERS_NS:
            start(BUILD / "perf/profiler", "--plugin", BUILD / "lib/libnccl-net-tributary.so", "--play", str(ns), TRIBUTARY_METRICS=str(folder / "files"), TRIBUTARY_PROFILER="time")
        serve(folder / "files", ports["files"])
        start("prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{ports['prometheus']}", "--log.level=error")
        for rank in range(RANKS):
            start("unshare", "--uts", "sh", "-c", f'hostname h{rank} && exec "$@"', "sh", BUILD / "perf/allreduce", "--plugin", BUILD / "lib/libnccl-net-tributary.so", "--algo", "collnet", "--bytes", "4M", "--iters", "1001", "--batch", "1000", "--nap-us", "200",
                  RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(ports["ranks"]), TRIBUTARY_METRICS=str(folder / "files"), TRIBUTARY_CLUSTER=str(folder / "cluster"), TRIBUTARY_SECRET=str(folder / "secret"))
        try:
            check(folder, ports, f"http://127.0.0.1:{ports['prometheus']}")
        except BaseException:
            for log in folder.glob("log*"):
                print(f"--- {log.name}:\n{log.read_text(errors='replace')[-3000:]}")
            raise


main()
