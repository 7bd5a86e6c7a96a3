"""Static types, rejections and their texts, against what the CEL environment of Kubernetes 1.35 made of the same expressions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipeline.cel.checking.check import check
from pipeline.cel.errors import CompileError
from pipeline.cel.stack import on_fresh_stack
from pipeline.cel.syntax import parse as syntax
from pipeline.cel.versions import release
from tests.yaml_text import load_yaml

pytestmark = pytest.mark.conformance

VERSION = (1, 35)
CORPORA = ("cel-spec/k8s-1.35-eval.jsonl", "kubernetes-apiserver/library_eval_1.35.jsonl")
DISAGREEMENTS = load_yaml(Path(__file__).with_name("cel_check_disagreements.yaml").read_text())


@dataclass(frozen=True)
class Outcome:
    """The static type of an expression, or the text of its rejection."""

    type: str | None
    error: str | None


def checked(text: str) -> Outcome:
    language = release(VERSION)

    def work() -> str:
        tree = syntax.parse(text, language.macros, language.quoted_identifiers)
        return str(check(tree, language.scope({}), text).result_type)

    try:
        return Outcome(on_fresh_stack(work), None)
    except CompileError as refusal:
        return Outcome(None, str(refusal))


def lines(shared: Path) -> Iterator[tuple[dict[str, Any], Outcome]]:
    for name in CORPORA:
        with (shared / "corpora" / name).open(encoding="utf-8") as rows:
            for row in map(json.loads, rows):
                yield row, checked(row["expr"])


@pytest.fixture(scope="module")
def outcomes(shared: Path) -> list[tuple[dict[str, Any], Outcome]]:
    return list(lines(shared))


def compare(differing: dict[str, str], listed: dict[str, str]) -> None:
    """What differs must be listed with a reason, and what is listed must differ."""
    unexpected = {id_: text for id_, text in differing.items() if id_ not in listed}
    assert not unexpected, f"{len(unexpected)} differ, such as: " + "\n".join(map(": ".join, list(unexpected.items())[:5]))
    assert not listed.keys() - differing.keys(), "these agree now; take them off the list"


def test_accepted_and_rejected(outcomes: list[tuple[dict[str, Any], Outcome]]) -> None:
    differing = {
        row["id"]: f"{row['expr']!r}: {row.get('compileError', 'accepted')} but here {found.error or 'accepted'}"
        for row, found in outcomes
        if ("compileError" in row) is not (found.error is not None)
    }
    compare(differing, DISAGREEMENTS["accepted"])


def test_static_types(outcomes: list[tuple[dict[str, Any], Outcome]]) -> None:
    typed = [(row, found) for row, found in outcomes if "staticType" in row and found.type is not None]
    differing = {
        row["id"]: f"{row['expr']!r}: {row['staticType']} but here {found.type}"
        for row, found in typed
        if row["staticType"] != found.type
    }
    print(f"{len(typed) - len(differing)} of {len(typed)} static types agree")
    compare(differing, DISAGREEMENTS["types"])


def test_texts_of_rejections(outcomes: list[tuple[dict[str, Any], Outcome]]) -> None:
    differing: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for row, found in outcomes:
        if "compileError" not in row or found.error is None:
            continue
        wanted = row["compileError"]
        same_line = wanted.split("\n")[0] == found.error.split("\n")[0]
        agreement = "text" if wanted == found.error else "first line" if same_line else "nothing"
        counts[agreement] += 1
        if agreement != "text":
            differing[row["id"]] = f"{wanted}\nbut here\n{found.error}"
    print(f"rejections that agree in: {dict(counts)}")
    compare(differing, DISAGREEMENTS["texts"])
