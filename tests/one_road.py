"""The places outside of stages that know which stage they serve, read from syntax trees: help texts and comments do not count.

A place is a name that only validating policies have, an import of one stage's folder, or a stage's name as a text that decides
something. A stage may know itself: `pipeline/stages/X`, `api/stages/X`. `pipeline/policies` is what stages of CEL share.

`python -m tests.one_road` writes the list of today, tests/cases/one_road.txt.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests/cases/one_road.txt"
OWN_NAMES = frozenset(
    {
        *("ReplayPlan", "ReplayCrew", "PolicySet", "PolicyBase", "POLICIES", "STAGE", "VALIDATING"),
        *("judges_policies", "plan_replay", "plan_replay_from_log", "run_replay"),
    }
)
CLEAR = frozenset({"validating", "mutating", "pod-security", "pod_security"})  # words that mean a stage and nothing else
SHARED = frozenset({"authorization", "webhooks", "schema", "conditions"})  # words of the field, too
ROOMS_OF_STAGES = (
    *("pipeline/stages/", "api/stages/", "pipeline/policies/", "pipeline/cel/", "pipeline/openapi/", "pipeline/authorization/"),
    *("pipeline/matching/", "queries/reach_rules.py"),  # those are the stages of the API server
)
_TEXT = re.compile(r"\bstages?\b[^\n]{0,40}['\"](" + "|".join(sorted(CLEAR | SHARED)) + r")['\"]")
_STAGE_FOLDER = re.compile(r"(?:pipeline|api)?\.*stages\.(\w+)")


def places() -> dict[str, int]:
    """How many places each file has, of those that have any."""
    files = (file for room in ("pipeline", "api", "queries") for file in sorted((ROOT / room).rglob("*")))
    found = ((file.relative_to(ROOT).as_posix(), len({*_places(file)})) for file in files if file.is_file())
    return {name: count for name, count in found if count and not name.startswith(ROOMS_OF_STAGES)}


def _places(file: Path) -> Iterator[int]:
    """The lines of the places of one file."""
    if file.suffix == ".py":
        yield from places_in(file.read_text(encoding="utf-8"), may_say=file.match("pipeline/history/world.py"))
    elif file.suffix in (".sql", ".j2", ".html"):
        yield from (at for at, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1) if _TEXT.search(line))


def places_in(code: str, *, may_say: bool = False) -> Iterator[int]:
    """The lines of the places in some code. `may_say`: POLICIES is the name of a resource there."""
    tree = ast.parse(code)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    of_world = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("world"))
    resources = {alias.name for node in of_world for alias in node.names} | ({"POLICIES"} if may_say else set())
    own = OWN_NAMES - resources
    yield from (getattr(node, "lineno", 0) for node in ast.walk(tree) if _knows(node, own, parents))


def _knows(node: ast.AST, own: frozenset[str], parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether a node of a syntax tree names one stage. `own` are names that only validating policies have."""
    match node:
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in aliases]
            named = (found[1] for module in modules if (found := _STAGE_FOLDER.match(module)))
            is_of_one = any(name.replace("_", "-") in CLEAR | SHARED for name in named)
            return is_of_one or any(alias.name in own for alias in aliases)
        case ast.Name(id=name):
            return name in own
        case ast.Attribute(attr=name):
            return name in own or ast.unparse(node) == "registry.DEFAULT"
        case ast.Constant(value=str()):
            return _decides(node, parents)
    return False


def _decides(node: ast.Constant, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether code compares with a stage's name, or looks it up. Of words that the field has too, it must also say `stage`."""
    if node.value not in CLEAR | SHARED:
        return False
    parent = parents.get(node)
    while isinstance(parent, ast.Tuple | ast.List | ast.Set):
        parent = parents.get(parent)
    if isinstance(parent, ast.Dict) and node.value in SHARED:
        return any(isinstance(key, ast.Constant) and key.value in (CLEAR | SHARED) - {node.value} for key in parent.keys)
    chooses = isinstance(parent, ast.Compare | ast.MatchValue | ast.Dict | ast.Subscript)
    names = chooses or isinstance(parent, ast.Call | ast.Assign | ast.keyword | ast.Return)
    return (chooses and node.value in CLEAR) or (names and parent is not None and "stage" in ast.unparse(parent).lower())


def kept() -> dict[str, int]:
    """The list: the files that may know a stage, with their places."""
    lines = (line.split() for line in LIST.read_text(encoding="utf-8").splitlines())
    return {name: int(count) for count, name in lines}


if __name__ == "__main__":
    LIST.write_text("".join(f"{count} {name}\n" for name, count in places().items()), encoding="utf-8")
