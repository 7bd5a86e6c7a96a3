"""The chart and the kustomizations, rendered by helm and kustomize: what Kubernetes would take, and what Pod Security allows."""

from __future__ import annotations

import copy
import json
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from api.cli import run

from .kustomize import PLACEHOLDER, VALUES, resources
from .rendering import CHART, KUSTOMIZE, NAMESPACE, Manifest, by_name, chart, kustomization
from .schemas import faults
from .settings_schema import OF_THE_CHART, SCHEMA, schema_text
from .tools import run_program

# Every part of the chart is on in one of these, and off in another.
VARIANTS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "all": {
        "fullnameOverride": "evidence",
        "image": {"repository": "registry.example/hindcast", "tag": "1.2", "pullSecrets": [{"name": "pull"}]},
        "sink": {
            "clientAuthoritySecret": "clients",
            "service": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0/8"], "annotations": {"a": "b"}},
        },
        "pages": {"readersSecret": "who", "oidc": {"issuer": "https://login.example", "audience": "hindcast", "groups": ["sre"]}},
        "tls": {
            "certManager": {"enabled": True, "issuer": {"name": "ca"}, "dnsNames": ["sink.example"], "ipAddresses": ["10.9.8.7"]}
        },
        "settings": {"retention-days": 90, "log-json": True, "drain-interval-seconds": 2.5, "redact-paths": ["pods:spec.hostname"]},
        "persistence": {"storageClassName": "fast", "size": "1Ti"},
        "networkPolicy": {"sinkFrom": [{"ipBlock": {"cidr": "10.0.0.0/24"}}], "egress": [{"ports": [{"port": 8443}]}]},
        "podDisruptionBudget": {"maxUnavailable": 1},
        "monitoring": {"enabled": True, "dashboard": True, "labels": {"release": "prometheus"}},
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "audit", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "system-cluster-critical",
    },
    "sink alone": {
        "pages": {"enabled": False},
        "sink": {"service": {"type": "NodePort", "nodePort": 30443, "clusterIP": "10.96.7.43"}},
        "networkPolicy": {"enabled": False},
    },
    "OIDC alone": {"pages": {"oidc": {"issuer": "https://login.example", "audience": "hindcast"}}},
}


