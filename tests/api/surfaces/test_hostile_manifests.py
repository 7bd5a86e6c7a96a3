"""Manifests with one odd value in each place: a reader names file and line, or takes them, and replays judge what it takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.cli import run
from api.given import given_of
from api.stages.authorization.stack import read_app
from ingest.errors import InputError
from ingest.lake import Lake
from ingest.server.audit_policy import parse_audit_policy
from ingest.sources.snapshot import ingest_snapshot
from pipeline.manifests.files import manifests_of
from pipeline.readiness.rules import ReadinessRules
from pipeline.stages.authorization.stacks import stack_of
from pipeline.stages.schema.checking import check_definitions, definition_documents
from pipeline.stages.schema.objects import object_findings
from tests.hostile import CASES, MANIFESTS, VALUES, changed, places, right_events
from tests.recording import take_in
from tests.yaml_text import load_yaml, load_yaml_all

EXAMPLES = CASES / "every_field"
VERSION = (1, 36)
BROKEN: list[dict[str, Any]] = load_yaml((CASES / "broken.yaml").read_text())
LINES: dict[str, list[str]] = load_yaml((CASES / "commands.yaml").read_text())
ONE_PER_KIND = ("policies", "mutating", "roles", "webhooks")
# The objects that others name; they keep their names.
NAMED = ("ConfigMap", "Namespace", "Service")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return take_in(tmp_path_factory.mktemp("hostile") / "lake", right_events())


def read_manifests(file: Path) -> None:
    texts = [(str(file), file.read_text())]
    given = given_of(texts, VERSION)
    for stage, rules in given.stages:
        stage.readiness.mistakes(rules, True)


def read_definitions(file: Path) -> None:
    documents = manifests_of([(str(file), file.read_text())])
    list(check_definitions(definition_documents(documents), VERSION, strict=True))
    list(object_findings(documents, VERSION))


def read_snapshot(file: Path) -> None:
    lake = Lake.create(file.parent / "snapshots")
    try:
        ingest_snapshot(lake, [file], "lab", datetime(2026, 1, 2, tzinfo=UTC))
    finally:
        lake.close()


READERS: dict[str, Callable[[Path], object]] = {
    **dict.fromkeys((*ONE_PER_KIND, "chain"), read_manifests),
    **dict.fromkeys(("schema", "levels"), read_manifests),
    "app": lambda file: stack_of(read_app(file), str(file), (), "shop", "bot"),
    "audit-policy": lambda file: parse_audit_policy(file.read_text(), str(file)),
    "rules": ReadinessRules.load,
    "snapshot": read_snapshot,
}


def mutants(name: str) -> list[list[Any]]:
    """The documents of an example with another value in each place, each kind of value about equally often."""
    documents = list(load_yaml_all((EXAMPLES / f"{name}.yaml").read_text()))
    found = places(documents)
    return [changed(documents, path, VALUES[(7 * number) % len(VALUES)]) for number, path in enumerate(found)]


def is_taken(read: Callable[[Path], object], file: Path) -> bool:
    """Whether a reader takes a file; if not, it must name the file."""
    try:
        read(file)
    except InputError as error:
        said = error.message
    else:
        return True
    assert re.match(rf"{re.escape(str(file))}(:\d+)?: ", said), said
    return False


def test_every_example_is_read() -> None:
    assert {path.stem for path in EXAMPLES.iterdir()} == {*READERS}


@pytest.mark.parametrize("name", READERS)
def test_an_odd_value_in_each_place_is_refused_with_the_place_or_taken(
    name: str, lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, taken = tmp_path / "odd.yaml", []
    # A definition has so many places, and takes so long to check, that every third place has to do.
    for number, documents in enumerate(mutants(name)[:: 3 if name == "schema" else 1]):
        file.write_text(yaml.safe_dump_all(documents, allow_unicode=True))
        if is_taken(READERS[name], file):
            taken += [renamed(document, number) for document in documents if name in ONE_PER_KIND and document]
    if taken:
        file.write_text(yaml.safe_dump_all(once(taken), allow_unicode=True))
        code = run(["--quiet", "--lake", str(lake), "replay", "-f", str(file), "--workers", "1"])
        said = capsys.readouterr()
        assert code == 0, said.err[-2000:]
        assert "defect" not in said.out + said.err


def test_odd_definitions_and_objects_are_findings(tmp_path: Path) -> None:
    """Of every few places one: `schema check` and `schema objects` look at all rules of a definition."""
    file = tmp_path / "odd.yaml"
    for documents in mutants("schema")[::9]:
        file.write_text(yaml.safe_dump_all(documents, allow_unicode=True))
        is_taken(read_definitions, file)


def renamed(document: Any, number: int) -> Any:
    """A document with names of its own, so that a replay can judge it next to others."""
    if document["kind"] in NAMED:
        return document
    for path in (("metadata", "name"), ("spec", "policyName"), ("roleRef", "name")):
        holder = document.get(path[0])
        if isinstance(holder, dict) and isinstance(holder.get(path[1]), str):
            document = changed(document, path, f"{holder[path[1]]}-{number}")
    return document


def once(documents: Sequence[Any]) -> list[Any]:
    """The documents without later versions of the same object."""
    return [
        each
        for number, each in enumerate(documents)
        if each["kind"] not in NAMED
        or not any(other["kind"] == each["kind"] and other.get("metadata") == each.get("metadata") for other in documents[:number])
    ]


@pytest.mark.parametrize("line", [line for lines in LINES.values() for line in lines if "HERE/" in line])
def test_every_command_names_the_place_of_a_mistake(
    line: str, lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = re.findall(r"HERE/(\w+)\.yaml", line)[0]
    cases = [case for case in BROKEN if case["of"] == name and "line" in case]
    assert cases, name
    # A stack asks only for the names in definitions, and objects of a refused definition are unknown.
    for case in (cases[0], cases[-1]) if not line.startswith(("stack ", "schema objects ")) else cases[:1]:
        file = tmp_path / f"{name}.yaml"
        file.write_text((MANIFESTS / file.name).read_text().replace(case["from"], case["to"], 1))
        words = [word.replace(f"HERE/{name}.yaml", str(file)) for word in shlex.split(line)]
        stands = {"ID": "id-0010", "HERE": str(MANIFESTS), "OUT": str(tmp_path)}
        words = [stands.get(word, word.replace("HERE", stands["HERE"]).replace("OUT", stands["OUT"])) for word in words]
        code = run(["--quiet", "--lake", str(lake), *words])
        said = capsys.readouterr()
        assert code == 2, f"{words}: {code} {said.err}"
        # The findings of `schema` name the field, and no stage reads the file of a stack.
        where = f"{file}:{case['line']}: " if words[0] not in ("schema", "stack") else file.name
        assert where in said.err + said.out, f"{words}: {said.err}"


@pytest.mark.parametrize("name", ["app", "audit-policy", "rules", "snapshot", "policies"])
@pytest.mark.parametrize(
    "text",
    [
        "a: [",
        "a: 2026-99-99",
        "a: &a [*a]",
        "[" * 5_000,
        "- " * 300 + "x",
        "a: \x00",
        "a: !!python/object:os.system {}",
        "\n".join(["a0: &a0 [x, x]", *(f"a{level}: &a{level} [*a{level - 1}, *a{level - 1}]" for level in range(1, 40))]),
        "",
        "---\n---\n",
        "5",
        "? [a]\n: b",
    ],
    ids=lambda text: text[:12],
)
def test_no_text_ends_a_reader(name: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=re.escape(file.name)):
        READERS[name](file)
