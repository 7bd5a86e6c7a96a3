"""Ingest and compaction of churn, and then the derived tables, in one process as `hindcast compact` makes them.

`python -m tests.benchmarks.preparing LAKE` prints the processor seconds of both, the first with the start of the process.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from tests.benchmarks.replay_lakes import store


def measured(lake: Path) -> tuple[float, float]:
    """The processor seconds of ingest and compaction, and of the derived tables with the code that makes them."""
    store(lake)
    stored_s = _used_s()
    from pipeline.replay.prefill import prefill

    prefill(lake)
    return stored_s, _used_s() - stored_s


def _used_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    print(json.dumps(measured(Path(sys.argv[1]))))
