"""The wheel has everything that the program reads at run time, and the two commands."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]


def test_the_wheel_is_whole(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    packages = ("ingest", "queries", "pipeline", "api")
    wanted = {
        str(path.relative_to(ROOT))
        for package in packages
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix not in (".pyc",) and "__pycache__" not in path.parts
    }
    assert len(wanted) > 200
    assert wanted - names == set()
    assert {name.split("/")[0] for name in names} - set(packages) == {next(n for n in names if ".dist-info" in n).split("/")[0]}
    (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
    text = zipfile.ZipFile(wheel).read(entry_points).decode()
    assert "hindcast = api.cli:main" in text
    assert "kubectl-hindcast = api.cli:main" in text


def pins() -> list[tuple[str, str]]:
    """Each package of constraints.txt with its version."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [(name, version) for name, version in (line.split("==") for line in lines if re.match(r"[A-Za-z]", line))]


@pytest.mark.parametrize("python", ["3.11.0", "3.11.2", "3.12.0", "3.13.0", "3.14.0"])
def test_each_pinned_version_may_be_installed_on_every_python_that_the_project_promises(python: str) -> None:
    promised = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert python in SpecifierSet(promised)
    found = {name: _requires_python(name, version) for name, version in pins()}
    assert len(found) > 100
    assert {name: wanted for name, wanted in found.items() if python not in SpecifierSet(wanted)} == {}


@cache
def _requires_python(name: str, version: str) -> str:
    """The Pythons that an installed package takes; any, for a package that is not installed here."""
    try:
        installed = distribution(name)
    except PackageNotFoundError:
        return ""
    assert installed.version == version, f"{name}: {installed.version} is installed, constraints.txt pins {version}"
    return str(installed.metadata.get("Requires-Python") or "")
