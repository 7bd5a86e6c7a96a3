"""Mutating policies over one request: tests/cases/mutating/{patches,chains}.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from time import process_time
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ingest.errors import InputError
from pipeline.history.json_patch import JsonPatchError, apply
from pipeline.manifests.files import manifests_of
from pipeline.request import AdmissionRequest, GroupVersionKind, Known, Object, Unknown
from pipeline.stages.mutating.afterwards import Later
from pipeline.stages.mutating.chain import Chain, Run
from pipeline.stages.mutating.changes import changes
from pipeline.stages.mutating.decode import rules_of
from pipeline.stages.mutating.invocation import Outcome, Ran
from pipeline.stages.mutating.merging import united
from pipeline.stages.mutating.orders import Outcomes, outcomes_of
from pipeline.stages.mutating.shapes import built_in_shape
from pipeline.stages.mutating.verdicts import Recorded, verdicts_of
from tests.pipeline.policies.conftest import CaseWorld, request
from tests.yaml_text import load_yaml

FOLDER = Path(__file__).parents[3] / "cases" / "mutating"
PATCHES: list[dict[str, Any]] = load_yaml((FOLDER / "patches.yaml").read_text())
CHAINS: list[dict[str, Any]] = load_yaml((FOLDER / "chains.yaml").read_text())
KINDS: list[dict[str, Any]] = load_yaml((FOLDER / "kinds.yaml").read_text())
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
GROUP = "admissionregistration.k8s.io/v1"


def merged(base: Any, more: Any) -> Any:
    if isinstance(base, dict) and isinstance(more, dict):
        return {name: merged(base.get(name), more.get(name, base.get(name))) for name in [*base, *(set(more) - set(base))]}
    return base if more is None else more


def deployment(case: Mapping[str, Any], part: Mapping[str, Any] | None) -> Object:
    containers = [{"name": name, "image": "i:1"} for name in case.get("containers", ["a"])]
    spec = {"replicas": 1, "selector": {"matchLabels": {"i": "1"}}, "template": {"spec": {"containers": containers}}}
    base = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}, "spec": spec}
    return merged(base, part or {})  # type: ignore[no-any-return]


def mutation(fields: Mapping[str, str]) -> dict[str, Any]:
    if "apply" in fields:
        return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": fields["apply"]}}
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": fields["patch"]}}


def manifests(policies: Mapping[str, Mapping[str, Any]], resource: str) -> str:
    """A policy and its binding for each entry."""
    group, _, plural = resource.rpartition("/")
    group, version = ("", group) if "/" not in group else group.split("/")
    found = []
    for name, fields in policies.items():
        rule = {"apiGroups": [group], "apiVersions": [version], "resources": [plural], "operations": ["CREATE", "UPDATE"]}
        constraints = {"resourceRules": [rule]} | ({"objectSelector": fields["selector"]} if "selector" in fields else {})
        spec = {
            "matchConstraints": constraints,
            "failurePolicy": fields.get("failurePolicy", "Fail"),
            "reinvocationPolicy": fields.get("reinvocation", "Never"),
            "matchConditions": [{"name": f"c{at}", "expression": each} for at, each in enumerate(fields.get("conditions", ()))],
            "variables": [{"name": each, "expression": text} for each, text in fields.get("variables", {}).items()],
            "mutations": [mutation(each) for each in fields.get("mutations", [fields])],
        } | ({"paramKind": fields["paramKind"]} if "paramKind" in fields else {})
        bound = {"policyName": name, **fields.get("binding", {})}
        for kind, body in (("MutatingAdmissionPolicy", spec), ("MutatingAdmissionPolicyBinding", bound)):
            found.append({"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": body})
    return yaml.safe_dump_all(found)


def chain_of(policies: Mapping[str, Mapping[str, Any]], resource: str, minor: int = 36) -> Chain:
    return Chain(rules_of(manifests_of([("case.yaml", manifests(policies, resource))])), (1, minor))


SHOP = CaseWorld({"namespaces": {"shop": {}}})


def run(
    policies: Mapping[str, Mapping[str, Any]], asked: AdmissionRequest, resource: str, minor: int = 36, world: CaseWorld = SHOP
) -> Outcomes:
    return outcomes_of(chain_of(policies, resource, minor), asked, world, None)


def at(value: Any, path: str) -> Any:
    """The value at a dotted path, whose numbers are those of entries; None where it is absent."""
    for part in path.split("."):
        if isinstance(value, list):
            value = value[int(part)]
        else:
            value = (value or {}).get(part)
    return value


def of_deployment(case: Mapping[str, Any], failure_policy: str) -> Outcome:
    policies = {"p": {**case, "failurePolicy": failure_policy}}
    old = deployment(case, case["oldObject"]) if "oldObject" in case else None
    asked = request(
        {
            "resource": "apps/v1/deployments",
            "operation": "UPDATE" if old else "CREATE",
            "namespace": "shop",
            "name": "web",
            "object": deployment(case, case.get("object")),
            "oldObject": old,
        }
    )
    return run(policies, asked, "apps/v1/deployments", case.get("version", 36)).first


@pytest.mark.parametrize("case", PATCHES, ids=lambda case: case["name"])
def test_a_patch_makes_what_the_server_makes_of_it(case: dict[str, Any]) -> None:
    """Under Fail an error is the answer; under Ignore it changes nothing, unless no failurePolicy covers it."""
    found, ignored = of_deployment(case, "Fail"), of_deployment(case, "Ignore")
    if case.get("no_answer"):
        for each in (found, ignored):
            assert each.refusal is not None
            assert each.refusal.code is None
    elif "refused" in case:
        for each in (found, ignored):
            assert each.refusal is not None
            assert (each.refusal.code, each.refusal.message) == (500, case["refused"])
    elif "error" in case:
        assert found.refusal is not None
        message = found.refusal.message or ""
        assert found.refusal.code == 403
        prefix = "policy 'p' with binding 'p' denied request: "
        wanted = prefix + case["error"]
        assert message.startswith(wanted) if case.get("is_start") else message == wanted
        assert isinstance(ignored.object, Known)
        assert ignored.object.value == deployment(case, case.get("object"))
    else:
        assert found.refusal is None
        assert isinstance(found.object, Known), found.object
        for path, value in case.get("gives", {}).items():
            assert at(found.object.value, path) == value, path
        for path, names in case.get("names", {}).items():
            assert [each["name"] for each in at(found.object.value, path)] == names


SHARED = {"a0": "['x']", **{f"a{at}": f"[variables.a{at - 1}, variables.a{at - 1}]" for at in range(1, 40)}}
LARGE = "its patch has more than 16 MiB, for which an API server may lack memory"


@pytest.mark.parametrize(
    "fields",
    [
        {"patch": "[JSONPatch{op: 'add', path: '/metadata/x', value: variables.a39}]"},
        {"patch": "[JSONPatch{op: 'add', path: '/metadata/x', value: {'y': [variables.a39]}}]"},
        {"patch": "[JSONPatch{op: 'add', path: '/metadata/x', value: Object.metadata.x{y: variables.a39}}]"},
        {"apply": "Object{spec: Object.spec{x: variables.a39}}"},
        {"apply": "Object{metadata: Object.metadata{labels: {'x': variables.a39}}}"},
        {"apply": "Object{metadata: Object.metadata{labels: {'x': optional.of(variables.a39)}}}"},
    ],
)
def test_a_value_that_shares_its_parts_is_measured_before_it_is_built(fields: dict[str, str]) -> None:
    """2^39 texts: an API server that builds them runs out of memory, so nothing tells its answer."""
    found = of_deployment({**fields, "variables": SHARED}, "Fail")
    assert found.object == Unknown(f"what policy p made of it: {LARGE}")


def test_objects_that_grow_with_each_mutation_are_measured() -> None:
    """Each patch adds 4 MiB, which would do as a patch."""
    add = "[JSONPatch{op: 'add', path: '/metadata/annotations/KEY', value: variables.s}]"
    texts = {"s0": f"'{'x' * 4096}'", **{f"s{at}": f"variables.s{at - 1} + variables.s{at - 1}" for at in range(1, 11)}}
    case = {"variables": {**texts, "s": "variables.s10"}, "object": {"metadata": {"annotations": {"a": "b"}}}}
    found = of_deployment({**case, "mutations": [{"patch": add.replace("KEY", f"k{at}")} for at in range(3)]}, "Fail")
    assert isinstance(found.object, Known)
    found = of_deployment({**case, "mutations": [{"patch": add.replace("KEY", f"k{at}")} for at in range(9)]}, "Fail")
    assert found.object == Unknown(f"what policy p made of it: {LARGE}")


@pytest.mark.parametrize("case", CHAINS, ids=lambda case: case["name"])
def test_policies_run_in_rounds_and_in_every_order(case: dict[str, Any]) -> None:
    """The object, the answer, how often each policy ran, and its flags."""
    metadata = {"name": "c", "namespace": "shop"} | ({"labels": case["labels"]} if "labels" in case else {})
    entered = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}}
    asked = request({"resource": "v1/configmaps", "namespace": "shop", "name": "c", "object": entered})
    world = CaseWorld({"namespaces": {"shop": case.get("namespace", {})}, "objects": case.get("objects", [])})
    outcomes = run(case["policies"], asked, "v1/configmaps", world=world)
    first = outcomes.first
    if "refused" in case:
        assert first.refusal is not None
        wanted = case["refused"]
        assert (first.refusal.code, first.refusal.reason, first.refusal.message) == (
            wanted["code"], wanted["reason"], wanted["message"],
        )  # fmt: skip
        assert len(first.refusal.causes) == wanted["causes"]
        return
    assert first.refusal is None
    assert isinstance(first.object, Known)
    for path, value in case.get("gives", {}).items():
        assert at(first.object.value, path) == value
    for name, times in case.get("runs", {}).items():
        assert sum(each.ran is Ran.APPLIED for each in first.invocations if each.key[0] == name) == times
    objects = [each.object.value for each in outcomes.distinct if isinstance(each.object, Known) and each.object.value]
    if "either" in case:
        assert sorted(str(each["metadata"]["labels"]) for each in objects) == sorted(map(str, case["either"]))
    if "either_data" in case:
        assert [each["data"] for each in objects] == case["either_data"]
    rows = {each.policy: each for each in verdicts_of(outcomes, asked.object, Recorded(201, "", False, None), Later(), False)}
    if "unknown" in case:
        assert rows["mutating"].decision == "unknown"
        assert {name for name, row in rows.items() if row.decision == "unknown"} == {"mutating", *case["unknown"]}
    for name, flags in case.get("flags", {}).items():
        assert load_yaml(rows[name].detail or "{}")["flags"] == flags


def test_a_policy_that_the_server_refuses_is_refused_with_file_and_line() -> None:
    """The rules that only mutating policies have; the shared ones have their own cases."""
    good = {"p": {"apply": "Object{}"}}
    for old, new, message in (
        ("reinvocationPolicy: Never", "reinvocationPolicy: Sometimes", "reinvocationPolicy must be one of Never, IfNeeded"),
        ("  reinvocationPolicy: Never\n", "", "reinvocationPolicy is required"),
        ("- UPDATE", "- DELETE", r"operations must be of \*, CONNECT, CREATE, UPDATE, not 'DELETE'"),
        (
            "patchType: ApplyConfiguration",
            "patchType: JSONPatch",
            "applyConfiguration must not be specified when patchType is JSONPatch",
        ),
        (
            "applyConfiguration:\n      expression: Object{}\n",
            "",
            "applyConfiguration is required when patchType is ApplyConfiguration",
        ),
        ("policyName: p", "policyName: p\n  validationActions: [Deny]", "validationActions: unknown field"),
    ):
        text = manifests(good, "v1/configmaps")
        assert old in text
        with pytest.raises(InputError, match=message) as caught:
            rules_of(manifests_of([("bad.yaml", text.replace(old, new))]))
        assert str(caught.value).startswith("bad.yaml:")
    with pytest.raises(InputError, match="mutations must contain at least one item"):
        rules_of(manifests_of([("bad.yaml", manifests({"p": {"mutations": []}}, "v1/configmaps"))]))


def test_of_a_built_in_kind_without_a_schema_only_metadata_are_known() -> None:
    """A label can be set on a Lease. What a change of its spec gives is unknown, and never guessed."""
    metadata = {"name": "j", "namespace": "shop"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {"leaseTransitions": 1}}
    resource = "coordination.k8s.io/v1/leases"
    asked = request({"resource": resource, "kind": "Lease", "namespace": "shop", "name": "j", "object": lease})
    for expression, wanted in (
        ('Object{metadata: Object.metadata{labels: {"a": "1"}}}', {"a": "1"}),
        ("Object{spec: Object.spec{leaseTransitions: 2}}", None),
    ):
        found = run({"p": {"apply": expression}}, asked, resource).first
        if wanted is None:
            why = "of Lease of coordination.k8s.io/v1 only the metadata are known here"
            assert found.object == Unknown(f"what policy p made of it: {why}")
        else:
            assert isinstance(found.object, Known)
            assert (found.object.value or {})["metadata"]["labels"] == wanted


@pytest.mark.parametrize("case", KINDS, ids=lambda case: case["name"])
def test_kinds_of_other_groups_change_with_the_defaults_of_their_api(case: dict[str, Any]) -> None:
    resource = case["resource"]
    sent = {"apiVersion": resource.rpartition("/")[0], "kind": case["kind"], "metadata": {"name": "a", "namespace": "shop"}}
    asked = request({"resource": resource, "kind": case["kind"], "namespace": "shop", "name": "a", "object": sent | case["object"]})
    changes = {name: case[name] for name in ("apply", "patch") if name in case}
    found = run({"p": changes}, asked, resource).first.object
    assert isinstance(found, Known)
    assert {name: value for name, value in (found.value or {}).items() if name not in sent} == case["gives"]


def test_a_custom_resource_keeps_an_unknown_field_until_it_is_stored() -> None:
    """T005-11: a custom resource takes a field that a built-in kind refuses. Later stages see it, and storage prunes it."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.shop.example.com"},
        "spec": {"group": "shop.example.com", "scope": "Namespaced", "names": names, "versions": versions},
    }
    resource = "shop.example.com/v1/widgets"
    entered = {"apiVersion": "shop.example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "shop"}, "spec": {}}
    asked = request({"resource": resource, "namespace": "shop", "name": "w", "object": entered})
    world = CaseWorld({"namespaces": {"shop": {}}, "objects": [definition]})
    patch = '[JSONPatch{op: "add", path: "/spec/foo", value: 1}]'
    found = run({"p": {"patch": patch, "failurePolicy": "Ignore"}}, asked, resource, world=world).first
    assert found.refusal is None
    assert isinstance(found.object, Known)
    assert (found.object.value or {})["spec"] == {"foo": 1}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab~/", max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_changes_are_empty_exactly_for_equal_values(left: Any, right: Any) -> None:
    """No change is left out, and none is made up."""
    assert not list(changes(left, left))
    same = repr(left) == repr(right)
    if list(changes({"v": left}, {"v": right})) == []:
        assert same or left == right
    else:
        assert not same


@given(st.dictionaries(st.text("ab", max_size=2), JSON, max_size=3), st.text("ab/~-01", max_size=6), JSON)
def test_a_json_patch_gives_a_document_or_a_patch_error(document: dict[str, Any], path: str, value: Any) -> None:
    """Any path and value: no other exception, and the document stays as it was."""
    before = repr(document)
    for name in ("add", "replace", "remove", "copy", "move"):
        with suppress(JsonPatchError):
            apply(document, [{"op": name, "path": path, "from": "/a", "value": value}])
    assert repr(document) == before


@given(st.lists(st.sampled_from("abcd"), unique=True), st.lists(st.sampled_from("abcd"), unique=True))
def test_merged_lists_hold_every_key_once_and_keep_the_order_of_the_patch(live: list[str], patch: list[str]) -> None:
    """Nothing is removed; entries of both lists stand in the order of the patch, and those of the live list alone in theirs."""
    shape = built_in_shape(DEPLOYMENT)
    assert shape is not None

    def containers(names: list[str]) -> Object:
        return {"spec": {"template": {"spec": {"containers": [{"name": name} for name in names]}}}}

    found = united(containers(live), containers(patch), shape)["spec"]["template"]["spec"]["containers"]
    names = [each["name"] for each in found]
    assert sorted(names) == sorted({*live, *patch})
    assert [name for name in names if name in patch and name in live] == [name for name in patch if name in live]
    assert [name for name in names if name not in patch] == [name for name in live if name not in patch]


def labelled(entry: str, value: str) -> dict[str, Any]:
    return {"apply": f"Object{{metadata: Object.metadata{{labels: {{'{entry}': {value}}}}}}}"}


def patched(op: str, pointer: str, value: str = "'1'") -> dict[str, Any]:
    return {"patch": f"[JSONPatch{{op: '{op}', path: '/metadata/{pointer}', value: {value}}}]"}


HAS_A = "has(object.metadata.labels) && has(object.metadata.labels.a)"
TOUCHING: list[dict[str, Any]] = [
    labelled("a", "'1'"),
    labelled("a", "'2'"),
    labelled("b", "'1'"),
    labelled("b", f"{HAS_A} ? object.metadata.labels.a : 'none'"),
    labelled("c", "has(object.metadata.labels) ? string(object.metadata.labels.size()) : '0'"),
    {**labelled("d", "'1'"), "conditions": [HAS_A]},
    {**labelled("a", "'3'"), "conditions": ["has(object.metadata.labels) && has(object.metadata.labels.d)"]},
    {**labelled("e", "has(object.metadata.annotations) ? 'yes' : 'no'"), "reinvocation": "IfNeeded"},
    {**patched("remove", "labels/a"), "conditions": [HAS_A]},
    {**patched("add", "labels/g"), "conditions": ["has(object.metadata.labels)"]},
    patched("add", "labels", "{'h': '1'}"),
    patched("add", "annotations", "{'a': '1'}"),
    {**patched("add", "annotations/b"), "conditions": ["has(object.metadata.annotations)"]},
]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from(TOUCHING), min_size=3, max_size=4),
    st.sampled_from([{}, {"labels": {"a": "0"}}, {"labels": {"z": "0"}, "annotations": {"z": "0"}}]),
)
def test_orders_that_matter_are_found_though_most_are_not_run(some: list[dict[str, Any]], metadata: dict[str, Any]) -> None:
    """Against a run of every order of those that touch the labels, among others that touch nothing of theirs."""
    policies = {"p0": {"apply": "Object{data: {'z': '1'}}"}, **{f"p{at}": each for at, each in enumerate(some, 1)}}
    policies["p9"] = {"apply": "Object{immutable: false}"}
    chain = chain_of(policies, "v1/configmaps")
    entered = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "shop", **metadata},
        "data": {"k": "v"},
    }
    asked = request({"resource": "v1/configmaps", "namespace": "shop", "name": "c", "object": entered})
    keys = [(name, name, None, None) for name in policies]
    ends = [Run(chain, asked, SHOP, None, (keys[0], *order)).outcome() for order in permutations(keys[1:])]
    assume(all(each.refusal is None and isinstance(each.object, Known) for each in ends))
    found = outcomes_of(chain, asked, SHOP, None)
    objects = [each.object for each in ends]
    tried = [each.object for each in found.distinct]
    assert all(each in objects for each in tried)
    assert any(each != objects[0] for each in objects) == any(each != tried[0] for each in tried)


