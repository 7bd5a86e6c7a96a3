"""The fast tier: an expression as one straight-line Python function over plain dicts and lists.

The code is optimistic. It assumes that fields exist and have the kinds that their use suggests. Anything else raises some
exception; then the exact tier evaluates again and words the outcome. `A && B` evaluated left to right without an exception has
CEL's value for every outcome of B. So soundness needs only one rule: where the code returns a value, the exact tier returns the
same value. Selection, logic and loops are here; operators and calls in `generate_calls.py`; the functions that the code calls in
`support.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .. import ast
from ..checking.constants import Constants
from ..checking.names import Names
from ..values import Optional, Value
from .calls import call
from .fragments import KINDS, Code, UnsupportedError
from .support import NAMESPACE

FastRun = Callable[[Mapping[str, Value]], Value]

_INDENT = "    "


class Generator:
    """Collects the statements of one function. `lines` is the block being written; `code` may append to it."""

    def __init__(self, names: Names, constants: Constants) -> None:
        self.names = names
        self.constants = constants
        self.lines: list[str] = []
        self.count = 0
        self.namespace: dict[str, Any] = dict(NAMESPACE)
        self.variables: dict[str, str] = {}
        self.loop_variables: dict[str, Code] = {}

    # -- building blocks

    def fresh(self, prefix: str = "t") -> str:
        """A Python name that is not in use."""
        self.count += 1
        return f"{prefix}{self.count}"

    def emit(self, line: str) -> None:
        self.lines.append(line)

    def block(self, write: Callable[..., Any], *arguments: Any) -> tuple[Any, list[str]]:
        """The return value of `write`, and the statements it wrote, one level deeper."""
        outer, self.lines = self.lines, []
        try:
            result = write(*arguments)
            return result, [_INDENT + line for line in self.lines]
        finally:
            self.lines = outer

    def literal(self, value: Value) -> Code:
        """A constant: short scalars as literals, all other values by name."""
        kind = KINDS.get(value.__class__)
        if value is None or kind in ("bool", "int", "string"):
            return Code(repr(value), kind)
        return Code(self.named(value), kind, optional=value.__class__ is Optional)

    def named(self, value: Any) -> str:
        """A name in the function's namespace that stands for a Python object."""
        name = self.fresh("k")
        self.namespace[name] = value
        return name

    # -- nodes

    def code(self, node: ast.Expr) -> Code:
        """The Python expression of a node; statements it needs before it are written to the current block."""
        found, value = self.constants.of(node)
        if found:
            return self.literal(value)
        match node:
            case ast.Ident():
                return self.variable(node.name)
            case ast.Select():
                return self.select(node)
            case ast.Has(operand=operand, field=field):
                name = self.fresh()
                text = self.code(operand).text
                return Code(
                    f"({field!r} in {name} if ({name} := {text}).__class__ is dict else has_field({name}, {field!r}))", "bool"
                )
            case ast.Index():
                return self.index(node)
            case ast.And(terms=terms):
                return self.logical(terms, "and")
            case ast.Or(terms=terms):
                return self.logical(terms, "or")
            case ast.Conditional():
                return self.conditional(node)
            case ast.Call():
                return call(self, node)
            case ast.ListLiteral(elements=elements, optional=optional) if not optional:
                return Code(f"[{', '.join(self.known(element) for element in elements)}]", "list")
            case ast.MapLiteral(entries=entries):
                return self.map_literal(entries)
            case ast.Comprehension():
                return self.comprehension(node)
            case ast.OptionalMap():
                return self.optional_map(node)
            case _:
                raise UnsupportedError(node.__class__.__name__)

    def known(self, node: ast.Expr) -> str:
        """A node as text whose value is neither unknown nor an error."""
        code = self.code(node)
        return code.text if code.kind else f"known({code.text})"

    def truth(self, node: ast.Expr) -> str:
        """A node as a condition whose value is only True or False."""
        code = self.code(node)
        return code.text if code.kind == "bool" else f"boolean({code.text})"

    def variable(self, name: str) -> Code:
        local = self.loop_variables.get(self.names.local(name) or "")
        if local is not None:
            return local
        name = name.lstrip(".")
        if name not in self.variables:
            self.variables[name] = self.fresh("v")
        return Code(self.variables[name])

    def select(self, node: ast.Select) -> Code:
        dotted = self.names.dotted_variable(node)
        if dotted is not None and dotted.partition(".")[0] not in self.loop_variables:
            return self.variable(dotted)
        operand = self.code(node.operand)
        if node.optional or operand.optional:
            return Code(f"select_optional({operand.text}, {node.field!r})", optional=True)
        return Code(f"{_holder(operand)}[{node.field!r}]")

    def index(self, node: ast.Index) -> Code:
        operand = self.code(node.operand)
        if node.optional or operand.optional:
            return Code(f"index_optional({operand.text}, {self.code(node.key).text})", optional=True)
        found, key = self.constants.of(node.key)
        if found and key.__class__ is str:
            return Code(f"{_holder(operand)}[{key!r}]")
        if found and key.__class__ is int and key >= 0:
            name = self.fresh()
            return Code(f"({name}[{key}] if ({name} := {operand.text}).__class__ is list else index({name}, {key}))")
        return Code(f"index({operand.text}, {self.code(node.key).text})")

    def logical(self, terms: tuple[ast.Expr, ...], word: str) -> Code:
        """`and` and `or`. The first term is always evaluated, so its statements may be written to this block."""
        return Code(f"({self.joined([self.truth(terms[0])], terms[1:], word)})", "bool")

    def joined(self, done: list[str], rest: tuple[ast.Expr, ...], word: str) -> str:
        """One expression of all terms, with an `if` around the first term that needs statements and all terms after it."""
        for at, term in enumerate(rest):
            text, lines = self.block(self.truth, term)
            if not lines:
                done.append(text)
                continue
            result = self.fresh("b")
            self.emit(f"{result} = {f' {word} '.join(done)}")
            self.emit(f"if {result}:" if word == "and" else f"if not {result}:")
            tail, tail_lines = self.block(self.joined, [text], rest[at + 1 :], word)
            self.lines += [*lines, *tail_lines, f"{_INDENT}{result} = {tail}"]
            return result
        return f" {word} ".join(done)

    def conditional(self, node: ast.Conditional) -> Code:
        condition = self.truth(node.condition)
        then, then_lines = self.block(self.code, node.then)
        otherwise, otherwise_lines = self.block(self.code, node.otherwise)
        kind = then.kind if then.kind == otherwise.kind else None
        optional = then.optional and otherwise.optional
        if not then_lines and not otherwise_lines:
            return Code(f"({then.text} if {condition} else {otherwise.text})", kind, optional)
        result = self.fresh()
        self.emit(f"if {condition}:")
        self.lines += [*then_lines, f"{_INDENT}{result} = {then.text}", "else:"]
        self.lines += [*otherwise_lines, f"{_INDENT}{result} = {otherwise.text}"]
        return Code(result, kind, optional)

    def map_literal(self, entries: tuple[ast.Entry, ...]) -> Code:
        parts: list[str] = []
        for entry in entries:
            key = self.code(entry.key)
            if entry.optional or key.kind != "string":
                raise UnsupportedError("a map that is not plain JSON")
            parts.append(f"{key.text}: {self.known(entry.value)}")
        return Code(f"{{{', '.join(parts)}}}", "map")

    # -- loops

    def comprehension(self, node: ast.Comprehension) -> Code:
        if node.macro not in _LOOPS:
            raise UnsupportedError(node.macro)
        over = self.code(node.range)
        source, result = self.fresh(), self.fresh("r")
        loop_names = [self.fresh("x") for _ in node.variables]
        self.emit(f"{source} = {over.text}")
        if node.macro == "transformMap":
            self.emit(f"if {source}.__class__ is not dict: deviate()")
        if len(loop_names) == 2:
            self.emit(f"{source} = pairs({source})")
        elif over.kind != "list":
            self.emit(f"if {source}.__class__ is not list and {source}.__class__ is not dict: {source} = elements({source})")
        start, finish, kind = _LOOPS[node.macro]
        before = dict(self.loop_variables)
        self.loop_variables.update({name: Code(local) for name, local in zip(node.variables, loop_names, strict=True)})
        _, body = self.block(self.loop_body, node, loop_names, result)
        self.loop_variables = before
        self.emit(f"{result} = {start}")
        self.emit(f"for {', '.join(loop_names)} in {source}:")
        self.lines += body
        return Code(finish.format(result), kind)

    def loop_body(self, node: ast.Comprehension, names: list[str], result: str) -> None:
        """The statements inside a loop."""
        first, last = node.arguments[0], node.arguments[-1]
        match node.macro:
            case "all":
                self.emit(f"if not {self.truth(first)}:")
                self.lines += [f"{_INDENT}{result} = False", f"{_INDENT}break"]
            case "exists":
                self.emit(f"if {self.truth(first)}:")
                self.lines += [f"{_INDENT}{result} = True", f"{_INDENT}break"]
            case "exists_one":
                self.emit(f"if {self.truth(first)}: {result} += 1")
            case "filter":
                self.emit(f"if {self.truth(first)}: {result}.append(known({names[0]}))")
            case _:
                if len(node.arguments) == 2:
                    self.emit(f"if not {self.truth(first)}: continue")
                value = self.known(last)
                self.emit(f"{result}[{names[0]}] = {value}" if node.macro == "transformMap" else f"{result}.append({value})")

    def optional_map(self, node: ast.OptionalMap) -> Code:
        option, inner, result = self.fresh(), self.fresh("x"), self.fresh("r")
        self.emit(f"{option} = {self.code(node.target).text}")
        self.emit(f"if {option}.__class__ is not Optional: deviate()")
        before = dict(self.loop_variables)
        self.loop_variables[node.variable] = Code(inner)
        body, lines = self.block(lambda: self.code(node.body).text if node.flat else self.known(node.body))
        self.loop_variables = before
        self.emit(f"{result} = NONE")
        self.emit(f"if {option}.has_value:")
        self.lines += [f"{_INDENT}{inner} = {option}.value", *lines]
        self.emit(f"{_INDENT}{result} = {body if node.flat else f'Optional({body})'}")
        return Code(result, optional=True)


