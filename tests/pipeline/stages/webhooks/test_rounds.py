"""The two rounds of mutating webhooks: tests/cases/webhooks/reinvocation.yaml."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline.runs.window import Window
from pipeline.stages.webhooks import Called
from pipeline.stages.webhooks.walk import Walk
from queries import LakeReader, open_lake
from tests.recording import START, recorded, take_in
from tests.sharing import shared_lake
from tests.yaml_text import load_yaml

CASES: list[dict[str, Any]] = load_yaml((Path(__file__).parents[3] / "cases" / "webhooks" / "reinvocation.yaml").read_text())
GROUP = "admissionregistration.k8s.io/v1"


def configuration(case: Mapping[str, Any]) -> dict[str, Any]:
    hooks = []
    for each in case["hooks"]:
        hook: dict[str, Any] = {
            "name": f"{each['name']}.example.com",
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
            "clientConfig": {"url": "https://hooks.example.com/"},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        if policy := each.get("policy", "IfNeeded"):
            hook["reinvocationPolicy"] = policy
        if "selector" in each:
            hook["objectSelector"] = {"matchLabels": each["selector"]}
        hooks.append(hook)
    number = CASES.index(dict(case))
    metadata = {"name": "rounds", "uid": f"rounds-{number}", "resourceVersion": str(number + 1)}
    return {"apiVersion": GROUP, "kind": "MutatingWebhookConfiguration", "metadata": metadata, "webhooks": hooks}


def annotations(case: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    hooks = [each["name"] for each in case["hooks"]]
    for at, attempt in enumerate(case["attempts"]):
        number, _, name = attempt.rstrip("+").partition(" ")
        if not name:
            continue
        place = f"webhook.admission.k8s.io/round_{number}_index_{hooks.index(name)}"
        told = {"configuration": "rounds", "webhook": f"{name}.example.com"}
        found[f"mutation.{place}"] = json.dumps({**told, "mutated": attempt.endswith("+")})
        if at in case.get("patches", {}):
            found[f"patch.{place}"] = json.dumps({**told, "patch": case["patches"][at], "patchType": "JSONPatch"})
    return found


def events() -> Iterator[dict[str, Any]]:
    """A day for each case: the configuration, the pod, and the end of the configuration."""
    yield recorded("space", START, "create", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "shop"}})
    for at, case in enumerate(CASES):
        day = START + timedelta(days=1 + at)
        yield recorded(f"made-{at}", day, "create", configuration(case))
        metadata = {"name": "p", "namespace": "shop", "uid": f"p-{at}", "labels": {"say": "", "x": "1"}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"priorityClassName": "low", "priority": 1}}
        refused: dict[str, Any] = {}
        if "refused" in case:
            status = {"metadata": {}, "status": "Failure", "reason": "Forbidden", "code": 403, "message": case["refused"]}
            refused = {"responseStatus": status, "answer": {"kind": "Status", "apiVersion": "v1", **status}}
        yield recorded(f"pod-{at}", day + timedelta(hours=1), "create", pod, annotations=annotations(case), **refused)
        yield recorded(f"gone-{at}", day + timedelta(hours=2), "delete", configuration(case))


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeReader]:
    with closing(open_lake(shared_lake(tmp_path_factory, "rounds", lambda path: take_in(path, events())))) as opened:
        yield opened


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_replay_calls_in_the_recorded_rounds(case: dict[str, Any], reader: LakeReader) -> None:
    """Those of the annotations, and no other."""
    day = START + timedelta(days=1 + CASES.index(case))
    walk = Walk(reader, Window(day, day + timedelta(days=1)))
    found: dict[str, list[int]] = {}
    for call in [call for each in (*walk.plain(), *walk.by_record()) for call in each.calls]:
        if call.decision is not Called.CALLED:
            assert call.decision is Called.NOMATCH, call.why
            continue
        assert isinstance(call.second, bool | None), call.second
        found[call.hook.webhook.name.partition(".")[0]] = [0, 1] if call.second else [0]
    assert found == case["rounds"]
    attempts = {(name, str(number)) for name, rounds in found.items() for number in rounds}
    told = [each.rstrip("+").partition(" ") for each in case["attempts"] if each]
    assert attempts == {(name, number) for number, _, name in told}
