"""Two processes that judge a share of the requests each find what one process finds, in the same order."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.manifests.files import manifests_of
from pipeline.replay.processes import end
from pipeline.stages.mutating import stage as mutating
from pipeline.stages.registry import MUTATING, WEBHOOKS
from pipeline.stages.shares import WHOLE, JudgeShare, Share, in_shares
from pipeline.stages.stage import Asked, Stage
from pipeline.stages.webhooks import stage as webhooks
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


@pytest.mark.parametrize(
    ("stage", "given", "judge"),
    [(WEBHOOKS, [HOOK], webhooks.judged_share), (MUTATING, POLICIES, mutating.judged_share)],
)
def test_shares_hold_what_one_process_judges(lake: Path, stage: Stage[Any, Any], given: list[Any], judge: JudgeShare) -> None:
    with closing(open_lake(lake)) as reader:
        plan = stage.plan(reader, stage.read(manifests_of([("given", yaml.safe_dump_all(given))])), Asked())
        whole = judge(reader, plan, WHOLE)
        shares = [judge(reader, plan, Share(number, 2)) for number in range(2)]
        assert sorted(each[1] for share in shares for each in share.passes) == sorted(each[1] for each in whole.passes)
        assert all(share.passes for share in shares)
        try:
            both = in_shares(judge, partial(judge, reader, plan), reader, plan, processes=2)
        finally:
            end()
    assert [each[:-1] for each in both.passes] == [each[:-1] for each in whole.passes]
    assert [both.answers[each[-1]] for each in both.passes] == [whole.answers[each[-1]] for each in whole.passes]
