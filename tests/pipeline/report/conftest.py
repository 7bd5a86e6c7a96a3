"""Reports to print: one that has every part filled with names an attacker chose, and one of each verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from typing import Any

import pytest

from pipeline.readiness.counting.figures import queries
from pipeline.readiness.exempting.measures import Exemption, ExemptionKind, RolloutStep
from pipeline.readiness.model import (
    Counterexample,
    CriticalKind,
    CriticalSubject,
    DayCount,
    Denials,
    Exposure,
    Fidelity,
    HiddenDenial,
    Identity,
    Latent,
    LatentViolation,
    NamespaceCount,
    Owner,
    PolicyReadiness,
    ResourceAgreement,
    Status,
    TemplateProjection,
    Trend,
)
from pipeline.readiness.report import EvidenceRow, PolicySource, RecordedPolicy, Report
from pipeline.readiness.rules import ReadinessRules
from pipeline.stages.over_time import OverTime, Tone, bars

START, END = datetime(2026, 11, 1, 8, tzinfo=UTC), datetime(2026, 11, 21, 17, 30, 0, 250000, tzinfo=UTC)
# Markup, a table's separator, a code fence, characters that XML cannot hold, the end of CDATA, two lines.
HOSTILE = "<script>alert('x')</script> | `rm` & \"q\" \x1b[31m ]]> \ufffe\nsecond line"

REGISTRY = PolicyReadiness(
    policy="image-registry",
    binding="everywhere",
    actions=("Audit",),
    status=Status.NOT_READY,
    reasons=(
        "3 of 890 judged requests (0.3%) would have been denied",
        "10 requests are unknown: oldObject: no earlier version",
    ),
    exposure=Exposure(900, 890, 10, 60, 4, 5, 20.4, 21, START, END, 4, 7, 12, 6, ("pods", "deployments.apps")),
    denials=Denials(3, 1, 1, 1, START, END, 0.0, 0.08, 0.5, 12, 3, Trend("rising", 30, 0, 30, 1, 0.03)),
    fidelity=Fidelity(100, 99, 40, 40, 2, (ResourceAgreement("image-registry", "pods", 100, 99, 2),)),
    unknown_reasons=(("oldObject: no earlier version", 10),),
    owners=(
        Owner(
            "pay-prod",
            "pods",
            "Deployment/cart-17",
            HOSTILE,
            3,
            START,
            END,
            HOSTILE,
            "a1",
            ("Pod/cart-17-x", "ReplicaSet/cart-17-5d", "Deployment/cart-17"),
            "checkout",
            "Deployment/cart-17: team",
            Identity.GITOPS,
            "Argo CD",
            "userAgent",
            "argocd/3",
            "spec.containers[0].image",
            expression_index=1,
        ),
        Owner("", "namespaces", "namespaces/x", "root", 1, START, END, "", "a2"),
    ),
    days=(DayCount(date(2026, 11, 1), 10, 3, 1), DayCount(date(2026, 11, 2), 12, 0, 0)),
    critical=(CriticalSubject(CriticalKind.NODE, "system:node:n1", 5, 1, 0, START, END, HOSTILE, "a3"),),
    latent=Latent(
        objects=9,
        objects_denied=1,
        templates=3,
        templates_denied=1,
        violations=(
            LatentViolation(
                "pay-dev", "pods", "old", "Pod/old", "an update", "deny", HOSTILE, "snapshot", START, "exact", ("note",)
            ),
        ),
        projections=(
            TemplateProjection(
                "pay-dev", "Deployment/web", "pods", "rs", "deny", HOSTILE, "event", START, True, "inferred", ("note",)
            ),
        ),
        is_assessed=True,
    ),
    hidden=(HiddenDenial("vap", "no-latest", 4, 2, START, END, HOSTILE, "a4"),),
    namespaces=(NamespaceCount("pay-prod", 800, 3, 2, 1), NamespaceCount("", 100, 0, 8)),
    owners_total=2,
    exemptions=(
        Exemption(
            ExemptionKind.NAMESPACE_EXCLUSION,
            "namespace pay-prod",
            "ValidatingAdmissionPolicyBinding/everywhere",
            {"spec": {"matchResources": {"namespaceSelector": {}}}},
            800,
            4,
            3,
            1,
            date(2027, 1, 1),
            HOSTILE,
        ),
    ),
    counterexamples=(
        Counterexample(
            START, "lab-1", "a5", HOSTILE, "create", "pay-prod", "pods", "cart-9", HOSTILE, {"spec": {"image": HOSTILE}}
        ),
    ),
    rollout=(RolloutStep(("Warn", "Audit"), ("pay-dev",), "no would-be denial there"),),
)

REPORT = Report(
    title="Readiness of image-registry",
    clusters=("lab-1",),
    first_ts=START,
    last_ts=END,
    events=16375,
    requests=16302,
    run_id="5f3c",
    kubernetes_version="1.36",
    rules=ReadinessRules(),
    policies=(
        REGISTRY,
        PolicyReadiness("new-rule", None, (), Status.READY, ("clean",), Exposure(), Denials(), Fidelity()),
        replace(REGISTRY, policy="exempted", status=Status.READY_WITH_EXEMPTIONS),
        PolicyReadiness("thin", "b", ("Warn",), Status.INSUFFICIENT_EVIDENCE, (HOSTILE,), Exposure(), Denials(), Fidelity()),
    ),
    recorded=(RecordedPolicy("image-registry", "everywhere", 12, 2, 3, 4, START, END),),
    evidence=(EvidenceRow("deployments.apps", 900, 880, 2),),
    caveats=("up to Kubernetes 1.36 only the first failure of a request is recorded", HOSTILE),
    queries=queries(),
    over_time=(
        OverTime(
            HOSTILE,
            HOSTILE,
            "requests",
            3600,
            START,
            START + timedelta(hours=2),
            (
                bars(HOSTILE, Tone.DENIED, [(START, 7), (START + timedelta(hours=2), 14)]),
                bars("as recorded", Tone.ADMITTED, [(START + timedelta(hours=1), 1)]),
            ),
        ),
    ),
    sources=(
        PolicySource("image-registry", "policies/image registry.yaml", 3, (9, 14)),
        PolicySource("new-rule", "/srv/new.yaml", 1),
    ),
)
EMPTY = replace(
    REPORT, over_time=(), policies=(), recorded=(), evidence=(), caveats=(), sources=(), first_ts=None, last_ts=None, clusters=()
)


@pytest.fixture
def report() -> Report:
    return REPORT


# What a client may put into names and messages of a request that is refused, and what an expression may answer.
ODD = {
    "controls": f"{''.join(map(chr, range(32)))}\x7f\x85\u2028\u2029\u202e\ufeff\ufffe\uffff",
    "long": "x" * 3_000,
    "foreign": "ü é 中文 😀 \U0010ffff",
    "signs": "\"'`<>&]]>--><![CDATA[ {{7*7}} %s %SRCROOT% ../../etc \\ |",
    "yaml": "- a: &x *x !!python/object {[\n---\n...\n# x: 0755",
    "blank": " ",
}
# A policy was taken by an API server or by our own loader, so that its names and files are what they may be.
OURS = {"policy", "binding", "file", "run_id", "kubernetes_version", "sql", "label", "of", "target", "title"}


def odd(value: Any, text: str) -> Any:
    """A part of a report in which everything that others choose is one text."""
    if isinstance(value, (Enum, ReadinessRules)):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value) if field.name not in OURS]
        return replace(value, **{name: odd(getattr(value, name), text) for name in names})
    if isinstance(value, tuple):
        return tuple(odd(item, text) for item in value)
    if isinstance(value, dict):
        return {name: odd(item, text) for name, item in value.items()}
    return text if isinstance(value, str) else value


@pytest.fixture(params=["full", "empty", *ODD])
def any_report(request: pytest.FixtureRequest) -> Report:
    if request.param in ODD:
        changed: Report = odd(REPORT, ODD[request.param])
        return changed
    return REPORT if request.param == "full" else EMPTY


@pytest.fixture
def report_with() -> Callable[..., Report]:
    """A report of the full policy with some fields changed."""
    return lambda **changes: replace(REPORT, policies=(replace(REGISTRY, **changes),))


@pytest.fixture
def hostile() -> str:
    return HOSTILE
