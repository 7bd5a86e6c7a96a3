"""`python -m docs.generator.picture`: the picture of a report in README.md, taken of the bundled log's report with Chromium."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PICTURE = Path(__file__).parents[1] / "pictures" / "report.png"
SIZE = (1000, 660)
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def take(report: Path, out: Path, size: tuple[int, int] = SIZE) -> None:
    """The upper part of a report as a PNG. Raises LookupError where no Chromium is installed."""
    program = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if program is None:
        raise LookupError("found no Chromium; on Debian: apt-get install chromium")
    with tempfile.TemporaryDirectory(prefix="hindcast-picture-") as profile:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}"]
        width, height = size
        subprocess.run(
            [program, *options, f"--window-size={width},{height}", f"--screenshot={out}", report.resolve().as_uri()],
            check=True,
            timeout=120,
            capture_output=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Takes the picture of a report for README.md.")
    parser.add_argument("--report", type=Path, default=Path("demo-out") / "report.html", help="the report of `hindcast demo`")
    parser.add_argument("--out", type=Path, default=PICTURE, help="the picture; it is replaced")
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    take(given.report, given.out)
    sys.stdout.write(f"{given.out}\n")
