"""The stage of mutating policies over a small lake: verdicts, tables, the export with objects, and later stages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from api.cli import run
from pipeline.manifests.files import manifests_of
from pipeline.runs import RunKind, RunStore
from pipeline.stages.mutating.summary import changed_paths, mutated, not_applied
from pipeline.stages.registry import MUTATING
from pipeline.stages.stage import Asked
from queries import LakeReader, open_lake
from tests.recording import START, recorded, take_in

STEP = timedelta(minutes=1)
POLICIES = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: team}
spec:
  failurePolicy: Fail
  reinvocationPolicy: IfNeeded
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  matchConditions: [{name: named, expression: "!object.metadata.name.startsWith('skip')"}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'team': object.data.team}}}"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: team}
spec: {policyName: team}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: known-teams}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  validations: [{expression: "!has(object.metadata.labels) || object.metadata.labels.team != 'none'", message: no such team}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: known-teams}
spec: {policyName: known-teams, validationActions: [Deny]}
"""


def config(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "shop", "uid": f"uid-{name}"} | ({"labels": labels} if labels else {})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": f"uid-{name}"}}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mutating")
    objects = {
        "changes": config("a", team="blue"),
        "is-so": config("b", {"team": "red"}, team="red"),
        "fails": config("c", other="x"),
        "skipped": config("skip-d", team="blue"),
        "refused-later": config("e", team="none"),
    }
    events = [recorded("made", START, "create", namespace("shop"))]
    events += [recorded(name, START + STEP * at, "create", each) for at, (name, each) in enumerate(objects.items(), 1)]
    return take_in(folder, events)


@pytest.fixture(scope="module")
def verdicts(lake: Path) -> Iterator[tuple[LakeReader, Path]]:
    rules = MUTATING.read(manifests_of([("policies.yaml", POLICIES)]))
    with closing(open_lake(lake)) as reader:
        plan = MUTATING.plan(reader, rules, Asked(with_objects=True))
        MUTATING.run(plan, lake, 1, None, RunKind.REPLAY)
        yield reader, RunStore(lake).run(plan.run_id).verdicts


def test_each_request_has_a_row_as_a_whole_and_one_per_policy(verdicts: tuple[LakeReader, Path]) -> None:
    """Decision, effect and answer of the policy; the whole says how the outcome differs from the record."""
    rows = pl.read_parquet(verdicts[1]).filter(pl.col("audit_id") != "made")
    found = {(row["audit_id"], row["policy"]): row for row in rows.to_dicts()}
    told = {key: (row["decision"], row["effect"], row["flip"]) for key, row in found.items()}
    assert told == {
        ("changes", "team"): ("changed", "admit", None),
        ("changes", "mutating"): ("changed", "admit", "changed"),
        ("is-so", "team"): ("unchanged", "admit", None),
        ("is-so", "mutating"): ("unchanged", "admit", "same"),
        ("fails", "team"): ("error", "deny", None),
        ("fails", "mutating"): ("error", "deny", "newly-denied"),
        ("skipped", "team"): ("nomatch", None, None),
        ("refused-later", "team"): ("changed", "admit", None),
        ("refused-later", "mutating"): ("changed", "admit", "newly-denied"),
    }
    refused = found["fails", "mutating"]
    assert (refused["code"], refused["reason"]) == (403, "Invalid")
    assert refused["message"].startswith("policy 'team' with binding 'team' denied request: expression ")
    (later,) = json.loads(found["refused-later", "mutating"]["detail"])["later"]
    assert later.startswith("configmaps \"e\" is forbidden: ValidatingAdmissionPolicy 'known-teams' with binding ")
    assert later.endswith(" denied request: no such team")


def test_the_tables_count_what_the_policies_do(verdicts: tuple[LakeReader, Path]) -> None:
    """Per policy, per changed path, and per reason."""
    (only,) = mutated(*verdicts)
    assert (only.changed, only.unchanged, only.denied, only.nomatch, only.unknown, only.lost) == (2, 1, 1, 1, 0, 2)
    assert [(each.op, each.path, each.requests) for each in changed_paths(*verdicts)] == [("add", "metadata.labels", 2)]
    assert [(each.policy, each.outcome, each.requests) for each in not_applied(*verdicts)] == [
        ("team", "denied", 1),
        (None, "refused later", 1),
    ]


