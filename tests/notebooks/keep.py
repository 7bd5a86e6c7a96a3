"""Runs the notebooks on the bundled log, and keeps their results in them: `make notebooks`."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "notebooks"


def kept(data: dict[str, Any]) -> dict[str, Any]:
    """A notebook without what differs from run to run: times, and names of cells that only the program that ran it knows."""
    for cell in data["cells"]:
        cell["metadata"].pop("execution", None)
    data["metadata"].pop("language_info", None)
    return data


def main() -> None:
    """Run all of them in their order."""
    files = sorted(FOLDER.glob("*.ipynb"))
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "jupyter", "execute", f"--output={out}/{{notebook_name}}", *map(str, files)]
        subprocess.run(command, check=True)
        for file in files:
            data = kept(json.loads((Path(out) / file.name).read_text(encoding="utf-8")))
            file.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
