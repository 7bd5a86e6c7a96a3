"""What the documents say is true: README's commands run, ARCHITECTURE's paths exist, the changelog names every command."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from api.cli import COMMANDS, run

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the README's commands find what a checkout has, with the demonstration done."""
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "api").mkdir()
    shutil.copytree(ROOT / "api" / "demo", folder / "api" / "demo")
    assert run(["-q", "demo", "--out", str(folder / "demo-out")]) == 0
    return folder


def console_commands() -> list[str]:
    lines = [line for block in blocks("console") for line in block.splitlines()]
    return [line.replace(".venv/bin/", "") for line in lines if "hindcast" in line and "serve" not in line]


@pytest.mark.parametrize("line", console_commands())
def test_the_commands_of_the_readme_run(checkout: Path, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    log, policies = tmp_path / "audit.log.zst", checkout / "api" / "demo" / "policies"
    shutil.copy(checkout / "api" / "demo" / "audit.jsonl.zst", log)
    namespaces = checkout / "api" / "demo" / "snapshot" / "namespaces.json.zst"
    arguments = shlex.split(line)[1:]
    # The places of a real cluster are replaced by the bundled ones; everything else is run as it is printed.
    places = {"/var/log/kubernetes/audit": str(tmp_path), "namespaces.json": str(namespaces), "my-policies/": str(policies)}
    assert run(["-q", *(places.get(word, word) for word in arguments)]) == 0


@pytest.mark.parametrize("code", blocks("python"))
def test_the_python_of_the_readme_runs(checkout: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})


def test_every_command_is_documented() -> None:
    documented = set(re.findall(r"^\| `hindcast (\w+)`", README, re.MULTILINE))
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
