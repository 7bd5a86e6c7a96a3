"""The parts of a run, each of a stretch of time, hold together what one part of all requests holds, in the same order."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from pipeline.manifests.files import manifests_of
from pipeline.runs.merge import Merged
from pipeline.runs.verdicts import numbered
from pipeline.runs.window import Window, stretches
from pipeline.stages.grouped import GroupedStage
from pipeline.stages.registry import MUTATING, WEBHOOKS
from pipeline.stages.stage import Asked
from queries import open_lake
from tests.recording import Log, take_in

GROUP = "admissionregistration.k8s.io/v1"
RULE = {"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
HOOK = {
    "apiVersion": GROUP,
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "guard"},
    "webhooks": [
        {
            "name": "guard.example.com",
            "rules": [RULE],
            "clientConfig": {"url": "https://hooks.example.com/"},
            "matchConditions": [{"name": "odd", "expression": "request.operation == 'CREATE' || oldObject.data.n == '1'"}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
    ],
}
POLICIES = [
    {
        "apiVersion": GROUP,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "label"},
        "spec": {
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [RULE]},
            "mutations": [
                {
                    "patchType": "JSONPatch",
                    "jsonPatch": {"expression": '[JSONPatch{op: "add", path: "/data/was", value: object.data.n}]'},
                }
            ],
        },
    },
    {
        "apiVersion": GROUP,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "label"},
        "spec": {"policyName": "label"},
    },
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = Log(timedelta(seconds=1))
    log.write("create", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "shop"}})
    for turn, verb in enumerate(("create", "update", "update")):
        for name in "abcdef":
            metadata = {"name": name, "namespace": "shop", "uid": name, "resourceVersion": str(len(log.lines) + 1)}
            log.write(verb, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"n": str(turn)}})
    return take_in(tmp_path_factory.mktemp("shares") / "lake", log.lines)


@pytest.mark.parametrize(("stage", "given"), [(WEBHOOKS, [HOOK]), (MUTATING, POLICIES)])
def test_stretches_of_time_hold_what_one_process_judges(lake: Path, stage: GroupedStage[Any], given: list[Any]) -> None:
    with closing(open_lake(lake)) as reader:
        plan = stage.plan(reader, stage.read(manifests_of([("given", yaml.safe_dump_all(given))])), Asked())
        judging = stage.judging(reader, plan)
        whole = list(judging.records(Window()))
        shares = [list(judging.records(share)) for share in stretches(reader, Window(), 2)]
        assert len(shares) == 2
        assert all(shares)
        assert sorted(place for share in shares for place, _ in share) == sorted(place for place, _ in whole)
    one, both = numbered(whole)[0], [numbered(share)[0] for share in shares]
    assert pa.concat_tables(Merged(both).tables("r")).equals(pa.concat_tables(Merged([one]).tables("r")))
