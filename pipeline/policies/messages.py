"""The words of the API server in a denial.

Follows kubernetes/apiserver pkg/admission/plugin/policy/validating/dispatcher.go and pkg/admission/errors.go.
"""

from __future__ import annotations

from ..request import AdmissionRequest, Known
from .verdict import PolicyVerdict

MESSAGE_BYTES_MAX = 5 * 1024
# Before the reason, in a denial whose messageExpression has no result to use.
MESSAGE_FAILED = "messageExpression: "
ANNOTATION_BYTES_MAX = 10 * 1024
# The API server sends errors of expressions at any length, with the value that they name. Hindcast keeps this much of one.
ERROR_CHARACTERS_MAX = 64 * 1024
REASON_INVALID = "Invalid"
CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422, "NotFound": 404}

# The characters for which Go's unicode.IsSpace is true; Python's str.strip() also removes the separators 1C to 1F.
_GO_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


def trimmed(text: str) -> str:
    """strings.TrimSpace of Go."""
    return text.strip(_GO_SPACES)


def usable_message(text: str) -> str:
    """The used form of a messageExpression's result; empty where the API server silently falls back to `message`."""
    message = trimmed(text)
    if "\n" in message or len(message.encode()) > MESSAGE_BYTES_MAX:
        return ""
    return message


def said(result: object, fallback: str, reason: str, *, has_expression: bool) -> tuple[str, str, str]:
    """The message of a denial, its reason, and why a messageExpression has no result to use.

    The server writes the last to its own log alone, so whoever reads the denial sees another text than its author meant.
    """
    message = usable_message(result) if isinstance(result, str) else ""
    why = "" if message or not has_expression else f"{MESSAGE_FAILED}{_unusable(result)}"
    return message or fallback, reason, why


def _unusable(result: object) -> str:
    """Why the server does not use the result of a messageExpression, which is a text or an error."""
    if not isinstance(result, str):
        return kept(getattr(result, "message", "it gives no text"))
    message = trimmed(result)
    if not message:
        return "its result is blank"
    return "its result has a line break" if "\n" in message else f"its result is longer than {MESSAGE_BYTES_MAX:,} bytes"


def kept(text: str) -> str:
    """An error's text, cut if it is too long to keep for each verdict; the end of a cut text says so."""
    if len(text) <= ERROR_CHARACTERS_MAX:
        return text
    return f"{text[:ERROR_CHARACTERS_MAX]}... ({len(text) - ERROR_CHARACTERS_MAX:,} more characters)"


def cut_annotation(value: str) -> str:
    """A value of an audit annotation, cut at 10240 bytes. Each byte of a character that the cut splits prints as U+FFFD."""
    encoded = value.encode()
    if len(encoded) <= ANNOTATION_BYTES_MAX:
        return value
    head = encoded[:ANNOTATION_BYTES_MAX].decode(errors="ignore")
    return head + "\ufffd" * (ANNOTATION_BYTES_MAX - len(head.encode()))


def code_of(reason: str) -> int:
    """The HTTP status of a denial with this reason; an empty reason counts as Invalid."""
    return CODES.get(reason or REASON_INVALID, 422)


def denial_tail(verdict: PolicyVerdict) -> str:
    """The text after `is forbidden: `."""
    binding = f" with binding '{verdict.binding}'" if verdict.binding is not None else ""
    return f"ValidatingAdmissionPolicy '{verdict.policy}'{binding} denied request: {verdict.message}"


def denial_message(request: AdmissionRequest, verdict: PolicyVerdict) -> str:
    """The message of the HTTP error if this verdict is the first denial. The server defines no order between policies."""
    resource = request.resource
    group_resource = f"{resource.resource}.{resource.group}" if resource.group else resource.resource
    return f'{group_resource} "{_name(request)}" is forbidden: {denial_tail(verdict)}'


def _name(request: AdmissionRequest) -> str:
    if isinstance(request.name, Known) and request.name.value:
        return request.name.value
    obj = request.object.value if isinstance(request.object, Known) else None
    metadata = (obj or {}).get("metadata") or {}
    return str(metadata.get("name") or metadata.get("generateName") or "Unknown")
