"""The pages about clusters, operations and verdicts are followed step by step: each command that needs no cluster is run.

Commands of hindcast run as printed, with bundled data in place of a real cluster's. `serve` is only parsed. Commands that write to
a cluster or to its machines are not run: what they name has to exist in the chart, and every flag has to be one of kube-apiserver.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.cli import _loaded, run
from api.commands.init import _FLAGS
from tests.test_documents import blocks
from tests.yaml_text import load_yaml

from .rendering import CHART, KUSTOMIZE, ROOT, by_name, chart, kustomization, objects_of
from .schemas import faults
from .tools import run_program

DOCS = ROOT / "docs"
# Other pages have tests of their own: tests/test_documents.py and those of the object store.
PAGES = [*sorted((DOCS / "clusters").glob("*.md")), DOCS / "operations.md", DOCS / "unknown.md", DOCS / "verdicts.md"]
REFERENCE = ROOT.parent / "shared" / "reference" / "kubernetes.md"


def lines(page: Path) -> Iterator[str]:
    """The commands of a page, each on one line."""
    for block in blocks("console", page.read_text(encoding="utf-8")):
        yield from (" ".join(line.split()) for line in block.replace("\\\n", " ").splitlines())


def documents(page: Path) -> list[Any]:
    """The YAML of a page."""
    return [load_yaml(block) for block in blocks("yaml", page.read_text(encoding="utf-8"))]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory, demo_lake: Path) -> Path:
    """A folder with what the pages take for granted: a lake, policies, and a log."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "api").mkdir()
    shutil.copytree(ROOT / "api" / "demo", folder / "api" / "demo")
    shutil.copytree(ROOT / "api" / "demo" / "policies", folder / "demo-out" / "policies")
    for name in ("demo-out/lake", "lake"):
        shutil.copytree(demo_lake, folder / name)
    (folder / "logs").mkdir()
    shutil.copy(folder / "api" / "demo" / "audit.jsonl.zst", folder / "logs")
    return folder


def hindcast_lines() -> list[tuple[str, str]]:
    return [(page.name, line) for page in PAGES for line in lines(page) if line.startswith("hindcast ")]


def test_there_are_commands_on_every_page() -> None:
    assert {page.name for page in PAGES} == {name for name, _ in hindcast_lines()}


# The places of a real cluster.
PLACES = dict.fromkeys(("/var/log/kubernetes/audit", "s3://audit-logs/prod-1", "export/"), "logs")
PLACES["my-policies/"] = "demo-out/policies"
# Answers that are no failure: this log withholds evidence, and shows doubtful evidence.
ANSWERS = {"--check": {0, 1}, "doctor": {0, 1, 3}}


def distinct_commands() -> list[str]:
    """The commands of all pages with the bundled places, each once: a question costs the same for any name of the lake."""
    found = {}
    for _, line in hindcast_lines():
        words = [PLACES.get(word, word) for word in shlex.split(line)[1:]]
        if "readiness" in words:
            words[words.index("--lake") + 1] = "demo-out/lake"
            words = [word for word in words if word not in ("-o", "wide")]
        found[shlex.join(words)] = None
    return list(found)


