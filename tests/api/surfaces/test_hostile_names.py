"""Hostile names in every output that another program reads: an independent reader finds the names, and nothing that they add."""

from __future__ import annotations

import csv
import io
import json
import shlex
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from api.cli import run
from pipeline.manifests.shell import command_line
from pipeline.manifests.writing import comment, to_yaml
from tests.hostile import MANIFESTS, right_events
from tests.recording import Log, Object, deployment, take_in

BOUND = "\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: mallory}\n---\n#"
NAMES = (
    f"x{BOUND}",
    f"x{BOUND}".replace("\n", "\r"),
    f"x{BOUND}".replace("\n", "\x85"),
    f"x{BOUND}".replace("\n", "\u2028"),
    "--all",
    "-n",
    "$(touch pwned)",
    "`touch pwned`",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "]]></failure><testcase name='y'/>",
    "</script><script>alert(1)</script>",
    "a | b | c\n\n# Title\n\n<img src=x>",
    "=cmd|' /C calc'!A1",
    "\x1b[2J\x07",
    "..",
    "a/b%2fc",
    "!!python/object:x",
    "&a [*a]",
    "{{7*7}}",
    "\ud800".encode("utf-8", "replace").decode(),
)


def events() -> list[Object]:
    log = Log()
    for number, name in enumerate(NAMES):
        path = f"/apis/apps/v1/namespaces/{quote(name, safe='')}/deployments"
        obj = deployment(f"web-{number}", 9, labels={"app": "web", "team": "t"})
        obj["metadata"] |= {"namespace": name, "name": name, "labels": {"app": name}}
        obj["spec"]["template"] = {"spec": {"containers": [{"name": "c", "image": name}]}}
        log.write("create", obj, user=name, groups=[name], userAgent=name, requestURI=path)
        pod: Object = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": name}]}}
        pod["metadata"] = {"name": name, "namespace": name, "uid": f"p{number}", "resourceVersion": "9"}
        log.write("create", pod, user=name, requestURI=f"/api/v1/namespaces/{quote(name, safe='')}/pods")
    # A real namespace, whose user has an odd name.
    for number, name in enumerate(NAMES):
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "i"}]}}
        pod["metadata"] = {"name": f"real-{number}", "namespace": "shop", "uid": f"r{number}", "resourceVersion": "9"}
        log.write("create", pod, user=name, requestURI="/api/v1/namespaces/shop/pods")
    for number, line in enumerate(log.lines):
        line["auditID"] = f"odd-{number}"
    return [*right_events(), *log.lines]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return take_in(tmp_path_factory.mktemp("names") / "lake", events())


