"""The explanation of one list: T004-2 in an operator's words."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from api.cli import run
from ingest.errors import InputError
from pipeline.manifests.files import manifests_of
from pipeline.stages.conditions.chain import Chain
from pipeline.stages.conditions.decode import chains_of
from pipeline.stages.conditions.explain import explain
from pipeline.stages.conditions.explain_recorded import explain_recorded
from queries import open_lake

from .test_stage import DOCUMENT, judged, lake

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


@pytest.mark.parametrize(("reads", "wanted"), [("Enforce", "id-"), ("FailClosed", "id-2"), ("Downgrade", "id-2")])
def test_every_request_is_explained_as_a_replay_decides_it(lake: Path, reads: str, wanted: str) -> None:
    _, found = judged(lake, DOCUMENT, reads)
    rows = {audit_id: row for audit_id, row in found.items() if audit_id.startswith(wanted)}
    assert len(rows) > 2
    words = {"allowed": "admit", "refused": "deny", "unknown": "unknown"}
    (chain,) = chains_of(manifests_of([("chain.yaml", TEXT.replace("spec:", f"spec:\n  reads: {reads}"))]))
    with closing(open_lake(lake)) as reader:
        for audit_id, row in rows.items():
            (decided,) = explain_recorded(reader, chain, "lab", audit_id, row["ts"], (1, 36)).data()["decisions"]
            assert words[decided["decision"]] == row["effect"] or row["decision"] == decided["decision"] == "unknown", audit_id
            told = json.loads(row["detail"]).get("reason", "")
            assert (decided["reason"], decided["evidence"]) == (told, row["evidence"]), audit_id
            assert (decided["error"] or decided["why"]) == (row["why"] or ""), audit_id


def explained(lake: Path, audit_id: str, file: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of the command."""
    assert run(["-q", "--lake", str(lake), "explain", audit_id, "-f", str(file)]) == 0
    return capsys.readouterr().out.splitlines()


def test_the_command_explains_writes_and_gets(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "chain.yaml"
    file.write_text(TEXT)
    assert explained(lake, "id-10", file, capsys)[-3:] == [
        "The conditions about its objects:",
        "  a3 [dev]: true",
        'ALLOWED: condition "dev" allowed the request (evidence: exact)',
    ]
    assert explained(lake, "id-14", file, capsys)[-2:] == [
        "  a3 [dev]: false",
        "REFUSED with 403: a3: no conditions matched (evidence: exact)",
    ]
    failed = explained(lake, "id-15", file, capsys)
    assert failed[-2] == "  a3 [dev]: error, no such key: storageClassName"
    assert failed[-1].startswith("REFUSED with 500: condition ")
    met = explained(lake, "id-5", file, capsys)
    assert met[-7:-1] == [
        "The conditions about its objects:",
        "  a1 [owner]: false",
        "  a1 [vis]: true",
        "  a1 [type]: false",
        "  a1 [pub]: false",
        "  a2 [env]: false",
    ]
    assert explained(lake, "id-6", file, capsys)[-1] == "UNKNOWN: the object at that time is not known (evidence: insufficient)"
    assert run(["-q", "--lake", str(lake), "explain", "id-99", "-f", str(file)]) == 2
    assert "the lake has no request with audit ID" in capsys.readouterr().err
    assert run(["-q", "--lake", str(lake), "explain", "id-10", "--at", "2020-01-01T00:00:00Z", "-f", str(file)]) == 2
