"""The process of one explanation requested over HTTP: it reads a question, explains, and writes the answer.

It starts (see forks.py) with one JSON object on its standard input (see explanations.py). It writes one JSON document on its
standard output: {"explanations": [...]} or {"error": {...}}. Any reader may post policies. So the kernel bounds the memory and the
processor time, and the process ends when its standard input closes.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ingest.errors import HindcastError
from ingest.holds import hold_files
from pipeline.authorization import OtherAuthorizers
from pipeline.cel.minors import DEFAULT
from pipeline.readiness.explaining.explain import Asked
from pipeline.readiness.explaining.explanation import Explanation
from pipeline.runs.lifetime import end_with_pipe
from queries import open_lake

from .. import priorities
from ..ask.json_values import json_bytes
from ..asked_values import parse_version
from ..commands.policies import posted_policies
from ..confinement import confine, processor_seconds
from ..errors import TooCostlyError, classify
from ..exhausted import wants_memory
from ..given import given_of
from ..posted import check_posted
from ..printing.explained import as_data
from ..run_policies import policies_of_run
from ..stored_runs import run, run_plan, stored_plan
from .explained_stages import ByStage, ExplainedStage
from .explaining import Wanted

ANSWER_BYTES_MAX = 32 * 1024**2


def main() -> int:
    """Answer one question; returns an exit code."""
    os.nice(priorities.REPLAY)
    order = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=end_with_pipe, daemon=True).start()
    confine(order["memory_bytes_max"], processor_seconds(order["seconds_max"]), ANSWER_BYTES_MAX)
    try:
        return _write({"explanations": explanations(order)})
    except HindcastError as error:
        return _failed(classify(error)[0], error.message, error.hint)
    except Exception as error:
        if wants_memory(error):
            mib = order["memory_bytes_max"] // 1024**2
            return _failed("too_costly", f"the explanation needs more memory than it may take ({mib:,} MiB)", "name fewer policies")
        traceback.print_exc()
        return _failed("error", "the explanation failed", "see the server's log")


def explanations(order: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The explanations of one request, as JSON values. Raises as `explain_one` does, and for policies that cannot be read or
    compiled."""
    lake = Path(order["lake"])
    asked = _asked(lake, order)
    with hold_files(lake, time.time()):
        reader = open_lake(lake)
        try:
            others = order["other_authorizers"]
            wanted = Wanted(order["audit_id"], order["cluster"], order["at"])
            found = _explained(lake, order, ByStage(reader, wanted, asked, OtherAuthorizers(others) if others else None))
        finally:
            reader.close()
    return [as_data(each) for each in found]


def _explained(lake: Path, order: Mapping[str, Any], by: ByStage) -> list[Explanation]:
    """By posted manifests, by those of a run, or (neither) by those in force at the time."""
    if order["policies"] is not None:
        text, version = order["policies"], by.asked.version
        check_posted(text)
        return by.given(given_of([("policies", text)], version), lambda: posted_policies(text, version, lake))
    stage = ExplainedStage(order["stage"])
    if order["run_id"] is not None and (found := _stage_of_run(lake, order["run_id"])) is not None:
        return by.of_run(lake, order["run_id"], found)
    return by.recorded(ExplainedStage.VALIDATING if order["run_id"] is not None else stage)


def _stage_of_run(lake: Path, run_id: str) -> ExplainedStage | None:
    """The stage of a run that is not of policies, if it explains its verdicts."""
    name = run(lake, run_id).stage
    return next((each for each in ExplainedStage if each is not ExplainedStage.VALIDATING and each == name), None)


def _asked(lake: Path, order: Mapping[str, Any]) -> Asked:
    """The names to explain, the version, and what a run says of both; of a run of policies the policies, too."""
    names = frozenset(order["names"])
    version = tuple(order["kubernetes_version"]) if order["kubernetes_version"] else None
    if order["run_id"] is not None and _stage_of_run(lake, order["run_id"]) is not None:
        plan_of_run = run_plan(lake, order["run_id"])
        others = {cluster: OtherAuthorizers(found) for cluster, found in plan_of_run["other_authorizers"].items()}
        return Asked(None, names, version or parse_version(plan_of_run["kubernetes_version"]), other_authorizers=others)
    if order["run_id"] is not None:
        plan = stored_plan(lake, order["run_id"])
        return Asked(
            policies_of_run(lake, order["run_id"]),
            names,
            version or plan.kubernetes_version,
            plan.window,
            plan.change_delay,
            dict(plan.other_authorizers),
        )
    return Asked(None, names, version or DEFAULT)


def _write(document: Mapping[str, Any]) -> int:
    body = json_bytes(document)
    if len(body) > ANSWER_BYTES_MAX:
        raise TooCostlyError(f"the explanation is larger than {ANSWER_BYTES_MAX:,} bytes", "name fewer policies")
    sys.stdout.buffer.write(body)
    sys.stdout.flush()
    return 0


def _failed(code: str, message: str, hint: str) -> int:
    _write({"error": {"code": code, "message": message, "hint": hint}})
    return 1
