"""The notebooks run on the bundled log from top to bottom, draw pictures, and use only what is public."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hindcast

FOLDER = Path(__file__).parents[2] / "notebooks"
NAMES = ("01_look", "02_ask", "03_replay", "04_decide", "05_definitions", "06_prove", "07_webhooks")
OURS = ("ingest", "queries", "pipeline", "api")


def notebook(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


def code(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in data["cells"] if cell["cell_type"] == "code"]


def _pictures(cells: list[dict[str, Any]]) -> list[str]:
    outputs = [output for cell in cells for output in cell["outputs"]]
    return ["".join(output["data"]["image/svg+xml"]) for output in outputs if "image/svg+xml" in output.get("data", {})]


def test_there_are_seven() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_results_and_pictures_are_kept(name: str) -> None:
    """As `make notebooks` leaves them, so that a reader sees what each cell gives; nothing of the machine that ran them is kept."""
    data = notebook(FOLDER / f"{name}.ipynb")
    assert all(cell["execution_count"] for cell in code(data))
    assert _pictures(code(data))
    text = json.dumps(data)
    assert re.findall(r"(?:/home|/root|/tmp|/work|/Users|/usr)/[\w.]+", text) == []
    assert [output for cell in code(data) for output in cell["outputs"] if output["output_type"] == "error"] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_imports_nothing_else_of_ours(name: str) -> None:
    for cell in code(notebook(FOLDER / f"{name}.ipynb")):
        for node in ast.walk(ast.parse("".join(cell["source"]))):
            if isinstance(node, ast.ImportFrom):
                assert node.module is not None
                assert node.module.partition(".")[0] not in (*OURS, "hindcast")
            if isinstance(node, ast.Import):
                assert not {alias.name.partition(".")[0] for alias in node.names} & set(OURS)
            if isinstance(node, ast.Attribute):
                assert not node.attr.startswith("_"), node.attr
                if isinstance(node.value, ast.Name) and node.value.id == "hindcast":
                    assert node.attr in hindcast.__all__


def test_every_name_of_the_module_is_there_and_has_words() -> None:
    assert sorted(hindcast.__all__) == hindcast.__all__ == dir(hindcast)
    assert all(getattr(hindcast, name).__doc__ for name in hindcast.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = hindcast.nothing


@pytest.fixture(scope="module")
def executed(stretched_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Each notebook with its results, run as `make notebooks` runs them."""
    out = tmp_path_factory.mktemp("notebooks")
    places = {name: str(out / name.lower()) for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR")}
    # In the folder's order, as a reader runs them. A process of its own: kernels and their event loops leave nothing behind here.
    done = subprocess.run(
        [
            *(sys.executable, "-m", "jupyter", "execute", f"--output={out}/{{notebook_name}}", "--timeout=120"),
            *(str(FOLDER / f"{name}.ipynb") for name in NAMES),
        ],
        env={**os.environ, **places, "HINDCAST_LAKE": str(stretched_lake)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return {name: notebook(out / f"{name}.ipynb") for name in NAMES}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
def test_it_runs_and_draws(executed: dict[str, dict[str, Any]], name: str) -> None:
    outputs = [output for cell in code(executed[name]) for output in cell["outputs"]]
    assert [output for output in outputs if output["output_type"] == "error"] == []
    drawn = _pictures(code(executed[name]))
    assert drawn
    # An empty answer would draw axes and no marks.
    marks = ("bar", "rect mark", "circle", "point", "rule mark")
    assert all(any(f'aria-roledescription="{mark}"' in svg for mark in marks) for svg in drawn)


@pytest.mark.timeout(900)
def test_the_decision_is_printed(executed: dict[str, dict[str, Any]]) -> None:
    printed = "".join(
        "".join(output.get("text", "")) for cell in code(executed["04_decide"]) for output in cell["outputs"] if "text" in output
    )
    assert "image-registry: NOT READY" in printed
    assert "deny-external-ips: NOT READY" in printed
