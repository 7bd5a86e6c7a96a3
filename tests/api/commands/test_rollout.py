"""`hindcast rollout` over the bundled log: wave 1 denies nothing, later waves name who has to change, and each can be undone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from api.cli import run
from tests.yaml_text import load_yaml_all

POLICIES = Path(__file__).parents[3] / "api" / "demo" / "policies"
REGISTRY = POLICIES / "image-registry.yaml"


@pytest.fixture(scope="module")
def lake(demo_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rollout") / "lake"
    shutil.copytree(demo_lake, path)
    return path


def written(lake: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The tables of a rollout; its files are in the folder."""
    words = ["-q", "--lake", str(lake), "rollout", "-f", str(REGISTRY), "--write", str(folder), "--workers", "1", "-o", "json"]
    assert run(words) == 0
    tables: dict[str, Any] = json.loads(capsys.readouterr().out)
    return tables


def denied(lake: Path, out: Path, *manifests: Path) -> set[tuple[str, str]]:
    """The namespaces and bindings of the requests that would be denied."""
    words = ["-q", "--lake", str(lake), "replay", "--workers", "1", "--export", str(out)]
    assert run([*words, *(word for each in manifests for word in ("-f", str(each)))]) == 0
    rows = [row for row in pq.read_table(out).to_pylist() if row["policy"] is not None and row["effect"] == "deny"]
    return {(row["audit_id"], row["binding"]) for row in rows}


def test_the_manifests_of_waves_deny_what_the_tables_say(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, policy = tmp_path / "waves", tmp_path / "policy.yaml"
    tables = written(lake, folder, capsys)
    documents = load_yaml_all(REGISTRY.read_text())
    policy.write_text(json.dumps(next(each for each in documents if each["kind"] == "ValidatingAdmissionPolicy")))
    out = tmp_path / "rows.parquet"
    everywhere = denied(lake, out, policy)
    assert everywhere
    # The first wave denies nothing, each other one more than the one before, and the last all.
    sizes = [len(denied(lake, out, policy, wave)) for wave in sorted(folder.glob("*-wave-*.yaml"))]
    assert sizes[0] == 0
    assert sizes == sorted(sizes)
    assert sizes[-1] == len(everywhere)
    (tried,) = tables["tried"]
    assert tried["later_denied"] == 0
    # Every namespace with matched requests and no denial is in the first wave, and each denial has somebody to write to.
    assert tables["waves"][0]["namespaces"].split(", ") == sorted(tables["waves"][0]["namespaces"].split(", "))
    assert {each["wave"] for each in tables["needed"]} == {each["wave"] for each in tables["waves"] if each["workloads"]}
    assert all(each["user"] and each["example"] for each in tables["needed"])


def test_each_wave_can_be_undone(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "waves"
    written(lake, folder, capsys)
    (own,) = [each for each in load_yaml_all(REGISTRY.read_text()) if each["kind"] == "ValidatingAdmissionPolicyBinding"]
    cluster = before = {own["metadata"]["name"]: own}
    states = [before]
    waves = sorted(folder.glob("*-wave-*.yaml"))
    for wave in waves:
        (binding,) = load_yaml_all(wave.read_text())
        cluster = {**cluster, binding["metadata"]["name"]: binding}
        states.append(cluster)
    for number, wave in reversed([*enumerate(waves, start=1)]):
        text = (folder / wave.name.replace("-wave-", "-back-")).read_text()
        removed = [line.split()[-1] for line in text.splitlines() if line.startswith("# kubectl delete")]
        undone = {each["metadata"]["name"]: each for each in load_yaml_all(text) if each}
        cluster = {name: each for name, each in {**cluster, **undone}.items() if name not in removed}
        assert cluster == states[number - 1]
    assert cluster == before


def test_a_folder_that_is_there_is_not_written_over(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["-q", "--lake", str(lake), "rollout", "-f", str(REGISTRY), "--write", str(tmp_path), "--workers", "1"]
    assert run(words) == 2
    assert "name a folder that is not there yet" in capsys.readouterr().err


def test_a_binding_that_denies_already_has_no_waves(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(REGISTRY.read_text().replace("validationActions: [Audit]", "validationActions: [Deny]"))
    assert run(["-q", "--lake", str(lake), "rollout", "-f", str(policy), "--workers", "1"]) == 0
    assert "there is no wave to begin with" in capsys.readouterr().out


def test_what_a_rollout_tries_is_not_kept(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(lake, tmp_path / "waves", capsys)
    assert not any((lake / "runs").glob("*/made-as-trial"))
