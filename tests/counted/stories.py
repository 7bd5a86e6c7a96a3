"""The stories of tests/cases/counted/commands.yaml: what runs, over which lakes, and what each line of them counted."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
import zstandard

from tests.benchmarks.grow import grow
from tests.counted.statements import Profiles

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "cases" / "counted"
_LOG, _SNAPSHOT = ROOT / "api" / "demo" / "audit.jsonl.zst", ROOT / "api" / "demo" / "snapshot"
_SNAPSHOT_TAKEN = "2026-11-21T03:24:34Z"
_EVENTS_MORE = 1_000
_SECONDS_MAX = 600
_DECIDED = (0, 1, 3)  # exit codes of commands that came to an end


@dataclass(frozen=True)
class Line:
    """One command or page, and what happens before it."""

    run: str = ""
    page: str = ""
    edited: bool = False
    more: bool = False
    once: bool = False


@dataclass(frozen=True)
class Story:
    """Lines that run one after the other over a lake of their own."""

    name: str
    lake: str
    lines: dict[str, Line]
    manifests: str = ""
    request: str = ""
    edit: tuple[str, str] | None = None
    often: bool = False
    once: bool = False


@dataclass(frozen=True)
class Told:
    """All that commands.yaml says."""

    functions: dict[str, list[str]]
    stories: tuple[Story, ...]


def told() -> Told:
    """Read commands.yaml."""
    text: dict[str, Any] = yaml.safe_load((CASES / "commands.yaml").read_text(encoding="utf-8"))
    stories = [Story(**{**each, "lines": {name: Line(**line) for name, line in each["lines"].items()}}) for each in text["stories"]]
    return Told(text["functions"], tuple(stories))


@dataclass
class Place:
    """A folder with the logs and lakes that stories begin with, made once. `copies` grow the log."""

    folder: Path
    copies: int = 1
    _made: set[str] = field(default_factory=set)

    def make(self) -> None:
        """Cut the log, and make the lakes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = zstandard.ZstdDecompressor().stream_reader(_LOG.read_bytes()).readall().splitlines(keepends=True)
        self.log.write_bytes(b"".join(lines[:-_EVENTS_MORE]))
        self.more.write_bytes(b"".join(lines[-_EVENTS_MORE:]))
        once = self.folder / "once"
        _hindcast(once, "ingest", str(self.log), "--cluster", "demo")
        if self.copies > 1:
            grow(once, self.lake("ingested"), self.copies, varied=True)
        else:
            once.rename(self.lake("ingested"))
        _hindcast(self.lake("ingested"), "ingest", "--snapshot", str(_SNAPSHOT), "--cluster", "demo", "--at", _SNAPSHOT_TAKEN)
        shutil.copytree(self.lake("ingested"), self.lake("prepared"))
        _hindcast(self.lake("prepared"), "compact", "--files-min", "2")

    @property
    def log(self) -> Path:
        """The log that is taken in first."""
        return self.folder / "audit.jsonl"

    @property
    def more(self) -> Path:
        """Its last events."""
        return self.folder / "more.jsonl"

    def lake(self, state: str) -> Path:
        """The lake that stories copy."""
        return self.folder / state


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HINDCAST_")}
    return {**kept, "PYTHONHASHSEED": "0", "TZ": "UTC", "COLUMNS": "120", "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": ""}


def _hindcast(lake: Path, *words: str) -> None:
    program = [sys.executable, "-c", "from api.cli import main; main()", "--lake", str(lake), "--quiet", *words]
    subprocess.run(program, cwd=ROOT, env=_environment(), check=True, timeout=_SECONDS_MAX, capture_output=True)


class Scene:
    """A story over its own copy of a lake."""

    def __init__(self, story: Story, place: Place, folder: Path) -> None:
        self.story, self.place, self.folder = story, place, folder
        self.lake = folder / "lake"
        if story.lake != "empty":
            shutil.copytree(place.lake(story.lake), self.lake)
        self.manifests, self.before = folder / "manifests", folder / "before"
        if story.manifests:
            source = ROOT / story.manifests
            for target in (self.manifests, self.before):
                target.mkdir()
                for file in sorted(source.glob("*.yaml")) if source.is_dir() else [source]:
                    shutil.copy(file, target)

    def prepare(self, line: Line) -> None:
        """Do what comes before a line."""
        if line.edited:
            assert self.story.edit is not None
            old, new = self.story.edit
            texts = {file: file.read_text(encoding="utf-8") for file in self.manifests.iterdir()}
            assert any(old in text for text in texts.values()), f"{self.story.name}: no manifest has {old!r}"
            for file, text in texts.items():
                file.write_text(text.replace(old, new), encoding="utf-8")
        if line.more:
            _hindcast(self.lake, "ingest", str(self.place.more), "--cluster", "demo")

    def filled(self, text: str) -> str:
        """The words of a line with the paths and names of this scene."""
        # Compaction and pages also make runs, of the policies in force. A story asks about the run of its own manifests.
        marks = (self.lake / "runs").glob("*/made-as-replay")
        first = min(marks, key=lambda path: path.stat().st_mtime_ns, default=Path()).parent.name
        return text.format(
            log=self.place.log, more=self.place.more, manifests=self.manifests, before=self.before,
            run=first, request=self.story.request,
        )  # fmt: skip


def counted(scene: Scene, line: Line, functions: dict[str, list[str]], kept: Path) -> dict[str, int]:
    """Run one line of a scene, and count."""
    scene.prepare(line)
    profiles, out = scene.folder / "profiles", scene.folder / "counts.json"
    asked = {
        "words": shlex.split(scene.filled(line.run)), "page": scene.filled(line.page), "lake": str(scene.lake),
        "named": functions, "kept": str(kept), "profiles": str(profiles), "out": str(out),
    }  # fmt: skip
    with Profiles(profiles) as told_by_duckdb:
        done = subprocess.run(
            [sys.executable, "-m", "tests.counted.child", json.dumps(asked)],
            cwd=ROOT, env=_environment(), timeout=_SECONDS_MAX, capture_output=True, check=False,
        )  # fmt: skip
    assert done.returncode in _DECIDED, f"{line}: {done.returncode}\n{done.stdout.decode()}\n{done.stderr.decode()}"
    found: dict[str, int] = json.loads(out.read_text(encoding="utf-8"))
    return found | told_by_duckdb.counts()


def lines_of(story: Story, place: Place, functions: dict[str, list[str]], kept: Path) -> Iterator[tuple[str, dict[str, int]]]:
    """Each line of a story with its counts."""
    with tempfile.TemporaryDirectory(prefix="hindcast-counted-") as folder:
        scene = Scene(story, place, Path(folder))
        for name, line in story.lines.items():
            if ("{request}" in line.run and not story.request) or (line.once and place.copies > 1):
                continue
            yield name, counted(scene, line, functions, kept)
