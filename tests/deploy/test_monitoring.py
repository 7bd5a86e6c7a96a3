"""Alerts and the dashboard ask for metrics that Hindcast, or a kube-apiserver, really has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ingest.server import metrics as server_metrics
from ingest.sink import Sink
from ingest.spooling.spool import Spool
from ingest.telemetry import SinkMetrics

from .rendering import NAMESPACE, by_name, chart

WANTED_ALERTS = {
    "sink not ready": "hindcast_sink_ready",
    "quarantine grows": "hindcast_sink_events_quarantined_total",
    "drain behind": "hindcast_drain_lag_seconds",
    "evidence lost": "hindcast_spool_lost_segments_total",
    "disk full soon": "hindcast_disk_free_bytes",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, set[str]]]:
    """Each metric of /metrics as a new sink serves it, with its labels and their values."""
    folder, metrics = tmp_path_factory.mktemp("sink"), SinkMetrics()
    spool = Spool(folder / "spool", quarantine=folder / "quarantine")
    sink = Sink(spool, folder / "quarantine", redactor=None, metrics=metrics)
    metrics.saw_cluster("prod-1", 1.0)
    for process in ("drain", "query"):
        metrics.process_up.labels(process).set(1)
        metrics.process_restarts.labels(process).inc(0)
    found: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    sink.close()
    spool.close()
    return found


def selectors(expression: str) -> Iterator[Any]:
    """The selectors of series in a query. Raises ValueError for a query that Prometheus could not parse."""
    stack = [promql_parser.parse(expression)]
    while stack:
        node = stack.pop()
        if isinstance(node, promql_parser.VectorSelector):
            yield node
        parts = [getattr(node, name, None) for name in ("lhs", "rhs", "expr", "vector_selector", "vs", "args")]
        for part in parts:
            stack += part if isinstance(part, list) else [part] if part is not None else []


def unknown_series(expression: str, served: dict[str, dict[str, set[str]]]) -> list[str]:
    """What a query asks for and /metrics does not have: names, labels, and values of labels."""
    wrong = []
    found = list(selectors(expression))
    assert found, expression
    for each in found:
        labels = served.get(each.name)
        if labels is None and each.name == server_metrics._ERRORS:
            labels = {"plugin": {"buffered", "webhook", "truncate", "log"}}
        if labels is None:
            wrong.append(each.name)
            continue
        for matcher in each.matchers.matchers:
            # Prometheus adds these two from the ServiceMonitor.
            if matcher.name in ("job", "namespace"):
                continue
            values = labels.get(matcher.name, set())
            if not any(value in values for value in matcher.value.split("|")):
                wrong.append(f"{each.name}{{{matcher.name}={matcher.value}}}")
    return wrong


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, Any]]:
    values = {"monitoring": {"enabled": True, "dashboard": True}}
    return by_name(chart(tmp_path_factory.mktemp("chart"), values))


def test_alerts_ask_for_series_that_exist(objects: dict[tuple[str, str], dict[str, Any]], served: dict[str, Any]) -> None:
    (group,) = objects["PrometheusRule", "hindcast"]["spec"]["groups"]
    wrong = {rule["alert"]: unknown_series(rule["expr"], served) for rule in group["rules"]}
    assert len(wrong) == 11
    assert {name: series for name, series in wrong.items() if series} == {}
    asked = {each.name for rule in group["rules"] for each in selectors(rule["expr"])}
    assert {what: name for what, name in WANTED_ALERTS.items() if name not in asked} == {}


def test_alerts_name_the_job_that_the_monitor_makes(objects: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Without a job label, the operator takes the name of the Service."""
    assert "jobLabel" not in objects["ServiceMonitor", "hindcast"]["spec"]
    (group,) = objects["PrometheusRule", "hindcast"]["spec"]["groups"]
    for rule in group["rules"]:
        for each in selectors(rule["expr"]):
            given = {matcher.name: matcher.value for matcher in each.matchers.matchers}
            own = {"job": "hindcast-sink", "namespace": NAMESPACE}
            assert each.name == server_metrics._ERRORS or own.items() <= given.items()
    assert ("Service", "hindcast-sink") in objects


def test_the_dashboard_asks_for_series_that_exist(objects: dict[tuple[str, str], dict[str, Any]], served: dict[str, Any]) -> None:
    dashboard = json.loads(objects["ConfigMap", "hindcast-dashboard"]["data"]["hindcast.json"])
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(asked) > 12
    queries = [text.replace("$__rate_interval", "5m") for text in asked]
    assert [series for query in queries for series in unknown_series(query, served)] == []
    variables = [each["query"]["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
    assert {re.sub(r"label_values\((\w+), \w+\)", r"\1", text) for text in variables} <= set(served)
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


@pytest.mark.parametrize("expression", ["hindcast_sink_readiness == 0", 'hindcast_process_up{process="drains"}', 'x{a="b"}'])
def test_the_check_of_queries_finds_unknown_series(expression: str, served: dict[str, Any]) -> None:
    assert unknown_series(expression, served)


def test_a_sink_says_whether_it_is_ready(tmp_path: Path) -> None:
    metrics = SinkMetrics()
    spool = Spool(tmp_path / "spool", quarantine=tmp_path / "quarantine")
    sink = Sink(spool, tmp_path / "quarantine", redactor=None, metrics=metrics)
    assert b"hindcast_sink_ready 1.0" in metrics.render()
    (tmp_path / "spool").rename(tmp_path / "elsewhere")
    sink.look_around()
    assert b"hindcast_sink_ready 0.0" in metrics.render()
    (tmp_path / "elsewhere").rename(tmp_path / "spool")
    sink.look_around()
    assert b"hindcast_sink_ready 1.0" in metrics.render()
    sink.stop_accepting()
    sink.look_around()
    assert b"hindcast_sink_ready 0.0" in metrics.render()
    sink.close()
    spool.close()
