"""The wheel has everything that the program reads at run time, and the two commands."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

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
