"""The wheel has everything that the program reads at run time, and the two commands."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tests.yaml_text import load_yaml

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the source archive, as `make dist` builds them."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    assert "\t$(BIN)/python -m hatchling build -d dist\n" in (ROOT / "Makefile").read_text()
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


def test_the_source_archive_has_what_the_wheel_is_built_from(dist: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "SECURITY.md", "docs/pictures/report.png", "deploy/Containerfile"} <= names
    assert {"api/cli.py", "api/demo/audit.jsonl.zst", "queries/views/requests.sql", "pipeline/__init__.py"} <= names


def test_the_wheel_runs_the_demonstration_in_an_environment_of_its_own(dist: Path, tmp_path: Path) -> None:
    """Without a network: the packages that Hindcast needs are those of the present environment, on the path after its own."""
    (wheel,) = dist.glob("*.whl")
    home = tmp_path / "environment"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    install = [python, "-m", "pip", "install", "--no-index", "--no-deps", "--disable-pip-version-check", wheel]
    subprocess.run(install, check=True, capture_output=True)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "needed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    where = subprocess.run(
        [python, "-c", "import api; print(api.__file__)"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert Path(where.stdout.strip()).is_relative_to(packages)
    done = subprocess.run(
        [home / "bin" / "hindcast", "--quiet", "demo"], cwd=tmp_path, check=False, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "NOT READY" in done.stdout
    assert (tmp_path / "demo-out" / "report.html").stat().st_size > 10_000
    # What the README asks next, with the wheel alone.
    asked = [home / "bin" / "hindcast", "-q", "--lake", "demo-out/lake", "policy", "check", "-f", "demo-out/policies"]
    done = subprocess.run(asked, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_wheel_is_whole(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    packages = ("ingest", "queries", "pipeline", "api", "hindcast")
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


@pytest.fixture(scope="module")
def release(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the files of a release."""
    out = tmp_path_factory.mktemp("release")
    command = [sys.executable, "deploy/release", "--dist", str(dist), "--url", f"{RELEASES}/", "--out", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return out


RELEASES = "https://releases.example.com/v1"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_the_krew_manifest_leads_to_its_archive(release: Path) -> None:
    """Fields: krew.sigs.k8s.io, "Writing Krew plugin manifests"."""
    manifest = load_yaml((release / "hindcast.krew.yaml").read_text())
    assert (manifest["kind"], manifest["metadata"]["name"], manifest["spec"]["version"]) == ("Plugin", "hindcast", f"v{VERSION}")
    assert len(manifest["spec"]["shortDescription"]) <= 50
    (platform,) = manifest["spec"]["platforms"]
    base, _, name = platform["uri"].rpartition("/")
    assert base == RELEASES
    assert platform["sha256"] == hashlib.sha256((release / name).read_bytes()).hexdigest()
    with tarfile.open(release / name) as archive:
        files = {entry.name: entry.mode for entry in archive}
    assert {each["from"] for each in platform["files"]} == set(files)
    assert files[platform["bin"]] & 0o111


@pytest.mark.parametrize(("tool", "leading"), [("uv", ["tool", "run", "--from"]), ("pipx", ["run", "--spec"]), ("", [])])
def test_the_plugin_runs_this_version_with_what_there_is(release: Path, tmp_path: Path, tool: str, leading: list[str]) -> None:
    with tarfile.open(release / f"kubectl-hindcast-{VERSION}.tar.gz") as archive:
        script = archive.extractfile("kubectl-hindcast")
        assert script is not None
        (tmp_path / "kubectl-hindcast").write_bytes(script.read())
    tools = tmp_path / "tools"
    tools.mkdir()
    if tool:
        (tools / tool).write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        (tools / tool).chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", tmp_path / "kubectl-hindcast", "a b", "c"],
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        check=False,
    )
    if tool:
        assert done.stdout.splitlines() == [*leading, f"kube-hindcast=={VERSION}", "kubectl-hindcast", "a b", "c"]
    else:
        assert (done.returncode, "neither uv nor pipx" in done.stderr) == (2, True)


def test_the_formula_and_the_image_are_of_this_version(release: Path, dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    formula = (release / "kube-hindcast.rb").read_text()
    wanted = {wheel: f'url "{RELEASES}/{wheel.name}"', release / "constraints.txt": f'url "{RELEASES}/constraints.txt"'}
    for path, url in wanted.items():
        assert url in formula
        assert f'sha256 "{hashlib.sha256(path.read_bytes()).hexdigest()}"' in formula
    assert f'version "{VERSION}"' in formula
    assert (release / "constraints.txt").read_bytes() == (ROOT / "constraints.txt").read_bytes()
    ours, theirs = ((folder / "Containerfile").read_text() for folder in (ROOT / "deploy", release))
    assert f"COPY {wheel.name} constraints.txt /src/\n" in theirs
    assert f"--disable-pip-version-check /src/{wheel.name}\n" in theirs
    assert f'LABEL org.opencontainers.image.version="{VERSION}"' in theirs
    # Who runs in it, and how, is the same.
    assert theirs.partition("EXPOSE")[2] == ours.partition("EXPOSE")[2]
    assert [line for line in theirs.splitlines() if line.startswith("USER")] == ["USER 65532:65532"]


def test_the_release_workflow_runs_what_is_there(release: Path) -> None:
    """It is not run here. Its commands are those of this repository, and each job may do no more than it needs."""
    workflow = load_yaml((ROOT / ".github/workflows/release.yml").read_text())
    assert workflow["permissions"] == {}
    jobs = workflow["jobs"]
    assert {name: sorted(job["permissions"]) for name, job in jobs.items()} == {
        "build": ["attestations", "contents", "id-token"],
        "publish": ["contents", "id-token"],
    }
    commands = "\n".join(step.get("run", "") for job in jobs.values() for step in job["steps"])
    for target in re.findall(r"^make (\w+)", commands, re.MULTILINE):
        assert f"\n{target}:" in (ROOT / "Makefile").read_text()
    for path in re.findall(r"python (\S+) --dist", commands):
        assert (ROOT / path / "__main__.py").exists()
    used = [step["uses"].partition("@")[0] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert {"actions/attest-build-provenance", "actions/attest-sbom", "pypa/gh-action-pypi-publish"} <= set(used)
