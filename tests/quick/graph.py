"""Which files of the project use which: imports, names of commands, and mentions of SQL files, templates and cases.

An arrow leads from a used file to its user, so that a walk along arrows from a changed file meets the tests that it can reach.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from api.stages import OF_STAGES

ROOT = Path(__file__).parents[2]
_PACKAGES = ("ingest", "queries", "pipeline", "api", "hindcast", "tests", "docs")
# Files that hold no code and are used by name: an SQL statement, a template, a schema, a case.
_NAMED = (".sql", ".j2", ".yaml", ".json", ".jsonl", ".css", ".js", ".txt", ".zst")
_IMPORT = re.compile(r"^[ \t]*((?:from[ \t]+[\w.]+[ \t]+import[ \t]*(?:\([^)]*\)|[^\n(]+))|(?:import[ \t]+[\w. ,]+))", re.M)
_QUOTED = re.compile(r"\"([a-z][a-z-]+)\"")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)*")


class Graph:
    """The files that git knows, and who uses whom."""

    def __init__(self, root: Path = ROOT) -> None:
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=root, check=True, capture_output=True, text=True
        ).stdout.splitlines()
        self.files = [name for name in listed if (root / name).is_file()]
        self._root = root
        self._known = set(self.files)
        self._users: defaultdict[str, set[str]] = defaultdict(set)
        for name in self.files:
            if name.endswith(".py") and name.startswith(_PACKAGES):
                self._read(name)

    def tests(self, changed: Iterable[str]) -> dict[str, int]:
        """The test files that some files can reach, each with the number of arrows to it, at least 0."""
        distances = dict.fromkeys(changed, 0)
        if not all(name.endswith(".py") for name in distances):
            self._mention()
        queue = deque(distances)
        while queue:
            name = queue.popleft()
            for user in self._users[name]:
                if user not in distances:
                    distances[user] = distances[name] + 1
                    queue.append(user)
        return {name: distance for name, distance in distances.items() if is_test(name)}

    def _read(self, name: str) -> None:
        text = (self._root / name).read_text(encoding="utf-8")
        package = Path(name).parts[:-1]
        # To parse only these statements takes a tenth of the time.
        for found in _IMPORT.finditer(text):
            (node,) = ast.parse(found[1]).body
            for parts in _imported(node, package):
                for used in self._module(parts):
                    self._use(used, name)
        if is_test(name):
            # A test gives a command by its name. A conftest.py serves the tests of its folder without an import.
            for word in _QUOTED.findall(text):
                own = OF_STAGES.get(word, f"commands.{word.replace('-', '_')}").replace(".", "/")
                self._use(f"api/{own}.py", name)
            for folder in Path(name).parents:
                self._use((folder / "conftest.py").as_posix(), name)

    def _module(self, parts: tuple[str, ...]) -> Iterator[str]:
        path = "/".join(parts)
        yield from {f"{path}.py", f"{path}/__init__.py"} & self._known

    def _use(self, used: str, user: str) -> None:
        if used in self._known and used != user:
            self._users[used].add(user)

    def _mention(self) -> None:
        """Files without code are used by the files that name them, or their folder, next to them or in tests."""
        texts = [name for name in self.files if name.endswith((".py", ".sql", ".j2")) and name.startswith(_PACKAGES)]
        holding: defaultdict[str, list[str]] = defaultdict(list)
        for name in texts:
            text = (self._root / name).read_text(encoding="utf-8", errors="replace")
            for word in set(_WORD.findall(text)):
                holding[word].append(name)
        for name in self.files:
            path = Path(name)
            if path.suffix not in _NAMED or not name.startswith(_PACKAGES):
                continue
            stem = path.name.partition(".")[0]
            named = {stem} if path.suffix in (".sql", ".j2") else {stem, path.parent.name}
            for word in named:
                for user in holding[word]:
                    if name.startswith(("tests/", "queries/")) or user.split("/")[:2] == name.split("/")[:2]:
                        self._use(name, user)


def _imported(node: ast.stmt, package: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The modules that a statement may import, in parts."""
    if isinstance(node, ast.Import):
        for each in node.names:
            yield tuple(each.name.split("."))
    elif isinstance(node, ast.ImportFrom):
        base = package[: len(package) - node.level + 1] if node.level else ()
        parts = (*base, *(node.module.split(".") if node.module else ()))
        yield parts
        yield from ((*parts, each.name) for each in node.names)


def is_test(name: str) -> bool:
    """Whether pytest collects the file."""
    return name.startswith("tests/") and Path(name).name.startswith("test_") and name.endswith(".py")


def rank(changed: Iterable[str], reached: Mapping[str, int]) -> list[str]:
    """The test files that are most about the changed files first: near in the graph, in a folder of that name, of that name."""
    files = list(changed)

    def score(test: str) -> tuple[float, str]:
        return min((reached[test] - _likeness(each, test) for each in files), default=float(reached[test])), test

    return sorted(reached, key=score)


def _likeness(changed: str, test: str) -> float:
    """How much the path of a test says that it is about a file: folders in common, and words of names in common."""
    own, other = _path_words(changed), _path_words(test.removeprefix("tests/"))
    return 1.5 * len(set(own) & set(other)) + (2 if own[-1:] == other[-1:] else 0)


def _path_words(name: str) -> list[str]:
    parts = Path(name).with_suffix("").parts
    words = [word for part in parts for word in part.removeprefix("test_").split("_")]
    # Tests say `webhook` where the product says `webhooks`.
    return [word.rstrip("s") for word in words if word not in ("sql", "pipeline", "init", "")]
