"""One command or page in this process, with its seconds and its peak.

`python -m tests.benchmarks.timed LAKE (run WORD ... | page PATH)` prints a list: exit code, processor seconds with those of ended
processes, seconds of the clock, peak in MiB.
"""

from __future__ import annotations

import io
import json
import os
import re
import resource
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path


def _page(lake: str, path: str) -> int:
    from api.settings import Settings
    from tests.querying import QueryClient

    with QueryClient(Settings(lake=Path(lake), sink=False)) as client:
        client.page(path)
    return 0


def main(lake: str, kind: str, words: list[str]) -> list[float]:
    """Run it, and measure."""
    started = time.perf_counter()
    with redirect_stdout(io.StringIO()):
        if kind == "page":
            code = _page(lake, *words)
        else:
            from api.cli import run

            code = run(["--lake", lake, "--quiet", *words])
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    # Linux hands ru_maxrss on to a process that starts, but not VmHWM.
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found is not None
    return [code, sum(each.ru_utime + each.ru_stime for each in used), time.perf_counter() - started, int(found[1]) / 1024]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], sys.argv[2], sys.argv[3:])) + "\n")
    sys.stdout.flush()
    os._exit(0)
