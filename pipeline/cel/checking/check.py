"""The type checker: finds the result type of an expression, or why kube-apiserver rejects it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .. import ast
from ..types import DYN, Type
from .checker import Checker
from .scope import Scope
from .validators import validate


@dataclass(frozen=True)
class Checked:
    """A well-typed expression, by node id: the type of every node, and the possible overloads of every call."""

    result_type: Type
    types: Mapping[int, Type]
    overloads: Mapping[int, tuple[str, ...]]


def check(tree: ast.Expr, scope: Scope, text: str) -> Checked:
    """The types of an expression over the declarations of `scope`. Raises CompileError with every issue found in it.

    As in kube-apiserver, literals are checked only if all types are right. `text` is the source of the tree; messages show it.
    """
    checker = Checker(scope, text)
    result_type = checker.check(tree)
    checker.complaints.raise_any()
    types = {id_: checker.bindings.resolve(type_, DYN) for id_, type_ in checker.types.items()}
    checked = Checked(checker.bindings.resolve(result_type, DYN), types, checker.overloads)
    validate(tree, types, checker.overloads, text)
    return checked
