"""Formulas and decisions in the words of selectors, for an operator."""

from __future__ import annotations

from ..model import Plain
from .formula import AllOf, AnyOf, Below, Constant, Formula, Has, In, Same, Text, Values
from .primes import Box


def words(formula: Formula) -> str:
    """A formula in the words of selectors."""
    match formula:
        case Constant():
            return "always" if formula.value else "never"
        case In(key, values):
            return _values_words(str(key), values)
        case Has(path):
            return f"{'.'.join(path)} is there"
        case Same(left, right):
            return f"{left} and {right} are equal"
        case Text(key):
            return f"{key} {formula.function.strip('_')} {formula.argument!r}"
        case Below(key, bound):
            return f"{key} < {bound:,}"
        case AllOf(of):
            return " and ".join(_grouped(each) for each in of)
        case AnyOf(of):
            return " or ".join(_grouped(each) for each in of)
    return f"not {_grouped(formula.of)}"


def box_words(box: Box) -> str:
    """An alternative in the words of selectors."""
    return " and ".join(_values_words(str(key), values) for key, values in box) or "every object"


def refusal_words(decision: Plain | None) -> str:
    """The chain's own reason for refusing an object, on one line; None where no decision can come of it."""
    if decision is None:
        return "no authorizer can allow it"
    return (decision.reason or "no authorizer allows it").replace("\n", "; ")


def _grouped(formula: Formula) -> str:
    return f"({words(formula)})" if isinstance(formula, (AllOf, AnyOf)) else words(formula)


def _values_words(name: str, values: Values) -> str:
    texts = sorted(values.texts)
    shown = (texts[0] or '""') if len(texts) == 1 else f"({', '.join(text or chr(34) * 2 for text in texts)})"
    if not texts:
        said = {(True, True): "always", (True, False): name, (False, True): f"!{name}", (False, False): "never"}
        return said[values.negated, values.absent]
    equal = (
        f"{name}{'!' if values.negated else ''}={shown}"
        if len(texts) == 1
        else f"{name} {'not ' if values.negated else ''}in {shown}"
    )
    if values.negated == values.absent:
        return equal
    return f"{name} is there and {equal}" if values.negated else f"({equal} or !{name})"
