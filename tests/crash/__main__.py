"""`python -m tests.crash`: kill, starve and fault a lake for as long as asked, and report lost and doubled events.

    walk    every fault at every system call that changes a file (or --tries of them), and --pairs of two faults
    fuzz    bodies that no API server sends, through the sink and the drain
    rounds  the real server and its drain, killed at random under concurrent senders, with a disk that fills up and comes back

Prints one JSON object; exit code 1 when anything was lost, doubled or left in disorder. It stays on loopback and ends by itself.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import structlog

from .fuzz import run_fuzz
from .rounds import run_rounds
from .syscalls import unavailable
from .walk import walk


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.crash", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parts = parser.add_subparsers(dest="part", required=True)
    walking = parts.add_parser("walk")
    walking.add_argument("names", nargs="*", help="scenarios; all when none is named")
    walking.add_argument("--tries", type=int, help="a sample of so many for each scenario; everything without it")
    walking.add_argument("--pairs", type=int, default=0, help="random pairs of faults for each scenario")
    walking.add_argument("--seconds", type=float, default=float("inf"), help="end after so long with a sample")
    fuzzing = parts.add_parser("fuzz")
    fuzzing.add_argument("--bodies", type=int, default=20_000)
    killing = parts.add_parser("rounds")
    killing.add_argument("--rounds", type=int, default=300, help="kills in all")
    killing.add_argument(
        "--seconds", type=float, default=1500.0, help="kill for so long at most; coming to rest takes up to ten minutes more"
    )
    killing.add_argument("--senders", type=int, default=4)
    for part in (walking, fuzzing, killing):
        part.add_argument("--seed", type=int, default=1)
        part.add_argument("--folder", type=Path, help="for scratch; a folder in memory where there is one")
    given = parser.parse_args()
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="hindcast-crash-", dir=given.folder or (memory if memory.is_dir() else None)) as name:
        started = time.monotonic()
        found = _PARTS[given.part](given, Path(name))
    found["seconds"] = round(time.monotonic() - started, 1)
    print(json.dumps(found, indent=2))
    return 1 if found["complaints"] else 0


def _walk(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    if (reason := unavailable()) is not None:
        sys.exit(reason)
    walked = walk(folder, tries=given.tries, pairs=given.pairs, seed=given.seed, names=given.names, seconds=given.seconds)
    kinds = dict(sorted(walked.lives.items()))
    return {"lives": sum(kinds.values()), "calls": walked.calls, "kinds": kinds, "complaints": walked.complaints}


def _fuzz(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    return run_fuzz(folder, bodies=given.bodies, seed=given.seed)


def _rounds(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    return run_rounds(folder, rounds=given.rounds, seconds=given.seconds, senders=given.senders, seed=given.seed)


_PARTS = {"walk": _walk, "fuzz": _fuzz, "rounds": _rounds}

if __name__ == "__main__":
    sys.exit(main())