def printed(lake: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    code = run(["-q", "--lake", str(lake), *words])
    found = capsys.readouterr()
    assert code in (0, 1, 3), (words, code, found.err[-2000:])
    assert "\x1b[2J" not in found.out
    return found.out


def documents(text: str) -> list[Any]:
    return [each for each in yaml.safe_load_all(text) if each is not None]


@pytest.mark.parametrize("number", range(len(NAMES)))
def test_roles_are_those_of_the_user_alone(lake: Path, capsys: pytest.CaptureFixture[str], number: int) -> None:
    name = NAMES[number]
    found = documents(printed(lake, capsys, "least-privilege", f"--subject={name}", "--since", "2020-01-01"))
    assert {each["kind"] for each in found} <= {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
    for each in found:
        assert each["metadata"]["name"].startswith("least-")
        assert len(each["metadata"]["name"]) <= 253
        assert each["metadata"].get("namespace", "shop") == "shop"
        for subject in each.get("subjects", ()):
            assert subject == {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}


def test_labels_are_those_of_namespaces_that_can_exist(lake: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    manifests = documents(printed(lake, capsys, "pod-security", "-o", "manifests"))
    assert {each["kind"] for each in manifests} == {"Namespace"}
    assert {each["metadata"]["name"] for each in manifests} <= {"shop", "lab"}
    lines = printed(lake, capsys, "pod-security", "-o", "kubectl").splitlines()
    assert lines
    for line in lines:
        words = shlex.split(line)
        assert words[:5] == ["kubectl", "label", "--overwrite", "namespace", "--"]
        assert words[5] in ("shop", "lab")
        assert all(word.startswith("pod-security.kubernetes.io/") for word in words[6:])
    script = tmp_path / "labels.sh"
    script.write_text("\n".join(lines))
    subprocess.run(["bash", "-n", str(script)], check=True)
    capsys.readouterr()
    assert run(["--lake", str(lake), "pod-security", "-o", "kubectl"]) == 0
    assert "no namespace can have these names" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["json", "yaml", "csv", "junit", "sarif", "openreports", "policyreport", "markdown", "html"])
@pytest.mark.parametrize("given", ["policies", "webhooks", "roles"])
def test_reports_are_read_by_others_as_they_were_meant(
    lake: Path, capsys: pytest.CaptureFixture[str], given: str, form: str
) -> None:
    text = printed(lake, capsys, "readiness", "-f", str(MANIFESTS / f"{given}.yaml"), "-o", form)
    match form:
        case "json" | "sarif":
            json.loads(text)
        case "junit":
            names = {each.tag for each in ET.fromstring(text).iter()}
            assert names <= {
                "testsuites",
                "testsuite",
                "testcase",
                "failure",
                "error",
                "skipped",
                "properties",
                "property",
                "system-out",
                "system-err",
            }
            assert not [each for each in ET.fromstring(text).iter("testcase") if each.get("name") == "y"]
        case "csv":
            widths = {len(row) for row in csv.reader(io.StringIO(text)) if row}
            assert len(widths) == 1
        case "yaml" | "openreports" | "policyreport":
            kinds = {each.get("kind") for each in documents(text) if isinstance(each, dict)}
            assert "ClusterRoleBinding" not in kinds
        case "markdown":
            assert "# Title" not in text.splitlines()
            assert not [line for line in text.splitlines() if line.startswith("<img")]
        case "html":
            assert "<script>alert(1)" not in text
            assert "<img src=x>" not in text


@pytest.mark.parametrize("form", ["manifests", "merge-patch", "json-patch"])
def test_exemptions_change_nothing_but_the_given_objects(
    lake: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, form: str
) -> None:
    text = printed(lake, capsys, "exemptions", "-f", str(MANIFESTS / "policies.yaml"), "-o", form)
    if form == "json-patch":
        json.loads(text)
        return
    kinds = {each["kind"] for each in documents(text)}
    assert kinds <= {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    commands = [line[2:] for line in text.splitlines() if line.startswith(("# kubectl", "# printf"))]
    script = tmp_path / "patches.sh"
    script.write_text("\n".join(commands))
    subprocess.run(["bash", "-n", str(script)], check=True)


HOSTILE = st.text(st.sampled_from("\n\r\t\x85\u2028\u2029\x00\x1b'\"\\$`;|&-#: {}[]!*%@ab\u202eé"), max_size=24)


@given(HOSTILE)
def test_a_comment_is_one_line_whatever_it_says(text: str) -> None:
    assert documents(comment(text) + to_yaml([{"a": 1}])) == [{"a": 1}]
    assert comment(text).count("\n") == 1


@given(st.lists(HOSTILE, min_size=1, max_size=4))
def test_a_command_has_the_words_that_it_was_made_of(words: list[str]) -> None:
    line = command_line(words)
    assert "\n" not in line
    # bash has no word with NUL in it.
    if "\x00" in "".join(words):
        return
    told = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    ).stdout.decode()
    assert told.split("\0")[:-1] == words


@given(HOSTILE)
def test_an_object_is_read_as_it_was_written(text: str) -> None:
    assert documents(to_yaml([{"kind": text, text: [text]}])) == [{"kind": text, text: [text]}]
