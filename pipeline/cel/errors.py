"""The issues of an expression, printed as cel-go prints them, because users compare the text with kube-apiserver's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .types import Type

# cel-go common/error.go: longer lines are not shown, and issues beyond the limit are only counted.
SNIPPET_BYTES_MAX = 16384
ISSUES_MAX = 100
# kube-apiserver cannot evaluate an expression that nests deeper than this either (cel-go parser/options.go).
RECURSION_MAX = 250
CODE_POINTS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Issue:
    """One finding. `offset` counts code points from 0; `line` counts from 1; `column` counts code points from 0."""

    offset: int
    line: int
    column: int
    message: str


class CompileError(Exception):
    """An expression that a server rejects. `str()` is cel-go's text, one block per issue, in the order of the text."""

    def __init__(self, text: str, issues: Iterable[Issue]) -> None:
        self.text = text
        self.issues = tuple(sorted(issues, key=lambda issue: (issue.line, issue.column)))
        super().__init__(text, self.issues)

    def __str__(self) -> str:
        lines = self.text.split("\n")
        shown = [render(issue, lines) for issue in self.issues[:ISSUES_MAX]]
        if len(self.issues) > ISSUES_MAX:
            shown.append(f"{len(self.issues) - ISSUES_MAX} more errors were truncated")
        return "\n".join(shown)


def issue_at(text: str, offset: int, message: str) -> Issue:
    """An issue at a code point of the text; -1 stands for an issue without a place."""
    if offset < 0:
        return Issue(-1, -1, -1, message)
    line_start = text.rfind("\n", 0, offset) + 1
    return Issue(offset, text.count("\n", 0, offset) + 1, offset - line_start, message)


def render(issue: Issue, lines: list[str]) -> str:
    """`ERROR: <input>:LINE:COLUMN: MESSAGE`, the line of the text, and a caret below the place (cel-go common/error.go)."""
    head = f"ERROR: <input>:{issue.line}:{issue.column + 1}: {issue.message}"
    if not 1 <= issue.line <= len(lines):
        return head
    snippet = lines[issue.line - 1].replace("\t", " ")
    if len(snippet.encode("utf-8", "surrogatepass")) > SNIPPET_BYTES_MAX:
        return head
    dots = "".join("." if ord(character) < 128 else "\uff0e" for character in snippet[: issue.column])
    under = snippet[issue.column : issue.column + 1]
    caret = "^" if not under or ord(under) < 128 else "\uff3e"
    return f"{head}\n | {snippet}\n | {dots}{caret}"


class ProgramError(CompileError):
    """An expression that compiles but makes no program: converting one of its constants fails.

    `str()` is the error's text.
    """

    def __init__(self, message: str) -> None:
        super().__init__("", [Issue(-1, -1, -1, message)])

    def __str__(self) -> str:
        return self.issues[0].message


class ResultTypeError(CompileError):
    """An expression that is well typed but has a wrong result type.

    `str()` is kube-apiserver's text (pkg/admission/plugin/cel/compile.go).
    """

    def __init__(self, text: str, found: Type, expected: Sequence[Type]) -> None:
        wanted = str(expected[0]) if len(expected) == 1 else f"one of [{' '.join(map(str, expected))}]"
        super().__init__(text, [Issue(-1, -1, -1, f"must evaluate to {wanted} but got {found}")])

    def __str__(self) -> str:
        return self.issues[0].message
