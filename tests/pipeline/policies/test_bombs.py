"""Policies that ask for too much end soon and in little memory, with what can be said of them: tests/cases/cel/bombs.yaml."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.yaml_text import load_yaml

ROOT = Path(__file__).parents[3]
CASES = load_yaml((ROOT / "tests" / "cases" / "cel" / "bombs.yaml").read_text())

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits on memory differ elsewhere")


@pytest.fixture(scope="module")
def tester() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.bombs"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_bomb_ends_with_what_can_be_said(tester: subprocess.Popen[str], case: dict[str, Any]) -> None:
    assert tester.stdin is not None
    assert tester.stdout is not None
    tester.stdin.write(json.dumps(case) + "\n")
    tester.stdin.flush()
    found = json.loads(tester.stdout.readline())
    assert len(found) == case.get("count", len(case["expect"])), found
    for row, expected in zip(found, case["expect"], strict=False):
        assert row.startswith(expected), found
        assert row.endswith(case.get("ends", "")), found
