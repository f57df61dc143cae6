#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""extract.py KUBERNETES JOBSET PYTORCHJOB MPIJOB > schemas.json: what the manifests in packaging/kubernetes are checked with.

The arguments are the files that SOURCES names.  Of Kubernetes' definitions those stay that the kinds need, without descriptions;
of a custom resource its own part, which refers to Kubernetes' for the pods in it.  Fields that the server does not know are refused,
and so is `status`, which is no part of a manifest.  Needs python3-yaml."""
import json
import sys

import yaml

SOURCES = [
    {"what": "Kubernetes", "version": "v1.34.0", "license": "Apache-2.0",
     "url": "https://github.com/cdk8s-team/cdk8s/blob/71f8cba7ecc809d861e837e842217202d5e5a16c/kubernetes-schemas/v1.34.0/_definitions.json",
     "of": "https://github.com/kubernetes/kubernetes/blob/v1.34.0/api/openapi-spec/swagger.json"},
    {"what": "JobSet", "version": "v0.10.1", "license": "Apache-2.0",
     "url": "https://github.com/kubernetes-sigs/jobset/blob/v0.10.1/config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"},
    {"what": "Kubeflow training-operator", "version": "v1.9.0", "license": "Apache-2.0",
     "url": "https://github.com/kubeflow/training-operator/blob/v1.9.0/manifests/base/crds/kubeflow.org_pytorchjobs.yaml"},
    {"what": "Kubeflow mpi-operator", "version": "v0.8.0", "license": "Apache-2.0",
     "url": "https://github.com/kubeflow/mpi-operator/blob/v0.8.0/manifests/base/kubeflow.org_mpijobs.yaml"},
]
KINDS = {"v1 Namespace": "core.v1.Namespace", "v1 Service": "core.v1.Service", "apps/v1 DaemonSet": "apps.v1.DaemonSet",
         "batch/v1 Job": "batch.v1.Job", "scheduling.k8s.io/v1 PriorityClass": "scheduling.v1.PriorityClass"}
PREFIXES = "io.k8s.api.", "io.k8s.apimachinery.pkg.apis.", "io.k8s.apimachinery.pkg."
KEPT = "type", "required", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"


def short(name):
    name = name.rsplit("/", 1)[-1]
    return next((name[len(p):] for p in PREFIXES if name.startswith(p)), name)


def pods_of(schema):
    """The definition of Kubernetes that this part of a custom resource repeats; None."""
    of = schema.get("properties", {}).get("spec", {}).get("properties", {})
    if "containers" in of:
        return "core.v1.PodTemplateSpec"
    return "batch.v1.JobTemplateSpec" if "completionMode" in of else None


def compact(schema, top=False):
    """The same rules in fewer words, as JSON Schema has them."""
    if "$ref" in schema:
        return {"$ref": f"#/definitions/{short(schema['$ref'])}"}
    if pods_of(schema) and not top:
        return {"$ref": f"#/definitions/{pods_of(schema)}"}
    found = {k: schema[k] for k in KEPT if k in schema}
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        found["type"] = ["integer", "string"]
    properties = {k: compact(v) for k, v in schema.get("properties", {}).items() if not (top and k == "status")}
    if properties:
        found["properties"] = properties
        found["additionalProperties"] = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    for key in "items", "additionalProperties":
        if isinstance(schema.get(key), dict):
            found[key] = compact(schema[key])
    return found


def custom(path):
    """The kind of a CustomResourceDefinition, and its schema."""
    with open(path, encoding="utf-8") as file:
        spec = yaml.safe_load(file)["spec"]
    version, = (v for v in spec["versions"] if v["storage"])
    schema = compact(version["schema"]["openAPIV3Schema"], True)
    schema["properties"]["metadata"] = {"$ref": "#/definitions/meta.v1.ObjectMeta"}
    return f"{spec['group']}/{version['name']} {spec['names']['kind']}", schema


def references(value):
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"].rsplit("/", 1)[1]
        for below in value.values():
            yield from references(below)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        every = {short(name): schema for name, schema in json.load(file)["definitions"].items()}
    kinds = {kind: {"$ref": f"#/definitions/{name}"} for kind, name in KINDS.items()}
    kinds.update(custom(path) for path in sys.argv[2:])
    definitions, wanted = {}, list(references(kinds))
    while wanted:
        name = wanted.pop()
        if name not in definitions:
            definitions[name] = compact(every[name], name in KINDS.values())
            wanted += references(definitions[name])
    # What Kubernetes says of these two in words alone.
    definitions["api.resource.Quantity"] = {"type": ["string", "number"]}
    definitions["util.intstr.IntOrString"] = {"type": ["integer", "string"]}
    comment = "Extracted by extract.py from the files of sources, whose copyright and licence hold"
    # A definition a line, so that a difference can be read.
    print("{" + f'"$comment": {json.dumps(comment)},\n"sources": [')
    print(",\n".join(json.dumps(s) for s in SOURCES))
    for name, part in ("kinds", kinds), ("definitions", definitions):
        print(f'],\n"{name}": {{' if name == "kinds" else f'}},\n"{name}": {{')
        print(",\n".join(f"{json.dumps(k)}: {json.dumps(part[k], separators=(',', ':'), sort_keys=True)}" for k in sorted(part)))
    print("}}")


main()