def _holder(operand: Code) -> str:
    """An operand that a text may select from. Python's compiler warns of a literal that has no fields, which is always an error."""
    if operand.kind not in (None, "map"):
        raise UnsupportedError(f"a field of a value of type {operand.kind}")
    return operand.text


# Per macro: the initial result, the expression that reads the value from it, and the kind of that value.
_LOOPS = {
    "all": ("True", "{}", "bool"),
    "exists": ("False", "{}", "bool"),
    "exists_one": ("0", "({} == 1)", "bool"),
    "filter": ("[]", "{}", "list"),
    "map": ("[]", "{}", "list"),
    "transformList": ("[]", "{}", "list"),
    "transformMap": ("{}", "{}", "map"),
}


def generate(tree: ast.Expr, names: Names, constants: Constants) -> FastRun | None:
    """The function of an expression, or None where only the exact tier can evaluate it. Its source is in the `source` attribute."""
    generator = Generator(names, constants)
    try:
        result = generator.code(tree)
        head = [f"{_INDENT}{local} = activation[{name!r}]" for name, local in generator.variables.items()]
        body = [_INDENT + line for line in generator.lines]
        source = "\n".join(["def evaluate(activation):", *head, *body, f"{_INDENT}return {result.text}", ""])
        exec(compile(source, "<cel>", "exec"), generator.namespace)
    except (UnsupportedError, SyntaxError, RecursionError, MemoryError):
        # Python nests at most 20 loops and 100 blocks; such expressions are evaluated by the exact tier alone.
        return None
    run: FastRun = generator.namespace["evaluate"]
    run.source = source  # type: ignore[attr-defined]
    return run
