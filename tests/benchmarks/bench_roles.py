"""A role change over a million recorded requests: 500 bindings replace all others, and each distinct question is judged once."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

from pipeline.manifests.files import manifests_of
from pipeline.runs import RunKind
from pipeline.stages.assign import assign
from pipeline.stages.registry import AUTHORIZATION
from pipeline.stages.stage import Asked
from queries import open_lake
from tests.benchmarks.replay_lakes import CHURN, lake_of

BINDINGS = 500


def run() -> list[dict[str, Any]]:
    """The seconds of plan and run, and how many requests a distinct question stands for."""
    if not CHURN.exists():
        return []
    with tempfile.TemporaryDirectory(prefix="hindcast-bench-") as folder:
        return list(measured(lake_of(Path(folder), "grown", "as ingested")))


def measured(lake: Path) -> Iterator[dict[str, Any]]:
    """The rows of one lake."""
    ((_, rules),) = assign(manifests_of([("roles.yaml", roles(lake))])).rules
    started, processor = time.perf_counter(), time.process_time()
    with closing(open_lake(lake)) as reader:
        plan = AUTHORIZATION.plan(reader, rules, Asked(replaces_all=True))
    AUTHORIZATION.run(plan, lake, 1, None, RunKind.REPLAY)
    seconds, used = time.perf_counter() - started, time.process_time() - processor
    detail = f"{plan.requests:,} requests, {BINDINGS} bindings, {used:.1f} processor seconds"
    yield {"name": "replay of roles", "value": seconds, "unit": "s", "detail": detail}
    yield {"name": "replay of roles", "value": plan.requests / used, "unit": "requests per processor second", "detail": detail}


def roles(lake: Path) -> str:
    """Roles and bindings for the users of a lake: each has a few resources."""
    with closing(open_lake(lake)) as reader:
        users = [user for (user,) in reader.sql("SELECT DISTINCT user_name FROM requests ORDER BY 1").fetchall()]
        kinds = reader.sql("SELECT DISTINCT api_group, resource FROM requests WHERE resource IS NOT NULL ORDER BY ALL").fetchall()
    found = []
    for number in range(BINDINGS):
        group, resource = kinds[number % len(kinds)]
        name, api = f"role-{number}", "rbac.authorization.k8s.io"
        rule = {"apiGroups": [group], "resources": [resource], "verbs": ["get", "list", "watch"]}
        found.append({"apiVersion": f"{api}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]})
        reference = {"apiGroup": api, "kind": "ClusterRole", "name": name}
        subjects = [{"apiGroup": api, "kind": "User", "name": users[number % len(users)]}]
        binding = {"apiVersion": f"{api}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name}}
        found.append({**binding, "roleRef": reference, "subjects": subjects})
    return yaml.safe_dump_all(found)
