"""`hindcast schema fields`: fields that a schema does not know, from the command line."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.cli import run
from tests.recording import START, Object, recorded, take_in

SCHEMA: Object = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "plural": "customresourcedefinitions",
    "metadata": {"name": "widgets.shop.example.com", "uid": "u-1", "resourceVersion": "1"},
    "spec": {
        "group": "shop.example.com",
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
        "scope": "Namespaced",
        "preserveUnknownFields": False,
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}],
    },
}
WIDGET: Object = {
    "apiVersion": "shop.example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "a", "namespace": "shop", "uid": "u-2", "resourceVersion": "2"},
    "spec": {"size": 1, "password": "hunter2-very-secret", "note": "x"},
}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    events = [
        recorded("id-1", START, "create", CRD),
        recorded("id-2", START + timedelta(hours=1), "create", WIDGET, user="mallory"),
    ]
    return take_in(tmp_path / "lake", events)


def asked(lake: Path, *arguments: str, capsys: pytest.CaptureFixture[str]) -> Any:
    assert run(["-q", "--lake", str(lake), "schema", "fields", *arguments, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", ["Widget", "widgets", "widget.shop.example.com"])
def test_the_definition_comes_from_the_log(lake: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(lake, name, capsys=capsys)
    assert [(row["field"], row["seen_in"], row["stored"]) for row in found["fields"]] == [
        ("spec.note", "body, stored", 1),
        ("spec.password", "body, stored", 1),
    ]
    assert found["carriers"][0]["user"] == "mallory"
    assert any("from response to id-1" in note for note in found["notes"])


def test_samples_hold_no_credential(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(lake, "widgets", capsys=capsys)
    assert {row["field"]: row["sample"] for row in found["fields"]} == {"spec.note": '"x"', "spec.password": '"[redacted]"'}
    assert "hunter2" not in json.dumps(found)


def test_a_given_definition_counts_instead(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    (tmp_path / "crd.yaml").write_text(json.dumps({**CRD, "spec": {**CRD["spec"], "versions": [version]}}))
    assert asked(lake, "widgets", "-f", str(tmp_path / "crd.yaml"), capsys=capsys)["fields"] == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["gadgets"], "gadgets: no definition of this kind is known; the log and the snapshots have Widget; give its file with -f"),
        ([], "schema fields wants one kind, found 0"),
    ],
)
def test_a_kind_that_is_not_known_is_named(
    lake: Path, arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["-q", "--lake", str(lake), "schema", "fields", *arguments]) == 2
    assert problem in capsys.readouterr().err


def test_a_file_names_its_one_kind(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "crd.yaml"
    file.write_text(yaml.safe_dump(CRD))
    assert run(["-q", "--lake", str(lake), "schema", "fields", "-f", str(file), "-o", "json"]) == 0
    assert [row["field"] for row in json.loads(capsys.readouterr().out)["fields"]] == ["spec.note", "spec.password"]


def test_a_file_with_two_kinds_names_them(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = {
        **CRD,
        "metadata": {"name": "gears.shop.example.com"},
        "spec": {**CRD["spec"], "names": {"kind": "Gear", "plural": "gears"}},
    }
    file = tmp_path / "crds.yaml"
    file.write_text(yaml.safe_dump_all([CRD, other]))
    assert run(["-q", "--lake", str(lake), "schema", "fields", "-f", str(file)]) == 2
    said = capsys.readouterr().err
    assert "gears.shop.example.com, widgets.shop.example.com" in said
    assert "hindcast schema fields gears.shop.example.com -f" in said
