"""What a record says of the webhooks of its request: tests/cases/webhooks/traces.yaml."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.stages.webhooks import trace_of
from tests.yaml_text import load_yaml

CASES = load_yaml((Path(__file__).parents[3] / "cases" / "webhooks" / "traces.yaml").read_text(encoding="utf-8"))


def annotations_of(case: dict[str, Any]) -> dict[str, str]:
    """The annotations as an API server writes them."""
    found = dict(case.get("broken", {})) | dict.fromkeys(case.get("own", ()), "yes")
    for place, (configuration, webhook, mutated) in case.get("attempts", {}).items():
        told = {"configuration": configuration, "webhook": webhook, "mutated": mutated}
        found[f"mutation.webhook.admission.k8s.io/{place}"] = json.dumps(told)
    for phase, places in case.get("failedOpen", {}).items():
        found |= {f"failed-open.{phase}.webhook.admission.k8s.io/{place}": name for place, name in places.items()}
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_trace_names_the_webhook_and_what_it_did(case: dict[str, Any]) -> None:
    trace = trace_of(annotations_of(case), case.get("message", ""))
    if "order" in case:
        assert [each.webhook for each in trace.attempts] == case["order"]
    for place, says in case["says"].items():
        phase, _, name = place.partition(" ")
        assert trace.of(phase, *name.split("/")) == says, place
