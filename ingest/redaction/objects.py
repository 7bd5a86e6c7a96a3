"""Objects that are credentials, anywhere in JSON: whole Secrets inside other objects, and inside texts that are JSON themselves.

Tools that carry manifests to other clusters (Work, ManifestWork, Bundle, ResourceBinding) hold Secrets as they are. So do kubectl's
last-applied-configuration of such objects and the patches of webhooks. References to Secrets, and sealed or external Secrets, hold
no value and stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import msgspec
import re2

from .forms import REDACTED, byte_options

# A Secret inside an object, inside a text in it, and in a text that is YAML.
_EMBEDDED_SIGN = re.compile(
    rb'Secret(?:(?<="Secret)"|List(?<="SecretList)"|(?:List)?\\++"'
    rb"|(?<=kind: Secret)|(?<=kind:  Secret)|(?<=kind: 'Secret)|(?<=kind:'Secret)"
    rb"|(?:(?<=\\tSecret)|(?<![A-Za-z_.-]Secret))(?:List)?+'?+ *+(?:\\[nrt]|[\"#}]))"
)
# No API server writes a letter as an escape; whoever does may hide the word.
_ESCAPED_LETTER = re.compile(rb"\\u00[4-7][0-9a-fA-F]|\\\\x[4-7]")
# RE2 finds the word many times faster than the pattern, not counting the call; few long events have the word.
_secret_word = re2.compile(b"Secret", byte_options())
_LONG_BYTES = 2_500
_VALUES = ("data", "stringData")
# JSON inside the text of JSON, and so on; each level doubles the escapes. A text below that may hold a Secret is removed whole.
_TEXT_DEPTH_MAX = 8
# The line of a YAML document that makes it a Secret, and the same inside braces.
_YAML_KIND = re.compile(
    r"""^([ \t]*+(?:-[ \t]++)*+)["']?kind["']?[ \t]*+:[ \t]++(?:[&!]\S*+[ \t]++)*+["']?Secret["']?[ \t]*+(?:\#.*)?\r?$""",
    re.MULTILINE,
)
# A Secret in braces, a list of Secrets, a key after a question mark, and a letter as an escape.
_YAML_ODD = re.compile(
    r"""[{,][ \t\r\n]*+["']?kind["']?[ \t]*+:[ \t]*+(?:[&!]\S*+[ \t]++)*+["']?Secret(?:List)?["']?[ \t\r\n]*+[,}]"""
    r"""|\bkind["']?[ \t]*+:[ \t]++(?:[&!]\S*+[ \t]++)*+(?:["']?SecretList\b|"[^"\n]*?\\[xu])"""
    r"""|\?[ \t]++(?:[&!]\S*+[ \t]++)*+["']?kind["']?[ \t]*+(?:\#.*)?\r?\n[ \t]*+:"""
)
_YAML_VALUES = re.compile(r"""([ \t]*+(?:-[ \t]++)*+)(["']?(?:data|stringData)["']?[ \t]*+:)(.*)""", re.DOTALL)
_YAML_APPLIED = re.compile(r"""([ \t]*+)(["']?kubectl\.kubernetes\.io/last-applied-configuration["']?[ \t]*+:)""")

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


def resources_of(kind: str) -> tuple[str, ...]:
    """The names that a kind's resource may have, by Kubernetes' rule for plurals; also for a list of that kind."""
    name = kind.removesuffix("List").lower()
    return (f"{name}s", f"{name}es", f"{name[:-1]}ies")


def may_embed_secret(data: bytes) -> bool:
    """Whether JSON bytes may hold a Secret with values; cheap, because most bodies lack the word."""
    if (len(data) < _LONG_BYTES or _secret_word.search(data) is not None) and _EMBEDDED_SIGN.search(data) is not None:
        return True
    # Where the search begins at the first backslash, it takes an eighth of the time.
    first = data.find(b"\\")
    may_escape = first >= 0 and (data.find(b"\\u00", first) >= 0 or data.find(b"\\\\x", first) >= 0)
    return may_escape and _ESCAPED_LETTER.search(data, first) is not None


def clean_embedded(document: bytes) -> bytes:
    """JSON without the values of the Secrets in it; the same object if it has no Secret. Raises ValueError, RecursionError."""
    if not may_embed_secret(document):
        return document
    value = _decoder.decode(document)
    cleaned = _clean(value, _TEXT_DEPTH_MAX)
    return document if cleaned is value else _encoder.encode(cleaned)


