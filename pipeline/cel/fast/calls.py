"""Generated code for operators and function calls.

All functions here follow one pattern: test for the class that the use suggests and do the work inline, else call the full
operation. Operands are read once, into a name, by an assignment inside the test. Their order does not matter, because evaluation
has no side effects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import ast
from ..costs.sizes import TEXT_MAX
from ..evaluation.calls import BLIND
from ..evaluation.patterns import compiled, matches
from ..functions import Function
from ..values import INT_MAX, INT_MIN, CelError, Opaque
from .fragments import Code, UnsupportedError

if TYPE_CHECKING:
    from .generate import Generator

_COMPARISONS = {"_<_": ("<", "less"), "_<=_": ("<=", "less_equals"), "_>_": (">", "greater"), "_>=_": (">=", "greater_equals")}
_ARITHMETIC = {"_+_": ("+", "add"), "_-_": ("-", "subtract"), "_*_": ("*", "multiply")}
# Values of these kinds cannot contain unknowns.
_SCALAR_KINDS = frozenset(("bool", "int", "uint", "double", "string", "bytes", "null_type"))
# Up to Kubernetes 1.36 these may change their receiver quantity. If the exact tier evaluated again, it would change it twice.
_CHANGING = frozenset(("add", "sub"))
# Their result may be unknown even if all arguments are known: the reason of a decision may not be recorded. Results of other kinds
# than scalars, such as the decision, are tested anyway before they are used.
_UNSURE = frozenset(("reason",))
# Calls of these with constant arguments are computed beforehand: they are quick, and the result is about as small as the arguments.
_FOLDED = frozenset(("split", "lowerAscii", "upperAscii", "trim", "substring", "charAt", "_/_", "_%_", "-_"))


def call(generator: Generator, node: ast.Call) -> Code:
    """The expression of one call."""
    function, arguments = generator.names.function(node)
    name = function.name
    if name in _COMPARISONS:
        return _compare(generator, *_COMPARISONS[name], *arguments)
    if name in ("_==_", "_!=_"):
        return _equality(generator, name == "_!=_", *arguments)
    if name in _ARITHMETIC:
        return _arithmetic(generator, *_ARITHMETIC[name], *arguments)
    if name == "@in":
        return _membership(generator, node, *arguments)
    if name == "!_":
        operand = generator.code(arguments[0])
        return Code(f"(not {operand.text})" if operand.kind == "bool" else f"logical_not({operand.text})", "bool")
    special = _SPECIAL.get((name, len(arguments)))
    if special is not None:
        code = special(generator, *arguments)
        if code is not None:
            return code  # type: ignore[no-any-return]
    return _plain(generator, function, arguments)


def _plain(generator: Generator, function: Function, arguments: list[ast.Expr]) -> Code:
    """A call of the function itself; a call with only constant arguments is computed now."""
    if function.name in _CHANGING:
        raise UnsupportedError(function.name)
    constants = [generator.constants.of(argument) for argument in arguments]
    if function.name in _FOLDED and all(found for found, _ in constants):
        try:
            result = function.call(*[value for _, value in constants])
        except (CelError, TypeError):
            return Code("deviate()")
        if not isinstance(result, Opaque):  # Library types may change after they were made.
            return generator.literal(result)
    kinds = {overload.result.name for overload in function.overloads}
    kind = kinds.pop() if len(kinds) == 1 and not function.overloads[0].result.is_parameter else None
    texts = [_argument(generator, function, argument) for argument in arguments]
    text = f"{generator.named(function.call)}({', '.join(texts)})"
    if function.name in _UNSURE:
        text = f"known({text})"
    # `or` passes on any left operand.
    optional = kind == "optional_type" and function.name != "or"
    return Code(text, kind if kind in _SCALAR_KINDS or kind == "list" else None, optional)


def _argument(generator: Generator, function: Function, argument: ast.Expr) -> str:
    code = generator.code(argument)
    if code.kind in _SCALAR_KINDS:
        return code.text
    if function.name in BLIND:
        return code.text if code.kind else f"known({code.text})"
    name = generator.fresh()
    return f"({name} if ({name} := {code.text}).__class__ is str else wholly_known({name}))"


def _compare(generator: Generator, operator: str, name: str, left: ast.Expr, right: ast.Expr) -> Code:
    first, second = generator.code(left), generator.code(right)
    if first.kind == second.kind and first.kind in ("int", "string"):
        return Code(f"({first.text} {operator} {second.text})", "bool")
    if "double" in (first.kind, second.kind):  # NaN has no order, and Python would not raise for it.
        return Code(f"{name}({first.text}, {second.text})", "bool")
    class_ = "str" if "string" in (first.kind, second.kind) else "int"
    return _if_both(generator, class_, first, second, f"{{one}} {operator} {{two}}", f"{name}({{one}}, {{two}})")


def _if_both(generator: Generator, class_: str, first: Code, second: Code, inline: str, otherwise: str) -> Code:
    """A test that reads its operands once: `inline` where both have the class, else the full operation."""
    one, two = generator.fresh(), generator.fresh()
    if _is_atom(second.text) and second.kind is not None:
        test = f"({one} := {first.text}).__class__ is {class_}"
        two = second.text
    else:
        test = f"({one} := {first.text}).__class__ is ({two} := {second.text}).__class__ is {class_}"
    return Code(f"({inline.format(one=one, two=two)} if {test} else {otherwise.format(one=one, two=two)})", "bool")


def _is_atom(text: str) -> bool:
    """Whether the text is a name or a literal, which costs nothing to read twice."""
    return text.isidentifier() or text.lstrip("-").isdigit() or (text[0] in "'\"" and text[-1] in "'\"")


def _equality(generator: Generator, negated: bool, left: ast.Expr, right: ast.Expr) -> Code:
    first, second = generator.code(left), generator.code(right)
    found, value = generator.constants.of(right)
    if not found:
        found, value = generator.constants.of(left)
        if found and value.__class__ is not list:  # The left list decides whether order counts.
            first, second = second, first
    operator, function = ("!=", "not_equal") if negated else ("==", "equal")
    if first.kind == second.kind and first.kind in ("int", "string", "bool"):
        return Code(f"({first.text} {operator} {second.text})", "bool")
    full = f"{function}({{one}}, {{two}})"
    if found and value is None:
        one = generator.fresh()
        return Code(f"({negated} if ({one} := {first.text}).__class__ is dict else {function}({one}, None))", "bool")
    class_ = value.__class__.__name__ if found and value.__class__ in (bool, int) else "str"
    return _if_both(generator, class_, first, second, f"{{one}} {operator} {{two}}", full)


def _arithmetic(generator: Generator, operator: str, name: str, left: ast.Expr, right: ast.Expr) -> Code:
    first, second = generator.code(left), generator.code(right)
    if operator == "+" and "string" in (first.kind, second.kind):
        # Python adds only a str to a str. Both are short enough to be held twice.
        result = generator.fresh()
        return Code(f"({result} if len({result} := {first.text} + {second.text}) <= {TEXT_MAX} else deviate())", "string")
    kind = "int" if first.kind == second.kind == "int" else None
    if first.kind in (None, "int") and second.kind in (None, "int"):
        one, two, result = generator.fresh(), generator.fresh(), generator.fresh()
        return Code(
            f"({result} if ({one} := {first.text}).__class__ is ({two} := {second.text}).__class__ is int"
            f" and {INT_MIN} <= ({result} := {one} {operator} {two}) <= {INT_MAX} else {name}({one}, {two}))",
            kind,
        )
    return Code(f"{name}({first.text}, {second.text})", first.kind if first.kind == second.kind == "double" else None)


def _membership(generator: Generator, node: ast.Call, element: ast.Expr, container: ast.Expr) -> Code:
    found, members = generator.constants.of(container)
    code = generator.code(element)
    one, two = generator.fresh(), generator.fresh()
    if found and members.__class__ is list:
        everything = generator.named(members)
        if members and all(member.__class__ is str for member in members):
            texts = generator.named(frozenset(members))
            return Code(f"({one} in {texts} if ({one} := {code.text}).__class__ is str else contains({one}, {everything}))", "bool")
        return Code(f"contains({code.text}, {everything})", "bool")
    holder = generator.code(container)
    if code.kind == "string" and _is_atom(code.text):
        return Code(
            f"({code.text} in {two} if ({two} := {holder.text}).__class__ is dict else contains({code.text}, {two}))", "bool"
        )
    return Code(f"contains({code.text}, {holder.text})", "bool")


def _size(generator: Generator, value: ast.Expr) -> Code:
    code, name = generator.code(value), generator.fresh()
    if code.kind in ("list", "string"):
        return Code(f"len({code.text})", "int")
    return Code(
        f"(len({name}) if ({name} := {code.text}).__class__ is list or {name}.__class__ is str or {name}.__class__ is dict"
        f" else size({name}))",
        "int",
    )


def _to_string(generator: Generator, value: ast.Expr) -> Code | None:
    code, name = generator.code(value), generator.fresh()
    if code.kind == "string":
        return code
    if code.kind == "int":
        return Code(f"str({code.text})", "string")
    if code.kind is not None:
        return None
    function = generator.named(generator.names.functions["string"].call)
    return Code(
        f"({name} if ({name} := {code.text}).__class__ is str else str({name}) if {name}.__class__ is int else {function}({name}))",
        "string",
    )


def _text_test(inline: str) -> Any:
    """Code that tests one string with another."""

    def make(generator: Generator, text: ast.Expr, part: ast.Expr) -> Code:
        return _if_both(generator, "str", generator.code(text), generator.code(part), inline, "deviate()")

    return make


def _matches(generator: Generator, text: ast.Expr, pattern: ast.Expr) -> Code | None:
    found, value = generator.constants.of(pattern)
    if not found or value.__class__ is not str:
        return None
    try:
        compiled(value)
    except CelError:
        return Code("deviate()", "bool")
    code, name, search = generator.code(text), generator.fresh(), generator.named(matches)
    return Code(f"({search}({name}, {value!r}) if ({name} := {code.text}).__class__ is str else deviate())", "bool")


def _or_value(generator: Generator, option: ast.Expr, default: ast.Expr) -> Code | None:
    """`a.?b.?c.orValue(d)` without intermediate optionals."""
    chain: list[ast.Select] = []
    node = option
    while isinstance(node, ast.Select) and generator.names.dotted_variable(node) is None:
        chain.append(node)
        node = node.operand
    while chain and not chain[-1].optional:
        chain.pop()
    fallback, lines = generator.block(generator.code, default)
    if lines:
        raise UnsupportedError("a default that needs a loop")
    if chain:
        path = tuple(select.field for select in reversed(chain))
        found = f"dig({generator.code(chain[-1].operand).text}, {path!r})"
    else:
        # The function itself decides, with ABSENT for the default; releases differ for operands that are not an optional.
        pick = generator.named(generator.names.functions["orValue"].call)
        found = f"{pick}({generator.known(option)}, ABSENT)"
    name = generator.fresh()
    return Code(f"({name} if ({name} := {found}) is not ABSENT else {fallback.text})")


_SPECIAL: dict[tuple[str, int], Any] = {
    ("size", 1): _size,
    ("string", 1): _to_string,
    ("startsWith", 2): _text_test("{one}.startswith({two})"),
    ("endsWith", 2): _text_test("{one}.endswith({two})"),
    ("contains", 2): _text_test("{two} in {one}"),
    ("matches", 2): _matches,
    ("orValue", 2): _or_value,
}