@pytest.mark.parametrize("version", ["1.30", "1.36"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_object_of_the_chart_is_valid(variant: str, version: str, tmp_path: Path) -> None:
    objects = chart(tmp_path, VARIANTS[variant], version=version)
    found = {f"{each['kind']} {each['metadata']['name']}": faults(each, version) for each in objects}
    assert len(found) >= 4
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("version", ["1.30", "1.36"])
def test_every_object_of_the_kustomization_is_valid(version: str, tmp_path: Path) -> None:
    objects = kustomization(tmp_path, KUSTOMIZE / "example")
    assert len(objects) == 6
    assert [wrong for each in objects for wrong in faults(each, version)] == []


# What an API server serves without any CustomResourceDefinition.
BUILT_IN = frozenset({"v1", "apps/v1", "networking.k8s.io/v1", "policy/v1"})


def test_the_example_needs_nothing_but_kubernetes(tmp_path: Path) -> None:
    """Else `kubectl apply -k` stops halfway on a cluster without cert-manager or prometheus-operator."""
    assert {each["apiVersion"] for each in kustomization(tmp_path, KUSTOMIZE / "example")} <= BUILT_IN


def test_the_example_takes_the_components_when_their_comments_go(tmp_path: Path) -> None:
    folder = tmp_path / "kustomize"
    shutil.copytree(KUSTOMIZE, folder)
    file = folder / "example" / "kustomization.yaml"
    lines = file.read_text(encoding="utf-8").splitlines()
    opened = [re.sub(r"^( *)# (components:|  - \.\./|- target|  patch|    - )", r"\1\2", each) for each in lines]
    file.write_text("\n".join(opened) + "\n", encoding="utf-8")
    objects = kustomization(tmp_path, folder / "example")
    assert {"Certificate", "ServiceMonitor", "PrometheusRule"} <= {each["kind"] for each in objects}
    (certificate,) = (each for each in objects if each["kind"] == "Certificate")
    assert certificate["spec"]["issuerRef"]["name"] == "my-issuer"


def test_the_check_of_a_manifest_finds_mistakes(tmp_path: Path) -> None:
    objects = by_name(chart(tmp_path, VARIANTS["all"]))
    workload = objects["StatefulSet", "evidence"]
    workload["spec"]["template"]["spec"]["containers"][0]["readonlyRootFilesystem"] = True
    monitor, certificate = objects["ServiceMonitor", "evidence"], objects["Certificate", "evidence"]
    monitor["spec"]["endpoints"][0]["schema"] = "https"
    del certificate["spec"]["secretName"]
    wrong = [faults(each, "1.36") for each in (workload, monitor, certificate)]
    assert "readonlyRootFilesystem" in wrong[0][0]
    assert wrong[1] == [".spec.endpoints[0].schema: unknown field"]
    assert wrong[2] == ["spec.secretName: Field required"]


def test_the_chart_passes_the_linter_of_helm(tmp_path: Path) -> None:
    shown = run_program(
        "helm", "lint", "--strict", str(CHART), "--set", "image.repository=registry.example/hindcast", home=tmp_path
    )
    assert "0 chart(s) failed" in shown


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["image.repository="], "name the image that you built"),
        (["image.digest=sha256:12"], "does not match pattern"),
        (["replicas=2"], "additional properties 'replicas' not allowed"),
        (["settings.port=1"], "additional properties 'port' not allowed"),
        (["settings.retention-dayz=90"], "additional properties 'retention-dayz' not allowed"),
        (["settings.retention-days=many"], "got string, want integer"),
        (["settings.no-redact=true"], "additional properties 'no-redact' not allowed"),
        (["tls.certManager.enabled=true"], "name the issuer"),
    ],
)
def test_wrong_values_are_refused(settings: list[str], message: str, tmp_path: Path) -> None:
    given = [word for each in ["image.repository=registry.example/hindcast", *settings] for word in ("--set", each)]
    assert message in run_program("helm", "template", "hindcast", str(CHART), *given, home=tmp_path, code=1)


def test_the_schema_has_the_options_of_the_server() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == schema_text(), "run `make kustomize`"


def test_every_option_that_help_shows_is_a_setting_or_a_value_of_the_chart(capsys: pytest.CaptureFixture[str]) -> None:
    """The help is read as text, apart from the table of settings that the schema comes from."""
    with suppress(SystemExit):
        run(["serve", "--help"])
    options = set(re.findall(r"^ +[│ ]*--([a-z][a-z-]+)", capsys.readouterr().out, re.MULTILINE)) - {"help"}
    options -= {each for each in options if each.startswith("no-") and each.removeprefix("no-") in options}
    known = set(json.loads(SCHEMA.read_text(encoding="utf-8"))["properties"]["settings"]["properties"])
    assert "retention-days" in options & known
    assert options - known <= {each.replace("_", "-") for each in OF_THE_CHART}
    assert known <= options


