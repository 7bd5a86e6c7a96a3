"""How far a request came: the view `reach` and Python read one table, and say the same of every event."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.schema import EVENTS
from pipeline.history.event import Event
from pipeline.history.outcome import reach_of_event
from queries import open_lake
from queries.catalog import LakeFiles
from queries.lake import LakeReader
from queries.reach import NUMBERS
from queries.reach_rules import DECISION, FAILURE, RULES, WRITE_VERBS

START = datetime(2026, 1, 1, tzinfo=UTC)
# Two ways to the requests that policies denied.
BY_POLICIES = ("policy_denials", "denials WHERE denier = 'vap'")
MESSAGES = (
    None,
    "",
    "Unauthorized",
    "Connection closed early",
    "Connection closed early\n",
    "Too many requests, please try again later.",
    'pods "x" not found',
    'pod "x" not found',
    'namespaces "x" not found',
    'services "x" not found',
    'serviceaccounts "x" not found',
    'secrets "x" not found',
    'pods "x" is forbidden: ',
    'pods "x" is forbidden: RBAC: role "r" not found',
    "404 page not found",
    'pods "x" is forbidden: User "u" cannot create resource "pods"',
    'users "x" is forbidden: User "u\\"v" cannot impersonate resource',
    'pods "x" is forbidden: exceeded quota: q',
    'pods "x" is forbidden: status unknown for quota: q',
    "pods is forbidden: failed quota: q",
    'pods "x" is forbidden: not yet ready to handle request',
    'pods "x" is forbidden: violates PodSecurity "baseline:latest": x',
    "pods \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
    "pods \"x\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: line\nline",
    "policy 'p' with binding 'b' denied request: no",
    'pods "\\" is forbidden: ValidatingAdmissionPolicy \'p\' denied request: no" is forbidden: User "u" cannot get',
    'admission webhook "w.x" denied the request: no',
    'admission webhook "v.x" denied the request without explanation',
    'Internal error occurred: failed calling webhook "w.x": EOF',
    'Internal error occurred: failed calling webhook "v.x": EOF',
    "pods \"x\" is forbidden: expression 'a' resulted in error: b",
    'Operation cannot be fulfilled on pods/binding "x": assigned',
    'Operation cannot be fulfilled on pods "x": the object has been modified; please apply your changes to the latest version '
    "and try again",
    'Operation cannot be fulfilled on pods "x": the UID in the precondition (a) does not match',
    "Apply failed with 1 conflict: x",
    "failed to create typed patch object (x): .x",
    "failed to create manager for existing fields: x",
    'Pod "x" is invalid: spec: bad',
    ' "" is invalid: patch: Invalid value: "x"',
    "the server rejected our request due to an error in our request",
    'CreateOptions.meta.k8s.io "" is invalid: x',
    "the server could not find the requested resource",
    "Upgrade request required",
    "a container name must be specified for pod x",
    "pod x does not have a host assigned",
    "address not allowed",
    "error dialing backend",
    "Cannot evict pod as it would violate the pod's disruption budget.",
    "APIServer panic'd: x",
)
MUTATION = "mutation.webhook.admission.k8s.io/round_0_index_0"
ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        DECISION: st.sampled_from(["allow", "forbid", ""]),
        "authorization.k8s.io/reason": st.sampled_from(["internal error", "RBAC: allowed", ""]),
        FAILURE: st.sampled_from(["[]", "no JSON"]),
        MUTATION: st.sampled_from(
            ['{"configuration":"c","webhook":"w.x","mutated":false}', '{"webhook": "v.x"}', "no JSON", "{}", "[]"]
        ),
    },
)
BODIES = (
    None,
    '{"kind":"PodList","apiVersion":"v1","items":[]}',
    '{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{}}]}',
    '{"kind":"PodList","apiVersion":"v1"}',
    '{"kind":"PodList","items":null}',
    '{"kind":"Status","apiVersion":"v1"}',
    "{}",
    '{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[]}',
    '{"kind":"Table","apiVersion":"meta.k8s.io/v1"}',
)
CODES = [None, 0, 100, 101, 200, 201, 304, 400, 401, 403, 404, 405, 406, 408, 409, 410, 415, 418, 422, 429, 500, 503, 504, 600]
EVENTS_OF_ANY_KIND = st.fixed_dictionaries(
    {
        "verb": st.sampled_from([*sorted(WRITE_VERBS), "get", "list", "watch", "proxy", None]),
        "resource": st.sampled_from(
            [
                ("", "pods"),
                ("", "bindings"),
                ("authentication.k8s.io", "tokenreviews"),
                ("apps", "deployments"),
                (None, None),
                ("", ""),
            ]
        ),
        "subresource": st.sampled_from(
            [None, None, "", "status", "exec", "attach", "portforward", "proxy", "log", "eviction", "binding", "token"]
        ),
        "code": st.sampled_from(
            [
                None,
                0,
                100,
                101,
                200,
                201,
                202,
                304,
                400,
                401,
                403,
                404,
                405,
                406,
                408,
                409,
                410,
                413,
                415,
                418,
                422,
                429,
                500,
                503,
                504,
                600,
            ]
        ),
        "stage": st.sampled_from(["ResponseComplete", "ResponseComplete", "ResponseStarted", "RequestReceived", "Panic"]),
        "status_reason": st.sampled_from([None, "AlreadyExists", "Conflict", "Forbidden"]),
        "status_message": st.sampled_from(MESSAGES),
        "annotations": ANNOTATIONS,
        "response_object": st.sampled_from(BODIES),
    }
)


def row_of(number: int, given: dict[str, Any]) -> dict[str, Any]:
    """A row of `events`, each of a request of its own."""
    at = START + timedelta(seconds=number)
    group, resource = given["resource"]
    fixed = {"cluster": "c", "audit_id": f"{number}", "ts": at, "stage_ts": at, "level": "RequestResponse", "request_uri": "/x"}
    lists = {
        "user_groups": [],
        "source_ips": [],
        "vap_failures": [],
        "flags": [],
        "notes": [],
        "user_name": "u",
        "ingest_source": "case",
    }
    named = {"api_group": group, "resource": resource, "api_version": "v1", "ingest_ts": at}
    return {**dict.fromkeys(EVENTS.names), **fixed, **lists, **given, **named, "annotations": list(given["annotations"].items())}


def told_by_both(reader: LakeReader) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """What SQL and Python say of every request whose deciding stage is its only one."""
    columns = "way, outcome, passed, stopped, why, policies, policies_why"
    said = reader.sql(f"SELECT cluster, audit_id, ts, stage, {columns} FROM reach").fetchall()
    by_sql = {row[:4]: row[4:] for row in said}
    found = []
    for batch in reader.sql("FROM events").to_arrow_reader(2_000):
        for row in batch.to_pylist():
            key = (row["cluster"], row["audit_id"], row["ts"], row["stage"])
            reach = reach_of_event(Event.from_row(row))
            if key in by_sql:
                parts = dataclasses.astuple(reach)[:5]
                found.append((by_sql[key], (*parts, str(reach.policies), reach.policies_why)))
    return found


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(EVENTS_OF_ANY_KIND, min_size=100, max_size=250))
def test_sql_and_python_say_the_same_of_any_event(tmp_path: Path, events: list[dict[str, Any]]) -> None:
    path = tmp_path / "events.parquet"
    pq.write_table(pa.Table.from_pylist([row_of(*numbered) for numbered in enumerate(events)], EVENTS), path)
    reader = LakeReader(lambda: LakeFiles(events=(str(path),)))
    both = told_by_both(reader)
    denied = [
        reader.sql(f"SELECT audit_id, policy, binding, message, namespace, user_name FROM {rows} ORDER BY ALL").fetchall()
        for rows in BY_POLICIES
    ]
    reader.close()
    assert denied[0] == denied[1]
    assert len(both) == len(events)
    assert [sql for sql, _ in both] == [python for _, python in both]


def test_sql_and_python_say_the_same_of_the_bundled_log(demo_lake: Path) -> None:
    reader = open_lake(demo_lake)
    both = told_by_both(reader)
    reader.close()
    assert len(both) > 3_000
    assert [sql for sql, _ in both] == [python for _, python in both]


@pytest.mark.parametrize("rule", RULES, ids=[f"{number}: {rule.why}" for number, rule in enumerate(RULES, 1)])
def test_no_stage_refuses_what_it_passed(rule: Any) -> None:
    assert rule.passed is None or rule.stopped is None or NUMBERS[rule.passed] < NUMBERS[rule.stopped]


def test_the_last_rules_apply_to_everything_that_others_leave() -> None:
    codes = [code for code in range(-1, 1000) if not any(code in rule.codes and _is_without_conditions(rule) for rule in RULES)]
    assert codes == []


def _is_without_conditions(rule: Any) -> bool:
    return dataclasses.replace(rule, outcome="", passed="", stopped="", why="", codes=()) == type(rule)("", "", "", "", ())


def test_a_code_below_400_alone_says_that_a_request_was_allowed() -> None:
    """Queries that only want allowed requests look at the code, and not at the rules."""
    outcomes = {code: {rule.outcome for rule in RULES if code in rule.codes} for code in (-1, 0, 1, 101, 200, 201, 299, 302, 399)}
    assert {code for code, found in outcomes.items() if found != {"allowed"}} == {-1, 0}
