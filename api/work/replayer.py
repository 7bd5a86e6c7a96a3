"""The process of one replay started over HTTP: it reads an order, replays, and reports its progress.

It starts (see forks.py) with one JSON object on its standard input (jobs.Task). It writes one JSON object a line: the changed
fields of jobs.Job. It ends at once when its standard input closes, because then its server is gone. The run
equals the run of `hindcast replay` with the same policies over the same requests.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import threading
import time
import traceback
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from api.stages.costs import count_costs, plan_costs
from ingest.errors import HindcastError
from ingest.holds import hold_files
from ingest.owning import telling_waits
from pipeline.readiness.flow import Wanted, make_report
from pipeline.readiness.rules import ReadinessRules
from pipeline.readiness.run import run_stage
from pipeline.runs import RunKind, RunStore, RunSummary, StoredRun
from pipeline.runs.lifetime import end_with_pipe
from pipeline.runs.plan import RunPlan
from pipeline.runs.window import Window
from pipeline.stages.stage import Asked as StageAsked
from pipeline.stages.stage import Stage

from .. import priorities
from ..beside_runs import keep_gate, keep_made, keep_rules
from ..confinement import confine
from ..context import Context
from ..errors import TooCostlyError, classify
from ..exhausted import wants_memory
from ..given import Given, Texts, given_of
from ..posted import check_posted
from .gating import GateQuestion, answer
from .jobs import Order, State, Task

_TELL_SECONDS = 0.2
_MESSAGE_MAX = 20_000
# How long proposed exemptions are valid; the default of `hindcast readiness`.
_EXEMPTED_FOR = timedelta(days=90)


def main() -> int:
    """Carry out one order; returns an exit code."""
    os.nice(priorities.REPLAY)
    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=Task)
    threading.Thread(target=end_with_pipe, daemon=True).start()
    confine(task.memory_bytes_max, task.processor_seconds_max, task.output_bytes_max)
    try:
        with telling_waits(lambda sentence: _tell(waits_for=sentence)):
            (_check if task.is_check else _replay)(task)
    except HindcastError as error:
        code, _ = classify(error)
        return _failed(code, error.message, error.hint, error.exit_code)
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            lost = _too_much(task.output_bytes_max)
            return _failed("too_costly", lost.message, lost.hint)
        return _without_memory(task) if wants_memory(error) else _unforeseen(error)
    return 0


def _without_memory(task: Task) -> int:
    mib = task.memory_bytes_max // 1024**2
    return _failed(
        "too_costly",
        f"the replay needs more memory than a replay may take ({mib:,} MiB)",
        "give a shorter window or fewer policies, or start the server with a larger --replay-memory-bytes-max",
    )


def _unforeseen(error: Exception) -> int:
    traceback.print_exc()
    return _failed("error", f"the replay failed: {error.__class__.__name__}: {error}", "see the server's log")


def _too_much(output_bytes_max: int) -> TooCostlyError:
    return TooCostlyError(
        f"the replay writes more than it may ({output_bytes_max:,} bytes)",
        "give a shorter window or fewer policies, or start the server with a larger --replay-output-bytes-max",
    )


def _failed(code: str, message: str, hint: str, exit_code: int = 1) -> int:
    """Report why there is no run; the line must not be longer than the server reads."""
    if len(message) > _MESSAGE_MAX:
        message = f"{message[:_MESSAGE_MAX]}... ({len(message) - _MESSAGE_MAX:,} more characters)"
    _tell(state=State.FAILED, error={"code": code, "message": message, "hint": hint})
    return exit_code


def _check(task: Task) -> None:
    """Read the manifests of an order as its replay does. Raises InputError with the line."""
    lake, order = Path(task.lake), task.order
    if order.costs_of:
        return
    if not order.gate:
        _read(lake, order)
        return
    question = GateQuestion.from_json(order.gate)
    for texts, is_before in ((question.policies, False), (question.against, True)):
        for name, text in texts:
            check_posted(text, name)
        if texts:
            given_of(texts, question.kubernetes_version, lake, are_stored=is_before)


def _read(lake: Path, order: Order) -> Given:
    """The manifests of an order. Raises InputError with the line."""
    check_posted(order.policies)
    return given_of([("policies", order.policies)], order.kubernetes_version, lake)


def _replay(task: Task) -> None:
    lake, order = Path(task.lake), task.order
    if order.costs_of:
        with hold_files(lake, time.time()):
            _costs(lake, order.costs_of)
        return
    if order.gate:
        with hold_files(lake, time.time()), ExitStack() as used:
            _gate(lake, order.gate, task.output_bytes_max, used)
        return
    given = _read(lake, order)
    with hold_files(lake, time.time()):
        runs: dict[str, str] = {}
        summaries = [_replay_stage(lake, stage, rules, given.texts, task, runs) for stage, rules in given.stages]
    planned = sum(summary.planned for summary in summaries)
    _tell(state=State.FINISHED, planned=planned, done=planned)


def _replay_stage(lake: Path, stage: Stage[Any, Any], rules: Any, texts: Texts, task: Task, runs: dict[str, str]) -> RunSummary:
    """Replay the manifests of a stage, and report on them."""
    order = task.order

    def walk(stage: Stage[Any, Any], plan: RunPlan, kind: RunKind) -> RunSummary:
        if kind is RunKind.REPLAY:
            _tell_run(stage, plan, runs)
        return _run_stage(lake, stage, plan, task.output_bytes_max, kind)

    window = Window(order.since, order.until)
    asked = StageAsked(window, order.kubernetes_version, order.other_authorizers, order.only)
    found = run_stage(lake, stage, rules, asked, walk, RunKind.REPLAY)
    with RunStore(lake).run(found.summary.run_id).in_use():
        keep_rules(lake, found.summary.run_id, stage, rules, texts)
        day = datetime.now(UTC).date() + _EXEMPTED_FOR
        wanted = Wanted(ReadinessRules.of(order.rules, "rules"), order.calibrate, order.exemptions, day)
        made = make_report(lake, found, wanted, walk, lambda step: _tell(state=State(step)))
        keep_made(lake, made)
    return found.summary


def _tell_run(stage: Stage[Any, Any], plan: RunPlan, runs: dict[str, str]) -> None:
    """Report that the run of a plan begins; the first run names the job's result."""
    runs[stage.name] = plan.run_id
    _tell(state=State.RUNNING, run_id=next(iter(runs.values())), runs=runs, planned=plan.requests, done=0)


