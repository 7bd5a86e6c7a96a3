"""The read API over the bundled log: rows in pages, filters, formats, single requests, policies of a time; and what it refuses."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.ask.json_values import json_document
from api.settings import Settings
from ingest.lake import Lake
from queries import LakeReader, open_lake
from tests.querying import API, QueryClient


@pytest.fixture(scope="module")
def asked(demo_lake: Path) -> Iterator[QueryClient]:
    with QueryClient(Settings(lake=demo_lake)) as client:
        yield client


@pytest.fixture(scope="module")
def lake(demo_lake: Path) -> Iterator[LakeReader]:
    reader = open_lake(demo_lake)
    yield reader
    reader.close()


def count(lake: LakeReader, view: str, where: str = "true") -> int:
    return int(lake.sql(f"SELECT count(*) FROM {view} WHERE {where}").fetchall()[0][0])


@pytest.mark.parametrize("view", ["violations", "denials"])
@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_the_pages_of_a_view_are_its_rows_each_once_in_order(asked: QueryClient, lake: LakeReader, view: str, order: str) -> None:
    rows = asked.rows(f"/{view}", limit=97, order=order)
    assert len(rows) == count(lake, view) > 0
    times = [row["ts"] for row in rows]
    assert times == sorted(times, reverse=order == "newest")
    keys = ("cluster", "audit_id", "ts", "policy", "binding", "message")
    expected = lake.sql(f"SELECT {', '.join(keys)} FROM {view}").fetchall()
    found = (tuple(datetime.fromisoformat(row[key]) if key == "ts" else row[key] for key in keys) for row in rows)
    assert Counter(found) == Counter(expected)


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_equal_rows_are_neither_lost_nor_repeated_at_the_edge_of_a_page(asked: QueryClient, lake: LakeReader, limit: int) -> None:
    policy = lake.sql(
        "SELECT policy FROM violations GROUP BY policy HAVING count(*) BETWEEN 5 AND 40 ORDER BY policy LIMIT 1"
    ).fetchall()[0][0]
    assert len(asked.rows("/violations", policy=policy, limit=limit)) == count(lake, "violations", f"policy = '{policy}'")


def test_requests_come_with_what_is_asked_and_bodies_only_on_request(asked: QueryClient) -> None:
    plain = asked.get("/requests", limit=5)["rows"]
    large = asked.get("/requests", limit=5, bodies=True)["rows"]
    assert [row["audit_id"] for row in plain] == [row["audit_id"] for row in large]
    assert "request_object" not in plain[0]
    assert "request_object" in large[0]


@pytest.mark.parametrize(
    ("path", "given", "where"),
    [
        ("/requests", {"namespace": "kube-system"}, "namespace = 'kube-system'"),
        (
            "/requests",
            {"namespace": ["kube-system", ""], "verb": "update"},
            "coalesce(namespace, '') IN ('', 'kube-system') AND verb = 'update'",
        ),
        ("/requests", {"code": [403, 422]}, "code IN (403, 422)"),
        ("/requests", {"outcome": "vap"}, "outcome = 'vap'"),
        ("/requests", {"user": "nobody'; DROP VIEW events; --"}, "false"),
        ("/violations", {"enforced": True}, "enforced"),
        ("/violations", {"admitted": False}, "NOT admitted"),
        ("/violations", {"api_group": "apps", "resource": "deployments"}, "api_group = 'apps' AND resource = 'deployments'"),
        ("/denials", {"denier": "vap"}, "denier = 'vap'"),
        ("/events", {"stage": "ResponseStarted"}, "stage = 'ResponseStarted'"),
    ],
)  # fmt: skip
def test_filters_are_typed_and_values_are_only_values(
    asked: QueryClient, lake: LakeReader, path: str, given: dict[str, Any], where: str
) -> None:
    assert len(asked.rows(path, **given, limit=1000)) == count(lake, path.removeprefix("/"), where)


def test_a_window_is_closed_at_its_start_and_open_at_its_end(asked: QueryClient, lake: LakeReader) -> None:
    since, until = lake.sql("SELECT quantile_disc(ts, 0.3), quantile_disc(ts, 0.6) FROM violations").fetchall()[0]
    rows = asked.rows("/violations", since=since.isoformat(), until=until.isoformat(), limit=1000)
    assert len(rows) == count(lake, "violations", f"ts >= '{since.isoformat()}' AND ts < '{until.isoformat()}'") > 0
    assert asked.rows("/violations", since="0.001s") == []


def test_violations_are_counted_by_what_is_asked(asked: QueryClient, lake: LakeReader) -> None:
    rows = asked.rows("/violations/rollup", by=["policy", "namespace"], limit=9)
    expected = lake.violation_rollup(["policy", "namespace"]).fetchall()
    assert [row["failures"] for row in rows] == [row[2] for row in expected]
    policy, failures = rows[0]["policy"], sum(row["failures"] for row in rows if row["policy"] == rows[0]["policy"])
    narrowed = asked.rows("/violations/rollup", by="day", policy=policy)
    assert sum(row["failures"] for row in narrowed) == failures
    assert {tuple(row)[:2] for row in narrowed} == {("day", "failures")}


@pytest.mark.parametrize("by", [["policy"], ["user", "policy"], ["day", "day"]])
def test_a_count_has_the_asked_columns_in_their_order_and_no_others(asked: QueryClient, lake: LakeReader, by: list[str]) -> None:
    columns = asked.send("GET", "/violations/rollup", params={"by": by, "format": "csv"}).text.splitlines()[0].split(",")
    expected = [{"user": "user_name"}.get(name, name) for name in dict.fromkeys(by)]
    counts = ["failures", "requests", "admitted", "users", "namespaces", "first_ts", "last_ts"]
    assert [name.strip('"') for name in columns] == lake.violation_rollup(by).columns == [*expected, *counts]


@pytest.mark.parametrize("path", ["/evidence", "/losses", "/sources", "/policies/known"])
def test_small_views_come_in_pages_too(asked: QueryClient, lake: LakeReader, path: str) -> None:
    view = {"/policies/known": "known_policies"}.get(path, path.removeprefix("/"))
    rows = asked.rows(path, limit=7)
    assert len(rows) == count(lake, view)
    assert len({json.dumps(row) for row in rows}) == len(rows)


def test_the_clusters_are_named(asked: QueryClient, lake: LakeReader) -> None:
    (row,) = asked.get("/clusters")["rows"]
    assert (row["cluster"], row["events"]) == ("demo", count(lake, "events"))


def test_rows_are_the_same_in_every_format(asked: QueryClient) -> None:
    given = {"limit": 50, "resource": "deployments"}
    plain = asked.get("/requests", **given)
    arrow = asked.send("GET", "/requests", params=given, headers={"Accept": "application/vnd.apache.arrow.stream"})
    table = pa.ipc.open_stream(arrow.content).read_all()
    text = asked.send("GET", "/requests", params={**given, "format": "csv"})
    assert text.headers["content-type"].startswith("text/csv")
    cells = pa_csv.read_csv(io.BytesIO(text.content))
    ids = [row["audit_id"] for row in plain["rows"]]
    assert table["audit_id"].to_pylist() == ids == cells["audit_id"].to_pylist()
    assert table.schema.field("ts").type == pa.timestamp("us", tz="UTC")
    assert plain["next"] in arrow.headers["link"]
    assert arrow.headers["link"] == asked.send("GET", "/requests", params=given).headers["link"]
    assert [json.loads(cell) for cell in cells["user_groups"].to_pylist()] == [row["user_groups"] for row in plain["rows"]]


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("*/*", "application/json"),
        ("", "application/json"),
        ("text/csv;q=0.5, application/vnd.apache.arrow.stream;q=0.9", "application/vnd.apache.arrow.stream"),
        ("text/html, text/csv;q=x", "application/json"),
        ("image/png, text/csv", "text/csv"),
    ],
)
def test_the_accept_header_chooses(asked: QueryClient, accept: str, content_type: str) -> None:
    response = asked.send("GET", "/denials", params={"limit": 1}, headers={"Accept": accept})
    assert response.headers["content-type"].startswith(content_type)


def test_a_request_is_told_with_its_objects(asked: QueryClient, lake: LakeReader) -> None:
    cluster, audit_id, name = lake.sql(
        "SELECT cluster, audit_id, name FROM requests WHERE verb = 'update' AND resource = 'deployments' AND outcome = 'allowed' "
        "AND response_object IS NOT NULL ORDER BY ts DESC LIMIT 1"
    ).fetchall()[0]
    (found,) = asked.get(f"/requests/{cluster}/{audit_id}")["requests"]
    old, new = found["old_object"], found["new_object"]
    assert found["request"]["response_object"]["metadata"]["name"] == name
    (judged,) = found["judged"]["passes"]
    assert (judged["operation"], found["judged"]["why"]) == ("UPDATE", None)
    assert judged["object"]["value"]["metadata"]["name"] == judged["old_object"]["value"]["metadata"]["name"] == name
    assert judged["object"]["source"] == "responseObject"
    assert old["metadata"]["name"] == new["metadata"]["name"] == name
    assert old["metadata"]["resourceVersion"] != new["metadata"]["resourceVersion"]
    assert found["old_object_ts"] < found["request"]["ts"]
    assert [event["stage"] for event in found["events"]]


def test_the_judged_object_of_a_patch_is_reconstructed(asked: QueryClient, lake: LakeReader) -> None:
    cluster, audit_id, patch = lake.sql(
        "SELECT cluster, audit_id, request_object FROM requests WHERE verb = 'patch' AND resource = 'deployments' "
        "AND outcome = 'vap' AND request_object LIKE '{\"spec\"%' ORDER BY ts LIMIT 1"
    ).fetchall()[0]
    (found,) = asked.get(f"/requests/{cluster}/{audit_id}")["requests"]
    assert found["request"]["request_object"] == json.loads(patch)
    (judged,) = found["judged"]["passes"]
    assert {"metadata", "spec"} <= judged["object"]["value"].keys()
    assert judged["object"]["value"] != judged["old_object"]["value"]


def test_a_request_that_policies_never_saw_says_why_nothing_was_judged(asked: QueryClient, lake: LakeReader) -> None:
    cluster, audit_id = lake.sql("SELECT cluster, audit_id FROM requests WHERE verb = 'list' ORDER BY ts LIMIT 1").fetchall()[0]
    (found,) = asked.get(f"/requests/{cluster}/{audit_id}")["requests"]
    assert found["judged"]["passes"] == []
    assert found["judged"]["why"]


def test_rows_with_bodies_hold_documents_in_json_and_texts_in_csv(asked: QueryClient, lake: LakeReader) -> None:
    filters = {"verb": "create", "resource": "configmaps", "bodies": True, "limit": 3, "level": "RequestResponse"}
    rows = asked.get("/requests", **filters)["rows"]
    assert all(row["request_object"]["kind"] == "ConfigMap" for row in rows)
    texts = asked.send("GET", "/requests", params={**filters, "format": "arrow"}).content
    recorded = pa.ipc.open_stream(texts).read_all()["request_object"].to_pylist()
    assert [json.loads(text) for text in recorded] == [row["request_object"] for row in rows]


@pytest.mark.parametrize("text", ["{", "NaN", "[1, NaN]", "", "1, 2", "1], [2", "[" * 100_000 + "]" * 100_000])
def test_a_recorded_text_that_is_not_json_stays_a_text(text: str) -> None:
    assert json_document(text) == text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_a_recorded_document_is_what_its_text_says(value: object) -> None:
    assert json_document(json.dumps(value)) == value


def test_a_refused_request_is_told_with_its_failures(asked: QueryClient, lake: LakeReader) -> None:
    cluster, audit_id, policy = lake.sql("SELECT cluster, audit_id, policy FROM violations ORDER BY ts LIMIT 1").fetchall()[0]
    (found,) = asked.get(f"/requests/{cluster}/{audit_id}")["requests"]
    assert policy in [failure["policy"] for failure in found["violations"]]


def test_policies_are_told_as_of_a_time(asked: QueryClient, lake: LakeReader) -> None:
    last = lake.sql("SELECT max(ts) FROM events").fetchall()[0][0]
    rows = asked.get("/policies", at=last.isoformat())["rows"]
    kinds = Counter(row["kind"] for row in rows)
    assert kinds["ValidatingAdmissionPolicy"] > 5
    assert kinds["ValidatingAdmissionPolicyBinding"] > 5
    text = asked.send("GET", "/policies", params={"at": last.isoformat(), "format": "yaml"}).text
    assert f"name: {rows[0]['name']}" in text
    assert asked.get("/policies", at="2020-01-01T00:00:00Z")["rows"] == []


@pytest.mark.parametrize(
    ("path", "given", "status", "found"),
    [
        ("/requests", {"namspace": "x"}, 400, "'namspace' is not a parameter here"),
        ("/requests", {"limit": 0}, 422, "query.limit"),
        ("/requests", {"limit": 1001}, 422, "found '1001'"),
        ("/requests", {"since": "yesterday"}, 400, "since: 'yesterday' is not a time"),
        ("/requests", {"since": "99999999999999d"}, 400, "is not a time"),
        ("/requests", {"until": "0001-01-01T00:00:00+23:59"}, 400, "is not a time"),
        ("/requests", {"after": "bm9uZQ"}, 400, "not where a page of this question ended"),
        ("/requests", {"after": "W1td"}, 400, "not where a page"),
        ("/requests", {"code": "teapot"}, 422, "query.code.0"),
        ("/requests", {"order": "random"}, 422, "query.order"),
        ("/requests", {"format": "xml"}, 422, "query.format"),
        ("/requests", {"namespace": ["x"] * 51}, 422, "at most 50"),
        ("/violations/rollup", {"by": "colour"}, 400, "cannot be counted by 'colour'"),
        ("/policies", {"cluster": "elsewhere"}, 400, "no events of 'elsewhere'"),
        ("/requests/demo/no-such-id", {}, 404, "no such request"),
        ("/runs/0123456789abcdef", {}, 404, "no run '0123456789abcdef'"),
        ("/runs/0123456789abcdef/verdicts", {}, 404, "no run"),
        ("/runs/0123456789abcdef/readiness", {}, 404, "no run"),
        ("/runs/0123456789abcdef/readiness", {"rule": "days_min=soon"}, 400, "wanted a number"),
        ("/runs/0123456789abcdef/readiness", {"rule": "trend_p_max=0"}, 400, "out of range"),
        ("/runs/0123456789abcdef/readiness", {"rule": "denied_units_max=1.5"}, 400, "wanted a whole number"),
        ("/runs/0123456789abcdef/readiness", {"rule": "confidence=1"}, 400, "out of range"),
        ("/runs/..%2F..%2Fmanifest.sqlite", {}, 404, "Not Found"),
        ("/runs/....", {}, 422, "path.run_id"),
        ("/replays/0123", {}, 422, "path.job_id"),
        ("/nothing", {}, 404, "Not Found"),
    ],
)
def test_mistakes_are_answered_with_what_was_found_and_wanted(
    asked: QueryClient, path: str, given: dict[str, Any], status: int, found: str
) -> None:
    answered, error = asked.refused(path, **given)
    assert answered == status, error
    assert found in error["message"]
    assert set(error) == {"code", "message", "hint"}


def test_a_cursor_belongs_to_its_question(asked: QueryClient) -> None:
    after = asked.get("/requests", limit=1)["next"]
    assert asked.refused("/events", after=after)[0] == 400
    assert asked.refused("/requests", after=after, order="oldest")[0] == 400
    assert asked.get("/requests", limit=1, after=after)["rows"]


@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize(
    "ts",
    [
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "2026-11-21T03:24:55",
    ],
)
@pytest.mark.parametrize("text", ["", "a\0b", "\ud800"])
def test_a_cursor_of_any_time_and_text_is_answered(asked: QueryClient, ts: str, text: str, order: str) -> None:
    after = asked.get("/requests", limit=1, order=order)["next"]
    question, keys, _ = json.loads(base64.urlsafe_b64decode(after + "=="))
    changed = json.dumps([question, [{"ts": ts}, *(text if isinstance(key, str) else key for key in keys[1:])], 0])
    given = {"limit": 1, "order": order, "after": base64.urlsafe_b64encode(changed.encode()).decode()}
    assert asked.send("GET", "/requests", params=given).status_code in (200, 400)


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_the_ends_of_time_are_answered(asked: QueryClient, at: str) -> None:
    assert asked.send("GET", "/policies", params={"at": at}).status_code in (200, 400)


def test_the_first_requests_may_come_together(demo_lake: Path) -> None:
    with QueryClient(Settings(lake=demo_lake)) as client, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.send("GET", "/clusters").status_code, range(8)))
    assert answers == [200] * 8


def test_no_format_that_is_wanted_is_said(asked: QueryClient) -> None:
    response = asked.send("GET", "/requests", headers={"Accept": "image/png"})
    assert response.status_code == 406
    assert "found 'image/png'" in response.json()["error"]["message"]


def test_a_question_that_takes_too_long_is_ended(demo_lake: Path) -> None:
    with QueryClient(Settings(lake=demo_lake, query_seconds_max=0.01)) as client:
        status, error = client.refused("/violations/rollup", by="workload")
    assert (status, error["code"]) == (422, "too_costly")
    assert "since" in error["hint"]


def test_a_question_that_takes_too_much_memory_is_ended(demo_lake: Path) -> None:
    with QueryClient(Settings(lake=demo_lake, query_memory_bytes_max=1_000_000)) as client:
        status, error = client.refused("/violations/rollup", by="workload")
    assert (status, error["code"]) == (422, "too_costly")


def test_new_events_and_merged_files_are_seen(demo_lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(demo_lake, tmp_path / "lake")
    monkeypatch.setattr("api.ask.asking._LOOK_AGAIN_SECONDS", 0.0)
    with QueryClient(Settings(lake=tmp_path / "lake")) as client:
        before = client.get("/clusters")["rows"][0]["events"]
        lake = Lake.open(tmp_path / "lake")
        table = pq.read_table(lake.files()[0]).slice(0, 10)
        renamed = table.set_column(table.schema.get_field_index("cluster"), table.schema.field("cluster"), pa.array(["new"] * 10))
        with lake.writer() as writer:
            writer.commit(writer.write("events", "new", renamed))
        assert [(row["cluster"], row["events"]) for row in client.get("/clusters")["rows"]] == [("demo", before), ("new", 10)]
        # From here on it looks only where a file is gone.
        monkeypatch.setattr("api.ask.asking._LOOK_AGAIN_SECONDS", 1e9)
        with lake.writer() as writer:
            files = lake.manifest.files("events")
            merged = []
            for cluster in ("demo", "new"):
                tables = [pq.read_table(tmp_path / "lake" / file.path) for file in files if file.cluster == cluster]
                merged += writer.write("events", cluster, pa.concat_tables(tables), compacted=True)
            writer.commit(merged, [file.path for file in files], retired_ts=0.0)
            for file in files:
                (tmp_path / "lake" / file.path).unlink()
        lake.close()
        assert len(client.rows("/violations", limit=1000)) > 0
        assert [(row["cluster"], row["events"]) for row in client.get("/clusters")["rows"]] == [("demo", before), ("new", 10)]


def test_every_answer_forbids_what_a_browser_might_make_of_it(asked: QueryClient) -> None:
    headers = asked.send("GET", "/clusters").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-request-id"]


def test_the_database_reaches_nothing_but_the_lake(asked: QueryClient) -> None:
    with asked.app.state.asker._reader.session() as session:
        for text in ("FROM read_text('/etc/hostname')", "COPY (SELECT 1) TO '/elsewhere.csv'", "SET enable_external_access = true"):
            with pytest.raises(Exception, match=r"disabled by configuration|locked|Cannot"):
                session.connection.execute(text)


def test_the_description_names_every_route(asked: QueryClient) -> None:
    described = asked.get("/openapi.json")
    assert "servers" not in described
    for path, routes in described["paths"].items():
        for operation in routes.values():
            assert re.fullmatch(r"(List|Show|Count|Start|Follow|Cancel|Remove|Explain) [^.]+", operation["summary"]), operation[
                "summary"
            ]
            undescribed = [entry["name"] for entry in operation.get("parameters", ()) if not entry.get("description")]
            assert undescribed == [], path
            assert (
                sum(
                    "example" in content
                    for answer in operation["responses"].values()
                    for content in answer.get("content", {}).values()
                )
                == 1
            )
    assert all(path.startswith(API) for path in described["paths"])
    assert {f"{API}/requests", f"{API}/violations/rollup", f"{API}/runs/{{run_id}}/verdicts", f"{API}/replays"} <= set(
        described["paths"]
    )
