"""The load of webhooks, an outage of their servers, and recorded latencies."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from api.printing.page import page as page_of
from api.stages.webhooks.load import load_tables, outage_tables
from pipeline.manifests.files import manifests_of
from pipeline.runs import RunKind, RunStore
from pipeline.runs.window import Window
from pipeline.stages.registry import WEBHOOKS
from pipeline.stages.stage import Asked
from pipeline.stages.webhooks import Chain, Configuration
from pipeline.stages.webhooks.as_of import configurations_as_of, world_as_of
from pipeline.stages.webhooks.latency import duration_ms, latencies
from pipeline.stages.webhooks.load import loads, quantile
from pipeline.stages.webhooks.model import AsRecorded
from pipeline.stages.webhooks.needs import reaching_system, self_locks
from pipeline.stages.webhooks.outage import outage
from pipeline.stages.webhooks.over_time import calls_over_time, outage_over_time
from queries import LakeReader, open_lake
from tests.recording import START, Log, take_in


def hook(name: str, resources: list[str], **more: Any) -> dict[str, Any]:
    return {
        "name": f"{name}.hooks.example.com",
        "rules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["*"], "resources": resources}],
        "clientConfig": {"service": {"namespace": "guard", "name": "guard"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }


def configurations(kind: str, *hooks: Mapping[str, Any]) -> tuple[Configuration, ...]:
    value = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": kind.lower()},
        "webhooks": list(hooks),
    }
    return tuple(WEBHOOKS.read(manifests_of([("hooks.yaml", yaml.safe_dump(value))])))


def thing(kind: str, name: str, namespace: str = "shop", **metadata: Any) -> dict[str, Any]:
    named = {"name": name, "uid": name, **({"namespace": namespace} if namespace else {}), **metadata}
    return {"apiVersion": "v1", "kind": kind, "metadata": named}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine seconds: a namespace, then one pod per second but one, by two users; the last write is of a node."""
    log = Log(timedelta(seconds=1))
    for name in ("shop", "guard", "kube-system"):
        log.write("create", thing("Namespace", name, ""))
    for index in range(4):
        log.write("create", thing("Pod", f"pod-{index}"), user="alice" if index else "system:node:n1")
    noted = {"apiserver.latency.k8s.io/validating-webhook": "600.5ms", "apiserver.latency.k8s.io/total": "1s"}
    log.write("create", thing("ConfigMap", "a"), annotations=noted)
    log.write("create", thing("Pod", "guard-0", "guard"))
    return take_in(tmp_path_factory.mktemp("load") / "lake", log.lines)


@pytest.fixture
def reader(lake: Path) -> Iterator[LakeReader]:
    with closing(open_lake(lake)) as opened:
        yield opened


def run_of(lake: Path, reader: LakeReader, rules: Any) -> Path:
    plan = WEBHOOKS.plan(reader, rules, Asked())
    WEBHOOKS.run(plan, lake, kind=RunKind.REPLAY)
    return RunStore(lake).run(plan.run_id).verdicts


def test_rates_count_every_second_of_the_window(lake: Path, reader: LakeReader) -> None:
    rules = configurations("Validating", hook("pods", ["pods"]))
    found = loads(reader, run_of(lake, reader, rules), Window(), latency_ms=500)
    (load,) = found.webhooks
    # Nine requests, a second apart: nine seconds, five of them with a pod.
    assert (load.calls, load.mean, load.p50, load.p99, load.most) == (5, 5 / 9, 1, 1, 1)
    assert (load.burst_1s, load.burst_10s, load.unsized) == (1, 5, 0)
    assert (load.concurrent_mean, load.concurrent_most) == (5 / 18, 0.5)
    pods = [thing("Pod", f"pod-{index}") for index in range(4)] + [thing("Pod", "guard-0", "guard")]
    assert load.bytes == sum(len(json.dumps(pod, separators=(",", ":"))) for pod in pods)
    causes = {(each.dimension, each.value): each.calls for each in found.causes}
    assert causes == {
        ("resource", "pods"): 5, ("user", "alice"): 4, ("user", "system:node:n1"): 1,
        ("namespace", "shop"): 4, ("namespace", "guard"): 1,
    }  # fmt: skip
    broken = outage(reader, run_of(lake, reader, rules), rules, START, START + timedelta(hours=1))
    tables = [*load_tables(found, None, ""), *outage_tables(broken, "", [])]
    page = page_of("Load of webhooks", [calls_over_time(found), *tables, outage_over_time(broken)])
    assert "<svg" in page
    assert "<script" not in page
    assert page.count("pods.hooks.example.com") > 2
    assert "Calls over time as a table" in page
    assert "An outage over time as a table" in page


