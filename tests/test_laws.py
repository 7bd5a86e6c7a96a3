"""The laws of ARCHITECTURE.md that a reader of the code can check: who may ask for time, chance and the environment."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

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

STAGES = {file.parent.name for file in (ROOT / "pipeline/stages").glob("*/__init__.py")}
# Files about every stage that still name one: each stands in for a part of `Stage` that is missing. The list only shrinks.
NAME_A_STAGE = {
    "api/given.py",
    "api/pages/of_stage.py",
}
# Files about one stage alone: its commands, its tables, its page, and its part of `explain`.
OF_ONE_STAGE = {
    *(f"api/commands/{name}.py" for name in ("init", "least_privilege", "pod_security", "schema", "stack", "webhooks")),
    "api/commands/parts/mutating_migrate.py",
    *(f"api/commands/parts/schema_{name}.py" for name in ("fields", "stored")),
    *(f"api/commands/parts/webhook_{name}.py" for name in ("load", "migrate", "tables", "without")),
    *(
        f"api/commands/parts/{name}.py"
        for name in ("calibrate_levels", "calibrate_roles", "level", "policy_check", "stack_installs")
    ),
    *(f"api/pages/{name}.py" for name in ("load", "of_chain", "of_mutating", "of_schema")),
}


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


def imported(file: Path) -> Iterator[str]:
    """Everything that a file of the project imports, as absolute names."""
    package = file.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            yield from (".".join((*base, *filter(None, [node.module]), each.name)) for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def stages_named_in(file: Path) -> set[str]:
    """The stages whose folder a file imports from, or whose row of the registry it imports."""
    rest = [name.removeprefix("pipeline.stages.").split(".") for name in imported(file) if name.startswith("pipeline.stages.")]
    named = {part[1].lower() for part in rest if part[0] == "registry" and len(part) > 1}
    return STAGES & (named | {part[0] for part in rest})


def test_what_serves_every_stage_names_none_but_for_a_list_that_shrinks() -> None:
    files = [file for package in ("api", "pipeline") for file in (ROOT / package).rglob("*.py")]
    places = {file.relative_to(ROOT).as_posix() for file in files if stages_named_in(file)}
    assert len(STAGES) >= 6
    assert {each for each in places if not each.startswith("pipeline/stages/")} - OF_ONE_STAGE == NAME_A_STAGE


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
