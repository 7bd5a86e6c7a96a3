"""The process of one replay that was started over HTTP: reads an order, replays, and tells how it gets on.

It is started as `python -m api.replayer`, with one JSON object on its standard input (jobs.Order), and writes one JSON object a
line: fields of jobs.Job that have changed. It ends at once when its standard input closes, because then nobody is there to be told.
The run is the one that `hindcast replay` makes of the same policies over the same requests.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb

from ingest.errors import HindcastError, InputError
from ingest.holds import hold_files
from pipeline.admission.policies.load import parse_objects, parse_policy_set
from pipeline.admission.policies.model import PolicySet
from pipeline.readiness.build import build_report
from pipeline.readiness.decision import decide_report
from pipeline.readiness.manifests import Manifests
from pipeline.readiness.model import Fidelity
from pipeline.readiness.rules import ReadinessRules
from pipeline.replay import ReplayPlan, RunSummary, Window, plan_replay, run_replay, runs_folder
from pipeline.replay.kinds import RunKind, in_use
from pipeline.replay.lifetime import end_with_parent, end_with_pipe
from queries import open_lake

from . import priorities
from .beside_runs import keep_gate, keep_policies, keep_report
from .commands.calibrate import calibrate
from .commands.policies import refuse_uncompilable
from .commands.replay import note_defects
from .confinement import confine
from .context import Context
from .errors import TooCostlyError, classify
from .gating import GateQuestion, answer
from .jobs import Order, State
from .posted import check_posted
from .run_costs import count_costs, plan_costs

_TELL_SECONDS = 0.2
_MESSAGE_MAX = 20_000
# Until when proposed exemptions are good, as `hindcast readiness` has it by default.
_EXEMPTED_FOR = timedelta(days=90)


def main() -> int:
    """Work off one order; returns an exit code."""
    os.nice(priorities.REPLAY)
    order = json.loads(sys.stdin.buffer.readline())
    end_with_parent(order["parent"])
    threading.Thread(target=end_with_pipe, daemon=True).start()
    confine(order["memory_bytes_max"], order["seconds_max"], order["output_bytes_max"])
    try:
        _replay(order)
    except HindcastError as error:
        code, _ = classify(error)
        return _failed(code, error.message, error.hint, error.exit_code)
    except (MemoryError, duckdb.OutOfMemoryException):
        mib = order["memory_bytes_max"] // 1024**2
        return _failed(
            "too_costly",
            f"the replay needs more memory than a replay may take ({mib:,} MiB)",
            "give a shorter window or fewer policies, or start the server with a larger --replay-memory-bytes-max",
        )
    except OSError as error:
        if error.errno != errno.EFBIG:
            return _unforeseen(error)
        lost = _too_much(order["output_bytes_max"])
        return _failed("too_costly", lost.message, lost.hint)
    except Exception as error:
        return _unforeseen(error)
    return 0


def _unforeseen(error: Exception) -> int:
    traceback.print_exc()
    return _failed("error", f"the replay failed: {error.__class__.__name__}: {error}", "see the server's log")


def _too_much(output_bytes_max: int) -> TooCostlyError:
    return TooCostlyError(
        f"the replay writes more than it may ({output_bytes_max:,} bytes)",
        "give a shorter window or fewer policies, or start the server with a larger --replay-output-bytes-max",
    )


def _failed(code: str, message: str, hint: str, exit_code: int = 1) -> int:
    """Tell why there is no run; a line may not become longer than a server reads."""
    if len(message) > _MESSAGE_MAX:
        message = f"{message[:_MESSAGE_MAX]}... ({len(message) - _MESSAGE_MAX:,} more characters)"
    _tell(state=State.FAILED, error={"code": code, "message": message, "hint": hint})
    return exit_code


def _replay(order: dict[str, Any]) -> None:
    lake = Path(order["lake"])
    if order["costs_of"]:
        with hold_files(lake, time.time()):
            _costs(lake, order["costs_of"])
        return
    if order["gate"]:
        with hold_files(lake, time.time()), ExitStack() as used:
            _gate(lake, order["gate"].encode(), order["output_bytes_max"], used)
        return
    version = (int(order["kubernetes_version"][0]), int(order["kubernetes_version"][1]))
    window = Window(_moment(order["since"]), _moment(order["until"]))
    policies = _policies(order["policies"], version)
    with hold_files(lake, time.time()):
        _replay_over(lake, policies, window, version, order)


def _replay_over(lake: Path, policies: PolicySet, window: Window, version: tuple[int, int], order: dict[str, Any]) -> None:
    plan, summary = _run(lake, policies, window, version, order["output_bytes_max"])
    with in_use(runs_folder(lake) / summary.run_id):
        _report(lake, policies, plan, summary, order)
    _tell(state=State.FINISHED, done=summary.planned)


def _costs(lake: Path, run_id: str) -> None:
    """Count what the policies of a run cost, and keep it next to the run."""
    plan = plan_costs(lake, run_id)
    with in_use(runs_folder(lake) / run_id):
        _tell(state=State.COSTING, run_id=run_id, planned=plan.requests)
        count_costs(lake, run_id, plan, lambda done, planned: _tell(done=done))
    _tell(state=State.FINISHED, done=plan.requests)


def _gate(lake: Path, asked: bytes, output_bytes_max: int, used: ExitStack) -> None:
    """Answer one gate and keep the answer next to its run. Runs are in use until `used` ends."""
    question = GateQuestion.from_json(asked)
    for name, text in (*question.policies, *question.against):
        check_posted(text, name)
    own = Context(lake, quiet=True)
    planned = 0

    def run(plan: ReplayPlan, kind: RunKind) -> RunSummary:
        nonlocal planned
        _tell(state=State.RUNNING, planned=plan.requests, done=0, **({"run_id": plan.run_id} if kind is RunKind.REPLAY else {}))
        summary = _run_plan(lake, plan, output_bytes_max, kind)
        used.enter_context(in_use(runs_folder(lake) / summary.run_id))
        note_defects(own, summary)
        keep_policies(lake, summary.run_id, plan.policies)
        planned = plan.requests
        return summary

    found = answer(own, question, run, 1, lambda state: _tell(state=state))
    keep_gate(lake, found.report.run_id, Order(gate=asked).gate_digest, found.to_json())
    _tell(state=State.FINISHED, done=planned)


def _report(lake: Path, policies: PolicySet, plan: ReplayPlan, summary: RunSummary, order: dict[str, Any]) -> None:
    window, version = plan.window, plan.kubernetes_version
    keep_policies(lake, summary.run_id, policies)
    fidelity: Mapping[str, Fidelity] | None = None
    if order["calibrate"]:
        _tell(state=State.CALIBRATING)
        fidelity = calibrate(Context(lake, quiet=True), window, version, 1, files=plan.files).fidelity
    _tell(state=State.REPORTING)
    reader = open_lake(lake, files=plan.files)
    try:
        report = build_report(reader, lake, plan, summary, fidelity, ReadinessRules())
        if order["exemptions"]:
            _tell(state=State.EXEMPTING)
            written = Manifests.of(policies, parse_objects([("policies", order["policies"])]))
            expires = datetime.now(UTC).date() + _EXEMPTED_FOR
            report = decide_report(reader, lake, plan, summary, report, written, expires)
        keep_report(lake, report, fidelity)
    finally:
        reader.close()


def _policies(text: str, version: tuple[int, int]) -> PolicySet:
    """Raises InputError for what an API server would not take, or where there is no policy."""
    check_posted(text)
    found = parse_policy_set([("policies", text)])
    if not found.policies:
        raise InputError(
            "policies: found no ValidatingAdmissionPolicy", "send manifests of admissionregistration.k8s.io/v1 as YAML or JSON"
        )
    refuse_uncompilable(found, version)
    return found


def _run(
    lake: Path, policies: PolicySet, window: Window, version: tuple[int, int], output_bytes_max: int
) -> tuple[ReplayPlan, RunSummary]:
    """Plan and replay what the lake holds now. Raises LakeError, and TooCostlyError for a run that is too large, and is removed."""
    plan = _plan(lake, policies, window, version)
    _tell(state=State.RUNNING, run_id=plan.run_id, planned=plan.requests)
    return plan, _run_plan(lake, plan, output_bytes_max)


def _run_plan(lake: Path, plan: ReplayPlan, output_bytes_max: int, kind: RunKind = RunKind.REPLAY) -> RunSummary:
    with _alone(lake, plan.run_id):
        folder = runs_folder(lake) / plan.run_id
        try:
            return run_replay(plan, lake, 1, _Teller(folder, output_bytes_max), kind)
        except (TooCostlyError, OSError) as error:
            if isinstance(error, TooCostlyError) or error.errno == errno.EFBIG:
                shutil.rmtree(folder, ignore_errors=True)
            raise


def _plan(lake: Path, policies: PolicySet, window: Window, version: tuple[int, int]) -> ReplayPlan:
    reader = open_lake(lake)
    try:
        return plan_replay(reader, policies, window, version)
    finally:
        reader.close()


@contextmanager
def _alone(lake: Path, run_id: str) -> Iterator[None]:
    """One at a time for each run: the second who wants it finds it finished."""
    folder = runs_folder(lake)
    folder.mkdir(exist_ok=True)
    handle = os.open(folder / f".{run_id}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


class _Teller:
    """Tells progress, but not more often than somebody could read; raises TooCostlyError where the run's folder is too large."""

    def __init__(self, folder: Path, output_bytes_max: int) -> None:
        self._folder = folder
        self._output_bytes_max = output_bytes_max
        self._told = 0.0

    def __call__(self, done: int, planned: int) -> None:
        if sum(file.stat().st_size for file in self._folder.rglob("*") if file.is_file()) > self._output_bytes_max:
            raise _too_much(self._output_bytes_max)
        if done == planned or time.monotonic() - self._told > _TELL_SECONDS:
            self._told = time.monotonic()
            _tell(done=done)


def _tell(**values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


if __name__ == "__main__":
    sys.exit(main())
