"""Ingest and compaction of churn, and then what `hindcast compact` prepares, in one process.

`python -m tests.benchmarks.preparing LAKE` prints the processor seconds of three steps: ingest and compaction with the start of the
process; the derived tables; and what each stage finds out. The last two count the loading of their code.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from tests.benchmarks.replay_lakes import store


def measured(lake: Path) -> tuple[float, float, float]:
    """The processor seconds of each step."""
    store(lake)
    stored_s = _used_s()
    from pipeline.readiness.prepared import prepare, prepare_tables

    prepare_tables(lake)
    tables_s = _used_s() - stored_s
    prepare(lake)
    return stored_s, tables_s, _used_s() - stored_s - tables_s


def _used_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    print(json.dumps(measured(Path(sys.argv[1]))))
