"""The documents are true: commands run and print the shown output, ARCHITECTURE's paths exist, each command has a name there."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.cli import COMMANDS, _loaded, run
from api.settings import Settings
from tests.serving import RunningServer
from tests.yaml_text import load_yaml

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
# The pages whose commands and code are run, in the order in which a reader meets them.
PAGES = ("first-report", "your-cluster", "decide", "roles", "webhooks", "commands", "server", "http", "python")
GUIDE = "\n".join([README, *((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in PAGES)])
CI = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")


WEBHOOKS = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: images}
webhooks:
- name: images.example.com
  clientConfig: {url: "https://images.example.com/"}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  admissionReviewVersions: [v1]
  sideEffects: None
"""
CHAIN = """
apiVersion: hindcast/v1alpha1
kind: AuthorizerChain
metadata: {name: teams}
spec:
  authorizers:
  - name: teams
    when: request.resource == "pods"
    conditions: [{id: team, effect: Deny, condition: 'object.metadata.labels.team == "secret"'}]
  - {name: roles, type: RBAC}
"""
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
"""


def blocks(language: str, text: str = GUIDE) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture(scope="module")
def checkout(demonstration: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the README's commands find what a checkout has, with the demonstration done."""
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "api").mkdir()
    shutil.copytree(ROOT / "api" / "demo", folder / "api" / "demo")
    shutil.copytree(demonstration / "out", folder / "demo-out")
    return folder


def console_commands() -> list[str]:
    lines = [line for block in blocks("console") for line in block.replace("\\\n", " ").splitlines()]
    found = [line for line in lines if line.removeprefix("$ ").startswith("hindcast ") and "serve" not in line.split()]
    return list(dict.fromkeys(" ".join(line.removeprefix("$ ").partition(" > ")[0].split()) for line in found))


