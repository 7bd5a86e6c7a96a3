"""`hindcast stack`: the roles of a stack, and whether it stays in its namespace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from api.cli import run
from tests.pipeline.stages.authorization.test_stage import binding_of, event, written
from tests.recording import take_in
from tests.yaml_text import load_yaml_all

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


INSTALL = "stacks.crossplane.io"


def installed(number: int, user: str, resource: str, name: str, package: str, verb: str = "create") -> dict[str, Any]:
    """An event that creates or deletes an install."""
    uri = f"/apis/{INSTALL}/v1alpha1/namespaces/gcp/{resource}" + (f"/{name}" if verb == "delete" else "")
    body = {
        "apiVersion": f"{INSTALL}/v1alpha1",
        "kind": "Install",
        "metadata": {"name": name, "namespace": "gcp"},
        "spec": {"package": package},
    }
    reference = {"resource": resource, "namespace": "gcp", "name": name, "apiGroup": INSTALL, "apiVersion": "v1alpha1"}
    more = {"level": "RequestResponse", "objectRef": reference, "requestObject": body, "responseObject": body}
    return event(number, user, verb, uri, ALLOWED, **more)


def test_installs_say_who_may_who_did_and_what_is_there_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = [{"verbs": ["create"], "apiGroups": [INSTALL], "resources": ["clusterstackinstalls"]}]
    lake = take_in(
        tmp_path / "lake",
        [
            written(1, "ClusterRole", "installer", {"rules": rules}),
            written(2, "ClusterRoleBinding", "installers", binding_of("installer", "bob")),
            installed(10, "bob", "clusterstackinstalls", "one", "stacks/gcp:v1"),
            installed(11, "bob", "clusterstackinstalls", "gone", "stacks/aws:v1"),
            installed(12, "bob", "clusterstackinstalls", "gone", "", "delete"),
            installed(13, "bob", "clusterstackinstalls", "back", "stacks/aws:v2"),
            installed(14, "bob", "clusterstackinstalls", "two", "stacks/gcp:v2"),
            installed(15, "ann", "stackinstalls", "three", "stacks/gcp:v2"),
        ],
    )
    assert run(["-q", "--lake", str(lake), "stack", "--installs", "-o", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [(row["install"], row["who"], row["namespace"]) for row in printed["may_install"]] == [
        ("ClusterStackInstall", "User bob", "every")
    ]
    assert [(row["name"], row["user"], row["result"]) for row in printed["installs"]] == [
        ("one", "bob", "installed"),
        ("gone", "bob", "removed"),
        ("back", "bob", "installed"),
        ("two", "bob", "installed"),
        ("three", "ann", "installed"),
    ]
    assert [(row["first"], row["second"]) for row in printed["twice"]] == [("gcp/one (stacks/gcp:v1)", "gcp/two (stacks/gcp:v2)")]


def test_the_writes_of_the_manager_are_the_steps_of_an_install(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manager = "system:serviceaccount:stacks:manager"

    def made(number: int, path: str, resource: str, name: str, **more: Any) -> dict[str, Any]:
        group = path.split("/")[2] if path.startswith("/apis/") else ""
        reference = {"resource": resource, "apiGroup": group, "apiVersion": "v1", "namespace": "gcp", "name": name}
        if "/namespaces/" not in path:
            del reference["namespace"]
        return event(number, manager, "create", path, ALLOWED, **{"objectRef": reference, **more})

    rbac, here = "/apis/rbac.authorization.k8s.io/v1", "/namespaces/gcp"
    status = {**installed(3, manager, "stackinstalls", "one", "", "update")}
    lake = take_in(
        tmp_path / "lake",
        [
            made(1, f"{rbac}{here}/roles", "roles", "before"),
            installed(2, "ann", "stackinstalls", "one", "stacks/gcp:v1"),
            status,
            made(4, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "customresourcedefinitions", "a.b"),
            made(5, f"/api/v1{here}/serviceaccounts", "serviceaccounts", "one"),
            made(6, f"{rbac}{here}/roles", "roles", "one"),
            made(7, f"{rbac}/clusterrolebindings", "clusterrolebindings", "one"),
            made(8, f"/apis/apps/v1{here}/deployments", "deployments", "refused", responseStatus={"code": 403}),
            made(9, f"/api/v1{here}/events", "events", "one.1"),
            installed(20, "ann", "stackinstalls", "two", "stacks/aws:v1"),
        ],
    )
    assert run(["-q", "--lake", str(lake), "stack", "--installs", "-o", "json"]) == 0
    one, two = json.loads(capsys.readouterr().out)["steps"]
    assert (one["name"], one["manager"]) == ("gcp/one", manager)
    assert one["created"] == ("customresourcedefinitions.apiextensions.k8s.io, serviceaccounts, roles.rbac.authorization.k8s.io")
    assert one["without_a_create"] == "deployments.apps, rolebindings.rbac.authorization.k8s.io"
    assert one["others"] == "clusterrolebindings.rbac.authorization.k8s.io one"
    assert (two["name"], two["manager"], two["without_a_create"]) == ("gcp/two", "unknown", "")


def test_a_cluster_stack_connects_the_namespaces_of_claims_and_of_what_serves_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first figure of the document: claims of two users are served in the namespace prod."""
    app, controller = tmp_path / "app.yaml", "system:serviceaccount:gcp:gcp-ctrl-sa"
    app.write_text("title: GCP\npermissionScope: Cluster\ndependsOn:\n- crd: mysqlinstances.database.crossplane.io\n")

    def served(number: int, namespace: str, claim: dict[str, str]) -> dict[str, Any]:
        uri = f"/apis/gcp.crossplane.io/v1alpha1/namespaces/{namespace}/cloudsqlinstances"
        body = {
            "apiVersion": "gcp.crossplane.io/v1alpha1",
            "kind": "CloudSQLInstance",
            "metadata": {"name": f"sql-{number}", "namespace": namespace},
            "spec": {"claimRef": claim},
        }
        reference = {
            "resource": "cloudsqlinstances",
            "namespace": namespace,
            "apiGroup": "gcp.crossplane.io",
            "apiVersion": "v1alpha1",
        }
        more = {"level": "RequestResponse", "objectRef": reference, "requestObject": body, "responseObject": body}
        return event(number, controller, "create", uri, ALLOWED, **more)

    claims = [{"name": "db", "namespace": each} for each in ("user-1", "user-2", "prod")]
    lake = take_in(
        tmp_path / "lake",
        [
            *(served(number, "prod", claim) for number, claim in enumerate(claims, 1)),
            event(9, controller, "create", "/api/v1/namespaces/prod/events", ALLOWED),
        ],
    )
    asked = ["-q", "--lake", str(lake), "stack", str(app), "--service-account", "gcp:gcp-ctrl-sa", "-o", "json"]
    assert run(asked) == 0
    flows = json.loads(capsys.readouterr().out)["flows"]
    assert [(row["namespace"], row["for_claims_in"]) for row in flows] == [
        ("prod", "user-1"),
        ("prod", "user-2"),
        ("prod", "the same namespace"),
        ("prod", "unknown"),
    ]


def test_the_roles_are_yaml(app: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = take_in(tmp_path / "lake", [])
    assert run(["-q", "--lake", str(lake), "stack", str(app), "--service-account", "blog:ctrl-sa", "-o", "yaml"]) == 0
    role, binding = load_yaml_all(capsys.readouterr().out)
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
