"""Kept reports on a fleet over HTTP and as pages: the matrix with the worst cluster first, and clusters that stand apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from api.settings import Settings
from pipeline.report.fleet import fleet_schema
from tests.api.conftest import MARKUP
from tests.markup import Element
from tests.querying import QueryClient
from tests.recording import START, deployment, recorded, take_in
from tests.walking import Pages, main


@pytest.fixture(scope="module")
def client(replayed_lake: Path) -> Iterator[QueryClient]:
    with QueryClient(Settings(lake=replayed_lake, query_seconds_max=200)) as found:
        yield found


@pytest.fixture(scope="module")
def shown(client: QueryClient) -> Pages:
    return Pages(client)


@pytest.fixture(scope="module")
def report(shown: Pages) -> Element:
    return shown.page(shown.link("/fleets", "2026-11-22"))


def section(page: Element, title: str) -> Element:
    return next(part for part in page.all("section") if any(title in head.words() for head in part.all("h2")))


def test_a_kept_report_is_answered_as_the_command_prints_it(client: QueryClient) -> None:
    (row,) = client.get("/fleets")["rows"]
    assert (row["clusters"], row["ready"], row["apart"]) == (40, 37, 2)
    found = client.get(f"/fleets/{row['fleet_id']}")
    jsonschema.validate(found, fleet_schema())
    assert found["clusters"][0]["cluster"] == "prod-05"
    assert [each["cluster"] for each in found["apart"]] == ["prod-09", "prod-07"]


def test_an_unknown_report_is_an_error_that_says_where_the_others_are(client: QueryClient, shown: Pages) -> None:
    answer = shown.answer("/api/v1/fleets/0123456789abcdef")
    assert answer.status_code == 404
    assert "/fleets lists the reports" in answer.json()["error"]["hint"]
    assert shown.answer("/api/v1/fleets/..%2f..%2fruns").status_code in (404, 422)
    shown.page("/fleets/0123456789abcdef", 404)


def test_the_page_has_the_matrix_with_the_worst_cluster_first(report: Element) -> None:
    assert "37 of 40 clusters are ready for both manifests; 2 cannot be judged." in main(report)
    rows = [row for row in section(report, "Clusters and manifests").all("tr") if any(row.all("td"))]
    words = [(next(row.all("th")).words(), [cell.words() for cell in row.all("td")]) for row in rows]
    assert words[0] == ("prod-05", ["✕NOT READY"] * 2)
    assert words[1] == ("prod-00", ["✓READY"] * 2)
    assert len(words) == 38
    assert "37 of 40" in section(report, "In how many clusters").words()
    assert "prod-00: every manifest is ready there" in section(report, "Where to begin").words()


def test_clusters_that_cannot_be_judged_stand_apart_with_the_reason(report: Element) -> None:
    apart = section(report, "cannot be judged").words()
    assert "two clusters share the name prod-09" in apart
    assert "only 0.5 days of traffic" in apart
    assert "replicas" in section(report, "What differs").words()


def test_nothing_in_a_report_becomes_markup(report: Element) -> None:
    assert MARKUP in main(report)
    assert not list(report.all("img"))


def test_a_square_leads_to_the_policy_in_that_cluster(shown: Pages, report: Element) -> None:
    squares = list(section(report, "Clusters and manifests").all("a"))
    links = [link.attributes["href"] for link in squares if link.attributes["href"].startswith("/runs/")]
    assert len(links) == 38 * 2
    assert all("policy=" in link for link in links)


def test_the_matrix_can_be_sorted_and_downloaded(shown: Pages) -> None:
    path = shown.link("/fleets", "2026-11-22")
    lines = shown.answer(f"{path}?table=matrix&format=csv").text.splitlines()
    assert lines[0] == "cluster,manifest-1,manifest-2"
    assert lines[1] == "prod-05,NOT READY,NOT READY"
    page = shown.page(f"{path}?table=matrix&sort=cluster")
    rows = [row for row in section(page, "Clusters and manifests").all("tr") if any(row.all("td"))]
    assert next(rows[0].all("th")).words() == "prod-00"


def test_the_navigation_leads_to_the_fleet_only_where_there_is_one(tmp_path: Path) -> None:
    event = recorded("one", START, "create", deployment("a", 1))
    lake = take_in(tmp_path / "lake", [event], "a.jsonl")
    with QueryClient(Settings(lake=lake, query_seconds_max=200)) as client:
        assert "/fleets" not in [link.attributes["href"] for link in Pages(client).page("/try").all("a")]
    take_in(lake, [event | {"auditID": "two"}], "b.jsonl", cluster="other")
    with QueryClient(Settings(lake=lake, query_seconds_max=200)) as client:
        page = Pages(client).page(Pages(client).link("/try", "Fleet"))
        assert "2 clusters in this lake: lab, other." in main(page)
        assert "No report on the fleet is in the lake" in main(page)