def test_the_export_holds_the_changed_objects(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --with-objects the column `object` has the predicted object, where it differs."""
    policies, file = tmp_path / "policies.yaml", tmp_path / "out.parquet"
    policies.write_text(POLICIES)
    assert run(["-q", "--lake", str(lake), "replay", "-f", str(policies), "--export", str(file), "--with-objects"]) == 0
    assert "What each policy changes" in capsys.readouterr().out
    rows = pl.read_parquet(file).filter(pl.col("object").is_not_null())
    labels = {row["audit_id"]: json.loads(row["object"])["metadata"]["labels"] for row in rows.to_dicts()}
    assert labels == {"changes": {"team": "blue"}, "refused-later": {"team": "none"}}


PROTECTED = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: p}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [persistentvolumeclaims, persistentvolumes, nodes]}
  matchConditions:
  - name: seen
    expression: "(has(object.spec.taints) ? object.spec.taints : object.metadata.finalizers).size() == 1"
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}
"""


def test_policies_see_what_built_in_plugins_add_to_claims_volumes_and_nodes(tmp_path: Path) -> None:
    """A finalizer that the client sent is not there twice."""
    events = [recorded("made", START, "create", namespace("shop"))]
    for number, (kind, metadata) in enumerate(
        (
            ("PersistentVolumeClaim", {"namespace": "shop"}),
            ("PersistentVolumeClaim", {"namespace": "shop", "finalizers": ["kubernetes.io/pvc-protection"]}),
            ("PersistentVolume", {}),
            ("Node", {}),
        )
    ):
        value = {"apiVersion": "v1", "kind": kind, "metadata": {"name": f"n{number}", "uid": f"u{number}", **metadata}, "spec": {}}
        events.append(recorded(f"id-{number}", START + STEP * (number + 1), "create", value))
    lake = take_in(tmp_path / "lake", events)
    rules = MUTATING.read(manifests_of([("policies.yaml", PROTECTED)]))
    with closing(open_lake(lake)) as reader:
        plan = MUTATING.plan(reader, rules, Asked())
        MUTATING.run(plan, lake, 1, None, RunKind.REPLAY)
        rows = pl.read_parquet(RunStore(lake).run(plan.run_id).verdicts).filter(pl.col("policy") == "p")
    assert {row["audit_id"]: row["decision"] for row in rows.to_dicts()} == {f"id-{number}": "changed" for number in range(4)}


BETWEEN = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: copy}
spec:
  failurePolicy: Fail
  reinvocationPolicy: IfNeeded
  matchConstraints:
    resourceRules: [{apiGroups: ["", shop.example.com], apiVersions: [v1], operations: [CREATE], resources: [configmaps, widgets]}]
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >
        object.kind == 'Widget'
        ? [JSONPatch{op: 'add', path: '/status', value: {'phase': 'x'}}, JSONPatch{op: 'add', path: '/spec/unknown', value: 1}]
        : (has(object.data.hook) ? [JSONPatch{op: 'add', path: '/data/copied', value: object.data.hook}] : [])
"""
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.shop.example.com}
spec:
  group: shop.example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer}}}
          status: {type: object, properties: {phase: {type: string}}}
"""


def hooked(path: str) -> dict[str, str]:
    """The annotations of a webhook that added a value."""
    place = "webhook.admission.k8s.io/round_0_index_0"
    head = {"configuration": "hooks", "webhook": "w.example.com"}
    patch = {**head, "patch": [{"op": "add", "path": path, "value": "h"}], "patchType": "JSONPatch"}
    return {f"mutation.{place}": json.dumps({**head, "mutated": True}), f"patch.{place}": json.dumps(patch)}


def test_webhooks_come_between_rounds_and_what_the_store_drops_is_no_change(tmp_path: Path) -> None:
    """A policy with IfNeeded sees the patch of a webhook; a policy that does nothing is not charged with it."""
    stored = config("seen", b="c", hook="h")
    widget = {"apiVersion": "shop.example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "shop", "uid": "w"}}
    events = [
        recorded("made", START, "create", namespace("shop")),
        recorded("seen", START + STEP, "create", config("seen", b="c"), answer=stored, annotations=hooked("/data/hook")),
        recorded(
            "other",
            START + 2 * STEP,
            "create",
            config("other", b="c"),
            answer=config("other", b="c", a="h"),
            annotations=hooked("/data/a"),
        ),
        recorded("unfit", START + 3 * STEP, "create", config("unfit", b="c"), annotations=hooked("/absent/a")),
        recorded("dropped", START + 4 * STEP, "create", widget | {"spec": {"size": 1}}),
    ]
    lake = take_in(tmp_path / "lake", events)
    rules = MUTATING.read(manifests_of([("policies.yaml", f"{BETWEEN}---{DEFINITION}")]))
    with closing(open_lake(lake)) as reader:
        plan = MUTATING.plan(reader, rules, Asked())
        MUTATING.run(plan, lake, 1, None, RunKind.REPLAY)
        rows = pl.read_parquet(RunStore(lake).run(plan.run_id).verdicts).filter(pl.col("policy") == "mutating").to_dicts()
    assert not [row["why"] for row in rows if row["why"]]
    assert {row["audit_id"]: (row["decision"], row["flip"]) for row in rows} == {
        "seen": ("changed", "changed"),
        "other": ("unchanged", "same"),
        "unfit": ("unchanged", "same"),
        "dropped": ("unchanged", "same"),
    }
    (change,) = json.loads(next(row["detail"] for row in rows if row["audit_id"] == "seen"))["difference"]
    assert (change["op"], change["path"]) == ("add", "data.copied")
