"""Walks a fault through every call that changes a file, scenario by scenario, until the work gets to its end without meeting it.

Nothing here may start a thread before a child is forked, so everything that opens a lake runs in a child.
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .scenarios import SCENARIOS, Say, Scenario
from .syscalls import FAULTS, Outcome, apart, live

# Every fault alone; a disk that is full from some call on; and two faults, of which the second hits what the first left behind.
KINDS = (*FAULTS, "full")


@dataclass(slots=True)
class Walked:
    """What was tried, and every complaint with the faults that led to it."""

    lives: Counter[str] = field(default_factory=Counter)
    calls: dict[str, int] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)


def walk(
    folder: Path,
    *,
    tries: int | None = None,
    pairs: int = 0,
    seed: int = 1,
    names: Sequence[str] = (),
    seconds: float = float("inf"),
) -> Walked:
    """Try every fault at every call, or `tries` of them for each scenario, and `pairs` random pairs; `folder` is for scratch.

    After `seconds` it ends with what was tried till then, a sample of everything: each scenario has the same share of the time.
    """
    walked = Walked()
    chance = random.Random(seed)
    scenarios = [scenario for scenario in SCENARIOS if not names or scenario.name in names]
    for scenario in scenarios:
        deadline = time.monotonic() + seconds / len(scenarios)
        prepared, scratch = folder / "prepared", folder / "scratch"
        shutil.rmtree(prepared, ignore_errors=True)
        prepared.mkdir(parents=True)
        _prepare(scenario, prepared)
        whole = _try(scenario, prepared, scratch, {}, False, walked)
        total = walked.calls[scenario.name] = len(whole.calls)
        single = [(step, kind) for step in range(1, total + 1) for kind in KINDS]
        plans: list[tuple[Mapping[int, str], bool]] = [
            ({step: "ENOSPC" if kind == "full" else kind}, kind == "full")
            for step, kind in chance.sample(single, len(single) if tries is None else min(tries, len(single)))
        ]
        plans += [(_pair(total, chance), False) for _ in range(pairs)]
        chance.shuffle(plans)
        for faults, until_end in plans:
            if time.monotonic() > deadline:
                break
            _try(scenario, prepared, scratch, faults, until_end, walked)
    return walked


def _pair(total: int, chance: random.Random) -> dict[int, str]:
    first = chance.randint(1, total)
    second = first + chance.randint(1, max(total // 3, 1))
    return {first: chance.choice(("EIO", "ENOSPC", "short")), second: chance.choice(("kill", "torn", "cut"))}


def _try(scenario: Scenario, prepared: Path, scratch: Path, faults: Mapping[int, str], until_end: bool, walked: Walked) -> Outcome:
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(prepared, scratch)
    outcome = live(lambda say: scenario.work(scratch, say), scratch, faults, until_end=until_end)
    complaints = [f"the work ended with\n{outcome.defect}"] if outcome.defect else []
    complaints += _complaints(scenario, scratch, outcome.acknowledged)
    kind = " then ".join("full" if until_end else fault for fault in faults.values()) or "none"
    walked.lives[kind] += 1
    if complaints:
        met = ", ".join(f"{fault} at {outcome.calls[step - 1]}" for step, fault in faults.items() if step <= len(outcome.calls))
        walked.complaints.append(
            f"{scenario.name}, {dict(faults)}{' until the end' if until_end else ''} ({met}): " + "; ".join(complaints)
        )
    return outcome


def _prepare(scenario: Scenario, folder: Path) -> None:
    outcome = apart(lambda say: scenario.prepare(folder))
    if outcome.defect:
        raise RuntimeError(outcome.defect)


def _complaints(scenario: Scenario, folder: Path, acknowledged: list[str]) -> list[str]:
    """What is wrong right after the fault, and after the next start; an exception is one more complaint."""

    def look(say: Say) -> None:
        scenario.look(folder, say)
        scenario.settle(folder, say)
        scenario.check(folder, acknowledged, say)

    outcome = apart(look)
    return outcome.acknowledged + ([outcome.defect] if outcome.defect else [])
