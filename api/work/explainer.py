"""The process of one explanation requested over HTTP: it reads a question, explains, and writes the answer.

It is started as `python -m api.work.explainer`, with one JSON object on its standard input (see explanations.py). It writes one
JSON document on its standard output: {"explanations": [...]} or {"error": {...}}. Any reader may post policies. So the kernel
bounds the memory and the processor time, and the process ends when its standard input closes.
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
from pipeline.readiness.explaining.explain import Asked
from pipeline.replay.lifetime import end_with_parent, end_with_pipe
from queries import open_lake

from .. import priorities
from ..ask.formats import json_bytes
from ..ask.run_reads import stored_plan
from ..commands.policies import posted_policies
from ..confinement import confine
from ..errors import TooCostlyError, classify
from ..exhausted import wants_memory
from ..printing.explained import as_data
from ..run_policies import policies_of_run
from .explaining import Wanted, explain_one

ANSWER_BYTES_MAX = 32 * 1024**2


def main() -> int:
    """Answer one question; returns an exit code."""
    os.nice(priorities.REPLAY)
    order = json.loads(sys.stdin.buffer.readline())
    end_with_parent(order["parent"])
    threading.Thread(target=end_with_pipe, daemon=True).start()
    confine(order["memory_bytes_max"], order["seconds_max"], ANSWER_BYTES_MAX)
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
            found = explain_one(reader, wanted, asked, OtherAuthorizers(others) if others else None)
        finally:
            reader.close()
    return [as_data(each) for each in found]


def _asked(lake: Path, order: Mapping[str, Any]) -> Asked:
    """The policies to explain: posted ones, those of a run, or (neither) those in force at the time."""
    names = frozenset(order["names"])
    version = tuple(order["kubernetes_version"]) if order["kubernetes_version"] else None
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
    posted = posted_policies(order["policies"], version or (1, 36)) if order["policies"] is not None else None
    return Asked(posted, names, version or (1, 36))


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


if __name__ == "__main__":
    sys.exit(main())
