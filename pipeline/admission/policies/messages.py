"""The words of the API server: denial, warning and recorded annotations.

Follows kubernetes/apiserver pkg/admission/plugin/policy/validating/dispatcher.go and pkg/admission/errors.go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from ...request import AdmissionRequest, Known
from .model import Action
from .verdict import Decision, PolicyVerdict

MESSAGE_BYTES_MAX = 5 * 1024
# Before the reason, in a denial whose messageExpression has no result to use.
MESSAGE_FAILED = "messageExpression: "
ANNOTATION_BYTES_MAX = 10 * 1024
# The API server sends errors of expressions at any length, with the value that they name. Hindcast keeps this much of one.
ERROR_CHARACTERS_MAX = 64 * 1024
RECORDED_FAILURES_MAX = 50
FAILURE_ANNOTATION = "validation.policy.admission.k8s.io/validation_failure"
ALL_FAILURES_SINCE = (1, 37)  # up to 1.36 each failure writes the key itself, and the first write wins

WARNINGS_RUNES_MAX = 4 * 1024  # of all warnings of one answer; above it each is cut at WARNING_RUNES_MAX
WARNING_RUNES_MAX = 256
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_QUOTED, _ESCAPED = re.compile(r'(["\\])'), r"\\\1"

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


def warning(verdict: PolicyVerdict) -> str:
    """The text of the Warning header."""
    return f"Validation failed for ValidatingAdmissionPolicy '{verdict.policy}' with binding '{verdict.binding}': {verdict.message}"


def warning_headers(verdicts: Iterable[PolicyVerdict]) -> list[str]:
    """The values of the Warning headers that policies send to the client.

    Follows kubernetes/apiserver pkg/endpoints/filters/warning.go. Each text appears once. A text with a control character, such as
    the line break of a long expression, never appears. If all texts together are too long, each is cut.
    """
    texts: list[str] = []
    shown: list[str] = []
    is_cut = False
    for text in dict.fromkeys(map(warning, warnings(verdicts))):
        if is_cut and sum(map(len, shown)) >= WARNINGS_RUNES_MAX:
            break
        texts.append(text)
        shown += _printable([text], is_cut)
        if not is_cut and sum(map(len, shown)) > WARNINGS_RUNES_MAX:
            is_cut = True
            shown = _printable(texts, is_cut)
    return [f'299 - "{_QUOTED.sub(_ESCAPED, text)}"' for text in shown]


def _printable(texts: Iterable[str], is_cut: bool) -> list[str]:
    cut = (text[:WARNING_RUNES_MAX] if is_cut else text for text in texts)
    return [text for text in cut if not _CONTROL.search(text)]


def denials(verdicts: Iterable[PolicyVerdict]) -> Iterator[PolicyVerdict]:
    """The verdicts that reject the request, each with its own message, in the order in which the server finds them.

    Within one evaluation the order is: validations, then audit annotations, whose error stands in the row of the whole.
    """
    last: list[PolicyVerdict] = []
    for verdict in verdicts:
        if verdict.expression_index is None:
            yield from last
            last = [verdict] if _denies(verdict) else []
        elif _denies(verdict):
            yield verdict
    yield from last


def _denies(verdict: PolicyVerdict) -> bool:
    return verdict.rejects and not verdict.is_summary


def warnings(verdicts: Iterable[PolicyVerdict]) -> Iterator[PolicyVerdict]:
    """The verdicts that send the client a warning."""
    return (verdict for verdict in _failures(verdicts) if Action.WARN in verdict.actions)


def audited(verdicts: Iterable[PolicyVerdict]) -> Iterator[PolicyVerdict]:
    """The verdicts that an audit event without a size limit would carry."""
    return (verdict for verdict in _failures(verdicts) if Action.AUDIT in verdict.actions)


def failure_annotation(verdicts: Iterable[PolicyVerdict], version: tuple[int, int]) -> str | None:
    """The value of FAILURE_ANNOTATION that a server of this version records; None if nothing was audited."""
    failures = [
        {
            "message": verdict.message,
            "policy": verdict.policy,
            "binding": verdict.binding,
            "expressionIndex": verdict.expression_index or 0,
            "validationActions": list(verdict.actions),
        }
        for verdict in audited(verdicts)
    ]
    if not failures:
        return None
    count = RECORDED_FAILURES_MAX if version >= ALL_FAILURES_SINCE else 1
    return _go_json(failures[:count])


def policy_annotations(verdicts: Sequence[PolicyVerdict]) -> dict[str, str]:
    """The audit annotations that policies declare, `POLICY/KEY`; distinct values of several bindings and params are joined."""
    values: dict[str, list[str]] = {}
    for verdict in verdicts:
        for key, value in verdict.audit_annotations.items():
            found = values.setdefault(f"{verdict.policy}/{key}", [])
            if value not in found:
                found.append(value)
    return {key: ", ".join(found) for key, found in values.items()}


def _failures(verdicts: Iterable[PolicyVerdict]) -> Iterator[PolicyVerdict]:
    for verdict in verdicts:
        if verdict.effect is Decision.DENY and not verdict.bypasses_actions and not verdict.is_summary:
            yield verdict


def _name(request: AdmissionRequest) -> str:
    if isinstance(request.name, Known) and request.name.value:
        return request.name.value
    obj = request.object.value if isinstance(request.object, Known) else None
    metadata = (obj or {}).get("metadata") or {}
    return str(metadata.get("name") or metadata.get("generateName") or "Unknown")


def _go_json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
