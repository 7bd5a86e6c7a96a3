"""`make bench`: run every bench_*.py next to this file, print one table and write bench-out/bench.json.

Each file has `run() -> list[dict]` with rows of `name`, `value`, `unit` and `detail`. Figures of one run on one machine compare
with each other, not with those of another run. `python -m tests.benchmarks cel ingest` runs a part.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.benchmarks.aims import print_aims

HERE = Path(__file__).parent


def run_file(path: Path) -> list[dict[str, Any]]:
    """The rows of one benchmark file, each with the part's name."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return [{"part": path.stem.removeprefix("bench_"), **row} for row in module.run()]


def main(parts: list[str]) -> int:
    """Run the parts named, or all; returns an exit code."""
    files = {path.stem.removeprefix("bench_"): path for path in sorted(HERE.glob("bench_*.py"))}
    unknown = set(parts) - set(files)
    if unknown:
        sys.stderr.write(f"no benchmark is named {', '.join(sorted(unknown))}; there are {', '.join(files)}\n")
        return 2
    rows: list[dict[str, Any]] = []
    for name, path in files.items():
        if parts and name not in parts:
            continue
        started = time.perf_counter()
        rows += run_file(path)
        sys.stderr.write(f"{name}: {time.perf_counter() - started:.0f} s\n")
    table = Table(box=None)
    for heading in ("part", "name", "value", "unit", "detail"):
        table.add_column(heading, justify="right" if heading == "value" else "left")
    for row in rows:
        table.add_row(row["part"], row["name"], f"{row['value']:,.4g}", row["unit"], str(row.get("detail", "")))
    Console(width=180).print(table)
    if any("aim" in row for row in rows):
        print_aims(rows)
    out = Path("bench-out")
    out.mkdir(exist_ok=True)
    machine = {"python": platform.python_version(), "cores": os.cpu_count(), "machine": platform.machine()}
    (out / "bench.json").write_text(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
