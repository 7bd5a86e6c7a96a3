"""Counts what our own packages do, exactly: an import hook adds a count to each function and each turn of a loop.

It counts each document that JSON decodes, too. `Counts.install` must run before the first import of our packages. The compiled code
is kept in a folder, because several hundred modules are compiled otherwise in each process.
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import json
import marshal
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from itertools import count
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, cast

OWN = ("api", "hindcast", "ingest", "pipeline", "queries")
_CALL, _TURN, _NAMED = "_counted_call", "_counted_turn", "_counted_named_"


class Counts:
    """What was counted so far. `named` gives functions of `module:function` or `module:Class.method` a count of their own name."""

    def __init__(self, named: Mapping[str, Sequence[str]]) -> None:
        # A count begins at 1: what `and` and `if` meet is true.
        self._counters = {name: count(1) for name in ("calls", "turns", "decoded", *named)}
        self._of = {function: name for name, functions in named.items() for function in functions}

    def install(self, kept: Path) -> None:
        """Count from now on, in modules that are imported from now on."""
        for name, counter in self._counters.items():
            # A method that is not written in Python: it is quick, and threads need no lock.
            setattr(builtins, {"calls": _CALL, "turns": _TURN}.get(name, f"{_NAMED}{name}"), counter.__next__)
        kept.mkdir(parents=True, exist_ok=True)
        sys.meta_path.insert(0, _Finder(kept, self._of))
        _count_decoding(self._counters["decoded"].__next__)

    def read(self) -> dict[str, int]:
        """The counts, and the modules that are imported now."""
        modules = sum(1 for name in sys.modules if not name.startswith("tests."))
        return {"modules": modules, **{name: next(counter) - 1 for name, counter in self._counters.items()}}


def _count_decoding(step: Callable[[], int]) -> None:
    """Count each document that a decoder of JSON in Python gets."""
    import msgspec

    made, decode = msgspec.json.Decoder, msgspec.json.decode

    class Decoder:
        def __init__(self, *given: Any, **options: Any) -> None:
            self._decoder = made(*given, **options)

        def __class_getitem__(cls, item: object) -> object:
            return cls

        def decode(self, text: Any) -> Any:
            step()
            return self._decoder.decode(text)

        def decode_lines(self, text: Any) -> Any:
            found = self._decoder.decode_lines(text)
            for _ in found:
                step()
            return found

    def decoding(*given: Any, **options: Any) -> Any:
        step()
        return decode(*given, **options)

    plain = json.JSONDecoder.decode

    def decode_text(self: json.JSONDecoder, *given: Any, **options: Any) -> Any:
        step()
        return plain(self, *given, **options)

    msgspec.json.Decoder, msgspec.json.decode = Decoder, decoding  # type: ignore[misc, assignment]
    json.JSONDecoder.decode = decode_text  # type: ignore[method-assign]


class _Finder(MetaPathFinder):
    def __init__(self, kept: Path, named: Mapping[str, str]) -> None:
        self._kept, self._named = kept, named

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] not in OWN:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, str(spec.loader.path), self._kept, self._named)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, kept: Path, named: Mapping[str, str]) -> None:
        super().__init__(name, path)
        self._kept, self._named = kept, named

    def get_code(self, fullname: str) -> CodeType:
        source = Path(self.path)
        kept = self._kept / f"{fullname}.{source.stat().st_mtime_ns}.{source.stat().st_size}"
        if kept.exists():
            return cast(CodeType, marshal.loads(kept.read_bytes()))
        tree = ast.parse(source.read_bytes(), self.path)
        code = compile(counting(tree, fullname, self._named), self.path, "exec", dont_inherit=True)
        made = kept.with_name(f"{kept.name}.{os.getpid()}")
        made.write_bytes(marshal.dumps(code))
        made.replace(kept)
        return code


def counting(tree: ast.Module, module: str, named: Mapping[str, str]) -> ast.Module:
    """The same module with a count in each function, loop and comprehension."""
    return cast(ast.Module, ast.fix_missing_locations(_Counting(module, named).visit(tree)))


class _Counting(ast.NodeTransformer):
    def __init__(self, module: str, named: Mapping[str, str]) -> None:
        self._module, self._named, self._within = module, named, list[str]()

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._within.append(node.name)
        self.generic_visit(node)
        self._within.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._within.append(node.name)
        own = self._named.get(f"{self._module}:{'.'.join(self._within)}")
        self.generic_visit(node)
        self._within.pop()
        at = int(ast.get_docstring(node, clean=False) is not None)
        node.body[at:at] = [ast.Expr(_step(name, node)) for name in (_CALL, *([f"{_NAMED}{own}"] if own else []))]
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]  # noqa: N815 - ast names it

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.generic_visit(node)
        node.body = ast.BoolOp(ast.And(), [_step(_CALL, node.body), node.body])
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, ast.Expr(_step(_TURN, node.body[0])))
        return node

    visit_AsyncFor = visit_While = visit_For  # type: ignore[assignment]  # noqa: N815 - ast names them

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.ifs.insert(0, _step(_TURN, node.iter))
        return node


def _step(name: str, near: ast.AST) -> ast.Call:
    return ast.copy_location(ast.Call(ast.copy_location(ast.Name(name, ast.Load()), near), [], []), near)
