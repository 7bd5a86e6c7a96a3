"""The type checker: what an expression evaluates to, or why kube-apiserver refuses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from . import ast
from .checker import Checker
from .scope import Scope
from .types import DYN, Type
from .validators import validate


@dataclass(frozen=True)
class Checked:
    """A well-typed expression: the type of every node, and for every call the overloads that it may turn out to be, by node id."""

    result_type: Type
    types: Mapping[int, Type]
    overloads: Mapping[int, tuple[str, ...]]


def check(tree: ast.Expr, scope: Scope, text: str) -> Checked:
    """The types of an expression over what `scope` declares. Raises CompileError with every issue found in it.

    Literals are only looked into once all types are right, as kube-apiserver does it. `text` is what the tree was parsed from;
    messages show it.
    """
    checker = Checker(scope, text)
    result_type = checker.check(tree)
    checker.complaints.raise_any()
    types = {id_: checker.bindings.resolve(type_, DYN) for id_, type_ in checker.types.items()}
    checked = Checked(checker.bindings.resolve(result_type, DYN), types, checker.overloads)
    validate(tree, types, checker.overloads, text)
    return checked
