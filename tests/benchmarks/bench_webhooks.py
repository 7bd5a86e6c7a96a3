"""Twenty webhooks over the recorded churn: some by rules alone, some by labels, some by match conditions."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

from pipeline.manifests.files import manifests_of
from pipeline.runs import RunKind, RunStore
from pipeline.runs.window import Window
from pipeline.stages.assign import assign
from pipeline.stages.registry import WEBHOOKS
from pipeline.stages.stage import Asked
from pipeline.stages.webhooks.load import loads
from queries import open_lake
from tests.benchmarks.replay_lakes import CHURN, lake_of

# By rules and namespaces; by the labels of objects; by a match condition.
WEBHOOK_COUNTS = {"plain": 14, "labels": 3, "condition": 3}
_RESOURCES = (("", "pods"), ("apps", "deployments"), ("", "configmaps"), ("", "services"), ("apps", "*"), ("", "*"), ("*", "*/*"))


def run() -> list[dict[str, Any]]:
    """The seconds of plan and run."""
    if not CHURN.exists():
        return []
    with tempfile.TemporaryDirectory(prefix="hindcast-bench-") as folder:
        return list(measured(lake_of(Path(folder), "churn", "as ingested")))


def measured(lake: Path) -> Iterator[dict[str, Any]]:
    """The rows of one lake."""
    ((_, rules),) = assign(manifests_of([("webhooks.yaml", yaml.safe_dump(configuration()))])).rules
    started, processor = time.perf_counter(), time.process_time()
    with closing(open_lake(lake)) as reader:
        plan = WEBHOOKS.plan(reader, rules, Asked())
    summary = WEBHOOKS.run(plan, lake, 1, None, RunKind.REPLAY)
    seconds, used = time.perf_counter() - started, time.process_time() - processor
    detail = f"{plan.requests:,} requests, {sum(WEBHOOK_COUNTS.values())} webhooks, {used:.1f} processor seconds"
    yield {"name": "replay of webhooks", "value": seconds, "unit": "s", "detail": detail}
    yield {"name": "replay of webhooks", "value": plan.requests / used, "unit": "requests per processor second", "detail": detail}
    started, processor = time.perf_counter(), time.process_time()
    with closing(open_lake(lake)) as reader:
        found = loads(reader, RunStore(lake).run(summary.run_id).verdicts, Window())
    seconds, used = time.perf_counter() - started, time.process_time() - processor
    calls = sum(each.calls for each in found.webhooks)
    yield {"name": "load of webhooks", "value": seconds, "unit": "s", "detail": f"{calls:,} calls, {used:.1f} processor seconds"}


def configuration() -> dict[str, Any]:
    """One configuration with all webhooks."""
    kinds = [kind for kind, count in WEBHOOK_COUNTS.items() for _ in range(count)]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "bench"},
        "webhooks": [_webhook(number, kind) for number, kind in enumerate(kinds)],
    }


def _webhook(number: int, kind: str) -> dict[str, Any]:
    group, resource = _RESOURCES[number % len(_RESOURCES)] if kind == "plain" else _RESOURCES[number % 3]
    value: dict[str, Any] = {
        "name": f"hook-{number}.bench.example.com",
        "rules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": [group], "apiVersions": ["*"], "resources": [resource]}],
        "clientConfig": {"url": "https://hooks.example.com/"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    if kind == "labels":
        value["objectSelector"] = {"matchLabels": {"app": "web"}}
    elif kind == "condition":
        value["matchConditions"] = [{"name": "named", "expression": "object.metadata.name.startsWith('w')"}]
    return value
