"""`hindcast stack`: the roles of a stack, and whether it stays in its namespace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from api.cli import run
from tests.pipeline.stages.test_authorization_stage import event
from tests.recording import take_in

CONTROLLER = "system:serviceaccount:blog:ctrl-sa"
ALLOWED = f'RBAC: allowed by ClusterRoleBinding "x" of ClusterRole "x" to User "{CONTROLLER}"'


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "app.yaml"
    path.write_text("title: WordPress\npermissionScope: Namespaced\ndependsOn:\n- crd: mysqlinstances.database.crossplane.io\n")
    return path


def test_breaches_and_attempts_are_listed(app: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = take_in(
        tmp_path / "lake",
        [
            event(1, CONTROLLER, "create", "/apis/database.crossplane.io/v1alpha1/namespaces/blog/mysqlinstances", ALLOWED),
            event(2, CONTROLLER, "get", "/api/v1/namespaces/prod/secrets/db", ALLOWED),
            event(3, CONTROLLER, "list", "/api/v1/nodes", None),
            event(4, "ann", "list", "/api/v1/nodes", None),
        ],
    )
    asked = ["-q", "--lake", str(lake), "stack", str(app), "--service-account", "blog:ctrl-sa", "--install", "StackInstall"]
    assert run([*asked, "-o", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    shown = [(row["place"], row["severity"], row["verb"], row["resource"], row["namespace"]) for row in printed["isolation"]]
    assert shown == [("breach", "secret read", "get", "secrets", "prod"), ("attempt", "read", "list", "nodes", "")]
    granted = {(row["verb"], row["resource"]): row["granted"] for row in printed["rights"]}
    assert granted == {("create", "mysqlinstances.database.crossplane.io"): "yes", ("get", "secrets"): "no"}
    assert any("mysqlinstances" in row["rule"] for row in printed["unused"])


def test_the_roles_are_yaml(app: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = take_in(tmp_path / "lake", [])
    assert run(["-q", "--lake", str(lake), "stack", str(app), "--service-account", "blog:ctrl-sa", "-o", "yaml"]) == 0
    role, binding = yaml.safe_load_all(capsys.readouterr().out)
    assert (role["kind"], binding["kind"], role["metadata"]["namespace"]) == ("Role", "RoleBinding", "blog")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--service-account", "ctrl-sa"], "give NAMESPACE:NAME"),
        (
            ["--service-account", "blog:ctrl-sa", "--install", "ClusterStackInstall"],
            "is not permitted by unpack",
        ),
        (["--service-account", "blog:ctrl-sa", "--install", "Install"], "is no kind of install"),
    ],
)
def test_wrong_input_is_named(
    options: list[str], message: str, app: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = take_in(tmp_path / "lake", [])
    assert run(["-q", "--lake", str(lake), "stack", str(app), *options]) == 2
    assert message in capsys.readouterr().err