def test_policies_that_touch_nothing_in_common_take_time_that_grows_with_their_number() -> None:
    """Each in every place among 200 takes 400 runs of all, which is half a minute."""
    metadata = {"name": "c", "namespace": "shop", "labels": {"a": "0"}}
    asked = request({"resource": "v1/configmaps", "namespace": "shop", "name": "c", "object": {"metadata": metadata}})
    chain = chain_of({f"p{at:03}": labelled(f"l{at}", "'1'") for at in range(200)}, "v1/configmaps")
    began = process_time()
    found = outcomes_of(chain, asked, SHOP, None)
    assert process_time() - began < 10
    assert isinstance(found.first.object, Known)
    assert len(at(found.first.object.value, "metadata.labels")) == 201


@pytest.mark.parametrize(
    "fields",
    [
        {"apply": "Object{data: {'NAME': '1'}}"},
        {"patch": "[JSONPatch{op: 'add', path: '/data/NAME', value: '1'}]"},
        {"apply": "Object{data: {'NAME': object.none}}", "failurePolicy": "Ignore"},
    ],
    ids=["all touch one part", "by patches", "all fail"],
)
@pytest.mark.parametrize("number", [5, 60])
def test_the_search_for_orders_has_a_bound_and_says_so(fields: dict[str, str], number: int) -> None:
    """Sixty policies over one request: each in every place takes 120 runs of all. What was not tried is said in its row."""
    entered = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "shop"}, "data": {"k": "v"}}
    asked = request({"resource": "v1/configmaps", "namespace": "shop", "name": "c", "object": entered})
    policies = {f"p{at:02}": {name: text.replace("NAME", f"n{at}") for name, text in fields.items()} for at in range(number)}
    chain = chain_of(policies, "v1/configmaps")
    began = process_time()
    for between in (None, lambda _, value: value):
        found = outcomes_of(chain, asked, SHOP, None, between)
        assert len(found.untried) == number
        rows = [each.row for each in verdicts_of(found, asked.object, Recorded(201, "", False, None), Later(), False)]
        assert all("orders-not-tried" in load_yaml(row.detail or "{}")["flags"] for row in rows)
    assert process_time() - began < 8


