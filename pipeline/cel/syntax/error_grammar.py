"""The syntax of CEL in a form from which cel-go's syntax error messages follow: its tokens and its rules, as data.

celpy's grammar (grammar.py) decides which texts are CEL. The messages of cel-go also depend on the order of tokens and
alternatives, and on the structure of the rules. This file keeps both. A rule is a list of alternatives. An alternative is a
sequence of tokens, names of rules and groups. A rule whose alternatives begin with the rule itself is left-recursive; its earlier
alternatives bind tighter. Sources: the CEL language definition (Syntax); cel-go parser/gen/CEL.g4 for the forms that the definition
leaves open. Kubernetes 1.33 added identifiers in backquotes.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from .grammar import BLOCK_STRING, ESCAPE, LINE_STRING


class OneOf(NamedTuple):
    """One of several tokens."""

    tokens: tuple[str, ...]


class Maybe(NamedTuple):
    """These parts, or nothing."""

    parts: Sequence


class Star(NamedTuple):
    """These parts any number of times."""

    parts: Sequence


class Plus(NamedTuple):
    """These parts once or more often."""

    parts: Sequence


Part: TypeAlias = str | OneOf | Maybe | Star | Plus
Sequence: TypeAlias = tuple[Part, ...]
Rules: TypeAlias = dict[str, tuple[Sequence, ...]]

END: Final = "<EOF>"
FIRST_RULE: Final = "start"

# The messages list tokens in this order. The words come before IDENTIFIER, which matches them too.
FIXED_TOKENS: Final = (
    *("==", "!=", "in", "<", "<=", ">=", ">", "&&", "||"),
    *("[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "+", "*", "/", "%"),
    *("true", "false", "null"),
)
_EXPONENT = r"[eE][+-]?[0-9]+"
_INTEGER = r"(?:0x[0-9a-fA-F]+|[0-9]+)"
_STRING = f"(?:{BLOCK_STRING}|{LINE_STRING})"
_NAMED_TOKENS: Final = {
    "NUM_FLOAT": rf"[0-9]*\.[0-9]+(?:{_EXPONENT})?|[0-9]+{_EXPONENT}",
    "NUM_INT": _INTEGER,
    "NUM_UINT": f"{_INTEGER}[uU]",
    "STRING": _STRING,
    "BYTES": f"[bB]{_STRING}",
    "IDENTIFIER": "[_a-zA-Z][_a-zA-Z0-9]*",
}
_ESCAPED_TOKENS: Final = {"ESC_IDENTIFIER": "`[-_./ a-zA-Z0-9]+`"}
# Skipped between tokens; no rule contains them.
BLANK: Final = r"[\t\n\f\r ]+|//[^\n]*"

# The longest text that starts a token without completing it. A message about such a text ends where these patterns end.
_PART_OF_ESCAPE = r"\\(?:[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-3][0-7]?)?"
_BEGUN = tuple(rf"{quote}(?:{ESCAPE}|[^{quote}\\\n\r])*(?:{_PART_OF_ESCAPE})?" for quote in "\"'")
_BEGUN_ESCAPED = "`[-_./ a-zA-Z0-9]*"


def named_tokens(escaped_selectors: bool) -> dict[str, str]:
    """The tokens without a fixed text, each with its pattern, in the order of the messages."""
    return _NAMED_TOKENS | _ESCAPED_TOKENS if escaped_selectors else _NAMED_TOKENS


def begun(escaped_selectors: bool) -> str:
    """The pattern of a text that begins a token and may be incomplete."""
    return "|".join(("[=&|]", *_BEGUN, *((_BEGUN_ESCAPED,) if escaped_selectors else ())))


def _list_of(*parts: Part) -> tuple[Sequence, ...]:
    return ((*parts, Star((",", *parts))),)


_COMMON: Final[Rules] = {
    FIRST_RULE: (("expr", END),),
    "expr": (("or", Maybe(("?", "or", ":", "expr"))),),
    "or": (("and", Star(("||", "and"))),),
    "and": (("relation", Star(("&&", "relation"))),),
    "relation": (("calc",), ("relation", OneOf(("<", "<=", ">=", ">", "==", "!=", "in")), "relation")),
    "calc": (("unary",), ("calc", OneOf(("*", "/", "%")), "calc"), ("calc", OneOf(("+", "-")), "calc")),
    "unary": (("member",), (Plus(("!",)), "member"), (Plus(("-",)), "member")),
    "arguments": _list_of("expr"),
    "elements": _list_of("element"),
    "element": ((Maybe(("?",)), "expr"),),
    "fields": _list_of("field", ":", "expr"),
    "entries": _list_of("element", ":", "expr"),
    "literal": (
        (Maybe(("-",)), "NUM_INT"),
        ("NUM_UINT",),
        (Maybe(("-",)), "NUM_FLOAT"),
        ("STRING",),
        ("BYTES",),
        ("true",),
        ("false",),
        ("null",),
    ),
}
_CALL: Final[Sequence] = ("(", Maybe(("arguments",)), ")")
_COLLECTIONS: Final[tuple[Sequence, ...]] = (
    ("(", "expr", ")"),
    ("[", Maybe(("elements",)), Maybe((",",)), "]"),
    ("{", Maybe(("entries",)), Maybe((",",)), "}"),
    (Maybe((".",)), "IDENTIFIER", Star((".", "IDENTIFIER")), "{", Maybe(("fields",)), Maybe((",",)), "}"),
    ("literal",),
)


def _member(selector: str) -> tuple[Sequence, ...]:
    return (
        ("primary",),
        ("member", ".", Maybe(("?",)), selector),
        ("member", ".", "IDENTIFIER", *_CALL),
        ("member", "[", Maybe(("?",)), "expr", "]"),
    )


_BEFORE_ESCAPES: Final[Rules] = {
    "member": _member("IDENTIFIER"),
    "primary": ((Maybe((".",)), "IDENTIFIER", Maybe(_CALL)), *_COLLECTIONS),
    "field": ((Maybe(("?",)), "IDENTIFIER"),),
}
_SINCE_ESCAPES: Final[Rules] = {
    "member": _member("selector"),
    "primary": ((Maybe((".",)), "IDENTIFIER"), (Maybe((".",)), "IDENTIFIER", *_CALL), *_COLLECTIONS),
    "field": ((Maybe(("?",)), "selector"),),
    "selector": (("IDENTIFIER",), ("ESC_IDENTIFIER",)),
}


def rules(escaped_selectors: bool) -> Rules:
    """The rules, the first one first. `escaped_selectors`: whether the grammar has identifiers in backquotes."""
    return _COMMON | (_SINCE_ESCAPES if escaped_selectors else _BEFORE_ESCAPES)
