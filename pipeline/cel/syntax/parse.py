"""From the text of an expression to its syntax tree, with the macros and limits of cel-go (cel-go parser/parser.go)."""

from __future__ import annotations

import threading
from functools import cache

import lark

from ..ast import Expr
from ..errors import CODE_POINTS_MAX, CompileError, Issue, issue_at
from .builder import Builder, TooDeepError
from .grammar import build_parser

# Macros are named as cel-go keys them: name, number of arguments, whether they are called on a receiver.
CORE_MACROS = frozenset(
    {"has:1:false", "all:2:true", "exists:2:true", "exists_one:2:true", "map:2:true", "map:3:true", "filter:2:true"}
)
EXISTS_ONE_ALIAS = frozenset({"existsOne:2:true"})
OPTIONAL_MACROS = frozenset({"optMap:2:true", "optFlatMap:2:true"})
TWO_VARIABLE_MACROS = frozenset(
    {f"{name}:3:true" for name in ("all", "exists", "existsOne", "exists_one")}
    | {f"{name}:{count}:true" for name in ("transformList", "transformMap", "transformMapEntry") for count in (3, 4)}
)
SORT_BY_MACRO = frozenset({"sortBy:2:true"})
MACROS = CORE_MACROS | EXISTS_ONE_ALIAS | OPTIONAL_MACROS | TWO_VARIABLE_MACROS | SORT_BY_MACRO


def parse(text: str, macros: frozenset[str] = MACROS, quoted_identifiers: bool = False, escaped_selectors: bool = True) -> Expr:
    """The syntax tree of `text`, with the macros of one version of Kubernetes. Raises CompileError.

    `escaped_selectors`: whether the grammar has identifiers in backquotes, even if the parser rejects them (for its messages).
    """
    if len(text) > CODE_POINTS_MAX:
        message = f"expression code point size exceeds limit: size: {len(text)}, limit {CODE_POINTS_MAX}"
        raise CompileError(text, [issue_at(text, -1, message)])
    with _LOCK:
        builder, parser = _parser()
        builder.begin(macros, quoted_identifiers)
        try:
            tree: Expr = parser.parse(text)  # type: ignore[assignment]
        except TooDeepError as problem:
            raise CompileError(text, [issue_at(text, -1, str(problem))]) from None
        except lark.exceptions.UnexpectedInput as problem:
            found = [issue_at(text, offset, message) for offset, message in builder.problems]
            raise CompileError(text, _worded([*found, _syntax_issue(text, problem)], text, escaped_selectors)) from None
        problems = builder.problems
    if problems:
        found = [issue_at(text, offset, message) for offset, message in problems]
        raise CompileError(text, _worded(found, text, escaped_selectors))
    return tree


def _worded(issues: list[Issue], text: str, escaped_selectors: bool) -> list[Issue]:
    """The issues, with the first syntax error replaced by all syntax errors that cel-go reports."""
    others = [issue for issue in issues if not issue.message.startswith("Syntax error: ")]
    if len(others) == len(issues):
        return issues
    # Imported on first need, because most expressions have no errors. Without ANTLR's runtime only the first error is reported.
    try:
        from .errors import syntax_errors
    except ModuleNotFoundError:
        return issues
    found = syntax_errors(text, escaped_selectors)
    return [*others, *found] if found else issues


def _syntax_issue(text: str, problem: lark.exceptions.UnexpectedInput) -> Issue:
    """The first place where the text is not CEL. ANTLR, which cel-go uses, goes on and may find more."""
    if isinstance(problem, lark.exceptions.UnexpectedToken) and problem.token.type != "$END":
        offset = problem.token.start_pos or 0
        return issue_at(text, offset, f"Syntax error: mismatched input '{problem.token}'")
    if isinstance(problem, lark.exceptions.UnexpectedCharacters):
        at = problem.pos_in_stream or 0
        return issue_at(text, at, f"Syntax error: token recognition error at: '{text[at : at + 1]}'")
    return issue_at(text, len(text), "Syntax error: mismatched input '<EOF>'")


# Parsing holds the interpreter's lock anyway; this lock keeps two threads from using one builder at once.
_LOCK = threading.Lock()


def prepare_parser() -> None:
    """Make the parser now, so that the first expression need not wait for it."""
    with _LOCK:
        _parser()


@cache
def _parser() -> tuple[Builder, lark.Lark]:
    """One parser for the process, made at the first expression: analyzing the grammar takes longer than most commands."""
    builder = Builder()
    return builder, build_parser(builder)