def test_charts_over_time_count_what_the_figures_count(lake: Path, reader: LakeReader) -> None:
    rules = configurations("Validating", hook("a", ["pods"]), hook("b", ["configmaps"], failurePolicy="Ignore"))
    verdicts = run_of(lake, reader, rules)
    found = loads(reader, verdicts, Window())
    calls = calls_over_time(found)
    assert calls is not None
    assert [(row.what, row.total) for row in calls.bars] == [
        ("all webhooks", 6), ("a.hooks.example.com", 5), ("b.hooks.example.com", 1),
    ]  # fmt: skip
    broken = outage_over_time(outage(reader, verdicts, rules, START, START + timedelta(hours=1)))
    assert broken is not None
    assert [row.total for row in broken.bars] == [5, 1, 6]
    assert broken.slot_seconds == 60
    assert outage_over_time(outage(reader, verdicts, rules, START - timedelta(hours=2), START - timedelta(hours=1))) is None


@given(st.lists(st.integers(0, 9), min_size=1, max_size=300), st.floats(0.001, 1))
def test_a_quantile_is_that_of_all_seconds(calls: list[int], share: float) -> None:
    seconds = Counter(each for each in calls if each)
    assert quantile(seconds, len(calls), share) == sorted(calls)[max(1, math.ceil(share * len(calls))) - 1]


FAIL, IGNORE = {"failurePolicy": "Fail", "timeoutSeconds": 4}, {"failurePolicy": "Ignore", "timeoutSeconds": 3}
OUTAGES = [
    (
        "Fail refuses, and everyone waits for one timeout",
        [("Validating", [hook("a", ["pods"], **FAIL)])],
        (5, 0),
        {(4, "refused"): 5},
    ),
    ("Ignore lets pass", [("Validating", [hook("a", ["pods"], **IGNORE)])], (0, 5), {(3, "passes"): 5}),
    (
        "validating webhooks hang at the same time",
        [("Validating", [hook("a", ["pods"], **FAIL), hook("b", ["pods"], **IGNORE)])],
        (5, 0),
        {(4, "refused"): 5},
    ),
    (
        "mutating webhooks hang one after the other, until one gives up",
        [("Mutating", [hook("a", ["pods"], **IGNORE), hook("b", ["pods"], **FAIL), hook("c", ["pods"], **IGNORE)])],
        (5, 0),
        {(7, "refused"): 5},
    ),
    (
        "the server gives up after 34 seconds",
        [("Mutating", [hook(name, ["pods"], failurePolicy="Ignore", timeoutSeconds=20) for name in "ab"])],
        (0, 5),
        {(40, "timeout"): 5},
    ),
]


@pytest.mark.parametrize(("given", "totals", "waits"), [case[1:] for case in OUTAGES], ids=[case[0] for case in OUTAGES])
def test_an_outage_refuses_or_lets_pass(
    lake: Path, reader: LakeReader, given: Any, totals: tuple[int, int], waits: dict[tuple[int, str], int]
) -> None:
    rules = tuple(each for kind, hooks in given for each in configurations(kind, *hooks))
    verdicts = run_of(lake, reader, rules)
    loads(reader, verdicts, Window())
    found = outage(reader, verdicts, rules, START, START + timedelta(hours=1))
    assert (found.refused, found.unchecked, found.already) == (*totals, 0)
    assert {(each.seconds, each.ends): each.requests for each in found.waiting} == waits
    assert found.hits[0].system == "nodes", "the cluster's own parts come first"


def test_an_outage_of_a_webhook_on_its_own_server(lake: Path, reader: LakeReader) -> None:
    """T002-9: each matched write is refused, the others pass, and the pods of the server itself are among the refused ones."""
    rules = configurations("Validating", hook("a", ["pods"]))
    verdicts = run_of(lake, reader, rules)
    loads(reader, verdicts, Window())
    found = outage(reader, verdicts, rules, START, START + timedelta(hours=1))
    assert (found.refused, found.unchecked) == (5, 0)
    world = world_as_of(reader, "lab", START + timedelta(hours=1))
    assert [(each.need, each.is_sure) for each in self_locks(Chain(rules), world)] == [("CREATE pods", True)]


