"""Definitions, against the answers of a real API server: codes, causes and conditions of crd-a."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pipeline.stages.schema.definition import definition_of
from pipeline.stages.schema.definition_check import definition_errors, non_structural_condition
from pipeline.stages.schema.props import DecodeError
from tests.recorded_files import rows_of

pytestmark = pytest.mark.conformance


def without_number(text: str) -> str:
    """The text without the number that the API server puts into the name of the type of `self`."""
    return re.sub(r"selfType\d+", "selfType", text)


def answered(row: dict[str, Any]) -> object:
    if row["via"] == "etcd":
        found = [each for each in row["conditions"] if each["type"] == "NonStructuralSchema"]
        return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else None
    causes = sorted((each["reason"], without_number(each["message"]), each["field"]) for each in row.get("causes") or ())
    return row["code"], row["message"] if row["code"] == 400 else "", causes


def predicted(row: dict[str, Any]) -> object:
    if row["via"] == "etcd":
        return non_structural_condition(definition_of(row["crd"]))
    try:
        errors = definition_errors(definition_of(row["crd"]))
    except DecodeError as problem:
        head = 'CustomResourceDefinition in version "v1" cannot be handled as a CustomResourceDefinition: '
        return 400, f"{head}{problem}", []
    return 422 if errors else 201, "", sorted((str(each.reason), without_number(each.message), each.field) for each in errors)


def test_every_definition_has_the_answer_of_the_api_server(shared: Path) -> None:
    counts: Counter[str] = Counter()
    wrong = []
    for row in rows_of(shared / "data" / "crd-a" / "structural.jsonl.zst"):
        is_equal = predicted(row) == answered(row)
        counts[f"{row['via']} {row.get('code', 'condition')} {'equal' if is_equal else 'different'}"] += 1
        if not is_equal:
            wrong.append(row["id"])
    print("\n".join(f"{count:>5} {name}" for name, count in sorted(counts.items())))
    assert not wrong
    assert sum(counts.values()) == 778
