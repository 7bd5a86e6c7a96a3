"""`make quick`: the checks that the changed files can reach, in at most two minutes on two cores. Says what it left out.

What changed: files that differ from the last commit; without any, those of the last commit; or those since `BASE=REVISION`. The
tests nearest to them run first. Their seconds come from `tests/seconds.json`, which `make seconds` measures. Only the choice
depends on them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from .graph import ROOT, Graph, rank

# Of two minutes. Tests end between two of them, a little earlier.
SECONDS_MAX = 108
_SECONDS_MAX_TESTS = 92
_SECONDS_OF_TESTS = 200  # of all processes together; the time ends the run in any case
_SECONDS_UNKNOWN = 3.0
# Tests longer than this run only in `make test`, unless the change is in their own file.
_SECONDS_OF_ONE_TEST_MAX = 15.0
# What a person meets first, by surface. They run where the graph cannot tell, because a test starts a process by name.
SMOKE = (
    "tests/api/pages/test_starting.py",
    "tests/api/commands/test_command_line.py",
    "tests/ingest/test_decode.py",
    "tests/queries/test_cases.py",
    "tests/pipeline/stages/test_stages.py",
    "tests/test_laws.py",
)
_LISTED_MAX = 12
_KEPT_SECONDS = "tests/seconds.json"
# The packages of [tool.mypy].
_TYPED = ("ingest/", "queries/", "pipeline/", "api/", "hindcast/")


def changed_files(base: str | None) -> list[str]:
    """The files that differ from a revision, and those that git does not know yet."""

    def git(*words: str) -> list[str]:
        done = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
        return [line for line in done.stdout.splitlines() if line]

    found = {*git("diff", "--name-only", base or "HEAD"), *git("ls-files", "--others", "--exclude-standard")}
    # What tests took decides no test.
    return sorted((found or {*git("diff", "--name-only", "HEAD~1")}) - {_KEPT_SECONDS})


class Chosen:
    """The words for pytest that name the tests, and the tests that stay out."""

    def __init__(self, changed: Sequence[str], graph: Graph, seconds: dict[str, dict[str, float]]) -> None:
        reached = graph.tests(changed)
        self.words: list[str] = []
        self.skipped: list[str] = []
        self.left_out: list[str] = []
        self.reached = len(reached)
        smoke = [name for name in SMOKE if name in graph.files]
        room = float(_SECONDS_OF_TESTS)
        for name in [*rank(changed, reached), *(each for each in smoke if each not in reached)]:
            tests = seconds.get(name, {})
            is_own = name in changed
            long = {test for test, took in tests.items() if took > _SECONDS_OF_ONE_TEST_MAX and test != "*" and not is_own}
            costs = tests.get("*", _SECONDS_UNKNOWN) - sum(tests[test] for test in long)
            if costs <= room or is_own:
                room -= costs
                self.words.append(name)
                self.skipped += [f"{name}::{test}" for test in sorted(long)]
            else:
                self.left_out.append(name)


def main() -> int:
    """Lint, types and tests of what changed. Exits with 1 if one of them fails."""
    begun = time.monotonic()
    changed = changed_files(os.environ.get("BASE") or None)
    if not changed:
        print("nothing changed")
        return 0
    code = [name for name in changed if name.endswith(".py") and (ROOT / name).exists()]
    types = _start(["mypy", "--no-error-summary", *(each for each in code if each.startswith(_TYPED))])
    graph = Graph()
    kept = ROOT / _KEPT_SECONDS
    chosen = Chosen(changed, graph, json.loads(kept.read_text()) if kept.exists() else {})
    print(f"{len(changed)} changed, {chosen.reached} test files can be reached, {len(chosen.words)} chosen", flush=True)
    failed = []
    for words in (["ruff", "check", *code], ["ruff", "format", "--check", *code]) if code else ():
        if _finish(_start(words), begun):
            failed.append(" ".join(words[:2]))
    deselected = [word for each in chosen.skipped for word in ("--deselect", each)]
    names = Path(tempfile.mkdtemp()) / "failed"
    until = f"--quick-until={time.time() + _SECONDS_MAX_TESTS - (time.monotonic() - begun)}"
    if chosen.words and _finish(_start(["pytest", *_PYTEST, until, f"--quick-failed={names}", *deselected, *chosen.words]), begun):
        failed.append("pytest")
    if "pytest" not in failed and names.exists():
        print(f"\nfailed before the time was over:\n{names.read_text(encoding='utf-8')}")
        failed.append("pytest")
    if _finish(types, begun):
        failed.append("mypy")
    _say_what_is_left(chosen, time.monotonic() - begun)
    if failed:
        print(f"FAILED: {', '.join(failed)}")
    return 1 if failed else 0


_PYTEST = (
    *("-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder", "--maxfail", "5", "-p", "no:cacheprovider"),
    *("-p", "tests.quick.ending"),
)


def _start(words: Sequence[str]) -> subprocess.Popen[bytes] | None:
    """A tool of the environment; None where it has nothing to do, or is not installed."""
    if words[0] == "mypy" and len(words) == 2:
        return None
    return subprocess.Popen([sys.executable, "-m", *words], cwd=ROOT)


def _finish(process: subprocess.Popen[bytes] | None, begun: float) -> bool:
    """Wait for a tool, at most until the time is over. Returns whether it failed: what the time cut off did not."""
    if process is None:
        return False
    try:
        return process.wait(timeout=max(0.1, SECONDS_MAX - (time.monotonic() - begun))) not in (0, 5)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait()
        print(f"\nnot finished within {SECONDS_MAX} s: {process.args[2]}")  # type: ignore[index]
        return False


def _say_what_is_left(chosen: Chosen, seconds: float) -> None:
    print(f"\n{seconds:.0f} s. Left out: import contracts (`make check`)", end="")
    for title, names in (("long tests", chosen.skipped), ("test files that are farther away", chosen.left_out)):
        if names:
            more = f", and {len(names) - _LISTED_MAX} more" if len(names) > _LISTED_MAX else ""
            print(f"; {len(names)} {title}: {', '.join(names[:_LISTED_MAX])}{more}", end="")
    print(". `make test` runs all of them.")


if __name__ == "__main__":
    raise SystemExit(main())
