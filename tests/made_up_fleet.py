"""A made-up report on forty clusters, kept in a lake as the command keeps it: one is the worst, and two stand apart."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pipeline.fleet import FleetReport, Question
from pipeline.fleet.across import fleet_report
from pipeline.fleet.model import FleetCell, FleetCluster
from pipeline.fleet.store import FleetStore
from pipeline.readiness.model import Status

_MIX = {"CREATE pods": 0.5, "UPDATE pods": 0.5}
_ASKED = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)
_LACKING = "only 0.5 days of traffic; the rule wants 14"


def made_up_fleet(run_id: str, odd_name: str) -> tuple[FleetReport, Question]:
    """The report, and its question. Its cells name the replay `run_id`; a manifest and a recorded object have an odd name."""
    ready = FleetCell("replicas", "replicas", "validating", Status.READY, (), run_id, 900, 900, 0, 0, 60, 0, 20.0, 0.049, 1.0)
    bad = replace(ready, status=Status.NOT_READY, reasons=("3 workloads would be denied",), requests_denied=9, units_denied=3)
    unsure = replace(ready, status=Status.INSUFFICIENT_EVIDENCE, reasons=(_LACKING,), requests_judged=4, units_judged=1)
    members = [
        FleetCluster(f"prod-{number:02}", uid=f"u{number}", kubernetes_version="1.36", minors=("1.36",), events=1_000 + number,
                     first_ts=_ASKED, last_ts=_ASKED, cells=(ready, replace(ready, policy=odd_name, binding=None)), mix=_MIX,
                     recorded={"policy replicas": "a1" if number % 9 else "b2", f"param ConfigMap {odd_name}": "c3"})
        for number in range(40)
    ]  # fmt: skip
    members[5] = replace(members[5], cells=(bad, replace(bad, policy=odd_name, binding=None)))
    members[7] = replace(members[7], cells=(unsure, replace(unsure, policy=odd_name, binding=None)), recorded={})
    members[9] = FleetCluster("prod-09", apart=f"two clusters share the name prod-09: {odd_name}", events=12)
    question = Question((("replicas.yaml", "made up"),))
    return fleet_report(question, members, _ASKED), question


def keep_made_up_fleet(lake: Path, run_id: str, odd_name: str) -> str:
    """Keep the report in a lake, as the command does. Returns its name."""
    report, question = made_up_fleet(run_id, odd_name)
    FleetStore(lake).keep_report(report, question)
    return report.fleet_id