def _costs(lake: Path, run_id: str) -> None:
    """Count the costs of a run's policies, and keep them next to the run."""
    plan = plan_costs(lake, run_id)
    with RunStore(lake).run(run_id).in_use():
        _tell(state=State.COSTING, run_id=run_id, planned=plan.requests)
        count_costs(lake, run_id, plan, lambda done, planned: _tell(done=done))
    _tell(state=State.FINISHED, done=plan.requests)


def _gate(lake: Path, asked: bytes, output_bytes_max: int, used: ExitStack) -> None:
    """Answer one gate and keep the answer next to its run. Runs count as in use until `used` ends."""
    question = GateQuestion.from_json(asked)
    for name, text in (*question.policies, *question.against):
        check_posted(text, name)
    own = Context(lake, quiet=True, speaks=False)
    planned = 0
    told: dict[str, None] = {}  # the runs of the gate; the first one names the job's result

    def walked(stage: Stage[Any, Any], plan: RunPlan, kind: RunKind) -> RunSummary:
        nonlocal planned
        if kind in (RunKind.CALIBRATION, RunKind.TRIAL):
            return _run_stage(lake, stage, plan, output_bytes_max, kind)
        if kind is RunKind.REPLAY:
            told.setdefault(plan.run_id)
        _tell(state=State.RUNNING, planned=plan.requests, done=0, **({"run_id": next(iter(told))} if told else {}))
        summary = _run_stage(lake, stage, plan, output_bytes_max, kind)
        used.enter_context(RunStore(lake).run(summary.run_id).in_use())
        own.note_defects(summary.defects)
        keep_rules(lake, plan.run_id, stage, plan.judged_by, question.policies if kind is RunKind.REPLAY else ())
        planned = plan.requests
        return summary

    found = answer(own, question, 1, lambda state: _tell(state=state), walked)
    keep_gate(lake, found.report.run_id, Order(gate=asked).gate_digest, found.to_json())
    _tell(state=State.FINISHED, done=planned)


def _run_stage(lake: Path, stage: Stage[Any, Any], plan: RunPlan, output_bytes_max: int, kind: RunKind) -> RunSummary:
    """Walk a plan. Raises LakeError, and TooCostlyError for a run that is too large, which is removed.

    Only the requested replay reports how many requests are done; the counts of a calibration or a trial differ.
    """
    run = RunStore(lake).run(plan.run_id)
    with run.owned():
        try:
            tells = kind not in (RunKind.CALIBRATION, RunKind.TRIAL)
            return stage.run(plan, lake, 1, _Teller(run, output_bytes_max, tells), kind)
        except (TooCostlyError, OSError) as error:
            if isinstance(error, TooCostlyError) or error.errno == errno.EFBIG:
                run.discard()
            raise


class _Teller:
    """Reports progress, but no faster than a user could read; raises TooCostlyError if the run's folder is too large."""

    def __init__(self, run: StoredRun, output_bytes_max: int, tells: bool) -> None:
        self._run = run
        self._tells = tells
        self._output_bytes_max = output_bytes_max
        self._told = 0.0

    def __call__(self, done: int, planned: int) -> None:
        if self._run.size_bytes > self._output_bytes_max:
            raise _too_much(self._output_bytes_max)
        if self._tells and (done == planned or time.monotonic() - self._told > _TELL_SECONDS):
            self._told = time.monotonic()
            _tell(done=done)


def _tell(**values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()
