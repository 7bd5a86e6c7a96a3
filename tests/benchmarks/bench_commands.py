"""What each command costs over churn, next to the replay of 12 policies at revision 4f89841 in the same run.

commands.yaml says what runs. `make bench` takes churn, a million events of equal copies, and a million of varied ones.
`python -m tests.benchmarks.bench_commands LAKES LOG [STORY ...]` keeps its lakes in a folder, takes one log (churn, grown or
varied), and runs only these stories.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
import zstandard

from tests.benchmarks.replay_lakes import CHURN, COPIES, lake_of
from tests.verdict_tables import ROOT

HERE = Path(__file__).parent
LOGS = ("churn", "grown", "varied")
_UNIT_REVISION = "4f898415e7242d2cd9d3e7e07ffad8354377260d"
_DECIDED = (0, 1, 3)  # exit codes of commands that came to an end
_EVENTS_MORE = 1_000
# The creation of a Pod that policies of the 12 match.
_REQUEST = "00002278-c3f5-4d97-9c4b-afcb6b8748c1"
_ENVIRONMENT = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}


@dataclass(frozen=True)
class Cost:
    """Processor seconds, seconds of the clock, and peak MiB."""

    spent_s: float
    wall_s: float
    peak_mib: float


def run() -> list[dict[str, Any]]:
    """The figures of each command over each log."""
    if not CHURN.exists():
        return []
    with tempfile.TemporaryDirectory(prefix="hindcast-bench-") as folder:
        return [row for log in LOGS for row in measured(Path(folder), log)]


def measured(folder: Path, log: str, only: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
    """Three rows for each line, and its processor seconds in units; the unit comes first."""
    lake = folder / f"{log}-prepared"
    if not lake.exists():
        shutil.copytree(lake_of(folder, log, "compacted"), lake)
        _cost(lake, ["run", "compact"])
    unit = _unit(folder, log)
    if unit is not None:
        yield from _rows(f"replay of 12 at {_UNIT_REVISION[:7]}, the unit", log, unit, None)
    for story in yaml.safe_load((HERE / "commands.yaml").read_text(encoding="utf-8")):
        if not only or story["story"] in only:
            yield from _story(story, lake, log, unit)


def _unit(folder: Path, log: str) -> Cost | None:
    """The cost of the replay of 12 policies with the code of the unit's revision, after a first run that compiles it."""
    code = folder / "unit"
    if not code.exists():
        archived = subprocess.run(["git", "archive", _UNIT_REVISION], cwd=ROOT, capture_output=True, check=False)
        if archived.returncode:
            sys.stderr.write(f"no unit: this checkout lacks revision {_UNIT_REVISION[:7]}; fetch the whole history\n")
            return None
        code.mkdir()
        subprocess.run(["tar", "x"], cwd=code, input=archived.stdout, check=True)
        for file in ("timed.py", "grow.py"):
            shutil.copy(HERE / file, code / "tests" / "benchmarks")
    lake = _unit_lake(folder, log, code)
    words = ["run", "replay", "-f", str(HERE / "manifests" / "twelve.yaml"), "--workers", "1"]
    costs = []
    for _ in range(2):
        with _Copied(lake) as copy:
            costs.append(_cost(copy, words, code))
    return costs[1]


def _unit_lake(folder: Path, log: str, code: Path) -> Path:
    """A lake of the log in the format of that revision, prepared by its code."""
    lake = folder / f"{log}-unit"
    if not lake.exists():
        once = folder / "churn-once"
        if not once.exists():
            _cost(once, ["run", "ingest", str(CHURN / "audit.jsonl.zst"), "--cluster", "churn"], code)
        if log == "churn":
            shutil.copytree(once, lake)
        else:
            words = [str(once), str(lake), str(COPIES), *(["--varied"] if log == "varied" else [])]
            subprocess.run([sys.executable, "-m", "tests.benchmarks.grow", *words], cwd=code, env=_ENVIRONMENT, check=True)
        _cost(lake, ["run", "compact"], code)
    return lake


class _Copied:
    """A copy of a lake, as long as it is used."""

    def __init__(self, lake: Path | None) -> None:
        self._lake = lake

    def __enter__(self) -> Path:
        self._folder = Path(tempfile.mkdtemp(prefix="hindcast-bench-"))
        copy = self._folder / "lake"
        if self._lake is not None:
            # Files of events never change, so that a name more is a copy; tables of SQLite do.
            shutil.copytree(self._lake, copy, copy_function=_copy)
        return copy

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder)


def _copy(source: str, target: str) -> None:
    if source.endswith(".parquet"):
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def _story(story: dict[str, Any], lake: Path, log: str, unit: Cost | None) -> Iterator[dict[str, Any]]:
    with _Copied(None if story["lake"] == "empty" else lake) as copy:
        manifests = copy.parent / "manifests"
        shutil.copytree(HERE / "manifests", manifests)
        for name, line in story["lines"].items():
            if line.get("edited"):
                file, (old, new) = manifests / "twelve.yaml", story["edit"]
                file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
            if line.get("more"):
                _cost(copy, ["run", "ingest", str(_more(copy.parent)), "--cluster", "churn"])
            filled = line.get("page", line.get("run")).format(
                log=CHURN / "audit.jsonl.zst", manifests=manifests, own=story.get("own"), run=_first_run(copy), request=_REQUEST
            )
            cost = _cost(copy, ["page", filled] if "page" in line else ["run", *shlex.split(filled)])
            yield from _rows(f"{story['story']}: {name}", log, cost, unit)


def _more(folder: Path) -> Path:
    """The last events of churn under other IDs."""
    lines = zstandard.ZstdDecompressor().stream_reader((CHURN / "audit.jsonl.zst").read_bytes()).readall().splitlines()
    path = folder / "more.jsonl"
    events = [json.loads(line) for line in lines[-_EVENTS_MORE:]]
    made = [json.dumps({**event, "auditID": f"{event['auditID']}-more"}) for event in events]
    path.write_text("\n".join(made), encoding="utf-8")
    return path


def _first_run(lake: Path) -> str:
    plans = (lake / "runs").glob("*/made-as-replay")
    return min(plans, key=lambda path: path.stat().st_mtime_ns, default=Path()).parent.name


def _cost(lake: Path, words: list[str], code: Path = ROOT) -> Cost:
    """What a command or page costs; raises RuntimeError if it failed."""
    command = [sys.executable, "-m", "tests.benchmarks.timed", str(lake), *words]
    done = subprocess.run(command, cwd=code, env=_ENVIRONMENT, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout) if not done.returncode else [done.returncode]
    if told[0] not in _DECIDED or done.returncode:
        raise RuntimeError(f"{' '.join(words)}: exit code {told[0]}: {done.stderr[-800:]}")
    return Cost(*told[1:])


def _rows(name: str, log: str, cost: Cost, unit: Cost | None) -> Iterator[dict[str, Any]]:
    name = f"{log}, {name}"
    yield {"name": name, "value": cost.spent_s, "unit": "s", "detail": f"processor time; {cost.wall_s:.1f} s of the clock"}
    yield {"name": f"{name}, memory", "value": cost.peak_mib, "unit": "MiB", "detail": "peak"}
    if unit is not None:
        yield {"name": f"{name}, in units", "value": cost.spent_s / unit.spent_s, "unit": "units", "detail": "processor time"}


if __name__ == "__main__":
    kept, chosen, *names = sys.argv[1:]
    for row in measured(Path(kept), chosen, tuple(names)):
        print(f"{row['name']:60s} {row['value']:9,.2f} {row['unit']:6s} {row['detail']}", flush=True)
