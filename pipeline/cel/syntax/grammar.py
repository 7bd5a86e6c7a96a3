"""celpy's grammar of CEL, extended to the language that kube-apiserver's parser accepts.

celpy ships the grammar as a file for the lark parser generator. It lacks the optional syntax, trailing commas and identifiers in
backquotes. Its terminals for numbers, strings and `in` accept texts that cel-go's lexer (cel-go parser/gen/CEL.g4) does not. Every
fragment that this file replaces must occur in celpy's grammar exactly once. With another celpy the first expression raises instead
of being parsed differently.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import lark

from .tables import parser_of

ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"""
# In a class that excludes quotes the quote stands first, because lark treats a backslash before a quote as its own escape.
LINE_STRING = rf"""[rR]"[^"\n\r]*"|[rR]'[^'\n\r]*'|"(?:{ESCAPE}|[^"\\\n\r])*"|'(?:{ESCAPE}|[^'\\\n\r])*'"""
BLOCK_STRING = rf'''[rR]"""[\s\S]*?"""|[rR]\'\'\'[\s\S]*?\'\'\'|"""(?:{ESCAPE}|[^\\])*?"""|\'\'\'(?:{ESCAPE}|[^\\])*?\'\'\''''

_REPLACED = (
    (
        "member         : member_dot | member_dot_arg | member_index | member_object | primary",
        "member         : member_dot | member_dot_arg | member_index | member_object | member_optional_dot"
        " | member_optional_index | primary\n"
        'member_optional_dot   : member ".?" (IDENT | QUOTED_IDENT)\n'
        'member_optional_index : member "[?" expr "]"',
    ),
    ('member_dot     : member "." IDENT\n', 'member_dot     : member "." (IDENT | QUOTED_IDENT)\n'),
    (
        'member_object  : member "{" [fieldinits] "}"',
        'member_object  : member "{" [fieldinits] "}" | member "{" "," "}"',
    ),
    (
        'list_lit       : "[" [exprlist] "]"',
        'list_lit       : "[" [element ("," element)* [","]] "]" | "[" "," "]" | "[?" expr ("," element)* [","] "]"\n'
        'element        : expr | "?" expr',
    ),
    ('map_lit        : "{" [mapinits] "}"', 'map_lit        : "{" [mapinits] "}" | "{" "," "}"'),
    (
        'mapinits       : expr ":" expr ("," expr ":" expr)*',
        'mapinits       : map_entry ("," map_entry)* [","]\nmap_entry      : ["?"] expr ":" expr',
    ),
    (
        'fieldinits     : IDENT ":" expr ("," IDENT ":" expr)*',
        'fieldinits     : field_entry ("," field_entry)* [","]\nfield_entry    : ["?"] (IDENT | QUOTED_IDENT) ":" expr',
    ),
    # Signs of one kind may repeat; both kinds do not mix (cel-go parser/gen/CEL.g4, rule unary). A number has its own sign.
    (
        "               | unary_not unary\n               | unary_neg unary",
        "               | unary_not negated\n               | unary_neg negative\n"
        "negated        : member | unary_not negated | unary_neg number\n"
        "number         : INT_LIT | FLOAT_LIT\n"
        "negative       : member | unary_neg negative",
    ),
    # celpy's `in` also matches the first letters of `inside`.
    ('relation_in    : relation "in"', "relation_in    : relation IN\nIN             : /in(?![_a-zA-Z0-9])/"),
    # celpy reads `42.` as a double, so that it would parse `42.charAt(0)` differently from cel-go.
    (
        'FLOAT_LIT      : /-?/ DIGIT+ "." DIGIT* EXPONENT? | /-?/ DIGIT* "." DIGIT+ EXPONENT? | /-?/ DIGIT+ EXPONENT',
        'FLOAT_LIT.2    : /-?/ DIGIT* "." DIGIT+ EXPONENT? | /-?/ DIGIT+ EXPONENT',
    ),
    # An unsigned literal has no sign. A signed literal cannot end before a further digit or a `u`.
    (
        "INT_LIT        : /-?/ /0x/ HEXDIGIT+ | /-?/ DIGIT+",
        "INT_LIT        : /-?0x[0-9a-fA-F]+(?![0-9a-fA-FuU])/ | /-?[0-9]+(?![0-9uUx])/",
    ),
    ("UINT_LIT       : INT_LIT /[uU]/", r"UINT_LIT.2     : /0x[0-9a-fA-F]+[uU]/ | /[0-9]+[uU]/"),
)
# The definitions of these terminals run over several lines; each ends at the next empty line.
_TERMINALS = {
    "STRING_LIT     : ": f"STRING_LIT : /{LINE_STRING}/",
    "MLSTRING_LIT   : ": f"MLSTRING_LIT.2 : /{BLOCK_STRING}/",
    "BYTES_LIT      : ": f"BYTES_LIT.3 : /[bB](?:{BLOCK_STRING}|{LINE_STRING})/",
}
_QUOTED_IDENT = r"QUOTED_IDENT : /`[ \-_a-zA-Z0-9.\/]+`/"

_KEYWORDS = {"true": "BOOL_LIT", "false": "BOOL_LIT", "null": "NULL_LIT", "in": "IN"}


def _only(text: str, fragment: str) -> int:
    """The position of `fragment` in celpy's grammar."""
    if text.count(fragment) != 1:
        raise ImportError(
            f"celpy's grammar has changed: {fragment!r} occurs {text.count(fragment)} times and not once; see {__name__}"
        )
    return text.index(fragment)


def extended_grammar() -> str:
    """celpy's grammar with every replacement applied. Raises ImportError if celpy's text is not the expected one."""
    # Read from celpy's files without importing it: its evaluator and that evaluator's dependencies are not needed here.
    package = find_spec("celpy")
    if package is None or package.origin is None:
        raise ImportError("celpy is not installed; it brings the grammar of CEL")
    text = (Path(package.origin).parent / "cel.lark").read_text(encoding="utf-8")
    for old, new in _REPLACED:
        at = _only(text, old)
        text = text[:at] + new + text[at + len(old) :]
    for head, definition in _TERMINALS.items():
        at = _only(text, head)
        text = text[:at] + definition + text[text.index("\n\n", at) :]
    return f"{text}\n{_QUOTED_IDENT}\n"


def _keyword(token: lark.Token) -> lark.Token:
    """`true`, `false`, `null` and `in` look like identifiers to the lexer, but are not identifiers, not even as field names."""
    kind = _KEYWORDS.get(str(token))
    return token if kind is None else lark.Token.new_borrow_pos(kind, token, token)


def build_parser(builder: object) -> lark.Lark:
    """A parser that calls `builder.RULE(children)` for every rule it completes, tokens included, innermost first."""
    settings = {"start": "expr", "keep_all_tokens": True, "maybe_placeholders": False, "propagate_positions": False}
    return parser_of(extended_grammar(), settings, {"transformer": builder, "lexer_callbacks": {"IDENT": _keyword}})