@pytest.mark.parametrize("command", distinct_commands())
def test_the_commands_of_the_pages_run(command: str, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
    words = shlex.split(command)
    if "serve" in words:
        context = _loaded("serve").make_context("serve", words[words.index("serve") + 1 :])
        named = [Path(context.params[name]) for name in ("identities", "tls_certificate", "tls_key") if context.params[name]]
        # `hindcast init` on the same page wrote these files.
        assert [str(path) for path in named if not path.exists()] == []
        return
    if "--make-certificate" in words:
        words.append("--force")
    answers = [codes for word, codes in ANSWERS.items() if word in words]
    assert run(["-q", *words]) in (answers or [{0}])[0]


def values_of_the_page() -> dict[str, Any]:
    (values,) = documents(DOCS / "clusters" / "index.md")
    found: dict[str, Any] = values
    return found


def test_the_commands_of_helm_and_kustomize_render(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`helm install` and `kubectl apply -k` are asked what they would send."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values_of_the_page()))
    (install, upgrade) = [line for line in lines(DOCS / "clusters" / "index.md") if re.match("helm (install|upgrade) ", line)]
    assert install.split()[2:] == upgrade.split()[2:], "an upgrade takes the chart and the values of the installation"
    words = shlex.split(install.replace("deploy/chart", str(CHART)).replace("values.yaml", str(tmp_path / "values.yaml")))
    assert words[:2] == ["helm", "install"]
    sent = by_name(objects_of(run_program("helm", "template", *words[2:], home=tmp_path)))
    assert sent["Service", "hindcast-sink"]["spec"]["clusterIP"] == "10.96.7.43"
    assert [wrong for each in sent.values() for wrong in faults(each, "1.36")] == []
    (apply,) = [line for line in lines(DOCS / "clusters" / "index.md") if line.startswith("kubectl apply")]
    assert kustomization(tmp_path, ROOT / apply.split()[-1])
    assert ROOT / apply.split()[-1] == KUSTOMIZE / "example"


def test_the_pages_name_objects_that_the_chart_makes(tmp_path: Path) -> None:
    objects = by_name(chart(tmp_path, values_of_the_page()))
    kinds = {"statefulset": "StatefulSet", "service": "Service", "pod": "Pod"}
    named = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        named += re.findall(r"\b(statefulset|service)/([\w-]+)", text)
    assert len(named) >= 3
    assert {(kind, name) for kind, name in named if (kinds[kind], name) not in objects} == set()
    pod = objects["StatefulSet", "hindcast"]["spec"]["template"]["spec"]
    made = {line.split()[-3] for line in lines(DOCS / "clusters" / "index.md") if " create secret tls" in line}
    made |= {line.split()[6] for line in lines(DOCS / "clusters" / "index.md") if " create secret generic" in line}
    assert {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume} == made


def flags(page: str) -> dict[str, str]:
    """The flags of kube-apiserver on a page about a cluster, with their values."""
    if page == "kubeadm.md":
        return {each["name"]: each["value"] for each in documents(DOCS / "clusters" / page)[0]["apiServer"]["extraArgs"]}
    if page == "k3s.md":
        return dict(each.split("=", 1) for each in documents(DOCS / "clusters" / page)[0]["kube-apiserver-arg"])
    patch = documents(DOCS / "clusters" / page)[0]["nodes"][0]["kubeadmConfigPatches"][0]
    found: dict[str, str] = load_yaml(patch)["apiServer"]["extraArgs"]
    return found


RUN_BY_YOU = ["kubeadm.md", "k3s.md", "kind.md"]


@pytest.mark.parametrize("page", RUN_BY_YOU)
def test_flags_are_those_that_init_prints(page: str) -> None:
    printed = dict(word.removeprefix("--").split("=", 1) for flag, _ in _FLAGS for word in flag.split())
    given = flags(page)
    assert set(given) <= set(printed)
    assert {name: value for name, value in given.items() if "/" not in value and printed[name] != value} == {}
    assert {"audit-policy-file", "audit-webhook-config-file", "audit-webhook-initial-backoff"} <= set(given)


@pytest.mark.skipif(not REFERENCE.exists(), reason="the reference lies next to the checkout")
@pytest.mark.parametrize("page", RUN_BY_YOU)
def test_flags_are_flags_of_kube_apiserver(page: str) -> None:
    # The reference describes the audit policy, but does not name the flag of its file.
    known = REFERENCE.read_text(encoding="utf-8") + " --audit-policy-file"
    assert [name for name in flags(page) if f"--{name}" not in known] == []


def test_kubeadm_mounts_the_files_of_the_flags() -> None:
    kubeadm = documents(DOCS / "clusters" / "kubeadm.md")[0]["apiServer"]
    kind = documents(DOCS / "clusters" / "kind.md")[0]["nodes"][0]
    patched = load_yaml(kind["kubeadmConfigPatches"][0])["apiServer"]
    for page, server in (("kubeadm.md", kubeadm), ("kind.md", patched)):
        mounted = [volume["mountPath"] for volume in server["extraVolumes"]]
        paths = [value for value in flags(page).values() if value.startswith("/")]
        assert [path for path in paths if not any(path.startswith(f"{place}/") for place in mounted)] == []
    # kind mounts the folder of `hindcast init` from the machine into the node.
    assert kind["extraMounts"][0]["containerPath"] == patched["extraVolumes"][0]["hostPath"]
    assert kind["extraMounts"][0]["hostPath"] == "try"


@pytest.mark.parametrize("page", RUN_BY_YOU)
def test_files_of_the_flags_are_those_that_init_writes(page: str, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
    (init,) = [
        line for line in lines(DOCS / "clusters" / page) if line.startswith("hindcast init") and "--make-certificate" in line
    ]
    assert run(["-q", *shlex.split(init)[1:], "--force"]) == 0
    out = Path(init.split("--out ")[1])
    names = [Path(value).name for name, value in flags(page).items() if name in ("audit-policy-file", "audit-webhook-config-file")]
    assert len(names) == 2
    assert [name for name in names if not (out / name).exists()] == []
