"""Public tables of tests have a case here for each row: tests/cases/public_tables.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.yaml_text import load_yaml

ROOT = Path(__file__).parents[1]
TABLES: list[dict[str, Any]] = load_yaml((ROOT / "tests/cases/public_tables.yaml").read_text())


def names_in(path: Path) -> set[str]:
    """The cases or the test functions of a file."""
    text = path.read_text()
    if path.suffix == ".py":
        return {line.removeprefix("def ").partition("(")[0] for line in text.splitlines() if line.startswith("def test_")}
    return {each["name"] for each in load_yaml(text)}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table["table"])
def test_every_row_is_a_case_or_says_why_not(table: dict[str, Any]) -> None:
    """The rows add up, no case stands for two rows, and each case exists."""
    left = table.get("not_held", [])
    assert all(each["why"] for each in left)
    assert sum(map(len, table["held"].values())) + sum(each["rows"] for each in left) == table["rows"]
    for file, names in table["held"].items():
        assert len(names) == len(set(names))
        assert set(names) <= names_in(ROOT / file), file
