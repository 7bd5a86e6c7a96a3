"""The laws of ARCHITECTURE.md that a reader of the code can check: who may ask for time, chance and the environment."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import one_road

ROOT = Path(__file__).parents[1]
ENVIRONMENT = frozenset({"os.environ", "os.environb", "os.getenv", "os.getenvb", "os.path.expanduser", "Path.home"})
MOMENT = frozenset(
    {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"}
    | {f"time.{name}" for name in ("monotonic", "monotonic_ns", "perf_counter", "gmtime", "localtime", "ctime")}
)
PLACE = frozenset({"Path.cwd", "os.getcwd", "os.chdir"})
CHANCE = frozenset({"random", "secrets", "uuid", "os.urandom"})
# The few places outside `api` that read the environment: where a user keeps caches, and what clients of S3 read by its own names.
OF_USERS = {"ingest/user_cache.py", "ingest/published/target.py", "ingest/sources/object_store.py"}


def uses(code: str, names: frozenset[str]) -> Iterator[str]:
    """Each line of some code that uses or imports one of these names."""
    for node in ast.walk(ast.parse(code)):
        found: list[str] = []
        if isinstance(node, ast.Attribute):
            text = ast.unparse(node).removeprefix("pathlib.")
            found = [text, text.removeprefix("datetime."), text.partition(".")[0]]
        elif isinstance(node, ast.Import):
            found = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found = [f"{node.module}.{each.name}" for each in node.names] + [str(node.module)]
        if names.intersection(found):
            yield f"line {getattr(node, 'lineno', 0)}: {ast.unparse(node)}"


def of_package(name: str, names: frozenset[str]) -> dict[str, list[str]]:
    """The files of a package that use such names, with each use."""
    files = ((file, file.relative_to(ROOT).as_posix()) for file in sorted((ROOT / name).rglob("*.py")))
    return {place: said for file, place in files if (said := list(uses(file.read_text(encoding="utf-8"), names)))}


@pytest.mark.parametrize("names", [ENVIRONMENT, MOMENT, PLACE, CHANCE], ids=["environment", "moment", "place", "chance"])
@pytest.mark.parametrize("package", ["pipeline", "queries"])
def test_a_replay_depends_on_the_lake_and_on_what_it_is_given_alone(package: str, names: frozenset[str]) -> None:
    assert of_package(package, names) == {}


def test_settings_are_read_in_api_alone() -> None:
    assert set(of_package("ingest", ENVIRONMENT)) == OF_USERS


def test_what_serves_every_stage_knows_none_but_in_a_list_that_shrinks() -> None:
    now, listed = one_road.places(), one_road.kept()
    assert {name: count for name, count in now.items() if count > listed.get(name, 0)} == {}
    # Fewer than listed: `python -m tests.one_road` writes the shorter list.
    assert now == listed


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("from pipeline.stages.webhooks.model import Webhook", [1]),
        ("from ..stages.validating.plan import is_plan", [1]),
        ("from ..stages.stage import Stage", []),
        ("from pipeline.policies.model import PolicySet\nPolicySet()", [1, 2]),
        ("def told(stage):\n    return stage == 'schema'", [2]),
        ("def told(stage):\n    return {'validating': 1}[stage]", [2]),
        ('"Of the stage `mutating`."\ngroup = "webhooks"', []),
        ("from pipeline.history.world import POLICIES\nPOLICIES", []),
    ],
)
def test_each_way_to_know_a_stage_is_seen(code: str, lines: list[int]) -> None:
    assert sorted({*one_road.places_in(code)}) == lines


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("import os\nos.environ['A']", ENVIRONMENT),
        ("from os import environ", ENVIRONMENT),
        ("from os import getenv as get", ENVIRONMENT),
        ("import datetime\ndatetime.datetime.now()", MOMENT),
        ("from datetime import datetime\nnow = datetime.now", MOMENT),
        ("from time import time", MOMENT),
        ("import pathlib\npathlib.Path.cwd()", PLACE),
        ("import random", CHANCE),
        ("from secrets import token_hex", CHANCE),
        ("import uuid\nuuid.uuid4()", CHANCE),
    ],
)
def test_each_way_to_use_a_name_is_seen(code: str, names: frozenset[str]) -> None:
    assert list(uses(code, names))
