"""`hindcast schema check` over several files, of which some cannot be decoded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.cli import run
from tests.api.commands.test_schema_fields import CRD, WIDGET


def definition(**spec: Any) -> str:
    """A definition that an API server takes, but for what is given."""
    return yaml.safe_dump({**CRD, "spec": {**CRD["spec"], **spec}})


def checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = run(["-q", "schema", "check", "-f", str(folder), "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_files_that_cannot_be_decoded_do_not_hide_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text("a: [\n")
    (tmp_path / "b.yaml").write_text(definition(scope=5))
    (tmp_path / "c.yaml").write_bytes(b"a: \xff\n")
    (tmp_path / "d.yaml").write_text(definition(scope="Everywhere"))
    (tmp_path / "e.yaml").write_text(definition())
    code, found = checked(tmp_path, capsys)
    assert code == 2
    places = {Path(row["where"].partition(":")[0]).name for row in found["findings"]}
    assert places == {"a.yaml", "b.yaml", "c.yaml", "d.yaml"}
    assert all(row["enforced"] == "API server" for row in found["findings"])
    assert "3 definitions, 2 of them refused by the API server" in found["notes"]
    assert "2 files that cannot be decoded" in found["notes"]


def test_only_files_that_cannot_be_decoded_are_named_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text("a: [\n")
    code, found = checked(tmp_path, capsys)
    assert (code, len(found["findings"])) == (2, 1)


def test_objects_are_judged_next_to_files_that_cannot_be_decoded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text("a: [\n")
    (tmp_path / "b.yaml").write_text(definition(scope=5))
    (tmp_path / "c.yaml").write_text(definition())
    (tmp_path / "d.yaml").write_text(yaml.safe_dump({**WIDGET, "spec": {"size": "x"}}))
    assert run(["-q", "schema", "objects", "-f", str(tmp_path), "-o", "json"]) == 2
    rows = json.loads(capsys.readouterr().out)["objects"]
    assert {(Path(row["where"].partition(":")[0]).name, row["outcome"]) for row in rows} == {
        ("a.yaml", "refused"), ("b.yaml", "refused"), ("d.yaml", "refused")
    }  # fmt: skip
