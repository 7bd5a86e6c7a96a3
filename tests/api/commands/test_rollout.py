"""`hindcast rollout` over the bundled log: wave 1 denies nothing, later waves name who has to change, and each can be undone."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from api.cli import run
from pipeline.manifests.writing import to_yaml
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


def test_a_label_selects_the_namespaces_where_one_fits(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        json.dumps(next(each for each in load_yaml_all(REGISTRY.read_text()) if not each["kind"].endswith("Binding")))
    )
    words = ["-q", "--lake", str(lake), "rollout", "--workers", "1", "-f", str(policy), "-o", "json"]
    assert run(words) == 0
    clean = json.loads(capsys.readouterr().out)["waves"][0]["namespaces"].split(", ")
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"tier": "first"}}} for name in clean]
    given = tmp_path / "namespaces.yaml"
    given.write_text(to_yaml(spaces))
    assert run([*words, "-f", str(given), "--write", str(tmp_path / "waves")]) == 0
    tables = json.loads(capsys.readouterr().out)
    (binding,) = load_yaml_all((tmp_path / "waves" / "image-registry-wave-1.yaml").read_text())
    assert binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"] == [
        {"key": "tier", "operator": "In", "values": ["first"]}
    ]
    assert [each["later_denied"] for each in tables["tried"]] == [0]


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


def labels_after(state: dict[str, dict[str, str]], text: str) -> dict[str, dict[str, str]]:
    """The labels of namespaces after somebody ran the commands in the comments of a file, and applied it."""
    after = {name: dict(labels) for name, labels in state.items()}
    for line in text.splitlines():
        if line.startswith("# kubectl label namespace "):
            name, *keys = shlex.split(line)[4:]
            for key in keys:
                del after[name][key.removesuffix("-")]
    for each in filter(None, load_yaml_all(text)):
        after.setdefault(each["metadata"]["name"], {}).update(each["metadata"]["labels"])
    return after


def clean_at(lake: Path, level: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    """The namespaces that `hindcast pod-security` calls clean at a level, and that do not enforce it yet."""
    order = ["privileged", "baseline", "restricted"]
    assert run(["-q", "--lake", str(lake), "pod-security", "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["levels"]
    at_least = [each for each in rows if each["level"] in order and order.index(each["level"]) >= order.index(level)]
    return {
        each["namespace"]
        for each in at_least
        if not each["unknown"] and order.index(each["enforced"].partition(":")[0]) < order.index(level)
    }


@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_the_waves_of_a_level(level: str, lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "waves"
    wanted = clean_at(lake, level, capsys)
    words = ["-q", "--lake", str(lake), "rollout", "--level", level, "--write", str(folder), "--workers", "1", "-o", "json"]
    assert run(words) == 0
    tables = json.loads(capsys.readouterr().out)
    first = {name for each in tables["waves"] if each["wave"] == 1 for name in each["namespaces"].split(", ")}
    assert first == wanted
    assert [each["later_denied"] for each in tables["tried"]] == [0 if wanted else None]
    assert all(each["change"] for each in tables["needed"])
    waves = sorted(folder.glob("*-wave-*.yaml"))
    assert len(waves) == len(tables["waves"])
    state: dict[str, dict[str, str]] = {}
    for wave in waves:  # the recorded labels are those to which each wave goes back
        back = (folder / wave.name.replace("-wave-", "-back-")).read_text()
        spaces = [each["metadata"]["name"] for each in load_yaml_all(wave.read_text())]
        before = {name: {} for name in spaces} | {
            each["metadata"]["name"]: each["metadata"]["labels"] for each in filter(None, load_yaml_all(back))
        }
        after = labels_after(before, wave.read_text())
        assert all(labels["pod-security.kubernetes.io/enforce"] == level for labels in after.values())
        assert labels_after(after, back) == before
        state |= before
    if level == "restricted":
        assert any(state.values())  # the bundled log has labelled namespaces


def test_the_check_of_a_wave_is_a_gate_that_passes(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "waves"
    written(lake, folder, capsys)
    words = ["--lake", str(lake), "gate", "--workers", "1", "-f"]
    codes = [run([*words, str(each)]) for each in sorted(folder.glob("*-check-*.yaml"))]
    assert 1 not in codes[:1]
    assert codes[-1] == 1  # the last wave would deny


def test_what_has_no_waves_is_left_out(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    role = tmp_path / "role.yaml"
    role.write_text(json.dumps({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}}))
    words = ["-q", "--lake", str(lake), "rollout", "--workers", "1", "-f", str(role)]
    assert run(words) == 2
    assert "roles cannot be enforced namespace by namespace" in capsys.readouterr().err
    assert run([*words, "-f", str(REGISTRY)]) == 0
    assert "roles cannot be enforced namespace by namespace, and are left out" in capsys.readouterr().err


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