@pytest.mark.parametrize("line", console_commands())
def test_the_commands_of_the_readme_run(checkout: Path, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    log, policies = tmp_path / "audit.log.zst", checkout / "api" / "demo" / "policies"
    shutil.copy(checkout / "api" / "demo" / "audit.jsonl.zst", log)
    namespaces = checkout / "api" / "demo" / "snapshot" / "namespaces.json.zst"
    arguments = shlex.split(line)[1:]
    # The places of a real cluster are replaced by the bundled ones; everything else is run as it is printed.
    places = {"/var/log/kubernetes/audit": str(tmp_path), "namespaces.json": str(namespaces), "my-policies/": str(policies)}
    roles = tmp_path / "roles.yaml"
    roles.write_text("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: view}, rules: []}")
    places |= {name: str(roles) for name in ("my-roles/", "my-old-roles/", "applier.yaml")}
    places |= {"extra.yaml": str(tmp_path / "extra.yaml")}
    places |= dict.fromkeys(("wide.json", "roles.json"), str(namespaces))
    for name, text in (("my-webhooks.yaml", WEBHOOKS), ("my-crd.yaml", DEFINITION), ("my-chain.yaml", CHAIN)):
        (tmp_path / name).write_text(text)
        places[name] = str(tmp_path / name)
    assert run(["-q", *(places.get(word, word) for word in arguments)]) == 0


def shown_outputs() -> list[tuple[str, list[str]]]:
    """Each command that README shows with its output, and that output in stretches of whole lines; `...` leaves lines out."""
    found = [re.fullmatch(r"\$ (hindcast [^\n]+)\n(.+)", block, re.DOTALL) for block in blocks("console", README)]
    return [(hit[1], re.split(r"^\.\.\.\n", hit[2], flags=re.MULTILINE)) for hit in found if hit]


@pytest.mark.parametrize(("line", "stretches"), shown_outputs())
def test_the_readme_shows_what_its_commands_print(
    checkout: Path, line: str, stretches: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(checkout)
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["-q", *shlex.split(line)[1:]]) == 0
    rest = capsys.readouterr().out
    assert rest.startswith(stretches[0])
    for stretch in stretches:
        _, found, rest = rest.partition(stretch)
        assert found, stretch


def test_the_readme_is_short_and_its_links_lead_somewhere() -> None:
    assert len(README.splitlines()) <= 150
    assert len(shown_outputs()) >= 2
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", README)]
    assert len(links) > 15
    assert [link for link in links if not (ROOT / link).is_file()] == []
    picture = (ROOT / "docs" / "pictures" / "report.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < 200_000


@pytest.mark.parametrize("code", blocks("python"))
def test_the_python_of_the_readme_runs(checkout: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})


def gate_scripts() -> list[tuple[str, str, set[str]]]:
    """Of each CI example: the script that holds the gate, the server that it asks, and the files that later steps take."""
    github, gitlab = (load_yaml(block) for block in blocks("yaml", CI))
    job: dict[str, Any] = github["jobs"]["gate"]
    (script,) = [step["run"] for step in job["steps"] if "hindcast gate" in step.get("run", "")]
    taken = {step["with"]["sarif_file"] for step in job["steps"] if "sarif_file" in step.get("with", {})}
    taken |= {"out/gate.md" for step in job["steps"] if "--body-file out/gate.md" in step.get("run", "")}
    taken |= {step["with"]["path"] for step in job["steps"] if "path" in step.get("with", {})}
    found = [(script, job["env"]["HINDCAST_SERVER"], taken)]
    script = "\n".join(gitlab["gate"]["script"])
    commented = set(re.findall(r"body=<([\w./]+)", " ".join(gitlab["gate"]["after_script"])))
    taken = {gitlab["gate"]["artifacts"]["reports"]["junit"], *commented}
    return [*found, (script, gitlab["gate"]["variables"]["HINDCAST_SERVER"], taken)]


@pytest.mark.server
def test_the_gates_of_the_ci_page_run_against_a_server(checkout: Path, tmp_path: Path) -> None:
    token = "0123456789abcdef0123456789abcdef"
    readers = tmp_path / "readers"
    readers.write_text(f"ci token:{token}\n")
    settings = Settings(lake=checkout / "demo-out" / "lake", sink=False, query_port=0, query_tokens=readers)
    policy = (checkout / "api" / "demo" / "policies" / "deny-external-ips.yaml").read_text()
    with RunningServer(settings, tmp_path / "log") as server:
        for number, (script, url, taken) in enumerate(gate_scripts()):
            assert url.startswith("https://")
            work = tmp_path / f"job-{number}" / "work"
            for folder in (work / "policies", work.parent / "before" / "policies"):
                folder.mkdir(parents=True)
                (folder / "external-ips.yaml").write_text(policy)
            environment = os.environ | {
                "HINDCAST_SERVER": f"http://127.0.0.1:{server.port}",
                "HINDCAST_TOKEN": token,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            }
            done = subprocess.run(
                ["bash", "-e", "-c", script], cwd=work, env=environment, capture_output=True, text=True, timeout=300, check=False
            )
            assert done.returncode == 0, done.stderr
            assert "NO NEW DENIALS" in done.stdout
            assert taken
            assert all((work / name).stat().st_size for name in taken)
            assert commented(work, environment, number) == (work / "out" / "gate.md").read_text(encoding="utf-8")


# GitHub takes comments of up to so many characters.
_COMMENT_MAX = 65_536
# In place of the clients of GitHub and GitLab: keeps the text that it would send.
_CLIENT = """#!/usr/bin/env python3
import re, sys
(file,) = re.findall(r"(?:--body-file |body=<)(\\S+)", " ".join(sys.argv))
open("sent.md", "w").write(open(file).read())
"""


def commented(work: Path, environment: dict[str, str], number: int) -> str:
    """What the comment step of a CI example sends."""
    github, gitlab = (load_yaml((ROOT / "deploy" / "ci" / name).read_text(encoding="utf-8")) for name in CI_FILES)
    steps = [step["run"] for step in github["jobs"]["gate"]["steps"] if "gh pr comment" in step.get("run", "")]
    script = (steps + gitlab["gate"]["after_script"])[number]
    clients = work.parent / "clients"
    clients.mkdir()
    for name in ("gh", "curl"):
        (clients / name).write_text(_CLIENT)
        (clients / name).chmod(0o755)
    path = {"PATH": f"{clients}:{environment['PATH']}"}
    subprocess.run(["bash", "-e", "-c", script], cwd=work, env={**environment, **path}, check=True, timeout=60)
    text = (work / "sent.md").read_text(encoding="utf-8")
    assert text.startswith("#")
    assert len(text) <= _COMMENT_MAX
    return text


CI_FILES = ("github.yaml", "gitlab.yaml")


@pytest.mark.parametrize(("name", "block"), [*zip(CI_FILES, blocks("yaml", CI), strict=True)])
def test_the_files_for_ci_are_those_of_the_page(name: str, block: str) -> None:
    first, rest = (ROOT / "deploy" / "ci" / name).read_text(encoding="utf-8").split("\n", 1)
    assert first.startswith("# ")
    assert rest == block


def test_the_options_of_the_ci_page_exist(capsys: pytest.CaptureFixture[str]) -> None:
    known = set()
    for name in COMMANDS:
        run([name, "--help"])
        known |= set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out))
    others = set(re.findall(r"--[a-z][a-z-]+", " ".join(line for line in CI.splitlines() if "curl" in line)))
    others |= {"--edit-last", "--create-if-none", "--body-file"}
    assert set(re.findall(r"--[a-z][a-z-]+", CI)) - others <= known