def test_an_outage_has_a_time_and_may_be_of_one_webhook(lake: Path, reader: LakeReader) -> None:
    rules = configurations("Validating", hook("a", ["pods"]), hook("b", ["configmaps"]))
    verdicts = run_of(lake, reader, rules)
    loads(reader, verdicts, Window())
    found = outage(reader, verdicts, rules, START, START + timedelta(seconds=4))
    assert {each.webhook: each.refused for each in found.webhooks} == {"a.hooks.example.com": 1, "b.hooks.example.com": 0}
    found = outage(reader, verdicts, rules, START, START + timedelta(hours=1), ["b.hooks.example.com"])
    assert [(each.webhook, each.refused) for each in found.webhooks] == [("b.hooks.example.com", 1)]


SPARED = {
    "namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["guard"]}]}
}
LOCKS = [
    ("a webhook on pods refuses its own pods", hook("a", ["pods"]), {("CREATE pods", True)}),
    ("a namespace that is spared does not", hook("a", ["pods"], **SPARED), set()),
    ("Ignore locks nothing", hook("a", ["pods"], failurePolicy="Ignore"), set()),
    ("labels decide", hook("a", ["pods"], objectSelector={"matchLabels": {"app": "x"}}), {("CREATE pods", False)}),
    (
        "a condition on the request alone is decided",
        hook("a", ["pods", "endpoints"], matchConditions=[{"name": "c", "expression": "request.resource.resource != 'pods'"}]),
        {("UPDATE endpoints", True)},
    ),
    ("the server's own address may be anywhere", hook("a", ["pods"], clientConfig={"url": "https://x.example.com"}), set()),
]


@pytest.mark.parametrize(("given", "expected"), [case[1:] for case in LOCKS], ids=[case[0] for case in LOCKS])
def test_a_webhook_may_refuse_what_its_own_server_needs(
    reader: LakeReader, given: dict[str, Any], expected: set[tuple[str, bool]]
) -> None:
    chain = Chain(configurations("Validating", given))
    world = world_as_of(reader, "lab", START + timedelta(hours=1))
    assert {(each.need, each.is_sure) for each in self_locks(chain, world)} == expected


def test_webhooks_that_reach_kube_system_are_named(reader: LakeReader) -> None:
    elsewhere = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}}
    hooks = [hook("all", ["pods", "*/scale"]), hook("shop", ["pods"], **elsewhere), hook("nodes", ["nodes"])]
    world = world_as_of(reader, "lab", START + timedelta(hours=1))
    found = list(reaching_system(Chain(configurations("Validating", *hooks)), world))
    assert [(each.webhook, each.locks, each.is_sure, each.resources) for each in found] == [
        ("all.hooks.example.com", True, True, "pods, */scale")
    ]


def test_the_log_may_show_the_webhooks(tmp_path: Path) -> None:
    """Without files each request meets the webhooks of its time."""
    log = Log(timedelta(seconds=10))
    log.write("create", thing("Namespace", "shop", ""))
    log.write("create", thing("Pod", "before"))
    value = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "guard", "uid": "guard", "resourceVersion": "5"},
        "webhooks": [hook("a", ["pods"])],
    }
    log.write("create", value)
    log.write("create", thing("Pod", "after"))
    path = take_in(tmp_path / "lake", log.lines)
    with closing(open_lake(path)) as opened:
        (found,) = loads(opened, run_of(path, opened, AsRecorded.RULES), Window()).webhooks
        assert found.calls == 1
        assert [each.name for each in configurations_as_of(opened, "lab", START + timedelta(hours=1)).rules] == ["guard"]


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("1.5s", 1500.0), ("451.25ms", 451.25), ("935ns", 0.000935), ("1m2s", 62000.0), ("111µs", 0.111), ("soon", None), ("1", None)],
)
def test_a_duration_is_read_as_go_writes_it(text: str, milliseconds: float | None) -> None:
    assert duration_ms(text) == (None if milliseconds is None else pytest.approx(milliseconds))


def test_recorded_latencies_are_summed_up_by_phase(reader: LakeReader) -> None:
    assert [tuple(each) for each in latencies(reader, Window())] == [("validating", 1, 600.5, 600.5, 600.5)]
