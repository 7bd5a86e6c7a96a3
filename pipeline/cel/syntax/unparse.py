"""Turns any node of a tree back into text, so that explanations can quote it."""

from __future__ import annotations

from .. import ast
from ..evaluation.attributes import key_text
from ..library.gotext import quote
from ..values import UInt, Value

_BINARY = {"_+_": "+", "_-_": "-", "_*_": "*", "_/_": "/", "_%_": "%", "_==_": "==", "_!=_": "!=", "@in": "in"}
_BINARY |= {"_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}
_SIGNS = {"!_": "!", "-_": "-"}
# An operator with a higher number binds more tightly; an operand with a lower number is put in parentheses.
_CONDITIONAL, _OR, _AND, _RELATION, _SUM, _PRODUCT, _SIGN, _MEMBER = range(8)
_LEVELS = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT}


def unparse(node: ast.Expr) -> str:
    """The text of a node, with single spaces and only the parentheses it needs."""
    return _text(node)[0]


def literal(value: Value) -> str:
    """A constant as CEL spells it."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bytes):
        shown = (chr(byte) if 32 <= byte < 127 and byte not in (34, 92) else f"\\x{byte:02x}" for byte in value)
        return f'b"{"".join(shown)}"'
    if isinstance(value, UInt):
        return f"{int(value)}u"
    if isinstance(value, float):
        text = key_text(value)
        return text if any(character in text for character in ".eIN") else f"{text}.0"
    return key_text(value)


def _text(node: ast.Expr) -> tuple[str, int]:
    """The text, and the number that says how tightly it binds."""
    match node:
        case ast.Literal(value=value):
            return literal(value), _MEMBER
        case ast.Ident(name=name):
            return name, _MEMBER
        case ast.Select(operand=operand, field=field, optional=optional):
            return f"{_at_least(operand, _MEMBER)}.{'?' if optional else ''}{field}", _MEMBER
        case ast.Has(operand=operand, field=field):
            return f"has({_at_least(operand, _MEMBER)}.{field})", _MEMBER
        case ast.Index(operand=operand, key=key, optional=optional):
            return f"{_at_least(operand, _MEMBER)}[{'?' if optional else ''}{unparse(key)}]", _MEMBER
        case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
            return f"{_at_least(condition, _OR)} ? {_at_least(then, _OR)} : {unparse(otherwise)}", _CONDITIONAL
        case ast.And(terms=terms):
            return " && ".join(_at_least(term, _RELATION) for term in terms), _AND
        case ast.Or(terms=terms):
            return " || ".join(_at_least(term, _AND) for term in terms), _OR
        case ast.Call():
            return _call(node)
        case ast.ListLiteral(elements=elements, optional=optional):
            return f"[{', '.join(('?' if at in optional else '') + unparse(each) for at, each in enumerate(elements))}]", _MEMBER
        case ast.MapLiteral(entries=entries):
            pairs = ", ".join(f"{'?' if each.optional else ''}{unparse(each.key)}: {unparse(each.value)}" for each in entries)
            return f"{{{pairs}}}", _MEMBER
        case ast.Struct(name=name, entries=entries):
            fields = ", ".join(f"{'?' if each.optional else ''}{_field(each.key)}: {unparse(each.value)}" for each in entries)
            return f"{name}{{{fields}}}", _MEMBER
        case ast.Comprehension(macro=macro, range=over, variables=variables, arguments=arguments):
            return f"{_at_least(over, _MEMBER)}.{macro}({', '.join([*variables, *map(unparse, arguments)])})", _MEMBER
        case ast.OptionalMap(target=target, variable=variable, body=body, flat=flat):
            return f"{_at_least(target, _MEMBER)}.{'optFlatMap' if flat else 'optMap'}({variable}, {unparse(body)})", _MEMBER


def _call(node: ast.Call) -> tuple[str, int]:
    if node.target is None and node.function in _BINARY:
        sign = _BINARY[node.function]
        level = _LEVELS.get(sign, _RELATION)
        left, right = node.arguments
        return f"{_at_least(left, level)} {sign} {_at_least(right, level + 1)}", level
    if node.target is None and node.function in _SIGNS:
        operand = _at_least(node.arguments[0], _MEMBER)
        # `-(1)` is a call and `-1` a literal.
        bare = not isinstance(node.arguments[0], ast.Literal)
        return f"{_SIGNS[node.function]}{operand if bare else f'({operand})'}", _SIGN
    receiver = "" if node.target is None else f"{_at_least(node.target, _MEMBER)}."
    return f"{receiver}{node.function}({', '.join(map(unparse, node.arguments))})", _MEMBER


def _field(key: ast.Expr) -> str:
    return str(key.value) if isinstance(key, ast.Literal) else unparse(key)


def _at_least(node: ast.Expr, level: int) -> str:
    text, binds = _text(node)
    negative = isinstance(node, ast.Literal) and text.startswith("-") and level == _MEMBER
    return f"({text})" if binds < level or negative else text
