"""Six mutating policies over the bundled log: labels by ApplyConfiguration, and patches with a match condition."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

from ingest.lake import Lake
from ingest.sources.files import ingest_files
from pipeline.manifests.files import manifests_of
from pipeline.runs import RunKind
from pipeline.stages.assign import assign
from pipeline.stages.registry import MUTATING
from pipeline.stages.stage import Asked
from queries import open_lake

_BUNDLED = Path(__file__).parents[2] / "api" / "demo" / "audit.jsonl.zst"
_GROUP = "admissionregistration.k8s.io/v1"
_RESOURCES = (("", "pods"), ("apps", "deployments"), ("", "configmaps"))
_LABEL = 'Object{metadata: Object.metadata{labels: {"bench.example.com/seen": "yes"}}}'
_PATCH = '[JSONPatch{op: "add", path: "/metadata/annotations", value: {"bench.example.com/seen": object.metadata.name}}]'


def run() -> list[dict[str, Any]]:
    """The seconds of plan and run."""
    with tempfile.TemporaryDirectory(prefix="hindcast-bench-") as folder:
        lake = Lake.create(Path(folder) / "lake")
        ingest_files(lake, [_BUNDLED], "demo", received_ts=0.0)
        lake.close()
        return list(measured(lake.path))


def measured(lake: Path) -> Iterator[dict[str, Any]]:
    """The rows of one lake."""
    text = yaml.safe_dump_all(manifests())
    ((_, rules),) = assign(manifests_of([("mutating.yaml", text)])).rules
    started, processor = time.perf_counter(), time.process_time()
    with closing(open_lake(lake)) as reader:
        plan = MUTATING.plan(reader, rules, Asked())
    MUTATING.run(plan, lake, 1, None, RunKind.REPLAY)
    seconds, used = time.perf_counter() - started, time.process_time() - processor
    detail = f"{plan.requests:,} requests, {2 * len(_RESOURCES)} policies, {used:.1f} processor seconds"
    yield {"name": "replay of mutating policies", "value": seconds, "unit": "s", "detail": detail}
    rate = plan.requests / used
    yield {"name": "replay of mutating policies", "value": rate, "unit": "requests per processor second", "detail": detail}


def manifests() -> list[dict[str, Any]]:
    """Two policies for each resource, with their bindings."""
    return [
        part
        for number, place in enumerate(_RESOURCES)
        for part in (*_policy(2 * number, *place, False), *_policy(2 * number + 1, *place, True))
    ]


def _policy(number: int, group: str, resource: str, patches: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    name = f"bench-{number}"
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": _PATCH}}
    if not patches:
        mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": _LABEL}}
    rule = {"operations": ["CREATE", "UPDATE"], "apiGroups": [group], "apiVersions": ["v1"], "resources": [resource]}
    spec: dict[str, Any] = {"matchConstraints": {"resourceRules": [rule]}, "reinvocationPolicy": "Never", "mutations": [mutation]}
    if patches:
        spec["matchConditions"] = [
            {"name": "named", "expression": "has(object.metadata.name) && object.metadata.name.startsWith('w')"}
        ]
    policy = {"apiVersion": _GROUP, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec}
    binding = {
        "apiVersion": _GROUP,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name},
    }
    return policy, binding