@pytest.mark.parametrize("language", ["console", "python", "toml"])
def test_code_fits_a_terminal_of_80_columns(language: str) -> None:
    code = blocks(language) + (blocks(language, CI) if language == "console" else [])
    assert [line for block in code for line in block.splitlines() if len(line) > 80] == []


def test_every_command_is_documented() -> None:
    documented = set(re.findall(r"^\| `hindcast ([\w-]+)`", GUIDE, re.MULTILINE))
    assert set(COMMANDS) == documented


def test_the_paths_of_the_architecture_page_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    paths = re.findall(r"`((?:ingest|queries|pipeline|api|tests|notebooks)/[\w./-]*|[\w-]+\.(?:toml|txt|md))`", text)
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_dependency_is_explained_and_pinned() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = re.search(r"^dependencies = \[(.*?)^\]", project, re.DOTALL | re.MULTILINE)
    assert block is not None
    names = re.findall(r'"([\w-]+)(?:\[\w+\])?>=', block[1])
    assert len(names) > 10
    architecture = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().replace("_", "-")
    assert [name for name in names if f"{name}==" not in pinned] == []
    assert [name for name in names if name not in architecture] == []


def test_python_versions_agree() -> None:
    assert sys.version_info >= (3, 11)
    assert 'requires-python = ">=3.11"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


# Words that hide who does something, or that are not plain English.
UNPLAIN = re.compile(r"\b(?:[Nn]obody|anew|[Bb]esides?|of which|tells? of|(?:is|are|was|were|be) told|(?:is|are) none)\b")
PLAIN = (
    "api",
    "hindcast",
    "ingest",
    "queries",
    *(f"pipeline/{name}" for name in ("manifests", "readiness", "report", "runs", "stages")),
)


def docstrings(file: Path) -> Iterator[str]:
    """The docstrings of a module, of its classes and of its functions; those of commands are their help texts."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ""


@pytest.mark.parametrize("folder", PLAIN)
def test_docstrings_and_help_are_plain_english(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    found = [(str(file.relative_to(ROOT)), hit[0]) for file in files for text in docstrings(file) for hit in UNPLAIN.finditer(text)]
    assert found == []


SENTENCE_WORDS_MAX = 25
DOCUMENTS = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "ARCHITECTURE.md",
    *sorted(str(file.relative_to(ROOT)) for file in (ROOT / "docs").rglob("*.md")),
]


def long_sentences(text: str) -> list[str]:
    """Sentences that a reader has to read twice. Code counts as one word; cells of tables, items of lists and clauses after a colon
    or semicolon count apart."""
    plain = re.sub(r"`[^`]*`", "code", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    blocks = re.split(r"\n\s*\n|\n\s*[-*|#>]|\n\s*\d+\. |\|", plain)
    sentences = [sentence for block in blocks for sentence in re.split(r"(?<=[.!?:;])\s+", block)]
    return [" ".join(sentence.split()) for sentence in sentences if len(sentence.split()) > SENTENCE_WORDS_MAX]


@pytest.mark.parametrize("file", DOCUMENTS)
def test_documents_are_plain_english(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    assert [hit[0] for hit in UNPLAIN.finditer(re.sub(r"```.*?```", "", text, flags=re.DOTALL))] == []
    assert long_sentences(text) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_short_sentences_and_fits_a_terminal(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    described = _loaded(command)
    assert [each for text in (described.help, *(one.help for one in described.params)) for each in long_sentences(text or "")] == []
    assert run([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    # Types of Python say nothing to a user: an option takes a PATH, a TIME, a NUMBER.
    assert re.findall(r"^  (?:-\w, )?--[\w-]+ <(?:list|str|int|float|path)\b.*", shown, re.MULTILINE) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_plain_english(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == 0
    assert [hit[0] for hit in UNPLAIN.finditer(" ".join(capsys.readouterr().out.split()))] == []