def test_groups_that_run_in_every_order_are_all_tried() -> None:
    """Two of five policies touch one label: both orders of these two run, and no other order can matter."""
    policies = {f"p{at}": labelled("a" if at < 2 else f"l{at}", f"'{at}'") for at in range(5)}
    entered = {"metadata": {"name": "c", "namespace": "shop", "labels": {"z": "0"}}}
    asked = request({"resource": "v1/configmaps", "namespace": "shop", "name": "c", "object": entered})
    assert outcomes_of(chain_of(policies, "v1/configmaps"), asked, SHOP, None).untried == frozenset()


def test_many_pairs_whose_order_decides_run_in_few_orders() -> None:
    """Thirty pairs that each touch one label: one more order shows that each of them depends on it."""
    policies = {f"p{at:02}": labelled(f"l{at // 2}", f"'{at}'") for at in range(60)}
    entered = {"metadata": {"name": "c", "namespace": "shop", "labels": {"z": "0"}}}
    asked = request({"resource": "v1/configmaps", "namespace": "shop", "name": "c", "object": entered})
    began = process_time()
    found = outcomes_of(chain_of(policies, "v1/configmaps"), asked, SHOP, None)
    assert process_time() - began < 4
    assert not found.untried
    assert len(found.distinct) == 2
    rows = [each.row for each in verdicts_of(found, asked.object, Recorded(201, "", False, None), Later(), False)]
    assert rows[0].decision == "unknown"
    assert all("order-dependent" in load_yaml(row.detail or "{}").get("flags", ()) or row.decision == "unknown" for row in rows[1:])
