"""The objects and workloads of requests: also of custom resources, and of an auditID that was used twice at one moment."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

from pipeline.readiness.counting.units import find_units
from queries import open_lake
from tests.recording import Log, deployment, take_in

WIDGET = {
    "apiVersion": "shop.example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "w", "namespace": "shop", "uid": "w"},
    "spec": {"size": 70},
    "plural": "widgets",
}


def test_a_request_has_one_subject_and_a_custom_resource_the_kind_of_its_objects(tmp_path: Path) -> None:
    log = Log()
    log.write("create", WIDGET)
    log.write("delete", WIDGET, responseObject={"kind": "Status", "apiVersion": "v1", "status": "Success"})
    log.write("create", deployment("web", 1))
    again = deepcopy(log.lines[-1])
    again["stageTimestamp"] = "2030-01-01T00:00:00.000000Z"
    again["responseObject"]["metadata"]["name"] = again["objectRef"]["name"] = "later"
    reader = open_lake(take_in(tmp_path / "lake", [*log.lines, again]))
    connection = reader.connection
    connection.execute("CREATE TEMP TABLE judged AS SELECT DISTINCT cluster, audit_id, ts FROM folded_requests")
    find_units(reader)
    found = connection.execute("SELECT verb, kind, name, is_whole, release IS NULL FROM subjects ORDER BY ALL").fetchall()
    reader.close()
    assert found == [
        ("create", "Deployment", "web", True, False),
        ("create", "Widget", "w", True, False),
        ("delete", "Widget", "w", True, True),
    ]
