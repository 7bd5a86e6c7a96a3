"""Drivers: processes that run a stage's plan over a lake, as so many commands would.

A program loads the stages once and forks a driver for each order, so that a driver costs no more than its run. It is this file.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from pipeline.manifests.files import manifests_of, texts_of
from pipeline.requests.plan import RecordsPlan
from pipeline.runs import RunKind
from pipeline.stages.registry import stage_of
from pipeline.stages.stage import Asked
from queries import open_lake

KILLED = -signal.SIGKILL
_SECONDS_MAX = 300.0
REQUESTS = 2


def drive(orders: Sequence[Mapping[str, Any]]) -> list[int]:
    """How drivers that run at the same time end: their exit codes, or negative signals."""
    found = subprocess.run(
        [sys.executable, __file__], input=json.dumps(orders), stdout=subprocess.PIPE, text=True, timeout=_SECONDS_MAX, check=True
    )
    codes: list[int] = json.loads(found.stdout)
    return codes


def order(lake: Path, stage: str, manifests: Path, part_events: int, *, kill: bool = False) -> dict[str, Any]:
    """A driver's order. `kill`: it is killed as soon as it has judged some requests."""
    return {"lake": str(lake), "stage": stage, "manifests": str(manifests), "part_events": part_events, "kill": kill}


def _run(asked: Mapping[str, Any]) -> None:
    def progress(done: int, planned: int) -> None:
        if asked["kill"] and done:
            os.kill(os.getpid(), signal.SIGKILL)

    stage, lake = stage_of(asked["stage"]), Path(asked["lake"])
    with closing(open_lake(lake)) as reader:
        plan = stage.plan(reader, stage.read(manifests_of(texts_of([Path(asked["manifests"])]))), Asked())
    stage.run(cut(plan, asked["part_events"]), lake, workers=1, progress=progress, kind=RunKind.REPLAY)


def cut(plan: Any, part_events: int) -> Any:
    """A plan in small parts: those that judge by records by the number of events, the others by that of requests."""
    if isinstance(plan, RecordsPlan):
        return dataclasses.replace(plan, part_events=part_events)
    return dataclasses.replace(plan, part_requests=REQUESTS)


def _main() -> None:
    # What is loaded stays to the end: no driver need search it for cycles.
    gc.collect()
    gc.freeze()
    drivers = []
    for each in json.load(sys.stdin):
        drivers.append(os.fork())
        if not drivers[-1]:
            _run(each)
            os._exit(0)
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(driver, 0)[1]) for driver in drivers]))


if __name__ == "__main__":
    _main()
