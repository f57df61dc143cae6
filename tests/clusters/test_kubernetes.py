#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manifests in packaging/kubernetes beside the schemas of the versions that docs/guide/kubernetes.md names, without a cluster.
What their containers start is run: our programs are the built ones, torchrun and mpirun are the test's own."""
import copy
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing} (Debian: python3-jsonschema, python3-yaml)")
    sys.exit(77)

import commands  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = pathlib.Path(commands.ROOT, "packaging", "kubernetes").resolve()
PAGE = pathlib.Path(commands.ROOT, "docs", "guide", "kubernetes.md").read_text()
SCHEMAS = json.loads((HERE / "schemas.json").read_text())
VALIDATORS = {kind: jsonschema.Draft7Validator({**schema, "definitions": SCHEMAS["definitions"]}) for kind, schema in SCHEMAS["kinds"].items()}
SECRET = "0123456789abcdef0123456789abcdef\n"
# Ports that a node gives away by itself: to NodePort services, and to connections (ip_local_port_range).
NODE_PORTS, LOCAL_PORTS = range(30000, 32768), range(32768, 61000)
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
MANIFESTS = {path.relative_to(FOLDER): list(yaml.safe_load_all(path.read_text()))
             for path in sorted(FOLDER.rglob("*.yaml")) if path.name != "kustomization.yaml"}


def faults_of(manifest):
    kind = f"{manifest.get('apiVersion')} {manifest.get('kind')}"
    return [e.message for e in VALIDATORS[kind].iter_errors(manifest)] if kind in VALIDATORS else [f"there is no schema for {kind}"]


def pods_in(value, path=()):
    """(path, spec) of each pod in a manifest."""
    if isinstance(value, dict):
        if "containers" in value:
            yield path, value
        for key, below in value.items():
            yield from pods_in(below, (*path, key))
    elif isinstance(value, list):
        for below in value:
            yield from pods_in(below, path)


PODS = {(str(name), m["kind"], *path): pod for name, found in MANIFESTS.items() for m in found for path, pod in pods_in(m)}
CONTAINERS = [(name, pod, container) for name, pod in PODS.items() for container in pod.get("initContainers", []) + pod["containers"]]


