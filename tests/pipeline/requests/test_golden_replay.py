"""The bundled log replayed in full: what the demonstration's policies, and those that were bound at the time, come to.

`HINDCAST_UPDATE_GOLDEN=1 pytest tests/pipeline/requests/test_golden_replay.py` rewrites it; the difference is the review.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from pipeline.runs import RunSummary
from pipeline.stages.validating.execute import run_replay
from pipeline.stages.validating.load import load_policy_set
from pipeline.stages.validating.planning import plan_replay
from pipeline.stages.validating.recorded import plan_replay_from_log
from queries import open_lake

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "cases" / "replay" / "bundled_log.json"


def counts(summary: RunSummary) -> dict[str, Any]:
    names = ("matched", "admit", "deny", "error", "unknown", "nomatch")
    return {
        "evaluated": summary.evaluated,
        "verdicts": summary.verdicts,
        "not_evaluated": dict(summary.not_evaluated),
        "bindings": {
            f"{item.policy} / {item.binding or '-'}": {name: getattr(item, name) for name in names} for item in summary.bindings
        },
    }


def test_the_bundled_log_replays_as_recorded_here(demo_lake: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    shutil.copytree(demo_lake, lake)
    reader = open_lake(lake)
    plans = {
        "demonstration": plan_replay(reader, load_policy_set([ROOT / "api" / "demo" / "policies"])),
        "as bound": plan_replay_from_log(reader),
    }
    reader.close()
    found = {name: counts(run_replay(plan, lake)) for name, plan in plans.items()}
    if os.environ.get("HINDCAST_UPDATE_GOLDEN"):
        GOLDEN.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    assert found == json.loads(GOLDEN.read_text())
