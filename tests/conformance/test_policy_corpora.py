"""Real policies of three projects, and those of the Kubernetes documentation.

`cases.jsonl` has a policy, a request and what its project expects; `kubernetes-1.35.jsonl`, line by line next to it, has what the
validator of Kubernetes 1.35 decided (it applies rules, match conditions, variables, validations and messages, not bindings).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline.cel.library.authorizer import Answer, Attributes
from pipeline.policies.compile import compile_policy
from pipeline.policies.dispatch import compile_set, evaluate_request
from pipeline.policies.model import Policy, PolicySet
from pipeline.policies.verdict import Decision, PolicyVerdict
from pipeline.request import (
    AdmissionRequest,
    Evidence,
    GroupVersionKind,
    GroupVersionResource,
    Known,
    Object,
    Operation,
    UserInfo,
)
from pipeline.stages.validating.decode import binding_from_object, match_resources_from_object, policy_from_object
from pipeline.stages.validating.load import parse_policy_set
from pipeline.stages.validating.told import audited, denials, policy_annotations, warning, warnings
from tests.yaml_text import load_yaml

pytestmark = pytest.mark.conformance

VERSION = (1, 35)
EXCEPTIONS = Path(__file__).parent / "policy_corpora_exceptions.yaml"
Case = dict[str, Any]


class CaseWorld:
    """The namespace and the param of one case; a namespace that the case does not have is one without labels."""

    def __init__(self, case: Case) -> None:
        self.case = case

    def namespace(self, name: str) -> Evidence[Object | None]:
        plain = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        return Known(self.case.get("namespaceObject") or plain, "case")

    def param(self, api_version: str, kind: str, namespace: str, name: str) -> Evidence[Object | None]:
        return Known(None if kind == "CustomResourceDefinition" else self.case.get("params"), "case")

    def params(self, api_version: str, kind: str, namespace: str) -> Evidence[Sequence[Object]]:
        return Known([self.case["params"]] if self.case.get("params") else [], "case")

    def kind_is_namespaced(self, api_version: str, kind: str) -> Evidence[bool | None]:
        return Known(api_version == "v1", "case")


def read(folder: Path, file: str) -> Iterator[Case]:
    for line in (folder / file).read_text().splitlines():
        yield json.loads(line)


def request_of(case: Case) -> AdmissionRequest:
    obj, old, resource, user = case.get("object"), case.get("oldObject"), case["resource"], case.get("userInfo") or {}
    shown: Object = obj or old or {}
    metadata = shown.get("metadata") or {}
    group, _, version = shown.get("apiVersion", "v1").rpartition("/")
    # Namespaced selectors need a namespace: that of the object, else that of the Namespace in the case.
    namespace = case.get("namespace") or metadata.get("namespace") or _namespace_of(case)
    return AdmissionRequest(
        cluster="corpus",
        audit_id=case["id"],
        pass_index=0,
        ts=datetime(2026, 1, 1, tzinfo=UTC),
        operation=Operation(case["operation"]),
        kind=Known(GroupVersionKind(group, version, shown.get("kind", "")), "case"),
        resource=GroupVersionResource(resource["group"], resource["version"], resource["resource"]),
        subresource=case.get("subResource") or "",
        namespace=namespace,
        name=Known(metadata.get("name", ""), "case"),
        user=UserInfo(user.get("username", ""), user.get("uid", ""), tuple(user.get("groups") or ()), user.get("extra") or {}),
        dry_run=bool(case.get("dryRun")),
        options=Known(None, "case"),
        object=Known(obj, "case"),
        old_object=Known(old, "case"),
    )


def _namespace_of(case: Case) -> str:
    return ((case.get("namespaceObject") or {}).get("metadata") or {}).get("name", "")


def policy_of(case: Case) -> Policy:
    policy = policy_from_object(case["policy"], case["id"])
    if policy.match_constraints is None:
        # The project's own tool does not ask for matchConstraints.
        everything = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]
        return replace(policy, match_constraints=match_resources_from_object({"resourceRules": everything}))
    return policy


def authorize_with(answers: Sequence[Mapping[str, str]]) -> Callable[[UserInfo, Attributes], Answer]:
    """The fake authorizer of a case; what it does not list is unknown."""

    def authorize(user: UserInfo, asked: Attributes) -> Answer:
        for answer in answers:
            if all(getattr(asked, name) == answer[name] for name in ("group", "resource", "subresource", "namespace", "verb")):
                return Answer(answer["decision"] == "allow")
        return Answer(None)

    return authorize


def decide(case: Case, *, bound: bool) -> list[PolicyVerdict]:
    policy, params = policy_of(case), case.get("params")
    bindings = (binding_from_object(case["binding"], case["id"]),) if bound else ()
    # A policy with a paramKind and a case without a param: the validator gets null.
    given = {policy.name: [params]}
    compiled = compile_set(PolicySet((policy,), bindings), VERSION, unbound_params=given)
    return evaluate_request(compiled, request_of(case), CaseWorld(case), authorize_with(case.get("authorizer") or ()))


def facts_of(rows: Sequence[PolicyVerdict]) -> list[tuple[str, ...]]:
    """Ours as the validator prints its decisions."""
    singles = [row for row in rows if row.expression_index is not None]
    alone = [row for row in rows if row.decision is Decision.ERROR and not row.is_summary and not row.bypasses_actions]
    return [(str(row.decision), str(row.effect), row.message or "", row.reason) for row in singles or alone]


def outcome_of(rows: Sequence[PolicyVerdict]) -> str:
    """What the client and the log see."""
    if any(denials(rows)):
        return "deny"
    if any(warnings(rows)):
        return "warn"
    return "audit" if any(audited(rows)) else "allow"


@pytest.mark.parametrize("corpus", ["kubescape-cel-admission-library", "gatekeeper-library", "kat"])
def test_decisions_are_those_of_the_validator(corpus: str, shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shared / "corpora" / corpus
    count, problems, exceptions = 0, [], Exceptions("validator")
    for case, theirs in zip(read(folder, "cases.jsonl"), read(folder, "kubernetes-1.35.jsonl"), strict=True):
        assert case["id"] == theirs["id"]
        count += 1
        expected = [(each["eval"], each["action"], each["message"], each["reason"]) for each in theirs.get("decisions") or ()]
        found = facts_of(decide(case, bound=False))
        problems += exceptions.judge(case["id"], found == expected, f"{found} and not {expected}")
    exceptions.print(capsys, f"{corpus}: {count - len(problems) - len(exceptions.used)} of {count} decisions as Kubernetes 1.35")
    assert not problems, "\n".join(problems)


EXPECTED = {"pass": "allow", "fail": "deny", "allowed": "allow"}


@pytest.mark.parametrize("corpus", ["kubescape-cel-admission-library", "kat"])
def test_bound_policies_do_what_their_project_expects(corpus: str, shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count, problems, exceptions = 0, [], Exceptions("project")
    for case in read(shared / "corpora" / corpus, "cases.jsonl"):
        count += 1
        rows = decide(case, bound=True)
        expected = EXPECTED.get(case["expected"], case["expected"])
        annotations = {key.partition("/")[2]: value for key, value in policy_annotations(rows).items()}
        wanted = case.get("expectedAuditAnnotations") or {}
        messages = [row.message or "" for row in rows] + [warning(row) for row in warnings(rows)]
        texts = [case.get("expectedMessage"), case.get("expectedWarnings")]
        agrees = (
            # `audit` says what kind of policy it is, also for a request that passes.
            (outcome_of(rows) == expected or (expected == "audit" and outcome_of(rows) == "allow"))
            and wanted.items() <= annotations.items()
            and all(any(text.removeprefix("validation failed: ") in message for message in messages) for text in texts if text)
        )
        problems += exceptions.judge(case["id"], agrees, f"{outcome_of(rows)} {messages} {annotations} and not {expected} {texts}")
    exceptions.print(capsys, f"{corpus}: {count - len(problems) - len(exceptions.used)} of {count} outcomes as the project expects")
    assert not problems, "\n".join(problems)


def test_gatekeeper_templates_allow_and_deny(shared: Path) -> None:
    for case in read(shared / "corpora" / "gatekeeper-library", "cases.jsonl"):
        denied = any(row.effect == "deny" for row in decide(case, bound=False))
        assert denied is (case["expected"] == "deny"), case["id"]


def test_policies_of_the_documentation_load(shared: Path) -> None:
    text = (shared / "corpora" / "k8s-website" / "vap-examples.yaml").read_text()
    policies = [
        policy
        for index, document in enumerate(text.split("\n---\n"))
        for policy in parse_policy_set([(f"example-{index}.yaml", document)]).policies
    ]
    assert len(policies) == 8
    errors = {expression.text: expression.error for policy in policies for expression in compile_policy(policy, VERSION).errors}
    # The other wrong one, `object.replicas`, is right for every type but Deployment: only a type checker can find it.
    assert list(errors) == ["object.metadata.name.startWith('demo')"]
    assert "undeclared reference to 'startWith' (in container '')" in errors["object.metadata.name.startWith('demo')"]


class Exceptions:
    """Cases that cannot agree, each with its reason; one that agrees nevertheless is a problem."""

    def __init__(self, kind: str) -> None:
        self.reasons: dict[str, str] = (load_yaml(EXCEPTIONS.read_text()) or {}).get(kind) or {}
        self.used: Counter[str] = Counter()

    def judge(self, case: str, agrees: bool, difference: str) -> list[str]:
        """The problems with one case."""
        reason = self.reasons.get(case)
        if reason is None:
            return [] if agrees else [f"{case}: {difference}"]
        if agrees:
            return [f"{case} agrees although it is listed ({reason}); take it from {EXCEPTIONS.name}"]
        self.used[reason] += 1
        return []

    def print(self, capsys: pytest.CaptureFixture[str], head: str) -> None:
        with capsys.disabled():
            print(f"\n{head}", *(f"{count:6} listed: {reason}" for reason, count in self.used.items()), sep="\n")