def clean_texts(document: bytes, clean: Callable[[str, str], str], within: str = "") -> bytes:
    """JSON with each text replaced by the result of `clean`(its field's name, the text); the same object where nothing changes.

    `within` takes only the texts below fields of that name. Raises ValueError, RecursionError.
    """
    value = _decoder.decode(document)
    cleaned = _map_within(value, within, clean) if within else _map(value, "", clean)
    return document if cleaned == value else _encoder.encode(cleaned)


def _map_within(value: Any, within: str, clean: Callable[[str, str], str]) -> Any:
    if isinstance(value, dict):
        return {
            name: _map(inner, "", clean) if name == within else _map_within(inner, within, clean) for name, inner in value.items()
        }
    return [_map_within(inner, within, clean) for inner in value] if isinstance(value, list) else value


def _map(value: Any, name: str, clean: Callable[[str, str], str]) -> Any:
    if isinstance(value, str):
        return clean(name, value)
    if isinstance(value, dict):
        return {key: _map(inner, key, clean) for key, inner in value.items()}
    return [_map(inner, name, clean) for inner in value] if isinstance(value, list) else value


def _clean(value: Any, depth: int, is_secret: bool = False) -> Any:
    """The value without the values of Secrets; the same object where it holds no Secret. `is_secret`: its list says that it is
    one."""
    if isinstance(value, str):
        return _clean_text(value, depth)
    if isinstance(value, list):
        elements = [_clean(element, depth, is_secret) for element in value]
        return elements if any(new is not old for new, old in zip(elements, value, strict=True)) else value
    if not isinstance(value, dict):
        return value
    kind = value.get("kind")
    is_secret = is_secret or kind == "Secret"
    changed = {}
    for name, inner in value.items():
        if is_secret and name in _VALUES and inner:
            changed[name] = _blank(inner)
        elif (new := _clean(inner, depth, kind == "SecretList" and name == "items")) is not inner:
            changed[name] = new
    return value | changed if changed else value


def _blank(value: Any) -> Any:
    """The names of a Secret's values are not credentials, and policies read them."""
    return dict.fromkeys(value, REDACTED) if isinstance(value, dict) else REDACTED


def _clean_text(text: str, depth: int) -> str:
    if "Secret" not in text and "\\u00" not in text and "\\x" not in text:
        return text
    if not text.lstrip().startswith(("{", "[", '"')):
        return _clean_yaml(text)
    try:
        value = _decoder.decode(text)
    except (ValueError, RecursionError):
        return _clean_yaml(text)
    if not depth:
        return REDACTED if may_embed_secret(text.encode("utf-8", "replace")) else text
    cleaned = _clean(value, depth - 1)
    return text if cleaned is value else _encoder.encode(cleaned).decode()


def clean_manifest(text: str) -> str:
    """A text without the values of the Secrets that it holds as JSON or YAML."""
    return _clean_text(text, _TEXT_DEPTH_MAX)


def _clean_yaml(text: str) -> str:
    """YAML without the values of the Secrets in it; one in an odd form, such as in braces, takes the whole text with it."""
    if _YAML_ODD.search(text) is not None:
        return REDACTED
    kinds = list(_YAML_KIND.finditer(text))
    if not kinds:
        return text
    columns = {len(match[1].expandtabs()) for match in kinds}
    return "".join(_without_values(text.splitlines(keepends=True), columns))


def _without_values(lines: Sequence[str], columns: Collection[int]) -> Iterator[str]:
    """Lines of YAML without the blocks of `data` and `stringData` at the columns where a Secret has its kind.

    The columns may be those of another object in the same text as well. Then its data goes, too.
    """
    hidden: int | None = None  # the column of the block that is left out
    for line in lines:
        stripped = line.strip()
        column = len(line.expandtabs()) - len(line.expandtabs().lstrip())
        if hidden is not None and (not stripped or column > hidden or (column == hidden and stripped.startswith("- "))):
            continue
        hidden = None
        found = _YAML_VALUES.match(line)
        if found is None or len(found[1].expandtabs()) not in columns:
            found = _YAML_APPLIED.match(line)
        if found is not None:
            hidden = len(found[1].expandtabs())
            yield f"{found[1]}{found[2]} {REDACTED}\n"
        else:
            yield line
