"""Estimated costs, against the expectations of the cost tests of the Kubernetes libraries."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pipeline.cel.checking.check import Checked
from pipeline.cel.checking.checker import Checker
from pipeline.cel.costs.estimate import Path as DataPath
from pipeline.cel.costs.estimate import estimate
from pipeline.cel.costs.ranges import Range
from pipeline.cel.syntax.parse import parse
from pipeline.cel.types import BYTES, DYN, STRING, Type
from pipeline.cel.versions import release

pytestmark = pytest.mark.conformance

LANGUAGE = release((1, 37))
SCOPE = LANGUAGE.scope({"authorizer": Type("kubernetes.authorization.Authorizer")})
# Of mutating policies only.
ABSENT = "jsonpatch.escapeKey"


def hints(path: DataPath, type_: Type) -> Range | None:
    """Text about which nothing is known has up to 12 characters, as upstream's tests have it."""
    return Range(0, 12) if type_ in (STRING, BYTES) else None


def estimated(text: str) -> tuple[int, int]:
    """The estimate of an expression. Upstream's tests allow mixed lists, so literals are not validated."""
    tree = parse(text, LANGUAGE.macros)
    checker = Checker(SCOPE, text)
    result_type = checker.check(tree)
    checker.complaints.raise_any()
    types = {id_: checker.bindings.resolve(type_, DYN) for id_, type_ in checker.types.items()}
    found = estimate(tree, Checked(result_type, types, checker.overloads), SCOPE, hints)
    return found.min, found.max


def expectations(shared: Path) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for line in (shared / "corpora" / "kubernetes-apiserver" / "library_exprs.jsonl").read_text().splitlines():
        row = json.loads(line)
        for key, value in row["expectRaw"]:
            numbers = re.search(r"Min: *(\d+), *Max: *(\d+)", value)
            if "imatedCost" in key and numbers and ABSENT not in row["expr"]:
                found[row["expr"]] = (int(numbers[1]), int(numbers[2]))
    return found


def test_estimates(shared: Path) -> None:
    wanted = expectations(shared)
    assert len(wanted) > 90
    differing = {text: (want, found) for text, want in wanted.items() if (found := estimated(text)) != want}
    print(f"{len(wanted) - len(differing)} of {len(wanted)} estimates agree")
    assert not differing
