"""`python -m docs.generator --out FOLDER`: the documentation site, from the pages of docs/ and from what the code says of itself.

The generator is Zensical, by the authors of Material for MkDocs, which ends in May 2027. It needs no network, and neither does the
site. A warning, such as a link to a page that is missing, is an error.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from . import commands, data, http, metrics, search

DOCS = Path(__file__).parents[1]
_TO_FOLDER = re.compile(r'href="((?:\./)?\.\.?)"')
# Pages about a part of the code are made from it, so that none is forgotten.
GENERATED = {
    "reference/commands.md": commands.page,
    "reference/http.md": http.page,
    "reference/data.md": data.page,
    "reference/metrics.md": metrics.page,
}


def write_sources(folder: Path) -> None:
    """All pages as Markdown, and the configuration, as the generator wants them."""
    shutil.copytree(DOCS, folder / "docs", ignore=shutil.ignore_patterns("generator", "zensical.toml", "__pycache__"))
    shutil.copy(DOCS.parent / "CHANGELOG.md", folder / "docs" / "changelog.md")
    shutil.copy(DOCS.parent / "api" / "pages" / "static" / "hindcast.svg", folder / "docs" / "pictures")
    for name, make in GENERATED.items():
        path = folder / "docs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(make(), encoding="utf-8")
    configuration = (DOCS / "zensical.toml").read_text(encoding="utf-8")
    (folder / "zensical.toml").write_text(with_all_pages(configuration, folder / "docs"), encoding="utf-8")


def with_all_pages(configuration: str, folder: Path) -> str:
    """The configuration with pages that its navigation does not name, under `More`: no page gets lost."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.md"))
    others = [name for name in names if f'"{name}"' not in configuration]
    more = ", ".join(f'"{name}"' for name in others)
    return configuration.replace("\n]\n", f'\n    {{ "More" = [{more}] }},\n]\n', 1) if others else configuration


def build(out: Path) -> int:
    """Build the site into a folder, which is replaced; returns the exit code of the generator."""
    with tempfile.TemporaryDirectory(prefix="hindcast-docs-") as name:
        folder = Path(name)
        write_sources(folder)
        done = subprocess.run(
            [sys.executable, "-m", "zensical", "build", "--strict", "--clean"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            # The last lines are a traceback of the generator; what it found comes before.
            sys.stderr.write(done.stdout + done.stderr.partition("Traceback")[0])
            return 1
        for page in (folder / "site").rglob("*.html"):
            # The logo leads to a folder, which a browser without a server shows as a list of files.
            text = _TO_FOLDER.sub(r'href="\1/index.html"', page.read_text(encoding="utf-8"))
            page.write_text(text.replace('href="" title=', 'href="index.html" title='), encoding="utf-8")
        search.write_script(folder / "site")
        if out.exists():
            shutil.rmtree(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(folder / "site", out)
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Builds the documentation site.")
    parser.add_argument("--out", type=Path, default=Path("demo-out") / "docs", help="the folder of the site; it is replaced")
    given = parser.parse_args().out
    code = build(given)
    if code == 0:
        sys.stdout.write(f"{given / 'index.html'}\n")
    sys.exit(code)