def test_the_kustomization_is_made_from_the_chart(tmp_path: Path) -> None:
    stale = [path for path, text in resources(tmp_path).items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    assert stale == [], "run `make kustomize`"


def test_chart_and_kustomization_make_the_same_objects(tmp_path: Path) -> None:
    """A release adds two labels; an overlay names the image and the issuer."""
    rendered = by_name(map(without_release_labels, chart(tmp_path, VALUES)))
    folder = tmp_path / "overlay"
    folder.mkdir()
    parts = [KUSTOMIZE / "base", *sorted((KUSTOMIZE / "components").iterdir())]
    components = ", ".join(f"'{link(folder, part)}'" for part in parts[1:])
    (folder / "kustomization.yaml").write_text(
        f"resources: ['{link(folder, parts[0])}']\ncomponents: [{components}]\nnamespace: {NAMESPACE}\n"
    )
    assert by_name(kustomization(tmp_path, folder)) == rendered
    assert rendered["StatefulSet", "hindcast"]["spec"]["template"]["spec"]["containers"][0]["image"] == "hindcast:unset"
    assert PLACEHOLDER["tag"] == "unset"


def link(folder: Path, part: Path) -> str:
    """The path from one folder to another, as kustomize wants it."""
    return str(Path(*[".."] * len(folder.resolve().parts[1:])) / part.resolve().relative_to("/"))


def without_release_labels(manifest: Manifest) -> Manifest:
    """An object without the labels by which helm knows its own."""
    plain = copy.deepcopy(manifest)
    metadata = [plain["metadata"]]
    if plain["kind"] == "StatefulSet":
        metadata.append(plain["spec"]["template"]["metadata"])
    for each in metadata:
        assert each["labels"].pop("app.kubernetes.io/managed-by") == "Helm"
        assert each["labels"].pop("helm.sh/chart")
    return plain


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_pod_is_restricted(variant: str, tmp_path: Path) -> None:
    """The controls of the Pod Security level `restricted`, as the Kubernetes documentation lists them, and a read-only root."""
    (workload,) = [each for each in chart(tmp_path, VARIANTS[variant]) if each["kind"] == "StatefulSet"]
    pod = workload["spec"]["template"]["spec"]
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers", "ephemeralContainers"} & set(pod)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"sysctls", "seLinuxOptions", "windowsOptions", "appArmorProfile"} & set(pod["securityContext"])
    allowed = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
    assert {kind for volume in pod["volumes"] for kind in volume if kind != "name"} <= allowed
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [port for port in container["ports"] if "hostPort" in port] == []
    assert pod["automountServiceAccountToken"] is False
    # A Service named hindcast would else set HINDCAST_PORT=tcp://..., which is not a port.
    assert pod["enableServiceLinks"] is False


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_objects_of_the_chart_refer_to_each_other(variant: str, tmp_path: Path) -> None:
    objects = chart(tmp_path, VARIANTS[variant], release="team")
    (workload,) = [each for each in objects if each["kind"] == "StatefulSet"]
    pod = workload["spec"]["template"]
    labels, (container,) = pod["metadata"]["labels"].items(), pod["spec"]["containers"]
    ports = {port["name"] for port in container["ports"]}
    services = [each for each in objects if each["kind"] == "Service"]
    assert {port["targetPort"] for each in services for port in each["spec"]["ports"]} == ports
    for each in services:
        assert each["spec"]["selector"].items() <= labels
    for each in objects:
        if each["kind"] in ("NetworkPolicy", "PodDisruptionBudget"):
            selector = each["spec"].get("podSelector") or each["spec"]["selector"]
            assert selector["matchLabels"].items() <= labels
        if each["kind"] == "NetworkPolicy":
            assert {port["port"] for rule in each["spec"]["ingress"] for port in rule["ports"]} == ports
        if each["kind"] == "ServiceMonitor":
            wanted = each["spec"]["selector"]["matchLabels"].items()
            chosen = [service for service in services if wanted <= service["metadata"]["labels"].items()]
            assert [port["name"] for service in chosen for port in service["spec"]["ports"]] == ["sink"]
        if each["kind"] == "Certificate":
            mounted = [volume["secret"]["secretName"] for volume in pod["spec"]["volumes"] if volume["name"] == "tls"]
            assert mounted == [each["spec"]["secretName"]]
    assert workload["spec"]["serviceName"] in [each["metadata"]["name"] for each in services]
    assert workload["spec"]["selector"]["matchLabels"].items() <= labels
    names = {each["metadata"]["name"] for each in objects if each["kind"] == "ServiceAccount"}
    assert pod["spec"]["serviceAccountName"] in names
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    volumes |= {claim["metadata"]["name"] for claim in workload["spec"]["volumeClaimTemplates"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
