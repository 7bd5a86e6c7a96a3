"""What a decision costs, next to the replay of the same policies over the same prepared lake: processor seconds, wall, peak memory.

`make bench` takes the recorded churn. `python -m tests.benchmarks.bench_decide LAKES grown [NAME ...]` keeps its lakes in a folder,
takes churn grown to a million events, and measures only the rows whose names hold one of these texts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.benchmarks.replay_lakes import CHURN, bring_to, lake_of

# A process of its own, which did not make the lake: Linux hands ru_maxrss on to it, but not VmHWM.
_RUN = """
import json, os, re, resource, sys, time
from pathlib import Path
started, own, sys.stdout = time.perf_counter(), sys.stdout, open(os.devnull, "w")
from api.cli import main
code = 0
try:
    main()
except SystemExit as end:
    code = end.code
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
peak = int(re.search("VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
spent = sum(each.ru_utime + each.ru_stime for each in used)
own.write(json.dumps([code or 0, spent, time.perf_counter() - started, peak]))
own.flush()
os._exit(0)
"""
_TWELVE, _ONE = str(CHURN / "perf-policies-12.yaml"), str(CHURN / "perf-policies-1.yaml")
_DECIDED = (0, 1, 3)  # exit codes of commands that came to an end


class _Case(NamedTuple):
    """One command. `is_again`: it finds the runs that the command before it left."""

    name: str
    arguments: tuple[str, ...]
    is_again: bool = False


_REPLAY = "replay, 12 policies"
_CASES = (
    _Case(_REPLAY, ("replay", "-f", _TWELVE, "--workers", "1")),
    _Case("readiness, 12 policies", ("readiness", "-f", _TWELVE, "--workers", "1", "-o", "json")),
    _Case("readiness, 12 policies, again", ("readiness", "-f", _TWELVE, "--workers", "1", "-o", "json"), True),
    _Case("readiness, 1 policy", ("readiness", "-f", _ONE, "--workers", "1", "-o", "json")),
    _Case("exemptions, 1 policy", ("exemptions", "-f", _ONE, "--workers", "1", "-o", "json")),
    _Case("gate, 12 policies against 12", ("gate", "-f", _TWELVE, "--against", _TWELVE, "--workers", "1")),
    _Case("calibrate", ("calibrate", "--workers", "1", "-o", "json")),
    _Case("least-privilege --unused", ("least-privilege", "--unused", "-o", "json")),
)


def run() -> list[dict[str, Any]]:
    """The figures of each command over the recorded churn."""
    if not CHURN.exists():
        return []
    with tempfile.TemporaryDirectory(prefix="hindcast-bench-") as folder:
        return list(measured(Path(folder)))


def measured(folder: Path, log: str = "churn", only: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
    """Three rows for each command, and its processor time as so many replays; the replay is measured in any case."""
    lake = lake_of(folder, log, "compacted")
    replay_s = 0.0
    for case in _CASES:
        if only and case.name != _REPLAY and not any(each in case.name for each in only):
            continue
        if not case.is_again:
            bring_to(lake, "prepared", 12, lambda: None)
        spent, wall, peak = _run(lake, case.arguments)
        replay_s = replay_s or spent
        name, detail = f"decide, {case.name}", f"{log}, prepared, 1 worker"
        yield {"name": name, "value": spent, "unit": "s", "detail": f"processor time, {detail}"}
        yield {"name": f"{name}, wall", "value": wall, "unit": "s", "detail": detail}
        yield {"name": f"{name}, memory", "value": peak, "unit": "MiB", "detail": detail}
        if case.name != _REPLAY:
            yield {"name": f"{name}, to replay", "value": spent / replay_s, "unit": "times", "detail": "processor time, in one run"}


def _run(lake: Path, arguments: tuple[str, ...]) -> tuple[float, float, float]:
    """Processor seconds, wall seconds and peak MiB of a command; raises RuntimeError if it failed."""
    command = [sys.executable, "-c", _RUN, "--lake", str(lake), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    code, spent, wall, peak = json.loads(done.stdout)
    if code not in _DECIDED:
        raise RuntimeError(f"{' '.join(arguments)}: exit code {code}: {done.stderr[-500:]}")
    return spent, wall, peak


if __name__ == "__main__":
    kept, log, *names = sys.argv[1:]
    for row in measured(Path(kept), log, tuple(names)):
        print(f"{row['name']:48s} {row['value']:9,.2f} {row['unit']:6s} {row['detail']}", flush=True)
