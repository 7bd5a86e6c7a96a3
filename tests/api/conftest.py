"""A lake with replays, for the pages: the bundled log, requests of somebody who writes markup everywhere, and three policies."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.settings import Settings
from ingest.lake import Lake
from ingest.sources.files import ingest_files
from pipeline.stages.validating.execute import run_replay
from pipeline.stages.validating.load import load_policy_set
from pipeline.stages.validating.planning import plan_replay
from pipeline.stages.validating.recorded import plan_replay_from_log
from queries import open_lake
from tests.made_up_fleet import keep_made_up_fleet
from tests.querying import QueryClient
from tests.sharing import shared_lake
from tests.walking import Pages, main

MARKUP = "<script>alert('x')</script>\"'><img src=x onerror=alert(1)>&amp;{{7*7}}"
DEMO = Path(__file__).parents[2] / "api" / "demo"
CASES = Path(__file__).parents[1] / "cases" / "pages"


def hostile_events() -> list[dict[str, Any]]:
    """A Service with markup in every place that its writer chooses: first created, then updated, then seen as refused."""
    meta = {"name": MARKUP, "namespace": MARKUP, "labels": {MARKUP: MARKUP}, "resourceVersion": "900001", "uid": MARKUP}
    events = []
    for number, (verb, address) in enumerate((("create", "10.0.0.1"), ("update", MARKUP))):
        service = {"apiVersion": "v1", "kind": "Service", "metadata": dict(meta), "spec": {"externalIPs": [address], "ports": []}}
        service["metadata"]["resourceVersion"] = f"90000{number + 1}"
        events.append(
            {
                "kind": "Event",
                "apiVersion": "audit.k8s.io/v1",
                "level": "RequestResponse",
                "auditID": f"{MARKUP}/../{number}",
                "stage": "ResponseComplete",
                "requestURI": f"/api/v1/namespaces/x/services?{MARKUP}",
                "verb": verb,
                "user": {"username": MARKUP, "groups": [MARKUP]},
                "userAgent": MARKUP,
                "sourceIPs": ["10.1.1.1"],
                "objectRef": {"resource": "services", "namespace": MARKUP, "name": MARKUP, "apiVersion": "v1"},
                "responseStatus": {"metadata": {}, "message": MARKUP, "code": 200},
                "requestObject": service,
                "responseObject": service,
                "requestReceivedTimestamp": f"2026-11-21T03:28:0{number}.000000Z",
                "stageTimestamp": f"2026-11-21T03:28:0{number}.500000Z",
                "annotations": {
                    "validation.policy.admission.k8s.io/validation_failure": json.dumps(
                        [
                            {
                                "message": MARKUP,
                                "policy": MARKUP,
                                "binding": MARKUP,
                                "expressionIndex": 0,
                                "validationActions": ["Audit"],
                            }
                        ]
                    )
                },
            }
        )
    return events


@pytest.fixture(scope="session")
def replayed_lake(demo_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with two replays of given policies, one of the bound policies, and a report on a fleet.

    Tests may add replays, and nothing else.
    """

    def make(path: Path) -> None:
        shutil.copytree(demo_lake, path)
        log = path.with_name("hostile.jsonl")
        log.write_text("".join(json.dumps(event) + "\n" for event in hostile_events()), encoding="utf-8")
        lake = Lake.open(path)
        ingest_files(lake, [log], "demo", 2.0)
        lake.close()
        reader = open_lake(path)
        plans = [plan_replay(reader, load_policy_set([files])) for files in (DEMO / "policies", CASES / "policies.yaml")]
        plans.append(plan_replay_from_log(reader))
        reader.close()
        for plan in plans:
            run_replay(plan, path)
        keep_made_up_fleet(path, plans[0].run_id, MARKUP)

    return shared_lake(tmp_path_factory, "replayed", make)


@pytest.fixture(scope="session")
def pages(replayed_lake: Path) -> Iterator[Pages]:
    """The pages over that lake, with all its verdicts worked out."""
    with QueryClient(Settings(lake=replayed_lake, query_seconds_max=200)) as client:
        found = Pages(client)
        # On a slow machine the first look works out some verdicts only, and each further look at least one more.
        while "without a verdict yet" in main(found.page("/")):
            pass
        yield found
