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
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ingest.errors import EvidenceError, HindcastError, InputError
from ingest.holds import hold_files
from pipeline.authorization import OtherAuthorizers
from pipeline.explaining.asked import Asked
from pipeline.explaining.explanation import Explanation
from pipeline.runs.lifetime import end_with_pipe
from pipeline.runs.window import Window
from pipeline.stages.registry import stage_of
from queries import open_lake

from .. import priorities
from ..ask.json_values import json_bytes
from ..asked_values import parse_version
from ..confinement import confine, processor_seconds
from ..errors import TooCostlyError, classify
from ..exhausted import wants_memory
from ..given import given_of
from ..posted import check_posted
from ..printing.explained import as_data
from ..stages.runs import rules_of_run
from ..stored_runs import run, run_plan
from .explained_stages import ByStage, Made
from .explaining import Wanted, request_of

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
    with hold_files(lake, time.time()):
        reader = open_lake(lake)
        try:
            request = request_of(reader, Wanted(order["audit_id"], order["cluster"], order["at"]))
            found = _explained(lake, order, ByStage(reader, request, _options(lake, order, request.cluster)))
        finally:
            reader.close()
    if not (shown := [each for each in found if isinstance(each, Explanation)]):
        raise InputError("an explanation of these manifests is not served", "use `hindcast explain`")
    return [as_data(each) for each in shown]


def _explained(lake: Path, order: Mapping[str, Any], by: ByStage) -> list[Made]:
    """By posted manifests, by those of a run, or (neither) by those in force at the time."""
    if order["policies"] is not None:
        text, version = order["policies"], by.options.version
        check_posted(text)
        return by.given(given_of([("policies", text)], version, lake))
    if order["run_id"] is None:
        return by.recorded(order["stage"])
    stage = stage_of(run(lake, order["run_id"]).stage)
    if not stage.readiness.in_log:
        raise EvidenceError(
            f"run {order['run_id']} is of stage {stage.name}, whose verdicts hold their own reasons", "ask for its verdicts"
        )
    return by.by(stage, rules_of_run(lake, order["run_id"], stage))


def _options(lake: Path, order: Mapping[str, Any], cluster: str) -> Asked:
    """The names to explain, the version, and what a run says of both."""
    asked = Asked(frozenset(order["names"]))
    if order["run_id"] is not None:
        plan = run_plan(lake, order["run_id"])
        window = {name: datetime.fromisoformat(text) if text else None for name, text in plan["window"].items()}
        delay = plan.get("change_delay_seconds")
        asked = replace(
            asked,
            version=parse_version(plan["kubernetes_version"]),
            window=Window(**window),
            change_delay=asked.change_delay if delay is None else timedelta(seconds=delay),
            other_authorizers={name: OtherAuthorizers(found) for name, found in plan["other_authorizers"].items()},
        )
    if order["other_authorizers"]:
        asked = replace(asked, other_authorizers={cluster: OtherAuthorizers(order["other_authorizers"])})
    return replace(asked, version=tuple(order["kubernetes_version"])) if order["kubernetes_version"] else asked


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
