"""The explanation of one list: T004-2 in an operator's words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from api.cli import run
from ingest.errors import InputError
from pipeline.manifests.files import manifests_of
from pipeline.stages.conditions.chain import Chain
from pipeline.stages.conditions.decode import chains_of
from pipeline.stages.conditions.explain import explain

from .test_stage import DOCUMENT, lake

__all__ = ["lake"]
TEXT = yaml.safe_dump(
    {"apiVersion": "hindcast/v1alpha1", "kind": "AuthorizerChain", "metadata": {"name": "doc"}, "spec": {"authorizers": DOCUMENT}}
)
SECRETS = "/api/v1/namespaces/shop/secrets?labelSelector="


def document() -> Chain:
    (chain,) = chains_of(manifests_of([("chain.yaml", TEXT)]))
    return chain


def test_a_refuted_list_shows_the_object_beside_its_selector() -> None:
    lines = list(explain(document(), "lucas", "list", f"{SECRETS}owner%3Dlucas").lines())
    assert lines[0] == "list secrets shop by lucas"
    assert "  selects: -n shop -l owner=lucas" in lines
    assert "  owner=lucas and ((visible=true and (type=k8s.io/basic-auth or public=true)) or env=dev)" in lines
    assert "  - env=dev and owner=lucas" in lines
    assert '  {"metadata": {"labels": {"owner": "lucas"}, "namespace": "shop"}}' in lines
    assert '  because a1: condition "vis" evaluated to NoOpinion; a2: no conditions matched' in lines
    assert lines[-3] == "  -n shop -l env=dev,owner=lucas"


def test_a_proved_list_says_so() -> None:
    found = explain(document(), "lucas", "watch", f"{SECRETS}owner%3Dlucas,env%3Ddev")
    assert list(found.lines())[-1] == "PROVED. Every object that these selectors can select is allowed."
    nothing = explain(document(), "lucas", "list", f"{SECRETS}owner%3Dlucas,owner%3Dbob")
    assert list(nothing.lines())[-1].startswith("PROVED. No object can match")
    with pytest.raises(InputError, match="wanted a list or a watch"):
        explain(document(), "lucas", "get", "/api/v1/namespaces/shop/secrets/x")


def test_the_command_explains_a_recorded_list(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "chain.yaml"
    file.write_text(TEXT)
    assert run(["-q", "--lake", str(lake), "explain", "id-3", "-f", str(file)]) == 0
    assert "REFUTED. The selectors select this object" in capsys.readouterr().out
    assert run(["-q", "--lake", str(lake), "explain", "id-2", "-f", str(file), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["explanations"][0]["proof"] == "proved"
    assert run(["-q", "--lake", str(lake), "explain", "id-10", "-f", str(file)]) == 2
    assert "wanted a list or a watch" in capsys.readouterr().err