def places(value, path=()):
    """The path of each field."""
    for key, below in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(below, (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


class Schemas(unittest.TestCase):
    def test_every_manifest_has_the_fields_of_its_kind(self):
        self.assertGreaterEqual(len(MANIFESTS), 7)
        for name, found in MANIFESTS.items():
            for manifest in found:
                self.assertEqual(faults_of(manifest), [], name)

    def test_each_field_that_is_misspelt_is_found(self):
        """But for names that are the user's own, as those of labels."""
        own = {"labels", "matchLabels", "nodeSelector", "selector", "limits", "requests", "pytorchReplicaSpecs", "mpiReplicaSpecs"}
        tried = 0
        for name, found in MANIFESTS.items():
            for manifest in found:
                for path in places(manifest):
                    parent = path[-2] if len(path) > 1 else ""
                    if isinstance(path[-1], int) or (parent in own and not (parent == "selector" and path[-1] == "matchLabels")):
                        continue
                    wrong = copy.deepcopy(manifest)
                    fields = at(wrong, path[:-1])
                    fields[f"{path[-1]}x"] = fields.pop(path[-1])
                    self.assertNotEqual(faults_of(wrong), [], (name, path))
                    tried += 1
        self.assertGreater(tried, 200)

    def test_a_value_of_another_type_is_found(self):
        draw = random.Random(5)
        for name, found in MANIFESTS.items():
            for manifest in found:
                for path in draw.sample(list(places(manifest)), k=min(20, len(list(places(manifest))))):
                    wrong = copy.deepcopy(manifest)
                    value = at(manifest, path)
                    at(wrong, path[:-1])[path[-1]] = {"no": "such"} if not isinstance(value, dict) else [value]
                    self.assertNotEqual(faults_of(wrong), [], (name, path))

    def test_the_page_names_the_manifests_and_kinds(self):
        self.assertEqual(list(commands.named_wrongly("kubernetes.md", "kubernetes")), [])
        kinds = {m["kind"] for name, found in MANIFESTS.items() if name.parts[0] == "examples" for m in found} - {"Service"}
        self.assertEqual(len(kinds), 4)
        self.assertLessEqual(kinds, set(re.findall(r"\w+", PAGE)))

    def test_the_page_names_the_versions(self):
        for source in SCHEMAS["sources"]:
            self.assertEqual(source["license"], "Apache-2.0")
            self.assertIn(source["version"], source["url"])
            self.assertIn(f"{source['what']} {source['version']}", re.sub(r"\s+", " ", PAGE))


class Kustomize(unittest.TestCase):
    def test_it_has_every_manifest_and_every_image(self):
        self.assertEqual(sorted(KUSTOMIZATION["resources"]), sorted(str(n) for n in MANIFESTS if n.parent == pathlib.Path(".")))
        images = {c["image"] for (file, *_), _, c in CONTAINERS if not file.startswith("examples/")}
        self.assertEqual({i["name"] for i in KUSTOMIZATION["images"]}, images)

    def test_what_it_builds_is_the_manifests_in_its_namespace(self):
        tool = next((t for t in (["kubectl", "kustomize"], ["kustomize", "build"]) if shutil.which(t[0])), None)
        if not tool:
            self.skipTest("neither kubectl nor kustomize is installed")
        done = subprocess.run([*tool, FOLDER], stdout=subprocess.PIPE, text=True, timeout=60, check=True)
        expected = []
        for manifest in (m for name in KUSTOMIZATION["resources"] for m in MANIFESTS[pathlib.Path(name)]):
            manifest = copy.deepcopy(manifest)
            if manifest["kind"] not in ("Namespace", "PriorityClass"):
                manifest["metadata"]["namespace"] = KUSTOMIZATION["namespace"]
            for _, pod in pods_in(manifest):
                for container in pod.get("initContainers", []) + pod["containers"]:
                    container["image"] = next(i["newName"] for i in KUSTOMIZATION["images"] if i["name"] == container["image"])
            expected.append(manifest)
        self.assertCountEqual(list(yaml.safe_load_all(done.stdout)), expected)


class Privileges(unittest.TestCase):
    """The table of docs/guide/kubernetes.md."""

    def test_no_container_has_more_than_it_needs(self):
        for name, pod, container in CONTAINERS:
            security = {**pod.get("securityContext", {}), **container["securityContext"]}
            self.assertFalse(pod.keys() & {"hostPID", "hostIPC"}, name)
            self.assertIs(pod["automountServiceAccountToken"], False, name)
            self.assertIs(security["allowPrivilegeEscalation"], False, name)
            self.assertEqual(security["capabilities"]["drop"], ["ALL"], name)
            self.assertFalse(security.get("privileged"), name)
            added = security["capabilities"].get("add", [])
            self.assertEqual(added, ["NET_BIND_SERVICE"] if container["name"] == "worker" else [], name)
            self.assertEqual(security.get("runAsNonRoot", False), container["name"] in ("tributaryd", "mpirun", "worker"), name)

    def test_only_the_measurement_writes_profiles(self):
        for name, pod, container in CONTAINERS:
            paths = {v["name"]: v["hostPath"]["path"] for v in pod.get("volumes", []) if "hostPath" in v}
            self.assertLessEqual(set(paths.values()), {"/var/lib/tributary"}, name)
            for mount in (m for m in container.get("volumeMounts", []) if m["name"] in paths):
                self.assertEqual(mount.get("readOnly", False), container["name"] != "measure", name)
                self.assertEqual(mount["mountPath"], paths[mount["name"]])

    def test_every_mount_has_its_volume(self):
        for name, pod in PODS.items():
            mounted = {m["name"] for _, p, c in CONTAINERS if p is pod for m in c.get("volumeMounts", [])}
            self.assertEqual(mounted, {v["name"] for v in pod.get("volumes", [])}, name)


class Ports(unittest.TestCase):
    def test_pods_in_the_hosts_network_declare_their_ports_for_the_scheduler(self):
        """Then no two with one port come to a node, and none is one that the node gives to others."""
        uses = {}
        for name, pod, container in CONTAINERS:
            command = " ".join(container["command"])
            declared = {p["containerPort"] for p in container.get("ports", [])}
            for port in container.get("ports", []):
                self.assertTrue(pod["hostNetwork"], name)
                self.assertEqual(port["hostPort"], port["containerPort"], name)
            self.assertEqual({int(p) for p in re.findall(r"(?:-port=|:)(\d+)\b", command)} - declared, set(), name)
            for port in declared:
                self.assertNotIn(port, [*NODE_PORTS, *LOCAL_PORTS], name)
                self.assertIn(str(port), PAGE)
                uses.setdefault(port, set()).add("job" if "torchrun" in command else container["name"])
            if pod.get("hostNetwork") and "torchrun" in command:
                self.assertEqual(declared, {29500}, name)
        self.assertEqual(uses, {7471: {"tributaryd"}, 29500: {"job"}, 2222: {"worker"}})

    def test_names_can_be_resolved_in_the_hosts_network(self):
        for name, pod in PODS.items():
            if name[0].startswith("examples/"):
                self.assertEqual(pod.get("dnsPolicy"), "ClusterFirstWithHostNet" if pod.get("hostNetwork") else None, name)


class Commands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)

    def ours(self):
        for name, _, container in CONTAINERS:
            words = container["command"]
            for program in "tributary", "tributaryd":
                if program in words:
                    yield name, container, words[words.index(program):]

    def test_every_option_is_one_of_the_programs(self):
        self.assertEqual(len(list(self.ours())), 7)
        for _, _, words in self.ours():
            commands.check(words)

    def test_every_variable_is_a_parameter(self):
        done = subprocess.run([os.path.join(commands.BUILD, "tributary"), "params", "--json"], stdout=subprocess.PIPE, text=True, check=True)
        known = {p["name"] for p in json.loads(done.stdout)["params"]}
        names = {v["name"] for _, _, c in CONTAINERS for v in c.get("env", [])} | set(re.findall(r"\bTRIBUTARY_[A-Z_]+\b", PAGE))
        self.assertLessEqual({n for n in names if n.startswith("TRIBUTARY_")}, known)

    def put(self, name, text):
        program = self.work / name
        program.write_text(f"#!/bin/sh\n{text}")
        program.chmod(0o755)

    def test_jobs_start_their_program_with_the_plugin(self):
        """As the controllers expand $(NAME), and mpirun starts what follows its own options."""
        for program in "torchrun", "all_reduce_perf":
            self.put(program, f'echo {program} "$@"; env | grep ^NCCL_ENV_PLUGIN=\n')
        self.put("mpirun", 'while [ "$1" != tributary ]; do shift; done; exec "$@"\n')
        os.symlink(os.path.join(commands.BUILD, "tributary"), self.work / "tributary")
        env = {n: v for n, v in os.environ.items() if not n.startswith(("NCCL_", "TRIBUTARY_"))}
        env.update(PATH=f"{self.work}:{env['PATH']}", TRIBUTARY_STATE_DIR=str(self.work / "state"))
        for name, container, words in self.ours():
            if words[:2] != ["tributary", "run"]:
                continue
            line = [w.replace("$(JOB_COMPLETION_INDEX)", "1") for w in container["command"]]
            done = subprocess.run(line, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
            started, plugin = done.stdout.splitlines()
            self.assertEqual(started.split(), words[words.index("--") + 1:len(words)] if "$(" not in " ".join(words) else
                             [w.replace("$(JOB_COMPLETION_INDEX)", "1") for w in words[words.index("--") + 1:]], name)
            self.assertIn("tributary", plugin)

    def mounted(self, pod, name, text, mode):
        """A file as kubelet mounts it for the pod: root's, with its fsGroup and the mode."""
        group = pod.get("securityContext", {}).get("fsGroup")
        file = self.work / name
        file.write_text(text)
        if group:
            os.chown(file, 0, group)
        file.chmod(mode | (0o440 if group else 0))

    def start_aggregator(self):
        """tributaryd as its pod has it, as the pod's user, at an address of this host that is its own; address and port."""
        (name, pod, container), = (c for c in CONTAINERS if c[2]["name"] == "tributaryd")
        user, group, shared = (pod["securityContext"][n] for n in ("runAsUser", "runAsGroup", "fsGroup"))
        source, = (v["secret"] for v in pod["volumes"] if "secret" in v)
        mount, = (m["mountPath"] for m in container["volumeMounts"])
        self.work.chmod(0o711)
        shutil.copy(os.path.join(commands.BUILD, "tributaryd"), self.work)
        self.mounted(pod, "secret", SECRET, source["defaultMode"])
        host = f"127.{os.getpid() >> 16 & 127 | 128}.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
        line = [w.replace("$(HOST)", host).replace(mount, str(self.work)) for w in container["command"]]
        self.assertIn(f"{host}:7471", line, name)
        env = {n: v for n, v in os.environ.items() if not n.startswith("TRIBUTARY_")}
        process = subprocess.Popen(line, executable=self.work / "tributaryd", stderr=subprocess.PIPE, text=True, user=user, group=group,
                                   extra_groups=[shared], env={**env, "TRIBUTARY_IF": "lo"})
        self.addCleanup(lambda: (process.kill(), process.wait(), process.stderr.close()))
        told = process.stderr.readline()
        self.assertIn(f"listens on {host}:7471", told)
        return process, f"{host}:7471"

    @unittest.skipIf(os.geteuid(), "only root can become the pod's user")
    def test_the_aggregator_starts_and_ends_in_its_pod(self):
        process, _ = self.start_aggregator()
        process.terminate()
        self.assertEqual(process.wait(30), 0)

    @unittest.skipIf(os.geteuid(), "only root can become the pod's user")
    def test_a_job_with_what_the_page_adds_reaches_the_aggregator(self):
        added = yaml.safe_load("\n".join(re.findall(r"^    ((?: *- |containers:|volumes:| +volumeMounts:).*)$", PAGE, re.M)))
        job = copy.deepcopy(next(m for m in MANIFESTS[pathlib.Path("examples/job.yaml")] if m["kind"] == "Job"))
        pod = job["spec"]["template"]["spec"]
        extra, = added["containers"]
        pod["volumes"] += added["volumes"]
        pod["containers"][0]["env"] = extra["env"]
        pod["containers"][0]["volumeMounts"] += extra["volumeMounts"]
        self.assertEqual(faults_of(job), [])
        _, address = self.start_aggregator()
        mounts = {m["name"]: m["mountPath"] for m in extra["volumeMounts"]}
        self.assertEqual(set(mounts), {v["name"] for v in added["volumes"]})
        source, = (v["secret"] for v in added["volumes"] if "secret" in v)
        self.work = self.work / "job"
        self.work.mkdir()
        self.mounted(pod, "secret", SECRET, source["defaultMode"])
        self.mounted(pod, "cluster", f"tributary-cluster 1\nswitch leaf1\nhost a leaf=leaf1\naggregator {address} leaf=leaf1 rate=1Gbit/s\n", 0o644)
        env = {n: v for n, v in os.environ.items() if not n.startswith("TRIBUTARY_")}
        for variable in extra["env"]:
            folder, file = os.path.split(variable["value"])
            self.assertIn(folder, mounts.values())
            env[variable["name"]] = str(self.work / file)
        done = subprocess.run([os.path.join(commands.BUILD, "tributary"), "aggregators"], env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)


unittest.main()
