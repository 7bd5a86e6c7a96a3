"""The example of docs/chains.md works as the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from api.cli import run
from pipeline.manifests.files import manifests_of
from pipeline.stages.conditions.chain import Reads
from pipeline.stages.conditions.decode import chains_of
from tests.recording import take_in
from tests.yaml_text import load_yaml

from .test_stage import RBAC, event, judged

PAGE = (Path(__file__).parents[4] / "docs" / "chains.md").read_text(encoding="utf-8")
MAPS = "/api/v1/namespaces/shop/configmaps"
(EXAMPLE,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_is_a_chain_that_decides(tmp_path: Path) -> None:
    (chain,) = chains_of(manifests_of([("chain.yaml", EXAMPLE)]))
    assert chain.reads is Reads.ENFORCE
    lake = take_in(
        tmp_path / "lake",
        [
            event(1, "list", f"{MAPS}?labelSelector=public%3Dtrue%2Cteam%21%3Dsecret"),
            event(2, "list", MAPS, reason=None),
            event(3, "list", "/api/v1/namespaces/shop/pods", reason=RBAC),
        ],
    )
    _, found = judged(lake, load_yaml(EXAMPLE)["spec"]["authorizers"])
    assert [found[f"id-{number}"]["decision"] for number in (1, 2, 3)] == ["admit", "deny", "admit"]
    file = tmp_path / "chain.yaml"
    file.write_text(EXAMPLE)
    assert run(["-q", "--lake", str(lake), "replay", "-f", str(file)]) == 0
    assert run(["-q", "--lake", str(lake), "explain", "id-2", "-f", str(file)]) == 0


def test_an_event_without_uri_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = {name: value for name, value in event(1, "list", MAPS).items() if name != "requestURI"}
    nothing = {name: value for name, value in event(2, "get", MAPS).items() if name not in ("requestURI", "objectRef")}
    lake = take_in(tmp_path / "lake", [bare, nothing, event(3, "list", MAPS)])
    _, found = judged(lake, load_yaml(EXAMPLE)["spec"]["authorizers"])
    assert set(found) == {"id-1", "id-2", "id-3"}
    for row in (found["id-1"], found["id-2"]):
        assert row["decision"] == "unknown"
        assert row["why"]
    file = tmp_path / "chain.yaml"
    file.write_text(EXAMPLE)
    assert run(["-q", "--lake", str(lake), "explain", "id-1", "-f", str(file)]) == 0
    assert "UNKNOWN: the log has no URI of the request" in capsys.readouterr().out
