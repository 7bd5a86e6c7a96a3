"""`hindcast violations` over a lake of two clusters: no figure sums over both, and one cluster can be asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.cli import run
from api.settings import Settings
from tests.querying import ORIGIN, QueryClient
from tests.recording import START, Object, deployment, recorded, take_in

FAILURE = json.dumps(
    [{"message": "m", "policy": "p", "binding": "b", "expressionIndex": "0", "validationActions": ["Audit"]}], separators=(",", ":")
)


def failing(number: int) -> Object:
    """A create that failed a policy; every one was received in the same microsecond, as on a fleet some are."""
    notes = {"validation.policy.admission.k8s.io/validation_failure": FAILURE, "hindcast/translated": "gke"}
    return recorded(f"id-{number}", START, "create", deployment(f"web-{number}", 1), annotations=notes)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    take_in(tmp_path / "lake", [failing(1), failing(2)], "east.jsonl", "east")
    return take_in(tmp_path / "lake", [failing(1)], "west.jsonl", "west")


def asked(lake: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, list[dict[str, object]]]:
    assert run(["--lake", str(lake), "violations", "-o", "json", *options]) == 0
    found: dict[str, list[dict[str, object]]] = json.loads(capsys.readouterr().out)
    return found


def test_each_cluster_has_its_own_figures(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = asked(lake, capsys)["failures"]
    assert [(row["cluster"], row["policy"], row["failures"], row["requests"]) for row in rows] == [
        ("east", "p", 2, 2),
        ("west", "p", 1, 1),
    ]


def test_one_cluster_is_counted_alone(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = asked(lake, capsys, "--cluster", "west", "--by", "workload")["failures"]
    assert (row["workload"], row["requests"], "cluster" in row) == ("Deployment/web-1", 1, False)


def test_a_cluster_that_the_lake_does_not_have_is_refused(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--lake", str(lake), "violations", "--cluster", "north"]) == 2
    assert "no events of 'north'; it has east, west" in capsys.readouterr().err


def test_annotations_under_the_name_of_hindcasts_notes_are_of_a_policy(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They arrived, so Hindcast did not write them. A policy may have that name."""
    found = {(row["cluster"], row["policy"], row["key"]) for row in asked(lake, capsys)["audit_annotations"]}
    assert found == {(cluster, "hindcast", "translated") for cluster in ("east", "west")}


def test_doctor_shows_one_cluster(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["--lake", str(lake), "doctor", "--cluster", "west", "-o", "json"])
    found = json.loads(capsys.readouterr().out)
    assert {row["cluster"] for name in ("sources", "findings") for row in found[name]} == {"west"}
    assert run(["--lake", str(lake), "doctor", "--cluster", "north"]) == 2
    assert "no events of 'north'" in capsys.readouterr().err


@pytest.fixture
def asker(lake: Path) -> Iterator[QueryClient]:
    with QueryClient(Settings(lake=lake)) as client:
        yield client


def test_the_http_rollup_keeps_clusters_apart_unless_asked(asker: QueryClient) -> None:
    apart = asker.rows("/violations/rollup")
    west = asker.rows("/violations/rollup", cluster="west", by="workload")
    assert [(row["cluster"], row["requests"]) for row in apart] == [("east", 2), ("west", 1)]
    assert [(row["workload"], row["requests"]) for row in west] == [("Deployment/web-1", 1)]


def test_the_home_page_keeps_clusters_apart(asker: QueryClient) -> None:
    page = asker.send("GET", f"{ORIGIN}/").text
    section = page[page.index('id="in-force"') :]
    assert section.index("cluster=east") < section.index("cluster=west")
