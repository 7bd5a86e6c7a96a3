"""Puts a fault into one file of each room, and asks whether `make quick` finds it: `python -m tests.quick.faults [SEED]`.

The seed decides the files and the faults: a condition turned around, or a comparison. Each is tried in a clone of this checkout, so
the checkout stays as it is. Exits with 1 if a fault was not found, or if finding it took longer than two minutes.
"""

from __future__ import annotations

import ast
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = (
    "ingest", "queries", "pipeline/cel", "pipeline/policies", "pipeline/history", "pipeline/stages", "pipeline/readiness",
    "pipeline/requests", "api/commands", "api/pages",
)  # fmt: skip
SECONDS_MAX = 120
_LINES_MIN = 40
_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


def places(tree: ast.Module) -> Iterator[ast.expr]:
    """The conditions within functions that a fault may turn around."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.If | ast.IfExp):
                    yield node.test


def turned(test: ast.expr) -> str:
    """The opposite of a condition, as code."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        other = ast.Compare(test.left, [_TURNED[type(test.ops[0])]()], test.comparators)
        return ast.unparse(other)
    return f"not ({ast.unparse(test)})"


def fault(path: Path, chance: random.Random) -> str | None:
    """Put a fault into a file, and say which; None where it has no condition on one line."""
    text = path.read_text(encoding="utf-8")
    found = [test for test in places(ast.parse(text)) if test.lineno == test.end_lineno]
    if not found:
        return None
    test = chance.choice(found)
    lines = text.splitlines(keepends=True)
    line = lines[test.lineno - 1].encode()
    new = turned(test)
    lines[test.lineno - 1] = (line[: test.col_offset] + new.encode() + line[test.end_col_offset :]).decode()
    path.write_text("".join(lines), encoding="utf-8")
    return f"line {test.lineno}: {new}"


def main() -> int:
    """Try each room once."""
    chance = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 45)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "hindcast"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        if (ROOT.parent / "shared").exists():
            (Path(folder) / "shared").symlink_to((ROOT.parent / "shared").resolve())
        subprocess.run(["make", "--silent", ".venv/.checks"], cwd=clone, check=True)
        for room in ROOMS:
            files = [each for each in sorted((clone / room).rglob("*.py")) if len(each.read_bytes().splitlines()) >= _LINES_MIN]
            said = None
            while said is None:
                path = chance.choice(files)
                said = fault(path, chance)
            begun = time.monotonic()
            done = subprocess.run(["make", "--silent", "quick"], cwd=clone, check=False, capture_output=True, text=True)
            seconds = time.monotonic() - begun
            was_found = done.returncode != 0
            failed += not was_found or seconds > SECONDS_MAX
            print(f"{'found' if was_found else 'NOT FOUND'} in {seconds:.0f} s: {path.relative_to(clone)}, {said}", flush=True)
            subprocess.run(["git", "checkout", "--quiet", "."], cwd=clone, check=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
